"""Targets for projections, and helpers to project requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import InputBlock, Text, ToolCall, ToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection import project_request
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.bodies.request import InputMessage, Reply, Request, Source
from streamnorm._core.losses import Losses

ALL_FIELDS = frozenset(Request.__struct_fields__)
EVERYTHING = BodyCapabilities(
    dialect="target",
    fields=ALL_FIELDS,
    roles=frozenset({"user", "assistant", "system", "developer"}),
    inline_system="message",
    names=True,
    image_details=frozenset({"low", "high"}),
    text_documents=True,
    audio=True,
    video=True,
    assistant_media=True,
    file_issuer="vendor",
    refusal=True,
    citations=frozenset({"known"}),
    mixed_results=True,
    result_media=frozenset({"image", "document", "audio", "video"}),
    error_results=True,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    server_tools={"web_search": frozenset({"allowed_domains"})},
    mcp_servers=frozenset({"authorization", "headers", "allowed_tools", "require_approval"}),
    server_history=True,
    restricted_choice=True,
    thinking="adaptive",
    reasoning_issuer="vendor",
    signed=frozenset({"text", "tool_call"}),
    marks=frozenset(
        [
            "system",
            "tool",
            "assistant",
            "text",
            "image",
            "document",
            "tool_call",
            "tool_result",
            "reasoning",
        ]
    ),
    mark_ttls={"": "", "5m": "5m", "1h": "1h", "12h": "1h"},
    max_marks=9,
    service_tiers={"auto": "auto", "default": "standard"},
)
"""A target that loses next to nothing; tests take away what they are about."""


class Projection:
    """A projected request.

    Args:
        request: The request.
        repair: Policy for tool results.
        missing_tools: Policy for tools of the provider that the target lacks.
        same_target: Whether the request was written for the target.
        named: Whether the target is known by its name.
        capabilities: Capabilities that are not those of `EVERYTHING`.

    Attributes:
        request: The projected request.
        reply: The way back.
        losses: The losses.
        lost: Names of the losses, with their counts.
    """

    def __init__(
        self,
        request: Request,
        repair: RepairPolicy = "error",
        *,
        missing_tools: MissingTools = "error",
        same_target: bool = False,
        named: bool = False,
        **capabilities: Any,
    ) -> None:
        losses = Losses()
        target = structs.replace(EVERYTHING, **capabilities)
        self.request: Request
        self.reply: Reply
        self.request, self.reply = project_request(
            request,
            target,
            losses,
            repair=repair,
            missing_tools=missing_tools,
            same_target=same_target,
            named=named,
        )
        self.losses = losses.list()
        self.lost: Counter[str] = Counter()
        for loss in self.losses:
            self.lost[loss.feature] += loss.count

    @property
    def messages(self) -> list[tuple[str, tuple[InputBlock, ...]]]:
        """Roles and blocks of the messages."""
        return [(message.role, message.blocks) for message in self.request.messages]


def user(*blocks: InputBlock | str, **fields: Any) -> InputMessage:
    """Return a user message."""
    return InputMessage("user", _blocks(blocks), **fields)


def assistant(*blocks: InputBlock | str, **fields: Any) -> InputMessage:
    """Return an assistant message."""
    return InputMessage("assistant", _blocks(blocks), **fields)


def system(*blocks: InputBlock | str, **fields: Any) -> InputMessage:
    """Return a system message."""
    return InputMessage("system", _blocks(blocks), **fields)


def request(*messages: InputMessage, **fields: Any) -> Request:
    """Return a request."""
    return Request(messages=messages, **fields)


def own(part: Any) -> Any:
    """Return a part as if decoded from the target's dialect."""
    return structs.replace(part, source=Source("target", {}, part))


def call(id: str, name: str = "f", **fields: Any) -> ToolCall:
    """Return a function call."""
    return ToolCall(id, name, "{}", **fields)


def result(id: str, text: str = "ok", **fields: Any) -> ToolResult:
    """Return a tool result with one text."""
    return ToolResult(id, (Text(text),), **fields)


def _blocks(blocks: tuple[InputBlock | str, ...]) -> tuple[InputBlock, ...]:
    return tuple(Text(block) if isinstance(block, str) else block for block in blocks)
