"""Endpoints that send or cancel streams of the log.

    GET     /streams/ID?after=CURSOR&to=DIALECT
    DELETE  /streams/ID
    GET     /ui/chat/ID/stream
    DELETE  /ui/chat/ID/stream

The last two are those of the answer that a chat of a page has now.
"""

from __future__ import annotations

import re

from msgspec import structs

from streamnorm._core.codec import Dialect, Endpoints, RequestedOperation, Route
from streamnorm._core.codec.framing import SSE
from streamnorm._core.errors import UnknownDialect
from streamnorm._core.json import dumps
from streamnorm._exchange import client_scope
from streamnorm._registry import DEFAULT_ERROR_DIALECT, DIALECTS, encoder, lookup
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import Exchange, send_json
from streamnorm.gateway.config import Config
from streamnorm.gateway.messages import ClientStream
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.stream_refusals import log_refusals, refuse_absent
from streamnorm.gateway.streams import (
    ID_HEADER,
    LoggedStreams,
    NoAnswer,
    check_id,
    send_followed,
)
from streamnorm.log.records import Key

_PATH = re.compile(r"^/streams/(?P<response_id>[^/]+)$")
# Answers in the background have routes of their own: the log does not know which the store lacks.
_ANSWERS = tuple([known.stored.id_prefix for known in DIALECTS.values() if known.stored])
_NO_CONTENT = 204
_JSON = [(b"content-type", b"application/json")]


class StreamEndpoint:
    """Answers requests on streams of the log, by stream id or chat id.

    Args:
        streams: The streams.
        config: The configuration.
    """

    def __init__(self, streams: LoggedStreams, config: Config) -> None:
        self._streams = streams
        self._keepalive_s = config.keepalive_s
        self._idle_s = config.idle_s
        # Where pages ask for the answer of their chat: `useChat` knows no other path.
        self._chats = {
            re.compile(f"^{page_path}/(?P<response_id>.+)/stream$"): dialect
            for name, page in config.pages.items()
            if page.resume and (page_path := (dialect := lookup(name)).page_path)
        }

    def has(self, received: ClientRequest) -> bool:
        """Return whether a request is for a stream of the log."""
        return self.plain_path(received.path) is not None

    def client_at(self, received: ClientRequest) -> Dialect | None:
        """Return the client's dialect of a request on a stream; None for other requests."""
        for path, page in self._chats.items():
            if path.search(received.path):
                return _adapt_dialect(page, received, path)
        if not _PATH.search(received.path):
            return None
        try:
            known = lookup(encoder(dict(received.query).get("to", "")).dialect)
        except UnknownDialect:
            known = DIALECTS[DEFAULT_ERROR_DIALECT]
        return _adapt_dialect(known, received, _PATH)

    def plain_path(self, path: str) -> str | None:
        """Return the path of a request on a stream with `*` for the id; None for other paths."""
        found = [pattern.search(path) for pattern in (_PATH, *self._chats)]
        match = next((match for match in found if match is not None), None)
        return match and f"{path[: match.start(1)]}*{path[match.end(1) :]}"

    async def answer(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        """Answer a request.

        Args:
            received: The request.
            client: The dialect, as `client_at` returned it.
            asked: The operation.
            exchange: Exchange to send the answer on.
            call: Record of the request.

        Raises:
            RequestRefused: There is no such stream, or not from there on.
        """
        if not _PATH.search(received.path):
            await self._answer_chat(received, client, asked, exchange, call)
            return
        id = check_id(asked.response_id, "id")
        if id.startswith(_ANSWERS):
            refuse_absent("unknown")
        key = (client_scope(received, client), id)
        if asked.operation == "cancel":
            await self._cancel(key, id, exchange, call)
            return
        await self._follow(key, received, client, exchange, call)

    async def _answer_chat(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        """Answer a request for the running answer of a chat; with status 204 if there is none."""
        id = asked.response_id
        logged = self._streams.find_chat(received, client, id)
        if asked.operation == "cancel":
            if logged is None:
                refuse_absent("unknown")
            else:
                await self._cancel(logged.key, id, exchange, call)
            return
        # Chats of other ids are answered, too, but not from the log.
        if logged is not None:
            with log_refusals():
                state = (await self._streams.status(logged.key)).state
            if state == "running":
                await self._follow(logged.key, received, client, exchange, call)
                return
        call.status = _NO_CONTENT
        await exchange.start(_NO_CONTENT, [])
        await exchange.send(b"", more=False)

    async def _cancel(self, key: Key, id: str, exchange: Exchange, call: CallRecord) -> None:
        with log_refusals():
            state = (await self._streams.cancel(key)).state
        refuse_absent(state)
        call.status = 200
        await send_json(exchange, 200, _JSON, dumps({"id": id, "state": state}))

    async def _follow(
        self,
        key: Key,
        received: ClientRequest,
        client: Dialect,
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        query = dict(received.query)
        after = query.get("after") or received.headers.get("last-event-id", "")
        with log_refusals():
            try:
                followed = await self._streams.follow(key, query.get("to"), after, client)
            except NoAnswer as failed:
                result = failed.result
                raise RequestRefused(result.shown.message, result.status) from failed
            except UnknownDialect as exc:
                raise RequestRefused(f"to: {exc}", param="to") from exc
        client = lookup(followed.to or "")
        # Those of the stream: of a dialect there may be several framings.
        headers = {ID_HEADER: key[1], **followed.response_headers}
        if followed.media_type != SSE.media_type:
            headers["content-type"] = followed.media_type
        stream = ClientStream(
            exchange, followed.ping, self._keepalive_s, lambda _: True, headers=headers
        )
        with stream.watch(self._keepalive_s, self._idle_s), log_refusals():
            await send_followed(followed, client, stream, call, {})


def _adapt_dialect(dialect: Dialect, received: ClientRequest, path: re.Pattern[str]) -> Dialect:
    """Return a dialect with the routes and key headers of a stream endpoint."""
    headers = {name: None for each in DIALECTS.values() for name in each.endpoints.key_headers}
    routes = (Route("GET", path, "response"), Route("DELETE", path, "cancel"))
    endpoints = Endpoints(routes=routes, key_headers=tuple(headers))
    return structs.replace(dialect, endpoints=endpoints, page_path=received.path)
