"""Decoder of streams of Google's Interactions API.

https://ai.google.dev/api/interactions-api and
https://ai.google.dev/gemini-api/docs/streaming (read 2026-11-22).  An interaction is a
series of steps, each with its start, deltas and stop, which `steps.py` reads.  This module
reads the events of the whole interaction: its start, status, token counts and end.  The
former revision, which calls its steps contents, is read in the same way.  Comments name the
recordings that show a case.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Unpack

from streamnorm._core.codec import DONE, DecodeOptions, Decoder, DeltaRun, kernel, read_no_json
from streamnorm._core.codec.templates import Extend
from streamnorm._core.events import Completed, Delta, Event, MessageStart, MessageStop, UsageUpdate
from streamnorm._core.failures import Fatal, find_error, named_error
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, decode_any, is_object, string_of
from streamnorm.dialects.gemini_interactions.blocks import InteractionBlocks, OpenStep
from streamnorm.dialects.gemini_interactions.outcome import (
    FINAL_EVENTS,
    TERMINAL,
    UsageReader,
    contradicts,
    failed_status,
    status_of,
    stop_reason,
)
from streamnorm.dialects.gemini_interactions.steps import OpenSteps
from streamnorm.dialects.gemini_interactions.traits import event_type
from streamnorm.dialects.gemini_interactions.wire import (
    DIALECT,
    PIECES,
    TEXT_DELTAS,
    AnyStepDelta,
    event_id_of,
    unknown_fields,
)
from streamnorm.sse import Frame

_INTERACTION_FIELDS = frozenset({"id", "model", "status", "usage", "steps", "outputs"})
_START_FIELDS = _INTERACTION_FIELDS | {"error", "errors"}
_EVENT_FIELDS = frozenset({"event_type", "event_id", "metadata", "index"})
_STEP_EVENT_FIELDS = _EVENT_FIELDS | {"step", "content", "delta", "usage"}
_COUNTS = ("usage", "total_usage")
_STARTS = ("created", "start", "in_progress", "queued")
_FIELDS_BY_ACTION = {
    **dict.fromkeys((*FINAL_EVENTS, *_STARTS), _EVENT_FIELDS | {"interaction"}),
    "status_update": _EVENT_FIELDS | {"interaction_id", "status", "usage"},
}
"""Mapped fields of the events of the whole interaction, by action; other actions have none."""


class InteractionsDecoder(Decoder):
    """Decoder of one interaction's stream.

    Args:
        options: See `Decoder`.
    """

    dialect = DIALECT

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._blocks = InteractionBlocks(self._limits, self.note)
        self._steps = OpenSteps(self._blocks)
        self._delta_run = self._run = InteractionsRun(self._steps.open)
        self._ids = self._run.ids
        self._start_fields: dict[str, Any] | None = None  # None before the start
        self._is_created = False  # whether an event has created the interaction
        self._id = ""
        self._status = ""
        self._usage = UsageReader()

    @property
    def resume_token(self) -> dict[str, Any] | None:
        event_id = self._ids.last
        return {"event_id": event_id} if event_id else None

    def read(self, frame: Frame, events: list[Event]) -> None:
        # By the name of the frame as well: its payload may lack the `event_type`.
        if frame.event == "error":
            raise Fatal(named_error(frame.data, self.json_of(frame.data)))
        data = frame.data
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=PIECES)
        except InvalidJSON as problem:
            # The API names every frame by its event type: each name is expected.
            read_no_json(self, frame, problem, events, names=(frame.event,))
            return
        if is_object(value):
            self._read_event(value, frame, events)
        else:
            self._blocks.add_opaque(frame.event, value, events)

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        self._judge_strays()  # an error outranks a terminal without its blank line
        super().end(rest, events)

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        if not is_object(value):
            return frame.data.startswith(DONE)
        family, _, action = event_type(value, frame).partition(".")
        if family != "interaction":
            return family == "error" or super().may_end_with(frame, value)
        # A status update announces the end, and the last event with the counts follows.
        return action != "status_update" and status_of(action, value) in TERMINAL

    def complete_without_terminal(self, events: list[Event]) -> tuple[str, ...]:
        error = failed_status(self._status, {})
        # A status of failure is final without the last event.
        if error is not None:
            raise Fatal(error)
        return ()

    # Events

    def read_done(self, events: list[Event]) -> None:
        # The vendor's `[DONE]` follows the last event; after a status alone it stands for that
        # event.
        if self._status in TERMINAL:
            self._finish({}, events)

    def _read_event(self, value: dict[str, Any], frame: Frame, events: list[Event]) -> None:
        kind, data = event_type(value, frame), frame.data
        self._ids.store(string_of(value, "event_id"))
        if kind == "error":
            raise Fatal(named_error(data, value))
        family, _, action = kind.partition(".")
        if family == "interaction":
            self._read_interaction(action, value, data, events)
        # `content` is the name in the revision before 2026-05-20.
        elif family in ("step", "content") and action in ("start", "delta", "stop"):
            self._start({}, events)
            self._read_metadata(value, events)
            if action != "stop":
                self._revoke_status()
            index = self._steps.read(action, value, data, events)
            if action == "delta":
                self._run.expect(index)
            else:
                self._run.forget()
            self._read_usage(value.get("usage"), events)
            if rest := unknown_fields(value, _STEP_EVENT_FIELDS):
                self._blocks.add_opaque(kind, rest, events)
        elif (error := find_error(value)) is not None:
            raise Fatal(error)
        else:
            self._blocks.add_opaque(kind, value, events)

    def _read_interaction(
        self, action: str, value: dict[str, Any], data: str, events: list[Event]
    ) -> None:
        """Append the events of an `interaction.…` event."""
        self._run.forget()  # content that follows a terminal status revokes it
        found = value.get("interaction")
        interaction: dict[str, Any] = found if is_object(found) else {}
        # Without the object `interaction`, which all other events of this family have.
        if action == "status_update":
            interaction = {"id": value.get("interaction_id"), "usage": value.get("usage")}
        self._check_id(string_of(interaction, "id"))
        if action in ("created", "start"):
            if self._is_created:
                self.note("repeated_start", "interaction")
            self._is_created = True
        self._start(interaction, events)
        self._read_metadata(value, events)
        self._read_usage(interaction.get("usage"), events)
        status = status_of(action, value)
        if contradicts(action, status):
            raise self.malformed(f"interaction.{action} with status {status[:20]!r}")
        self._status = status or self._status
        if rest := unknown_fields(value, _FIELDS_BY_ACTION.get(action, _EVENT_FIELDS)):
            self._blocks.add_opaque(f"interaction.{action}", rest, events)
        # An action of a later revision ends the interaction if its status does.
        is_final = action not in _FIELDS_BY_ACTION and self._status in TERMINAL
        if action in FINAL_EVENTS or is_final:
            self._steps.read_complete(interaction, data, events)
            self._finish(interaction, events, data)

    def _check_id(self, id: str) -> None:
        """Check that an event has the interaction's id, or no id."""
        if id and self._id and id != self._id:
            raise self.malformed("event of another interaction, expected the first")
        self._id = self._id or id

    def _revoke_status(self) -> None:
        """Discard the terminal status, since content follows."""
        if self._status in TERMINAL:
            self._status = ""

    def _start(self, interaction: dict[str, Any], events: list[Event]) -> None:
        """Append the message start, unless the message has started."""
        if self._start_fields is not None:
            return
        # A stream that was resumed by `last_event_id` begins in the middle of the steps.
        if not interaction:
            self.note("missing_start", "interaction")
            self._steps.is_resumed = True
        id = string_of(interaction, "id")
        # An interaction has a model or an agent (google/agent-over-its-budget).
        model = string_of(interaction, "model") or string_of(interaction, "agent")
        self._blocks.check_names(id, model)
        self._blocks.seed = (id, model, string_of(interaction, "created"))
        # Errors are final: those of a failed interaction are its outcome.
        self._start_fields = unknown_fields(interaction, _START_FIELDS)
        events.append(MessageStart(id, model, dict(self._start_fields) or None))

    # Token counts

    def _read_metadata(self, value: dict[str, Any], events: list[Event]) -> None:
        metadata = value.get("metadata")
        if is_object(metadata):
            # Counts of the whole interaction, as in the last event: `usage` in the deltas of real
            # streams, `total_usage` in the types of google-genai.
            for name in _COUNTS:
                self._read_usage(metadata.get(name), events)
            if rest := unknown_fields(metadata, _COUNTS):
                self._blocks.add_opaque("metadata", rest, events)

    def _read_usage(self, usage: Any, events: list[Event]) -> None:
        if is_object(usage) and self._usage.merge(usage):
            self._blocks.store_usage(self._usage.usage.extra)
            events.append(UsageUpdate(self._usage.usage))

    # The end

    def _finish(self, interaction: dict[str, Any], events: list[Event], data: str = "") -> None:
        error = failed_status(self._status, interaction)
        if error is not None:
            raise Fatal(error)
        self._steps.finish(events)
        self._steps.compare(interaction, data, events)
        for _ in range(self._blocks.unfinished):
            self.note("unfinished_arguments", "tool call")
        known = self._start_fields or {}
        extra = {
            name: item
            for name, item in unknown_fields(interaction, _INTERACTION_FIELDS).items()
            if name not in known or known[name] != item
        }
        resumable = bool(interaction.get("continuation_token"))
        awaits_client = bool(self._blocks.unanswered)
        reason = stop_reason(self._status, awaits_client=awaits_client, resumable=resumable)
        events.append(MessageStop(reason, self._status, extra=extra or None))
        self.outcome = Completed(reason, self._usage.usage)


class EventIds:
    """Id of the last event that has an id, after which the vendor can resume the stream.

    Attributes:
        next: None: ids are no numbers.
        last_event: The last event that fits a template with an id, or its payload; "" if a later
            event had an id.
    """

    __slots__ = ("_last", "last_event", "next")

    def __init__(self) -> None:
        self.next: int | None = None
        self.last_event: str | bytes = ""
        self._last = ""

    def store(self, id: str | None) -> None:
        """Store an event's id; None or "" if the event has none."""
        if id:
            self._last, self.last_event = id, ""

    @property
    def last(self) -> str:
        """The id; "" before the first."""
        event = self.last_event
        if isinstance(event, bytes):
            self.store(event_id_of(event[event.index(b"{") :]))
        return self._last


class ExpectedDeltas(NamedTuple):
    """The deltas of a step that the fast path expects.

    Attributes:
        delta: Empty delta of the block, and of the part that they extend.
        extend: Accounts for a text; None and False as of `OpenStep.text_sinks`.
        fresh: Takes short texts that fit a template in place of `extend`.
    """

    delta: Delta
    extend: Extend | None
    fresh: list[str] | None


_EVENT_ID = re.compile(rb'"event_id" *: *"([!#-\[\]-~]+)"')  # without escapes


class InteractionsRun(DeltaRun):
    """Delta run of `step.delta` events of one delta type that extend open blocks.

    Args:
        steps: The open steps by index.

    Attributes:
        ids: Ids of the events.
        compares_ids: Whether templates are learned from events with ids.
    """

    prefix = b"event: step.delta\ndata: "
    takes_fresh = True
    # Without the kernel a typed decoder costs less than comparing events with ids.
    compares_ids = kernel.TemplateReader is not None

    def __init__(self, steps: dict[int, OpenStep]) -> None:
        super().__init__()
        self.numbers = self.ids = EventIds()
        self._steps = steps
        self._decoder = TEXT_DELTAS  # of all deltas in the run
        self._decode = self._decoder.decode
        self._expected: dict[int, ExpectedDeltas] = {}  # by index of the step
        self._newest = -1  # index of the newest block so far

    def forget(self) -> None:
        """Expect no deltas on the fast path, because steps may have changed."""
        self._expected.clear()
        if self._templates.last is not None:
            self.clear_templates()

    def expect(self, index: int) -> None:
        """Expect deltas of a step on the fast path if its open block can be extended.

        Args:
            index: Index of the step.
        """
        step = self._steps.get(index)
        block = None if step is None else step.extensible_block()
        if step is None or block is None:
            known = self._expected.pop(index, None)
            if known is not None and self._templates.last is not None:
                self.clear_templates()
            return
        if step.delta_decoder is not self._decoder:
            self.forget()
            self._decoder = step.delta_decoder
            self._decode = self._decoder.decode
        self._expected[index] = ExpectedDeltas(block.delta, *step.text_sinks())
        if block.index > self._newest:  # once for each block, however often it is interrupted
            self._newest = block.index
            self.allow_templates()

    def decode(self, payload: bytes) -> str | None:
        try:
            event = self._decode(payload)
        except FAST_ERRORS:
            return None
        expected = self._expected.get(event.index)
        if expected is None:
            return None
        text = event.delta.text
        if expected.extend is not None and not expected.extend(text):
            return None
        if event.event_id:
            self.ids.store(event.event_id)
        self.delta = expected.delta
        if self.can_learn and (self.compares_ids or not event.event_id):
            self._learn(payload, event, expected)
        return text

    def _learn(self, payload: bytes, event: AnyStepDelta, expected: ExpectedDeltas) -> None:
        """Learn the template of a delta, with the event's id, if any, behind the text."""
        delta, extend, fresh = expected
        text, number = event.delta.text, _find_id(payload) if event.event_id else None
        self.learn(
            payload, text, self._peek, delta=delta, extend=extend, fresh=fresh, number=number
        )

    def _peek(self, payload: bytes) -> str | None:
        """Return the text of a delta."""
        return self._decode(payload).delta.text


def _find_id(payload: bytes) -> tuple[int, int]:
    """Return the offsets of an event's id from the payload's end.

    For an id with escapes they are those of the payload, for which `Template.cut_number` returns
    None.
    """
    size = len(payload)
    if (found := _EVENT_ID.search(payload)) is None:
        return -size, 0
    start, end = found.span(1)
    return start - size, end - size
