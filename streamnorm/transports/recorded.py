"""Recording what passes between a client and its transport."""

from __future__ import annotations

import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Sequence,
)
from contextlib import contextmanager, suppress
from inspect import isasyncgen, isgenerator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self

import anyio

from streamnorm._core.errors import RecordingError
from streamnorm.recording.format import End
from streamnorm.recording.recorder import Recorder, RecordingWriter
from streamnorm.transports.family import (
    AsyncBody,
    AsyncTransport,
    Body,
    Family,
    RequestT,
    Response,
    ResponseT,
    SyncTransport,
)
from streamnorm.transports.inflating import decoded_writes

__all__ = ["AsyncRecordedBody", "RecordedBody", "RecordingTransport"]

# Closing must end even where the network does not answer any more.
_CLOSE_S = 1.0


class _RecordedBodyBase:
    """What both kinds of recorded bodies share.

    Args:
        family: Whose it is.
        writer: Where the body is written down.
        coding: Its `content-encoding`; empty for none.
    """

    def __init__(self, family: Family[Any, Any], writer: RecordingWriter, coding: str) -> None:
        self._family = family
        self._writer = writer
        self._write = decoded_writes(writer, coding)
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            # A generator that was closed would end as if the body had.
            raise self._family.read_error("read of a body that was closed, expected none")


class RecordedBody(_RecordedBodyBase):
    """The body of a response, read by read as it comes, and written down."""

    def __init__(
        self, inner: Body, family: Family[Any, Any], writer: RecordingWriter, coding: str
    ) -> None:
        super().__init__(family, writer, coding)
        self._inner = inner
        self._reads: Iterator[bytes] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._check_open()
        try:
            if self._reads is None:
                self._reads = iter(self._inner)
            data = next(self._reads)
        except StopIteration:
            self._writer.end("eof")
            raise
        except BaseException as exc:
            self._writer.end(_end_of(exc, self._family))
            with suppress(Exception):
                self.close()
            raise
        self._write(data)
        return data

    def close(self) -> None:
        """Let the connection go."""
        if self._closed:
            return
        self._closed = True
        self._writer.end("aborted")  # unless it has ended
        try:
            _close_generator(self._reads)
        finally:
            self._inner.close()


class AsyncRecordedBody(_RecordedBodyBase):
    """The asynchronous twin of `RecordedBody`, on asyncio or trio."""

    def __init__(
        self, inner: AsyncBody, family: Family[Any, Any], writer: RecordingWriter, coding: str
    ) -> None:
        super().__init__(family, writer, coding)
        self._inner = inner
        self._reads: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            if self._reads is None:
                self._reads = aiter(self._inner)
            data = await anext(self._reads)
        except StopAsyncIteration:
            self._writer.end("eof")
            raise
        except BaseException as exc:
            self._writer.end(_end_of(exc, self._family))
            # Nothing may be awaited in a coroutine that is being thrown away.
            if not isinstance(exc, GeneratorExit):
                with suppress(Exception):
                    await self.aclose()
            raise
        self._write(data)
        return data

    async def aclose(self) -> None:
        """Let the connection go."""
        if self._closed:
            return
        self._closed = True
        self._writer.end("aborted")  # unless it has ended
        with anyio.move_on_after(_CLOSE_S, shield=True):
            try:
                await _aclose_generator(self._reads)
            finally:
                await self._inner.aclose()


class RecordingTransport(Generic[RequestT, ResponseT]):
    """What the transports of both families share; they say what it is for.

    Args:
        family: Whose it is.
        inner: Sends the requests.
        directory: Where the recordings go, or what writes them there.
        redact: What else must not be written.
        on_failure: Called once for each exchange that could not be written whole.
    """

    def __init__(
        self,
        family: Family[RequestT, ResponseT],
        inner: SyncTransport[RequestT, ResponseT] | AsyncTransport[RequestT, ResponseT],
        directory: str | Path | Recorder,
        *,
        redact: Sequence[str | re.Pattern[str]],
        on_failure: Callable[[RecordingError], None] | None,
    ) -> None:
        self._family = family
        self._inner = inner
        if isinstance(directory, Recorder):
            self._recorder = directory
        else:
            self._recorder = Recorder(directory, redact=redact, on_failure=on_failure)

    @property
    def failures(self) -> tuple[RecordingError, ...]:
        """What could not be written, and why."""
        return self._recorder.failures

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request, and record the response as its body is read."""
        inner = self._sync_inner()
        sent = self._without_coding(request)
        with self._taping(sent) as writer:
            response = inner.handle_request(sent)
        if _begin(writer, response):
            response.stream = self._family.recorded_body(
                response.stream, self._family, writer, _coding(response)
            )
        return response

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request, and record the response as its body is read."""
        inner = self._async_inner()
        sent = self._without_coding(request)
        with self._taping(sent) as writer:
            response = await inner.handle_async_request(sent)
        if _begin(writer, response):
            response.stream = self._family.async_recorded_body(
                response.stream, self._family, writer, _coding(response)
            )
        return response

    def __enter__(self) -> Self:
        self._sync_inner().__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._sync_inner().__exit__(exc_type, exc_value, traceback)

    async def __aenter__(self) -> Self:
        await self._async_inner().__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._async_inner().__aexit__(exc_type, exc_value, traceback)

    def close(self) -> None:
        """Close the inner transport."""
        self._sync_inner().close()

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._async_inner().aclose()

    def _sync_inner(self) -> SyncTransport[RequestT, ResponseT]:
        if isinstance(self._inner, self._family.transport):
            return self._inner
        raise TypeError(
            f"inner is {_kind_of(self._inner)}, expected a synchronous transport of"
            f" {self._family.name}"
        )

    def _async_inner(self) -> AsyncTransport[RequestT, ResponseT]:
        if isinstance(self._inner, self._family.async_transport):
            return self._inner
        raise TypeError(
            f"inner is {_kind_of(self._inner)}, expected an asynchronous transport of"
            f" {self._family.name}"
        )

    def _without_coding(self, request: RequestT) -> RequestT:
        """Return a copy of a request that asks for its body as it is.

        What is compressed comes in other pieces than it was written in.
        """
        copy = self._family.request(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        copy.headers["accept-encoding"] = "identity"
        return copy

    @contextmanager
    def _taping(self, request: RequestT) -> Generator[RecordingWriter]:
        """Start a writer for a request, and end it where no response comes."""
        writer = self._recorder.start(self._family.wire_request(request))
        try:
            yield writer
        except BaseException as exc:
            writer.end(_end_of(exc, self._family))
            raise


def _close_generator(reads: object) -> None:
    # httpx leaves its generators to the garbage collector.  Whoever reads may be another
    # thread or task, which has the generator running.
    if isgenerator(reads) and not reads.gi_running:
        reads.close()


async def _aclose_generator(reads: object) -> None:
    if isasyncgen(reads) and not reads.ag_running:
        await reads.aclose()


def _begin(writer: RecordingWriter, response: Response) -> bool:
    """Write down the head of a response, and tell whether its body is yet to be read."""
    writer.begin(response.status_code, response.headers.multi_items())
    if not response.is_closed:
        return True
    try:
        writer.write(response.content)  # it was read before it came here, as a mock's is
    except RuntimeError:  # it was closed, and nobody will read it
        writer.end("aborted")
    else:
        writer.end("eof")
    return False


def _coding(response: Response) -> str:
    return response.headers.get("content-encoding", "")


def _end_of(exc: BaseException, family: Family[Any, Any]) -> End:
    """Return how a body ended whose read raised this."""
    if isinstance(exc, (family.timeout, TimeoutError)):
        return "timeout"
    return "reset" if isinstance(exc, Exception) else "aborted"


def _kind_of(inner: object) -> str:
    return f"{type(inner).__module__.partition('.')[0]}.{type(inner).__name__}"
