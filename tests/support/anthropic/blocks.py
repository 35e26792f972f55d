"""Random blocks of Anthropic streams: their events, and the expected unified blocks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamnorm import (
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
from streamnorm._core.text import tag_signature
from support.draws import Draws
from support.streams.generated import cut_units

__all__ = ["GeneratedBlock", "StreamStyle", "make_block"]

_LOCATION = {"type": "char_location", "document_index": 0, "document_title": "D", "cited_text": "c"}
_SEARCHED = {
    "type": "web_search_result_location",
    "url": "https://w",
    "title": "W",
    "encrypted_index": "i",
    "cited_text": "c",
}
_CITATIONS = (
    (_LOCATION, Citation("char_location", None, "D", "c", extra={"document_index": 0})),
    (_SEARCHED, Citation(_SEARCHED["type"], "https://w", "W", "c", extra={"encrypted_index": "i"})),
)


class GeneratedBlock(Struct):
    """A block as wire events, and the unified block.

    Attributes:
        start: Content block of its start.
        deltas: Its deltas, without index.
        blocks: Unified blocks; thinking that continues after its signature is several.
        extras: Extra fields of each.
        may_stray: Types of deltas that are accepted without an index.
        cut_off: Whether it is a client tool call with incomplete arguments.
    """

    start: dict[str, Any]
    deltas: list[dict[str, Any]]
    blocks: tuple[Block, ...]
    extras: tuple[dict[str, Any] | None, ...] = (None,)
    may_stray: tuple[str, ...] = ()
    cut_off: bool = False


class StreamStyle(Struct):
    """The server-dependent style of a stream's blocks.

    Attributes:
        ascii: Whether characters beyond ASCII are escaped.
        overlaps: Whether blocks may be interleaved.
        cut_off: Whether a call may have incomplete arguments.
    """

    ascii: bool
    overlaps: bool
    cut_off: bool


def make_block(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    """Return a random block."""
    makers: tuple[Callable[[Draws, int, StreamStyle], GeneratedBlock], ...] = (
        *(_text, _text, _thinking, _thinking, _tool, _tool, _served, _result, _whole),
    )
    return d.pick(makers)(d, number, style)


def _pieces(d: Draws, kind: str, field: str, text: str) -> list[dict[str, Any]]:
    pieces: list[str | None] = [*cut_units(d, text, 4)] if text else []
    if d.flag(6):
        pieces.insert(d.below(len(pieces) + 1), d.pick((None, "")))
    return [{"type": kind, field: piece} for piece in pieces]


def _begun(d: Draws, kind: str, field: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the start's text, the whole text, and the deltas.

    MiniMax sends the first delta in the start as well.
    """
    text = d.text(0, 8)
    rest = _pieces(d, kind, field, text)
    head = d.text(1, 3, "ab")
    match d.pick(("deltas", "deltas", "deltas", "start", "both")):
        case "start" if not rest or rest[0][field] not in (head, None, ""):
            return head, head + text, rest
        case "both":
            return head, head + text, [{"type": kind, field: head}, *rest]
        case _:
            return "", text, rest


def _text(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    head, text, deltas = _begun(d, "text_delta", "text")
    start: dict[str, Any] = {"type": "text", "text": head}
    cited = d.some(1, lambda: d.pick(_CITATIONS))
    if d.flag():
        start["citations"] = [wire for wire, _ in cited]
    else:
        deltas += [{"type": "citations_delta", "citation": wire} for wire, _ in cited]
    return GeneratedBlock(
        start,
        deltas,
        (Text(text, tuple(source for _, source in cited)),),
        may_stray=("text_delta", "citations_delta"),
    )


def _thinking(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    head, text, deltas = _begun(d, "thinking_delta", "thinking")
    start: dict[str, Any] = {"type": "thinking", "thinking": head}
    if d.flag():
        start["signature"] = ""
    parts = (text,) if text else ()
    signature, issuer = d.pick((("c2ln", "anthropic"), ("Z29v", "google"), ("c2ln", "anthropic")))
    sealed = signature if issuer == "anthropic" else tag_signature(signature, issuer)
    signing = {"type": "signature_delta", "signature": sealed}
    signed = Reasoning(parts, signature, issuer)
    ways = ("never", "delta", "start", "twice", "start and delta")
    # Content after a signature is a new block, whose index follows all that have started.
    match d.pick(ways if style.overlaps else (*ways, "more", "another")):
        case "never":
            return GeneratedBlock(start, deltas, (Reasoning(parts),))
        case "delta":
            return GeneratedBlock(
                start, [*deltas, signing], (signed,), may_stray=("signature_delta",)
            )
        case "start":
            return GeneratedBlock({**start, "signature": sealed}, deltas, (signed,))
        case "twice":
            return GeneratedBlock(start, [*deltas, signing, signing], (signed,))
        case "start and delta":
            return GeneratedBlock({**start, "signature": "eA=="}, [*deltas, signing], (signed,))
        case "more":
            more = {"type": "thinking_delta", "thinking": "more"}
            blocks = (signed, Reasoning(("more",)))
            return GeneratedBlock(start, [*deltas, signing, more], blocks, (None, None))
        case _:
            other = {"type": "signature_delta", "signature": "b3Ro"}
            blocks = (signed, Reasoning((), "b3Ro", "anthropic"))
            return GeneratedBlock(start, [*deltas, signing, other], blocks, (None, None))


def _input(d: Draws, style: StreamStyle) -> tuple[dict[str, Any], list[dict[str, Any]], str, bool]:
    """Return the start's fields, the deltas, the whole input, and whether it is incomplete."""
    value: Any = {d.text(0, 3): d.pick((d.text(0, 6), 1, None, [d.text(), {}])) for _ in range(3)}
    text = json.dumps(d.pick((value, {"a": [{}]})), ensure_ascii=style.ascii)
    if not style.cut_off and d.flag(4):  # whole, in the start
        repeated = [{"type": "input_json_delta", "partial_json": text}] if d.flag() else []
        return {"input": json.loads(text)}, repeated, text, False
    if d.flag(4):
        text = ""
    broken = style.cut_off and bool(text) and d.flag()
    if broken:
        text = text[: 1 + d.below(len(text) - 1)]
    opening = [{"type": "input_json_delta", "partial_json": ""}] if d.flag() else []
    pieces = _pieces(d, "input_json_delta", "partial_json", text)
    return d.pick(({"input": {}}, {"input": ""}, {})), [*opening, *pieces], text, broken


def _tool(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    wire, id = d.pick(
        (
            (f"toolu_{number}", f"toolu_{number}"),
            (f"snid_functions_2ef_3a{number}", f"functions.f:{number}"),
            (f"snid_{number}", f"snid_{number}"),
            ("", ""),
        )
    )
    given, deltas, text, broken = _input(d, style)
    extra = {"caller": {"type": "direct"}} if d.flag(4) else None
    start = {"type": "tool_use", "id": wire, "name": "find", **given, **(extra or {})}
    call = ToolCall(id, "find", text)
    stray = ("input_json_delta",)
    return GeneratedBlock(start, deltas, (call,), (extra,), stray, cut_off=broken)


def _served(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    given, deltas, text, _ = _input(d, style)
    kind = d.pick(("server_tool_use", "mcp_tool_use"))
    extra = {"server_name": "m"} if kind == "mcp_tool_use" else None
    start = {"type": kind, "id": f"srv_{number}", "name": "search", **given, **(extra or {})}
    call = ServerToolCall(f"srv_{number}", "search", text, kind)
    return GeneratedBlock(start, deltas, (call,), (extra,), ("input_json_delta",))


def _result(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    kind = d.pick(("web_search_tool_result", "mcp_tool_result", "new_tool_result"))
    content: Any = d.pick(("ok", [{"type": "text", "text": "é"}], {"error_code": "unavailable"}))
    is_error = d.pick((None, False, True))
    said = {} if is_error is None else {"is_error": is_error}
    extra = said if is_error is False and kind != "mcp_tool_result" else None
    start = {"type": kind, "tool_use_id": "srv_0", "content": content, **said}
    block = ServerToolResult("srv_0", kind, content, is_error=is_error is True)
    return GeneratedBlock(start, [], (block,), (extra,))


def _whole(d: Draws, number: int, style: StreamStyle) -> GeneratedBlock:
    match d.pick(("redacted", "sealed", "upload", "unknown", "compaction")):
        case "redacted":
            block: Block = RedactedReasoning("ZGF0YQ==", "anthropic")
            return GeneratedBlock({"type": "redacted_thinking", "data": "ZGF0YQ=="}, [], (block,))
        case "sealed":
            block = RedactedReasoning("ZGF0YQ==", None)
            data = tag_signature("ZGF0YQ==", None)
            return GeneratedBlock({"type": "redacted_thinking", "data": data}, [], (block,))
        case "upload":
            start: dict[str, Any] = {"type": "container_upload", "file_id": "file_1"}
            return GeneratedBlock(start, [], (_opaque(start),))
        case "unknown":
            start = {"type": "sketch", "lines": [1, {"é": None}]}
            return GeneratedBlock(start, [], (_opaque(start),))
        case _:
            start = {"type": "compaction", "content": None}
            given = {"content": d.text(), "encrypted_content": "eA=="}
            block = _opaque({**start, **given})
            return GeneratedBlock(start, [{"type": "compaction_delta", **given}], (block,))


def _opaque(block: dict[str, Any]) -> OpaqueBlock:
    data = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
    return OpaqueBlock("anthropic", block["type"], data)
