"""The endpoint of message requests, and the streams and services that all endpoints use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec import Struct

from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import Dialect, Encoder, RequestedOperation
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.events import Outcome
from streamnorm._core.failures import error_outcome
from streamnorm._core.losses import Loss
from streamnorm._exchange import store_scope
from streamnorm._registry import encoder
from streamnorm._upstream.requests import ClientRequest, RequestRefused, decode_request_body
from streamnorm.asgi.responses import (
    EVENT_STREAM_HEADERS,
    EventSender,
    Exchange,
    Send,
    encode_headers,
    send_json,
)
from streamnorm.gateway.attempts import (
    Attempts,
    CompleteResponse,
    FailedAttempt,
    Result,
    StartedStream,
)
from streamnorm.gateway.compaction import Compactor, is_compaction
from streamnorm.gateway.config import Config, answer_limits, request_limits
from streamnorm.gateway.network import Network
from streamnorm.gateway.observing import CallRecord, add_loss, time_first_event
from streamnorm.gateway.pages import Page, Pages
from streamnorm.gateway.receiving import BodyThread
from streamnorm.gateway.response_state import ResponseState, ResponseStates
from streamnorm.gateway.routing import Balancer, Routing, Target
from streamnorm.gateway.storing import GatewayStore

if TYPE_CHECKING:
    from streamnorm.gateway.background import BackgroundResponses
    from streamnorm.gateway.streams import LoggedRequest, LoggedStreams

_POLL_INTERVAL_S = 0.01
# After which a client learns the id of its response in the background, however long that is queued.
_QUEUED_S = 1.0

_RETRY_S = 1  # another worker may answer at once


class Services(Struct, frozen=True, kw_only=True):
    """Services that all endpoints of a gateway share.

    Attributes:
        config: The configuration.
        routing: Chooses the upstreams of a model.
        pages: The routes of pages.
        network: Sends requests to them.
        estimator: Estimates tokens that an upstream does not count, and learns from those that
            upstreams report.
        store: Store of responses; None if none are stored.
        compactor: Opens what is sealed in requests, and compacts conversations.
        bodies: The thread for large bodies.
        streams: The streams of the log; None without one.
    """

    config: Config
    routing: Routing
    pages: Pages
    network: Network
    estimator: TokenEstimator
    store: GatewayStore | None
    compactor: Compactor
    bodies: BodyThread
    streams: LoggedStreams | None


class MessageEndpoint:
    """Answers message requests.

    Args:
        services: Services that all endpoints share.
        background: Makes responses in the background; None without a log or a store.
    """

    def __init__(self, services: Services, background: BackgroundResponses | None = None) -> None:
        self._background = background
        self._services = services
        self._config = services.config
        self._bodies = services.bodies
        self._limits = answer_limits(services.config)
        self._request_limits = request_limits(services.config)
        self._balancer = Balancer()
        has_log = services.streams is not None
        self._states = ResponseStates(services.store, services.bodies, has_log=has_log)
        self._unused_encoders: dict[str, Encoder] = {}

    async def answer(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
        states: ResponseStates | None = None,
    ) -> None:
        """Answer a request.

        Args:
            received: The request.
            client: The client's dialect.
            asked: The operation, by its path; the body may ask for a stream.
            exchange: Exchange to send the answer on.
            call: Record of the request, to be completed.
            states: Begins the turn of the request; None for what is the same for all connections.

        Raises:
            RequestRefused: The request is wrong; nothing was sent.
        """
        page = None if client.page_path is None else self._services.pages.page_of(client)
        if page is not None:
            page.check_size(received.size)
        decode = partial(decode_request_body, received, self._request_limits)
        body = await self._bodies.run(received.size, decode)
        asked = asked.with_body(body)
        streams = self._services.streams
        # A summary is the gateway's own answer, made of the whole one of the upstream.
        if streams is not None and is_compaction(asked, body):
            streams = None
        logged = None if streams is None else streams.find_request(received, client)
        if streams is not None and page is not None and page.options.resume and logged is None:
            logged = streams.find_chat(received, client, body.get("id"))
        model = asked.model if page is None else page.options.model
        call.operation, call.model = asked.operation, model
        targets = self._services.routing.targets(model, client)
        if all(target.upstream.dialect != client.name for target in targets):
            received.release()  # which is a fifth of the memory that its translation takes
        turn = await (states or self._states).begin(received, client, body)
        background = None if streams is None else self._background
        if turn.is_background and background is not None:
            logged = background.name(turn, logged, received, client, call.model)
        if turn.continues is not None and turn.continues.target is not None:
            targets = (turn.continues.target,)  # which answers already
        else:
            targets = self._balancer.order(targets, received.headers, turn.body)
        compaction = None
        if client.endpoints.compacts:
            is_whole = asked.operation == "compact"
            begin = partial(self._services.compactor.begin, turn, client, is_whole=is_whole)
            compaction = await self._bodies.run(received.size, begin)
        attempts = self._make_attempts(turn, client, targets, exchange, call, page, logged)
        stream = self._open_stream(attempts, client, exchange, logged)
        is_stream = asked.operation == "stream"
        poll_interval_s = self._poll_interval_s
        if turn.is_background:
            poll_interval_s = min(poll_interval_s, _QUEUED_S)
        watched = stream.watch(poll_interval_s, self._config.idle_s) if is_stream else nullcontext()
        with watched:
            if (
                background is not None
                and logged is not None
                and turn.is_background
                and not is_stream
            ):
                scope = store_scope(received, client)
                await background.create(logged, attempts, client, scope, stream, call)
                return
            if streams is not None and logged is not None:
                await streams.answer(logged, attempts, client, stream, call, is_stream=is_stream)
                return
            result = await self._run(attempts, stream, call)
            if isinstance(result, FailedAttempt):
                await send_failure(result, client, stream, call)
            elif isinstance(result, CompleteResponse):
                await stream.send_body(200, result.headers, result.answer.body)
            else:
                try:
                    if compaction is not None and turn.makes_answer:
                        await compaction.send(result, stream, call, streams=is_stream)
                    else:
                        await self._send_stream(result, stream, call)
                finally:
                    call.reason = result.reason
        if turn.is_lost:
            add_loss(call, Loss("store", "response", detail="written as false"))

    def _make_attempts(
        self,
        turn: ResponseState,
        client: Dialect,
        targets: tuple[Target, ...],
        exchange: Exchange,
        call: CallRecord,
        page: Page | None,
        logged: LoggedRequest | None,
    ) -> Attempts:
        """Return the attempts for a request."""

        def end(outcome: Outcome) -> None:
            call.outcome = outcome

        attempts = Attempts(
            turn,
            client,
            targets,
            self._services.network,
            self._bodies,
            self._services.estimator,
            retries=self._config.retries,
            limits=self._limits,
            request_limits=self._request_limits,
            on_loss=partial(add_loss, call),
            on_end=end,
            has_left=lambda: logged is None and exchange.has_left,
            page=page,
            is_logged=logged is not None,
        )
        call.running = attempts
        return attempts

    def _open_stream(
        self,
        attempts: Attempts,
        client: Dialect,
        exchange: Exchange,
        logged: LoggedRequest | None,
    ) -> ClientStream:
        """Return the stream to a client, not yet started."""
        # Other framings have no pings: a stream begins with its first event.
        has_pings = client.framing is SSE
        may_commit = has_pings and exchange.has_status
        background = None if logged is None else logged.background
        writer = self._unused_encoder(client.name)
        return ClientStream(
            exchange,
            writer.ping if has_pings else bytes,
            self._config.keepalive_s,
            # Once it is stored, a response in the background that fails is a response, too.
            lambda seconds: (
                may_commit
                and (
                    (background and background.is_announced) or self._may_commit(attempts, seconds)
                )
            ),
            client.framing,
            {**writer.response_headers, **({} if logged is None else logged.headers)},
        )

    async def _run(self, attempts: Attempts, stream: ClientStream, call: CallRecord) -> Result:
        """Run the attempts and record them; return the first answer or the last failure."""
        try:
            result = await attempts.run()
        finally:
            call.attempts, call.upstream = attempts.count, attempts.asked
            call.status = 200 if stream.is_started else 0
        if not isinstance(result, FailedAttempt):
            time_first_event(call)
            call.status = 200
        return result

    async def _send_stream(
        self, begun: StartedStream, stream: ClientStream, call: CallRecord
    ) -> None:
        try:
            # Its own pings from here on: Anthropic's are events, and none may follow an ended
            # stream.
            stream.ping = begun.stream.ping
            await stream.start(begun.headers)
            if begun.first:
                await stream.send(begun.first)
            if stream.can_write:
                begun.answer.pass_on(begun.pump, stream.write)
            await stream.send_all(begun.stream)
        finally:
            call.usage = begun.pump.usage
            await begun.stream.aclose()

    def _unused_encoder(self, dialect: str) -> Encoder:
        """Return an encoder for pings before a stream's first event."""
        found = self._unused_encoders.get(dialect)
        if found is None:
            found = self._unused_encoders[dialect] = encoder(dialect)
        return found

    def _may_commit(self, attempts: Attempts, seconds: float) -> bool:
        """Return whether status 200 may be sent before any upstream has begun to answer."""
        after = self._config.commit_after_s
        return attempts.commit(without_status=after is not None and seconds >= after)

    @property
    def _poll_interval_s(self) -> float:
        after = self._config.commit_after_s
        keepalive_s = self._config.keepalive_s
        return keepalive_s if after is None else min(max(after, _POLL_INTERVAL_S), keepalive_s)


async def send_failure(
    failure: FailedAttempt, client: Dialect, stream: ClientStream, call: CallRecord
) -> None:
    """Send a failure as a response, or as the last event of a started stream."""
    call.outcome, call.reason = error_outcome(failure.error), failure.reason
    if stream.is_started:
        await stream.send(encoder(client.name).encode(failure.shown), more=False)
        return
    call.status = failure.status
    await stream.send_body(failure.status, failure.headers, failure.body)


def stopping() -> RequestRefused:
    """Return the refusal of a request to a gateway that is stopping."""
    headers = {"retry-after": str(_RETRY_S)}
    return RequestRefused("the gateway is stopping, try again", 503, headers=headers)


_JSON = {"content-type": "application/json"}


class ClientStream(EventSender):
    """The answer to one client: a stream, or a single body by `send_body`.

    Args:
        exchange: The client's request.
        ping: Returns a ping in the client's dialect; empty once the stream has ended.
        keepalive_s: Seconds of silence after which a ping is sent.
        may_start: Returns whether a ping may be sent, and status 200 before it, although no
            upstream has begun; called with the seconds since the request.
        framing: Framing of a stream.
        headers: Headers of a stream that the client's dialect asks for.

    Attributes:
        is_started: Whether status 200 was sent.
        can_write: Whether the server can send a chunk without waiting, by `write`.
        ping: As above; replaced once an upstream has begun.
    """

    def __init__(
        self,
        exchange: Exchange,
        ping: Callable[[], bytes],
        keepalive_s: float,
        may_start: Callable[[float], bool],
        framing: Framing = SSE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(exchange, ping, keepalive_s, self._loop.time)
        self.is_started = False
        self.can_write = exchange.can_write
        self._headers = {**EVENT_STREAM_HEADERS, **(headers or {})}
        if framing is not SSE:
            self._headers |= {"content-type": framing.media_type, **framing.headers}
        self._may_start = may_start
        self._began_at = self._sent_at
        self._timers: dict[Callable[..., None], asyncio.TimerHandle] = {}
        self._ping_task: asyncio.Task[None] | None = None
        self._ping_error: BaseException | None = None  # a fault of the server

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send status 200 and the headers, unless they were sent."""
        self._is_sending = True
        # A ping has sent status 200 or is about to.
        if self._pinged is not None:
            await self._pinged.wait()
        await self._start(headers)
        self._is_sending = False

    async def send_body(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a body instead of a stream, as JSON unless headers say otherwise."""
        self._is_sending = True
        if self._pinged is not None:
            await self._pinged.wait()
        self._is_ended = True
        await send_json(self._exchange, status, encode_headers({**_JSON, **headers}), body)

    @contextmanager
    def watch(self, poll_interval_s: float, idle_s: float) -> Generator[None]:
        """Send pings during silence, and cancel the request of a client that does not read.

        Such a client would hold its upstream, and its place among the requests, for as long as
        its connection lives.

        Args:
            poll_interval_s: Seconds after which `may_start` is asked for the first time, and again
                until a ping may be sent.
            idle_s: Seconds that a client has at least to read; at most twice as many.
        """
        self._call_later(poll_interval_s, self._check_silence, poll_interval_s)
        self._call_later(idle_s, self._cut_off, idle_s, None)
        try:
            yield
        finally:
            self._is_ended = True  # a ping that is being sent sets no further timer
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()  # they refer to this object
            if self._ping_task is not None:
                self._ping_task.cancel()
            if self._ping_error is not None:
                raise self._ping_error

    def _call_later(self, delay_s: float, callback: Callable[..., None], *args: object) -> None:
        # A task for each would cost more than the rest of a short answer's sending.
        self._timers[callback] = self._loop.call_later(delay_s, callback, *args)

    def _check_silence(self, poll_interval_s: float) -> None:
        """Send a ping if it is due; repeat until the stream ends."""
        if self._is_ended or self._exchange.has_left:
            return
        wait_s = self._remaining_silence_s()
        if not self.is_started and not self._is_sending:
            may_start = self._may_start(self._loop.time() - self._began_at)
            wait_s = 0 if may_start else poll_interval_s
        if wait_s > 0:
            self._call_later(wait_s, self._check_silence, poll_interval_s)
            return
        # Not in the task group: a timer is no task, and anyio finds its event loop in tasks alone.
        self._ping_task = self._loop.create_task(self._ping_and_wait(poll_interval_s))
        self._ping_task.add_done_callback(self._end_failed)

    async def _ping_and_wait(self, poll_interval_s: float) -> None:
        if await self._send_ping() and not self._is_ended:
            self._call_later(self._keepalive_s, self._check_silence, poll_interval_s)

    def _end_failed(self, ping: asyncio.Task[None]) -> None:
        """Cancel the request if sending its ping failed."""
        if not ping.cancelled() and (error := ping.exception()) is not None:
            self._ping_error = error
            self._exchange.tasks.cancel_scope.cancel()

    def _cut_off(self, idle_s: float, blocked_since: float | None) -> None:
        """Cancel the request if the client has read nothing since the last check."""
        is_blocked = self._is_sending or self._pinged is not None
        # A send that began before the last check still waits: TCP's window has been full since.
        if is_blocked and self._sent_at == blocked_since:
            self._exchange.has_left = True
            self._exchange.tasks.cancel_scope.cancel()
            return
        since = self._sent_at if is_blocked else None
        self._call_later(idle_s, self._cut_off, idle_s, since)

    async def _begin(self) -> None:
        await self._start({})

    async def _start(self, headers: Mapping[str, str]) -> None:
        # A ping may have sent the status, and headers go out once.
        if not self.is_started:
            self.is_started = True
            await self._exchange.start(200, encode_headers({**headers, **self._headers}))


def complete_headers(client: Dialect, send: Send) -> Send:
    """Return a `send` that adds a cloud's headers; `send` itself for other clients.

    Args:
        client: The client's dialect, as it is spoken at the path of the request.
        send: The server's `send`.
    """
    if client.cloud is None:
        return send
    # Users of botocore read the id from each answer, and support asks for it.
    request_id = {client.endpoints.request_id_header: str(uuid4())}

    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            known = {name.decode("latin-1") for name, _ in headers}
            new = {name: value for name, value in request_id.items() if name not in known}
            message = {**message, "headers": [*headers, *encode_headers(new)]}
        await send(message)

    return send_with_headers
