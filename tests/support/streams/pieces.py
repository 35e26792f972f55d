"""One stream, by the line ends and the chunks that it is read in."""

from __future__ import annotations

from collections.abc import Iterator

from streamnorm import Transcoder
from support.streams.content import transcode_in_any_chunks

__all__ = ["transcode_each_line_end"]


def transcode_each_line_end(
    frames: list[bytes], source: str, target: str
) -> Iterator[tuple[bytes, Transcoder]]:
    """Yield a stream in a target dialect, and its transcoder, for LF and for CRLF.

    The output is the same in several chunkings, and encoded anew also if the dialects are equal.
    """
    for newline in (b"\n", b"\r\n"):
        ended = [frame.replace(b"\r\n", b"\n").replace(b"\n", newline) for frame in frames]
        yield transcode_in_any_chunks(ended, source, target, verbatim=False)
