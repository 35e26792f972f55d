"""The message level: frames, the JSON array, start, end and errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gemini.frames import BEGUN_ID, candidate, chunk, decode, frame, parts, text, thought

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Failed,
    Limits,
    LocalProtocolError,
    MessageStart,
    MessageStop,
    Note,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import decoder
from streamnorm.dialects.gemini.decode import GeminiDecoder
from streamnorm.validation import validate

BEGUN = MessageStart(BEGUN_ID, "gemini-1")
HELLO = [BlockStart(0, Text()), TextDelta(0, "Hello"), BlockStop(0)]
STOP = parts(finishReason="STOP")
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 4}


def test_text_stream_gives_its_message() -> None:
    first, last = {"promptTokenCount": 9}, COUNTS
    decoded = decode(
        chunk(candidate({"text": "Hel"}), usageMetadata=first),
        chunk(candidate({"text": "lo"}), usageMetadata=first),
        chunk(candidate({"text": "!"}), usageMetadata=last),
        chunk(candidate(finishReason="STOP"), usageMetadata=last),
    )
    assert decoded.events == [
        *(BEGUN, UsageUpdate(Usage(9)), BlockStart(0, Text()), TextDelta(0, "Hel")),
        *(TextDelta(0, "lo"), TextDelta(0, "!"), UsageUpdate(Usage(9, 4)), BlockStop(0)),
        MessageStop("end_turn", "STOP"),
    ]
    assert decoded.outcome == Completed("end_turn", Usage(9, 4))
    assert decoded.notes == ()


# The start


def test_unknown_fields_of_the_first_chunk_are_kept() -> None:
    said = {"createTime": "t", "modelStatus": {"a": 1}, "promptFeedback": {"safetyRatings": []}}
    events = decode(chunk(candidate({"text": "a"}), nothing=None, **said), STOP).events
    assert events[0] == MessageStart(BEGUN_ID, "gemini-1", said)
    assert events[-1] == MessageStop("end_turn", "STOP")


def test_unknown_fields_of_later_chunks_are_reported_at_the_end() -> None:
    events = decode(
        chunk(candidate({"text": "a"}), createTime="t", turnToken="v1"),
        chunk(candidate(finishReason="STOP", avgLogprobs=-1.5), createTime="t", turnToken="v2"),
    ).events
    assert events[0] == MessageStart(BEGUN_ID, "gemini-1", {"createTime": "t", "turnToken": "v1"})
    extra = {"avgLogprobs": -1.5, "turnToken": "v2"}
    assert events[-1] == MessageStop("end_turn", "STOP", extra=extra)


@pytest.mark.parametrize("payload", [{"candidates": None}, {"candidates": [1]}, {"responseId": 7}])
def test_empty_chunk_starts_a_message(payload: dict[str, Any]) -> None:
    end = frame({"candidates": [{"finishReason": "STOP"}]})
    assert decode(frame(payload), end).events == [
        MessageStart("", ""),
        MessageStop("end_turn", "STOP"),
    ]


@pytest.mark.parametrize("content", [None, {}, {"parts": None}, {"parts": [3]}, "x"])
def test_content_may_be_missing(content: object) -> None:
    empty = frame({"candidates": [{"content": content, "index": 0}]})
    events = decode(text("Hello"), empty, STOP).events
    assert events == [BEGUN, *HELLO, MessageStop("end_turn", "STOP")]


def test_first_usage_is_known_with_the_message_start() -> None:
    source = GeminiDecoder()
    source.feed(chunk(candidate({"text": "a"}), usageMetadata={"promptTokenCount": 9}))
    assert source.first_usage == Usage(9)
    silent = GeminiDecoder()
    silent.feed(text("a"))
    assert silent.first_usage is None


def test_chunk_is_read_within_a_response_envelope() -> None:
    """As Code Assist wraps it."""
    inner = {"candidates": [candidate({"text": "Hello"}, finishReason="STOP")], "responseId": "r"}
    assert decode(frame({"response": inner, "traceId": "t"})).events == [
        *(MessageStart("r", "", {"traceId": "t"}), *HELLO, MessageStop("end_turn", "STOP")),
    ]


# The end


def test_blocked_prompt_is_a_refusal() -> None:
    feedback = {"blockReason": "SAFETY", "safetyRatings": []}
    decoded = decode(frame({"promptFeedback": feedback, "usageMetadata": COUNTS}))
    assert decoded.events == [
        MessageStart("", "", {"promptFeedback": feedback}),
        UsageUpdate(Usage(9, 4)),
        MessageStop("refusal", "SAFETY"),
    ]
    assert decoded.outcome == Completed("refusal", Usage(9, 4))


def test_blocked_answer_is_a_refusal() -> None:
    blocked = frame({"promptFeedback": {"blockReason": "OTHER"}})
    assert decode(text("Hello"), blocked).events[1:] == [
        *HELLO,
        MessageStop("refusal", "OTHER", extra={"promptFeedback": {"blockReason": "OTHER"}}),
    ]


def test_stream_without_a_finish_reason_is_truncated() -> None:
    decoded = decode(text("Hello"))
    message = "connection lost: the stream ended before the message was complete, after 1 event"
    assert decoded.events[-1] == StreamError("truncated", message, retryable=True)
    assert isinstance(decoded.outcome, Truncated)
    assert isinstance(decode().outcome, Truncated)


def test_candidate_without_a_finish_reason_is_truncated() -> None:
    half = decode(text("a"), parts({"text": "b"}, index=1), STOP)
    assert isinstance(half.outcome, Truncated)


def test_stream_without_candidate_0_is_malformed() -> None:
    outcome = decode(parts({"text": "b"}, index=1, finishReason="STOP")).outcome
    assert outcome == Failed(StreamError("malformed", "candidate 1 alone, expected candidate 0"))


def test_last_chunk_may_lack_its_blank_line() -> None:
    for last in (text("lo", "STOP"), frame({"promptFeedback": {"blockReason": "OTHER"}})):
        for end in (2, 4):
            decoded = decode(text("Hel"), last[:-end])
            assert isinstance(decoded.outcome, Completed)
            assert decoded.outcome.lenient == ("unterminated",)
            assert decoded.notes == (Note("unterminated", "last frame"),)
    assert isinstance(decode(text("Hel"), text("lo", "STOP")[:-8]).outcome, Truncated)
    assert isinstance(decode(text("Hel"), text("lo")[:-2]).outcome, Truncated)
    late = chunk(usageMetadata=COUNTS)[:-2]
    assert isinstance(decode(text("Hel", "STOP"), late).outcome, Completed)
    assert isinstance(decode(text("Hel", "STOP"), text("lo")[:-2]).outcome, Truncated)
    assert isinstance(decode(text("Hel", "STOP"), b"dat").outcome, Truncated)


def test_done_ends_a_finished_stream() -> None:
    decoded = decode(text("Hello"), frame("[DONE]"), STOP, frame("[DONE]"), text("late"))
    assert decoded.events == [BEGUN, *HELLO, MessageStop("end_turn", "STOP")]
    assert decoded.notes == (Note("stray_done", "frame", 2),)
    assert isinstance(decode(text("Hello", "STOP"), b"data: [DONE]").outcome, Completed)


def test_done_without_its_blank_line_ends_a_finished_stream_alone() -> None:
    finished = decode(text("Hello", "STOP"), b"data: [DONE]")
    assert finished.outcome == Completed("end_turn", Usage())
    assert finished.notes == (Note("unterminated", "last frame"), Note("stray_done", "frame"))
    unfinished = decode(text("Hello"), b"data: [DONE]\n")
    assert isinstance(unfinished.outcome, Truncated)
    assert unfinished.notes == finished.notes


def test_last_chunk_of_code_assist_may_lack_its_blank_line() -> None:
    last = frame({"response": {"candidates": [candidate({"text": "a"}, finishReason="STOP")]}})
    assert decode(last[:-2]).outcome == Completed("end_turn", Usage(), ("unterminated",))
    assert decode(last).outcome == Completed("end_turn", Usage())


@pytest.mark.parametrize("finish", [1, "STOP"])
def test_finish_reason_without_its_blank_line_may_be_a_number(finish: object) -> None:
    outcome = decode(text("a"), parts(finishReason=finish)[:-2]).outcome
    assert isinstance(outcome, Completed)
    assert outcome.lenient == ("unterminated",)


@pytest.mark.parametrize("rest", [b"data: 5", b"data: []", b'data: {"news":1}', b": c", b""])
def test_stream_that_ends_in_another_frame_without_its_blank_line_is_cut(rest: bytes) -> None:
    cut = rest.startswith(b"data")
    assert isinstance(decode(text("a", "STOP"), rest).outcome, Truncated) is cut


def test_error_in_a_frame_without_its_blank_line_is_reported() -> None:
    assert decode(text("a"), frame(TOLD)[:-2]).events[-1] == BUSY


@pytest.mark.parametrize("rest", [b"", STOP[:-2]])
def test_error_printed_behind_the_last_finish_reason_fails_the_stream(rest: bytes) -> None:
    printed = json.dumps(TOLD, indent=2).encode() + b"\n"
    for source in (GeminiDecoder(), decoder("gemini")):
        source.feed(text("Hello", "STOP") + printed + rest)
        assert source.close() == [BUSY]
        assert source.error_outside_stream


def test_closed_decoder_refuses_bytes() -> None:
    source = GeminiDecoder()
    source.close()
    with pytest.raises(LocalProtocolError):
        source.feed(b"")


# Errors

TOLD: dict[str, Any] = {"error": {"code": 503, "message": "Busy", "status": "UNAVAILABLE"}}
BUSY = StreamError("upstream", "Busy", "UNAVAILABLE", 503, retryable=True)


@pytest.mark.parametrize(
    "error",
    [
        frame(TOLD),
        frame([TOLD]),
        b"event: error\n" + frame(TOLD),
        frame(json.dumps(TOLD, indent=1).replace("\n", "\ndata: ")),
        json.dumps(TOLD).encode() + b"\n",
        json.dumps(TOLD, indent=2).encode() + b"\n",
        json.dumps([TOLD], indent=2).encode(),
    ],
)
def test_error_is_read_in_every_shape(error: bytes) -> None:
    for before in ([], [text("a")], [text("a", "STOP")]):
        decoded = decode(*before, error)
        assert decoded.events[-1] == BUSY
        assert decoded.outcome == Failed(BUSY)


def test_error_beside_a_candidate_follows_its_events() -> None:
    events = decode(chunk(candidate({"text": "a"}), **TOLD), STOP).events
    assert events == [BEGUN, BlockStart(0, Text()), TextDelta(0, "a"), BUSY]
    events = decode(text("b"), chunk(candidate({"text": "a"}), **TOLD), STOP).events
    assert events[-2:] == [TextDelta(0, "a"), BUSY]


def test_failed_finish_is_an_error_after_the_usage() -> None:
    word = "MALFORMED_FUNCTION_CALL"
    failed = candidate({"text": "b"}, finishReason=word, finishMessage="no call")
    decoded = decode(text("a"), chunk(failed, usageMetadata=COUNTS), STOP)
    assert decoded.events[-3:] == [
        *(TextDelta(0, "b"), UsageUpdate(Usage(9, 4)), StreamError("upstream", "no call", word)),
    ]


@pytest.mark.parametrize("data", ["{", '{"candidates":', "x", "12x", '{"a":\x01"'])
def test_frame_that_is_no_json_is_malformed(data: str) -> None:
    outcome = decode(text("a"), frame(data), STOP).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.kind == "malformed"


@pytest.mark.parametrize("data", ['{"novelty":1}', "7", '"x"', "null"])
def test_frame_that_is_no_chunk_is_opaque(data: str) -> None:
    events = decode(frame(data), text("Hello"), STOP).events
    assert events[:2] == [Opaque("gemini", "frame", data), BEGUN]


def test_frame_with_another_event_name_is_opaque() -> None:
    events = decode(b"event: ping\ndata: x\n\n", text("Hello"), STOP).events
    assert events[0] == Opaque("gemini", "ping", '"x"')


def test_empty_frame_gives_no_event() -> None:
    events = decode(frame("{}"), frame(" "), frame("[]"), text("Hello"), STOP).events
    assert events == [BEGUN, *HELLO, MessageStop("end_turn", "STOP")]


def test_joined_chunks_are_read_one_by_one() -> None:
    joined = text("Hel")[:-2] + text("lo")
    decoded = decode(joined, STOP)
    assert [e.text for e in decoded.events if isinstance(e, TextDelta)] == ["Hel", "lo"]
    assert decoded.notes == (Note("joined_frames", "frame"),)


def test_chunk_joined_behind_the_end_is_ignored() -> None:
    joined = STOP[:-2] + frame("[DONE]")[:-2] + text("late")
    decoded = decode(text("a"), joined)
    assert [e.text for e in decoded.events if isinstance(e, TextDelta)] == ["a"]
    assert isinstance(decoded.outcome, Completed)


@pytest.mark.parametrize("body", [b'{"candidates":[]}', b"<html>"])
def test_body_that_is_no_stream_is_not_read(body: bytes) -> None:
    outcome = decode(body).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.error.kind, outcome.error.code) == ("malformed", "not_a_stream")


@pytest.mark.parametrize(
    ("frames", "limits", "code"),
    [
        ([chunk()], Limits(max_id_chars=5), "max_id_chars"),
        ([parts(index=0), parts(index=1)], Limits(max_choices=1), "max_choices"),
        ([text("a"), text("b" * 99)], Limits(max_event_bytes=150), "max_event_bytes"),
        ([frame({"usageMetadata": [[[[]]]]})], Limits(max_json_depth=3), "max_json_depth"),
        (
            [parts({"text": "a"}, **{f"novelty{n}": n}) for n in range(9)],
            Limits(max_accumulated_bytes=9 * (8 + 50) - 1),
            "max_accumulated_bytes",
        ),
    ],
)
def test_bound_that_is_passed_is_an_error(frames: list[bytes], limits: Limits, code: str) -> None:
    outcome = decode(*frames, STOP, limits=limits).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.error.kind, outcome.error.code) == ("too_large", code)


# The array


def array(*frames: bytes, indent: int | None = 2) -> bytes:
    payloads = [json.loads(data[6:]) for data in frames]
    return json.dumps(payloads, indent=indent).encode()


@pytest.mark.parametrize("start", [b"", b"\n ", b"\xef\xbb\xbf"])
def test_array_is_read_as_the_stream(start: bytes) -> None:
    stream = [thought("Hm"), text("Hello"), STOP]
    assert decode(start + array(*stream)) == decode(*stream)


def test_element_of_an_array_is_decoded_when_it_ends() -> None:
    source = GeminiDecoder()
    body = array(text("Hello"), STOP, indent=None)
    end = body.index(b"gemini-1") + len('gemini-1"}')
    assert source.feed(body[: end - 1]) == []
    assert source.feed(body[end - 1 : end]) == [BEGUN, *HELLO[:2]]


def test_array_that_is_cut_is_truncated() -> None:
    body = array(text("Hello", "STOP"))
    for end in range(1, len(body)):
        assert isinstance(decode(body[:end]).outcome, Truncated | Failed)


def test_array_of_all_its_elements_that_is_not_closed_is_truncated() -> None:
    whole = array(text("Hello", "STOP"), indent=None)
    assert decode(whole).outcome == Completed("end_turn", Usage())
    message = "connection lost: the stream ended before the message was complete, after 1 event"
    for rest in (b"", b",", b", 5", b', {"candidates":', b', {"error":{"message":"no"}'):
        decoded = decode(whole[:-1] + rest)
        assert decoded.events[:-1] == [BEGUN, *HELLO[:2]]
        assert decoded.events[-1] == StreamError("truncated", message, retryable=True)


def test_element_of_an_array_is_bounded() -> None:
    outcome = decode(array(text("a" * 200)), limits=Limits(max_event_bytes=150)).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "max_event_bytes"


# Any bytes

PIECES = [
    *(text("a"), thought("b"), text("", thoughtSignature="QQ=="), text("\ud83d"), STOP),
    parts({"functionCall": {"name": "f", "willContinue": True}}),
    parts({"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}}),
    parts({"executableCode": {"code": "1"}}, {"codeExecutionResult": {}}),
    parts({"text": "a"}, groundingMetadata={"groundingSupports": [{}], "groundingChunks": [{}]}),
    *(frame("[DONE]"), frame("{"), frame(TOLD), b"{\n", b"]", b"[", b"data", b"\xff\r\n", b": x\n"),
    parts({"text": "b"}, index=1),
]


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=8), st.integers(1, 50))
def test_any_bytes_give_legal_events_whatever_the_chunks(pieces: list[bytes], size: int) -> None:
    body = b"".join(pieces)
    whole, cut = GeminiDecoder(), GeminiDecoder()
    events = whole.feed(body) + whole.close()
    again = [e for at in range(0, len(body), size) for e in cut.feed(body[at : at + size])]
    assert again + cut.close() == events
    assert validate(events) == []
    assert whole.outcome == cut.outcome
    assert sum(isinstance(event, StreamError) for event in events) <= 1
