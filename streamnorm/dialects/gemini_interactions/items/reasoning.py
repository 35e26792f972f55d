"""Steps of the model's thoughts: summaries and their signatures.

https://ai.google.dev/api/interactions-api (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Reasoning
from streamnorm._core.events import BlockStop, Event, ReasoningDelta, SignatureDelta
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm.dialects.gemini_interactions.items.step import (
    GrowingBlock,
    OpenStep,
    signature_from_wire,
)

__all__ = ["ThoughtStep"]


class ThoughtStep(OpenStep):
    """A step of thoughts: summaries, each a part, and signatures."""

    _has_started = False  # a block of the step, which may have stopped since
    _part = 0
    _signature = ""

    def start(self, events: list[Event]) -> None:
        summary = self._fields.get("summary")
        for number, content in enumerate(summary if is_array(summary) else ()):
            if self._block is not None:
                self._block.flush(events)
            self._part = number
            self._write(content, events)
        self._sign(string_of(self._fields, "signature"), events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        match kind:
            case "thought_summary":
                self._write(delta.get("content"), events)
            case "text" | "thought":  # reasoning, whatever its type says
                self._write(delta, events)
            case "thought_signature":
                self._sign(string_of(delta, "signature"), events)
            case _:
                return False
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        if not self._has_started and explicit:
            self._grow(events)
        if self._block is not None:
            self._block.flush(events)
            events.append(BlockStop(self._block.index))
            self._block = None

    def _write(self, content: object, events: list[Event]) -> None:
        text = content.get("text") if is_object(content) else None
        if not isinstance(text, str):
            if content is not None:
                self._blocks.opaque("thought_summary", content, events, index=self.index)
        elif text:
            if self._signature:
                self.stop(events, explicit=True)
            self._grow(events).append(text, events)

    def _grow(self, events: list[Event]) -> GrowingBlock:
        if self._block is None:
            if self._has_started:
                self._part = 0
            index = self._blocks.start(Reasoning(), None, events)
            self._has_started = True
            self._signature = ""
            self._block = GrowingBlock(index, lambda text: ReasoningDelta(index, text, self._part))
        return self._block

    def _sign(self, signature: str, events: list[Event]) -> None:
        if not signature:
            return
        if self._signature == signature:
            self._blocks.note("resent_signature", "thought")
            return
        if self._signature:
            self.stop(events, explicit=True)
        block = self._grow(events)
        block.flush(events)
        self._signature = signature
        events.append(SignatureDelta(block.index, *signature_from_wire(signature)))
