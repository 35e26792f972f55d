"""An Anthropic client of its own: as strict as the strictest, and none of our code.

Written from `protocol/chat-anthropic.md` §2 and §6.1: frames named after their payload,
one block open at a time, indexes dense, nothing before the start or after the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["Read", "frames", "read"]

_EMPTY: dict[str, Any] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_COUNTS = (
    *("input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)


class Read(NamedTuple):
    """What a client makes of a stream.

    Attributes:
        content: The blocks; the input of a tool is its JSON text.
        stop_reason: As in `message_delta`; None if it did not come.
        usage: The last counts.
        error: The payload of the error event that ended the stream.
        message: What `message_start` held; None if it did not come.
        stop: What `message_delta` held.
    """

    content: list[dict[str, Any]]
    stop_reason: str | None
    usage: dict[str, int]
    error: dict[str, Any] | None
    message: dict[str, Any] | None
    stop: dict[str, Any] | None


def frames(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the payloads of a stream, each framed as the API frames it."""
    assert data.endswith(b"\n\n") or not data
    for frame in data.decode().split("\n\n")[:-1]:
        name, payload = frame.split("\n")  # two lines, no more
        assert name.startswith("event: ")
        assert payload.startswith("data: {")
        value = json.loads(payload[6:])
        assert value["type"] == name[7:]
        yield value


def read(data: bytes) -> Read:
    """Read a stream, and refuse whatever some client of the dialect does not survive."""
    content: list[dict[str, Any]] = []
    message = stop = error = opened = None
    usage: dict[str, int] = {}
    ended = False
    for event in frames(data):
        assert not ended
        match event["type"]:
            case "ping":
                pass
            case "message_start":
                assert message is None
                message = event["message"]
                assert message.keys() >= {"id", "type", "role", "model", "content", "usage"}
                assert message["content"] == []
                assert message["stop_reason"] is None
                usage |= _counts(message["usage"])
            case "content_block_start":
                assert message is not None
                assert stop is None
                assert opened is None
                assert event["index"] == len(content)
                opened = event["content_block"]
                content.append(_started(opened))
            case "content_block_delta":
                assert opened is not None
                assert event["index"] == len(content) - 1
                _grow(content[-1], event["delta"])
            case "content_block_stop":
                assert opened is not None
                assert event["index"] == len(content) - 1
                _check_whole(content[-1])
                opened = None
            case "message_delta":
                assert message is not None
                assert opened is None
                assert stop is None
                stop = event["delta"]
                assert stop["stop_reason"]
                usage |= _counts(event["usage"])
            case "message_stop":
                assert stop is not None
                ended = True
            case "error":
                error = event["error"]
                assert isinstance(error["type"], str)
                assert isinstance(error["message"], str)
                ended = True
            case name:
                raise AssertionError(f"unknown event {name}")
    assert ended
    return Read(content, stop["stop_reason"] if stop else None, usage, error, message, stop)


def _counts(usage: dict[str, Any]) -> dict[str, int]:
    assert all(isinstance(usage[name], int) and usage[name] >= 0 for name in _COUNTS)
    return {name: usage[name] for name in _COUNTS}


def _started(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "tool_use":
        assert block.keys() == {"type", "id", "name", "input"}
        assert block["input"] == {}
        return {**block, "input": None}
    if kind == "redacted_thinking":
        assert block.keys() == {"type", "data"}
    else:
        assert block == _EMPTY[kind]
    return dict(block)


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if delta["type"] == "signature_delta":
        assert block["type"] == "thinking"
        assert block["signature"] == ""
        block["signature"] = delta["signature"]
        return
    kind, field = _DELTAS[delta["type"]]
    assert block["type"] == kind
    text = delta[field]
    assert isinstance(text, str)
    text.encode()
    if kind != "tool_use":
        assert text
        assert not block.get("signature")
        block[field] += text
    elif block["input"] is None:  # the API opens each input with an empty delta
        assert text == ""
        block["input"] = ""
    else:
        block["input"] += text


def _check_whole(block: dict[str, Any]) -> None:
    if block["type"] == "text":  # the API refuses it when the client sends it back
        assert block["text"].strip()
    if block["type"] == "tool_use":
        assert block["input"]
