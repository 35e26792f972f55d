"""A gateway in front of an upstream of the client's own dialect: every byte passes, observed.

All recordings, in chunks of all sizes:

    python -m pytest -m "" tests/acceptance/test_gateway_passing.py
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from acceptance.gateways import Gateways, gateways_to_upstream
from acceptance.transcoding_clients import SDKS
from support.faults.answers import ANSWERS
from support.gateway.upstreams import REQUESTS, Head, Records, StepUpstream, asked
from support.recording.comparison import comparable
from support.streams.corpus import recordings

from streamnorm import (
    Completed,
    Event,
    Failed,
    MessageStop,
    Ping,
    Reasoning,
    StreamError,
    Truncated,
    accumulate,
)
from streamnorm.asgi import ReplayApp
from streamnorm.codec import decoder
from streamnorm.recording import Recording
from streamnorm.recording.format import Playback, WireRequest
from streamnorm.validation import validate

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

STREAMS = recordings(*SDKS)
_MADE_ID = re.compile(r'"call_[0-9a-f]{24}"')
JSON = {"content-type": "application/json"}
dialects = pytest.mark.parametrize("dialect", SDKS)


class Replay:
    """Answers each request with one recording.

    Args:
        recording: The recording.
        rechunk: Its chunks: `recorded`, or their size.
    """

    def __init__(self, recording: Recording, rechunk: Any = "recorded") -> None:
        self.requests: list[WireRequest] = []
        self._playback = recording.playback(rechunk)

    def respond(self, request: WireRequest, /) -> Playback:
        self.requests.append(request)
        return self._playback


@pytest.fixture(scope="module")
def records() -> Records:
    return Records()


@pytest.fixture(scope="module")
async def running(records: Records) -> AsyncIterator[Gateways]:
    async with gateways_to_upstream(observers=(records,)) as known:
        yield known


def size_of(recording: Recording) -> Any:
    """Return the size of chunks to try: not of one byte for a long body."""
    choice = random.Random(str(recording)).randrange(3)  # noqa: S311 - no secret
    return ["recorded", 1 if len(recording.body) < 2000 else 61, 1 << 20][choice]


def events_of(recording: Recording, body: bytes) -> list[Any]:
    """Return what a body says, if it is a stream like a recording."""
    source = decoder(recording.dialect, server=recording.server)
    return without_ids([*source.feed(body), *source.close()])


def without_ids(events: list[Event]) -> list[Any]:
    """Return events without the ids that we give to calls, which are random."""
    text = json.dumps(comparable(events))
    known: list[Any] = json.loads(_MADE_ID.sub('"*"', text))
    return known


def messages_of(body: bytes, dialect: str) -> Any:
    """Return what a stream says."""
    source = decoder(dialect)
    message = accumulate([*source.feed(body), *source.close()])
    thoughts = "".join(block.text for block in message.blocks if isinstance(block, Reasoning))
    calls = [(call.name, call.arguments or "{}") for call in message.tool_calls]
    return message.text, thoughts, calls


def behind_common(content: bytes, body: bytes) -> bytes:
    """Return what is in one body behind all that both begin with."""
    pairs = zip(content, body, strict=False)
    common = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(content), len(body)))
    return content[common:]


async def assert_passes(
    recording: Recording, rechunk: Any, running: Gateways, records: Records
) -> None:
    """Assert that a client of its own dialect gets the bytes of a recording.

    It gets those up to the end of the message.  A failure that they do not show is told behind
    them, or in their place.
    """
    records.ended.clear()
    running.upstream.app = ReplayApp(Replay(recording, rechunk))
    dialect, body, expected = str(recording.dialect), recording.body, recording.expected
    response = await asked(running.urls[dialect], dialect)
    content = response.content
    assert await running.connections_in_use(dialect) == 0
    [call] = records.ended
    if response.status_code != 200:  # no message has begun
        assert [event for event in expected if not isinstance(event, Ping)] == expected[-1:]
        assert "error" in response.json()
    elif body.startswith(content):
        assert events_of(recording, content) == without_ids(expected)
    else:
        assert isinstance(expected[-1], StreamError)
        events = events_of(recording, content)
        assert events[:-1] == without_ids(expected)[:-1]
        assert b"error" in behind_common(content, body)
    stops = [event for event in expected if isinstance(event, MessageStop) and not event.choice]
    match expected[-1]:
        case StreamError("truncated" | "transport"):
            assert isinstance(call.outcome, Truncated)
        case StreamError():
            assert isinstance(call.outcome, Failed)
        case _:
            assert isinstance(call.outcome, Completed)
            assert call.outcome.reason == stops[0].reason


@pytest.mark.parametrize("recording", STREAMS[::4], ids=str)
async def test_recorded_stream_passes_unchanged(
    recording: Recording, running: Gateways, records: Records
) -> None:
    await assert_passes(recording, 7, running, records)


@pytest.mark.slow
@pytest.mark.parametrize("recording", STREAMS, ids=str)
async def test_recorded_stream_passes_unchanged_in_any_chunks(
    recording: Recording, running: Gateways, records: Records
) -> None:
    await assert_passes(recording, size_of(recording), running, records)


@dialects
async def test_request_passes_unchanged(
    dialect: str, running: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.upstream, "strict", False)  # of a field that no vendor knows
    body = {**REQUESTS[dialect].body, "brand_new": {"a": [1.50, 2]}}
    content = json.dumps(body, indent=3).replace("1.5", "1.50").replace("Hello", "H\\u0065llo")
    upstream = Replay(next(known for known in STREAMS if known.dialect == dialect))
    running.upstream.app = ReplayApp(upstream)
    async with httpx.AsyncClient(headers=JSON) as http:
        url = running.urls[dialect] + REQUESTS[dialect].path
        response = await http.post(url, content=content)
    assert response.status_code == 200
    [received] = upstream.requests
    assert received.body == content.encode()


@dialects
async def test_whole_answer_passes_unchanged(
    dialect: str, running: Gateways, records: Records
) -> None:
    records.ended.clear()
    value = {**json.loads(ANSWERS[dialect].whole), "brand_new": [1.5]}
    body = json.dumps(value, indent=3).encode() + b"\n"
    running.upstream.app = StepUpstream([Head(200, JSON), body])
    path, request = REQUESTS[dialect]
    path = path.replace("streamGenerateContent?alt=sse", "generateContent")
    async with httpx.AsyncClient() as http:
        url = running.urls[dialect] + path
        form = {} if dialect == "gemini" else {"stream": False}  # Gemini's path says it
        response = await http.post(url, json={**request, **form})
    assert response.content == body
    [call] = records.ended
    assert isinstance(call.outcome, Completed)
    assert call.outcome.reason == "tool_use"


@dialects
async def test_normalized_request_that_nothing_refuses_says_the_same(
    dialect: str, normalizing: Gateways
) -> None:
    content = json.dumps(REQUESTS[dialect].body, indent=3)
    upstream = Replay(next(known for known in STREAMS if known.dialect == dialect))
    normalizing.upstream.app = ReplayApp(upstream)
    async with httpx.AsyncClient(headers=JSON) as http:
        url = normalizing.urls[dialect] + REQUESTS[dialect].path
        response = await http.post(url, content=content)
    assert response.status_code == 200
    [received] = upstream.requests
    assert json.loads(received.body or b"") == json.loads(content)


@dialects
async def test_normalized_stream_is_written_anew(dialect: str, normalizing: Gateways) -> None:
    body = (
        ANSWERS[dialect]
        .body.replace(b'data: {"', b'data: {  "')
        .replace(b"\n\n", b"\n: comment\n\n")
    )
    normalizing.upstream.app = StepUpstream([body])
    response = await asked(normalizing.urls[dialect], dialect)
    assert b"  " not in response.content
    assert b"comment" not in response.content
    assert validate(response.content, dialect) == []
    assert messages_of(response.content, dialect) == messages_of(body, dialect)


@pytest.mark.slow
@pytest.mark.parametrize("recording", STREAMS[::3], ids=str)
async def test_normalized_recording_says_the_same(
    recording: Recording, normalizing: Gateways
) -> None:
    normalizing.upstream.app = ReplayApp(Replay(recording, 7))
    dialect = str(recording.dialect)
    response = await asked(normalizing.urls[dialect], dialect)
    if isinstance(recording.expected[-1], StreamError):
        is_error = response.status_code != 200
        last = None if is_error else events_of(recording, response.content)[-1]
        assert is_error or last["event"] == "stream_error"
    else:
        assert messages_of(response.content, dialect) == messages_of(recording.body, dialect)
