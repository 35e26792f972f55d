"""Responses requests, decoded and encoded."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct, structs

from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.codec import ReadContext, WriteContext
from streamnorm._core.losses import Loss, Losses
from streamnorm._core.tools import AnyTool
from streamnorm.dialects.openai_responses.body import CODEC

__all__ = [
    "bare",
    "read",
    "read_items",
    "read_tool",
    "unread",
    "within_the_types",
    "write",
    "write_items",
]

P = TypeVar("P", bound=Struct)


def read(body: dict[str, Any], **context: Any) -> Request:
    """Decode a request body."""
    return CODEC.read_request(body, ReadContext(**context))


def read_items(*items: Any, **fields: Any) -> tuple[InputMessage, ...]:
    """Return the messages of input items, without their sources."""
    request = read({"input": [*items], **fields})
    return tuple(map(bare, request.messages))


def read_tool(tool: dict[str, Any]) -> AnyTool:
    """Return a request's only tool, without its source."""
    (found,) = read({"input": [], "tools": [tool]}).tools
    return bare(found)


def write(request: Request, losses: Losses | None = None) -> dict[str, Any]:
    """Encode a request; assert that nothing is lost unless `losses` is given."""
    known = Losses() if losses is None else losses
    written = CODEC.write_request(request, WriteContext(CODEC.capabilities, known))
    assert written.path == "/v1/responses"
    lost: tuple[Loss, ...] = () if losses is not None else known.list()
    assert lost == ()
    return written.body


def write_items(*messages: InputMessage, losses: Losses | None = None) -> list[dict[str, Any]]:
    """Return messages as input items."""
    items: list[dict[str, Any]] = write(Request(messages=messages), losses)["input"]
    return items


def within_the_types(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without fields that the API has and the SDK's types lack.

    They demand an id of reasoning, and have no choice of the tool `web_search`.
    """
    items = [
        {"id": "rs_unknown", **item} if item.get("type") == "reasoning" else item
        for item in body.get("input", ())
    ]
    changed = {**body, "input": items}
    if body.get("tool_choice") == {"type": "web_search"}:
        changed["tool_choice"] = {"type": "web_search_preview"}
    return changed


def bare(part: P) -> P:
    """Return a part of a request without its decoded source."""
    return structs.replace(part, source=None)


def unread(request: Request) -> Request:
    """Return a request whose parts have no decoded sources."""
    messages = tuple(map(bare, request.messages))
    return bare(structs.replace(request, messages=messages, tools=tuple(map(bare, request.tools))))
