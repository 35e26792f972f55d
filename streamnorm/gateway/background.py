"""Background responses, which are stored as streams in the log.

https://platform.openai.com/docs/guides/background (read 2026-11-27): a request with `background`
is answered at once, and its response is polled, streamed behind a `sequence_number`, or cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from streamnorm._core.codec import Dialect, RequestedOperation, StoredAnswers
from streamnorm._core.codec.framing import list_events
from streamnorm._core.events import Failed, Truncated
from streamnorm._core.json import dumps
from streamnorm._exchange import client_scope, last_event
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import Exchange, send_json
from streamnorm.gateway.config import Config
from streamnorm.gateway.messages import ClientStream
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.producing import (
    failed_response,
    require_stored_answers,
    response_in,
    unbegun_response,
)
from streamnorm.gateway.storing import GatewayStore
from streamnorm.gateway.streams import (
    ABSENT,
    FAILURES,
    LoggedStreams,
    last_of,
    log_refusals,
    positions_of,
    send_followed,
)
from streamnorm.log import FollowedStream, State
from streamnorm.log.records import Key
from streamnorm.state import Lookup

_JSON = [(b"content-type", b"application/json")]
_MAX_DIGITS = 15


class BackgroundResponses:
    """Answers requests on responses that are produced in the background.

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
        """Answer a request on a background response; return False for any other response.

        Args:
            received: The request.
            client: The client's dialect.
            asked: The operation.
            scope: Scope of the client in the store.
            exchange: Exchange to send the answer on.
            call: Record of the request.

        Raises:
            RequestRefused: The response does not do that.
        """
        # One scope has the streams of all dialects.
        if not asked.response_id.startswith(require_stored_answers(client).id_prefix):
            return False
        key = (client_scope(received, client), asked.response_id)
        with log_refusals():
            state = (await self._streams.status(key)).state
        if state in ABSENT or asked.operation not in _OPERATIONS:
            return False
        query = dict(received.query)
        streams = asked.operation == "response" and query.get("stream", "false") != "false"
        if state == "complete" and not streams:
            return False  # what is stored can be deleted
        if asked.operation == "delete":
            noun = require_stored_answers(client).noun
            raise RequestRefused(f"{noun} that is not complete, cancel it in place of that")
        if streams:
            if state == "complete" and not await self._is_stored(scope, asked.response_id):
                return False
            await self._stream(key, client, query, exchange, call)
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
        self,
        key: Key,
        client: Dialect,
        query: Mapping[str, str],
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        """Send the events after the client's last event."""
        form = require_stored_answers(client)
        after, part = query.get(form.after, ""), positions_of(form)
        if form.event_id is None:  # events have numbers of their own
            after, part = "", partial(_behind, number=_number_in(query, form.after))
        with log_refusals():
            followed = await self._streams.follow(key, None, after, client)
            stream = ClientStream(exchange, followed.ping, self._keepalive_s, lambda _: True)
            with stream.watch(self._keepalive_s, self._idle_s):
                await send_followed(followed, client, stream, call, {}, part)

    async def _response(self, key: Key, client: Dialect, state: State) -> dict[str, Any]:
        """Return an incomplete response as its JSON object."""
        form = require_stored_answers(client)
        fields = {**form.answer_fields(key[1], None), **form.background_fields}
        if state == "running" and not (await self._streams.status(key)).reads:
            return unbegun_response(client, fields, "")
        async with await self._streams.follow(key, None, "", client) as followed:
            data = await _first_of(followed)
            response = response_in(b"".join(list_events(data)[:1]), form)
            if state != "running":
                last = response_in(await last_of(followed) or data, form)
                response = {**response, **last} if last else {}
        if not response:
            match followed.outcome:
                case Failed(error) | Truncated(error):
                    response = failed_response(error, client, fields, "")
                case _:
                    response = unbegun_response(client, fields, "")
        return {**response, **_status_of(state, form)}


_OPERATIONS = ("response", "cancel", "delete")


def _status_of(state: State, form: StoredAnswers) -> dict[str, Any]:
    """Return the response fields for a stream's state."""
    match state:
        case "running":
            return {"status": "in_progress"}
        case "cancelled":
            return form.cancelled_fields
        case _:
            return {}


def _number_in(query: Mapping[str, str], name: str) -> int:
    """Return the sequence number after which a client continues; -1 for the start."""
    text = query.get(name, "-1")
    if text != "-1" and not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise RequestRefused(f"{name}: no sequence number", param=name)
    return int(text)


async def _behind(chunks: AsyncIterator[bytes], number: int) -> AsyncGenerator[bytes]:
    """Yield the events after a sequence number."""
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
    """Return the first bytes of a stream; b"" if it has no events."""
    with suppress(*FAILURES):
        return await anext(followed, b"")
    return b""
