"""What stands in the start of an Anthropic content block, in unified terms."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import (
    Block,
    Citation,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.ids import unescape_id, untag_signature
from streamnorm._core.json import clean, compact, objects_of

__all__ = ["DIALECT", "Start", "citation", "citation_to_wire", "read_start", "signed_by"]

DIALECT = "anthropic"

# Servers that sign for themselves; the others pass on what Anthropic signed.
_ISSUERS = {"deepseek": "deepseek", "kimi": "kimi"}

_RESULT = "_tool_result"
_REQUIRING = ("redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use")
_DOCUMENTS = ("char_location", "page_location", "content_block_location")
_NULLABLE = {  # what a citation has though it be null: the AI SDK refuses one without
    **dict.fromkeys(_DOCUMENTS, ("document_title", "file_id")),
    "web_search_result_location": ("title",),
    "search_result_location": ("title",),
}


class Start(Struct):
    """A block as its start tells of it.

    Attributes:
        block: The unified block, empty if it grows.
        extra: Fields that have no place in it.
        text: Text or thinking that stands in the start already.
        signature: Signature that does.
        input: Whether there is an input that is not empty.
        citations: Sources that stand in the start already.
    """

    block: Block
    extra: dict[str, Any] | None = None
    text: str = ""
    signature: str = ""
    input: bool = False
    citations: tuple[Citation, ...] = ()


def read_start(block: dict[str, Any], server: str | None) -> Start:
    """Return what a block's start tells.

    Raises:
        ValueError: It lacks what its type requires.
    """
    match block:
        case {"type": "text"}:
            return Start(
                Text(),
                _extra(block, "text", "citations"),
                text=_text(block.get("text")),
                citations=tuple(map(citation, objects_of(block.get("citations")))),
            )
        case {"type": "thinking"}:
            return Start(
                Reasoning(),
                _extra(block, "thinking", "signature"),
                text=_text(block.get("thinking")),
                signature=_text(block.get("signature")),
            )
        case {"type": "redacted_thinking", "data": str(data)}:
            data, issuer = signed_by(clean(data), server)
            return Start(RedactedReasoning(data, issuer), _extra(block, "data"))
        case {"type": "tool_use", "name": str(name)} if name:
            call = ToolCall(unescape_id(_text(block.get("id"))), clean(name))
            return Start(call, _extra(block, "id", "name", "input"), input=bool(block.get("input")))
        case {"type": "server_tool_use" | "mcp_tool_use" as kind, "name": str(name)} if name:
            served = ServerToolCall(_text(block.get("id")), clean(name), kind=kind)
            extra = _extra(block, "id", "name", "input")
            return Start(served, extra, input=bool(block.get("input")))
        case {"type": str(kind), "tool_use_id": str(id)} if kind.endswith(_RESULT):
            result = ServerToolResult(clean(id), clean(kind), block.get("content"))
            return Start(result, _extra(block, "tool_use_id", "content"))
        case {
            "type": "redacted_thinking" | "tool_use" | "server_tool_use" | "mcp_tool_use" as kind
        }:
            raise ValueError(f"{kind} lacks a field, expected all that are required")
        case {"type": str(kind)}:
            return Start(OpaqueBlock(DIALECT, clean(kind), compact(block)))
        case _:
            raise ValueError("content block without a type, expected one")


def signed_by(value: str, server: str | None) -> tuple[str, str | None]:
    """Return an opaque value and who issued it: whom we wrote on it, or this server."""
    tagged = untag_signature(value)
    return tagged if tagged is not None else (value, _ISSUERS.get(server or "", DIALECT))


def citation(wire: dict[str, Any]) -> Citation:
    """Return a source that a text block names; it covers the whole block."""
    kind = _text(wire.get("type"))
    rest = {key: value for key, value in wire.items() if key != "type" and value is not None}

    def take(key: str) -> str | None:
        return rest.pop(key) if isinstance(rest.get(key), str) else None

    return Citation(
        kind,
        url=take("url"),
        title=take("document_title" if kind in _DOCUMENTS else "title"),
        cited_text=take("cited_text"),
        extra=rest or None,
    )


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return a source as it came."""
    title = "document_title" if citation.kind in _DOCUMENTS else "title"
    fields = {"url": citation.url, title: citation.title, "cited_text": citation.cited_text}
    told = {key: value for key, value in fields.items() if value is not None}
    known = dict.fromkeys(_NULLABLE.get(citation.kind, ()))
    return {"type": citation.kind, **known, **told, **(citation.extra or {})}


def _extra(block: dict[str, Any], *known: str) -> dict[str, Any] | None:
    rest = {
        key: value
        for key, value in block.items()
        if key != "type" and key not in known and value is not None
    }
    return rest or None


def _text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""
