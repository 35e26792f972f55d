"""`response.steer`: input that a client adds to a running response over a WebSocket.

The provider acknowledges the input, and answers it with a response that no create asks for: the
successor, which follows the end of the response on the same connection.  A response that waits for
results of the client has none; the input then belongs to the create that has the results.

openai 3.54.0 (`types/responses/response_steer*.py`, read 2026-11-27).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import aiohttp
from msgspec import Struct, structs

from streamnorm._core.bodies.fields import body_object
from streamnorm._core.codec.socket_events import name_stream
from streamnorm._core.errors import RemoteProtocolError
from streamnorm._core.json import (
    compact,
    count_of,
    dumps,
    is_array,
    is_object,
    object_in,
    string_of,
)
from streamnorm._core.limits import Limits
from streamnorm._upstream.requests import refusals
from streamnorm.gateway.websocket_messages import Create

if TYPE_CHECKING:
    from streamnorm.gateway.routing import Target
    from streamnorm.gateway.websocket_answers import SocketAnswer

STEER = "response.steer"
STEER_EVENTS = "response.steer."
"""Start of the types of a provider's answers to a steer."""

STEER_FAILED = f"{STEER}.failed"
"""Type of the event that returns the input."""

Fault: TypeAlias = tuple[str, str]
"""Code and text of the failure of input that was not added to a response."""

INVALID: Fault = "invalid_input", "no previous_response_id and input, expected both"
NOT_FOUND: Fault = "response_not_found", "a response that this connection does not have"
NOT_SUPPORTED: Fault = "steering_not_supported", "steering is not supported by this provider"
OVER: Fault = "response_already_completed", "a response that has ended, expected a running one"
_LOST: Fault = (
    "successor_creation_failed",
    "the response that answers the input was not created",
)
_CODES = frozenset(
    {
        *(fault[0] for fault in (INVALID, NOT_FOUND, NOT_SUPPORTED, OVER, _LOST)),
        *("too_many_pending_steers", "response_not_active"),
    }
)
"""All codes of the failure of a steer (`types/responses/response_steer_error_code.py`)."""

_MAX_STEERS = 16  # of a response, whose outcome is not known
# A failure returns the input, in which JSON may escape each character.
_ECHOED_BYTES = 8
_ECHOED_FIELDS_BYTES = 4096
_ACCEPTED, _PENDING = f"{STEER}.accepted", f"{STEER}.pending"


class ClientSteer(Struct, frozen=True):
    """A `response.steer` message from a client.

    Attributes:
        previous: Id of the response, as the client knows it; None without one.
        input: The input.
        items: The items of the input; empty if it has none.
        size: Bytes of the message.
    """

    previous: str | None
    input: Any
    items: tuple[dict[str, Any], ...]
    size: int

    def failure(
        self, fault: Fault, stream_id: str | None, id: str | None = None, number: int | None = 0
    ) -> str:
        """Return the `response.steer.failed` event that returns the input to the client.

        Args:
            fault: Why it was not added.
            stream_id: The lane of the response; None for the default one.
            id: Id that the provider has given the input; None if it has given none.
            number: The sequence number; None to omit it.
        """
        code, found = fault
        steer = {"previous_response_id": self.previous, "input": self.input}
        event = {
            "type": STEER_FAILED,
            **({} if number is None else {"sequence_number": number}),
            "error": {"type": "invalid_request_error", "code": code, "message": found},
            "steer": steer if id is None else {"id": id, **steer},
        }
        return compact(event | ({"stream_id": stream_id} if stream_id else {}))


def read_steer(data: bytes, limits: Limits) -> ClientSteer:
    """Read a `response.steer` message.

    Raises:
        RequestRefused: The message exceeds a bound.
    """
    with refusals():
        body = body_object(data, limits, finite=True)
    previous, given = body.get("previous_response_id"), body.get("input")
    items: tuple[Any, ...] = ()
    if isinstance(given, str) and given:
        items = ({"type": "message", "role": "user", "content": given},)
    elif is_array(given) and all(is_object(item) for item in given):
        items = tuple(given)
    return ClientSteer(previous if isinstance(previous, str) else None, given, items, len(data))


def prepend_input(create: Create, items: list[dict[str, Any]]) -> Create:
    """Return a `Create` with more items before its input."""
    body = create.request.decoded or {}
    own = body.get("input")
    own = [{"type": "message", "role": "user", "content": own}] if isinstance(own, str) else own
    return _with_fields(create, {"input": [*items, *(own if is_array(own) else ())]})


def successor_of(create: Create, previous: str, items: list[dict[str, Any]]) -> Create:
    """Return a `Create` for a successor response: a copy of `create` with the added items as input.

    Args:
        create: The create of the response before.
        previous: Id of that response, as the client knows it.
        items: The input that was added to it.
    """
    return _with_fields(create, {"previous_response_id": previous, "input": items})


def _with_fields(create: Create, fields: dict[str, Any]) -> Create:
    body = {**(create.request.decoded or {}), **fields}
    request = structs.replace(create.request, body=dumps(body), decoded=body)
    return structs.replace(create, request=request)


def _fault_of_steer(event: dict[str, Any]) -> Fault | None:
    """Return the fault of a `response.steer` in an `error` event; None for other faults.

    Args:
        event: The event, while a response runs and a steer is not acknowledged.
    """
    given = event.get("error")
    error: dict[str, Any] = given if is_object(given) else {}
    code, message, param = string_of(error, "code"), string_of(error, "message"), error.get("param")
    if code in _CODES:
        return code, message or NOT_SUPPORTED[1]
    if param == "type" or STEER in message:
        return NOT_SUPPORTED
    # An `error` event does not name the message that it answers.  Another code, such as
    # `context_length_exceeded` or `websocket_connection_limit_reached`, or a field of the create is
    # of the response or its connection.  Without either it is taken for the steer's: the form of a
    # response that fails once it has begun is `response.failed`.
    says_nothing = code in ("", error.get("type")) and not param
    return NOT_SUPPORTED if says_nothing else None


class _Steer(Struct):
    """Input that was sent to the provider, and whose outcome is not yet known.

    Attributes:
        asked: The message of the client.
        id: The provider's id; None until it has accepted the input.
    """

    asked: ClientSteer
    id: str | None = None


class Steering:
    """Input that a client adds to one `response.create`'s responses, until the outcome is known.

    Args:
        send: Sends a message on the connection of the create.

    Attributes:
        response_id: The provider's id of the response that runs, or has run last.
        is_active: Whether that response runs.
        target: The upstream; None before its answer is known.
        successors: The answers to the input that nobody reads yet, oldest first.
        queued: Items that belong to the create that has the results the response waits for.
        queued_bytes: Bytes of the messages that had them.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self.response_id = ""
        self.is_active = False
        self.target: Target | None = None
        self.successors: deque[SocketAnswer] = deque()
        self.queued: list[dict[str, Any]] = []
        self.queued_bytes = 0
        self._send = send
        self._open: list[_Steer] = []
        self._between: list[bytes] = []  # answers to steers between two responses
        self._free_bytes = 0  # of such answers

    @property
    def is_open(self) -> bool:
        """Whether the outcome of some added input is unknown."""
        return bool(self._open)

    def find_fault(self, asked: ClientSteer, max_bytes: int) -> Fault | None:
        """Return why a `response.steer` must not be sent to the provider; None if it may be sent.

        Args:
            asked: The message.
            max_bytes: Bound on the messages whose outcome is not known.
        """
        if not self.is_active:
            return OVER
        size = self.queued_bytes + sum([each.asked.size for each in self._open])
        if len(self._open) >= _MAX_STEERS or size + asked.size > max_bytes:
            found = f"{len(self._open)} steers are pending, expected fewer or smaller ones"
            return "too_many_pending_steers", found
        return None

    def add(self, asked: ClientSteer) -> bytes:
        """Store added input, and return the `response.steer` message for the provider."""
        self._open.append(_Steer(asked))
        self._free_bytes += _ECHOED_BYTES * asked.size + _ECHOED_FIELDS_BYTES
        fields = {"type": STEER, "previous_response_id": self.response_id, "input": asked.input}
        return dumps(fields)

    async def send(self, message: bytes) -> None:
        """Send a message to the provider; ignore a lost connection, which the reader reports."""
        with suppress(aiohttp.ClientError, ConnectionError):
            await self._send(message)

    # The messages of the provider

    def begin(self, response_id: str) -> list[dict[str, Any]]:
        """Record the start of a response; return the input items that the response answers."""
        self.response_id, self.is_active = response_id, True
        return self.commit()

    def commit(self) -> list[dict[str, Any]]:
        """Remove and return the accepted input items, which a successor response answers."""
        accepted = [each for each in self._open if each.id is not None]
        self._open = [each for each in self._open if each.id is None]
        return [item for each in accepted for item in each.asked.items]

    def read(self, kind: str, message: bytes) -> bytes:
        """Return the answer to a `response.steer`, with the response id that the client knows.

        Args:
            kind: Type of the event.
            message: The event.
        """
        event = object_in(message.decode(errors="replace"))
        given = event.get("steer")
        steer: dict[str, Any] = given if is_object(given) else {}
        id = steer.get("id")
        id = id if isinstance(id, str) else ""
        found = next((each for each in self._open if each.id == (id or None)), None)
        if found is None:  # the acknowledgements come in the order of the input
            found = next((each for each in self._open if each.id is None), None)
        if found is not None:
            if kind == _ACCEPTED:
                found.id = id
            elif kind in (_PENDING, STEER_FAILED):
                self._open.remove(found)
                if kind == _PENDING:
                    self.queued += found.asked.items
                    self.queued_bytes += found.asked.size
        if found is None or steer.get("previous_response_id") == found.asked.previous:
            return message
        return dumps({**event, "steer": {**steer, "previous_response_id": found.asked.previous}})

    def hold(self, message: bytes) -> None:
        """Store a provider's answer to a `response.steer` that arrived between two responses.

        Raises:
            RemoteProtocolError: The provider has sent more than the input and its acknowledgement.
        """
        self._free_bytes -= len(message)
        if self._free_bytes < 0:
            raise RemoteProtocolError("more answers to steers than there were steers")
        self._between.append(message)

    def take_held(self, stream_id: str | None) -> list[str]:
        """Remove and return the stored answers to `response.steer` messages, with the key masked.

        Args:
            stream_id: The lane of the responses; None for the default one.
        """
        held, self._between = self._between, []
        key = None if self.target is None else self.target.key
        if key is not None:
            held = [key.replace(each) for each in held]
        return [name_stream(each, stream_id).decode(errors="replace") for each in held]

    def refuse(self, error: dict[str, Any]) -> bytes | None:
        """Return the failure of the `response.steer` that an `error` event refuses, or None.

        Providers without steering answer it as any message of an unknown type, and the response
        goes on.

        Args:
            error: The event.
        """
        found = next((each for each in self._open if each.id is None), None)
        if found is None or not self.is_active or error.get("status") != 400:
            return None
        fault = _fault_of_steer(error)
        if fault is None:
            return None
        self._open.remove(found)
        # Within the response the numbers must not begin anew.
        number = count_of(error.get("sequence_number"))
        return found.asked.failure(fault, None, number=number).encode()

    # The end of the response

    async def has_successor(self, timeout_s: float) -> bool:
        """Wait until a successor response begins or can no longer begin; return whether it begins.

        Args:
            timeout_s: Seconds in which it has to begin.
        """
        if not self.successors:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                return await self.successors[0].may_begin()
        except TimeoutError:
            return False

    def take_failures(self, stream_id: str | None) -> list[str]:
        """Remove all input that nobody will answer; return the failures for the client.

        Args:
            stream_id: The lane of the response; None for the default one.
        """
        lost, self._open = self._open, []
        return [each.asked.failure(_LOST, stream_id, each.id or None) for each in lost]

    def close(self) -> None:
        """Close the answers of successor responses that nobody will read."""
        for successor in self.successors:
            successor.close()
