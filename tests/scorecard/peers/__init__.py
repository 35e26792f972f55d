"""Other converters, asked to convert the streams of the scorecard, each in its own process.

`STREAMNORM_PEERS` names the Python interpreters that have them, separated as in PATH, and
`STREAMNORM_PEERS_NODE` a folder whose `node_modules` has `@musistudio/llms`.  Nothing is
downloaded.  Each script `drive_*` runs in the interpreter of its peer, and says in its first
lines what it calls there; all of them ask one upstream on the loopback, so that each peer reads
HTTP as it does for its users.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .client_requests import client_request
from .peer import Outcome, Peer, RequestOutcome
from .upstream import open_upstream

__all__ = ["Outcome", "Peer", "RequestOutcome", "client_request", "find_peers", "open_upstream"]

_SCRIPTS = Path(__file__).parent
# Name, module and script.
_PYTHON = (
    ("LiteLLM", "litellm.proxy", "drive_litellm.py"),
    ("any-llm", "any_llm", "drive_any_llm.py"),
    ("llm-rosetta", "llm_rosetta", "drive_llm_rosetta.py"),
    ("rosetta-llm", "rosetta", "drive_rosetta_llm.py"),
    ("Switchyard", "switchyard_rust", "drive_switchyard.py"),
)
_NODE = ("@musistudio/llms", "drive_musistudio.mjs")


def find_peers() -> list[Peer]:
    """Return the peers that are installed, none of them started yet."""
    pythons = [path for path in os.environ.get("STREAMNORM_PEERS", "").split(os.pathsep) if path]
    peers = []
    for name, module, script in _PYTHON:
        python = next((path for path in pythons if _has(path, module)), None)
        if python is not None:
            peers.append(Peer(name, (python, str(_SCRIPTS / script))))
    name, script = _NODE
    folder, node = os.environ.get("STREAMNORM_PEERS_NODE"), shutil.which("node")
    if folder and node and (Path(folder) / "node_modules" / name).is_dir():
        peers.append(Peer(name, (node, str(_SCRIPTS / script))))
    return peers


def _has(python: str, module: str) -> bool:
    """Return whether an interpreter has a module; a parent that is missing is none."""
    package = module.partition(".")[0]
    code = (
        f"import importlib.util as u; assert u.find_spec({package!r}) and u.find_spec({module!r})"
    )
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
