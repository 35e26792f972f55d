"""Framings: how the events of a dialect stand in the bytes of a stream.

Every dialect is defined on server-sent events, and its decoder and encoder know no other form.
Another framing turns its bytes into the lines of such events, and back:

    bytes -> Splitter.split -> raw frames -> the decoder of the dialect
    the encoder of the dialect -> server-sent events -> FrameWriter.write -> bytes

A framing is chosen by the route or the caller, never guessed from the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from msgspec import Struct

from streamnorm._core.codec.layout import LINES, StreamLayout
from streamnorm._core.codec.passthrough import Passthrough
from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits
from streamnorm.sse import Frame, RawFrame, SSEDecoder, StrayLine


class Splitter(Protocol):
    """The reading half of a framing; `SSEDecoder` says what the members are.

    Attributes:
        failure: Why the stream cannot be read any further, or how the server ended it; None while
            it goes on.  `overflowed` is set with it.
    """

    carries: bool
    failure: StreamError | None
    frames: int
    held: bytes
    holds_original: bool
    is_irregular: bool
    overflowed: bool
    safe_bytes: int
    stray_lines: int
    strays: list[tuple[int, bytes]]

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the event that has begun and not ended."""
        ...

    def split(self, data: bytes) -> list[RawFrame]:
        """Return the events that `data` completes, each once, in order."""
        ...

    def read_only_event(
        self, data: bytes, prefix: bytes, decode: Callable[[bytes], str | None]
    ) -> str | None:
        """Return what `decode` returns for the payload of a read that is exactly one event.

        None if the read is no such event, or `decode` returns None: then nothing changes, and
        `split` reads the same bytes.

        Args:
            data: The bytes of the read.
            prefix: What precedes the payload in the lines of such an event.
            decode: Reads a payload.
        """
        ...

    def parse(self, raw: RawFrame) -> list[Frame | StrayLine]:
        """Return the frame that `split` returned."""
        ...

    def as_event_stream(self, data: bytes) -> bytes:
        """Return the events of the last read, whose bytes are `data`, as server-sent events."""
        ...

    def unterminated(self) -> Frame | None:
        """Return what the source left of an event, if that can be read."""
        ...


class FrameWriter(Protocol):
    """The writing half of a framing."""

    def write(self, data: bytes, failure: StreamError | None) -> bytes:
        """Return server-sent events in the framing.

        Args:
            data: Whole events, as the encoder of the dialect writes them.
            failure: The error that ends the stream with them; None if none does.
        """
        ...


class StreamPassthrough(Protocol):
    """Returns the original bytes of a stream in whole events; `Passthrough` says how.

    Attributes:
        shows_errors: Whether clients read the provider's errors in events, and none outside
            them; otherwise those outside alone.
    """

    shows_errors: bool

    def take_event(self, data: bytes) -> bytes:
        """Return a read that is exactly one event."""
        ...

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the bytes of the events that `data` completes."""
        ...

    def take_other(self, data: bytes, unread: int = 0) -> bytes:
        """Do what `take` does where the framing does not hold the original bytes."""
        ...

    def rest(self) -> bytes:
        """Return the held beginning of an event, when the source has ended."""
        ...


class Framing(Struct, frozen=True):
    """How the events of a dialect stand in the bytes of a stream.

    Attributes:
        name: Name of the framing.
        media_type: `content-type` of a stream.
        suffix: Suffix of a file that holds a recorded stream.
        splitter: Factory of the reading half.
        passthrough: Factory of the passthrough of a splitter's original bytes.
        layout: How a whole stream is cut and rewritten.
        writer: Factory of the writing half; None where encoders write the framing themselves.
    """

    name: str
    media_type: str
    suffix: Literal[".sse", ".eventstream"]
    splitter: Callable[[Limits], Splitter]
    passthrough: Callable[[Any], StreamPassthrough]
    layout: StreamLayout
    writer: Callable[[], FrameWriter] | None = None

    def __repr__(self) -> str:
        return f"Framing({self.name!r})"


def _sse_splitter(limits: Limits) -> SSEDecoder:
    return SSEDecoder(
        max_event_bytes=limits.max_event_bytes, max_stray_bytes=limits.max_error_body_bytes
    )


SSE = Framing("sse", "text/event-stream", ".sse", _sse_splitter, Passthrough, LINES)
"""Server-sent events."""
