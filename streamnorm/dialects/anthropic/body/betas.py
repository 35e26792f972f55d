"""The betas that fields of a request belong to: both are written, or neither is.

https://platform.claude.com/docs/en/api/beta-headers (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm._core.losses import Losses

__all__ = ["settle_betas"]

_Body: TypeAlias = "dict[str, Any]"
_Without: TypeAlias = Callable[[_Body], _Body]


class _Beta(Struct, frozen=True):
    """A beta, and the field that it enables.

    Attributes:
        name: Name of the beta.
        feature: Name of the field, in losses.
        without: Returns a body without the field: the same body if it has none.
        also: Other betas that enable the field.
    """

    name: str
    feature: str
    without: _Without
    also: tuple[str, ...] = ()


def settle_betas(
    body: _Body, betas: tuple[str, ...], can: BodyCapabilities, losses: Losses
) -> tuple[_Body, list[str]]:
    """Return a body and its betas, each field with its beta.

    A field whose beta the server does not know is dropped, and a missing beta is added.
    """
    known = can.allowed_betas
    names = [name for name in betas if known is None or name in known]
    for _ in range(len(betas) - len(names)):
        losses.add("beta", "request", "not known to the server")
    for beta in _BETAS:
        without = beta.without(body)
        if without is body or any(name in names for name in (beta.name, *beta.also)):
            continue
        if known is None or beta.name in known:
            names.append(beta.name)
        else:
            losses.add(beta.feature, "request", "dropped with its beta")
            body = without
    return body, names


def _without(body: _Body, name: str, field: str) -> _Body:
    """Return a body without a field of one of its objects, nor the object if that is empty."""
    owner = body.get(name)
    if not is_object(owner) or owner.get(field) is None:
        return body
    return _replaced(body, name, {key: item for key, item in owner.items() if key != field})


def _replaced(body: _Body, name: str, value: Any) -> _Body:
    """Return a body with another value of a field; without the field if that is empty."""
    if value:
        return {**body, name: value}
    return {key: item for key, item in body.items() if key != name}


def _without_mcp(body: _Body) -> _Body:
    body = _without_tools("mcp_toolset")(body)
    return _replaced(body, "mcp_servers", None) if body.get("mcp_servers") else body


def _without_servers(body: _Body) -> _Body:
    """Return a body without MCP servers, where none has a toolset."""
    return body if _without_tools("mcp_toolset")(body) is not body else _without_mcp(body)


def _without_toolsets(body: _Body) -> _Body:
    return body if _without_tools("mcp_toolset")(body) is body else _without_mcp(body)


def _without_tools(*prefixes: str) -> _Without:
    """Return a function that removes the tools whose types have one of the prefixes."""

    def without(body: _Body) -> _Body:
        tools = body.get("tools")
        if not is_array(tools):
            return body
        left = [
            tool
            for tool in tools
            if not (is_object(tool) and str(tool.get("type")).startswith(prefixes))
        ]
        return body if len(left) == len(tools) else _replaced(body, "tools", left)

    return without


def _without_edits(*, compaction: bool) -> _Without:
    """Return a function that removes the edits of the context that compact it, or the others."""

    def without(body: _Body) -> _Body:
        management = body.get("context_management")
        edits = objects_of(management.get("edits")) if is_object(management) else []
        left = [
            edit for edit in edits if str(edit.get("type")).startswith("compact_") is not compaction
        ]
        if not is_object(management) or len(left) == len(edits):
            return body
        return _replaced(body, "context_management", left and {**management, "edits": left})

    return without


def _without_in_system(field: str) -> _Without:
    """Return a function that removes a field of messages with the role `system`."""

    def without(body: _Body) -> _Body:
        return _with_system(
            body, lambda m: {key: v for key, v in m.items() if key != field} if field in m else m
        )

    return without


def _without_tool_changes(body: _Body) -> _Body:
    return _with_system(body, _without_tool_change)


def _without_tool_change(message: _Body) -> _Body | None:
    content = message.get("content")
    if not is_array(content):
        return message
    left = [
        block
        for block in content
        if not (is_object(block) and block.get("type") in ("tool_addition", "tool_removal"))
    ]
    if len(left) == len(content):
        return message
    return {**message, "content": left} if left else None


def _with_system(body: _Body, change: Callable[[_Body], _Body | None]) -> _Body:
    """Return a body whose messages with the role `system` are changed; None removes one."""
    messages = [
        change(message) if message["role"] == "system" else message for message in body["messages"]
    ]
    if all(new is old for new, old in zip(messages, body["messages"], strict=True)):
        return body
    return {**body, "messages": [message for message in messages if message is not None]}


def _without_updates(body: _Body) -> _Body:
    thinking = body.get("thinking")
    if not is_object(thinking) or thinking.get("display") != "updates":
        return body
    return {**body, "thinking": {**thinking, "display": "summarized"}}


_MCP = "mcp-client-2025-11-20"
_NEXT_MCP = "mcp-client-2026-09-15"
_COMPUTER = ("computer_", "bash_", "text_editor_")

_BETAS = (
    _Beta(_MCP, "mcp_server_dropped", _without_toolsets, (_NEXT_MCP,)),
    # Before there were toolsets, a server had the names of its tools.
    _Beta("mcp-client-2025-04-04", "mcp_server_dropped", _without_servers, (_MCP, _NEXT_MCP)),
    _Beta("context-management-2025-06-27", "context_management", _without_edits(compaction=False)),
    _Beta("compact-2026-01-12", "compact_at_tokens", _without_edits(compaction=True)),
    _Beta(
        "mid-conversation-output-config-2026-07-01",
        "output_config",
        _without_in_system("output_config"),
    ),
    _Beta(
        "mid-conversation-system-clear-at-2026-08-21", "clear_at", _without_in_system("clear_at")
    ),
    _Beta("mid-conversation-tool-changes-2026-07-01", "tool_changes", _without_tool_changes),
    _Beta(
        "thinking-binding-controls-2026-08-01",
        "block_binding",
        lambda body: _without(body, "thinking", "block_binding"),
    ),
    _Beta("thinking-display-updates-2026-08-18", "display", _without_updates),
    _Beta(
        "task-budgets-2026-03-13",
        "task_budget",
        lambda body: _without(body, "output_config", "task_budget"),
    ),
    _Beta("advisor-tool-2026-03-01", "server_tool_dropped", _without_tools("advisor_")),
    *(
        _Beta(
            f"computer-use-{date[:4]}-{date[4:6]}-{date[6:]}",
            "server_tool_dropped",
            _without_tools(*(prefix + date for prefix in prefixes)),
        )
        for date, prefixes in (
            ("20241022", _COMPUTER),
            ("20250124", ("computer_",)),
            ("20251124", ("computer_",)),
        )
    ),
)
