"""Recording and replay transports for httpx and httpx2."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from inspect import isasyncgen, isgenerator
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, Unpack

import anyio
from msgspec import structs

from streamnorm._core.errors import RecordingError, RemoteProtocolError
from streamnorm.http.codings import ResponseDecoder, content_codings
from streamnorm.recording.format import End, Playback, Responder
from streamnorm.recording.library import Library, ReplayOptions, open_responder
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player
from streamnorm.recording.recorder import Recorder, RecordingWriter
from streamnorm.recording.recording import Recording
from streamnorm.transports.family import (
    MAX_REQUEST_BYTES,
    AnyTransport,
    AsyncTransport,
    Family,
    HTTPRequest,
    HTTPResponse,
    RequestT,
    ResponseT,
    SyncTransport,
    subclass,
)

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0

# openai reads on after [DONE] if the response says HTTP/1.1.
_EXTENSIONS = MappingProxyType({"http_version": b"HTTP/1.1"})


class GenericRecordingTransport(Generic[RequestT, ResponseT]):
    """Transport that records exchanges as they pass.

    The client's reads are those of the inner transport, at their time.  A response that is
    not read to its end is recorded as far as it was read; one that is never closed stays
    marked as incomplete.  A failure to write is reported once and breaks no exchange.  An upload
    of up to 64 MiB is kept in memory as it is sent, and recorded when the response arrives.

    Requests ask for bodies without compression, so that the recorded reads are those of the
    server; a body that arrives compressed is decoded before it is written.  Secrets are
    left out.

    Args:
        inner: Sends the requests: an `HTTPTransport()`, an `AsyncHTTPTransport()` or any other
            of the package.  It is closed with this transport.
        directory: Directory of the recordings, `01-messages.sse` and `01-messages.json`;
            or the recorder of several transports, which has the options below itself.
        redact: Further secrets that must not be written: texts, or regular expressions.
        request_bodies: Whether the bodies of requests are written.  Without them, a replay
            selects recordings by method, path and query alone.
        on_failure: Called once for each exchange that could not be written completely.
    """

    _family: Family[RequestT, ResponseT]

    def __init__(
        self,
        inner: AnyTransport[RequestT, ResponseT],
        directory: str | Path | Recorder,
        *,
        redact: Sequence[str | re.Pattern[str]] = (),
        request_bodies: bool = True,
        on_failure: Callable[[RecordingError], None] | None = None,
    ) -> None:
        self._inner = inner
        if isinstance(directory, Recorder):
            self._recorder = directory
        else:
            self._recorder = Recorder(
                directory, redact=redact, request_bodies=request_bodies, on_failure=on_failure
            )

    @property
    def failures(self) -> tuple[RecordingError, ...]:
        """The errors of incomplete recordings."""
        return self._recorder.failures

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request, and record the response as its body is read."""
        inner, base = self._sync_inner(), self._family.sync_stream
        sent = self._request_identity(request, base)
        with self._recording(sent) as writer:
            response = inner.handle_request(sent)
        return self._record_body(response, writer, base)

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request, and record the response as its body is read."""
        inner, base = self._async_inner(), self._family.async_stream
        sent = self._request_identity(request, base)
        with self._recording(sent) as writer:
            response = await inner.handle_async_request(sent)
        return self._record_body(response, writer, base)

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
        return self._family.sync_inner(self._inner)

    def _async_inner(self) -> AsyncTransport[RequestT, ResponseT]:
        return self._family.async_inner(self._inner)

    def _request_identity(self, request: RequestT, base: type[Any]) -> RequestT:
        """Return a copy of a request whose response must have no content coding.

        A compressed body arrives in other chunks than the server wrote.  An upload is kept as it
        is sent.

        Args:
            request: The request.
            base: Base of the bodies that the client accepts.
        """
        stream = request.stream
        if self._family.is_upload(request):
            upload = subclass(_SentUpload, base)  # type: ignore[arg-type]  # classes are hashable
            stream = upload(stream)
        copy = self._family.request(
            request.method,
            request.url,
            headers=request.headers,
            stream=stream,
            extensions=request.extensions,
        )
        copy.headers["accept-encoding"] = "identity"
        return copy

    @contextmanager
    def _recording(self, request: RequestT) -> Generator[RecordingWriter]:
        """Start to record a request; end the recording if no response arrives."""
        upload = request.stream
        asked = self._family.wire_request(request)
        writer = self._recorder.start(asked)
        try:
            yield writer
        except BaseException as exc:
            writer.end(_end_of(exc, self._family))
            raise
        if isinstance(upload, _SentUpload):
            body, is_whole = upload.body, upload.is_whole
            writer.add_upload(structs.replace(asked, body=body), is_whole=is_whole)

    def _record_body(
        self, response: ResponseT, writer: RecordingWriter, stream: type[Any]
    ) -> ResponseT:
        """Record status and headers of a response; return it with a body that records its reads."""
        writer.begin(response.status_code, response.headers.multi_items())
        # Mock transports return responses that were read.
        if response.is_closed:
            _write_whole(response, writer)
        else:
            coding = response.headers.get("content-encoding", "")
            body = subclass(_RecordedBody, stream)  # type: ignore[arg-type]  # classes are hashable
            response.stream = body(response.stream, self._family, writer, coding)
        return response


def _write_whole(response: HTTPResponse, writer: RecordingWriter) -> None:
    """Record the body of a response that was already read."""
    try:
        writer.write(response.content)
    except RuntimeError:  # it was closed unread, and nobody will read it
        writer.end("aborted")
    else:
        writer.end("eof")


class _SentUpload:
    """Body of a request, synchronous or asynchronous, that keeps what is read of it.

    Args:
        inner: The body to read.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._reads: Any = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._has_ended = False

    @property
    def body(self) -> bytes:
        """The bytes that were read, up to the bound on recorded requests."""
        return b"".join(self._pieces)

    @property
    def is_whole(self) -> bool:
        """Whether `body` is all of it."""
        return self._has_ended and self._size <= MAX_REQUEST_BYTES

    def __iter__(self) -> Self:
        self._restart(iter(self._inner))
        return self

    def __next__(self) -> bytes:
        try:
            data: bytes = next(self._reads)
        except StopIteration:
            self._has_ended = True
            raise
        self._keep(data)
        return data

    def __aiter__(self) -> Self:
        self._restart(aiter(self._inner))
        return self

    async def __anext__(self) -> bytes:
        try:
            data: bytes = await anext(self._reads)
        except StopAsyncIteration:
            self._has_ended = True
            raise
        self._keep(data)
        return data

    def close(self) -> None:
        """Close the inner body."""
        self._inner.close()

    async def aclose(self) -> None:
        """Close the inner body."""
        await self._inner.aclose()

    def _restart(self, reads: Any) -> None:
        """Begin anew, as a connection that is tried again does."""
        self._reads, self._pieces, self._size, self._has_ended = reads, [], 0, False

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MAX_REQUEST_BYTES:
            self._pieces.append(data)


class _RecordedBody:
    """Response body, synchronous or asynchronous, that records the bytes of each read.

    Args:
        inner: The body to read.
        family: Package of the client.
        writer: Writes the recording.
        coding: The response's `content-encoding`; empty for none.
    """

    def __init__(
        self, inner: Any, family: Family[Any, Any], writer: RecordingWriter, coding: str
    ) -> None:
        self._inner = inner
        self._reads: Any = None
        self._family = family
        self._writer = writer
        self._write = decoding_writer(writer, coding)
        self._closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self._check_open()
        try:
            if self._reads is None:
                self._reads = iter(self._inner)
            data: bytes = next(self._reads)
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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._check_open()
        try:
            if self._reads is None:
                self._reads = aiter(self._inner)
            data: bytes = await anext(self._reads)
        except StopAsyncIteration:
            self._writer.end("eof")
            raise
        except BaseException as exc:
            self._writer.end(_end_of(exc, self._family))
            # A coroutine that is being discarded must not await.
            if not isinstance(exc, GeneratorExit):
                with suppress(Exception):
                    await self.aclose()
            raise
        self._write(data)
        return data

    def close(self) -> None:
        """Close the inner body."""
        if not self._end():
            return
        try:
            # httpx leaves its generators to the garbage collector.  The reader may be
            # another thread, which has the generator running.
            if isgenerator(self._reads) and not self._reads.gi_running:
                self._reads.close()
        finally:
            self._inner.close()

    async def aclose(self) -> None:
        """Close the inner body."""
        if not self._end():
            return
        with anyio.move_on_after(_CLOSE_S, shield=True):
            try:
                if isasyncgen(self._reads) and not self._reads.ag_running:
                    await self._reads.aclose()
            finally:
                await self._inner.aclose()

    def _end(self) -> bool:
        """End the recording; return whether the body was open."""
        if self._closed:
            return False
        self._closed = True
        self._writer.end("aborted")  # ignored if it has ended
        return True

    def _check_open(self) -> None:
        if self._closed:
            # A closed generator would end as if the body were complete.
            raise self._family.read_error("read of a body that was closed, expected none")


def _end_of(exc: BaseException, family: Family[Any, Any]) -> End:
    """Return the recorded end of a body whose read raised `exc`."""
    if isinstance(exc, (family.timeout, TimeoutError)):
        return "timeout"
    return "reset" if isinstance(exc, Exception) else "aborted"


def decoding_writer(writer: RecordingWriter, coding: str) -> Callable[[bytes], object]:
    """Return a function that decodes the bytes of each read and passes them to `writer`.

    With an unsupported coding the recording is given up, and the reads are ignored.

    Args:
        writer: Writer of the recording.
        coding: The response's `content-encoding`; empty for none.
    """
    if not content_codings(coding):
        return writer.write
    try:
        decoder = ResponseDecoder(coding)
    except RemoteProtocolError:
        writer.fail("the response has a content-encoding other than gzip and deflate")
        return len

    def write(data: bytes) -> None:
        try:
            for piece in decoder.feed(data):
                writer.write(piece)
        except RemoteProtocolError:
            writer.fail("the response's body is not of its content-encoding")

    return write


class GenericReplayTransport(Generic[RequestT, ResponseT]):
    """Transport that answers requests with recordings, without a network.

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
        """The recordings that were not played."""
        return self.responder.unplayed if isinstance(self.responder, Library) else ()

    def handle_request(self, request: RequestT) -> ResponseT:
        """Answer a request with a recording.

        Raises:
            UnrecordedRequest: No recording answers it.
        """
        request.read()  # an upload is sent before the response arrives
        return self._respond(request, self._family.sync_stream)

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Answer a request with a recording.

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
            # As text, httpx takes ASCII alone.
            headers=[(name.encode(), value.encode()) for name, value in playback.headers.items()],
            stream=body(playback, self._pace, request, self._family),
            extensions=_EXTENSIONS,
        )


class _ReplayedBody:
    """Body of a replayed response, for synchronous and asynchronous clients.

    Args:
        playback: The body to play.
        pace: The speed.
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
        """Stop the playback."""
        self._closed = True

    async def aclose(self) -> None:
        """Stop the playback."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise self._family.read_error(
                "read of a body that was closed, expected none", request=self._request
            )

    def _fail(self, exc: BaseException) -> None:
        """Close the body, and raise a playback's failure as the HTTP package's error.

        An interrupted or cancelled read closes it, too: a chunk is lost, as on a connection.
        """
        self._closed = True
        if isinstance(exc, PlaybackReset):
            raise self._family.read_error(str(exc), request=self._request) from exc
        if isinstance(exc, PlaybackTimeout):
            raise self._family.read_timeout(str(exc), request=self._request) from exc
