"""A short hand-written stream of each dialect with the text `ab`, and its errors."""

from __future__ import annotations

import json
from typing import Any

from support.anthropic import frames as anthropic
from support.gemini import frames as gemini
from support.gemini_interactions import frames as interactions
from support.openai_chat.chunks import DONE, chunk, content, frame
from support.openai_responses import frames as responses

__all__ = ["LAST", "PINGS", "REFUSED", "STREAMS", "assert_error"]

_COUNTED = {"prompt_tokens": 9, "completion_tokens": 4}
_PART = responses.part("ab")
_MESSAGE = responses.messages(_PART)

# Of each the first two are an event and a comment, and the third is an event.
STREAMS: dict[str, list[bytes]] = {
    "openai_chat": [
        *(b": hi\n\n", content("a"), chunk({"content": "b", "x": 1}, "stop")),
        *(frame({"id": "1", "choices": [], "usage": _COUNTED}), DONE),
    ],
    "anthropic": [
        *(anthropic.start(usage={"input_tokens": 9, "output_tokens": 1}), b": hi\n\n"),
        *(anthropic.text(0, "a", "b"), anthropic.event("news", index=0)),
        *(anthropic.end(usage={"output_tokens": 4}), anthropic.STOP),
    ],
    "openai_responses": [
        *(responses.START, b": hi\n\n", responses.added(0, "message", id="msg_1")),
        *(responses.part_added(responses.part("")), responses.text("a"), responses.text("b")),
        *(responses.part_done(_PART), responses.event("news", output_index=0)),
        responses.done(0, "message", **_MESSAGE),
        responses.completed(
            {"type": "message", **_MESSAGE}, usage={"input_tokens": 9, "output_tokens": 4}
        ),
    ],
    "gemini": [
        *(gemini.text("a"), b": hi\r\n\r\n", gemini.text("b", finish="STOP")),
        gemini.chunk(usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 4}),
    ],
    "gemini_interactions": [
        *(interactions.CREATED, b": hi\n\n", interactions.start(0, "model_output")),
        interactions.delta(0, "text", text="a"),
        interactions.delta(0, "text", text="b"),
        *(interactions.event("news", n=1), interactions.stop(0)),
        interactions.completed(usage={"total_input_tokens": 9, "total_output_tokens": 4}),
    ],
}

LAST = {
    "openai_chat": content("a", "stop"),
    "anthropic": anthropic.event("error", error={}),
    "openai_responses": responses.completed(),
    "gemini": gemini.text("a", finish="STOP"),
    "gemini_interactions": interactions.completed(),
}
"""An event that alone tells the dialect, and ends a stream."""

REFUSED = {
    "openai_chat": frame({"error": {"message": "no", "code": 429}}),
    "anthropic": anthropic.event("error", error={"type": "api_error", "message": "no"}),
    "openai_responses": responses.event("error", error={"type": "server_error", "message": "no"}),
    "gemini": gemini.frame({"error": {"code": 429, "message": "no"}}),
    "gemini_interactions": interactions.event("error", error={"code": "x", "message": "no"}),
}
"""How a provider tells an error in its stream."""

PINGS = {
    "openai_chat": b": ping\n\n",
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "openai_responses": b": ping\n\n",
    "gemini": b"\r\n",
    "gemini_interactions": b": ping\n\n",
}


def assert_error(data: bytes, dialect: str, message: str, code: str) -> None:
    """Assert that bytes are exactly a dialect's error events."""
    match dialect:
        case "anthropic":
            told = f'{{"type":"error","error":{{"type":"api_error","message":"{message}"}}}}'
            assert data == f"event: error\ndata: {told}\n\n".encode()
        case "openai_chat":
            fields = f'"message":"{message}","type":"server_error","param":null,"code":"{code}"'
            assert data == f'data: {{"error":{{{fields}}}}}\n\n'.encode()
        case "gemini":
            fields = f'"code":500,"message":"{message}","status":"INTERNAL"'
            # Behind it begins an event, so that clients that ignore the error notice it.
            assert data == f'data: {{"error":{{{fields}}}}}\r\n\r\n:'.encode()
        case "gemini_interactions":
            fields = f'"code":"internal_error","message":"{message}"'
            told = f'{{"error":{{{fields}}},"event_type":"error"}}'
            assert data == f"event: error\ndata: {told}\n\n".encode()
        case _:
            _assert_failed(data, message)


def _assert_failed(data: bytes, message: str) -> None:
    """Assert that bytes are the two error events of Responses."""
    told: dict[str, Any] = {}
    for event in data.decode().split("\n\n")[:-1]:
        name, _, payload = event.partition("\ndata: ")
        told[name.removeprefix("event: ")] = json.loads(payload)
    assert list(told) == ["error", "response.failed"]
    words = {"code": "server_error", "message": message}
    assert told["error"].items() >= words.items()
    assert told["error"]["error"].items() >= words.items()
    response = told["response.failed"]["response"]
    assert (response["status"], response["error"]) == ("failed", words)
