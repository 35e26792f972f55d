"""A provider that can be steered, and the messages of a client that steers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection

from support.gateway.socket_upstream import SocketUpstream, event, response_events, text_item
from support.gateway.sockets import Socket, create

__all__ = [
    "LONG",
    "STEER",
    "accepted",
    "answering",
    "begin",
    "failed",
    "following",
    "pending",
    "send",
    "steered_end",
    "steers",
    "stop",
    "until",
]

Reply = Callable[[SocketUpstream, ServerConnection, dict[str, Any]], Awaitable[None]]

STEER = {"type": "response.steer", "input": "Stop."}
LONG = text_item("Long", "msg_1")


def accepted(id: str = "resp_1", steer: str = "steer_1", **fields: Any) -> dict[str, Any]:
    """Return the acknowledgement of a steer."""
    submission = {"id": steer, "previous_response_id": id}
    return event("response.steer.accepted", sequence_number=4, steer=submission, **fields)


def failed(code: str, id: str = "resp_1", steer: str | None = None) -> dict[str, Any]:
    """Return the failure of a steer."""
    submission = {"previous_response_id": id, "input": "Stop."}
    submission |= {} if steer is None else {"id": steer}
    error = {"type": "invalid_request_error", "code": code, "message": "No."}
    return event("response.steer.failed", sequence_number=5, steer=submission, error=error)


def pending(id: str = "resp_1", steer: str = "steer_1") -> dict[str, Any]:
    """Return the event of input that waits for a result."""
    submission = {"id": steer, "previous_response_id": id}
    stub = {"type": "function_call_output", "call_id": "c1", "name": "get_weather"}
    fields = {"reason": "waiting_for_required_input", "required_input": [stub]}
    return event("response.steer.pending", sequence_number=9, steer=submission, **fields)


def steered_end(id: str = "resp_1") -> dict[str, Any]:
    """Return the terminal of a response that is steered."""
    details = {"reason": "steered"}
    return response_events(id, [LONG], "incomplete", incomplete_details=details)[-1]


def answering(on_steer: Reply) -> Reply:
    """Return an answer that begins a response with each create, and ends it at a steer."""

    async def answer(
        upstream: SocketUpstream, socket: ServerConnection, sent: dict[str, Any]
    ) -> None:
        if sent["type"] == "response.steer":
            await on_steer(upstream, socket, sent)
            return
        creates = [each for each in upstream.creates if each["type"] == "response.create"]
        events = response_events(f"resp_{len(creates)}", [LONG])
        await upstream.send(socket, *(events[:4] if len(creates) == 1 else events))

    return answer


def following(id: str, text: str, previous: str) -> list[dict[str, Any]]:
    """Return the events of a successor."""
    return response_events(id, [text_item(text, f"msg_{id}")], previous_response_id=previous)


async def stop(upstream: SocketUpstream, socket: ServerConnection, sent: dict[str, Any]) -> None:
    """Accept a steer, end the response, and send its successor."""
    successor = following("resp_9", "Stopped.", "resp_1")
    await send(upstream, socket, accepted(), steered_end(), *successor)


async def send(
    upstream: SocketUpstream, socket: ServerConnection, *events: dict[str, Any], start: int = 4
) -> None:
    """Send the events that follow the first ones of a response, numbered in their order."""
    numbered: list[dict[str, Any]] = []
    for each in events:
        start = 0 if each["type"] == "response.created" else start
        numbered.append({**each, "sequence_number": start})
        start += 1
    await upstream.send(socket, *numbered)


async def until(socket: Socket, *kinds: str) -> list[dict[str, Any]]:
    """Return the events up to the first of a type."""
    events = [await socket.next()]
    while events[-1]["type"] not in kinds:
        events.append(await socket.next())
    return events


async def begin(socket: Socket, **fields: Any) -> str:
    """Send a create, and return the id of its response once it has a part of its text."""
    await socket.say(create(**fields))
    events = await until(socket, "response.output_text.delta")
    id: str = events[0]["response"]["id"]
    return id


def steers(upstream: SocketUpstream) -> list[dict[str, Any]]:
    return [each for each in upstream.creates if each["type"] == "response.steer"]
