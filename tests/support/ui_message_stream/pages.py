"""Requests of a page that uses `useChat`."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamnorm import DecodeError, InputMessage, Text, decode_request

__all__ = [
    "CAT",
    "UI",
    "answer_of",
    "assistant",
    "blocks_of",
    "call",
    "chat",
    "file",
    "messages_of",
    "problem_of",
    "text",
    "user",
]

UI = "ui_message_stream"
CAT = base64.b64encode(b"cat").decode()


def chat(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    numbered = [{"id": f"m{n}", **message} for n, message in enumerate(messages)]
    return {"id": "chat-1", "messages": numbered, "trigger": "submit-message", **fields}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts or (text("Hi"),))}


def assistant(*parts: Any) -> dict[str, Any]:
    return {"role": "assistant", "parts": list(parts)}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def call(state: str, id: str = "c1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool-weather", "toolCallId": id, "state": state, "input": {"a": 1}, **fields}


def messages_of(*messages: dict[str, Any]) -> tuple[InputMessage, ...]:
    return decode_request(chat(*messages), UI).messages


def answer_of(*parts: Any) -> tuple[InputMessage, ...]:
    """Return the decoded messages of an assistant's UI message."""
    first, *rest = messages_of(user(), assistant(*parts))
    assert first == InputMessage("user", (Text("Hi"),))
    return tuple(rest)


def blocks_of(*parts: Any) -> tuple[Any, ...]:
    (message,) = answer_of(*parts)
    assert message.role == "assistant"
    return message.blocks


def file(media_type: str, url: str, **fields: Any) -> dict[str, Any]:
    return {"type": "file", "mediaType": media_type, "url": url, **fields}


def problem_of(body: Any) -> tuple[str, str]:
    with pytest.raises(DecodeError) as caught:
        decode_request(body if isinstance(body, bytes) else json.dumps(body), UI)
    return caught.value.args[0], caught.value.path
