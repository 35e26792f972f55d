"""Types that httpx and httpx2 have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache
from types import ModuleType, TracebackType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from streamnorm.recording.format import WireRequest

# A larger request is an upload, and not compared.
MAX_REQUEST_BYTES = 64 * 1024 * 1024


class Headers(Protocol):
    """Headers of a request or a response."""

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all pairs of name and value, in order."""
        ...

    def get(self, key: str, default: str, /) -> str:
        """Return the joined values of a name, or the default."""
        ...

    def __setitem__(self, key: str, value: str, /) -> None: ...


class HTTPRequest(Protocol):
    """A request of httpx or httpx2."""

    @property
    def method(self) -> str:
        """HTTP method."""
        ...

    @property
    def url(self) -> object:
        """The URL; `str(url)` is its text."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers."""
        ...

    @property
    def extensions(self) -> Mapping[str, Any]:
        """Extensions of the request, such as timeouts."""
        ...

    @property
    def stream(self) -> Any:
        """The body."""
        ...

    def read(self) -> bytes:
        """Return the whole body."""
        ...

    async def aread(self) -> bytes:
        """Return the whole body of an asynchronous request."""
        ...


class HTTPResponse(Protocol):
    """A response of httpx or httpx2."""

    stream: Any

    @property
    def status_code(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the body was read or closed."""
        ...

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        ...

    @property
    def content(self) -> bytes:
        """The whole decoded body, once it was read."""
        ...

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body of an asynchronous response."""
        ...

    def close(self) -> None:
        """Close the body."""
        ...

    async def aclose(self) -> None:
        """Close the body of an asynchronous response."""
        ...


T = TypeVar("T")
RequestT = TypeVar("RequestT", bound=HTTPRequest)
ResponseT = TypeVar("ResponseT", bound=HTTPResponse)
_RequestT_contra = TypeVar("_RequestT_contra", bound=HTTPRequest, contravariant=True)
_ResponseT_co = TypeVar("_ResponseT_co", bound=HTTPResponse, covariant=True)


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
        """Send a request, and return the response before its body is read."""
        ...

    def close(self) -> None:
        """Close all connections."""
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
        """Send a request, and return the response before its body is read."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


AnyTransport: TypeAlias = SyncTransport[RequestT, ResponseT] | AsyncTransport[RequestT, ResponseT]
"""A transport of either kind."""


class Family(Generic[RequestT, ResponseT]):
    """The classes of httpx or httpx2.

    Args:
        package: The module httpx or httpx2.

    Attributes:
        name: Name of the package.
        request: The class of requests.
        response: The class of responses.
        sync_stream: Base of the bodies that its synchronous clients accept.
        async_stream: Base of the bodies that its asynchronous clients accept.
        body: Body of known bytes, for clients of either kind.
        timeout: Base of its timeout errors.
        read_error: Raised when a connection breaks.
        read_timeout: Raised when a read takes too long.
        request_error: Base of the errors of its transports.
        network: The synchronous transport that reaches the network.
        async_network: The asynchronous transport that reaches the network.
        transport: Base of its synchronous transports.
        async_transport: Base of its asynchronous transports.
    """

    def __init__(self, package: ModuleType) -> None:
        self.name = package.__name__
        self.request: Callable[..., RequestT] = package.Request
        self.response: Callable[..., ResponseT] = package.Response
        self.sync_stream: type[Any] = package.SyncByteStream
        self.async_stream: type[Any] = package.AsyncByteStream
        self.timeout: type[Exception] = package.TimeoutException
        self.read_error: Callable[..., Exception] = package.ReadError
        self.read_timeout: Callable[..., Exception] = package.ReadTimeout
        self.request_error: type[Exception] = package.RequestError
        self.network: Callable[[], SyncTransport[RequestT, ResponseT]] = package.HTTPTransport
        self.async_network: Callable[[], AsyncTransport[RequestT, ResponseT]] = (
            package.AsyncHTTPTransport
        )
        self.transport: type[SyncTransport[RequestT, ResponseT]] = package.BaseTransport
        self.async_transport: type[AsyncTransport[RequestT, ResponseT]] = package.AsyncBaseTransport
        self.body: Callable[[bytes], object] = package.ByteStream
        self._in_memory: type[object] = package.ByteStream

    def is_upload(self, request: RequestT) -> bool:
        """Return whether the body of a request is sent as it is read."""
        return not isinstance(request.stream, self._in_memory)

    def wire_request(self, request: RequestT) -> WireRequest:
        """Return a request in the form that is compared and recorded.

        A body that is not in memory, such as an upload, is not read.
        """
        # Reading an upload would use up the stream that the network transport sends.
        body = None if self.is_upload(request) else request.read()
        if body is not None and len(body) > MAX_REQUEST_BYTES:
            body = None
        headers = tuple(request.headers.multi_items())
        return WireRequest(request.method, str(request.url), headers, body)

    def sync_inner(
        self, inner: AnyTransport[RequestT, ResponseT]
    ) -> SyncTransport[RequestT, ResponseT]:
        """Return an inner transport, checked to be synchronous.

        Raises:
            TypeError: It is no synchronous transport of the package.
        """
        if isinstance(inner, self.transport):
            return inner
        raise TypeError(
            f"inner is {_kind_of(inner)}, expected a synchronous transport of {self.name}"
        )

    def async_inner(
        self, inner: AnyTransport[RequestT, ResponseT]
    ) -> AsyncTransport[RequestT, ResponseT]:
        """Return an inner transport, checked to be asynchronous.

        Raises:
            TypeError: It is no asynchronous transport of the package.
        """
        if isinstance(inner, self.async_transport):
            return inner
        raise TypeError(
            f"inner is {_kind_of(inner)}, expected an asynchronous transport of {self.name}"
        )


def _kind_of(inner: object) -> str:
    return f"{type(inner).__module__.partition('.')[0]}.{type(inner).__name__}"


@cache
def subclass(body: type[T], stream: type[Any]) -> type[T]:
    """Return a subclass of `body` and `stream`, the base class that the HTTP package requires."""
    return cast("type[T]", type(body.__name__, (body, stream), {}))  # its first base
