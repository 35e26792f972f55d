"""Events to Anthropic Messages SSE.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  Every
frame is named, since the SDKs drop those that are not; indexes are dense in the order
of block starts; a tool's input comes by deltas alone, since Claude Code ignores it in
the start; `message_stop` follows success and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Unpack

import msgspec

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
    UsageUpdate,
)
from streamnorm._core.ids import escape_id, tag_signature
from streamnorm._core.json import FAST_ERRORS, compact, is_object
from streamnorm.dialects.anthropic.capabilities import CAPABILITIES
from streamnorm.dialects.anthropic.starts import citation_to_wire
from streamnorm.dialects.anthropic.stops import reason_to_wire
from streamnorm.dialects.anthropic.usage import usage_to_wire
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

_BEDROCK = "amazon-bedrock-"  # which Bedrock adds to the last event
_FORGES = re.compile("[\r\n\0]")


class AnthropicEncoder(Encoder):
    """Write Anthropic Messages.

    Args:
        options: See `Encoder`.
    """

    dialect = "anthropic"
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._usage = Usage()
        self._next = 0
        # Of each block: its frames' constant head, up to the text of a delta.
        self._heads: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}
        self._without_input: dict[int, None] = {}

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        head = self._heads[index]
        return lambda text: head + _dumps(text) + _DELTA_END

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return _dumps({"type": "error", "error": _error_of(error)})

    def close(self) -> bytes:
        return b""

    def _text(self, event: TextDelta | ReasoningDelta) -> bytes:
        return self._heads[event.index] + _dumps(event.text) + _DELTA_END

    _reasoning = _text

    def _json(self, event: JSONDelta) -> bytes:
        self._without_input.pop(event.index, None)
        return self._heads[event.index] + _dumps(event.partial_json) + _DELTA_END

    def _signature(self, event: SignatureDelta) -> bytes:
        # Only Anthropic can verify what it signed; a client sends the rest back to us.
        signature = event.signature
        if event.issuer != "anthropic":
            signature = tag_signature(signature, event.issuer)
        return self._delta(event.index, {"type": "signature_delta", "signature": signature})

    def _citation(self, event: CitationDelta) -> bytes:
        source = citation_to_wire(event.citation)
        return self._delta(event.index, {"type": "citations_delta", "citation": source})

    def _delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _frame("content_block_delta", {"index": self._numbers[index], "delta": delta})

    def _block_start(self, event: BlockStart) -> bytes:
        number = self._numbers[event.index] = self._next
        self._next += 1
        block = event.block
        if isinstance(block, OpaqueBlock):
            return _opaque_start(number, block)
        kind, field, empty = _delta_of(block)
        self._heads[event.index] = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":' % (number, kind, field)
        )
        extra = event.extra if self.extras and event.extra else {}
        start = _frame(
            "content_block_start", {"index": number, "content_block": {**extra, **_block(block)}}
        )
        if not empty:
            return start
        self._without_input[event.index] = None
        # The API opens every input with an empty delta.
        return start + self._heads[event.index] + b'""' + _DELTA_END

    def _block_stop(self, event: BlockStop) -> bytes:
        rest = b""
        if event.index in self._without_input:  # clients parse nothing as null
            rest = self._json(JSONDelta(event.index, "{}"))
        self._heads.pop(event.index, None)
        return rest + _frame("content_block_stop", {"index": self._numbers[event.index]})

    def _message_start(self, event: MessageStart) -> bytes:
        extra = event.extra or {}
        self._note_tier(extra.get("service_tier"))
        message: dict[str, Any] = {
            **(extra if self.extras else {}),
            "id": event.id,
            "type": "message",
            "role": "assistant",
            "model": self._model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._counts(),
        }
        return _frame("message_start", {"message": message})

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        self._note_tier((event.usage.extra or {}).get("service_tier"))
        return b""

    def _message_stop(self, event: MessageStop) -> bytes:
        extra = event.extra or {}
        self._note_tier(extra.get("service_tier"))
        delta: dict[str, Any] = {
            "stop_reason": reason_to_wire(event.reason, event.raw_reason),
            "stop_sequence": event.stop_sequence,
        }
        if event.reason == "refusal":
            delta["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
        rest: dict[str, Any] = dict(extra) if self.extras else {}
        delta |= {key: rest.pop(key) for key in ("stop_details", "container") if key in rest}
        last = {key: rest.pop(key) for key in list(rest) if key.startswith(_BEDROCK)}
        body = {**rest, "delta": delta, "usage": self._counts()}
        return _frame("message_delta", body) + (
            _frame("message_stop", last) if last else _MESSAGE_STOP
        )

    def _error(self, event: StreamError) -> bytes:
        return _frame("error", {"error": _error_of(event)})

    def _opaque(self, event: Opaque) -> bytes:
        data, name = event.data, event.name
        if event.index is not None:
            data = _renumbered(data, self._numbers.get(event.index))
        # A name that would forge a frame is none that a client knows.
        return encode_frame(data, event=None if _FORGES.search(name) else name)

    def _counts(self) -> dict[str, Any]:
        """Return the usage, with what else was told of it where the source is the same."""
        extra = self._usage.extra if self.extras else None
        return {**(extra or {}), **usage_to_wire(self._usage), **self._tiered()}


def _frame(event: str, body: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), _dumps({"type": event, **body}))


def _delta_of(block: Block) -> tuple[bytes, bytes, bool]:
    """Return the type and field of a block's deltas, and whether it is a tool's input."""
    match block:
        case Reasoning():
            return b"thinking_delta", b"thinking", False
        case ToolCall() | ServerToolCall():
            return b"input_json_delta", b"partial_json", True
        case _:
            return b"text_delta", b"text", False


def _block(block: Block) -> dict[str, Any]:
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
        case ServerToolCall(id, name, kind=kind):
            return {"type": kind, "id": id, "name": name, "input": {}}
        case ServerToolResult(id, kind, content):
            return {"type": kind, "tool_use_id": id, "content": content}
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")


def _opaque_start(number: int, block: OpaqueBlock) -> bytes:
    """Return the start of a block that is written as it came."""
    # A line end, which JSON has only between its tokens, would end the frame's line.
    line = block.data.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace")
    if block.kind != "compaction":
        body = {"index": number, "content_block": msgspec.Raw(line)}
        return _frame("content_block_start", body)
    # The API sends this one empty, and all of it in one delta.
    fields = {key: value for key, value in msgspec.json.decode(line).items() if key != "type"}
    start = {"index": number, "content_block": {"type": block.kind, "content": None}}
    delta = {"index": number, "delta": {"type": "compaction_delta", **fields}}
    return _frame("content_block_start", start) + _frame("content_block_delta", delta)


def _renumbered(data: str, number: int | None) -> str:
    """Return an event of a block with the number that the block has here."""
    try:
        value = msgspec.json.decode(data)
    except FAST_ERRORS:
        return data
    return compact({**value, "index": number}) if is_object(value) and "index" in value else data


def _error_of(error: StreamError) -> dict[str, str]:
    return {"type": _error_type(error), "message": error.message}


def _error_type(error: StreamError) -> str:
    status = error.status_hint
    if status is not None and 400 <= status < 500:
        return _ERROR_TYPES.get(status, "invalid_request_error")
    if error.kind == "stalled":
        return "timeout_error"
    return _ERROR_TYPES.get(status or 0, "api_error")
