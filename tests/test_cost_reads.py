"""The cost of reads: their size, floods of empty frames, and many blocks.

Time is measured in lines and calls of Python, which do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support.anthropic import frames as anthropic
from support.gemini import frames as gemini
from support.openai_chat import chunks as chat
from support.openai_responses import frames as responses
from support.operation_counts import KIB, lines, operations, peak
from support.streams.chunkings import CHUNKINGS
from support.streams.content import DIALECTS
from support.streams.delta_streams import delta_stream
from support.streams.mutations import chunked

from streamnorm import Completed, Limits, Transcoder
from streamnorm._core.codec import kernel
from streamnorm.codec import decoder
from streamnorm.sse import SSEDecoder

pytestmark = pytest.mark.slow

NO_LIMITS = Limits(
    max_blocks=10**9, max_tool_calls=10**9, max_held_bytes=10**12, max_accumulated_bytes=10**12
)
COMMON = [
    *("anthropic text", "anthropic call", "anthropic thinking"),
    *("chat text", "chat reasoning", "chat calls, interleaved"),
    *("responses text", "responses calls, interleaved", "gemini text", "gemini text, LF"),
    *("interactions text", "interactions thought", "interactions call"),
]
"""The streams whose deltas are what servers send nearly always."""


@pytest.fixture(autouse=True)
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the steps of the twins: those of the kernel in C are none of Python's."""
    monkeypatch.setattr(kernel, "TemplateReader", None)
    monkeypatch.setattr(kernel, "DeltaFrames", None)


each_stream = pytest.mark.parametrize("name", COMMON)
each_target = pytest.mark.parametrize("target", [None, "verbatim", "openai_chat", "anthropic"])


def read(chunks: list[bytes], source: str, target: str | None, **options: Any) -> None:
    """Read a stream to its events, to its own bytes or to those of another dialect."""
    run: Any
    if target is None:
        run = decoder(source, limits=NO_LIMITS, **options)
    elif target == "verbatim":
        run = Transcoder(source, source, limits=NO_LIMITS, **options)
    else:
        run = Transcoder(source, target, limits=NO_LIMITS, verbatim=False, **options)
    for data in chunks:
        run.feed(data)
    run.close()
    assert isinstance(run.outcome, Completed)


# The size of reads


@each_target
@each_stream
def test_events_take_as_many_steps_however_many_a_read_holds(name: str, target: str | None) -> None:
    stream = delta_stream(name, 100)
    costs = {
        reads: operations(
            partial(read, CHUNKINGS[reads](stream.events), stream.dialect, target, **stream.options)
        )
        for reads in ("one event", "two events", "1400 bytes", "whole")
    }
    assert max(costs.values()) < 1.6 * costs["one event"], costs


@each_target
@each_stream
def test_events_cut_in_two_take_at_most_four_times_as_many_steps(
    name: str, target: str | None
) -> None:
    stream = delta_stream(name, 100)
    one, halves = (
        operations(
            partial(read, CHUNKINGS[reads](stream.events), stream.dialect, target, **stream.options)
        )
        for reads in ("one event", "halves of events")
    )
    assert halves < 4 * one


@each_target
@each_stream
def test_small_reads_take_as_many_steps_for_each_byte(name: str, target: str | None) -> None:
    few, many = (
        operations(partial(read, CHUNKINGS["64 bytes"](delta_stream(name, count).events), *args))
        for count in (50, 200)
        for args in [(delta_stream(name).dialect, target)]
    )
    assert many < 4.2 * few


@each_target
@pytest.mark.parametrize("size", [64, 64 * KIB])
def test_large_event_takes_steps_and_memory_by_its_size(size: int, target: str | None) -> None:
    def body(count: int) -> list[bytes]:
        event = anthropic.delta(0, "text_delta", text="x" * count)
        opening = anthropic.start() + anthropic.block(0, "text", text="")
        closing = anthropic.stop(0) + anthropic.end() + anthropic.STOP
        return chunked(opening + event + event + closing, size)

    few, many = (
        operations(partial(read, body(count), "anthropic", target))
        for count in (64 * KIB, 256 * KIB)
    )
    assert many < 4.2 * few
    chunks = body(256 * KIB)
    assert peak(partial(read, chunks, "anthropic", target)) < 12 * 512 * KIB


def test_first_event_of_an_unknown_dialect_is_not_copied_at_each_read() -> None:
    """Its bytes may still pass unchanged: they are stored, beside those of the decoder."""
    size = 4 * KIB * KIB

    def work() -> None:
        run = Transcoder(None, "anthropic")
        run.feed(chat.content("")[:-20])
        for _ in range(0, size, 16 * KIB):
            run.feed(b"a" * 16 * KIB)
        assert run.dialect == ""

    # A new object for each read would be a third copy while it is made.
    assert peak(work) < 2.7 * size


# Floods


FLOODS = {
    "LF": b"\n",
    "CRLF": b"\r\n",
    "CR": b"\r",
    "comments": b":\n",
    "comment events": b": hi\n\n",
    "empty events": b"data\n\n",
    "ids": b"id: 1\n\n",
    "lines": b"x\n",
}


@each_target
@pytest.mark.parametrize("size", [64, 64 * KIB])
@pytest.mark.parametrize("flood", FLOODS)
def test_flood_of_nothing_takes_steps_by_its_bytes(
    flood: str, size: int, target: str | None
) -> None:
    def body(count: int) -> list[bytes]:
        opening = chat.content("a") + chat.content("b")
        return chunked(opening + FLOODS[flood] * count + chat.chunk({}, "stop") + chat.DONE, size)

    few, many = (lines(partial(read, body(count), "openai_chat", target)) for count in (500, 2000))
    assert many < 4.2 * few


@pytest.mark.parametrize("size", [1, 64, 64 * KIB])
@pytest.mark.parametrize("flood", ["LF", "CRLF", "CR", "comments", "comment events", "ids"])
def test_flood_of_nothing_is_not_held(flood: str, size: int) -> None:
    reads = chunked(FLOODS[flood] * (128 * KIB // len(FLOODS[flood])), size)

    def work() -> None:
        framing = SSEDecoder()
        for data in reads:
            for raw in framing.split(data):
                framing.parse(raw)

    assert peak(work) < 100 * KIB + 16 * size


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("flood", ["LF", "CRLF", "CR", "comments", "comment events", "ids"])
def test_flood_of_nothing_is_not_held_by_a_transcoder(flood: str, *, verbatim: bool) -> None:
    def work(count: int) -> None:
        run = Transcoder("openai_chat", "openai_chat", verbatim=verbatim)
        run.feed(chat.content("a"))
        data = FLOODS[flood] * (KIB // len(FLOODS[flood]))
        for _ in range(count):
            run.feed(data)

    # A comment without a blank line behind it is a part of an event, which waits for its end.
    grows = verbatim and flood == "comments"
    few, many = (peak(partial(work, count)) for count in (30, 120))
    assert many < few + 16 * KIB + grows * 8 * 90 * KIB


# Blocks


def open_calls_of_chat(count: int) -> list[bytes]:
    started = [chat.calls(chat.call(n, f"t{n}", "f", '{"a":[')) for n in range(count)]
    turns = [chat.calls(chat.call(n, arguments="1,")) for _ in range(2) for n in range(count)]
    ends = [chat.calls(chat.call(n, arguments="1]}")) for n in range(count)]
    return [*started, *turns, *ends, chat.chunk({}, "tool_calls"), chat.DONE]


def calls_of_chat(count: int) -> list[bytes]:
    body: list[bytes] = []
    for n in range(count):
        body.append(chat.calls(chat.call(n, f"t{n}", "f", '{"a":[')))
        body += [chat.calls(chat.call(n, arguments=text)) for text in ("1,", "1", "]}")]
    return [*body, chat.chunk({}, "tool_calls"), chat.DONE]


def texts_and_thoughts_of_chat(count: int) -> list[bytes]:
    body = [make("a") for _ in range(count) for make in (chat.content, chat.reasoning)]
    return [*body, chat.chunk({}, "stop"), chat.DONE]


def open_calls_of_anthropic(count: int) -> list[bytes]:
    return [
        anthropic.start(),
        *(anthropic.block(n, "tool_use", id=f"t{n}", name="f", input={}) for n in range(count)),
        *(
            anthropic.delta(n, "input_json_delta", partial_json=text)
            for text in ('{"a":', "1", "}")
            for n in range(count)
        ),
        *map(anthropic.stop, range(count)),
        *(anthropic.end("tool_use"), anthropic.STOP),
    ]


def texts_of_anthropic(count: int) -> list[bytes]:
    texts = [anthropic.text(n, "a", "b") for n in range(count)]
    return [anthropic.start(), *texts, anthropic.end(), anthropic.STOP]


def open_calls_of_responses(count: int) -> list[bytes]:
    items = [responses.call('{"a":1}', id=f"fc_{n}", call_id=f"c{n}") for n in range(count)]
    started = [{**item, "arguments": ""} for item in items]
    return [
        responses.START,
        *(responses.added(n, "function_call", **item) for n, item in enumerate(started)),
        *(
            responses.args(text, n, item_id=f"fc_{n}")
            for text in ('{"a":', "1", "}")
            for n in range(count)
        ),
        *(responses.done(n, "function_call", **item) for n, item in enumerate(items)),
        responses.completed(),
    ]


def texts_of_responses(count: int) -> list[bytes]:
    body: list[bytes] = []
    for n in range(count):
        item = {"id": f"m{n}", "role": "assistant"}
        body.append(responses.added(n, "message", **item))
        body += [responses.text(text, n, item_id=f"m{n}") for text in "ab"]
        body.append(responses.done(n, "message", **item, content=[responses.part("ab")]))
    return [responses.START, *body, responses.completed()]


def texts_and_thoughts_of_gemini(count: int) -> list[bytes]:
    body = [
        make(text) for _ in range(count) for make in (gemini.text, gemini.thought) for text in "ab"
    ]
    return [*body, gemini.text("", "STOP")]


BLOCKS: dict[Callable[[int], list[bytes]], str] = {
    open_calls_of_chat: "openai_chat",
    calls_of_chat: "openai_chat",
    texts_and_thoughts_of_chat: "openai_chat",
    open_calls_of_anthropic: "anthropic",
    texts_of_anthropic: "anthropic",
    open_calls_of_responses: "openai_responses",
    texts_of_responses: "openai_responses",
    texts_and_thoughts_of_gemini: "gemini",
}

each_kind = pytest.mark.parametrize(
    ("make", "source"), BLOCKS.items(), ids=lambda value: getattr(value, "__name__", "")
)


def assert_linear(make: Callable[[int], list[bytes]], source: str, target: str | None) -> None:
    """Check that four times as many blocks take four times as many steps."""
    few, many = (lines(partial(read, make(count), source, target)) for count in (30, 120))
    assert many < 4.2 * few


@pytest.mark.parametrize("target", [None, "verbatim", *DIALECTS])
@each_kind
def test_many_blocks_take_as_many_steps_each(
    make: Callable[[int], list[bytes]], source: str, target: str | None
) -> None:
    assert_linear(make, source, "verbatim" if target == source else target)


@each_kind
def test_eight_thousand_blocks_are_read(make: Callable[[int], list[bytes]], source: str) -> None:
    assert_linear(make, source, None)  # or else it would take hours
    read([b"".join(make(8_000))], source, None)
