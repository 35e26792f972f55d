"""Names of tools that the target accepts, and the way back to the client's names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.reply import ToolName
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    MCPServer,
    ServerTool,
    Tool,
    qualified_name,
)

__all__ = ["ToolNames"]

_SEPARATOR = "__"
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
# With the separator and eight digits of a hash 50: within the bounds of all vendors.
_KEPT_CHARS = 40


class ToolNames:
    """The names of one request's tools in the target dialect.

    A name depends on the tool alone, so that a call in the history has the name that it had
    when the tool was offered, whatever else the request offers.

    Args:
        tools: The tools that the request offers.
        can: Capabilities of the target.
        losses: Counts namespaces that are flattened, and names that are changed.

    Raises:
        EncodeError: Two tools would have the same name.

    Attributes:
        reply: The client's tools whose name or kind is changed, by the name in the target.
    """

    def __init__(self, tools: Sequence[AnyTool], can: BodyCapabilities, losses: Losses) -> None:
        self.reply: dict[str, ToolName] = {}
        self._can = can
        self._pattern = None if can.name_pattern is None else re.compile(can.name_pattern)
        self._names: dict[tuple[str, str | None], str] = {}
        self._flattened: set[str] = set()
        offered: dict[str, tuple[str, str | None]] = {}
        for number, tool in enumerate(tools):
            if not isinstance(tool, Tool | CustomTool):
                continue
            namespace = None if tool.namespace is None else tool.namespace.name
            asked = (tool.name, namespace)
            name = self.of(*asked)
            if (name != tool.name or name in self.reply) and offered.get(name, asked) != asked:
                raise EncodeError(
                    "name of another tool, expected one of its own", path=f"tools[{number}]"
                )
            offered[name] = asked
            self._note(name, tool, namespace, losses)
        self._offered = offered
        self._has_unnamed = any(map(_has_no_name, tools))

    def may_offer(self, name: str) -> bool:
        """Return whether the target may know a tool by a name."""
        return name in self._offered or self._has_unnamed

    def of(self, name: str, namespace: str | None) -> str:
        """Return the name of a tool in the target."""
        asked = (name, namespace)
        known = self._names.get(asked)
        if known is None:
            known = self._names[asked] = self._legal(name, namespace)
        return known

    def _legal(self, name: str, namespace: str | None) -> str:
        qualified = qualified_name(name, namespace)
        if not self._can.namespaces:
            name = qualified
        if self._pattern is None or self._pattern.fullmatch(name):
            return name
        digest = blake2b(qualified.encode("utf-8", "replace"), digest_size=4).hexdigest()
        # Some vendors want a letter or an underscore first.
        start = _ILLEGAL.sub("_", name[:_KEPT_CHARS]).lstrip("-0123456789") or "tool"
        return f"{start}{_SEPARATOR}{digest}"

    def _note(
        self, name: str, tool: Tool | CustomTool, namespace: str | None, losses: Losses
    ) -> None:
        """Count what a tool's name loses, and add the tool to the reply if it is changed."""
        is_wrapped = isinstance(tool, CustomTool) and not self._can.custom_tools
        is_flat = namespace is not None and not self._can.namespaces
        if is_flat:
            losses.add("namespace_flattened", "tools", "written before the name")
        if namespace is not None and is_flat and namespace not in self._flattened:
            self._flattened.add(namespace)
            if tool.namespace is not None and tool.namespace.description:
                losses.add("namespace_flattened", "tools", "its description dropped")
        if name != (qualified_name(tool.name, namespace) if is_flat else tool.name):
            losses.add("tool_renamed", "tools", "written with a legal name")
        if is_wrapped or name != tool.name:
            is_custom = isinstance(tool, CustomTool)
            self.reply[name] = ToolName(tool.name, namespace, is_custom)


def _has_no_name(tool: AnyTool) -> bool:
    """Return whether a tool stands for tools whose names the request does not say."""
    return isinstance(tool, MCPServer) or (isinstance(tool, ServerTool) and "name" not in tool.data)
