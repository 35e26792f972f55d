"""Streams of Anthropic of any length."""

from __future__ import annotations

from collections.abc import Iterator

from support.anthropic.frames import STOP, block, delta, end, event, start, stop

__all__ = ["END", "START", "STREAMS"]

START = start()
END = end() + STOP


def texts(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="")
    for _ in range(count):
        yield delta(0, "text_delta", text=" more")


def thoughts(count: int) -> Iterator[bytes]:
    yield block(0, "thinking", thinking="")
    for _ in range(count):
        yield delta(0, "thinking_delta", thinking=" more")


def turns(count: int) -> Iterator[bytes]:
    """Yield text and thinking blocks in turn."""
    for number in range(count):
        kind, field = ("text", "text") if number % 2 else ("thinking", "thinking")
        yield block(None, kind, **{field: "a"}) + stop(None)


def one_call(count: int) -> Iterator[bytes]:
    yield block(0, "tool_use", id="c", name="f", input={})
    yield delta(0, "input_json_delta", partial_json='{"a":[')
    for _ in range(count):
        yield delta(0, "input_json_delta", partial_json='"}",')
    yield delta(0, "input_json_delta", partial_json="1]}")


def calls_in_turn(count: int) -> Iterator[bytes]:
    for index in range(2):
        yield block(index, "tool_use", id=f"c{index}", name="f", input={})
    for number in range(count):
        yield delta(number % 2, "input_json_delta", partial_json='[1],"}",')


def text_after_a_text(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="a") + block(1, "text", text="")
    for _ in range(count):
        yield delta(1, "text_delta", text="b")


def white_space(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="")
    for _ in range(count):
        yield delta(0, "text_delta", text=" ")


def signatures(count: int) -> Iterator[bytes]:
    yield block(0, "thinking", thinking="")
    for number in range(count):
        yield delta(0, "signature_delta", signature=f"s{number}")


def misplaced_deltas(count: int) -> Iterator[bytes]:
    yield block(0, "tool_use", id="c", name="f", input={})
    for _ in range(count):
        yield delta(0, "text_delta", text="a")


def half_characters(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="")
    for _ in range(count):
        yield delta(0, "text_delta", text="a\ud83d")
        yield delta(0, "text_delta", text="\ude00")


def nothing(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="a")
    for number in range(count):
        yield (event("ping"), b": hi\n\n", delta(0, "text_delta", text=""), stop(9))[number % 4]


def named_without_end(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield event(f"vendor{number}", n=number)


def usage(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield end("end_turn", usage={"output_tokens": number, "x": number})


STREAMS = (
    *(texts, thoughts, turns, one_call, calls_in_turn, text_after_a_text, white_space),
    *(signatures, misplaced_deltas, half_characters, nothing, named_without_end, usage),
)
