"""Projection of tools and of the tool choice: legal names, kinds and schemas.

`ToolNames` maps each tool to its name in the target, and records the names to restore in the
response; `project_tools` reduces the tools, `project_choice` the choice among them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection.options import ToolSchemas
from streamnorm._core.bodies.projection.reasoning_options import is_reasoning
from streamnorm._core.bodies.request import (
    Request,
    ToolName,
    drop_foreign_fields,
    is_same_dialect,
    same_parts,
)
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_object
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.properties import legal_properties, rename_schema
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    MCPServer,
    ServerTool,
    Tool,
    ToolChoice,
    qualified_name,
)

_SEPARATOR = "__"
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
# 50 characters with the separator and eight digits of a hash: within the bounds of all vendors.
_KEPT_CHARS = 40

MissingTools: TypeAlias = Literal["error", "drop"]
"""Policy for a request that offers only tools of its provider, or forces one, if the target lacks
them: an error, or the model answers without them."""
T = TypeVar("T", Tool, CustomTool)

_WRAPPED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
_MAX_NAME_CHARS = 40
_MCP = "mcp"  # as the kind of a choice

# Fields of a server tool that a target may lack.
_SERVER_FIELDS = (
    "allowed_domains",
    "blocked_domains",
    "max_uses",
    "user_location",
    "search_context_size",
)

# Fields of vendors' server tools that `ServerTool` has, some under other names.
_MAPPED = frozenset(
    {"type", "name", "filters", "server_label", "excludeDomains", *ServerTool.__struct_fields__}
)


class ToolNames:
    """The names of one request's tools in the target dialect.

    A name depends on the tool alone, so that a call in the history has the name that it had
    when the tool was offered, whatever else the request offers.

    Args:
        tools: The tools that the request offers.
        target: Capabilities of the target.
        losses: Counter of flattened namespaces and changed names.

    Raises:
        EncodeError: Two tools would have the same name.

    Attributes:
        reply: Tools whose name or kind changes, by the name in the target.
    """

    def __init__(self, tools: Sequence[AnyTool], target: BodyCapabilities, losses: Losses) -> None:
        self.reply: dict[str, ToolName] = {}
        self._target = target
        self._pattern = None if target.name_pattern is None else re.compile(target.name_pattern)
        self._properties: dict[str, dict[str, str]] = {}  # legal names, by the target's tool
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
            self._record_original_name(name, tool, namespace, losses)
        self._offered = offered
        self._has_unnamed = any(map(_has_no_name, tools))

    def properties_of(self, name: str) -> dict[str, str]:
        """Return the names to write in place of properties of a tool with this name."""
        return self._properties.get(name, {})

    def may_offer(self, name: str) -> bool:
        """Return whether a tool with this name may be among the tools offered to the target."""
        return name in self._offered or self._has_unnamed

    def of(self, name: str, namespace: str | None) -> str:
        """Return the target's name of a tool."""
        asked = (name, namespace)
        known = self._names.get(asked)
        if known is None:
            known = self._names[asked] = self._legalize(name, namespace)
        return known

    def _legalize(self, name: str, namespace: str | None) -> str:
        qualified = name if namespace is None else qualified_name(name, namespace)
        if not self._target.namespaces:
            name = qualified
        if self._pattern is None or self._pattern.fullmatch(name):
            return name
        digest = blake2b(qualified.encode("utf-8", "replace"), digest_size=4).hexdigest()
        # Gemini's names begin with a letter or an underscore.
        start = _ILLEGAL.sub("_", name[:_KEPT_CHARS]).lstrip("-0123456789") or "tool"
        return f"{start}{_SEPARATOR}{digest}"

    def _record_original_name(
        self, name: str, tool: Tool | CustomTool, namespace: str | None, losses: Losses
    ) -> None:
        """Count losses in a tool's name, and record the original name for the response."""
        is_wrapped = isinstance(tool, CustomTool) and not self._target.custom_tools
        is_flat = namespace is not None and not self._target.namespaces
        if is_flat:
            losses.add("namespace_flattened", "tools", "written before the name")
        if namespace is not None and is_flat and namespace not in self._flattened:
            self._flattened.add(namespace)
            if tool.namespace is not None and tool.namespace.description:
                losses.add("namespace_flattened", "tools", "its description dropped")
        if name != (qualified_name(tool.name, namespace) if is_flat else tool.name):
            losses.add("tool_renamed", "tools", "written with a legal name")
        legal = self._legalize_properties(tool)
        properties: dict[str, str] | None = None
        if legal:
            losses.add("property_renamed", "tools", "written with a legal name")
            self._properties[name] = legal
            properties = {new: old for old, new in legal.items()}
        if is_wrapped or name != tool.name or properties is not None:
            is_custom = isinstance(tool, CustomTool)
            self.reply[name] = ToolName(tool.name, namespace, is_custom, properties)

    def _legalize_properties(self, tool: Tool | CustomTool) -> dict[str, str]:
        pattern = self._target.property_pattern
        if pattern is None or not isinstance(tool, Tool) or tool.input_schema is None:
            return {}
        return legal_properties(tool.input_schema, re.compile(pattern))


def _has_no_name(tool: AnyTool) -> bool:
    """Return whether a tool, such as an MCP server, has no name of its own."""
    return isinstance(tool, MCPServer) or (isinstance(tool, ServerTool) and "name" not in tool.data)


def project_tools(
    request: Request, target: BodyCapabilities, names: ToolNames, losses: Losses
) -> tuple[AnyTool, ...]:
    """Return the tools of a request in forms that the target accepts.

    Raises:
        EncodeError: There are more tools than the target allows, or a schema has no legal form.
    """
    tools = request.tools
    schemas = ToolSchemas(target, losses, request.output)
    projected: list[AnyTool] = []
    searches = any(
        isinstance(tool, ServerTool)
        and tool.kind == "tool_search"
        and (tool.dialect == target.dialect or tool.kind in target.server_tools)
        for tool in tools
    )
    for number, tool in enumerate(tools):
        match tool:
            case Tool():
                path = f"tools[{number}].input_schema"
                function = _load_deferred(tool, target, losses, searches=searches)
                function = schemas.fit(function, path)
                changed: AnyTool | None = _project_function(function, target, names)
            case CustomTool():
                custom = _load_deferred(tool, target, losses, searches=searches)
                changed = _project_custom(custom, target, names, losses)
            case ServerTool():
                changed = _project_server_tool(tool, target, losses)
            case _:
                changed = _project_mcp_server(tool, target, losses)
        if changed is not None and changed.extra is not None:
            changed = drop_foreign_fields(changed, target.dialect, losses, "tools")
        if changed is not None:
            projected.append(changed)
    if not target.mixed_tools and any(isinstance(tool, Tool | CustomTool) for tool in projected):
        for tool in projected:
            if not isinstance(tool, Tool | CustomTool):
                losses.add("server_tool_dropped", "tools", "not beside functions")
        projected = [tool for tool in projected if isinstance(tool, Tool | CustomTool)]
    if target.max_tools is not None and len(projected) > target.max_tools:
        raise EncodeError(
            f"{len(projected)} tools, expected at most {target.max_tools}", path="tools"
        )
    return same_parts(tools, tuple(projected))


def _load_deferred(tool: T, target: BodyCapabilities, losses: Losses, *, searches: bool) -> T:
    """Return a tool; offer a deferred tool at once if neither provider nor client can load it.

    Args:
        tool: The tool.
        target: Capabilities of the target.
        losses: Counter of changed tools.
        searches: Whether the provider searches for tools.  A client that searches itself loads
            tools by messages that only its own dialect has.
    """
    finds = target.deferred_tools and (
        searches or tool.source is None or is_same_dialect(tool, target.dialect)
    )
    if finds or not tool.deferred:
        return tool
    losses.add("deferred_tool_loaded", "tools", "offered from the start")
    return structs.replace(tool, deferred=False)


def _project_function(tool: Tool, target: BodyCapabilities, names: ToolNames) -> Tool:
    changes = _common_changes(tool, target, names)
    if tool.vendor_type is not None and not is_same_dialect(tool, target.dialect):
        changes["vendor_type"] = None
    properties = names.properties_of(changes.get("name", tool.name))
    if properties and tool.input_schema is not None:
        changes["input_schema"] = rename_schema(tool.input_schema, properties)
    return structs.replace(tool, **changes) if changes else tool


def _project_custom(
    tool: CustomTool, target: BodyCapabilities, names: ToolNames, losses: Losses
) -> Tool | CustomTool:
    changes = _common_changes(tool, target, names)
    if target.custom_tools:
        return structs.replace(tool, **changes) if changes else tool
    losses.add("custom_tool_wrapped", "tools", "written as a function with one string `input`")
    changed = structs.replace(tool, **changes)
    description = changed.description
    if tool.grammar is not None:
        text = (
            f"The value of `input` must match this {tool.grammar.syntax} grammar:\n"
            f"{tool.grammar.definition}"
        )
        description = f"{description}\n\n{text}" if description else text
    return Tool(
        changed.name,
        description,
        _WRAPPED_SCHEMA,
        deferred=changed.deferred,
        namespace=changed.namespace,
        cache=changed.cache,
        extra=changed.extra,
    )


def _common_changes(
    tool: Tool | CustomTool, target: BodyCapabilities, names: ToolNames
) -> dict[str, Any]:
    """Return the changes to a tool's name and namespace that the target requires."""
    changes: dict[str, Any] = {}
    namespace = None if tool.namespace is None else tool.namespace.name
    name = names.of(tool.name, namespace)
    if name != tool.name:
        changes["name"] = name
    if namespace is not None and not target.namespaces:
        changes["namespace"] = None
    return changes


def _project_server_tool(
    tool: ServerTool, target: BodyCapabilities, losses: Losses
) -> ServerTool | None:
    if tool.dialect == target.dialect:
        return tool
    fields = target.server_tools.get(tool.kind)
    if fields is None:
        losses.add("server_tool_dropped", "tools", "dropped")
        return None
    changes: dict[str, Any] = {}
    for name in _SERVER_FIELDS:
        if getattr(tool, name) is not None and name not in fields:
            losses.add(name, "tools", "dropped")
            changes[name] = None
    for name, value in _fields_of(tool.data).items():
        # A known field whose value could not be unified has a form that only the vendor reads.
        is_vendor_field = name in _SERVER_FIELDS and getattr(tool, name) is None
        if value is not None and (is_vendor_field or name not in _MAPPED):
            losses.add(name, "tools", "dropped")
    return structs.replace(tool, **changes, data={})


def _fields_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a server tool, which some vendors nest: `{"googleSearch": {…}}`."""
    name, inner = next(iter(data.items())) if len(data) == 1 else ("", None)
    return inner if is_object(inner) and name not in _SERVER_FIELDS else data


def _project_mcp_server(
    tool: MCPServer, target: BodyCapabilities, losses: Losses
) -> MCPServer | None:
    if target.mcp_servers is None:
        losses.add("mcp_server_dropped", "tools", "dropped")
        return None
    # OpenAI's connectors and tunnels: only the vendor knows where the server is.
    is_of_target = is_same_dialect(tool, target.dialect) or target.dialect in (tool.extra or {})
    if tool.url is None and not is_of_target:
        losses.add("mcp_server_dropped", "tools", "without a URL")
        return None
    changes: dict[str, Any] = {}
    for name in ("authorization", "headers", "allowed_tools", "require_approval"):
        if getattr(tool, name) and name not in target.mcp_servers:
            losses.add(name, "tools", "dropped")
            changes[name] = {} if name == "headers" else None
    return structs.replace(tool, **changes) if changes else tool


def check_missing_tools(
    request: Request, tools: tuple[AnyTool, ...], target: BodyCapabilities
) -> None:
    """Check that the target has the provider's tools that the answer depends on.

    Clients would show the answer as a search result: a search of Claude Code or Gemini CLI is a
    request whose only tool is the provider's search.

    Args:
        request: The request.
        tools: The projected tools.
        target: Capabilities of the target.

    Raises:
        EncodeError: The target has none of the tools, or lacks the one that is forced.
    """
    offered = {_provider_tool(tool) for tool in tools}
    missing = [
        found for found in map(_provider_tool, request.tools) if found and found not in offered
    ]
    choice = request.tool_choice or ToolChoice("auto")
    if not missing or choice.mode == "none":
        return
    expected = f"a tool that {target.dialect} has"
    forced = next((found for found in missing if _is_forced(found, choice)), None)
    if forced is not None:
        raise EncodeError(f"{forced} is forced, expected {expected}", path="tool_choice")
    allowed = [found for found in missing if found.kind in choice.server_kinds]
    if allowed and not choice.names and not any(_is_allowed(tool, choice) for tool in tools):
        raise EncodeError(
            f"no allowed tool but {allowed[0]}, expected {expected}", path="tool_choice"
        )
    if not tools:
        raise EncodeError(f"no tool but {missing[0]}, expected {expected}", path="tools")


class _ProviderTool(NamedTuple):
    """Identity of a tool that the provider executes, or of an MCP server.

    Attributes:
        kind: Kind of the tool, as in `ToolChoice.kind`.
        server: Name of the MCP server; "" for any other tool.
    """

    kind: str
    server: str = ""

    def __str__(self) -> str:
        return f"the MCP server {self.server}" if self.server else self.kind


def _provider_tool(tool: AnyTool) -> _ProviderTool | None:
    """Return the identity of a provider's tool; None for a tool of the client."""
    match tool:
        case ServerTool(kind):
            return _ProviderTool(kind[:_MAX_NAME_CHARS])
        case MCPServer(name):
            return _ProviderTool(_MCP, name[:_MAX_NAME_CHARS])
        case _:
            return None


def _is_forced(tool: _ProviderTool, choice: ToolChoice) -> bool:
    if choice.mode != "named" or choice.kind[:_MAX_NAME_CHARS] != tool.kind:
        return False
    return tool.kind != _MCP or tool.server in [name[:_MAX_NAME_CHARS] for name in choice.names]


def project_choice(
    choice: ToolChoice,
    request: Request,
    tools: tuple[AnyTool, ...],
    target: BodyCapabilities,
    names: ToolNames,
    losses: Losses,
    *,
    lenient: bool,
) -> tuple[ToolChoice | None, tuple[AnyTool, ...]]:
    """Return the tool choice that the target accepts, and the tools to offer with it.

    A choice that the target cannot express is weakened, or the tools that it bars are not
    offered.

    Args:
        choice: The choice of the request.
        request: The request, with projected reasoning options.
        tools: The projected tools.
        target: Capabilities of the target.
        names: Names of tools in the target.
        losses: Counter of dropped and changed choices.
        lenient: Whether a choice without tools stays as the client wrote it.
    """
    if not tools:
        if choice.mode != "none" and request.tools:
            losses.add("tool_choice", "request", "dropped with all tools")
            return None, tools
        if not (target.lone_choice or lenient):
            losses.add("tool_choice", "request", "dropped without tools")
            return None, tools
        if not target.only_refusals:
            return choice, tools
    namespaces = {
        tool.name: tool.namespace.name
        for tool in reversed(request.tools)
        if isinstance(tool, Tool | CustomTool) and tool.namespace is not None
    }
    named = tuple(names.of(name, namespaces.get(name)) for name in choice.names)
    kind = choice.kind
    if kind == "custom" and not target.custom_tools:
        kind = "function"
    if (named, kind) != (choice.names, choice.kind):
        choice = structs.replace(choice, names=named, kind=kind)
    if target.checks_choices or not is_same_dialect(request, target.dialect):
        choice = _restrict_to_offered(choice, tools, losses)
        named = choice.names
    if not is_same_dialect(request, target.dialect):
        tools = _drop_barred_tools(choice, tools, target, losses)
        if choice.server_kinds:
            named, choice = (), ToolChoice(choice.mode)
        if not tools:
            return None, tools
    if named and choice.mode in ("auto", "required") and not target.restricted_choice:
        losses.add("allowed_tools_filtered", "request", "other tools are not offered")
        tools = _filter_by_name(tools, named)
        choice = ToolChoice(choice.mode)
    if not is_same_dialect(request, target.dialect) and _names_no_tool(choice, tools):
        losses.add("tool_choice_weakened", "request", "the tool is not offered")
        choice = ToolChoice("auto")
    modes = target.choices_of_tool
    if target.reasoning_choices is not None and is_reasoning(request, target):
        modes = target.reasoning_choices
    is_bounded = request.reasoning is not None and request.reasoning.mode == "budget"
    if target.budget_choices is not None and is_bounded:
        modes = target.budget_choices
    if choice.mode not in modes:
        weak = target.weak_choice if target.weak_choice in modes else "auto"
        losses.add("tool_choice_weakened", "request", f"written as {weak}")
        if choice.mode == "named" and weak == "required":
            tools = _filter_by_name(tools, choice.names)
        choice = ToolChoice(weak)
    return choice, tools


def _drop_barred_tools(
    choice: ToolChoice, tools: tuple[AnyTool, ...], target: BodyCapabilities, losses: Losses
) -> tuple[AnyTool, ...]:
    """Return the tools, without forbidden ones that the target's tool choice cannot exclude."""
    if choice.server_kinds:  # only Responses restricts a choice to kinds of server tools
        losses.add("allowed_tools_filtered", "request", "other tools are not offered")
        return tuple(tool for tool in tools if _is_allowed(tool, choice))
    is_restricted = choice.mode in ("auto", "required") and choice.names
    if target.chooses_server_tools or not (choice.mode == "none" or is_restricted):
        return tools
    callable_tools = tuple(tool for tool in tools if isinstance(tool, Tool | CustomTool))
    for _ in range(len(tools) - len(callable_tools)):
        losses.add("server_tool_dropped", "tools", "may not be called")
    return callable_tools


def _is_allowed(tool: AnyTool, choice: ToolChoice) -> bool:
    """Return whether a choice allows a tool."""
    provided = _provider_tool(tool)
    if provided is None:
        return getattr(tool, "name", None) in choice.names
    return provided.kind in choice.server_kinds


def _restrict_to_offered(
    choice: ToolChoice, tools: tuple[AnyTool, ...], losses: Losses
) -> ToolChoice:
    """Return a tool choice without the tools that are not offered.

    Raises:
        EncodeError: None of its tools is offered.
    """
    is_client_tool = choice.kind in ("function", "custom")
    # The tools of an MCP server are not among those of the request.
    if not (choice.names and is_client_tool) or any(isinstance(t, MCPServer) for t in tools):
        return choice
    offered = {tool.name for tool in tools if isinstance(tool, Tool | CustomTool)}
    names = tuple(name for name in choice.names if name in offered)
    if not (names or choice.server_kinds):
        raise EncodeError("a choice of no tool of the request, expected one", path="tool_choice")
    if len(names) == len(choice.names):
        return choice
    losses.add("tool_choice", "request", "tools that are not offered left out")
    is_forced = choice.mode == "required" and len(names) == 1
    return structs.replace(choice, mode="named" if is_forced else choice.mode, names=names)


def _names_no_tool(choice: ToolChoice, tools: tuple[AnyTool, ...]) -> bool:
    """Return whether a tool choice forces a server tool that is not offered."""
    if choice.mode != "named" or choice.kind in ("function", "custom"):
        return False
    if choice.kind == _MCP:
        return not any(isinstance(t, MCPServer) and t.name in choice.names for t in tools)
    return not any(isinstance(t, ServerTool) and t.kind == choice.kind for t in tools)


def _filter_by_name(tools: tuple[AnyTool, ...], names: tuple[str, ...]) -> tuple[AnyTool, ...]:
    wanted = frozenset(names)
    return tuple(tool for tool in tools if getattr(tool, "name", None) in wanted)
