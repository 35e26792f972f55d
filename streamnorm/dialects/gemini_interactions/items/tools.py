"""The steps that call tools, and which step is which.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  Of the kinds of calls that
the provider executes the last word is `step`, or those of other vendors that end alike
would be taken for theirs.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import ServerToolCall, ToolCall
from streamnorm._core.events import BlockStop, Event, JSONDelta, SignatureDelta, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean, string_of
from streamnorm.dialects.gemini.answer import issued
from streamnorm.dialects.gemini.interactions.blocks import Blocks, Growth
from streamnorm.dialects.gemini.interactions.model import OutputStep, ThoughtStep
from streamnorm.dialects.gemini.interactions.results import OWN_KIND, OpaqueStep, ResultStep
from streamnorm.dialects.gemini.interactions.steps import Step, rest_of
from streamnorm.dialects.gemini.interactions.wire import Delta, MoreArguments

__all__ = ["FUNCTION_CALL", "make_step", "step_of_delta"]

FUNCTION_CALL = "function_call"
_CALL, _RESULT = "_call", "_result"
_FILES = frozenset({"image", "document", "audio", "video"})
_OUTPUTS = frozenset({"model_output", "text", *_FILES})
_OF_CALL = ("type", "id", "name", "arguments")


def make_step(kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> Step:
    """Return what follows a step of a type."""
    if kind in _OUTPUTS:
        return OutputStep(kind, wire, raw, blocks)
    if kind == "thought":
        return ThoughtStep(kind, wire, raw, blocks)
    if kind == FUNCTION_CALL:
        return CallStep(kind, wire, raw, blocks)
    if kind.endswith(_CALL):
        return ServedStep(kind, wire, raw, blocks)
    if kind.endswith(_RESULT):
        return ResultStep(kind, wire, raw, blocks)
    return OpaqueStep(kind, wire, raw, blocks)


def step_of_delta(kind: str) -> str | None:
    """Return the type of step that a delta tells by its own; None if it does not."""
    if kind in ("text", "text_annotation_delta", "text_annotation", *_FILES):
        return "model_output"
    if kind in ("thought_summary", "thought_signature"):
        return "thought"
    if kind == "arguments_delta":
        return FUNCTION_CALL
    return kind if kind.endswith((_CALL, _RESULT)) else None


class _ArgumentsStep(Step):
    """A call, with its arguments whole or in pieces."""

    def __init__(self, kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> None:
        super().__init__(kind, wire, raw, blocks)
        self._growth: Growth | None = None
        self._whole = ""  # arguments that came whole, and went out
        self._pieces = False  # whether some came in pieces

    @property
    def index(self) -> int | None:
        return None if self._growth is None else self._growth.index

    def more(self, delta: Delta, events: list[Event]) -> bool:
        growth = self._growth
        if growth is None or growth.carry or type(delta) is not MoreArguments:
            return False
        if not self._pieces:
            return False  # the first may have to make up for what the start held
        if delta.arguments:
            events.append(JSONDelta(growth.index, delta.arguments))
        return True

    def _open(
        self, call: ToolCall | ServerToolCall, extra: dict[str, Any], events: list[Event]
    ) -> Growth:
        self._blocks.shared.count_call(call.id, call.name)
        index = self._blocks.begin(call, extra, events)
        self._growth = Growth(index, lambda text: JSONDelta(index, text))
        return self._growth

    def _add(self, growth: Growth, text: object, events: list[Event]) -> None:
        """Append a piece of the arguments, in place of what the start held."""
        if isinstance(text, str) and text:
            if self._whole:
                raise Fatal(StreamError("malformed", f"{self.kind} goes on behind its arguments"))
            self._replace()
            self._pieces = True
            growth.add(text, events)

    def _tell(self, growth: Growth, text: str, events: list[Event]) -> None:
        """Append whole arguments, in place of what the start held."""
        if not text:
            return
        if text == self._whole:
            self._blocks.shared.note("resent_arguments", self.kind)
            return
        if self._whole or self._pieces:
            raise Fatal(StreamError("malformed", f"{self.kind} with arguments twice"))
        self._replace()
        self._whole = text
        events.append(JSONDelta(growth.index, text))

    def _replace(self) -> None:
        if self._raw:
            self._raw = ""
            self._blocks.shared.note("placeholder_arguments", self.kind)

    def _finish(self, growth: Growth, events: list[Event]) -> None:
        growth.flush(events)
        if self._raw:
            events.append(JSONDelta(growth.index, self._raw))
        events.append(BlockStop(growth.index))


class CallStep(_ArgumentsStep):
    """A call of one of the client's tools."""

    def start(self, events: list[Event]) -> None:
        if string_of(self._wire, "name"):
            self._begin(self._wire, events)

    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
        growth = self._growth
        if kind not in ("arguments_delta", FUNCTION_CALL):
            if kind != "thought_signature" or growth is None:
                return False
            self._sign(growth, delta, events)
        elif growth is None:  # in the revision before, the delta has it all
            growth = self._begin({**self._wire, **delta}, events)
        elif kind == FUNCTION_CALL:
            self._sign(growth, delta, events)
        if kind == "arguments_delta":
            self._add(growth, delta.get("arguments"), events)
        elif kind == FUNCTION_CALL:
            self._tell(growth, raw, events)
        return True

    def stop(self, events: list[Event], *, told: bool) -> None:
        self._finish(self._growth or self._begin(self._wire, events), events)

    def _begin(self, wire: dict[str, Any], events: list[Event]) -> Growth:
        id, name = string_of(wire, "id"), string_of(wire, "name")
        if not name:
            raise Fatal(StreamError("malformed", "function call without a name, expected one"))
        signature = string_of(wire, "signature")
        value, issuer = issued(signature) if signature else (None, None)
        id = id or self._blocks.shared.mint("tool call")
        self._blocks.asked[id] = name
        call = ToolCall(id, name, signature=value, issuer=issuer)
        return self._open(call, rest_of(wire, *_OF_CALL, "signature"), events)

    def _sign(self, growth: Growth, wire: dict[str, Any], events: list[Event]) -> None:
        signature = string_of(wire, "signature")
        if signature:
            events.append(SignatureDelta(growth.index, *issued(signature)))


class ServedStep(_ArgumentsStep):
    """A call that the provider executes."""

    def start(self, events: list[Event]) -> None:
        if string_of(self._wire, "id"):
            self._begin(self._wire, events)

    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
        if kind not in ("arguments_delta", self.kind):
            return False
        growth = self._growth
        if growth is None:
            growth = self._begin({**self._wire, **delta}, events)
        elif kind == self.kind and (rest := rest_of(delta, *_OF_CALL)):
            self._blocks.opaque(kind, rest, events, index=growth.index)
        if kind == "arguments_delta":
            self._add(growth, delta.get("arguments"), events)
        else:
            self._tell(growth, raw, events)
        return True

    def stop(self, events: list[Event], *, told: bool) -> None:
        self._finish(self._growth or self._begin(self._wire, events), events)

    def _begin(self, wire: dict[str, Any], events: list[Event]) -> Growth:
        id = string_of(wire, "id") or self._blocks.shared.mint("server tool call")
        name = string_of(wire, "name") or clean(self.kind.removesuffix(_CALL))
        self._blocks.served = id
        call = ServerToolCall(id, name, kind=clean(self.kind) + OWN_KIND)
        return self._open(call, rest_of(wire, *_OF_CALL), events)
