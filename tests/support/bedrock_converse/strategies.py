"""Random streams of Converse: legal ones by chance, most of them not."""

from __future__ import annotations

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

__all__ = ["any_stream", "text_stream"]

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


def any_stream(d: Draws) -> list[bytes]:
    """Return messages in any order, with any payloads."""
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
    """Return a delta with half a character, or of another type."""
    value = d.pick(_HALVES)
    inner = d.pick(('{"text":%s}', '{"toolUse":{"input":%s}}', '{"reasoningContent":{"text":%s}}'))
    body = f'{{"contentBlockIndex":{index},"delta":{inner.replace("%s", value)}}}'
    return payload("contentBlockDelta", body.encode())
