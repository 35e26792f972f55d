"""Streams that begin within a message, passed on to their own dialect."""

from __future__ import annotations

from streamnorm._core.limits import Limits
from streamnorm._upstream.passed_answers import PassedStream
from streamnorm.aio.pump import Head, OnEnd
from streamnorm.aio.transcoding import TranscodePump

__all__ = ["PassingPump"]


class PassingPump(TranscodePump):
    """Pump of a response that is passed on from whichever event it begins with; see `PassedStream`.

    Args:
        head: Status and content type.
        dialect: Dialect of the stream and of its client.
        on_end: Called with the outcome.
    """

    def __init__(self, head: Head, dialect: str, *, on_end: OnEnd | None = None) -> None:
        super().__init__(head, dialect, dialect, on_end=on_end, keep_message=False)
        self._core = self._transcoder = PassedStream(dialect, limits=Limits())
