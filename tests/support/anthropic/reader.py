"""An independent Anthropic client, as strict as the strictest real client.

Written from the vendor's reference: frames named after their payload,
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
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_DELTAS: dict[str, tuple[tuple[str, ...], str]] = {
    "text_delta": (("text",), "text"),
    "thinking_delta": (("thinking",), "thinking"),
    "input_json_delta": (_CALLS, "partial_json"),
}
_KNOWN = {*_DELTAS, "signature_delta", "citations_delta", "compaction_delta"}
_COUNTS = (
    *("input_tokens", "output_tokens"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
)


class Read(NamedTuple):
    """A stream as read by a client.

    Attributes:
        content: The blocks; the input of a tool is its JSON text.
        stop_reason: Of `message_delta`; None if there was none.
        usage: The last counts.
        error: The `error` of the event that ended the stream.
        message: The message of `message_start`; None if there was none.
        stop: The delta of `message_delta`.
        others: Events of unknown types.
    """

    content: list[dict[str, Any]]
    stop_reason: str | None
    usage: dict[str, int]
    error: dict[str, Any] | None
    message: dict[str, Any] | None
    stop: dict[str, Any] | None
    others: list[dict[str, Any]]


def frames(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the payloads of a stream; assert that the framing is the API's."""
    assert data.endswith(b"\n\n") or not data
    for frame in data.decode().split("\n\n")[:-1]:
        name, payload = frame.split("\n")  # two lines, no more
        assert name.startswith("event: ")
        assert payload.startswith("data: {")
        value = json.loads(payload[6:])
        assert value["type"] == name[7:]
        yield value


def read(data: bytes, *, extras: bool = False) -> Read:
    """Read a stream; assert everything that a client depends on.

    Args:
        data: The stream.
        extras: Whether blocks may have fields beyond those required.
    """
    content: list[dict[str, Any]] = []
    message = stop = error = opened = None
    usage: dict[str, int] = {}
    others: list[dict[str, Any]] = []
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
                content.append(_started(opened, extras=extras))
            case "content_block_delta":
                assert opened is not None
                assert event["index"] == len(content) - 1
                # The beta's estimate of tokens comes beside the thinking.
                is_estimate = event["delta"].get("estimated_tokens") is not None
                if event["delta"]["type"] in _KNOWN and not is_estimate:
                    _grow(content[-1], event["delta"])
                else:
                    others.append(event)
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
            case _:
                others.append(event)
    assert ended
    reason = stop["stop_reason"] if stop else None
    return Read(content, reason, usage, error, message, stop, others)


def _counts(usage: dict[str, Any]) -> dict[str, int]:
    assert all(isinstance(usage[name], int) and usage[name] >= 0 for name in _COUNTS)
    return {name: usage[name] for name in _COUNTS}


def _started(block: dict[str, Any], *, extras: bool) -> dict[str, Any]:
    kind = block["type"]
    assert isinstance(kind, str)
    if kind in _CALLS:
        required = {"type": kind, "id": block["id"], "name": block["name"], "input": {}}
    elif kind == "redacted_thinking":
        required = {"type": kind, "data": block["data"]}
    elif kind.endswith("_tool_result"):
        required = {key: block[key] for key in ("type", "tool_use_id", "content")}
    else:
        required = _EMPTY.get(kind, block)
    assert block.items() >= required.items() if extras else block == required
    return {**block, "input": None} if kind in _CALLS else dict(block)


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "signature_delta":
            assert block["type"] == "thinking"
            assert block["signature"] == ""
            block["signature"] = delta["signature"]
        case "citations_delta":
            assert block["type"] == "text"
            block.setdefault("citations", []).append(delta["citation"])
        case "compaction_delta":
            assert block == {"type": "compaction", "content": None}
            block |= {key: value for key, value in delta.items() if key != "type"}
        case kind:
            _extend(block, *_DELTAS[kind], delta)


def _extend(
    block: dict[str, Any], kinds: tuple[str, ...], field: str, delta: dict[str, Any]
) -> None:
    assert block["type"] in kinds
    text = delta[field]
    assert isinstance(text, str)
    text.encode()
    if block["type"] not in _CALLS:
        assert text
        assert not block.get("signature")
        block[field] += text
    elif block["input"] is None:  # the API opens each input with an empty delta
        assert text == ""
        block["input"] = ""
    else:
        block["input"] += text


def _check_whole(block: dict[str, Any]) -> None:
    if block["type"] == "text":  # the API rejects blank text as input
        assert block["text"].strip()
    if block["type"] in _CALLS:
        assert block["input"]
