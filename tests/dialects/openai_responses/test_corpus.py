"""Real streams: the deltas add up to the output of the terminal event."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from support.streams.corpus import CorpusStream, each_stream_of, payloads, pieces

from streamnorm import (
    Block,
    Completed,
    Event,
    Failed,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    accumulate,
)
from streamnorm.dialects.openai_responses import DIALECT
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.sse import SSEDecoder
from streamnorm.validation import validate

_TERMINALS = ("response.completed", "response.incomplete")

EDITED = frozenset(
    {
        # Its text was shortened, and its terminal left alone.
        "openai__vercel-ai__openai-responses-openai-shell-container.1",
        # The terminal has ids of its own.
        "vllm__fast-agent__openresponses-openai-gpt-oss-120b-tool_use_weather-stream",
        # The summary was written anew behind its deltas.
        "openai__maruel-genai__openairesponses-gpt-5.6-sol_thinking-GenStream-MaxTokens",
    }
)
"""Streams whose terminal contradicts their events."""


REWRITTEN = frozenset({"openai__vercel-ai__openai-responses-openai-shell-container.1"})
"""Streams that are malformed: whoever recorded them shortened the deltas of a text alone."""


THINNED = frozenset({"openai__vercel-ai__openai-responses-openai-phase.1"})
"""Streams without most of their deltas, whose text only the complete items hold."""


each_stream = each_stream_of("openai_responses")


@cache
def values(stream: CorpusStream) -> list[dict[str, Any]]:
    return [json.loads(data) for data in payloads(stream.body) if data != "[DONE]"]


def response_of(stream: CorpusStream) -> dict[str, Any]:
    """Return the response of the terminal; an empty one if there is none."""
    found = [value["response"] for value in values(stream) if value["type"] in _TERMINALS]
    return found[0] if found else {}


def read(stream: CorpusStream, size: int = 1 << 20) -> tuple[list[Event], ResponsesDecoder]:
    source = ResponsesDecoder(server=stream.provider)
    events = [event for piece in pieces(stream.body, size) for event in source.feed(piece)]
    return events + source.close(), source


def content_of(blocks: tuple[Block, ...]) -> list[tuple[Any, ...]]:
    """Return the content of blocks, without item ids and signatures."""
    entries: list[tuple[Any, ...]] = []
    for block in blocks:
        match block:
            case Text(text, citations):
                entries.append(("output_text", text, [source.url for source in citations]))
            case Refusal(text):
                entries.append(("refusal", text))
            case Reasoning(parts):
                entries.append(("reasoning", *(part for part in parts if part)))
            case ToolCall(id, name, arguments):
                entries.append(("call", id, name, arguments))
            case ServerToolCall(kind=kind) | ServerToolResult(kind=kind):
                entries.append((kind,))
            case _:
                entries.append((type(block).__name__,))
    return entries


def held(output: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the content of items in the same form."""
    entries: list[tuple[Any, ...]] = []
    for item in output:
        match item["type"]:
            case "message":
                for part in item["content"]:
                    if part["type"] == "refusal":
                        entries.append(("refusal", part["refusal"]))
                    else:
                        urls = [source.get("url") for source in part.get("annotations") or []]
                        entries.append(("output_text", part["text"], urls))
            case "reasoning":
                summary = [part["text"] for part in item.get("summary") or []]
                content = [part["text"] for part in item.get("content") or []]
                entries += [("reasoning", *texts) for texts in (summary, content) if texts]
                if not summary and not content:
                    entries.append(("reasoning",))
            case "function_call":
                entries.append(("call", item["call_id"], item["name"], item["arguments"]))
            case kind:
                entries.append((kind,))
    return entries


@each_stream
def test_events_are_legal_and_end_as_the_stream_did(stream: CorpusStream) -> None:
    events, source = read(stream)
    assert validate(events) == []
    is_success = response_of(stream) and stream.name not in REWRITTEN
    assert isinstance(source.outcome, Completed if is_success else Failed)


@each_stream
def test_chunking_does_not_change_the_events(stream: CorpusStream) -> None:
    whole, source = read(stream)
    parts, again = read(stream, 997)
    assert (whole, source.outcome, source.notes) == (parts, again.outcome, again.notes)


@each_stream
def test_message_equals_the_output_of_the_terminal(stream: CorpusStream) -> None:
    output = response_of(stream).get("output")
    if not output or stream.name in EDITED:
        pytest.skip("the terminal does not hold the same")
    blocks = accumulate(read(stream)[0]).blocks
    assert content_of(blocks) == held(output)


@each_stream
def test_usage_equals_that_of_the_terminal(stream: CorpusStream) -> None:
    if not response_of(stream) or stream.name in REWRITTEN:
        pytest.skip("the stream failed")
    usage = accumulate(read(stream)[0]).usage
    wire = response_of(stream)["usage"]
    inputs, outputs = wire.get("input_tokens_details"), wire.get("output_tokens_details")
    assert (usage.input_tokens, usage.output_tokens) == (
        wire["input_tokens"],
        wire["output_tokens"],
    )
    assert usage.cache_read_tokens == (inputs or {}).get("cached_tokens")
    assert usage.reasoning_tokens == (outputs or {}).get("reasoning_tokens")


# It warns of tools that it does not know.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@each_stream
def test_sdk_accumulates_the_same_message(stream: CorpusStream) -> None:
    """The accumulator of openai-python, before the terminal, agrees where it reads the stream."""
    if stream.name in THINNED:
        pytest.skip("its deltas were thinned")
    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    try:
        for value in values(stream):
            if value["type"] not in (*_TERMINALS, "keepalive"):
                state.handle_event(construct_type(type_=ResponseStreamEvent, value=value))
    except (RuntimeError, TypeError, AttributeError, IndexError, AssertionError) as exc:
        pytest.skip(f"openai cannot read it: {type(exc).__name__}: {exc}")
    snapshot = state._ResponseStreamState__current_snapshot
    if not response_of(stream):
        pytest.skip("the stream failed")
    output = [item.to_dict(mode="json", warnings=False) for item in snapshot.output]
    blocks = accumulate(read(stream)[0]).blocks
    words = ("output_text", "call")  # it leaves refusals out
    ours = [entry[:2] for entry in content_of(blocks) if entry[0] in words]
    assert ours == [entry[:2] for entry in held(output) if entry[0] in words]


@each_stream
def test_no_prefix_is_a_success(stream: CorpusStream) -> None:
    frames = SSEDecoder().feed(stream.body)
    kinds = [json.loads(frame.data)["type"] for frame in frames if frame.data != "[DONE]"]
    last = next(n for n, kind in enumerate(kinds) if kind in (*_TERMINALS, "error"))
    for count in {0, 1, 2, last // 2, last - 1, last}:
        source = ResponsesDecoder()
        for frame in frames[:count]:
            source.feed_frame(frame)
        source.close()
        assert not isinstance(source.outcome, Completed)


@each_stream
def test_dialect_is_detected(stream: CorpusStream) -> None:
    assert DIALECT.recognises(SSEDecoder().feed(stream.body)[0])
