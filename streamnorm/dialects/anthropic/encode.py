"""Events to Anthropic Messages SSE.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  Every
frame is named, since the SDKs drop those that are not; indexes are dense in the order
of block starts; a tool's input comes by deltas alone, since Claude Code ignores it in
the start; `message_stop` follows success and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from streamnorm.blocks import (
    Block,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Text,
    ToolCall,
)
from streamnorm.codec import Encoder
from streamnorm.events import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm.ids import escape_id, tag_signature
from streamnorm.losses import OnLoss
from streamnorm.sse import encode_frame

__all__ = ["AnthropicEncoder"]

_dumps = msgspec.json.Encoder().encode

_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_DELTA_END = b"}}\n\n"

_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_STOP_REASONS = {"pause": "pause_turn"}


class AnthropicEncoder(Encoder):
    """Write Anthropic Messages.

    Args:
        model: Model to name in `message_start` in place of the one that answered.
        strict: Whether to raise `LossyEncoding` at the first loss.
        on_loss: Called with each loss as it happens.
    """

    dialect = "anthropic"
    interleaves = False

    def __init__(
        self, *, model: str | None = None, strict: bool = False, on_loss: OnLoss | None = None
    ) -> None:
        super().__init__(strict=strict, on_loss=on_loss)
        self._model = model
        self._usage = Usage()
        self._next = 0
        # Of each block: its frames' constant head, up to the text of a delta.
        self._heads: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}
        self._without_input: set[int] = set()
        self._render: dict[type, Callable[[Any], bytes]] = {
            TextDelta: self._text,
            JSONDelta: self._json,
            ReasoningDelta: self._text,
            SignatureDelta: self._signature,
            BlockStart: self._block_start,
            BlockStop: self._block_stop,
            MessageStart: self._message_start,
            UsageUpdate: self._usage_update,
            MessageStop: self._message_stop,
            StreamError: self._error,
            Ping: lambda _: _PING,
            Opaque: self._opaque,
        }

    def render(self, event: Event) -> bytes:
        return self._render[type(event)](event)

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return _dumps({"type": "error", "error": _error_of(error)})

    def close(self) -> bytes:
        return b""

    def _text(self, event: TextDelta | ReasoningDelta) -> bytes:
        return self._heads[event.index] + _dumps(event.text) + _DELTA_END

    def _json(self, event: JSONDelta) -> bytes:
        self._without_input.discard(event.index)
        return self._heads[event.index] + _dumps(event.partial_json) + _DELTA_END

    def _signature(self, event: SignatureDelta) -> bytes:
        # Only Anthropic can verify what it signed; a client sends the rest back to us.
        signature = event.signature
        if event.issuer != "anthropic":
            signature = tag_signature(signature, event.issuer)
        return self._delta(event.index, {"type": "signature_delta", "signature": signature})

    def _delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _frame("content_block_delta", {"index": self._numbers[index], "delta": delta})

    def _block_start(self, event: BlockStart) -> bytes:
        number = self._numbers[event.index] = self._next
        self._next += 1
        kind, field, empty = _delta_of(event.block)
        self._heads[event.index] = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":' % (number, kind, field)
        )
        start = _frame(
            "content_block_start", {"index": number, "content_block": _block(event.block)}
        )
        if not empty:
            return start
        self._without_input.add(event.index)
        # The API opens every input with an empty delta.
        return start + self._heads[event.index] + b'""' + _DELTA_END

    def _block_stop(self, event: BlockStop) -> bytes:
        rest = b""
        if event.index in self._without_input:  # clients parse nothing as null
            rest = self._json(JSONDelta(event.index, "{}"))
        del self._heads[event.index]
        return rest + _frame("content_block_stop", {"index": self._numbers[event.index]})

    def _message_start(self, event: MessageStart) -> bytes:
        message: dict[str, Any] = {
            "id": event.id,
            "type": "message",
            "role": "assistant",
            "model": self._model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(self._usage),
        }
        return _frame("message_start", {"message": message})

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        return b""

    def _message_stop(self, event: MessageStop) -> bytes:
        delta: dict[str, Any] = {
            "stop_reason": _STOP_REASONS.get(event.reason, event.reason),
            "stop_sequence": event.stop_sequence,
        }
        if event.reason == "refusal":
            delta["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
        body = {"delta": delta, "usage": _usage(self._usage)}
        return _frame("message_delta", body) + _MESSAGE_STOP

    def _error(self, event: StreamError) -> bytes:
        return _frame("error", {"error": _error_of(event)})

    def _opaque(self, event: Opaque) -> bytes:
        return encode_frame(event.data, event=event.name)


def _frame(event: str, body: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), _dumps({"type": event, **body}))


def _delta_of(block: Block) -> tuple[bytes, bytes, bool]:
    """Return the type and field of a block's deltas, and whether it is a tool's input."""
    match block:
        case Reasoning():
            return b"thinking_delta", b"thinking", False
        case ToolCall():
            return b"input_json_delta", b"partial_json", True
        case _:
            return b"text_delta", b"text", False


def _block(block: Block) -> Any:
    match block:
        case Text():
            return {"type": "text", "text": ""}
        case Reasoning():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case RedactedReasoning(data, issuer):
            data = data if issuer == "anthropic" else tag_signature(data, issuer)
            return {"type": "redacted_thinking", "data": data}
        case ToolCall(id, name):
            return {"type": "tool_use", "id": escape_id(id), "name": name, "input": {}}
        case OpaqueBlock(data=data):
            # A line end, which JSON has only between its tokens, would end the frame's line.
            line = data.replace("\r", " ").replace("\n", " ")
            return msgspec.Raw(line.encode("utf-8", "replace"))
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")


def _usage(usage: Usage) -> dict[str, Any]:
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    wire: dict[str, Any] = {
        # Anthropic leaves the cached tokens out of the input tokens.
        "input_tokens": max((usage.input_tokens or 0) - read - write, 0),
        "cache_creation_input_tokens": write,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens or 0,
    }
    if usage.reasoning_tokens is not None:
        wire["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return wire


def _error_of(error: StreamError) -> dict[str, str]:
    return {"type": _error_type(error), "message": error.message}


def _error_type(error: StreamError) -> str:
    status = error.status_hint
    if status is not None and 400 <= status < 500:
        return _ERROR_TYPES.get(status, "invalid_request_error")
    if error.kind == "stalled":
        return "timeout_error"
    return _ERROR_TYPES.get(status or 0, "api_error")
