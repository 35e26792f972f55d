"""Decoder of AG-UI: frames, chunks, run events, and delta runs.

`@ag-ui/core` and `@ag-ui/client` 1.0.0 (read 2026-11-27), and the deviations of deployed servers.
`blocks.py` reads messages and calls.  A stream without `RUN_FINISHED` or `RUN_ERROR` is cut,
although the clients take it for a success (ag-ui-protocol/ag-ui#2300).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias, Unpack

from streamnorm._core.codec import DecodeOptions, Decoder, DeltaRun, read_no_json
from streamnorm._core.events import (
    Completed,
    Delta,
    Event,
    MessageStart,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, find_error
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, clean, decode_any, is_object, string_of
from streamnorm._core.shapes import found
from streamnorm.dialects.ag_ui import wire
from streamnorm.dialects.ag_ui.blocks import MessageBlocks, OpenBlock
from streamnorm.dialects.ag_ui.content import event_from_wire
from streamnorm.dialects.ag_ui.outcome import error_from_wire, stop_from_wire, usage_from_wire
from streamnorm.sse import Frame

_Value: TypeAlias = dict[str, Any]

_TEXT, _CALL, _REASONING = "text", "call", "reasoning"
_CHUNKS = {wire.TEXT_CHUNK: _TEXT, wire.CALL_CHUNK: _CALL, wire.REASONING_CHUNK: _REASONING}
# The events that a chunk stands for.
_EXPANDED = {
    _TEXT: (wire.TEXT_START, wire.TEXT_CONTENT, wire.TEXT_END),
    _CALL: (wire.CALL_START, wire.CALL_ARGS, wire.CALL_END),
    _REASONING: (wire.REASONING_START, wire.REASONING_CONTENT, wire.REASONING_END),
}
# Events that leave a lane of chunks open (`src/chunks/transform.ts` of `@ag-ui/client`).
_LANE_STAYS = frozenset({"RAW", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", wire.ENCRYPTED_VALUE})
# Only this role is the answer; a missing one is the assistant's.
_ANSWER_ROLES = ("", "assistant")


class AGUIDecoder(Decoder):
    """Decoder of AG-UI.

    Args:
        options: See `Decoder`.
    """

    dialect = wire.DIALECT
    executes_calls = "agent"

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._blocks = MessageBlocks(self._limits, self.note)
        self._delta_run = self._ag_ui_run = AGUIRun(self._blocks)
        self._has_started = False
        self._usage = Usage()

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._ag_ui_run.forget()
        try:
            content = wire.decode_content(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events)
            return
        if content.message_id in self._blocks.foreign:  # whose events pass whole
            self._read_any(frame, events)
            return
        value: _Value = {
            "messageId": content.message_id,
            "toolCallId": content.call_id,
            "delta": content.delta,
        }
        self._read_event(content.type, value, events)

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        """Read an event other than a plain content event."""
        try:
            value = decode_any(
                frame.data, max_depth=self._limits.max_json_depth, pieces=wire.DELTA_FIELDS
            )
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events)
            return
        kind = string_of(value, "type") if is_object(value) else ""
        if not is_object(value) or not kind:
            # Servers print errors of their own framework.
            if (error := find_error(value)) is not None:
                raise Fatal(error)
            events.append(event_from_wire(clean(frame.event), value))
            return
        if kind in wire.THINKING:
            self.note("deprecated_event", "reasoning")
            kind = wire.THINKING[kind]
            value.setdefault("messageId", "thinking")
            value.setdefault("role", "reasoning")
        self._read_event(kind, value, events)

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        # The client reads a last frame without its blank line.
        if is_object(value) and value.get("type") in (wire.RUN_FINISHED, wire.RUN_ERROR):
            return True
        return super().may_end_with(frame, value)

    def _read_event(self, kind: str, value: _Value, events: list[Event]) -> None:
        if kind not in (wire.RUN_STARTED, wire.RUN_ERROR) and not self._has_started:
            raise self.malformed("an event before RUN_STARTED, expected that first")
        blocks = self._blocks
        if blocks.lane is not None and kind not in _CHUNKS and kind not in _LANE_STAYS:
            self._close_lane(events)
        read = self._READERS.get(kind)
        if read is None:
            events.append(event_from_wire(kind, value))
            return
        # Payloads with lone surrogates are read here, since `wire.decode_content` rejects them.
        blocks.may_split_pairs = True
        read(self, value, events)
        blocks.may_split_pairs = False

    # The run

    def _run_started(self, value: _Value, events: list[Event]) -> None:
        if self._has_started:
            raise self.malformed("second RUN_STARTED, expected the end of the run")
        self._has_started = True
        for name in ("threadId", "runId"):
            if not string_of(value, name):
                self.note("missing_id", name)
        metadata = value.get("metadata")
        fields = metadata if is_object(metadata) else {}
        # The encoder states the provider's id, beside the client's.
        id = fields.get(wire.MESSAGE_ID)
        id = clean(id) if isinstance(id, str) else string_of(value, "runId")
        model = string_of(fields, wire.MODEL)
        self._blocks.opener.check_names(id, model)
        self._blocks.opener.seed = (id,)
        rest = wire.unknown_fields(value, "type", "runId", "metadata", "timestamp")
        events.append(MessageStart(id, model, rest or None))

    def _run_finished(self, value: _Value, events: list[Event]) -> None:
        self._blocks.finish(events)
        self._read_usage(value, events)
        outcome = value.get("outcome")
        if is_object(outcome) and outcome.get("type") == wire.CANCELLED:
            raise Fatal(StreamError("upstream", "the run was cancelled", wire.CANCELLED))
        stop = stop_from_wire(value, has_client_call=self._blocks.has_client_call)
        events.append(stop)
        self.outcome = Completed(stop.reason, self._usage)

    def _run_error(self, value: _Value, events: list[Event]) -> None:
        if self._has_started:
            self._read_usage(value, events)
        raise Fatal(error_from_wire(value))

    def _read_usage(self, value: _Value, events: list[Event]) -> None:
        usage = usage_from_wire(value.get("usage"))
        if usage != self._usage:
            self._usage = usage
            events.append(UsageUpdate(usage))

    # Messages and calls

    def _text_start(self, value: _Value, events: list[Event]) -> None:
        id = string_of(value, "messageId")
        if string_of(value, "role") in _ANSWER_ROLES:
            self._blocks.start_text(id, _extra(value, "messageId", "role"), events)
            self._ag_ui_run.allow_templates()
            return
        self._blocks.start_foreign(id)
        events.append(event_from_wire(wire.TEXT_START, value))

    def _text_content(self, value: _Value, events: list[Event]) -> None:
        id = string_of(value, "messageId")
        if id in self._blocks.foreign:
            events.append(event_from_wire(wire.TEXT_CONTENT, value))
            return
        self._blocks.append_text(id, self._delta_of(value), events)

    def _text_end(self, value: _Value, events: list[Event]) -> None:
        id = string_of(value, "messageId")
        if id in self._blocks.foreign:
            del self._blocks.foreign[id]
            events.append(event_from_wire(wire.TEXT_END, value))
            return
        self._blocks.end_text(id, value.get("metadata"), events)

    def _call_start(self, value: _Value, events: list[Event]) -> None:
        fields = ("toolCallId", "toolCallName", "parentMessageId", "metadata")
        if not isinstance(name := value.get("toolCallName"), str):
            raise self.malformed(f"toolCallName is {found(name)}, expected a string")
        self._blocks.start_call(
            string_of(value, "toolCallId"),
            name,
            value.get("metadata"),
            _extra(value, *fields),
            events,
        )
        self._ag_ui_run.allow_templates()

    def _call_args(self, value: _Value, events: list[Event]) -> None:
        id = string_of(value, "toolCallId")
        self._blocks.append_arguments(id, self._delta_of(value), events)

    def _call_end(self, value: _Value, events: list[Event]) -> None:
        self._blocks.end_call(string_of(value, "toolCallId"), events)

    def _call_result(self, value: _Value, events: list[Event]) -> None:
        self._blocks.add_result(
            string_of(value, "toolCallId"), value.get("content"), value.get("metadata"), events
        )

    def _span_start(self, value: _Value, events: list[Event]) -> None:
        self._blocks.start_span(string_of(value, "messageId") or "span", events)

    def _span_end(self, value: _Value, events: list[Event]) -> None:
        self._blocks.end_span(events)

    def _reasoning_start(self, value: _Value, events: list[Event]) -> None:
        if not string_of(value, "role"):  # servers that were written before it was required
            self.note("missing_role", "reasoning")
        self._blocks.start_reasoning(string_of(value, "messageId"), events)
        self._ag_ui_run.allow_templates()

    def _reasoning_content(self, value: _Value, events: list[Event]) -> None:
        id = string_of(value, "messageId")
        self._blocks.append_reasoning(id, self._delta_of(value), events)

    def _reasoning_end(self, value: _Value, events: list[Event]) -> None:
        self._blocks.end_reasoning(string_of(value, "messageId"))

    def _encrypted_value(self, value: _Value, events: list[Event]) -> None:
        subtype, entity = string_of(value, "subtype"), string_of(value, "entityId")
        encrypted = string_of(value, "encryptedValue")
        if not self._blocks.add_value(subtype, entity, encrypted, events):
            events.append(event_from_wire(wire.ENCRYPTED_VALUE, value))

    def _delta_of(self, value: _Value) -> str:
        delta = value.get("delta", "")
        if not isinstance(delta, str):
            raise self.malformed(f"delta is {found(delta)}, expected a string")
        return delta

    # Chunks: start, content and end in one event each

    def _chunk(self, name: str, value: _Value, events: list[Event]) -> None:
        kind, lane = _CHUNKS[name], self._blocks.lane
        key = "toolCallId" if kind == _CALL else "messageId"
        id = string_of(value, key)
        if lane is None or lane[0] != kind or (id and id != lane[1]):
            self._close_lane(events)
            if not id:
                raise self.malformed(f"first chunk without {key}, expected one")
            self._open_lane(kind, id, value, events)
        else:
            id = lane[1]
        if value.get("delta") is not None:
            self._expand(kind, 1, {key: id, "delta": value["delta"]}, events)

    def _open_lane(self, kind: str, id: str, value: _Value, events: list[Event]) -> None:
        self._blocks.lane = (kind, id)
        fields = wire.unknown_fields(value, "delta")
        if kind == _REASONING:  # whose chunks have no role
            fields["role"] = "reasoning"
        self._expand(kind, 0, fields, events)

    def _close_lane(self, events: list[Event]) -> None:
        if self._blocks.lane is not None:
            (kind, id), self._blocks.lane = self._blocks.lane, None
            key = "toolCallId" if kind == _CALL else "messageId"
            self._expand(kind, 2, {key: id}, events)

    def _expand(self, kind: str, number: int, fields: _Value, events: list[Event]) -> None:
        """Read one of the start (0), content (1) and end (2) events that a chunk implies."""
        name = _EXPANDED[kind][number]
        self._READERS[name](self, {**fields, "type": name}, events)

    def _text_chunk(self, value: _Value, events: list[Event]) -> None:
        self._chunk(wire.TEXT_CHUNK, value, events)

    def _call_chunk(self, value: _Value, events: list[Event]) -> None:
        self._chunk(wire.CALL_CHUNK, value, events)

    def _reasoning_chunk(self, value: _Value, events: list[Event]) -> None:
        self._chunk(wire.REASONING_CHUNK, value, events)

    _READERS: ClassVar[dict[str, _Read]] = {
        wire.RUN_STARTED: _run_started,
        wire.RUN_FINISHED: _run_finished,
        wire.RUN_ERROR: _run_error,
        wire.TEXT_START: _text_start,
        wire.TEXT_CONTENT: _text_content,
        wire.TEXT_END: _text_end,
        wire.TEXT_CHUNK: _text_chunk,
        wire.CALL_START: _call_start,
        wire.CALL_ARGS: _call_args,
        wire.CALL_END: _call_end,
        wire.CALL_CHUNK: _call_chunk,
        wire.CALL_RESULT: _call_result,
        wire.SPAN_START: _span_start,
        wire.SPAN_END: _span_end,
        wire.REASONING_START: _reasoning_start,
        wire.REASONING_CONTENT: _reasoning_content,
        wire.REASONING_END: _reasoning_end,
        wire.REASONING_CHUNK: _reasoning_chunk,
        wire.ENCRYPTED_VALUE: _encrypted_value,
    }


_Read: TypeAlias = Callable[[AGUIDecoder, _Value, list[Event]], None]


def _extra(value: _Value, *mapped: str) -> _Value:
    """Return the unknown fields of an event that starts a message or call."""
    return wire.unknown_fields(value, "type", "timestamp", *mapped)


class AGUIRun(DeltaRun):
    """Fast path of content events: text that extends an open block.

    Args:
        blocks: The open blocks of the run.
    """

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks
        # Type and ids of the last content event; looking its block up costs half as much as
        # decoding an event.  "" after an event that was read in full and may have ended the block.
        self._type = self._message_id = self._call_id = ""
        self._extended: Delta  # of that block

    def forget(self) -> None:
        """Forget the block of the last content event, and the templates."""
        self._type = ""
        if self._templates.last is not None:
            self.clear_templates()

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_content(payload)
        except FAST_ERRORS:
            return None
        if (
            event.type != self._type
            or event.message_id != self._message_id
            or event.call_id != self._call_id
        ) and not self._select(event):
            return None
        # A template may have extended another block since.
        self.delta = self._extended
        if self.can_learn:
            peek = partial(_peek, event.type, event.message_id, event.call_id)
            self.learn(payload, event.delta, peek, delta=self.delta)
        return event.delta

    def _select(self, event: wire.Content) -> bool:
        """Select the block of a content event; return whether the event can extend it."""
        blocks = self._blocks
        if event.type == wire.TEXT_CONTENT:
            block = blocks.texts.get(event.message_id)
        elif event.type == wire.CALL_ARGS:
            block = blocks.calls.get(event.call_id)
        else:
            block = self._reasoning_block(event.message_id)
        # The first text of a block opens it for the target.
        if block is None or not block.has_text or block.carry or block.signature:
            return False
        if blocks.lane is not None:  # which any other event closes
            return False
        self._type, self._extended = event.type, block.delta
        self._message_id, self._call_id = event.message_id, event.call_id
        return True

    def _reasoning_block(self, message_id: str) -> OpenBlock | None:
        span = self._blocks.span
        if span is None or span.message != message_id:
            return None
        return span.block if span.is_open and span.has_text else None


def _peek(kind: str, message_id: str, call_id: str, payload: bytes) -> str | None:
    """Return the text of a content event; None if the event belongs to another block."""
    event = wire.decode_content(payload)
    is_of_block = (event.type, event.message_id, event.call_id) == (kind, message_id, call_id)
    return event.delta if is_of_block else None
