"""Recording, replay and transcoding transports for the clients of httpx2."""

from __future__ import annotations

try:
    import httpx2
except ImportError as exc:
    raise ImportError("no httpx2, expected the extra `httpx2`: pip install httpx2") from exc

from streamnorm.transports import recorded, transcoded
from streamnorm.transports import recorded as replayed
from streamnorm.transports.family import Family

__all__ = ["RecordingTransport", "ReplayTransport", "TranscodingTransport"]

_FAMILY: Family[httpx2.Request, httpx2.Response] = Family(httpx2)


class RecordingTransport(
    recorded.GenericRecordingTransport[httpx2.Request, httpx2.Response],
    httpx2.BaseTransport,
    httpx2.AsyncBaseTransport,
):
    """Transport of httpx2 that records exchanges as they pass.

        transport = RecordingTransport(httpx2.AsyncHTTPTransport(), "tests/recordings/agent")
        client = httpx2.AsyncClient(transport=transport)

    `recorded.GenericRecordingTransport` describes the arguments.
    """

    _family = _FAMILY


class ReplayTransport(
    replayed.GenericReplayTransport[httpx2.Request, httpx2.Response],
    httpx2.BaseTransport,
    httpx2.AsyncBaseTransport,
):
    """Transport of httpx2 that answers requests with recordings, without a network.

        client = httpx2.AsyncClient(transport=ReplayTransport("tests/recordings/agent"))

    `recorded.GenericReplayTransport` describes the arguments.
    """

    _family = _FAMILY


class TranscodingTransport(
    transcoded.GenericTranscodingTransport[httpx2.Request, httpx2.Response],
    httpx2.BaseTransport,
    httpx2.AsyncBaseTransport,
):
    """Transport of httpx2 that sends requests to a provider of another dialect.

        transport = TranscodingTransport(
            client="anthropic", upstream="openai_chat", base_url="http://localhost:8000/v1"
        )
        http_client = httpx2.AsyncClient(transport=transport)

    `transcoded.GenericTranscodingTransport` describes the arguments.
    """

    _family = _FAMILY
