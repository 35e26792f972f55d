"""Signatures, citations, opaque blocks and tool calls, in both directions.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  A citation covers
its whole text block and has no range within it.  The fields that locate its source stay unknown
fields, which win over mapped ones when both are written.  Events and blocks of unknown types, and
`compaction` blocks, are opaque.

The client executes `tool_use`.  The provider executes `server_tool_use` and `mcp_tool_use`, and
sends their results in the same message.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streamnorm._core.blocks import (
    Citation,
    OpaqueBlock,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
)
from streamnorm._core.events import Opaque
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    decode_any,
    encode_line,
    is_object,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._core.text import Signed, escape_id, tag_signature, unescape_id, untag_signature
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.wire import DIALECT, unknown_fields
from streamnorm.sse import encode_frame

SIGNING_SERVERS = frozenset({"deepseek", "kimi"})
"""Servers that issue signatures themselves; all others relay Anthropic's."""


def signature_from_wire(value: str, server: str | None) -> Signed:
    """Return a signature with its issuer: named by a tag, else a signing `server` or Anthropic."""
    tagged = untag_signature(value)
    if tagged is not None:
        return tagged
    # deepseek/uuid-signatures: random ids, which the API would refuse.
    return Signed(value, server if server in SIGNING_SERVERS else "anthropic")


def signature_to_wire(signed: Signed, verifier: str | None = "anthropic") -> str:
    """Return a signature for the wire, tagged unless the verifier issued it.

    The API refuses a foreign signature ("Invalid `signature` in `thinking` block"); the tag
    lets this room find the issuer when a client sends the signature back.

    Args:
        signed: The signature.
        verifier: Issuer whose signatures are written without a tag.
    """
    is_verifiable = signed.issuer is not None and signed.issuer == verifier
    return signed.signature if is_verifiable else tag_signature(*signed)


def redacted_from_wire(data: str, server: str | None) -> RedactedReasoning:
    """Return the `data` of a `redacted_thinking` block as redacted reasoning."""
    return RedactedReasoning(*signature_from_wire(clean(data), server))


def redacted_to_wire(
    block: RedactedReasoning, verifier: str | None = "anthropic"
) -> dict[str, Any]:
    """Return a `redacted_thinking` block; its data are tagged unless the verifier issued them."""
    data = signature_to_wire(Signed(block.data, block.issuer, block.id), verifier)
    return {"type": "redacted_thinking", "data": data}


_DOCUMENTS = ("char_location", "page_location", "content_block_location")
# Fields that are sent even as null: the AI SDK rejects a citation without them.
_NULLABLE = {
    **dict.fromkeys(_DOCUMENTS, ("document_title", "file_id")),
    "web_search_result_location": ("title",),
    "search_result_location": ("title",),
}


def citation_from_wire(citation: dict[str, Any]) -> Citation:
    """Return a `citation` object as a citation of the whole text block."""
    kind = string_of(citation, "type")
    extra = unknown_fields(citation, ("type",))

    def pop_string(key: str) -> str | None:
        return clean(extra.pop(key)) if isinstance(extra.get(key), str) else None

    return Citation(
        kind,
        # `source` of a search result is any text of its author, and no URL.
        url=pop_string("url"),
        title=pop_string(_title_field(kind)),
        cited_text=pop_string("cited_text"),
        extra=extra or None,
    )


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return a citation as the `citation` object of a `citations_delta`."""
    fields = {
        "url": citation.url,
        _title_field(citation.kind): citation.title,
        "cited_text": citation.cited_text,
    }
    nulls = dict.fromkeys(_NULLABLE.get(citation.kind, ()))
    return {"type": citation.kind, **nulls, **unknown_fields(fields), **(citation.extra or {})}


def _title_field(kind: str) -> str:
    return "document_title" if kind in _DOCUMENTS else "title"


_LINE_ENDS = re.compile("[\r\n\0]")


def event_from_wire(name: str, value: Any, index: int | None) -> Opaque:
    """Return an event of an unknown type as opaque data."""
    return Opaque(DIALECT, name, compact(value), index)


def event_to_wire(event: Opaque, index: int | None) -> bytes:
    """Return the frame of an opaque event."""
    data = event.data if event.index is None else _with_index(event.data, index)
    # A name with a line end would forge further lines of the frame.
    return encode_frame(data, event=None if _LINE_ENDS.search(event.name) else event.name)


def opaque_from_wire(kind: str, block: dict[str, Any]) -> OpaqueBlock:
    """Return a block of an unknown type as an opaque block."""
    return OpaqueBlock(DIALECT, clean(kind), compact(block))


def complete_compaction(block: OpaqueBlock, fields: dict[str, Any]) -> OpaqueBlock:
    """Return a `compaction` block completed with its `compaction_delta`."""
    return OpaqueBlock(
        block.dialect, block.kind, compact({**msgspec.json.decode(block.data), **fields})
    )


def opaque_to_wire(block: OpaqueBlock) -> tuple[object, dict[str, Any] | None]:
    """Return the block for an opaque block's `content_block_start`, and its delta or None."""
    line = encode_line(block.data)
    if block.kind != "compaction":
        return msgspec.Raw(line), None
    # The API starts a compaction without its summary and sends the summary, if there is one, in
    # one delta.  The SDKs assign these two fields of the delta and no other.
    fields: dict[str, Any] = msgspec.json.decode(line)
    names: tuple[str, ...] = ("content", "encrypted_content")
    summary = {name: fields.pop(name) for name in names if name in fields}
    start = {"type": block.kind, "content": None, **fields}
    if all(value is None for value in summary.values()):
        return start, None
    return start, {"type": "compaction_delta", **summary}


def _with_index(data: str, index: int | None) -> str:
    """Return an event's payload with a replaced `index`, if the payload has an index."""
    try:
        value = msgspec.json.decode(data)
    except FAST_ERRORS:
        return data
    return compact({**value, "index": index}) if is_object(value) and "index" in value else data


_dumps_sorted = msgspec.json.Encoder(order="deterministic").encode

CALLS = (ToolCall, ServerToolCall)
CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_RESULT = frozenset({"type", "tool_use_id", "content"})
_MCP_RESULT = "mcp_tool_result"


def call_from_wire(kind: str, name: str, block: dict[str, Any]) -> ToolCall | ServerToolCall:
    """Return the call in a block's start, without its input."""
    id = string_of(block, "id")
    # Our encoder may have written the stream (streamnorm/escaped-ids-and-tagged-signatures).
    if kind == "tool_use":
        return ToolCall(unescape_id(id), clean(name))
    return ServerToolCall(id, clean(name), kind=kind)


def call_to_wire(call: ToolCall | ServerToolCall) -> dict[str, Any]:
    """Return the block that starts a call; the input follows in deltas."""
    if isinstance(call, ToolCall):
        # The API accepts `[a-zA-Z0-9_-]` in ids; Kimi's are `functions.get_weather:0`.
        return {"type": "tool_use", "id": escape_id(call.id), "name": call.name, "input": {}}
    return {"type": call.kind, "id": call.id, "name": call.name, "input": {}}


def result_from_wire(kind: str, call_id: str, block: dict[str, Any]) -> ServerToolResult:
    """Return a server tool's result from its `content_block_start`, which holds all of it."""
    content = block.get("content")
    is_error = block.get("is_error") is True or _is_error(content)
    return ServerToolResult(clean(call_id), clean(kind), content, is_error)


def _is_error(content: object) -> bool:
    """Return whether a content is an error, such as `web_search_tool_result_error`."""
    return is_object(content) and string_of(content, "type").endswith("_tool_result_error")


def result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return the block of a server tool's result."""
    fields: dict[str, Any] = {
        "type": result.kind,
        "tool_use_id": result.tool_call_id,
        "content": result.content,
    }
    if _says_error(result):
        fields["is_error"] = result.is_error
    return fields


def result_fields(result: ServerToolResult) -> frozenset[str]:
    """Return the names of the fields that `result_to_wire` writes."""
    return _RESULT | {"is_error"} if _says_error(result) else _RESULT


def _says_error(result: ServerToolResult) -> bool:
    # MCP's result requires the field; those of the API's own tools are errors by their content.
    return result.kind == _MCP_RESULT or (result.is_error and not _is_error(result.content))


def input_from_wire(block: dict[str, Any], raw: str | None) -> str:
    """Return the input in a block's start as JSON text; "" if it is missing or empty.

    Args:
        block: The content block.
        raw: Input as spelt on the wire; None if it could not be extracted.
    """
    value = block.get("input")
    # Compatible servers write "" before the deltas.
    if isinstance(value, str):
        return clean(value)
    return (raw or compact(value)) if value else ""


def same_input(one: str, other: str) -> bool:
    """Return whether two inputs are the same JSON value; "" equals `{}`."""
    # Servers that write the start and the deltas by different encoders differ in white space.
    return one == other or _sorted_json(one) == _sorted_json(other) is not None


def _sorted_json(text: str) -> bytes | None:
    """Return JSON text with sorted keys; None if the text is not JSON."""
    try:
        return _dumps_sorted(decode_any(text or "{}", max_depth=Limits().max_json_depth))
    except (InvalidJSON, UnicodeEncodeError):
        return None


def raw_input(payload: str) -> str | None:
    """Return the input in a `content_block_start` exactly as on the wire."""
    try:
        return bytes(wire.decode_raw_start(payload).content_block.input).decode()
    except FAST_ERRORS:
        return None


def raw_inputs(payload: str) -> list[str]:
    """Return the inputs of all blocks in a `message_start` exactly as on the wire."""
    try:
        blocks = wire.decode_raw_message(payload).message.content
        return [bytes(block.input).decode() for block in blocks]
    except FAST_ERRORS:
        return []
