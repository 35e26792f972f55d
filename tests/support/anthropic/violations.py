"""Events of valid Anthropic streams, for tests that break one at a time."""

from __future__ import annotations

import json
from typing import Any

from support.bodies.json_paths import without

__all__ = [
    "CODE",
    "OVERLOADED",
    "PING",
    "START",
    "STOP",
    "TEXT",
    "THINKING",
    "TOOL",
    "Event",
    "begin",
    "delta",
    "end",
    "ending",
    "message",
    "named",
    "server",
    "sse",
    "started",
    "text",
    "tool",
    "whole",
    "without",
]

Event = dict[str, Any]


def sse(*events: Event | str) -> bytes:
    """Return events as bytes, named after their types; strings are frames already."""
    return b"".join(
        (event if isinstance(event, str) else named(event, event["type"])).encode()
        for event in events
    )


def named(event: Event, name: str) -> str:
    """Return an event as a frame named `name`."""
    return f"event: {name}\ndata: {json.dumps(event)}\n\n"


_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 1},
}


def started(**fields: Any) -> Event:
    """Return a `message_start`, with `fields` replaced in its message."""
    return {"type": "message_start", "message": {**_MESSAGE, **fields}}


def begin(index: Any, block: Any) -> Event:
    """Return a `content_block_start`."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **fields: Any) -> Event:
    """Return a `content_block_delta`."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def end(index: Any) -> Event:
    """Return a `content_block_stop`."""
    return {"type": "content_block_stop", "index": index}


def ending(reason: Any = "end_turn", sequence: Any = None, **usage: Any) -> Event:
    """Return a `message_delta`."""
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": sequence},
        "usage": {"output_tokens": 5, **usage},
    }


START, STOP, PING = started(), {"type": "message_stop"}, {"type": "ping"}
TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
CODE = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


def text(index: int = 0, *pieces: str) -> list[Event]:
    """Return the events of a text block."""
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces or ("hello",)]
    return [begin(index, TEXT), *deltas, end(index)]


def tool(index: int = 0, *pieces: str, **fields: Any) -> list[Event]:
    """Return the events of a client tool call, with `fields` replaced in its block."""
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [begin(index, {**TOOL, **fields}), *deltas, end(index)]


def message(*events: Event | str, reason: Any = "end_turn") -> list[Event | str]:
    """Return the events of a whole message."""
    return [START, *events, ending(reason), STOP]


def whole(index: int, kind: str, **fields: Any) -> list[Event]:
    """Return the events of a block without deltas."""
    return [begin(index, {"type": kind, **fields}), end(index)]


def server(index: int, id: str, kind: str = "server_tool_use", **fields: Any) -> list[Event]:
    """Return the events of a server tool call."""
    block = {"type": kind, "id": id, "name": "web_search", "input": {}, **fields}
    piece = delta(index, "input_json_delta", partial_json='{"q": 1}')
    return [begin(index, block), piece, end(index)]
