"""Framing: the cases of `data/sse_cases.json` under every chunking, bounds, residue."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import httpx_sse
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams.mutations import chunked

from streamnorm.sse import Frame, SSEDecoder, encode_frame

CASES: list[dict[str, Any]] = [
    case
    for case in json.loads((Path(__file__).parent / "data" / "sse_cases.json").read_text())["cases"]
    # Cases that reject a content type are judged where headers are: see test_gate.
    if not case.get("rejects")
]


def body(case: dict[str, Any]) -> bytes:
    if "input_rle" in case:
        return b"".join(base64.b64decode(part) * times for part, times in case["input_rle"])
    return base64.b64decode(case["input_b64"])


def expected(case: dict[str, Any]) -> list[Frame]:
    frames = []
    for event in case["expected"]:
        data = (
            "".join(text * times for text, times in event["data_rle"])
            if "data_rle" in event
            else event["data"]
        )
        frames.append(Frame(event["event"], data, event["id"], event["retry"]))
    return frames


def run(chunks: list[bytes]) -> tuple[list[Frame], SSEDecoder]:
    decoder = SSEDecoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close(), decoder


def chunkings(data: bytes) -> list[list[bytes]]:
    """Whole, by one, two, three and seven bytes, every cut in two, and empty chunks between."""
    if len(data) > 4096:
        return [[data], chunked(data, 64), chunked(data, 65536)]
    singles = chunked(data, 1)
    return [
        [data],
        singles,
        *(chunked(data, n) for n in (2, 3, 7)),
        *([data[:i], data[i:]] for i in range(len(data) + 1)),
        [piece for single in singles for piece in (b"", single)],
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case_gives_the_same_frames_under_every_chunking(case: dict[str, Any]) -> None:
    data = body(case)
    given_chunks = [[base64.b64decode(c) for c in case["chunks"]]] if "chunks" in case else []
    for chunks in given_chunks + chunkings(data):
        frames, decoder = run(chunks)
        assert frames == expected(case)
        assert decoder.last_event_id == case["final"]["last_event_id"]
        assert decoder.retry_ms == case["final"]["retry_ms"]


@pytest.mark.parametrize(
    "case", [case for case in CASES if "prompt" in case], ids=lambda case: case["name"]
)
def test_case_delivers_each_frame_with_the_byte_that_completes_it(case: dict[str, Any]) -> None:
    decoder = SSEDecoder()
    delivered = 0
    for chunk, due in zip(case["chunks"], case["prompt"], strict=True):
        delivered += len(decoder.feed(base64.b64decode(chunk)))
        assert delivered == due


@pytest.mark.parametrize(
    "case", [case for case in CASES if "eof_flush" in case], ids=lambda case: case["name"]
)
def test_unterminated_returns_the_frame_without_a_blank_line(case: dict[str, Any]) -> None:
    _, decoder = run([body(case)])
    frame = decoder.unterminated()
    assert (
        [frame.data] == [event["data"] for event in case["eof_flush"]]
        if frame
        else not case["eof_flush"]
    )


BOUNDED: dict[str, tuple[bytes, int, list[Frame]]] = {
    # The bytes of its lines with their ends, the blank line left out.
    "one line": (b"data: 1234\n\n", 11, [Frame("message", "1234")]),
    "one line after another event": (
        b"data: 1\n\ndata: 1234\n\n",
        11,
        [Frame("message", "1"), Frame("message", "1234")],
    ),
    "lines and a comment": (b": none\nevent: x\ndata: 1234\n\n", 27, [Frame("x", "1234")]),
    "a comment behind lines": (b"data: 1234\n: none\n\n", 18, [Frame("message", "1234")]),
    "nothing but a comment": (b": 12345678\n\n", 11, []),
    "nothing but comments": (b": 1\n: 2\r\n: 3\r\n\n", 12, []),
    "an unknown field": (b"unknown: 5\ndata: 1\n\n", 19, [Frame("message", "1")]),
    "a line without a colon": (b"unknown\n\n", 8, []),
    "many lines": (b"data:\n" * 5 + b"\n", 30, [Frame("message", "\n" * 4)]),
    "carriage returns": (b"data: 1\rdata: 2\r\r", 16, [Frame("message", "1\n2")]),
    "utf-8": ("data: é\n\n".encode(), 9, [Frame("message", "é")]),
    "nothing but an id": (b"id: 12345\n\n", 10, []),
}


@pytest.mark.parametrize(("body", "size", "frames"), BOUNDED.values(), ids=BOUNDED)
def test_event_is_bounded(body: bytes, size: int, frames: list[Frame]) -> None:
    later = b"data\n\n"
    for chunk_size in (1, 5, 1000):
        for bound in (size + 1, size):
            decoder = SSEDecoder(max_event_bytes=bound)
            got = [f for chunk in chunked(body + later, chunk_size) for f in decoder.feed(chunk)]
            assert [(f.event, f.data) for f in got] == [
                *((frame.event, frame.data) for frame in frames),
                ("message", ""),
            ]
            assert not decoder.overflowed
        decoder = SSEDecoder(max_event_bytes=size - 1)
        got = [f for chunk in chunked(body + later, chunk_size) for f in decoder.feed(chunk)]
        assert decoder.overflowed
        assert got == frames[:-1]
        assert decoder.unterminated() is None


def test_line_is_bounded_before_it_ends() -> None:
    decoder = SSEDecoder(max_event_bytes=10)
    assert decoder.feed(b"data: 123") == []
    assert not decoder.overflowed
    assert decoder.feed(b"4") == []
    assert decoder.overflowed
    assert decoder.feed(b"\n\ndata: 1\n\n") == []
    assert decoder.unterminated() is None


def test_line_that_overflows_in_the_next_chunk_ends_the_decoder() -> None:
    decoder = SSEDecoder(max_event_bytes=10)
    assert decoder.feed(b"data: 1") == []
    assert decoder.feed(b"2345678\n\ndata: 1\n\n") == []
    assert decoder.overflowed


@pytest.mark.parametrize(
    ("value", "retry"),
    [(b"2147483647", 2147483647), (b"2147483648", None), (b"0", 0), (b"9" * 99, None)],
)
def test_invalid_retry_is_ignored(value: bytes, retry: int | None) -> None:
    decoder = SSEDecoder()
    frames = decoder.feed(b"retry: " + value + b"\ndata: 1\n\ndata: 2\n\n")
    assert [frame.retry for frame in frames] == [retry, None]
    assert decoder.retry_ms == retry


ENDLESS = (b":", b": ", b"data:", b"event: ", b"id: ", b"retry: ", b"unknown: ", b"unknown")


LINES = (b": c", b"id: 1", b"event: x", b"retry: 1", b"unknown: 1", b"odd")
BEFORE = (b"", b"data: 0\n", b": 0\n", b"data: 0\r\n", b": 0\r\n", b": 0\r")


@pytest.mark.parametrize("piece_size", [1, 7, 90])
@pytest.mark.parametrize("start", BEFORE)
@pytest.mark.parametrize("line", ENDLESS)
def test_line_that_never_ends_is_bounded(line: bytes, start: bytes, piece_size: int) -> None:
    """Whatever its kind, at any size of reads, and behind lines with any end."""
    decoder = SSEDecoder(max_event_bytes=100)
    assert [frame.data for frame in decoder.feed(b"data: a\n\n" + start + line)] == ["a"]
    size = len(start.replace(b"\r\n", b"\n")) + len(line) + 1  # with the end that may come
    while size < 100 - piece_size:
        assert decoder.feed(b"5" * piece_size) == []
        assert not decoder.overflowed
        size += piece_size
    assert decoder.feed(b"5" * (100 - size)) == []
    assert not decoder.overflowed
    assert decoder.feed(b"5") == []
    assert decoder.overflowed
    assert decoder.feed(b"\n\ndata: 1\n\n") == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("line", LINES)
def test_lines_without_a_blank_line_are_bounded(line: bytes, end: bytes) -> None:
    decoder, most = SSEDecoder(max_event_bytes=100), 100 // (len(line) + 1)
    for _ in range(most):
        assert decoder.feed(line + end) == []
        assert not decoder.overflowed
    assert decoder.feed(line + end) == []
    assert decoder.overflowed


def test_stray_lines_have_their_position_and_are_bounded() -> None:
    decoder = SSEDecoder(max_stray_bytes=20)
    decoder.feed(b"data: 1\n\nerror: {}\n\ndata: 2\n\n{\n")
    decoder.feed(b"a line that is longer than twenty bytes\n}\n")
    assert decoder.strays == [(1, b"error: {}"), (2, b"{"), (2, b"}")]


def test_abort_discards_the_incomplete_event() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: 1\n")
    assert decoder.abort(OSError()) == []


TEXTS = st.text(alphabet=st.sampled_from("ab \r\n\0\u2028\ufeff\x85:é😀"))


@given(data=TEXTS, event=st.none() | st.text(alphabet="ab_."), size=st.integers(1, 9))
def test_encoded_frame_decodes_to_one_frame(data: str, event: str | None, size: int) -> None:
    wire = encode_frame(data, event=event)
    frames, _ = run(chunked(wire, size))
    lines = data.replace("\r\n", "\n").replace("\r", "\n")
    assert frames == [Frame(event or "message", lines)]


def test_frame_is_encoded_as_in_the_reference() -> None:
    assert encode_frame("{}") == b"data: {}\n\n"
    assert encode_frame("a\r\nb\rc\n", event="x") == (
        b"event: x\ndata: a\ndata: b\ndata: c\ndata: \n\n"
    )


@pytest.mark.parametrize("event", ["a\nb", "a\rb", "a\0b"])
def test_event_name_with_a_line_end_is_refused(event: str) -> None:
    with pytest.raises(ValueError, match="line end or a NUL"):
        encode_frame("x", event=event)


# Bytes on which httpx-sse is right: no CR at a chunk's end, no BOM, no bare id or retry block.
LINES = st.sampled_from(
    ["data: {}", "data:x", "data", ": c", "event: e", "data: é\u2028", "unknown: 1", "data:  two"]
)


@given(
    blocks=st.lists(st.lists(LINES, min_size=1, max_size=4), max_size=6),
    newline=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 11),
)
def test_frames_equal_those_of_httpx_sse(blocks: list[list[str]], newline: str, size: int) -> None:
    text = "".join(newline.join(["data: first", *block]) + newline * 2 for block in blocks)
    response = httpx.Response(
        200, headers={"content-type": "text/event-stream"}, content=text.encode()
    )
    oracle = [Frame(e.event, e.data) for e in httpx_sse.EventSource(response).iter_sse()]
    assert run(chunked(text.encode(), size))[0] == oracle


@given(st.binary(max_size=200).map(lambda b: b.replace(b"x", b"data: ")), st.data())
def test_any_bytes_give_the_same_frames_under_any_chunking(
    data: bytes, draw: st.DataObject
) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    whole, one = run([data])
    parts, many = run(chunks)
    assert (whole, one.strays, one.last_event_id) == (parts, many.strays, many.last_event_id)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_bytes_of_an_event_are_counted_until_its_end(newline: bytes) -> None:
    decoder = SSEDecoder()
    sizes = []
    for data in (b"data: abc", b"def" + newline, b": comment", newline + b"data: g", newline * 2):
        decoder.feed(data)
        sizes.append(decoder.unfinished_bytes)
    assert sizes == [9, 13, 13, 30, 0]  # a comment counts with its end
