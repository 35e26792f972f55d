"""Equality of bodies of one dialect by meaning.

A field that is null says what its absence says.  Of a stream what its frames add up to counts,
and not how text is cut into deltas.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.bodies.type_cases.case import JSON

__all__ = ["difference", "said", "said_by_stream"]

# Random padding, and the numbers of frames.
_NO_CONTENT = frozenset({"obfuscation", "sequence_number"})


def said(value: Any) -> Any:
    """Return a JSON value without null fields and empty objects."""
    if isinstance(value, list):
        return [said(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: JSON = {}
    for name, item in value.items():
        left = None if name in _NO_CONTENT else said(item)
        if left is not None and not (left == {} and item):
            found[name] = left
    return found


def said_by_stream(frames: list[JSON], dialect: str) -> Any:
    """Return the value accumulated from a stream's payloads."""
    return said(_MERGE[dialect](frames))


def difference(expected: Any, found: Any, path: str = "$") -> str:
    """Return the first difference of two JSON values; "" if they are equal."""
    if expected == found:
        return ""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            if name not in found:
                return f"{path}.{name} is gone"
            if name not in expected:
                return f"{path}.{name} is added"
            if there := difference(expected[name], found[name], f"{path}.{name}"):
                return there
    if isinstance(expected, list) and isinstance(found, list):
        if len(expected) != len(found):
            return f"{path} has {len(found)} elements, expected {len(expected)}"
        for number, (before, after) in enumerate(zip(expected, found, strict=True)):
            if there := difference(before, after, f"{path}[{number}]"):
                return there
    return f"{path} is {json.dumps(found)[:60]}, expected {json.dumps(expected)[:60]}"


def without(value: JSON, *names: str) -> JSON:
    return {name: item for name, item in value.items() if name not in names}


# Chat Completions


def _chat(frames: list[JSON]) -> JSON:
    whole: JSON = {}
    choices: dict[int, JSON] = {}
    for frame in frames:
        whole |= said({name: item for name, item in frame.items() if name != "choices"})
        for choice in frame["choices"]:
            held = choices.setdefault(choice["index"], {"delta": {}, "logprobs": {}})
            _add_delta(held["delta"], choice.get("delta") or {})
            _add_delta(held["logprobs"], choice.get("logprobs") or {})
            held |= said({n: v for n, v in choice.items() if n not in ("delta", "logprobs")})
    return {**whole, "choices": choices}


# Texts of deltas that are repeated whole, not in pieces.
_REPEATED = frozenset({"role", "id", "type", "name", "transcript"})


def _add_delta(whole: JSON, delta: JSON) -> None:
    """Merge a delta into the accumulated value."""
    for name, item in delta.items():
        held = whole.get(name)
        if name == "tool_calls" and item:
            calls = whole.setdefault(name, {})
            for call in item:
                _add_delta(calls.setdefault(call["index"], {}), call)
        elif isinstance(item, dict):
            _add_delta(whole.setdefault(name, {}), item)
        elif isinstance(item, list):
            whole[name] = [*(held or ()), *item]
        elif isinstance(item, str) and held is not None and name not in _REPEATED:
            whole[name] = held + item
        elif item is not None and item != "":
            whole[name] = item


# Anthropic


def _anthropic(frames: list[JSON]) -> JSON:
    whole: JSON = {"blocks": [], "others": []}
    blocks: dict[int, JSON] = {}
    for frame in frames:
        match frame["type"]:
            case "message_start":
                whole["start"] = without(frame["message"], "usage")
                whole["usage"] = frame["message"]["usage"]
            case "content_block_start":
                start = frame["content_block"]
                # A text without citations may say so.
                start = start if start.get("citations") else without(start, "citations")
                block = {"start": start, "deltas": []}
                blocks[frame["index"]] = block
                whole["blocks"].append(block)
            case "content_block_delta":
                _add_content(blocks[frame["index"]]["deltas"], frame["delta"])
            case "content_block_stop" | "ping":
                pass
            case "message_delta":
                whole["end"] = without(frame, "usage")
                whole["usage"] = {**whole["usage"], **said(frame["usage"])}
            case _:
                whole["others"].append(frame)
    return whole


_TEXT_OF = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}


def _add_content(deltas: list[JSON], delta: JSON) -> None:
    if said(delta) == {"type": "compaction_delta"}:  # no summary was made
        return
    name = _TEXT_OF.get(delta["type"])
    last = deltas[-1] if deltas else {}
    if name is None or last.get("type") != delta["type"]:
        deltas.append(dict(delta))
    else:
        last |= {**delta, name: last[name] + delta[name]}


# Responses


def _responses(frames: list[JSON]) -> list[JSON]:
    merged: list[JSON] = []
    for frame in frames:
        # How much of an item or a part is known when it starts is not said anywhere.
        for name in ("item", "part"):
            if frame["type"].endswith(f"{name}.added"):
                frame = {**frame, name: frame[name]["type"]}
        last = merged[-1] if merged else {}
        is_more = frame["type"].endswith(".delta") and all(
            last.get(name) == frame.get(name)
            for name in ("type", "item_id", "output_index", "content_index", "summary_index")
        )
        if is_more and isinstance(frame.get("delta"), str):
            last["delta"] += frame["delta"]
            if "logprobs" in frame:
                last["logprobs"] = [*(last.get("logprobs") or ()), *frame["logprobs"]]
        else:
            merged.append(dict(frame))
    return merged


# Gemini


def _gemini(frames: list[JSON]) -> JSON:
    whole: JSON = {}
    candidates: dict[int, JSON] = {}
    for frame in frames:
        whole |= said({name: item for name, item in frame.items() if name != "candidates"})
        for candidate in frame.get("candidates") or ():
            held = candidates.setdefault(candidate.get("index") or 0, {"parts": []})
            content = candidate.get("content") or {}
            for part in content.get("parts") or ():
                _add_part(held["parts"], said(part))
            held |= said({n: v for n, v in candidate.items() if n not in ("content", "index")})
    return {**whole, "candidates": candidates}


def _add_part(parts: list[JSON], part: JSON) -> None:
    last = parts[-1] if parts else {}
    if part.get("thought") is False:
        part = without(part, "thought")
    if part in ({}, {"text": ""}):
        return
    if part.get("text") == "" and "text" in last:  # the end of the text before
        last |= without(part, "text")
        return
    if part.keys() == last.keys() and part.keys() <= {"text", "thought"}:
        last["text"] += part["text"]
    else:
        parts.append(part)


_MERGE: dict[str, Callable[[list[JSON]], Any]] = {
    "openai_chat": _chat,
    "anthropic": _anthropic,
    "openai_responses": _responses,
    "gemini": _gemini,
}
