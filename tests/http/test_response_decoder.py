"""A body that arrives compressed is recorded decoded."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.http.families import URL, recorded_in
from support.streams.mutations import chunked

from streamnorm.recording import Recording
from streamnorm.recording.format import WireRequest
from streamnorm.recording.recorder import Recorder
from streamnorm.transports.recorded import decoding_writer

BODY = b"".join(b'data: {"text": "token %d"}\n\n' % number for number in range(300))
MIB = 1024 * 1024


def with_window(data: bytes, bits: int) -> bytes:
    """Return data compressed by zlib with these window bits."""
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


def without_header(data: bytes) -> bytes:
    """Return raw deflate data, which some servers send as `deflate`."""
    return with_window(data, -zlib.MAX_WBITS)


def written(
    directory: Path, coding: str, reads: Iterable[bytes]
) -> tuple[Recording, tuple[str, ...]]:
    """Record a body that arrives in these reads; return the recording and its failures."""
    recorder = Recorder(directory)
    writer = recorder.start(WireRequest("POST", URL))
    writer.begin(200, [("content-type", "text/event-stream")])
    write = decoding_writer(writer, coding)
    for data in reads:
        write(data)
    writer.end("eof")
    (recording,) = recorded_in(directory)
    return recording, tuple(str(error) for error in recorder.failures)


@pytest.mark.parametrize("size", [1, 100, 1_000_000])
@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        (" GZip ", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", with_window(BODY, 9)),
        ("deflate", without_header(BODY)),
        ("", BODY),
        ("identity", BODY),
    ],
    # The bytes, which hold the time, may not name the tests.
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_body_is_written_decoded(coding: str, packed: bytes, size: int, tmp_path: Path) -> None:
    recording, failures = written(tmp_path, coding, chunked(packed, size))
    assert recording.body == BODY
    assert recording.response.end == "eof"
    assert failures == ()


def test_each_compressed_read_is_one_decoded_read(tmp_path: Path) -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    events = [b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"]
    reads = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events]
    recording, _ = written(tmp_path, "gzip", [*reads, b"", packer.flush()])
    assert recording.chunks() == events


def test_highly_compressed_bytes_are_written_in_bounded_chunks(tmp_path: Path) -> None:
    """A gigabyte may stand in a read of a megabyte."""
    recording, failures = written(tmp_path, "gzip", [gzip.compress(bytes(3 * MIB + 5))])
    assert recording.reads is not None
    assert [read.size for read in recording.reads] == [MIB, MIB, MIB, 5]
    assert failures == ()


def test_bytes_after_the_compressed_end_are_ignored(tmp_path: Path) -> None:
    packed = gzip.compress(BODY)
    recording, failures = written(tmp_path, "gzip", [packed + b"more", b"and more"])
    assert recording.body == BODY
    assert failures == ()


def test_bytes_after_the_compressed_end_are_not_stored(tmp_path: Path) -> None:
    writer = Recorder(tmp_path).start(WireRequest("POST", URL))
    writer.begin(200, [("content-type", "text/event-stream")])
    write = decoding_writer(writer, "gzip")
    write(gzip.compress(BODY))
    more = bytes(MIB)
    tracemalloc.start()
    try:
        for _ in range(8):
            write(more)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
        writer.end("eof")


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip, br"])
def test_unsupported_coding_leaves_an_incomplete_recording(coding: str, tmp_path: Path) -> None:
    recording, failures = written(tmp_path, coding, [b"abc", b"def"])
    assert recording.body == b""
    assert recording.response.end == "incomplete"
    (failure,) = failures
    assert "content-encoding" in failure


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_damaged_body_is_reported_once_and_recorded_incomplete(coding: str, tmp_path: Path) -> None:
    recording, failures = written(tmp_path, coding, [b"\x07 no such data", b"at all"])
    assert recording.response.end == "incomplete"
    (failure,) = failures
    assert "not of its content-encoding" in failure
