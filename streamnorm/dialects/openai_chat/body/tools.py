"""Tools and tool choice, in both directions.

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
    get_str,
    read_objects,
    unknown_fields,
)
from streamnorm._core.bodies.request import Source, unchanged_source
from streamnorm._core.bodies.table import Field, Table, WithRest, Writing
from streamnorm._core.errors import EncodeError
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
from streamnorm.dialects.openai_chat.body.content import (
    DIALECT,
    Extra,
    add_unknown_fields,
    as_extra,
)

_SEARCH = "web_search"
_SEARCH_FIELD = "web_search_options"
_MODES: dict[str, Literal["auto", "required", "none"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",  # Mistral
}


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def _grammar_from_wire(value: object) -> Grammar | WithRest:
    """Return the grammar in a custom tool's `format`; `WithRest(None)` if any text is allowed."""
    form = as_object(value)
    if form.get("type") != "grammar":
        return WithRest(None, None)
    return Grammar(**_GRAMMAR.read_field(form, "grammar")[0])


def _grammar_to_wire(grammar: Grammar, writing: Writing) -> dict[str, Any]:
    return {"type": "grammar", "grammar": _GRAMMAR.write(grammar)}


_GRAMMAR = Table(
    Field("syntax", get_str, required="a string"), Field("definition", get_str, required="a string")
)
_FUNCTION = Table(
    Field("name", get_str, required="a string"),
    Field("description", get_str),
    Field("input_schema", get_object, wire="parameters"),
    # False is the default of `strict`.
    Field("strict", get_bool, write=lambda strict, _: strict or None),
)
_CUSTOM = Table(
    Field("name", get_str, required="a string"),
    Field("description", get_str),
    Field("grammar", wire="format", read=_grammar_from_wire, write=_grammar_to_wire),
)


def tools_from_wire(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the `tools`, the legacy `functions`, and the search tool of search models."""
    tools: list[AnyTool] = read_objects(body.get("tools"), _tool_from_wire, "$.tools")
    tools += read_objects(body.get("functions"), _function_from_wire, "$.functions")
    options = get_object(body, _SEARCH_FIELD)
    if options is not None:
        search = _search_from_wire(options)
        tools.append(structs.replace(search, source=Source(DIALECT, options, search)))
    return tuple(tools)


def _search_from_wire(options: dict[str, Any]) -> ServerTool:
    """Return the search tool of a search model from `web_search_options`."""
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
    kind = get_str(value, "type") or "function"
    tool: AnyTool
    if kind == "custom":
        fields, unknown = _CUSTOM.read_field(value, kind)
        tool = CustomTool(**fields, extra=_extra_of(value, kind, unknown))
    elif kind != "function":
        tool = ServerTool(kind, DIALECT, value)
    elif value.get(kind) is None:  # Cursor sends the flat form of Responses
        tool = _function_from_wire({k: v for k, v in value.items() if k != "type"})
    else:
        fields, unknown = _FUNCTION.read_field(value, kind)
        fields.setdefault("input_schema", _NO_PARAMETERS)
        tool = Tool(**fields, extra=_extra_of(value, kind, unknown))
    return structs.replace(tool, source=Source(DIALECT, value, tool))


def _function_from_wire(value: dict[str, Any]) -> Tool:
    """Return a function tool from an object with `name`, `description` and `parameters`."""
    fields, unknown = _FUNCTION.read(value)
    fields.setdefault("input_schema", _NO_PARAMETERS)
    return Tool(**fields, extra=_extra_of({}, "function", unknown))


def _extra_of(value: dict[str, Any], kind: str, inner: dict[str, Any]) -> Extra:
    """Return the unknown fields of a tool and of the inner object under its type."""
    if len(value) == 2 and not inner:
        return None
    rest = unknown_fields(value, {"type", kind}, with_nulls=True)
    return as_extra(rest | {kind: inner} if inner else rest)


def tools_to_wire(writing: Writing) -> dict[str, Any]:
    """Return tools as `tools`, and a search tool as `web_search_options`."""
    fields: dict[str, Any] = {}
    offered: list[Any] = []
    for tool in writing.part.tools:
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
        case Tool():
            value = {"type": "function", "function": _FUNCTION.write(tool)}
        case CustomTool():
            value = {"type": "custom", "custom": _CUSTOM.write(tool)}
        case ServerTool(data=data):
            value = dict(data)
        case other:
            found = type(other).__name__
            raise EncodeError(f"{found} among the tools, expected a function", path="tools")
    return value if tool.extra is None else add_unknown_fields(value, tool.extra)


def choice_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> ToolChoice | None:
    """Return the tool choice from `tool_choice` or the legacy `function_call`.

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
    """Return the tool choice from `allowed_tools`; None if it allows a server tool."""
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
    """Return a tool's name, nested under its type or flat as in Responses."""
    owner = value.get(kind, value)
    name = owner.get("name") if is_object(owner) else None
    return name if isinstance(name, str) else None


def choice_to_wire(choice: ToolChoice, tools: Sequence[AnyTool]) -> str | dict[str, Any]:
    """Return a tool choice as `tool_choice`."""
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
