"""Forty streams that put a piece in the wrong place, or contradict themselves.

Each row of `CLEAN` states its message by hand; no row of `BROKEN` is a success.  Strict
clients that share no code with the package read what each target gets.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.anthropic import reader as anthropic_reader
from support.gemini import reader as gemini_reader
from support.gemini_interactions import reader as interactions_reader
from support.openai_chat import reader as chat_reader
from support.openai_responses import reader as responses_reader
from support.openai_responses.adversarial import (
    BROKEN,
    CLEAN,
    START,
    A,
    Event,
    Got,
    args,
    end,
    numbered,
)
from support.streams.mutations import chunked

from streamnorm import Completed, Transcoder


def from_anthropic(out: bytes) -> Got:
    got = anthropic_reader.read(out)
    blocks = [
        ("text", block["text"])
        if block["type"] == "text"
        else ("call", block["id"], block["name"], block["input"])
        for block in got.content
    ]
    return blocks, str(got.stop_reason)


def from_chat(out: bytes) -> Got:
    answer = chat_reader.read(out).answers[0]
    blocks: list[tuple[str, ...]] = [("text", said) for said in answer.texts.values() if said]
    blocks += [("call", each["id"], each["name"], each["arguments"]) for each in answer.calls]
    return blocks, {"stop": "end_turn", "tool_calls": "tool_use"}[str(answer.finish)]


def from_gemini(out: bytes) -> Got:
    got = gemini_reader.read(out)
    blocks: list[tuple[str, ...]] = []
    for part in got.parts:
        if "functionCall" in part:
            each = part["functionCall"]
            arguments = json.dumps(each["args"], separators=(",", ":"))
            blocks.append(("call", each["id"], each["name"], arguments))
        else:
            blocks.append(("text", part["text"]))
    is_tool_use = any(block[0] == "call" for block in blocks)
    assert got.finish == "STOP"
    return blocks, "tool_use" if is_tool_use else "end_turn"


def from_interactions(out: bytes) -> Got:
    got = interactions_reader.read(out)
    blocks: list[tuple[str, ...]] = [
        ("text", step["text"])
        if step["type"] == "model_output"
        else ("call", step["id"], step["name"], step["text"])
        for step in got.steps
    ]
    return blocks, {"completed": "end_turn", "requires_action": "tool_use"}[str(got.status)]


def from_responses(out: bytes) -> Got:
    got = responses_reader.read(out)
    assert got.response is not None
    assert got.response["status"] == "completed"
    blocks: list[tuple[str, ...]] = []
    for item in got.output:
        if item["type"] == "message":
            blocks.append(("text", "".join(part["text"] for part in item["content"])))
        else:
            blocks.append(("call", item["call_id"], item["name"], item["arguments"]))
    is_tool_use = any(block[0] == "call" for block in blocks)
    return blocks, "tool_use" if is_tool_use else "end_turn"


CLIENTS: dict[str, Callable[[bytes], Got]] = {
    "anthropic": from_anthropic,
    "openai_chat": from_chat,
    "gemini": from_gemini,
    "gemini_interactions": from_interactions,
    "openai_responses": from_responses,
}


READERS: dict[str, Callable[[bytes], Any]] = {
    "anthropic": anthropic_reader.read,
    "openai_chat": chat_reader.read,
    "gemini": gemini_reader.read,
    "gemini_interactions": interactions_reader.read,
    "openai_responses": responses_reader.read,
}


def run(
    events: list[Event], target: str, newline: bytes, size: int | None
) -> tuple[bytes, Transcoder]:
    frames = [
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode().replace(b"\n", newline)
        for each in events
    ]
    pieces = frames if size is None else chunked(b"".join(frames), size)
    transcoder = Transcoder("openai_responses", target, verbatim=False)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return b"".join(out + transcoder.close()), transcoder


each_target = pytest.mark.parametrize("target", CLIENTS)
each_size = pytest.mark.parametrize("size", [None, 1], ids=["frames", "bytes"])
each_newline = pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])


@each_target
@each_size
@each_newline
@pytest.mark.parametrize("name", CLEAN)
def test_each_target_has_the_whole_message(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    events, blocks, stop = CLEAN[name]
    out, transcoder = run(events, target, newline, size)
    assert isinstance(transcoder.outcome, Completed)
    assert CLIENTS[target](out) == (blocks, stop)


@each_target
@each_size
@each_newline
@pytest.mark.parametrize("name", BROKEN)
def test_no_target_has_a_success(name: str, newline: bytes, size: int | None, target: str) -> None:
    out, transcoder = run(BROKEN[name], target, newline, size)
    assert not isinstance(transcoder.outcome, Completed)
    assert b"evil" not in out
    assert b"event: response.completed" not in out
    assert READERS[target](out).error is not None


@each_size
@each_newline
@pytest.mark.parametrize("name", ["completed", "incomplete"])
@pytest.mark.parametrize("half", ['{"path":', "{"])
def test_half_a_call_at_the_end_is_noted(
    half: str, name: str, newline: bytes, size: int | None
) -> None:
    events = numbered(START, A, args(0, "fc_0", half), end(name=name))
    _, transcoder = run(events, "openai_chat", newline, size)
    assert isinstance(transcoder.outcome, Completed)
    assert "unfinished_arguments" in [note.kind for note in transcoder.notes]
