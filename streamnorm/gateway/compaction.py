"""Compaction of Responses conversations for upstreams without compaction.

An upstream of the client's own dialect compacts by itself, and is sent such requests as they
are.  Any other is asked for a summary, which the client gets sealed in place of the answer, and
sends back in its further requests; `streamnorm.state.compaction` says what both are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streamnorm._answers import encode_message
from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec import Dialect, Encoder, RequestedOperation
from streamnorm._core.errors import StateError
from streamnorm._core.events import MessageStart, StreamError
from streamnorm._core.failures import error_outcome
from streamnorm._core.json import dumps, encode_pieces
from streamnorm._core.limits import Limits
from streamnorm._core.messages import Accumulator, Message, message_events
from streamnorm._exchange import state_refusals
from streamnorm._registry import decoder, encoder
from streamnorm._upstream.answers import encode_error_response
from streamnorm._upstream.requests import ClientRequest, refusals
from streamnorm.gateway.admission import resolve_key
from streamnorm.gateway.attempts import StartedStream
from streamnorm.gateway.config import Config, ConfigError
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.response_state import ResponseState
from streamnorm.gateway.routing import Target
from streamnorm.state.compaction import (
    Sealer,
    add_trigger,
    asks_for_compaction,
    compact_answer,
    compact_response,
    open_summaries,
    summary_request,
)

if TYPE_CHECKING:
    from streamnorm.gateway.messages import ClientStream

_LOG = logging.getLogger(__name__)

_MIN_KEY_CHARS = 32


def sealer_of(config: Config, environ: Mapping[str, str]) -> Sealer:
    """Return the `Sealer` that encrypts summaries with the configured keys.

    Args:
        config: The configuration.
        environ: The environment that holds its keys.

    Raises:
        ConfigError: There is no key at the configured place, or one is too short.
    """
    if config.seal_key is None:
        return _OwnSealer()
    keys = [key.strip() for key in resolve_key(config.seal_key, "seal_key", environ).split(",")]
    for key in keys:
        if len(key) < _MIN_KEY_CHARS:
            raise ConfigError(
                f"seal_key: a key of {len(key)} characters, expected at least {_MIN_KEY_CHARS}"
            )
    return Sealer([key.encode("utf-8", "surrogateescape") for key in keys])


class _OwnSealer(Sealer):
    """A sealer with a random key, which logs a warning at its first use."""

    def __init__(self) -> None:
        super().__init__()
        self._has_warned = False

    def seal(self, text: str) -> str:
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "no seal_key is configured: a conversation that is compacted here can be "
                "continued by this process alone"
            )
        return super().seal(text)


def is_compaction(asked: RequestedOperation, body: dict[str, Any]) -> bool:
    """Return whether a request asks for compaction of its conversation."""
    if asked.operation == "compact":
        return True
    with suppress(StateError):  # of a trigger that stands elsewhere
        return asks_for_compaction(body)
    return False


class Compactor:
    """Opens sealed summaries in requests, and begins the compaction that a request asks for.

    Args:
        sealer: Seals and opens summaries.
        max_bytes: Bound on the answer that a summary is made of.
    """

    def __init__(self, sealer: Sealer, *, max_bytes: int) -> None:
        self._sealer = sealer
        self._limits = Limits(max_event_bytes=max_bytes, max_accumulated_bytes=max_bytes)

    def begin(self, turn: ResponseState, client: Dialect, *, is_whole: bool) -> Compaction:
        """Return a request's `Compaction`, which edits the body before an upstream receives it.

        Args:
            turn: The turn.
            client: The client's dialect, whose clients expect stored responses.
            is_whole: Whether the request is one for `/responses/compact`.

        Raises:
            RequestRefused: The request is wrong.
        """
        body = turn.body
        if is_whole:
            with refusals():
                turn.rewrite(add_trigger(body))
        compaction = Compaction(turn, client, body, self._sealer, self._limits, is_whole=is_whole)
        turn.edit = compaction.edit
        return compaction

    def open(self, received: ClientRequest, body: dict[str, Any], *, is_own: bool) -> ClientRequest:
        """Return an auxiliary request with its sealed summaries opened.

        Args:
            received: The request.
            body: The decoded body.
            is_own: Whether the upstream is of the client's dialect.

        Raises:
            RequestRefused: Something was not sealed here.
        """
        found = _open_seals(body, self._sealer, passes_others=is_own)
        if found is body:
            return received
        return received.with_body(encode_pieces(found, received.size))


class Compaction:
    """Compaction of one request's conversation, if the request asks for compaction.

    Args:
        turn: The turn.
        client: The client's dialect.
        body: The decoded body of the client's request.
        sealer: Seals and opens summaries.
        limits: Bounds of the answer that the summary is made of.
        is_whole: Whether the client wants the body of `/responses/compact`.
    """

    def __init__(
        self,
        turn: ResponseState,
        client: Dialect,
        body: dict[str, Any],
        sealer: Sealer,
        limits: Limits,
        *,
        is_whole: bool,
    ) -> None:
        self._turn = turn
        self._client = client
        self._body = body
        self._sealer = sealer
        self._limits = limits
        self._is_whole = is_whole

    def edit(self, body: dict[str, Any], target: Target) -> dict[str, Any]:
        """Return the body for an upstream: with summaries opened, or as a request for a summary.

        Raises:
            RequestRefused: Something was not sealed here, or the trigger is in a wrong place.
        """
        passes = self._turn.passes(target)
        is_own = target.upstream.dialect == self._client.name
        found = _open_seals(body, self._sealer, passes_others=is_own)
        with state_refusals():
            asks = self._turn.makes_answer = not passes and asks_for_compaction(body)
            return summary_request(found) if asks else found

    async def send(
        self, begun: StartedStream, stream: ClientStream, call: CallRecord, *, streams: bool
    ) -> None:
        """Send the compacted conversation, or the error that prevents it.

        Args:
            begun: The answer that is the summary.
            stream: The answer to the client.
            call: Takes what becomes known.
            streams: Whether the client reads a stream.
        """
        writer = encoder(self._client.name, extras=True)
        writer.response_fields = self._turn.fields
        has_started = False

        async def start(event: MessageStart) -> None:
            nonlocal has_started
            if streams:  # at once: only behind this event pings keep clients waiting
                has_started, stream.ping = True, writer.ping
                await stream.start(begun.headers)
                await stream.send(writer.encode(event))

        try:
            message = await self._read(begun, start)
        finally:
            call.usage = begun.pump.usage
            await begun.stream.aclose()
        answer = (
            message if isinstance(message, StreamError) else compact_answer(message, self._sealer)
        )
        if isinstance(answer, StreamError):
            call.outcome = error_outcome(answer)
            await self._fail(answer, writer, stream, call)
            return
        response = self._response(answer)
        if not self._is_whole:
            await self._turn.store(response)
        if not streams:
            await stream.send_body(200, begun.headers, dumps(response))
            return
        events = message_events(answer)[1 if has_started else 0 :]
        await stream.start(begun.headers)
        await stream.send(b"".join([writer.encode(event) for event in events]), more=False)

    async def _read(
        self, begun: StartedStream, on_start: Callable[[MessageStart], Awaitable[None]]
    ) -> Message | StreamError:
        """Return the upstream's answer as a message, or its error."""
        reader = decoder(self._client.name, limits=self._limits)
        message = Accumulator(limits=self._limits)
        data = begun.first
        while True:
            for event in message.take(reader.feed(data)):
                if isinstance(event, StreamError):
                    return event
                if isinstance(event, MessageStart):
                    await on_start(event)
            data = await anext(begun.stream, b"")
            if not data:
                return message.message()

    def _response(self, answer: Message) -> dict[str, Any]:
        """Return an answer as the body of a response, or of `/responses/compact`."""
        reply = Reply(response=self._turn.fields)
        body = encode_message(answer, self._client.name, reply=reply, created=time.time()).body
        return compact_response(body, self._body) if self._is_whole else body

    async def _fail(
        self, error: StreamError, writer: Encoder, stream: ClientStream, call: CallRecord
    ) -> None:
        if stream.is_started:
            await stream.send(writer.encode(error), more=False)
            return
        failed = encode_error_response(error, self._client.name, upstream=None)
        call.status = failed.status
        await stream.send_body(failed.status, {}, failed.body)


def _open_seals(body: dict[str, Any], sealer: Sealer, *, passes_others: bool) -> dict[str, Any]:
    with state_refusals():
        return open_summaries(body, sealer, passes_others=passes_others)
