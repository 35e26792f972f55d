"""The tools of a request and `tool_choice`, in both directions.

A search model has no tool for its search: `web_search_options` of the request configures it.

https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_object,
    get_objects,
    get_str,
    prefix_path,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.request import Source, unchanged_source
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    Grammar,
    ServerTool,
    Tool,
    ToolChoice,
    location_of,
)
from streamnorm.dialects.openai_chat.body.content import DIALECT, add_unknown_fields, as_extra

_FUNCTION = frozenset({"name", "description", "parameters", "strict"})
_CUSTOM = frozenset({"name", "description", "format"})
_SEARCH = "web_search"
_SEARCH_FIELD = "web_search_options"
_MODES: dict[str, Literal["auto", "required", "none"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",  # Mistral
}


def tools_from_wire(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the `tools`, the legacy `functions`, and the search of a search model."""
    tools: list[AnyTool] = []
    for path, value in get_objects(body, "tools"):
        try:
            tool = _tool_from_wire(value)
        except DecodeError as exc:
            raise prefix_path(exc, path) from exc
        tools.append(structs.replace(tool, source=Source(DIALECT, value, tool)))
    for path, value in get_objects(body, "functions"):
        try:
            tools.append(_function_from_wire(value, {}))
        except DecodeError as exc:
            raise prefix_path(exc, path) from exc
    options = get_object(body, _SEARCH_FIELD)
    if options is not None:
        search = _search_from_wire(options)
        tools.append(structs.replace(search, source=Source(DIALECT, options, search)))
    return tuple(tools)


def _search_from_wire(options: dict[str, Any]) -> ServerTool:
    """Return the search of a search model, whose location nests its fields in `approximate`."""
    location, size = options.get("user_location"), options.get("search_context_size")
    return ServerTool(
        _SEARCH,
        DIALECT,
        options,
        user_location=location_of(location.get("approximate")) if is_object(location) else None,
        search_context_size=size if isinstance(size, str) else None,
    )


def _search_to_wire(tool: ServerTool) -> dict[str, Any]:
    if tool.dialect == DIALECT:
        return tool.data
    # Chat Completions has no domain filter.
    options: dict[str, Any] = {}
    if tool.search_context_size is not None:
        options["search_context_size"] = tool.search_context_size
    if tool.user_location is not None:
        options["user_location"] = {"type": "approximate", "approximate": tool.user_location}
    return options


def _tool_from_wire(value: dict[str, Any]) -> AnyTool:
    kind = get_str(value, "type")
    if kind == "custom":
        return _custom_from_wire(
            as_object(value.get("custom"), "$.custom"),
            unknown_fields(value, {"type", kind}, with_nulls=True),
        )
    function = value.get("function")
    if kind in ("function", None) and function is not None:
        try:
            return _function_from_wire(
                as_object(function, "$"),
                unknown_fields(value, {"type", "function"}, with_nulls=True),
            )
        except DecodeError as exc:
            raise prefix_path(exc, "$.function") from exc
    if kind in ("function", None):  # Cursor sends the flat form of Responses
        return _function_from_wire({k: v for k, v in value.items() if k != "type"}, {})
    return ServerTool(kind, DIALECT, value)


def _function_from_wire(function: dict[str, Any], rest: dict[str, Any]) -> Tool:
    """Return a function; without `parameters` it takes none."""
    schema = get_object(function, "parameters")
    if inner := unknown_fields(function, _FUNCTION, with_nulls=True):
        rest["function"] = inner
    return Tool(
        require_str(function, "name"),
        get_str(function, "description"),
        {"type": "object", "properties": {}} if schema is None else schema,
        get_bool(function, "strict"),
        extra=as_extra(rest),
    )


def _custom_from_wire(custom: dict[str, Any], rest: dict[str, Any]) -> CustomTool:
    try:
        grammar = _grammar_from_wire(custom.get("format"))
        if inner := unknown_fields(custom, _CUSTOM, with_nulls=True):
            rest["custom"] = inner
        return CustomTool(
            require_str(custom, "name"),
            get_str(custom, "description"),
            grammar,
            extra=as_extra(rest),
        )
    except DecodeError as exc:
        raise prefix_path(exc, "$.custom") from exc


def _grammar_from_wire(format: object) -> Grammar | None:
    """Return the grammar of a custom tool; None if the tool accepts any text."""
    if not is_object(format) or format.get("type") != "grammar":
        return None
    grammar = as_object(format.get("grammar"), "$.format.grammar")
    try:
        return Grammar(require_str(grammar, "syntax"), require_str(grammar, "definition"))
    except DecodeError as exc:
        raise prefix_path(exc, "$.format.grammar") from exc


def tools_to_wire(tools: Sequence[AnyTool]) -> dict[str, Any]:
    """Return `tools`, and `web_search_options` for a search."""
    fields: dict[str, Any] = {}
    offered: list[Any] = []
    for tool in tools:
        match tool:
            # Every other server tool has a type; the options of a search model have none.
            case ServerTool(_, dialect, data) if dialect != DIALECT or "type" not in data:
                fields[_SEARCH_FIELD] = _search_to_wire(tool)
            case _:
                source = unchanged_source(tool, DIALECT)
                offered.append(_tool_to_wire(tool) if source is None else source)
    return {"tools": offered, **fields} if offered else fields


def _tool_to_wire(tool: AnyTool) -> dict[str, Any]:
    value: dict[str, Any]
    match tool:
        case Tool(name, description, schema, strict):
            # False is the default of `strict`.
            function = {"description": description, "parameters": schema, "strict": strict or None}
            value = {"type": "function", "function": {"name": name, **_drop_nulls(function)}}
        case CustomTool(name, description, grammar):
            custom: dict[str, Any] = {"name": name, **_drop_nulls({"description": description})}
            if grammar is not None:
                form = {"syntax": grammar.syntax, "definition": grammar.definition}
                custom["format"] = {"type": "grammar", "grammar": form}
            value = {"type": "custom", "custom": custom}
        case ServerTool(data=data):
            value = dict(data)
        case other:
            found = type(other).__name__
            raise EncodeError(f"{found} among the tools, expected a function", path="tools")
    return add_unknown_fields(value, tool.extra)


def _drop_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def choice_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> ToolChoice | None:
    """Return the choice of tools, `tool_choice` or the legacy `function_call`.

    A choice of another form is added unchanged to `rest`, the unknown fields of the request.
    """
    for field in ("tool_choice", "function_call"):
        value = body.get(field)
        if value is None:
            continue
        choice = _choice_from_value(value)
        if choice is not None:
            return choice
        rest[field] = value
    return None


def _choice_from_value(value: object) -> ToolChoice | None:
    if isinstance(value, str):
        mode = _MODES.get(value)
        return None if mode is None else ToolChoice(mode)
    if not is_object(value):
        return None
    kind = value.get("type", "function")
    if kind == "allowed_tools":
        return _allowed_from_wire(value.get("allowed_tools"))
    if kind not in ("function", "custom"):
        return None
    name = _tool_name(value, kind)
    return None if name is None else ToolChoice("named", (name,), kind)


def _allowed_from_wire(value: object) -> ToolChoice | None:
    """Return an `allowed_tools` choice; None if it allows a server tool."""
    if not is_object(value):
        return None
    tools, mode = value.get("tools"), value.get("mode")
    if not is_array(tools) or not isinstance(mode, str) or _MODES.get(mode) in (None, "none"):
        return None
    names = [
        _tool_name(tool, kind)
        for tool in tools
        if is_object(tool) and (kind := tool.get("type")) in ("function", "custom")
    ]
    known = tuple(name for name in names if name is not None)
    if not known or len(known) < len(tools):
        return None
    return ToolChoice(_MODES[mode], known)


def _tool_name(value: dict[str, Any], kind: str) -> str | None:
    """Return the name of a tool, nested under its type or flat as in Responses."""
    owner = value.get(kind, value)
    name = owner.get("name") if is_object(owner) else None
    return name if isinstance(name, str) else None


def choice_to_wire(choice: ToolChoice, tools: Sequence[AnyTool]) -> str | dict[str, Any]:
    """Return `tool_choice`."""
    custom = {tool.name for tool in tools if isinstance(tool, CustomTool)}
    named = [
        {"type": kind, kind: {"name": name}}
        for name in choice.names
        for kind in ["custom" if name in custom else "function"]
    ]
    if choice.mode == "named":
        return named[0] if named else "required"
    if not named or choice.mode == "none":
        return choice.mode
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": named}}
