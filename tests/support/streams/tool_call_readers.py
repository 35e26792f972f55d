"""Independent readers that assign tool call pieces to calls, one for each dialect.

A reader follows the places that the pieces name (index, item id, output index), and nothing
else.  It knows no server's quirks: a stream that it does not read as the package does before
any fault is left out of the comparison.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from support.bodies.json_values import is_json

__all__ = ["READERS", "Call", "ToolCalls", "frames_of", "payload_of"]

_DONE = "[DONE]"
_END = re.compile(rb"(?:\r\n|\n|\r)(?:\r\n|\n|\r)")


def frames_of(body: bytes) -> list[bytes]:
    """Return the frames of an event stream, each with its blank line."""
    starts = [0, *(match.end() for match in _END.finditer(body))]
    frames = [body[a:b] for a, b in zip(starts, [*starts[1:], len(body)], strict=True)]
    return [frame for frame in frames if frame.strip()]


def payload_of(frame: bytes) -> Any:
    """Return a frame's JSON value, or `[DONE]`; None if it has none."""
    lines = frame.decode("utf-8", "replace").splitlines()
    data = "\n".join(line[5:].strip() for line in lines if line.startswith("data:"))
    if data.startswith(_DONE):
        return _DONE
    try:
        return json.loads(data)
    except ValueError:
        return None


@dataclass
class Call:
    """A tool call accumulated from frames.

    Attributes:
        id: Its id; empty if it has none.
        name: Its name.
        pieces: The arguments that came by deltas for its place.
        wholes: The arguments that frames told as a whole.
        tree: The arguments that came by `partialArgs`, as far as they came; None for others.
        is_open: Whether more `partialArgs` were announced.
        string: The path of a string that is not finished.
    """

    id: str
    name: str
    pieces: str = ""
    wholes: list[str] = field(default_factory=list)
    tree: dict[str, Any] | None = None
    is_open: bool = False
    string: str = ""

    def grow(self, piece: object) -> None:
        """Add a piece as Chat servers send it: fragment, object, placeholder, or repetition."""
        text = piece if isinstance(piece, str) else json.dumps(piece)
        if self.pieces == "{}" and text.lstrip().startswith("{"):
            self.pieces = text
        elif text != self.pieces or len(text) < 3 or not is_json(text):
            self.pieces += text

    def may_be(self, arguments: str) -> bool:
        """Return whether arguments agree with the frames."""
        if self.tree is not None:
            whole = json.dumps(self.tree, ensure_ascii=False, separators=(",", ":"))
            if self.is_open or self.string:
                return whole.startswith(arguments) and len(arguments) < len(whole)
            return _same(arguments, whole)
        told = [*self.wholes, *([self.pieces] if self.pieces else [])] or [""]
        return any(_same(arguments, whole) for whole in told) and (
            all(_same(arguments, whole) for whole in told)
        )


@dataclass
class ToolCalls:
    """The calls of a stream, and unassigned pieces."""

    calls: list[Call] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    texts: dict[Any, str] = field(default_factory=dict)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return bool(json.loads(one or "{}") == json.loads(other or "{}"))
    except ValueError:
        return False


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def read_anthropic(payloads: Iterable[Any]) -> ToolCalls:
    """Read calls by `index`, between a block's start and stop."""
    found = ToolCalls()
    open_: dict[Any, Call | None] = {}
    for value in payloads:
        if not isinstance(value, dict):
            continue
        index, delta = value.get("index"), value.get("delta")
        match value.get("type"):
            case "content_block_start":
                block = value.get("content_block") or {}
                open_[index] = None
                if block.get("type") in ("tool_use", "server_tool_use"):
                    call = open_[index] = Call(block.get("id", ""), block.get("name", ""))
                    if block.get("input"):
                        call.wholes.append(json.dumps(block["input"]))
                    found.calls.append(call)
            case "content_block_delta" if isinstance(delta, dict):
                if delta.get("type") == "input_json_delta":
                    owner = open_.get(index)
                    if owner is None:
                        found.orphans.append(delta["partial_json"])
                    else:
                        owner.pieces += delta["partial_json"]
                elif delta.get("type") == "text_delta":
                    found.texts[index] = found.texts.get(index, "") + delta["text"]
            case "content_block_stop":
                open_.pop(index, None)
            case "message_stop":
                return found  # what follows is of no message
    return found


def read_chat(payloads: Iterable[Any]) -> ToolCalls:
    """Read calls by choice and `index`, up to `[DONE]`; a new id begins a new call."""
    found = ToolCalls()
    at: dict[Any, tuple[Call, Any]] = {}
    for value in payloads:
        if value == _DONE:
            break
        if not isinstance(value, dict):
            continue
        chunk_id = value.get("id") or None
        for choice in _objects(value.get("choices")):
            delta = choice.get("delta") or choice.get("message") or {}
            number = choice.get("index", 0)
            if isinstance(text := delta.get("content"), str):
                found.texts[number] = found.texts.get(number, "") + text
            for fragment in _objects(delta.get("tool_calls")):
                key = (number, fragment.get("index"))
                function = fragment.get("function") or fragment.get("custom") or {}
                piece = function.get("arguments") or function.get("input") or ""
                id = fragment.get("id") or ""
                known = at.get((number, id)) if id else at.get(key)
                late = None if key[1] is None else at.get(key)  # the id of a call at an index
                if known is None and late is not None and not late[0].id:
                    known = None if _is_another(late[0], id, function.get("name")) else late
                if key[1] is None and not id and not function.get("name"):
                    known = _growing(at, number, found.calls) or known
                if known is None and not id and not function.get("name"):
                    if not piece:
                        continue
                    known = _drifted(at, key, found.calls)
                    if known is None:
                        found.orphans.append(piece)
                        continue
                if known is None or _is_another(known[0], id, function.get("name")):
                    known = at[key] = Call(id, function.get("name") or ""), chunk_id
                    if id:
                        at[number, id] = known
                    found.calls.append(known[0])
                elif chunk_id and known[1] not in (None, chunk_id):  # a piece of another answer
                    found.orphans.append(piece)
                    continue
                name = function.get("name") or ""
                if not known[0].name or (name != known[0].name and not known[0].pieces):
                    known[0].name += name  # in parts, or late
                known[0].grow(piece)
    return found


def _is_another(call: Call, id: str, name: str | None) -> bool:
    """Return whether a fragment at a call's index belongs to another call."""
    if id and call.id:
        return bool(id != call.id)
    is_new = id or (call.pieces and not call.id)
    return bool(name and call.name and name != call.name and is_new)


def _growing(
    at: dict[Any, tuple[Call, Any]], choice: int, started: list[Call]
) -> tuple[Call, Any] | None:
    """Return a choice's only incomplete call, for a fragment without id and index.

    A call that has no arguments when the next begins is one without any.
    """
    calls = {id(known[0]): known for key, known in at.items() if key[0] == choice}
    last = next((call for call in reversed(started) if id(call) in calls), None)
    growing = [
        known
        for known in calls.values()
        if not is_json(known[0].pieces) and (known[0].pieces or known[0] is last)
    ]
    return growing[0] if len(growing) == 1 else None


def _drifted(
    at: dict[Any, tuple[Call, Any]], key: tuple[int, Any], started: list[Call]
) -> tuple[Call, Any] | None:
    """Return a choice's only incomplete call, moved to the index `key` (SGLang)."""
    known = _growing(at, key[0], started)
    if known is None or not known[0].pieces:
        return None
    for other in [k for k, call in at.items() if call is known and not isinstance(k[1], str)]:
        del at[other]
    at[key] = known
    return known


def read_responses(payloads: Iterable[Any]) -> ToolCalls:
    """Read calls by `item_id`; complete items in any event count."""
    found = ToolCalls()
    items: dict[Any, Call] = {}

    def tell(item: Any, known: Call | None = None) -> None:
        if not isinstance(item, dict) or item.get("type") not in (
            "function_call",
            "custom_tool_call",
        ):
            return
        key = item.get("id") or item.get("call_id")
        call = known or items.get(key)
        if call is None:
            call = items[key] = Call(item.get("call_id", ""), item.get("name", ""))
            found.calls.append(call)
        whole = item.get("arguments", item.get("input")) or ""
        if whole:
            call.wholes.append(whole)

    last: Any = None
    for value in payloads:
        # An event with the number and the content of the last one is the last one, resent.
        if not isinstance(value, dict) or (
            value == last and value.get("sequence_number") is not None
        ):
            continue
        last = value
        kind = str(value.get("type"))
        if kind.startswith("response.output_item."):
            tell(value.get("item"))
        elif kind.endswith(("arguments.delta", "tool_call_input.delta")):
            call = items.get(value.get("item_id"))
            if call is None:
                found.orphans.append(value.get("delta", ""))
            else:
                call.pieces += value.get("delta", "")
        elif kind.endswith(("arguments.done", "tool_call_input.done")):
            call = items.get(value.get("item_id"))
            if call is not None:
                call.wholes.append(value.get("arguments", value.get("input")) or "")
        elif kind == "response.output_text.delta":
            key = (value.get("item_id"), value.get("content_index"))
            found.texts[key] = found.texts.get(key, "") + value.get("delta", "")
        elif kind in ("response.completed", "response.incomplete"):
            for item in _objects((value.get("response") or {}).get("output")):
                # The item ids of the last event are often its own.
                ids = {call.id: call for call in found.calls if call.id}
                tell(item, ids.get(item.get("call_id")))
            break  # what stands behind the end is no part of the response
    for call in found.calls:
        if call.wholes and call.wholes[0].startswith(call.pieces):
            call.pieces = call.wholes[0]  # a whole may go on from the deltas
    return found


def read_gemini(payloads: Iterable[Any]) -> ToolCalls:
    """Read whole calls in order, and `partialArgs` by the named or open call."""
    found = ToolCalls()
    open_: dict[Any, Call] = {}
    for value in payloads:
        for chunk in value if isinstance(value, list) else [value]:
            if not isinstance(chunk, dict):
                continue
            for candidate in _objects(chunk.get("candidates")):
                content = candidate.get("content")
                parts = _objects(content.get("parts")) if isinstance(content, dict) else []
                key = candidate.get("index", 0)
                for part in parts:
                    call = part.get("functionCall")
                    if isinstance(call, dict):
                        _read_gemini_call(call, key, open_, found)
                        continue
                    if part.get("text") != "":  # a call is no longer open behind other content
                        open_.pop(key, None)
                    if isinstance(part.get("text"), str) and not part.get("thought"):
                        found.texts[key] = found.texts.get(key, "") + part["text"]
    return found


def _read_gemini_call(value: Any, key: Any, open_: dict[Any, Call], found: ToolCalls) -> None:
    """Read one `functionCall`, whole or a fragment of the open call."""
    id, name, entries = value.get("id") or "", value.get("name") or "", value.get("partialArgs")
    entries = _objects(entries)
    goes_on = any(one.get("willContinue") is True for one in (value, *entries))
    known = open_.get(key)
    names_it = known is not None and id in ("", known.id) and name in ("", known.name)
    if known is not None and names_it and (not name or id or known.id or entries):
        call = known
    elif not name:
        found.orphans += map(json.dumps, entries)
        return
    else:
        call = Call(id, name)
        found.calls.append(call)
        open_.pop(key, None)  # a call before it that had no end never gets one
        if not entries and not goes_on:
            call.wholes.append(json.dumps(value.get("args") or {}))
            return
        call.tree = {}
    for entry in entries:
        _set(call, entry)
    call.is_open = goes_on
    open_.pop(key, None)
    if goes_on:
        open_[key] = call


def _set(call: Call, entry: dict[str, Any]) -> None:
    """Set one value in the arguments, or extend its string."""
    path = entry["jsonPath"]
    steps = [int(n) if n else name for n, name in re.findall(r"\[(\d+)\]|([^.\[\]$]+)", path)]
    at: Any = call.tree
    for step, after in pairwise(steps):
        inner: Any = [] if isinstance(after, int) else {}
        if isinstance(at, dict):
            at = at.setdefault(step, inner)
        elif step == len(at):
            at.append(inner)
            at = inner
        else:
            at = at[step]
    is_string = isinstance(entry.get("stringValue"), str)
    value: Any = entry.get("stringValue", entry.get("numberValue", entry.get("boolValue")))
    if "nullValue" not in entry and value is None:
        value = [] if path.endswith("[]") else {}
    if is_string and call.string == path:
        at[steps[-1]] += value
    elif isinstance(at, dict):
        if value not in ([], {}) or steps[-1] not in at:  # `[]` also ends a list
            at[steps[-1]] = value
    else:
        at.append(value)
    call.string = path if entry.get("willContinue") is True else ""


def read_interactions(payloads: Iterable[Any]) -> ToolCalls:
    """Read by `index`: a step grows between its start and its stop; a start may be sent again."""
    found = ToolCalls()
    open_: dict[Any, Call | None] = {}
    starts: dict[Any, dict[str, Any]] = {}
    for value in payloads:
        if not isinstance(value, dict):
            continue
        index, step, delta = (value.get(key) for key in ("index", "step", "delta"))
        match value.get("event_type"):
            case "step.start" if isinstance(step, dict) and starts.get(index) != step:
                open_[index], starts[index] = None, step
                kind = step.get("type", "")
                if kind.endswith("_call"):
                    name = step.get("name") or kind.removesuffix("_call")
                    call = open_[index] = Call(step.get("id", ""), name)
                    found.calls.append(call)
                    _add_arguments(call, step)
            case "step.delta" if isinstance(delta, dict):
                owner = open_.get(index)
                if delta.get("type") == "text":
                    found.texts[index] = found.texts.get(index, "") + delta["text"]
                elif "arguments" in delta and owner is None:
                    found.orphans.append(json.dumps(delta["arguments"]))
                elif owner is not None and delta.get("type") == "arguments_delta":
                    owner.pieces += delta["arguments"]
                elif owner is not None:
                    _add_arguments(owner, delta)
            case "step.stop":
                open_.pop(index, None)
            case "interaction.completed":
                break  # what follows is of no interaction
    for call in open_.values():
        # Neither arguments nor the stop came: the call is unfinished.
        if call is not None and not call.pieces and not call.wholes:
            call.pieces = "{"
    return found


def _add_arguments(call: Call, fields: dict[str, Any]) -> None:
    if fields.get("arguments"):  # a call starts with `{}`
        call.wholes.append(json.dumps(fields["arguments"]))


READERS: dict[str, Callable[[Iterable[Any]], ToolCalls]] = {
    "anthropic": read_anthropic,
    "openai_chat": read_chat,
    "openai_responses": read_responses,
    "gemini": read_gemini,
    "gemini_interactions": read_interactions,
}
