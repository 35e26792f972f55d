"""Requests that programs can build but decoders never return: any block in any message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from streamnorm import (
    Audio,
    Citation,
    Document,
    Image,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.blocks import InputBlock
from support.bodies.request_strategies import make_request
from support.draws import Draws, draws

__all__ = ["arbitrary_requests"]

_TEXTS = (
    *(
        "a",
        "b c",
        "é😀",
        "",
        " ",
        "\0",
        "é" * 400,
        "a" * 70,
        "{}",
        "null",
        "snid_",
        "sn1.openai..x",
    ),
    "<tool_error>x</tool_error>",
)
_DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")
_ISSUERS = (None, "anthropic", "google", "openai", "")
_ROLES = ("user", "assistant", "system", "developer")


def _text(d: Draws) -> str:
    return d.pick(_TEXTS)


def _maybe(d: Draws, *values: str) -> str | None:
    return d.pick((None, *values, _text(d)))


def _signed(d: Draws) -> dict[str, Any]:
    return {"signature": _maybe(d, "c2ln"), "issuer": d.pick(_ISSUERS)}


def _cited(d: Draws) -> Text:
    place = {"start": d.pick((None, -1, 0, 5)), "end": d.pick((None, -1, 0, 9))}
    return Text(_text(d), (Citation(_text(d), _maybe(d), **place),), **_signed(d))


def _call(d: Draws) -> ToolCall:
    kind: Any = d.pick(("function", "custom"))
    return ToolCall(_text(d), _text(d), _text(d), kind, namespace=_maybe(d, "ns"), **_signed(d))


def _result(d: Draws) -> ToolResult:
    content: Any = tuple(d.some(3, lambda: d.pick(_PARTS)(d)))
    return ToolResult("c", content, d.flag(), d.pick(("", "f")), d.pick((None, '{"a":1}')))


_PARTS: tuple[Callable[[Draws], InputBlock], ...] = (
    lambda d: Text(_text(d)),
    lambda d: Image(
        _maybe(d, "image/png"), _maybe(d, "AAAA"), _maybe(d, "https://e"), detail=_maybe(d, "low")
    ),
    lambda d: Image(file_id=_text(d), issuer=d.pick(_ISSUERS)),
    lambda d: Document(_maybe(d, "application/pdf"), _maybe(d, "AAAA"), _maybe(d, "https://e")),
    lambda d: Document("text/plain", _text(d), title=_maybe(d)),
    lambda d: Audio(_maybe(d, "audio/wav"), _maybe(d, "AAAA"), _maybe(d, "https://e")),
    lambda d: Video(_maybe(d, "video/mp4"), _maybe(d, "AAAA"), _maybe(d, "https://e")),
    lambda d: OpaqueBlock(d.pick(_DIALECTS), _text(d), '{"type":"odd","a":[1]}'),
)
_BLOCKS: tuple[Callable[[Draws], InputBlock], ...] = (
    *_PARTS,
    *(_cited, _call, _result, _result),
    lambda d: ToolCall("c", "f", "{}"),
    lambda d: Reasoning(tuple(d.some(3, lambda: _text(d))), **_signed(d)),
    lambda d: RedactedReasoning(_text(d), d.pick(_ISSUERS)),
    lambda d: Refusal(_text(d)),
    lambda d: ServerToolCall(_text(d), _text(d), _text(d), _text(d)),
    lambda d: ServerToolResult(_text(d), _text(d), d.pick((None, [], {"a": 1}, "x", 1))),
)


def _message(d: Draws) -> InputMessage:
    role: Any = d.pick(_ROLES)
    return InputMessage(role, tuple(d.some(3, lambda: d.pick(_BLOCKS)(d))), _maybe(d))


def _request(d: Draws) -> Request:
    request = make_request(d, [d.some(6, lambda: _message(d), 1)])
    odd: dict[str, Any] = {
        "betas": (_text(d),),
        "max_tokens": d.pick((0, -1, 2**62)),
        "metadata": {_text(d): _text(d)},
        "model": _text(d),
        "temperature": d.pick((-1, 1e308)),
        "user": _text(d),
    }
    return structs.replace(request, **{name: odd[name] for name in odd if d.flag(6)})


def arbitrary_requests() -> st.SearchStrategy[Request]:
    """Return a strategy of requests with any blocks in any order."""
    return draws(300).map(_request)
