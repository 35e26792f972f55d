"""One exchange as it passes: what asks, what answers, and in which pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

__all__ = ["Playback", "PlaybackEnd", "Responder", "Step", "WireRequest"]

PlaybackEnd: TypeAlias = Literal["eof", "reset", "timeout"]
"""How a playback ends: as it should, by a broken connection, or by silence."""


class WireRequest(Struct, frozen=True):
    """A request as it was sent, secrets and all: never to be kept, shown or written.

    Attributes:
        method: HTTP method.
        url: The whole of it.
        headers: Names and values in order; a name may stand there twice.
        body: Its bytes; None if they are not to be kept, such as an upload.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = b""

    def __repr__(self) -> str:
        return f"WireRequest({self.method!r}, …)"


class Step(Struct, frozen=True, gc=False):
    """One piece of a body.

    Attributes:
        delay_s: Seconds since the one before, as they were recorded; divided by the speed.
        data: Its bytes.
        stall_s: Seconds that a fault adds before it.  Where no time passes (speed 0), they
            only decide whether the reader's timeout would have struck.
    """

    delay_s: float
    data: bytes
    stall_s: float = 0.0


class Playback(Struct, frozen=True):
    """The answer to one request.

    Attributes:
        status: HTTP status.
        headers: By lower-case name.
        steps: The body.
        end: How it ends after the last step.
        dialect: Name of its dialect; None if it is not known.
    """

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]
    end: PlaybackEnd = "eof"
    dialect: str | None = None

    @property
    def body(self) -> bytes:
        """All bytes of the body."""
        return b"".join([step.data for step in self.steps])


class Responder(Protocol):
    """What answers requests: recordings, or a script.

    Transports, the ASGI application and the server of the command line stand before it.
    Its methods may be called from several threads.
    """

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer.

        Raises:
            UnrecordedRequest: There is none.
        """
        ...
