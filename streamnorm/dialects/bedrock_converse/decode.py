"""Decoder of `ConverseStream`: frames, message events, and delta runs.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json`, and 93 recordings (read 2026-11-23).
A frame has the name of its event, and the payload has no type.  `blocks.py` reads the content
blocks.

The tokens follow the end of the message: a message is complete once both are known, or once the
source ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias, Unpack

from streamnorm._core.codec import DecodeOptions, Decoder, DeltaRun, read_no_json
from streamnorm._core.events import (
    BlockStart,
    Completed,
    Delta,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    ReasoningDelta,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, decode_any, is_object, string_of
from streamnorm._core.shapes import found
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.blocks import MessageBlocks, OpenBlock
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
        """Emit the start of the message if the server sent no `messageStart`."""
        if not self._has_started:
            self._has_started = True
            self.note("missing_start", "message")
            events.append(MessageStart(self.response_id))

    # Events

    def _message_start(self, value: _Value, events: list[Event]) -> None:
        if self._has_started:
            # A gateway that retries may splice a second message into the stream.
            if not self._blocks.is_empty:
                raise self.malformed("second messageStart, expected one message")
            self.note("repeated_message_start", "message")
            return
        self._has_started = True
        extra = wire.unknown_fields(value, "role") or None
        events.append(MessageStart(self.response_id, extra=extra))

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


_Decode: TypeAlias = Callable[
    [bytes],
    wire.ContentBlockDelta[wire.TextDelta]
    | wire.ContentBlockDelta[wire.ToolInputDelta]
    | wire.ContentBlockDelta[wire.ReasoningDelta],
]

_DECODERS: dict[type[Event], _Decode] = {
    TextDelta: wire.decode_text,
    JSONDelta: wire.decode_input,
    ReasoningDelta: wire.decode_reasoning,
}


class ConverseRun(DeltaRun):
    """Delta run of `contentBlockDelta` events.

    The next delta nearly always has the kind of the last one, and extends the same block.

    Args:
        blocks: The open blocks of the message.
    """

    prefix = b"event: contentBlockDelta\ndata: "
    # Amazon pads the payload of each event with letters and digits, at its end.
    padding = re.compile(rb'"p":"([A-Za-z0-9]*)"\}$')

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._open = blocks.open
        self._kind: type[Event] = TextDelta  # of the last delta
        self._decode: _Decode = wire.decode_text
        self._index: int | None = None  # of the last block in the stream; None if it may be sealed
        self._block_delta: Delta  # of that block

    def expect(self, events: list[Event]) -> None:
        """Select the delta type to expect after the events of a frame read on the slow path."""
        self._index = None
        if self._templates.last is not None:  # the block of one may have changed
            self.clear_templates()
        if any(type(event) is BlockStart for event in events):
            self.allow_templates()
        kind = type(events[-1]) if events else self._kind
        if kind in _DECODERS:
            self._kind, self._decode = kind, _DECODERS[kind]

    def decode(self, payload: bytes) -> str | None:
        try:
            event = self._decode(payload)
        except FAST_ERRORS:
            return None
        index = event.content_block_index
        if index != self._index and not self._select(index):
            return None
        text = _text_in(event.delta)
        if self.can_learn:
            self.learn(payload, text, partial(self._peek, index), delta=self._block_delta)
        self.delta = self._block_delta
        return text

    def _peek(self, index: int, payload: bytes) -> str | None:
        """Return the text of a delta; None if the payload has another block index."""
        event = self._decode(payload)
        return _text_in(event.delta) if event.content_block_index == index else None

    def _select(self, index: int) -> bool:
        """Select the block at an index; return whether deltas can extend it."""
        block = self._open.get(index)
        # The first text of a block opens it for the target, and nothing extends what is sealed.
        if type(block) is not OpenBlock or not block.has_text or block.carry or block.signature:
            return False
        if type(block.delta) is not self._kind:
            return False
        self._index, self._block_delta = index, block.delta
        return True


def _text_in(delta: wire.TextDelta | wire.ToolInputDelta | wire.ReasoningDelta) -> str:
    return delta.text if type(delta) is wire.TextDelta else delta.member.text
