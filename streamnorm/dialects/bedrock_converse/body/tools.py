"""Tools and tool choice in both directions: `toolConfig`.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolConfiguration.html (read
2026-11-27, botocore 1.44.8).  An entry is a tool of the client (`toolSpec`), a tool that the
model's provider executes (`systemTool`), or a cache point behind the tools that it marks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import structs

from streamnorm._core.blocks import CacheMark, ToolCall, ToolResult
from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_bool,
    get_object,
    get_str,
    prefix_path,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.request import (
    InputMessage,
    Source,
    is_same_dialect,
    unchanged_source,
)
from streamnorm._core.bodies.table import (
    Field,
    Nested,
    Reading,
    Table,
    Writing,
    add_unknown,
    unknown_of,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.tools import AnyTool, ServerTool, Tool, ToolChoice
from streamnorm.dialects.bedrock_converse.body.content import (
    mark_from_wire,
    mark_to_wire,
    member_of,
)
from streamnorm.dialects.bedrock_converse.body.files import as_extra
from streamnorm.dialects.bedrock_converse.wire import DIALECT

CONFIG = "toolConfig"

_MARK, _SPEC, _SYSTEM = "cachePoint", "toolSpec", "systemTool"
# The tools that Amazon runs for Nova.
_KINDS = {"nova_code_interpreter": "code_execution", "nova_grounding": "web_search"}
_MODES: dict[str, Literal["auto", "required", "named"]] = {
    "auto": "auto",
    "any": "required",
    "tool": "named",
}
_CHOICES: dict[str, str] = {mode: word for word, mode in _MODES.items()}


def _schema_to_wire(schema: dict[str, Any] | None, writing: Writing) -> dict[str, Any]:
    return {"type": "object", **(schema or {})}


_FUNCTION = Table(
    Field("name", get_str, required="a string"),
    Field("description", get_str, write=lambda text, _: text or None),  # at least one character
    Nested(
        "inputSchema",
        Table(
            Field("input_schema", get_object, wire="json", write=_schema_to_wire, always=True),
        ),
    ),
    Field("strict", get_bool, write=lambda strict, _: strict or None),
)


def tools_from_wire(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the tools of a request.

    Raises:
        DecodeError: An entry is no tool, or has a field of another type.
    """
    config = get_object(body, CONFIG) or {}
    try:
        return tuple(_read_entries(get_array(config, "tools") or []))
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{CONFIG}") from None


def _read_entries(entries: list[Any]) -> list[AnyTool]:
    tools: list[AnyTool] = []
    for number, entry in enumerate(entries):
        try:
            kind, value = member_of(entry)
            mark = mark_from_wire(value) if kind == _MARK else None
            if mark is not None and tools and tools[-1].cache is None:
                tools[-1] = _with_mark(tools[-1], mark)
                continue
            tool = _function_from_wire(value) if kind == _SPEC else _server_tool(kind, entry)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.tools[{number}]") from None
        tools.append(structs.replace(tool, source=Source(DIALECT, entry, tool)))
    return tools


def _with_mark(tool: AnyTool, mark: CacheMark) -> AnyTool:
    source: Source = tool.source
    marked = structs.replace(tool, cache=mark, source=None)
    return structs.replace(marked, source=Source(DIALECT, source.value, marked))


def _function_from_wire(value: object) -> Tool:
    try:
        fields, unknown = _FUNCTION.read(as_object(value))
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{_SPEC}") from None
    if "input_schema" not in fields:
        raise DecodeError("missing, expected an object", path=f"$.{_SPEC}.inputSchema.json")
    return Tool(**fields, extra=as_extra(unknown))


def _server_tool(kind: str, entry: dict[str, Any]) -> ServerTool:
    """Return an entry of `tools` as a server tool: an AWS tool, or a leading cache point."""
    name = (get_object(entry, kind) or {}).get("name") if kind == _SYSTEM else None
    return ServerTool(_KINDS.get(str(name), str(name or kind)), DIALECT, entry)


def config_from_wire(reading: Reading) -> dict[str, Any]:
    """Return the tools and the tool choice of a request.

    Raises:
        DecodeError: A tool or the choice has an unknown form.
    """
    config = get_object(reading.body, CONFIG) or {}
    if unknown := unknown_fields(config, {"tools", "toolChoice"}):
        reading.unknown[CONFIG] = unknown
    fields: dict[str, Any] = {"tools": tools_from_wire(reading.body)}
    if config.get("toolChoice") is not None:
        try:
            fields["tool_choice"] = _choice_from_wire(config["toolChoice"])
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{CONFIG}.toolChoice") from None
    return fields


def _choice_from_wire(value: object) -> ToolChoice:
    word, inner = member_of(value)
    if word not in _MODES:
        raise DecodeError("a choice of another type, expected auto, any or tool")
    if word != "tool":
        return ToolChoice(_MODES[word])
    try:
        return ToolChoice("named", (require_str(as_object(inner), "name"),))
    except DecodeError as exc:
        raise prefix_path(exc, "$.tool") from None


def config_to_wire(writing: Writing) -> dict[str, Any]:
    """Return tools and tool choice as `toolConfig`, which a history with calls requires.

    The API has no choice `none`: tools are left out, unless the history has calls.

    Raises:
        EncodeError: Two tools have the same name, which the API refuses.
    """
    context, request = writing.context, writing.part
    choice: ToolChoice | None = request.tool_choice
    if choice is not None and choice.mode == "none":
        if not any(map(_has_call, request.messages)):
            if request.tools:
                context.losses.add("allowed_tools_filtered", "request", "no tool is offered")
            return {}
        context.losses.add("tool_choice_weakened", "request", "written as auto")
        choice = None
    tools = _tools_to_wire(request.tools, context) or _declare_called(request.messages, context)
    if not tools:
        if choice is not None:
            context.losses.add("tool_choice", "request", "dropped without tools")
        return {}
    config: dict[str, Any] = {"tools": tools}
    if choice is not None:
        config["toolChoice"] = _choice_to_wire(choice, tools, context)
    return {CONFIG: config}


def _tools_to_wire(tools: tuple[AnyTool, ...], context: WriteContext) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    names: set[str] = set()
    for number, tool in enumerate(tools):
        value = unchanged_source(tool, DIALECT)
        if value is None:
            value = _tool_to_wire(tool)
        name = tool.name if isinstance(tool, Tool) else None
        if name in names and not is_same_dialect(tool, DIALECT):
            problem = "name of another tool, expected one of its own"
            raise EncodeError(problem, path=f"tools[{number}]")
        if name is not None:
            names.add(name)
        written.append(value)
        if tool.cache is not None:
            written.append(mark_to_wire(tool.cache))
    return written


def _tool_to_wire(tool: AnyTool) -> dict[str, Any]:
    if isinstance(tool, Tool):
        return {_SPEC: add_unknown(_FUNCTION.write(tool), unknown_of(tool.extra, DIALECT))}
    if isinstance(tool, ServerTool):  # of its own: no model but Nova has any
        return tool.data
    raise AssertionError(f"{type(tool).__name__} passed the projection")


def _has_call(message: InputMessage) -> bool:
    return any(isinstance(block, ToolCall | ToolResult) for block in message.blocks)


def _declare_called(
    messages: Iterable[InputMessage], context: WriteContext
) -> list[dict[str, Any]]:
    """Return declarations of the tools that the history calls.

    The API refuses "The toolConfig field must be defined when using toolUse and toolResult
    content blocks" (langgenius/dify#17545).
    """
    calls = (call.name for message in messages for call in message.tool_calls)
    names = dict.fromkeys(calls)
    for _ in names:
        context.losses.add("tool_declared", "tools", "from its calls in the history")
    schema = {"json": {"type": "object"}}
    return [{_SPEC: {"name": name, "inputSchema": schema}} for name in names]


def _choice_to_wire(
    choice: ToolChoice, tools: list[dict[str, Any]], context: WriteContext
) -> dict[str, Any]:
    if choice.mode != "named":
        return {_CHOICES[choice.mode]: {}}
    offered = [tool[_SPEC]["name"] for tool in tools if _SPEC in tool]
    if choice.names[0] in offered:
        return {"tool": {"name": choice.names[0]}}
    context.losses.add("tool_choice_weakened", "request", "the tool cannot be forced")
    return {"auto": {}}
