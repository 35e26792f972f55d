"""Adversarial Chat Completions streams, and what every client must read.

The truth is written by hand.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from support.openai_chat.chunks import (
    DONE,
    call,
    calls,
    chunk,
    content,
    detail,
    frame,
    reasoning,
)

__all__ = ["BROKEN", "CLEAN", "UNFINISHED", "Truth"]


class Truth(Struct):
    """What every client must read.

    Attributes:
        stop: The stop reason.
        text: All text of the answer.
        thoughts: All reasoning.
        calls: Name and arguments of each finished call.
        unfinished: Names of the calls whose arguments never ended.
    """

    stop: str
    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, Any]] = []
    unfinished: list[str] = []


PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'
A, B = call(0, "call_a", "get_weather"), call(1, "call_b", "get_time")
ONE: list[tuple[str, Any]] = [("get_weather", {"city": "Paris"})]
SECOND: tuple[str, Any] = ("get_time", {"tz": "Asia/Tokyo"})
TWO = [*ONE, SECOND]
HALF_A = call(0, "call_a", "get_weather", PARIS[:8])
WHOLE_A = call(0, "call_a", "get_weather", PARIS)
HALF_B = call(1, "call_b", "get_time", TOKYO[:6])
WHOLE_B = call(1, "call_b", "get_time", TOKYO)
CALLED, STOPPED = chunk({}, "tool_calls"), chunk({}, "stop")
COUNTS = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
USAGE = frame({"id": "chatcmpl-1", "choices": [], "usage": COUNTS})
END = [CALLED, USAGE, DONE]


def bare(index: int | None, text: str) -> bytes:
    """Return a chunk with only arguments."""
    return calls(call(index, arguments=text))


def under(id: str, **delta: Any) -> bytes:
    """Return a chunk with its own id."""
    return frame({"id": id, "model": "gpt", "choices": [{"index": 0, "delta": delta}]})


def source(url: str) -> dict[str, Any]:
    return {"type": "url_citation", "url_citation": {"url": url, "title": "T"}}


CLEAN: dict[str, tuple[list[bytes], Truth]] = {
    "index that drifts twice": (
        [calls(HALF_A), bare(3, PARIS[8:10]), bare(4, PARIS[10:]), *END],
        Truth("tool_use", calls=ONE),
    ),
    "index that drifts before a second call": (
        [calls(HALF_A), bare(1, PARIS[8:]), calls({**WHOLE_B, "index": 2}), *END],
        Truth("tool_use", calls=TWO),
    ),
    "head of the second call at the index of the first, tail at its own": (
        [calls(WHOLE_A), calls({**HALF_B, "index": 0}), bare(1, TOKYO[6:]), *END],
        Truth("tool_use", calls=TWO),
    ),
    "finish before the text": (
        [reasoning("hm"), STOPPED, content("a"), content("b"), content("c"), USAGE, DONE],
        Truth("end_turn", "abc", "hm"),
    ),
    "finish before the second call": (
        [calls(WHOLE_A, finish="tool_calls"), calls(HALF_B), bare(1, TOKYO[6:]), *END],
        Truth("tool_use", calls=TWO),
    ),
    "finish before the rest, no terminal": (
        [STOPPED, content("a"), calls(HALF_A), STOPPED, bare(0, PARIS[8:]), CALLED],
        Truth("tool_use", "a", calls=ONE),
    ),
    "finish on every chunk": (
        [content("a", "stop"), content("b", "stop"), chunk({}, "stop", usage=COUNTS), DONE],
        Truth("end_turn", "ab"),
    ),
    "finish, then all arguments again": (
        [calls(A), bare(0, PARIS), CALLED, bare(0, PARIS)],
        Truth("tool_use", calls=ONE),
    ),
    "finish, then nothing but empty fields": (
        [content("a", "stop"), chunk({"content": "", "tool_calls": []}), bare(0, ""), USAGE],
        Truth("end_turn", "a"),
    ),
    "finish length after a whole call": (
        [calls(WHOLE_A), chunk({}, "length"), DONE],
        Truth("max_tokens", calls=ONE),
    ),
    "another id in each chunk": (
        [under("a", content="a"), under("b", content="b"), under("c", tool_calls=[WHOLE_A]), *END],
        Truth("tool_use", "ab", calls=ONE),
    ),
    "another id in the last chunk": (
        [calls(HALF_A), bare(0, PARIS[8:]), chunk({}, "tool_calls", id="other"), USAGE, DONE],
        Truth("tool_use", calls=ONE),
    ),
    "empty ids of chunks within a call": (
        [calls(HALF_A), under("", tool_calls=[call(0, arguments=PARIS[8:])]), *END],
        Truth("tool_use", calls=ONE),
    ),
    "id of the call at another index": (
        [calls(HALF_A), calls(call(7, "call_a", None, PARIS[8:])), *END],
        Truth("tool_use", calls=ONE),
    ),
    "all arguments resent after a text": (
        [calls(WHOLE_A), content("so"), calls(WHOLE_A), bare(0, PARIS), bare(0, "\n"), *END],
        Truth("tool_use", "so", calls=ONE),
    ),
    "placeholders of two calls": (
        [
            calls({**A, "function": {"name": "get_weather", "arguments": "{}"}}, B),
            bare(1, "{}"),
            bare(0, PARIS),
            bare(1, TOKYO),
            *END,
        ],
        Truth("tool_use", calls=TWO),
    ),
    "no index at all, text between": (
        [
            calls(call(None, "call_a", "get_weather")),
            bare(None, PARIS[:8]),
            content("so"),
            bare(None, PARIS[8:]),
            calls(call(None, "call_b", "get_time", TOKYO)),
            *END,
        ],
        Truth("tool_use", "so", calls=TWO),
    ),
    "no index, a call without arguments first": (
        [
            calls(call(None, "call_n", "now")),
            calls(call(None, "call_b", "get_time")),
            bare(None, TOKYO[:6]),
            bare(None, TOKYO[6:]),
            *END,
        ],
        Truth("tool_use", calls=[("now", {}), SECOND]),
    ),
    "no index, arguments again": (
        [calls(call(None, "call_a", "get_weather")), bare(None, PARIS), bare(None, PARIS), *END],
        Truth("tool_use", calls=ONE),
    ),
    "no id, two calls of one tool": (
        [calls(call(0, None, "f", '{"n":1}')), calls(call(0, None, "f", '{"n":2}')), *END],
        Truth("tool_use", calls=[("f", {"n": 1}), ("f", {"n": 2})]),
    ),
    "no finish, a call whose arguments may have been lost": (
        [calls(call(0, "call_n", "now")), DONE],
        Truth("other", calls=[("now", {})]),
    ),
    "name in pieces, its last piece again": (
        [
            calls(call(0, "call_a", "get_")),
            calls(call(0, None, "weather")),
            bare(0, PARIS[:8]),
            calls(call(0, None, "weather", PARIS[8:])),
            *END,
        ],
        Truth("tool_use", calls=ONE),
    ),
    "surrogate pair in two fragments, under another call": (
        [
            calls(call(0, "call_a", "f", '{"a":"\ud83d'), HALF_B),
            bare(0, '\ude00"}'),
            bare(1, TOKYO[6:]),
            *END,
        ],
        Truth("tool_use", calls=[("f", {"a": "😀"}), SECOND]),
    ),
    "more after the terminal": (
        [content("a", "stop"), DONE, content("b"), calls(HALF_A), frame({"error": "x"})],
        Truth("end_turn", "a"),
    ),
    "sources before the text": (
        [
            chunk({"content": "", "annotations": [source("https://e.org")]}),
            content("a", "stop"),
            USAGE,
            DONE,
        ],
        Truth("end_turn", "a"),
    ),
    "calls of another choice at the same indexes": (
        [
            calls(HALF_A),
            calls(call(0, "call_z", "rm", '{"path":'), choice=1),
            bare(0, PARIS[8:]),
            calls(call(0, arguments='"/"}'), choice=1),
            CALLED,
            chunk({}, "tool_calls", 1),
            DONE,
        ],
        Truth("tool_use", calls=ONE),
    ),
}


BROKEN: dict[str, list[bytes]] = {
    "start of the second call lost": [calls(WHOLE_A), bare(1, TOKYO[:6]), bare(1, TOKYO[6:]), *END],
    "start lost after a call without arguments": [calls(A), bare(1, TOKYO), *END],
    "start lost after a call of an empty object": [
        *(calls({**A, "function": {"name": "now", "arguments": "{}"}}), bare(1, TOKYO), *END)
    ],
    "start of the only call lost": [content("a"), bare(0, PARIS), *END],
    "start of the only call lost, no index": [bare(None, PARIS), *END],
    "start lost, and shown later": [calls(HALF_A), bare(1, TOKYO), calls(WHOLE_B), *END],
    "drift that its own index disproves": [calls(HALF_A), bare(1, "x"), bare(0, PARIS[8:]), *END],
    "drift that a call at the new index disproves": [
        *(calls(HALF_A), bare(1, PARIS[8:]), calls(WHOLE_B), *END)
    ],
    "drift of either of two calls": [calls(HALF_A, HALF_B), bare(2, "x"), *END],
    "no index, arguments of either of two calls": [calls(HALF_A, HALF_B), bare(None, "x"), *END],
    "no index, arguments of no call": [
        *(calls(call(None, "call_a", "f", "[1]")), bare(None, TOKYO), *END)
    ],
    "another answer within a call": [
        *(under("a", tool_calls=[HALF_A]), under("b", tool_calls=[call(0, arguments='x"}')]), *END)
    ],
    "another answer, then the rest of the call": [
        *(under("a", tool_calls=[HALF_A]), under("b", tool_calls=[{**HALF_B, "index": 0}])),
        *(under("a", tool_calls=[call(0, arguments=PARIS[8:])]), *END),
    ],
    "another answer under the id of the call": [
        *(under("a", tool_calls=[HALF_A]), under("b", tool_calls=[HALF_A]), *END)
    ],
    "id of one call, index of the other": [
        *(calls(HALF_A, HALF_B), calls(call(1, "call_a", None, PARIS[8:])), *END)
    ],
    "two calls with one id": [calls(A), calls({**WHOLE_B, "id": "call_a"}), *END],
    "second object without an id": [calls(WHOLE_A), bare(0, TOKYO), *END],
    "second object after an empty one in two pieces": [
        *(calls(A), bare(0, "{"), bare(0, "}"), bare(0, PARIS), *END)
    ],
    "arguments of a stopped call": [calls(WHOLE_A), content("so"), bare(0, "}"), *END],
    "signature of a stopped call": [
        *(calls(WHOLE_A), content("so")),
        calls(call(0, extra_content={"google": {"thought_signature": "s"}})),
        *END,
    ],
    "name that goes on after its start": [
        *(calls(call(0, "call_a", "get")), content("so"), calls(call(0, None, "_weather", PARIS))),
        *END,
    ],
    "call without a name": [calls(call(0, "call_a", None, PARIS)), content("so"), *END],
    "finish, text, cut": [content("a", "stop"), content("b")],
    "finish, half a call, cut": [STOPPED, calls(call(0, "call_a", "delete", '{"path":'))],
    "finish, start of a call, cut": [calls(WHOLE_A, finish="tool_calls"), calls(B)],
    "finish, reasoning, cut": [content("a", "stop"), reasoning("hm"), USAGE],
    "finish of one choice of two, cut": [content("a"), content("b", choice=1), STOPPED],
    "finish, then an error": [content("a", "stop"), frame({"error": {"message": "gone"}}), DONE],
    "terminal alone": [DONE],
    "input of a custom tool at another index": [
        calls({"index": 0, "id": "x", "type": "custom", "custom": {"name": "f", "input": "a"}}),
        calls({"index": 1, "custom": {"input": "b"}}),
        *END,
    ],
}


UNFINISHED: dict[str, tuple[list[bytes], Truth]] = {
    "half arguments": ([calls(HALF_A), *END], Truth("tool_use", unfinished=["get_weather"])),
    "half arguments, finish stop": (
        [content("a"), calls(HALF_A), STOPPED, DONE],
        Truth("tool_use", "a", unfinished=["get_weather"]),
    ),
    "too many braces": (
        [calls(A), bare(0, PARIS), bare(0, "}"), *END],
        Truth("tool_use", unfinished=["get_weather"]),
    ),
    "first of two calls": (
        [calls(HALF_A), calls(WHOLE_B), *END],
        Truth("tool_use", calls=[SECOND], unfinished=["get_weather"]),
    ),
    "half arguments after the finish": (
        [content("a", "stop"), calls(HALF_A), DONE],
        Truth("other", "a", unfinished=["get_weather"]),
    ),
    "half arguments, no finish": (
        [calls(HALF_A), detail(type="reasoning.text", text="hm"), USAGE, DONE],
        Truth("other", thoughts="hm", unfinished=["get_weather"]),
    ),
    "length": (
        [calls(WHOLE_A), calls(HALF_B), chunk({}, "length"), DONE],
        Truth("max_tokens", calls=ONE, unfinished=["get_time"]),
    ),
}
