"""Streams that a broken or hostile server may send, and what every client must see of them.

A stream is either clean in every target dialect, as strict
clients that share no code with the package read it, or it is not `Completed`; a call whose
arguments never ended is noted, and no target gets it as JSON that could run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec import Struct
from support.anthropic import reader as anthropic_reader
from support.bodies.json_values import is_json
from support.gemini import reader as gemini_reader
from support.gemini.adversarial import BROKEN, CLEAN, UNFINISHED
from support.openai_chat import reader as chat_reader
from support.openai_responses import reader as responses_reader
from support.streams.mutations import chunked

from streamnorm import Completed, Transcoder, Usage

STREAMS = {**CLEAN, **UNFINISHED}
TARGETS = ("anthropic", "openai_chat", "openai_responses", "gemini")
STOPS = {
    "openai_chat": {
        "end_turn": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refusal": "content_filter",
    },
    "openai_responses": {"max_tokens": "max_output_tokens", "refusal": "content_filter"},
    "gemini": {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"},
}

each_target = pytest.mark.parametrize("target", TARGETS)


class Seen(Struct):
    """What a client sees of a stream.

    Attributes:
        stop: The stop reason as the dialect spells it; None for none.
        text: All text of the answer.
        thoughts: All reasoning.
        calls: Name and JSON text of the arguments of each call.
        usage: Input and output tokens; None for none.
        failed: Whether the stream ended with an error.
    """

    stop: str | None
    text: str
    thoughts: str
    calls: list[tuple[str, str]]
    usage: tuple[int, int] | None
    failed: bool


def seen(target: str, data: bytes) -> Seen:
    """Return what a strict client of a dialect sees."""
    return {
        "anthropic": seen_by_anthropic,
        "openai_chat": seen_by_chat,
        "openai_responses": seen_by_responses,
        "gemini": seen_by_gemini,
    }[target](data)


def seen_by_anthropic(data: bytes) -> Seen:
    got = anthropic_reader.read(data, extras=True)
    usage = (got.usage["input_tokens"], got.usage["output_tokens"]) if got.usage else None
    calls = [(b["name"], b["input"]) for b in got.content if b["type"] == "tool_use"]
    return Seen(
        got.stop_reason,
        "".join(b["text"] for b in got.content if b["type"] == "text"),
        "".join(b["thinking"] for b in got.content if b["type"] == "thinking"),
        calls,
        usage,
        got.error is not None,
    )


def seen_by_chat(data: bytes) -> Seen:
    got = chat_reader.read(data, extras=True)
    answer = got.answers.get(0, chat_reader.Answer())
    usage = (got.usage["prompt_tokens"], got.usage["completion_tokens"]) if got.usage else None
    return Seen(
        None if got.error else answer.finish,
        answer.texts.get("content", ""),
        answer.texts.get("reasoning_content", ""),
        [(call["name"], call["arguments"]) for call in answer.calls],
        usage,
        got.error is not None,
    )


def seen_by_responses(data: bytes) -> Seen:
    got = responses_reader.read(data)
    response = got.response or {}
    usage = response.get("usage")
    texts = [i["content"] for i in got.output if i["type"] == "message"]
    thoughts = [i["summary"] for i in got.output if i["type"] == "reasoning"]
    calls = [i for i in got.output if i["type"] == "function_call"]
    return Seen(
        (response.get("incomplete_details") or {}).get("reason"),
        "".join(part["text"] for item in texts for part in item),
        "".join(part["text"] for item in thoughts for part in item),
        [(item["name"], item["arguments"]) for item in calls],
        (usage["input_tokens"], usage["output_tokens"]) if usage else None,
        response.get("status") == "failed",
    )


def seen_by_gemini(data: bytes) -> Seen:
    got = gemini_reader.read(data)
    calls = [part["functionCall"] for part in got.parts if "functionCall" in part]
    counts = got.usage
    output = ("candidatesTokenCount", "thoughtsTokenCount")
    texts = [part for part in got.parts if "text" in part]
    return Seen(
        got.finish,
        "".join(part["text"] for part in texts if not part["thought"]),
        "".join(part["text"] for part in texts if part["thought"]),
        [(call["name"], json.dumps(call["args"])) for call in calls],
        None
        if counts is None
        else (counts["promptTokenCount"], sum(counts.get(key, 0) for key in output)),
        got.error is not None,
    )


def transcoded(stream: list[bytes], target: str) -> Iterator[tuple[Transcoder, bytes]]:
    """Yield what every way of cutting a stream gives, with both line ends."""
    for newline in (b"\r\n", b"\n"):
        whole = b"".join(stream).replace(b"\r\n", newline)
        for size in (1, 7, len(whole)):
            transcoder = Transcoder("gemini", target, verbatim=False)
            out = [data for cut in chunked(whole, size) for data in transcoder.feed(cut)]
            yield transcoder, b"".join(out + transcoder.close())


@each_target
@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_clean_or_noted(name: str, target: str) -> None:
    stream, truth = STREAMS[name]
    for transcoder, data in transcoded(stream, target):
        got = seen(target, data)
        notes = {note.kind: note.count for note in transcoder.notes}
        assert notes.get("unfinished_arguments", 0) == truth.unfinished
        if truth.unfinished and got.failed:  # Gemini has no place for half a call
            assert not isinstance(transcoder.outcome, Completed)
            assert target == "gemini"
            continue
        assert isinstance(transcoder.outcome, Completed)
        assert transcoder.outcome.reason == truth.stop
        assert not got.failed
        assert (got.text, got.thoughts) == (truth.text, truth.thoughts)
        finished = [(name, json.loads(args)) for name, args in got.calls if is_json(args)]
        assert finished == truth.calls
        assert len(got.calls) - len(finished) <= truth.unfinished
        default = "STOP" if target == "gemini" else None
        stops = STOPS.get(target)
        if not (truth.unfinished and target != "anthropic"):  # how they are written is theirs
            assert got.stop == (truth.stop if stops is None else stops.get(truth.stop, default))
        if truth.usage is not None:
            assert got.usage == truth.usage
            assert transcoder.usage == Usage(*truth.usage, reasoning_tokens=truth.usage[1])


@each_target
@pytest.mark.parametrize("name", BROKEN)
def test_broken_stream_is_not_completed(name: str, target: str) -> None:
    for transcoder, data in transcoded(BROKEN[name], target):
        got = seen(target, data)
        assert transcoder.outcome is not None
        assert not isinstance(transcoder.outcome, Completed)
        assert got.failed


def test_verbatim_output_shows_a_contradiction_as_an_error() -> None:
    """The original bytes before it are passed on; nothing behind it is."""
    for name in ("second answer spliced in", "one id for two arguments", "value within a string"):
        whole = b"".join(BROKEN[name])
        transcoder = Transcoder("gemini", "gemini")
        out = b"".join([*transcoder.feed(whole), *transcoder.close()])
        last = json.loads(out.removesuffix(b":").rstrip().splitlines()[-1].removeprefix(b"data: "))
        assert last["error"]["code"] == 500


def test_there_are_thirty_streams_and_more() -> None:
    assert len(STREAMS) + len(BROKEN) >= 30
