"""Recordings of event streams of AWS: their files, chunks, faults and playback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.bedrock.chunks import EVENTS, chunk, exception, invoked

from streamnorm import Completed, Failed, MessageStart, Outcome, TextDelta, Truncated
from streamnorm.codec import EVENTSTREAM, INVOKE_CHUNKS, SSE, decoder
from streamnorm.eventstream import encode_message
from streamnorm.recording import (
    RecordedResponse,
    Recording,
    RecordingError,
    UnrecordedRequest,
    faults,
)
from streamnorm.recording.faults import Fault
from streamnorm.recording.format import Companion, Playback, RecordedRead, WireRequest
from streamnorm.recording.library import Library
from streamnorm.recording.recorder import Recorder

MESSAGES = [chunk(event) for event in EVENTS]
BODY = b"".join(MESSAGES)
RESPONSE = RecordedResponse(body=".eventstream")


def recording(body: bytes = BODY, *reads: tuple[int, int], **fields: Any) -> Recording:
    fields = {"dialect": "anthropic", "framing": "invoke_chunks", "response": RESPONSE, **fields}
    return Recording(
        body, Companion(1, **fields), reads=[RecordedRead(*read) for read in reads] or None
    )


def read(playback: Playback) -> Outcome | None:
    reader = decoder(playback.dialect, framing=playback.framing)
    for step in playback.steps:
        if step.stall_s:
            reader.abort(TimeoutError())
            return reader.outcome
        reader.feed(step.data)
    if playback.end == "reset":
        reader.abort(ConnectionResetError())
    else:
        reader.close()
    return reader.outcome


def write(path: Path, **companion: Any) -> Path:
    path.write_bytes(BODY)
    if companion:
        fields = {"streamnorm_recording": 1, "response": {"body": ".eventstream"}, **companion}
        path.with_suffix(".json").write_text(json.dumps(fields))
    return path


def test_recording_of_an_event_stream_is_saved_and_loaded(tmp_path: Path) -> None:
    recording(BODY, (3, 10), (4, len(BODY) - 10)).save(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.eventstream", "a.json"]
    assert json.loads((tmp_path / "a.json").read_text())["framing"] == "invoke_chunks"
    for path in ("a.eventstream", "a.json", "a"):
        found = Recording.load(tmp_path / path)
        assert (found.body, found.framing, found.is_stream) == (BODY, INVOKE_CHUNKS, True)
        assert found.reads == [RecordedRead(3, 10), RecordedRead(4, len(BODY) - 10)]
    texts = [event.text for event in found.events() if isinstance(event, TextDelta)]
    assert texts == ["It snows."]
    assert isinstance(found.outcome, Completed)


def test_framing_of_the_dialect_is_not_written(tmp_path: Path) -> None:
    Recording(b"data: {}\n\n", Companion(1, "anthropic", "sse")).save(tmp_path / "a")
    assert "framing" not in (tmp_path / "a.json").read_text()
    assert Recording.load(tmp_path / "a.sse").framing is SSE


def test_dialect_in_the_chunks_is_detected() -> None:
    found = recording(dialect=None)
    assert isinstance(found.events()[0], MessageStart)


@pytest.mark.parametrize(
    ("companion", "told"),
    [
        ({}, "an event stream alone, expected NAME.json with framing or dialect"),
        (
            {"server": "bedrock"},
            "an event stream alone, expected NAME.json with framing or dialect",
        ),
        ({"dialect": "anthropic"}, "framing sse of a body .eventstream, expected .sse"),
        ({"framing": "sse"}, "framing sse of a body .eventstream, expected .sse"),
        (
            {"framing": "invoke_chunk"},
            "framing 'invoke_chunk', expected one of sse, invoke_chunks, eventstream, ws_message"
            "; did you mean invoke_chunks?",
        ),
    ],
)
def test_event_stream_without_its_framing_is_refused(
    tmp_path: Path, companion: dict[str, Any], told: str
) -> None:
    path = write(tmp_path / "a.eventstream", **companion)
    with pytest.raises(RecordingError) as caught:
        Recording.load(path)
    named = path.with_suffix(".json") if companion else path
    assert str(caught.value) == f"{named}: {told}"


def test_lines_in_the_framing_of_messages_are_refused() -> None:
    with pytest.raises(RecordingError, match=r"invoke_chunks of a body \.sse, expected \.event"):
        recording(response=RecordedResponse())


def test_error_response_has_any_framing() -> None:
    found = recording(b'{"message":"slow"}', response=RecordedResponse(429, body=".body.json"))
    assert not found.is_stream
    assert found.playback().headers == {"content-type": "application/json"}


def test_chunks_are_messages_if_no_reads_were_recorded() -> None:
    assert recording().chunks() == recording().chunks("event") == MESSAGES
    reads = [(0, 5), (0, len(BODY) - 5)]
    assert recording(BODY, *reads).chunks() == [BODY[:5], BODY[5:]]
    assert recording(BODY, *reads).chunks("event") == MESSAGES


def test_hostile_chunks_are_cut_within_each_message() -> None:
    ends = [sum(map(len, recording().chunks("hostile")[: n + 1])) for n in range(200)]
    first = len(MESSAGES[0])
    assert {2, 8, 10, 12, first - 4, first - 2, first, first + 2} < {*ends}


@pytest.mark.parametrize("how", ["recorded", "event", "byte", "hostile", "random:3", 7])
def test_any_chunks_give_the_same_events(how: Any) -> None:
    reader = decoder("anthropic", framing=INVOKE_CHUNKS)
    events = [event for data in recording().chunks(how) for event in reader.feed(data)]
    assert events + reader.close() == recording().events()


def test_playback_has_the_media_type_and_the_framing() -> None:
    playback = recording().playback()
    assert playback.headers == {"content-type": "application/vnd.amazon.eventstream"}
    assert (playback.framing, playback.dialect) == (INVOKE_CHUNKS, "anthropic")


# Recording


MODEL = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Ainference-profile%2Feu.anthropic.claude-3"
HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"
URL = f"{HOST}/model/{MODEL}/invoke-with-response-stream"
ASKED = b'{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[]}'
EVENTS_TYPE = ("Content-Type", "application/vnd.amazon.eventstream")


def test_stream_of_invoke_is_recorded_in_its_framing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    writer = recorder.start(WireRequest("POST", URL, (), ASKED))
    writer.begin(200, [EVENTS_TYPE, ("X-Amzn-Bedrock-Content-Type", "application/json")])
    writer.write(BODY[:7])
    writer.write(BODY[7:])
    writer.end("eof")
    (path,) = tmp_path.glob("*.eventstream")
    assert path.name.startswith("01-")
    assert path.read_bytes() == BODY
    fields = json.loads(path.with_suffix(".json").read_text())
    assert (fields["dialect"], fields["framing"]) == ("anthropic", "invoke_chunks")
    assert (fields["server"], fields["request"]["url"]) == ("bedrock", URL)
    assert fields["response"] == {
        "status": 200,
        "headers": {
            "content-type": "application/vnd.amazon.eventstream",
            "x-amzn-bedrock-content-type": "application/json",
        },
        "body": ".eventstream",
        "end": "eof",
    }
    assert [line.partition(" ")[2] for line in fields["chunks"]] == ["7", str(len(BODY) - 7)]
    assert Recording.load(path).events() == recording().events()
    playback = Library(tmp_path).respond(WireRequest("POST", URL, (), ASKED))
    assert (playback.body, playback.framing) == (BODY, INVOKE_CHUNKS)


@pytest.mark.parametrize(
    ("path", "kind", "suffix", "framing"),
    [
        (f"/model/{MODEL}/invoke-with-response-stream", None, ".eventstream", "invoke_chunks"),
        (f"/model/{MODEL}/invoke-with-response-stream", "text/event-stream", ".sse", None),
        (f"/model/{MODEL}/invoke-with-response-stream", "application/json", ".body.json", None),
        (f"/model/{MODEL}/invoke", "application/json", ".body.json", None),
        # A service of AWS that is none of a known dialect.
        ("/agents/a/text", "application/vnd.amazon.eventstream", ".body.bin", None),
        ("/v1/messages", "application/vnd.amazon.eventstream", ".body.bin", None),
    ],
)
def test_framing_is_that_of_route_and_content_type(
    tmp_path: Path, path: str, kind: str | None, suffix: str, framing: str | None
) -> None:
    writer = Recorder(tmp_path).start(WireRequest("POST", HOST + path, (), ASKED))
    writer.begin(200, [] if kind is None else [("content-type", kind)])
    writer.write(b"{}")
    writer.end("eof")
    (body,) = (each for each in tmp_path.iterdir() if each.read_bytes() == b"{}")
    assert body.name.endswith(suffix)
    fields = json.loads(body.with_name(body.name.removesuffix(suffix) + ".json").read_text())
    assert (fields["response"]["body"], fields.get("framing")) == (suffix, framing)
    assert Recording.load(body).body == b"{}"


def test_secret_of_a_request_is_replaced_in_chunks(tmp_path: Path) -> None:
    key = "Zq7KwE9TmX2vBn4RsL8"
    event = {"type": "ping", "text": f"no such key: {key}"}
    body = BODY + chunk(event)
    recorder = Recorder(tmp_path)
    writer = recorder.start(WireRequest("POST", URL, (("x-api-key", key),), ASKED))
    writer.begin(200, [EVENTS_TYPE])
    for at in range(0, len(body), 50):
        writer.write(body[at : at + 50])
    writer.end("eof")
    (path,) = tmp_path.glob("*.eventstream")
    found = Recording.load(path)
    assert invoked(found.body).events[-1]["text"] == f"no such key: {'x' * len(key)}"
    assert (found.redacted, found.body[: len(BODY)]) == (1, BODY)
    assert found.reads is not None
    assert found.reads[0].size == 50


CONVERSED = b"".join(
    encode_message(
        {":event-type": name, ":content-type": "application/json", ":message-type": "event"},
        json.dumps(fields).encode(),
    )
    for name, fields in (
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "It snows."}}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}),
    )
)


def test_dialect_with_a_framing_of_its_own_needs_no_name(tmp_path: Path) -> None:
    writer = Recorder(tmp_path).start(
        WireRequest("POST", f"{HOST}/model/{MODEL}/converse-stream", (), b"{}")
    )
    writer.begin(200, [EVENTS_TYPE])
    writer.write(CONVERSED)
    writer.end("eof")
    (path,) = tmp_path.glob("*.eventstream")
    fields = json.loads(path.with_suffix(".json").read_text())
    assert (fields["dialect"], "framing" in fields) == ("bedrock_converse", False)
    found = Recording.load(path)
    assert found.framing is EVENTSTREAM
    assert found.message().text == "It snows."
    faulty = faults.error_event(event=2)(found.playback())
    outcome = read(faulty)
    assert isinstance(outcome, Failed)
    # The status of an overloaded Bedrock, as of its error responses, is 429.
    assert (outcome.error.kind, outcome.error.code) == ("upstream", "throttlingException")
    assert (outcome.error.status_hint, outcome.error.retryable) == (429, True)
    assert read(faults.drop_terminal()(found.playback())) != found.outcome


def test_recording_without_a_request_answers_in_its_framing_alone(tmp_path: Path) -> None:
    recording().save(tmp_path / "a")
    vendor = WireRequest("POST", "https://a.example/v1/messages", (), ASKED)
    library = Library(tmp_path / "a.eventstream", drift="ignore")
    with pytest.raises(UnrecordedRequest, match="none of this endpoint"):
        library.respond(vendor)
    assert library.respond(WireRequest("POST", URL, (), ASKED)).body == BODY
    assert library.respond(WireRequest("POST", f"{HOST}/elsewhere", (), ASKED)).body == BODY
    Recording(b"data: {}\n\n", Companion(1)).save(tmp_path / "b")
    library = Library(tmp_path / "b.sse", drift="ignore")
    assert library.respond(vendor).body == b"data: {}\n\n"
    with pytest.raises(UnrecordedRequest, match="none of this endpoint"):
        library.respond(WireRequest("POST", URL, (), ASKED))


# Faults


def after(fault: Fault, body: bytes = BODY) -> Playback:
    return fault(recording(body).playback())


def test_positions_count_messages() -> None:
    assert after(faults.truncate(event=1)).body == MESSAGES[0]
    assert after(faults.cut(event=-1)).body == b"".join(MESSAGES[:-1])
    when = faults.cut(when=lambda frame: frame.event == "content_block_delta")
    assert after(when).body == b"".join(MESSAGES[:2])


def test_dropped_repeated_and_exchanged_messages() -> None:
    one, two, three, *rest = MESSAGES
    assert after(faults.drop(event=1)).body == b"".join([one, three, *rest])
    assert after(faults.duplicate(event=1)).body == b"".join([one, two, two, three, *rest])
    assert after(faults.duplicate(event=-1)).body == BODY + MESSAGES[-1]
    assert after(faults.reorder(event=1)).body == b"".join([one, three, two, *rest])
    assert after(faults.drop(byte=len(one))).body == b"".join([one, three, *rest])


def test_missing_terminal_is_the_last_event() -> None:
    assert after(faults.drop_terminal()).body == b"".join(MESSAGES[:-1])


def test_error_event_is_an_exception_behind_a_whole_message() -> None:
    for fault in (faults.error_event(event=2), faults.error_event(byte=len(MESSAGES[0]) + 99)):
        faulty = after(fault)
        before = 2 if "event=" in str(fault) else 1
        assert faulty.body.startswith(b"".join(MESSAGES[:before]))
        found = invoked(faulty.body)
        assert len(found.payloads) == before
        text = "overloaded, injected as a fault"
        assert found.exceptions == [("throttlingException", {"message": text})]
        outcome = read(faulty)
        assert isinstance(outcome, Failed)
        assert (outcome.error.kind, outcome.error.status_hint) == ("upstream", 429)


def test_exception_is_an_event_of_its_type() -> None:
    body = MESSAGES[0] + exception("throttlingException", message="slow")
    when = faults.truncate(when=lambda frame: frame.event == "throttlingException")
    assert after(when, body).body == MESSAGES[0]


def test_half_a_message_is_no_event() -> None:
    with pytest.raises(ValueError, match=r"^drop\(event=1\): body of 1 events$"):
        after(faults.drop(event=1), MESSAGES[0] + MESSAGES[1][:-1])
    faulty = after(faults.error_event(byte=len(MESSAGES[0]) + 50), MESSAGES[0] + MESSAGES[1][:-1])
    assert faulty.body.startswith(MESSAGES[0])
    assert len(invoked(faulty.body).payloads) == 1


@pytest.mark.parametrize("fault", [faults.crlf(), faults.bom()], ids=str)
def test_faults_of_lines_do_not_fit(fault: Fault) -> None:
    with pytest.raises(ValueError, match=r"event stream in messages, expected lines"):
        after(fault)


def test_every_fault_fits_and_has_one_outcome() -> None:
    found = list(faults.every(recording()))
    kinds = {fault.name for fault in found}
    assert kinds == {
        *("slow_first_byte", "cut", "truncate", "stall", "garbage", "error_event"),
        *("drop_terminal", "drop", "duplicate", "reorder", "content_type", "http"),
    }
    for fault in found:
        for how in ("event", "hostile"):
            faulty = fault(recording().playback(how))
            assert faulty != recording().playback(how)
            outcome = read(faulty)
            match fault.name:
                case "cut" | "truncate" | "drop_terminal":
                    assert isinstance(outcome, Truncated), fault
                case "error_event":
                    assert isinstance(outcome, Failed), fault
                case "garbage":  # a clean end behind the terminal is one
                    assert isinstance(outcome, Failed), fault
                    assert outcome.error.kind == "malformed"
                case _:
                    assert outcome is not None, fault


def test_inside_of_a_message_is_broken() -> None:
    half = sum(map(len, MESSAGES[: len(MESSAGES) // 2]))
    found = {str(fault) for fault in faults.every(recording())}
    assert {f"cut(byte={half + 2})", f"cut(byte={half + 8})"} <= found
    assert f"cut(byte={half + len(MESSAGES[len(MESSAGES) // 2]) - 2})" in found
