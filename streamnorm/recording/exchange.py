"""The request, its playback and the responder between them: one exchange in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from streamnorm._core.codec.endpoints import Cloud
from streamnorm._core.codec.framing import SSE, Framing

PlaybackEnd: TypeAlias = Literal["eof", "reset", "timeout"]
"""How a playback ends: completely, by a broken connection, or by silence."""


class WireRequest(Struct, frozen=True):
    """A request as it was sent, credentials included: it must never be stored or shown.

    Attributes:
        method: HTTP method.
        url: The whole URL.
        headers: Pairs of name and value, in order; a name may occur twice.
        body: The whole body; None if it is not compared or recorded, as an upload.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = b""

    def __repr__(self) -> str:
        return f"WireRequest({self.method!r}, …)"


class Step(Struct, frozen=True, gc=False):
    """One chunk of a body.

    Attributes:
        delay_s: Recorded seconds since the chunk before; divided by the speed.
        data: The bytes.
        stall_s: Seconds that a fault adds before the chunk.  At speed 0 no time passes: they
            only decide whether the reader would have timed out.
    """

    delay_s: float
    data: bytes
    stall_s: float = 0.0


class Playback(Struct, frozen=True):
    """The answer to one request.

    Attributes:
        status: HTTP status.
        headers: Headers by lower-case name.
        steps: The chunks of the body.
        end: How the body ends after the last chunk.
        dialect: Name of the dialect; None if unknown.
        framing: How events stand in the body, if it is a stream.
        cloud: Cloud that answers, in whose form its errors are; None for the vendor.
    """

    status: int
    headers: Mapping[str, str]
    steps: tuple[Step, ...]
    end: PlaybackEnd = "eof"
    dialect: str | None = None
    framing: Framing = SSE
    cloud: Cloud | None = None

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join([step.data for step in self.steps])


class Responder(Protocol):
    """Answers requests from recordings or a script.

    Transports, the ASGI application and the command line's server pass requests to it.  Its
    methods may be called from several threads.
    """

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request.

        Raises:
            UnrecordedRequest: There is none.
        """
        ...
