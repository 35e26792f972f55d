"""The expected message of a Gemini client, by hand-written rules."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from streamnorm import (
    Block,
    Citation,
    Document,
    Image,
    Message,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    Usage,
)
from streamnorm._core.text import tag_redacted_reasoning, tag_signature, untag_signature
from support.gemini import reader as gemini_reader

__all__ = ["assert_reads_as"]

_FINISHES = {
    "end_turn": ("STOP",),
    "tool_use": ("STOP",),
    "max_tokens": ("MAX_TOKENS",),
    "refusal": (
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
        *("ESCALATION", "PUP_LIMITED_DISABLED"),
    ),
    "pause": ("CONTINUATION",),
    "other": ("OTHER", "NO_IMAGE", "IMAGE_OTHER", "FINISH_REASON_UNSPECIFIED"),
}
"""The words for each reason, the usual one first."""


def assert_reads_as(got: gemini_reader.Read, message: Message) -> None:
    """Assert that a client reads a stream as the expected message."""
    assert len(got.parts) == len(message.blocks)
    for part, block in zip(got.parts, message.blocks, strict=True):
        _check(part, block)
    names = {"responseId": message.id, "modelVersion": message.model}
    if got.names or got.parts:
        assert got.names == {key: name for key, name in names.items() if name}
    if got.finish is not None:
        assert message.stop_reason is not None
        words, raw = _FINISHES[message.stop_reason], message.raw_stop_reason
        assert got.finish == (raw if raw in words else words[0])
        _check_usage(got.usage, message.usage)


def _check_usage(got: dict[str, Any] | None, usage: Usage) -> None:
    if got is None:
        assert usage == Usage()
        return
    thoughts = got.get("thoughtsTokenCount", 0)
    prompt = got["promptTokenCount"] + got.get("toolUsePromptTokenCount", 0)
    assert prompt == (usage.input_tokens or 0)
    assert got["candidatesTokenCount"] + thoughts == (usage.output_tokens or 0)
    assert thoughts == (usage.reasoning_tokens or 0)
    assert got.get("cachedContentTokenCount") == usage.cache_read_tokens


def _check(part: dict[str, Any], block: Block) -> None:
    """Compare a part with its block."""
    match block:
        case Text(text, citations, signature, issuer):
            assert (part["text"], part["thought"]) == (text, False)
            assert _has_signature(part["signature"], signature, issuer)
            sources = [_source(source) for source in part["sources"]]
            assert sorted(sources, key=repr) == sorted(map(_cited, citations), key=repr)
        case Reasoning(signature=signature, issuer=issuer, id=id):
            assert (part["text"], part["thought"]) == ("".join(block.parts), True)
            assert part["signature"] in _signed(signature, issuer, id)
        case RedactedReasoning(data, issuer, id):
            assert (part["text"], part["thought"]) == ("", True)
            assert part["signature"] == _base64(tag_redacted_reasoning(data, issuer, id))
        case ToolCall(id, name, arguments, signature=signature, issuer=issuer):
            call = {"id": id, "name": name, "args": json.loads(arguments or "{}")}
            assert part["functionCall"] == call
            assert _has_signature(part.get("thoughtSignature"), signature, issuer)
        case ServerToolCall(arguments=arguments, kind=kind):
            assert part[kind] == json.loads(arguments or "{}")
        case ServerToolResult(kind=kind, content=content):
            assert part[kind] == content
        case Image(kind, data, None):
            assert part["inlineData"] == {"mimeType": kind, "data": data}
        case Document(str(kind), data, None) if kind.startswith("text/"):
            assert base64.b64decode(part["inlineData"]["data"]).decode() == data
        case Document(kind, data, None):
            assert part["inlineData"] == {"mimeType": kind, "data": data}
        case Image(kind, None, url) | Document(kind, None, url):
            assert part["fileData"] == {"mimeType": kind, "fileUri": url}
        case OpaqueBlock(kind=kind, data=data):
            assert part[kind] == json.loads(data)
        case _:
            pytest.fail(f"{type(block).__name__} has no place")


def _has_signature(found: str | None, signature: str | None, issuer: str | None) -> bool:
    """Return whether a part has its block's signature."""
    if found in _signed(signature, issuer):
        return True
    tagged = None if found is None else untag_signature(base64.b64decode(found).decode())
    return tagged is not None and (tagged.signature, tagged.issuer) == (signature, issuer)


def _signed(
    signature: str | None, issuer: str | None, id: str | None = None
) -> tuple[str | None, ...]:
    """Return the wire forms of a signature: Google's unchanged, others tagged.

    What came from Google itself goes back as it came, whatever it is.
    """
    if signature is None:
        return (None,)
    if (plain := _plain(signature, issuer)) is not None:
        return (plain,)
    tagged = _base64(tag_signature(signature, issuer, id))
    return (signature, tagged) if issuer == "google" else (tagged,)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _plain(signature: str, issuer: str | None) -> str | None:
    """Return a signature of Google; None for other issuers."""
    plain = re.fullmatch(r"(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}", signature)
    if issuer != "google" or not plain or len(signature) % 4:
        return None
    symbols = b"-_" if re.search("[-_]", signature) else b"+/"
    value = base64.b64decode(signature, symbols)
    if base64.b64encode(value, symbols).decode() != signature:  # which nobody would give back
        return None
    return None if value.startswith((b"sn1.", b"sn1-")) else signature


def _source(source: dict[str, Any]) -> tuple[Any, ...]:
    return (source["kind"], source.get("uri"), source.get("title"))


def _cited(source: Citation) -> tuple[Any, ...]:
    return (source.kind, source.url, source.title)
