"""Hand-written comparison of a client's reading of an Interactions stream with a message."""

from __future__ import annotations

import base64
import json
from itertools import groupby
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
from streamnorm._core.text import tag_redacted_reasoning, tag_signature
from support.gemini_interactions import reader as interactions_reader

__all__ = ["assert_reads_as"]

_STATUSES = {
    "end_turn": ("completed",),
    "tool_use": ("requires_action",),
    "max_tokens": ("incomplete", "budget_exceeded"),
    "refusal": ("completed",),
    "stop_sequence": ("completed",),
    "pause": ("requires_continuation",),
    "other": ("completed",),
}
"""The statuses for each reason, the usual one first."""


def assert_reads_as(got: interactions_reader.Read, message: Message) -> None:
    """Assert that a client reads a stream as the expected message."""
    steps, blocks = _joined_steps(got.steps), _joined_blocks(message.blocks)
    assert len(steps) == len(blocks)
    for step, block in zip(steps, blocks, strict=True):
        _check(step, block)
    if got.names:
        model = {"model": message.model} if message.model else {}
        assert got.names == {"id": message.id, **model}
    if got.status is not None:
        assert message.stop_reason is not None
        words, raw = _STATUSES[message.stop_reason], message.raw_stop_reason
        assert got.status == (raw if raw in words else words[0])
        _check_usage(got.usage, message.usage)


def _joined_steps(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps with adjacent texts joined."""
    joined: list[dict[str, Any]] = []
    for is_text, group in groupby(steps, lambda step: _is_text(step)):
        each = list(group)
        if not is_text:
            joined += each
            continue
        text = "".join(step["text"] for step in each)
        found = [source for step in each for source in step["annotations"]]
        if text:
            joined.append({**each[0], "text": text, "annotations": found})
    return joined


def _is_text(step: dict[str, Any]) -> bool:
    return step["type"] == "model_output" and not step["files"]


def _joined_blocks(blocks: tuple[Block, ...]) -> list[Block]:
    """Return the blocks with adjacent texts joined, without empty texts."""
    joined: list[Block] = []
    for is_text, group in groupby(blocks, lambda block: isinstance(block, Text)):
        if not is_text:
            joined += group
            continue
        texts = [block for block in group if isinstance(block, Text)]
        citations = tuple(each for block in texts for each in block.citations)
        whole = Text("".join(block.text for block in texts), citations)
        joined += [whole] if whole.text else []
    return joined


def _check_usage(got: dict[str, Any] | None, usage: Usage) -> None:
    if got is None:
        assert usage == Usage()
        return
    thoughts = usage.reasoning_tokens or 0
    assert got.get("total_thought_tokens", 0) == thoughts
    read = got["total_input_tokens"] + got.get("total_tool_use_tokens", 0)
    assert read == (usage.input_tokens or 0)
    assert got["total_output_tokens"] + thoughts == max(usage.output_tokens or 0, thoughts)
    assert got.get("total_cached_tokens") == usage.cache_read_tokens


def _check(step: dict[str, Any], block: Block) -> None:
    """Assert that a step is the encoding of a block."""
    match block:
        case Text(text, citations):
            assert (step["type"], step["text"]) == ("model_output", text)
            assert [_source(each) for each in step["annotations"]] == [*map(_cited, citations)]
        case Reasoning(signature=signature, issuer=issuer, id=id):
            assert (step["type"], step["text"]) == ("thought", "".join(block.parts))
            assert step["signature"] in _signed(signature, issuer, id)
        case RedactedReasoning(data, issuer, id):
            assert (step["type"], step["text"]) == ("thought", "")
            assert step["signature"] == _base64(tag_redacted_reasoning(data, issuer, id))
        case ToolCall(id, name, arguments):
            found = (step["type"], step["id"], step["name"], step["text"] or "{}")
            assert found == ("function_call", id, name, arguments or "{}")
        case ServerToolCall(id, arguments=arguments, kind=kind):
            assert (step["type"], step["id"]) == (kind.removesuffix("_step"), id)
            if step["text"]:
                assert step["text"] == arguments
            else:
                assert step["arguments"] == json.loads(arguments or "{}")
        case ServerToolResult(id, kind=kind):
            assert (step["type"], step["call_id"]) == (kind.removesuffix("_step"), id)
        case Image(kind, data, url) | Document(kind, data, url):
            (file,) = step["files"]
            assert file["type"] == type(block).__name__.lower()
            assert (file.get("mime_type"), file.get("uri")) == (kind, url)
            assert (file.get("data") is None) == (data is None)
        case OpaqueBlock(data=data):
            assert step.items() >= json.loads(data).items()
        case _:
            pytest.fail(f"{type(block).__name__} has no place")


def _signed(
    signature: str | None, issuer: str | None, id: str | None = None
) -> tuple[str | None, ...]:
    """Return the wire forms of a signature: Google's unchanged, others tagged and in Base64."""
    if signature is None:
        return (None,)
    tagged = _base64(tag_signature(signature, issuer, id))
    return (signature, tagged) if issuer == "google" else (tagged,)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _source(annotation: dict[str, Any]) -> tuple[Any, ...]:
    kind = annotation["type"].removesuffix("_citation")
    url = annotation.get("url", annotation.get("document_uri"))
    title = annotation.get("title", annotation.get("file_name", annotation.get("name")))
    return (kind, url, title)


def _cited(source: Citation) -> tuple[Any, ...]:
    kinds = {"web": "url", "retrievedContext": "file", "maps": "place"}
    return (kinds[source.kind], source.url, source.title)
