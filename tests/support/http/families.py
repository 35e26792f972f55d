"""httpx and httpx2 as test parameters, with inner transports and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import httpx2
import pytest

import streamnorm.transports.httpx
import streamnorm.transports.httpx2
from streamnorm.recording import Recording
from support.http.byte_source import AsyncBytes, Bytes

__all__ = ["FAMILIES", "READS", "URL", "FamilyUnderTest", "each_family", "recorded_in"]

READS = [b"event: a\ndata: 1\n\nev", b"ent: b\ndata: \xe2\x82", b"\xac\n\n", b"data: [DONE]\n\n"]
URL = "http://model.test/v1/messages"


class FamilyUnderTest(NamedTuple):
    """httpx or httpx2 as a test parameter.

    Attributes:
        http: The package.
        transports: The module of streamnorm's transports for it.
    """

    http: Any
    transports: Any

    def __str__(self) -> str:
        return str(self.http.__name__)

    def body(self, chunks: Iterable[object], **options: Any) -> Any:
        """Return a synchronous response body that counts its reads."""
        return type("Body", (Bytes, self.http.SyncByteStream), {})(chunks, **options)

    def async_body(self, chunks: Iterable[object], **options: Any) -> Any:
        """Return an asynchronous response body that counts its reads."""
        return type("AsyncBody", (AsyncBytes, self.http.AsyncByteStream), {})(chunks, **options)

    def inner(self, answer: Callable[[Any], Any]) -> Any:
        """Return a transport that calls `answer` for each request."""

        class Inner(self.http.MockTransport):
            closed = 0

            def close(self) -> None:
                self.closed += 1

            async def aclose(self) -> None:
                self.closed += 1

        return Inner(answer)

    def answering(self, body: Any, status: int = 200, **headers: str) -> Any:
        """Return a transport that answers every request with one response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named = {"content-type": "text/event-stream", **named}
        return self.inner(lambda _: self.http.Response(status, headers=named, stream=body))

    def fetch(self, transport: Any, **request: Any) -> list[bytes]:
        """Send a request; return the reads of its response."""
        request = {"method": "POST", "url": URL, "json": {"stream": True}, **request}
        with self.http.Client(transport=transport) as client, client.stream(**request) as response:
            return list(response.iter_raw())

    async def async_fetch(self, transport: Any, **request: Any) -> list[bytes]:
        """Send a request; return the reads of its response."""
        request = {"method": "POST", "url": URL, "json": {"stream": True}, **request}
        async with (
            self.http.AsyncClient(transport=transport) as client,
            client.stream(**request) as response,
        ):
            return [data async for data in response.aiter_raw()]


FAMILIES = (
    FamilyUnderTest(httpx, streamnorm.transports.httpx),
    FamilyUnderTest(httpx2, streamnorm.transports.httpx2),
)

each_family = pytest.mark.parametrize("family", FAMILIES, ids=str)


def recorded_in(directory: Path) -> list[Recording]:
    """Return a directory's recordings, in order."""
    bodies = (p for p in sorted(directory.glob("*")) if not p.name.endswith((".part",)))
    return [Recording.load(p) for p in bodies if p.suffix == ".sse" or ".body." in p.name]
