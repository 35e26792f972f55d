"""The expected message of a Responses client, by hand-written rules."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from streamnorm import (
    Block,
    Citation,
    Message,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    Usage,
)
from streamnorm._core.json import is_object
from streamnorm._core.text import escape_id, tag_redacted_reasoning, tag_signature
from support.openai_responses import reader as responses_reader

__all__ = ["assert_reads_as"]


def assert_reads_as(got: responses_reader.Read, message: Message, *, extras: bool = False) -> None:
    """Assert that a client reads a stream as the expected message.

    Of a stream that failed it has the items that were complete.
    """
    parts = [part for item in got.output for part in _parts(item)]
    if got.error is not None:
        assert len(parts) <= len(message.blocks)
    else:
        assert len(parts) == len(message.blocks)
    for part, block in zip(parts, message.blocks, strict=False):
        _check(part, block)
    if not extras:  # each text is a message of its own
        assert all(len(item["content"]) == 1 for item in got.output if item["type"] == "message")
    if got.created is not None:
        assert got.created["id"] == _id(message, extras=extras)
        assert got.created["model"] == message.model
    if got.error is None:
        assert got.response is not None
        details: dict[str, Any] = got.response["incomplete_details"] or {}
        ended = (got.response["status"], details.get("reason"))
        assert ended == _end(message, extras=extras)
        _check_usage(got.response["usage"], message.usage)


def _parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    return item["content"] if item["type"] == "message" else [item]


def _id(message: Message, *, extras: bool) -> str:
    if extras and message.id:
        return message.id
    if message.id.startswith("resp_"):
        return message.id
    return "resp_" + escape_id(re.sub("^(msg_|chatcmpl-|gen-)", "", message.id) or "0")


def _end(message: Message, *, extras: bool) -> tuple[str, str | None]:
    """Return a response's status, and why it is incomplete."""
    raw = message.raw_stop_reason
    refused = any(isinstance(block, Refusal) for block in message.blocks)
    match message.stop_reason:
        case "max_tokens":
            return "incomplete", "max_output_tokens"
        case "refusal" if message.tool_calls or not refused:
            return "incomplete", "content_filter"
        case _ if extras and raw in ("max_messages", "steered"):
            return "incomplete", raw
        case _:
            return "completed", None


def _check_usage(got: dict[str, Any], usage: Usage) -> None:
    inputs, outputs = got["input_tokens_details"], got["output_tokens_details"]
    assert got["input_tokens"] == (usage.input_tokens or 0)
    assert got["output_tokens"] == (usage.output_tokens or 0)
    assert inputs["cached_tokens"] == (usage.cache_read_tokens or 0)
    assert inputs["cache_write_tokens"] == (usage.cache_write_tokens or 0)
    assert outputs["reasoning_tokens"] == (usage.reasoning_tokens or 0)


def _check(part: dict[str, Any], block: Block) -> None:
    """Compare a part or an item with its block."""
    match block:
        case Text(text, citations):
            assert (part["type"], part["text"]) == ("output_text", text)
            assert len(part["annotations"]) == len(citations)
            for wire, source in zip(part["annotations"], citations, strict=True):
                assert wire.items() >= _annotation(source, len(text)).items()
        case Refusal(text):
            assert (part["type"], part["refusal"]) == ("refusal", text)
        case Reasoning(parts=parts):
            summary = [{"type": "summary_text", "text": text} for text in parts]
            assert (part["type"], part["summary"]) == ("reasoning", summary)
            assert part.get("encrypted_content") == _sealed(block, part["id"])
        case RedactedReasoning(data, issuer, id):
            assert (part["type"], part["summary"]) == ("reasoning", [])
            assert part["encrypted_content"] == tag_redacted_reasoning(data, issuer, id)
        case ToolCall(id, name, arguments, kind, namespace=namespace):
            custom = kind == "custom"
            call = {"type": "custom_tool_call" if custom else "function_call"}
            call |= {"call_id": id, "name": name}
            call |= {"input": arguments} if custom else {"arguments": arguments or "{}"}
            assert part.items() >= call.items()
            assert part.get("namespace") == namespace
        case ServerToolCall(id, _, arguments, kind):
            assert part["type"] == kind
            assert part["id"] == id or not id
            assert part.items() >= _held(arguments).items()
        case ServerToolResult(id, kind, content):
            result: dict[str, Any] = {"type": kind, "call_id": id, "output": content}
            assert part == content or part.items() >= result.items()
        case OpaqueBlock(data=data):
            assert part == json.loads(data)
        case _:
            pytest.fail(f"{type(block).__name__} has no place")


def _sealed(block: Reasoning, item_id: str) -> str | None:
    """Return a signature in its wire form: OpenAI's own unchanged, others tagged."""
    signature, issuer, id = block.signature, block.issuer, block.id
    if signature is None or (issuer, id) == ("openai", item_id):
        return signature
    return tag_signature(signature, issuer, id)


def _annotation(source: Citation, length: int) -> dict[str, Any]:
    """Return the fields that an annotation has at least."""
    start, end, url, title = source.start, source.end, source.url, source.title
    if source.kind == "url_citation":
        start, end = start or 0, length if end is None else end
        url, title = url or "", title or ""
    fields = {"start_index": start, "end_index": end, "url": url, "title": title}
    told = {key: value for key, value in fields.items() if value is not None}
    return {"type": source.kind, **told}


def _held(arguments: str) -> dict[str, Any]:
    """Return the item's fields that hold a server-side call's arguments."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    if not is_object(value):
        return {"arguments": arguments}
    return {k: v for k, v in value.items() if k not in ("id", "type") and (k, v) != ("call_id", "")}
