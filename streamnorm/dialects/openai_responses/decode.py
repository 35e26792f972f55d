"""Decoder of OpenAI Responses: frames, response events, and delta runs.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21), with
the deviations of compatible servers.  `items/` handles the events of output items.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, Unpack

import msgspec
from msgspec import structs

from streamnorm._core.blocks import Text
from streamnorm._core.codec import DecodeOptions, Decoder, DeltaRun, kernel, read_no_json
from streamnorm._core.codec.socket_events import NOT_OF_A_RESPONSE
from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Ping,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import (
    Fatal,
    find_error,
    named_error,
    too_large,
    upstream_error,
)
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, clean, decode_any, is_object, string_of
from streamnorm._core.limits import text_bytes
from streamnorm._core.text import LONG_CHARS, MAX_FRESH
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.content import event_from_wire
from streamnorm.dialects.openai_responses.items.item import OpenText, ResponseBlockOpener
from streamnorm.dialects.openai_responses.items.message import MessageItem
from streamnorm.dialects.openai_responses.items.output import ItemEvents, OutputItems
from streamnorm.dialects.openai_responses.items.reasoning import ReasoningItem, field_of
from streamnorm.dialects.openai_responses.items.tool_calls import ToolCallItem
from streamnorm.dialects.openai_responses.outcome import (
    error_from_wire,
    stop_reason_from_wire,
    usage_from_wire,
)
from streamnorm.dialects.openai_responses.traits import TERMINALS
from streamnorm.sse import Frame

# A frame without an event line is named `message`.
_DELTA_NAMES = frozenset({*wire.DELTA_TYPES.values(), "message"})
_PINGS = ("keepalive", "ping", "response.keep_alive")
_SNAPSHOTS = frozenset({"response.created", "response.queued", "response.in_progress", *TERMINALS})
"""Events that hold the whole response."""
_FAILURES = ("failed", "cancelled")
"""Statuses of a response that failed, which Azure sends in `response.incomplete`, too."""
_EVENT_TYPES = _SNAPSHOTS.union(ItemEvents.HANDLERS)
_MAPPED_FIELDS = frozenset(
    {"id", "model", "output", "usage", "status", "error", "incomplete_details"}
)
_MAPPED_EVENT_FIELDS = frozenset({"type", "sequence_number", "response", "obfuscation"})

_Value: TypeAlias = dict[str, Any]


class ResponsesDecoder(Decoder):
    """Decoder of OpenAI Responses.

    Args:
        options: See `Decoder`.
    """

    dialect = wire.DIALECT

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._numbers = SequenceNumbers(self.note)
        self._run = self._delta_run = ResponsesRun(self._numbers)
        self._opener = ResponseBlockOpener(self._limits, self.note, options.get("server"))
        self._output = OutputItems(self._opener)
        self._item_events = ItemEvents(self._output)
        self._usage = Usage()
        self._id: str | None = None  # None before the response has started
        self._is_created = False
        self._initial_extra: _Value = {}

    @property
    def next_sequence_number(self) -> int:
        return self._numbers.next or 0

    def read(self, frame: Frame, events: list[Event]) -> None:
        before = len(events)
        if frame.event not in _DELTA_NAMES:
            self._read_any(frame, events)
            return
        try:
            delta = wire.decode_delta(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events)
            return
        event_type = wire.DELTA_TYPES[type(delta)]
        self._check_event_name(frame, event_type, events)
        if not self._numbers.accept(delta.sequence_number, frame.data):
            return
        index, id, resolve = delta.output_index, delta.item_id, self._output.resolve
        item: MessageItem | ToolCallItem | ReasoningItem
        if isinstance(delta, wire.OutputTextDelta):
            item = message = resolve(MessageItem, "message", index, id, events)
            message.append_text(Text, delta.part, delta.delta, events)
        elif isinstance(delta, wire.ArgumentsDelta):
            item = call = resolve(ToolCallItem, "function_call", index, id, events)
            call.append_arguments(delta.delta, events)
        else:
            item = reasoning = resolve(ReasoningItem, "reasoning", index, id, events)
            reasoning.append_text(field_of(delta), delta.part, delta.delta, events)
        if len(events) != before + 1 or frame.event != event_type:
            self._run.forget()  # more than one text may have changed
        if frame.event == event_type and (text := _open_text(item, delta)) is not None:
            self._run.expect(delta, text)

    def read_body(self, response: dict[str, Any]) -> list[Event]:
        """Return the events of a whole response, decoded like the terminal event of a stream.

        A response that has failed or has not ended has no `MessageStop`.
        """
        events: list[Event] = []
        status = string_of(response, "status") or "completed"
        has_failed = status in _FAILURES or bool(response.get("error"))
        start = {key: value for key, value in response.items() if key != "completed_at"}
        try:
            self._start_message(start, events)
            if has_failed or status not in ("completed", "incomplete"):
                output = response.get("output")
                self._output.reconcile_with_terminal(output, events, is_complete=False)
                self._update_usage(response.get("usage"), events)
            if has_failed:
                status = status if status in _FAILURES else "failed"
            elif status not in ("completed", "incomplete"):
                return events
            self._read_terminal({"type": f"response.{status}", "response": response}, events)
        except Fatal as fatal:
            events.append(fatal.error)
        return events

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        if is_object(value) and value.get("type") in TERMINALS:
            return True
        return super().may_end_with(frame, value)

    # Frames

    def _check_event_name(self, frame: Frame, event_type: str, events: list[Event]) -> None:
        """Note a wrong `event:` line; start the message if `response.created` is missing."""
        if frame.event != event_type:
            self.note("no_event_line" if frame.event == "message" else "wrong_event_line", "frame")
        if self._id is None and event_type not in _SNAPSHOTS:
            self.note("missing_start", "response")
            self._start_message({}, events)

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        """Read a frame of any type on the slow path."""
        self._run.forget()
        payload = frame.data
        try:
            value = decode_any(
                payload, max_depth=self._limits.max_json_depth, pieces=wire.DELTA_KEYS
            )
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events, names=_EVENT_TYPES)
            return
        if not is_object(value):
            if frame.event == "error":
                raise Fatal(named_error(payload, value))
            events.append(event_from_wire(clean(frame.event), value))
            return
        event_type = string_of(value, "type") or frame.event
        is_known = event_type in _EVENT_TYPES
        # The failure of a steer has an error, and the response goes on.
        has_error = value.get("error") and not NOT_OF_A_RESPONSE.match(event_type)
        if event_type == "error" or frame.event == "error" or has_error:
            raise Fatal(error_from_wire(value, payload))
        if is_known:
            self._check_event_name(frame, event_type, events)
        number = value.get("sequence_number")
        if event_type in _PINGS and number == self.next_sequence_number - 1:
            # A gateway's keepalive takes no number, as its log, from which clients go on, has none.
            events.append(Ping())
            return
        if not self._numbers.accept(number, payload):
            return
        if event_type in _PINGS:
            events.append(Ping())
        elif is_known:
            value["type"] = event_type
            self._read_known(event_type, value, events)
        elif "type" not in value and (error := find_error(value)) is not None:
            raise Fatal(error)
        else:
            self._item_events.read_unknown(event_type, value, events)

    def _read_known(self, event_type: str, value: _Value, events: list[Event]) -> None:
        if event_type in TERMINALS:
            self._read_terminal(value, events)
        elif event_type in _SNAPSHOTS:
            self._read_lifecycle(value, events)
        else:
            self._item_events.read(event_type, value, events)

    # The response

    def _read_lifecycle(self, value: _Value, events: list[Event]) -> None:
        response = self._response_of(value)
        is_created, is_first = value["type"] == "response.created", self._id is None
        if is_first:
            self._start_message(response, events)
        else:
            self._check_id(response, value["type"])
            if is_created and self._is_created:
                if self._output.has_items:
                    raise self.malformed("second response.created after an item, expected one")
                self.note("repeated_start", "response")
        self._is_created = self._is_created or is_created
        self._update_usage(response.get("usage"), events)
        if is_first and is_object(response.get("usage")):
            self.first_usage = self._usage

    def _check_id(self, response: _Value, event_type: str) -> None:
        """Check that an event belongs to the started response."""
        id = string_of(response, "id")
        if not id or id == self._id or self._output.ids_change:
            return
        if self._id and (event_type in ("response.created", *TERMINALS) or self._output.has_items):
            raise self.malformed(f"{event_type} with another id, expected that of the response")
        if self._id:  # GitHub Copilot changes the id with each event
            self._output.ids_change = True
            self.note("unstable_ids", "response")
        self._id = id

    def _start_message(self, response: _Value, events: list[Event]) -> None:
        id, model = string_of(response, "id"), string_of(response, "model")
        if max(len(id), len(model)) > self._limits.max_id_chars:
            raise too_large("max_id_chars", self._limits.max_id_chars)
        self._id = id
        self._opener.begin_response(id)
        self._initial_extra = _extra_fields(response)
        events.append(MessageStart(id, model, self._initial_extra or None))
        self._output.set_declared_tools(response.get("tools"))

    def _read_terminal(self, value: _Value, events: list[Event]) -> None:
        response = self._response_of(value)
        status = self._status_of(response, value["type"])
        error = find_error({"error": response["error"]}) if response.get("error") else None
        if error is not None or status in _FAILURES:
            if self._id is not None:  # an error alone starts no message
                self._update_usage(response.get("usage"), events)
            raise Fatal(error or upstream_error(f"response {status}", code=status))
        if self._id is None:
            self._start_message(response, events)
        self._check_id(response, value["type"])
        is_complete = status == "completed"
        output = response.get("output")
        self._output.reconcile_with_terminal(output, events, is_complete=is_complete)
        self._output.note_unfinished()
        self._update_usage(response.get("usage"), events)
        details = response.get("incomplete_details")
        incomplete_reason = string_of(details, "reason") if is_object(details) else ""
        reason = stop_reason_from_wire(
            status,
            incomplete_reason,
            has_tool_call=self._opener.has_tool_call,
            has_refusal=self._opener.has_refusal,
        )
        raw_reason = incomplete_reason if incomplete_reason and status == "incomplete" else status
        initial = self._initial_extra
        extra = {k: v for k, v in value.items() if k not in _MAPPED_EVENT_FIELDS and v is not None}
        extra |= _extra_fields({k: v for k, v in response.items() if initial.get(k) != v})
        events.append(MessageStop(reason, raw_reason, extra=extra or None))
        self.outcome = Completed(reason, self._usage)

    def _status_of(self, response: _Value, event_type: str) -> str:
        """Return a response's final status; raise if it contradicts the terminal event's type."""
        expected = TERMINALS[event_type]
        status = string_of(response, "status") or expected
        if status not in (expected, *_FAILURES) and not response.get("error"):
            raise self.malformed(f"{event_type} with another status, expected {expected}")
        return status

    def _response_of(self, value: _Value) -> _Value:
        response = value.get("response")
        if is_object(response):
            return response
        self.note("missing_response", value["type"])
        return {}

    def _update_usage(self, usage: Any, events: list[Event]) -> None:
        if is_object(usage):
            previous, self._usage = self._usage, usage_from_wire(self._usage, usage)
            if self._usage != previous:
                self._opener.store_usage(self._usage.extra)
                events.append(UsageUpdate(self._usage))


def _extra_fields(response: _Value) -> _Value:
    return {k: v for k, v in response.items() if k not in _MAPPED_FIELDS and v is not None}


def _open_text(
    item: MessageItem | ToolCallItem | ReasoningItem, delta: wire.DeltaEvent
) -> OpenText | None:
    """Return the open text that deltas like `delta` extend; None to keep the slow path."""
    if delta.item_id and delta.item_id != item.id:
        return None  # Copilot changes the item id with each delta
    if not delta.item_id and delta.output_index is None:
        return None  # a later delta may belong to another item
    return item.open_text(delta)


class SequenceNumbers:
    """Checker of the sequence numbers in one stream.

    A server may omit them, or send the same number with all events.

    Args:
        note: Records a `Note` of a kind and a location.

    Attributes:
        next: Number of the next event if none is missing; None before the first number.
        last_event: The last event that had a number, or its payload.
    """

    __slots__ = ("_first", "_note", "last_event", "next")

    def __init__(self, note: Callable[[str, str], None]) -> None:
        self.next: int | None = None
        self.last_event: str | bytes = ""
        self._first = 0
        self._note = note

    def accept(self, number: object, payload: str) -> bool:
        """Record an event's sequence number; return False if the event repeats the last event.

        A gap is a note.  A number that is not an integer is ignored.

        Raises:
            Fatal: The number is lower than the last, or equal for a different event.
        """
        if type(number) is not int:
            return True
        expected = self.next
        if expected is None:
            self._first = number
        elif number > expected:
            self._note("gap", "sequence_number")
        elif number < expected:
            return self._accept_again(number, expected - 1, payload)
        self.next, self.last_event = number + 1, payload
        return True

    def _accept_again(self, number: int, last_number: int, payload: str) -> bool:
        """Accept an event whose number is not above the last number; return False if repeated."""
        has_advanced = last_number > self._first
        if number == last_number:
            last = self.last_event
            if payload == (last if isinstance(last, str) else _payload_of(last)):
                self._note("resent_event", "frame")
                return False
        if number < last_number or has_advanced:
            message = f"sequence number {number} after {last_number}, expected a higher one"
            raise Fatal(StreamError("malformed", message))
        self.last_event = ""  # numbers that stay the first one show no repetition
        return True


def _payload_of(event: bytes) -> str:
    """Return the payload of an event in one line of data, or of a payload itself."""
    if event.startswith(b"event:"):
        event = event.partition(b"\ndata: ")[2]
    return event.rstrip(b"\r\n").decode(errors="replace")


_NUMBER = re.compile(rb'"sequence_number" *: *([0-9]+)')
_PROBED_NUMBER = 987_654_321

# Bytes before the payload and decoder of the payload, by the type of the delta.
_FORMATS = {
    delta_type: (f"event: {name}\ndata: ".encode(), msgspec.json.Decoder(delta_type))
    for delta_type, name in wire.DELTA_TYPES.items()
}


class ResponsesRun(DeltaRun):
    """Delta run of one event type that extends texts of open items.

    Args:
        numbers: The sequence numbers of the stream.

    Attributes:
        has_templates: Whether templates are learned.
    """

    # Without the kernel a typed decoder costs less than comparing numbered events.
    has_templates = kernel.TemplateReader is not None
    takes_fresh = True
    # OpenAI pads each delta with random letters against traffic analysis.
    padding = re.compile(rb'"obfuscation" *: *"([0-9A-Za-z]*)"')

    def __init__(self, numbers: SequenceNumbers) -> None:
        super().__init__()
        self.numbers = self._numbers = numbers
        self._texts: dict[str | None, OpenText] = {}  # by item id
        self._blocks: set[int] = set()  # block indexes of `_texts`
        self._newest = (-1, 0)  # block index, and index of the part, of the newest text so far
        self._type: type[wire.DeltaEvent] = wire.OutputTextDelta  # of all deltas in the run
        self.prefix, decoder = _FORMATS[self._type]
        self._decode = decoder.decode

    def forget(self) -> None:
        """Expect no deltas on the fast path, since items may have changed."""
        self._texts.clear()
        self._blocks.clear()
        self.clear_templates()

    def expect(self, event: wire.DeltaEvent, text: OpenText) -> None:
        """Expect further deltas of a text on the fast path, besides texts expected already.

        Args:
            event: A delta of the text that was read in full.
            text: The text.
        """
        if type(event) is not self._type:
            self.forget()
            self._type = type(event)
            self.prefix, decoder = _FORMATS[self._type]
            self._decode = decoder.decode
            self.read_from(self.framing)  # which may know the events by their prefix
        index, known = text.delta.index, self._texts.get(event.item_id)
        if known is not None and known.delta == text.delta:
            return  # the delta stays the same object
        # A server may omit the item id of some deltas: only one text of a block is known at a time.
        if index in self._blocks:
            self.forget()
        self._texts[event.item_id] = text
        self._blocks.add(index)
        place = index, event.part or 0
        # Once for each text, however often it is interrupted.
        if place > self._newest and self.has_templates:
            self._newest = place
            self.allow_templates()

    def decode(self, payload: bytes) -> str | None:
        try:
            event = self._decode(payload)
        except FAST_ERRORS:
            return None
        text, numbers, number = event.delta, self._numbers, event.sequence_number
        known = self._texts.get(event.item_id)
        if (
            known is None
            or number != numbers.next
            or event.output_index != known.output_index
            or event.part != known.part
        ):
            return None
        if known.stored is None:
            known.progress.uncounted.append(text)
            if len(known.progress.uncounted) >= MAX_FRESH or len(text) > LONG_CHARS:
                known.progress.count()
        elif not _extend(known, text):
            return None
        if number is not None:
            numbers.next, numbers.last_event = number + 1, payload
        self.delta = known.delta
        if self.can_learn:
            self._learn(payload, event, known)
        return text

    def _learn(self, payload: bytes, event: wire.DeltaEvent, text: OpenText) -> None:
        """Learn the template of a delta that has its number behind the text, or has no number."""
        place = None if event.sequence_number is None else self._find_number(payload)
        if event.sequence_number is None or place is not None:
            self.learn(
                payload,
                event.delta,
                partial(self._peek, event),
                delta=text.delta,
                extend=partial(_extend, text),
                fresh=text.progress.fresh,
                number=place,
            )

    def _find_number(self, payload: bytes) -> tuple[int, int] | None:
        """Return the offsets of an event's number from the payload's end; None if uncertain."""
        found = _NUMBER.search(payload)
        if found is None:
            return None
        start, end = found.span(1)
        try:
            other = self._decode(b"%b%d%b" % (payload[:start], _PROBED_NUMBER, payload[end:]))
        except FAST_ERRORS:
            return None
        size = len(payload)
        return (start - size, end - size) if other.sequence_number == _PROBED_NUMBER else None

    def _peek(self, event: wire.DeltaEvent, payload: bytes) -> str | None:
        """Return the text of a delta that equals `event` except for the text; else None."""
        other = self._decode(payload)
        return other.delta if structs.replace(event, delta=other.delta) == other else None


def _extend(known: OpenText, text: str) -> bool:
    """Append to an open text; return False, without appending, beyond the bound."""
    progress, stored = known.progress, known.stored
    if stored is not None:
        progress.take_fresh()
        size = len(text) if text.isascii() else text_bytes(text)
        if size > stored.left:
            return False
        stored.left -= size
    progress.uncounted.append(text)
    if len(progress.uncounted) >= MAX_FRESH or len(text) > LONG_CHARS:
        progress.count()
    return True
