"""Runs of pytest on a copy of the project, each forked from a process that has imported pytest."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

import hypothesis  # noqa: F401 - imported once for all forks
import pytest
import trio  # noqa: F401
from covering import Recorder, Selector

__all__ = ["OPTIONS", "Result", "enter", "limit_time", "run_tests"]

# A mutant may loop for ever, or fill a list while it does.
_MAX_MEMORY_BYTES = 4 << 30
_MAX_WAIT_S = 600  # besides its processor time
_PLUGINS = ("anyio.pytest_plugin", "_hypothesis_pytestplugin", "streamnorm.testing.plugin")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", *(f"-p{name}" for name in _PLUGINS))


@dataclass(frozen=True)
class Result:
    """How a run of pytest ended.

    Attributes:
        fails: Whether it ended by anything but success; no tests at all are a success.
        cpu_s: Processor time that it took, in seconds.
        output: The end of what it printed.
    """

    fails: bool
    cpu_s: float
    output: str


def run_tests(
    copy: Path,
    paths: Sequence[str],
    *,
    max_cpu_s: float,
    functions: Iterable[str] | None = None,
    recorded: Path | None = None,
) -> Result:
    """Run the tests of some paths of a copy up to the first failure.

    Args:
        copy: A copy of the project; the package is imported from it.
        paths: Files and folders below the copy.
        max_cpu_s: Processor time after which the run is stopped, and has failed.
        functions: The test functions to run; None for all.
        recorded: The file to store in which of them run which lines; what is imported is kept
            compiled beside its source then.
    """
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if pid == 0:
            plugin = None if functions is None else Selector(functions)
            recorder = None if recorded is None else Recorder(copy, recorded)
            _be_pytest(copy, paths, max_cpu_s, plugin, recorder, output)
        _, status, usage = os.wait4(pid, 0)
        output.seek(0)
        printed = output.read()[-2000:].decode(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        raise RuntimeError(f"pytest was killed from outside, expected its own end: {paths}")
    ends_well = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    return Result(not ends_well, usage.ru_utime + usage.ru_stime, printed)


def _be_pytest(
    copy: Path,
    paths: Sequence[str],
    max_cpu_s: float,
    selector: Selector | None,
    recorder: Recorder | None,
    output: IO[bytes],
) -> NoReturn:
    code = 1
    try:
        enter(copy, output, writes_bytecode=recorder is not None)
        limit_time(max_cpu_s)
        if recorder is not None:
            recorder.start()
        plugins = [each for each in (selector, recorder) if each is not None]
        code = int(pytest.main([*OPTIONS, *paths], plugins))
        if recorder is not None:
            recorder.stop()
        sys.stdout.flush()
    finally:
        os._exit(code)


def enter(copy: Path, output: IO[bytes], *, writes_bytecode: bool) -> None:
    """Make this process one that tests a copy of the project, and prints to a file."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(copy)
    for name in [name for name in os.environ if name.startswith("STREAMNORM_")]:
        del os.environ[name]
    os.environ["PYTHONPATH"] = str(copy)
    os.environ["HYPOTHESIS_PROFILE"] = "quick"
    os.environ["PYTEST_ADDOPTS"] = ""
    # Plugins of other packages take longer to import than most mutants to be killed.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path[0] = str(copy)  # before: the folder of this file
    sys.dont_write_bytecode = not writes_bytecode


def limit_time(max_cpu_s: float) -> None:
    """Bound the time and the memory of this process, as of a mutant that loops or waits."""
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    # At the second of these the signal would be that of a kill from outside.
    resource.setrlimit(resource.RLIMIT_CPU, (int(max_cpu_s) + 1, int(max_cpu_s) + 10))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(max_cpu_s) + _MAX_WAIT_S)
