"""A dialect that is added from outside with one record and one registration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from msgspec import structs
from support.draws import Draws, draws
from support.example_dialect.dialect import TELEGRAPH, frame
from support.example_dialect.registration import registered
from support.recording.outcomes import outcome
from support.streams.content import (
    DIALECTS,
    content_of,
    decode,
    encode,
    expected_outcome,
    overlaps,
    transcode,
)
from support.streams.event_strategies import event_streams
from support.streams.mutations import chunked, cut_anywhere, damaged

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Failed,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    ServerToolCall,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
    Truncated,
    UnknownDialect,
    Usage,
    UsageUpdate,
    accumulate,
    detect,
    project,
)
from streamnorm._registry import DIALECTS as REGISTERED
from streamnorm._registry import checker, register
from streamnorm.codec import decoder, encoder
from streamnorm.http.urls import detect_url, server_of
from streamnorm.recording import Recording, faults
from streamnorm.recording.format import Companion
from streamnorm.sse import Frame
from streamnorm.testing import FakeProvider, tool_call
from streamnorm.transports.httpx import RecordingTransport, ReplayTransport
from streamnorm.validation import Violation, validate

URL = "https://wires.example-telegraph.net/telegraph/fast-1/send"
FRAMES = [
    frame("open", id="t1", model="fast-1"),
    frame("start", block=0, kind="text"),
    frame("more", block=0, text="Hello "),
    frame("more", block=0, text="\u00e9"),
    frame("stop", block=0),
    frame("start", block=1, kind="call", id="c", name="f"),
    frame("more", block=1, text='{"a":1}'),
    frame("stop", block=1),
    frame("end", reason="tool_use", tokens={"in": 3, "out": 2}),
]
BODY = b"".join(FRAMES)
EVENTS: list[Event] = [
    MessageStart("t1", "fast-1"),
    BlockStart(0, Text()),
    TextDelta(0, "Hello "),
    TextDelta(0, "\u00e9"),
    BlockStop(0),
    BlockStart(1, ToolCall("c", "f")),
    JSONDelta(1, '{"a":1}'),
    BlockStop(1),
    UsageUpdate(Usage(3, 2)),
    MessageStop("tool_use", "tool_use"),
]


@pytest.fixture(autouse=True, scope="module")
def telegraph() -> Iterator[None]:
    with registered(TELEGRAPH):
        yield
    assert "telegraph" not in REGISTERED
    with pytest.raises(UnknownDialect, match="no dialect 'wire'"):
        decoder("wire")


def test_registered_name_is_refused() -> None:
    for names in ({"name": "claude"}, {"name": "morse", "aliases": ("chat",)}):
        with pytest.raises(ValueError, match="is taken by dialect"):
            register(structs.replace(TELEGRAPH, **names))


def test_stream_is_decoded_detected_and_accumulated() -> None:
    assert detect(Frame("message", '{"telegraph":"open"}')) == "telegraph"
    for name in ("telegraph", "wire", None):
        decoded = decode([BODY], name)
        assert decoded.events == EVENTS
        assert decoded.outcome == Completed("tool_use", Usage(3, 2))
    assert accumulate(EVENTS).tool_calls[0].arguments == '{"a":1}'


def test_stream_is_encoded_and_checked() -> None:
    assert encode(EVENTS, "telegraph") == (BODY, ())
    assert validate(BODY, "wire") == []
    assert validate(FRAMES[0], "telegraph") == [Violation(1, "stream without end, expected one")]


def test_stream_passes_unchanged_to_its_own_dialect() -> None:
    transcoder = Transcoder("telegraph", "wire")
    assert b"".join([*transcoder.feed(BODY), *transcoder.close()]) == BODY


def test_missing_part_of_a_record_names_the_dialects_that_have_it() -> None:
    bare = structs.replace(
        TELEGRAPH, name="bare", aliases=(), encoder=None, checker=None, capabilities=None
    )
    written = (
        "openai_responses, anthropic, openai_chat, gemini, gemini_interactions, bedrock_converse,"
        " ui_message_stream, ag_ui"
    )
    with registered(bare):
        assert decode([BODY], "bare").events == EVENTS
        for part, make, known in (
            ("encoder", lambda: encoder("bare"), written),
            ("checker", lambda: checker("bare"), written),
            ("capabilities", lambda: project(EVENTS, "bare"), written),
        ):
            with pytest.raises(
                UnknownDialect,
                match=rf"^no {part} of dialect 'bare', expected one of {known}, telegraph$",
            ):
                make()
        playback = Recording(BODY, Companion(1, "bare")).playback()
        with pytest.raises(UnknownDialect, match="no encoder of dialect 'bare'"):
            faults.error_event(event=1)(playback)
        for fault in faults.every(Recording(BODY, Companion(1, "bare"))):
            fault(playback)


# Laws


@given(draws(500))
def test_cuts_change_nothing_and_any_bytes_give_legal_events(d: Draws) -> None:
    body = damaged(d, BODY) if d.flag() else BODY
    whole = decode([body], "telegraph")
    assert decode(cut_anywhere(d, body), "telegraph") == whole
    assert validate(whole.events) == []
    failures = [n for n, event in enumerate(whole.events) if isinstance(event, StreamError)]
    assert failures in ([], [len(whole.events) - 1])
    assert isinstance(whole.outcome, Failed | Truncated if failures else Completed)


@pytest.mark.parametrize("target", [*DIALECTS, "telegraph"])
def test_chunking_does_not_change_the_output(target: str) -> None:
    whole, run = transcode([BODY], "telegraph", target)
    for size in (1, 7, 64):
        out, other = transcode(chunked(BODY, size), "telegraph", target)
        assert out == whole
        assert (other.outcome, other.message) == (run.outcome, run.message)


@given(event_streams(2, calls_only=True))
def test_encoded_events_decode_to_the_projected_ones(events: list[Event]) -> None:
    passed, losses = project(events, "telegraph")
    out, counted = encode(events, "telegraph")
    assert counted == losses
    back = decode([out], "telegraph").events
    assert content_of(back, "telegraph") == content_of(passed, "telegraph")


@pytest.mark.parametrize("source", DIALECTS)
@given(events=event_streams(calls_only=True))
def test_transcoding_commutes_with_projection(source: str, events: list[Event]) -> None:
    body, _ = encode(events, source)
    decoded = decode([body], source)
    out, transcoder = transcode([body], source, "telegraph")
    passed, losses = project(decoded.events, "telegraph")
    assert transcoder.outcome == expected_outcome(decoded.outcome, passed)
    assert set(transcoder.losses) == set(losses)
    if not overlaps(decoded.events, (ToolCall, ServerToolCall)):
        back = decode([out], "telegraph").events
        assert content_of(back, "telegraph") == content_of(passed, "telegraph")


def test_no_prefix_completes_before_its_terminal() -> None:
    for size in range(len(BODY) - 2):
        got = decode([BODY[:size]], "telegraph")
        assert not isinstance(got.outcome, Completed), size
        assert validate(got.events) == []


def test_unknown_event_is_opaque_and_written_back() -> None:
    body = FRAMES[0] + frame("weather", sky="grey") + BODY[len(FRAMES[0]) :]
    opaque = Opaque("telegraph", "weather", '{"telegraph":"weather","sky":"grey"}')
    assert decode([body], "telegraph").events[1] == opaque
    assert transcode([body], "telegraph", "telegraph")[0] == body
    assert project([EVENTS[0], opaque], "anthropic")[1] == (
        Loss("opaque", "telegraph weather", 1, "dropped"),
    )


# Faults, fake provider, recording and replay


def test_faults_write_errors_and_find_the_terminal() -> None:
    for dialect in ("telegraph", None):
        playback = Recording(BODY, Companion(1, dialect)).playback()
        assert faults.drop_terminal()(playback).body == b"".join(FRAMES[:-1])
        assert faults.http(429)(playback).body == (
            b'{"telegraph":"fault","message":"status 429, injected as a fault"}'
        )
        overloaded = faults.error_event(event=2)(playback)
        assert overloaded.body == b"".join(FRAMES[:2]) + frame(
            "fault", message="overloaded, injected as a fault", status=598
        )
    breaks = {"cut", "truncate", "error_event", "drop_terminal"}
    found = [fault for fault in faults.every(Recording(BODY)) if fault.name in breaks]
    assert len(found) >= 8
    for fault in found:
        assert not isinstance(outcome(fault(playback)), Completed), fault
    assert faults.http(598) in list(faults.every(Recording(BODY)))


def send(transport: httpx.BaseTransport, body: Any) -> bytes:
    with httpx.Client(transport=transport) as client:
        return client.post(URL, json=body, headers={"x-telegraph-key": "secret-key-1"}).read()


def test_fake_provider_answers_at_its_endpoint() -> None:
    provider = FakeProvider(["Hello", tool_call("f", a=1)])
    content_of = [decode([send(provider.transport("httpx"), {})], "telegraph") for _ in range(2)]
    assert [type(one.outcome) for one in content_of] == [Completed, Completed]
    first, second = (accumulate(one.events) for one in content_of)
    assert (first.text, first.model) == ("Hello", "fast-1")
    assert second.tool_calls[0].arguments == '{"a":1}'
    assert {request.dialect for request in provider.requests} == {"telegraph"}


def test_exchange_is_recorded_and_replayed(tmp_path: Path) -> None:
    assert (detect_url(URL), server_of(URL)) == ("telegraph", "western")
    upstream = FakeProvider("Hello").transport("httpx")
    body = send(RecordingTransport(upstream, tmp_path), {"say": "hello"})
    (path,) = tmp_path.rglob("*.sse")
    recording = Recording.load(path)
    assert (recording.dialect, recording.server) == ("telegraph", "western")
    assert isinstance(recording.outcome, Completed)
    assert b"secret-key-1" not in path.with_suffix(".json").read_bytes()
    assert send(ReplayTransport(tmp_path), {"say": "hello"}) == body
