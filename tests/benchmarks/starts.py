"""CPU time of a new process until its first event: import and first transcoder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from timing import Figure

import streamnorm

__all__ = ["report"]

_LAUNCHES = 40

_TIMED = """
{before}
import time
start = time.process_time()
{timed}
print(time.process_time() - start)
"""

# Name, code that runs before the clock starts, code that is timed, and bar in milliseconds.
_STARTS = (
    ("import streamnorm", "", "import streamnorm", 10.0),
    (
        "first Transcoder",
        "import msgspec.json",
        "import streamnorm; streamnorm.Transcoder('openai_chat', 'anthropic')",
        40.0,
    ),
)


def report(rounds: int) -> list[Figure]:
    """Print and return the CPU time of a start in ms, each in a new interpreter."""
    del rounds  # a launch is short; of a few, all may be slow
    best = dict.fromkeys((name for name, *_ in _STARTS), float("inf"))
    for _ in range(_LAUNCHES):
        for name, before, timed, _bar in _STARTS:
            best[name] = min(best[name], _launch_ms(_TIMED.format(before=before, timed=timed)))
    print("\nms of CPU in a new interpreter")
    figures: list[Figure] = []
    for name, _, _, bar in _STARTS:
        figure = Figure(f"ms, {name}", best[name], bar)
        print(f"{name:34}{figure.value:8.1f}{figure.mark} (bar {bar:.0f})")
        figures.append(figure)
    return figures


def _launch_ms(code: str) -> float:
    # The package under test, even if another version is installed.
    environment = {**os.environ, "PYTHONPATH": str(Path(streamnorm.__file__).parent.parent)}
    # As installed: compiled once, here by the first launch.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return float(done.stdout) * 1000
