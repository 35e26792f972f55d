"""Every real Anthropic stream of the corpus gives what its payloads say.

What they say is read off them by hand, as the official SDKs add them up.
"""

from __future__ import annotations

import json
from typing import Any

from support.streams.content import decode
from support.streams.corpus import CorpusStream, each_stream_of, payloads

from streamnorm import (
    Block,
    Completed,
    Message,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    Usage,
    accumulate,
)

REASONS = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "pause_turn": "pause",
    "refusal": "refusal",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "compaction": "pause",
}
FORGIVEN = {
    "missing_block_stop",  # fixtures of the SDKs, whose input breaks off
    "unfinished_arguments",  # the same
    "stray_done",  # OpenRouter's gateway knows Chat Completions best
    "unterminated",  # a file without its last line
}
INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def snapshot(body: bytes) -> dict[str, Any]:
    """Return the message that a stream adds up to, the input of each tool as text."""
    message: dict[str, Any] = {}
    for payload in payloads(body):
        event = json.loads(payload) if payload != "[DONE]" else {"type": "done"}
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta":
                grow(message["content"][event["index"]], event["delta"])
            case "message_delta":
                message |= {k: v for k, v in event["delta"].items() if v is not None}
                counts = {k: v for k, v in event["usage"].items() if v is not None}
                message["usage"] = {**message.get("usage", {}), **counts}
            case _:
                pass
    return message


def grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta" | "thinking_delta":
            field = delta["type"].removesuffix("_delta")
            block[field] += delta[field]
        case "input_json_delta":
            block["text"] = block.get("text", "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "compaction_delta":
            block |= {key: value for key, value in delta.items() if key != "type"}
        case kind:
            raise AssertionError(kind)


def assert_same_block(got: Block, wire: dict[str, Any]) -> None:
    match got:
        case Text(text, citations):
            assert (wire["type"], wire["text"]) == ("text", text)
            cited = wire.get("citations") or []
            assert [source.kind for source in citations] == [source["type"] for source in cited]
            assert [source.url for source in citations] == [source.get("url") for source in cited]
        case Reasoning(signature=signature):
            assert (wire["type"], wire["thinking"]) == ("thinking", got.text)
            assert (wire.get("signature") or None) == signature
        case RedactedReasoning(data):
            assert (wire["type"], wire["data"]) == ("redacted_thinking", data)
        case ToolCall(id, name, arguments) | ServerToolCall(id, name, arguments):
            kind = "tool_use" if isinstance(got, ToolCall) else got.kind
            assert (wire["type"], wire["id"], wire["name"]) == (kind, id, name)
            text = wire.get("text") or ""
            if text or not wire["input"]:
                assert arguments == text
            else:
                assert json.loads(arguments) == wire["input"]
        case ServerToolResult(id, kind, content):
            assert (wire["type"], wire["tool_use_id"], wire["content"]) == (kind, id, content)
        case OpaqueBlock(data=data):
            assert json.loads(data) == wire
        case _:
            raise AssertionError(type(got).__name__)


def deserved_usage(counts: dict[str, Any]) -> dict[str, int | None]:
    said = [counts[name] for name in INPUTS if counts.get(name) is not None]
    return {
        "input_tokens": sum(said) if said else None,
        "output_tokens": counts.get("output_tokens"),
        "cache_write_tokens": counts.get("cache_creation_input_tokens"),
        "cache_read_tokens": counts.get("cache_read_input_tokens"),
    }


@each_stream_of("anthropic")
def test_message_equals_the_accumulated_payloads(stream: CorpusStream) -> None:
    events, outcome, notes = decode([stream.body], "anthropic")
    message, wire = accumulate(events), snapshot(stream.body)
    assert (message.id, message.model) == (wire["id"], wire["model"])
    assert len(message.blocks) == len(wire["content"])
    for got, block in zip(message.blocks, wire["content"], strict=True):
        assert_same_block(got, block)
    assert message.stop_reason == REASONS[wire["stop_reason"]]
    assert message.raw_stop_reason == wire["stop_reason"]
    assert message.stop_sequence == wire.get("stop_sequence")
    for name, count in deserved_usage(wire["usage"]).items():
        assert getattr(message.usage, name) == count, name
    assert_ends_well(stream, outcome, message)
    assert {note.kind for note in notes} <= FORGIVEN


def assert_ends_well(stream: CorpusStream, outcome: object, message: Message) -> None:
    assert isinstance(outcome, Completed)
    assert (outcome.reason, outcome.usage) == (message.stop_reason, message.usage)
    whole = stream.body.replace(b"\r", b"").endswith(b"\n\n")
    assert outcome.lenient == (() if whole else ("unterminated",))
    assert outcome.usage != Usage()
