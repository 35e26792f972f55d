"""Events that are messages of an AWS event stream."""

from __future__ import annotations

import json

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from support.bedrock_converse.frames import START, end, event, payload, stop, text
from support.bedrock_converse.reader import read
from support.operation_counts import peak
from support.streams.content import decode

from streamnorm import (
    Completed,
    Failed,
    Limits,
    Outcome,
    StreamError,
    TextDelta,
    Transcoder,
)
from streamnorm.codec import EVENTSTREAM, decoder
from streamnorm.eventstream import encode_message
from streamnorm.sse import Frame

WHOLE = b"".join((START, text(0, "It snows."), stop(0), end()))


def pass_on(reads: list[bytes]) -> tuple[bytes, Outcome | None]:
    """Return what a passthrough writes, and the outcome."""
    transcoder = Transcoder("bedrock_converse", "bedrock_converse")
    pieces = [piece for data in reads for piece in transcoder.feed(data)]
    return b"".join([*pieces, *transcoder.close()]), transcoder.outcome


def failure(data: bytes) -> StreamError:
    outcome = decode([data], "bedrock_converse").outcome
    assert isinstance(outcome, Failed), outcome
    return outcome.error


def test_framing_shows_its_name() -> None:
    assert repr(EVENTSTREAM) == "Framing('eventstream')"
    assert EVENTSTREAM.media_type == "application/vnd.amazon.eventstream"


def test_message_is_one_event_of_its_type() -> None:
    splitter = EVENTSTREAM.splitter(Limits())
    (raw,) = splitter.split(payload("newer", b'{"a":\r\n1}'))
    assert splitter.parse(raw) == [Frame("newer", '{"a":\r\n1}')]
    assert splitter.as_event_stream(b"") == b'event: newer\ndata: {"a": 1}\n\n'
    assert splitter.unterminated() is None


def test_payload_of_several_lines_is_read() -> None:
    spelt = payload("contentBlockDelta", b'{\n"contentBlockIndex":0,\n"delta":{"text":"c"}\n}')
    events = decode([START + text(0, "a") + text(0, "b") + spelt], "bedrock_converse").events
    assert events[2:5] == [TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "c")]


@pytest.mark.parametrize("name", ["", "a\nb", "a\rb"])
def test_name_of_an_event_is_one_line(name: str) -> None:
    error = failure(START + payload(name, b"{}"))
    assert error.kind == "malformed"
    assert error.message == f"an event type of {len(name)} characters, expected a name"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (WHOLE[:-1] + b"\x00", "bytes that do not match their checksum"),
        (encode_message({":message-type": "new"}, b""), "a message of type 'new'"),
        (encode_message({":event-type": "messageStart"}, b"{}"), "a message of type ''"),
    ],
)
def test_damaged_stream_is_malformed(data: bytes, problem: str) -> None:
    error = failure(data)
    assert error.kind == "malformed"
    assert error.message.startswith(problem)


def test_error_message_ends_the_stream() -> None:
    headers = {":message-type": "error", ":error-code": "E1", ":error-message": "It broke."}
    error = failure(START + encode_message(headers, b""))
    assert (error.kind, error.code, error.message) == ("upstream", "E1", "It broke.")


def test_message_beyond_the_bound_is_too_large() -> None:
    outcome = decode(
        [START + text(0, "x" * 400)], "bedrock_converse", limits=Limits(max_event_bytes=300)
    ).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "max_event_bytes"


def test_read_that_is_one_event_is_read_without_splitting() -> None:
    reader = decoder("bedrock_converse")
    for message in (START, text(0, "a"), text(0, "b"), text(0, "c")):
        events = reader.feed(message)
    assert events == [TextDelta(0, "c")]
    assert reader.frames == 4
    assert reader.as_event_stream(message).startswith(b"event: contentBlockDelta\ndata: ")
    # Not a message alike, another kind, no delta.
    assert reader.feed(text(0, "d")[:-1] + b"\x00")[0].kind == "malformed"


def test_other_read_is_split() -> None:
    reader = decoder("bedrock_converse")
    for message in (
        START,
        text(0, "a"),
        text(0, "b"),
        event("contentBlockDelta", contentBlockIndex=0, delta={}),
    ):
        events = reader.feed(message)
    assert events == []
    assert len(reader.feed(stop(0))) == 1


@pytest.mark.parametrize("name", ["contentBlockDelta", "newer"])
def test_event_without_payload_is_no_event_that_passes(name: str) -> None:
    """It was read before the one that is malformed, and behind it nothing passes."""
    body = START + text(0, "a") + text(0, "b")
    wrong = event("contentBlockDelta", contentBlockIndex=0, delta={"text": 1})
    for behind in (b"", payload(name, b""), text(0, "c")):
        written, outcome = pass_on([body + wrong + behind])
        assert written.startswith(body)
        assert isinstance(outcome, Failed)
        assert read(written).error == "modelStreamErrorException"
        assert len(read(written).events) == 3


@pytest.mark.parametrize("size", [1, 7, 100, 200])
def test_messages_pass_as_they_are_in_reads_of_any_size(size: int) -> None:
    body = START + b"".join(text(0, "x" * n) for n in range(1, 30)) + stop(0) + end()
    written, outcome = pass_on([body[n : n + size] for n in range(0, len(body), size)])
    assert written == body
    assert isinstance(outcome, Completed)


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=30), st.integers(1, 99))
def test_any_bytes_end_in_one_outcome_in_any_chunks(at: int, noise: bytes, size: int) -> None:
    data = WHOLE[:at] + noise + WHOLE[at:]
    whole = decode([data], "bedrock_converse")
    assert whole.outcome is not None
    assert (
        decode([data[n : n + size] for n in range(0, len(data), size)], "bedrock_converse") == whole
    )
    assert sum(isinstance(each, StreamError) for each in whole.events) <= 1


@pytest.mark.parametrize("cut", range(0, len(WHOLE), 7))
def test_no_prefix_completes_before_the_stop(cut: int) -> None:
    stopped = len(
        START + text(0, "It snows.") + stop(0) + event("messageStop", stopReason="end_turn")
    )
    is_complete = isinstance(decode([WHOLE[:cut]], "bedrock_converse").outcome, Completed)
    assert is_complete == (cut == stopped)


# Writing


def test_events_are_written_as_messages() -> None:
    writer = EVENTSTREAM.writer
    assert writer is not None
    lines = (
        b'event: messageStart\ndata: {"role":"assistant"}\n\n'
        b'event: contentBlockDelta\ndata: {"contentBlockIndex":0,"delta":{"text":"a"}}\n\n'
        b'event: contentBlockDelta\ndata: {"contentBlockIndex":0,"delta":{"text":"b"}}\n\n'
        b'event: throttlingException\ndata: {"message":"m"}\n\n'
    )
    written = writer().write(lines, None)
    reading = read(written)
    assert [next(iter(each)) for each in reading.events] == [
        *("messageStart", "contentBlockDelta", "contentBlockDelta")
    ]
    assert reading.error == "throttlingException"
    assert writer().write(b"", None) == b""


@given(st.lists(st.text(), min_size=1, max_size=8))
def test_delta_is_the_message_that_its_event_is(texts: list[str]) -> None:
    """Whatever the length of its text, and the lengths of those before it."""
    assert EVENTSTREAM.writer is not None
    writer = EVENTSTREAM.writer()
    head, tail = b'event: contentBlockDelta\ndata: {"delta":{"text":', b"}}\n\n"
    write = writer.delta_writer(head, tail)
    buffer = EventStreamBuffer()
    for piece in texts:
        event = head + json.dumps(piece, ensure_ascii=False).encode() + tail
        written = write(piece)
        assert written == writer.write(event, None)
        buffer.add_data(written)
    found = [(each.headers[":event-type"], json.loads(each.payload)) for each in buffer]
    assert found == [("contentBlockDelta", {"delta": {"text": text}}) for text in texts]


def test_event_is_written_as_a_message() -> None:
    """All events in recordings of Bedrock have these headers, in this order."""
    assert EVENTSTREAM.writer is not None
    written = EVENTSTREAM.writer().write(
        b'event: messageStart\ndata: {"role":"assistant"}\n\n', None
    )
    buffer = EventStreamBuffer()
    buffer.add_data(written)
    (message,) = buffer
    assert list(message.headers.items()) == [
        (":event-type", "messageStart"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ]
    assert message.payload == b'{"role":"assistant"}'


def test_names_that_a_peer_invents_are_not_stored() -> None:
    assert EVENTSTREAM.writer is not None
    writer = EVENTSTREAM.writer()

    def write() -> None:
        for number in range(5000):
            name = f"{number:05}{'x' * 1000}"
            assert writer.write(f"event: {name}\ndata: {{}}\n\n".encode(), None)

    assert peak(write) < 1_000_000


def test_lengths_of_invented_names_are_not_stored() -> None:
    assert EVENTSTREAM.writer is not None
    writer = EVENTSTREAM.writer()

    def write() -> None:
        for name in range(8):
            for size in range(1000):
                event = b"event: %b%d\ndata: %b\n\n" % (b"x" * 500, name, b"0" * size)
                assert writer.write(event, None)

    assert peak(write) < 2_000_000


def test_lengths_of_deltas_that_are_stored_are_bounded() -> None:
    assert EVENTSTREAM.writer is not None
    write = EVENTSTREAM.writer().delta_writer(b"event: e\ndata: %b" % (b" " * 300), b"\n\n")

    def write_all() -> None:
        for size in range(10_000):
            assert write("x" * size)

    assert peak(write_all) < 1_000_000


def test_half_an_event_is_no_idle_frame() -> None:
    silent = event("contentBlockDelta", contentBlockIndex=0, delta={"text": ""})
    body = (START, text(0, "a"), text(0, "b"), silent, text(0, "c"))
    for target in (None, "bedrock_converse", "anthropic"):
        if target is None:
            reader = decoder("bedrock_converse")
        else:
            reader = Transcoder("bedrock_converse", target)
        counts: list[tuple[int, int]] = []
        for message in body:
            for half in (message[:100], message[100:]):
                reader.feed(half)
                counts.append((reader.frames, reader.progress))
        frames = [sum(divmod(number, 2)) for number in range(len(counts))]
        assert counts == [(count, count - (count > 3)) for count in frames], target


def test_pieces_of_a_message_are_joined_once() -> None:
    """Each read copied all before it: 8 MiB in reads of 1 KiB took a second."""
    assert EVENTSTREAM.writer is not None
    message = EVENTSTREAM.writer().write(b"event: x\ndata: %b\n\n" % (b"0" * 50_000), None)
    splitter = EVENTSTREAM.splitter(Limits())
    passthrough = EVENTSTREAM.passthrough(splitter)
    for start in range(0, len(message) - 100, 100):
        splitter.split(message[start : start + 100])
        assert passthrough.take(message[start : start + 100]) == b""
    rest = message[start + 100 :] + message[:50]
    splitter.split(rest)
    assert passthrough.take(rest) == message
    splitter.split(message[50:])
    assert passthrough.take(message[50:]) == message
