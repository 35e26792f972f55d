"""What must hold of Anthropic bytes, whoever reads them: protocol §6.1, by hand."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["broken_rules", "frames"]

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
_STARTS = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "tool_use": {"type": "tool_use", "input": {}},
    "redacted_thinking": {"type": "redacted_thinking"},
}
_STOPS = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
}
_ERRORS = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
}


def frames(body: bytes) -> list[dict[str, Any]]:
    """Return the payloads, each of which must stand under its own name, and alone."""
    assert body.endswith(b"\n\n")
    payloads = []
    for frame in body[:-2].split(b"\n\n"):
        event, data = frame.split(b"\n")
        payload = json.loads(data.removeprefix(b"data: "))
        assert event == b"event: %b" % payload["type"].encode()
        payloads.append(payload)
    return payloads


def broken_rules(body: bytes, *, failed: bool) -> list[str]:
    """Return what the bytes of a whole stream break.

    Args:
        body: The bytes.
        failed: Whether the stream failed, so that an error must end it.
    """
    payloads = [payload for payload in frames(body) if payload["type"] != "ping"]
    if failed:
        *payloads, error = payloads
        broken = _error(error)
        if payloads:
            broken += _message(payloads, ended=False)
        return broken
    return _message(payloads, ended=True)


def _error(payload: dict[str, Any]) -> list[str]:
    if payload.keys() != {"type", "error"} or payload["type"] != "error":
        return [f"{payload} ends a failed stream"]
    error = payload["error"]
    known = error["type"] in _ERRORS and type(error["message"]) is str
    return [] if known else [f"unknown error {error}"]


def _message(payloads: list[dict[str, Any]], *, ended: bool) -> list[str]:
    start, *rest = payloads
    broken = _message_start(start)
    if ended:
        *rest, delta, stop = rest
        broken += [] if stop == {"type": "message_stop"} else [f"{stop} ends the stream"]
        broken += _message_delta(delta)
    blocks: list[dict[str, Any]] = []
    texts: list[str] = []
    is_open = False
    for payload in rest:
        match payload:
            case {"type": "content_block_start", "index": index, "content_block": block}:
                broken += ["a block starts in an open one"] if is_open else []
                broken += [f"block {index} starts as {len(blocks)}"] * (index != len(blocks))
                broken += _block_start(block)
                is_open = True
                blocks.append(block)
                texts.append("")
            case {"type": "content_block_delta", "index": index, "delta": delta}:
                if not is_open or index != len(blocks) - 1:
                    return [*broken, f"delta of block {index} out of place"]
                field = _DELTAS[delta["type"]][1]
                if blocks[-1]["type"] != _DELTAS[delta["type"]][0]:
                    broken.append(f"{delta['type']} in {blocks[-1]['type']}")
                if delta.keys() != {"type", field} or type(delta[field]) is not str:
                    broken.append(f"delta {delta.keys()}")
                if not delta[field] and (field != "partial_json" or texts[-1]):
                    broken.append(f"empty {delta['type']}")
                texts[-1] += "" if field == "signature" else delta[field]
                blocks[-1]["last"] = field
                if field == "signature":
                    blocks[-1]["signed"] = blocks[-1].get("signed", 0) + 1
                elif "signed" in blocks[-1]:
                    broken.append(f"{field} behind a signature")
            case {"type": "content_block_stop", "index": index}:
                broken += [f"block {index} stops"] * (not is_open or index != len(blocks) - 1)
                broken += _block(blocks[-1], texts[-1])
                is_open = False
            case _:
                broken.append(f"{payload['type']} within the message")
    if ended and is_open:
        broken.append("message_delta in an open block")
    return broken


def _message_start(payload: dict[str, Any]) -> list[str]:
    if payload["type"] != "message_start":
        return [f"{payload['type']} begins the message"]
    message = payload["message"]
    fixed = {
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    broken = [f"{key} is {message[key]}" for key in fixed if message[key] != fixed[key]]
    if type(message["id"]) is not str or type(message["model"]) is not str:
        broken.append("id or model is no string")
    return broken + _usage(message["usage"])


def _message_delta(payload: dict[str, Any]) -> list[str]:
    if payload["type"] != "message_delta":
        return [f"{payload['type']} before message_stop"]
    delta = payload["delta"]
    broken = [] if delta["stop_reason"] in _STOPS else [f"stop reason {delta['stop_reason']}"]
    if delta["stop_reason"] == "stop_sequence" and type(delta["stop_sequence"]) is not str:
        broken.append("stop sequence without its text")
    return broken + _usage(payload["usage"])


def _usage(usage: dict[str, Any]) -> list[str]:
    names = [
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ]
    counts = [*(usage[name] for name in names), *usage.get("output_tokens_details", {}).values()]
    return [f"usage {usage}"] * (not all(type(count) is int and count >= 0 for count in counts))


def _block_start(block: dict[str, Any]) -> list[str]:
    expected = dict(_STARTS[block["type"]])
    if block["type"] == "tool_use":
        expected |= {"id": block.get("id"), "name": block.get("name")}
        if not block.get("id") or not block.get("name"):
            return [f"tool call {block}"]
    if block["type"] == "redacted_thinking":
        expected["data"] = block.get("data")
    return [] if block == expected else [f"block starts as {block}"]


def _block(block: dict[str, Any], text: str) -> list[str]:
    match block["type"]:
        case "text" if not text.strip():
            return ["text of white space"]
        case "tool_use" if not text:
            return ["tool call without input"]
        case "thinking" if block.get("signed", 0) > 1:
            return ["thinking signed twice"]
        case "thinking" if not text and not block.get("signed"):
            return ["empty thinking"]
        case _:
            return []
