"""Recording and replaying for clients of httpx."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

import httpx

from streamnorm._core.errors import RecordingError
from streamnorm.recording.exchange import Responder
from streamnorm.recording.library import ReplayOptions
from streamnorm.recording.recorder import Recorder
from streamnorm.transports import recorded, replayed
from streamnorm.transports.family import Family

__all__ = ["RecordingTransport", "ReplayTransport"]


class _RecordedBody(recorded.RecordedBody, httpx.SyncByteStream):
    pass


class _AsyncRecordedBody(recorded.AsyncRecordedBody, httpx.AsyncByteStream):
    pass


class _ReplayedBody(replayed.ReplayedBody, httpx.SyncByteStream):
    pass


class _AsyncReplayedBody(replayed.AsyncReplayedBody, httpx.AsyncByteStream):
    pass


_FAMILY: Family[httpx.Request, httpx.Response] = Family(
    name="httpx",
    request=httpx.Request,
    response=httpx.Response,
    byte_stream=httpx.ByteStream,
    timeout=httpx.TimeoutException,
    read_error=httpx.ReadError,
    read_timeout=httpx.ReadTimeout,
    transport=httpx.BaseTransport,
    async_transport=httpx.AsyncBaseTransport,
    recorded_body=_RecordedBody,
    async_recorded_body=_AsyncRecordedBody,
    replayed_body=_ReplayedBody,
    async_replayed_body=_AsyncReplayedBody,
)


class RecordingTransport(
    recorded.RecordingTransport[httpx.Request, httpx.Response],
    httpx.BaseTransport,
    httpx.AsyncBaseTransport,
):
    """Write down each exchange of a client, while it passes.

        transport = RecordingTransport(httpx.AsyncHTTPTransport(), "tests/recordings/agent")
        client = httpx.AsyncClient(transport=transport)

    The client's reads are those of the inner transport, at their time.  A response that is
    not read to its end is recorded as far as it was read; one that is never closed stays
    marked as incomplete.  What cannot be written is told once and breaks no exchange.

    Requests ask for bodies without compression, so that the reads are those of the server;
    what comes compressed all the same is written down decoded.  Secrets are left out.

    Args:
        inner: Sends the requests: `httpx.HTTPTransport()`, `httpx.AsyncHTTPTransport()`, or
            any other.  It is closed with this one.
        directory: Where the recordings go, as `01-messages.sse` and `01-messages.json`; or
            the recorder of several transports, which has the options below itself.
        redact: What else must not be written: texts, or regular expressions.
        on_failure: Called once for each exchange that could not be written whole.
    """

    def __init__(
        self,
        inner: httpx.BaseTransport | httpx.AsyncBaseTransport,
        directory: str | Path | Recorder,
        *,
        redact: Sequence[str | re.Pattern[str]] = (),
        on_failure: Callable[[RecordingError], None] | None = None,
    ) -> None:
        super().__init__(_FAMILY, inner, directory, redact=redact, on_failure=on_failure)


class ReplayTransport(
    replayed.ReplayTransport[httpx.Request, httpx.Response],
    httpx.BaseTransport,
    httpx.AsyncBaseTransport,
):
    """Answer a client's requests with recordings.  Nothing is ever sent.

        client = httpx.AsyncClient(transport=ReplayTransport("tests/recordings/agent"))

    A client that wraps what its transport raises, as the SDKs do, has `UnrecordedRequest`
    as the cause of its own error.

    Args:
        source: A recording, which answers any number of requests; a directory, whose
            recordings are played once each; or what answers in their place.
        speed: How many times faster than recorded; 0 for no waiting at all.
        max_gap_s: The longest wait between two pieces, before `speed` counts.
        **options: `match`, `drift` and `ignore` say how to find the recording, `rechunk`
            and `faults` how to play it, `redact` what the recordings do not hold.

    Attributes:
        responder: What answers the requests.

    Raises:
        RecordingError: A recording cannot be read.
    """

    def __init__(
        self,
        source: str | Path | Responder,
        *,
        speed: float = 0,
        max_gap_s: float | None = None,
        **options: Unpack[ReplayOptions],
    ) -> None:
        super().__init__(_FAMILY, source, speed=speed, max_gap_s=max_gap_s, **options)
