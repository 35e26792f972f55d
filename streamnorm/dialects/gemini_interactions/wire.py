"""Wire structs of the Interactions API: deltas, and the JSON text of tool arguments.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  Other events come a few times
a message and are read as plain JSON, so that unknown fields are kept.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from streamnorm._core.json import FAST_ERRORS, clean, compact, decode_any

DIALECT = "gemini_interactions"


class TextFragment(
    Struct, frozen=True, gc=False, tag_field="type", tag="text", forbid_unknown_fields=True
):
    """Delta of text, or the text object in a delta of a thought's summary."""

    text: str


class SummaryFragment(
    Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag="thought_summary",
    forbid_unknown_fields=True,
):
    """Delta of a thought's summary."""

    content: TextFragment

    @property
    def text(self) -> str:
        """The summary's text in the delta."""
        return self.content.text


class ArgumentsFragment(
    Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag="arguments_delta",
    forbid_unknown_fields=True,
):
    """Delta of a call's arguments, which are JSON text."""

    text: str = msgspec.field(name="arguments")


Fragment = TypeVar("Fragment", TextFragment, SummaryFragment, ArgumentsFragment)


class StepDelta(
    Struct,
    Generic[Fragment],
    gc=False,
    tag_field="event_type",
    tag="step.delta",
    forbid_unknown_fields=True,
):
    """Payload of a `step.delta` event that has no unknown fields."""

    index: int
    delta: Fragment
    event_id: str | None = None


AnyStepDelta: TypeAlias = (
    StepDelta[TextFragment] | StepDelta[SummaryFragment] | StepDelta[ArgumentsFragment]
)
DeltaDecoder: TypeAlias = (
    msgspec.json.Decoder[StepDelta[TextFragment]]
    | msgspec.json.Decoder[StepDelta[SummaryFragment]]
    | msgspec.json.Decoder[StepDelta[ArgumentsFragment]]
)

# One for each type: the `type` of a delta stands behind its text, which a decoder of several types
# would read twice.
TEXT_DELTAS: DeltaDecoder = msgspec.json.Decoder(StepDelta[TextFragment])
SUMMARY_DELTAS: DeltaDecoder = msgspec.json.Decoder(StepDelta[SummaryFragment])
ARGUMENTS_DELTAS: DeltaDecoder = msgspec.json.Decoder(StepDelta[ArgumentsFragment])


class IdentifiedEvent(Struct):
    """An event of which the id alone is read."""

    event_id: str | None = None


_decode_identified = msgspec.json.Decoder(IdentifiedEvent).decode


def event_id_of(payload: bytes) -> str | None:
    """Return the id of an event that has been read; None without an id."""
    return _decode_identified(payload).event_id


class RawStep(Struct):
    """A step or a delta, with its arguments as undecoded JSON."""

    arguments: Raw = Raw()

    def text(self) -> str:
        """Return the JSON text of the arguments; "" for null and for an empty object."""
        text = bytes(self.arguments).decode()
        if text.startswith('"'):
            return str(decode_any(text, max_depth=1))
        # Every call starts with `{}`, and its arguments follow in deltas.
        return "" if text in ("null", "{}") else text


class RawInteraction(Struct, frozen=True):
    """The interaction in the final event, with the undecoded arguments of its steps."""

    steps: list[RawStep | None] = []
    outputs: list[RawStep | None] = []


class RawEvent(Struct):
    """An event, with the undecoded arguments of its steps and delta."""

    step: RawStep | None = None
    content: RawStep | None = None
    delta: RawStep | None = None
    interaction: RawInteraction = RawInteraction()


_RAW: msgspec.json.Decoder[RawEvent] = msgspec.json.Decoder(RawEvent)


def raw_event(data: str) -> RawEvent:
    """Return an event with undecoded arguments; an empty struct for an unexpected structure."""
    try:
        return _RAW.decode(data)
    except FAST_ERRORS:
        return RawEvent()


def arguments_text(value: dict[str, Any], raw: RawStep | None) -> str:
    """Return the arguments in a step or a delta as JSON text, unchanged if possible."""
    text = "" if raw is None else raw.text()
    if text:
        return text
    arguments = value.get("arguments")
    if isinstance(arguments, str):
        return clean(arguments)
    return compact(arguments) if arguments else ""


CALL_SUFFIX, RESULT_SUFFIX = "_call", "_result"
"""Ends of the types of steps that call a tool, and of those with its result."""

KIND_SUFFIX = "_step"
"""Suffix of the `kind` of server tool calls and results.

Kinds of other vendors end in `_call` and `_result`, too; the suffix keeps them apart.
"""

PIECES = frozenset({"delta", "step", "content", "summary", "text", "arguments"})
"""Keys whose strings are fragments of a longer text, and the keys on the way to them."""


def replace_half_characters(key: str, value: Any) -> Any:
    """Return an unknown field's value with lone surrogates replaced."""
    return msgspec.json.decode(compact(value)) if key in PIECES else value


def unknown_fields(value: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields of an object whose value is not empty and whose name is not in `known`."""
    return {
        key: replace_half_characters(key, item)
        for key, item in value.items()
        if key not in known and item not in (None, "")
    }
