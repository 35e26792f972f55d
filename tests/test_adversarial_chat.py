"""Hostile Chat Completions streams for clients of every dialect, which share none of our code.

Each stream is clean at its client, or told as failed; a call whose arguments never ended is
noted, and no client can take it for a whole one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from support.anthropic import reader as anthropic_reader
from support.bodies.json_values import value_or_text
from support.gemini import reader as gemini_reader
from support.openai_chat import reader as chat_reader
from support.openai_chat.adversarial import BROKEN, CLEAN, UNFINISHED, Truth
from support.openai_responses import reader as responses_reader
from support.streams.mutations import chunked

from streamnorm import Completed, Transcoder

ENDS = {
    "anthropic": {"other": "end_turn"},
    "openai_chat": {
        "tool_use": "tool_calls",
        "end_turn": "stop",
        "other": "stop",
        "max_tokens": "length",
    },
    "openai_responses": {"max_tokens": "max_output_tokens"},
    "gemini": {"max_tokens": "MAX_TOKENS", "other": "OTHER"},
}
DEFAULT_ENDS: dict[str, str | None] = {"openai_responses": None, "gemini": "STOP"}


class Seen(NamedTuple):
    """A stream as a client sees it.

    Attributes:
        stop: The reason in the words of the dialect.
        text: All text of the answer.
        thoughts: All reasoning.
        calls: Name and arguments of each call; text where they are no JSON.
        failed: Whether it ended in an error.
    """

    stop: str | None
    text: str
    thoughts: str
    calls: list[tuple[str, Any]]
    failed: bool


def see_anthropic(data: bytes) -> Seen:
    got = anthropic_reader.read(data)
    tools = [block for block in got.content if block["type"] == "tool_use"]
    return Seen(
        got.stop_reason,
        "".join(block.get("text", "") for block in got.content),
        "".join(block.get("thinking", "") for block in got.content),
        [(tool["name"], value_or_text(tool["input"])) for tool in tools],
        got.error is not None,
    )


def see_chat(data: bytes) -> Seen:
    got = chat_reader.read(data, extras=True)
    answer = got.answers.get(0, chat_reader.Answer())
    return Seen(
        answer.finish,
        answer.texts.get("content", ""),
        answer.texts.get("reasoning_content", ""),
        [(call["name"], value_or_text(call.get("arguments", ""))) for call in answer.calls],
        got.error is not None,
    )


def see_responses(data: bytes) -> Seen:
    got = responses_reader.read(data)
    response = got.response or {}
    parts = [part for item in got.output for part in item.get("content", ())]
    thoughts = [part for item in got.output for part in item.get("summary", ())]
    tools = [item for item in got.output if item["type"] == "function_call"]
    return Seen(
        (response.get("incomplete_details") or {}).get("reason"),
        "".join(part.get("text", "") for part in parts),
        "".join(part.get("text", "") for part in thoughts),
        [(tool["name"], value_or_text(tool["arguments"])) for tool in tools],
        response.get("status") not in ("completed", "incomplete"),
    )


def see_gemini(data: bytes) -> Seen:
    got = gemini_reader.read(data)
    texts = [(part["text"], part.get("thought", False)) for part in got.parts if "text" in part]
    tools = [part["functionCall"] for part in got.parts if "functionCall" in part]
    return Seen(
        got.finish,
        "".join(text for text, is_thought in texts if not is_thought),
        "".join(text for text, is_thought in texts if is_thought),
        [(tool["name"], tool.get("args", {})) for tool in tools],
        got.error is not None,
    )


SEE: dict[str, Callable[[bytes], Seen]] = {
    "anthropic": see_anthropic,
    "openai_chat": see_chat,
    "openai_responses": see_responses,
    "gemini": see_gemini,
}

each_target = pytest.mark.parametrize("target", SEE)
each_chunking = pytest.mark.parametrize("size", [None, 1, 7], ids=["frames", "bytes", "sevens"])
each_newline = pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])


def run(
    frames: list[bytes], target: str, size: int | None, newline: bytes
) -> tuple[Seen, Transcoder]:
    transcoder = Transcoder("openai_chat", target, verbatim=False)
    frames = [frame.replace(b"\n", newline) for frame in frames]
    pieces = frames if size is None else chunked(b"".join(frames), size)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return SEE[target](b"".join(out + transcoder.close())), transcoder


def assert_seen(seen: Seen, truth: Truth, target: str) -> None:
    assert (seen.text, seen.thoughts) == (truth.text, truth.thoughts)
    default = DEFAULT_ENDS.get(target, truth.stop)
    assert seen.stop == ENDS[target].get(truth.stop, default)
    assert not seen.failed


@each_target
@each_chunking
@each_newline
@pytest.mark.parametrize("name", CLEAN)
def test_stream_becomes_the_expected_message(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    frames, truth = CLEAN[name]
    seen, transcoder = run(frames, target, size, newline)
    assert_seen(seen, truth, target)
    assert seen.calls == truth.calls
    assert isinstance(transcoder.outcome, Completed)
    assert "unfinished_arguments" not in {note.kind for note in transcoder.notes}


@each_target
@each_chunking
@each_newline
@pytest.mark.parametrize("name", BROKEN)
def test_stream_that_contradicts_itself_fails(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    seen, transcoder = run(BROKEN[name], target, size, newline)
    assert not isinstance(transcoder.outcome, Completed)
    assert seen.failed


@each_target
@each_chunking
@each_newline
@pytest.mark.parametrize("name", UNFINISHED)
def test_unfinished_call_is_noted_and_never_whole(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    frames, truth = UNFINISHED[name]
    seen, transcoder = run(frames, target, size, newline)
    unfinished = [note for note in transcoder.notes if note.kind == "unfinished_arguments"]
    assert [note.count for note in unfinished] == [len(truth.unfinished)]
    assert [call for call in seen.calls if not isinstance(call[1], str)] == truth.calls
    broken = [name for name, arguments in seen.calls if isinstance(arguments, str)]
    assert broken in ([], truth.unfinished)
    if not seen.failed:  # Gemini has no place for such a call
        assert_seen(seen, truth, target)


def test_there_are_enough_streams() -> None:
    assert len(CLEAN) + len(BROKEN) + len(UNFINISHED) >= 50
