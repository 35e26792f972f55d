"""Events of Anthropic in the chunks of `InvokeModelWithResponseStream`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bedrock.chunks import chunk, exception, invoked, of_sse, sse_of
from support.streams.content import DIALECTS, decode
from support.streams.corpus import each_recording_of, needs_corpus, recordings

from streamnorm import Completed, Event, Failed, Ping, StreamError, TextDelta, Transcoder, Truncated
from streamnorm.codec import INVOKE_CHUNKS, SSE, Framing, decoder
from streamnorm.eventstream import EventStreamDecoder, encode_message
from streamnorm.recording import Recording
from streamnorm.sse import SSEDecoder

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    },
}
BEGIN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
SNOW = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": "It snows."},
}
END = {"type": "content_block_stop", "index": 0}
STOP = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
    "usage": {"output_tokens": 3},
}
LAST = {
    "type": "message_stop",
    "amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 3},
}
WHOLE = (START, BEGIN, SNOW, END, STOP, LAST)
STREAM = b"".join(map(chunk, WHOLE))


def read(data: bytes, size: int | None = None) -> tuple[list[Event], Any]:
    reader = decoder("anthropic", framing=INVOKE_CHUNKS)
    step = size or len(data) or 1
    events = [e for at in range(0, len(data), step) for e in reader.feed(data[at : at + step])]
    events += reader.close()
    return events, reader.outcome


def failure(data: bytes) -> StreamError:
    events, outcome = read(data)
    assert isinstance(outcome, Failed)
    assert events[-1] == outcome.error
    return outcome.error


def run(
    data: bytes,
    dialect: str,
    to: str,
    size: int | None = None,
    *,
    framing: Framing = SSE,
    to_framing: Framing = SSE,
) -> tuple[bytes, Transcoder]:
    run = Transcoder(dialect, to, framing=framing, to_framing=to_framing)
    step = size or len(data) or 1
    out = [piece for at in range(0, len(data), step) for piece in run.feed(data[at : at + step])]
    return b"".join([*out, *run.close()]), run


def test_framing_shows_its_name() -> None:
    assert repr(INVOKE_CHUNKS) == "Framing('invoke_chunks')"


# Reading


@pytest.mark.parametrize("size", [None, 1, 64])
def test_events_are_those_of_the_same_stream_without_chunks(size: int | None) -> None:
    events, outcome = read(STREAM, size)
    assert events == decode([sse_of(WHOLE)], "anthropic").events
    assert TextDelta(0, "It snows.") in events
    assert isinstance(outcome, Completed)
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (7, 3)


def test_type_may_stand_behind_other_fields_and_lines() -> None:
    spelt = json.dumps(SNOW, indent=1, sort_keys=True).encode()
    whole = [chunk(START), chunk(BEGIN), chunk(spelt), chunk(END), chunk(STOP), chunk(LAST)]
    assert read(b"".join(whole))[0] == read(STREAM)[0]


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("throttlingException", {"message": "Slow down."}, (429, True)),
        ("validationException", {"Message": "Slow down."}, (400, False)),
        ("modelTimeoutException", {"message": "Slow down."}, (408, True)),
        ("internalServerException", {"message": "Slow down."}, (500, True)),
        ("serviceUnavailableException", {"message": "Slow down."}, (503, True)),
        ("modelStreamErrorException", {"message": "Slow down."}, (424, True)),
        (
            "modelStreamErrorException",
            {"message": "Slow down.", "originalStatusCode": 400},
            (400, False),
        ),
        *(
            (
                "modelStreamErrorException",
                {"message": "Slow down.", "originalStatusCode": original},
                expected,
            )
            for original, expected in (
                (7, (424, True)),
                (399, (424, True)),
                (408, (408, True)),
                (409, (409, True)),
                (410, (410, False)),
                (429, (429, True)),
                (499, (499, False)),
                (500, (500, True)),
                (599, (599, True)),
                (600, (424, True)),
            )
        ),
        ("newException", {"message": "Slow down."}, (None, None)),
    ],
)
def test_exception_ends_the_stream(
    kind: str, fields: dict[str, Any], expected: tuple[int | None, bool | None]
) -> None:
    events, _ = read(b"".join(map(chunk, (START, BEGIN, SNOW))) + exception(kind, **fields))
    assert TextDelta(0, "It snows.") in events  # what came before it
    error = events[-1]
    assert isinstance(error, StreamError)
    assert (error.kind, error.message, error.code) == ("upstream", "Slow down.", kind)
    assert (error.status_hint, error.retryable) == expected
    assert error.extra == (
        {"originalStatusCode": code} if (code := fields.get("originalStatusCode")) else None
    )


def test_error_message_ends_the_stream() -> None:
    headers = {":message-type": "error", ":error-code": "E1", ":error-message": "It broke."}
    error = failure(chunk(START) + encode_message(headers, b""))
    assert (error.kind, error.code, error.message) == ("upstream", "E1", "It broke.")
    error = failure(encode_message({":message-type": "error"}, b""))
    assert (error.code, error.message) == (None, "the server ended the stream")


def test_exception_without_words_is_named() -> None:
    assert failure(exception("throttlingException")).message == "throttlingException"
    assert failure(encode_message({":message-type": "exception"}, b"[")).message == "an exception"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (STREAM[:-1] + b"\x00", "bytes that do not match their checksum"),
        (encode_message({":message-type": "new"}, b""), "a message of type 'new'"),
        (encode_message({}, b""), "a message of type ''"),
        (
            encode_message({":message-type": "event", ":event-type": "new"}, b""),
            "an event 'new', expected chunk",
        ),
        (
            encode_message({":message-type": "event", ":event-type": "chunk"}, b'{"bytes":"?"}'),
            "a chunk that holds no event",
        ),
        (chunk(b"{"), "a chunk that holds no event"),
        (chunk(b"[]"), "a chunk that holds no event"),
    ],
)
def test_damaged_stream_is_malformed(data: bytes, problem: str) -> None:
    error = failure(data)
    assert error.kind == "malformed"
    assert error.message.startswith(problem)


@pytest.mark.parametrize(
    ("event", "family"),
    [
        ({"outputText": "a"}, "Amazon Titan"),
        ({"generation": "a"}, "Meta Llama"),
        ({"outputs": []}, "Mistral"),
        ({"index": 0, "text": "a", "is_finished": False}, "Cohere"),
        ({"completion": "a"}, "text completions"),
        ({"contentBlockDelta": {}}, "Amazon Nova"),
    ],
)
def test_stream_of_another_family_is_named(event: object, family: str) -> None:
    error = failure(chunk(event))
    assert (error.kind, error.code) == ("malformed", "not_a_stream")
    assert error.message.startswith(f"a stream of {family}, expected")


def test_chunks_of_chat_completions_are_read_as_such() -> None:
    delta = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi."}}]}
    reader = decoder("openai_chat", framing=INVOKE_CHUNKS)
    assert TextDelta(0, "Hi.") in reader.feed(chunk(delta))


@pytest.mark.parametrize("kept", range(len(WHOLE)))
@pytest.mark.parametrize("rest", [0, 20])
def test_cut_stream_is_truncated(kept: int, rest: int) -> None:
    """Also half a message, which botocore drops in silence."""
    data = b"".join(map(chunk, WHOLE[:kept])) + chunk(WHOLE[kept])[:rest]
    outcome = read(data)[1]
    assert isinstance(outcome, Truncated), outcome


def test_bytes_of_half_a_message_are_counted() -> None:
    reader = decoder("anthropic", framing=INVOKE_CHUNKS)
    reader.feed(chunk(START) + chunk(BEGIN)[:21])
    assert (reader.frames, reader.unfinished_bytes) == (1, 21)


def test_what_follows_the_end_is_not_read() -> None:
    events, outcome = read(STREAM + exception("throttlingException") + b"\x00" * 20)
    assert events == read(STREAM)[0]
    assert isinstance(outcome, Completed)


@given(st.integers(0, len(STREAM) - 1), st.binary(max_size=30), st.integers(1, 99))
def test_any_bytes_end_in_one_outcome_in_any_chunks(at: int, noise: bytes, size: int) -> None:
    data = STREAM[:at] + noise + STREAM[at:]
    events, outcome = read(data)
    assert read(data, size) == (events, outcome)
    assert outcome is not None
    assert sum(isinstance(event, StreamError) for event in events) <= 1


@given(st.lists(st.binary(max_size=40).map(chunk), max_size=4))
def test_any_event_in_a_chunk_is_read_or_an_error(chunks: list[bytes]) -> None:
    assert read(chunk(START) + b"".join(chunks))[1] is not None


# Passing on


@pytest.mark.parametrize("size", [None, 1, 64])
@pytest.mark.parametrize(
    "data",
    [
        STREAM,
        b"".join(map(chunk, (START, BEGIN, SNOW))) + exception("throttlingException", message="m"),
    ],
)
def test_messages_pass_byte_for_byte(data: bytes, size: int | None) -> None:
    out, _ = run(
        data, "anthropic", "anthropic", size, framing=INVOKE_CHUNKS, to_framing=INVOKE_CHUNKS
    )
    assert out == data


def pass_messages(
    messages: list[bytes], to_framing: Framing, dialect: str | None = "anthropic"
) -> tuple[list[bytes], Transcoder]:
    """Return what passes of each message, read one at a time, and of the end."""
    run = Transcoder(dialect, "anthropic", framing=INVOKE_CHUNKS, to_framing=to_framing)
    out = [b"".join(run.feed(message)) for message in messages]
    return [*out, b"".join(run.close())], run


def message_of(payload: bytes) -> bytes:
    (read,) = EventStreamDecoder().feed(chunk(SNOW))
    return encode_message({name: str(value) for name, value in read.headers.items()}, payload)


def chunk_payload(event: object) -> bytes:
    (read,) = EventStreamDecoder().feed(chunk(event))
    return read.payload


# An event of another type that is as long as the deltas.
OTHER = {**SNOW, "type": "content_block_other"}
DELTAS = [chunk(event) for event in (START, BEGIN, *[SNOW] * 9, END, STOP, LAST)]


def test_each_message_passes_at_once() -> None:
    assert pass_messages(DELTAS, INVOKE_CHUNKS)[0] == [*DELTAS, b""]


def test_messages_before_the_dialect_is_known_pass() -> None:
    unknown = chunk({"type": "overture"})
    out, run = pass_messages([unknown, *DELTAS], INVOKE_CHUNKS, None)
    assert out == [b"", unknown + DELTAS[0], *DELTAS[1:], b""]
    assert isinstance(run.outcome, Completed)


def test_each_message_passes_as_an_event() -> None:
    *out, end = pass_messages(DELTAS, SSE)[0]
    events = [SSEDecoder().feed(data) for data in out]
    assert [[json.loads(frame.data) for frame in read] for read in events] == [
        [event] for event in (START, BEGIN, *[SNOW] * 9, END, STOP, LAST)
    ]
    assert end == b""


def test_event_of_another_type_among_deltas_is_one_of_its_own() -> None:
    messages = [*DELTAS[:6], chunk(OTHER), *DELTAS[6:]]
    assert len(chunk(OTHER)) == len(DELTAS[5])
    out, run = pass_messages(messages, SSE)
    assert out[6].startswith(b"event: content_block_other\n")
    assert run.message.text == "It snows." * 9


def test_line_ends_between_the_values_of_an_event_are_no_line_ends() -> None:
    text = json.dumps(SNOW, indent=1).encode().replace(b"\n", b"\r\n")
    data = [chunk(START), chunk(BEGIN), chunk(SNOW), chunk(b"\n" + text), *DELTAS[-3:]]
    out, run = pass_messages(data, SSE)
    assert run.message.text == "It snows." * 2
    assert json.loads(out[3].removeprefix(b"event: content_block_delta\ndata: ")) == SNOW
    assert out[3].count(b"\n") == 3


@pytest.mark.parametrize(
    "broken",
    [
        chunk(b"{"),
        # As long as the messages before.
        message_of(chunk_payload(SNOW).replace(b'{"bytes"', b'["bytes"')),
        chunk(json.dumps(SNOW, separators=(",", ":")).encode()[:-1] + b"]"),
        chunk(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}'),
        message_of(b'{"bytes":"!"}'),
    ],
)
@pytest.mark.parametrize("behind", [b"", DELTAS[-1]])
@pytest.mark.parametrize("to_framing", [INVOKE_CHUNKS, SSE])
def test_broken_event_after_deltas_is_malformed(
    broken: bytes, behind: bytes, to_framing: Framing
) -> None:
    """It may be a read of its own, and never passes."""
    messages = [*DELTAS[:6], *[broken] * 2, behind]
    out, run = pass_messages(messages, to_framing)
    if to_framing is SSE:
        (frame,) = SSEDecoder().feed(b"".join(out[6:]))
        assert frame.event == "error"
        return
    assert out[:6] == DELTAS[:6]
    assert [kind for kind, _ in invoked(b"".join(out[6:])).exceptions] == [
        "modelStreamErrorException"
    ]
    assert invoked(b"".join(out[6:])).events == []
    assert isinstance(run.outcome, Failed)


@pytest.mark.parametrize("extra", [{"x": 1}, "q", None])
def test_fields_that_an_upstream_adds_are_no_counts(extra: object) -> None:
    """Metrics are counted from the events' own fields."""
    sse = sse_of([START, BEGIN, SNOW, END, {**STOP, "message": extra}, {"type": "message_stop"}])
    out, transcoder = run(sse, "anthropic", "anthropic", to_framing=INVOKE_CHUNKS)
    assert isinstance(transcoder.outcome, Completed)
    metrics = invoked(out).events[-1]["amazon-bedrock-invocationMetrics"]
    assert (metrics["inputTokenCount"], metrics["outputTokenCount"]) == (7, 3)


@pytest.mark.parametrize("size", [None, 64])
def test_exception_behind_a_broken_event_does_not_pass(size: int | None) -> None:
    broken = chunk({**SNOW, "index": 7})
    data = chunk(START) + broken + exception("throttlingException", message="m")
    out, _ = run(
        data, "anthropic", "anthropic", size, framing=INVOKE_CHUNKS, to_framing=INVOKE_CHUNKS
    )
    assert invoked(out).events == [START]
    assert [kind for kind, _ in invoked(out).exceptions] == ["modelStreamErrorException"]


def test_error_in_a_chunk_passes_as_an_exception() -> None:
    """No client of the operation takes the event for the failure that it is."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    out, transcoder = run(
        chunk(START) + chunk(error),
        "anthropic",
        "anthropic",
        framing=INVOKE_CHUNKS,
        to_framing=INVOKE_CHUNKS,
    )
    assert out.startswith(chunk(START))
    assert invoked(out).events == [START]
    assert invoked(out).exceptions == [("throttlingException", {"message": "Overloaded"})]
    assert isinstance(transcoder.outcome, Failed)


@pytest.mark.parametrize("rest", [0, 20])
def test_cut_ends_what_has_passed_with_an_exception(rest: int) -> None:
    """Since a client takes the end of the bytes for success."""
    passed = b"".join(map(chunk, (START, BEGIN, SNOW)))
    out, _ = run(
        passed + chunk(END)[:rest],
        "anthropic",
        "anthropic",
        framing=INVOKE_CHUNKS,
        to_framing=INVOKE_CHUNKS,
    )
    assert out.startswith(passed)
    ((kind, fields),) = invoked(out).exceptions
    assert kind == "modelStreamErrorException"
    assert fields["originalStatusCode"] == 424
    assert fields["message"] == fields["originalMessage"]


def test_damaged_message_does_not_pass() -> None:
    passed = chunk(START) + chunk(BEGIN)
    out, _ = run(
        passed + chunk(SNOW)[:-1] + b"\x00",
        "anthropic",
        "anthropic",
        framing=INVOKE_CHUNKS,
        to_framing=INVOKE_CHUNKS,
    )
    assert out.startswith(passed)
    assert [kind for kind, _ in invoked(out).exceptions] == ["modelStreamErrorException"]


def test_chunks_become_server_sent_events_of_the_same_payloads() -> None:
    out, run_ = run(STREAM, "anthropic", "anthropic", 50, framing=INVOKE_CHUNKS)
    events = [json.dumps(event, separators=(",", ":")) for event in WHOLE]
    assert out.decode() == "".join(
        f"event: {event['type']}\ndata: {text}\n\n"
        for event, text in zip(WHOLE, events, strict=True)
    )
    assert run_.untouched
    assert run_.ping() == b""


# Writing


@pytest.mark.parametrize("source", DIALECTS)
def test_events_of_every_dialect_are_written_in_chunks(source: str) -> None:
    for recording in recordings(source):
        encoded = Transcoder(source, "anthropic", verbatim=False)
        plain = b"".join([*encoded.feed(recording.body), *encoded.close()])
        out, transcoder = run(recording.body, source, "anthropic", 100, to_framing=INVOKE_CHUNKS)
        found = invoked(out)
        expected = decode([plain], "anthropic")
        if isinstance(transcoder.outcome, Completed):
            assert found.exceptions == []
            metrics = found.events[-1]["amazon-bedrock-invocationMetrics"]
            if b"invocationMetrics" not in recording.body:
                del found.events[-1]["amazon-bedrock-invocationMetrics"]
            assert metrics["outputTokenCount"] == (expected.outcome.usage.output_tokens or 0)
            again = decode([sse_of(found.events)], "anthropic")
            assert again.events == [e for e in expected.events if not isinstance(e, Ping)]
        else:
            assert len(found.exceptions) == 1
        assert all(event["type"] not in ("error", "ping") for event in found.events)


@given(st.integers(0, 9), st.lists(st.text(), min_size=1, max_size=8))
def test_delta_is_the_chunk_that_its_event_is(spaces: int, texts: list[str]) -> None:
    """Wherever its text begins within three bytes, which are four characters of base64."""
    assert INVOKE_CHUNKS.writer is not None
    head = b'event: e\ndata: {"text":' + b" " * spaces
    write = INVOKE_CHUNKS.writer().delta_writer(head, b"}\n\n")
    whole = INVOKE_CHUNKS.writer()
    found = invoked(b"".join(map(write, texts)))
    assert found.events == [{"text": text} for text in texts]
    for text in texts:
        event = head + json.dumps(text, ensure_ascii=False).encode() + b"}\n\n"
        assert write(text) == whole.write(event, None)


def test_deltas_of_any_dialect_are_written_in_chunks() -> None:
    """The events of Chat Completions differ in more than their text: the first names a role."""
    transcoder = Transcoder("anthropic", "openai_chat", to_framing=INVOKE_CHUNKS)
    deltas = [{**SNOW, "delta": {"type": "text_delta", "text": text}} for text in "abc"]
    reads = [sse_of([event]) for event in (START, BEGIN, *deltas, END, STOP, LAST)]
    written = [b"".join(transcoder.feed(data)) for data in reads]
    events = invoked(b"".join([*written[:5], *transcoder.close()])).events
    texts = [event["choices"][0]["delta"].get("content") for event in events]
    assert "".join(filter(None, texts)) == "abc"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "rate_limit_error", "message": "m"}, "throttlingException"),
        ({"type": "overloaded_error", "message": "m"}, "throttlingException"),
        ({"type": "invalid_request_error", "message": "m"}, "validationException"),
        ({"type": "not_found_error", "message": "m"}, "validationException"),
        ({"type": "api_error", "message": "m"}, "internalServerException"),
        ({"type": "timeout_error", "message": "m"}, "modelTimeoutException"),
        ({"type": "new_error", "message": "m"}, "modelStreamErrorException"),
    ],
)
def test_error_is_an_exception(error: dict[str, str], kind: str) -> None:
    data = sse_of([START, {"type": "error", "error": error}])
    for verbatim in (True, False):
        transcoder = Transcoder(
            "anthropic", "anthropic", to_framing=INVOKE_CHUNKS, verbatim=verbatim
        )
        found = invoked(b"".join([*transcoder.feed(data), *transcoder.close()]))
        assert [event["type"] for event in found.events] == ["message_start"]
        ((written, fields),) = found.exceptions
        assert (written, fields["message"]) == (kind, "m")


def test_exception_goes_from_chunks_to_chunks_under_its_name() -> None:
    data = chunk(START) + exception("serviceUnavailableException", message="m")
    transcoder = Transcoder(
        "anthropic",
        "anthropic",
        framing=INVOKE_CHUNKS,
        to_framing=INVOKE_CHUNKS,
        verbatim=False,
    )
    out = b"".join([*transcoder.feed(data), *transcoder.close()])
    assert invoked(out).exceptions == [("serviceUnavailableException", {"message": "m"})]


def test_no_keep_alive_can_be_written() -> None:
    transcoder = Transcoder("openai_chat", "anthropic", to_framing=INVOKE_CHUNKS)
    assert transcoder.ping() == b""


@each_recording_of("anthropic")
def test_recording_reads_the_same_in_chunks(recording: Recording) -> None:
    plain = decode([recording.body], "anthropic")
    if not isinstance(plain.outcome, Completed) or plain.outcome.lenient or plain.notes:
        return  # what only compatible servers send
    events, outcome = read(of_sse(recording.body), 100)
    assert events == [event for event in plain.events if not isinstance(event, Ping)]
    assert outcome == plain.outcome


# Real streams


def real_streams() -> list[Path]:
    root = os.environ.get("STREAMNORM_CORPUS")
    found = Path(root, "bedrock").glob("*.eventstream") if root else ()
    return sorted(path for path in found if path.name.startswith(("invoke-", "made__invoke")))


@needs_corpus
@pytest.mark.parametrize("path", real_streams(), ids=lambda path: path.stem)
def test_real_stream_is_read_as_by_botocore(path: Path) -> None:
    data = path.read_bytes()
    events, outcome = read(data)
    assert read(data, 1) == (events, outcome)
    found = invoked(data)
    if not all("type" in event for event in found.events) or "completion" in found.events[0]:
        assert isinstance(outcome, Failed)
        assert outcome.error.code == "not_a_stream"
        return
    plain = decode([sse_of(found.events)], "anthropic")
    if not found.exceptions:
        assert (events, outcome) == (plain.events, plain.outcome)
    out, _ = run(
        data, "anthropic", "anthropic", 64, framing=INVOKE_CHUNKS, to_framing=INVOKE_CHUNKS
    )
    if found.events[-1]["type"] == "error":  # written as an exception
        assert invoked(out).events == found.events[:-1]
        assert len(invoked(out).exceptions) == 1
    else:
        assert out.startswith(data)
    for target in DIALECTS:
        mine, _ = run(data, "anthropic", target, 64, framing=INVOKE_CHUNKS)
        theirs, transcoder = run(sse_of(found.events), "anthropic", target)
        if isinstance(transcoder.outcome, Completed):
            assert decode([mine], target).outcome == decode([theirs], target).outcome
