"""Recordings as a server."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import anyio

from streamnorm._core.errors import UnrecordedRequest
from streamnorm.asgi.application import Application, Request, end_to_end, refuse, start
from streamnorm.asgi.exchange import Exchange
from streamnorm.recording.exchange import Playback, Responder, WireRequest
from streamnorm.recording.library import ReplayOptions, responder
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player

__all__ = ["ReplayApp"]


class ReplayApp(Application):
    """Answer requests with recordings, as an ASGI application.

    A recorded connection that broke is a response that breaks off; one that timed out stays
    silent until the client leaves.  A request that no recording answers is an error 404,
    which official SDKs do not try again.

    Args:
        source: A recording, a directory of them, or what else answers requests.
        speed: How many times faster than recorded; 0 for no waiting at all.
        max_gap_s: The longest wait between two pieces, before `speed` counts.
        **options: How recordings are found and spoilt, as for `ReplayTransport`.

    Attributes:
        responder: What answers.

    Raises:
        RecordingError: A recording cannot be read.
        ValueError: An option is none.
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

    async def respond(self, request: Request, exchange: Exchange) -> None:
        """Play the recording that answers a request."""
        url = request.origin + request.target.decode("latin-1")
        asked = WireRequest(request.method, url, request.headers, request.body)
        try:
            playback = self.responder.respond(asked)
        except UnrecordedRequest as exc:
            headers = [("x-should-retry", "false")]
            await refuse(exchange, 404, "unrecorded_request", str(exc), headers)
            return
        await self._play(playback, exchange)

    async def _play(self, playback: Playback, exchange: Exchange) -> None:
        # What is recorded is the body after content decoding.
        headers = end_to_end(playback.headers.items(), without=["content-encoding"])
        await start(exchange, playback.status, headers)
        try:
            async for data in Player(playback, self._pace):
                await exchange.send(data)
        except PlaybackReset:
            return
        except PlaybackTimeout:
            await anyio.sleep_forever()
        await exchange.send(b"", more=False)
