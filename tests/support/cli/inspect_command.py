"""Runs of `streamnorm inspect` in the project's root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.openai_chat.chunks import DONE, chunk

__all__ = ["ATTACK", "COMMAND", "END", "ESCAPED", "ROOT", "page", "run", "write_timed"]

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "streamnorm", "inspect"]
END = chunk({}, "stop") + DONE

# As a hostile server might send it: clear the screen, set the title, turn the text around.
ATTACK = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2028\r"
ESCAPED = r"\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2028\r"


def run(
    *arguments: str | Path, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in the project's root."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **variables},
        input=stdin,
        capture_output=True,
        timeout=30,
    )


def page(*arguments: str | Path, stdin: bytes = b"") -> list[str]:
    """Return the output lines of a successful run."""
    done = run(*arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def write_timed(folder: Path, *reads: tuple[int, bytes], size: int = 0) -> Path:
    """Write a recording with its reads."""
    (folder / "a.sse").write_bytes(b"".join(data for _, data in reads))
    chunks = [f"+{gap_ms} {len(data) + size}" for gap_ms, data in reads]
    companion = {"streamnorm_recording": 1, "dialect": "openai_chat", "chunks": chunks}
    (folder / "a.json").write_text(json.dumps(companion))
    return folder / "a.sse"
