"""Requests of Anthropic as bodies and as unified values."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import structs

from streamnorm import InputMessage, Request
from streamnorm._core.bodies.request import is_same_dialect
from streamnorm._core.codec import ReadContext, WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.anthropic.body import CODEC
from streamnorm.dialects.anthropic.body.request import read_request, write_request
from support.bodies.sdk_types import problems

__all__ = ["Body", "Wrote", "asked", "block_in", "parts_of", "read", "rewritten", "write"]

Body = dict[str, Any]

HELLO: Body = {"role": "user", "content": "Hello"}


def asked(**fields: Any) -> Body:
    """Return a request body with some fields."""
    return {"model": "claude-1", "max_tokens": 9, "messages": [HELLO], **fields}


def read(headers: dict[str, str] | None = None, **fields: Any) -> Request:
    """Decode a request body with some fields."""
    return read_request(asked(**fields), ReadContext(headers=headers or {}))


def block_in(block: Body, role: str = "user") -> Any:
    """Return the unified block of a wire block."""
    (message,) = read(messages=[{"role": role, "content": [block]}]).messages
    (found,) = message.blocks
    return found


def parts_of(request: Request) -> Request:
    """Return an equal request without decoded sources."""
    return structs.replace(
        request,
        source=None,
        messages=tuple(structs.replace(message, source=None) for message in request.messages),
        tools=tuple(structs.replace(tool, source=None) for tool in request.tools),
    )


class Wrote(NamedTuple):
    """An encoded request.

    Attributes:
        body: The body.
        betas: The betas in the header.
        losses: Features that were lost, each with its detail.
    """

    body: Body
    betas: list[str]
    losses: list[tuple[str, str]]


def write(request: Request, **narrowed: Any) -> Wrote:
    """Encode a request, for a target with some other capabilities."""
    losses = Losses()
    target = structs.replace(CODEC.capabilities, **narrowed)
    written = write_request(request, WriteContext(target, losses))
    assert written.path == "/v1/messages"
    header = written.headers.get("anthropic-beta", "")
    assert set(written.headers) <= {"anthropic-beta"}
    return Wrote(
        written.body,
        header.split(",") if header else [],
        [(loss.feature, loss.detail) for loss in losses.list()],
    )


def rewritten(**fields: Any) -> Body:
    """Return a body with some fields after decoding and encoding.

    Nothing may be lost, and where the SDK's types accept what was read, they must accept what
    is written.
    """
    request = parts_of(read(**fields))
    assert not any(map(is_own_message, request.messages))
    body, _, losses = write(request)
    assert losses == []
    if not problems("anthropic", asked(**fields), beta=True):
        assert problems("anthropic", body, beta=True) == []
    return body


def is_own_message(message: InputMessage) -> bool:
    """Return whether a message would be encoded unchanged."""
    return is_same_dialect(message, "anthropic")
