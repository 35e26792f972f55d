"""Encoder of `ConverseStream`.

botocore 1.44.5, `bedrock-runtime/2023-09-30/service-2.json` (read 2026-11-23).  Text and
reasoning have no start, so that a block is numbered by its first delta; `metadata` follows the
end of the message, and is never left out, since users of boto3 index its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from streamnorm._core.blocks import (
    Block,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.codec import EncodeOptions, Encoder
from streamnorm._core.codec.templates import delta_frames
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.json import dumps, is_object
from streamnorm._core.text import Signed
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.content import (
    TOOL_RESULT,
    TOOL_USE,
    call_to_wire,
    citation_to_wire,
    event_to_wire,
    opaque_to_wire,
    redacted_to_wire,
    result_to_wire,
    signature_to_wire,
)
from streamnorm.dialects.bedrock_converse.outcome import (
    error_body,
    exception_to_wire,
    stop_reason_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.bedrock_converse.traits import CAPABILITIES

# Fields of `metadata`; all others of the end of a message stand in `messageStop`.
_METADATA_FIELDS = ("metrics", "trace", "performanceConfig")
_STOP_FIELD = "additionalModelResponseFields"

# JSON texts of the only delta of a block without text, and of a call without input.
_NO_TEXT, _NO_INPUT = b'""', b'"{}"'


class ConverseEncoder(Encoder):
    """Encoder of `ConverseStream`.

    Args:
        options: See `Encoder`.
    """

    dialect = wire.DIALECT
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._next_index = 0
        self._indexes: dict[int, int] = {}  # wire index by unified index
        # Start and end of the frame of a block's deltas around the text, by unified index.
        self._frames: dict[int, tuple[bytes, bytes]] = {}
        self._silent: dict[int, bytes] = {}  # text of open blocks that have no delta yet

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        return delta_frames(*self._frames[index])

    def delta_template(self, index: int) -> tuple[bytes, bytes]:
        return self._frames[index]

    def ping(self) -> bytes:
        return b""  # nothing can be sent to keep a client waiting

    def error_body(self, error: StreamError) -> bytes:
        return dumps(error_body(error))

    def _text(self, event: TextDelta | ReasoningDelta) -> bytes:
        return self._write_text(event.index, dumps(event.text))

    _reasoning = _text

    def _json(self, event: JSONDelta) -> bytes:
        return self._write_text(event.index, dumps(event.partial_json))

    def _write_text(self, index: int, text: bytes) -> bytes:
        self._silent.pop(index, None)
        head, tail = self._frames[index]
        return head + text + tail

    def _signature(self, event: SignatureDelta) -> bytes:
        self._silent.pop(event.index, None)
        signature = signature_to_wire(Signed(event.signature, event.issuer, event.id))
        return self._delta(event.index, {"reasoningContent": {"signature": signature}})

    def _citation(self, event: CitationDelta) -> bytes:
        return self._delta(event.index, {"citation": citation_to_wire(event.citation)})

    def _delta(self, index: int, delta: object) -> bytes:
        return _frame(wire.BLOCK_DELTA, {wire.INDEX: self._indexes[index], "delta": delta})

    def _block_start(self, event: BlockStart) -> bytes:
        index = self._indexes[event.index] = self._next_index
        self._next_index += 1
        block = event.block
        before, after, silence = _delta_around(block)
        self._frames[event.index] = (
            b'event: contentBlockDelta\ndata: {"contentBlockIndex":%d,"delta":%b' % (index, before),
            after + b"}\n\n",
        )
        self._silent[event.index] = silence
        start, deltas = _block_to_wire(block)
        if not silence:
            del self._silent[event.index]
        written = b""
        if start is not None:
            extra = self._vendor_fields(event.extra)
            if extra and is_object(start):
                start = {name: {**extra, **fields} for name, fields in start.items()}
            written = _frame(wire.BLOCK_START, {wire.INDEX: index, "start": start})
        return written + b"".join([self._delta(event.index, delta) for delta in deltas])

    def _block_stop(self, event: BlockStop) -> bytes:
        # Without a delta the block of a text would never open, and the input of a tool be no JSON.
        silence = self._silent.pop(event.index, b"")
        written = self._write_text(event.index, silence) if silence else b""
        del self._frames[event.index]
        return written + _frame(wire.BLOCK_STOP, {wire.INDEX: self._indexes[event.index]})

    def _message_start(self, event: MessageStart) -> bytes:
        extra = self._take_extra(event.extra) if event.extra else {}
        fields = {**extra, "role": "assistant"}
        return _frame(wire.MESSAGE_START, fields)

    def _message_stop(self, event: MessageStop) -> bytes:
        rest = self._take_extra(event.extra) if event.extra else {}
        rest.pop("service_tier", None)
        metadata = {name: rest.pop(name) for name in _METADATA_FIELDS if name in rest}
        metadata = {"metrics": {"latencyMs": 0}, **metadata}  # which only a clock knows
        if self._tier_field:
            metadata["serviceTier"] = {"type": self._tier_field["service_tier"]}
        usage = usage_to_wire(self._usage)
        metadata["usage"] = {**self._vendor_fields(self._usage.extra), **usage}
        if event.stop_sequence is not None and _STOP_FIELD not in rest:
            rest[_STOP_FIELD] = {"stop_sequence": event.stop_sequence}
        stop = {**rest, "stopReason": stop_reason_to_wire(event.reason, event.raw_reason)}
        return _frame(wire.MESSAGE_STOP, stop) + _frame(wire.METADATA, metadata)

    def _error(self, event: StreamError) -> bytes:
        # A client takes the end of the bytes for success: the framing makes this an exception.
        name, fields = exception_to_wire(event)
        return _frame(name, fields)

    def _opaque(self, event: Opaque) -> bytes:
        written, index = b"", None
        if event.index is not None:
            index = self._indexes.get(event.index)
            # The first delta decides the kind of a block that has no start.
            if self._silent.get(event.index) == _NO_TEXT:
                written = self._write_text(event.index, _NO_TEXT)
        name, payload = event_to_wire(event, index)
        return b"%bevent: %b\ndata: %b\n\n" % (written, name.encode("utf-8", "replace"), payload)


def _frame(event: str, fields: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), dumps(fields))


def _image_format(media_type: str) -> str:
    format = media_type.lower().removeprefix("image/")
    return "jpeg" if format == "jpg" else format  # a common name of the type


def _delta_around(block: Block) -> tuple[bytes, bytes, bytes]:
    """Return the bytes before and after a delta's text, and the text for a block without deltas.

    The latter is b"" for blocks that need no delta.
    """
    match block:
        case Reasoning():
            return b'{"reasoningContent":{"text":', b"}}", _NO_TEXT
        case ToolCall() | ServerToolCall():
            return b'{"toolUse":{"input":', b"}}", _NO_INPUT
        case Text():
            return b'{"text":', b"}", _NO_TEXT
        case _:
            return b"", b"", b""


def _block_to_wire(block: Block) -> tuple[object, list[object]]:
    """Return the start of a block (None if it has none), and its initial deltas."""
    match block:
        case Text() | Reasoning():
            return None, []
        case RedactedReasoning():
            return None, [{"reasoningContent": {"redactedContent": redacted_to_wire(block)}}]
        case ToolCall() | ServerToolCall():
            return {TOOL_USE: call_to_wire(block)}, []
        case ServerToolResult(content=content):
            return {TOOL_RESULT: result_to_wire(block)}, [{TOOL_RESULT: content}]
        case Image(str(media_type), str(data)):
            start = {"image": {"format": _image_format(media_type)}}
            return start, [{"image": {"source": {"bytes": data}}}]
        case OpaqueBlock():
            return opaque_to_wire(block)
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")
