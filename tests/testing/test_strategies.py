"""The chunkings that a property test meets."""

from __future__ import annotations

import sys

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from support.bedrock.chunks import chunk

from streamnorm.codec import INVOKE_CHUNKS
from streamnorm.testing import chunkings

STREAM = 'data: {"a":"größer"}\r\n\r\ndata: [DONE]\r\n\r\n'.encode()


@given(st.data(), st.binary(max_size=40))
def test_chunks_are_the_bytes_without_empty_ones(data: st.DataObject, whole: bytes) -> None:
    pieces = data.draw(chunkings(whole))
    assert b"".join(pieces) == whole
    assert all(pieces)


def test_event_stream_is_cut_within_its_lengths_and_checksums() -> None:
    body = chunk({"type": "ping", "text": "." * 400}) * 2
    expected = {*INVOKE_CHUNKS.layout.find_hostile_cuts(body)} - {len(body)}
    strategy = chunkings(body, framing=INVOKE_CHUNKS)
    quick = settings(max_examples=200, derandomize=True, database=None)
    assert find(strategy, lambda pieces: ends(pieces) == expected, settings=quick)


def ends(pieces: list[bytes]) -> set[int]:
    return {sum(map(len, pieces[: n + 1])) for n in range(len(pieces) - 1)}


def test_every_cut_position_and_extreme_is_generated() -> None:
    met: set[int] = set()
    counts: set[int] = set()

    @settings(max_examples=500, derandomize=True, database=None)
    @given(chunkings(STREAM))
    def meet(pieces: list[bytes]) -> None:
        met.update(ends(pieces))
        counts.add(len(pieces))

    meet()
    assert met == set(range(1, len(STREAM)))
    assert {1, 2, 3, len(STREAM)} <= counts


def test_hostile_cut_is_generated_within_few_examples() -> None:
    """Of 5,000 places to cut once, one is inside the only character of two bytes."""
    body = b"x" * 4_000 + "ß".encode() + b"x" * 1_000
    quick = settings(max_examples=30, derandomize=True, database=None)
    pieces = find(chunkings(body), lambda pieces: 4_001 in ends(pieces), settings=quick)
    assert pieces == [body[:4_001], body[4_001:]]  # shrunk to this cut alone


def test_missing_hypothesis_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ModuleNotFoundError, match="chunkings needs hypothesis"):
        chunkings(b"a")
