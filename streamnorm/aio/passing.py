"""Streams that begin within a message, passed on to their own dialect."""

from __future__ import annotations

from streamnorm._core.limits import Limits
from streamnorm._upstream.passed_answers import PassedStream
from streamnorm.aio.pump import Head
from streamnorm.aio.sources import AsyncReader, AsyncSource, Reader, Source
from streamnorm.aio.stream import Stream, SyncStream
from streamnorm.aio.transcoding import TranscodePump

__all__ = ["iter_pass_on", "pass_on"]


class _PassingPump(TranscodePump):
    """The pump of `pass_on` and `iter_pass_on`."""

    def __init__(self, head: Head, dialect: str) -> None:
        super().__init__(head, dialect, dialect, on_end=None, keep_message=False)
        self._core = self._transcoder = PassedStream(dialect, limits=Limits())


def pass_on(source: AsyncSource, dialect: str) -> Stream[bytes]:
    """Return a response as it is, from whichever event it begins with; see `PassedStream`.

    A failure before the first chunk is raised, and a later one written, as by `transcode`.

    Args:
        source: A source, as for `transcode`.  It is closed with the stream.
        dialect: Dialect of the stream and of its client.
    """
    reader = AsyncReader(source)
    return Stream(_PassingPump(reader, dialect), reader)


def iter_pass_on(source: Source, dialect: str) -> SyncStream[bytes]:
    """Return a synchronous response as it is; the twin of `pass_on`.

    Args:
        source: A source, as for `iter_transcode`.  It is closed with the stream.
        dialect: As for `pass_on`.
    """
    reader = Reader(source)
    return SyncStream(_PassingPump(reader, dialect), reader)
