"""Chat Completions payloads written by the encoder."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Event, MessageStart
from streamnorm.codec import encoder

__all__ = ["HEAD", "START", "deltas", "encode", "payload"]

START = MessageStart("chatcmpl-1", "gpt")
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "gpt"}


def encode(*events: Event, start: MessageStart = START, **options: Any) -> list[Any]:
    """Return the payloads after the first chunk, and `[DONE]` as text."""
    writer = encoder("openai_chat", **options)
    body = b"".join([*map(writer.encode, (start, *events)), writer.close()])
    frames = body.decode().removesuffix("\n\n").split("\n\n")
    payloads = [frame.removeprefix("data: ") for frame in frames]
    return [json.loads(text) if text.startswith("{") else text for text in payloads][1:]


def payload(delta: dict[str, Any], finish: str | None = None, choice: int = 0) -> dict[str, Any]:
    """Return the payload of a chunk with one choice."""
    return {**HEAD, "choices": [{"index": choice, "delta": delta, "finish_reason": finish}]}


def deltas(*events: Event, **options: Any) -> list[Any]:
    """Return the deltas of chunks with one choice."""
    found = []
    for chunk in encode(*events, **options):
        (choice,) = chunk["choices"]
        assert chunk == payload(choice["delta"], choice=choice["index"])
        found.append(choice["delta"])
    return found
