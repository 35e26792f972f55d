"""The replay transport of both families: recordings answer a client's requests."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Self, Unpack

from streamnorm.recording.format import Playback, Responder
from streamnorm.recording.library import Library, ReplayOptions, open_responder
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player
from streamnorm.recording.recording import Recording
from streamnorm.transports.family import Family, HTTPRequest, RequestT, ResponseT, subclass

# openai reads on after [DONE] if the response says HTTP/1.1.
_EXTENSIONS = MappingProxyType({"http_version": b"HTTP/1.1"})


class GenericReplayTransport(Generic[RequestT, ResponseT]):
    """Answers a client's requests with recordings; nothing is ever sent.

    A client that wraps what its transport raises, as the SDKs do, has `UnrecordedRequest`
    as the cause of its own error.

    Args:
        source: A recording, which answers any number of requests; a directory, whose
            recordings are played once each; or a responder.
        speed: Factor over the recorded speed; 0 plays without waiting.
        max_gap_s: Longest gap between two chunks, in recorded seconds; None for no bound.
        **options: `match`, `drift` and `ignore` select the recording, `rechunk` and
            `faults` change how it is played, `redact` names further secrets that the
            recordings do not hold.

    Attributes:
        responder: Answers the requests.

    Raises:
        RecordingError: A recording cannot be read.
    """

    _family: Family[RequestT, ResponseT]

    def __init__(
        self,
        source: str | Path | Responder,
        *,
        speed: float = 0,
        max_gap_s: float | None = None,
        **options: Unpack[ReplayOptions],
    ) -> None:
        self.responder = open_responder(source, **options)
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
        request.read()  # an upload is sent before the response arrives
        return self._respond(request, self._family.sync_stream)

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Answer a request.

        Raises:
            UnrecordedRequest: No recording answers it.
        """
        await request.aread()  # an upload is sent before the response arrives
        return self._respond(request, self._family.async_stream)

    def _respond(self, request: RequestT, stream: type[Any]) -> ResponseT:
        playback = self.responder.respond(self._family.wire_request(request))
        body = subclass(_ReplayedBody, stream)  # type: ignore[arg-type]  # classes are hashable
        return self._family.response(
            playback.status,
            headers=playback.headers,
            stream=body(playback, self._pace, request, self._family),
            extensions=_EXTENSIONS,
        )


class _ReplayedBody:
    """The body of a replayed response, synchronous or asynchronous.

    Args:
        playback: The body to play.
        pace: Its speed.
        request: The request it answers; its read timeout applies.
        family: Package of the client.
    """

    def __init__(
        self, playback: Playback, pace: Pace, request: HTTPRequest, family: Family[Any, Any]
    ) -> None:
        timeouts: dict[str, float | None] = request.extensions.get("timeout") or {}
        self._player = Player(playback, pace, read_timeout_s=timeouts.get("read"))
        self._request = request
        self._family = family
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._check_open()
        try:
            data = next(self._player)
        except StopIteration:
            raise
        except BaseException as exc:
            self._fail(exc)
            raise
        self._check_open()  # another thread may have closed it meanwhile
        return data

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            data = await anext(self._player)
        except StopAsyncIteration:
            raise
        except BaseException as exc:
            self._fail(exc)
            raise
        self._check_open()  # another task may have closed it meanwhile
        return data

    def close(self) -> None:
        """Stop playing."""
        self._closed = True

    async def aclose(self) -> None:
        """Stop playing."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise self._family.read_error(
                "read of a body that was closed, expected none", request=self._request
            )

    def _fail(self, exc: BaseException) -> None:
        """Close the body, and raise a playback's failure as the package's own error.

        An interrupted or cancelled read closes it, too: a chunk is lost, as on a connection.
        """
        self._closed = True
        if isinstance(exc, PlaybackReset):
            raise self._family.read_error(str(exc), request=self._request) from exc
        if isinstance(exc, PlaybackTimeout):
            raise self._family.read_timeout(str(exc), request=self._request) from exc
