"""Where the events of a stream end, where cuts are hostile, and texts replaced in messages."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from support.bedrock.chunks import EVENTS, chunk, exception, invoked

from streamnorm._core.codec.framing import LINES, Rewriter, StreamLayout
from streamnorm._core.codec.message_layout import ChunkContent
from streamnorm._core.limits import Limits
from streamnorm.codec import EVENTSTREAM, INVOKE_CHUNKS, SSE
from streamnorm.eventstream import EventStreamDecoder, encode_message
from streamnorm.sse import Frame

CHUNKS = INVOKE_CHUNKS.layout
MESSAGES = [chunk(event) for event in EVENTS]
STREAM = b"".join(MESSAGES)
SECRET, HIDDEN = b"sk-secret", b"xxxxxxxxx"


def hide(texts: list[bytes]) -> list[bytes]:
    return [text.replace(SECRET, HIDDEN) for text in texts]


def rewriter_of(layout: StreamLayout) -> Rewriter:
    assert layout.rewriter is not None
    return layout.rewriter


def rewrite(data: bytes, layout: StreamLayout = CHUNKS) -> bytes:
    messages = EventStreamDecoder().feed(data)
    return b"".join(rewriter_of(layout).rewrite(messages, hide))


def payloads(data: bytes) -> list[bytes]:
    """Read the payloads with botocore, which checks lengths and checksums."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [message.payload for message in buffer]


def test_events_of_lines_end_behind_their_blank_lines() -> None:
    assert LINES.find_event_ends(b"data: 1\n\ndata: 2\r\n\r\n\ndata") == [9, 21, 25]
    assert LINES.find_event_ends(b"") == []
    assert SSE.layout is LINES
    wholes = [b"", b"data: 1\n\n", b"data: 1\r\n\r\n", b"data: 1\r\r", b"data: 1\n\r\n"]
    assert all(map(LINES.is_whole, wholes))
    assert not any(map(LINES.is_whole, [b"data: 1", b"data: 1\n", b"data: 1\r\n", b"\r\n"]))
    assert LINES.rewriter is None


def test_hostile_cuts_of_lines_are_within_units() -> None:
    # Inside `data:`, behind the colon, inside the character, between CR and LF.
    assert LINES.find_hostile_cuts("data: é\r\n".encode()) == [3, 6, 7, 9]


def test_frames_of_lines() -> None:
    reader = LINES.frame_reader(Limits())
    assert reader.feed(b"data: 1\n\ndata: 2\n") == [Frame("message", "1")]
    assert reader.frames == 1
    assert reader.unterminated() == Frame("message", "2")


def test_events_of_an_event_stream_are_its_messages() -> None:
    ends = [sum(map(len, MESSAGES[: n + 1])) for n in range(len(MESSAGES))]
    assert CHUNKS.find_event_ends(STREAM) == ends
    assert CHUNKS.find_event_ends(STREAM + b"\0\0\1") == [*ends, ends[-1] + 3]
    assert CHUNKS.find_event_ends(b"") == []
    assert CHUNKS.is_whole(b"")
    assert CHUNKS.is_whole(STREAM)
    assert not CHUNKS.is_whole(STREAM[:-1])


def test_wrong_message_is_cut_no_further() -> None:
    wrong = MESSAGES[0] + b"\xff" * 20 + MESSAGES[1]
    assert CHUNKS.find_event_ends(wrong) == [len(MESSAGES[0]), len(wrong)]


def test_hostile_cuts_of_a_message() -> None:
    # A prelude of 12 bytes, 5 of headers, 6 of payload, and the checksum.
    message = encode_message({"a": ""}, "abéé".encode())
    assert len(message) == 12 + 5 + 6 + 4
    expected = [2, 6, 8, 10, 12, 14, 17, 20, 21, 22, 23, 25, 27]
    assert CHUNKS.find_hostile_cuts(message) == expected
    both = CHUNKS.find_hostile_cuts(message * 2)
    assert both == [*expected, *(27 + cut for cut in expected)]


def test_frames_of_chunks_are_those_in_them() -> None:
    reader = CHUNKS.frame_reader(Limits())
    frames = [frame for size in STREAM for frame in reader.feed(bytes([size]))]
    expected = [(e["type"], e) for e in EVENTS]
    assert [(frame.event, json.loads(frame.data)) for frame in frames] == expected
    assert (reader.frames, reader.unterminated()) == (len(EVENTS), None)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            exception("throttlingException", message="slow"),
            Frame("throttlingException", '{"message": "slow"}'),
        ),
        (
            encode_message({":message-type": "error", ":error-code": "500"}, b""),
            Frame("500", ""),
        ),
        (
            encode_message({":message-type": "event", ":event-type": "ping"}, b"\xff"),
            Frame("ping", "�"),
        ),
        (encode_message({}, b"{}"), Frame("message", "{}")),
    ],
    ids=["exception", "error", "unknown event", "no headers"],
)
def test_message_that_ends_the_stream_is_a_frame(message: bytes, expected: Frame) -> None:
    reader = CHUNKS.frame_reader(Limits())
    assert reader.feed(MESSAGES[0] + message + MESSAGES[1])[1:] == [
        expected,
        Frame("chunk", payloads(MESSAGES[1])[0].decode()),
    ]


def test_frames_are_bounded() -> None:
    limits = Limits(max_event_bytes=len(MESSAGES[0]) - 1)
    assert CHUNKS.frame_reader(limits).feed(STREAM) == []


def test_text_in_a_chunk_is_replaced() -> None:
    event: Any = {"type": "ping", "text": SECRET.decode()}
    data = MESSAGES[0] + chunk(event) + MESSAGES[1]
    found = rewrite(data)
    assert len(found) == len(data)
    assert invoked(found).events[1] == {"type": "ping", "text": HIDDEN.decode()}
    assert found.startswith(MESSAGES[0])
    assert found.endswith(MESSAGES[1])


def test_text_beside_the_base64_and_in_headers_is_replaced() -> None:
    payload = b'{"bytes":"eyJ9","p":"%b"}' % SECRET
    data = encode_message({":message-type": "event", "key": SECRET.decode()}, payload)
    found = rewrite(data)
    assert payloads(found) == [payload.replace(SECRET, HIDDEN)]
    assert EventStreamDecoder().feed(found)[0].text("key") == HIDDEN.decode()


def test_base64_in_another_spelling_is_replaced() -> None:
    base64 = b64encode(b'{"a":"sk-secret!"}').decode()
    spelt = json.dumps({"by": 0, "bytes": base64}).replace("JhI", "\\u004ahI")
    found = rewrite(encode_message({}, spelt.encode()))
    (payload,) = payloads(found)
    assert json.loads(payload) == {"bytes": b64encode(b'{"a":"xxxxxxxxx!"}').decode()}
    assert len(payload) == len(spelt)


@pytest.mark.parametrize(
    "payload", [b'{"bytes":"sk-secret"}', b'{"bytes":7,"p":"sk-secret"}', b"[sk-secret", b'"\xff"']
)
def test_payload_that_is_no_chunk_is_one_text(payload: bytes) -> None:
    assert payloads(rewrite(encode_message({}, payload))) == [payload.replace(SECRET, HIDDEN)]


def test_spelling_of_a_chunk_without_replaced_text_stays() -> None:
    # The last four bits of `eR==` mean nothing, and a writer leaves them out.
    data = encode_message({}, b'{ "bytes": "eR==" }') + encode_message(
        {}, b'{"bytes":"\\u0065Q=="}'
    )
    assert rewrite(data) == data


def test_base64_of_half_a_message_is_replaced() -> None:
    data = chunk({"type": "ping", "text": f"{SECRET.decode()} {'y' * 40}"})[:-60]
    rest = rewriter_of(CHUNKS).rewrite_rest(data, hide)
    assert len(rest) == len(data)
    assert b64encode(b'{"type":"ping","text":"xxxxxxxxx')[:40] in rest
    assert rewriter_of(CHUNKS).rewrite_rest(data[:90], hide) == data[:90]
    assert rewriter_of(CHUNKS).rewrite_rest(b"a " + SECRET, hide) == b"a " + HIDDEN


# The base64 of `{"a":"sk-secret!!"}` in 26 characters, whose last byte is in the last two.
UNPADDED = b64encode(b'{"a":"sk-secret!!"}').rstrip(b"=")


@pytest.mark.parametrize("end", [b'"}', b'","p":"abc"}', b'=","p":"abc"}'])
def test_base64_without_its_padding_is_replaced(end: bytes) -> None:
    assert len(UNPADDED) % 4 == 2
    payload = b'{"bytes":"%b' % UNPADDED + end
    hidden = b64encode(b'{"a":"xxxxxxxxx!!"}').rstrip(b"=")
    assert payloads(rewrite(encode_message({}, payload))) == [payload.replace(UNPADDED, hidden)]


def test_secret_at_the_end_of_unpadded_base64_is_replaced() -> None:
    for text in (b"1sk-secret", b"12sk-secret", b"sk-secret"):
        payload = b'{"bytes":"%b"}' % b64encode(text).rstrip(b"=")
        hidden = b64encode(text.replace(SECRET, HIDDEN)).rstrip(b"=")
        assert payloads(rewrite(encode_message({}, payload))) == [b'{"bytes":"%b"}' % hidden]
        rest = payload[:-2]  # cut behind its last character
        assert rewriter_of(CHUNKS).rewrite_rest(rest, hide) == b'{"bytes":"%b' % hidden


@pytest.mark.parametrize("at", [0, 1])
def test_each_of_two_chunks_in_a_payload_is_replaced(at: int) -> None:
    texts = [b'{"a":"harmless"}', b'{"a":"harmless"}']
    texts[at] = b'{"a":"sk-secret"}'
    payload = b'{"bytes":"%b","bytes":"%b"}' % (b64encode(texts[0]), b64encode(texts[1]))
    (found,) = payloads(rewrite(encode_message({}, payload)))
    assert len(found) == len(payload)
    # A reader of JSON takes the last one.
    assert json.loads(found)["bytes"] == b64encode(texts[1].replace(SECRET, HIDDEN)).decode()
    assert b64encode(SECRET)[:8] not in found
    assert b64encode(texts[at]) not in found


def test_same_chunk_twice_in_a_payload_is_replaced_twice() -> None:
    base64 = b64encode(b'{"a":"sk-secret"}')
    payload = b'{"bytes":"%b","bytes":"%b"}' % (base64, base64)
    assert base64 not in payloads(rewrite(encode_message({}, payload)))[0]


def test_texts_of_a_rest_are_replaced_at_once() -> None:
    calls: list[int] = []

    def count(texts: list[bytes]) -> list[bytes]:
        calls.append(len(texts))
        return hide(texts)

    message = chunk({"type": "ping", "text": SECRET.decode()})
    data = b"\xff" * 16 + MESSAGES[0] + message * 100
    found = rewriter_of(CHUNKS).rewrite_rest(data, count)
    assert len(calls) == 1
    assert len(found) == len(data)
    hidden = b64encode(b'{"type":"ping","text":"xxxxxxxxx"}').rstrip(b"=")
    assert found.count(hidden) == 100
    assert MESSAGES[0] in found


def test_encoded_texts_are_found_in_any_bytes() -> None:
    content = ChunkContent()
    assert content.find_encoded(b'{"bytes":"eyJ9"}') == [b'{"}']
    # Once by readers of JSON, and once up to the escape.
    assert content.find_encoded(b'{"bytes":"eyJ9\\u0065Q=="}') == [b'{"}y', b'{"}']
    cut = b'"bytes":"eyJ9","bytes" : "eX'
    assert content.find_encoded(b"\xff\0" + cut) == [b"", b'{"}', b"y"]


def test_payload_of_a_plain_layout_is_one_text() -> None:
    layout = EVENTSTREAM.layout
    data = encode_message({}, b'{"a":"sk-secret"}')
    assert payloads(rewrite(data, layout)) == [b'{"a":"xxxxxxxxx"}']
    assert rewriter_of(layout).rewrite_rest(data[:-2], hide) == data[:-2].replace(SECRET, HIDDEN)
