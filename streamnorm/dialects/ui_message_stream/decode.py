"""Decoder of the UI message stream: frames, message chunks, and delta runs.

npm `ai` 7.0.173, `src/ui/process-ui-message-stream.ts` (read 2026-11-23), the reducer of
`useChat`.  `blocks.py` reads the parts.  The client takes a stream that ends without `finish`
for success; here it is cut, since `[DONE]` proves only that the server closed it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias, Unpack

from streamnorm._core.codec import DONE, DecodeOptions, Decoder, DeltaRun, read_no_json
from streamnorm._core.events import (
    Completed,
    Delta,
    Event,
    MessageStart,
    MessageStop,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, find_error
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    decode_any,
    is_object,
    string_of,
)
from streamnorm._core.limits import OBJECT_BYTES, text_bytes
from streamnorm._core.shapes import found
from streamnorm.dialects.ui_message_stream import wire
from streamnorm.dialects.ui_message_stream.blocks import Call, MessageBlocks, PartKind
from streamnorm.dialects.ui_message_stream.content import chunk_from_wire
from streamnorm.dialects.ui_message_stream.outcome import (
    ERROR,
    INTERRUPTED,
    error_from_wire,
    stop_reason_from_wire,
    usage_from_wire,
)
from streamnorm.sse import Frame

_Value: TypeAlias = dict[str, Any]


class UIMessageDecoder(Decoder):
    """Decoder of the UI message stream.

    Args:
        options: See `Decoder`.
    """

    dialect = wire.DIALECT
    executes_calls = "agent"

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._blocks = MessageBlocks(self._limits, self.note)
        self._delta_run = self._ui_run = UIMessageRun(self._blocks)
        self._id: str | None = None  # None before the start
        self._usage = Usage()
        self._has_step = False
        self._blocks_before_step = 0

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._ui_run.forget()
        try:
            chunk = wire.decode_delta(frame.data)
        except FAST_ERRORS:
            self._read_any(frame, events)
            return
        self._begin_message(events)
        if isinstance(chunk, wire.InputDelta):
            self._blocks.append_input(chunk.toolCallId, chunk.inputTextDelta, events)
            return
        kind: PartKind = "text" if isinstance(chunk, wire.TextDelta) else "reasoning"
        self._blocks.append(kind, chunk.id, chunk.delta, chunk.providerMetadata, events)

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        if not is_object(value):
            return frame.data.startswith(DONE)
        return value.get("type") in ("finish", "error", "abort") or super().may_end_with(
            frame, value
        )

    def read_done(self, events: list[Event]) -> None:
        pass  # `finish` is the end

    # Chunks

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        """Read a chunk other than a plain delta."""
        data = frame.data
        try:
            value = decode_any(
                data, max_depth=self._limits.max_json_depth, pieces=wire.DELTA_TEXT_FIELDS
            )
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events)
            return
        if not is_object(value):
            raise self.malformed(f"chunk is {found(value)}, expected an object")
        kind = string_of(value, "type")
        if not kind:
            raise Fatal(find_error(value) or StreamError("malformed", "chunk without a type"))
        if kind == "error":
            raise Fatal(error_from_wire(value))
        if kind != "start":
            self._begin_message(events)
        read = self._READERS.get(kind)
        if read is None:
            self._blocks.flush(events)
            self._add_opaque(value, events)
        else:
            read(self, value, data, events)

    def _add_opaque(self, value: _Value, events: list[Event]) -> None:
        self._blocks.opener.check_names(string_of(value, "type"))
        events.append(chunk_from_wire(value))

    def _begin_message(self, events: list[Event]) -> None:
        if self._id is None:
            self._id = ""
            self.note("missing_start", "message")
            events.append(MessageStart())

    def _start(self, value: _Value, _: str, events: list[Event]) -> None:
        id = clean(string_of(value, "messageId"))
        if self._id is not None:
            # The client begins a second message.
            if id not in ("", self._id):
                raise self.malformed("start of another message, expected one message")
            self.note("repeated_message_start", "message")
            return
        metadata = value.get("messageMetadata")
        rest: _Value = dict(metadata) if is_object(metadata) else {}
        model = rest.pop("model", None)
        model = clean(model) if isinstance(model, str) else ""
        # Our encoder writes the id of the provider there, beside that of the page or without one.
        of_page = {"messageId": id} if id and "id" in rest else {}
        id = id or clean(string_of(rest, "id"))
        self._blocks.opener.check_names(id, model)
        self._blocks.opener.seed = (id, model)
        self._id = id
        extra = {"messageMetadata": rest, **of_page} if rest else None
        events.append(MessageStart(id, model, extra))
        self._read_usage(metadata, events)

    def _start_step(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.flush(events)
        self._blocks_before_step = self._blocks.opener.blocks
        if self._has_step:  # another call of the model
            self._blocks.step += 1
            self._add_opaque(value, events)
        self._has_step = True

    def _finish_step(self, _value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.flush(events)

    def _reset_step(self, _value: _Value, _: str, _events: list[Event]) -> None:
        # Events that were returned cannot be taken back.
        if self._blocks.opener.blocks > self._blocks_before_step:
            message = "the server withdrew a part of its answer"
            raise Fatal(StreamError("upstream", message, code="reset-step", retryable=True))

    def _text_start(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.start_part("text", value, events)
        self._ui_run.allow_templates()

    def _text_delta(self, value: _Value, _: str, events: list[Event]) -> None:
        self._append("text", value, events)

    def _text_end(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.end_part("text", value, events)

    def _reasoning_start(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.start_part("reasoning", value, events)
        self._ui_run.allow_templates()

    def _reasoning_delta(self, value: _Value, _: str, events: list[Event]) -> None:
        self._append("reasoning", value, events)

    def _reasoning_end(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.end_part("reasoning", value, events)

    def _append(self, kind: PartKind, value: _Value, events: list[Event]) -> None:
        id, text = wire.text_field(value, "id"), wire.text_field(value, "delta")
        self._blocks.append(kind, id, text, value.get("providerMetadata"), events)

    def _input_start(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.start_call(value, events)
        self._ui_run.allow_templates()

    def _input_delta(self, value: _Value, _: str, events: list[Event]) -> None:
        id = clean(wire.text_field(value, "toolCallId"))
        self._blocks.append_input(id, wire.text_field(value, "inputTextDelta"), events)

    def _input_end(self, value: _Value, data: str, events: list[Event]) -> None:
        self._blocks.complete_call(value, data, events)

    def _output(self, value: _Value, _: str, events: list[Event]) -> None:
        if not self._blocks.add_output(value, events):
            self._add_opaque(value, events)

    def _approval_request(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.request_approval(value, events)
        self._add_opaque(value, events)

    def _source(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.flush(events)
        if not self._blocks.cite(value, events):
            self._add_opaque(value, events)

    def _file(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.flush(events)
        if not self._blocks.add_file(value, events):
            self._add_opaque(value, events)

    def _metadata(self, value: _Value, _: str, events: list[Event]) -> None:
        self._blocks.flush(events)
        self._read_usage(value.get("messageMetadata"), events)
        self._add_opaque(value, events)

    def _read_usage(self, metadata: object, events: list[Event]) -> None:
        counts = metadata.get("usage") if is_object(metadata) else None
        usage = usage_from_wire(counts) if is_object(counts) else None
        if usage is not None:
            self._blocks.opener.store_usage(usage.extra)
            self._usage = usage
            events.append(UsageUpdate(usage))

    # The end

    def _abort(self, value: _Value, _: str, _events: list[Event]) -> None:
        reason = clean(string_of(value, "reason"))
        message = f"the answer was aborted: {reason}" if reason else "the answer was aborted"
        raise Fatal(StreamError("truncated", message, code="abort"))

    def _finish(self, value: _Value, _: str, events: list[Event]) -> None:
        raw = string_of(value, "finishReason")
        if raw == INTERRUPTED:
            raise Fatal(StreamError("truncated", "the answer was interrupted", code=raw))
        if raw == ERROR:
            raise Fatal(StreamError("upstream", "the answer failed", code=raw))
        self._blocks.finish(events)
        metadata = value.get("messageMetadata")
        self._read_usage(metadata, events)
        rest: _Value = dict(metadata) if is_object(metadata) else {}
        rest.pop("usage", None)
        reason = stop_reason_from_wire(raw, has_open_call=self._blocks.awaits_client)
        extra = {"messageMetadata": rest} if rest else None
        events.append(MessageStop(reason, clean(raw) or None, extra=extra))
        self.outcome = Completed(reason, self._usage)

    _READERS: ClassVar[dict[str, Callable[[UIMessageDecoder, _Value, str, list[Event]], None]]] = {
        "start": _start,
        "start-step": _start_step,
        "finish-step": _finish_step,
        "reset-step": _reset_step,
        "text-start": _text_start,
        "text-delta": _text_delta,
        "text-end": _text_end,
        "reasoning-start": _reasoning_start,
        "reasoning-delta": _reasoning_delta,
        "reasoning-end": _reasoning_end,
        "tool-input-start": _input_start,
        "tool-input-delta": _input_delta,
        "tool-input-available": _input_end,
        "tool-input-error": _input_end,
        "tool-output-available": _output,
        "tool-output-error": _output,
        "tool-output-denied": _output,
        "tool-approval-request": _approval_request,
        "source-url": _source,
        "source-document": _source,
        "file": _file,
        "reasoning-file": _file,
        "message-metadata": _metadata,
        "abort": _abort,
        "finish": _finish,
    }


class UIMessageRun(DeltaRun):
    """Delta run of text, reasoning and input deltas.

    Args:
        blocks: The open parts and calls of the message.
    """

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks
        self._stored = blocks.opener.stored
        # What the last chunk extended, a part or a call: looking it up costs as much as decoding
        # the chunk.  None after a chunk that was read in full and may have ended it.
        self._type: type[wire.TextDelta | wire.ReasoningDelta] | None = None
        self._call: Call | None = None
        self._id = ""
        self._extended: Delta  # of that part or call

    def forget(self) -> None:
        """Forget the part or call of the last delta, and the templates."""
        self._type = self._call = None
        if self._templates.last is not None:
            self.clear_templates()

    def decode(self, payload: bytes) -> str | None:
        try:
            chunk = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        if type(chunk) is wire.InputDelta:
            return self._extend_input(chunk, payload)
        if (type(chunk) is not self._type or chunk.id != self._id) and not self._select(chunk):
            return None
        if chunk.providerMetadata is not None:
            return None
        # A template may have extended another part since.
        self.delta = self._extended
        if self.can_learn:
            peek = partial(_peek, type(chunk), chunk.id)
            self.learn(payload, chunk.delta, peek, delta=self.delta)
        return chunk.delta

    def _select(self, chunk: wire.TextDelta | wire.ReasoningDelta) -> bool:
        """Select the part of a delta; return whether the delta can extend it."""
        kind: PartKind = "text" if type(chunk) is wire.TextDelta else "reasoning"
        part = self._blocks.open.get((kind, chunk.id))
        # The first text of a block opens it for the target.
        if part is None or part.delta is None or not part.has_text or part.carry:
            return False
        if self._blocks.ended is not None:
            return False
        self._type, self._call, self._id, self._extended = type(chunk), None, chunk.id, part.delta
        return True

    def _extend_input(self, chunk: wire.InputDelta, payload: bytes) -> str | None:
        call, text = self._call, chunk.inputTextDelta
        if call is None or chunk.toolCallId != self._id:
            call = self._select_call(chunk.toolCallId)
            if call is None:
                return None
        if not self._append(call, text):
            return None
        self.delta = self._extended
        if self.can_learn:
            peek, extend = partial(_peek_input, chunk.toolCallId), partial(self._append, call)
            self.learn(payload, text, peek, delta=self.delta, extend=extend)
        return text

    def _append(self, call: Call, text: str) -> bool:
        """Append a fragment to the input of a call, unless the input would exceed the bound."""
        if text:
            size = text_bytes(text) + OBJECT_BYTES
            if not self._stored.reserve(size):  # the full reading reports the limit
                return False
            call.append(text, size)
        return True

    def _select_call(self, id: str) -> Call | None:
        """Select and return the call of a delta; None if deltas cannot extend the call."""
        call = self._blocks.calls.get(id)
        if call is None or not call.is_open or not call.fragments or call.carry:
            return None
        if self._blocks.ended is not None:
            return None
        self._type, self._call, self._id, self._extended = None, call, id, call.delta
        return call


def _peek(kind: type[wire.TextDelta | wire.ReasoningDelta], id: str, payload: bytes) -> str | None:
    """Return the text of a text or reasoning delta; None if the payload belongs to another part."""
    chunk = wire.decode_delta(payload)
    return (
        chunk.delta
        if type(chunk) is not wire.InputDelta
        and (type(chunk), chunk.id, chunk.providerMetadata) == (kind, id, None)
        else None
    )


def _peek_input(id: str, payload: bytes) -> str | None:
    """Return the text of an input delta; None if the payload belongs to another call."""
    chunk = wire.decode_delta(payload)
    return (
        chunk.inputTextDelta if type(chunk) is wire.InputDelta and chunk.toolCallId == id else None
    )
