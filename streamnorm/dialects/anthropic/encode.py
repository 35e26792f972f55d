"""Encoder of Anthropic Messages.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  Every
frame has an event line, since the SDKs drop those without; indexes count the blocks in the
order of their starts; a tool's input is sent by deltas alone, since Claude Code ignores it
in the start; `message_stop` is sent after success only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from streamnorm._core.blocks import (
    Block,
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
    Usage,
)
from streamnorm._core.json import dumps
from streamnorm._core.text import Signed
from streamnorm.dialects.anthropic.content import (
    CALLS,
    call_to_wire,
    citation_to_wire,
    event_to_wire,
    opaque_to_wire,
    redacted_to_wire,
    result_to_wire,
    signature_to_wire,
)
from streamnorm.dialects.anthropic.outcome import error_to_wire, stop_reason_to_wire, usage_to_wire
from streamnorm.dialects.anthropic.traits import CAPABILITIES
from streamnorm.dialects.anthropic.wire import DIALECT

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_BLOCK_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_DELTA_END = b"}}\n\n"
_TEXT_DELTA = (b"text_delta", b"text")
# Delta types, and the names of their text fields, of the blocks whose deltas are no text deltas.
_DELTAS: dict[type[Block], tuple[bytes, bytes]] = {
    Reasoning: (b"thinking_delta", b"thinking"),
    ToolCall: (b"input_json_delta", b"partial_json"),
    ServerToolCall: (b"input_json_delta", b"partial_json"),
}

# Fields within the `delta` of `message_delta`; unknown fields stand at the level of `usage`.
_DELTA_FIELDS = ("stop_details", "container", "safeguard_results")

_BEDROCK = "amazon-bedrock-"  # prefix of fields that Bedrock adds to `message_stop`


class AnthropicEncoder(Encoder):
    """Encoder of Anthropic Messages.

    Args:
        options: See `Encoder`.
    """

    dialect = DIALECT
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._next_index = 0
        self._indexes: dict[int, int] = {}  # wire index by unified index
        # Start of a block's delta frames, up to the text, by unified index.
        self._delta_heads: dict[int, bytes] = {}
        self._without_input: dict[int, None] = {}  # open calls without any input so far
        self._written_usage = Usage()  # the snapshot in `message_start`

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        return delta_frames(self._delta_heads[index], _DELTA_END)

    def delta_template(self, index: int) -> tuple[bytes, bytes]:
        return self._delta_heads[index], _DELTA_END

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return dumps({"type": "error", "error": error_to_wire(error, extras=self.extras)})

    def _text(self, event: TextDelta | ReasoningDelta) -> bytes:
        return self._delta_heads[event.index] + dumps(event.text) + _DELTA_END

    _reasoning = _text

    def _json(self, event: JSONDelta) -> bytes:
        self._without_input.pop(event.index, None)
        return self._delta_heads[event.index] + dumps(event.partial_json) + _DELTA_END

    def _signature(self, event: SignatureDelta) -> bytes:
        signature = signature_to_wire(Signed(event.signature, event.issuer, event.id))
        return self._delta(event.index, {"type": "signature_delta", "signature": signature})

    def _citation(self, event: CitationDelta) -> bytes:
        citation = citation_to_wire(event.citation)
        return self._delta(event.index, {"type": "citations_delta", "citation": citation})

    def _delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _frame("content_block_delta", {"index": self._indexes[index], "delta": delta})

    def _block_start(self, event: BlockStart) -> bytes:
        # The SDKs append a block at its start and find it by index at its deltas: gaps lose text.
        index = self._indexes[event.index] = self._next_index
        self._next_index += 1
        block = event.block
        if isinstance(block, OpaqueBlock):
            content_block, delta = opaque_to_wire(block)
            start = _start_frame(index, content_block)
            return start if delta is None else start + self._delta(event.index, delta)
        kind, field = _DELTAS.get(type(block), _TEXT_DELTA)
        self._delta_heads[event.index] = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":' % (index, kind, field)
        )
        # Known fields last: each of them is required by the SDKs, `text: ""` included.
        content_block = _block_to_wire(block)
        if event.extra:
            content_block = self._vendor_fields(event.extra) | content_block
        start = _start_frame(index, content_block)
        if not isinstance(block, CALLS):
            return start
        self._without_input[event.index] = None
        # The API begins the deltas of every call with an empty one.
        return start + self._delta_heads[event.index] + b'""' + _DELTA_END

    def _block_stop(self, event: BlockStop) -> bytes:
        arguments = b""
        if event.index in self._without_input:  # clients parse an input of no text as null
            arguments = self._json(JSONDelta(event.index, "{}"))
        self._delta_heads.pop(event.index, None)
        return arguments + _BLOCK_STOP % self._indexes[event.index]

    def _message_start(self, event: MessageStart) -> bytes:
        extra = self._take_extra(event.extra) if event.extra else {}
        self._written_usage = self._usage
        message: dict[str, Any] = {
            **extra,
            "id": event.id,
            "type": "message",
            "role": "assistant",
            "model": self._model or event.model,
            # Required, like the two nulls below: the SDKs fail at a message without them.
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._counts(),
        }
        return _frame("message_start", {"message": message})

    def _message_stop(self, event: MessageStop) -> bytes:
        rest = self._take_extra(event.extra) if event.extra else {}
        delta: dict[str, Any] = {
            "stop_reason": stop_reason_to_wire(event.reason, event.raw_reason),
            "stop_sequence": event.stop_sequence,
        }
        # The API sends `stop_details` with every refusal; another dialect has none to write.
        if event.reason == "refusal" and not self.extras:
            delta["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
        delta |= {key: rest.pop(key) for key in _DELTA_FIELDS if key in rest}
        # Bedrock's metrics stand in the last frame (bedrock/invocation-metrics), all else in the
        # one before.
        last = {key: rest.pop(key) for key in list(rest) if key.startswith(_BEDROCK)}
        # All counts again: Claude Code uses those of the start where these are missing or 0.
        body = {**rest, "delta": delta, "usage": self._counts()}
        return _frame("message_delta", body) + (
            _frame("message_stop", last) if last else _MESSAGE_STOP
        )

    def _error(self, event: StreamError) -> bytes:
        if self._usage != self._written_usage:  # an `error` event has no `usage`
            self._losses.add("usage", "failed stream", "dropped")
        # By event line and type: the Python SDK ignores an error without the first.  No stop
        # follows.
        return _frame("error", {"error": error_to_wire(event, extras=self.extras)})

    def _opaque(self, event: Opaque) -> bytes:
        index = None if event.index is None else self._indexes.get(event.index)
        return event_to_wire(event, index)

    def _counts(self) -> dict[str, Any]:
        """Return the `usage` object, with unknown fields and the service tier."""
        usage = self._usage
        extra = self._vendor_fields(usage.extra) if usage.extra else {}
        return {**extra, **usage_to_wire(usage), **self._tier_field}


def _frame(event: str, body: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), dumps({"type": event, **body}))


def _start_frame(index: int, content_block: object) -> bytes:
    return _frame("content_block_start", {"index": index, "content_block": content_block})


def _block_to_wire(block: Block) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": ""}
        case Reasoning():
            # Clients require the key `signature`, also where no signature follows.
            return {"type": "thinking", "thinking": "", "signature": ""}
        case RedactedReasoning():
            return redacted_to_wire(block)
        case ToolCall() | ServerToolCall():
            return call_to_wire(block)
        case ServerToolResult():
            return result_to_wire(block)
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")
