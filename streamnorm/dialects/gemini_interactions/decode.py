"""The events of Google's Interactions API, as another source of the dialect.

https://ai.google.dev/api/interactions-api and
https://ai.google.dev/gemini-api/docs/streaming (read 2026-11-22).  An interaction is a
series of steps, each with its start, deltas and stop: `steps`, `model`, `tools` and
`results` follow one of them, `series` all.  Here is what belongs to the whole: how it
begins, its status, counts and end.  The revision before, whose steps are contents, is read
alike.  Written is `generateContent` alone, where the bytes do not pass as they are.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    MessageStop,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, decode_any, is_object, string_of
from streamnorm._core.provider_errors import find_error, named_error
from streamnorm.dialects.gemini.interactions.blocks import Blocks
from streamnorm.dialects.gemini.interactions.series import Series
from streamnorm.dialects.gemini.interactions.steps import rest_of
from streamnorm.dialects.gemini.interactions.wire import PIECES, decode_delta
from streamnorm.dialects.gemini.interactions.words import TERMINAL, failed_status, status_reason
from streamnorm.dialects.gemini.shared import Shared
from streamnorm.dialects.gemini.usage import UsageReader
from streamnorm.sse import Frame

__all__ = ["Interactions"]

_DONE = "[DONE]"
_NAMED = ("id", "model", "status", "usage", "steps", "outputs", "error", "errors")
_OF_EVENT = ("event_type", "event_id", "metadata", "index")
_OF_STEP = ("step", "content", "delta", "usage")
_ENDS = ("completed", "complete")
_STARTS = ("created", "start", "in_progress", "queued")
_OF_WHOLE = {
    **dict.fromkeys((*_ENDS, *_STARTS), ("interaction",)),
    "status_update": ("interaction_id", "status", "usage"),
}
"""The fields of each event of the whole that are read; of others none is known."""
_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount",
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
"""Each count by the name that `generateContent` has for it: they add up alike."""


class Interactions:
    """Follow one interaction.

    Args:
        shared: Bounds and counts.

    Attributes:
        event_id: Of the last event, from which the vendor can go on.
        outcome: How it ended; None until it has.
    """

    def __init__(self, shared: Shared) -> None:
        self.event_id = ""
        self.outcome: Completed | None = None
        self._shared = shared
        self._blocks = Blocks(shared)
        self._series = Series(self._blocks)
        self._begun: dict[str, Any] | None = None  # what was told at the beginning
        self._status = ""
        self._usage = UsageReader()

    def read(self, frame: Frame, events: list[Event], lenient: tuple[str, ...] = ()) -> None:
        """Append the events of one frame.

        Raises:
            Fatal: The stream ends here.
            InvalidJSON: It holds no JSON.
        """
        try:
            delta = decode_delta(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events, lenient)
            return
        step = self._series.open(delta.index)
        if step is None or not step.more(delta.delta, events):
            self._read_any(frame, events, lenient)
        elif delta.event_id is not None:
            self.event_id = delta.event_id

    def ends(self, frame: Frame) -> bool:
        """Tell whether a frame without its blank line is whole, and ends the interaction."""
        if frame.data.startswith(_DONE):
            return True
        try:
            value = decode_any(frame.data, max_depth=self._shared.limits.max_json_depth)
        except InvalidJSON:
            return False
        if not is_object(value):
            return False
        family, _, word = _kind_of(value, frame).partition(".")
        if family != "interaction":
            return family == "error" or find_error(value) is not None
        return word != "status_update" and _status_of(word, value) in TERMINAL

    def end(self) -> None:
        """Take it that the source has ended.

        Raises:
            Fatal: The interaction has failed.
        """
        if self.outcome is None and (error := failed_status(self._status, {})) is not None:
            raise Fatal(error)

    # Events

    def _read_any(self, frame: Frame, events: list[Event], lenient: tuple[str, ...]) -> None:
        data = frame.data
        if data.startswith(_DONE):
            if self._status in TERMINAL:
                self._finish({}, events, lenient)
            return
        if not data.strip():
            return
        depth = self._shared.limits.max_json_depth
        value = decode_any(data, max_depth=depth, pieces=PIECES)
        if not is_object(value):
            self._blocks.opaque(frame.event, value, events)
            return
        kind = _kind_of(value, frame)
        self.event_id = string_of(value, "event_id") or self.event_id
        if kind == "error":
            raise Fatal(named_error(data, value))
        family, _, word = kind.partition(".")
        if family == "interaction":
            self._read_whole(word, value, data, events, lenient)
        elif family in ("step", "content") and word in ("start", "delta", "stop"):
            self._begin({}, events)
            self._count_metadata(value, events)
            self._series.read(word, value, data, events)
            self._count(value.get("usage"), events)
            if rest := rest_of(value, *_OF_EVENT, *_OF_STEP):
                self._blocks.opaque(kind, rest, events)
        elif (error := find_error(value)) is not None:
            raise Fatal(error)
        else:
            self._blocks.opaque(kind, value, events)

    def _read_whole(
        self,
        word: str,
        value: dict[str, Any],
        data: str,
        events: list[Event],
        lenient: tuple[str, ...],
    ) -> None:
        """Read an event of the whole interaction."""
        told = value.get("interaction")
        interaction: dict[str, Any] = told if is_object(told) else {}
        if word == "status_update":
            interaction = {"id": value.get("interaction_id"), "usage": value.get("usage")}
        self._begin(interaction, events)
        self._count_metadata(value, events)
        self._count(interaction.get("usage"), events)
        self._status = _status_of(word, value) or self._status
        if rest := rest_of(value, *_OF_EVENT, *_OF_WHOLE.get(word, ())):
            self._blocks.opaque(f"interaction.{word}", rest, events)
        if word in _ENDS or (word not in _OF_WHOLE and self._status in TERMINAL):
            self._series.whole(interaction, data, events)
            self._finish(interaction, events, lenient)

    def _begin(self, interaction: dict[str, Any], events: list[Event]) -> None:
        if self._begun is not None:
            return
        if not interaction:
            self._shared.note("missing_start", "interaction")
        id = string_of(interaction, "id")
        model = string_of(interaction, "model") or string_of(interaction, "agent")
        self._shared.check_names(id, model)
        self._shared.seed = (id, model, string_of(interaction, "created"))
        self._begun = _others(interaction)
        events.append(MessageStart(id, model, dict(self._begun) or None))

    # Counts

    def _count_metadata(self, value: dict[str, Any], events: list[Event]) -> None:
        metadata = value.get("metadata")
        if is_object(metadata):
            self._count(metadata.get("total_usage"), events)
            if rest := rest_of(metadata, "total_usage"):
                self._blocks.opaque("metadata", rest, events)

    def _count(self, usage: Any, events: list[Event]) -> None:
        if is_object(usage):
            told = {_COUNTS.get(name, name): count for name, count in usage.items()}
            if self._usage.merge(told):
                events.append(UsageUpdate(self._usage.usage))

    # The end

    def _finish(
        self, interaction: dict[str, Any], events: list[Event], lenient: tuple[str, ...]
    ) -> None:
        error = failed_status(self._status, interaction)
        if error is not None:
            raise Fatal(error)
        self._series.finish(events)
        begun = self._begun or {}
        extra = {
            name: item
            for name, item in _others(interaction).items()
            if name not in begun or begun[name] != item
        }
        resumable = bool(interaction.get("continuation_token"))
        called = bool(self._blocks.asked)
        reason = status_reason(self._status, called=called, resumable=resumable)
        events.append(MessageStop(reason, self._status, extra=extra or None))
        self.outcome = Completed(reason, self._usage.usage, lenient)


def _kind_of(value: dict[str, Any], frame: Frame) -> str:
    return string_of(value, "event_type") or frame.event


def _status_of(word: str, value: dict[str, Any]) -> str:
    """Return the status that an event of the whole tells, in so many words or by its name."""
    told = value.get("interaction")
    status = string_of(told if is_object(told) else value, "status")
    if status:
        return status
    return "completed" if word in _ENDS else word if word in TERMINAL else ""


def _others(interaction: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have no place in the events."""
    return rest_of(interaction, *_NAMED)
