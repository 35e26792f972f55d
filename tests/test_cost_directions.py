"""Linear time and bounded memory where Anthropic is read, Chat is written, or nothing changes.

As test_cost does for what came first, and with its measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import test_cost
from support.anthropic.frames import STOP, block, delta, end, event, start, stop
from support.mutations import chunked
from support.operation_counts import KIB, operations, peak

from streamnorm import Completed, Limits, Transcoder, decoder

Stream = Callable[[int], Iterator[bytes]]

NO_LIMITS = Limits(max_blocks=10**9, max_tool_calls=10**9)


def texts(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="")
    for _ in range(count):
        yield delta(0, "text_delta", text=" more")


def thoughts(count: int) -> Iterator[bytes]:
    yield block(0, "thinking", thinking="")
    for _ in range(count):
        yield delta(0, "thinking_delta", thinking=" more")


def turns(count: int) -> Iterator[bytes]:
    """Text and thinking in turn, as long as blocks last."""
    for number in range(count):
        kind, field = ("text", "text") if number % 2 else ("thinking", "thinking")
        yield block(number % 4, kind, **{field: "a"}) + stop(number % 4)


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


def text_behind_a_text(count: int) -> Iterator[bytes]:
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


def astray(count: int) -> Iterator[bytes]:
    yield block(0, "text", text="")
    for number in range(count):
        yield delta(number + 5, "text_delta", text="a")


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


STREAMS: list[Stream] = [
    *(texts, thoughts, turns, one_call, calls_in_turn, text_behind_a_text, white_space),
    *(signatures, astray, half_characters, nothing, named_without_end, usage),
]

CHAT = test_cost.STREAMS

WAYS: dict[str, tuple[str, str, dict[str, Any], list[Stream]]] = {
    "anthropic to chat": ("anthropic", "openai_chat", {}, STREAMS),
    "anthropic to details": (
        *("anthropic", "openai_chat", {"reasoning": "reasoning_details"}, [thoughts, signatures]),
    ),
    "anthropic anew": ("anthropic", "anthropic", {"verbatim": False}, STREAMS[:6]),
    "anthropic untouched": ("anthropic", "anthropic", {}, STREAMS),
    "chat anew": ("openai_chat", "openai_chat", {"verbatim": False}, CHAT),
    "chat untouched": ("openai_chat", "openai_chat", {}, CHAT),
}
CASES = [
    pytest.param(source, target, options, stream, id=f"{name}, {stream.__name__}")
    for name, (source, target, options, streams) in WAYS.items()
    for stream in streams
]

each_stream = pytest.mark.parametrize("stream", STREAMS)
each_case = pytest.mark.parametrize(("source", "target", "options", "stream"), CASES)


def around(source: str, stream: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a stream with its start and its end."""
    if source == "anthropic":
        yield start()
    yield from stream
    yield end() + STOP if source == "anthropic" else test_cost.END


def decode(stream: Iterator[bytes], size: int | None = None) -> None:
    reader = decoder("anthropic", limits=NO_LIMITS)
    for piece in [b"".join(stream)] if size else stream:
        for part in chunked(piece, size) if size else (piece,):
            reader.feed(part)
    assert isinstance(reader.outcome, Completed)


def transcode(source: str, target: str, options: dict[str, Any], stream: Iterator[bytes]) -> None:
    transcoder = Transcoder(source, target, limits=NO_LIMITS, **options)
    for piece in stream:
        transcoder.feed(piece)
    assert isinstance(transcoder.outcome, Completed)


@each_stream
def test_decoding_takes_as_many_steps_for_each_chunk(stream: Stream) -> None:
    few, many = (
        operations(partial(decode, around("anthropic", stream(count)))) for count in (100, 400)
    )
    assert many < 4.2 * few


@each_case
def test_transcoding_takes_as_many_steps_for_each_chunk(
    source: str, target: str, options: dict[str, Any], stream: Stream
) -> None:
    few, many = (
        operations(partial(transcode, source, target, options, around(source, stream(count))))
        for count in (100, 400)
    )
    assert many < 4.2 * few


@each_stream
def test_steps_do_not_depend_on_the_size_of_chunks_but_for_feeding_them(stream: Stream) -> None:
    body = b"".join(around("anthropic", stream(100)))
    whole, small = (operations(partial(decode, iter([body]), size)) for size in (len(body), 16))
    assert small < 3 * whole + 40 * (len(body) / 16)


@pytest.mark.parametrize(
    "stream", [texts, thoughts, turns, nothing, half_characters, named_without_end, usage]
)
def test_decoding_holds_no_more_of_a_longer_stream(stream: Stream) -> None:
    few, many = (peak(partial(decode, around("anthropic", stream(count)))) for count in (400, 1600))
    assert many < few + 16 * KIB


@pytest.mark.parametrize("source", ["anthropic", "openai_chat"])
def test_untouched_stream_is_held_no_longer_than_its_message(source: str) -> None:
    streams = {"anthropic": named_without_end, "openai_chat": test_cost.named_without_end}
    few, many = (
        peak(partial(transcode, source, source, {}, around(source, streams[source](count))))
        for count in (400, 1600)
    )
    assert many < few + 64 * KIB


@pytest.mark.parametrize("stream", [texts, thoughts, one_call, calls_in_turn, text_behind_a_text])
def test_transcoding_holds_the_message_and_little_more(stream: Stream) -> None:
    few, many = (
        peak(partial(transcode, "anthropic", "openai_chat", {}, around("anthropic", stream(count))))
        for count in (400, 1600)
    )
    said = 1200 * 12  # bytes that the longer one says more, at the most
    assert many < few + 8 * said  # which the decoder holds too, of calls
