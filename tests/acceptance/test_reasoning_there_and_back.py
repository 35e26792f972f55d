"""Anthropic's reasoning through Chat Completions and back, with its signatures.

A gateway that serves Chat Completions from Anthropic's models gets from its clients what
it sent them; `reasoning_details` must carry all that the API wants back.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from support.streams.corpus import corpus, needs_corpus, payloads, recordings

from streamnorm import (
    BlockStart,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    ReasoningDelta,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    TextDelta,
    ToolCall,
    Transcoder,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm.codec import decoder
from streamnorm.recording import Recording


def decode(body: bytes, server: str | None = None) -> list[Event]:
    reader = decoder("anthropic", server=server)
    return reader.feed(body) + reader.close()


def there_and_back(body: bytes, server: str | None = None) -> bytes:
    there = Transcoder("anthropic", "openai_chat", reasoning="reasoning_details", server=server)
    back = Transcoder("openai_chat", "anthropic")
    written = [back.feed(data) for data in there.feed(body) + there.close()]
    return b"".join(data for parts in [*written, back.close()] for data in parts)


class Told(NamedTuple):
    """What a stream tells, block by block, without what only one dialect has a place for.

    Attributes:
        blocks: The start of each block, what its deltas add up to, and its stop.
    """

    start: MessageStart | None
    blocks: list[list[Event]]
    usage: Usage
    end: MessageStop | None


def told(events: list[Event]) -> Told:
    """Return what a whole stream tells."""
    start, usage, end = None, Usage(), None
    blocks: dict[int, list[Event]] = {}
    for event in events:
        match event:
            case MessageStart(id, model):
                start = MessageStart(id, model)
            case UsageUpdate(usage):
                pass
            case BlockStart(index, block):
                blocks[index] = [BlockStart(index, block)]
            case MessageStop(reason, _, sequence):
                # The calls themselves tell these two apart.
                called = any(is_call(block) for block in blocks.values())
                reason = "tool_use" if called and reason == "end_turn" else reason
                end = MessageStop(reason, None, sequence)
            case Ping() | Opaque():
                pass
            case StreamError():
                raise AssertionError(event)
            case _:
                add(blocks[event.index], event)
    return Told(start, list(blocks.values()), known(usage), end)


def is_call(block: list[Event]) -> bool:
    return isinstance(block[0], BlockStart) and isinstance(block[0].block, ToolCall)


def add(block: list[Event], event: Event) -> None:
    match block[-1], event:
        case (TextDelta(index, text), TextDelta(_, more)):
            block[-1] = TextDelta(index, text + more)
        case (ReasoningDelta(index, text), ReasoningDelta(_, more)):
            block[-1] = ReasoningDelta(index, text + more)
        case (JSONDelta(index, text), JSONDelta(_, more)):
            block[-1] = JSONDelta(index, text + more)
        case (BlockStart(), JSONDelta(_, "{}")):
            pass  # as good as nothing
        case _:
            block.append(event)


def known(usage: Usage) -> Usage:
    return Usage(
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cache_read_tokens or 0,
        usage.cache_write_tokens or 0,
        usage.reasoning_tokens or 0,
    )


def through_chat(events: list[Event]) -> list[Event]:
    """Return what either dialect can carry: chat has no bounds between texts."""
    projected, _ = project(events, "openai_chat", reasoning="reasoning_details")
    return project(projected, "anthropic")[0]


def has_server_tools(events: list[Event]) -> bool:
    return any(
        isinstance(event, BlockStart) and isinstance(event.block, ServerToolCall | ServerToolResult)
        for event in events
    )


def proofs(body: bytes) -> list[str]:
    """Return the signatures of a stream, and its encrypted reasoning, as they are written."""
    parts = [
        part
        for data in payloads(body)
        if not data.startswith("[DONE]")
        for part in (json.loads(data).get(key) or {} for key in ("content_block", "delta"))
        if part.get("type") in ("thinking", "redacted_thinking", "signature_delta")
    ]
    return [part[key] for part in parts for key in ("signature", "data") if part.get(key)]


FAILING = [r for r in recordings("anthropic") if isinstance(decode(r.body)[-1], StreamError)]
PLAIN = [
    recording
    for recording in recordings("anthropic")
    if recording not in FAILING and not has_server_tools(decode(recording.body))
]
# What the vendor itself sends; others send a signature twice, or in the start of its block.
SIGNED = [r for r in PLAIN if r.server == "anthropic" and proofs(r.body)]


@pytest.mark.parametrize("recording", PLAIN, ids=str)
def test_recording_comes_back_through_chat(recording: Recording) -> None:
    events = decode(recording.body, recording.server)
    got = decode(there_and_back(recording.body, recording.server))
    assert told(got) == told(through_chat(events))


@pytest.mark.parametrize("recording", SIGNED, ids=str)
def test_signatures_come_back_byte_for_byte(recording: Recording) -> None:
    assert proofs(there_and_back(recording.body)) == proofs(recording.body)


@pytest.mark.parametrize("recording", FAILING, ids=str)
def test_failure_comes_back_through_chat(recording: Recording) -> None:
    *_, sent = decode(recording.body)
    *_, got = decode(there_and_back(recording.body))
    assert isinstance(sent, StreamError)
    assert isinstance(got, StreamError)
    assert got.message == sent.message


@needs_corpus
def test_real_streams_come_back_through_chat() -> None:
    streams = {stream.name: stream.body for stream in corpus("anthropic")}
    plain = {name: body for name, body in streams.items() if not has_server_tools(decode(body))}
    assert any(proofs(body) for body in plain.values())
    wrong = [
        name
        for name, body in plain.items()
        if told(decode(there_and_back(body))) != told(through_chat(decode(body)))
        or proofs(there_and_back(body)) != proofs(body)
    ]
    assert wrong == []
