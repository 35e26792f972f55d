"""Answers of upstreams over WebSockets, read as the bodies of HTTP responses.

The events of an answer come as messages, and become the body that the same answer would have over
HTTP: server-sent events, or the response for a client that does not stream.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23), and the events of
openai 3.54.0 (`types/responses/responses_server_event.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec
from msgspec import Raw

from streamnorm._core.codec.socket_events import (
    NOT_OF_A_RESPONSE,
    ErrorAnswer,
    error_answer,
    flat_error,
    type_of,
)
from streamnorm._core.errors import LimitExceeded, RemoteProtocolError
from streamnorm._core.json import FAST_ERRORS, compact, object_in
from streamnorm.gateway.retrying import UNKNOWN_RESPONSE
from streamnorm.gateway.websocket_creates import InputEnd, KnownResponse, OutputDigest
from streamnorm.gateway.websocket_steering import STEER_EVENTS, STEER_FAILED, Steering

_FIELDS: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ITEMS: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])

_MAX_HELD_BYTES = 256 * 1024  # of an answer, beyond which its connection is not read
_MAX_UNBEGUN_BYTES = 64 * 1024  # of messages before the first event of a response
_JSON = "application/json"

LIMITS_REACHED = ("websocket_connection_limit_reached", "websocket_stream_limit_reached")
"""Codes of a connection that takes no further create, where another one does."""

# Nearly all messages are deltas, which have no id of a response; servers write them in one line.
_DELTA_START = re.compile(rb'\{"type":"(response\.[a-z_.]{1,64}\.delta)"')
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_LINE_ENDS = re.compile(rb"[\r\n]+")
_DONE = "response.output_item.done"
_CONTINUED = ("response.completed", "response.incomplete")
_FAILED = "response.failed"
_TERMINALS = (*_CONTINUED, _FAILED, "response.cancelled")
_OF_RESPONSE = "response."
# Of the statuses of responses: of two that contradict each other, the worse one is true.
_SEVERITIES = {"completed": 0, "incomplete": 1, "cancelled": 2, "failed": 3}
_KEEP_ALIVE = "response.keep_alive"  # of compatible servers, at any time


class MessageReader:
    """Converts the messages of one answer to the body of an HTTP response.

    Args:
        input: The end of the input of the create; None if no create may continue the response.
        continued: Id of the response that it continues as an increment; None for the whole input.
        previous: Id of the response before, on the same connection, or "".
        max_bytes: Bound on the items of a body that is no stream.
        is_whole: Whether the body is that of a request without a stream.
        steering: Input that the client adds to the response; None if it can add none.

    Attributes:
        has_begun: Whether an event of the response has come.
        is_ended: Whether the last message has come.
        error: The error in place of a response, or None.
        id: Id of the response; "" before its end, and if it has none.
        known: The response, if the next create may continue it; None before its end.
        is_clean: Whether nothing of this answer can come behind its end.
        committed: Items that were added to the response before, and that this one answers.
    """

    def __init__(
        self,
        input: InputEnd | None,
        continued: str | None,
        previous: str,
        *,
        max_bytes: int,
        is_whole: bool,
        steering: Steering | None = None,
    ) -> None:
        self.has_begun = self.is_ended = False
        self.is_clean = True
        self.id = ""
        self.error: ErrorAnswer | None = None
        self.known: KnownResponse | None = None
        self.committed: list[dict[str, Any]] = []
        self._input = input
        self._free_bytes = max_bytes
        self._previous = previous
        self._is_whole = is_whole
        self._steering = steering
        self._is_successor = steering is not None and steering.response_id != ""
        self._echo = None if continued is None else _echo_of(continued)
        self._last = b""  # event of the response
        self._delta_start: bytes | tuple[()] = ()  # of the last delta, with its type
        self._delta_event = b""  # before the JSON of one
        self._items: list[Raw] = []  # of the output, if the body needs them
        self._output = OutputDigest()

    def read(self, message: bytes) -> bytes:
        """Return the body bytes for a message.

        Raises:
            RemoteProtocolError: The message is no event, or one of another response.
        """
        if message.startswith(self._delta_start) and b"\n" not in message and b"\r" not in message:
            self._last = message
            return b"%b%b\n\n" % (self._delta_event, message)
        kind = type_of(message)
        if kind is None:
            raise RemoteProtocolError("a message that is no event, expected JSON with a type")
        if kind == "error":
            return self._read_error(message)
        if kind == _DONE:
            self._read_item(message)
        elif kind in _TERMINALS:
            self._end()
            if kind == _FAILED and not self.has_begun and self._is_refused_increment(message):
                return b""
            self.has_begun = True
            return self._read_terminal(kind, message)
        elif kind == "response.created":
            id = self._check_id(_response_in(message))
            if self._steering is not None:
                self.committed += self._steering.begin(id)
        elif self._steering is not None and kind.startswith(STEER_EVENTS):
            message = self._steering.read(kind, message)
            if self._is_successor and not self.has_begun:
                self._steering.hold(message)
                return b""
        elif not self._is_whole and (delta := _DELTA_START.match(message)) is not None:
            self._delta_start = delta[0]
            self._delta_event = b"event: %b\ndata: " % delta[1]
        if _is_response_event(kind):
            self.has_begun = True
            self._last = message
        # White space before JSON is valid, and shows that the answer goes on.
        return b" " if self._is_whole else self._event(kind, message)

    def _read_error(self, message: bytes) -> bytes:
        steering = self._steering
        if steering is not None and steering.is_open and self.has_begun:
            failure = steering.refuse(object_in(message.decode(errors="replace")))
            if failure is not None:
                return self._event(STEER_FAILED, failure)
        self._end()
        if not self.has_begun:
            self.error = error_answer(message)
            if steering is not None:
                self.committed += steering.commit()
            return b""
        # A `response.failed` may follow.
        self.is_clean = False
        if self._is_whole:
            return error_answer(message).body
        return self._event("error", flat_error(message, self._next_number()))

    def _next_number(self) -> int:
        """Return the `sequence_number` behind the last event of the response."""
        try:
            return 1 + msgspec.json.decode(_fields_in(self._last)["sequence_number"], type=int)
        except (KeyError, *FAST_ERRORS):
            return 0

    def _end(self) -> None:
        self.is_ended = True
        if self._steering is not None:
            self._steering.is_active = False

    def _is_refused_increment(self, message: bytes) -> bool:
        """Return whether the upstream does not know the previous response; if so, set `error`."""
        given = bytes(_response_in(message).get("error", b""))
        error = object_in(given.decode(errors="replace"))
        if self._echo is None or error.get("code") != UNKNOWN_RESPONSE:
            return False
        self.error = error_answer(compact({"status": 400, "error": error}).encode())
        return True

    def _read_item(self, message: bytes) -> None:
        fields = _fields_in(message)
        item = fields.get("item")
        if item is None:
            # What the provider has said is not known: no create can continue it.
            self._input = None
            if self._is_whole and not fields:  # a body would end well without the item
                raise RemoteProtocolError("an item that is no JSON, expected an item of the output")
            return
        self._output.add(item)
        if self._is_whole:
            self._free_bytes -= len(item)
            if self._free_bytes < 0:
                limit = "max_event_bytes"
                raise LimitExceeded(f"an answer beyond {limit}", limit=limit)
            self._items.append(item)

    def _read_terminal(self, kind: str, message: bytes) -> bytes:
        response = _response_in(message)
        id = self.id = self._check_id(response)
        if kind in _CONTINUED and id and self._input is not None:
            output = self._output
            if not output.size:  # some servers have items in the last event alone
                for item in _items_in(response):
                    output.add(item)
            # Without an item seen, the model's own answer would be sent again as new input.
            if output.size:
                self.known = KnownResponse(id, self._input, output.digest, output.size)
        if not self._is_whole:
            return self._event(kind, message)
        if not response:
            raise RemoteProtocolError("a terminal without a response, expected the response")
        # A body has no type of an event, which says how the response has ended.
        status = kind.removeprefix(_OF_RESPONSE)
        if _SEVERITIES.get(string_in(response.get("status")), -1) < _SEVERITIES[status]:
            response["status"] = Raw(msgspec.json.encode(status))
        if self._items and not _items_in(response):
            response["output"] = Raw(msgspec.json.encode(self._items))
        return self._with_own_id(msgspec.json.encode(response))

    def _check_id(self, response: dict[str, Raw]) -> str:
        """Check that a response is not the previous response; return its id, "" without an id.

        Raises:
            RemoteProtocolError: It is that of the response before.
        """
        id = string_in(response.get("id"))
        if id and id == self._previous:
            raise RemoteProtocolError("an event of the response before, expected another response")
        return id

    def _event(self, kind: str, message: bytes) -> bytes:
        """Return a message as a server-sent event."""
        if self._echo is not None:
            message = self._with_own_id(message)
        if b"\n" in message or b"\r" in message:  # between two values of JSON
            message = _LINE_ENDS.sub(b" ", message)
        if not _NAME.fullmatch(kind):
            return b"data: %b\n\n" % message
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), message)

    def _with_own_id(self, message: bytes) -> bytes:
        """Return a response's JSON without a `previous_response_id` unknown to the client."""
        return message if self._echo is None else self._echo.sub(rb"\1null", message)


class SocketAnswer:
    """The answer to one `response.create` or refused handshake, with an HTTP response's interface.

    Attributes:
        status: HTTP status.
        headers: Headers of the response.
        content: The body: the answer itself.
        lost: Never done: a lost connection ends the body.
        code: Code of the error that was answered; "" if none was.
        steering: Input that the client adds to the response; None if it can add none.
        read: Returns the body bytes for a message, also in a thread, or raises
            `RemoteProtocolError`: it is no message of the answer.
    """

    def __init__(
        self, reader: MessageReader, steering: Steering | None = None, *, is_whole: bool = False
    ) -> None:
        self.status = 200
        self.steering = steering
        self.code = ""
        media_type = _JSON if is_whole else "text/event-stream"
        self.headers: Mapping[str, str] = {"content-type": media_type}
        self.content = self
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.read = reader.read
        self._reader = reader
        self._on_close: Callable[[bool], None] | None = None
        self._has_begun = self._is_complete = False
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._exception: BaseException | None = None
        self._end: Exception | None = None  # of the connection, behind what has come
        self._waiter: asyncio.Future[None] | None = None
        self._has_space = asyncio.Event()

    @classmethod
    def refusal(cls, refused: ErrorAnswer) -> SocketAnswer:
        """Return the answer to a `response.create` whose WebSocket handshake was refused."""
        answer = cls(MessageReader(None, None, "", max_bytes=0, is_whole=False))
        answer._is_complete = True
        answer.fail_with(refused)
        return answer

    def fail_with(self, error: ErrorAnswer) -> None:
        """Set status, headers and body from an error."""
        self.status, self.headers, self.code = error.status, error.headers, error.code
        self._pieces = deque([error.body] if error.body else [])

    # The body, as its reader finds it in `aiohttp.StreamReader`

    async def readany(self) -> bytes:
        """Return the received bytes, waiting if there are none; b"" at the end of the body."""
        while True:
            if self._exception is not None:
                raise self._exception
            if pieces := self._pieces:
                data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                pieces.clear()
                self._held_bytes = 0
                self._has_space.set()
                return data
            if self._is_complete:
                return b""
            if self._end is not None:
                raise self._end
            await self._wait_for_change()

    def is_eof(self) -> bool:
        """Return whether the whole body has arrived."""
        return self._is_complete

    def at_eof(self) -> bool:
        """Return whether the whole body was read."""
        return self.is_eof() and not self._pieces and self._exception is None

    def exception(self) -> BaseException | None:
        """Return the exception that ends the body, or None."""
        return self._exception

    def set_exception(self, exc: BaseException, /) -> None:
        """End the body with an exception."""
        self._exception = exc
        self._wake()

    def release(self) -> None:
        """Return the connection to the pool, since the body was read."""
        self._finish(is_read=True)

    def close(self) -> None:
        """Close the connection, on which more of the answer may arrive."""
        self._finish(is_read=False)

    def _finish(self, *, is_read: bool) -> None:
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close(is_read)

    # The messages, as the connection reads them

    def feed(self, data: bytes) -> bool:
        """Append body bytes that `read` has returned; return whether the answer is complete."""
        reader = self._reader
        self._has_begun, self._is_complete = reader.has_begun, reader.is_ended
        if data:
            self._pieces.append(data)
            self._held_bytes += len(data)
        if self._waiter is not None:
            self._wake()
        return self._is_complete

    @property
    def is_full(self) -> bool:
        """Whether the client has still to read much of the body."""
        return self._held_bytes > _MAX_HELD_BYTES

    def end(self, cause: Exception) -> None:
        """Make an incomplete body raise an exception once the received bytes are read."""
        self._end = cause
        self._wake()

    def set_on_close(self, on_close: Callable[[bool], None]) -> None:
        """Set the function to call once the body was read, or closed before its end."""
        self._on_close = on_close

    async def wait_for_space(self) -> None:
        """Wait until the client has read the held bytes."""
        self._has_space.clear()
        await self._has_space.wait()

    async def begin(self, on_close: Callable[[bool], None]) -> ErrorAnswer | None:
        """Wait for the first event; return the error if an error arrives first.

        Args:
            on_close: Called once the body was read, or will not be.

        Raises:
            aiohttp.ServerDisconnectedError: The connection was closed before.
        """
        self.set_on_close(on_close)
        while not (self._has_begun or self._is_complete):
            if isinstance(self._end, aiohttp.ClientError):
                raise self._end
            if self._end is not None or self._held_bytes > _MAX_UNBEGUN_BYTES:
                break
            await self._wait_for_change()
        return self._reader.error

    async def may_begin(self) -> bool:
        """Wait for the first event of a successor answer; return False if no event will come."""
        while not (self._has_begun or self._is_complete):
            is_open = self.steering is not None and self.steering.is_open
            if not is_open or self._end is not None or self._held_bytes > _MAX_UNBEGUN_BYTES:
                return False
            await self._wait_for_change()
        if self._reader.error is not None:
            self.fail_with(self._reader.error)
        return True

    @property
    def committed(self) -> list[dict[str, Any]]:
        """Input items that were added to the previous response, and that this response answers."""
        return self._reader.committed

    @property
    def response_id(self) -> str:
        """Id of the response; "" if it has none."""
        return self._reader.id

    @property
    def known(self) -> KnownResponse | None:
        """The response, if the next `response.create` can continue it."""
        return self._reader.known

    @property
    def is_clean(self) -> bool:
        """Whether no message of this answer can arrive after its end."""
        return self._reader.is_clean

    async def _wait_for_change(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _echo_of(id: str) -> re.Pattern[bytes]:
    # Within a string of JSON the quotes would be escaped.
    written = re.escape(msgspec.json.encode(id))
    return re.compile(rb'("previous_response_id"\s*:\s*)' + written)


def is_of_response(message: bytes) -> bool:
    """Return whether a message belongs to a response, not to the connection.

    Others belong to the connection, such as rate limits.
    """
    kind = type_of(message)
    return kind is None or kind == "error" or _is_response_event(kind)


def _is_response_event(kind: str) -> bool:
    is_named_so = kind.startswith(_OF_RESPONSE) and kind != _KEEP_ALIVE
    return is_named_so and NOT_OF_A_RESPONSE.match(kind) is None


def _fields_in(text: bytes | Raw) -> dict[str, Raw]:
    """Return the members of a JSON object; {} for other text.

    Half a surrogate pair becomes U+FFFD, at which a fast decoder stops: providers send it.
    """
    try:
        return _FIELDS.decode(text)
    except FAST_ERRORS:
        value = object_in(bytes(text).decode(errors="replace"))
        return {name: Raw(compact(member).encode()) for name, member in value.items()}


def _response_in(message: bytes) -> dict[str, Raw]:
    response = _fields_in(message).get("response")
    return {} if response is None else _fields_in(response)


def _items_in(response: dict[str, Raw]) -> list[Raw]:
    try:
        return _ITEMS.decode(response["output"])
    except (KeyError, *FAST_ERRORS):
        return []


def string_in(value: Raw | None) -> str:
    """Return a JSON string's value; "" for other values."""
    try:
        found: object = None if value is None else msgspec.json.decode(value)
    except FAST_ERRORS:
        return ""
    return found if isinstance(found, str) else ""
