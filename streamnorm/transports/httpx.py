"""Recording, replay and transcoding transports for the clients of httpx."""

from __future__ import annotations

import httpx

from streamnorm.transports import recorded, transcoded
from streamnorm.transports import recorded as replayed
from streamnorm.transports.family import Family

__all__ = ["RecordingTransport", "ReplayTransport", "TranscodingTransport"]

_FAMILY: Family[httpx.Request, httpx.Response] = Family(httpx)


class RecordingTransport(
    recorded.GenericRecordingTransport[httpx.Request, httpx.Response],
    httpx.BaseTransport,
    httpx.AsyncBaseTransport,
):
    """Transport of httpx that records exchanges as they pass.

        transport = RecordingTransport(httpx.AsyncHTTPTransport(), "tests/recordings/agent")
        client = httpx.AsyncClient(transport=transport)

    `recorded.GenericRecordingTransport` describes the arguments.
    """

    _family = _FAMILY


class ReplayTransport(
    replayed.GenericReplayTransport[httpx.Request, httpx.Response],
    httpx.BaseTransport,
    httpx.AsyncBaseTransport,
):
    """Transport of httpx that answers requests with recordings, without a network.

        client = httpx.AsyncClient(transport=ReplayTransport("tests/recordings/agent"))

    `recorded.GenericReplayTransport` describes the arguments.
    """

    _family = _FAMILY


class TranscodingTransport(
    transcoded.GenericTranscodingTransport[httpx.Request, httpx.Response],
    httpx.BaseTransport,
    httpx.AsyncBaseTransport,
):
    """Transport of httpx that sends requests to a provider of another dialect.

        transport = TranscodingTransport(
            client="anthropic", upstream="openai_chat", base_url="http://localhost:8000/v1"
        )
        http_client = httpx.AsyncClient(transport=transport)

    `transcoded.GenericTranscodingTransport` describes the arguments.
    """

    _family = _FAMILY
