"""Random complete streams of the Interactions API, and their messages."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Block, Message, Reasoning, ServerToolCall, StopReason, Text, ToolCall, Usage
from support.draws import Draws
from support.gemini_interactions.frames import CREATED, delta, event, start, stop
from support.streams.generated import Source

__all__ = ["make_interactions_stream"]

_PIECES = ("", "a", "é😀", " ", '{"a"', "x" * 300, "\u2028")
_INPUTS: tuple[dict[str, Any], ...] = (
    {},
    {"city": "Oslo"},
    {"a": [1, 2.5, None], "b": {"c": "😀"}},
)
_COUNTS = {"total_input_tokens": 12, "total_output_tokens": 3, "total_tokens": 15}


def make_interactions_stream(d: Draws) -> Source:
    """Return a complete stream and its message."""
    frames, blocks = [CREATED], list[Block]()
    for index in range(d.below(5)):
        written, block = _make_step(d, index)
        frames += [*written, stop(index)]
        blocks.append(block)
    called = any(isinstance(block, ToolCall) for block in blocks)
    reasons: tuple[tuple[str, StopReason], ...] = (
        ("requires_action", "tool_use") if called else ("completed", "end_turn"),
        ("incomplete", "max_tokens"),
    )
    status, reason = d.pick((reasons[0], reasons[0], *reasons))
    interaction = {"id": "v1", "model": "m", "status": status, "usage": _COUNTS}
    frames += [
        event("interaction.completed", interaction=interaction),
        b"event: done\ndata: [DONE]\n\n",
    ]
    usage = Usage(12, 3)
    return Source(
        frames, [Message("v1", "m", tuple(blocks), reason, status, usage=usage)], usage, ()
    )


def _make_step(d: Draws, index: int) -> tuple[list[bytes], Block]:
    """Return the events of a step without its stop, and the unified block."""
    match d.pick(("text", "text", "call", "call", "thought", "search")):
        case "text":
            whole = "".join(d.pick(_PIECES) for _ in range(d.below(4))) + "It snows."
            pieces = [delta(index, "text", text=piece) for piece in d.cut(whole, 4)]
            return [start(index, "model_output"), *pieces], Text(whole)
        case "thought":
            whole = "Snow? " + d.pick(_PIECES)
            summaries = [
                delta(index, "thought_summary", content={"type": "text", "text": piece})
                for piece in d.cut(whole, 3)
            ]
            signed = delta(index, "thought_signature", signature="c2lnbmVk")
            block = Reasoning((whole,), "c2lnbmVk", "google")
            return [start(index, "thought"), *summaries, signed], block
        case "call":
            text = json.dumps(d.pick(_INPUTS), ensure_ascii=d.flag())
            id, name = f"call{index}", d.pick(("f", "get_weather"))
            opening = start(index, "function_call", id=id, name=name, arguments={})
            pieces = [delta(index, "arguments_delta", arguments=piece) for piece in d.cut(text, 4)]
            return [opening, *pieces], ToolCall(id, name, text)
        case _:
            kind, id = "google_search_call", f"search{index}"
            arguments = {"queries": ["snow"]}
            return (
                [start(index, kind, id=id, arguments={}), delta(index, kind, arguments=arguments)],
                ServerToolCall(id, "google_search", json.dumps(arguments), f"{kind}_step"),
            )
