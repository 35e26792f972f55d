"""Streams that come as another body than an event stream, and how they are told from one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from streamnorm._core.limits import Limits
from streamnorm.sse import Frame, SSEDecoder

__all__ = ["Form", "FormReader", "Opening", "one_line_each"]

_NEXT_LINE = re.compile(rb"(?<!\n)\ndata: ")


class FormReader(Protocol):
    """What turns the bytes of one body into those of an event stream.

    Attributes:
        ended: Whether the body is whole.
    """

    ended: bool

    def feed(self, data: bytes, /) -> bytes:
        """Return the events that more of the body is; each with the byte that ends it."""
        ...


class Form(Struct, frozen=True):
    """A form of a dialect's streams beside server-sent events.

    Attributes:
        start: What such a body begins with, behind white space.
        reader: Makes what turns it into an event stream.
        recognises: Whether the first event of that is the dialect's, and no error.
    """

    start: bytes
    reader: Callable[[], FormReader]
    recognises: Callable[[Frame], bool]


class Opening:
    """Tell by its first event whether a body is a stream in some form.

    Args:
        form: The one that it would have.
        limits: `max_event_bytes` bounds what is looked at.

    Attributes:
        form: That form.
    """

    def __init__(self, form: Form, limits: Limits) -> None:
        self.form = form
        self._reader = form.reader()
        self._sse = SSEDecoder(max_event_bytes=limits.max_event_bytes)

    def feed(self, data: bytes) -> bool | None:
        """Take more of the body, from its start on.  Return None while it may be either."""
        frames = self._sse.feed(self._reader.feed(data))
        if frames:
            return self.form.recognises(frames[0])
        if self._sse.overflowed:
            return True  # who reads it tells that it is too large
        return False if self._reader.ended else None


def one_line_each(data: bytes) -> bytes:
    """Return events whose data is JSON with each on one line, as some clients need it."""
    return _NEXT_LINE.sub(b" ", data)
