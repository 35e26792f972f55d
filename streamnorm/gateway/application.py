"""The gateway as an ASGI application, and its draining at shutdown.

A server that stops waits for its streams, so a drain must begin before it does: at the signal.
uvicorn installs its handlers before the lifespan starts; a handler set then runs first, and
calls uvicorn's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from msgspec import structs

from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import Dialect, RequestedOperation
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import Abandoned
from streamnorm._core.failures import error_outcome
from streamnorm._registry import DEFAULT_ERROR_DIALECT, DIALECTS
from streamnorm._upstream.answers import encode_error_response
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import (
    Exchange,
    Receive,
    Scope,
    Send,
    encode_headers,
    open_exchange,
    send_json,
)
from streamnorm.gateway.admission import (
    Admission,
    client_of,
    parse_request,
    refuse_websocket,
)
from streamnorm.gateway.auxiliary import AuxiliaryEndpoints
from streamnorm.gateway.background import BackgroundResponses
from streamnorm.gateway.compaction import Compactor, sealer_of
from streamnorm.gateway.config import Config, ConfigError, check_config, read_config
from streamnorm.gateway.messages import MessageEndpoint, Services, complete_headers, stopping
from streamnorm.gateway.network import Network
from streamnorm.gateway.observing import CallRecord, Observer, Observers, plain_path
from streamnorm.gateway.pages import Pages
from streamnorm.gateway.receiving import BodyThread
from streamnorm.gateway.response_state import ResponseStates
from streamnorm.gateway.routing import Routing
from streamnorm.gateway.storing import gateway_store, is_worker, open_configured_log
from streamnorm.gateway.stream_endpoint import StreamEndpoint
from streamnorm.gateway.streams import LoggedStreams
from streamnorm.gateway.websocket import Answering, WebSockets, deny
from streamnorm.profiles import shipped_profiles
from streamnorm.state import ResponseStore

if TYPE_CHECKING:
    from streamnorm.gateway.dashboard import Dashboard

_LOG = logging.getLogger("streamnorm.gateway")

_JSON = [(b"content-type", b"application/json")]
_CLOSE_S = 1.0
# With which uvicorn and gunicorn end too, and start no worker again.
_STARTUP_FAILURE = 3
# Claude Code asks for the others before its first request.
_HEALTH = ("/healthz", "/", "/api/hello")
_METRICS = "/metrics"
_NO_CONTENT = 204
_NO_ENDPOINT = (404, 405)  # of a path, or of its method
_TRACE = ("traceparent", "tracestate")  # W3C Trace Context

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Of an answer that was told to end: for its last event, and a client that does not read.
_LAST_S = 0.5
# In which a signal that comes again is the same one: systemd sends it to all processes of a unit,
# and a parent passes it on to its children.
_REPEAT_S = 0.1


class Gateway:
    """The gateway as an ASGI application.

        app = streamnorm.gateway.app(streamnorm.gateway.read_config("gateway.toml"))

    Args:
        config: The configuration.
        environ: The environment that holds the keys; None for that of the process.
        observers: Further observers of requests, besides the log, the metrics and the spans.
        store: Where answers of the Responses API are stored: any object with the methods of
            `streamnorm.state.ResponseStore`, whatever they raise.  It stays open when the gateway
            ends.  None for the store that the configuration names, if any.

    Raises:
        ConfigError: The configuration is wrong.
    """

    def __init__(
        self,
        config: Config,
        *,
        environ: Mapping[str, str] | None = None,
        observers: tuple[Observer, ...] = (),
        store: ResponseStore | None = None,
    ) -> None:
        self._config = config = check_config(config)
        bodies = BodyThread()
        self._network = Network(config, bodies)
        self._environ = environ = os.environ if environ is None else environ
        self._admission = Admission(config, environ)
        self._store = gateway_store(config, environ, bodies, store)
        routing = Routing(config, environ)
        self._pages = Pages(config, routing)
        self._draining = Draining(self._network.stop)
        log = open_configured_log(config, environ)
        self._dashboard: Dashboard | None = None
        if config.dashboard is not None:
            from streamnorm.gateway.dashboard import Dashboard

            self._dashboard = Dashboard(
                config, config.dashboard, environ, self._admission, self._draining, log
            )
            observers = (*observers, self._dashboard.observer)
        self._observers = Observers(config, observers)
        self._streams: LoggedStreams | None = None
        self._stream_endpoint: StreamEndpoint | None = None
        if log is not None:
            running, end_call = self._draining.running, self._observers.end
            self._streams = LoggedStreams(log, config, running=running, end_call=end_call)
            self._stream_endpoint = StreamEndpoint(self._streams, config)
        services = Services(
            config=config,
            routing=routing,
            pages=self._pages,
            network=self._network,
            estimator=TokenEstimator(),
            store=self._store,
            compactor=Compactor(sealer_of(config, environ), max_bytes=config.max_event_bytes),
            bodies=bodies,
            streams=self._streams,
        )
        background = None
        if self._streams is not None and self._store is not None:
            background = BackgroundResponses(self._streams, self._store, config)
        self._messages = MessageEndpoint(services, background)
        self._auxiliary = AuxiliaryEndpoints(services, background)
        answering = Answering(self._record, self._respond, self._refuse)
        self._websockets = WebSockets(services, self._admission, self._draining, answering)

    def begin_drain(self, grace_s: float | None = None) -> None:
        """Refuse new requests; end running ones after a grace period.

        A stream then ends with an error event.  Called at SIGTERM and SIGINT by servers that
        handle them in the process of the gateway: uvicorn, and hypercorn without workers
        (`--workers 0`); a second signal ends the grace.  The workers of hypercorn get no signal:
        they cut running streams off after its own grace, `graceful_timeout`.

        Args:
            grace_s: Seconds that running requests have; None for `drain_grace_s`.
        """
        self._network.drain()
        self._draining.begin(self._config.drain_grace_s if grace_s is None else grace_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, a WebSocket, or the server's lifespan messages.

        Raises:
            LocalProtocolError: The scope is of another type.
        """
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await self._serve_websocket(scope, receive, send)
            case other:
                raise LocalProtocolError(
                    f"scope of type {other!r}, expected http, websocket or lifespan"
                )

    async def _live(self, receive: Receive, send: Send) -> None:
        await _load()
        if self._dashboard is not None:
            self._dashboard.start()
        try:
            # The server of workers sends them a signal that they may have got already.
            end = None if is_worker(self._environ) else partial(self.begin_drain, 0.0)
            with chain_signals(self.begin_drain, end):
                while (await receive())["type"] != "lifespan.shutdown":
                    await send({"type": "lifespan.startup.complete"})
                # Servers wait for their requests alone, and streams of the log have their grace.
                if self._draining.has_begun:
                    await self._draining.wait()
        finally:  # also if the server is cancelled
            self.begin_drain(0.0)
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._draining.wait()
            self._draining.close()
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._network.aclose()
            if self._dashboard is not None:
                await self._dashboard.stop()
            for store in (self._store, self._streams):
                if store is not None:
                    with anyio.move_on_after(_CLOSE_S, shield=True):
                        await store.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = parse_request(scope)
        # Without a key: load balancers have none.
        if received.path in _HEALTH and received.method in ("GET", "HEAD"):
            async with open_exchange(receive, send) as exchange:
                await self._send_health(exchange)
            return
        if self._dashboard is not None and self._dashboard.has(received):
            await self._dashboard.answer(scope, received, receive, send)
            return
        client = self._client_of(received)
        browsers = self._admission.browsers
        send = complete_headers(client, browsers.cross_origin(received, send))
        if received.path == _METRICS and self._observers.metrics is not None:
            kind = (b"content-type", self._observers.metrics.content_type.encode())
            body = self._observers.metrics.text()
            await self._answer_any(scope, received, receive, send, 200, [kind], body)
            return
        if received.method == "OPTIONS" and browsers.answers_preflight(received):
            headers = browsers.preflight_headers(received)
            await self._answer_any(scope, received, receive, send, _NO_CONTENT, headers)
            return
        with self._record(received, client) as call:
            await self._attend(scope, received, client, receive, send, call)

    @contextmanager
    def _record(self, received: ClientRequest, client: Dialect) -> Generator[CallRecord]:
        """Provide a request's record, and report its begin and end to the observers."""
        call = CallRecord(
            client=client.name,
            operation="",
            trace={name: received.headers[name] for name in _TRACE if name in received.headers},
            started_at=asyncio.get_running_loop().time(),
        )
        self._observers.begin(call)
        try:
            yield call
        finally:
            if not call.outlives_client:
                self._observers.end(call)

    def _plain_path(self, path: str) -> str:
        endpoint = self._stream_endpoint
        return (endpoint and endpoint.plain_path(path)) or plain_path(path)

    def _client_of(self, received: ClientRequest) -> Dialect:
        endpoint = self._stream_endpoint
        of_stream = None if endpoint is None else endpoint.client_at(received)
        return of_stream or self._pages.clients.get(received.path) or client_of(received)

    async def _answer_any(
        self,
        scope: Scope,
        received: ClientRequest,
        receive: Receive,
        send: Send,
        status: int,
        headers: list[tuple[bytes, bytes]],
        body: bytes = b"",
    ) -> None:
        """Answer a request that needs no key, unless its sender is refused."""
        async with open_exchange(receive, send) as exchange:
            try:
                self._admission.check_sender(scope, received)
            except RequestRefused as refused:
                refusal = encode_error_response(refused.error, DEFAULT_ERROR_DIALECT, upstream=None)
                status, headers, body = refusal.status, _JSON, refusal.body
            if status == _NO_CONTENT:  # which has no length
                await exchange.start(status, headers)
                await exchange.send(body, more=False)
                return
            await send_json(exchange, status, headers, body)

    async def _send_health(self, exchange: Exchange) -> None:
        """Answer a health check: whether new requests are accepted."""
        if self._draining.has_begun:
            await send_json(exchange, 503, _JSON, b'{"status":"stopping"}')
        else:
            await send_json(exchange, 200, _JSON, b'{"status":"ok"}')

    async def _attend(
        self,
        scope: Scope,
        received: ClientRequest,
        client: Dialect,
        receive: Receive,
        send: Send,
        call: CallRecord,
    ) -> None:
        """Check a request, then answer or refuse it."""
        try:
            asked = self._admission.check(scope, received, client)
            call.operation, call.model = asked.operation, asked.model
            with self._admission.enter():
                whole = await self._admission.read(scope, receive, received, client)
                if whole is None:
                    call.outcome = Abandoned()
                    return
                cancels = self._config.on_disconnect == "cancel"
                async with open_exchange(receive, send, cancels=cancels) as exchange:
                    with self._draining.running(exchange.tasks.cancel_scope):
                        await self._respond(whole, client, asked, exchange, call)
        except RequestRefused as refused:
            if not call.operation and refused.error.status_hint in _NO_ENDPOINT:
                call.path = self._plain_path(received.path)
            async with open_exchange(receive, send) as exchange:
                await self._refuse(refused, client, exchange, call)

    async def _respond(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
        states: ResponseStates | None = None,
    ) -> None:
        # A response that follows a steer ends what has begun, within the grace.
        if self._draining.has_begun and not (states is not None and states.follows_steer):
            raise stopping()
        if self._dashboard is not None:
            call.client_key = self._admission.key_position(received, client)
        try:
            endpoint = self._stream_endpoint
            if endpoint is not None and endpoint.has(received):
                await endpoint.answer(received, client, asked, exchange, call)
            elif asked.operation in ("message", "stream") or not await self._auxiliary.answers(
                received, client, asked
            ):
                await self._messages.answer(received, client, asked, exchange, call, states)
            else:
                await self._auxiliary.answer(received, client, asked, exchange, call)
        except RequestRefused:
            raise
        except Exception as exc:
            # The text of the exception may quote the request or the answer.
            _LOG.error("fault of the gateway: %s at %s", type(exc).__name__, _place_of(exc))
            fault = RequestRefused("a fault of the gateway", 500, code="gateway_fault")
            call.outcome = error_outcome(fault.error)
            if call.status:
                raise  # the server cuts the answer, which may have begun
            raise fault from exc
        except BaseException:
            call.outcome = call.outcome or Abandoned()
            raise

    async def _refuse(
        self, refused: RequestRefused, client: Dialect, exchange: Exchange, call: CallRecord
    ) -> None:
        answer = encode_error_response(
            refused.error, client.name, upstream=None, cloud=client.cloud
        )
        call.status, call.outcome = answer.status, error_outcome(refused.error)
        own = {"content-type": "application/json", **answer.headers, **refused.headers}
        await send_json(exchange, answer.status, encode_headers(own), answer.body)

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket, or refuse it."""
        while (await receive())["type"] != "websocket.connect":
            pass
        received = parse_request(scope)
        client = client_of(received)
        asked = client.endpoints.match("POST", received.path)
        is_message = asked is not None and asked.operation == "message"
        # Of all vendors, OpenAI alone has its endpoint of messages as a WebSocket, too.
        if self._config.websockets and is_message and client.endpoints.socket_framing is not None:
            await self._websockets.serve(scope, receive, send, received, client)
            return
        refused = refuse_websocket()
        answer = encode_error_response(
            refused.error, client.name, upstream=None, cloud=client.cloud
        )
        headers = {**answer.headers, **refused.headers}
        await deny(scope, send, structs.replace(answer, headers=headers))


async def _load() -> None:
    """Import all modules that requests need.

    A process without free descriptors can open no file of a module, and meanwhile it would hold
    up the streams of all clients.
    """
    for dialect in DIALECTS.values():
        dialect.load()
    shipped_profiles()
    async with anyio.create_task_group():  # anyio imports its backend on first use
        pass


def _place_of(exc: Exception) -> str:
    """Return the file and line that raised an exception."""
    frame = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


def from_environment() -> Gateway:
    """Return a gateway for the configuration file in `STREAMNORM_CONFIG`.

        STREAMNORM_CONFIG=gateway.toml uvicorn --factory streamnorm.gateway:from_environment

    Raises:
        SystemExit: The configuration is wrong; one line in the log says why.
    """
    try:
        path = os.environ.get("STREAMNORM_CONFIG", "")
        if not path:
            raise ConfigError("STREAMNORM_CONFIG: not set, expected the path of a configuration")
        return Gateway(read_config(path))
    except ConfigError as exc:
        _LOG.critical("%s", exc)
        raise SystemExit(_STARTUP_FAILURE) from exc


class Draining:
    """The running requests of a gateway, which its shutdown ends after a grace period.

    Args:
        stop: Ends the answers of all upstreams with an error.

    Attributes:
        has_begun: Whether new requests are refused.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.has_begun = False
        self._stop = stop
        self._running: set[anyio.CancelScope] = set()
        self._notified: set[Callable[[], None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    @contextmanager
    def running(self, scope: anyio.CancelScope) -> Generator[None]:
        """Count a request, or a stream that outlives its request, as running.

        Args:
            scope: Scope of its work, which is cancelled if it does not end in time.
        """
        self._running.add(scope)
        try:
            yield
        finally:
            self._running.discard(scope)
            if not self._running:
                self._ended.set()

    @contextmanager
    def notify(self, on_begin: Callable[[], None]) -> Generator[None]:
        """Register a function to call when new requests are refused, within the context."""
        self._notified.add(on_begin)
        try:
            yield
        finally:
            self._notified.discard(on_begin)

    def begin(self, grace_s: float) -> None:
        """Refuse new requests, and end running ones after a grace period."""
        self.has_begun = True
        for notify in [*self._notified]:
            notify()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_s
        # A second signal may shorten the grace, and none prolongs it.
        if self._timer is None or end < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(end, self._end)

    async def wait(self) -> None:
        """Wait until no request is running."""
        while self._running:
            self._ended.clear()
            await self._ended.wait()

    def close(self) -> None:
        """Accept requests again, for a restart without running requests."""
        self.has_begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._stop()
        self._timer = asyncio.get_running_loop().call_later(_LAST_S, self._abort)

    def _abort(self) -> None:
        # Their connections are closed in the middle of the body, which is no clean end.
        for scope in self._running:
            scope.cancel()


@contextmanager
def chain_signals(
    begin: Callable[[], None], end: Callable[[], None] | None = None
) -> Generator[None]:
    """Call a function at SIGTERM and SIGINT, then the server's own handler.

    Signals that have no handler are left alone, and so are all outside the main thread.

    Args:
        begin: Called in the running loop.
        end: Called in its place if the same signal comes again; None for `begin`.
    """
    # Python sets handlers in the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    set_here: list[tuple[signal.Signals, _Handler, _Handler]] = []
    for number in _SIGNALS:
        # hypercorn handles signals in its event loop, where there is no handler to chain.
        before = signal.getsignal(number)
        if callable(before):
            handler = _chain_handler(before, loop, begin, end or begin)
            signal.signal(number, handler)
            set_here.append((number, handler, before))
    try:
        yield
    finally:
        for number, handler, before in set_here:
            if signal.getsignal(number) is handler:  # else somebody has replaced it
                signal.signal(number, before)


def _chain_handler(
    handler: _Handler,
    loop: asyncio.AbstractEventLoop,
    begin: Callable[[], None],
    end: Callable[[], None],
) -> _Handler:
    repeated_from = inf

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal repeated_from
        now = monotonic()
        # A handler runs between any two instructions: the loop's state is not safe here.
        loop.call_soon_threadsafe(begin if now < repeated_from else end)
        repeated_from = min(repeated_from, now + _REPEAT_S)
        handler(number, frame)

    return handle
