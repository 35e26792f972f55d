"""Adversarial Anthropic streams in every target, read by clients that share none of our code.

A stream that contradicts itself ends in an error; any other gives the message that was
written down beside it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from support.anthropic import reader as anthropic_reader
from support.anthropic.adversarial import BROKEN, CLEAN, UNFINISHED, Row
from support.gemini import reader as gemini_reader
from support.gemini_interactions import reader as interactions_reader
from support.openai_chat import reader as chat_reader
from support.openai_responses import reader as responses_reader
from support.streams.pieces import transcode_each_line_end

from streamnorm import Completed, Note

STOPS = {
    "anthropic": {},
    "openai_chat": {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"},
    "openai_responses": {"end_turn": "completed", "tool_use": "completed"},
    "gemini": {"end_turn": "STOP", "tool_use": "STOP"},
    "gemini_interactions": {"end_turn": "completed", "tool_use": "requires_action"},
}
"""The word of each target for a stop reason."""


class Got(NamedTuple):
    """What a client of any dialect has read."""

    text: str
    thinking: str
    calls: list[tuple[str, str, Any]]
    stop: str | None
    error: dict[str, Any] | None
    tokens: tuple[int, int] | None


def read_anthropic(data: bytes) -> Got:
    got = anthropic_reader.read(data)
    calls = [(b["id"], b["name"], b["input"]) for b in got.content if b["type"] == "tool_use"]
    thinking = "".join(block.get("thinking", "") for block in got.content)
    tokens = (got.usage.get("input_tokens", 0), got.usage.get("output_tokens", 0))
    text = "".join(block.get("text", "") for block in got.content)
    return Got(text, thinking, calls, got.stop_reason, got.error, tokens)


def read_chat(data: bytes) -> Got:
    got = chat_reader.read(data)
    answer = got.answers.get(0, chat_reader.Answer())
    calls = [(call["id"], call["name"], call["arguments"]) for call in answer.calls]
    usage = got.usage or {}
    tokens = (usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
    texts = answer.texts
    thinking = texts.get("reasoning_content", "")
    return Got(texts.get("content", ""), thinking, calls, answer.finish, got.error, tokens)


def read_responses(data: bytes) -> Got:
    got = responses_reader.read(data)
    texts = [part for item in got.output for part in item.get("content", ())]
    parts = [part for item in got.output for part in item.get("summary", ())]
    calls = [
        (item["call_id"], item["name"], item["arguments"])
        for item in got.output
        if item["type"] == "function_call"
    ]
    response = got.response or {}
    usage = response.get("usage") or {}
    tokens = (usage.get("input_tokens", 0), usage.get("output_tokens", 0))
    return Got(
        "".join(part["text"] for part in texts),
        "".join(part["text"] for part in parts),
        calls,
        response.get("status"),
        got.error,
        tokens,
    )


def read_gemini(data: bytes) -> Got:
    got = gemini_reader.read(data)
    texts = [part for part in got.parts if "text" in part]
    made = [part["functionCall"] for part in got.parts if "functionCall" in part]
    usage = got.usage or {}
    return Got(
        "".join(part["text"] for part in texts if not part["thought"]),
        "".join(part["text"] for part in texts if part["thought"]),
        [(call["id"], call["name"], json.dumps(call["args"])) for call in made],
        got.finish,
        got.error,
        (usage.get("promptTokenCount", 0), usage.get("candidatesTokenCount", 0)),
    )


def read_interactions(data: bytes) -> Got:
    got = interactions_reader.read(data)
    texts = {"model_output": "", "thought": ""}
    calls = []
    for step in got.steps:
        if step["type"] == "function_call":
            calls.append((step["id"], step["name"], step["text"] or "{}"))
        else:
            texts[step["type"]] += step["text"]
    usage = got.usage or {}
    tokens = (usage.get("total_input_tokens", 0), usage.get("total_output_tokens", 0))
    return Got(texts["model_output"], texts["thought"], calls, got.status, got.error, tokens)


READERS = {
    "anthropic": read_anthropic,
    "openai_chat": read_chat,
    "openai_responses": read_responses,
    "gemini": read_gemini,
    "gemini_interactions": read_interactions,
}

each_target = pytest.mark.parametrize("target", READERS)


def assert_is_the_truth(got: Got, row: Row, target: str) -> None:
    _, blocks, stop = row
    assert got.error is None
    assert got.text == "".join(block.get("text", "") for block in blocks)
    assert got.thinking == "".join(block.get("thinking", "") for block in blocks)
    assert [(id, name, json.loads(arguments)) for id, name, arguments in got.calls] == [
        (block["id"], block["name"], json.loads(block["input"]))
        for block in blocks
        if block["type"] == "tool_use"
    ]
    assert got.stop == STOPS[target].get(stop, stop)
    assert got.tokens == (20, 7)


@each_target
@pytest.mark.parametrize("name", CLEAN)
def test_stream_without_a_contradiction_becomes_its_message(name: str, target: str) -> None:
    frames, blocks, _ = CLEAN[name]
    for data, transcoder in transcode_each_line_end(frames, "anthropic", target):
        assert isinstance(transcoder.outcome, Completed)
        assert_is_the_truth(READERS[target](data), CLEAN[name], target)
        assert "unfinished_arguments" not in {note.kind for note in transcoder.notes}
        if target == "anthropic":
            assert anthropic_reader.read(data).content == blocks


@each_target
@pytest.mark.parametrize("name", BROKEN)
def test_stream_with_a_contradiction_is_no_success(name: str, target: str) -> None:
    for data, transcoder in transcode_each_line_end(BROKEN[name], "anthropic", target):
        assert not isinstance(transcoder.outcome, Completed)
        got = READERS[target](data)
        assert got.error is not None
        assert got.stop in (None, "failed")


@each_target
@pytest.mark.parametrize("name", UNFINISHED)
def test_call_with_unfinished_arguments_is_noted(name: str, target: str) -> None:
    frames, blocks, stop = UNFINISHED[name]
    for data, transcoder in transcode_each_line_end(frames, "anthropic", target):
        if not isinstance(transcoder.outcome, Completed):
            assert target == "gemini"  # where a call has an object or is none
            continue
        assert transcoder.outcome.reason == stop
        assert Note("unfinished_arguments", "tool call") in transcoder.notes
        if target == "anthropic":
            assert anthropic_reader.read(data).content == blocks


def test_there_are_enough_streams() -> None:
    assert len(CLEAN) + len(UNFINISHED) + len(BROKEN) >= 40
