"""Each fault by hand: the bytes, their times and the end that it makes of an answer."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import pytest

from streamnorm.recording import faults
from streamnorm.recording.faults import Fault
from streamnorm.recording.format import Playback, PlaybackEnd, Step
from streamnorm.sse import Frame

HEAD = {"content-type": "text/event-stream", "x-request-id": "r1"}
ONE, TWO, THREE = b"data: one\n\n", b"event: b\ndata: two\n\n", b"data: three\n\n"


def played(
    *pieces: bytes, end: PlaybackEnd = "eof", dialect: str | None = None, status: int = 200
) -> Playback:
    """Return an answer whose pieces come 1, 2, 3, … seconds after the one before."""
    steps = tuple(Step(float(n), piece) for n, piece in enumerate(pieces, 1))
    return Playback(status, HEAD, steps, end, dialect)


def steps(playback: Playback) -> list[tuple[float, bytes]]:
    assert all(step.stall_s == 0 for step in playback.steps)
    return [(step.delay_s, step.data) for step in playback.steps]


def two(frame: Frame) -> bool:
    return frame.data == "two"


# Breaks


def test_cut_breaks_the_connection_within_a_piece() -> None:
    faulty = faults.cut(byte=14)(played(ONE, TWO, THREE))
    assert steps(faulty) == [(1, ONE), (2, b"eve")]
    assert faulty.end == "reset"
    assert (faulty.status, faulty.headers) == (200, HEAD)


@pytest.mark.parametrize("end", ["eof", "reset", "timeout"])
def test_truncate_ends_any_answer_as_if_complete(end: PlaybackEnd) -> None:
    faulty = faults.truncate(event=2)(played(ONE, TWO, THREE, end=end))
    assert steps(faulty) == [(1, ONE), (2, TWO)]
    assert faulty.end == "eof"


def test_cut_at_the_first_byte_leaves_the_headers() -> None:
    faulty = faults.cut(byte=0)(played(ONE))
    assert (faulty.steps, faulty.end, faulty.status) == ((), "reset", 200)


def test_cut_after_the_last_byte_leaves_the_whole_body() -> None:
    faulty = faults.cut(byte=len(ONE))(played(ONE))
    assert (steps(faulty), faulty.end) == ([(1, ONE)], "reset")


def test_stall_is_silence_within_a_chunk() -> None:
    faulty = faults.stall(byte=14, s=2.5)(played(ONE, TWO, end="reset"))
    assert faulty.steps == (Step(1, ONE), Step(2, TWO[:3]), Step(0, TWO[3:], 2.5))
    assert faulty.end == "reset"


def test_stall_is_infinite_by_default() -> None:
    assert faults.stall(event=1)(played(ONE, TWO)).steps == (Step(1, ONE), Step(2, TWO, math.inf))


def test_stall_after_the_last_byte_delays_the_end() -> None:
    assert faults.stall(byte=len(ONE), s=1)(played(ONE)).steps == (Step(1, ONE), Step(0, b"", 1))


def test_stalls_at_one_position_add_up() -> None:
    once = faults.stall(event=1, s=1)(played(ONE, TWO))
    assert faults.stall(event=1, s=2)(once).steps[1] == Step(2, TWO, 3)


def test_delay_of_a_chunk_stays_before_its_first_part() -> None:
    silent = faults.stall(event=0, s=7)(played(ONE))
    assert faults.cut(byte=3)(silent).steps == (Step(1, ONE[:3], 7),)
    assert faults.stall(byte=3, s=2)(silent).steps == (Step(1, ONE[:3], 7), Step(0, ONE[3:], 2))


def test_slow_first_byte_is_silence_before_the_body() -> None:
    assert faults.slow_first_byte(9)(played(ONE, TWO)).steps == (Step(1, ONE, 9), Step(2, TWO))


# Changes of the bytes


def test_garbage_arrives_with_the_bytes_before_it() -> None:
    faulty = faults.garbage(byte=3, data=b"\xff")(played(ONE, TWO, end="reset"))
    assert steps(faulty) == [(1, ONE[:3]), (0, b"\xff"), (0, ONE[3:]), (2, TWO)]
    assert faulty.end == "reset"


def test_garbage_between_two_pieces_delays_neither() -> None:
    faulty = faults.garbage(event=1, data=b"?")(played(ONE, TWO))
    assert steps(faulty) == [(1, ONE), (0, b"?"), (2, TWO)]


def test_default_garbage_is_invalid_utf_8_without_a_line_end() -> None:
    data = faults.garbage(byte=0)(played(ONE)).steps[0].data
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    assert not {*b"\r\n"} & {*data}


def test_dropped_event_does_not_advance_later_bytes() -> None:
    assert steps(faults.drop(event=1)(played(ONE, TWO, THREE))) == [(1, ONE), (5, THREE)]


def test_dropped_event_within_a_piece_leaves_the_others() -> None:
    faulty = faults.drop(event=1)(played(ONE + TWO[:4], TWO[4:] + THREE))
    assert steps(faulty) == [(1, ONE), (2, THREE)]


def test_dropped_event_does_not_shorten_a_stall() -> None:
    faulty = faults.drop(event=0)(faults.stall(event=0, s=4)(played(ONE, TWO)))
    assert faulty.steps == (Step(3, TWO, 4),)


def test_last_event_can_be_dropped() -> None:
    assert steps(faults.drop(event=-1)(played(ONE, TWO))) == [(1, ONE)]


def test_duplicate_follows_its_event() -> None:
    assert steps(faults.duplicate(event=0)(played(ONE, TWO))) == [(1, ONE), (0, ONE), (2, TWO)]


@pytest.mark.parametrize(
    ("tail", "missing"),
    [
        (b"data: z", b"\n\n"),
        (b"data: z\n", b"\n"),
        (b"event: a\r\ndata: z", b"\r\n\r\n"),
        (b"event: a\r\ndata: z\r\n", b"\r\n"),
    ],
)
def test_duplicate_of_an_event_without_its_blank_line_is_a_second_event(
    tail: bytes, missing: bytes
) -> None:
    assert faults.duplicate(event=-1)(played(tail)).body == tail + missing + tail
    assert faults.duplicate(event=0)(played(ONE, tail)).body == ONE + ONE + tail


def test_reordered_event_follows_the_next() -> None:
    faulty = faults.reorder(event=0)(played(ONE, b": c\n\n" + TWO, THREE))
    assert steps(faulty) == [(3, b": c\n\n" + TWO), (0, ONE), (3, THREE)]


def test_reorder_adds_a_missing_blank_line() -> None:
    assert faults.reorder(event=0)(played(ONE, b"data: z")).body == b"data: z\n\n" + ONE


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"data: a\n", b"\n", b"data: b\n\n"], [b"data: a\r\n", b"\r\n", b"data: b\r\n\r\n"]),
        ([b"data: a\r", b"\r"], [b"data: a\r\n", b"\r\n"]),
        ([b"data: a\r", b"\n\r\n"], [b"data: a\r", b"\n\r\n"]),
        ([b"a\r\n\n\rb", b"", b"\nc"], [b"a\r\n\r\n\r\nb", b"", b"\r\nc"]),
    ],
)
def test_crlf_ends_every_line_without_moving_chunks(
    pieces: list[bytes], expected: list[bytes]
) -> None:
    faulty = faults.crlf()(played(*pieces))
    assert steps(faulty) == [(n, piece) for n, piece in enumerate(expected, 1)]


def test_byte_order_mark_comes_with_the_first_piece() -> None:
    faulty = faults.bom()(played(ONE, TWO))
    assert steps(faulty) == [(1, b"\xef\xbb\xbf" + ONE), (2, TWO)]
    assert faults.bom()(faulty) == faulty
    assert faults.bom()(played()).body == b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("dialect", "events", "left"),
    [
        ("openai_chat", [b'{"choices":[]}', b"[DONE]"], [0]),
        ("openai_chat", [b"[DONE]", b'{"choices":[]}', b"[DONE] "], [1]),
        ("anthropic", [b'{"type":"ping"}', b'{"type":"message_stop"}'], [0]),
        ("openai_responses", [b'{"type":"response.created"}', b'{"type":"response.failed"}'], [0]),
        ("openai_responses", [b'{"type":"response.completed"}'], []),
        ("openai_responses", [b'{"type":"response.incomplete"}', b"{"], [1]),
        (
            "gemini",
            [
                b'{"candidates":[{"index":0}]}',
                b'{"candidates":[{"finishReason":"STOP"}]}',
                b'{"candidates":[{"finishReason":null}]}',
                b'{"candidates":[{"index":0},{"finishReason":"STOP"}]}',
                b'{"promptFeedback":{"blockReason":"OTHER"}}',
            ],
            [0, 2],
        ),
    ],
)
def test_drop_terminal_removes_only_the_terminal(
    dialect: str, events: list[bytes], left: list[int]
) -> None:
    frames = [b"data: %b\n\n" % event for event in events]
    faulty = faults.drop_terminal()(played(*frames, dialect=dialect))
    assert faulty.body == b"".join(frames[n] for n in left)
    assert faulty.end == "eof"


def test_terminal_is_recognised_by_its_event_name() -> None:
    body = ONE + b"event: message_stop\ndata: {}\n\n"
    assert faults.drop_terminal()(played(body, dialect="anthropic")).body == ONE


@pytest.mark.parametrize(
    "last",
    [
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        b'event: response.completed\ndata: {"response":{}}\n\n',
        b'data: {"candidates":[{"finishReason":"STOP"}]}\n\n',
        b'data: {"object":"chat.completion.chunk","choices":[]}\n\ndata: [DONE]',
    ],
)
def test_terminal_is_found_without_a_named_dialect(last: bytes) -> None:
    assert len(faults.drop_terminal()(played(ONE, last)).body) < len(ONE + last)


# Places


def test_events_are_counted_without_comments_and_blank_lines() -> None:
    body = b"\n: hello\n\n" + ONE + b"retry: 5\n\n: again\n\n" + TWO + b"\r\n\r\n" + THREE
    assert faults.truncate(event=2)(played(body)).body == body.removesuffix(THREE)
    assert faults.truncate(event=-3)(played(body)).body == b"\n: hello\n\n"


@pytest.mark.parametrize("newline", [b"\r", b"\n", b"\r\n"])
def test_events_end_with_any_blank_line(newline: bytes) -> None:
    events = [event.replace(b"\n", newline) for event in (ONE, TWO, THREE)]
    assert faults.drop(event=1)(played(b"".join(events))).body == events[0] + events[2]
    assert faults.drop(when=two)(played(*events)).body == events[0] + events[2]


def test_bytes_without_a_blank_line_are_the_last_event() -> None:
    assert faults.drop(event=-1)(played(ONE, b"data: z")).body == ONE
    assert faults.drop(event=-1)(played(ONE, b": comment")).body == b": comment"


def test_predicate_sees_the_frame_and_the_first_match_counts() -> None:
    seen: list[Frame] = []
    faulty = faults.cut(when=lambda frame: bool(seen.append(frame)) or two(frame))(
        played(ONE, TWO, TWO, THREE)
    )
    assert faulty.body == ONE
    assert seen == [Frame("message", "one"), Frame("b", "two")]


def test_byte_offset_selects_the_event_around_it() -> None:
    answer = played(ONE, TWO, THREE)
    assert faults.drop(byte=len(ONE))(answer).body == ONE + THREE
    assert faults.drop(byte=len(ONE) - 1)(answer).body == TWO + THREE


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (faults.cut(byte=len(ONE + TWO) + 1), "body of 31 bytes"),
        (faults.truncate(event=2), "body of 2 events"),
        (faults.stall(event=-3), "body of 2 events"),
        (faults.garbage(when=lambda frame: frame.data == "four"), "none of 2 events is there"),
        (faults.drop(byte=31), "none of 2 events is there"),
        (faults.duplicate(event=2), "body of 2 events"),
        (faults.reorder(event=1), "event 1 of 2 has no next"),
        (faults.drop_terminal(), "no terminal in 2 events"),
        (faults.error_event(event=0), "stream of an unknown dialect"),
    ],
    ids=str,
)
def test_position_beyond_the_body_is_an_error_that_names_the_fault(fault: Fault, told: str) -> None:
    with pytest.raises(ValueError) as caught:
        fault(played(ONE, TWO))
    assert str(caught.value) == f"{fault}: {told}"


def test_body_that_is_no_stream_has_no_events() -> None:
    for fault in (faults.cut(event=0), faults.error_event(byte=0)):
        with pytest.raises(ValueError, match=r"0 events|no stream"):
            fault(played(b'{"error":{}}', dialect="openai_chat"))
    with pytest.raises(ValueError, match=r"slow_first_byte\(1\): body of 0 bytes"):
        faults.slow_first_byte(1)(played())


# Values


@pytest.mark.parametrize(
    "make",
    [
        *(faults.cut, faults.truncate, faults.stall, faults.garbage, faults.error_event),
        *(faults.drop, faults.duplicate, faults.reorder),
    ],
)
def test_fault_without_exactly_one_position_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="with 0 places, expected one"):
        make()
    with pytest.raises(ValueError, match="with 2 places, expected one"):
        make(byte=1, event=2)
    with pytest.raises(ValueError, match="at byte -1, expected 0 or more"):
        make(byte=-1)
    with pytest.raises(TypeError, match="bite"):
        make(bite=1)


def test_invalid_numbers_are_refused_when_a_fault_is_made() -> None:
    for seconds in (0, -1, math.nan):
        with pytest.raises(ValueError, match="expected more than 0"):
            faults.stall(event=0, s=seconds)
        with pytest.raises(ValueError, match="expected more than 0"):
            faults.slow_first_byte(seconds)
    for status in (200, 399, 600):
        with pytest.raises(ValueError, match=f"status {status}, expected 400 to 599"):
            faults.http(status)
    with pytest.raises(ValueError, match="0 times, expected 1 or more"):
        faults.http(500, times=0)
    with pytest.raises(ValueError, match="garbage of 0 bytes"):
        faults.garbage(byte=0, data=b"")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (faults.cut(byte=900), "cut(byte=900)"),
        (faults.truncate(event=-1), "truncate(event=-1)"),
        (faults.stall(when=two), "stall(when=two, s=inf)"),
        (faults.stall(event=0, s=2.5), "stall(event=0, s=2.5)"),
        (faults.slow_first_byte(60), "slow_first_byte(60)"),
        (faults.garbage(byte=1), "garbage(byte=1)"),
        (faults.garbage(byte=1, data=b"\xff\n"), r"garbage(byte=1, data=b'\xff\n')"),
        (faults.garbage(byte=1, data=b"x" * 16), "garbage(byte=1, data=b'xxxxxxxxxxxxxxxx')"),
        (faults.garbage(byte=1, data=b"x" * 17), "garbage(byte=1, data=17 bytes)"),
        (faults.drop_terminal(), "drop_terminal()"),
        (faults.content_type(), "content_type(text/html)"),
        (faults.http(429), "http(429)"),
        (faults.http(503, times=2), "http(503, times=2)"),
        (faults.http(503, times=None), "http(503, times=None)"),
    ],
)
def test_str_of_a_fault_is_its_call(fault: Fault, text: str) -> None:
    assert str(fault) == repr(fault) == text


def test_faults_with_equal_arguments_are_equal() -> None:
    assert faults.cut(byte=1) == faults.cut(byte=1)
    assert len({faults.cut(byte=1), faults.cut(byte=1), faults.truncate(byte=1)}) == 2
    assert faults.cut(byte=1) != faults.cut(event=1)
    assert faults.stall(event=1) != faults.stall(event=1, s=1)
    with pytest.raises(AttributeError):
        faults.http(429).status = 500  # type: ignore[attr-defined]


def test_faults_are_applied_in_order() -> None:
    answer = played(ONE, TWO, THREE)
    dropped_then_cut = [faults.drop(event=0), faults.cut(event=1)]
    assert reduce(lambda answer, fault: fault(answer), dropped_then_cut, answer).body == TWO
    cut_then_dropped = dropped_then_cut[::-1]
    assert reduce(lambda answer, fault: fault(answer), cut_then_dropped, answer).body == b""
    assert answer == played(ONE, TWO, THREE)
