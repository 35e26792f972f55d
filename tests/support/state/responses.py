"""Stored responses, built by hand or by turns."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Reply
from streamnorm.state import Item, MemoryStore, StoredResponse, Turn

__all__ = ["answered", "asked", "call", "message", "output", "reasoning", "response", "said"]


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def call(id: str, **arguments: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{id}",
        "call_id": id,
        "name": "get_weather",
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def output(call_id: str, text: str = "snow") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def reasoning(id: str, text: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": id,
        "summary": [{"type": "summary_text", "text": text}],
        "encrypted_content": "sealed",
    }


def message(id: str, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": id,
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def response(id: str, previous: str | None = None, *items: str, size: int = 0) -> StoredResponse:
    """Return a stored response with output items of these ids.

    Args:
        id: Its id.
        previous: Id of the response that it continues.
        items: Ids of its items.
        size: Bytes of its body.
    """
    output = [Item(item, json.dumps({"id": item, "of": id}).encode()) for item in items]
    return StoredResponse(id, previous, b" " * size, (), tuple(output))


def asked(store: MemoryStore, scope: str = "a", /, **body: Any) -> tuple[Turn, dict[str, Any]]:
    """Return a turn, and its request with the whole input."""
    turn = Turn({"model": "m", **body})
    return turn, turn.expand(store.find(scope, turn.lookup))


def answered(
    store: MemoryStore, /, *items: dict[str, Any], **body: Any
) -> tuple[str, dict[str, Any]]:
    """Answer a request with items; return the answer's id, and the sent request."""
    turn, sent = asked(store, **body)
    fields = turn.reply(Reply()).response
    stored = turn.stored({"status": "completed", "output": list(items), **fields})
    if stored is not None:
        store.put("a", stored)
    return turn.id, sent
