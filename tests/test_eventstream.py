"""AWS event streams, by vectors of the format and with botocore's parser as an oracle."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import pack
from typing import NamedTuple
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from support.operation_counts import operations, peak

from streamnorm.eventstream import EventStreamDecoder, Message, MessageEncoder, encode_message

# The smallest message, as aws-c-event-stream's tests have it: no headers, no payload.
EMPTY = bytes.fromhex("00000010 00000000 05c248eb 7d98c8ff")
TEXTS = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}


def framed(headers: bytes, payload: bytes = b"", *, total: int | None = None) -> bytes:
    """Return a message with right checksums, whatever its lengths say."""
    total = len(headers) + len(payload) + 16 if total is None else total
    lengths = pack(">II", total, len(headers))
    data = lengths + pack(">I", crc32(lengths)) + headers + payload
    return data + pack(">I", crc32(data))


class Reading(NamedTuple):
    """A decoder that has read some bytes, and the messages in them."""

    decoder: EventStreamDecoder
    messages: list[Message]


def read(data: bytes, size: int | None = None, **bounds: int) -> Reading:
    """Read bytes, in pieces of a size or at once."""
    reader = EventStreamDecoder(**bounds)
    step = size or len(data) or 1
    pieces = (data[start : start + step] for start in range(0, len(data), step))
    return Reading(reader, [message for piece in pieces for message in reader.feed(piece)])


def failure(data: bytes, **bounds: int) -> str:
    error = read(data, **bounds).decoder.failure
    assert error is not None
    return error.message


def test_smallest_message() -> None:
    reader, found = read(EMPTY)
    assert found == [Message({}, b"", EMPTY)]
    assert (reader.messages, reader.failure, reader.unfinished_bytes) == (1, None, 0)
    assert encode_message({}, b"") == EMPTY


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (b"\x00", True),
        (b"\x01", False),
        (b"\x02\xff", -1),
        (b"\x03\x01\x00", 256),
        (b"\x04\xff\xff\xff\xfe", -2),
        (b"\x05\x00\x00\x00\x01\x00\x00\x00\x00", 2**32),
        (b"\x06\x00\x02\xff\x00", b"\xff\x00"),
        (b"\x07\x00\x02\xc3\xa9", "é"),
        (b"\x08\x00\x00\x01\x8b\xcf\xe5\x68\x00", 1_700_000_000_000),
        (b"\x09" + bytes(range(16)), bytes(range(16))),
    ],
)
def test_type_of_a_header(header: bytes, value: object) -> None:
    (message,) = read(framed(b"\x01a" + header, b"{}")).messages
    assert message.headers == {"a": value}
    assert message.payload == b"{}"
    assert message.text("a") == (value if isinstance(value, str) else "")
    assert message.text("b") == ""


def test_written_message_is_read_by_botocore() -> None:
    data = encode_message(TEXTS, '{"é": 1}'.encode())
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    (message,) = buffer
    assert message.headers == TEXTS
    assert message.payload == '{"é": 1}'.encode()
    assert read(data).messages[0].headers == TEXTS


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (EMPTY[:8] + b"\x00" + EMPTY[9:], "lengths that do not match their checksum"),
        (EMPTY[:-1] + b"\x00", "bytes that do not match their checksum"),
        (framed(b"", total=15), "0 bytes of headers in 15 bytes"),
        (framed(b"\x01a\x00", total=18), "3 bytes of headers in 18 bytes"),
        (framed(bytes(128 * 1024 + 1)), "131073 bytes of headers in 131089 bytes"),
        (framed(b"\x01a\x0a"), "a header of type 10"),
        (framed(b"\x00\x00"), "an empty or repeated name of a header"),
        (framed(b"\x01a\x00\x01a\x01"), "an empty or repeated name of a header"),
        (framed(b"\x01a\x07\x00\x05b"), "a header that is cut off or no UTF-8"),
        (framed(b"\x01a\x04\x00"), "a header that is cut off or no UTF-8"),
        (framed(b"\x01a\x07\x00"), "a header that is cut off or no UTF-8"),
        (framed(b"\x05a"), "a header that is cut off or no UTF-8"),
        (framed(b"\x01\xff\x00"), "a header that is cut off or no UTF-8"),
        (framed(b"\x01a\x07\x00\x01\xff"), "a header that is cut off or no UTF-8"),
    ],
)
def test_message_that_breaks_the_format_ends_the_stream(data: bytes, problem: str) -> None:
    assert failure(data) == f"{problem}, in the message at byte 0"
    assert failure(EMPTY + data) == f"{problem}, in the message at byte 16"
    assert [message.raw for message in read(EMPTY + data).messages] == [EMPTY]


def test_headers_may_be_as_long_as_aws_allows() -> None:
    size = 128 * 1024
    values = [size // 3 - 5, size // 3 - 5, size - 2 * (size // 3) - 5]  # behind name and type
    headers = {name: "x" * count for name, count in zip("abc", values, strict=True)}
    data = encode_message(headers, b"snow")
    assert int.from_bytes(data[4:8]) == size
    reader, (message,) = read(data)
    assert reader.failure is None
    assert (message.headers, message.payload) == (headers, b"snow")


def test_nothing_is_read_behind_a_failure() -> None:
    reader, _ = read(EMPTY[:-1] + b"\x00" + EMPTY)
    assert reader.feed(EMPTY) == []
    assert reader.unfinished_bytes == 0


def test_length_beyond_the_bound_waits_for_no_byte_of_it() -> None:
    lengths = pack(">II", 2**32 - 1, 0)
    reader, _ = read(lengths + pack(">I", crc32(lengths)), max_message_bytes=1000)
    assert reader.failure is not None
    assert (reader.failure.kind, reader.failure.code) == ("too_large", "max_event_bytes")
    assert "4294967295 bytes, expected at most 1000" in reader.failure.message


def test_message_of_as_many_bytes_as_the_bound_is_read() -> None:
    data = encode_message({}, bytes(100))
    assert read(data, max_message_bytes=len(data)).decoder.failure is None
    assert read(data, max_message_bytes=len(data) - 1).decoder.failure is not None


@pytest.mark.parametrize("size", range(1, 16))
def test_message_without_its_end_is_held(size: int) -> None:
    reader, _ = read(EMPTY + EMPTY[:size])
    assert (reader.messages, reader.unfinished_bytes, reader.failure) == (1, size, None)


messages = st.builds(
    encode_message,
    st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=9), max_size=3),
    st.binary(max_size=40),
)
streams = st.lists(messages, max_size=5).map(b"".join)


@given(streams, st.binary(max_size=60), st.integers(0, 400), st.integers(1, 40))
def test_any_bytes_are_read_the_same_in_any_chunks(
    stream: bytes, noise: bytes, position: int, size: int
) -> None:
    data = stream[:position] + noise + stream[position:]
    whole, found = read(data)
    small, again = read(data, size)
    assert found == again
    assert whole.failure == small.failure
    assert whole.unfinished_bytes == small.unfinished_bytes
    assert data.startswith(b"".join([message.raw for message in found]))


# Messages of a stream, most with the headers of a chunk.
alike = st.lists(
    st.one_of(st.binary(max_size=9).map(partial(encode_message, TEXTS)), messages), max_size=8
).map(b"".join)


def _note_in(payloads: list[bytes]) -> Callable[[bytes], str]:
    def note(payload: bytes) -> str:
        payloads.append(payload)
        return ""

    return note


def read_alike(data: bytes, size: int) -> Reading:
    """Read bytes in pieces as a splitter does: messages alike first, then any other."""
    reader, found = EventStreamDecoder(), list[Message]()
    payloads = list[bytes]()
    read_message = reader.message_reader(_note_in(payloads))
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        payloads.clear()
        if read_message(piece) is None:
            payloads += reader.feed_same_headers(piece)
        elif payloads:
            assert reader.payload_of(reader.last_message) == payloads[0]
        found += [Message(found[-1].headers, payload, b"") for payload in payloads]
        if reader.has_unread_message:
            found += reader.feed(b"")
    return Reading(reader, found)


@given(alike, st.binary(max_size=20), st.integers(0, 400), st.integers(1, 400))
def test_messages_alike_are_read_as_all_others(
    stream: bytes, noise: bytes, position: int, size: int
) -> None:
    data = stream[:position] + noise + stream[position:]
    theirs, expected = read(data)
    ours, found = read_alike(data, size)
    assert [(m.headers, m.payload) for m in found] == [(m.headers, m.payload) for m in expected]
    assert (ours.failure, ours.offset) == (theirs.failure, theirs.offset)
    assert (ours.messages, ours.unfinished_bytes) == (theirs.messages, theirs.unfinished_bytes)


CHUNK = encode_message(TEXTS, b"snow")


def _refuse(payload: bytes) -> None:
    return None


def test_read_of_one_message_alike() -> None:
    reader, _ = read(CHUNK)
    read_message = reader.message_reader(bytes.decode)
    for damaged in (CHUNK + CHUNK, CHUNK[:-1] + b"!", CHUNK[:20] + b"!" + CHUNK[21:]):
        assert read_message(damaged) is None
    assert reader.message_reader(_refuse)(CHUNK) is None
    assert (reader.messages, reader.offset, reader.last_message) == (1, len(CHUNK), b"")
    assert read_message(CHUNK) == "snow"
    assert (reader.messages, reader.offset, reader.last_message) == (2, 2 * len(CHUNK), CHUNK)
    assert reader.feed_same_headers(CHUNK) == [b"snow"]


@pytest.mark.parametrize("cut", range(1, len(CHUNK)))
def test_read_that_ends_one_message_alike(cut: int) -> None:
    """Whether `feed_same_headers` or the reader of messages itself has read its beginning."""
    for begins_alike in (False, True):
        reader, _ = read(CHUNK)
        read_message = reader.message_reader(bytes.decode)
        # The length of the message is known with its prelude.
        assert not begins_alike or read_message(CHUNK[:cut]) == ("" if cut >= 12 else None)
        if not reader.held:
            assert reader.feed_same_headers(CHUNK[:cut]) == []
        assert not reader.has_unread_message
        assert (reader.messages, reader.held) == (1, CHUNK[:cut])
        assert read_message(CHUNK) is None
        assert cut == len(CHUNK) - 1 or read_message(CHUNK[cut:-1]) is None
        assert reader.message_reader(_refuse)(CHUNK[cut:]) is None
        assert reader.held == CHUNK[:cut]
        assert read_message(CHUNK[cut:]) == "snow"
        assert (reader.messages, reader.offset) == (2, 2 * len(CHUNK))
        assert (reader.unfinished_bytes, reader.last_message) == (0, CHUNK)


def test_beginning_that_is_as_long_as_a_message_before_it_is_held() -> None:
    reader, _ = read(CHUNK)
    read_message = reader.message_reader(bytes.decode)
    assert read_message(CHUNK) == "snow"
    longer = encode_message(TEXTS, b"x" * 100)
    assert read_message(longer[: len(CHUNK)]) == ""
    assert reader.held == longer[: len(CHUNK)]
    assert read_message(longer[len(CHUNK) :]) == "x" * 100
    assert (reader.messages, reader.unfinished_bytes) == (3, 0)


def test_message_with_other_headers_is_not_read_like_those_before() -> None:
    reader, _ = read(CHUNK)
    read_message = reader.message_reader(bytes.decode)
    assert read_message(CHUNK) == "snow"
    assert len(reader.feed(encode_message({":event-type": "other"}, b"rain"))) == 1
    assert read_message(CHUNK) is None
    assert read_message(encode_message({":event-type": "other"}, b"hail")) == "hail"


def test_message_that_is_no_payload_is_left_to_be_read_in_full() -> None:
    reader, _ = read(CHUNK)
    reader.reads_payloads = False
    assert reader.message_reader(bytes.decode)(CHUNK) is None
    assert reader.feed_same_headers(CHUNK) == [b"snow"]


def test_long_headers_are_not_stored_with_every_length() -> None:
    """A peer may send headers of 128 KiB."""
    long = [encode_message({"a": "x" * 60_000}, bytes(size)) for size in range(300)]
    reader = EventStreamDecoder()
    assert peak(lambda: [reader.feed_same_headers(each) or reader.feed(b"") for each in long]) < (
        2_000_000
    )
    assert reader.messages == 300


def test_nothing_is_alike_before_the_first_message_or_behind_a_failure() -> None:
    reader = EventStreamDecoder()
    assert reader.feed_same_headers(EMPTY) == []
    assert reader.has_unread_message
    assert len(reader.feed(CHUNK)) == 2
    assert reader.feed_same_headers(CHUNK) == [b"snow"]
    reader.feed(b"\x00" * 16)
    assert reader.failure is not None
    assert reader.feed_same_headers(CHUNK) == []
    assert reader.message_reader(bytes.decode)(CHUNK) is None
    assert not reader.has_unread_message


def test_known_lengths_are_bounded() -> None:
    def lengths(count: int) -> bytes:
        return b"".join([encode_message(TEXTS, bytes(size)) for size in range(count)])

    reader, _ = read(CHUNK)
    data = lengths(3000)
    assert peak(lambda: [reader.feed_same_headers(data) for _ in range(3)]) < 3 * len(data)
    assert reader.feed_same_headers(lengths(30)) == [bytes(size) for size in range(30)]
    messages = [encode_message(TEXTS, bytes(size)) for size in range(3000)]
    read_message = reader.message_reader(lambda payload: "read")
    assert peak(lambda: [read_message(message) for message in messages]) < len(data)
    assert read_message(messages[7]) == "read"


@given(streams, st.data())
def test_a_changed_byte_never_changes_a_message(stream: bytes, choose: st.DataObject) -> None:
    """The checksums find it, or it is in the length, and the message does not end."""
    if not stream:
        return
    position = choose.draw(st.integers(0, len(stream) - 1))
    bit = 1 << choose.draw(st.integers(0, 7))
    before = read(stream).messages
    changed = bytes([stream[position] ^ bit])
    after = read(stream[:position] + changed + stream[position + 1 :]).messages
    assert before[: len(after)] == after
    assert len(after) < len(before)


@pytest.mark.parametrize("size", [1, 64, 10**9])
def test_steps_grow_with_the_bytes(size: int) -> None:
    def work(count: int) -> None:
        data = encode_message(TEXTS, b"x" * 100) * count
        assert read(data, size).decoder.messages == count
        assert read_alike(data, size).decoder.messages == count

    few, many = (operations(partial(work, count)) for count in (50, 200))
    assert many < 4.2 * few


def test_a_message_is_held_once() -> None:
    large = encode_message({}, bytes(10**6))
    assert peak(lambda: read(large, 4096)) < 8 * 10**6


def test_botocore_reads_the_same_headers() -> None:
    buffer = EventStreamBuffer()
    data = framed(b"\x01a\x04\x00\x00\x00\x07\x01b\x01", b"p")
    buffer.add_data(data)
    (theirs,) = buffer
    assert read(data).messages[0].headers == theirs.headers == {"a": 7, "b": False}


def test_encoder_of_equal_headers_stores_few_lengths() -> None:
    headers = {":event-type": "chunk"}
    encoder = MessageEncoder(headers)
    for size in (*range(1100), 0, 5):
        payload = b"x" * size
        assert encoder.encode(payload) == encode_message(headers, payload)
        assert EventStreamDecoder().feed(encoder.encode(payload))[0].payload == payload

    def write() -> None:
        for size in range(5000):
            encoder.encode(b"x" * size)

    assert peak(write) < 400_000
