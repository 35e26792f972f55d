"""Original bytes, passed on in whole events."""

from __future__ import annotations

import re
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.openai_chat.chunks import content
from support.streams.chunkings import events_of

from streamnorm import Failed, Limits, Transcoder
from streamnorm._core.codec import Passthrough
from streamnorm.sse import SSEDecoder

LINES = [b"data: 1", b"event: x\ndata: 2", b"data: 3\ndata: 4\nid: 5", b": hi", b"odd"]

ENDS = {
    "LF": [b"\n"] * 5,
    "CRLF": [b"\r\n"] * 5,
    "CR": [b"\r"] * 5,
    "CRLF after LF": [b"\n", b"\n", b"\r\n", b"\r\n", b"\r\n"],
    "LF after CRLF": [b"\r\n", b"\r\n", b"\n", b"\n", b"\n"],
    "all three": [b"\r", b"\n", b"\r\n", b"\r", b"\r\n"],
}
each_line_end = pytest.mark.parametrize("name", ENDS)


def stream(name: str) -> list[bytes]:
    """Return some events with line ends of some kind."""
    ends = zip(LINES, ENDS[name], strict=True)
    return [lines.replace(b"\n", end) + end * 2 for lines, end in ends]


def begin() -> tuple[SSEDecoder, Passthrough]:
    """Return a passthrough behind the first event, where no byte order mark may stand."""
    framing = SSEDecoder()
    passthrough = Passthrough(framing)
    framing.split(b"data: 0\n\n")
    assert passthrough.take(b"data: 0\n\n") == b"data: 0\n\n"
    return framing, passthrough


def pass_on(*reads: bytes) -> tuple[list[bytes], bytes]:
    """Return what each read passes on, and what is left at the end."""
    framing, passthrough = begin()
    passed = []
    for data in reads:
        framing.split(data)
        passed.append(passthrough.take(data))
    return passed, passthrough.rest()


@each_line_end
def test_whole_events_are_passed_on_as_they_came(name: str) -> None:
    events = stream(name)
    assert pass_on(*events) == (events, b"")
    assert pass_on(b"".join(events)) == ([b"".join(events)], b"")
    twos = [b"".join(events[:2]), b"".join(events[2:])]
    assert pass_on(*twos) == (twos, b"")


@each_line_end
def test_half_an_event_is_held_until_its_end_is_there(name: str) -> None:
    before, event, behind = stream(name)[:3]
    end = min(len(event), len(re.sub(rb"\r?\n\Z|\r\Z", b"", event)) + 1)  # a CR ends a line
    for at in range(1, end):
        passed, rest = pass_on(before + event[:at], event[at:] + behind[:3], behind[3:])
        assert passed[0] == before
        assert b"".join(passed) == before + event + behind
        assert passed[1] == event
        assert rest == b""


@each_line_end
def test_event_is_passed_on_with_the_byte_that_ends_it(name: str) -> None:
    body = b"".join(stream(name))
    framing, passthrough = begin()
    ends = [0]
    for event in events_of(body):
        ends.append(ends[-1] + len(event))
    out = b""
    for at in range(len(body)):
        framing.split(body[at : at + 1])
        out += passthrough.take(body[at : at + 1])
        passed = max(end for end in ends if end <= at + 1)
        # The LF of a CRLF that ends an event comes when the event has gone out.
        assert out.rstrip(b"\r\n") == body[:passed].rstrip(b"\r\n") or body[at : at + 2] == b"\r\n"
    assert out + passthrough.rest() == body


def test_lf_behind_a_cr_at_the_end_of_a_read_is_passed_on() -> None:
    passed, rest = pass_on(b"data: 1\r\n\r", b"\ndata: 2\r\n\r", b"\n", b"data: 3\r\n\r\n")
    assert b"".join(passed) + rest == b"data: 1\r\n\r\ndata: 2\r\n\r\ndata: 3\r\n\r\n"
    assert passed[0] == b"data: 1\r\n\r"
    passed, rest = pass_on(b"data: 1\r\n\r", b"\n")
    assert b"".join(passed) + rest == b"data: 1\r\n\r\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_blank_lines_behind_an_event_are_passed_on_at_once_however_cut(end: bytes) -> None:
    event, blanks, next_event = b"data: 1" + end * 2, end * 2, b"data: 2" + end
    data = event + blanks + next_event
    for at in range(1, len(data)):
        passed, rest = pass_on(data[:at], data[at:])
        assert passed[0] == (
            b"" if at < len(b"data: 1" + end) + 1 else data[:at][: data.rfind(b"d")]
        )
        assert (b"".join(passed), rest) == (event + blanks, next_event)


def test_blank_lines_and_a_stray_line_stand_before_our_error_however_cut() -> None:
    start = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n'
    stray = b'\n"item": not an event\n'
    for at in range(len(start), len(start + stray)):
        body = start + stray
        transcoder = Transcoder("anthropic", "anthropic")
        written = [*transcoder.feed(body[:at]), *transcoder.feed(body[at:]), *transcoder.close()]
        assert b"".join(written).startswith(start + b"\nevent: error\n")


def test_event_in_many_reads_is_passed_on_as_one() -> None:
    event = b": " + b"x" * 50 + b"\nevent: x\nodd\ndata: 1\n\n"
    passed, rest = pass_on(*(event[at : at + 1] for at in range(len(event))), b"data: 2\n\n")
    assert passed == [b""] * (len(event) - 1) + [event, b"data: 2\n\n"]
    assert rest == b""


@pytest.mark.parametrize("half", [b"d", b"data: 2", b"data: 2\n", b"event: x\ndata: 2\n", b"odd\r"])
def test_half_an_event_is_what_is_left(half: bytes) -> None:
    assert pass_on(b"data: 1\n\n" + half) == ([b"data: 1\n\n"], half)
    assert pass_on(b"data: 1\n\n", half) == ([b"data: 1\n\n", b""], half)
    passed, rest = pass_on(*(half[at : at + 1] for at in range(len(half))))
    assert (b"".join(passed), rest) == (b"", half)


def test_what_is_no_utf8_is_passed_on_as_replacement_characters() -> None:
    event, euro = b": \xff\xe2\x82\n\n", b"data: \xe2\x82\xac\n\n"
    shown = ": \ufffd\ufffd\n\n".encode()
    for reads in ([event, euro], [event + euro], [event[:4], event[4:] + euro[:8], euro[8:]]):
        passed, rest = pass_on(*reads)
        assert (b"".join(passed), rest) == (shown + euro, b"")
    assert pass_on(b"data: \xe2") == ([b""], b"data: \xef\xbf\xbd")


def test_empty_reads_pass_nothing_on() -> None:
    assert pass_on(b"", b"data: ", b"", b"1\n\n", b"") == (
        [b"", b"", b"", b"data: 1\n\n", b""],
        b"",
    )


@each_line_end
@pytest.mark.parametrize("unread", [1, 2, 3, 5])
def test_events_that_were_not_read_are_not_passed_on(name: str, unread: int) -> None:
    events = stream(name)
    framing, passthrough = begin()
    body = b"".join(events)
    framing.split(body)
    assert passthrough.take(body, unread) == b"".join(events[:-unread])
    for at in range(1, len(events[0]) - 2):
        framing, passthrough = begin()
        framing.split(body[:at])
        assert passthrough.take(body[:at]) == b""
        framing.split(body[at:])
        assert passthrough.take(body[at:], unread) == b"".join(events[:-unread])


def test_event_of_which_the_framing_has_no_original_bytes_ends_in_a_forwarded_read() -> None:
    framing = SSEDecoder()
    passthrough = Passthrough(framing)
    framing.split(b"data: ")
    assert passthrough.take_other(b"data: ") == b""
    framing.split(b"1\n\n")
    assert passthrough.take_forwarded(b"1\n\n") == b"data: 1\n\n"


def test_event_that_is_too_large_is_not_passed_on() -> None:
    events = [b"data: 1\n\n", b"data: " + b"x" * 40 + b"\n\n", b"data: 2\n\n"]
    for reads in ([b"".join(events)], events, [b"".join(events)[:20], b"".join(events)[20:]]):
        framing = SSEDecoder(max_event_bytes=20)
        passthrough = Passthrough(framing)
        passed = b""
        for data in reads:
            for raw in framing.split(data):
                framing.parse(raw)
            passed += passthrough.take(data)
            if framing.overflowed:
                break
        assert passed == events[0]


TOKENS = (
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"\r\n\r\n",
    b"data: 1",
    b"event: x",
    b"odd",
    b": c",
    b"x",
)


@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join), st.data())
def test_any_bytes_are_passed_on_in_whole_events(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    reads = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    passed, rest = pass_on(*reads)
    assert b"".join(passed) + rest == data
    out, known = b"", b""
    for read, part in zip(reads, passed, strict=True):
        out, known = out + part, known + read
        # The half of an event is what `events_of` would go on with.
        *whole, _ = [b"", *events_of(known + b"x")]
        assert out.rstrip(b"\r\n") == b"".join(whole).rstrip(b"\r\n")


def test_events_before_one_that_is_too_large_pass() -> None:
    for rest in (b"", b"\n\n", b"\n\ndata: 3\n\n"):
        framing = SSEDecoder(max_event_bytes=20)
        passthrough = Passthrough(framing)
        data = b"data: 1\n\ndata: 2\n\n" + b"data: " + b"x" * 20 + rest
        for raw in framing.split(data):
            framing.parse(raw)
        assert framing.overflowed
        assert passthrough.take(data) == b"data: 1\n\ndata: 2\n\n"


def test_largest_event_is_passed_on_before_one_that_is_too_large() -> None:
    largest, larger = content("x" * 100), content("x" * 101)

    def passes(bound: int) -> bool:
        run = Transcoder("openai_chat", "openai_chat", limits=Limits(max_event_bytes=bound))
        return run.feed(largest) == [largest] and run.outcome is None

    bound = bisect_left(range(1000), True, key=passes)
    run = Transcoder("openai_chat", "openai_chat", limits=Limits(max_event_bytes=bound))
    (out,) = run.feed(largest + larger)
    assert out.startswith(largest + b"data: ")
    assert b"x" * 101 not in out
    assert isinstance(run.outcome, Failed)
