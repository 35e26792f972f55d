"""Decoder of Anthropic Messages: frames, message events, and delta runs.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21) and the
deviations of compatible servers.  `blocks.py` reads the content blocks.  Comments name the
recordings that show a deviation by server and file: `proxy/null-deltas`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias, Unpack

from streamnorm._core.codec import DecodeOptions, Decoder, DeltaRun, read_no_json
from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Ping,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, named_error, too_large
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    decode_any,
    is_array,
    is_object,
    string_of,
)
from streamnorm._core.shapes import found
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.blocks import MessageBlocks, OpenBlock
from streamnorm.dialects.anthropic.content import raw_input, raw_inputs
from streamnorm.dialects.anthropic.outcome import (
    UsageReader,
    stop_reason_from_wire,
    untyped_error_from_wire,
)
from streamnorm.dialects.anthropic.traits import EVENT_TYPES
from streamnorm.sse import Frame

# Frames of these names are read in full at once: only a server that misnames its frames sends
# deltas under them.
_NOT_DELTAS = EVENT_TYPES - {"content_block_delta"}

_Value: TypeAlias = dict[str, Any]


class AnthropicDecoder(Decoder):
    """Decoder of Anthropic Messages.

    Args:
        options: See `Decoder`.
    """

    dialect = wire.DIALECT

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._blocks = MessageBlocks(options.get("server"), self._limits, self.note)
        self._run = self._delta_run = AnthropicRun(self._blocks)
        self._usage = UsageReader()
        self._id: str | None = None  # None before message_start
        self._content: Any = None  # content in message_start
        self._last_start: _Value | None = None  # the last event, if it was a content_block_start
        self._stop_reason: str | None = None
        # Whether a stop reason has arrived while no block was open, and no block started since.
        self._has_stopped = False
        self._stop_sequence: str | None = None
        self._stop_extra: _Value = {}

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._run.forget()
        if frame.event in _NOT_DELTAS:
            self._read_any(frame, events)
            return
        try:
            event = wire.decode_delta(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events)
            return
        # A delta of a block that this room does not know passes with all of its fields.
        if self._blocks.is_unknown(event.index):
            self._read_any(frame, events)
            return
        if self._id is None or frame.event != "content_block_delta":
            self._check_delta_frame(frame)
        self._last_start = None
        delta = event.delta
        if isinstance(delta, wire.TextDelta):
            self._blocks.append_text(event.index, delta.text, events)
        elif isinstance(delta, wire.InputJSONDelta):
            self._blocks.append_input(event.index, delta.text, events)
        else:
            self._blocks.append_thinking(event.index, delta.text, events)

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        if is_object(value) and value.get("type") in ("message_stop", "message_delta"):
            return True  # some servers send no `message_stop`
        return super().may_end_with(frame, value)

    @property
    def lacks_only_terminal(self) -> bool:
        return self._has_stopped

    def complete_without_terminal(self, events: list[Event]) -> tuple[str, ...]:
        # proxy/missing-message-stop; with a block open the message may have been cut
        # (proxy/missing-message-stop-with-open-block).
        if not self._has_stopped:
            return ()
        self._finish(events)
        return ("no_message_stop",)

    # Frames

    def _check_delta_frame(self, frame: Frame) -> None:
        """Check the position and event name of a delta frame."""
        if self._id is None:
            raise self.malformed("block before message_start, expected that first")
        self._note_event_line(frame)

    def _note_event_line(self, frame: Frame) -> None:
        self.note("no_event_line" if frame.event == "message" else "wrong_event_line", "frame")

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        """Read a frame other than a plain delta."""
        data = frame.data
        try:
            value = decode_any(
                data, max_depth=self._limits.max_json_depth, pieces=wire.DELTA_TEXT_FIELDS
            )
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events, names=self._READERS)
            return
        kind = value.get("type") if is_object(value) else None
        # An unnamed payload means what its frame is called; where both are there, the SDKs trust
        # `type`.
        if not isinstance(kind, str):
            kind = frame.event
        if frame.event != kind and kind in self._READERS:
            self._note_event_line(frame)
        # Either is enough: some proxies drop the event lines, others wrap the error of another
        # vendor in a named frame.
        if kind == "error" or frame.event == "error":
            raise Fatal(named_error(data, self.json_of(data)))
        if kind == "ping":
            events.append(Ping())
            return
        read = self._READERS.get(kind)
        if read is None or not is_object(value):
            self._read_unknown(kind, value, events)
            return
        # Both SDKs raise at such a stream (proxy/no-message-start); pings and errors may come first
        # (anthropic/error-first).
        if self._id is None and kind != "message_start":
            raise self.malformed(f"{kind} before message_start, expected that first")
        # Payloads with lone surrogates are read here, since `wire.decode_delta` rejects them.
        self._blocks.may_split_pairs = True
        read(self, value, frame, events)
        self._blocks.may_split_pairs = False
        self._last_start = value if kind == "content_block_start" else None

    def _read_unknown(self, kind: str, value: Any, events: list[Event]) -> None:
        # proxy/error-in-the-shape-of-chat.
        if (error := untyped_error_from_wire(value)) is not None:
            raise Fatal(error)
        index = value.get("index") if is_object(value) else None
        self._blocks.add_unknown(index, clean(kind), value, events)

    # Events

    def _message_start(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        message = value.get("message")
        if not is_object(message):
            raise self.malformed("message_start without a message, expected one")
        id, model = string_of(message, "id"), string_of(message, "model")
        if max(len(id), len(model)) > self._limits.max_id_chars:
            raise too_large("max_id_chars", self._limits.max_id_chars)
        if self._id is not None:
            # Gateways that retry may splice a second message into the stream
            # (proxy/another-message-spliced-in).
            if id and self._id and id != self._id:
                raise self.malformed("second message_start with another id, expected one message")
            # A gateway that has switched servers repeats the start (proxy/message-start-twice);
            # with other content it is another answer.
            if (message.get("content") or None) != self._content:
                raise self.malformed("second message_start with other content, expected the same")
            self.note("repeated_message_start", "message")
            return
        self._id, self._content = id, message.get("content") or None
        self._blocks.begin_message(id)
        extra = wire.unknown_fields(message, wire.MESSAGE_FIELDS)
        events.append(MessageStart(id, model, extra or None))
        self._merge_usage(message.get("usage"), events)
        # The API counts the input here, before the first token; encoders write it in their first
        # frame.
        self.first_usage = self._usage.usage
        if not is_array(self._content):
            return  # a stop reason of a message without content is not yet its stop reason
        # anthropic/programmatic-call-in-message-start: blocks and stop reason in the start, and
        # then only `message_stop`.
        self._merge_stop({key: message[key] for key in wire.STOP_FIELDS if key in message})
        inputs = raw_inputs(frame.data)
        for position, block in enumerate(self._content):
            if is_object(block):
                raw = inputs[position] if position < len(inputs) else None
                self._blocks.add_complete(position, block, raw, events)

    def _block_start(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        # Twice in a row a start adds nothing; later it would be a second block at one index.
        if value == self._last_start:
            self.note("repeated_block_start", "block")
            return
        # A stop reason before this block was not that of the message.
        self._has_stopped = False
        block = value.get("content_block")
        if not is_object(block):
            raise self.malformed("content_block_start without a block, expected one")
        # As spelt: Python would write large numbers and duplicate keys anew.
        raw = raw_input(frame.data) if block.get("input") else None
        self._blocks.start(self._index_of(value), block, raw, events)
        self._run.allow_templates()

    def _block_delta(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        blocks, index, delta = self._blocks, self._index_of(value), value.get("delta")
        if not is_object(delta):
            delta = {}
        match delta.get("type"):
            case "compaction_delta" if blocks.complete_held(
                index, wire.unknown_fields(delta, ("type",)), events
            ):
                pass
            case "input_json_delta" if blocks.is_held(index):
                raise self.malformed("input of a block that is no call, expected a call")
            # A known delta type of an unknown block may mean something else there.
            case _ if blocks.is_unknown(index):
                blocks.add_unknown(index, "content_block_delta", value, events)
            case "text_delta":
                blocks.append_text(index, wire.text_of(delta, "text"), events)
            case "thinking_delta":
                blocks.append_thinking(index, wire.text_of(delta, "thinking"), events)
                # The thinking is in the unified delta; the beta's estimate passes beside it.
                if delta.get("estimated_tokens") is not None:
                    estimate = {**value, "delta": {**delta, "thinking": ""}}
                    blocks.add_unknown(index, "content_block_delta", estimate, events)
            case "input_json_delta":
                blocks.append_input(index, wire.text_of(delta, "partial_json"), events)
            case "signature_delta":
                blocks.sign(index, wire.text_of(delta, "signature"), events)
            case "citations_delta" if is_object(citation := delta.get("citation")):
                blocks.cite(index, citation, events)
            case _:
                blocks.add_unknown(index, "content_block_delta", value, events)

    def _block_stop(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        self._blocks.stop(self._index_of(value), events)

    def _index_of(self, value: _Value) -> int | None:
        index = value.get("index")
        # `type`, since JSON's `true` is an `int` for Python.
        if index is None or type(index) is int:
            return index
        raise self.malformed(f"index is {found(index)}, expected an integer")

    def _message_delta(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        delta = value.get("delta")
        if not is_object(delta):
            delta = {}
        if reason := string_of(delta, "stop_reason"):
            # The reference allows several `message_delta`, whose counts are cumulative, for one
            # stop.
            if self._has_stopped and reason != self._stop_reason:
                raise self.malformed("second stop reason, expected one")
            # A reason within a block is that of a server which has not stopped its blocks.
            self._has_stopped = not self._blocks.is_open
        self._merge_stop(delta)
        self._store_stop_extra(value, ("type", "delta", "usage"))
        self._merge_usage(value.get("usage"), events)

    def _message_stop(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        # Neither the block nor the message is marked as complete.
        if self._stop_reason is None and self._blocks.is_open:
            raise self.malformed("message_stop in an open block, expected its stop or a reason")
        # Bedrock adds its metrics (bedrock/invocation-metrics).
        self._store_stop_extra(value, ("type",))
        self._finish(events)

    def _finish(self, events: list[Event]) -> None:
        self._blocks.finish(events)
        raw = self._stop_reason
        reason = stop_reason_from_wire(
            raw,
            has_client_call=self._blocks.has_client_call,
            has_unfinished_call=self._blocks.unfinished_calls > 0,
        )
        extra = self._stop_extra or None
        events.append(MessageStop(reason, raw, self._stop_sequence, extra=extra))
        # proxy/no-message-delta: gateways lose the frame at the token limit (maximhq/bifrost#6081).
        lenient = () if raw is not None else ("no_finish",)
        self.outcome = Completed(reason, self._usage.usage, lenient)

    def _merge_usage(self, usage: Any, events: list[Event]) -> None:
        before = self._usage.usage.extra
        if is_object(usage) and self._usage.merge(usage):
            if self._usage.usage.extra != before:
                self._blocks.opener.store_usage(self._usage.usage.extra)
            events.append(UsageUpdate(self._usage.usage))

    def _merge_stop(self, fields: _Value) -> None:
        """Merge the stop fields of a `message_start` or `message_delta`."""
        # Null in a later frame is no answer: the SDKs would forget the reason.
        if reason := string_of(fields, "stop_reason"):
            self._stop_reason = reason
        if sequence := string_of(fields, "stop_sequence"):
            self._stop_sequence = sequence
        self._store_stop_extra(fields, ("stop_reason", "stop_sequence"))

    def _store_stop_extra(self, value: _Value, mapped: tuple[str, ...]) -> None:
        # A stream may repeat `message_delta`, with other unknown fields each time.
        if unknown := wire.unknown_fields(value, mapped):
            self._blocks.opener.store_fields(self._stop_extra, unknown)

    _READERS: ClassVar[
        dict[str, Callable[[AnthropicDecoder, _Value, Frame, list[Event]], None]]
    ] = {
        "message_start": _message_start,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
        "message_delta": _message_delta,
        "message_stop": _message_stop,
    }


class AnthropicRun(DeltaRun):
    """Delta run of `content_block_delta` events.

    Args:
        blocks: The open blocks of the message.
    """

    prefix = b"event: content_block_delta\ndata: "
    # Anthropic pads its deltas with spaces behind the inner object.
    padding = re.compile(rb"\}( *)\}$")

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks
        self._stored = blocks.opener.stored

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        delta = event.delta
        block = self._blocks.appendable_block(event.index, type(delta))
        if block is None or block.delta is None:
            return None
        text = delta.text
        is_input = type(delta) is wire.InputJSONDelta
        if is_input and not block.append_fragment(text, self._stored):
            return None
        if self.can_learn:
            fresh = block.fragments.fresh if is_input else None
            extend = partial(self._extend, block) if is_input else None
            peek = partial(_peek, event.index, type(delta))
            self.learn(payload, text, peek, delta=block.delta, extend=extend, fresh=fresh)
        self.delta = block.delta
        return text

    def forget(self) -> None:
        """Discard the templates of deltas, since a frame may have changed their blocks."""
        if self._templates.last is not None:
            self.clear_templates()

    def _extend(self, block: OpenBlock, text: str) -> bool:
        """Append a fragment to the input of a call, unless the input would exceed the bound."""
        return block.append_fragment(text, self._stored)


def _peek(index: int, kind: type[wire.Delta], payload: bytes) -> str | None:
    """Return the text of a delta; None if the payload has another block index or delta type."""
    event = wire.decode_delta(payload)
    return event.delta.text if (event.index, type(event.delta)) == (index, kind) else None
