"""The replay server: recordings answer requests over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import anyio

from streamnorm._core.errors import UnrecordedRequest
from streamnorm.asgi.application import Application, ReceivedRequest, end_to_end, refuse, start
from streamnorm.asgi.exchange import Exchange
from streamnorm.recording.exchange import Playback, Responder, WireRequest
from streamnorm.recording.library import ReplayOptions, responder
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player

__all__ = ["ReplayApp"]


class ReplayApp(Application):
    """An ASGI application that answers requests with recordings.

    A recorded connection that broke becomes an incomplete response; one that timed out stays
    silent until the client disconnects.  A request without a recording gets an error 404,
    which official SDKs do not retry.

    Args:
        source: A recording, a directory of recordings, or a responder.
        speed: Factor over the recorded speed; 0 plays without waiting.
        max_gap_s: Longest gap between two chunks, in recorded seconds; None for no bound.
        **options: The options of `ReplayTransport`.

    Attributes:
        responder: Answers the requests.

    Raises:
        RecordingError: A recording cannot be read.
        ValueError: An option has no such value.
    """

    def __init__(
        self,
        source: str | Path | Responder,
        *,
        speed: float = 0,
        max_gap_s: float | None = None,
        **options: Unpack[ReplayOptions],
    ) -> None:
        self._pace = Pace(speed, max_gap_s)
        self.responder: Responder = responder(source, **options)

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Play the recording that answers a request."""
        url = request.origin + request.target.decode("latin-1")
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers
        )
        asked = WireRequest(request.method, url, headers, request.body)
        try:
            playback = self.responder.respond(asked)
        except UnrecordedRequest as exc:
            no_retry = [(b"x-should-retry", b"false")]
            await refuse(exchange, 404, "unrecorded_request", str(exc), no_retry)
            return
        await self._play(playback, exchange)

    async def _play(self, playback: Playback, exchange: Exchange) -> None:
        # The recorded body is the one after content decoding.
        recorded = [(name.encode(), value.encode()) for name, value in playback.headers.items()]
        headers = end_to_end(recorded, without=[b"content-encoding"])
        await start(exchange, playback.status, headers)
        try:
            async for data in Player(playback, self._pace):
                await exchange.send(data)
        except PlaybackReset:
            return
        except PlaybackTimeout:
            await anyio.sleep_forever()
        await exchange.send(b"", more=False)
