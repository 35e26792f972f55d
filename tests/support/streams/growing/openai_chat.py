"""Streams of Chat Completions of any length."""

from __future__ import annotations

from collections.abc import Iterator

from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning

__all__ = ["END", "START", "STREAMS"]

START = b""
END = chunk({}, "stop") + DONE


def texts(count: int) -> Iterator[bytes]:
    yield content("begin")
    for _ in range(count):
        yield content(" more")


def thoughts(count: int) -> Iterator[bytes]:
    yield reasoning("begin")
    for _ in range(count):
        yield reasoning(" more")


def turns(count: int) -> Iterator[bytes]:
    """Yield text and reasoning in turn."""
    for number in range(count):
        yield content("a") if number % 2 else reasoning("b")


def one_call(count: int) -> Iterator[bytes]:
    yield calls(call(0, "x", "f", '{"a":['))
    for _ in range(count):
        yield calls(call(0, arguments='"}",'))


def calls_in_turn(count: int) -> Iterator[bytes]:
    """Yield fragments of two calls in turn, each ending in a closing bracket."""
    yield calls(call(0, "x", "f", "["), call(1, "y", "g", "["))
    for number in range(count):
        yield calls(call(number % 2, arguments='{"a":"}"},'))


def text_amid_arguments(count: int) -> Iterator[bytes]:
    yield calls(call(0, "x", "f", "["))
    for number in range(count):
        yield content("a") if number % 2 else calls(call(0, arguments="[],"))


def white_space(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield content(" ")


def behind_a_nameless_call(count: int) -> Iterator[bytes]:
    yield calls(call(0, "x"))
    for _ in range(count):
        yield content("a")
    yield calls(call(0, None, "f"))


def half_characters(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield content("a\ud83d")
        yield content("\ude00")


def nothing(count: int) -> Iterator[bytes]:
    yield content("a")
    for number in range(count):
        yield (b": ping\n\n", b"\n", b"data:\n\n", content(""), b"x: y\n\n")[number % 5]


def usage(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield content("a", usage={"prompt_tokens": 5, "completion_tokens": number, "cost": number})


def named_without_end(count: int) -> Iterator[bytes]:
    yield content("a")
    for number in range(count):
        yield frame({"n": number}, f"vendor{number}")


STREAMS = (
    *(texts, thoughts, turns, one_call, calls_in_turn, text_amid_arguments, white_space),
    *(behind_a_nameless_call, half_characters, nothing, usage, named_without_end),
)
