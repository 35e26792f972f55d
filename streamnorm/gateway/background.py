"""Background responses, which are stored as streams in the log.

https://platform.openai.com/docs/guides/background (read 2026-11-27): a request with `background`
is answered at once, and its response is polled, streamed behind a `sequence_number`, or cancelled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from streamnorm._bodies import reader_of
from streamnorm._core.codec import Dialect, RequestedOperation, StoredAnswers
from streamnorm._core.codec.framing import list_events
from streamnorm._core.errors import StoreError
from streamnorm._core.events import Failed, Truncated
from streamnorm._core.json import dumps
from streamnorm._exchange import client_scope, store_scope
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import Exchange, send_json
from streamnorm.gateway.attempts import Attempts
from streamnorm.gateway.background_events import FAILURES, BackgroundPings, background_events
from streamnorm.gateway.config import Config
from streamnorm.gateway.messages import ClientStream
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.producing import (
    BackgroundAnswer,
    failed_response,
    require_stored_answers,
    response_in,
    unbegun_response,
)
from streamnorm.gateway.response_state import ResponseState
from streamnorm.gateway.storing import GatewayStore, store_refusals
from streamnorm.gateway.stream_refusals import ABSENT, log_refusals
from streamnorm.gateway.streams import (
    LoggedRequest,
    LoggedStreams,
    last_of,
    send_followed,
)
from streamnorm.log import FollowedStream, State
from streamnorm.log.records import Key
from streamnorm.state import Found, Lookup, Operation
from streamnorm.state.stored import value_of
from streamnorm.state.turn import has_ended

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

    def name(
        self,
        turn: ResponseState,
        asked: LoggedRequest | None,
        received: ClientRequest,
        client: Dialect,
        model: str,
    ) -> LoggedRequest:
        """Return the request to log a response under, with the id of its stream.

        Args:
            turn: The turn, whose response gets the id of the stream.
            asked: The stream that the headers name; None if they name none.
            received: The request.
            client: The client's dialect.
            model: Name of the model.
        """
        scope, id = (client_scope(received, client), turn.id) if asked is None else asked.key
        if asked is not None:
            # The same request joins: it gets the id of the same response.  Another one under its
            # header gets another: the store keeps a response longer than the log knows of which
            # request it is.
            digest = hashlib.sha256(f"{scope}\n{id}\n".encode() + asked.fingerprint)
            id = require_stored_answers(client).id_prefix + digest.hexdigest()[:32]
            turn.rename(id)
        echoed = reader_of(client).echoed_fields
        fields = {**({} if echoed is None else echoed(turn.body)), **turn.fields}
        stored = store_scope(received, client)
        key = (scope, id)
        store_failed = partial(self._store_failed, turn, key, client, stored)
        background = BackgroundAnswer(turn, client, fields, model, store_failed)
        fingerprint = b"" if asked is None else asked.fingerprint
        return LoggedRequest(key, fingerprint, "", background)

    async def _store_failed(
        self, turn: ResponseState, key: Key, client: Dialect, scope: str, state: State
    ) -> None:
        """Store a response that failed or was cancelled, which the log forgets sooner."""
        found = await self._store.afind(scope, Lookup(key[1]))
        await turn.announce(await self._current(key, client, state, found, {}))
        if (await self._streams.status(key)).state in ABSENT:  # it was deleted meanwhile
            await self._store.adelete(scope, key[1])

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
        form = require_stored_answers(client)
        # One scope has the streams of all dialects.
        if not asked.response_id.startswith(form.id_prefix):
            return False
        key = (client_scope(received, client), asked.response_id)
        with log_refusals():
            status = await self._streams.status(key)
        state = status.state
        if state in ABSENT or asked.operation not in _OPERATIONS:
            return False
        query = dict(received.query)
        streams = asked.operation == "response" and query.get("stream", "false") != "false"
        if asked.operation == "delete":
            if state == "running":
                found = await self._store.afind(scope, Lookup(asked.response_id))
                if not (found.chain or status.reads):
                    # A removal has the id; one that failed has it until its lease ends.
                    with log_refusals():
                        raise StoreError("a stream is being removed")
                problem = f"{form.noun} that is not complete, cancel it in place of that"
                raise RequestRefused(problem)
            # From the store first: behind the log's removal, that may have a repetition's response.
            await self._store.adelete(scope, asked.response_id)
            with log_refusals():
                await self._streams.forget(key, status.epoch)
            # The log alone may have it: the store is that of another process, or forgot it, or a
            # deletion came no further than the store.
            call.status = 200
            await send_json(exchange, 200, _JSON, dumps(form.deleted(asked.response_id)))
            return True
        if asked.operation == "cancel" and state == "running":
            with log_refusals():
                state = (await self._streams.cancel(key)).state
        found = await self._store.afind(scope, Lookup(asked.response_id))
        if not found.chain and state == "complete":
            return False  # the store had it, and has forgotten it
        if streams:
            unbegun = _unbegun_in(found, key[1], client)
            await self._stream(key, client, query, unbegun, exchange, call)
            return True
        if state == "complete" and asked.operation == "response":
            return False
        response = await self._current(key, client, state, found, {})
        call.status = 200
        await send_json(exchange, 200, _JSON, dumps(response))
        return True

    async def create(
        self,
        asked: LoggedRequest,
        attempts: Attempts,
        client: Dialect,
        scope: str,
        stream: ClientStream,
        call: CallRecord,
    ) -> None:
        """Begin a response and answer with it, or with the one that has begun under its id.

        Args:
            asked: The request.
            attempts: The attempts to answer it, which are made if nobody has.
            client: The client's dialect.
            scope: Scope of the client in the store.
            stream: The answer.
            call: Record of the request.

        Raises:
            RequestRefused: The log or the store does not answer.
        """
        background = asked.background
        assert background is not None  # noqa: S101 - whose request this is
        key, headers = asked.key, asked.headers
        call.stream, response = key, background.response
        begin = partial(self._streams.begin, asked, attempts, client, call, headers)
        with log_refusals():
            for _ in range(_MAX_BEGINS):
                if await begin():
                    await background.wait()
                    break
                joined = await self._join(key, client, scope, response)
                if joined is not None:
                    response = joined
                    break
                # It could not be stored at another gateway, or was deleted: its id is free again.
            else:
                raise StoreError("a stream is removed again and again")
        call.status = 200
        await stream.send_body(200, headers, dumps(response))

    async def _join(
        self, key: Key, client: Dialect, scope: str, unbegun: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the response that has begun under an id; None if it is removed by then."""
        state = (await self._streams.status(key)).state
        if state in ABSENT:
            return None
        found = await self._store.afind(scope, Lookup(key[1]))
        try:
            return await self._current(key, client, state, found, unbegun)
        except RequestRefused as exc:
            if exc.error.code in _REMOVED:
                return None
            raise

    async def _stream(
        self,
        key: Key,
        client: Dialect,
        query: Mapping[str, str],
        unbegun: dict[str, Any],
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        """Send the events after the client's last event."""
        form = require_stored_answers(client)
        after, number = query.get(form.after, ""), -1
        if form.event_id is None:  # events have numbers of their own
            after, number = "", _number_in(query, form.after)
        pings = BackgroundPings(client)
        part = partial(
            background_events, client=client, unbegun=unbegun, pings=pings, number=number
        )
        with log_refusals():
            followed = await self._streams.follow(key, None, after, client)
            stream = ClientStream(exchange, pings, self._keepalive_s, lambda _: True)
            with stream.watch(self._keepalive_s, self._idle_s):
                await send_followed(followed, client, stream, call, {}, part, pings)

    async def _current(
        self, key: Key, client: Dialect, state: State, found: Found, unbegun: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a response as it is now.

        Args:
            key: Scope and id of its stream.
            client: The client's dialect.
            state: State of the stream.
            found: The stored response and its chain; an empty chain if the store lacks it.
            unbegun: The response before it began, if the store has none of it; {} if that is
                unknown.
        """
        form = require_stored_answers(client)
        with store_refusals(), log_refusals():
            if found.chain and has_ended(found.chain[0], form):
                return Operation("retrieve", key[1], dialect=client.name).answer(found)
            if found.chain or not unbegun:
                unbegun = _unbegun_in(found, key[1], client)
            return await self._logged(key, client, state, unbegun)

    async def _logged(
        self, key: Key, client: Dialect, state: State, unbegun: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a response as the log has it."""
        form = require_stored_answers(client)
        if state == "running" and not (await self._streams.status(key)).reads:
            return unbegun
        async with await self._streams.follow(key, None, "", client) as followed:
            data = await _first_of(followed)
            response = response_in(b"".join(list_events(data)[:1]), form)
            if state != "running":
                last = response_in(await last_of(followed) or data, form)
                response = {**response, **last} if last else {}
        if not response:
            match followed.outcome:
                case Failed(error) | Truncated(error):
                    response = failed_response(error, client, unbegun)
                case _:
                    return unbegun
        return {**unbegun, **response, **_status_of(state, form)}


_OPERATIONS = ("response", "cancel", "delete")
_REMOVED = ("stream_unknown", "stream_expired", "stream_trimmed")
# Each after the first follows a removal.
_MAX_BEGINS = 5


def _unbegun_in(found: Found, id: str, client: Dialect) -> dict[str, Any]:
    """Return a response before it began, as it is stored; with its id alone if it is not."""
    form = require_stored_answers(client)
    if found.chain:
        with store_refusals():
            return {**value_of(found.chain[0].body), form.output: []}
    fields = {**form.answer_fields(id, None), **form.background_fields}
    return unbegun_response(client, fields, "")


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


async def _first_of(followed: FollowedStream[bytes]) -> bytes:
    """Return the first bytes of a stream; b"" if it has no events."""
    with suppress(*FAILURES):
        return await anext(followed, b"")
    return b""
