"""Linear time and bounded memory, whatever the size of the chunks.

Time is measured in calls, Python's and C's, which do not depend on the machine; memory
by tracemalloc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from support.mutations import chunked
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning
from support.operation_counts import KIB, operations, peak

from streamnorm import Completed, Limits, Transcoder, decoder

END = chunk({}, "stop") + DONE

Stream = Callable[[int], Iterator[bytes]]


def texts(count: int) -> Iterator[bytes]:
    yield content("begin")
    for _ in range(count):
        yield content(" more")


def thoughts(count: int) -> Iterator[bytes]:
    yield reasoning("begin")
    for _ in range(count):
        yield reasoning(" more")


def turns(count: int) -> Iterator[bytes]:
    """Text and reasoning in turn, as long as blocks last."""
    for number in range(count):
        yield content("a") if number % 2 else reasoning("b")


def one_call(count: int) -> Iterator[bytes]:
    yield calls(call(0, "x", "f", '{"a":['))
    for _ in range(count):
        yield calls(call(0, arguments='"}",'))


def calls_in_turn(count: int) -> Iterator[bytes]:
    """Two calls whose arguments end in a closer each time, so that each is looked at."""
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


def odd_json(count: int) -> Iterator[bytes]:
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


STREAMS: list[Stream] = [
    *(texts, thoughts, turns, one_call, calls_in_turn, text_amid_arguments, white_space),
    *(behind_a_nameless_call, odd_json, nothing, usage, named_without_end),
]


def decode(stream: Iterator[bytes], size: int | None = None) -> None:
    reader = decoder("openai_chat", limits=Limits(max_blocks=10**9))
    for piece in [b"".join(stream)] if size else stream:
        for part in chunked(piece, size) if size else (piece,):
            reader.feed(part)
    reader.feed(END)
    assert isinstance(reader.outcome, Completed)


def transcode(stream: Iterator[bytes]) -> None:
    transcoder = Transcoder("openai_chat", "anthropic", limits=Limits(max_blocks=10**9))
    for piece in stream:
        transcoder.feed(piece)
    transcoder.feed(END)
    assert isinstance(transcoder.outcome, Completed)


@pytest.mark.parametrize("stream", STREAMS)
def test_decoding_takes_as_many_steps_for_each_chunk(stream: Stream) -> None:
    few, many = (operations(partial(decode, stream(count))) for count in (100, 400))
    assert many < 4.2 * few


@pytest.mark.parametrize("stream", STREAMS)
def test_transcoding_takes_as_many_steps_for_each_chunk(stream: Stream) -> None:
    few, many = (operations(partial(transcode, stream(count))) for count in (100, 400))
    assert many < 4.2 * few


@pytest.mark.parametrize("stream", STREAMS)
def test_steps_do_not_depend_on_the_size_of_chunks_but_for_feeding_them(stream: Stream) -> None:
    body = b"".join(stream(100))
    whole, small = (operations(partial(decode, stream(100), size)) for size in (len(body), 16))
    # Each feed of sixteen bytes costs some calls of its own, and no more.
    assert small < 3 * whole + 40 * (len(body) / 16)


def large_event(size: int) -> bytes:
    return content("x" * size)


@pytest.mark.parametrize("chunk_size", [64, 64 * KIB])
def test_one_large_event_takes_steps_by_its_chunks(chunk_size: int) -> None:
    def work(size: int) -> None:
        decode(iter([large_event(size)]), chunk_size)

    few, many = (operations(partial(work, size)) for size in (256 * KIB, 1024 * KIB))
    assert many < 4.2 * few


@pytest.mark.parametrize("chunk_size", [64, 64 * KIB])
def test_one_large_event_takes_memory_by_its_size(chunk_size: int) -> None:
    size = 1024 * KIB

    def work() -> None:
        reader = decoder("openai_chat")
        body = large_event(size)
        for start in range(0, len(body), chunk_size):
            reader.feed(body[start : start + chunk_size])

    # Ours to make: the body, the line, its bytes, its text, the delta.
    assert peak(work) < 8 * size


ENDLESS: list[Stream] = [texts, thoughts, turns, nothing, odd_json, usage, named_without_end]


@pytest.mark.parametrize("stream", ENDLESS)
def test_decoding_holds_no_more_of_a_longer_stream(stream: Stream) -> None:
    few, many = (peak(partial(decode, stream(count))) for count in (400, 1600))
    assert many < few + 16 * KIB


@pytest.mark.parametrize("stream", [nothing, usage, named_without_end])
def test_transcoding_holds_no_more_of_a_longer_stream_that_says_no_more(stream: Stream) -> None:
    few, many = (peak(partial(transcode, stream(count))) for count in (400, 1600))
    assert many < few + 64 * KIB


@pytest.mark.parametrize("stream", [texts, thoughts, one_call, calls_in_turn, white_space])
def test_transcoding_holds_the_message_and_little_more(stream: Stream) -> None:
    few, many = (peak(partial(transcode, stream(count))) for count in (400, 1600))
    said = 1200 * 12  # bytes that the longer one says more, at the most
    assert many < few + 6 * said


def test_comment_without_end_is_not_held() -> None:
    def work() -> None:
        reader = decoder("openai_chat")
        for _ in range(200):
            reader.feed(b":" + b"x" * 10 * KIB)

    assert peak(work) < 100 * KIB


def test_line_without_end_is_held_up_to_the_bound() -> None:
    def work() -> None:
        reader = decoder("openai_chat", limits=Limits(max_event_bytes=100 * KIB))
        events = [event for _ in range(200) for event in reader.feed(b"data" * 1024)]
        assert [event.kind for event in events] == ["too_large"]

    assert peak(work) < 400 * KIB
