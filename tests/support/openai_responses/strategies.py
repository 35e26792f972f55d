"""Random Responses streams, and their expected messages.

Written with what OpenAI and compatible servers do:
items that overlap and end in another order, ids that change with each event, numbers
that are missing, constant or all alike, texts that come but once or lack their last
pieces, items that only the end tells of, and ends that tell of none.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from msgspec import Struct, structs

from streamnorm import Block, Message, Reasoning, Refusal, StopReason, ToolCall, Usage
from support.draws import Draws
from support.openai_responses.items import make_item
from support.openai_responses.steps import GeneratedItem, ItemStyle, Step
from support.streams.generated import Source

__all__ = ["make_responses_stream"]

_Value: TypeAlias = dict[str, Any]

_WORDS: tuple[tuple[str, str | None, StopReason], ...] = (
    ("completed", None, "end_turn"),
    ("completed", None, "end_turn"),
    ("completed", None, "end_turn"),
    ("incomplete", "max_output_tokens", "max_tokens"),
    ("incomplete", "content_filter", "refusal"),
    ("incomplete", "max_messages", "other"),
    ("incomplete", None, "other"),
)


class _Server(Struct):
    """The style of a server.

    Attributes:
        names: What its frames are called.
        ascii: Whether other characters are escaped.
        newline: What ends its lines.
        places: How its events tell of their item.
        numbers: How it numbers its events.
        overlaps: Whether items may begin in the middle of others.
        item_dones: Whether it ends its items.
        output: What of them its last event holds.
        extras: Whether it pads and pings.
    """

    names: str
    ascii: bool
    newline: str
    places: str
    numbers: str
    overlaps: bool
    item_dones: bool
    output: str
    extras: bool


def _server(d: Draws) -> _Server:
    item_dones = not d.flag(6)
    return _Server(
        names=d.pick(("right", "right", "right", "none", "wrong")),
        ascii=d.flag(),
        newline=d.pick(("\n", "\n", "\r\n", "\r")),
        places=d.pick(("both", "both", "both", "index", "id", "rotating", "alike")),
        numbers=d.pick(("counted", "counted", "late", "none", "constant")),
        overlaps=d.flag(4),
        item_dones=item_dones,
        output=d.pick(("full", "full", "empty", "none")) if item_dones else "full",
        extras=d.flag(),
    )


def _item_style(d: Draws, server: _Server, word: str | None) -> ItemStyle:
    parts, dones = not d.flag(4), not d.flag(4)
    return ItemStyle(
        ascii=server.ascii,
        ids=server.places != "index" or d.flag(),
        parts=parts,
        dones=dones,
        gaps=(parts or dones) and d.flag(4),  # else nothing fills them in time
        tools=d.pick((None, None, ("sing",))) if server.places == "both" else None,
        cut_off=word == "max_output_tokens",
    )


def _steps(d: Draws, server: _Server, made: list[GeneratedItem]) -> tuple[list[Step], list[Step]]:
    """Return all items' events in wire order, and those that start at the terminal."""
    runs: list[list[Step]] = []
    late: list[Step] = []
    for number, item in enumerate(made):
        sent = item.steps
        if server.output == "full" and number == len(made) - 1 and d.flag(8):
            sent = []
            late.append(Step({}, item.blocks))
        elif not server.item_dones:
            *sent, last = item.steps
            late.append(last)
        runs.append([_placed(d, server, number, item, step) for step in sent])
    if not server.overlaps:
        return [step for run in runs for step in run], late
    return _interleaved(d, runs), late


def _placed(d: Draws, server: _Server, number: int, item: GeneratedItem, step: Step) -> Step:
    """Return an event with its item's keys."""
    payload = dict(step.payload)
    head: _Value = {"type": payload.pop("type")}
    if server.places != "id":
        head["output_index"] = 0 if server.places == "alike" else number
    id = item.whole.get("id")
    if id is not None:
        if server.places == "rotating":
            id = f"{id}_{d.below(250)}"
        if "item" in payload:
            # Where a block begins stands the id that is told with it.
            named = step.begins or step is item.steps[0]
            payload["item"] = {**payload["item"], "id": item.whole["id"] if named else id}
            if not named:
                _bind(item, id)
        else:
            head["item_id"] = id
    return Step({**head, **payload}, step.begins)


def _bind(item: GeneratedItem, id: str) -> None:
    """Set the id to which the complete item's encrypted content is bound."""
    begins = item.steps[0].begins
    for number, (block, extra) in enumerate(begins):
        if isinstance(block, Reasoning) and block.id == item.whole["id"]:
            begins[number] = (structs.replace(block, id=id), extra)


def _interleaved(d: Draws, runs: list[list[Step]]) -> list[Step]:
    left = [list(run) for run in runs]
    merged: list[Step] = []
    started = 0
    while any(left):
        number = d.pick([n for n, run in enumerate(left) if run and n <= started])
        started += number == started
        merged.append(left[number].pop(0))
    return merged


def _usage(d: Draws) -> tuple[_Value | None, Usage]:
    """Return the terminal's counts, and the expected usage."""
    if d.flag(5):
        return None, Usage()
    given, out = 1 + d.below(50), 1 + d.below(50)
    cached, written = d.pick((None, 0, given // 2)), d.pick((None, 0))
    thought = d.pick((None, 0, out // 2))
    counts: _Value = {"input_tokens": given, "output_tokens": out}
    inputs = {"cached_tokens": cached, "cache_write_tokens": written}
    counts["input_tokens_details"] = {k: v for k, v in inputs.items() if v is not None}
    if thought is not None:
        counts["output_tokens_details"] = {"reasoning_tokens": thought}
    extra = {"cost": 2} if d.flag(4) else None
    counts |= {"total_tokens": given + out, **(extra or {})}
    return counts, Usage(given, out, cached, written, thought, extra)


def make_responses_stream(d: Draws) -> Source:
    """Return a complete stream and its message."""
    server = _server(d)
    status, word, reason = d.pick(_WORDS)
    style = _item_style(d, server, word)
    made = [make_item(d, number, style) for number in range(d.below(5))]
    steps, late = _steps(d, server, made)
    extra = _asked(d, style)
    response: _Value = {"id": "resp_1", **extra, "model": "gpt", "error": None, "output": []}
    counts, usage = _usage(d)
    stop_extra = {"completed_at": 2} if d.flag() else None
    whole = {**response, **(stop_extra or {}), "status": status, "usage": counts}
    whole["incomplete_details"] = {"reason": word} if word is not None else None
    whole["output"] = [item.whole for item in made] if server.output == "full" else []
    if server.output == "none":
        del whole["output"]
    payloads = _begun(d, server, {**response, "status": "in_progress", "usage": None})
    if server.places == "rotating":
        whole["id"] = "resp_2"
    payloads += [step.payload for step in steps]
    payloads.append({"type": f"response.{status}", "response": whole})
    frames = _frames(d, server, payloads)
    lenient: tuple[str, ...] = ()
    if d.flag(4):
        frames.append(f"data: [DONE]{server.newline * 2}".encode())
    elif d.flag(6):
        frames[-1] = frames[-1].rstrip(b"\r\n")
        lenient = ("unterminated",)
    begins = [begun for step in (*steps, *late) for begun in step.begins]
    blocks, extras = tuple(block for block, _ in begins), tuple(beside for _, beside in begins)
    message = Message(
        "resp_1",
        "gpt",
        blocks,
        _reason(status, reason, blocks),
        word or status,
        usage=usage,
        extra=extra,
        stop_extra=stop_extra,
        block_extras=extras if any(extras) else (),
    )
    return Source(frames, [message], usage, lenient)


def _asked(d: Draws, style: ItemStyle) -> _Value:
    """Return the request fields that a response echoes."""
    tools: list[_Value] = [{"type": "function", "name": "find"}]
    tools += [{"type": "custom", "name": name} for name in style.tools or ()]
    echoed: _Value = {"tools": tools if style.tools is not None else []}
    told = echoed if style.tools is not None or d.flag() else {}
    return {"object": "response", "created_at": 1, **told}


def _begun(d: Draws, server: _Server, response: _Value) -> list[_Value]:
    """Return the events before the first item."""
    types = [*(["created"] if d.flag(8) else []), *(["queued"] if d.flag(6) else [])]
    types += ["in_progress"] if d.flag() else []
    # Ids that change are known by the first event behind `created`.
    if server.places == "rotating":
        types = ["in_progress"]
    later = {**response, "id": "resp_3"} if server.places == "rotating" else response
    created: _Value = {"type": "response.created", "response": response}
    return [created, *({"type": f"response.{type}", "response": later} for type in types)]


def _reason(status: str, reason: StopReason, blocks: tuple[Block, ...]) -> StopReason:
    if status == "incomplete":
        return reason
    if any(isinstance(block, ToolCall) for block in blocks):
        return "tool_use"
    return "refusal" if any(isinstance(block, Refusal) for block in blocks) else reason


def _frames(d: Draws, server: _Server, payloads: list[_Value]) -> list[bytes]:
    """Return events as numbered bytes, some of them repeated."""
    frames: list[bytes] = []
    number = 2 if server.numbers == "late" else 0  # as one that is read on from there
    for payload in payloads:
        frames.append(_frame(d, server, payload, number))
        number += 1
        if server.numbers in ("counted", "late"):
            if d.flag(20) and payload is not payloads[-1]:
                frames.append(frames[-1])
            if server.extras and d.flag(8) and payload is not payloads[-1]:
                frames.append(_frame(d, server, {"type": "keepalive"}, number))
                number += 1
    return frames


def _frame(d: Draws, server: _Server, payload: _Value, number: int) -> bytes:
    payload = dict(payload)
    if server.numbers != "none":
        payload["sequence_number"] = 0 if server.numbers == "constant" else number
    if payload["type"] == "response.output_text.delta" and d.flag():
        payload.setdefault("logprobs", [])
    if server.extras and "delta" in payload:
        payload["obfuscation"] = "x" * d.below(9)
    text = json.dumps(payload, ensure_ascii=server.ascii)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half a character can only be written as an escape
        data = json.dumps(payload).encode()
    end = server.newline.encode()
    name = {"right": payload["type"], "wrong": "chunk", "none": None}[server.names]
    named = b"event: " + name.encode() + end if name is not None else b""
    comment = b":" + end * 2 if server.extras and d.flag(4) else b""
    return comment + named + b"data: " + data + end * 2
