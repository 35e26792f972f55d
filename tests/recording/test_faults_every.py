"""`every`: all faults that fit a recording, each once."""

from __future__ import annotations

from support.streams.content import DIALECTS
from support.streams.corpus import each_recording_of

from streamnorm.recording import RecordedResponse, Recording, faults
from streamnorm.recording.format import Companion


def test_every_fault_of_a_stream_is_injected_at_each_kind_of_position() -> None:
    start = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"\xc3\xa9"}}]}'
    body = start + b"\n\ndata: {}\n\ndata: [DONE]\n\n"
    breaks = [
        f"{kind}({place}{more})"
        # The middle of the first event and of the second, behind half of an é.
        for place in ("event=0", "event=-1", "event=1", "byte=40", "byte=86", "byte=73")
        for kind, more in (("cut", ""), ("truncate", ""), ("stall", ", s=inf"))
    ]
    assert body[72:74] == b"\xc3\xa9"
    assert [str(fault) for fault in faults.every(Recording(body))] == [
        "slow_first_byte(60)",
        *breaks,
        *("garbage(event=0)", "garbage(event=1)", "garbage(byte=86)"),
        *("error_event(event=0)", "error_event(event=1)", "error_event(event=-1)"),
        "drop_terminal()",
        *("drop(event=0)", "duplicate(event=0)", "reorder(event=0)"),
        *("drop(event=1)", "duplicate(event=1)", "reorder(event=1)"),
        *("crlf()", "bom()", "content_type(text/html)"),
        *("http(401)", "http(429)", "http(500)", "http(503)"),
    ]


def test_no_offset_is_broken_twice() -> None:
    found = [str(fault) for fault in faults.every(Recording(b"data: a\n\n"))]
    assert [text for text in found if text.startswith("cut")] == ["cut(event=0)", "cut(byte=4)"]


def test_break_precedes_the_terminal() -> None:
    body = b"data: {}\n\ndata: {}\n\ndata: [DONE]\n\ndata: {}\n\n"
    found = {*map(str, faults.every(Recording(body, Companion(1, "openai_chat"))))}
    assert {"cut(event=-2)", "error_event(event=-2)"} <= found
    assert "cut(event=-1)" not in found


def test_overloaded_status_is_that_of_the_provider() -> None:
    statuses = {"anthropic": 529, "openai_chat": 503, "gemini": 503, "gemini_interactions": 503}
    for dialect, status in statuses.items():
        found = list(faults.every(Recording(b"", Companion(1, dialect))))
        assert found[-1] == faults.http(status)


def test_equal_neighbours_are_not_reordered() -> None:
    found = [str(fault) for fault in faults.every(Recording(b"data: a\n\ndata: a\n\ndata: b\n\n"))]
    assert [text for text in found if text.startswith("reorder")] == ["reorder(event=1)"]


def test_body_that_is_no_stream_gets_only_byte_faults() -> None:
    companion = Companion(1, response=RecordedResponse(404, body=".body.json"))
    recording = Recording(b'{"error":null}', companion)
    found = [str(fault) for fault in faults.every(recording)]
    assert found == [
        "slow_first_byte(60)",
        *("cut(byte=0)", "truncate(byte=0)", "stall(byte=0, s=inf)"),
        *("cut(byte=7)", "truncate(byte=7)", "stall(byte=7, s=inf)"),
        *("garbage(byte=7)", "content_type(text/html)"),
        *("http(401)", "http(429)", "http(500)", "http(503)"),
    ]
    assert [str(fault) for fault in faults.every(Recording(b""))] == found[-5:]


@each_recording_of(*DIALECTS, "bedrock_converse", framings=True)
def test_every_fault_fits_and_changes_its_recording(recording: Recording) -> None:
    found = list(faults.every(recording))
    assert len({*found}) == len({*map(str, found)}) == len(found)
    for rechunk in ("recorded", "hostile"):
        answer = recording.playback(rechunk)
        assert all(fault(answer) != answer for fault in found)
