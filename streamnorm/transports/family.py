"""What httpx and httpx2 have in common, and the names under which each has it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from streamnorm.recording.exchange import WireRequest

__all__ = [
    "AsyncBody",
    "AsyncTransport",
    "Body",
    "Family",
    "Headers",
    "Request",
    "RequestT",
    "Response",
    "ResponseT",
    "SyncTransport",
]

# As much of a request as is worth comparing; what is larger is an upload.
MAX_REQUEST_BYTES = 64 * 1024 * 1024


class Headers(Protocol):
    """Headers of a request or a response."""

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all names and values in order."""
        ...

    def get(self, key: str, default: str, /) -> str:
        """Return the values of a name, joined; the default if there are none."""
        ...

    def __setitem__(self, key: str, value: str, /) -> None: ...


class Request(Protocol):
    """A request of either family."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    @property
    def url(self) -> object:
        """Its text is the whole of it."""
        ...

    @property
    def headers(self) -> Headers:
        """Names and values."""
        ...

    @property
    def extensions(self) -> Mapping[str, Any]:
        """What the client says besides, such as its timeouts."""
        ...

    @property
    def stream(self) -> Any:
        """The body."""
        ...

    def read(self) -> bytes:
        """Return the whole body."""
        ...

    async def aread(self) -> bytes:
        """Return the whole body, which an asynchronous client sends."""
        ...


class Response(Protocol):
    """A response of either family."""

    stream: Any

    @property
    def status_code(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """Names and values."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the body was read already."""
        ...

    @property
    def content(self) -> bytes:
        """The whole body, decoded, where it was read already."""
        ...


class Body(Iterable[bytes], Protocol):
    """The body of a response of a synchronous client."""

    def close(self) -> None:
        """Let the connection go."""
        ...


class AsyncBody(AsyncIterable[bytes], Protocol):
    """The body of a response of an asynchronous client."""

    async def aclose(self) -> None:
        """Let the connection go."""
        ...


RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)
_RequestT_contra = TypeVar("_RequestT_contra", bound=Request, contravariant=True)
_ResponseT_co = TypeVar("_ResponseT_co", bound=Response, covariant=True)


class SyncTransport(Protocol[_RequestT_contra, _ResponseT_co]):
    """A transport of synchronous clients."""

    def __enter__(self) -> Any: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

    def handle_request(self, request: _RequestT_contra, /) -> _ResponseT_co:
        """Send a request, and return the response before its body."""
        ...

    def close(self) -> None:
        """Let all connections go."""
        ...


class AsyncTransport(Protocol[_RequestT_contra, _ResponseT_co]):
    """A transport of asynchronous clients."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

    async def handle_async_request(self, request: _RequestT_contra, /) -> _ResponseT_co:
        """Send a request, and return the response before its body."""
        ...

    async def aclose(self) -> None:
        """Let all connections go."""
        ...


@dataclass(frozen=True, kw_only=True)
class Family(Generic[RequestT, ResponseT]):
    """The names of one family.

    Its clients take only streams that are instances of its own classes, so each family
    has the bodies of `recorded` and `replayed` as classes of its own.

    Attributes:
        name: Of the package.
        request: Makes a request.
        response: Makes a response.
        byte_stream: Class of a request's body that is in memory.
        timeout: What a connection raises that waited too long.
        read_error: What a connection raises that broke.
        read_timeout: What a connection raises on which nothing came.
        transport: Base of synchronous transports.
        async_transport: Base of asynchronous transports.
        recorded_body: A body that is written down as it is read.
        async_recorded_body: The same for asynchronous clients.
        replayed_body: A body that is played.
        async_replayed_body: The same for asynchronous clients.
    """

    name: str
    request: Callable[..., RequestT]
    response: Callable[..., ResponseT]
    byte_stream: type[object]
    timeout: type[Exception]
    read_error: Callable[..., Exception]
    read_timeout: Callable[..., Exception]
    transport: type[SyncTransport[RequestT, ResponseT]]
    async_transport: type[AsyncTransport[RequestT, ResponseT]]
    recorded_body: Callable[..., Body]
    async_recorded_body: Callable[..., AsyncBody]
    replayed_body: Callable[..., Body]
    async_replayed_body: Callable[..., AsyncBody]

    def wire_request(self, request: RequestT) -> WireRequest:
        """Return a request as it is compared and written down.

        A body that is not in memory, such as an upload, is left where it is.
        """
        body = request.read() if isinstance(request.stream, self.byte_stream) else None
        if body is not None and len(body) > MAX_REQUEST_BYTES:
            body = None
        headers = tuple(request.headers.multi_items())
        return WireRequest(request.method, str(request.url), headers, body)
