"""CPU time of runs, common runs, and figures with their bars."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

import streamnorm

__all__ = ["Figure", "Run", "decode", "decode_json", "fastest", "seconds", "transcode"]

Run = Callable[[], object]
K = TypeVar("K", bound=Hashable)


class Figure(NamedTuple):
    """A measured value with its bar.

    Attributes:
        name: Name of the measurement.
        value: Its result.
        bar: Largest result that is accepted.
    """

    name: str
    value: float
    bar: float

    @property
    def is_over(self) -> bool:
        """Whether the value is over its bar."""
        return self.value > self.bar

    @property
    def mark(self) -> str:
        """Suffix of the printed value: `!` if it is over its bar."""
        return "!" if self.is_over else " "


def seconds(run: Run) -> float:
    """Return the CPU seconds of a run, without garbage collection."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    run()
    taken = time.process_time() - start
    gc.enable()
    return taken


def fastest(runs: dict[K, Run], rounds: int) -> dict[K, float]:
    """Return the CPU seconds of each run's fastest round; rounds are interleaved."""
    best = dict.fromkeys(runs, float("inf"))
    gc.collect()
    gc.freeze()  # so that no collection traverses the workloads
    for number in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}\r", end="", file=sys.stderr)
    gc.unfreeze()
    return best


def decode_json(payloads: Iterable[bytes]) -> Run:
    """Decode payloads as untyped JSON, the minimum work of any decoder."""
    known = list(payloads)

    def run() -> None:
        decode = msgspec.json.decode
        for payload in known:
            decode(payload)

    return run


def decode(reads: list[bytes], dialect: str, *, completes: bool = True) -> Run:
    """Decode reads to events, and assert the outcome if `completes`."""

    def run() -> None:
        decoder = streamnorm.codec.decoder(dialect)
        for read in reads:
            for _ in decoder.feed(read):
                pass
        decoder.close()
        assert not completes or isinstance(decoder.outcome, streamnorm.Completed)

    return run


def transcode(
    reads: list[bytes], source: str, target: str, *, verbatim: bool = False, completes: bool = True
) -> Run:
    """Transcode reads to `target`, and assert the outcome if `completes`."""

    def run() -> None:
        transcoder = streamnorm.Transcoder(source, target, verbatim=verbatim)
        for read in reads:
            transcoder.feed(read)
        transcoder.close()
        assert not completes or isinstance(transcoder.outcome, streamnorm.Completed)

    return run
