"""Messages of the Responses API on a client's WebSocket: `response.create`, and events.

A message is the JSON of one event.  A client's `response.create` has the fields of the request for
a stream; its answer has the events of the stream, and an error with the status that the response
to a request would have.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23), and the events of
openai 3.54.0 (`types/responses/responses_{client,server}_event.py`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct, structs

from streamnorm._core.bodies.fields import body_object, get_bool
from streamnorm._core.codec import Dialect
from streamnorm._core.codec.socket_events import MessageHead, error_message, head_of
from streamnorm._core.failures import find_error, response_status
from streamnorm._core.json import FAST_ERRORS, compact, is_object, object_in, string_of
from streamnorm._core.limits import Limits
from streamnorm._upstream.answers import encode_error_response
from streamnorm._upstream.requests import ClientRequest, RequestRefused, refusals, splice
from streamnorm.asgi.responses import Message
from streamnorm.sse import SSEDecoder

STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}", re.ASCII)
"""The name of a lane, as OpenAI's SDK checks it."""

LIMIT_REACHED = "websocket_connection_limit_reached"
"""Code at which clients go on over another connection."""

# Fields of `response.create` that requests over HTTP do not have, or that mean nothing here: every
# answer is a stream.  Codex sends `stream` all the same.
_OWN_FIELDS = frozenset(
    {
        *("type", "stream_id", "generate", "client_metadata"),
        *("stream", "stream_options", "background"),
    }
)
# Headers of a request over HTTP that Codex sends as `client_metadata`: those that are read here or
# reach an upstream.  None of them says who the client is.
_METADATA = ("traceparent", "tracestate", "session_id", "session-id", "x-client-request-id")
# Of the connection, and of the body that a create does not have.
_HOP_HEADERS = ("connection", "upgrade", "content-length", "content-encoding", "transfer-encoding")
# Of one request each, where a connection has many: the second would be taken for the first again.
_ONE_REQUEST = ("idempotency-key", "x-streamnorm-stream", "last-event-id")
_SOCKET_PREFIX = "sec-websocket-"

# One event that says nothing of the response but a part of a text.
_DELTA = re.compile(
    rb"event: response\.[a-z_.]+\.delta\ndata: "
    rb'(\{"type":"response\.[a-z_.]+\.delta"[^\r\n]*)\}\n\n'
)
_OF_A_RESPONSE = "response."
_TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
_KEPT = {"response.completed", "response.incomplete"}
_OK = 200


def read_message(data: bytes, limits: Limits) -> MessageHead:
    """Return the type and the lane of a client's message.

    Raises:
        RequestRefused: It is no JSON object, or exceeds a bound.
    """
    head = head_of(data)
    if head.type is None:
        with refusals():
            body_object(data, limits, finite=True)
    return head


def strip_handshake(received: ClientRequest, client: Dialect) -> ClientRequest:
    """Return the request that each `response.create` stands for: the handshake as an HTTP POST."""
    headers = {
        name: value
        for name, value in received.headers.items()
        if name not in (*_HOP_HEADERS, *_ONE_REQUEST) and not name.startswith(_SOCKET_PREFIX)
    }
    for name in client.endpoints.vendor_headers:
        # Codex asks for the WebSocket by a beta, which upstreams get no request of.
        betas = [beta.strip() for beta in headers.pop(name, "").split(",")]
        if kept := [beta for beta in betas if beta and "websocket" not in beta]:
            headers[name] = ", ".join(kept)
    headers["content-type"] = "application/json"
    return structs.replace(received, method="POST", headers=headers)


class Create(Struct, frozen=True):
    """A client's `response.create` message.

    Attributes:
        request: The request for a stream that it stands for.
        generates: Whether the model is asked; if not, the answer is empty, and can be continued.
    """

    request: ClientRequest
    generates: bool


def read_create(data: bytes, handshake: ClientRequest, limits: Limits) -> Create:
    """Return a `response.create` message as a request.

    Args:
        data: The message.
        handshake: The request of the handshake, as `strip_handshake` returned it.
        limits: Bounds of the request.

    Raises:
        RequestRefused: It is no JSON object, exceeds a bound, or asks for what a WebSocket has not.
    """
    with refusals():
        body = body_object(data, limits, finite=True)
        generates, is_background = get_bool(body, "generate"), get_bool(body, "background")
    if is_background:
        found = "background: true on a WebSocket, expected a request over HTTP"
        raise RequestRefused(found, code="unsupported_parameter", param="background")
    asked: dict[str, Any] = {
        **{name: value for name, value in body.items() if name not in _OWN_FIELDS},
        "stream": True,
    }
    request = structs.replace(
        handshake,
        headers={**handshake.headers, **_metadata_headers(body.get("client_metadata"))},
        body=splice(data, body, asked),
        decoded=asked,
    )
    return Create(request, generates is not False)


def _metadata_headers(metadata: object) -> dict[str, str]:
    if not is_object(metadata):
        return {}
    found = {name: string_of(metadata, name) for name in _METADATA}
    return {name: text for name, text in found.items() if text.isascii() and text.isprintable()}


def refusal_message(refused: RequestRefused, client: Dialect, stream_id: str | None) -> str:
    """Return the `error` event of a refusal."""
    answer = encode_error_response(refused.error, client.name, upstream=None)
    headers = {**answer.headers, **refused.headers}
    return error_message(answer.status, answer.body, headers, stream_id)


class _DoneEvent(Struct):
    item: Raw


class _Response(Struct):
    id: str = ""
    output: list[Raw] | None = None


class _ResponseEvent(Struct):
    response: _Response


OnEnd: TypeAlias = Callable[[str, "list[bytes] | None"], Awaitable[None]]
"""Called with the id of a response, and the JSON of its items if they are known."""

_DONE_EVENT: msgspec.json.Decoder[_DoneEvent] = msgspec.json.Decoder(_DoneEvent)
_RESPONSE_EVENT: msgspec.json.Decoder[_ResponseEvent] = msgspec.json.Decoder(_ResponseEvent)


class MessageWriter:
    """ASGI `send` that writes an HTTP response as WebSocket messages.

    An event is sent as it is; that of a lane has its `stream_id` last.  A response that is no
    stream is an `error` event.  Whatever an answer lacks, it has one end: `response.completed`,
    `response.incomplete` or `response.failed`, or an `error` before `response.created`.

    Args:
        send: Sends one message.
        stream_id: The lane of the answer; None for the default one.
        on_end: Called before the end of a response is sent that can be continued: with its id, and
            the JSON of its items as the client got them; None if they are larger than the bound.
        max_output_bytes: The bound.

    Attributes:
        response_id: Id of the response; "" before its first event.
        has_error: Whether the answer is an error, and no response.
    """

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        stream_id: str | None,
        on_end: OnEnd | None = None,
        max_output_bytes: int = 0,
    ) -> None:
        self.response_id = ""
        self.has_error = False
        self._send = send
        self._on_end = on_end
        self._stream_id = stream_id
        self._end = "" if stream_id is None else f',"stream_id":"{stream_id}"}}'
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._frames = SSEDecoder()
        self._is_whole = False  # the answer goes on, and no event has begun and not ended
        self._items: list[bytes] = []
        self._free_bytes = max_output_bytes
        self._created = ""  # the first event
        self._last = ""  # the event before
        self._failure = ""  # an `error` event that no `response.failed` has followed
        self._is_ended = False

    async def __call__(self, message: Message) -> None:
        """Write an ASGI message as WebSocket messages."""
        is_last = not message.get("more_body", False)
        if self._is_whole and not is_last:
            # Nearly all reads are one delta as our encoders and the vendor write it.
            found = _DELTA.fullmatch(message["body"])
            if found is not None:
                text = self._last = found[1].decode(errors="replace") + (self._end or "}")
                await self._send(text)
                return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in message["headers"]
            }
            self._is_whole = self._status == _OK
            return
        if self._status != _OK:
            self._body += message["body"]
            if is_last:
                await self._send_error(self._status, bytes(self._body), self._headers)
            return
        for frame in self._frames.feed(message["body"]):
            await self._write(frame.data)
        self._is_whole = not (self._frames.unfinished_bytes or self._is_ended)
        if is_last:
            await self._write_unterminated()
            await self.close()

    async def close(self) -> None:
        """End an incomplete answer with an error, because the gateway or the upstream failed."""
        if self._is_ended:
            return
        failure = object_in(self._failure)
        error = find_error(failure)
        message = "the answer broke off" if error is None else error.message
        code = (None if error is None else error.code) or "server_error"
        if not self._created:
            status = 502 if error is None else response_status(error)
            fields = {"type": "server_error", "message": message, "code": code, "param": None}
            nested = failure.get("error")
            body = compact({"error": nested if is_object(nested) else fields})
            await self._send_error(status, body.encode(), {})
            return
        self._is_ended = True
        created = object_in(self._created).get("response")
        known: dict[str, Any] = created if is_object(created) else {"id": self.response_id}
        response = {**known, "status": "failed", "error": {"code": code, "message": message}}
        number = object_in(self._last).get("sequence_number")
        number = number + 1 if isinstance(number, int) else 0
        event = {"type": "response.failed", "sequence_number": number}
        await self._send_event(compact({**event, "response": response}))

    async def _send_error(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self._is_ended = self.has_error = True
        await self._send(error_message(status, body, headers, self._stream_id))

    async def _write_unterminated(self) -> None:
        """Write a terminal that no blank line follows: some servers leave it out."""
        frame = self._frames.unterminated()
        if frame is not None and head_of(frame.data.encode()).type in _TERMINALS:
            await self._write(frame.data)

    async def _write(self, text: str) -> None:
        kind = head_of(text.encode()).type
        # `[DONE]` is no message of a WebSocket.
        if kind is None or (self._is_ended and kind.startswith(_OF_A_RESPONSE)):
            return  # behind its end, the client takes an event for one of its next response
        self._last = text
        if kind == "response.output_item.done":
            self._keep_item(text)
        elif kind == "response.created":
            self._created = text
            self.response_id = _response_in(text).id
        elif kind == "error":
            # Behind `response.created`, clients act on `response.failed` alone.
            self._failure = text
            return
        elif kind in _TERMINALS:
            # A failure that nothing precedes is an error, which has the status of a response.
            if kind == "response.failed" and not self._created:
                return
            self._is_ended = True
            if kind in _KEPT:
                await self._end_response(_response_in(text))
        elif not self._created and kind == "keepalive":
            return
        await self._send_event(text)

    def _keep_item(self, event: str) -> None:
        try:
            self._keep(_DONE_EVENT.decode(event).item)
        except FAST_ERRORS:  # an upstream of the same dialect, whose events are passed on
            self._free_bytes = -1

    def _keep(self, item: Raw) -> None:
        self._free_bytes -= len(item)
        if self._free_bytes >= 0:
            self._items.append(bytes(item))

    async def _end_response(self, response: _Response) -> None:
        self.response_id = response.id or self.response_id
        if not self._items:  # some servers have them in the last event alone
            for item in response.output or ():
                self._keep(item)
        if self._on_end is not None:
            output = self._items if self._free_bytes >= 0 else None
            await self._on_end(self.response_id, output)

    async def _send_event(self, text: str) -> None:
        await self._send(text.rstrip()[:-1] + self._end if self._end else text)


def _response_in(event: str) -> _Response:
    """Return the response object in an event; an empty object for other text."""
    try:
        return _RESPONSE_EVENT.decode(event).response
    except FAST_ERRORS:
        return _Response()
