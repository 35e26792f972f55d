"""Cursors: opaque positions in the bytes of one stream in one dialect.

    <epoch>-<tag>.<read>[.<event>]

The epoch is that of the stream.  Read and event say how far the client has read: so many reads of
the source, and of what the last of them gave so many events (all but the first are counted).  The
tag is a digest of all that decides about the bytes and is chosen by the reader: the dialect, the
options, and `REVISION`.  Bytes behind a cursor with another tag would be those of another text.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from streamnorm._core.errors import LogError

REVISION = 1
"""Raised whenever a decoder, the sequencer or an encoder gives other bytes for the same stream."""

_CURSOR = re.compile(r"([0-9a-f]{1,32})-([0-9a-f]{8})\.([0-9]{1,15})(?:\.([0-9]{1,15}))?")


class Position(NamedTuple):
    """A position in a stream: the numbers of a read of the source and of an event in that read.

    Attributes:
        read: Number of the read, from 1.
        event: Number of the event, from 0.
    """

    read: int
    event: int


START = Position(0, 0)
"""Before all events."""


def tag_of(to: str | None, options: bytes) -> str:
    """Return the tag in a stream's cursors: a digest of the dialect and the writer's options.

    Args:
        to: The dialect; None for events.
        options: The options that change bytes, as `pack_options` returned them.
    """
    return sha256(f"{REVISION} {to} ".encode() + options).hexdigest()[:8]


def read_cursor(cursor: str, epoch: str, tag: str) -> Position:
    """Return the position in a cursor, after checking that the cursor is one of the stream.

    Raises:
        LogError: It is no cursor, or one of another stream (400), or of other bytes (409).
    """
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise LogError("no cursor of a stream", code="bad_cursor")
    if match[1] != epoch:
        raise LogError("the cursor is one of another stream", code="bad_cursor")
    if match[2] != tag:
        raise LogError(
            "the cursor is one of another dialect, other options or another release: only the"
            " whole stream can be read",
            code="other_bytes",
        )
    return Position(int(match[3]), int(match[4] or 0))
