"""The Responses API over WebSockets: connections, lanes, and `response.create` messages.

A create is answered as a request over HTTP is, by the same endpoint; only the `send` of its
exchange writes messages.  Creates of one lane are answered one after the other, and lanes side by
side.  The connection is read all the time, so that the server can answer its pings, and notice
that the client leaves.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from streamnorm._core.codec import Dialect, Operation, RequestedOperation
from streamnorm._upstream.answers import ErrorResponse, encode_error_response
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import (
    Exchange,
    Message,
    Receive,
    Scope,
    Send,
    encode_headers,
    open_exchange,
)
from streamnorm.gateway.admission import Admission
from streamnorm.gateway.config import request_limits
from streamnorm.gateway.messages import Services
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.response_state import ResponseStates
from streamnorm.gateway.websocket_messages import (
    LIMIT_REACHED,
    STREAM_ID,
    Create,
    MessageWriter,
    read_create,
    read_message,
    refusal_message,
    strip_handshake,
)
from streamnorm.gateway.websocket_prewarm import prepare
from streamnorm.gateway.websocket_state import ConnectionState, Continuation, Histories
from streamnorm.gateway.websocket_steering import (
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    OVER,
    ClientSteer,
    Fault,
    Steering,
    prepend_input,
    read_steer,
    successor_of,
)

MAX_LIFE_S = 3600.0
"""Seconds after which a connection takes no further create, as the vendor's do."""

# The bounds of the vendor.
_MAX_LANES = 32
_MAX_RUNNING = 16
_MAX_WAITING = 16  # creates of a lane
_MAX_HISTORY_BYTES = 256 * 1024 * 1024  # of all connections
_STREAM: Operation = "stream"
_SUBPROTOCOL_END = ".responses.v1"

_NORMAL, _GOING_AWAY, _POLICY_VIOLATION = 1000, 1001, 1008
_CLOSE_S = 1.0  # for the close of a connection whose client does not read

_DENIAL = "websocket.http.response"


async def deny(scope: Scope, send: Send, answer: ErrorResponse) -> None:
    """Refuse a handshake with an HTTP response if the server supports it, else close it."""
    # ASGI's extension for a denial with a status; without it a close is all that can be sent.
    if _DENIAL not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    headers = {"content-type": "application/json", **answer.headers}
    start = {"type": f"{_DENIAL}.start", "status": answer.status}
    await send({**start, "headers": encode_headers(headers)})
    await send({"type": f"{_DENIAL}.body", "body": answer.body})


class Drain(Protocol):
    """The draining of a gateway that stops; see `Draining`."""

    has_begun: bool

    def running(self, scope: anyio.CancelScope) -> AbstractContextManager[None]:
        """Count a request as running; cancel its scope at the end of the grace period."""
        ...

    def notify(self, on_begin: Callable[[], None]) -> AbstractContextManager[None]:
        """Register a function to call when new requests are refused."""
        ...


class Respond(Protocol):
    """Function that answers a request; see `MessageEndpoint.answer`."""

    async def __call__(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
        states: ResponseStates | None = None,
    ) -> None:
        """Answer the request."""
        ...


class Answering(NamedTuple):
    """The gateway's functions that record, answer and refuse requests.

    Attributes:
        record: Provides the record of a request, which observers see begin and end.
        respond: Answers a request.
        refuse: Answers a request that is refused.
    """

    record: Callable[[ClientRequest, Dialect], AbstractContextManager[CallRecord]]
    respond: Respond
    refuse: Callable[[RequestRefused, Dialect, Exchange, CallRecord], Awaitable[None]]


class WebSockets:
    """Serves clients' WebSockets of the Responses API.

    Args:
        services: Services that all endpoints share.
        admission: Admits connections and creates.
        draining: The end of the gateway.
        answering: Answers requests.
    """

    def __init__(
        self, services: Services, admission: Admission, draining: Drain, answering: Answering
    ) -> None:
        self.services = services
        self.admission = admission
        self.draining = draining
        self.answering = answering
        self.histories = Histories(_MAX_HISTORY_BYTES)
        self.limits = request_limits(services.config)

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, received: ClientRequest, client: Dialect
    ) -> None:
        """Admit a connection after its `websocket.connect`, then answer its messages.

        Args:
            scope: The scope of the connection.
            receive: The server's `receive`.
            send: The server's `send`.
            received: The request of the handshake.
            client: The client's dialect.
        """
        handshake = strip_handshake(received, client)
        try:
            self.admission.check(scope, handshake, client)
            if self.draining.has_begun:
                raise RequestRefused("the gateway is stopping, try again", 503)
            with self.admission.connect():
                await self._run(scope, receive, send, handshake, client)
        except RequestRefused as refused:
            answer = encode_error_response(refused.error, client.name, upstream=None)
            headers = {**answer.headers, **refused.headers}
            await deny(scope, send, ErrorResponse(answer.status, answer.body, headers))

    async def _run(
        self, scope: Scope, receive: Receive, send: Send, handshake: ClientRequest, client: Dialect
    ) -> None:
        offered: list[str] = scope.get("subprotocols") or []
        # Only one that was offered, and none that holds a key, as pages of other APIs have it.
        chosen = next((name for name in offered if name.endswith(_SUBPROTOCOL_END)), None)
        await send({"type": "websocket.accept", "subprotocol": chosen})
        await Connection(self, send, handshake, client).run(receive)


class _Lane(Struct):
    """A lane of a WebSocket: `response.create` messages that are answered one after another.

    Attributes:
        stream_id: The name; None for the default one.
        waiting: Creates that have not begun.
        writer: Writes the answer to the one that is being answered; None if none is.
        states: State of that answer, or None.
        is_running: Whether creates are being answered.
        is_steerable: Whether input can be added to its latest response while that runs.
        latest_id: Id of the latest response that has ended; "" if none has.
    """

    stream_id: str | None
    waiting: deque[bytes]
    writer: MessageWriter | None = None
    states: Continuation | None = None
    is_running: bool = False
    is_steerable: bool = False
    latest_id: str = ""

    @property
    def running_id(self) -> str:
        """Id of the response that is being answered; "" if none has begun."""
        return "" if self.writer is None else self.writer.response_id

    def find_steering(self, id: str | None) -> Steering | None:
        """Return the `Steering` of the running response if the response's id is `id`, else None."""
        if self.states is None or id != self.running_id:
            return None
        return self.states.steering


class Connection:
    """Answers the `response.create` messages of one client's WebSocket.

    Args:
        owner: What all connections share.
        send: The server's `send`.
        handshake: The request that each create is sent as, without its body.
        client: The client's dialect.
    """

    def __init__(
        self, owner: WebSockets, send: Send, handshake: ClientRequest, client: Dialect
    ) -> None:
        config = owner.services.config
        self._owner = owner
        self._bodies = owner.services.bodies
        self._server_send = send
        self._handshake = handshake
        self._client = client
        self._cancels = config.on_disconnect == "cancel"
        self._max_bytes = config.max_body_bytes
        self._idle_s = config.idle_s
        self._first_byte_s = config.first_byte_s
        self._state = ConnectionState(owner.histories, config.max_body_bytes)
        self._lanes: dict[str | None, _Lane] = {}
        self._waiting_bytes = 0
        self._exchanges: set[Exchange] = set()
        self._retires_with: int | None = None  # the code of the close behind the last answer
        self._is_drained = asyncio.Event()
        self._has_left = self._is_closed = False
        self._tasks: TaskGroup

    async def run(self, receive: Receive) -> None:
        """Read and answer messages until the client disconnects or the connection is closed."""
        draining = self._owner.draining
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                life = anyio.CancelScope()
                tasks.start_soon(self._end_in_time, life)
                with draining.notify(self._drain):
                    if draining.has_begun:  # while the handshake was accepted
                        self._drain()
                    while (message := await receive())["type"] != "websocket.disconnect":
                        await self._read(message)
                life.cancel()
                self._leave()
        finally:
            self._state.close()

    def _drain(self) -> None:
        """Refuse further `response.create` messages, and close the connection after all answers."""
        if self._retires_with is None:
            self._retires_with = _GOING_AWAY
        self._is_drained.set()

    async def _end_in_time(self, life: anyio.CancelScope) -> None:
        """Close the connection after it is drained, or at its maximum age."""
        with life:
            with anyio.move_on_after(MAX_LIFE_S):
                await self._is_drained.wait()
            if self._retires_with is None:
                self._retires_with = _NORMAL
            await self._end_if_idle()

    @property
    def _is_busy(self) -> bool:
        return any(lane.is_running for lane in self._lanes.values())

    async def _end_if_idle(self) -> None:
        """Close the connection if it is idle and accepts no further `response.create`."""
        code = self._retires_with
        if code is None or self._is_busy:
            return
        if code == _NORMAL:
            await self._send_alone(self._limit_message(None))
        await self._close(code)

    def _leave(self) -> None:
        """Record that the client has disconnected, and drop the client's waiting messages."""
        self._has_left = True
        for lane in self._lanes.values():
            lane.waiting.clear()
        if self._cancels:
            self._tasks.cancel_scope.cancel()
            return
        for exchange in self._exchanges:
            exchange.leave()

    async def _close(self, code: int) -> None:
        """Close the connection, and cancel everything that runs on it."""
        if self._is_closed or self._has_left:
            return
        self._is_closed = True
        with anyio.move_on_after(_CLOSE_S, shield=True):
            with suppress(OSError):  # the client has left
                await self._server_send({"type": "websocket.close", "code": code})
        self._tasks.cancel_scope.cancel()

    # Messages of the client

    async def _read(self, message: Message) -> None:
        stream_id = None
        try:
            data, limits = self._data_of(message), self._owner.limits
            head = await self._bodies.run(len(data), lambda: read_message(data, limits))
            stream_id = self._stream_id_in(head.stream_id)
            match head.type:
                case "response.create":
                    self._add_create(data, stream_id)
                case "response.steer":
                    await self._steer(read_steer(data, limits))
                case "response.processed":
                    pass  # Codex acknowledges an answer, and expects none
                case _:
                    raise RequestRefused("a message of an unknown type, expected response.create")
        except RequestRefused as refused:
            await self._send_alone(refusal_message(refused, self._client, stream_id))
            await self._end_if_idle()

    def _data_of(self, message: Message) -> bytes:
        text: str | None = message.get("text")
        if text is None:
            raise RequestRefused("a binary message, expected text")
        data = text.encode()
        if len(data) > self._max_bytes:
            raise RequestRefused(
                f"a message that is too large, expected at most {self._max_bytes} bytes", 413
            )
        return data

    @staticmethod
    def _stream_id_in(value: object) -> str | None:
        if value is None or (isinstance(value, str) and STREAM_ID.fullmatch(value)):
            return value
        found = "stream_id: no name of a lane, expected 1 to 256 letters, digits or ._-"
        raise RequestRefused(found, param="stream_id")

    async def _steer(self, asked: ClientSteer) -> None:
        """Add a `response.steer` to a running response, or return the input to the client."""
        lane = self._find_lane(asked.previous)
        steering = None if lane is None else lane.find_steering(asked.previous)
        stream_id = None if lane is None else lane.stream_id
        fault: Fault | None = None
        if asked.previous is None or not asked.items:
            fault = INVALID
        elif lane is None:
            fault = NOT_FOUND
        elif steering is None:
            fault = OVER if lane.is_steerable else NOT_SUPPORTED
        else:
            fault = steering.find_fault(asked, self._max_bytes - self._state.queued_bytes)
        if fault is not None or steering is None:
            await self._send_alone(asked.failure(fault or OVER, stream_id))
            return
        # A provider that reads slowly does not keep this connection from being read.
        self._tasks.start_soon(steering.send, steering.add(asked))

    def _find_lane(self, id: str | None) -> _Lane | None:
        """Return the lane whose running or latest response has the id `id`; None if no lane has."""
        if not id:
            return None
        for lane in self._lanes.values():
            if id in (lane.latest_id, lane.running_id):
                return lane
        return None

    def _add_create(self, data: bytes, stream_id: str | None) -> None:
        if self._retires_with is not None:
            raise _limit_reached()
        lane = self._lanes.get(stream_id)
        named = len(self._lanes) - (None in self._lanes)
        if lane is None and stream_id is not None and named >= _MAX_LANES:
            raise _stream_limit_reached(f"{named} lanes, expected at most {_MAX_LANES}")
        running = [lane.is_running for lane in self._lanes.values()].count(True)
        if (lane is None or not lane.is_running) and running >= _MAX_RUNNING:
            found = f"{running} responses at once, expected at most {_MAX_RUNNING}"
            raise _stream_limit_reached(found)
        if lane is None:
            lane = self._lanes[stream_id] = _Lane(stream_id, deque())
        is_full = len(lane.waiting) >= _MAX_WAITING
        is_full = is_full or self._waiting_bytes + len(data) > self._max_bytes
        if lane.is_running and is_full:
            raise RequestRefused(
                f"{len(lane.waiting)} creates wait in this lane, expected fewer or smaller ones; "
                "try again later",
                429,
                headers={"retry-after": "1"},
            )
        lane.waiting.append(data)
        self._waiting_bytes += len(data)
        if not lane.is_running:
            lane.is_running = True
            self._tasks.start_soon(self._run_lane, lane)

    # Answers

    async def _run_lane(self, lane: _Lane) -> None:
        """Answer the `response.create` messages of a lane, one after another."""
        try:
            while lane.waiting:
                data = lane.waiting.popleft()
                self._waiting_bytes -= len(data)
                if self._retires_with is None:
                    await self._answer(data, lane)
                else:
                    await self._send_alone(self._limit_message(lane.stream_id))
        finally:
            lane.is_running = False
        await self._end_if_idle()

    async def _answer(self, data: bytes, lane: _Lane) -> None:
        """Answer one `response.create` with a response or an error."""
        owner, client = self._owner, self._client
        try:
            create = await self._bodies.run(
                len(data), lambda: read_create(data, self._handshake, owner.limits)
            )
        except RequestRefused as refused:
            with owner.answering.record(self._handshake, client) as call:
                call.operation = _STREAM
                writer = MessageWriter(self._send_text, lane.stream_id)
                await self._refuse(refused, writer, call)
            return
        queued = self._state.find_queued((create.request.decoded or {}).get("previous_response_id"))
        create = prepend_input(create, queued) if queued else create
        steering = await self._answer_create(create, lane, None)
        try:
            while steering is not None and await self._has_successor(steering, lane):
                items = steering.successors[0].committed
                create = successor_of(create, lane.latest_id, items)
                following = await self._answer_create(create, lane, steering)
                if following is not steering:  # of another request
                    steering.close()
                steering = following
        finally:
            if steering is not None:
                steering.close()

    async def _answer_create(
        self, create: Create, lane: _Lane, continues: Steering | None
    ) -> Steering | None:
        """Answer a `response.create`; return the `Steering` of the response, or None."""
        states = lane.states = Continuation(
            self._owner.services.store,
            self._bodies,
            self._state,
            lane.stream_id,
            asks_upstream=create.generates,
            continues=continues,
        )
        writer = lane.writer = MessageWriter(
            self._send_text, lane.stream_id, states.end, self._max_bytes
        )
        try:
            with self._owner.answering.record(create.request, self._client) as call:
                await self._attend(create, writer, call, states)
            if writer.has_error:
                states.fail()
            return states.steering
        except BaseException:
            if states.steering is not None:
                states.steering.close()
            raise
        finally:
            lane.is_steerable = states.steering is not None
            lane.latest_id = writer.response_id
            # Cancelled tasks leave cycles behind, which are not to hold a whole conversation.
            lane.writer = lane.states = None
            states.release()

    async def _has_successor(self, steering: Steering, lane: _Lane) -> bool:
        """Send the outcomes of added input; return whether a successor response begins."""
        has_successor, running = False, self._owner.draining.running
        with anyio.CancelScope() as waiting, running(waiting):
            has_successor = await steering.has_successor(self._first_byte_s)
        texts = steering.take_held(lane.stream_id)
        if not has_successor:
            if steering.queued:
                self._state.queue(lane.latest_id, steering.queued, steering.queued_bytes)
            texts += steering.take_failures(lane.stream_id)
        # A gateway that stops returns the input before it ends; after its grace, a client that does
        # not read holds it no longer than a close does.
        limit_s = _CLOSE_S if waiting.cancel_called else math.inf
        with anyio.move_on_after(limit_s) as sending, running(sending):
            for text in texts:
                await self._send_alone(text)
        return has_successor

    async def _attend(
        self, create: Create, writer: MessageWriter, call: CallRecord, states: Continuation
    ) -> None:
        """Check a `response.create`, then answer or refuse it."""
        owner, client, request = self._owner, self._client, create.request
        asked = RequestedOperation("message").with_body(request.decoded or {})
        call.operation, call.model = asked.operation, asked.model
        is_answered = False
        try:
            with owner.admission.enter():
                # In a task group of its own, which may be cancelled alone.
                async with open_exchange(None, writer, cancels=self._cancels) as exchange:
                    exchange.has_status = False
                    with self._running(exchange):
                        if create.generates:
                            respond = owner.answering.respond
                            await respond(request, client, asked, exchange, call, states)
                        else:
                            await prepare(request, client, owner.services, exchange, call, states)
                    is_answered = True
        except RequestRefused as refused:
            await self._refuse(refused, writer, call)
            return
        except Exception:
            if not call.status:
                raise
            # The log has the fault; the client must not wait for the rest of the answer.
            await writer.close()
            return
        if not is_answered and not self._has_left:
            # The client reads nothing, or the grace is over: no event can end the answer.
            is_stopping = owner.draining.has_begun
            await self._close(_GOING_AWAY if is_stopping else _POLICY_VIOLATION)

    async def _refuse(
        self, refused: RequestRefused, writer: MessageWriter, call: CallRecord
    ) -> None:
        async with open_exchange(None, writer, cancels=self._cancels) as exchange:
            await self._owner.answering.refuse(refused, self._client, exchange, call)

    @contextmanager
    def _running(self, exchange: Exchange) -> Generator[None]:
        self._exchanges.add(exchange)
        if self._has_left:
            exchange.leave()
        try:
            with self._owner.draining.running(exchange.tasks.cancel_scope):
                yield
        finally:
            self._exchanges.discard(exchange)

    # Messages to the client

    def _limit_message(self, stream_id: str | None) -> str:
        return refusal_message(_limit_reached(), self._client, stream_id)

    async def _send_alone(self, text: str) -> None:
        """Send a message outside any answer; close the connection if the client does not read."""
        try:
            async with asyncio.timeout(self._idle_s):
                await self._send_text(text)
        except TimeoutError:
            await self._close(_POLICY_VIOLATION)
        except OSError:
            pass  # the client has left, which the server reports

    async def _send_text(self, text: str) -> None:
        # Lanes send at the same time: a server writes each message as a whole.
        if not (self._is_closed or self._has_left):
            await self._server_send({"type": "websocket.send", "text": text})


def _limit_reached() -> RequestRefused:
    text = "Responses websocket connection limit reached. Create a new websocket connection."
    return RequestRefused(text, code=LIMIT_REACHED)


def _stream_limit_reached(found: str) -> RequestRefused:
    return RequestRefused(found, code="websocket_stream_limit_reached", param="stream_id")
