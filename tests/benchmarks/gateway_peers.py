"""Other gateways, started for the same exchanges if they are installed.

`STREAMNORM_PEERS` names the Python interpreters that have them, separated as in PATH; without it
this interpreter is asked.  Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["PEERS", "Peer", "interpreter", "started"]

_START_S = 90.0
_LOOK_S = 0.1


class Peer(NamedTuple):
    """Another gateway to compare with.

    Attributes:
        name: Its name.
        module: The module that its interpreter has.
        config: Its configuration, with `UPSTREAM` for the base URL of all upstreams.  Each model
            is named for the dialect of its upstream.
        launch: Code that serves it; its arguments are the path of the configuration and a port.
    """

    name: str
    module: str
    config: str
    launch: str


# JSON is YAML.
_LITELLM_CONFIG = {
    "model_list": [
        {
            "model_name": "openai_chat",
            "litellm_params": {
                "model": "hosted_vllm/gpt-4.1",
                "api_base": "UPSTREAM/v1",
                "api_key": "none",
            },
        },
        {
            "model_name": "anthropic",
            "litellm_params": {
                "model": "anthropic/claude-sonnet-4-5",
                "api_base": "UPSTREAM",
                "api_key": "none",
            },
        },
    ]
}
_LITELLM = """
import sys
from litellm import run_server
config, port = sys.argv[1:]
run_server(["--config", config, "--host", "127.0.0.1", "--port", port])
"""
_SWITCHYARD_CONFIG = """
schema_version = 1

[llm_clients.openai_chat]
format = "openai_chat"
base_url = "UPSTREAM/v1"

[llm_clients.anthropic]
format = "anthropic_messages"
base_url = "UPSTREAM/v1"

[targets.openai_chat]
id = "gpt-4.1"
llm_client = "openai_chat"

[targets.anthropic]
id = "claude-sonnet-4-5"
llm_client = "anthropic"

[routes.openai_chat]
id = "openai_chat"
type = "passthrough"
target = "openai_chat"

[routes.anthropic]
id = "anthropic"
type = "passthrough"
target = "anthropic"
"""
_SWITCHYARD = """
import sys, time
from switchyard_rust.server import Server
config, port = sys.argv[1:]
server = Server(config, int(port))
while True:
    time.sleep(60)
"""

PEERS = (
    Peer("LiteLLM's proxy", "litellm.proxy", json.dumps(_LITELLM_CONFIG), _LITELLM),
    Peer("Switchyard, in Rust", "switchyard_rust.server", _SWITCHYARD_CONFIG, _SWITCHYARD),
)

# LiteLLM downloads its price list unless told otherwise, and does not start without a key.
_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOG": "ERROR",
}


def interpreter(peer: Peer) -> str | None:
    """Return the Python interpreter that has a gateway installed; None if there is none."""
    named = os.environ.get("STREAMNORM_PEERS", sys.executable)
    for python in named.split(os.pathsep):
        found = f"import importlib.util as u; assert u.find_spec({peer.module!r})"
        if subprocess.run([python, "-c", found], capture_output=True, check=False).returncode == 0:
            return python
    return None


@contextmanager
def started(peer: Peer, python: str, upstream_url: str) -> Iterator[tuple[int, int] | None]:
    """Run a gateway; provide its process id and port, or None if it does not start."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        config.write_text(peer.config.replace("UPSTREAM", upstream_url))
        if peer.module.startswith("litellm"):
            config = config.rename(config.with_suffix(".yaml"))
        environment = {**os.environ, **_ENVIRONMENT}
        environment.pop("PYTHONPATH", None)
        process = subprocess.Popen(
            [python, "-c", peer.launch, str(config), str(port)],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with process:
            try:
                yield (process.pid, port) if _answers(process, port) else None
            finally:
                process.kill()


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Return whether a server accepts connections before it ends or the time is up."""
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(_LOOK_S)
        else:
            return True
    return False
