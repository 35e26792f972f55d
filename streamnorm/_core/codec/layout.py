"""The layout of a whole stream: where its events end, and where a cut is hostile to a reader.

Decoders read a stream as it arrives and need none of this; recordings, faults and reports do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from streamnorm._core.limits import Limits
from streamnorm.eventstream import Message
from streamnorm.sse import Frame, SSEDecoder

# Atomic groups: CR LF must not match as two line ends.
_BLANK_LINES = re.compile(rb"(?>\r\n|\r|\n)(?:(?>\r\n|\r|\n))+")
_BLANK_END = re.compile(rb"(?:(?>\r\n|\r|\n)){2}\Z")
_HOSTILE = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])|\r(?=\n)|\n(?=\r?\n)|(?<![^\r\n])dat(?=a:)|: ")

Replace: TypeAlias = Callable[[list[bytes]], list[bytes]]
"""Returns texts with some of their bytes replaced, each of the same length."""


class FrameReader(Protocol):
    """Reads the frames of a stream, also those that end it.

    Attributes:
        frames: Number of frames so far.
    """

    frames: int

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes."""
        ...

    def unterminated(self) -> Frame | None:
        """Return what the source left of an event, if that can be read."""
        ...


class Rewriter(Protocol):
    """Replaces bytes of texts that stand in messages, whose lengths and checksums stay right."""

    def rewrite(self, messages: Sequence[Message], replace: Replace) -> list[bytes]:
        """Return the bytes of messages, each as long as it was."""
        ...

    def rewrite_rest(self, data: bytes, replace: Replace) -> bytes:
        """Return bytes that are no whole message, as many as they were."""
        ...


class StrictReader(Protocol):
    """Reads a stream for validation: its frames, and what is wrong with the bytes.

    Attributes:
        has_failed: Whether no further frames can be read, so that none is missing.
    """

    has_failed: bool

    def feed(self, data: bytes) -> Iterator[Frame | str]:
        """Yield the frames and problems that are known with `data`, in their order."""
        ...

    def close(self) -> Iterator[Frame | str]:
        """Yield the frames and problems at the end of the stream."""
        ...


class StreamLayout(Protocol):
    """The layout of a whole stream in one framing.

    Attributes:
        rewriter: How texts in a stream are replaced; None if a stream is lines of text, whose
            bytes can be replaced where they stand.
        strict_reader: Factory of readers for validation, from the bytes of an event; None for
            that of lines, which each dialect judges.
    """

    rewriter: Rewriter | None
    strict_reader: Callable[[int], StrictReader] | None

    def find_event_ends(self, body: bytes) -> list[int]:
        """Return the offset at which each event ends; bytes behind the last count as one."""
        ...

    def is_whole(self, body: bytes) -> bool:
        """Return whether the last event has its end."""
        ...

    def find_hostile_cuts(self, body: bytes) -> list[int]:
        """Return offsets at which a reader that expects whole units fails, ascending."""
        ...

    def frame_reader(self, limits: Limits) -> FrameReader:
        """Return a reader of the frames of one stream."""
        ...


class LineLayout:
    """The layout of server-sent events."""

    rewriter: Rewriter | None = None
    strict_reader: Callable[[int], StrictReader] | None = None

    def find_event_ends(self, body: bytes) -> list[int]:
        """Return the offset at which each event ends, behind its blank line."""
        ends = [match.end() for match in _BLANK_LINES.finditer(body)]
        if body and (not ends or ends[-1] < len(body)):
            ends.append(len(body))
        return ends

    def is_whole(self, body: bytes) -> bool:
        """Return whether the last event has its blank line."""
        return not body or _BLANK_END.search(body, max(0, len(body) - 4)) is not None

    def find_hostile_cuts(self, body: bytes) -> list[int]:
        """Return the offsets inside characters, between CR and LF, and inside `data:`."""
        return [match.end() for match in _HOSTILE.finditer(body)]

    def frame_reader(self, limits: Limits) -> FrameReader:
        """Return a decoder of server-sent events."""
        return SSEDecoder(max_event_bytes=limits.max_event_bytes)


LINES = LineLayout()
"""Server-sent events: lines of text."""
