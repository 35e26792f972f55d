"""Random Converse streams: legal ones with their messages, and arbitrary ones."""

from __future__ import annotations

import base64
import json
from typing import Any

from streamnorm import (
    Block,
    Message,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    StopReason,
    Text,
    ToolCall,
    Usage,
)
from support.bedrock_converse.frames import (
    START,
    delta,
    end,
    event,
    exception,
    metadata,
    payload,
    start,
    stop,
    text,
    tool,
    tool_input,
)
from support.draws import Draws
from support.streams.generated import Source

__all__ = ["any_stream", "make_converse_stream", "text_stream"]

_PIECES = ("", "a", "é😀", " ", '{"a"', ":1}", "x" * 300, "}}", "\u2028")
_HALVES = (r'"\ud83d"', r'"\ude00"', '"a"', "null", "1", "{}", "[]")


def text_stream(d: Draws) -> list[bytes]:
    """Return a legal stream of text and calls."""
    messages = [START]
    for index in range(d.below(4)):
        opening = [tool(index, f"id{index}")] if d.flag() else []
        make = tool_input if opening else text
        # A text that is blank is left out by encoders.
        pieces = [d.pick(_PIECES) for _ in range(d.below(5))] + ["b"]
        messages += [*opening, *(make(index, piece) for piece in pieces), stop(index)]
    return [*messages, end(d.pick(("end_turn", "tool_use", "max_tokens")))]


_INPUTS: tuple[dict[str, Any], ...] = (
    {},
    {"city": "Oslo"},
    {"a": [1, 2.5, None], "b": {"c": "😀"}},
)
_ISSUER = "anthropic"


def make_converse_stream(d: Draws) -> Source:
    """Return a complete stream and its message."""
    frames, blocks = [START], list[Block]()
    # Nova leaves indexes out, and numbers each of its deltas.
    step = d.pick((1, 1, 2))
    for number in range(d.below(5)):
        index = number * step
        messages, block = _make_block(d, index, number)
        frames += [*messages, stop(index)]
        blocks.append(block)
    called = any(isinstance(block, ToolCall) for block in blocks)
    reasons: tuple[tuple[str, StopReason], ...] = (
        ("tool_use", "tool_use") if called else ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("guardrail_intervened", "refusal"),
    )
    word, reason = d.pick((reasons[0], reasons[0], *reasons))
    frames += [event("messageStop", stopReason=word), metadata()]
    usage = Usage(12, 3)
    return Source(frames, [Message("", "", tuple(blocks), reason, word, usage=usage)], usage, ())


def _make_block(d: Draws, index: int, number: int) -> tuple[list[bytes], Block]:
    """Return the messages of a block without its stop, and the unified block."""
    match d.pick(("text", "text", "call", "call", "server", "reasoning", "redacted")):
        case "text":
            whole = "".join(d.pick(_PIECES) for _ in range(d.below(4))) + "It snows."
            return [text(index, piece) for piece in d.cut(whole, 4)], Text(whole)
        case "reasoning":
            whole, signature = "Snow? " + d.pick(_PIECES), d.pick(("", "c2ln"))
            pieces = [delta(index, reasoningContent={"text": each}) for each in d.cut(whole, 3)]
            signed = [delta(index, reasoningContent={"signature": signature})] if signature else []
            issuer = _ISSUER if signature else None
            return [*pieces, *signed], Reasoning((whole,), signature or None, issuer)
        case "redacted":
            blob = base64.b64encode(b"EtkEC%d" % number).decode()
            messages = [delta(index, reasoningContent={"redactedContent": blob})]
            return messages, RedactedReasoning(f"EtkEC{number}", _ISSUER)
        case kind:
            arguments = json.dumps(d.pick(_INPUTS), ensure_ascii=d.flag())
            id, name = f"tooluse_{number}", d.pick(("f", "get_weather"))
            pieces = [tool_input(index, piece) for piece in d.cut(arguments, 4)]
            if kind == "call":
                return [tool(index, id, name), *pieces], ToolCall(id, name, arguments)
            opening = tool(index, id, name, type="server_tool_use")
            return [opening, *pieces], ServerToolCall(id, name, arguments, "toolUse")


def any_stream(d: Draws) -> list[bytes]:
    """Return messages in arbitrary order with arbitrary payloads."""
    head = [START] if d.flag() else []
    return [*head, *(_any_message(d) for _ in range(d.below(14))), *([end()] if d.flag() else [])]


def _any_message(d: Draws) -> bytes:
    index, piece = d.below(3), d.pick(_PIECES)
    reasoning = d.pick(
        ({"text": piece}, {"signature": piece}, {"redactedContent": piece}, {}, {"newer": piece})
    )
    choices = (
        *(lambda: text(index, piece), lambda: tool_input(index, piece), lambda: stop(index)),
        lambda: tool(index, d.pick(("a", "b", "")), d.pick(("f", ""))),
        lambda: tool(index, d.pick(("c", "d")), type="server_tool_use"),
        lambda: start(index, toolResult={"toolUseId": "c", "type": "x_result"}),
        lambda: start(index, image={"format": "png"}),
        *(lambda: start(index), lambda: start(index, newer=piece)),
        lambda: delta(index, toolResult=[{"text": piece}]),
        lambda: delta(index, image={"source": {"bytes": d.pick(("AA==", piece))}}),
        lambda: delta(index, reasoningContent=reasoning),
        lambda: delta(index, citation={"title": piece, "location": {"web": {"url": piece}}}),
        lambda: delta(index, newer=piece, **({"text": piece} if d.flag() else {})),
        lambda: _half(d, index),
        *(lambda: START, metadata, lambda: event("messageStop", stopReason=piece)),
        lambda: event(d.pick(("newer", "metadata")), contentBlockIndex=index, x=piece),
        lambda: exception(d.pick(("throttlingException", "newer")), message=piece),
        lambda: payload(
            d.pick(("contentBlockDelta", "newer")), d.pick((b"{", b"", b"[1]", b"\xff"))
        ),
    )
    return choices[d.below(len(choices))]()


def _half(d: Draws, index: int) -> bytes:
    """Return a delta with half a surrogate pair, or of another type."""
    value = d.pick(_HALVES)
    inner = d.pick(('{"text":%s}', '{"toolUse":{"input":%s}}', '{"reasoningContent":{"text":%s}}'))
    body = f'{{"contentBlockIndex":{index},"delta":{inner.replace("%s", value)}}}'
    return payload("contentBlockDelta", body.encode())
