"""Valid hand-written Responses streams, and functions that break them."""

from __future__ import annotations

import json
from typing import Any

from support.bodies.json_paths import without

__all__ = [
    "CALL",
    "CREATED",
    "ERROR",
    "IN_PROGRESS",
    "MESSAGE",
    "NESTED",
    "QUEUED",
    "REASONING",
    "SOURCE",
    "TEXT",
    "USAGE",
    "Event",
    "added",
    "answer",
    "call",
    "changed",
    "coded",
    "cut",
    "done",
    "edited",
    "event",
    "failed",
    "message_of",
    "of",
    "part",
    "reasoning",
    "refusal",
    "response",
    "settled",
    "shell",
    "sse",
    "text",
    "thought",
    "whole",
    "with_more",
    "without",
]

Event = dict[str, Any]

USAGE: Event = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 14,
}


def sse(*events: Event | str) -> bytes:
    """Return events as bytes, numbered from 0; strings are written unchanged."""
    frames, number = [], 0
    for value in events:
        if isinstance(value, str):
            frames.append(value)
            continue
        numbered = {"sequence_number": number, **value}
        number += 1
        frames.append(f"event: {value.get('type')}\ndata: {json.dumps(numbered)}\n\n")
    return "".join(frames).encode()


def event(type: str, **fields: Any) -> Event:
    """Return an event."""
    return {"type": f"response.{type}", **fields}


def response(status: str, **fields: Any) -> Event:
    """Return an event with the response object."""
    name = "created" if status == "in_progress" else status
    told = {
        "id": "resp_1",
        "object": "response",
        "created_at": 5,
        "model": "m",
        "status": status,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
    }
    return event(name, response={**told, **fields})


def of(type: str, item: str, index: int = 0, **fields: Any) -> Event:
    """Return an item event."""
    return event(type, output_index=index, item_id=item, **fields)


def added(index: int, type: str, **fields: Any) -> Event:
    """Return an item's `added` event."""
    return event("output_item.added", output_index=index, item={"type": type, **fields})


def done(index: int, type: str, **fields: Any) -> Event:
    """Return an item's `done` event."""
    return event("output_item.done", output_index=index, item={"type": type, **fields})


def whole(index: int, start: Event, end: Event, *between: Event) -> list[Event]:
    """Return the events of an item with start fields and end fields."""
    return [added(index, **start), *between, done(index, **{**start, **end})]


def part(
    item: str, *pieces: str, index: int = 0, number: int = 0, annotations: tuple[Event, ...] = ()
) -> list[Event]:
    """Return a text part's events."""
    place = {"item": item, "index": index, "content_index": number}
    text, empty = "".join(pieces), {"type": "output_text", "annotations": [], "logprobs": []}
    sources = [
        of("output_text.annotation.added", **place, annotation_index=n, annotation=source)
        for n, source in enumerate(annotations)
    ]
    return [
        of("content_part.added", **place, part={**empty, "text": ""}),
        *(of("output_text.delta", **place, delta=piece, logprobs=[]) for piece in pieces),
        *sources,
        of("output_text.done", **place, text=text, logprobs=[]),
        of(
            "content_part.done",
            **place,
            part={**empty, "text": text, "annotations": list(annotations)},
        ),
    ]


def text(index: int = 0, *pieces: str) -> list[Event]:
    """Return the events of a message with one text."""
    id = f"msg_{index}"
    parts = part(id, *(pieces or ("He", "llo")), index=index)
    start = {"type": "message", "id": id, "role": "assistant", "status": "in_progress"}
    end = {"status": "completed", "content": [parts[-1]["part"]]}
    return whole(index, {**start, "content": []}, end, *parts)


def call(index: int = 0, *pieces: str) -> list[Event]:
    """Return the events of a function call."""
    id, texts = f"fc_{index}", pieces or ('{"a"', ":1}")
    start = {"type": "function_call", "id": id, "call_id": f"call_{index}", "name": "look"}
    told = [of("function_call_arguments.delta", id, index, delta=piece) for piece in texts]
    arguments = "".join(texts)
    return whole(
        index,
        {**start, "status": "in_progress", "arguments": ""},
        {"status": "completed", "arguments": arguments},
        *told,
        of("function_call_arguments.done", id, index, arguments=arguments),
    )


def reasoning(index: int = 0, *summaries: str) -> list[Event]:
    """Return the events of reasoning with summaries."""
    id, told = f"rs_{index}", list[Event]()
    for number, summary in enumerate(summaries or ("Hm",)):
        place = {"item": id, "index": index, "summary_index": number}
        empty = {"type": "summary_text", "text": ""}
        told += [
            of("reasoning_summary_part.added", **place, part=empty),
            of("reasoning_summary_text.delta", **place, delta=summary),
            of("reasoning_summary_text.done", **place, text=summary),
            of("reasoning_summary_part.done", **place, part={**empty, "text": summary}),
        ]
    texts = [value["part"] for value in told if value["type"].endswith("part.done")]
    start = {"type": "reasoning", "id": id, "summary": []}
    return whole(index, start, {"summary": texts, "encrypted_content": "gAAA"}, *told)


MESSAGE = {"type": "message", "id": "msg_0", "role": "assistant", "status": "in_progress"}
SOURCE = {"type": "url_citation", "url": "https://a.example", "title": "A"}
SOURCE |= {"start_index": 0, "end_index": 1}


def message_of(*parts: list[Event]) -> list[Event]:
    """Return the events of a message with given parts."""
    content = [events[-1]["part"] for events in parts]
    end = {"status": "completed", "content": content}
    told = [value for events in parts for value in events]
    return whole(0, {**MESSAGE, "content": []}, end, *told)


def refusal(number: int = 0) -> list[Event]:
    """Return a refusal part's events."""
    place = {"item": "msg_0", "content_index": number}
    empty = {"type": "refusal", "refusal": ""}
    return [
        of("content_part.added", **place, part=empty),
        of("refusal.delta", **place, delta="No"),
        of("refusal.done", **place, refusal="No"),
        of("content_part.done", **place, part={**empty, "refusal": "No"}),
    ]


def thought() -> list[Event]:
    """Return a `reasoning_text` part's events."""
    place = {"item": "rs_0", "content_index": 0}
    empty = {"type": "reasoning_text", "text": ""}
    filled = {**empty, "text": "Hm"}
    return whole(
        0,
        {"type": "reasoning", "id": "rs_0", "summary": []},
        {"content": [filled]},
        of("content_part.added", **place, part=empty),
        of("reasoning_text.delta", **place, delta="Hm"),
        of("reasoning_text.done", **place, text="Hm"),
        of("content_part.done", **place, part=filled),
    )


def shell(*commands: str) -> list[Event]:
    """Return the events of a shell call."""
    start = {"type": "shell_call", "id": "sh_0", "call_id": "call_0", "status": "in_progress"}
    told: list[Event] = []
    for number, command in enumerate(commands):
        place = {"output_index": 0, "command_index": number}
        told += [
            event("shell_call_command.added", **place, command=""),
            event("shell_call_command.delta", **place, delta=command),
            event("shell_call_command.done", **place, command=command),
        ]
    return whole(0, start, {"status": "completed", "action": {"commands": list(commands)}}, *told)


def coded(lane: str, kind: str, field: str, start: Event, end: Event) -> list[Event]:
    """Return the events of an item with one text."""
    return whole(
        0,
        {"type": kind, **start},
        end,
        of(f"{lane}.delta", start["id"], delta=end[field]),
        of(f"{lane}.done", start["id"], **{field: end[field]}),
    )


def answer(*events: Event, status: str = "completed", **fields: Any) -> list[Event | str]:
    """Return a whole response with the items of given events."""
    ends = [value for value in events if value["type"] == "response.output_item.done"]
    items = [value["item"] for value in sorted(ends, key=lambda value: value["output_index"])]
    told = {"output": items, "usage": USAGE, **fields}
    return [CREATED, IN_PROGRESS, *events, response(status, **told)]


def cut(*events: Event) -> list[Event | str]:
    """Return a response cut by its token limit."""
    details = {"reason": "max_output_tokens"}
    return answer(*events, status="incomplete", incomplete_details=details)


def failed(**fields: Any) -> Event:
    """Return the terminal of a failed response."""
    return response("failed", error={"code": "server_error", "message": "busy"}, **fields)


def changed(value: Event, *path: str | int, to: Any) -> Event:
    """Return an event with another value at a path."""
    copy: Any = json.loads(json.dumps(value))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return dict(copy)


def edited(
    events: list[Event | str], at: int, *path: str | int, to: Any = None
) -> list[Event | str]:
    """Return events with one of them changed at a path, or removed."""
    found = events[at]
    assert isinstance(found, dict)
    new = [changed(found, *path, to=to)] if path else []
    return [*events[:at], *new, *events[at + 1 :]]


def with_more(events: list[Event | str], at: int, *more: Event | str) -> list[Event | str]:
    """Return events with others inserted at a position."""
    return [*events[:at], *more, *events[at:]]


def settled(events: list[Event | str]) -> list[Event | str]:
    """Return events whose terminal repeats the complete items."""
    ends = [value for value in events if isinstance(value, dict) and "done" in value["type"]]
    items = [value["item"] for value in ends if "item" in value]
    return edited(events, len(events) - 1, "response", "output", to=items)


CREATED = response("in_progress")
IN_PROGRESS = {**response("in_progress"), "type": "response.in_progress"}
QUEUED = response("queued")

ERROR = {"type": "error", "code": "server_error", "message": "busy", "param": None}
NESTED = {"type": "error", "error": {"type": "server_error", "message": "busy"}}

TEXT = answer(*text())
CALL = answer(*call())
REASONING = answer(*reasoning())
