"""Events that are messages of a WebSocket, each a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Failed,
    JSONDelta,
    Limits,
    MessageStart,
    MessageStop,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm._core.codec.socket_events import message_line, name_stream
from streamnorm.codec import SSE, WS_MESSAGE, decoder, encoder
from streamnorm.sse import Frame, RawFrame, SSEDecoder
from streamnorm.validation import validate

SIZES = (1, 3, 40, 10_000)
TEXT = "response.output_text.delta"
ARGUMENTS = "response.function_call_arguments.delta"


def line(type: str, number: int | None = None, **fields: Any) -> bytes:
    numbered = {} if number is None else {"sequence_number": number}
    return json.dumps({"type": type, **numbered, **fields}).encode() + b"\n"


def response(status: str = "in_progress", **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "model": "gpt", "status": status, "output": [], **fields}


def text_item(status: str = "completed", text: str = "It snows.") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    fields = {"id": "msg_1", "type": "message", "role": "assistant", "status": status}
    return {**fields, "content": [part] if text else []}


PLACE: dict[str, Any] = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
PART = {"type": "output_text", "text": "", "annotations": []}
CREATED = line("response.created", 0, response=response())
BEGIN = [
    CREATED,
    line("response.output_item.added", 1, output_index=0, item=text_item("in_progress", "")),
    line("response.content_part.added", 2, **PLACE, part=PART),
]
DELTAS = [
    line(TEXT, 3, **PLACE, delta="It"),
    line(TEXT, 4, **PLACE, delta=" sno"),
    line(TEXT, 5, **PLACE, delta="ws."),
]
USAGE = {"input_tokens": 5, "output_tokens": 2}
END = [
    line("response.output_item.done", 6, output_index=0, item=text_item()),
    line(
        "response.completed",
        7,
        response=response("completed", output=[text_item()], usage=USAGE),
    ),
]
STREAM = b"".join([*BEGIN, *DELTAS, *END])
EVENTS: list[Event] = [
    MessageStart("resp_1", "gpt"),
    BlockStart(0, Text(""), extra={"id": "msg_1"}),
    TextDelta(0, "It"),
    TextDelta(0, " sno"),
    TextDelta(0, "ws."),
    BlockStop(0),
    UsageUpdate(Usage(5, 2)),
    MessageStop("end_turn", "completed"),
]


def reads(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def decode(data: bytes, size: int = 10_000, **options: Any) -> tuple[list[Event], Any]:
    reader = decoder("openai_responses", framing=WS_MESSAGE, **options)
    events = [event for read in reads(data, size) for event in reader.feed(read)]
    events += reader.close()
    assert not reader.notes
    return events, reader.outcome


def transcode(data: bytes, size: int = 10_000, **options: Any) -> bytes:
    transcoder = Transcoder("openai_responses", "openai_responses", **options)
    pieces = [piece for read in reads(data, size) for piece in transcoder.feed(read)]
    return b"".join([*pieces, *transcoder.close()])


def without_extras(events: Sequence[Event]) -> list[Event]:
    """Return events without the fields of items, which are those of server-sent events."""
    return [
        BlockStart(event.index, event.block) if isinstance(event, BlockStart) else event
        for event in events
    ]


@pytest.mark.parametrize("size", SIZES)
def test_message_is_an_event(size: int) -> None:
    events, outcome = decode(STREAM, size)
    assert without_extras(events) == without_extras(EVENTS)
    assert outcome == Completed("end_turn", Usage(5, 2))


def test_deltas_of_any_type_stay_on_the_fast_path() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": ""}
    place = {"item_id": "fc_1", "output_index": 0}
    stream = [
        CREATED,
        line("response.output_item.added", 1, output_index=0, item=call),
        line(ARGUMENTS, 2, **place, delta="{"),
        line(ARGUMENTS, 3, **place, delta='"a":'),
        line(ARGUMENTS, 4, **place, delta="1}"),
    ]
    reader = decoder("openai_responses", framing=WS_MESSAGE)
    full: list[RawFrame] = []
    read_raw = reader.read_raw

    def count(raw: RawFrame) -> list[Event]:
        full.append(raw)
        return read_raw(raw)

    reader.read_raw = count  # type: ignore[method-assign]  # counts
    events = [event for read in stream for event in reader.feed(read)]
    assert [event for event in events if isinstance(event, JSONDelta)] == [
        JSONDelta(0, "{"),
        JSONDelta(0, '"a":'),
        JSONDelta(0, "1}"),
    ]
    assert len(full) == 3  # the first delta is read in full
    # Its end is in another read than its beginning.
    assert reader.feed(line(ARGUMENTS, 5, **place, delta=" ")[:30]) == []
    assert reader.unfinished_bytes == 30
    assert reader.feed(line(ARGUMENTS, 5, **place, delta=" ")[30:]) == [JSONDelta(0, " ")]
    assert len(full) == 3
    assert reader.frames == 6


def test_parallel_deltas_of_two_types_in_one_read() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": ""}
    arguments = {"item_id": "fc_1", "output_index": 1}
    stream = [
        *BEGIN,
        line(TEXT, 3, **PLACE, delta="a"),
        line("response.output_item.added", 4, output_index=1, item=call),
        line(TEXT, 5, **PLACE, delta="b"),
        line(ARGUMENTS, 6, **arguments, delta="{"),
        line(TEXT, 7, **PLACE, delta="c"),
        line(ARGUMENTS, 8, **arguments, delta="}"),
        line(TEXT, 9, **PLACE, delta="d"),
    ]
    reader = decoder("openai_responses", framing=WS_MESSAGE)
    reader.feed(b"".join(stream[:4]))
    events = reader.feed(b"".join(stream[4:]))
    assert without_extras(events) == [
        BlockStart(1, ToolCall("c", "look", "")),
        TextDelta(0, "b"),
        JSONDelta(1, "{"),
        TextDelta(0, "c"),
        JSONDelta(1, "}"),
        TextDelta(0, "d"),
    ]
    assert not reader.notes
    # As server-sent events each has the name of its own type.
    written = SSEDecoder().feed(reader.as_event_stream(b""))
    assert [frame.event for frame in written] == [json.loads(each)["type"] for each in stream[4:]]


@pytest.mark.parametrize(
    "spell",
    [
        lambda event: json.dumps(event, indent=None, separators=(" , ", " : ")),
        lambda event: json.dumps({**{k: event[k] for k in reversed(event)}}),
        lambda event: " " + json.dumps(event) + "\r",
    ],
)
def test_other_spellings_of_the_json_are_read(spell: Any) -> None:
    data = "\n".join([*(spell(json.loads(each)) for each in STREAM.splitlines()), ""]).encode()
    for size in SIZES:
        events, outcome = decode(data, size)
        assert without_extras(events) == without_extras(EVENTS)
        assert isinstance(outcome, Completed)


def test_line_ends_within_a_message_are_spaces() -> None:
    text = json.dumps(json.loads(CREATED), indent=1).replace("\n", "\r\n")
    read = message_line(text)
    assert read.count(b"\n") == 1
    assert b"\r" not in read
    assert decode(read)[0][0] == EVENTS[0]
    assert message_line('{"a":"é"}') == '{"a":"é"}\n'.encode()
    assert message_line('{"a":"\ud800"}') == b'{"a":"?"}\n'


def test_stream_id_is_no_part_of_an_event() -> None:
    lane = b"".join(name_stream(each, "a") + b"\n" for each in STREAM.splitlines())
    newer = line("response.newer", stream_id="a", a=1)
    assert b'"stream_id":"a"}\n' in lane
    for size in SIZES:
        events, _ = decode(newer + lane, size)
        assert events[0] == Opaque("openai_responses", "response.newer", events[0].data)  # type: ignore[union-attr]  # an Opaque
        assert "stream_id" not in repr(events)
        assert without_extras(events[1:]) == without_extras(EVENTS)
        assert b"stream_id" not in transcode(lane, size, framing=WS_MESSAGE)


@pytest.mark.parametrize("size", SIZES)
def test_error_has_the_status_and_the_headers_of_a_response(size: int) -> None:
    """As Codex's own tests have it: the status stands beside the error."""
    error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Slow."}
    events, outcome = decode(
        line("error", status=429, error=error, headers={"retry-after": "3"}), size
    )
    extra = {"type": "rate_limit_error", "headers": {"retry-after": "3"}}
    expected = StreamError("upstream", "Slow.", "rate_limit_exceeded", 429, True, extra)
    assert events == [expected]
    assert outcome == Failed(expected)


def test_flat_error_and_one_without_status_are_read() -> None:
    flat = line("error", 0, code="server_error", message="It broke.", param=None)
    assert decode(flat)[0] == [StreamError("upstream", "It broke.", "server_error", 500, True)]
    bare = line("error", error="It broke.", status=429)
    assert decode(bare)[0] == [StreamError("upstream", "It broke.")]


def test_what_follows_the_terminal_belongs_to_no_response() -> None:
    events, outcome = decode(STREAM + line("responsesapi.websocket_timing", ms=1) + STREAM)
    assert without_extras(events) == without_extras(EVENTS)
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("size", SIZES)
def test_stream_without_its_terminal_is_truncated(size: int) -> None:
    events, outcome = decode(b"".join([*BEGIN, *DELTAS]), size)
    assert isinstance(outcome, Truncated)
    assert events[-1] == outcome.error
    cut = b"".join([*BEGIN, *DELTAS, *END])[:-9]
    assert isinstance(decode(cut, size)[1], Truncated)
    # The line end is the framing's own: the message was whole.
    reader = decoder("openai_responses", framing=WS_MESSAGE)
    reader.feed(STREAM[:-1])
    reader.close()
    assert reader.outcome == Completed("end_turn", Usage(5, 2), ("unterminated",))


@pytest.mark.parametrize(
    "data", [b"no JSON\n", b'"text"\n[1]\n\xff\xfe\n', b"event: x\ndata: {}\n\n", b"\0"]
)
def test_any_other_text_is_no_success(data: bytes) -> None:
    for size in SIZES:
        reader = decoder("openai_responses", framing=WS_MESSAGE)
        events = [event for read in reads(data, size) for event in reader.feed(read)]
        events += reader.close()
        assert isinstance(reader.outcome, (Failed, Truncated))
        assert isinstance(events[-1], StreamError)
    assert decoder("openai_responses", framing=WS_MESSAGE).close()[0].kind == "truncated"  # type: ignore[union-attr]  # an error


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_message_beyond_the_bound_is_too_large(size: int) -> None:
    for bytes_more, fits in ((0, True), (1, False)):
        bound = max(map(len, STREAM.splitlines())) - bytes_more
        outcome = decode(STREAM, size, limits=Limits(max_event_bytes=bound))[1]
        assert isinstance(outcome, Completed if fits else Failed)
        if isinstance(outcome, Failed):
            assert outcome.error.code == "max_event_bytes"
    # Nothing behind it is read, and half of it is enough.
    limits = Limits(max_event_bytes=1000)
    reader = decoder("openai_responses", framing=WS_MESSAGE, limits=limits)
    (error,) = reader.feed(b"x" * 1001)
    assert error == StreamError("too_large", "max_event_bytes of 1000 passed", "max_event_bytes")
    assert reader.as_event_stream(b"") == b""
    assert reader.feed(STREAM) == []
    # A delta of the run, which is read without splitting.
    reader = decoder("openai_responses", framing=WS_MESSAGE, limits=limits)
    for read in (*BEGIN, *DELTAS):
        reader.feed(read)
    assert [
        event.kind
        for event in reader.feed(line(TEXT, 6, **PLACE, delta="x" * 1000))
        if isinstance(event, StreamError)
    ] == ["too_large"]


def test_read_that_is_no_delta_is_split() -> None:
    reader = decoder("openai_responses", framing=WS_MESSAGE)
    for read in (*BEGIN, *DELTAS[:2]):
        reader.feed(read)
    assert reader.feed(b"\n") == []
    assert reader.feed(DELTAS[2] + b"\n") == [TextDelta(0, "ws.")]
    (error,) = reader.feed(b'{"type":"response.output_text.delta",\n')
    assert isinstance(error, StreamError)


# Original messages


@pytest.mark.parametrize("size", SIZES)
def test_messages_pass_as_they_are(size: int) -> None:
    lane = b"".join(name_stream(each, "a") + b"\n" for each in STREAM.splitlines())
    both = {"framing": WS_MESSAGE, "to_framing": WS_MESSAGE}
    for data in (STREAM, lane, b"\n\n" + STREAM.replace(b"\n", b"\n \n")):
        assert transcode(data, size, **both).split() == data.split()
    cut = transcode(STREAM[:-9], size, **both)
    whole, _, error = cut[:-1].rpartition(b"\n")
    assert whole + b"\n" == STREAM[: STREAM.rindex(b"\n", 0, -1) + 1]
    assert json.loads(error)["status"] == 502
    # An event that cannot be read is replaced.
    wrong = transcode(b"".join([*BEGIN, b"no JSON\n", *DELTAS]), size, **both)
    assert wrong.startswith(b"".join(BEGIN))
    assert json.loads(wrong.removeprefix(b"".join(BEGIN)))["type"] == "error"
    # The provider's error passes, and ours is not added.
    error = line("error", status=503, error={"type": "server_error", "message": "Busy."})
    assert transcode(error, size, **both) == error


def test_messages_pass_as_server_sent_events() -> None:
    carriage = STREAM.replace(b", ", b",\r ")
    for size in SIZES:
        written = transcode(carriage, size, framing=WS_MESSAGE)
        assert b"\r" not in written
        frames = SSEDecoder().feed(written)
        assert [json.loads(frame.data) for frame in frames] == [
            json.loads(each) for each in STREAM.split(b"\n")[:-1]
        ]
        assert all(json.loads(frame.data)["type"] == frame.event for frame in frames)


# Writing


def as_events(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n")
    return [json.loads(each) for each in data.split(b"\n")[:-1]]


def test_events_are_written_as_messages() -> None:
    sse = transcode(STREAM, framing=WS_MESSAGE, verbatim=False)
    messages = transcode(STREAM, framing=WS_MESSAGE, to_framing=WS_MESSAGE, verbatim=False)
    assert as_events(messages) == [json.loads(frame.data) for frame in SSEDecoder().feed(sse)]
    assert validate(messages, "openai_responses", framing=WS_MESSAGE) == []
    transcoder = Transcoder("openai_responses", "openai_responses", to_framing=WS_MESSAGE)
    assert transcoder.ping() == b""  # a WebSocket has its own


def test_failure_before_the_response_is_an_error_with_a_status() -> None:
    chat = b'data: {"error":{"message":"Slow.","type":"rate_limit_error","code":"slow"}}\n\n'
    transcoder = Transcoder("openai_chat", "openai_responses", to_framing=WS_MESSAGE)
    (written,) = [*transcoder.feed(chat), *transcoder.close()]
    (error,) = as_events(written)
    assert (error["type"], error["status"]) == ("error", 429)
    assert error["error"]["message"] == "Slow."
    assert validate(written, "openai_responses", framing=WS_MESSAGE) == []


def test_failure_of_the_response_is_its_last_event() -> None:
    chunk = b'data: {"id":"a","model":"m","choices":[{"index":0,"delta":{"content":"It"}}]}\n\n'
    transcoder = Transcoder("openai_chat", "openai_responses", to_framing=WS_MESSAGE)
    written = b"".join([*transcoder.feed(chunk), *transcoder.close()])
    events = as_events(written)
    assert [event["type"] for event in events if event["type"] == "error"] == []
    assert events[-1]["type"] == "response.failed"
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert validate(written, "openai_responses", framing=WS_MESSAGE) == []


def test_headers_of_an_error_stand_beside_it() -> None:
    headers = {"retry-after": "3", "content-length": "7"}
    error = {"type": "rate_limit_error", "message": "Slow."}
    data = line("error", status=429, error=error, headers=headers)
    written = transcode(data, framing=WS_MESSAGE, to_framing=WS_MESSAGE, verbatim=False)
    (event,) = as_events(written)
    assert event["headers"] == {"retry-after": "3"}
    assert "headers" not in event["error"]


def test_writer_leaves_out_what_is_no_message() -> None:
    assert WS_MESSAGE.writer is not None
    writer = WS_MESSAGE.writer()
    assert writer.write(b"data: [DONE]\n\nevent: keepalive\ndata: {}\n\n", None) == b""
    assert writer.write(b'event: a\ndata: {"type":"a"}\n\n', None) == b'{"type":"a"}\n'
    write = writer.delta_writer(b'event: a\ndata: {"delta":', b"}\n\n")
    assert write('"é\n') == '{"delta":"\\"é\\n"}\n'.encode()


# Layout and validation


def test_layout_is_lines() -> None:
    layout = WS_MESSAGE.layout
    assert layout.find_event_ends(b'{"a":1}\n\n{"b":2}\n{"c"') == [9, 17, 21]
    assert layout.find_event_ends(b"") == []
    assert layout.is_whole(b"")
    assert layout.is_whole(STREAM)
    assert not layout.is_whole(STREAM[:-1])
    assert layout.find_hostile_cuts('"é"\n1\n'.encode()) == [2, 4, 5, 6, 7]
    assert layout.rewriter is None
    reader = layout.frame_reader(Limits())
    assert reader.feed(b'{"type":"a"}\n{"type":"b"}') == [Frame("a", '{"type":"a"}')]
    assert reader.frames == 1
    assert reader.unterminated() == Frame("b", '{"type":"b"}')
    assert layout.frame_reader(Limits()).unterminated() is None
    assert repr(WS_MESSAGE) == "Framing('ws_message')"
    assert (WS_MESSAGE.suffix, WS_MESSAGE.media_type) == (".ws.jsonl", "application/jsonl")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            line("error", error={"type": "a", "message": "b"}),
            "error without a status, expected that of a response",
        ),
        (
            line("error", status=400, code="a", message="b"),
            "error without error.message and error.type, expected both",
        ),
        (b"x" * 2000, "max_event_bytes of 1000 passed"),
        (b'{"type"', "7 bytes of a message without its end, expected a whole message"),
    ],
)
def test_strict_reader_names_what_is_wrong(data: bytes, problem: str) -> None:
    found = validate(
        data, "openai_responses", framing=WS_MESSAGE, limits=Limits(max_event_bytes=1000)
    )
    assert found[0].message == problem


def test_messages_of_the_connection_are_no_violation() -> None:
    """Clients skip them (openai/codex, `responses_websocket.rs`)."""
    stream = encoder("openai_responses")
    events: list[Event] = [MessageStart("r", "m"), MessageStop("end_turn")]
    sse = b"".join([*(stream.encode(event) for event in events), stream.close()])
    written = b"".join(frame.data.encode() + b"\n" for frame in SSEDecoder().feed(sse))
    beside = line("codex.rate_limits", plan_type="plus")
    steered = line("response.steer.accepted", 0, steer={})
    timing = line("responsesapi.websocket_timing", timing_metrics={})
    data = beside + steered + written + timing
    assert validate(data, "openai_responses", framing=WS_MESSAGE) == []
    assert validate(written + written, "openai_responses", framing=WS_MESSAGE) != []
    assert SSE.media_type == "text/event-stream"
