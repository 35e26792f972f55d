"""A peer of the scorecard in its own process: its streams, refusals, exceptions and crashes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scorecard import peers
from scorecard.cases import Call, Case, Expected

_SCRIPT = f"""
import asyncio, json, os, sys, urllib.request
sys.path.insert(0, {str(Path(peers.__file__).parent)!r})
from driver import run

async def ask(job):
    print("noise of the peer")
    tool = job.request["tools"][0]["name"]
    if tool == "raises":
        raise ValueError("wrong")
    if tool == "crashes":
        os._exit(3)
    if tool == "refuses":
        return 400, b"no such tool"
    body = json.dumps({{**job.request, "for": job.model}}).encode()
    asked = urllib.request.Request(sys.argv[1] + "/v1/messages", body, {{"X-API-Key": "none"}})
    answer = await asyncio.to_thread(urllib.request.urlopen, asked)
    return 200, answer.read()

run("1.2", [("openai_chat", "anthropic")], ask)
"""


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[peers.Peer]:
    """A peer that passes on the upstream's stream, if its client has the tool `passes`."""
    script = tmp_path / "drive.py"
    script.write_text(_SCRIPT)
    with peers.Peer("fake", (sys.executable, str(script))) as peer:
        yield peer


def case(tool: str) -> Case:
    expected = Expected(calls=(Call("call_a", tool, {}),))
    return Case(tool, "anthropic", (b"data: 1\n\n", b"data: 2\n\n"), expected, "")


def test_peer_answers_stream_by_stream_and_starts_again_after_a_crash(peer: peers.Peer) -> None:
    cases = [case(tool) for tool in ("passes", "raises", "crashes", "refuses", "passes")]
    assert [outcome[1:] for outcome in peer.run(cases, "anthropic")] == [
        (b"data: 1\n\ndata: 2\n\n", None),
        (b"", "ValueError: wrong"),
        (b"", "the process ended with code 3"),
        (b"", "HTTP 400: no such tool"),
        (b"data: 1\n\ndata: 2\n\n", None),
    ]
    assert (peer.version, peer.converts("openai_chat", "anthropic")) == ("1.2", True)
    assert not peer.converts("anthropic", "openai_chat")


def test_peer_shows_the_request_that_it_sent_upstream(peer: peers.Peer) -> None:
    sent = {"model": "m", "tools": [{"name": "passes"}]}
    refused = {"model": "m", "tools": [{"name": "refuses"}]}
    requests = [("anthropic", sent), ("anthropic", refused)]
    asked, refused_by_peer = peer.run_requests(requests, "openai_chat")
    assert (asked.path, asked.error) == ("/v1/messages", None)
    assert asked.body == {**sent, "stream": True, "for": "m"}
    assert asked.headers["x-api-key"] == "none"
    assert refused_by_peer == (None, None, {}, "HTTP 400: no such tool")


def test_peer_that_does_not_start_says_why(tmp_path: Path) -> None:
    script = tmp_path / "drive.py"
    script.write_text("import no_such_package")
    with (
        peers.Peer("fake", (sys.executable, str(script))) as peer,
        pytest.raises(RuntimeError, match=r"fake does not start: .*'no_such_package'"),
    ):
        assert peer.version
