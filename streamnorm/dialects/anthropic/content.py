"""Content other than text and calls, in both directions: signatures, citations, opaque blocks.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  A citation covers
its whole text block and has no range within it.  The fields that locate its source stay unknown
fields, which win over mapped ones when both are written.  Events and blocks of unknown types, and
`compaction` blocks, are opaque.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streamnorm._core.blocks import Citation, OpaqueBlock, RedactedReasoning
from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, clean, compact, encode_line, is_object, string_of
from streamnorm._core.text import Signed, tag_signature, untag_signature
from streamnorm.dialects.anthropic.wire import DIALECT, unknown_fields
from streamnorm.sse import encode_frame

SIGNING_SERVERS = frozenset({"deepseek", "kimi"})
"""Servers that issue signatures themselves; all others relay Anthropic's."""


def signature_from_wire(value: str, server: str | None) -> Signed:
    """Return a signature and its issuer: the issuer in its tag, a signing server, or Anthropic."""
    tagged = untag_signature(value)
    if tagged is not None:
        return tagged
    # deepseek/uuid-signatures: random ids, which the API would refuse.
    return Signed(value, server if server in SIGNING_SERVERS else "anthropic")


def signature_to_wire(signed: Signed, verifier: str | None = "anthropic") -> str:
    """Return a signature for the wire, tagged with its issuer unless the verifier issued it.

    The API refuses a foreign signature ("Invalid `signature` in `thinking` block"); the tag
    lets this room find the issuer when a client sends the signature back.

    Args:
        signed: The signature.
        verifier: Issuer whose signatures are written without a tag.
    """
    is_verifiable = signed.issuer is not None and signed.issuer == verifier
    return signed.signature if is_verifiable else tag_signature(*signed)


def redacted_from_wire(data: str, server: str | None) -> RedactedReasoning:
    """Return the block of `redacted_thinking` with `data`."""
    return RedactedReasoning(*signature_from_wire(clean(data), server))


def redacted_to_wire(
    block: RedactedReasoning, verifier: str | None = "anthropic"
) -> dict[str, Any]:
    """Return the `redacted_thinking` block; for `verifier`, see `signature_to_wire`."""
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
    """Return a `citation` object as a citation of its whole block."""
    kind = string_of(citation, "type")
    extra = unknown_fields(citation, "type")

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
    """Return the `citation` object of a `citations_delta`."""
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
    """Return an event of an unknown type; `index` is the unified index of its block."""
    return Opaque(DIALECT, name, compact(value), index)


def event_to_wire(event: Opaque, index: int | None) -> bytes:
    """Return the frame of an event; `index` is the wire index of its block."""
    data = event.data if event.index is None else _with_index(event.data, index)
    # A name with a line end would forge further lines of the frame.
    return encode_frame(data, event=None if _LINE_ENDS.search(event.name) else event.name)


def opaque_from_wire(kind: str, block: dict[str, Any]) -> OpaqueBlock:
    """Return a block of an unknown type."""
    return OpaqueBlock(DIALECT, clean(kind), compact(block))


def complete_compaction(block: OpaqueBlock, fields: dict[str, Any]) -> OpaqueBlock:
    """Return a `compaction` block with the fields of its `compaction_delta` added."""
    return OpaqueBlock(
        block.dialect, block.kind, compact({**msgspec.json.decode(block.data), **fields})
    )


def opaque_to_wire(block: OpaqueBlock) -> tuple[object, dict[str, Any] | None]:
    """Return the block of a `content_block_start`, and the delta that follows it, if any."""
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
    """Return the payload of an event with its `index`, if any, replaced."""
    try:
        value = msgspec.json.decode(data)
    except FAST_ERRORS:
        return data
    return compact({**value, "index": index}) if is_object(value) and "index" in value else data
