"""Responses in the background: streams of the log under the ids of their responses.

https://platform.openai.com/docs/guides/background (read 2026-11-27): a request with `background`
is answered at once, and its response is polled, streamed behind a `sequence_number`, or cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from streamnorm._core.codec import Dialect, RequestedOperation
from streamnorm._core.codec.framing import list_events
from streamnorm._core.events import Failed, Truncated
from streamnorm._core.json import dumps, is_object
from streamnorm._exchange import last_event
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import Exchange, send_json
from streamnorm.gateway.config import Config
from streamnorm.gateway.messages import ClientStream
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.producing import failed_response, unbegun_response
from streamnorm.gateway.response_state import split_last
from streamnorm.gateway.storing import GatewayStore
from streamnorm.gateway.streams import (
    ABSENT,
    FAILURES,
    LoggedStreams,
    last_of,
    log_refusals,
    send_followed,
)
from streamnorm.log import FollowedStream, State
from streamnorm.log.records import Key
from streamnorm.state import Lookup

_JSON = [(b"content-type", b"application/json")]
_MAX_DIGITS = 15


class BackgroundResponses:
    """Answers requests about responses that are made in the background.

    Args:
        streams: The streams of the log.
        store: Where responses are stored that are complete.
        config: The configuration.
    """

    def __init__(self, streams: LoggedStreams, store: GatewayStore, config: Config) -> None:
        self._streams = streams
        self._store = store
        self._keepalive_s = config.keepalive_s
        self._idle_s = config.idle_s

    async def answer(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        scope: str,
        exchange: Exchange,
        call: CallRecord,
    ) -> bool:
        """Answer a request about a response, if it is one for the log; return whether it was.

        Args:
            received: The request.
            client: The client's dialect.
            asked: Its operation.
            scope: Scope of the client in the store.
            exchange: Exchange to send the answer on.
            call: Record of the request.

        Raises:
            RequestRefused: The response does not do that.
        """
        key = (self._streams.scope_of(received, client), asked.response_id)
        with log_refusals():
            state = (await self._streams.status(key)).state
        if state in ABSENT or asked.operation not in _OPERATIONS:
            return False
        query = dict(received.query)
        streams = asked.operation == "response" and query.get("stream", "false") != "false"
        if state == "complete" and not streams:
            return False  # what is stored can be deleted
        if asked.operation == "delete":
            raise RequestRefused("a response that is not complete, cancel it in place of that")
        if streams:
            if state == "complete" and not await self._is_stored(scope, asked.response_id):
                return False
            number = _starting_after(query)
            await self._stream(key, client, number, exchange, call)
            return True
        if asked.operation == "cancel" and state == "running":
            with log_refusals():
                state = (await self._streams.cancel(key)).state
        with log_refusals():
            response = await self._response(key, client, state)
        call.status = 200
        await send_json(exchange, 200, _JSON, dumps(response))
        return True

    async def _is_stored(self, scope: str, id: str) -> bool:
        return bool((await self._store.afind(scope, Lookup(id))).chain)

    async def _stream(
        self, key: Key, client: Dialect, number: int, exchange: Exchange, call: CallRecord
    ) -> None:
        """Send the events behind one of a number."""
        with log_refusals():
            followed = await self._streams.follow(key, None, "", client)
            stream = ClientStream(exchange, followed.ping, self._keepalive_s, lambda _: True)
            with stream.watch(self._keepalive_s, self._idle_s):
                part = partial(_behind, number=number)
                await send_followed(followed, client, stream, call, {}, part)

    async def _response(self, key: Key, client: Dialect, state: State) -> dict[str, Any]:
        """Return a response that is not complete."""
        fields = {"id": key[1], "background": True, "store": True}
        if state == "running" and not (await self._streams.status(key)).reads:
            return unbegun_response(client, fields, "")
        async with await self._streams.follow(key, None, "", client) as followed:
            if state == "running":
                events = list_events(await _first_of(followed))
                event = last_event(events[0]) if events else {}
            else:
                event = last_event(split_last(await last_of(followed))[1])
        response = event.get("response")
        if not is_object(response):
            match followed.outcome:
                case Failed(error) | Truncated(error):
                    response = failed_response(error, client, fields, "")
                case _:
                    response = unbegun_response(client, fields, "")
        return {**response, **_STATUS.get(state, {})}


_OPERATIONS = ("response", "cancel", "delete")
_STATUS: dict[State, dict[str, Any]] = {
    "running": {"status": "in_progress"},
    "cancelled": {"status": "cancelled", "error": None},
}


def _starting_after(query: Mapping[str, str]) -> int:
    text = query.get("starting_after", "-1")
    if text != "-1" and not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise RequestRefused("starting_after: no sequence number", param="starting_after")
    return int(text)


async def _behind(chunks: AsyncIterator[bytes], number: int) -> AsyncGenerator[bytes]:
    """Yield the events behind one of a `sequence_number`."""
    is_behind = False
    async for data in chunks:
        if not is_behind:
            events = list_events(data)
            known = [event for event in events if _number_of(event) <= number]
            is_behind = len(known) < len(events)
            data = b"".join(events[len(known) :])
        if data:
            yield data


def _number_of(event: bytes) -> int:
    number = last_event(event).get("sequence_number")
    return number if isinstance(number, int) else -1


async def _first_of(followed: FollowedStream[bytes]) -> bytes:
    """Return the first bytes of a stream; none of one that has no events."""
    with suppress(*FAILURES):
        return await anext(followed, b"")
    return b""
