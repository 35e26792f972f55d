"""What Google's client makes of our written interactions is what we make of them.

The client only types the events; they are added up here, as its documentation does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest
from google import genai
from google.genai import types
from support.streams.corpus import recordings

from streamnorm import (
    Completed,
    Message,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    accumulate,
)
from streamnorm.codec import decoder
from streamnorm.recording import Recording

# The client no longer knows the events of the revision before.
INTERACTIONS = [r for r in recordings("gemini_interactions") if r.name != "google/contents"]
each_interaction = pytest.mark.parametrize("recording", INTERACTIONS, ids=str)

UNKNOWN = {"google/agent-over-its-budget": 3}
"""How many steps, deltas and events no client knows, on purpose."""


class Client:
    """The official client; every request is answered with one stream."""

    def __init__(self) -> None:
        self._body = b""
        options = types.HttpOptions(
            base_url="http://model.test",
            client_args={"transport": httpx.MockTransport(self._answer)},
        )
        self._client = genai.Client(api_key="-", http_options=options)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path.endswith("/interactions")
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=self._body)

    def read(self, body: bytes) -> list[Any]:
        """Return the events that the client tells of a stream."""
        self._body = body
        asked: Any = {"model": "gemini-3-flash-preview", "input": "Hi", "stream": True}
        return list(self._client.interactions.create(**asked))


@cache
def client() -> Client:
    """Return the one client of all tests."""
    return Client()


def read(body: bytes) -> list[Any]:
    return client().read(body)


def unknown(events: list[Any]) -> int:
    parts = [
        [event, getattr(event, "step", None), getattr(event, "delta", None)] for event in events
    ]
    return sum(any(getattr(part, "is_unknown", False) for part in each) for each in parts)


def said(events: list[Any]) -> dict[str, Any]:
    """Return what the client was told."""
    text, thoughts = "", ""
    arguments: dict[int, str] = {}
    signatures: list[str] = []
    calls: dict[int, tuple[str, str]] = {}
    results: list[str] = []
    for event in events:
        step: Any = getattr(event, "step", None)
        delta: Any = getattr(event, "delta", None)
        kind = getattr(step or delta, "type", None)
        if step is not None and kind == "function_call":
            calls[event.index], arguments[event.index] = (step.id, step.name), ""
        elif step is not None and kind == "thought":
            thoughts += "".join([summary.text for summary in step.summary or ()])
        elif step is not None and str(kind).endswith("_result"):
            results.append(step.call_id)
        elif kind == "text":
            text += delta.text
        elif kind == "thought_summary" and delta.content.type == "text":
            thoughts += delta.content.text
        elif kind == "thought_signature":
            signatures.append(delta.signature)
        elif kind == "arguments_delta":
            arguments[event.index] += delta.arguments
    usage = [e.interaction.usage for e in events if e.event_type == "interaction.completed"]
    counts = usage[-1] if usage and usage[-1] is not None else None
    return {
        "text": text,
        "thoughts": thoughts,
        "signatures": signatures,
        "calls": [(*calls[number], text or "{}") for number, text in sorted(arguments.items())],
        "results": results,
        "total": counts and counts.total_tokens,
    }


def ours(message: Message) -> dict[str, Any]:
    """Return the same of what we were told."""
    blocks = message.blocks
    counts = message.usage
    total = (counts.extra or {}).get("totalTokenCount")
    if total is None and counts.input_tokens is not None:
        total = counts.input_tokens + (counts.output_tokens or 0)
    thoughts = [block for block in blocks if isinstance(block, Reasoning)]
    return {
        "text": "".join([block.text for block in blocks if isinstance(block, Text)]),
        "thoughts": "".join([block.text for block in thoughts]),
        "signatures": [block.signature for block in thoughts if block.signature],
        "calls": [
            (block.id, block.name, block.arguments or "{}")
            for block in blocks
            if isinstance(block, ToolCall)
        ],
        "results": [b.tool_call_id for b in blocks if isinstance(b, ServerToolResult)],
        "total": total,
    }


def test_there_are_interactions() -> None:
    assert len(INTERACTIONS) >= 8


@each_interaction
def test_client_is_told_what_we_are_told(recording: Recording) -> None:
    events = read(recording.body)
    assert unknown(events) == UNKNOWN.get(recording.name, 0)
    source = decoder("gemini")
    message = accumulate(source.feed(recording.body) + source.close())
    assert said(events) == ours(message)
    served = [block for block in message.blocks if isinstance(block, ServerToolCall)]
    assert [call.id for call in served] == list(_served(events))


def _served(events: list[Any]) -> Iterator[str]:
    for event in events:
        kind = getattr(getattr(event, "step", None), "type", "")
        if kind.endswith("_call") and kind != "function_call":
            yield event.step.id


@each_interaction
def test_client_is_told_the_same_of_what_is_written_anew(recording: Recording) -> None:
    transcoder = Transcoder("gemini_interactions", "gemini_interactions", verbatim=False)
    out = b"".join(transcoder.feed(recording.body) + transcoder.close())
    events, before = read(out), read(recording.body)
    assert unknown(events) == UNKNOWN.get(recording.name, 0)
    if isinstance(transcoder.outcome, Completed):
        assert said(events) == said(before)


@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_client_reads_what_is_written_of_other_dialects(source: str) -> None:
    for recording in recordings(source):
        transcoder = Transcoder(source, "gemini_interactions")
        out = b"".join(transcoder.feed(recording.body) + transcoder.close())
        events = read(out)
        assert unknown(events) == UNKNOWN.get(recording.name, 0), recording.name
        reader = decoder("gemini_interactions")
        message = accumulate(reader.feed(out) + reader.close())
        told, known = said(events), ours(message)
        for content in (told, known):  # those of other vendors are tagged
            del content["signatures"]
        assert told == known, recording.name
        if not isinstance(transcoder.outcome, Completed):
            assert events[-1].event_type == "error", recording.name


@each_interaction
def test_client_gets_its_own_stream_untouched(recording: Recording) -> None:
    """And is told where it broke off, in the form that the other API has for it."""
    transcoder = Transcoder("gemini", "gemini")
    out = b"".join(transcoder.feed(recording.body) + transcoder.close())
    assert out.startswith(recording.body)
    events = read(out)
    if out != recording.body:
        assert isinstance(error := recording.expected[-1], StreamError)
        assert error.kind == "truncated"
        assert events.pop().event_type == "error"
    assert json.dumps([repr(e) for e in events]) == json.dumps(
        [repr(e) for e in read(recording.body)]
    )
