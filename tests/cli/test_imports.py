"""What `streamnorm serve` imports, and which files it opens, while it answers requests: none."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.cli.servers import provider
from support.gateway.calls import POSTS
from support.gateway.limited_processes import limited_gateway

from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of users")

DIALECTS = list(POSTS)
# After the signal, each import and each opened file is a line on stderr.
WATCH = """
import signal, sys
watched = []
signal.signal(signal.SIGUSR1, lambda *_: watched.append(1))
def watch(event, arguments):
    if watched and event in ("import", "open"):
        print("streamnorm-test:", event, arguments[0], file=sys.stderr, flush=True)
sys.addaudithook(watch)
pass"""


def asked(client: httpx.Client, dialect: str, upstream: str, *, stream: bool) -> int:
    """Return the status of the answer to a request for a message."""
    path, body = POSTS[dialect]
    sent: dict[str, Any] = {**body, "model": f"to-{upstream}"}
    if dialect == "gemini":
        path = path.replace("/m:", f"/to-{upstream}:")
        path = path.replace(":generate", ":streamGenerate") if stream else path
    elif dialect == "bedrock_converse":
        path = path.replace("/m/", f"/to-{upstream}/")
        sent, path = dict(body), path + "-stream" * stream
    else:
        sent["stream"] = stream
    return client.post(path, json=sent).status_code


@pytest.mark.parametrize("state", ["memory:", "sqlite:{directory}/state.db"])
def test_nothing_is_imported_and_no_file_opened_for_a_request(state: str, tmp_path: Path) -> None:
    config = f'state = "{state.format(directory=tmp_path)}"\n'
    with provider(FakeProvider(["It snows."] * 99).app()) as url:
        for name in DIALECTS:
            version = "/v1" if name.startswith("openai") else ""
            config += f'[upstreams.{name}]\ndialect = "{name}"\nbase_url = "{url}{version}"\n'
            config += f'[[models]]\nmatch = "to-{name}"\nto = ["{name}"]\n'
        with limited_gateway(tmp_path, config, before=WATCH) as server:
            base_url = f"http://127.0.0.1:{server.port}"
            with httpx.Client(base_url=base_url, trust_env=False, timeout=30) as client:
                assert client.get("/healthz").status_code == 200
                server.process.send_signal(signal.SIGUSR1)
                for dialect in DIALECTS:
                    for upstream in DIALECTS:
                        assert asked(client, dialect, upstream, stream=False) == 200
                        assert asked(client, dialect, upstream, stream=True) == 200
                assert client.post(POSTS["anthropic"][0], content=b"{").status_code == 400
                assert client.get("/v1/models").status_code == 200
                assert client.get("/metrics").status_code == 200
                assert client.get("/nowhere").status_code == 404
            said = server.errors.read_text().splitlines()
    watched = [line for line in said if line.startswith("streamnorm-test:")]
    assert [line for line in watched if str(tmp_path) not in line] == []  # the store has a file
