"""WebSockets of the replay server and the recording proxy."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any, TypeAlias

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from streamnorm._core.codec.socket_events import error_message, head_of
from streamnorm._core.errors import UnrecordedRequest
from streamnorm.asgi.responses import Message, Receive, Scope, Send, encode_headers
from streamnorm.http.headers import reason_of
from streamnorm.recording.conversations import (
    CREATE,
    SWITCHED,
    ConversationRecorder,
    MessageReader,
)
from streamnorm.recording.format import End, Playback, Responder, WireRequest
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player
from streamnorm.recording.recorder import Recorder

_Headers: TypeAlias = Iterable[tuple[str, str]]

_NORMAL, _POLICY_VIOLATION, _INTERNAL_ERROR = 1000, 1008, 1011
# Codes that no close frame has (RFC 6455, section 7.4.1): no code at all, a connection that broke,
# and a failed TLS handshake.
_NO_CODE, _UNSENT = 1005, (1006, 1015)
_DENIAL = "websocket.http.response"
_CONNECT_S = 30
_CLOSE_S = 1.0
# Codex acknowledges an answer by the first.  The answers to the second are those of a recording,
# which are not waited for.
_UNANSWERED = ("response.processed", "response.steer")
_MAX_WAITING = 16  # creates of a lane, as the vendor has it
# Of the client's own handshake; the library has made new ones.
_HANDSHAKE_HEADERS = frozenset(
    {
        *("connection", "upgrade", "host", "content-length", "transfer-encoding", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "expect"),
    }
)


async def deny(scope: Scope, send: Send, status: int, headers: _Headers, body: bytes) -> None:
    """Refuse a handshake with an HTTP response if the server supports it, else close it."""
    # ASGI's extension for a denial with a status; without it a close is all that can be sent.
    if _DENIAL not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    encoded = encode_headers(dict(headers))
    await send({"type": f"{_DENIAL}.start", "status": status, "headers": encoded})
    await send({"type": f"{_DENIAL}.body", "body": body})


async def refuse_handshake(
    scope: Scope, send: Send, status: int, kind: str, message: str, headers: _Headers = ()
) -> None:
    """Refuse a handshake with a JSON error that clients of all dialects can read."""
    text = message.encode(errors="replace").decode()
    body = msgspec.json.encode({"error": {"type": kind, "message": text}})
    length = ("content-length", str(len(body)))
    all_headers = [("content-type", "application/json"), length, *headers]
    await deny(scope, send, status, all_headers, body)


async def receive_handshake(scope: Scope, receive: Receive, target: bytes) -> WireRequest:
    """Return the HTTP request of a WebSocket handshake."""
    while (await receive())["type"] != "websocket.connect":
        pass
    headers = tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, value in scope["headers"]
    )
    host = dict(headers).get("host", "localhost")
    url = f"{scope.get('scheme', 'ws')}://{host}{target.decode('latin-1')}"
    return WireRequest("GET", url, headers, b"")


async def accept(scope: Scope, send: Send) -> None:
    """Accept a handshake."""
    offered: list[str] = scope.get("subprotocols") or []
    # Only one that was offered, and none that holds a key, as pages of other APIs have it.
    chosen = next((name for name in offered if name.endswith(".responses.v1")), None)
    await send({"type": "websocket.accept", "subprotocol": chosen})


class _ReplayLane(Struct):
    """The `response.create` messages of one `stream_id`, answered one after another.

    Attributes:
        waiting: Creates that have not begun.
        is_running: Whether one is being answered.
    """

    waiting: deque[bytes]
    is_running: bool = False


class ReplaySocket:
    """One WebSocket of the replay server.

    Creates of a lane are answered one after the other, and lanes side by side.

    Args:
        responder: Answers the creates.
        pace: Speed of the playback.
        handshake: The request of the handshake.
        send: The server's `send`.
    """

    def __init__(
        self, responder: Responder, pace: Pace, handshake: WireRequest, send: Send
    ) -> None:
        self._responder = responder
        self._pace = pace
        self._handshake = handshake
        self._send = send
        self._lanes: dict[str | None, _ReplayLane] = {}
        self._is_closed = False
        self._tasks: TaskGroup

    async def run(self, receive: Receive) -> None:
        """Answer `response.create` messages until the client or a recording ends the connection."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            while (message := await receive())["type"] != "websocket.disconnect":
                await self._read(message)
            tasks.cancel_scope.cancel()

    async def _read(self, message: Message) -> None:
        text: str | None = message.get("text")
        if text is None:
            await self._send_error(400, "a binary message, expected text", None)
            return
        data = text.encode()
        head = head_of(data)
        name = head.stream_id if isinstance(head.stream_id, str) else None
        if head.type != CREATE:
            if head.type is None:
                await self._send_error(400, "no JSON object with a type, expected one", None)
            elif head.type not in _UNANSWERED:
                found = "a message of an unknown type, expected response.create"
                await self._send_error(400, found, name)
            return
        lane = self._lanes.setdefault(name, _ReplayLane(deque()))
        if len(lane.waiting) >= _MAX_WAITING:
            await self._send_error(429, f"{_MAX_WAITING} creates wait, expected fewer", name)
            return
        lane.waiting.append(data)
        if not lane.is_running:
            lane.is_running = True
            self._tasks.start_soon(self._run_lane, lane, name)

    async def _run_lane(self, lane: _ReplayLane, name: str | None) -> None:
        while lane.waiting and not self._is_closed:
            await self._answer(lane.waiting.popleft(), name)
        lane.is_running = False

    async def _answer(self, data: bytes, stream_id: str | None) -> None:
        shake = self._handshake
        try:
            playback = self._responder.respond(WireRequest("POST", shake.url, shake.headers, data))
        except UnrecordedRequest as exc:
            await self._send_error(404, str(exc), stream_id, kind="unrecorded_request")
            return
        reader = MessageReader(playback, stream_id)
        try:
            async for piece in Player(playback, self._pace):
                for text in reader.feed(piece):
                    await self._send_text(text)
        except PlaybackReset:
            await self._close(playback)
            return
        except PlaybackTimeout:
            await anyio.sleep_forever()
        for text in reader.close():
            await self._send_text(text)
        if not reader.has_ended:  # the source ended as if the answer were complete
            await self._close(playback)

    async def _send_error(
        self, status: int, message: str, stream_id: str | None, *, kind: str | None = None
    ) -> None:
        kind = kind or "invalid_request_error"
        error = {"type": kind, "code": kind, "message": message, "param": None}
        body = msgspec.json.encode({"error": error})
        await self._send_text(error_message(status, body, {}, stream_id))

    async def _send_text(self, text: str) -> None:
        if not self._is_closed:
            with suppress(OSError):  # the client has left, which `receive` reports
                await self._send({"type": "websocket.send", "text": text})

    async def _close(self, playback: Playback) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        is_cut = playback.end == "reset"
        code = playback.close_code or (_INTERNAL_ERROR if is_cut else _NORMAL)
        with suppress(OSError):
            await self._send({"type": "websocket.close", "code": sendable_code(code)})


def sendable_code(code: int) -> int:
    """Return the close code to forward; codes that must not be sent are replaced."""
    if code == _NO_CODE:
        return _NORMAL
    return _INTERNAL_ERROR if code in _UNSENT else code


async def replay(
    scope: Scope,
    receive: Receive,
    send: Send,
    target: bytes,
    responder: Responder,
    pace: Pace,
) -> None:
    """Answer a handshake, then the messages on the WebSocket, with recordings."""
    handshake = await receive_handshake(scope, receive, target)
    try:
        answer = responder.respond(handshake)
    except UnrecordedRequest as exc:
        await refuse_handshake(scope, send, 404, "unrecorded_request", str(exc))
        return
    if answer.status != SWITCHED:
        headers = {**answer.headers, "content-length": str(len(answer.body))}
        await deny(scope, send, answer.status, headers.items(), answer.body)
        return
    await accept(scope, send)
    await ReplaySocket(responder, pace, handshake, send).run(receive)


class ProxySocket:
    """One WebSocket of the recording proxy, which forwards and records messages.

    Args:
        url: URL of the upstream, which begins with `ws`.
        recorder: The recorder.
        trust: Certificate authorities; of no meaning for `ws`.
        max_message_bytes: Bound on a message of the upstream.
    """

    def __init__(
        self, url: str, recorder: Recorder, trust: ssl.SSLContext, max_message_bytes: int
    ) -> None:
        self._url = url
        self._recorder = recorder
        self._trust = trust
        self._max_bytes = max_message_bytes

    async def run(self, scope: Scope, receive: Receive, send: Send, target: bytes) -> None:
        """Forward messages until one side closes the connection.

        Raises:
            ModuleNotFoundError: `websockets`, of the extra `serve`, is not installed.
        """
        exceptions = import_module("websockets.exceptions")
        handshake = await receive_handshake(scope, receive, target)
        sent = WireRequest("GET", self._url, handshake.headers, b"")
        try:
            async with self._open(handshake, scope) as upstream:
                headers = list(upstream.response.headers.raw_items())
                await send(
                    {
                        "type": "websocket.accept",
                        "subprotocol": upstream.subprotocol,
                        "headers": _end_to_end(headers),
                    }
                )
                recorder = ConversationRecorder(self._recorder, sent, headers)
                await _Relay(upstream, recorder, send).run(receive)
        except exceptions.InvalidStatus as exc:
            await self._pass_refusal(scope, send, sent, exc.response)
        except (OSError, TimeoutError, exceptions.InvalidHandshake) as exc:
            # Its text may hold the client's data.
            await refuse_handshake(scope, send, 502, "upstream_failed", reason_of(exc))

    @asynccontextmanager
    async def _open(self, handshake: WireRequest, scope: Scope) -> AsyncGenerator[Any]:
        connect: Any = import_module("websockets.asyncio.client").connect
        headers = [
            (name, value)
            for name, value in handshake.headers
            if name not in _HANDSHAKE_HEADERS and not name.startswith("sec-websocket-")
        ]
        connecting = connect(
            self._url,
            additional_headers=headers,
            subprotocols=scope.get("subprotocols") or None,
            user_agent_header=None,
            compression=None,  # as the server's own side: the bytes of a message are the same
            proxy=None,
            open_timeout=_CONNECT_S,
            close_timeout=_CLOSE_S,
            ping_interval=None,  # a silent model is no lost connection; the client decides
            max_size=self._max_bytes,
            **({"ssl": self._trust} if self._url.startswith("wss:") else {}),
        )
        # A redirect is passed on, as for requests: no credentials go to where it points.
        connecting.process_redirect = _follow_nothing
        async with connecting as upstream:
            yield upstream

    async def _pass_refusal(
        self, scope: Scope, send: Send, sent: WireRequest, response: Any
    ) -> None:
        """Record the provider's refusal of a handshake, and pass it on."""
        headers = list(response.headers.raw_items())
        body = bytes(response.body or b"")
        writer = self._recorder.start(sent)
        writer.begin(response.status_code, headers)
        writer.write(body)
        writer.end("eof")
        kept = {
            name.lower(): value for name, value in headers if name.lower() not in _HANDSHAKE_HEADERS
        }
        kept["content-length"] = str(len(body))
        await deny(scope, send, response.status_code, kept.items(), body)


def _follow_nothing(refusal: Exception) -> Exception:
    return refusal


def _end_to_end(headers: _Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers of a handshake response that the proxy forwards to the client."""
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in headers
        if name.lower() not in _HANDSHAKE_HEADERS and not name.lower().startswith("sec-websocket-")
    ]


class _Relay:
    """Forwards messages in both directions on an open connection.

    Args:
        upstream: Connection of the upstream.
        recorder: Records what passes.
        send: The server's `send`.
    """

    def __init__(self, upstream: Any, recorder: ConversationRecorder, send: Send) -> None:
        self._upstream = upstream
        self._recorder = recorder
        self._send = send

    async def run(self, receive: Receive) -> None:
        """Forward messages until one side closes the connection."""
        how: End = "aborted"
        code: int | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass_to_client, tasks)
                while (message := await receive())["type"] != "websocket.disconnect":
                    await self._pass_to_upstream(message)
                tasks.cancel_scope.cancel()
            if self._upstream.close_code is not None:
                how, code = "reset", self._upstream.close_code
        finally:
            self._recorder.end(how, code)

    async def _pass_to_upstream(self, message: Message) -> None:
        text: str | None = message.get("text")
        if text is not None:
            self._recorder.add_sent(text)
        closed = import_module("websockets.exceptions").ConnectionClosed
        with suppress(closed):  # which the other direction passes on
            await self._upstream.send(message["bytes"] if text is None else text)

    async def _pass_to_client(self, tasks: TaskGroup) -> None:
        closed = import_module("websockets.exceptions").ConnectionClosed
        with suppress(OSError):  # the client has left, which `receive` reports
            with suppress(closed):
                while True:
                    message: str | bytes = await self._upstream.recv()
                    if isinstance(message, str):
                        self._recorder.add_received(message)
                        await self._send({"type": "websocket.send", "text": message})
                    else:
                        await self._send({"type": "websocket.send", "bytes": message})
            code = self._upstream.close_code or _NO_CODE
            close = {"type": "websocket.close", "code": sendable_code(code)}
            await self._send({**close, "reason": self._upstream.close_reason or ""})
            tasks.cancel_scope.cancel()
