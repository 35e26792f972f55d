"""The betas that fields of a request need, in the version that the fields are written in.

https://platform.claude.com/docs/en/api/beta-headers (read 2026-11-22).  Which betas a server
knows, and which fields go with one that it does not know, is data of the profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.json import is_object, objects_of

__all__ = ["with_needed_betas"]

_Body: TypeAlias = "dict[str, Any]"


class _Beta(Struct, frozen=True):
    """A beta, and the field that needs it.

    Attributes:
        name: Name of the beta.
        is_needed: Returns whether a body has the field.
        also: Other betas that enable the field.
    """

    name: str
    is_needed: Callable[[_Body], bool]
    also: tuple[str, ...] = ()


def with_needed_betas(
    body: _Body, betas: tuple[str, ...], can: BodyCapabilities
) -> tuple[str, ...]:
    """Return betas, and those after them that fields of a body need."""
    known = can.allowed_betas
    for beta in _BETAS:
        names = [name for name in (beta.name, *beta.also) if known is None or name in known]
        if not any(name in betas for name in names) and beta.name in names and beta.is_needed(body):
            betas = (*betas, beta.name)
    return betas


def _tool_types(body: _Body) -> Iterator[str]:
    for tool in objects_of(body.get("tools")):
        if isinstance(kind := tool.get("type"), str):
            yield kind


def _has_toolset(body: _Body) -> bool:
    return "mcp_toolset" in _tool_types(body)


def _has_servers_alone(body: _Body) -> bool:
    return bool(body.get("mcp_servers")) and not _has_toolset(body)


def _has_tool(*prefixes: str) -> Callable[[_Body], bool]:
    return lambda body: any(kind.startswith(prefixes) for kind in _tool_types(body))


def _has_edit(*, compacts: bool) -> Callable[[_Body], bool]:
    """Return a function that says whether a body has edits that compact, or other edits."""

    def has_edit(body: _Body) -> bool:
        management = body.get("context_management")
        edits = objects_of(management.get("edits")) if is_object(management) else []
        return any(str(edit.get("type")).startswith("compact_") is compacts for edit in edits)

    return has_edit


def _has_system_field(field: str) -> Callable[[_Body], bool]:
    """Return a function that says whether a system message of a body has a field."""
    return lambda body: any(field in message for message in _system_messages(body))


def _has_tool_change(body: _Body) -> bool:
    return any(
        block.get("type") in ("tool_addition", "tool_removal")
        for message in _system_messages(body)
        for block in objects_of(message["content"])
    )


def _system_messages(body: _Body) -> Iterator[_Body]:
    return (message for message in body["messages"] if message["role"] == "system")


def _has(owner: str, field: str) -> Callable[[_Body], bool]:
    def has(body: _Body) -> bool:
        value = body.get(owner)
        return is_object(value) and value.get(field) is not None

    return has


def _has_updates(body: _Body) -> bool:
    thinking = body.get("thinking")
    return is_object(thinking) and thinking.get("display") == "updates"


_MCP = ("mcp-client-2025-11-20", "mcp-client-2026-09-15")
_COMPUTER_TOOLS = ("computer_20241022", "bash_20241022", "text_editor_20241022")

_BETAS = (
    _Beta(_MCP[0], _has_toolset, _MCP),
    # Before there were toolsets, a server had the names of its tools.
    _Beta("mcp-client-2025-04-04", _has_servers_alone, _MCP),
    _Beta("context-management-2025-06-27", _has_edit(compacts=False)),
    _Beta("compact-2026-01-12", _has_edit(compacts=True)),
    _Beta(
        "mid-conversation-output-config-2026-07-01",
        _has_system_field("output_config"),
        ("per-turn-control-2026-07-01",),  # as Claude Code names it
    ),
    _Beta("mid-conversation-system-clear-at-2026-08-21", _has_system_field("clear_at")),
    _Beta("mid-conversation-tool-changes-2026-07-01", _has_tool_change),
    _Beta("thinking-binding-controls-2026-08-01", _has("thinking", "block_binding")),
    _Beta("thinking-display-updates-2026-08-18", _has_updates),
    _Beta("task-budgets-2026-03-13", _has("output_config", "task_budget")),
    _Beta("advisor-tool-2026-03-01", _has_tool("advisor_")),
    _Beta("computer-use-2024-10-22", _has_tool(*_COMPUTER_TOOLS)),
    _Beta("computer-use-2025-01-24", _has_tool("computer_20250124")),
    _Beta("computer-use-2025-11-24", _has_tool("computer_20251124")),
)
