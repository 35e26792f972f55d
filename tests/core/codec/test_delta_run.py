"""Delta runs on their way to a consumer: sinks, limits, and what ends the run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from support.openai_chat.chunks import DONE, calls, chunk, content, reasoning
from support.openai_responses import frames as responses
from support.streams.chunkings import CHUNKINGS
from support.streams.content import DIALECTS
from support.streams.delta_streams import DELTA_STREAMS, delta_stream
from support.streams.run_comparison import every_frame_in_full

from streamnorm import (
    BlockStop,
    Completed,
    Failed,
    Limits,
    LossyEncoding,
    Reasoning,
    TextDelta,
    Transcoder,
    Truncated,
)
from streamnorm._core.codec import Decoder, DeltaForwarder, DeltaRun
from streamnorm.sse import SSEDecoder

NAMES = [
    *(
        "anthropic text",
        "anthropic thinking, text and call",
        "chat text",
        "chat calls, interleaved",
    ),
    *("responses text", "responses summaries, interleaved", "gemini text", "gemini thought"),
]
READS = ["one event", "two events", "halves of events", "whole"]

each_stream = pytest.mark.parametrize("name", NAMES)
each_reads = pytest.mark.parametrize("reads", READS)
each_target = pytest.mark.parametrize("target", DIALECTS)


def feed(
    chunks: list[bytes], source: str | None, target: str, **options: Any
) -> tuple[list[list[bytes]], Transcoder]:
    """Return what each chunk and the end produce."""
    run = Transcoder(source, target, **options)
    return [*map(run.feed, chunks), run.close()], run


def feed_both_ways(
    chunks: list[bytes], source: str | None, target: str, **options: Any
) -> tuple[list[list[bytes]], Transcoder]:
    """Return what each chunk and the end produce, which is the same without the run."""
    outs, run = feed(chunks, source, target, **options)
    with every_frame_in_full():
        expected, full = feed(chunks, source, target, **options)
    assert outs == expected
    assert (run.outcome, run.losses, run.usage) == (full.outcome, full.losses, full.usage)
    return outs, run


@cache
def least_bound(name: str, limit: str, target: str = "anthropic") -> int:
    """Return the least value of a limit with which a stream of 40 pieces completes."""
    stream = delta_stream(name, 40)

    def completes(bound: int) -> bool:
        with every_frame_in_full():
            limits = Limits(**{limit: bound})
            options = {**stream.options, "verbatim": False, "limits": limits}
            _, run = feed([b"".join(stream.events)], stream.dialect, target, **options)
        return isinstance(run.outcome, Completed)

    return bisect_left(range(100_000), 1, key=completes)


# Limits


@each_target
@each_reads
@each_stream
def test_message_is_bounded_to_the_byte_on_the_run(name: str, reads: str, target: str) -> None:
    stream = delta_stream(name, 40)
    least = least_bound(name, "max_accumulated_bytes")
    chunks = CHUNKINGS[reads](stream.events)
    for bound in (least - 1, least, least + 1):
        for verbatim in (False, True):
            options = {**stream.options, "limits": Limits(max_accumulated_bytes=bound)}
            _, run = feed_both_ways(chunks, stream.dialect, target, verbatim=verbatim, **options)
            assert isinstance(run.outcome, Failed if bound < least else Completed)
            if isinstance(run.outcome, Failed):
                assert run.outcome.error.code == "max_accumulated_bytes"


# A call of a page waits for its result, which `max_accumulated_bytes` bounds.
INTERLEAVED = [
    name
    for name in DELTA_STREAMS
    if "interleaved" in name and name not in ("ag-ui calls, interleaved", "ui calls, interleaved")
]


@each_reads
@pytest.mark.parametrize("name", INTERLEAVED)
def test_held_text_is_bounded_to_the_byte_on_the_run(name: str, reads: str) -> None:
    stream = delta_stream(name, 40)
    target = "anthropic" if stream.dialect != "anthropic" else "openai_responses"
    least = least_bound(name, "max_held_bytes", target)
    assert least > 40
    chunks = CHUNKINGS[reads](stream.events)
    for bound in (least - 1, least, least + 1):
        options = {**stream.options, "limits": Limits(max_held_bytes=bound)}
        _, run = feed_both_ways(chunks, stream.dialect, target, **options)
        assert isinstance(run.outcome, Failed if bound < least else Completed)
        if isinstance(run.outcome, Failed):
            assert run.outcome.error.code == "max_held_bytes"
            assert [loss.feature for loss in run.losses if loss.feature == "held"] == ["held"]


@each_target
@each_stream
def test_nothing_follows_a_limit_that_the_run_has_passed(name: str, target: str) -> None:
    stream = delta_stream(name, 40)
    bound = least_bound(name, "max_accumulated_bytes") - 99
    options = {**stream.options, "limits": Limits(max_accumulated_bytes=bound)}
    for verbatim in (False, True):
        run = Transcoder(stream.dialect, target, verbatim=verbatim, **options)
        outs = [run.feed(event) for event in stream.events]
        assert isinstance(run.outcome, Failed)
        last = max(at for at, out in enumerate(outs) if out)
        assert len(stream.opening) < last < len(stream.opening) + len(stream.deltas)
        fails = [b"expected at most %d" % bound in b"".join(out) for out in outs]
        assert fails == [at == last for at in range(len(outs))]
        assert run.ping() == b""
        assert run.feed(stream.deltas[-1]) == run.close() == run.abort(OSError()) == []


@each_reads
@each_stream
def test_event_that_passes_a_limit_is_the_last_that_goes_out_untouched(
    name: str, reads: str
) -> None:
    stream = delta_stream(name, 40)
    limits = Limits(max_accumulated_bytes=least_bound(name, "max_accumulated_bytes") - 99)
    outs, _ = feed(stream.events, stream.dialect, stream.dialect, limits=limits, **stream.options)
    body = b"".join(event for event, out in zip(stream.events, outs, strict=False) if out)
    chunks = CHUNKINGS[reads](stream.events)
    outs, _ = feed_both_ways(
        chunks, stream.dialect, stream.dialect, limits=limits, **stream.options
    )
    out = b"".join(data for out in outs for data in out)
    assert out.startswith(body)
    assert out.count(b"expected at most") >= 1
    assert out.removeprefix(body).count(b"data: ") == (
        2 if stream.dialect == "openai_responses" else 1
    )


# Sinks


def chat_calls(*turns: tuple[int, str]) -> list[bytes]:
    """Return fragments of calls."""
    return [calls({"index": n, "function": {"arguments": text}}) for n, text in turns]


@each_reads
@each_target
def test_text_goes_where_it_belongs_whenever_blocks_change(target: str, reads: str) -> None:
    started = [
        calls({"index": n, "id": f"t{n}", "function": {"name": "f", "arguments": '{"a'}})
        for n in (0, 1)
    ]
    body = [
        *(reasoning("h"), reasoning("m"), reasoning("?")),
        *(content("a"), content("b"), content("c")),
        *(reasoning("s"), reasoning("o"), reasoning(".")),
        *(content("d"), content("e"), content("f")),
        *started,
        *chat_calls((0, '":'), (1, 'b"'), (0, "1"), (1, ":2"), (0, "1"), (1, "2"), (1, "}")),
        *(content("g"), content("h"), content("i")),
        *chat_calls((0, "1"), (0, "}")),
        *(chunk({}, "tool_calls"), DONE),
    ]
    _, run = feed_both_ways(CHUNKINGS[reads](body), "openai_chat", target, verbatim=False)
    assert run.message.text == "abcdefghi"
    thoughts = [block.text for block in run.message.blocks if isinstance(block, Reasoning)]
    assert thoughts == ["hm?", "so."]
    assert [made.arguments for made in run.message.tool_calls] == ['{"a":111}', '{"ab":22}']


@each_reads
@each_target
def test_what_the_target_cannot_carry_is_accumulated_on_the_run(target: str, reads: str) -> None:
    body = [*map(reasoning, "abcdef"), *map(content, "uvwxyz"), chunk({}, "stop"), DONE]
    outs, run = feed_both_ways(CHUNKINGS[reads](body), "openai_chat", target, reasoning=None)
    assert run.message.blocks[0] == Reasoning(("abcdef",))
    assert run.message.text == "uvwxyz"
    out = b"".join(data for out in outs for data in out)
    assert b"thinking" not in out
    assert b'"thought"' not in out


def test_blank_text_that_may_not_go_out_waits_on_the_run_too() -> None:
    body = [*map(content, ["  ", "\n", " ", "\t", "a", "b"]), chunk({}, "stop"), DONE]
    outs, _ = feed_both_ways(body, "openai_chat", "anthropic")
    assert outs[1:4] == [[], [], []]
    assert b'"  \\n \\ta"' in outs[4][0]


@pytest.mark.parametrize("offers_run", [True, False])
def test_loss_on_the_run_is_raised_where_losses_are_not_allowed(
    offers_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Decoder, "offers_run", offers_run)
    parts = [0, 0, 0, 1, 1, 0]
    summary = "reasoning_summary_text"
    body = [
        *(responses.START, responses.added(0, "reasoning", id="rs_1")),
        *(responses.delta(summary, "a", item_id="rs_1", summary_index=part) for part in parts),
    ]
    run = Transcoder("openai_responses", "anthropic", strict=True)
    for event in body[:5]:
        run.feed(event)
    with pytest.raises(LossyEncoding, match="reasoning_parts"):
        run.feed(body[5])


@each_target
@each_stream
def test_run_that_breaks_off_is_a_cut(name: str, target: str) -> None:
    stream = delta_stream(name, 12)
    chunks = [*stream.opening, *stream.deltas]
    _, run = feed_both_ways(chunks, stream.dialect, target, **stream.options)
    assert isinstance(run.outcome, Truncated)


@each_reads
@each_stream
def test_source_that_is_not_named_has_the_same_run(name: str, reads: str) -> None:
    stream = delta_stream(name, 12)
    chunks = CHUNKINGS[reads](stream.events)
    for target in DIALECTS:
        outs, run = feed_both_ways(chunks, None, target, **stream.options)
        named, other = feed(chunks, stream.dialect, target, **stream.options)
        assert [b"".join(out) for out in outs] == [b"".join(out) for out in named]
        assert (run.message, run.usage) == (other.message, other.usage)


# One frame, one read


class NumberedRun(DeltaRun):
    """Frames whose payload is the number of a block and its text."""

    def __init__(self) -> None:
        super().__init__()
        framing = SSEDecoder()
        framing.split(b": begins\n\n")
        framing.frames = 0
        self.read_from(framing)
        self._deltas = [TextDelta(0, ""), TextDelta(1, "")]

    def decode(self, payload: bytes) -> str | None:
        self.delta = self._deltas[int(payload[:1])]
        return payload[1:].decode()


class CountedSinks:
    """The texts of a message, and for which blocks a sink was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.texts: list[list[str]] = [[], []]

    def text_sinks(self, index: int, part: int = 0) -> tuple[Callable[[str], None], list[str]]:
        self.asked.append(index)
        return self.texts[index].append, self.texts[index]


def forward(run: DeltaRun, data: bytes) -> tuple[list[list[str]], bytes]:
    """Return the texts of a read by block, and the bytes that are left to be split."""
    sinks = CountedSinks()
    rest = run.forward(data, [], DeltaForwarder(run, sinks, None))
    return sinks.texts, rest


each_read_of_one = pytest.mark.parametrize("is_one", [True, False], ids=["one", "several"])


@each_read_of_one
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_read_is_forwarded_without_splitting_it(end: bytes, *, is_one: bool) -> None:
    run = NumberedRun()
    run.reads_are_events = is_one
    for _ in range(2):
        run.framing.frames = 0
        assert forward(run, b"data: 0ab" + end) == ([["ab"], []], b"")
        assert run.framing.frames == 1
    read = b"data: 0ab" + end + b"data: 1cd" + end + b"data: 0"
    assert forward(run, read) == ([["ab"], ["cd"]], b"")
    assert run.framing.frames == 3
    assert run.framing.held == b"data: 0"


@each_read_of_one
@pytest.mark.parametrize(
    "data",
    [
        b"dato",
        b"dato: 0ab",
        b"data: 0ab\n\r",
        b"data: \nid: 7",
        b"data: 0ab\ni",
        b"data: 0ab\ndata: 0cd\n",
        b"data: 0ab\r",
        b"data: 0ab\r\n\n",
        b"data:0ab\n\n",
        b"event: x\ndata: 0ab\n\n",
        b"data: 0ab\ndata: 0cd\n\n",
        b"data: 0ab\rdata: 0cd\n\n",
        b"data: 0ab\r\ndata: 0cd\r\n\r\n",
    ],
)
def test_read_of_anything_else_is_left_to_be_split(data: bytes, *, is_one: bool) -> None:
    run = NumberedRun()
    run.reads_are_events = is_one
    assert forward(run, data) == ([[], []], data)
    assert (run.framing.frames, run.framing.held) == (0, b"")
    # Behind another event as well.
    run.has_refused = False
    end = b"\r\n\r\n" if data.endswith(b"\r\n\r\n") else b"\n\n"
    assert forward(run, b"data: 0ab" + end + data) == ([["ab"], []], data)
    assert (run.framing.frames, run.framing.held) == (1, b"")


@pytest.mark.parametrize(
    "raw", [b"dato: 0ab", b"data: 0ab\nid: 7", b"id: 7\ndata: 0ab", b"data:0ab"]
)
def test_frame_that_is_more_or_less_than_a_payload_is_left_to_be_read_in_full(raw: bytes) -> None:
    run = NumberedRun()
    assert run.text_of(b"data: 0ab") == "ab"
    assert run.text_of(raw) is None


BEGINNINGS = [b"d", b"data: ", b"data: 0", b"data: 0a", b"data: 0ab"]


@each_read_of_one
def test_event_that_is_cut_in_its_blank_line_is_forwarded(*, is_one: bool) -> None:
    run = NumberedRun()
    run.reads_are_events = is_one
    for read in (b"data: 0ab\n", b"data: 0cd\n\ndata: 1ab\n"):
        before = run.framing.frames
        assert forward(run, read) == ([[], []] if before == 0 else [["cd"], []], b"")
        assert forward(run, b"\n")[1] == b""
        assert run.framing.held == b""
    assert run.framing.frames == 3


@each_read_of_one
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_event_in_two_reads_is_forwarded_without_splitting_it(
    beginning: bytes, *, is_one: bool
) -> None:
    run, split = NumberedRun(), SSEDecoder()
    split.split(b": begins\n\n")
    split.frames = 0
    for end in (b"\n\n", b"\r\n\r\n"):
        run.reads_are_events = is_one
        rest = b"data: 0ab".removeprefix(beginning) + end
        assert (forward(run, beginning)[1], split.split(beginning)) == (b"", [])
        assert vars(run.framing) == vars(split)
        found = forward(run, rest), split.split(rest)
        assert found == (([["ab"], []], b""), [b"data: 0ab"])
        run.framing.frames = split.frames = 0
        assert vars(run.framing) == vars(split)


@each_read_of_one
@pytest.mark.parametrize("rest", [b"b", b"b\n", b"b\n\r\n", b"b\nid: 7\n\n"])
def test_rest_of_an_event_that_needs_the_framing_is_left_to_be_split(
    rest: bytes, *, is_one: bool
) -> None:
    run = NumberedRun()
    run.reads_are_events = is_one
    assert forward(run, b"data: 0a") == ([[], []], b"")
    before = {**vars(run.framing)}
    assert forward(run, rest) == ([[], []], rest)
    assert vars(run.framing) == before


@each_read_of_one
def test_read_that_may_exceed_the_bound_is_left_to_be_split(*, is_one: bool) -> None:
    run = NumberedRun()
    run.reads_are_events = is_one
    run.framing.plain_bytes = 9
    assert forward(run, b"data: 0ab") == ([[], []], b"data: 0ab")
    assert forward(run, b"data: 0a") == ([[], []], b"")
    assert forward(run, b"b\n\n") == ([[], []], b"b\n\n")


def test_read_within_an_irregular_event_is_left_to_be_split() -> None:
    run = NumberedRun()
    run.framing.split(b"id: 1\nid: 2\n")
    assert run.framing.is_irregular
    assert forward(run, b"data: 0ab\n\n") == ([[], []], b"data: 0ab\n\n")


def test_sinks_of_a_block_serve_it_until_something_else_happens_to_it() -> None:
    run, sinks = NumberedRun(), CountedSinks()
    forwarder = DeltaForwarder(run, sinks, None)
    frames = [b"data: 0a", b"data: 1b", b"data: 0c", b"data: 1d"]
    assert run.forward_frames(list(frames), 0, [], forwarder) == 4
    assert sinks.asked == [0, 1]
    assert sinks.texts == [["a", "c"], ["b", "d"]]
    forwarder.invalidate([TextDelta(0, "a")])
    run.forward_frames(list(frames), 0, [], forwarder)
    assert sinks.asked == [0, 1]
    forwarder.invalidate([BlockStop(0)])
    run.forward_frames(list(frames), 0, [], forwarder)
    assert sinks.asked == [0, 1, 0, 1]


class CountingRun(NumberedRun):
    """A run that refuses each payload behind `9`, and counts what it is asked."""

    asked = 0

    def decode(self, payload: bytes) -> str | None:
        self.asked += 1
        return None if payload[:1] == b"9" else super().decode(payload)


@each_read_of_one
@pytest.mark.parametrize("beginning", [b"", *BEGINNINGS[:2]])
def test_event_of_a_read_is_refused_once(beginning: bytes, *, is_one: bool) -> None:
    run = CountingRun()
    run.reads_are_events = is_one
    forwarder = DeltaForwarder(run, CountedSinks(), None)
    if beginning:
        assert run.forward(beginning, [], forwarder) == b""
    read = b"data: 9".removeprefix(beginning) + b"\n\n"
    assert run.forward(read, [], forwarder) == read
    frames = [*run.framing.split(read)]
    assert frames == [b"data: 9"]
    assert run.forward_frames(frames, 0, [], forwarder) == 0
    assert run.asked == 1
    assert run.forward_frames(frames, 0, [], forwarder) == 0
    assert run.forward_frames([b"data: 0a"], 0, [], forwarder) == 1
    assert run.asked == 3


def test_refused_event_behind_others_is_asked_for_once() -> None:
    run = CountingRun()
    forwarder = DeltaForwarder(run, CountedSinks(), None)
    rest = run.forward(b"data: 0a\n\ndata: 9\n\ndata: 0b\n\ndat", [], forwarder)
    assert rest == b"data: 9\n\ndata: 0b\n\ndat"
    frames = run.framing.split(rest)
    assert run.forward_frames(frames, 0, [], forwarder) == 0
    assert run.asked == 2
    assert run.forward_frames(frames, 1, [], forwarder) == 2
    assert (run.framing.held, run.framing.frames) == (b"dat", 3)


class CountedFrames(list[bytes]):
    """Frames, and how many of them were copied."""

    copied = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.copied += len(found) if isinstance(key, slice) else 0
        return found


def test_frames_are_not_copied_for_each_that_is_read_in_full() -> None:
    run = NumberedRun()
    forwarder = DeltaForwarder(run, CountedSinks(), None)
    frames = CountedFrames([b": a comment", b"data: 0a"] * 3)
    stops, position = [], 0
    while position < len(frames):
        position = run.forward_frames(frames, position, [], forwarder)
        stops.append(position)
        position += 1
    assert stops == [0, 2, 4, 6]
    assert not frames.copied
