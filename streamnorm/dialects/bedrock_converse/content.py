"""Signatures, citations, opaque blocks and tool calls, in both directions.

`redactedContent` is a blob, so its Base64 is the wire's; the bytes in it are the vendor's own
opaque text, such as `data` of Anthropic's `redacted_thinking`.

A citation covers its whole block.  Its location names a range of the source, never of the
answer, and stays an unknown field.

A block that no unified one stands for comes whole: its start, if it had one, and its deltas.

The client executes a `toolUse`, unless its type is `server_tool_use`: such a call and its
`toolResult` stand in one message.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from streamnorm._core.blocks import (
    Citation,
    OpaqueBlock,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
)
from streamnorm._core.events import Opaque
from streamnorm._core.failures import malformed
from streamnorm._core.json import (
    clean,
    compact,
    encode_line,
    is_array,
    is_object,
    object_in,
    objects_of,
    string_of,
)
from streamnorm._core.text import (
    Signed,
    escape_id,
    mint_id,
    tag_signature,
    unescape_id,
    untag_signature,
)
from streamnorm.dialects.bedrock_converse.wire import DIALECT, INDEX, PADDING, unknown_fields

# Claude's signatures pass from one platform to another (Anthropic's guide to extended thinking).
_ISSUER = "anthropic"
# A blob that is no text stays Base64 behind this mark.
_BLOB = "sn1-blob."


def signature_from_wire(value: str) -> Signed:
    """Return a signature with its issuer: named by a tag, else Anthropic."""
    return untag_signature(value) or Signed(value, _ISSUER)


def signature_to_wire(signed: Signed) -> str:
    """Return a signature for the wire, tagged unless Anthropic issued it."""
    return signed.signature if signed.issuer == _ISSUER else tag_signature(*signed)


def blob_from_wire(value: str) -> bytes:
    """Decode the Base64 of a blob.

    Raises:
        Fatal: The value is no Base64.
    """
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise malformed(f"a blob of {len(value)} characters, expected Base64") from exc


def redacted_from_wire(blob: bytes) -> RedactedReasoning:
    """Return the bytes of a `redactedContent` as redacted reasoning."""
    data = blob.decode("ascii", "replace")
    if not blob.isascii() or data.startswith(_BLOB):
        return RedactedReasoning(_BLOB + base64.b64encode(blob).decode(), _ISSUER)
    return RedactedReasoning(*signature_from_wire(clean(data)))


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return redacted reasoning as `redactedContent`."""
    data = signature_to_wire(Signed(block.data, block.issuer, block.id))
    if data.startswith(_BLOB):
        return data[len(_BLOB) :]
    return base64.b64encode(data.encode("utf-8", "replace")).decode()


WEB = "web"
UNLOCATED = "citationsContent"
"""Kind of a citation without a location."""

LOCATIONS = frozenset(
    {WEB, "documentChar", "documentPage", "documentChunk", "searchResultLocation"}
)


def citation_from_wire(citation: dict[str, Any]) -> Citation:
    """Return a `citation` object as a citation of the whole text block."""
    extra = unknown_fields(citation, "title", "sourceContent", "location")
    kind, url = UNLOCATED, None
    location = citation.get("location")
    if is_object(location):
        kind, where = next(iter(unknown_fields(location).items()), (UNLOCATED, None))
        if is_object(where):
            where = dict(where)
            if isinstance(where.get("url"), str):
                url = clean(where.pop("url"))
            if where:
                extra["location"] = where
    texts = [string_of(part, "text") for part in objects_of(citation.get("sourceContent"))]
    return Citation(
        clean(kind),
        url=url,
        title=string_of(citation, "title") or None,
        cited_text="".join(texts) or None,
        extra=extra or None,
    )


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return a citation as the `citation` object of a delta."""
    extra = dict(citation.extra or {})
    where = extra.pop("location", None)
    # Those of other vendors have other fields.
    fields: dict[str, Any] = {"source": extra["source"]} if "source" in extra else {}
    if citation.kind in LOCATIONS:
        place = dict(where) if is_object(where) else {}
        if citation.url is not None:
            place["url"] = citation.url
        fields["location"] = {citation.kind: place}
    if citation.cited_text is not None:
        fields["sourceContent"] = [{"text": citation.cited_text}]
    if citation.title is not None:
        fields["title"] = citation.title
    return fields


_LINE_ENDS = re.compile("[\r\n]")


def event_from_wire(name: str, value: Any, index: int | None) -> Opaque:
    """Return an event of an unknown type as opaque data."""
    if is_object(value):
        value = {key: item for key, item in value.items() if key != PADDING}
    return Opaque(DIALECT, clean(name), compact(value), index)


def event_to_wire(event: Opaque, index: int | None) -> tuple[str, bytes]:
    """Return the name and the payload of an opaque event."""
    data = event.data
    if index is not None:
        value = object_in(data)
        data = compact({**value, INDEX: index}) if INDEX in value else data
    return _LINE_ENDS.sub(" ", event.name), encode_line(data)


def opaque_from_wire(start: Any, deltas: list[Any]) -> OpaqueBlock:
    """Return a block's start (None if it had none) and its deltas as an opaque block."""
    names = [name for part in (start, *deltas) if is_object(part) for name in part]
    kind = clean(names[0] if names else "")
    return OpaqueBlock(DIALECT, kind, compact({"start": start, "deltas": deltas}))


def opaque_to_wire(block: OpaqueBlock) -> tuple[object, list[object]]:
    """Return the start (None if it has none) and the deltas of an opaque block."""
    fields = object_in(_LINE_ENDS.sub(" ", block.data))
    deltas = fields.get("deltas")
    return fields.get("start"), deltas if is_array(deltas) else []


TOOL_USE = "toolUse"
TOOL_RESULT = "toolResult"
SERVER_TOOL_USE = "server_tool_use"

# The pattern of `toolUseId`, which may also have the letters that escape those of other ids.
_SAFE = re.compile(r"(?!snid_)[A-Za-z0-9_.:-]+")

_MAX_CHARS = 64


def id_to_wire(id: str) -> str:
    """Return a call's id with only characters that Converse allows, at most 64.

    An escaped id comes back as its provider wrote it.  The hash of a longer one does not: call and
    result have it alike, which is all that a provider demands.
    """
    if len(id) <= _MAX_CHARS and _SAFE.fullmatch(id):
        return id
    escaped = escape_id(id)
    return escaped if len(escaped) <= _MAX_CHARS else mint_id(id)


def call_from_wire(tool_use: dict[str, Any]) -> ToolCall | ServerToolCall:
    """Return a `toolUse` as a call, without its input.

    Raises:
        Fatal: It has no name.
    """
    id, name = string_of(tool_use, "toolUseId"), clean(string_of(tool_use, "name"))
    if not name:
        raise malformed("toolUse without a name, expected one")
    # pydantic-ai's recording of a client tool says `tool_use`, which the model's enum lacks.
    if tool_use.get("type") == SERVER_TOOL_USE:
        return ServerToolCall(id, name, kind=TOOL_USE)
    return ToolCall(unescape_id(id), name)


def call_to_wire(call: ToolCall | ServerToolCall) -> dict[str, Any]:
    """Return a call as a `toolUse`; the input follows in deltas."""
    fields = {"name": call.name, "toolUseId": id_to_wire(call.id)}
    return fields if isinstance(call, ToolCall) else {**fields, "type": SERVER_TOOL_USE}


def call_extra(tool_use: dict[str, Any]) -> dict[str, Any]:
    """Return the unknown fields of a `toolUse`."""
    extra = unknown_fields(tool_use, "toolUseId", "name", "input")
    if extra.get("type") == SERVER_TOOL_USE:
        del extra["type"]
    return extra


def result_from_wire(tool_result: dict[str, Any], content: list[Any]) -> ServerToolResult:
    """Return a server tool's result, with type and status as unknown fields."""
    is_error = tool_result.get("status") == "error"
    return ServerToolResult(string_of(tool_result, "toolUseId"), TOOL_RESULT, content, is_error)


def result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return the `toolResult` of a block's start; the content follows in a delta."""
    status = {"status": "error"} if result.is_error else {}
    return {"toolUseId": id_to_wire(result.tool_call_id), **status}
