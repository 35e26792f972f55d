"""Outcomes, order and losses of every Chat Completions stream of the corpus.

The expected values are read off the payloads by hand, without our decoder; the laws of all
dialects are in `laws/test_corpus.py`.
"""

from __future__ import annotations

import fnmatch
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from support.streams.content import overlaps
from support.streams.corpus import (
    CorpusStream,
    corpus,
    each_provider,
    each_provider_of,
    each_stream,
    needs_corpus,
    payloads,
)
from support.streams.terminal_rules import finishes

from streamnorm import (
    Completed,
    Event,
    Failed,
    LossyEncoding,
    MessageStop,
    StreamError,
    ToolCall,
    Transcoder,
    accumulate,
    project,
)
from streamnorm._core.grammar import Sequencer
from streamnorm.codec import Decoder, decoder
from streamnorm.validation import validate

DAMAGED_BYTES = 12_000

FAILED = {
    "openai__maruel-genai__openaichat-gpt-audio-GenStream-Stop": "an error chunk in mid-stream",
    "openrouter__maruel-genai__openrouter-qwen-qwen3.5-*-JSONSchema": "an error before any chunk",
}
LENIENT = {
    # gpt-audio sends no finish reason at all, others lost it on their way, or send it before
    # the text.
    "no_finish": (
        "baseten__maruel-genai__baseten-deepseek-ai-DeepSeek-V4-Pro_thinking-GenStream-T*",
        "baseten__maruel-genai__baseten-zai-org-GLM-5.2_thinking-GenStream-Seed",
        "huggingface__maruel-genai__huggingface-Qwen-Qwen3-4B_thinking-*-Tools-SquareRoot-1",
        "openai__maruel-genai__openaichat-gpt-audio-GenStream-MaxTokens",
        "openai__maruel-genai__openaichat-gpt-audio-GenStream-Tools-SquareRoot-1",
        "openai__openai-dotnet__ChatTests-Chat*Audio*",
        "openrouter__simonw-llm__test_tools_streaming-test_tools_streaming_variant_*",
    ),
    # Fixtures without the blank line behind `[DONE]`.
    "unterminated": ("*__semantic-kernel__*", "unknown__vscode-copilot-chat__*"),
    "no_done": (
        "baseten__maruel-genai__baseten-zai-org-GLM-5.2_thinking-GenStream-Stop",
        "cerebras__maruel-genai__openaicompatible-GenStream_simple-cerebras",
        "cerebras__req_llm__*",
        "huggingface__fantasy__*",
        "perplexity__*",
        "writer__*",
    ),
}

_REASONS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
}

each_other_stream = each_provider_of("openai_chat", one_in=2)


class Read(NamedTuple):
    """Decoded bytes."""

    events: list[Event]
    source: Decoder


def read(chunks: list[bytes]) -> Read:
    source = decoder("openai_chat")
    events = [event for chunk in chunks for event in source.feed(chunk)]
    return Read(events + source.close(), source)


@cache
def whole(stream: CorpusStream) -> Read:
    return read([stream.body])


def transcoded(chunks: list[bytes]) -> bytes:
    transcoder = Transcoder("openai_chat", "anthropic")
    written = [transcoder.feed(chunk) for chunk in chunks]
    return b"".join(part for parts in [*written, transcoder.close()] for part in parts)


# Expected values, by hand


def chunks_of(data: list[str]) -> list[dict[str, Any]]:
    return [json.loads(payload) for payload in data if not payload.startswith("[DONE]")]


def choices_of(chunks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for chunk in chunks:
        yield from chunk.get("choices") or ()


def expected_reason(chunks: list[dict[str, Any]]) -> str:
    choices = [choice for choice in choices_of(chunks) if not choice.get("index")]
    last = [choice for choice in choices if choice.get("finish_reason")][-1:]
    deltas = [choice.get("delta") or {} for choice in choices]
    native = [str(choice.get("native_finish_reason")).lower() for choice in last]
    if any(delta.get("refusal") for delta in deltas):
        return "refusal"
    reason = _REASONS[(finishes(chunks).get(0) or "stop")]
    if native and native[0] in ("length", "max_tokens", "max_output_tokens"):
        return "max_tokens"
    if reason == "end_turn" and any(delta.get("tool_calls") for delta in deltas):
        return "tool_use"
    if reason == "end_turn" and any(isinstance(c.get("stop_reason"), str) for c in last):
        return "stop_sequence"
    return reason


def ends_in_content(chunks: list[dict[str, Any]]) -> bool:
    """Return whether text of the first choice stands behind its last finish reason."""
    is_behind = False
    for chunk in chunks:
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) == 0:
                delta = choice.get("delta") or {}
                is_text = bool(delta.get("content") or delta.get("reasoning_content"))
                is_behind = (is_behind or is_text) and not choice.get("finish_reason")
    return is_behind


def expected_lenient(body: bytes) -> set[str]:
    data = list(payloads(body))
    lenient = set()
    if not any(payload.startswith("[DONE]") for payload in data):
        lenient.add("no_done")
    chunks = chunks_of(data)
    if not all(finishes(chunks).values()) or ends_in_content(chunks):
        lenient.add("no_finish")
    if not body.replace(b"\r", b"").endswith(b"\n\n"):
        lenient.add("unterminated")
    return lenient


@each_stream
def test_outcome_is_that_of_the_stream(stream: CorpusStream) -> None:
    events, source = whole(stream)
    outcome = source.outcome
    if any(fnmatch.fnmatchcase(stream.name, pattern) for pattern in FAILED):
        assert isinstance(outcome, Failed)
        assert outcome.error.kind == "upstream"
        assert events[-1] is outcome.error
        return
    assert isinstance(outcome, Completed)
    assert set(outcome.lenient) == expected_lenient(stream.body)
    chunks = chunks_of(list(payloads(stream.body)))
    assert outcome.reason == expected_reason(chunks)
    stops = {event.choice: event for event in events if isinstance(event, MessageStop)}
    assert {number: stop.raw_reason for number, stop in stops.items()} == finishes(chunks)
    for word in outcome.lenient:
        assert any(fnmatch.fnmatchcase(stream.name, pattern) for pattern in LENIENT[word])


@needs_corpus
def test_every_exception_to_the_outcome_is_needed() -> None:
    ends = {stream.name: expected_lenient(stream.body) for stream in corpus()}
    for word, patterns in LENIENT.items():
        odd = [name for name, lenient in ends.items() if word in lenient]
        assert [pattern for pattern in patterns if not fnmatch.filter(odd, pattern)] == []
    assert [pattern for pattern in FAILED if not fnmatch.filter(ends, pattern)] == []


@each_provider
def test_events_are_legal(streams: list[CorpusStream]) -> None:
    for stream in streams:
        assert validate(whole(stream).events) == [], stream


# Ordering


def waits(events: list[Event], projected: list[Event]) -> bool:
    """Return whether a block may still grow when another block begins.

    A call may get arguments, and Claude's reasoning a signature behind the calls.
    """
    if overlaps(events, (ToolCall,)):
        return True
    # Anthropic has no `null`, with which the arguments are complete at their source.
    nothing = {c.id for c in accumulate(events).tool_calls if c.arguments.strip() == "null"}
    calls = [block for block in accumulate(projected).blocks[:-1] if isinstance(block, ToolCall)]
    return any(not is_whole(call.arguments) and call.id not in nothing for call in calls)


def is_whole(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), (dict, list, str)) and arguments.strip() != "{}"
    except ValueError:
        return False


@each_provider
def test_sequential_calls_are_not_held(streams: list[CorpusStream]) -> None:
    for stream in streams:
        events, source = whole(stream)
        if isinstance(source.outcome, Failed):
            continue
        projected, _ = project(events, "anthropic")
        sequencer = Sequencer()
        passed = [sequencer.push(event) for event in projected]
        held = passed != [[event] for event in projected]
        assert held == waits(events, projected), stream
        assert sequencer.held_bytes == 0, stream
        assert accumulate([e for part in passed for e in part]) == accumulate(projected), stream


# Not held: text; the start of a call waits for its name, `{}` for the content after it


@each_other_stream
def test_output_is_written_in_the_same_feed(streams: list[CorpusStream]) -> None:
    for stream in streams:
        events, _ = whole(stream)
        if waits(events, project(events, "anthropic")[0]):
            continue
        transcoder = Transcoder("openai_chat", "anthropic")
        for payload in payloads(stream.body):
            written = transcoder.feed(b"data: %b\n\n" % payload.encode())
            choices = choices_of(chunks_of([payload]))
            if transcoder.outcome is None and any(map(says_something, choices)):
                assert written, (stream, payload)


def says_something(choice: dict[str, Any]) -> bool:
    """Return whether a choice of a chunk has content that is never held."""
    delta = choice.get("delta") or {}
    calls = delta.get("tool_calls") or ()
    arguments = [call["function"].get("arguments") for call in calls]
    texts = [delta.get(field) for field in ("content", "reasoning", "reasoning_content")]
    texts += [text for text in arguments if text not in ("{}", "null")]
    return not choice.get("index") and any(isinstance(t, str) and t.strip() for t in texts)


# Losses


@each_other_stream
def test_strict_encoding_refuses_exactly_what_is_lossy(streams: list[CorpusStream]) -> None:
    for stream in streams:
        events, _ = whole(stream)
        _, losses = project(events, "anthropic")
        transcoder = Transcoder("openai_chat", "anthropic")
        transcoder.feed(stream.body)
        transcoder.close()
        assert transcoder.losses == losses, stream
        strict = Transcoder("openai_chat", "anthropic", strict=True)
        # Fields that only the vendor knows are no content.
        of_content = [loss for loss in losses if loss.feature != "extra"]
        if of_content:
            with pytest.raises(LossyEncoding) as info:
                strict.feed(stream.body) + strict.close()
            (first,) = info.value.losses
            wanted = of_content[0]
            assert (first.feature, first.where) == (wanted.feature, wanted.where), stream
        else:
            strict.feed(stream.body) + strict.close()


# Totality


@each_other_stream
def test_damaged_streams_end_in_one_outcome(streams: list[CorpusStream]) -> None:
    for stream in streams[:20]:
        rng = random.Random(stream.name)  # noqa: S311 - a seed is the point
        for _ in range(6):
            body = damaged(stream.body[:DAMAGED_BYTES], rng)
            events, source = read([body])
            errors = [event for event in events if isinstance(event, StreamError)]
            assert errors == ([] if isinstance(source.outcome, Completed) else events[-1:])
            assert validate(events) == []
            transcoded([body])


def damaged(body: bytes, rng: random.Random) -> bytes:
    frames = body.split(b"\n\n")
    place = rng.randrange(len(frames))
    frame = frames[place]
    match rng.randrange(5):
        case 0:
            del frames[place]
        case 1:
            frames.insert(place, rng.choice(frames))
        case 2:
            frames[place] = frame[: rng.randrange(len(frame) + 1)]
        case 3:
            frames.insert(place, rng.choice((b"data: null", b"data: {}", b"error: {}", b"\xff{")))
        case _:
            spot = rng.randrange(len(frame) + 1)
            frames[place] = frame[:spot] + bytes([rng.randrange(256)]) + frame[spot + 1 :]
    return b"\n\n".join(frames)
