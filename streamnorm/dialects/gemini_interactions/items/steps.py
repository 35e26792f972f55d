"""The steps of one interaction, each by its number on the wire."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Event
from streamnorm._core.json import clean, compact, is_array, is_object, string_of
from streamnorm.dialects.gemini.interactions.blocks import Blocks
from streamnorm.dialects.gemini.interactions.results import ResultStep
from streamnorm.dialects.gemini.interactions.steps import Step
from streamnorm.dialects.gemini.interactions.tools import make_step, step_of_delta
from streamnorm.dialects.gemini.interactions.wire import RawStep, raw_event

__all__ = ["Series"]


class Series:
    """Follow the steps; some may be open beside each other.

    Args:
        blocks: What they share.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._shared = blocks.shared
        self._open: dict[int, Step] = {}
        self._kinds: dict[int, str] = {}  # of those that have stopped, too
        self._latest = -1

    def open(self, number: int) -> Step | None:
        """Return a step that has not stopped."""
        return self._open.get(number)

    def read(self, word: str, value: dict[str, Any], data: str, events: list[Event]) -> None:
        """Take an event of a step.

        Args:
            word: `start`, `delta` or `stop`.
            value: The event.
            data: Its JSON text.
            events: Where to append.
        """
        raw = raw_event(data)
        index = value.get("index")
        number = index if type(index) is int else self._latest + (word == "start")
        match word:
            case "start":
                step = value.get("step", value.get("content"))
                self._shared.keep(len(data))
                told = step if is_object(step) else {}
                self._start(number, told, raw.step or raw.content, events)
            case "delta":
                delta = value.get("delta")
                told = delta if is_object(delta) else {}
                self._take(number, told, raw.delta, data, events)
            case _:
                self._stop(number, events)

    def whole(self, interaction: dict[str, Any], data: str, events: list[Event]) -> None:
        """Take the steps that only the end of the interaction tells."""
        if self._kinds:
            return
        raw = raw_event(data).interaction
        told = [(interaction.get("steps"), raw.steps), (interaction.get("outputs"), raw.outputs)]
        for steps, texts in told:
            for place, step in enumerate(steps if is_array(steps) else ()):
                if is_object(step):
                    text = texts[place] if place < len(texts) else None
                    self._start(self._latest + 1, step, text, events)
                    self._stop(self._latest, events)

    def finish(self, events: list[Event]) -> None:
        """Append what ends the steps that never stopped."""
        for step in self._open.values():
            self._shared.note("missing_block_stop", "step")
            step.stop(events, told=False)
        self._open = {}

    def _start(
        self, number: int, wire: dict[str, Any], raw: RawStep | None, events: list[Event]
    ) -> Step:
        kind = string_of(wire, "type")
        if number in self._open:
            self._shared.note("reused_index", "step")
            self._open.pop(number).stop(events, told=True)
        self._shared.check_names(kind)
        step = make_step(kind, wire, _arguments(wire, raw), self._blocks)
        self._open[number], self._kinds[number], self._latest = step, kind, number
        step.start(events)
        return step

    def _take(
        self,
        number: int,
        delta: dict[str, Any],
        raw: RawStep | None,
        data: str,
        events: list[Event],
    ) -> None:
        kind = string_of(delta, "type") or ("text" if "text" in delta else "")
        kind = kind or ("thought_summary" if "content" in delta else "")
        step = self._open.get(number)
        if step is None:
            implied = self._kinds.get(number) or step_of_delta(kind)
            if implied is not None:
                self._shared.keep(len(data))
                self._shared.note("misplaced_delta", "step")
                step = self._start(number, {"type": implied}, None, events)
        if isinstance(step, ResultStep):
            self._shared.keep(len(data))
        if step is None or not step.take(kind, delta, _arguments(delta, raw), events):
            index = None if step is None else step.index
            self._blocks.opaque(kind or "delta", delta, events, index=index)

    def _stop(self, number: int, events: list[Event]) -> None:
        step = self._open.pop(number, None)
        if step is None:
            self._shared.note("extra_block_stop", "step")
        else:
            step.stop(events, told=True)


def _arguments(wire: dict[str, Any], raw: RawStep | None) -> str:
    """Return the arguments in a step or a delta as they stand on the wire."""
    text = "" if raw is None else raw.text()
    if text:
        return text
    value = wire.get("arguments")
    if isinstance(value, str):
        return clean(value)
    return compact(value) if value else ""
