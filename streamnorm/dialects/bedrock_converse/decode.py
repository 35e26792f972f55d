"""Decoder of `ConverseStream`: frames and the message level.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json`, and 93 recordings (read 2026-11-23).
A frame has the name of its event, and the payload has no type.  `blocks.py` reads the content
blocks.

The tokens follow the end of the message: a message is complete once both are known, or once the
source ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, Unpack

from streamnorm._core.codec import DecodeOptions, Decoder, read_no_json
from streamnorm._core.events import Completed, Event, MessageStart, MessageStop, Usage, UsageUpdate
from streamnorm._core.failures import Fatal
from streamnorm._core.json import InvalidJSON, decode_any, is_object, string_of
from streamnorm._core.shapes import found
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.blocks import MessageBlocks
from streamnorm.dialects.bedrock_converse.delta_run import ConverseRun
from streamnorm.dialects.bedrock_converse.outcome import (
    error_from_wire,
    stop_reason_from_wire,
    stop_sequence_from_wire,
    usage_from_wire,
)
from streamnorm.sse import Frame

_Value: TypeAlias = dict[str, Any]


class ConverseDecoder(Decoder):
    """Decoder of `ConverseStream`.

    Args:
        options: See `Decoder`.
    """

    dialect = wire.DIALECT

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._blocks = MessageBlocks(self._limits, self.note)
        self._delta_run = self._converse_run = ConverseRun(self._blocks)
        self._has_started = False
        self._stop: _Value | None = None  # `messageStop`
        self._usage: Usage | None = None  # of `metadata`
        self._metadata: _Value = {}  # its other fields

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._read(frame, events)
        self._converse_run.expect(events)

    @property
    def lacks_only_terminal(self) -> bool:
        return self._stop is not None

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        super().end(rest, events)
        # Half a message is a cut, and not the end of the source.
        if self.outcome is None and self._stop is not None and not self.unfinished_bytes:
            self.note("no_metadata", "message")
            self._finish(self._stop, events)

    # Frames

    def _read(self, frame: Frame, events: list[Event]) -> None:
        if (error := error_from_wire(frame)) is not None:
            raise Fatal(error)
        try:
            value = decode_any(
                frame.data, max_depth=self._limits.max_json_depth, pieces=wire.DELTA_TEXT_FIELDS
            )
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events, names=self._READERS)
            return
        read = self._READERS.get(frame.event)
        if read is None:
            index = value.get(wire.INDEX) if is_object(value) else None
            wire_index = index if type(index) is int else None
            self._blocks.add_unknown(wire_index, frame.event, value, events)
            return
        if not is_object(value):
            raise self.malformed(f"{frame.event} is {found(value)}, expected an object")
        if self._stop is not None and frame.event != wire.METADATA:
            raise self.malformed(f"{frame.event} after messageStop, expected metadata")
        if frame.event != wire.MESSAGE_START:
            self._begin_message(events)
        read(self, value, events)

    def _begin_message(self, events: list[Event]) -> None:
        """Start the message of a server that sends no `messageStart`, which says nothing."""
        if not self._has_started:
            self._has_started = True
            self.note("missing_start", "message")
            events.append(MessageStart())

    # Events

    def _message_start(self, value: _Value, events: list[Event]) -> None:
        if self._has_started:
            # A gateway that retries may splice a second message into the stream.
            if not self._blocks.is_empty:
                raise self.malformed("second messageStart, expected one message")
            self.note("repeated_message_start", "message")
            return
        self._has_started = True
        events.append(MessageStart(extra=wire.unknown_fields(value, "role") or None))

    def _block_start(self, value: _Value, events: list[Event]) -> None:
        start = value.get("start")
        self._blocks.start(self._index_of(value), start if is_object(start) else {}, events)

    def _block_delta(self, value: _Value, events: list[Event]) -> None:
        delta = value.get("delta")
        if not is_object(delta):
            raise self.malformed(f"delta is {found(delta)}, expected an object")
        self._blocks.append(self._index_of(value), delta, events)

    def _block_stop(self, value: _Value, events: list[Event]) -> None:
        self._blocks.stop(self._index_of(value), events)

    def _index_of(self, value: _Value) -> int | None:
        index = value.get(wire.INDEX)
        # `type`, since JSON's `true` is an `int` for Python.
        if index is None or type(index) is int:
            return index
        raise self.malformed(f"{wire.INDEX} is {found(index)}, expected an integer")

    def _message_stop(self, value: _Value, events: list[Event]) -> None:
        if not string_of(value, "stopReason"):
            raise self.malformed("messageStop without a stopReason, expected one")
        self._blocks.finish(events)
        self._stop = value
        if self._usage is not None:
            self._finish(value, events)

    def _read_metadata(self, value: _Value, events: list[Event]) -> None:
        counts = value.get("usage")
        self._usage = usage_from_wire(counts, self.note) if is_object(counts) else Usage()
        self._blocks.opener.store_usage(self._usage.extra)
        self._blocks.opener.store_fields(self._metadata, wire.unknown_fields(value, "usage"))
        if is_object(counts):
            events.append(UsageUpdate(self._usage))
        # It follows `messageStop`, but for hand-written servers.
        if self._stop is not None:
            self._finish(self._stop, events)

    def _finish(self, stop: _Value, events: list[Event]) -> None:
        raw = string_of(stop, "stopReason")
        extra = {**wire.unknown_fields(stop, "stopReason"), **self._metadata}
        tier = extra.pop("serviceTier", None)
        if is_object(tier) and (name := string_of(tier, "type")):
            extra["service_tier"] = name
        reason = stop_reason_from_wire(raw, has_client_call=self._blocks.has_client_call)
        sequence = stop_sequence_from_wire(extra.get("additionalModelResponseFields"))
        events.append(MessageStop(reason, raw, sequence, extra=extra or None))
        self.outcome = Completed(reason, self._usage or Usage())

    _READERS: ClassVar[dict[str, Callable[[ConverseDecoder, _Value, list[Event]], None]]] = {
        wire.MESSAGE_START: _message_start,
        wire.BLOCK_START: _block_start,
        wire.BLOCK_DELTA: _block_delta,
        wire.BLOCK_STOP: _block_stop,
        wire.MESSAGE_STOP: _message_stop,
        wire.METADATA: _read_metadata,
    }
