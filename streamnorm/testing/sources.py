"""`replay`: a recording as a source for `streamnorm.events`, asynchronous or synchronous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from streamnorm._core.errors import LocalProtocolError
from streamnorm.recording.format import Playback
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player
from streamnorm.recording.recording import Rechunk, Recording


class ReplaySource(Player):
    """The bytes of a recorded response, read once: by `async for` or by `for`.

    It ends as the recording does.  `streamnorm.events` reads its status and headers like those
    of a response, so that a recorded error response is the provider's error.  Made by `replay`.

    Attributes:
        status_code: HTTP status.
        headers: Headers by lower-case name.
        closed: Whether its reader has closed it.

    Raises:
        ConnectionResetError: The recorded connection broke; raised instead of the end.
        TimeoutError: The recorded server was silent; raised instead of the end.
        LocalProtocolError: It was read after it was closed.
    """

    def __init__(self, playback: Playback, pace: Pace) -> None:
        self.status_code = playback.status
        self.headers = playback.headers
        self.closed = False
        super().__init__(playback, pace)

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            return await super().__anext__()
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise _convert_error(exc) from exc

    def __next__(self) -> bytes:
        self._check_open()
        try:
            return super().__next__()
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise _convert_error(exc) from exc

    async def aclose(self) -> None:
        """Close the source; further calls do nothing."""
        self.closed = True

    def close(self) -> None:
        """Close the source; further calls do nothing."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise LocalProtocolError("read of a source that was closed, expected none")


def _convert_error(exc: PlaybackReset | PlaybackTimeout) -> OSError:
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
    """Return the bytes of a recording in the chunks in which they arrived.

        async for event in streamnorm.events(replay("recordings/answer.sse")):
            ...

    Args:
        path: `NAME.sse`, or another file of the recording.
        speed: Factor over the recorded speed; 0 plays without waiting.
        max_gap_s: Longest gap between two chunks, in recorded seconds; None for no bound.
        rechunk: How to cut the bytes, as for `Recording.chunks`.
        faults: Faults of `streamnorm.testing.faults`, applied in order.

    Raises:
        RecordingError: The recording cannot be read.
        ValueError: An argument has an invalid value.
    """
    pace = Pace(speed, max_gap_s)
    playback = Recording.load(path).playback(rechunk)
    for fault in faults:
        playback = fault(playback)
    return ReplaySource(playback, pace)
