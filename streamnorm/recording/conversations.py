"""WebSocket conversations as exchanges: a `response.create` message and its answer.

The create of a client is the request, a `POST` to the `wss` URL; what the server sends in its lane
until the response ends is the body, a message a line (`WS_MESSAGE`).  So a conversation is
recorded, replayed and compared as requests over HTTP are, and a recording of one answers the other.
A handshake is a request without a body: only one that is refused has a recording.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from msgspec import Struct, structs

from streamnorm._core.codec.framing import SSE
from streamnorm._core.codec.socket_events import (
    MessageHead,
    error_answer,
    error_message,
    head_of,
    message_line,
    name_stream,
)
from streamnorm._core.codec.websocket_messages import WS_MESSAGE, WebSocketSplitter
from streamnorm._core.failures import find_error, response_status
from streamnorm._core.json import FAST_ERRORS, is_object, object_in
from streamnorm._core.limits import Limits
from streamnorm.http.urls import is_websocket_url
from streamnorm.recording.format import (
    End,
    Playback,
    RecordedRequest,
    Step,
    WireRequest,
)
from streamnorm.sse import Frame

SWITCHED = 101
"""Status of a handshake that was accepted."""

CREATE = "response.create"

_CREATED = "response.created"
_FAILED = "response.failed"
_ERROR = "error"
_STEER_ACCEPTED = "response.steer.accepted"
_STEER_PENDING = "response.steer.pending"
_STEER_FAILED = "response.steer.failed"

# Fields of a create that a request over HTTP does not have, or that mean nothing on a WebSocket,
# where every answer is a stream.  Codex sends `stream` all the same.
_OWN_FIELDS = frozenset(
    {"type", "stream_id", "client_metadata", "stream", "stream_options", "background"}
)
_TERMINALS = frozenset(
    {"response.completed", "response.incomplete", _FAILED, "response.cancelled", "error"}
)
_OK = 200
# What a server sends without a create, such as rate limits.
_MAX_HELD_MESSAGES = 64
_MAX_HELD_BYTES = 1024 * 1024


def body_of_create(create: dict[str, Any]) -> dict[str, Any]:
    """Return a `response.create` message as the body of an equivalent HTTP request."""
    rest = {name: value for name, value in create.items() if name not in _OWN_FIELDS}
    return {**rest, "stream": True}


def as_http_request(request: RecordedRequest) -> RecordedRequest:
    """Return a `response.create` as the equivalent HTTP request; other requests unchanged."""
    if not is_websocket_url(request.url) or not is_object(request.body):
        return request
    return structs.replace(request, body=body_of_create(request.body))


def is_handshake(request: WireRequest) -> bool:
    """Return whether a request is the handshake of a WebSocket."""
    return is_websocket_url(request.url) and not request.body


# Playing


def as_response(playback: Playback) -> Playback:
    """Return a WebSocket answer as an HTTP response; other answers unchanged.

    An error in place of a response is an error response.
    """
    if playback.framing is not WS_MESSAGE or playback.status != _OK:
        return playback
    splitter = WebSocketSplitter(Limits())
    steps: list[Step] = []
    for step in _end_last_line(playback):
        frames = [frame for raw in splitter.split(step.data) for frame in splitter.parse(raw)]
        first = frames[0] if frames and not any(each.data for each in steps) else None
        if isinstance(first, Frame) and first.event == "error":
            answer = error_answer(first.data.encode(errors="replace"))
            return structs.replace(
                playback,
                status=answer.status,
                headers=answer.headers,
                steps=(structs.replace(step, data=answer.body),),
                framing=SSE,
            )
        steps.append(structs.replace(step, data=splitter.as_event_stream(b"")))
    headers = {**playback.headers, "content-type": SSE.media_type}
    return structs.replace(playback, headers=headers, steps=tuple(steps), framing=SSE)


def _end_last_line(playback: Playback) -> tuple[Step, ...]:
    """Return the chunks of a body, with a line end added if the last message is complete."""
    line = playback.body.rpartition(b"\n")[2]
    if playback.end != "eof" or head_of(line).type is None:
        return playback.steps
    last = playback.steps[-1]
    return (*playback.steps[:-1], structs.replace(last, data=last.data + b"\n"))


class MessageReader:
    """Reader of the WebSocket messages in the chunks of a played answer.

    An answer over HTTP becomes that of a WebSocket: an event is a message, and an error response
    is an `error` with its status.

    Args:
        playback: The answer.
        stream_id: The lane of the create; None for the default one.

    Attributes:
        has_ended: Whether a message has ended the response.
    """

    def __init__(self, playback: Playback, stream_id: str | None) -> None:
        self.has_ended = False
        self._playback = playback
        self._stream_id = stream_id
        self._frames = playback.framing.layout.frame_reader(Limits())
        content_type = playback.headers.get("content-type", "").partition(";")[0]
        self._is_stream = playback.status == _OK and content_type == playback.framing.media_type
        self._body: list[bytes] = []

    def feed(self, data: bytes) -> list[str]:
        """Return the messages that a chunk completes."""
        if not self._is_stream:
            self._body.append(data)
            return []
        return [text for frame in self._frames.feed(data) if (text := self._message_of(frame))]

    def close(self) -> list[str]:
        """Return the messages completed by the end of the answer."""
        if self._is_stream:
            rest = self._frames.unterminated()
            # Decoders, too, accept a last event without its end if it is whole.
            if rest is None or head_of(rest.data.encode()).type is None:
                return []
            return [self._message_of(rest)]
        self.has_ended = True
        status = self._playback.status
        body = b"".join(self._body)
        status = status if status >= 400 else 502  # what is no stream answers no create
        return [error_message(status, body, self._playback.headers, self._stream_id)]

    def _message_of(self, frame: Frame) -> str:
        text = frame.data
        head = head_of(text.encode())
        if self._playback.framing is SSE:
            if head.type is None:  # `[DONE]`, or an event without data
                return ""
            if head.type == "error":
                text = _as_socket_error(text)
        self.has_ended = self.has_ended or head.type in _TERMINALS
        return name_stream(text.encode(), self._stream_id).decode()


def _as_socket_error(text: str) -> str:
    """Return an `error` event with a `status`, added if it is missing."""
    event = object_in(text)
    if isinstance(event.get("status"), int):
        return text
    error = find_error(event)
    return error_message(500 if error is None else response_status(error), text.encode(), {})


# Recording


class ExchangeWriter(Protocol):
    """Protocol of writers of one exchange; see `RecordingWriter`."""

    def begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Record status and headers."""
        ...

    def write(self, data: bytes) -> None:
        """Record a message."""
        ...

    def add_sent(self, message: bytes) -> None:
        """Record a client message other than `response.create`."""
        ...

    def end(self, how: End, close_code: int | None = None) -> None:
        """Record the end of the exchange."""
        ...


class ExchangeRecorder(Protocol):
    """Protocol of recorders of exchanges, such as `Recorder`."""

    def start(self, request: WireRequest) -> ExchangeWriter:
        """Begin an exchange, and return its writer."""
        ...


class _Response(Struct):
    id: str | None = None


class _Position(Struct):
    """Position of an event in its response.

    Attributes:
        response: The response that it is of; None if it names none.
        sequence_number: The number in the response; None if it has none.
    """

    response: _Response | None = None
    sequence_number: int | None = None

    @property
    def response_id(self) -> str | None:
        return None if self.response is None else self.response.id


_POSITION: msgspec.json.Decoder[_Position] = msgspec.json.Decoder(_Position)


def _position_of(message: str) -> _Position:
    """Return the position of an event; an empty `_Position` if the event cannot be read."""
    try:
        return _POSITION.decode(message)
    except FAST_ERRORS:
        return _Position()


class _PendingExchange(Struct):
    """An exchange whose response has not ended.

    Attributes:
        writer: Writes the exchange.
        has_begun: Whether its response has begun.
        response_id: Id of the response; None until it has begun, or if it has no id.
        steers: How often input was accepted for the response that no other response answers yet.
        has_ended: Whether the response has ended, and one that no create asks for may follow.
    """

    writer: ExchangeWriter
    has_begun: bool = False
    response_id: str | None = None
    steers: int = 0
    has_ended: bool = False


class _Lane(Struct):
    """Recording state of one lane: the messages of a connection with the same `stream_id`.

    Attributes:
        pending: Exchanges whose responses have not ended, oldest first; no other has begun.
        held: Messages that came while there was none; the next exchange begins with them.
        ended_id: Id of the response that ended last.
        is_unasked: Whether a response is sent that no create waits for.
        refusal: An `error` that refuses a create, or ends the response that runs; and the exchange
            of the create.
    """

    pending: deque[_PendingExchange]
    held: list[str]
    held_bytes: int = 0
    ended_id: str | None = None
    is_unasked: bool = False
    refusal: tuple[str, _PendingExchange] | None = None

    def add(self, message: str) -> None:
        """Record a message that neither begins nor ends a response."""
        if self.is_unasked:
            return
        if self.pending:
            self.pending[0].writer.write(message_line(message))
        elif len(self.held) < _MAX_HELD_MESSAGES:
            self.held_bytes += len(message)
            if self.held_bytes <= _MAX_HELD_BYTES:
                self.held.append(message)

    def begin_response(self, message: str) -> None:
        """Record a response's first event, in the oldest pending exchange if there is one."""
        self.is_unasked = not self.pending
        if self.pending:
            first = self.pending[0]
            first.has_begun, first.response_id = True, _position_of(message).response_id
            first.has_ended, first.steers = False, 0
            first.writer.write(message_line(message))

    def add_steer(self, kind: str, message: str) -> None:
        """Record the server's event about a `response.steer` message: accepted, pending or failed.

        The exchange ends with it once no response can follow that answers such input.
        """
        self.add(message)
        if self.is_unasked or not self.pending:
            return
        first = self.pending[0]
        if kind == _STEER_ACCEPTED:
            first.steers += 1
        elif kind in (_STEER_PENDING, _STEER_FAILED):
            first.steers -= bool(first.steers and _is_accepted(message))
            if first.has_ended and not first.steers:
                self.pending.popleft().writer.end("eof")

    def end_response(self, kind: str, message: str) -> None:
        """Record a terminal event or `error`, in the exchange whose response it ends."""
        if self.is_unasked or not self.pending:
            self.is_unasked = False
            return
        first, last = self.pending[0], self.pending[-1]
        position = _position_of(message)
        named = position.response_id
        if named and named == self.ended_id and named != first.response_id:
            return  # OpenAI sends an `error` within a response, and `response.failed` behind it
        # An `error` within a response has its next number.
        is_within = bool(position.sequence_number) or not first.has_begun or last is first
        if kind == "error" and not is_within:
            self.refusal = message, last
            return
        self._end(first, kind, message, named)

    def settle_refusal(self, kind: str | None, message: str) -> None:
        """Record a held `refusal`; the next message decides to which exchange it belongs.

        The server has refused the create, and the running response goes on; unless another begins,
        or this one ends as failed, to which the error belongs then.
        """
        if self.refusal is None:
            return
        (error, refused), self.refusal = self.refusal, None
        first = self.pending[0]
        is_over = kind == _CREATED
        if kind == _FAILED and first.response_id is not None:
            is_over = _position_of(message).response_id == first.response_id
        self._end(first if is_over else refused, _ERROR, error, None)

    def _end(
        self, exchange: _PendingExchange, kind: str, message: str, response_id: str | None
    ) -> None:
        exchange.writer.write(message_line(message))
        self.ended_id = response_id or exchange.response_id or self.ended_id
        exchange.has_ended = kind != _ERROR and (exchange.steers > 0 or _is_steered(message))
        if not exchange.has_ended:
            self.pending.remove(exchange)
            exchange.writer.end("eof")


class ConversationRecorder:
    """Recorder of the exchanges on one WebSocket.

    Args:
        recorder: The recorder.
        handshake: The request of the handshake; its URL begins with `ws`.
        headers: Headers of the answer that accepted it.
    """

    def __init__(
        self, recorder: ExchangeRecorder, handshake: WireRequest, headers: Iterable[tuple[str, str]]
    ) -> None:
        self._recorder = recorder
        self._handshake = handshake
        self._headers = [*headers, ("content-type", WS_MESSAGE.media_type)]
        self._lanes: dict[str | None, _Lane] = {None: _Lane(deque(), [])}

    def add_sent(self, message: str) -> None:
        """Record a client message."""
        data = message.encode("utf-8", "replace")
        head = head_of(data)
        if head.type != CREATE:
            # `response.steer` names no lane.
            found = [each.pending[0] for each in self._lanes.values() if each.pending]
            if found:
                found[-1].writer.add_sent(data)
            return
        lane = self._lanes.setdefault(_lane_in(head), _Lane(deque(), []))
        writer = self._recorder.start(structs.replace(self._handshake, method="POST", body=data))
        writer.begin(_OK, self._headers)
        if not lane.pending:
            for held in lane.held:
                writer.write(message_line(held))
            lane.held, lane.held_bytes = [], 0
        lane.pending.append(_PendingExchange(writer))

    def add_received(self, message: str) -> None:
        """Record a server message."""
        head = head_of(message.encode("utf-8", "replace"))
        # A lane begins with a create: a server must not open any number of them.
        lane = self._lanes.get(_lane_in(head)) or self._lanes[None]
        if head.type == "error" or (head.type or "").startswith("response."):
            lane.settle_refusal(head.type, message)
        if head.type in _TERMINALS:
            lane.end_response(head.type, message)
        elif head.type == _CREATED:
            lane.begin_response(message)
        elif head.type in (_STEER_ACCEPTED, _STEER_PENDING, _STEER_FAILED):
            lane.add_steer(head.type, message)
        else:
            lane.add(message)

    def end(self, how: End, close_code: int | None = None) -> None:
        """Record the end of the connection.

        Args:
            how: How it ended for responses that had not ended.
            close_code: Code with which the server closed it; None if the client did.
        """
        for lane in self._lanes.values():
            lane.settle_refusal(None, "")
            for exchange in lane.pending:
                exchange.writer.end(how, close_code)
            lane.pending.clear()


def _lane_in(head: MessageHead) -> str | None:
    return head.stream_id if isinstance(head.stream_id, str) else None


def _is_accepted(event: str) -> bool:
    """Return whether the `steer` in an event has an id, as only an accepted `steer` has."""
    steer = object_in(event).get("steer")
    return is_object(steer) and "id" in steer


def _is_steered(terminal: str) -> bool:
    """Return whether a `response.steer` ended a response, so that another response follows."""
    if '"steered"' not in terminal:
        return False
    response = object_in(terminal).get("response")
    details = response.get("incomplete_details") if is_object(response) else None
    return is_object(details) and details.get("reason") == "steered"
