"""What a client of each dialect sees of a stream, read by the independent readers."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import Struct

from support.anthropic import reader as anthropic_reader
from support.gemini import reader as gemini_reader
from support.gemini_interactions import reader as interactions_reader
from support.openai_chat import reader as chat_reader
from support.openai_responses import reader as responses_reader

__all__ = ["DIALECTS", "Seen", "see"]


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


def see(dialect: str, data: bytes, *, extras: bool = False) -> Seen:
    """Return what a strict client of a dialect sees.

    Args:
        dialect: The dialect.
        data: The stream.
        extras: Whether it may have fields that the client does not know.
    """
    return _SEE[dialect](data, extras)


def _see_anthropic(data: bytes, extras: bool) -> Seen:
    got = anthropic_reader.read(data, extras=extras)
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


def _see_chat(data: bytes, extras: bool) -> Seen:
    got = chat_reader.read(data, extras=extras)
    answer = got.answers.get(0, chat_reader.Answer())
    usage = (got.usage["prompt_tokens"], got.usage["completion_tokens"]) if got.usage else None
    return Seen(
        None if got.error else answer.finish,
        answer.texts.get("content", ""),
        answer.texts.get("reasoning_content", ""),
        [(call["name"], call.get("arguments", "")) for call in answer.calls],
        usage,
        got.error is not None,
    )


def _see_responses(data: bytes, extras: bool) -> Seen:
    got = responses_reader.read(data)
    response = got.response or {}
    usage = response.get("usage")
    texts = [i["content"] for i in got.output if i["type"] == "message"]
    thoughts = [i["summary"] for i in got.output if i["type"] == "reasoning"]
    calls = [i for i in got.output if i["type"] == "function_call"]
    return Seen(
        (response.get("incomplete_details") or {}).get("reason"),
        "".join(part.get("text", "") for item in texts for part in item),
        "".join(part["text"] for item in thoughts for part in item),
        [(item["name"], item["arguments"]) for item in calls],
        (usage["input_tokens"], usage["output_tokens"]) if usage else None,
        response.get("status") not in ("completed", "incomplete"),
    )


def _see_gemini(data: bytes, extras: bool) -> Seen:
    got = gemini_reader.read(data)
    calls = [part["functionCall"] for part in got.parts if "functionCall" in part]
    texts = [part for part in got.parts if "text" in part]
    return Seen(
        got.finish,
        "".join(part["text"] for part in texts if not part["thought"]),
        "".join(part["text"] for part in texts if part["thought"]),
        [(call["name"], json.dumps(call.get("args", {}))) for call in calls],
        _counts(got.usage, "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount"),
        got.error is not None,
    )


def _see_interactions(data: bytes, extras: bool) -> Seen:
    got = interactions_reader.read(data)
    texts: dict[str, str] = {}
    for step in got.steps:
        texts[step["type"]] = texts.get(step["type"], "") + step["text"]
    calls = [step for step in got.steps if step["type"] == "function_call"]
    return Seen(
        got.status,
        texts.get("model_output", ""),
        texts.get("thought", ""),
        [(step["name"], step["text"] or "{}") for step in calls],
        _counts(got.usage, "total_input_tokens", "total_output_tokens", "total_thought_tokens"),
        got.error is not None,
    )


def _counts(usage: dict[str, int] | None, prompt: str, *output: str) -> tuple[int, int] | None:
    return None if usage is None else (usage[prompt], sum(usage.get(key, 0) for key in output))


_SEE: dict[str, Callable[[bytes, bool], Seen]] = {
    "anthropic": _see_anthropic,
    "openai_chat": _see_chat,
    "openai_responses": _see_responses,
    "gemini": _see_gemini,
    "gemini_interactions": _see_interactions,
}
DIALECTS = tuple(_SEE)
"""The dialects whose clients are known."""
