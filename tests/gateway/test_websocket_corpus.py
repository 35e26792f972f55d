"""Transcripts of WebSockets: what the gateway makes of their creates and of their answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.gateway.calls import scripted
from support.gateway.sockets import connected
from support.http.scripted_upstream import Answered
from support.streams.corpus import needs_corpus

pytestmark = pytest.mark.anyio

# Fields of a create that a request over HTTP has not, or not in this form.
OWN = ("type", "stream_id", "generate", "client_metadata", "stream", "stream_options")


def read(path: Path) -> tuple[list[Any], list[Any]]:
    """Return the messages of the client and of the server."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    said: dict[str, list[Any]] = {"client": [], "server": []}
    for line in lines:
        if line["at"] in said:
            said[line["at"]].append(line["data"])
    return said["client"], said["server"]


@needs_corpus
async def test_rebuilt_transcripts_pass_in_front_of_an_upstream_of_the_dialect() -> None:
    """The request of the vendor is sent, and each of its events comes as it was."""
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "responses-websocket"
    paths = sorted(folder.glob("*.jsonl"))
    rebuilt = [path for path in paths if path.name.startswith(("openai__", "xai__"))]
    assert len(rebuilt) == 24
    for path in rebuilt:
        (create,), events = read(path)
        data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        sse = {"content-type": "text/event-stream"}
        answers = {"/v1/responses": Answered(data.encode(), 200, sse)}
        async with (
            scripted(answers, "openai_responses") as (app, upstream),
            connected(app) as socket,
        ):
            await socket.say(create)
            assert [await socket.next() for _ in events] == events, path.name
        (sent,) = upstream.requests
        body = {name: value for name, value in create.items() if name not in OWN}
        # Of a model that reasons, encrypted content is asked for that nobody stores.
        assert {**sent.json, "include": ()} == {**body, "stream": True, "include": ()}, path.name
