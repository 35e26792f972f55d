"""Streams of OpenAI Responses."""

from __future__ import annotations

import json
import random
import string
from typing import Any

from workloads.text import argument_pieces, dumps, text_pieces

__all__ = ["calls", "frames", "text"]

_BLOCK = 16

_Event = dict[str, Any]


def frames(payloads: list[bytes]) -> list[bytes]:
    """Return payloads as frames with their types as event names."""
    return [
        b"event: %b\ndata: %b\n\n" % (json.loads(payload)["type"].encode(), payload)
        for payload in payloads
    ]


def text(deltas: int) -> list[bytes]:
    """Return a stream of text only."""
    return _payloads([_message(0, deltas)])


def calls(deltas: int) -> list[bytes]:
    """Return a stream of four parallel calls, sequential as from the API."""
    return _payloads([_call(number, deltas // 4) for number in range(4)])


def _payloads(items: list[list[_Event]]) -> list[bytes]:
    """Return a whole stream of items."""
    events: list[_Event] = [
        {"type": "response.created", "response": _response("in_progress", [])},
        {"type": "response.in_progress", "response": _response("in_progress", [])},
        *(event for item in items for event in item),
        {
            "type": "response.completed",
            "response": _response("completed", [item[-1]["item"] for item in items]),
        },
    ]
    # The API writes the type first, and the other members in alphabetical order.
    return [
        dumps({"type": event["type"], **dict(sorted({**event, "sequence_number": number}.items()))})
        for number, event in enumerate(events)
    ]


def _response(status: str, output: list[_Event]) -> _Event:
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 64},
        "output_tokens": 1000,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1120,
    }
    return {
        "id": "resp_07c41d90be25f3a8006b1e9d4f82a7c5309e6d1b48f0a2735c",
        "object": "response",
        "created_at": 1770000000,
        "status": status,
        "background": False,
        "completed_at": 1770000012 if output else None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5-mini-2025-08-07",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "medium", "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if output else None,
        "metadata": {},
    }


def _message(number: int, deltas: int) -> list[_Event]:
    place = {"item_id": _id("msg", number), "output_index": number, "content_index": 0}
    pieces = text_pieces(deltas)
    part: _Event = {
        "type": "output_text",
        "annotations": [],
        "logprobs": [],
        "text": "".join(pieces),
    }
    item = {"id": place["item_id"], "type": "message", "role": "assistant"}
    return [
        _item("added", number, {**item, "status": "in_progress", "content": []}),
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *_deltas("output_text", pieces, {**place, "logprobs": []}),
        {"type": "response.output_text.done", **place, "logprobs": [], "text": part["text"]},
        {"type": "response.content_part.done", **place, "part": part},
        _item("done", number, {**item, "status": "completed", "content": [part]}),
    ]


def _call(number: int, deltas: int) -> list[_Event]:
    place = {"item_id": _id("fc", number), "output_index": number}
    pieces = argument_pieces(deltas, number)
    item = {
        "id": place["item_id"],
        "type": "function_call",
        "call_id": f"call_{number:024}",
        "name": "plan_route",
    }
    whole = {"arguments": "".join(pieces)}
    return [
        _item("added", number, {**item, "arguments": "", "status": "in_progress"}),
        *_deltas("function_call_arguments", pieces, place),
        {"type": "response.function_call_arguments.done", **place, **whole},
        _item("done", number, {**item, **whole, "status": "completed"}),
    ]


def _item(what: str, number: int, item: _Event) -> _Event:
    return {"type": f"response.output_item.{what}", "output_index": number, "item": item}


def _deltas(kind: str, pieces: list[str], place: _Event) -> list[_Event]:
    return [
        {
            "type": f"response.{kind}.delta",
            "delta": piece,
            "obfuscation": _padding(piece, number),
            **place,
        }
        for number, piece in enumerate(pieces)
    ]


def _padding(piece: str, number: int) -> str:
    """Return padding that makes a delta's length a multiple of 16."""
    rng = random.Random(f"{number} {piece}")  # noqa: S311 - a seed is the point
    return "".join(rng.choices(string.ascii_letters + string.digits, k=-len(piece) % _BLOCK))


def _id(prefix: str, number: int) -> str:
    return f"{prefix}_07c41d90be25f3a8006b1e9d4f82a7c5309e6d1b48f0a2{number:04}"
