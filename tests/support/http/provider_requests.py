"""Requests to an in-process provider."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Message, accumulate
from streamnorm.codec import decoder
from streamnorm.recording.format import Playback, Responder, WireRequest

__all__ = ["PATHS", "ask", "chat", "message_in", "message_of", "messages", "post", "request_for"]

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/asked-1:generateContent",
}
"""Where each dialect that has whole bodies is asked for one."""

HEADERS = (("Content-Type", "application/json"), ("Authorization", "Bearer canary-7f3a"))


def post(url: str, body: object, headers: tuple[tuple[str, str], ...] = HEADERS) -> WireRequest:
    """Return a request with a JSON body."""
    return WireRequest("POST", url, headers, json.dumps(body).encode())


def chat(**more: Any) -> WireRequest:
    """Return a streamed Chat Completions request."""
    body = {"model": "asked-1", "stream": True, "messages": [], **more}
    return post("https://chat.example/v1/chat/completions", body)


def messages(**more: Any) -> WireRequest:
    """Return a streamed Anthropic Messages request."""
    body = {"model": "asked-1", "stream": True, "messages": [], **more}
    return post("https://claude.example/v1/messages?beta=true", body)


def request_for(dialect: str, *, stream: bool) -> WireRequest:
    """Return a request in a dialect for a stream or a whole body."""
    path = PATHS[dialect]
    body: dict[str, Any] = {"model": "asked-1", "stream": stream}
    if stream:
        path = path.replace("generateContent", "streamGenerateContent")
        body["stream_options"] = {"include_usage": True}
    return post(f"https://h{path}", body)


def message_in(playback: Playback) -> Message:
    """Return the message in an answer."""
    return message_of(playback.body, playback.dialect)


def message_of(body: bytes, dialect: str | None) -> Message:
    """Return the message of a stream."""
    reader = decoder(dialect)
    return accumulate([*reader.feed(body), *reader.close()])


def ask(provider: Responder, request: WireRequest) -> Message:
    """Send a request; return the answer's message."""
    return message_in(provider.respond(request))
