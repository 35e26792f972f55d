"""Thirty-two streams that break other converters, and more of their kind.

Of eleven converters that were run over them, none came through clean.
Clean means: one open block, indexes dense, data exact, the right stop reason and usage,
and a cut told as one.  `anthropic_reader` refuses the rest.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.reader import Read, read
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning
from support.streams.mutations import chunked

from streamnorm import Completed, Transcoder, Truncated

PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'
COUNTS = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
USAGE = frame({"id": "chatcmpl-1", "choices": [], "usage": COUNTS})
CALLED, STOPPED = chunk({}, "tool_calls"), chunk({}, "stop")
ROLE = chunk({"role": "assistant", "content": ""})


def open_(index: int | None, id: str, name: str, arguments: str = "") -> dict[str, Any]:
    return call(index, id, name, arguments, type="function")


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def thinking(text: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": text, "signature": ""}


def tool(id: str, name: str, input: str) -> dict[str, str]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def in_turn(*texts: tuple[int, str]) -> list[bytes]:
    """Return one chunk for each piece of arguments."""
    return [calls(call(index, arguments=piece)) for index, piece in texts]


def round_robin(*texts: str) -> list[bytes]:
    """Return the characters of each call's arguments in turn."""
    longest = max(map(len, texts))
    return in_turn(*((n, t[i]) for i in range(longest) for n, t in enumerate(texts) if i < len(t)))


def repeated(index: int, id: str, name: str | None, *pieces: str) -> list[bytes]:
    return [calls(call(index, id, name, piece)) for piece in pieces]


A, B = open_(0, "call_a", "get_weather"), open_(1, "call_b", "get_time")
TWO = [tool("call_a", "get_weather", PARIS), tool("call_b", "get_time", TOKYO)]
ONE = TWO[:1]
END = [CALLED, USAGE, DONE]

Row = tuple[list[bytes], list[dict[str, str]], str]
CLEAN: dict[str, Row] = {
    "01 sequential two": (
        [calls(A), *in_turn((0, PARIS)), calls(B), *in_turn((1, TOKYO)), *END],
        TWO,
        "tool_use",
    ),
    "02 interleaved two": (
        [
            *(ROLE, calls(A), calls(B)),
            *in_turn(
                (0, PARIS[:6]), (1, TOKYO[:4]), (0, PARIS[6:9]), (1, TOKYO[4:]), (0, PARIS[9:])
            ),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "03 both opened in one chunk, then interleaved": (
        [
            calls(A, B),
            *in_turn((1, TOKYO[:4]), (0, PARIS[:6]), (1, TOKYO[4:]), (0, PARIS[6:])),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "04 both whole in one chunk": (
        [
            calls(
                {**A, "function": {"name": "get_weather", "arguments": PARIS}},
                {**B, "function": {"name": "get_time", "arguments": TOKYO}},
            ),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "05 no index, one chunk each": (
        [
            calls(open_(None, "call_a", "get_weather", PARIS)),
            calls(open_(None, "call_b", "get_time", TOKYO)),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "06 all index zero, ids differ": (
        [
            calls(open_(0, "call_a", "get_weather", PARIS)),
            calls(open_(0, "call_b", "get_time", TOKYO[:5])),
            *in_turn((0, TOKYO[5:])),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "07 id and name on each delta": (
        [*repeated(0, "call_a", "get_weather", PARIS[:5], PARIS[5:9], PARIS[9:]), *END],
        ONE,
        "tool_use",
    ),
    "08 id on each delta, interleaved": (
        [
            *(calls(A), calls(B)),
            *repeated(0, "call_a", None, PARIS[:5]),
            *repeated(1, "call_b", None, TOKYO[:5]),
            *repeated(0, "call_a", None, PARIS[5:]),
            *repeated(1, "call_b", None, TOKYO[5:]),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "09 name after id": (
        [calls(call(0, "call_a")), calls(call(0, None, "get_weather")), *in_turn((0, PARIS)), *END],
        ONE,
        "tool_use",
    ),
    "10 text between calls": (
        [calls(A), *in_turn((0, PARIS)), content("and"), calls(B), *in_turn((1, TOKYO)), *END],
        [TWO[0], text("and"), TWO[1]],
        "tool_use",
    ),
    "11 text in the middle of arguments": (
        [calls(A), *in_turn((0, PARIS[:8])), content("one moment"), *in_turn((0, PARIS[8:])), *END],
        [TWO[0], text("one moment")],
        "tool_use",
    ),
    "12 reasoning, text, call": (
        [reasoning("hm"), content("ok"), calls(A), *in_turn((0, PARIS)), *END],
        [thinking("hm"), text("ok"), TWO[0]],
        "tool_use",
    ),
    "13 reasoning again after text": (
        [reasoning("hm"), content("ok"), reasoning("so"), content("yes"), STOPPED, USAGE, DONE],
        [thinking("hm"), text("ok"), thinking("so"), text("yes")],
        "end_turn",
    ),
    "14 text, call and finish in one chunk": (
        [
            chunk(
                {"content": "ok", "tool_calls": [open_(0, "call_a", "get_weather", PARIS)]},
                "tool_calls",
            ),
            *(USAGE, DONE),
        ],
        [text("ok"), TWO[0]],
        "tool_use",
    ),
    "15 last arguments in the chunk that finishes": (
        [
            calls(A),
            *in_turn((0, PARIS[:6])),
            calls(call(0, arguments=PARIS[6:]), finish="tool_calls"),
            USAGE,
            DONE,
        ],
        ONE,
        "tool_use",
    ),
    "16 finish stop with calls": (
        [calls(A), *in_turn((0, PARIS)), STOPPED, USAGE, DONE],
        ONE,
        "tool_use",
    ),
    "18 usage on every chunk": (
        [
            *(content(t, usage={**COUNTS, "completion_tokens": n}) for n, t in enumerate("abc")),
            chunk({"tool_calls": [A]}, usage={**COUNTS, "completion_tokens": 3}),
            chunk(
                {"tool_calls": [call(0, arguments=PARIS)]}, usage={**COUNTS, "completion_tokens": 5}
            ),
            chunk({}, "tool_calls", usage=COUNTS),
            DONE,
        ],
        [text("abc"), TWO[0]],
        "tool_use",
    ),
    "21 content filter": (
        [content("I"), chunk({}, "content_filter"), USAGE, DONE],
        [text("I")],
        "refusal",
    ),
    "22 refusal delta": (
        [chunk({"refusal": "I "}), chunk({"refusal": "won't"}), STOPPED, USAGE, DONE],
        [text("I won't")],
        "refusal",
    ),
    "23 azure's empty first chunk": (
        [
            frame({"id": "", "model": "", "choices": [], "prompt_filter_results": []}),
            content("hi"),
            STOPPED,
            USAGE,
            DONE,
        ],
        [text("hi")],
        "end_turn",
    ),
    "24 call without arguments, then another": (
        [
            calls(open_(0, "call_n", "now")),
            calls(open_(1, "call_b", "get_time")),
            *in_turn((1, TOKYO)),
            *END,
        ],
        [tool("call_n", "now", "{}"), TWO[1]],
        "tool_use",
    ),
    "25 empty completion": ([ROLE, STOPPED, USAGE, DONE], [], "end_turn"),
    "26 three calls, a character each in turn": (
        [
            calls(A),
            calls(B),
            calls(open_(2, "call_c", "get_time")),
            *round_robin(PARIS, TOKYO, "{}"),
            *END,
        ],
        [*TWO, tool("call_c", "get_time", "{}")],
        "tool_use",
    ),
    "27 indexes out of order": (
        [
            calls({**B, "index": 1}),
            *in_turn((1, TOKYO)),
            calls({**A, "index": 0}),
            *in_turn((0, PARIS)),
            *END,
        ],
        [TWO[1], TWO[0]],
        "tool_use",
    ),
    "28 arguments as an object": (
        [calls(call(0, "call_a", "get_weather", {"city": "Paris"})), *END],
        ONE,
        "tool_use",
    ),
    "29 length in the middle of arguments": (
        [calls(A), *in_turn((0, PARIS[:8])), chunk({}, "length"), USAGE, DONE],
        [tool("call_a", "get_weather", PARIS[:8])],
        "max_tokens",
    ),
    "30 every field null": (
        [
            chunk(dict.fromkeys(("role", "content", "tool_calls", "reasoning_content", "refusal"))),
            chunk({"content": "hi", "tool_calls": None, "function_call": None, "audio": None}),
            *(STOPPED, USAGE, DONE),
        ],
        [text("hi")],
        "end_turn",
    ),
    "31 index starts at one": (
        [
            calls({**A, "index": 1}),
            *in_turn((1, PARIS)),
            calls({**B, "index": 2}),
            *in_turn((2, TOKYO)),
            *END,
        ],
        TWO,
        "tool_use",
    ),
    "32 id first, then index with an empty name": (
        [
            calls(A),
            calls({"index": 0, "id": "", "function": {"name": "", "arguments": PARIS}}),
            *END,
        ],
        ONE,
        "tool_use",
    ),
    "two calls opened in the very first chunk": (
        [calls(A, B), *in_turn((0, PARIS), (1, TOKYO)), *END],
        TWO,
        "tool_use",
    ),
    "line separators raw within JSON": (
        [
            content("a\u2028b\x85c")
            .replace(b"\\u2028", b"\xe2\x80\xa8")
            .replace(b"\\u0085", b"\xc2\x85"),
            STOPPED,
            USAGE,
            DONE,
        ],
        [text("a\u2028b\x85c")],
        "end_turn",
    ),
    "empty object first, the real one later": (
        [calls(A), *in_turn((0, "{}"), (0, PARIS)), *END],
        ONE,
        "tool_use",
    ),
    "nothing, then an empty object": (
        [calls(open_(0, "call_n", "now")), *in_turn((0, ""), (0, "{}")), *END],
        [tool("call_n", "now", "{}")],
        "tool_use",
    ),
}


def run(stream: list[bytes], size: int | None) -> tuple[Read, Transcoder]:
    transcoder = Transcoder("openai_chat", "anthropic")
    pieces = stream if size is None else chunked(b"".join(stream), size)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    return read(b"".join(out + transcoder.close())), transcoder


@pytest.mark.parametrize("size", [None, 1, 7, 100_000], ids=["frames", "bytes", "sevens", "whole"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize(("stream", "blocks", "stop"), CLEAN.values(), ids=CLEAN)
def test_adversarial_stream_becomes_the_expected_message(
    stream: list[bytes], blocks: list[dict[str, str]], stop: str, newline: bytes, size: int | None
) -> None:
    got, transcoder = run([piece.replace(b"\n", newline) for piece in stream], size)
    assert got.content == blocks
    assert got.stop_reason == stop
    assert (got.usage["input_tokens"], got.usage["output_tokens"]) == (20, 7)
    assert isinstance(transcoder.outcome, Completed)
    assert transcoder.outcome.lenient == ()
    assert {loss.feature for loss in transcoder.losses} <= {"refusal"}


def test_17_no_usage_chunk() -> None:
    got, transcoder = run([content("hi"), STOPPED, DONE], None)
    assert (got.content, got.stop_reason) == ([text("hi")], "end_turn")
    assert [loss.feature for loss in transcoder.losses] == ["usage_unknown"] * 2


def test_19_cut_without_a_finish() -> None:
    for stream in (
        [content("hi")],
        [calls(A), *in_turn((0, PARIS))],
        [content("hi"), STOPPED[:-20]],
    ):
        got, transcoder = run(stream, None)
        assert got.stop_reason is None
        assert got.error is not None
        assert got.error["type"] == "api_error"
        assert isinstance(transcoder.outcome, Truncated)


def test_20_error_in_the_middle() -> None:
    error = frame({"error": {"message": "overloaded", "type": "overloaded_error"}})
    got, _ = run([content("hi"), calls(A), *in_turn((0, PARIS[:5])), error, DONE], None)
    assert got.error == {"type": "overloaded_error", "message": "overloaded"}
    assert got.stop_reason is None


def test_all_adversarial_streams_are_present() -> None:
    numbers = [name[:2] for name in CLEAN if name[:2].isdigit()]
    assert sorted([*numbers, "17", "19", "20"]) == [f"{n:02}" for n in range(1, 33)]
