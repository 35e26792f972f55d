"""Connections to upstreams over WebSockets.

A connection serves one conversation and one create at a time, so that the provider remembers the
latest response of each conversation, and a client that leaves ends its own answer alone: a
WebSocket has no other way to cancel one.  An answer reads as that of a request over HTTP does.

A connection is read all the time, so that pings are answered and a close is noticed, unless its
client reads too slowly.  A text message goes to its answer as it arrives; all others are left to a
task, which also reads on where the client has to catch up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from urllib.parse import urlsplit

import aiohttp
from aiohttp import WSCloseCode, WSMsgType
from aiohttp.http_websocket import WebSocketError

from streamnorm._core.codec.socket_events import ErrorAnswer
from streamnorm._core.errors import LimitExceeded, RemoteProtocolError
from streamnorm._core.json import dumps, object_in
from streamnorm._upstream.requests import UpstreamRequest
from streamnorm.gateway.receiving import LARGE_BYTES, BodyThread
from streamnorm.gateway.retrying import UNKNOWN_RESPONSE
from streamnorm.gateway.routing import Target
from streamnorm.gateway.websocket_answers import (
    LIMITS_REACHED,
    MessageReader,
    SocketAnswer,
    is_of_response,
)
from streamnorm.gateway.websocket_creates import (
    InputEnd,
    KnownResponse,
    UpstreamCreate,
    read_upstream_create,
)
from streamnorm.gateway.websocket_network import (
    HandshakeRefused,
    UpstreamSocket,
    connect,
    open_socket_session,
)
from streamnorm.gateway.websocket_steering import Steering

MAX_LIFE_S = 55 * 60.0
"""Seconds after which a connection takes no further create: the vendor's end after 60 minutes."""

_MAX_IDLE = 100  # connections; the one that was not used for the longest time is closed
_MAX_ALIKE = 8  # idle connections of conversations that are not told apart; beyond, as above
_MAX_COMPARED = 4  # responses with one beginning, whose output a create is compared with
_NO_WEBSOCKETS_S = 300.0  # in which a provider without them is asked over HTTP
_MAX_FORGOTTEN = 2  # responses of a connection, behind which each create is sent whole
_CLOSE_S = 1.0  # for the close of a connection whose provider does not read
# Of a handshake at a server that has no WebSocket there: 426 is the vendor's way to say so.
_NO_WEBSOCKETS = (404, 405, 426, 501)
# Of a create that continues what the provider has forgotten, also where the error has another code.
_REFUSED_INCREMENT = (400, 404, 422)
_LIMIT_STATUS = 503
_CREATES = "/responses"
# A handshake has no body; the others belong to one request, where a connection has many.
_NO_HANDSHAKE_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "content-type", "content-length"),
        *("idempotency-key", "traceparent", "tracestate", "x-client-request-id"),
    }
)


class _Connection:
    """A WebSocket to an upstream.

    Args:
        socket: The WebSocket.
        owner: The connections of the gateway.
        key: Digest of the server, the key and the conversation.
        max_bytes: Bound on a message.
        reuse: Whether it serves further creates.

    Attributes:
        key: As above.
        known: The latest response, if the next create may continue it.
        retires: Whether it takes no further create.
    """

    def __init__(
        self,
        socket: UpstreamSocket,
        owner: UpstreamSockets,
        key: bytes,
        max_bytes: int,
        *,
        reuse: bool,
    ) -> None:
        self.key = key
        self.known: KnownResponse | None = None
        self.retires = not reuse
        self._socket = socket
        self._owner = owner
        self._max_bytes = max_bytes
        self._latest = ""  # id of the latest response
        self._forgotten = 0  # how often that could not be continued, in sequence
        self._answer: SocketAnswer | None = None  # whose messages come
        self._successor: SocketAnswer | None = None  # which holds the connection
        self._is_closed = False
        socket.offer_messages(self._take, max_bytes)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(MAX_LIFE_S, self._expire)
        self._reading = loop.create_task(self._read())

    async def ask(
        self, create: UpstreamCreate, start: int | None, *, is_whole: bool
    ) -> SocketAnswer:
        """Send a `response.create`, and return the answer once it has begun.

        Args:
            create: The create.
            start: The first item behind the latest response, if the create continues that; None
                to send the whole input.
            is_whole: Whether the answer is that of a request without a stream.

        Raises:
            aiohttp.ClientError: The connection was closed before the first event.
        """
        known, self.known = self.known, None
        try:
            if known is not None and start is not None:
                message = create.message(known, start)
                answer = await self._exchange(message, create.end, known.id, is_whole=is_whole)
                if answer.code != UNKNOWN_RESPONSE and answer.status not in _REFUSED_INCREMENT:
                    self._forgotten = 0
                    return answer
            answer = await self._exchange(create.message(), create.end, None, is_whole=is_whole)
            if start is not None and answer.status < 400:  # the increment was at fault
                self._forgotten += 1
            return answer
        except BaseException:
            self.close()
            raise

    async def _exchange(
        self, message: bytes, input: InputEnd | None, continued: str | None, *, is_whole: bool
    ) -> SocketAnswer:
        """Send a message, and return the answer once it has begun."""
        if self._is_closed:
            raise aiohttp.ServerDisconnectedError
        steering = Steering(partial(self._socket.send_frame, opcode=WSMsgType.TEXT))
        reader = MessageReader(
            input,
            continued,
            self._latest,
            max_bytes=self._max_bytes,
            is_whole=is_whole,
            steering=steering,
        )
        answer = self._answer = SocketAnswer(reader, steering, is_whole=is_whole)
        try:
            await self._socket.send_frame(message, WSMsgType.TEXT)
        except (aiohttp.ClientError, ConnectionError) as exc:
            raise aiohttp.ServerDisconnectedError from exc
        error = await answer.begin(partial(self._end_answer, answer))
        if error is None:
            return answer
        if error.code in LIMITS_REACHED:
            self.retires = True
            error = _blame_server(error)
        answer.fail_with(error)
        return answer

    def _end_answer(self, answer: SocketAnswer, is_read: bool) -> None:
        if not is_read or not answer.is_clean:
            self.close()
            return
        if answer.response_id:
            self._latest = answer.response_id
            # Servers without state would be asked twice for each answer.
            self.known = answer.known if self._forgotten < _MAX_FORGOTTEN else None
        if self._successor is None or self._successor is answer:
            self._successor = None
            self._owner.release(self)

    def _begin_successor(self, answer: SocketAnswer) -> SocketAnswer | None:
        """Return the successor answer that begins after a steered response; None without steers."""
        steering = answer.steering
        if steering is None or not steering.is_open:
            return None
        reader = MessageReader(
            None,
            None,
            answer.response_id,
            max_bytes=self._max_bytes,
            is_whole=False,
            steering=steering,
        )
        following = self._successor = SocketAnswer(reader, steering)
        steering.successors.append(following)
        following.set_on_close(partial(self._end_answer, following))
        return following

    def _take(self, message: bytes) -> bool:
        """Give a text message to its answer; return False if the task must do it."""
        answer = self._answer
        if answer is None:
            if is_of_response(message):  # that nobody has asked for
                self._fail(aiohttp.ServerDisconnectedError())
            return True
        if answer.is_full or len(message) > LARGE_BYTES:
            return False
        try:
            if answer.feed(answer.read(message)):
                self._answer = self._begin_successor(answer)
        except Exception as exc:  # noqa: BLE001 - the loop logs a fault
            self._fail_by(exc)
        return True

    async def _read(self) -> None:
        """Read the messages that were not taken as they arrived, until the connection is closed."""
        try:
            # Those that arrived in one read are returned without a wait between them.
            while (message := await self._socket.receive()).type is WSMsgType.TEXT:
                data: bytes = message.data
                answer = self._answer
                while answer is not None and answer.is_full:
                    await answer.wait_for_space()
                if self._take(data) or answer is None:
                    continue
                # An item of an output may have many megabytes.
                body = await self._owner.bodies.run(len(data), partial(answer.read, data))
                if answer.feed(body):
                    self._answer = self._begin_successor(answer)
            else:
                self._check_end(message.type, message.data)
            self._fail(aiohttp.ServerDisconnectedError())
        except Exception as exc:  # noqa: BLE001 - the loop logs a fault
            self._fail_by(exc)

    def _check_end(self, kind: WSMsgType, data: object) -> None:
        """Check that the upstream closed the connection, and sent no binary or invalid message.

        Args:
            kind: Type of what was received in place of a text message.
            data: Its data.

        Raises:
            RemoteProtocolError: A message is binary or too large, or no frame of a WebSocket.
        """
        match kind, data:
            case WSMsgType.BINARY, _:
                raise RemoteProtocolError("a binary message, expected text")
            case WSMsgType.ERROR, WebSocketError(code=WSCloseCode.MESSAGE_TOO_BIG):
                limit = "max_event_bytes"
                found = f"{limit} of {self._max_bytes} passed"
                raise LimitExceeded(found, limit=limit)
            case WSMsgType.ERROR, WebSocketError():
                raise RemoteProtocolError("a frame that is not of a WebSocket")
            case _:
                pass

    def _fail_by(self, exc: Exception) -> None:
        """End the answer because of an exception at a message; its client must not wait."""
        if isinstance(exc, RemoteProtocolError):
            self._fail(exc)
            return
        self._fail(aiohttp.ServerDisconnectedError())
        if not isinstance(exc, (aiohttp.ClientError, OSError)):  # at the answer to a ping
            # The text of the exception may quote the message.
            found = f"{type(exc).__name__} at a message of an upstream"
            asyncio.get_running_loop().call_exception_handler({"message": found})

    def _fail(self, cause: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.end(cause)
        self.close()

    def _expire(self) -> None:
        self.retires = True
        self._owner.close_if_idle(self)

    def close(self) -> None:
        """Close the connection, which ends its answer."""
        if not self._is_closed:
            self._is_closed = self.retires = True
            answer, self._answer = self._answer, None
            if answer is not None:
                answer.end(aiohttp.ServerDisconnectedError())
            self._timer.cancel()
            self._socket.stop_offering()
            self._owner.finish(self, self._finish())

    async def _finish(self) -> None:
        reading = self._reading
        if reading is not asyncio.current_task():
            reading.cancel()
            await asyncio.wait([reading])
        # aiohttp waits for a close frame as long as other messages come.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._socket.close()


class UpstreamSockets:
    """The WebSockets to all upstreams.

    Args:
        max_message_bytes: Bound on a message of an answer.
        bodies: The thread for large bodies.

    Attributes:
        bodies: As above.
    """

    def __init__(self, max_message_bytes: int, bodies: BodyThread) -> None:
        self.bodies = bodies
        self._max_message_bytes = max_message_bytes
        self._session: aiohttp.ClientSession | None = None
        self._open: set[_Connection] = set()
        self._idle: dict[_Connection, None] = {}  # the one that was not used for longest first
        self._closing: set[asyncio.Task[None]] = set()
        self._without: dict[str, float] = {}  # until when an endpoint is asked over HTTP
        self._is_draining = False

    async def ask(self, request: UpstreamRequest, target: Target) -> SocketAnswer | None:
        """Send a request, and return its answer once begun; None if HTTP must be used instead.

        Raises:
            aiohttp.ClientError: There is no answer.
        """
        loop = asyncio.get_running_loop()
        parts = urlsplit(request.url)
        endpoint = parts._replace(query="").geturl()  # the query is the client's
        if not parts.path.endswith(_CREATES) or self._without.get(endpoint, 0.0) > loop.time():
            return None
        size = len(request.body)
        create = await self.bodies.run(size, partial(read_upstream_create, request.body))
        if create is None:
            return None
        headers = {
            name: value
            for name, value in request.headers.items()
            if name not in _NO_HANDSHAKE_HEADERS
        }
        key = _key_of(request.url, headers, target.conversation)
        is_whole = not request.streams
        connection, start = await self._take(key, create, size)
        if connection is not None:
            # The provider may close it as the create is sent, or take no further one on it.
            with suppress(aiohttp.ServerDisconnectedError):
                answer = await connection.ask(create, start, is_whole=is_whole)
                if answer.code not in LIMITS_REACHED:
                    return answer
                answer.close()
        try:
            opened = await connect(
                self._open_session(), request.url, headers, self._max_message_bytes
            )
        except HandshakeRefused as refused:
            if refused.status < 400 or refused.status in _NO_WEBSOCKETS:
                now = loop.time()
                others = {name: end for name, end in self._without.items() if end > now}
                self._without = {**others, endpoint: now + _NO_WEBSOCKETS_S}
                return None
            return SocketAnswer.refusal(
                ErrorAnswer(refused.status, refused.headers, refused.body, "")
            )
        connection = _Connection(opened, self, key, self._max_message_bytes, reuse=target.reuse)
        self._open.add(connection)
        return await connection.ask(create, None, is_whole=is_whole)

    async def _take(
        self, key: bytes, create: UpstreamCreate, size: int
    ) -> tuple[_Connection | None, int | None]:
        """Take an idle connection; return it and the index of the first item that is new to it.

        The connection is the one whose latest response the create continues, else one whose latest
        response no create will continue, without an item.  None if another connection is to be
        opened: the idle ones belong to other conversations with the same beginning.
        """
        known = {
            connection: connection.known
            for connection in self._idle
            if connection.key == key
            and connection.known is not None
            and connection.known.may_precede(create)
        }
        compared = dict([*known.items()][-_MAX_COMPARED:])
        starts = await self.bodies.run(
            size, lambda: [response.first_new_item(create) for response in compared.values()]
        )
        for (connection, response), start in zip(compared.items(), starts, strict=True):
            # Another request may have taken it meanwhile.
            is_idle = connection in self._idle and connection.known is response
            if start is not None and is_idle:
                del self._idle[connection]
                return connection, start
        own = [connection for connection in self._idle if connection.key == key]
        free = [
            connection
            for connection in own
            if connection.known is None
            # The client does not return all of the output, in no turn.
            or (
                connection.known is compared.get(connection)
                and connection.known.input.item_count < len(create.items)
            )
        ]
        if free:
            taken = free[-1]
        elif len(own) >= _MAX_ALIKE:
            taken = own[0]
        else:
            return None, None
        del self._idle[taken]
        return taken, None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = open_socket_session()
        return self._session

    def release(self, connection: _Connection) -> None:
        """Return a connection to the pool of idle connections, or close it if not reusable."""
        if connection.retires or self._is_draining:
            connection.close()
            return
        self._idle[connection] = None
        if len(self._idle) > _MAX_IDLE:
            next(iter(self._idle)).close()

    def close_if_idle(self, connection: _Connection) -> None:
        """Close a connection if no answer is running on it."""
        if connection in self._idle:
            connection.close()

    def finish(self, connection: _Connection, closing: Coroutine[None, None, None]) -> None:
        """Forget a connection, and close it in a task."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        task = asyncio.get_running_loop().create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def drain(self) -> None:
        """Close idle connections now, and each busy connection after its answer."""
        self._is_draining = True
        for connection in [*self._idle]:
            connection.close()

    async def aclose(self) -> None:
        """Close all connections; the next request opens new ones."""
        for connection in [*self._open]:
            connection.close()
        while self._closing:
            await asyncio.wait(self._closing)
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        self._is_draining = False


def _blame_server(error: ErrorAnswer) -> ErrorAnswer:
    """Return the error of a connection that takes no create, as that of a server that is busy.

    The request is not at fault, which status 400 and the type of the error would say, and may be
    sent again.
    """
    fields = object_in(error.body.decode(errors="replace")).get("error", {})
    body = dumps({"error": {**fields, "type": "server_error"}})
    return ErrorAnswer(_LIMIT_STATUS, error.headers, body, error.code)


def _key_of(url: str, headers: Mapping[str, str], conversation: str) -> bytes:
    """Return a digest of the request parts that all requests on one connection share."""
    # A digest, since the headers hold the key.
    return blake2b(dumps([url, sorted(headers.items()), conversation]), digest_size=16).digest()
