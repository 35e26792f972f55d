"""Delta runs: `content_block_delta` events that only extend an open block."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.anthropic.frames import STOP, block, delta, end, event, start, stop
from support.streams.delta_runs import offer, read_chunks, read_each_way

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Limits,
    MessageStop,
    ReasoningDelta,
    StreamError,
    Text,
    TextDelta,
)
from streamnorm.codec import decoder
from streamnorm.sse import Frame

OPENING = {
    "text_delta": block(0, "text", text=""),
    "thinking_delta": block(0, "thinking", thinking=""),
    "input_json_delta": block(0, "tool_use", id="c", name="f"),
}
FIELD = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
MAKE: dict[str, Any] = {
    "text_delta": TextDelta,
    "thinking_delta": ReasoningDelta,
    "input_json_delta": JSONDelta,
}

each_delta_type = pytest.mark.parametrize("delta_type", OPENING)


def compact(delta_type: str, text: str, index: int = 0, pad: int = 0) -> bytes:
    """Return a delta as the API writes it, padded with spaces."""
    body = {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": delta_type, FIELD[delta_type]: text},
    }
    data = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return b"event: content_block_delta\ndata: " + data.encode()[:-1] + b" " * pad + b"}\n\n"


@each_delta_type
def test_deltas_of_an_open_block_are_on_the_run(delta_type: str) -> None:
    texts = ["a", 'b"\\ \n', "é😀\u2028", "", "x" * 300, "}}", "\ud7ff", '"}}\n\n', "x" * 5000]
    deltas = [compact(delta_type, text, pad=pad) for pad, text in enumerate(texts)]
    reading = read_chunks("anthropic", start(), OPENING[delta_type], *deltas)
    assert reading.events[2:] == [[MAKE[delta_type](0, text)] if text else [] for text in texts]
    # The first may repeat what stood in the start of its block.
    assert reading.on_run[2:] == [0] + [1] * (len(texts) - 1)


@each_delta_type
def test_run_names_the_block_that_a_text_extends(delta_type: str) -> None:
    reader = decoder("anthropic")
    for index in (0, 1):
        opening = OPENING[delta_type].replace(b'"index": 0', b'"index": %d' % (index + 3))
        reader.feed((start() if not index else b"") + opening.replace(b'"c"', b'"c%d"' % index))
        reader.feed(compact(delta_type, "{", index + 3))
    run = reader.run
    assert run is not None
    named = []
    for index in (3, 4, 4, 3):
        (raw,) = reader.split(compact(delta_type, "1", index))
        assert isinstance(raw, bytes)
        assert run.text_of(raw) == "1"
        assert type(run.delta) is MAKE[delta_type]
        named.append(run.delta.index)
    assert named == [0, 1, 1, 0]


@each_delta_type
def test_event_is_on_the_run_whatever_the_order_of_its_fields(delta_type: str) -> None:
    plain = compact(delta_type, "b")
    payload = json.loads(plain.split(b"data: ")[1])
    spaced = b"event: content_block_delta\ndata: " + json.dumps(payload).encode() + b"\n\n"
    payload["delta"] = dict(reversed(payload["delta"].items()))
    turned = json.dumps(dict(reversed(payload.items()))).encode()
    turned = b"event: content_block_delta\ndata: " + turned + b"\n\n"
    deltas = [plain, plain, spaced, spaced, turned, plain, turned, spaced, plain]
    reading = read_chunks("anthropic", start(), OPENING[delta_type], *deltas)
    assert reading.events[2:] == [[MAKE[delta_type](0, "b")]] * len(deltas)
    assert reading.on_run[3:] == [1] * (len(deltas) - 1)


REFUSED = {
    "another event": lambda piece: event("ping"),
    "an error": lambda piece: event("error", error={"type": "api_error", "message": "no"}),
    "another name": lambda piece: piece.replace(b"event: content", b"event: Content"),
    "no name": lambda piece: piece.split(b"\n", 1)[1],
    "a name behind the data": lambda piece: (
        b"data: " + piece.split(b"data: ")[1][:-1] + piece.split(b"data: ")[0] + b"\n"
    ),
    "no space behind a colon": lambda piece: piece.replace(b"data: ", b"data:"),
    "two data lines": lambda piece: piece.replace(b',"delta"', b',\ndata: "delta"'),
    "a line end before the text": lambda piece: piece.replace(b':"b"', b':\n"b"'),
    "a CR before the text": lambda piece: piece.replace(b':"b"', b':\r"b"'),
    "a line end in the text": lambda piece: piece.replace(b'"b"', b'"b\n"'),
    "a CR in the text": lambda piece: piece.replace(b'"b"', b'"b\r"'),
    "a CR behind the payload": lambda piece: piece.replace(b"}}", b"}}\rid: 7"),
    "an id": lambda piece: piece[:-1] + b"id: 7\n\n",
    "a line of spaces": lambda piece: piece[:-1] + b" \n\n",
    "a comment": lambda piece: b": hi\n" + piece,
    "a brace too many": lambda piece: piece.replace(b"}}", b"}}}"),
    "a brace too few": lambda piece: piece.replace(b"}}", b"}"),
    "junk behind the payload": lambda piece: piece.replace(b"}}", b"}}x"),
    "a comma behind the text": lambda piece: piece.replace(b'"}', b'",}'),
    "a text that is not UTF-8": lambda piece: piece.replace(b'"b"', b'"\xff"'),
    "half a character": lambda piece: piece.replace(b'"b"', b'"\\ud83d"'),
    "a control character": lambda piece: piece.replace(b'"b"', b'"\x00"'),
    "null": lambda piece: piece.replace(b'"b"', b"null"),
    "a number": lambda piece: piece.replace(b'"b"', b"7"),
    "a block that has not begun": lambda piece: piece.replace(b":0,", b":7,"),
    "an index that is no number": lambda piece: piece.replace(b":0,", b':"0",'),
    "no index": lambda piece: piece.replace(b'"index":0,', b""),
    "a signature": lambda piece: delta(0, "signature_delta", signature="s"),
    "an unknown delta": lambda piece: delta(0, "odd_delta", text="b"),
    "no event": lambda piece: b": hi\n\n",
    "a blank line": lambda piece: b"\n\n",
}


@pytest.mark.parametrize("name", REFUSED)
@each_delta_type
def test_frame_other_than_a_plain_delta_is_read_in_full(delta_type: str, name: str) -> None:
    plain = compact(delta_type, "b")
    odd = REFUSED[name](plain)
    assert odd != plain
    chunks = [start(), OPENING[delta_type], plain, plain, plain, odd, plain, plain]
    reading = read_chunks("anthropic", *chunks)
    assert reading.on_run[3:6] == [1, 1, 0]
    if reading.decoder.outcome is None:
        read_each_way("anthropic", *chunks)


@each_delta_type
def test_unknown_fields_change_nothing(delta_type: str) -> None:
    plain = compact(delta_type, "b")
    beside = plain.replace(b',"delta"', b',"n":{"text":"x"},"delta"')
    within = plain.replace(b'"}}', b'","odd":"b"}}')
    behind = plain.replace(b"}}", b'},"n":[1]}')
    twice = plain.replace(b'"}}', b'","%b":"c"}}' % FIELD[delta_type].encode())
    chunks = [plain, plain, beside, within, behind, twice, plain, beside, beside, plain]
    events = read_each_way("anthropic", start(), OPENING[delta_type], *chunks)
    texts = ["b", "b", "b", "b", "b", "c", "b", "b", "b", "b"]
    assert events[2:] == [MAKE[delta_type](0, text) for text in texts]


@each_delta_type
def test_half_a_surrogate_pair_is_held_for_the_other_half(delta_type: str) -> None:
    plain = compact(delta_type, "b")
    high, low = (plain.replace(b'"b"', b'"%b"' % half) for half in (rb"a\ud83d", rb"\ude00c"))
    reading = read_chunks(
        "anthropic", start(), OPENING[delta_type], plain, plain, high, low, plain, high, plain
    )
    make = MAKE[delta_type]
    assert reading.events[4:] == [
        [make(0, "a")],
        [make(0, "😀c")],
        [make(0, "b")],
        [make(0, "a")],
        [make(0, "\ufffdb")],
    ]
    assert reading.on_run[4:] == [0, 0, 1, 0, 0]


def test_delta_of_another_type_than_its_block_is_read_in_full() -> None:
    opening, astray = OPENING["input_json_delta"], compact("text_delta", "a")
    call = compact("input_json_delta", "1")
    reading = read_chunks("anthropic", start(), opening, call, call, astray, astray, call)
    assert reading.events[3:] == [
        [JSONDelta(0, "1")],
        [BlockStart(1, Text()), TextDelta(1, "a")],
        [TextDelta(1, "a")],
        [JSONDelta(0, "1")],
    ]
    assert reading.on_run[3:] == [1, 0, 0, 1]


def test_deltas_of_interleaved_blocks_are_on_the_run() -> None:
    opening = [block(0, "text", text=""), block(1, "text", text="")]
    indexes = [0, 1, 0, 1, 1, 0]
    deltas = [compact("text_delta", str(at), index) for at, index in enumerate(indexes)]
    reading = read_chunks("anthropic", start(), *opening, *deltas)
    assert reading.events[3:] == [[TextDelta(index, str(at))] for at, index in enumerate(indexes)]
    assert reading.on_run[3:] == [0, 0, 1, 1, 1, 1]


@each_delta_type
def test_delta_after_the_stop_is_malformed(delta_type: str) -> None:
    piece = compact(delta_type, "1")
    chunks = [start(), OPENING[delta_type], piece, piece, stop(0), piece]
    reading = read_chunks("anthropic", *chunks)
    assert isinstance(reading.events[-1][-1], StreamError)
    assert reading.on_run[3:] == [1, 0, 0]


def test_thinking_after_a_signature_is_read_in_full() -> None:
    piece, signature = compact("thinking_delta", "a"), delta(0, "signature_delta", signature="s")
    chunks = [start(), OPENING["thinking_delta"], piece, piece, signature, piece, piece]
    reading = read_chunks("anthropic", *chunks)
    assert reading.on_run[3:6] == [1, 0, 0]
    read_each_way("anthropic", *chunks, stop(0), end(), STOP)


@pytest.mark.parametrize(
    ("texts", "reason"), [(['{"a":', "1", "}"], "tool_use"), (['{"a":', "1", "2"], "other")]
)
def test_completeness_of_arguments_on_the_run_decides_the_stop_reason(
    texts: list[str], reason: str
) -> None:
    deltas = [compact("input_json_delta", text) for text in texts]
    chunks = [start(), OPENING["input_json_delta"], *deltas, stop(0), STOP]
    reading = read_chunks("anthropic", *chunks)
    assert reading.on_run[3:5] == [1, 1]
    last = reading.events[-1][-1]
    assert isinstance(last, MessageStop)
    assert last.reason == reason


def test_frames_on_the_run_are_counted() -> None:
    piece = compact("text_delta", "a")
    chunks = [start(), OPENING["text_delta"], piece, piece + piece, piece]
    assert read_chunks("anthropic", *chunks).decoder.frames == 6


@pytest.mark.parametrize("reads", [1, 2])
def test_frames_on_the_run_are_bounded(reads: int) -> None:
    limits = Limits(max_event_bytes=300)
    plain = compact("text_delta", "")
    piece = compact("text_delta", "a")
    for size, code in ((299, None), (300, None), (301, "max_event_bytes")):
        # The lines are counted with their ends, the blank line is not.
        large = compact("text_delta", "x" * (size - len(plain) + 1))
        assert len(large) == size + 1
        chunks = [large] if reads == 1 else [large[:150], large[150:]]
        reader = decoder("anthropic", limits=limits)
        reader.feed(start() + OPENING["text_delta"])
        reader.feed(piece)
        reader.feed(piece)
        events = [event for chunk in chunks for event in reader.feed(chunk)]
        assert [getattr(event, "code", None) for event in events] == [code]


def test_feed_frame_and_the_run_share_the_open_blocks() -> None:
    piece = compact("text_delta", "a")
    payload = piece.split(b"data: ")[1].decode()
    reader = decoder("anthropic")
    for chunk in (start(), OPENING["text_delta"], piece, piece):
        reader.feed(chunk)
    assert reader.feed_frame(Frame("content_block_delta", payload)) == [TextDelta(0, "a")]
    assert offer(reader, piece).events == [TextDelta(0, "a")]
    stopped = reader.feed_frame(Frame("content_block_stop", '{"index":0}'))
    assert stopped == [BlockStop(0)]
    (error,), on_run = offer(reader, piece)
    assert isinstance(error, StreamError)
    assert on_run == 0


@pytest.mark.parametrize("ends", ["close", "abort"])
def test_stream_that_has_ended_has_no_run(ends: str) -> None:
    reader = decoder("anthropic")
    for chunk in (start(), OPENING["text_delta"], *[compact("text_delta", "a")] * 2):
        reader.feed(chunk)
    assert reader.run is not None
    (last,) = reader.close() if ends == "close" else reader.abort(OSError())
    assert isinstance(last, StreamError)
    assert reader.run is None


def test_padding_of_any_length_stays_on_the_run() -> None:
    pads = [*range(200), 5000, 3]
    pieces = [compact("text_delta", "a", pad=pad) for pad in pads]
    chunks = [start(), OPENING["text_delta"], *pieces, delta(0, "text_delta", text="b"), stop(0)]
    reading = read_chunks("anthropic", *chunks)
    given: list[list[Event]] = reading.events[2:-1]
    assert given == [[TextDelta(0, "a")]] * len(pads) + [[TextDelta(0, "b")]]
    assert sum(reading.on_run) == len(pads)
