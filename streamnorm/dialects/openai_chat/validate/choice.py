"""The letter of one choice: its role, its tool calls, its finish, and unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from streamnorm._core.json import is_array, is_object
from streamnorm._core.shapes import found, holds_object, is_count, problems
from streamnorm.dialects.openai_chat.validate.shapes import (
    CUSTOM_START,
    FUNCTION_START,
    LATER_PIECE,
)

__all__ = ["Choice"]

# Fields of a delta with rules of their own; clients merge the others as they can.
_RULED = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
# Those of the others that a message may name.
_NAMED = frozenset({"annotations", "audio", "reasoning_details"})
_COMPLETE = frozenset({"stop", "tool_calls", "function_call"})
"""The reasons at which arguments are whole."""


class _Call(Struct):
    is_custom: bool = False
    pieces: list[str] = field(default_factory=list)


class Choice:
    """One choice of a stream.

    Args:
        index: Which one.

    Attributes:
        finished: Whether its finish_reason came.
    """

    def __init__(self, index: int) -> None:
        self.finished = False
        self._index = index
        self._has_role = False
        self._calls: dict[int, _Call] = {}
        self._next = 0
        self._latest = 0
        self._ids: set[str] = set()
        self._function: list[str] | None = None  # legacy: the call, and its arguments
        self._seen: set[tuple[str | int, ...]] = set()

    def read(self, part: dict[str, Any], where: str) -> Iterator[str]:
        """Yield what is wrong with the next part of the choice, but for its shape.

        Args:
            part: An entry of `choices`.
            where: Where it stands.
        """
        delta, reason = part.get("delta"), part.get("finish_reason")
        finishes = reason not in (None, "")
        if self.finished:
            again = "second finish_reason" if finishes else "delta after the finish_reason"
            yield f"{again} of choice {self._index}, expected none"
            return
        if is_object(delta):
            yield from self._role(delta)
            yield from self._function_call(delta.get("function_call"))
            if is_array(pieces := delta.get("tool_calls")):
                if finishes:
                    yield f"{where}.delta.tool_calls beside finish_reason, expected before it"
                for number, piece in enumerate(pieces):
                    if is_object(piece):
                        yield from self._piece(piece, f"{where}.delta.tool_calls[{number}]")
            for name, value in delta.items():
                if name not in _RULED:
                    label = name if name in _NAMED else f"field of {len(name)} characters"
                    yield from self._merge(value, (name,), f"{label} in {where}.delta")
        if finishes:
            self.finished = True
            yield from self._finish(reason)

    def _role(self, delta: dict[str, Any]) -> Iterator[str]:
        if self._has_role:
            if "role" in delta:
                yield f"second role of choice {self._index}, expected it in the first delta alone"
            return
        self._has_role = True
        if "role" not in delta:
            yield f"first delta of choice {self._index} without role, expected assistant"
        elif delta["role"] != "assistant":
            yield f"role of choice {self._index} is {found(delta['role'])}, expected assistant"

    def _piece(self, piece: dict[str, Any], where: str) -> Iterator[str]:
        index = piece.get("index")
        if not is_count(index):
            said = found(index) if "index" in piece else "missing"
            yield f"{where}.index is {said}, expected an integer from 0"
            # One mistake is told once: who names a call begins it.
            index = self._next if piece.get("id") else self._latest
        call = self._calls.get(index)
        self._latest = index
        if call is None:
            yield from self._start(index, piece, where)
            return
        body = piece.get("custom" if call.is_custom else "function")
        again: list[str] = [name for name in ("id", "type") if name in piece]
        if is_object(body) and "name" in body:
            again.append("name")
        for name in again:
            yield f"second {name} of tool call {index}, expected it in the first piece alone"
        yield from problems(LATER_PIECE, piece, where)
        _append(call, piece)

    def _start(self, index: int, piece: dict[str, Any], where: str) -> Iterator[str]:
        if index > self._next:
            yield f"tool call {index} begins, expected {self._next}"
        self._next = max(self._next, index + 1)
        is_custom = piece.get("type") == "custom"
        call = self._calls[index] = _Call(is_custom)
        yield from problems(CUSTOM_START if is_custom else FUNCTION_START, piece, where)
        id = piece.get("id")
        if isinstance(id, str) and id:
            if id in self._ids:
                yield f"id of tool call {index} is that of another, expected its own"
            self._ids.add(id)
        _append(call, piece)

    def _function_call(self, piece: object) -> Iterator[str]:
        """Check a piece of a call of before there were tools."""
        if not is_object(piece):
            return
        if self._function is None:
            self._function = []
            for name in ("name", "arguments"):
                if name not in piece:
                    yield f"function_call begins without {name}, expected a string"
        elif "name" in piece:
            yield "second name of function_call, expected it in the first piece alone"
        if isinstance(text := piece.get("arguments"), str):
            self._function.append(text)

    def _finish(self, reason: object) -> Iterator[str]:
        if reason == "tool_calls" and not self._calls:
            yield "finish_reason is tool_calls without a tool call, expected another"
        if reason == "function_call" and self._function is None:
            yield "finish_reason is function_call without one, expected another"
        if not isinstance(reason, str) or reason not in _COMPLETE:
            return
        calls = [(f"tool call {n}", c.pieces) for n, c in self._calls.items() if not c.is_custom]
        if self._function is not None:
            calls.append(("function_call", self._function))
        for name, pieces in calls:
            text = "".join(pieces)
            if not holds_object(text):
                size = f"{len(text)} characters"
                yield f"arguments of {name} in {size} are no JSON object, expected one"

    def _merge(self, value: object, path: tuple[str | int, ...], what: str) -> Iterator[str]:
        """Yield what the official helpers cannot add to what came before.

        They join strings and merge objects; they add up numbers, and take a list again
        only if its entries have indexes.
        """
        if value is None or isinstance(value, str):
            return
        if is_object(value):
            for name, inner in value.items():
                if name not in ("index", "type"):
                    yield from self._merge(inner, (*path, name), what)
        elif is_array(value) and all(_has_index(entry) for entry in value):
            for entry in value:
                yield from self._merge(entry, (*path, entry["index"]), what)
        elif path in self._seen:
            yield f"{what} is {found(value)} again, expected strings or entries with an index"
        else:
            self._seen.add(path)


def _append(call: _Call, piece: dict[str, Any]) -> None:
    function = piece.get("function")
    if is_object(function) and isinstance(text := function.get("arguments"), str):
        call.pieces.append(text)


def _has_index(value: object) -> bool:
    return is_object(value) and is_count(value.get("index"))
