"""Order of the output: one open block at a time, and nothing held needlessly."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, note
from support.anthropic.reader import frames
from support.bodies.samples import make_source
from support.draws import Draws, draws, with_half_the_examples
from support.gemini_interactions import reader as interactions_reader
from support.openai_chat.reader import chunks
from support.openai_responses import reader as responses_reader
from support.streams.content import DIALECTS, PAGES, decode, overlaps, transcode
from support.streams.corpus import each_recording_of, payloads
from support.streams.mutations import chunked

from streamnorm import BlockStart, Event, ToolCall, Transcoder
from streamnorm._core.grammar import Sequencer
from streamnorm.codec import decoder
from streamnorm.recording import Recording

GROWING = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
)

each_dialect = pytest.mark.parametrize("source", DIALECTS)


@each_dialect
@with_half_the_examples
@given(d=draws(300))
def test_anthropic_output_has_one_open_block_at_a_time(source: str, d: Draws) -> None:
    out, _ = transcode(make_source(d, source).frames, source, "anthropic")
    opened = 0
    for name, index in re.findall(rb'"type":"content_block_(start|stop)","index":(\d+)', out):
        assert int(index) == opened
        opened += name == b"stop"


@each_dialect
@with_half_the_examples
@given(d=draws(300))
def test_responses_output_has_one_open_item_at_a_time(source: str, d: Draws) -> None:
    """In a message, one part at a time; a call that was left unfinished ends with the message."""
    out, _ = transcode(make_source(d, source).frames, source, "openai_responses")
    items = parts = 0
    opened: list[str] = []
    left: set[int] = set()  # indexes of unfinished calls
    for event in responses_reader.events(out):
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            if opened == ["function_call"]:
                opened = []
                left.add(items - 1)
            assert (event["output_index"], opened) == (items, [])
            items, parts = items + 1, 0
            opened.append(event["item"]["type"])
        elif kind == "content_part.added":
            assert (event["content_index"], opened) == (parts, ["message"])
            parts += 1
            opened.append("part")
        elif kind == "content_part.done":
            assert opened.pop() == "part"
        elif kind == "output_item.done" and event["output_index"] in left:
            assert event["item"]["status"] == "incomplete"
            left.remove(event["output_index"])
        elif kind == "output_item.done":
            assert opened.pop() == event["item"]["type"]
        elif kind in ("output_text.delta", "function_call_arguments.delta"):
            assert event["output_index"] == items - 1


@each_dialect
@with_half_the_examples
@given(d=draws(300))
def test_chat_output_interleaves_only_calls(source: str, d: Draws) -> None:
    """Ended reasoning or text is never continued where a client would join it."""
    stream = make_source(d, source)
    out, _ = transcode(stream.frames, source, "openai_chat")
    runs: dict[int, list[list[str]]] = {}
    for chunk in chunks(out):
        for choice in (chunk or {}).get("choices", ()):
            (field, value) = next(iter(choice["delta"].items()), ("", None))
            if field in ("content", "reasoning_content", "refusal") and value:
                run = runs.setdefault(choice["index"], [])
                if not run or run[-1][0] != field:
                    run.append([field, ""])
                run[-1][1] += value
    fields = {"Text": "content", "Reasoning": "reasoning_content", "Refusal": "refusal"}
    for choice in runs:
        starts = [
            event
            for event in decode([out], "openai_chat").events
            if isinstance(event, BlockStart) and event.choice == choice
        ]
        plain = [
            fields[type(s.block).__name__] for s in starts if not isinstance(s.block, ToolCall)
        ]
        deduplicated = [f for n, f in enumerate(plain) if not n or plain[n - 1] != f]
        assert [field for field, _ in runs[choice]] == deduplicated


@each_recording_of(*DIALECTS, arrays=True)
def test_only_overlapping_blocks_are_held(recording: Recording) -> None:
    events = decode([recording.body], recording.dialect).events
    for overlapping in ((), (ToolCall,)):
        reader, sequencer = decoder(recording.dialect), Sequencer(overlapping=overlapping)
        held = 0
        for byte in chunked(recording.body, 1):
            for event in reader.feed(byte):
                sequencer.push(event)
                held = max(held, sequencer.held_bytes)
        assert (held > 0) == overlaps(events, overlapping)


@each_dialect
@given(d=draws(300))
def test_text_is_written_in_the_feed_of_its_frame(source: str, d: Draws) -> None:
    """Except leading white space, and text behind a call that is open or may yet be executed."""
    target = d.pick((*DIALECTS, *PAGES))
    note(f"written as {target}")
    stream = make_source(d, source)
    events = decode(stream.frames, source).events
    calls = any(isinstance(e, BlockStart) and isinstance(e.block, ToolCall) for e in events)
    if overlaps(events) or calls:
        return
    transcoder = Transcoder(source, target, verbatim=False)
    reader = decoder(source)
    first = {e.index for e in events if isinstance(e, BlockStart) and not e.choice}
    for frame in stream.frames:
        brought = "".join(_said(event, first) for event in reader.feed(frame))
        out = b"".join(transcoder.feed(frame))
        if brought:
            assert "".join(brought.split()) in "".join(_texts(out, target).split())


def _said(event: Event, blocks: set[int]) -> str:
    text: object = getattr(event, "text", "")
    return text if isinstance(text, str) and getattr(event, "index", -1) in blocks else ""


def _texts(out: bytes, target: str) -> str:
    match target:
        case "anthropic":
            deltas: list[dict[str, Any]] = [event.get("delta", {}) for event in frames(out)]
            return "".join(d.get("text", d.get("thinking", "")) for d in deltas)
        case "openai_responses":
            events = map(json.loads, payloads(out))
            return "".join(e["delta"] for e in events if e["type"] in GROWING)
        case "gemini":
            told = [json.loads(payload) for payload in payloads(out)]
            answers = [answer for chunk in told for answer in chunk.get("candidates", ())]
            return "".join(p.get("text", "") for a in answers for p in a["content"]["parts"])
        case "gemini_interactions":
            return interactions_reader.texts(out)
        case "ui_message_stream" | "ag_ui":
            told = [json.loads(payload) for payload in payloads(out) if payload != "[DONE]"]
            return "".join(each.get("delta", "") for each in told)
        case _:
            return _chat_texts(out)


def _chat_texts(out: bytes) -> str:
    every = [choice for chunk in chunks(out) for choice in (chunk or {}).get("choices", ())]
    choices = [choice for choice in every if not choice["index"]]
    return "".join(
        value
        for choice in choices
        for key, value in choice["delta"].items()
        if key in ("content", "reasoning_content", "refusal") and value
    )
