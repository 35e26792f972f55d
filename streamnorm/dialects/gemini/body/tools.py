"""Tools and tool choice in both directions, and Google's `Schema` as JSON Schema.

https://ai.google.dev/api/caching#Tool (read 2026-11-23).  One entry of `tools` holds any number
of functions and MCP servers, and each kind of server tool once.  `parameters` is Google's own
`Schema`, which is read as JSON Schema; `parametersJsonSchema` is written.  Unknown fields are
added after the mapped ones, which win.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    read_objects,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import Request, Source, unchanged_source
from streamnorm._core.bodies.table import Field, Nested, Table
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.tools import AnyTool, MCPServer, ServerTool, Tool, ToolChoice
from streamnorm.dialects.gemini.wire import DIALECT, add_extra, extra_of, to_camel, wrap_singles

TOOL_CONFIG, _CALLING = "toolConfig", "functionCallingConfig"
_SERVER_CALLS = "includeServerSideToolInvocations"
_FUNCTIONS, _MCP_SERVERS = "functionDeclarations", "mcpServers"
_MAPPED = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}

_KINDS = {
    "googleSearch": "web_search",
    "urlContext": "web_fetch",
    "codeExecution": "code_execution",
    "fileSearch": "file_search",
    "googleMaps": "google_maps",
    "computerUse": "computer",
}
_FIELDS = {kind: field for field, kind in _KINDS.items()}
_VALIDATED = "VALIDATED"

# Keywords of Google's `Schema`.
_RENAMED = {"ref": "$ref", "defs": "$defs"}
_NAMES = "TYPE_UNSPECIFIED STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL"
_TYPES = dict(enumerate(_NAMES.split()))
_BOUNDS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_MAPS = frozenset({"properties", "defs"})
_UPPER = frozenset(_NAMES.split())
# Keywords of JSON Schema that map names to schemas, and keywords that hold plain values.
_JSON_MAPS = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
_VALUES = frozenset({"enum", "const", "default", "examples", "required"})


def tools_from_wire(body: dict[str, Any], *, strict: bool) -> tuple[AnyTool, ...]:
    """Return the tools of a request.

    Args:
        body: The request.
        strict: Whether the mode `VALIDATED` makes arguments follow their schemas.

    Raises:
        DecodeError: An entry is no tool of the dialect.
    """
    is_strict = True if strict else None
    read = partial(_read_entry, strict=is_strict)
    entries = read_objects(body.get("tools"), read, "$.tools")
    return tuple([tool for entry in entries for tool in entry])


def _read_entry(value: dict[str, Any], strict: bool | None) -> list[AnyTool]:
    entry = wrap_singles(to_camel(value), _FUNCTIONS, _MCP_SERVERS)
    tools: list[AnyTool] = []
    for field, item in entry.items():
        path = f"$.{field}"
        if item is None:
            continue
        if field == _FUNCTIONS:
            tools += read_objects(item, partial(_read_function, strict=strict), path)
        elif field == _MCP_SERVERS:
            tools += read_objects(item, _read_mcp_server, path)
        else:
            tools.append(_read_server_tool(field, as_object(item, path)))
    return tools


def _read_function(declaration: dict[str, Any], strict: bool | None) -> Tool:
    wire = to_camel(declaration)
    schema = get_object(wire, "parametersJsonSchema")
    unknown = unknown_fields(wire, _MAPPED, with_nulls=True)
    if schema is None:
        parameters = get_object(wire, "parameters")
        try:
            schema = _NO_PARAMETERS if parameters is None else json_schema(parameters)
        except DecodeError as exc:
            raise prefix_path(exc, "$.parameters") from None
    else:
        schema = lower_case_types(schema)
        if wire.get("parameters") is not None:
            unknown["parameters"] = wire["parameters"]
    name, description = require_str(wire, "name"), get_str(wire, "description")
    tool = Tool(name, description, schema, strict, extra=extra_of(unknown))
    source = Source(DIALECT, declaration, tool)
    return Tool(name, description, schema, strict, extra=tool.extra, source=source)


def _read_mcp_server(server: dict[str, Any]) -> MCPServer:
    wire = to_camel(server)
    transport = to_camel(get_object(wire, "streamableHttpTransport") or {})
    headers = get_object(transport, "headers") or {}
    token: str | None = None
    others: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(value, str):
            raise unexpected(value, "a string", "$.streamableHttpTransport.headers")
        if name.lower() == "authorization" and value.startswith("Bearer ") and token is None:
            token = value.removeprefix("Bearer ")
        else:
            others[name] = value
    unknown = unknown_fields(wire, {"name", "streamableHttpTransport"}, with_nulls=True)
    for name, value in unknown_fields(transport, {"url", "headers"}, with_nulls=True).items():
        unknown[f"streamableHttpTransport.{name}"] = value
    tool = MCPServer(
        *(get_str(wire, "name") or "", get_str(transport, "url"), token, others),
        require_approval="never",
        extra=extra_of(unknown),
    )
    return structs.replace(tool, source=Source(DIALECT, server, tool))


def _read_server_tool(field: str, value: dict[str, Any]) -> ServerTool:
    blocked = None
    if field == "googleSearch":
        try:
            blocked = get_strings(to_camel(value), "excludeDomains")
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{field}") from None
    kind, data = _KINDS.get(field, field), {field: value}
    tool = ServerTool(kind, DIALECT, data, blocked_domains=blocked or None)
    return structs.replace(tool, source=Source(DIALECT, data, tool))


def tools_to_wire(tools: tuple[AnyTool, ...], context: WriteContext) -> list[dict[str, Any]]:
    """Return tools as entries of `tools`: adjacent functions share one entry.

    Raises:
        EncodeError: A tool has no form in the dialect.
    """
    entries: list[dict[str, Any]] = []
    for number, tool in enumerate(tools):
        source: dict[str, Any] | None = unchanged_source(tool, DIALECT)
        match tool:
            case Tool():
                group, item = _FUNCTIONS, source or _function_to_wire(tool)
            case MCPServer():
                group, item = _MCP_SERVERS, source or _mcp_server_to_wire(tool, context)
            case ServerTool():
                entries.append(source or _server_tool_to_wire(tool, number))
                continue
            case _:
                raise EncodeError("custom tool, expected a function", path=f"tools[{number}]")
        if not entries or group not in entries[-1]:
            entries.append({group: []})
        entries[-1][group].append(item)
    return entries


def _function_to_wire(tool: Tool) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if tool.input_schema is not None:
        wire["parametersJsonSchema"] = tool.input_schema
    return add_extra(wire, tool.extra)


def _mcp_server_to_wire(server: MCPServer, context: WriteContext) -> dict[str, Any]:
    if server.require_approval == "always":
        context.losses.add("require_approval", "tools", "calls are made without approval")
    headers = dict(server.headers)
    if server.authorization is not None:
        headers["Authorization"] = f"Bearer {server.authorization}"
    transport: dict[str, Any] = {} if server.url is None else {"url": server.url}
    if headers:
        transport["headers"] = headers
    return add_extra({"name": server.name, "streamableHttpTransport": transport}, server.extra)


def _server_tool_to_wire(tool: ServerTool, number: int) -> dict[str, Any]:
    if tool.dialect == DIALECT and tool.data:
        return dict(tool.data)
    field = _FIELDS.get(tool.kind)
    if field is None:
        raise EncodeError(
            "server tool without an equivalent, expected one with", path=f"tools[{number}]"
        )
    return {field: {}}


_TOOL_CONFIG = Table(
    Nested(
        _CALLING,
        Table(
            Field("mode"),
            Field("names", get_strings, wire="allowedFunctionNames"),
            normalize=to_camel,
        ),
        is_path=True,
    ),
    normalize=to_camel,
)


def choice_from_wire(body: dict[str, Any]) -> tuple[ToolChoice | None, bool, dict[str, Any]]:
    """Return the tool choice, whether arguments are validated, and unknown fields.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    fields, rest = _TOOL_CONFIG.read_field(body, TOOL_CONFIG)
    unknown = {f"{TOOL_CONFIG}.{name}": value for name, value in rest.items()}
    mode, names = fields.get("mode"), fields.get("names") or ()
    choice: ToolChoice | None = None
    match mode:
        case "ANY" if len(names) == 1:
            choice = ToolChoice("named", names)
        case "ANY":
            choice = ToolChoice("required", names)
        case "VALIDATED" if not names:
            pass  # the default choice, but with validation
        case "AUTO" | "VALIDATED":
            choice = ToolChoice("auto", names)
        case "NONE" if not names:
            choice = ToolChoice("none")
        case _:
            config = to_camel(get_object(body, TOOL_CONFIG) or {})
            for name, value in to_camel(get_object(config, _CALLING) or {}).items():
                unknown[f"{TOOL_CONFIG}.{_CALLING}.{name}"] = value
    return choice, mode == _VALIDATED, unknown


def choice_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    """Return a tool choice as `toolConfig`; {} for the API's default."""
    choice, losses = request.tool_choice, context.losses
    functions = [tool for tool in request.tools if isinstance(tool, Tool)]
    strict = [tool for tool in functions if tool.strict]
    if not functions:  # the API refuses `functionCallingConfig` without functions
        if choice is not None and choice.mode != "auto":
            losses.add("tool_choice", "request", "dropped without functions")
        return {}
    if choice is not None and choice.mode == "named" and choice.kind != "function":
        losses.add("tool_choice_weakened", "request", "server tools cannot be named")
        choice = ToolChoice("auto")
    calling: dict[str, Any] | None = None
    match choice:
        case None:
            calling = {"mode": _VALIDATED} if strict else None
        case ToolChoice("none"):
            calling = {"mode": "NONE"}
        case ToolChoice("auto", names):
            # The API refuses `allowedFunctionNames` in the mode `AUTO`.
            calling = {"mode": _VALIDATED if strict or names else "AUTO"}
        case _:
            calling = {"mode": "ANY"}
    if choice is not None and choice.names:
        calling = {**(calling or {}), "allowedFunctionNames": list(choice.names)}
    is_validated = calling is not None and calling["mode"] == _VALIDATED
    if strict and not is_validated:
        losses.add("strict", "tools", f"left to the mode {calling and calling['mode']}")
    elif is_validated and len(strict) < len(functions):
        losses.add("strict", "tools", "of all functions")
    config: dict[str, Any] = {} if calling is None else {_CALLING: calling}
    if context.capabilities.reports_server_calls and any(
        isinstance(tool, ServerTool) for tool in request.tools
    ):
        config[_SERVER_CALLS] = True
    return {TOOL_CONFIG: config} if config else {}


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return Google's `Schema` as JSON Schema; unknown keywords stay unchanged.

    Raises:
        DecodeError: An inner schema is no object.
    """
    schema = to_camel(schema)
    converted: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "nullable" or value is None:
            continue
        try:
            value = _convert_keyword(name, value)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{name}") from None
        if value is not None:
            converted[_RENAMED.get(name, name)] = value
    return _allow_null(converted) if schema.get("nullable") is True else converted


def lower_case_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema with lower-case type names.

    Gemini CLI 0.61 writes the upper case names of Google's `Schema` in JSON Schema, too.
    """
    return {name: _lower_case_value(name, value) for name, value in schema.items()}


def _lower_case_value(name: str, value: Any) -> Any:
    if name == "type" and isinstance(value, str):
        return value.lower() if value in _UPPER else value
    if name in _VALUES:
        return value
    if name in _JSON_MAPS and is_object(value):
        return {key: lower_case_types(one) if is_object(one) else one for key, one in value.items()}
    if is_object(value):
        return lower_case_types(value)
    return [_lower_case_value(name, one) for one in value] if is_array(value) else value


def _convert_keyword(name: str, value: Any) -> Any:
    """Return the JSON Schema value of a keyword of Google's `Schema`; None if it is dropped."""
    if name == "type":
        # Clients of protocol buffers may send the number of a type.
        value = _TYPES.get(value, value) if type(value) is int else value
        if isinstance(value, str):
            is_said = value != "TYPE_UNSPECIFIED"
            return (value.lower() if value.isupper() else value) if is_said else None
    if name in _BOUNDS and isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)  # protocol buffers write 64-bit integers as strings
    if name in _MAPS and is_object(value):
        return {key: _convert_inner(item, f"$.{key}") for key, item in value.items()}
    if name == "anyOf" and is_array(value):
        return [_convert_inner(item, f"$[{number}]") for number, item in enumerate(value)]
    if name == "items" or (name == "additionalProperties" and is_object(value)):
        return _convert_inner(value, "$")
    if name == "format" and value == "enum":  # Google's mark of an enumeration
        return None
    return value


def _convert_inner(value: Any, path: str) -> dict[str, Any]:
    try:
        return json_schema(as_object(value, "$"))
    except DecodeError as exc:
        raise prefix_path(exc, path) from None


def _allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also accepts null."""
    kind = schema.get("type")
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    values = schema.get("enum")
    if is_array(values) and None not in values:
        schema["enum"] = [*values, None]
    return schema
