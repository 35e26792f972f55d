"""Events of streams that are too large for the event loop."""

from __future__ import annotations

import json
import threading

import pytest
from support.bodies.large import stream_of
from support.gateway.servers import served_gateway
from support.gateway.upstreams import ABORT, Head, Records, Step, StepUpstream, asked
from support.streams.content import DIALECTS

from streamnorm import (
    Completed,
    Failed,
    JSONDelta,
    Message,
    Outcome,
    Text,
    TextDelta,
    ToolCall,
    accumulate,
)
from streamnorm.aio.pump import LargeEventPump
from streamnorm.codec import decoder
from streamnorm.gateway.receiving import LARGE_BYTES

pytestmark = pytest.mark.anyio

_READ_BYTES = 64 * 1024
TEXT = "a line of code \N{SNOWMAN}\n" * 40_000
ARGUMENTS = json.dumps({"a": TEXT})


def steps(body: bytes) -> list[Step]:
    cuts = range(0, len(body), _READ_BYTES)
    return [Head(), *(body[start : start + _READ_BYTES] for start in cuts)]


async def answered(
    body: list[Step], source: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Outcome | None, Message, set[bool]]:
    """Return how the client's answer ends, its message, and whether the loop read ahead."""
    threads: set[bool] = set()
    feed_ahead = LargeEventPump.feed_ahead

    def recorded(pump: LargeEventPump, data: bytes) -> None:
        threads.add(threading.current_thread() is threading.main_thread())
        feed_ahead(pump, data)

    monkeypatch.setattr(LargeEventPump, "feed_ahead", recorded)
    records = Records()
    async with served_gateway(StepUpstream(body), source, observers=(records,)) as gateway:
        response = await asked(gateway.url, client)
    assert response.status_code == 200
    reader = decoder(client)
    events = [*reader.feed(response.content), *reader.close()]
    [call] = records.ended
    assert isinstance(call.outcome, Completed) == isinstance(reader.outcome, Completed)
    return reader.outcome, accumulate(events), threads


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
async def test_large_event_is_worked_on_beside_the_loop(
    source: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = stream_of(source, Text(), TextDelta(0, TEXT))
    assert len(body) > LARGE_BYTES
    outcome, message, threads = await answered(steps(body), source, client, monkeypatch)
    assert isinstance(outcome, Completed)
    assert message.text == TEXT
    assert threads == {False}


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
async def test_arguments_of_many_events_that_are_written_as_one_are_whole(
    source: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [ARGUMENTS[start : start + 5000] for start in range(0, len(ARGUMENTS), 5000)]
    deltas = [JSONDelta(0, part) for part in parts]
    body = stream_of(source, ToolCall("c", "f"), *deltas)
    outcome, message, _ = await answered(steps(body), source, client, monkeypatch)
    assert isinstance(outcome, Completed)
    [call] = message.tool_calls
    assert json.loads(call.arguments) == {"a": TEXT}


@pytest.mark.parametrize("client", DIALECTS)
async def test_stream_cut_behind_large_events_is_truncated(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = stream_of("openai_chat", Text(), TextDelta(0, TEXT), TextDelta(0, TEXT))
    cut = body[: body.index(b'"finish_reason":"stop"')]
    for end in ([], [ABORT]):
        sent = [*steps(cut), 0.05, *end]
        outcome, message, threads = await answered(sent, "openai_chat", client, monkeypatch)
        assert isinstance(outcome, Failed)  # the gateway says so
        assert message.text == TEXT * 2
        assert threads == {False}


async def test_large_event_that_is_no_json_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    body = stream_of("openai_chat", Text(), TextDelta(0, "Hi"), TextDelta(0, TEXT))
    broken = body.replace(b"line of code", b'line of " code')
    outcome, message, threads = await answered(
        steps(broken), "openai_chat", "anthropic", monkeypatch
    )
    assert isinstance(outcome, Failed)
    assert message.text == "Hi"
    assert threads == {False}
