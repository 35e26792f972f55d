"""A recording as a source of bytes, asynchronous and synchronous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from streamnorm._core.errors import LocalProtocolError
from streamnorm.recording.chunking import Rechunk
from streamnorm.recording.exchange import Playback
from streamnorm.recording.player import (
    Pace,
    PlaybackReset,
    PlaybackTimeout,
    Player,
)
from streamnorm.recording.recording import Recording

__all__ = ["ReplaySource", "replay"]


class ReplaySource:
    """The bytes of an answer, to be read once: by `async for` or by `for`.

    It ends as the answer did.  What `streamnorm.events` asks of a response it has too, so
    that a recorded refusal is the provider's error and no stream.  Made by `replay`.

    Attributes:
        status_code: HTTP status.
        headers: By lower-case name.
        closed: Whether its reader has closed it.

    Raises:
        ConnectionResetError: In place of the end: the connection broke.
        TimeoutError: In place of the end: nothing came for too long.
        LocalProtocolError: It is read after it was closed.
    """

    def __init__(self, playback: Playback, pace: Pace) -> None:
        self.status_code = playback.status
        self.headers = playback.headers
        self.closed = False
        self._player = Player(playback, pace)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            return await anext(self._player)
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise _as_sockets_do(exc) from exc

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._check_open()
        try:
            return next(self._player)
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise _as_sockets_do(exc) from exc

    async def aclose(self) -> None:
        """Close it, to be called any number of times."""
        self.closed = True

    def close(self) -> None:
        """Close it, to be called any number of times."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise LocalProtocolError("read of a source that was closed, expected none")


def _as_sockets_do(exc: PlaybackReset | PlaybackTimeout) -> OSError:
    kind = ConnectionResetError if isinstance(exc, PlaybackReset) else TimeoutError
    return kind(str(exc))


def replay(
    path: str | Path,
    *,
    speed: float = 0,
    max_gap_s: float | None = None,
    rechunk: Rechunk = "recorded",
    faults: Sequence[Callable[[Playback], Playback]] = (),
) -> ReplaySource:
    """Return the bytes of a recording as they arrived.

        async for event in streamnorm.events(replay("recordings/answer.sse")):
            ...

    Args:
        path: `NAME.sse`, or another file of the recording.
        speed: How many times faster than recorded; 0 for no waiting at all.
        max_gap_s: The longest wait between two pieces, before `speed` counts.
        rechunk: How to cut the bytes, as for `Recording.chunks`.
        faults: What goes wrong, of `streamnorm.testing.faults`, applied one after the other.

    Raises:
        RecordingError: The recording cannot be read.
        ValueError: A number or `rechunk` is none that there is.
    """
    pace = Pace(speed, max_gap_s)
    playback = Recording.load(path).playback(rechunk)
    for fault in faults:
        playback = fault(playback)
    return ReplaySource(playback, pace)
