"""What an Anthropic stream says, as the official SDK adds it up and as we do.

Both are put in the form of the API's own message object, without what is null or empty.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import anthropic
import httpx2
from msgspec import structs
from support.bodies.json_values import value_or_text

from streamnorm import (
    Block,
    Citation,
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
from streamnorm._core.text import escape_id, tag_signature

__all__ = ["Told", "our_message", "sdk", "written_message"]

Told = dict[str, Any]
"""An object of the API."""

_REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": []}


class SDK:
    """The client of the official SDK; every request is answered with one stream."""

    def __init__(self) -> None:
        self._body = b""
        self._client = anthropic.Anthropic(
            api_key="-",
            base_url="http://t",
            http_client=httpx2.Client(transport=httpx2.MockTransport(self._answer)),
            max_retries=0,
        )

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/v1/messages"
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=self._body)

    def message(self, body: bytes) -> Told:
        """Return what its beta client, which knows all blocks, adds a stream up to."""
        self._body = body
        with self._client.beta.messages.stream(**_REQUEST) as stream:
            return _tidy_message(stream.get_final_message().to_dict(mode="json"))


@cache
def sdk() -> SDK:
    """Return the one client of all tests."""
    return SDK()


def _tidy_message(message: Any) -> Told:
    told = {"content": [], "usage": {}, **_tidy(message)}
    told["usage"] = {"input_tokens": 0, "output_tokens": 0, **told["usage"]}
    return told


def _tidy(value: Any) -> Any:
    """Return JSON without null and empty values in its objects, but for tool arguments."""
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item if key == "input" else _tidy(item) for key, item in value.items()}
    if not kept.get("signature", ...):
        del kept["signature"]  # the API begins a thinking block with an empty one
    return {key: item for key, item in kept.items() if key == "input" or item not in (None, {}, [])}


def our_message(message: Message) -> Told:
    """Return a message of ours as the API would."""
    extras = message.block_extras or (None,) * len(message.blocks)
    told = {
        **(message.extra or {}),
        **(message.stop_extra or {}),
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [
            {**_block(block), **(extra or {})}
            for block, extra in zip(message.blocks, extras, strict=True)
        ],
        "stop_reason": message.raw_stop_reason,
        "stop_sequence": message.stop_sequence,
        "usage": _usage(message.usage),
    }
    return _tidy_message(told)


def written_message(message: Message) -> Told:
    """Return a message of ours as an API that gives it anew.

    What only one gateway counts is told at the end, where the SDK looks for what it knows.
    """
    told = our_message(
        structs.replace(message, blocks=tuple(map(_sealed, message.blocks)), stop_extra=None)
    )
    usage = {
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
        **{key: count for key, count in told["usage"].items() if key in _COUNTS},
    }
    if "service_tier" in told:
        usage["service_tier"] = told["service_tier"]
    last = message.stop_extra or {}
    known = {key: last[key] for key in _LAST if key in last}
    if message.stop_reason == "refusal":
        known = {"stop_details": {"type": "refusal"}, **known}
    reason, raw = message.stop_reason, message.raw_stop_reason
    words = _WORDS.get(reason or "", (reason,))
    word = raw if raw in words else words[0]
    return _tidy_message({**told, **known, "usage": usage, "stop_reason": word})


_WORDS = {
    "max_tokens": ("max_tokens", "model_context_window_exceeded"),
    "pause": ("pause_turn", "compaction"),
}
_COUNTS = {
    *("cache_creation", "service_tier", "inference_geo", "speed"),
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens_details",
    "server_tool_use",
    "iterations",
    "fallback_credit",
}
_LAST = ("container", "context_management", "input_transformations", "stop_details")


def _sealed(block: Block) -> Block:
    """Return a block whose id every client takes, and whose seal tells who can open it."""
    match block:
        case ToolCall(id):
            return structs.replace(block, id=escape_id(id))
        case Reasoning(signature=str(proof), issuer=issuer, id=id) if issuer != "anthropic":
            return structs.replace(block, signature=tag_signature(proof, issuer, id))
        case RedactedReasoning(data, issuer, id) if issuer != "anthropic":
            return structs.replace(block, data=tag_signature(data, issuer, id))
        case _:
            return block


def _block(block: Block) -> Told:
    match block:
        case Text(text, citations):
            return {"type": "text", "text": text, "citations": list(map(_citation, citations))}
        case Reasoning(signature=signature):
            return {"type": "thinking", "thinking": block.text, "signature": signature or ""}
        case RedactedReasoning(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolCall(id, name, arguments):
            return {"type": "tool_use", "id": id, "name": name, "input": value_or_text(arguments)}
        case ServerToolCall(id, name, arguments, kind):
            return {"type": kind, "id": id, "name": name, "input": value_or_text(arguments)}
        case ServerToolResult(id, "mcp_tool_result" as kind, content, is_error):
            fields = {"tool_use_id": id, "content": content, "is_error": is_error}
            return {"type": kind, **fields}
        case ServerToolResult(id, kind, content):
            return {"type": kind, "tool_use_id": id, "content": content}
        case OpaqueBlock("anthropic", kind, data):
            whole: Told = json.loads(data)
            assert whole["type"] == kind
            return whole
        case _:
            raise AssertionError(block)


def _citation(citation: Citation) -> Told:
    of_document = citation.kind in ("char_location", "page_location", "content_block_location")
    assert (citation.start, citation.end) == (None, None)
    return {
        "type": citation.kind,
        "url": citation.url,
        "document_title" if of_document else "title": citation.title,
        "cited_text": citation.cited_text,
        **(citation.extra or {}),
    }


def _usage(usage: Usage) -> Told:
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    prompt = usage.input_tokens
    return {
        **(usage.extra or {}),
        "input_tokens": None if prompt is None else prompt - (read or 0) - (written or 0),
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
