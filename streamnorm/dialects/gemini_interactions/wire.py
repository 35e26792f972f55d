"""The shape of what comes often in a stream of Interactions, and how to tell one.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  All else comes a few times
a message and is read as plain JSON, so that fields nobody knows yet are kept; only tool
arguments are taken as they stand on the wire.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from streamnorm._core.json import FAST_ERRORS, compact, decode_any
from streamnorm.sse import Frame

__all__ = [
    "PIECES",
    "Delta",
    "MoreArguments",
    "MoreText",
    "RawStep",
    "cleaned",
    "decode_delta",
    "raw_event",
    "speaks",
]


class MoreText(
    Struct, frozen=True, gc=False, tag_field="type", tag="text", forbid_unknown_fields=True
):
    """More text."""

    text: str


class MoreArguments(
    Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag="arguments_delta",
    forbid_unknown_fields=True,
):
    """More arguments of a call, as JSON text."""

    arguments: str


Delta: TypeAlias = MoreText | MoreArguments


class StepDelta(Struct, gc=False, forbid_unknown_fields=True):
    """One frame's payload that says no more."""

    event_type: Literal["step.delta"]
    index: int
    delta: Delta
    event_id: str | None = None


_DELTA: msgspec.json.Decoder[StepDelta] = msgspec.json.Decoder(StepDelta)
decode_delta = _DELTA.decode


class RawStep(Struct):
    """A step, or a delta of one, for the JSON text within it."""

    arguments: Raw = Raw()

    def text(self) -> str:
        """Return the arguments as text; nothing for those that hold nothing."""
        text = bytes(self.arguments).decode()
        if text.startswith('"'):
            return str(decode_any(text, max_depth=1))
        return "" if text in ("null", "{}") else text


class RawInteraction(Struct, frozen=True):
    """What the end may tell once more."""

    steps: list[RawStep | None] = []
    outputs: list[RawStep | None] = []


class RawEvent(Struct):
    """The payload around them."""

    step: RawStep | None = None
    content: RawStep | None = None
    delta: RawStep | None = None
    interaction: RawInteraction = RawInteraction()


_RAW: msgspec.json.Decoder[RawEvent] = msgspec.json.Decoder(RawEvent)


def raw_event(data: str) -> RawEvent:
    """Return an event with the text of its arguments; an empty one if it has no such shape."""
    try:
        return _RAW.decode(data)
    except FAST_ERRORS:
        return RawEvent()


class _Mark(Struct):
    event_type: str
    index: Any = None


_MARK: msgspec.json.Decoder[_Mark] = msgspec.json.Decoder(_Mark)
_STEPS = frozenset({"step.start", "step.delta", "step.stop"})
_CONTENTS = frozenset({"content.start", "content.delta", "content.stop"})


def speaks(frame: Frame) -> bool:
    """Tell whether a frame is one of Interactions."""
    if frame.event.startswith("interaction.") or frame.event in _STEPS:
        return True
    try:
        mark = _MARK.decode(frame.data)
    except FAST_ERRORS:
        return False
    kind = mark.event_type
    if kind.startswith("interaction.") or kind in _STEPS:
        return True
    return kind in _CONTENTS and type(mark.index) is int  # which others do not number


PIECES = frozenset({"delta", "step", "content", "summary", "text", "arguments"})
"""The keys whose strings are pieces of a longer text, and those on the way to them."""


def cleaned(key: str, value: Any) -> Any:
    """Return the value of a field that is kept; where pieces of text may stand, without
    half a character.
    """
    return msgspec.json.decode(compact(value)) if key in PIECES else value
