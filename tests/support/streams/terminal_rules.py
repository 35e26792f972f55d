"""Hand-written terminal rules of each dialect: which prefixes of a stream are complete.

Half a frame after the terminal is a cut; a whole frame that lacks its blank line is not.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

from support.streams.corpus import payloads

__all__ = ["cuts", "finishes", "terminal_was_read"]

_INTERACTION_STATUSES = (
    *("completed", "requires_action", "incomplete", "budget_exceeded", "requires_continuation"),
)
_INTERACTION_ENDS = ("interaction.complete", "interaction.completed")
_TEXT_FIELDS = {"text", "thought", "thoughtSignature"}
_CHAT_CONTENT = (
    *("content", "reasoning", "reasoning_content", "refusal"),
    *("audio", "executed_tools", "images"),
)
_KINDS = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}


def cuts(name: str, body: bytes, count: int = 30) -> list[int]:
    """Return offsets at which to cut a stream: around events, at its end, and at random."""
    ends = [match.end() for match in re.finditer(rb"\n\n|\r\n\r\n|\r\r", body)]
    beside = [end + by for end in ends[:40] for by in (-2, -1, 0, 1)]
    rng = random.Random(name)  # noqa: S311 - a seed is the point
    anywhere = [rng.randrange(len(body)) for _ in range(count)]
    end = len(body)
    last = [*range(end - 200, end - 60, 3), *range(end - 60, end)]  # most terminals are shorter
    return sorted({cut for cut in [*beside, *anywhere, *last] if 0 <= cut < end})


def terminal_was_read(prefix: bytes, dialect: str) -> bool:
    """Return whether a prefix of a stream is complete.

    A Gemini stream that repeats its finish reason on every chunk is complete after each, as
    it has no other terminal; content after one needs another.
    """
    return _READERS[dialect](prefix)


def _split(prefix: bytes) -> tuple[list[str], str]:
    """Return the payloads of the complete frames, and the remaining bytes."""
    text = prefix.decode(errors="ignore").replace("\r\n", "\n").replace("\r", "\n")
    *frames, rest = text.lstrip("\ufeff").split("\n\n")
    return list(payloads("\n\n".join(frames).encode())), rest


def _last(rest: str) -> tuple[bool, str | None]:
    """Return whether the last event is cut, and its payload if it is complete."""
    lines = [line for line in rest.split("\n") if line and not line.startswith(":")]
    fields = [line.partition(":")[0] for line in lines]
    if any(field not in ("data", "event", "id", "retry") for field in fields):
        return True, None  # in the name of a field
    if "data" not in fields:
        return False, None
    (payload,) = payloads(rest.encode())
    return False, payload


def _chat(prefix: bytes) -> bool:
    """Return whether `[DONE]`, or a final finish reason of every choice, was read."""
    data, rest = _split(prefix)
    if any(payload.startswith("[DONE]") for payload in data):
        return True
    cut, last = _last(rest)
    if cut:
        return False
    if last is not None:
        if last.startswith("[DONE]"):
            return True
        try:
            json.loads(last)
        except ValueError:
            return False
        data.append(last)
    finished = _finished([json.loads(payload) for payload in data])
    return bool(finished) and all(finished.values())


def finishes(chunks: list[dict[str, Any]]) -> dict[int, str | None]:
    """Return the last finish reason of each choice."""
    words: dict[int, str | None] = {}
    for chunk in chunks:
        for choice in chunk.get("choices") or ():
            number = choice.get("index", 0)
            words[number] = choice.get("finish_reason") or words.get(number)
    return words


def _finished(chunks: list[dict[str, Any]]) -> dict[int, bool]:
    """Return whether each choice has a finish reason without later content."""
    finished: dict[int, bool] = {}
    ids: set[str] = set()  # of calls
    call_ids: dict[tuple[int, int], str] = {}  # by choice and index; "" before it was told
    names: dict[tuple[int, int], str] = {}  # by choice and index
    for chunk in chunks:
        for choice in chunk.get("choices") or ():
            number, delta = choice.get("index", 0), choice.get("delta") or {}
            is_content = any(map(delta.get, _CHAT_CONTENT))
            for fragment in delta.get("tool_calls") or ():
                function = fragment.get("function") or fragment.get("custom") or {}
                call = (number, fragment.get("index") or 0)
                id = fragment.get("id") or ""
                # A call that began without an id may be told it later.
                is_new = bool(id) and id not in ids and call_ids.get(call) != ""
                call_ids[call] = id or call_ids.get(call, "")
                # White space behind whole arguments is none; that within a text is not judged.
                # Nor is a name that the call has already.
                repeated = function.get("name") == names.get(call)
                names[call] = function.get("name") or names.get(call, "")
                says = any(
                    str(value).strip(" \t\r\n")
                    for key, value in function.items()
                    if value and not (key == "name" and repeated)
                )
                is_content = is_content or is_new or says
                ids.add(id)
            stands = finished.get(number, False) and not is_content
            finished[number] = bool(choice.get("finish_reason")) or stands
    return finished


def _anthropic(prefix: bytes) -> bool:
    """Return whether `message_stop`, or a stop reason without later open blocks, was read."""
    data, rest = _split(prefix)
    cut, last = _last(rest)
    if last is not None:
        try:
            final: Any = json.loads(last)
        except ValueError:
            final = {}
        cut = final.get("type") not in ("message_stop", "message_delta")
        data += [] if cut else [last]
    opened: dict[int, str] = {}
    implied: str | None = None  # a block that only deltas tell of, up to the next start or stop
    reason = None
    for event in (json.loads(payload) for payload in data if payload != "[DONE]"):
        match event["type"]:
            case "message_stop":
                return True
            case "message_delta":
                given = event["delta"].get("stop_reason") if not opened else None
                reason = given or reason
            case "content_block_start":
                implied = reason = None
                opened[event["index"]] = event["content_block"]["type"]
            case "content_block_stop":
                opened.pop(event["index"], None)
                implied = None
            case "content_block_delta":
                kind = _KINDS.get(event["delta"]["type"])
                says = any(value for key, value in event["delta"].items() if key != "type")
                if kind and says and kind not in opened.values():
                    implied = kind
            case _:
                pass
    return not cut and reason is not None and not opened and implied is None


def _responses(prefix: bytes) -> bool:
    """Return whether `response.completed` or `response.incomplete` was read."""
    data, rest = _split(prefix)
    _, last = _last(rest)
    return any(_ends_response(payload) for payload in [*data, last or ""])


def _ends_response(payload: str) -> bool:
    value = _json(payload)
    if value is None or value.get("type") not in ("response.completed", "response.incomplete"):
        return False
    return value["response"].get("status") not in ("failed", "cancelled")


def _gemini(prefix: bytes) -> bool:
    """Return whether every candidate has a finish reason, or the prompt was blocked."""
    if prefix.lstrip().startswith(b"["):  # which has an end of its own
        try:
            return _is_finished(json.loads(prefix))
        except ValueError:
            return False
    data, rest = _split(prefix)
    cut, last = _last(rest)
    chunks = [chunk for payload in data if (chunk := _json(payload)) is not None]
    if "[DONE]" in data:
        return _is_finished(chunks)
    if last is not None and not last.startswith("[DONE]"):
        chunk = _json(last)
        cut = chunk is None
        chunks += [] if chunk is None else [chunk]
    return not cut and _is_finished(chunks)


def _interactions(prefix: bytes) -> bool:
    """Return whether the final event was read, or `[DONE]` after a final status."""
    data, rest = _split(prefix)
    _, last = _last(rest)
    status = ""
    for payload in [*data, last or ""]:
        if payload.startswith("[DONE]"):
            return status in _INTERACTION_STATUSES
        event = _json(payload) or {}
        kind = event.get("event_type", "")
        if kind in _INTERACTION_ENDS:
            return event["interaction"].get("status", "completed") in _INTERACTION_STATUSES
        if kind == "interaction.status_update":
            status = event["status"]
        elif kind in ("step.start", "step.delta"):
            status = ""  # a step that goes on needs another status
    return False


def _is_finished(chunks: list[dict[str, Any]]) -> bool:
    """Return whether each candidate ends without later content.

    A finish reason beside code is no end, and one that says nothing neither.
    """
    ends: dict[int, bool] = {}
    for chunk in chunks:
        inner = chunk.get("response", chunk)  # Code Assist has it in an envelope
        for candidate in inner.get("candidates", ()):
            number = candidate.get("index", 0)
            parts = (candidate.get("content") or {}).get("parts") or []
            full = [part for part in parts if part.get("text") or part.keys() - _TEXT_FIELDS]
            says = str(candidate.get("finishReason") or "_UNSPECIFIED")
            is_code = bool(full) and "executableCode" in full[-1]
            if not says.endswith("_UNSPECIFIED") and not is_code:
                ends[number] = True
            elif full or number not in ends:
                ends[number] = False
        reason = inner.get("promptFeedback", {}).get("blockReason") or "_UNSPECIFIED"
        if not str(reason).endswith("_UNSPECIFIED"):
            ends = dict.fromkeys(ends or [0], True)
    return bool(ends) and all(ends.values())


def _json(payload: str) -> dict[str, Any] | None:
    """Return a payload's object; None if it is not one."""
    try:
        value = json.loads(payload)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


_READERS: dict[str, Callable[[bytes], bool]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
    "gemini_interactions": _interactions,
}
