"""Adversarial Anthropic streams, and their expected messages.

The truth is written by hand from the protocol: a stream that contradicts itself holds none.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from support.anthropic.frames import STOP, block, delta, end, event, start, stop

__all__ = ["BROKEN", "CLEAN", "UNFINISHED", "Row"]

PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'

Row: TypeAlias = tuple[list[bytes], list[dict[str, str]], str]
"""The frames, the blocks of the message, and its stop reason."""


def begin(**fields: Any) -> bytes:
    return start(usage={"input_tokens": 20, "output_tokens": 1}, **fields)


def finish(reason: str) -> bytes:
    return end(reason, usage={"output_tokens": 7})


def tool(index: int | None, name: str, **fields: Any) -> bytes:
    """Return the start of a call with an id derived from its tool."""
    return block(index, "tool_use", **{"id": f"toolu_{name}", "name": name, "input": {}, **fields})


def args(index: int | None, *pieces: str) -> bytes:
    return b"".join(delta(index, "input_json_delta", partial_json=piece) for piece in pieces)


def say(index: int | None, *pieces: str) -> bytes:
    return b"".join(delta(index, "text_delta", text=piece) for piece in pieces)


def muse(index: int, *pieces: str) -> bytes:
    return b"".join(delta(index, "thinking_delta", thinking=piece) for piece in pieces)


def sign(index: int | None, signature: str) -> bytes:
    return delta(index, "signature_delta", signature=signature)


def cite(index: int) -> bytes:
    source = {"type": "char_location", "cited_text": "c", "document_index": 0}
    return delta(index, "citations_delta", citation=source)


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def thought(thinking: str, signature: str = "") -> dict[str, str]:
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def called(name: str, input: str) -> dict[str, str]:
    return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": input}


TEXT, THINKING = {"text": ""}, {"thinking": "", "signature": ""}
BEGIN, PING = begin(), event("ping")
HI = block(0, "text", **TEXT) + say(0, "Hi")
HM = block(0, "thinking", **THINKING) + muse(0, "Hm") + sign(0, "c2ln")
A, B = tool(0, "weather"), tool(1, "time")
SERVED = block(1, "server_tool_use", id="srvtoolu_1", name="web_search", input={})
ONE, TWO = [called("weather", PARIS)], [called("weather", PARIS), called("time", TOKYO)]
TOLD = {"type": "tool_use", "id": "toolu_weather", "name": "weather", "input": {"city": "Paris"}}
DONE, CALLED = [finish("end_turn"), STOP], [finish("tool_use"), STOP]

CLEAN: dict[str, Row] = {
    "start of a call twice": ([BEGIN, A, A, args(0, PARIS), stop(0), *CALLED], ONE, "tool_use"),
    "start of a call twice around a ping": (
        [BEGIN, A, PING, A, args(0, PARIS), stop(0), *CALLED],
        ONE,
        "tool_use",
    ),
    "message_start twice": ([BEGIN, BEGIN, HI, stop(0), *DONE], [text("Hi")], "end_turn"),
    "message_start again amid text": (
        [BEGIN, HI, BEGIN, say(0, " there"), stop(0), *DONE],
        [text("Hi there")],
        "end_turn",
    ),
    "stop twice, and of a block that never was": (
        [BEGIN, A, args(0, PARIS), stop(0), stop(0), stop(5), *CALLED],
        ONE,
        "tool_use",
    ),
    "nothing for stopped and unknown blocks": (
        [
            *(BEGIN, HI, stop(0), A.replace(b'"index": 0', b'"index": 1'), args(1, PARIS), stop(1)),
            *(say(0, ""), args(1, ""), args(6, ""), sign(7, ""), muse(8, ""), *CALLED),
        ],
        [text("Hi"), *ONE],
        "tool_use",
    ),
    "arguments again after the stop of their call": (
        [
            *(BEGIN, A, args(0, PARIS[:5], PARIS[5:]), stop(0), B, args(0, PARIS), args(1, TOKYO)),
            *(stop(1), args(1, TOKYO), *CALLED),
        ],
        TWO,
        "tool_use",
    ),
    "input of a start again after the stop": (
        [
            *(BEGIN, tool(0, "weather", input={"city": "Paris"}), stop(0)),
            *(args(0, '{"city": "Paris"}'), *CALLED),
        ],
        [called("weather", '{"city": "Paris"}')],
        "tool_use",
    ),
    "signature again after the stop": (
        [BEGIN, HM, stop(0), sign(0, "c2ln"), block(1, "text", text="Yes"), stop(1), *DONE],
        [thought("Hm", "c2ln"), text("Yes")],
        "end_turn",
    ),
    "text of a start again after the stop": (
        [BEGIN, block(0, "text", text="Hi"), stop(0), say(0, "Hi"), *DONE],
        [text("Hi")],
        "end_turn",
    ),
    "text of a start again in the first delta": (
        [BEGIN, block(0, "text", text="Hi"), say(0, "Hi", " there"), stop(0), *DONE],
        [text("Hi there")],
        "end_turn",
    ),
    "text amid the arguments of a call": (
        [
            *(BEGIN, A, args(0, PARIS[:5]), say(0, "one moment"), args(0, PARIS[5:]), stop(0), B),
            *(args(1, TOKYO), stop(1), *CALLED),
        ],
        [ONE[0], text("one moment"), TWO[1]],
        "tool_use",
    ),
    "thinking amid text": (
        [BEGIN, HI, muse(0, "Hm"), say(0, " there"), stop(0), *DONE],
        [text("Hi there"), thought("Hm")],
        "end_turn",
    ),
    "arguments of two calls, interleaved": (
        [
            *(BEGIN, A, B, args(1, TOKYO[:4]), args(0, PARIS[:4]), args(1, TOKYO[4:])),
            *(args(0, PARIS[4:]), stop(1), stop(0), *CALLED),
        ],
        TWO,
        "tool_use",
    ),
    "halves of a character around another block's text": (
        [
            *(BEGIN, HI, B, say(0, "\ud83d"), args(1, '{"a":"\ud83d'), say(0, "\ude00")),
            *(args(1, '\ude00"}'), stop(0), stop(1), *CALLED),
        ],
        [text("Hi😀"), called("time", '{"a":"😀"}')],
        "tool_use",
    ),
    "input in the start, and the same in deltas": (
        [
            *(BEGIN, tool(0, "weather", input={"city": "Paris"}), args(0, PARIS[:4], PARIS[4:])),
            *(stop(0), *CALLED),
        ],
        ONE,
        "tool_use",
    ),
    "no stop of the last block": ([BEGIN, A, args(0, PARIS), *CALLED], ONE, "tool_use"),
    "no message_stop": ([BEGIN, A, args(0, PARIS), stop(0), CALLED[0]], ONE, "tool_use"),
    "message_delta twice": ([BEGIN, HI, stop(0), DONE[0], *DONE], [text("Hi")], "end_turn"),
    "message_delta without a reason first": (
        [BEGIN, HI, stop(0), end(None, usage={"output_tokens": 7}), *DONE],
        [text("Hi")],
        "end_turn",
    ),
    "message_delta before the last stop": (
        [BEGIN, HI, DONE[0], stop(0), STOP],
        [text("Hi")],
        "end_turn",
    ),
    "whole answer in message_start": (
        [begin(content=[TOLD], stop_reason="tool_use"), *CALLED],
        [called("weather", '{"city": "Paris"}')],
        "tool_use",
    ),
    "block after those in message_start": (
        [begin(content=[TOLD], stop_reason="tool_use"), B, args(1, TOKYO), stop(1), *CALLED],
        [called("weather", '{"city": "Paris"}'), TWO[1]],
        "tool_use",
    ),
    "no indexes": (
        [
            *(BEGIN, tool(None, "weather"), args(None, PARIS), stop(None), tool(None, "time")),
            *(args(None, TOKYO), stop(None), *CALLED),
        ],
        TWO,
        "tool_use",
    ),
    "indexes that fall": (
        [
            *(BEGIN, tool(9, "weather"), args(9, PARIS), stop(9), tool(4, "time"), args(4, TOKYO)),
            *(stop(4), *CALLED),
        ],
        TWO,
        "tool_use",
    ),
    "end_turn with a call": ([BEGIN, A, args(0, PARIS), stop(0), *DONE], ONE, "tool_use"),
    "a line of spaces behind the data": (
        [BEGIN, HI[:-1] + b" \n\n", stop(0), *DONE],
        [text("Hi")],
        "end_turn",
    ),
    "a line of spaces in place of the last blank line": (
        [BEGIN, HI, stop(0), DONE[0], STOP[:-1] + b"  \n"],
        [text("Hi")],
        "end_turn",
    ),
}
"""Streams of servers that deviate without contradicting themselves."""

UNFINISHED: dict[str, Row] = {
    "half arguments at tool_use": (
        [BEGIN, A, args(0, PARIS[:8]), stop(0), *CALLED],
        [called("weather", PARIS[:8])],
        "tool_use",
    ),
    "half arguments at max_tokens": (
        [BEGIN, A, args(0, PARIS[:8]), finish("max_tokens"), STOP],
        [called("weather", PARIS[:8])],
        "max_tokens",
    ),
    "arguments that lack a piece": (
        [BEGIN, A, args(0, PARIS[:3], PARIS[7:]), stop(0), B, args(1, TOKYO), stop(1), *CALLED],
        [called("weather", PARIS[:3] + PARIS[7:]), TWO[1]],
        "tool_use",
    ),
    "half of a JSON text in the start": (
        [BEGIN, tool(0, "weather", input=PARIS[:8]), stop(0), *CALLED],
        [called("weather", PARIS[:8])],
        "tool_use",
    ),
}
"""Streams with a call whose arguments are no whole JSON."""

BROKEN: dict[str, list[bytes]] = {
    "arguments for a stopped call while another is open": [
        *(BEGIN, A, args(0, PARIS[:8]), stop(0), B, args(1, TOKYO[:5]), args(0, PARIS[8:])),
        *(args(1, TOKYO[5:]), stop(1), *CALLED),
    ],
    "arguments for a stopped call while the server's is open": [
        *(BEGIN, A, args(0, PARIS[:8]), stop(0), SERVED, args(0, PARIS[8:]), args(1, "{}")),
        *(stop(1), *CALLED),
    ],
    "other arguments after the stop": [
        *(BEGIN, A, args(0, PARIS), stop(0), args(0, TOKYO), *CALLED),
    ],
    "arguments at an unknown index, one call open": [
        *(BEGIN, A, args(0, PARIS[:8]), args(1, PARIS[8:]), stop(0), *CALLED),
    ],
    "arguments at an unknown index, two calls open": [
        *(BEGIN, A, B, args(0, PARIS[:8]), args(7, PARIS[8:]), args(1, TOKYO)),
        *(stop(0), stop(1), *CALLED),
    ],
    "arguments without an index, two calls open": [
        *(BEGIN, A, B, args(0, PARIS), args(None, TOKYO), stop(0), stop(1), *CALLED),
    ],
    "arguments at the index of a text while a call is open": [
        *(BEGIN, HI, B, args(0, TOKYO), stop(0), stop(1), *CALLED),
    ],
    "arguments before the start of their call": [
        *(BEGIN, A, args(0, PARIS), args(1, TOKYO[:5]), stop(0), B, args(1, TOKYO[5:])),
        *(stop(1), *CALLED),
    ],
    "arguments that are no text": [
        *(BEGIN, A, delta(0, "input_json_delta", partial_json={"city": "Paris"}), stop(0), *CALLED),
    ],
    "text at the index of a tool's result": [
        *(BEGIN, block(0, "web_search_tool_result", tool_use_id="s", content=[]), say(0, "Hi")),
        *(stop(0), *DONE),
    ],
    "index of a wrong type": [
        BEGIN,
        A,
        args(0, PARIS).replace(b": 0,", b': "0",'),
        stop(0),
        *CALLED,
    ],
    "signature for stopped thinking while other is open": [
        *(BEGIN, HM, stop(0), block(1, "thinking", **THINKING), muse(1, "So"), sign(0, "b3Ro")),
        *(stop(1), *DONE),
    ],
    "signature at the index of a text": [
        *(BEGIN, HM, block(1, "text", **TEXT), say(1, "Hi"), sign(1, "b3Ro")),
        *(stop(0), stop(1), *DONE),
    ],
    "source of a stopped text while another is open": [
        *(BEGIN, HI, stop(0), block(1, "text", **TEXT), say(1, "Ho"), cite(0), stop(1), *DONE),
    ],
    "text for a stopped block while another is open": [
        *(BEGIN, HI, stop(0), block(1, "text", **TEXT), say(0, " there"), say(1, "Ho")),
        *(stop(1), *DONE),
    ],
    "text at an unknown index": [BEGIN, HI, say(3, " there"), stop(0), *DONE],
    "text at the index of a call while a text is open": [
        *(BEGIN, HI, B, say(1, " there"), args(1, TOKYO), stop(0), stop(1), *CALLED),
    ],
    "thinking for a stopped block": [BEGIN, HM, stop(0), muse(0, "So"), *DONE],
    "text without any block": [BEGIN, say(0, "Hi"), *DONE],
    "start of a call again after its arguments": [
        *(BEGIN, A, args(0, PARIS), A, stop(0), *CALLED),
    ],
    "start of a call again after its stop": [
        *(BEGIN, A, args(0, PARIS), stop(0), A, stop(0), *CALLED),
    ],
    "another call of the same id": [
        *(BEGIN, A, args(0, PARIS), stop(0), tool(1, "weather"), args(1, TOKYO), stop(1), *CALLED),
    ],
    "call at the index of an open call": [
        *(BEGIN, A, args(0, PARIS), tool(0, "time"), args(0, TOKYO), stop(0), *CALLED),
    ],
    "call at the index of a stopped text": [
        *(BEGIN, HI, stop(0), A, args(0, PARIS), stop(0), *CALLED),
    ],
    "the blocks again after a second message_start": [
        *(BEGIN, HI, stop(0), BEGIN, HI, say(0, " there"), stop(0), *DONE),
    ],
    "another message": [BEGIN, HI, begin(id="msg_2"), HI, stop(0), *DONE],
    "message_start again with other content": [
        *(BEGIN, begin(content=[TOLD], stop_reason="tool_use"), *CALLED),
    ],
    "a call of message_start again as a block": [
        *(begin(content=[TOLD]), tool(1, "weather"), args(1, PARIS), stop(1), *CALLED),
    ],
    "a block at the index of one in message_start": [
        *(begin(content=[TOLD]), tool(0, "time"), args(0, TOKYO), stop(0), *CALLED),
    ],
    "other input in the start than in deltas": [
        *(BEGIN, tool(0, "weather", input={"city": "Rome"}), args(0, PARIS), stop(0), *CALLED),
    ],
    "cut with a stop reason in message_start alone": [
        *(begin(stop_reason="end_turn"), HI, stop(0)),
    ],
    "cut after the whole answer in message_start": [begin(content=[TOLD], stop_reason="tool_use")],
    "cut in a block after message_delta": [BEGIN, A, args(0, PARIS), CALLED[0]],
    "cut after a block that followed message_delta": [
        *(BEGIN, HI, stop(0), DONE[0], B, args(1, TOKYO), stop(1)),
    ],
    "cut after text that followed message_delta": [BEGIN, HI, DONE[0], say(0, "!"), stop(0)],
    "two stop reasons": [BEGIN, HI, stop(0), finish("max_tokens"), *DONE],
    "message_stop in a call without a stop reason": [BEGIN, A, args(0, PARIS[:8]), STOP],
    "cut in a delta, with a line of spaces": [BEGIN, A, args(0, PARIS)[:-1] + b" \n"],
    "cut before message_stop, with a line of spaces": [BEGIN, HI, stop(0)[:-1] + b" \n"],
}
"""Streams that contradict themselves, or were cut."""
