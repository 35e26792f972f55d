"""Chunks that only continue a block, told by their bytes: read as with care, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic_frames import STOP, block, delta, end, event, start, stop

from streamnorm import Event, JSONDelta, Limits, ReasoningDelta, TextDelta, decoder
from streamnorm.sse import Frame

OPENING = {
    "text_delta": block(0, "text", text=""),
    "thinking_delta": block(0, "thinking", thinking=""),
    "input_json_delta": block(0, "tool_use", id="c", name="f"),
}
FIELD = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
MAKE: dict[str, type[Event]] = {
    "text_delta": TextDelta,
    "thinking_delta": ReasoningDelta,
    "input_json_delta": JSONDelta,
}

each_kind = pytest.mark.parametrize("kind", OPENING)


def compact(kind: str, text: str, index: int = 0, pad: int = 0) -> bytes:
    """Return a delta as the API writes it, padded with spaces."""
    body = {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": kind, FIELD[kind]: text},
    }
    data = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return b"event: content_block_delta\ndata: " + data.encode()[:-1] + b" " * pad + b"}\n\n"


def fed(chunks: list[bytes], **options: Any) -> list[list[Event]]:
    """Return what each chunk gives, read one after the other."""
    reader = decoder("anthropic", **options)
    return [reader.feed(chunk) for chunk in chunks]


@each_kind
def test_more_of_a_block_is_read_by_what_changes(kind: str) -> None:
    texts = ["a", 'b"\\ \n', "é😀\u2028", "", "x" * 300, "}}", "\ud7ff", '"}}\n\n']
    chunks = [start(), OPENING[kind], *(compact(kind, text, pad=n) for n, text in enumerate(texts))]
    given = fed(chunks)
    make: Any = MAKE[kind]
    assert given[2:] == [[make(0, text)] if text else [] for text in texts]


@each_kind
def test_whatever_is_not_alike_is_read_with_care(kind: str) -> None:
    piece, make = compact(kind, "a"), MAKE[kind]
    other = compact(kind, "b").replace(b',"delta"', b',"n":1,"delta"')
    named = compact(kind, "b").replace(b'"}}', b'","odd":"b"}}')
    escaped = compact(kind, "b").replace(b'"b"', b'"\\ud83d"')
    crlf = compact(kind, "b").replace(b"\n", b"\r\n")
    half = compact(kind, "b")
    chunks = [
        *(start(), OPENING[kind], piece, piece, event("ping"), piece, piece, other, piece),
        *(named, piece, escaped, escaped.replace(b"d83d", b"de00"), piece, crlf),
        *(piece, piece + piece, piece, half[:40], half[40:], piece, b": hi\n\n", piece),
    ]
    one_by_one = [event for given in fed(chunks) for event in given]
    body = b"".join(chunks)
    assert one_by_one == [
        e for given in fed([body[i : i + 1] for i in range(len(body))]) for e in given
    ]
    assert all(type(event) is make for event in one_by_one[3:4])


def test_piece_of_another_block_is_not_taken_for_this_one() -> None:
    chunks = [
        *(start(), block(0, "text", text=""), block(1, "text", text="")),
        *(compact("text_delta", "a", 0), compact("text_delta", "b", 1)),
        *(compact("text_delta", "c", 1), compact("text_delta", "d", 0)),
    ]
    assert [given[0] for given in fed(chunks)[3:]] == [
        *(TextDelta(0, "a"), TextDelta(1, "b"), TextDelta(1, "c"), TextDelta(0, "d")),
    ]


def test_block_that_has_stopped_takes_no_more() -> None:
    piece = compact("text_delta", "a")
    events = [
        e
        for given in fed([start(), OPENING["text_delta"], piece, piece, stop(0), piece])
        for e in given
    ]
    assert [getattr(event, "index", None) for event in events] == [None, 0, 0, 0, 0, 1, 1]


def test_arguments_that_came_so_are_judged_at_the_end() -> None:
    for texts, reason in [(['{"a":', "1", "}"], "tool_use"), (['{"a":', "1", "2"], "other")]:
        pieces = [compact("input_json_delta", text) for text in texts]
        chunks = [start(), OPENING["input_json_delta"], *pieces, stop(0), STOP]
        stopped: Any = fed(chunks)[-1][-1]
        assert stopped.reason == reason


def test_frames_are_counted_and_bounded_all_the_same() -> None:
    reader = decoder("anthropic", limits=Limits(max_event_bytes=300))
    piece = compact("text_delta", "a")
    for chunk in (start(), OPENING["text_delta"], piece, piece, compact("text_delta", "x" * 100)):
        reader.feed(chunk)
    assert reader.frames == 5
    (error,) = reader.feed(compact("text_delta", "x" * 300))
    assert getattr(error, "code", None) == "max_event_bytes"


def test_other_ways_to_feed_end_the_short_way() -> None:
    piece = compact("text_delta", "a")
    for leave in ("frame", "close", "abort"):
        reader = decoder("anthropic")
        for chunk in (start(), OPENING["text_delta"], piece, piece):
            reader.feed(chunk)
        assert reader.more(piece) == "a"
        if leave == "frame":
            reader.feed_frame(Frame("ping", '{"type":"ping"}'))
        elif leave == "close":
            reader.close()
        else:
            reader.abort(OSError())
        assert reader.continued is None


def test_spaces_without_end_are_no_short_way() -> None:
    chunks = [start(), OPENING["text_delta"]]
    pieces = [compact("text_delta", "a", pad=pad) for pad in [*range(200), 5000]]
    given = fed([*chunks, *pieces, delta(0, "text_delta", text="b"), stop(0), end(), STOP])
    assert all(events == [TextDelta(0, "a")] for events in given[2 : 2 + len(pieces)])
    assert given[-4] == [TextDelta(0, "b")]
