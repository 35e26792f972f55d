"""Linear time and bounded memory in every dialect and direction, whatever the chunks.

Time is measured in calls, Python's and C's, which do not depend on the machine; memory
by tracemalloc.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support.openai_chat.chunks import DONE, chunk, content
from support.operation_counts import KIB, operations, peak
from support.streams.content import DIALECTS
from support.streams.growing import GROWING_STREAMS, growing_stream
from support.streams.mutations import chunked

from streamnorm import Completed, Failed, Limits, Transcoder
from streamnorm.codec import decoder

NO_LIMITS = Limits(max_blocks=10**9, max_tool_calls=10**9)

each_stream = pytest.mark.parametrize(("source", "name"), GROWING_STREAMS)


def decode(source: str, chunks: list[bytes]) -> None:
    reader = decoder(source, limits=NO_LIMITS)
    for data in chunks:
        reader.feed(data)
    reader.close()
    assert isinstance(reader.outcome, Completed)


def transcode(source: str, target: str, chunks: list[bytes], **options: Any) -> None:
    run = Transcoder(source, target, limits=NO_LIMITS, **options)
    for data in chunks:
        run.feed(data)
    run.close()
    # Where arguments are no object, Gemini's answer fails with its last event.
    broken = isinstance(run.outcome, Failed) and run.outcome.error.code == "MALFORMED_FUNCTION_CALL"
    assert isinstance(run.outcome, Completed) or (target == "gemini" and broken)


@each_stream
def test_decoding_takes_as_many_steps_for_each_chunk(source: str, name: str) -> None:
    few, many = (
        operations(partial(decode, source, growing_stream(source, name, count)))
        for count in (100, 400)
    )
    assert many < 4.2 * few


@each_stream
def test_steps_do_not_depend_on_the_size_of_chunks_but_for_feeding_them(
    source: str, name: str
) -> None:
    body = b"".join(growing_stream(source, name, 100))
    whole, small = (
        operations(partial(decode, source, chunked(body, size))) for size in (len(body), 16)
    )
    # Each feed of sixteen bytes costs some calls of its own, and no more.
    assert small < 3 * whole + 40 * (len(body) / 16)


@pytest.mark.parametrize(
    ("target", "options"),
    [
        *((target, {"verbatim": False}) for target in DIALECTS),
        ("openai_chat", {"verbatim": False, "reasoning": "reasoning_details"}),
    ],
)
@each_stream
def test_transcoding_takes_as_many_steps_for_each_chunk(
    source: str, name: str, target: str, options: dict[str, Any]
) -> None:
    few, many = (
        operations(
            partial(transcode, source, target, growing_stream(source, name, count), **options)
        )
        for count in (30, 120)
    )
    assert many < 4.2 * few


@each_stream
def test_untouched_stream_takes_as_many_steps_for_each_chunk(source: str, name: str) -> None:
    few, many = (
        operations(partial(transcode, source, source, growing_stream(source, name, count)))
        for count in (30, 120)
    )
    assert many < 4.2 * few


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("openai_chat", "texts thoughts turns nothing half_characters named_without_end usage"),
        ("anthropic", "texts thoughts turns nothing half_characters named_without_end usage"),
        ("openai_responses", "nothing named_without_end"),
        ("gemini", "turns half_characters nothing usage"),
    ],
)
def test_decoding_holds_no_more_of_a_longer_stream(source: str, names: str) -> None:
    for name in names.split():
        few, many = (
            peak(partial(decode, source, growing_stream(source, name, count)))
            for count in (400, 1600)
        )
        assert many < few + 16 * KIB, name


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("openai_chat", "anthropic", "nothing"),
        ("openai_chat", "anthropic", "usage"),
    ],
)
def test_transcoding_holds_no_more_of_a_longer_stream_with_the_same_message(
    source: str, target: str, name: str
) -> None:
    few, many = (
        peak(partial(transcode, source, target, growing_stream(source, name, count)))
        for count in (400, 1600)
    )
    assert many < few + 64 * KIB


@pytest.mark.parametrize(
    ("source", "target"),
    [("openai_chat", "anthropic"), ("openai_chat", "openai_chat"), ("anthropic", "anthropic")],
)
def test_transcoding_holds_no_opaque_event_where_no_message_is_kept(
    source: str, target: str
) -> None:
    few, many = (
        peak(
            partial(
                transcode,
                source,
                target,
                growing_stream(source, "named_without_end", count),
                keep_message=False,
            )
        )
        for count in (400, 1600)
    )
    assert many < few + 64 * KIB


@pytest.mark.parametrize(
    ("source", "target", "name", "copies"),
    [
        ("openai_chat", "anthropic", "texts", 6),
        ("openai_chat", "anthropic", "thoughts", 6),
        ("openai_chat", "anthropic", "one_call", 6),
        ("openai_chat", "anthropic", "calls_in_turn", 6),
        ("openai_chat", "anthropic", "white_space", 6),
        # Of calls, the decoder holds the text as well.
        ("anthropic", "openai_chat", "texts", 8),
        ("anthropic", "openai_chat", "thoughts", 8),
        ("anthropic", "openai_chat", "one_call", 8),
        ("anthropic", "openai_chat", "calls_in_turn", 8),
        ("anthropic", "openai_chat", "text_after_a_text", 8),
        # Decoder, accumulator and encoder hold the text, and the last event repeats it, escaped.
        *(("openai_responses", target, "texts", 14) for target in DIALECTS),
        *(("openai_responses", target, "calls_in_turn", 14) for target in DIALECTS),
        *(("gemini", target, "texts", 14) for target in DIALECTS),
        *(("openai_chat", target, "texts", 14) for target in DIALECTS),
    ],
)
def test_transcoding_holds_the_message_and_little_more(
    source: str, target: str, name: str, copies: int
) -> None:
    few, many = (
        peak(
            partial(transcode, source, target, growing_stream(source, name, count), verbatim=False)
        )
        for count in (400, 1600)
    )
    longest_delta = 12
    assert many < few + copies * 1200 * longest_delta


# Bytes without end


def large_event(size: int) -> list[bytes]:
    return [content("x" * size), chunk({}, "stop"), DONE]


@pytest.mark.parametrize("chunk_size", [64, 64 * KIB])
def test_one_large_event_takes_steps_by_its_chunks(chunk_size: int) -> None:
    few, many = (
        operations(partial(decode, "openai_chat", chunked(b"".join(large_event(size)), chunk_size)))
        for size in (256 * KIB, 1024 * KIB)
    )
    assert many < 4.2 * few


@pytest.mark.parametrize("chunk_size", [64, 64 * KIB])
def test_one_large_event_takes_memory_by_its_size(chunk_size: int) -> None:
    size = 1024 * KIB

    def work() -> None:
        reader = decoder("openai_chat")
        body = content("x" * size)
        for start in range(0, len(body), chunk_size):
            reader.feed(body[start : start + chunk_size])

    # Ours to make: the body, the line, its bytes, its text, the delta.
    assert peak(work) < 8 * size


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
