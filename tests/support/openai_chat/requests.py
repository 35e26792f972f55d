"""Requests of Chat Completions: decoded, stripped of sources, and encoded."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm import Request
from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.request import InputMessage, Role
from streamnorm._core.codec import ReadContext, WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.openai_chat.body import CODEC

__all__ = [
    "asked",
    "body_of",
    "lost_by",
    "message",
    "read",
    "read_message",
    "without_source",
    "write",
]


def body_of(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request's body."""
    return {"model": "m", "messages": list(messages), **fields}


def read(body: dict[str, Any]) -> Request:
    """Decode a request body."""
    return CODEC.read_request(body, ReadContext())


def read_message(value: Any) -> InputMessage:
    """Decode a message, without its source."""
    (message,) = read(body_of(value)).messages
    return structs.replace(message, source=None)


def without_source(request: Request) -> Request:
    """Return a request without decoded sources."""
    return structs.replace(
        request,
        source=None,
        messages=tuple(structs.replace(part, source=None) for part in request.messages),
        tools=tuple(structs.replace(part, source=None) for part in request.tools),
    )


def message(role: Role, *blocks: InputBlock, **fields: Any) -> InputMessage:
    """Return a message of a request."""
    return InputMessage(role, blocks, **fields)


def asked(*messages: InputMessage, **fields: Any) -> Request:
    """Return a unified request of no dialect."""
    return Request(model="m", messages=messages, **fields)


def write(request: Request, losses: Losses | None = None, **target: Any) -> dict[str, Any]:
    """Encode a request, for a target with other capabilities if given."""
    capabilities = structs.replace(CODEC.capabilities, **target)
    context = WriteContext(capabilities, losses if losses is not None else Losses())
    return CODEC.write_request(request, context).body


def lost_by(request: Request, **target: Any) -> list[str]:
    """Return the features that a request loses in encoding."""
    losses = Losses()
    write(request, losses, **target)
    return [loss.feature for loss in losses.list()]
