"""Answering a client's requests with recordings, in the place of a network."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Self, Unpack

from streamnorm.recording.exchange import Playback, Responder
from streamnorm.recording.library import Library, ReplayOptions, responder
from streamnorm.recording.player import (
    AsyncPlayer,
    Pace,
    PlaybackReset,
    PlaybackTimeout,
    Player,
)
from streamnorm.recording.recording import Recording
from streamnorm.transports.family import Family, Request, RequestT, ResponseT

__all__ = ["AsyncReplayedBody", "ReplayTransport", "ReplayedBody"]

# Clients look: openai's reads on behind [DONE] where this is HTTP/1.1.
_EXTENSIONS = MappingProxyType({"http_version": b"HTTP/1.1"})


class _Played:
    """What both kinds of replayed bodies share."""

    def __init__(self, request: Request, family: Family[Any, Any]) -> None:
        self._request = request
        self._family = family
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise self._family.read_error(
                "read of a body that was closed, expected none", request=self._request
            )

    def _break(self, exc: PlaybackReset | PlaybackTimeout) -> Exception:
        """Stop, and return what a connection raises where a playback raises this."""
        self._closed = True
        timeout = isinstance(exc, PlaybackTimeout)
        error = self._family.read_timeout if timeout else self._family.read_error
        return error(str(exc), request=self._request)


class ReplayedBody(_Played):
    """The body of a response, played for as long as it is not closed.

    Args:
        playback: What to play.
        pace: How fast.
        request: What it answers; its read timeout counts.
        family: Whose it is.
    """

    def __init__(
        self, playback: Playback, pace: Pace, request: Request, family: Family[Any, Any]
    ) -> None:
        super().__init__(request, family)
        self._player = Player(playback, pace, read_timeout_s=_read_timeout_s(request))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._check_open()
        try:
            data = next(self._player)
        except StopIteration:
            raise
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise self._break(exc) from exc
        except BaseException:  # interrupted: a piece is lost, as on a connection
            self._closed = True
            raise
        self._check_open()  # another thread may have closed it meanwhile
        return data

    def close(self) -> None:
        """Stop playing."""
        self._closed = True


class AsyncReplayedBody(_Played):
    """The asynchronous twin of `ReplayedBody`, on asyncio or trio."""

    def __init__(
        self, playback: Playback, pace: Pace, request: Request, family: Family[Any, Any]
    ) -> None:
        super().__init__(request, family)
        self._player = AsyncPlayer(playback, pace, read_timeout_s=_read_timeout_s(request))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            data = await anext(self._player)
        except StopAsyncIteration:
            raise
        except (PlaybackReset, PlaybackTimeout) as exc:
            raise self._break(exc) from exc
        except BaseException:  # cancelled: a piece is lost, as on a connection
            self._closed = True
            raise
        self._check_open()  # another task may have closed it meanwhile
        return data

    async def aclose(self) -> None:
        """Stop playing."""
        self._closed = True


class ReplayTransport(Generic[RequestT, ResponseT]):
    """What the transports of both families share; they say what it is for.

    Args:
        family: Whose it is.
        source: A recording, a directory of them, or what answers in their place.
        speed: How many times faster than recorded; 0 for no waiting at all.
        max_gap_s: The longest wait between two pieces, before `speed` counts.
        **options: How to find the recording, and how to spoil it.

    Attributes:
        responder: What answers the requests.
    """

    def __init__(
        self,
        family: Family[RequestT, ResponseT],
        source: str | Path | Responder,
        *,
        speed: float,
        max_gap_s: float | None,
        **options: Unpack[ReplayOptions],
    ) -> None:
        self.responder = responder(source, **options)
        self._family = family
        self._pace = Pace(speed, max_gap_s)

    @property
    def unplayed(self) -> tuple[Recording, ...]:
        """The recordings that no request has asked for."""
        return self.responder.unplayed if isinstance(self.responder, Library) else ()

    def handle_request(self, request: RequestT) -> ResponseT:
        """Answer a request.

        Raises:
            UnrecordedRequest: No recording answers it.
        """
        request.read()  # an upload is sent before the answer comes
        playback = self.responder.respond(self._family.wire_request(request))
        body = self._family.replayed_body(playback, self._pace, request, self._family)
        return self._response(playback, body)

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Answer a request.

        Raises:
            UnrecordedRequest: No recording answers it.
        """
        await request.aread()  # an upload is sent before the answer comes
        playback = self.responder.respond(self._family.wire_request(request))
        body = self._family.async_replayed_body(playback, self._pace, request, self._family)
        return self._response(playback, body)

    def _response(self, playback: Playback, body: object) -> ResponseT:
        return self._family.response(
            playback.status, headers=playback.headers, stream=body, extensions=_EXTENSIONS
        )


def _read_timeout_s(request: Request) -> float | None:
    """Return the seconds of silence after which a request's client gives up."""
    timeouts: dict[str, float | None] = request.extensions.get("timeout") or {}
    return timeouts.get("read")
