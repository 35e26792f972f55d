"""Fuzz the package: search for bytes that break a law.

    python tests/fuzz/run.py [TARGET …] [--minutes 20] [--seed N]
    python tests/fuzz/run.py TARGET --input FILE

A target is a module of this folder: its `check` raises if bytes break a law that its docstring
states.  The targets share the minutes, one after the other.  Where `atheris` is installed, inputs
are changed until they reach code that none has reached; without it they are random bytes and
damaged samples.  The targets of the second kind draw from a seed and gain nothing from coverage.

An input that takes too much processor time or memory is a find, too.  The first find at a line is
printed with its seed, and its bytes are saved in the current folder; the exit status is 1.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator, MutableSequence
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol, TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.draws import Draws
from support.streams.mutations import damaged

try:
    import atheris
except ModuleNotFoundError:
    atheris = None

_GUIDED = ("framings", "streams", "bodies", "recordings", "gateway_requests")
_SEEDED = ("delta_runs", "eventstreams", "tool_calls", "gateway")
TARGETS = (*_GUIDED, *_SEEDED)

Counts: TypeAlias = MutableSequence[int]
"""Numbers of inputs and finds, in memory that the process of a search shares."""

# Many times what the largest sample needs.
_MAX_CPU_S = 20.0
_MAX_MEMORY_BYTES = 4 << 30
_DAMAGE_BYTES = 64
_FIRST_INPUTS = 32  # of a target without samples


class Target(Protocol):
    """A module with a law.

    Attributes:
        MAX_BYTES: Size of the largest input.
    """

    MAX_BYTES: int

    def samples(self) -> list[bytes]:
        """Return inputs to begin with; [] if any bytes will do."""
        ...

    def check(self, data: bytes) -> None:
        """Raise if the bytes break the law."""
        ...


class _TooSlow(BaseException):
    """An input took more processor time than it may; nothing of the package catches this."""


class _Judge:
    """Checks inputs of a target; prints and saves the first find at each line."""

    def __init__(self, name: str, target: Target, counts: Counts) -> None:
        self._counts = counts
        self._name = name
        self._target = target
        self._lines: set[tuple[str, str]] = set()

    def check(self, data: bytes, seed: int) -> None:
        """Check one input."""
        self._counts[0] += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, _MAX_CPU_S)
        try:
            self._target.check(data)
        except (Exception, _TooSlow) as exc:  # noqa: BLE001 - any is a find
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            self._counts[1] += 1
            self._print(exc, data, seed)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _print(self, exc: BaseException, data: bytes, seed: int) -> None:
        frame = traceback.extract_tb(exc.__traceback__)[-1]
        line = f"{Path(frame.filename).name}:{frame.lineno}"
        if (type(exc).__name__, line) in self._lines:
            return
        self._lines.add((type(exc).__name__, line))
        file = Path(f"fuzz-{self._name}-{len(self._lines)}-{seed}.bin")
        file.write_bytes(data)
        what = f"{type(exc).__name__} at {line}: {str(exc)[:300]}"
        print(f"{self._name}: seed {seed}, saved in {file}: {what}", flush=True)


def _random_inputs(target: Target, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield inputs without end, each with a seed that yields it first."""
    samples = target.samples()
    while True:
        rng = random.Random(seed)  # noqa: S311 - no secret
        if samples:
            yield seed, damaged(Draws(rng.randbytes(_DAMAGE_BYTES)), rng.choice(samples))
        else:
            yield seed, rng.randbytes(target.MAX_BYTES)
        seed += 1


def _search(judge: _Judge, target: Target, end: float, seed: int) -> None:
    for number, data in _random_inputs(target, seed):
        judge.check(data, number)
        if time.monotonic() > end:
            return


def _search_guided(judge: _Judge, target: Target, end: float, seed: int) -> None:
    """Search with libFuzzer, which ends the process."""
    with tempfile.TemporaryDirectory() as corpus:
        inputs: Iterable[bytes] = target.samples()
        if not inputs:
            drawn = _random_inputs(target, seed)
            inputs = [next(drawn)[1] for _ in range(_FIRST_INPUTS)]
        for number, data in enumerate(inputs):
            Path(corpus, str(number)).write_bytes(data)
        options = (
            *(
                f"-max_total_time={max(1, int(end - time.monotonic()))}",
                f"-max_len={target.MAX_BYTES}",
            ),
            *(f"-seed={seed % 2**31 or 1}", f"-artifact_prefix={corpus}/", "-rss_limit_mb=0"),
            *("-verbosity=0", "-reload=0"),
        )
        atheris.Setup([__file__, *options, corpus], lambda data: judge.check(data, seed))
        atheris.Fuzz()


def _in_bounds(name: str, counts: Counts, end: float, seed: int) -> int:
    """Search until a time in a process with bounded memory; return its exit status."""
    with tempfile.TemporaryFile() as log:
        pid = os.fork()
        if pid == 0:
            # libFuzzer prints each input that reaches more.
            if _is_guided(name):
                os.dup2(log.fileno(), 2)
            _be_search(name, counts, end, seed)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            log.seek(0)
            print(log.read()[-4000:].decode(errors="replace"), flush=True)
    return code


def _be_search(name: str, counts: Counts, end: float, seed: int) -> NoReturn:
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
        signal.signal(signal.SIGVTALRM, _stop)
        target = _load(name)
        search = _search_guided if _is_guided(name) else _search
        try:
            search(_Judge(name, target, counts), target, end, seed)
        finally:
            # Of the targets that run servers.
            getattr(target, "close", lambda: None)()
        code = 0
    except BaseException:  # noqa: BLE001 - a process that was forked ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _TooSlow(f"more than {_MAX_CPU_S} s of processor time")


def _load(name: str) -> Target:
    """Import a target, instrumented if coverage leads its search."""
    if not _is_guided(name):
        return importlib.import_module(name)  # type: ignore[return-value]
    with atheris.instrument_imports(include=["streamnorm"]):
        target: Target = importlib.import_module(name)  # type: ignore[assignment]
        # Much is imported where it is first used.
        samples = target.samples()
        for sample in samples[:: len(samples) // _FIRST_INPUTS + 1]:
            target.check(sample)
    return target


def _is_guided(name: str) -> bool:
    return atheris is not None and name in _GUIDED


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=20, help="of all targets (default 20)")
    parser.add_argument("--seed", type=int, help="the first one (default: a new one each time)")
    parser.add_argument("--input", type=Path, help="check these bytes alone")
    options = parser.parse_args()
    if unknown := {*options.targets} - {*TARGETS}:
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(TARGETS)}")
    names = options.targets or [*TARGETS]
    if options.input is not None:
        if len(names) != 1:
            parser.error(f"--input of {len(names)} targets, expected one")
        _load(names[0]).check(options.input.read_bytes())
        print(f"{names[0]}: {options.input} breaks no law")
        return 0
    seed = options.seed
    if seed is None:
        seed = random.SystemRandom().randrange(2**31)
    end = time.monotonic() + 60 * options.minutes
    ends_well = True
    for number, name in enumerate(names):
        begin = time.monotonic()
        counts: Counts = multiprocessing.RawArray("Q", 2)
        code = _in_bounds(name, counts, begin + (end - begin) / (len(names) - number), seed)
        tried, finds = counts
        how = "led by coverage" if _is_guided(name) else "at random"
        seconds = time.monotonic() - begin
        print(f"{name}: {tried:,} inputs {how} in {seconds:.0f} s, {finds} finds", flush=True)
        if code:
            print(f"{name}: the search ended with status {code}", flush=True)
        ends_well &= not finds and not code
    return not ends_well


if __name__ == "__main__":
    raise SystemExit(main())
