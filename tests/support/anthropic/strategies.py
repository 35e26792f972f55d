"""Random Anthropic streams, and their expected messages.

They have the deviations of compatible servers: blocks that are interleaved or not stopped,
deltas without an index, whole blocks in their start or in `message_start`, repeated texts and
signatures, counts in other events.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct, structs

from streamnorm import Message, StopReason, ToolCall, Usage
from support.anthropic.blocks import GeneratedBlock, StreamStyle, make_block
from support.draws import Draws
from support.streams.generated import Source

__all__ = ["make_anthropic_stream"]

_WORDS: dict[str | None, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
    "tired": "other",
    None: "end_turn",
}


class _Server(Struct):
    """The style of a server."""

    names: str
    ascii: bool
    newline: str
    padded: bool
    overlaps: bool
    indexes: str
    stops: bool
    pings: bool


class _Op(Struct):
    """An event of a block, to be ordered."""

    block: int
    payload: dict[str, Any]


def _server(d: Draws) -> _Server:
    overlaps = d.flag(4)
    return _Server(
        names=d.pick(("right", "right", "right", "none", "wrong")),
        ascii=d.flag(),
        newline=d.pick(("\n", "\n", "\r\n", "\r")),
        padded=d.flag(),
        overlaps=overlaps,
        indexes=d.pick(("dense", "gaps")),
        stops=not d.flag(4),
        pings=d.flag(4),
    )


def _index(server: _Server, number: int) -> int:
    return {"dense": number, "gaps": 3 * number + 1}[server.indexes]


def _ops(d: Draws, server: _Server, made: list[GeneratedBlock]) -> list[_Op]:
    """Return the events of all blocks in wire order."""
    runs: list[list[_Op]] = []
    for number, block in enumerate(made):
        index = _index(server, number)
        start = {"type": "content_block_start", "index": index, "content_block": block.start}
        astray = not server.overlaps and server.stops and d.flag(6)
        deltas = [
            {
                "type": "content_block_delta",
                "index": None if astray and delta["type"] in block.may_stray else index,
                "delta": delta,
            }
            for delta in block.deltas
        ]
        stop = [{"type": "content_block_stop", "index": index}] if server.stops else []
        runs.append([_Op(number, payload) for payload in (start, *deltas, *stop)])
    if not server.overlaps:
        return [op for run in runs for op in run]
    return _interleaved(d, runs)


def _interleaved(d: Draws, runs: list[list[_Op]]) -> list[_Op]:
    left = [list(run) for run in runs]
    merged: list[_Op] = []
    started = 0
    while any(left):
        number = d.pick([n for n, run in enumerate(left) if run and n <= started])
        started += number == started
        merged.append(left[number].pop(0))
        if merged[-1].payload.get("content_block", {}).get("type") == "compaction":
            merged.append(left[number].pop(0))  # its start is held for its delta
    return merged


def _usage(d: Draws) -> tuple[dict[str, Any], dict[str, Any], Usage]:
    """Return the usage of `message_start`, that of `message_delta`, and the merged usage."""
    fresh, out = 1 + d.below(50), 1 + d.below(50)
    written, read = d.pick((None, 0, 4)), d.pick((None, 0, 30))
    thought = d.pick((None, None, out // 2))
    inputs = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
    }
    zeros = dict.fromkeys(inputs, 0)
    output: dict[str, Any] = {"output_tokens": out}
    if thought is not None:
        output["output_tokens_details"] = {"thinking_tokens": thought}
    total = Usage(fresh + (written or 0) + (read or 0), out, read, written, thought)
    match d.pick(("start", "end", "zeros at the end", "zeros at the start", "more", "none")):
        case "start":
            return {**inputs, "output_tokens": 1}, output, total
        case "end":
            return {"output_tokens": 0}, {**inputs, **output}, total
        case "zeros at the end":
            known_zeros = {key: 0 if inputs[key] else inputs[key] for key in inputs}
            return {**inputs, "output_tokens": 1}, {**known_zeros, **output}, total
        case "zeros at the start":
            known = structs.replace(
                total, cache_read_tokens=read or 0, cache_write_tokens=written or 0
            )
            return zeros, {**inputs, **output}, known
        case "more":  # a search has added its results
            fewer = {**inputs, "input_tokens": fresh + 7}
            return {**fewer, "output_tokens": 1}, {"input_tokens": fresh, **output}, total
        case _:
            return {}, {}, Usage()


def make_anthropic_stream(d: Draws) -> Source:
    """Return a complete stream and its message."""
    server = _server(d)
    word = d.pick([*_WORDS, "end_turn", "tool_use"])
    if word is None:  # then every block must have stopped
        server = structs.replace(server, stops=True)
    style = StreamStyle(server.ascii, server.overlaps, cut_off=word in ("max_tokens", None))
    made = [make_block(d, number, style) for number in range(d.below(5))]
    at_once = not made[1:] and all(not block.deltas for block in made) and d.flag()
    start_usage, end_usage, usage = _usage(d)
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "content": [block.start for block in made] if at_once else [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": start_usage,
    }
    extra = {"container": {"id": "c"}} if d.flag(4) else None
    start = {"type": "message_start", "message": {**message, **(extra or {})}}
    payloads = [start, *([start] if d.flag(8) else [])]
    payloads += [op.payload for op in ([] if at_once else _ops(d, server, made))]
    ends_closed = payloads[-1]["type"] == "content_block_stop" and server.stops
    sequence = "END" if word == "stop_sequence" else None
    edits: dict[str, Any] = {"context_management": {"applied_edits": []}}
    stop_extra = edits if d.flag(4) else None
    if word is not None:
        delta = {"stop_reason": word, "stop_sequence": sequence}
        end = {"type": "message_delta", "delta": delta, "usage": end_usage, **(stop_extra or {})}
        payloads.append(end)
    else:
        stop_extra, usage = None, _counted([start_usage])
    lenient = () if word is not None else ("no_finish",)
    if word is not None and ends_closed and d.flag(6):
        lenient = ("no_message_stop",)
    else:
        payloads.append({"type": "message_stop"})
    frames = [_frame(d, server, payload) for payload in payloads]
    if d.flag(8):  # as gateways of Chat Completions send it
        frames.insert(len(frames) - d.below(2), b"data: [DONE]\n\n")
    if d.flag(6) and not frames[-1].startswith(b"data: [DONE]"):
        frames[-1] = frames[-1].rstrip(b"\r\n")
        lenient = (*lenient, "unterminated")
    blocks = tuple(known for block in made for known in block.blocks)
    extras = tuple(beside for block in made for beside in block.extras)
    reason = _reason(word, blocks, unfinished=any(block.cut_off for block in made))
    told = Message(
        "msg_1",
        "claude-1",
        blocks,
        reason,
        word,
        sequence,
        usage,
        extra,
        stop_extra,
        extras if any(extras) else (),
    )
    return Source(frames, [told], usage, lenient)


def _counted(counts: list[dict[str, Any]]) -> Usage:
    """Return the usage of a stream without `message_delta`."""
    (said,) = counts
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    inputs = [said[name] for name in names if said.get(name) is not None]
    return Usage(
        sum(inputs) if inputs else None,
        said.get("output_tokens"),
        said.get("cache_read_input_tokens"),
        said.get("cache_creation_input_tokens"),
    )


def _reason(word: str | None, blocks: tuple[Any, ...], *, unfinished: bool) -> StopReason:
    if word is None and unfinished:
        return "other"
    reason = _WORDS[word]
    called = any(isinstance(block, ToolCall) for block in blocks)
    return "tool_use" if reason == "end_turn" and called else reason


def _frame(d: Draws, server: _Server, payload: dict[str, Any]) -> bytes:
    text = json.dumps(payload, ensure_ascii=server.ascii)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        data = json.dumps(payload).encode()
    if server.padded:  # as the API does
        data = data[:-1] + b" " * d.below(9) + b"}"
    end = server.newline.encode()
    name = {"right": payload["type"], "wrong": "chunk", "none": None}[server.names]
    named = b"event: " + name.encode() + end if name is not None else b""
    ping = b'event: ping\ndata: {"type": "ping"}\n\n' if server.pings and d.flag(4) else b""
    return ping + named + b"data: " + data + end * 2
