"""An upstream's answer as the source of a logged stream, processed like any other answer.

They pass through the pump of the answer as without a log, so that the same upstreams are asked,
the same is measured, and the same answers are stored.  What the pump writes is dropped: the client
that asked reads the log like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Unpack

from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec import Dialect, StoredAnswers
from streamnorm._core.codec.framing import list_events
from streamnorm._core.events import Completed, MessageStart, StreamError
from streamnorm._core.json import is_object
from streamnorm._exchange import last_answer, last_event
from streamnorm._registry import encoder
from streamnorm._transcoder import TranscodeOptions, WriterOptions
from streamnorm._upstream.requests import RequestRefused, Upstream
from streamnorm.aio import Stream
from streamnorm.aio.pump import LargeEventPump, OnEnd
from streamnorm.gateway.receiving import UpstreamResponse
from streamnorm.gateway.response_state import ResponseState
from streamnorm.log import OpenedSource, State
from streamnorm.log.producing import ObservedSource


class ReadsPump(LargeEventPump):
    """A pump that processes an answer, and returns the upstream's bytes instead of the client's.

    Args:
        answer: The answer; it must not be wrapped before.
        dialect: The dialect.
        to: The client's dialect.
        on_end: Called with the outcome.
        options: Options of the transcoder.

    Attributes:
        last_written: What the client gets of the last read.
    """

    def __init__(
        self,
        answer: UpstreamResponse,
        dialect: str,
        to: str,
        *,
        on_end: OnEnd,
        **options: Unpack[TranscodeOptions],
    ) -> None:
        self.last_written = b""
        self._reads = answer.keep_reads()
        self._has_given = False
        super().__init__(answer, dialect, to, on_end=on_end, **options)

    def feed(self, data: bytes) -> bytes | None:
        """Process the next chunk, and return it unless it is the last chunk."""
        super().feed(data)
        return None if self.ended else self._take()

    def _finish(self, pieces: list[bytes]) -> None:
        super()._finish(pieces)
        self.last_written = b"".join(self.pending)
        # Of what has begun, readers get an error as it came.
        if self.failure is None or self._has_given:
            self.failure = None
            self.pending = [self._take()]

    def _take(self) -> bytes:
        self._has_given = True
        data = b"".join(self._reads)
        self._reads.clear()
        return data


class ReadsStream(Stream[bytes]):
    """Stream of an upstream's chunks, which stores the answer before it returns the last chunk.

    Args:
        pump: The pump of the stream.
        reader: Reads the upstream's answer.
        turn: Stores the answer; None if it is not stored.
    """

    def __init__(
        self, pump: ReadsPump, reader: UpstreamResponse, turn: ResponseState | None
    ) -> None:
        super().__init__(pump, reader)
        self._reads_pump = pump
        self._turn = turn

    def as_source(
        self,
        answer: UpstreamResponse,
        first: bytes,
        upstream: Upstream,
        options: TranscodeOptions,
        client: Dialect,
        written: WriterOptions,
    ) -> OpenedSource:
        """Return all chunks of the upstream, including the first, as the source of a logged stream.

        Args:
            answer: The answer.
            first: The reads that were returned already.
            upstream: Who gives it.
            options: How it is read, and written for its client.
            client: The client's dialect.
            written: Those of the options that any reader of the client's dialect needs.
        """
        self._pump.pending.append(first)
        return OpenedSource(
            source=ObservedSource(self, self._pump, answer),
            dialect=upstream.dialect,
            server=upstream.server,
            framing=upstream.framing,
            reply=options.get("reply"),
            to=client.name,
            options=written,
            last_fields=self._last_fields,
        )

    async def _last(self) -> bytes:
        data = await super()._last()
        if self._turn is not None and isinstance(self.outcome, Completed):
            self._pump.pending.append(data)  # not returned yet, should the gateway stop meanwhile
            await self._turn.store_streamed(self._reads_pump.last_written, self)
            self._pump.pending.pop()
        return data

    def _last_fields(self) -> dict[str, Any]:
        return {} if self._turn is None else self._turn.lost_fields


class BackgroundAnswer:
    """An answer that is made in the background, which its client reads later.

    Args:
        turn: State of the request.
        client: The client's dialect, whose answers are stored.
        fields: Fields of the response.
        model: Name of the model.
        store_failed: Stores the response when its stream has ended in any state but `complete`.

    Attributes:
        fields: As above.
        model: As above.
        response: The response as long as no upstream has begun it.
        store_failed: As above.
    """

    def __init__(
        self,
        turn: ResponseState,
        client: Dialect,
        fields: dict[str, Any],
        model: str,
        store_failed: Callable[[State], Awaitable[None]],
    ) -> None:
        self.fields = fields
        self.model = model
        self.response = unbegun_response(client, fields, model)
        self.store_failed = store_failed
        self._turn = turn
        self._is_announced = asyncio.Event()
        self._failure: RequestRefused | None = None

    async def announce(self) -> None:
        """Store the response, with its input, before an upstream is asked.

        Raises:
            RequestRefused: It cannot be stored.
        """
        try:
            await self._turn.announce(self.response)
        except RequestRefused as exc:
            self._failure = exc
            raise
        finally:
            self._is_announced.set()

    @property
    def is_announced(self) -> bool:
        """Whether the response is stored."""
        return self._is_announced.is_set() and self._failure is None

    async def wait(self) -> None:
        """Wait until the response is stored.

        Raises:
            RequestRefused: It cannot be stored.
        """
        await self._is_announced.wait()
        if self._failure is not None:
            raise self._failure


def unbegun_response(client: Dialect, fields: dict[str, Any], model: str) -> dict[str, Any]:
    """Return a queued response, which no upstream has begun.

    Args:
        client: The client's dialect, whose answers are stored.
        fields: Fields of the response.
        model: Name of the model.
    """
    form = require_stored_answers(client)
    response = last_answer(_start(client, fields, model), form.noun)
    return {**response, **fields, "status": form.queued_status}


def failed_source(
    error: StreamError, client: Dialect, fields: dict[str, Any], model: str
) -> OpenedSource:
    """Return a log source with a response that failed before any upstream began it.

    Args:
        error: Why, as the client is told.
        client: The client's dialect.
        fields: Fields of the response.
        model: Name of the model.
    """
    events = _start(client, {}, model, error)  # the reply has the fields

    async def read() -> AsyncGenerator[bytes]:
        yield events

    return OpenedSource(
        source=read(), dialect=client.name, to=client.name, reply=Reply(response=fields)
    )


def first_event(client: Dialect, unbegun: dict[str, Any]) -> bytes:
    """Return the event that starts the stream of a response that no upstream has begun.

    Args:
        client: The client's dialect.
        unbegun: The response.
    """
    return list_events(_start(client, unbegun, str(unbegun.get("model", ""))))[0]


def unbegun_events(error: StreamError, client: Dialect, unbegun: dict[str, Any]) -> bytes:
    """Return the events of a response that failed before any upstream began it.

    Args:
        error: Why it failed.
        client: The client's dialect.
        unbegun: The response as it was before.
    """
    form = require_stored_answers(client)
    # Those that each event states anew.
    states = ("status", "error", "usage", form.output, form.errors)
    fields = {name: value for name, value in unbegun.items() if name not in states}
    return _start(client, fields, str(unbegun.get("model", "")), error)


def failed_response(error: StreamError, client: Dialect, unbegun: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a response that failed before any upstream began it.

    Args:
        error: Why it failed.
        client: The client's dialect.
        unbegun: The response as it was before.
    """
    form = require_stored_answers(client)
    failed = response_in(_start(client, {}, "", error), form)
    names = ("status", "error", form.errors)
    return {**unbegun, **{name: value for name, value in failed.items() if name in names}}


def response_in(data: bytes, form: StoredAnswers) -> dict[str, Any]:
    """Return the last response object in the events; {} if there is none.

    Args:
        data: The events, whole.
        form: How answers of their dialect are stored.
    """
    response = last_answer(data, form.noun)
    error = last_event(data).get("error")
    if form.errors is None or not is_object(error):
        return response
    return {**response, "status": "failed", form.errors: [error]}


def require_stored_answers(client: Dialect) -> StoredAnswers:
    """Return a dialect's rules for stored answers, which the dialect must have."""
    assert client.stored is not None  # noqa: S101 - its requests have been routed as such
    return client.stored


def _start(
    client: Dialect, fields: dict[str, Any], model: str, error: StreamError | None = None
) -> bytes:
    """Return the events that start a stream, and the error event if there is an error."""
    writer = encoder(client.name)
    writer.response_fields = fields
    start = writer.encode(MessageStart(model=model))
    return start if error is None else start + writer.encode(error)
