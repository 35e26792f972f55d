"""Every bound of `Limits` that decoding and transcoding enforce, at n-1, n and n+1.

Each row makes a stream of a given size; the bound is `BOUND`, or stands in the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.bodies.json_texts import nested
from support.openai_chat.chunks import (
    DONE,
    Decoded,
    call,
    calls,
    chunk,
    content,
    decode,
    frame,
    reasoning,
)

from streamnorm import Completed, Failed, Limits, StreamError, Transcoder
from streamnorm.codec import decoder

BOUND = 40


def text_of(*frames: bytes) -> list[bytes]:
    return [*frames, content("hi", "stop"), DONE]


def event_bytes(size: int) -> list[bytes]:
    event = chunk({}, padding="x" * (size - len(chunk({}, padding="")) + 1))
    assert event.index(b"\n\n") + 1 == size
    return text_of(event)


def event_bytes_over_lines(size: int) -> list[bytes]:
    lines = [
        b": counted",
        b"event: message",
        b"data: {",
        b"data:" + b" " * (size - 52),
        b'data: "a":1}',
    ]
    body = b"\n".join(lines) + b"\n\n"
    assert len(body) - 1 == size
    return text_of(content("a"), body)


def blocks(count: int) -> list[bytes]:
    return [*(content("a") if n % 2 else reasoning("b") for n in range(count)), *text_of()[1:]]


def tool_calls(count: int) -> list[bytes]:
    return [*(calls(call(n, f"c{n}", "f", "[1]")) for n in range(count)), chunk({}, "stop"), DONE]


def tool_calls_of_two_choices(count: int) -> list[bytes]:
    pieces = [calls(call(n, f"c{n}", "f", "[1]"), choice=n % 2) for n in range(count)]
    return [*pieces, chunk({}, "stop"), chunk({}, "stop", 1), DONE]


def choices(count: int) -> list[bytes]:
    return [*(content("a", "stop", n) for n in range(count)), DONE]


def held_text(size: int) -> list[bytes]:
    waiting = [calls(call(0, "c0")), content("é" * (size // 2 - 1)), content("x" * (size % 2 + 2))]
    return [*waiting, calls(call(0, name="f")), chunk({}, "stop"), DONE]


def held_arguments(size: int) -> list[bytes]:
    pieces = [call(0, "c0", arguments="[" + "1" * 9), call(0, arguments="1" * (size - 11) + "]")]
    return [*map(calls, pieces), calls(call(0, name="f")), chunk({}, "stop"), DONE]


def held_signatures(size: int) -> list[bytes]:
    signed = {"google": {"thought_signature": "s" * (size - 3)}}
    again = {"google": {"thought_signature": "sss"}}
    pieces = [call(0, "c0", extra_content=signed), call(0, extra_content=again)]
    return [*map(calls, pieces), calls(call(0, name="f")), chunk({}, "stop"), DONE]


def held_reasoning(size: int) -> list[bytes]:
    detail = {"type": "reasoning.encrypted", "data": "x" * size}
    waiting = [calls(call(0, "c0")), chunk({"reasoning_details": [detail]})]
    return [*waiting, calls(call(0, name="f")), chunk({}, "stop"), DONE]


def kept_fields(size: int) -> list[bytes]:
    # Each chunk without choices may bring fields that nobody has seen.  A name of one byte and a
    # number are 51, a name and a string 51 more than its text.
    fields = [{"a": 1}, {"b": "replaced"}, {"b": "x" * (size - 102)}]
    return text_of(*[frame({"choices": [], **each}) for each in fields])


def arguments_in_pieces(size: int) -> list[bytes]:
    """Return a call, whose last deltas the delta run reads."""
    pieces = ['["', "é", *"abcdefgh", "x" * (size - 12)]
    return text_of(calls(call(0, "c", "f")), *[calls(call(0, arguments=p)) for p in pieces])


def arguments_that_drift(count: int) -> list[bytes]:
    """Return a call whose index changes with each fragment; both count 200."""
    drifts = [calls(call(number, arguments="1,")) for number in range(1, count + 1)]
    return text_of(calls(call(0, "c", "f", "[")), *drifts)


DECODED: dict[str, tuple[str, int, Callable[[int], list[bytes]]]] = {
    "an event": ("max_event_bytes", 200, event_bytes),
    "an event of several lines": ("max_event_bytes", 200, event_bytes_over_lines),
    "depth of an unknown field": (
        "max_json_depth",
        12,
        lambda n: text_of(chunk({}, x=nested(n - 1))),
    ),
    "depth of usage": (
        "max_json_depth",
        12,
        lambda n: text_of(content("a"), chunk({}, usage=nested(n))),
    ),
    "depth of logprobs": (
        "max_json_depth",
        12,
        lambda n: text_of(content("a"), with_choice(logprobs=nested(n))),
    ),
    "depth of citations": (
        "max_json_depth",
        12,
        lambda n: text_of(content("a"), chunk({}, citations=nested(n))),
    ),
    "depth of an annotation": (
        "max_json_depth",
        12,
        lambda n: text_of(
            content("a"), chunk({"annotations": [{"type": "x", "y": nested(n - 1)}]})
        ),
    ),
    "depth of a content part": (
        "max_json_depth",
        12,
        lambda n: text_of(content("a"), chunk({"content": [{"type": "x", "y": nested(n - 1)}]})),
    ),
    "depth of an argument object": (
        "max_json_depth",
        12,
        lambda n: text_of(content("a"), calls(call(0, "c", "f", nested(n)))),
    ),
    "depth of odd json": (
        "max_json_depth",
        12,
        lambda n: text_of(content("a"), chunk({}, x=nested(n - 1), y=float("nan"))),
    ),
    "blocks": ("max_blocks", BOUND, blocks),
    "tool calls": ("max_tool_calls", BOUND, tool_calls),
    "tool calls of two choices": ("max_tool_calls", BOUND, tool_calls_of_two_choices),
    "choices": ("max_choices", BOUND, choices),
    "message id": ("max_id_chars", BOUND, lambda n: text_of(chunk({}, id="é" * n))),
    "model": ("max_id_chars", BOUND, lambda n: text_of(chunk({}, model="é" * n))),
    "tool id": ("max_id_chars", BOUND, lambda n: text_of(calls(call(0, "é" * n, "f")))),
    "tool name": ("max_id_chars", BOUND, lambda n: text_of(calls(call(0, "c", "é" * n)))),
    "tool name in pieces": (
        "max_id_chars",
        BOUND,
        lambda n: text_of(calls(call(0, "c", "x" * (n - 9))), calls(call(0, name="é" * 9))),
    ),
    "text behind a nameless call": ("max_held_bytes", BOUND, held_text),
    "arguments of a nameless call": ("max_held_bytes", BOUND, held_arguments),
    "signatures of a nameless call": ("max_held_bytes", BOUND, held_signatures),
    "reasoning behind a nameless call": ("max_held_bytes", BOUND, held_reasoning),
    "unknown fields": ("max_accumulated_bytes", 200, kept_fields),
    "arguments": ("max_accumulated_bytes", 200, arguments_in_pieces),
    "arguments behind a placeholder": (
        "max_accumulated_bytes",
        200,
        lambda n: text_of(calls(call(0, "c", "f", "{}")), calls(call(0, arguments="{" * (n - 2)))),
    ),
    "indexes of a call that drift": (
        "max_accumulated_bytes",
        900,
        lambda n: arguments_that_drift(5 if n > 900 else 4),
    ),
}


def with_choice(**fields: Any) -> bytes:
    """Return a chunk whose choice has more fields."""
    return frame({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": {}, **fields}]})


def read(limit: str, bound: int, frames: list[bytes]) -> Decoded:
    return decode(*frames, limits=Limits(**{limit: bound}))


@pytest.mark.parametrize(("limit", "bound", "make"), DECODED.values(), ids=DECODED)
def test_decoder_completes_up_to_the_bound(
    limit: str, bound: int, make: Callable[[int], list[bytes]]
) -> None:
    for size in (bound - 1, bound):
        assert isinstance(read(limit, bound, make(size)).outcome, Completed)


@pytest.mark.parametrize(("limit", "bound", "make"), DECODED.values(), ids=DECODED)
def test_decoder_fails_beyond_the_bound(
    limit: str, bound: int, make: Callable[[int], list[bytes]]
) -> None:
    events, outcome, _ = read(limit, bound, make(bound + 1))
    error = StreamError("too_large", f"{limit} of {bound} passed", code=limit)
    assert events[-1] == error
    assert outcome == Failed(error)


def test_tool_id_and_name_are_bounded_separately() -> None:
    both = calls(call(0, "i" * BOUND, "n" * BOUND))
    assert isinstance(read("max_id_chars", BOUND, text_of(both)).outcome, Completed)


@pytest.mark.parametrize("size", [BOUND - 1, BOUND])
def test_error_body_is_read_up_to_its_bound(size: int) -> None:
    body = b'{"error":"' + b"x" * (size - 12) + b'"}'
    assert decode(body, limits=Limits(max_error_body_bytes=BOUND)).events == [
        StreamError("upstream", "x" * (size - 12))
    ]


def test_error_body_beyond_its_bound_fails_at_once() -> None:
    reader = decoder("openai_chat", limits=Limits(max_error_body_bytes=BOUND))
    assert reader.feed(b'{"error":"' + b"x" * (BOUND - 10)) == []
    (error,) = reader.feed(b"x")
    assert isinstance(error, StreamError)
    assert (error.kind, error.code) == ("malformed", "not_a_stream")


def transcode(frames: list[bytes], **limits: int) -> list[tuple[bytes, Transcoder]]:
    """Transcode whole, by frames and by bytes."""
    runs = []
    body = b"".join(frames)
    for pieces in ([body], frames, [body[i : i + 1] for i in range(len(body))]):
        transcoder = Transcoder("openai_chat", "anthropic", limits=Limits(**limits))
        out = [data for piece in pieces for data in transcoder.feed(piece)]
        runs.append((b"".join(out + transcoder.close()), transcoder))
    return runs


def two_calls(size: int) -> list[bytes]:
    """Return a stream in which `size` bytes wait behind the first call."""
    waiting = size - len('{"type":"tool_call","id":"b","name":"g"}') - len('["é","')
    return [
        *(
            calls(call(0, "a", "f", "[")),
            calls(call(1, "b", "g", '["é')),
            calls(call(1, arguments='"')),
        ),
        *(calls(call(1, arguments=',"' + "x" * (waiting - 1))), calls(call(0, arguments="1]"))),
        *(calls(call(1, arguments='"]')), chunk({}, "tool_calls"), DONE),
    ]


def some_text(size: int) -> list[bytes]:
    """Return a stream whose message has `size` bytes."""
    return [content("é"), content("x" * (size - 17)), chunk({}, "stop"), DONE]


TRANSCODED: dict[str, tuple[str, int, Callable[[int], list[bytes]]]] = {
    "what waits for its turn": ("max_held_bytes", 60, two_calls),
    "the message": ("max_accumulated_bytes", 60, some_text),
}


@pytest.mark.parametrize(("limit", "bound", "make"), TRANSCODED.values(), ids=TRANSCODED)
def test_transcoder_completes_up_to_the_bound(
    limit: str, bound: int, make: Callable[[int], list[bytes]]
) -> None:
    for size in (bound - 1, bound):
        for out, transcoder in transcode(make(size), **{limit: bound}):
            assert isinstance(transcoder.outcome, Completed)
            assert b"message_stop" in out


@pytest.mark.parametrize(("limit", "bound", "make"), TRANSCODED.values(), ids=TRANSCODED)
def test_transcoder_fails_beyond_the_bound_with_one_error_and_no_stop(
    limit: str, bound: int, make: Callable[[int], list[bytes]]
) -> None:
    outs = set()
    for out, transcoder in transcode(make(bound + 1), **{limit: bound}):
        outs.add(out)
        assert isinstance(transcoder.outcome, Failed)
        assert transcoder.outcome.error.code == limit
        assert out.count(b"event: error\n") == 1
        assert b"message_stop" not in out
        assert out.rindex(b"event: ") == out.index(b"event: error\n")
    assert len(outs) == 1


def test_defaults_are_those_of_the_design() -> None:
    assert Limits() == Limits(
        max_event_bytes=128 * 1024 * 1024,
        max_json_depth=128,
        max_json_values=4_000_000,
        max_blocks=4096,
        max_tool_calls=1024,
        max_choices=128,
        max_id_chars=512,
        max_held_bytes=64 * 1024 * 1024,
        max_accumulated_bytes=256 * 1024 * 1024,
        max_error_body_bytes=64 * 1024,
        max_recording_bytes=1024 * 1024 * 1024,
        max_companion_bytes=256 * 1024 * 1024,
    )


def test_table_holds_every_bound() -> None:
    bounds = {limit for limit, _, _ in [*DECODED.values(), *TRANSCODED.values()]}
    elsewhere = {"max_error_body_bytes", "max_recording_bytes", "max_companion_bytes"}
    elsewhere.add("max_json_values")  # of bodies
    assert bounds | elsewhere == set(Limits.__struct_fields__)
