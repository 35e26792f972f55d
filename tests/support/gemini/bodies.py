"""Whole bodies of Gemini: decoded, encoded, and judged by the SDK's types."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.bodies.tool_calls import ArgumentsPolicy
from streamnorm._core.codec import ReadContext, WriteContext
from streamnorm._core.losses import Losses
from streamnorm._core.tools import AnyTool
from streamnorm.dialects.gemini.body import CODEC
from support.bodies.sdk_types import problems

__all__ = [
    "Written",
    "blocks_of",
    "contents_of",
    "read",
    "request_of",
    "without_source",
]


def read(body: dict[str, Any], path: str = "") -> Request:
    """Decode a request body."""
    return CODEC.read_request(body, ReadContext(path=path))


def blocks_of(*parts: dict[str, Any], role: str = "user") -> tuple[InputBlock, ...]:
    """Return the blocks of a content."""
    return read({"contents": [{"role": role, "parts": list(parts)}]}).messages[0].blocks


def without_source(request: Request) -> Request:
    """Return a request without decoded sources."""
    messages = tuple(structs.replace(message, source=None) for message in request.messages)
    tools: tuple[AnyTool, ...] = tuple(structs.replace(tool, source=None) for tool in request.tools)
    return structs.replace(request, source=None, messages=messages, tools=tools)


def request_of(*blocks: InputBlock, role: Any = "user", **fields: Any) -> Request:
    """Return a request with one message."""
    return Request(messages=(InputMessage(role, blocks),), **fields)


class Written:
    """An encoded request, judged by the SDK's types.

    Args:
        request: The request, as the projection would leave it.
        arguments: Policy for arguments that are no JSON object.
        typed: Whether the SDK's types know all of the body.
        target: Capabilities other than the room's.

    Attributes:
        body: The body.
        path: The path of the endpoint.
        lost: Number of losses by feature.
    """

    def __init__(
        self,
        request: Request,
        *,
        arguments: ArgumentsPolicy = "error",
        typed: bool = True,
        **target: Any,
    ) -> None:
        losses = Losses()
        capabilities = structs.replace(CODEC.capabilities, **target)
        written = CODEC.write_request(request, WriteContext(capabilities, losses, arguments))
        self.body, self.path = written.body, written.path
        self.lost = Counter[str]()
        for loss in losses.list():
            self.lost[loss.feature] += loss.count
        assert not typed or problems("gemini", self.body) == []


def contents_of(*blocks: InputBlock, role: Any = "user") -> list[dict[str, Any]]:
    """Return the parts to which one message's blocks are encoded, without a loss."""
    written = Written(request_of(*blocks, role=role))
    assert not written.lost
    parts: list[dict[str, Any]] = written.body["contents"][0]["parts"]
    return parts
