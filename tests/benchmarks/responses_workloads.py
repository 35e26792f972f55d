"""The streams that are measured, made of payloads as OpenAI Responses sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from workloads import Payloads

__all__ = ["calls", "frames", "reasoning_text_and_calls", "text"]

_PADDING = "Zm1BqX7tLw3RkYc9"
_FIRST = ("type", "sequence_number", "item_id", "output_index", "content_index", "delta")

_Event = dict[str, Any]


def frames(payloads: Payloads) -> list[bytes]:
    """Return payloads as one event a chunk."""
    return [
        f"event: {json.loads(payload)['type']}\ndata: {payload}\n\n".encode()
        for payload in payloads
    ]


def text(deltas: int, *, documented: bool = False) -> Payloads:
    """Return a stream of text alone.

    Args:
        deltas: Of the text.
        documented: Whether the fields stand as the API's reference has them, as they did
            until 2025; the API sorts them now.
    """
    return _payloads([_message(0, deltas)], documented=documented)


def reasoning_text_and_calls(deltas: int) -> Payloads:
    """Return reasoning in two summaries, text, and two calls, an equal part each."""
    quarter = deltas // 4
    calls = [_call(number, quarter) for number in (2, 3)]
    return _payloads([_reasoning(0, quarter), _message(1, quarter), *calls])


def calls(deltas: int, *, parallel: int, interleaved: bool = False) -> Payloads:
    """Return parallel calls, one after the other or in turn."""
    return _payloads(
        [_call(number, deltas // parallel) for number in range(parallel)], interleaved=interleaved
    )


def _payloads(
    items: list[list[_Event]], *, interleaved: bool = False, documented: bool = False
) -> Payloads:
    """Return a whole stream of items, one after the other or in turn."""
    parts: Iterator[_Event]
    if interleaved:
        parts = (event for turn in zip(*items, strict=True) for event in turn)
    else:
        parts = (event for item in items for event in item)
    output = [item[-1]["item"] for item in items]
    events: list[_Event] = [
        {"type": "response.created", "response": _response("in_progress")},
        {"type": "response.in_progress", "response": _response("in_progress")},
        *parts,
        {"type": "response.completed", "response": _response("completed", output)},
    ]
    told: Payloads = []
    for number, event in enumerate(events):
        event["sequence_number"] = number
        first = [key for key in (_FIRST if documented else _FIRST[:1]) if key in event]
        rest = event.keys() - set(first)
        told.append(_dumps({key: event[key] for key in (*first, *sorted(rest))}))
    return told


def _response(status: str, output: list[_Event] | None = None) -> _Event:
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2000,
        "output_tokens_details": {"reasoning_tokens": 500},
        "total_tokens": 2120,
    }
    return {
        "id": "resp_0a1b2c3d4e5f60718293a4b5c6d7e8f901234567890abcdef0",
        "object": "response",
        "created_at": 1783970365,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": "gpt-5.6",
        "output": output or [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage if output else None,
    }


def _message(number: int, deltas: int) -> list[_Event]:
    place = {"item_id": _id("msg", number), "output_index": number, "content_index": 0}
    pieces = [f" word {n:04}" for n in range(deltas)]
    part: _Event = {
        "type": "output_text",
        "annotations": [],
        "logprobs": [],
        "text": "".join(pieces),
    }
    item = {"id": place["item_id"], "type": "message", "role": "assistant"}
    told: _Event = {
        "type": "response.output_text.done",
        **place,
        "logprobs": [],
        "text": part["text"],
    }
    return [
        _item("added", number, {**item, "status": "in_progress", "content": []}),
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *_deltas("output_text", pieces, {**place, "logprobs": []}),
        told,
        {"type": "response.content_part.done", **place, "part": part},
        _item("done", number, {**item, "status": "completed", "content": [part]}),
    ]


def _reasoning(number: int, deltas: int) -> list[_Event]:
    id = _id("rs", number)
    item = {"id": id, "type": "reasoning", "encrypted_content": "gAAAAAB" + "x" * 200}
    events = [_item("added", number, {**item, "summary": []})]
    summaries: list[_Event] = []
    for half in range(2):
        place = {"item_id": id, "output_index": number, "summary_index": half}
        pieces = [f" think {n:04}" for n in range(deltas // 2)]
        summary = {"type": "summary_text", "text": "".join(pieces)}
        summaries.append(summary)
        head = "response.reasoning_summary"
        events += [
            {"type": f"{head}_part.added", **place, "part": {**summary, "text": ""}},
            *_deltas("reasoning_summary_text", pieces, place),
            {"type": f"{head}_text.done", **place, "text": summary["text"]},
            {"type": f"{head}_part.done", **place, "part": summary},
        ]
    return [*events, _item("done", number, {**item, "summary": summaries})]


def _call(number: int, deltas: int) -> list[_Event]:
    place = {"item_id": _id("fc", number), "output_index": number}
    inner = [f'"key {n:04}":"value {n:04}",' for n in range(deltas - 2)]
    pieces = ["{", *inner, f'"call":{number}}}']
    call = {
        "id": place["item_id"],
        "type": "function_call",
        "call_id": f"call_a1B2c3D4e5F6g7{number:04}",
    }
    item = {**call, "name": "search"}
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
    # The API pads each to a length that tells nothing, against traffic analysis.
    return [
        {
            "type": f"response.{kind}.delta",
            "delta": piece,
            "obfuscation": _PADDING[: 16 - (len(piece) + number) % 16],
            **place,
        }
        for number, piece in enumerate(pieces)
    ]


def _id(prefix: str, number: int) -> str:
    return f"{prefix}_0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6a{number:04}"


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
