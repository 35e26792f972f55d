"""The steps that hold what a tool gave, and those of types unknown.

https://ai.google.dev/api/interactions-api (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import OpaqueBlock, ServerToolResult
from streamnorm._core.events import BlockStop, Event
from streamnorm._core.json import clean, compact, is_array, string_of
from streamnorm.dialects.gemini.interactions.blocks import INTERACTIONS, Blocks
from streamnorm.dialects.gemini.interactions.steps import Step
from streamnorm.dialects.gemini.interactions.wire import cleaned
from streamnorm.dialects.gemini.shared import answered

__all__ = ["OWN_KIND", "OpaqueStep", "ResultStep"]

OWN_KIND = "_step"
"""What the kinds of the provider's calls and results end in, or those of other vendors that
end alike would be taken for theirs."""


class ResultStep(Step):
    """What a call gave that the provider executed: whole, once it stops."""

    def __init__(self, kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> None:
        super().__init__(kind, wire, raw, blocks)
        self._result: dict[str, Any] = {}

    @property
    def index(self) -> int | None:
        return None

    def start(self, events: list[Event]) -> None:
        self._merge(self._wire)

    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
        if kind != self.kind:
            return False
        self._merge(delta)
        return True

    def stop(self, events: list[Event], *, told: bool) -> None:
        id = string_of(self._result, "call_id")
        if self.kind == "function_result":
            id = answered(self._blocks.asked, id, string_of(self._result, "name"))
        id = id or self._blocks.served
        self._blocks.shared.check_names(id)
        result = ServerToolResult(id, clean(self.kind) + OWN_KIND, self._result)
        events.append(BlockStop(self._blocks.begin(result, None, events)))

    def _merge(self, wire: dict[str, Any]) -> None:
        for key, value in wire.items():
            if key == "type" or value is None or (value == "" and self._result.get(key)):
                continue
            before = self._result.get(key)
            if is_array(before) and is_array(value):
                before += value
            else:
                self._result[key] = cleaned(key, list(value) if is_array(value) else value)


class OpaqueStep(Step):
    """A step of a type that only the vendor's clients know, and the user's own."""

    def __init__(self, kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> None:
        super().__init__(kind, wire, raw, blocks)
        self._index = -1

    @property
    def index(self) -> int | None:
        return self._index

    def start(self, events: list[Event]) -> None:
        block = OpaqueBlock(INTERACTIONS, clean(self.kind), compact(self._wire))
        self._index = self._blocks.begin(block, None, events)

    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
        return False

    def stop(self, events: list[Event], *, told: bool) -> None:
        events.append(BlockStop(self._index))
