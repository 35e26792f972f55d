"""Requests, in both directions: the fields of a body, then options with fields of their own.

https://platform.openai.com/docs/api-reference/responses/create (read 2026-11-23), with what
Codex, opencode and LangChain send beyond it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import CacheMark, OpaqueBlock, ServerToolResult, Text
from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_int,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    Source,
    is_same_dialect,
    request_source,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object, object_in
from streamnorm._core.tools import AnyTool, CustomTool, ServerTool, Tool
from streamnorm.dialects.openai_responses.body.content import unknown_extra, unknown_fields_of
from streamnorm.dialects.openai_responses.body.messages import InputReader, input_to_wire
from streamnorm.dialects.openai_responses.body.tools import (
    CLIENT_SEARCH,
    choice_from_wire,
    choice_to_wire,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.openai_responses.wire import DIALECT

_Value: TypeAlias = dict[str, Any]
_Reader: TypeAlias = Callable[[_Value, _Value, _Value], None]

_PATH = "/v1/responses"

_FIELDS: dict[str, tuple[str, Callable[[dict[str, Any], str], Any]]] = {
    "model": ("model", get_str),
    "max_output_tokens": ("max_tokens", get_int),
    "temperature": ("temperature", get_number),
    "top_p": ("top_p", get_number),
    "top_logprobs": ("top_logprobs", get_int),
    "parallel_tool_calls": ("parallel_tool_calls", get_bool),
    "user": ("user", get_str),
    "safety_identifier": ("safety_identifier", get_str),
    "service_tier": ("service_tier", get_str),
    "prompt_cache_key": ("cache_key", get_str),
    "store": ("store", get_bool),
    "stream": ("stream", get_bool),
}
"""Fields of the body that map to one field of the request, with that field and its reader."""

FIELD_PARTS = {name: (field,) for name, (field, _) in _FIELDS.items()} | {
    "background": ("state",),
    "context_management": ("compact_at_tokens",),
    "conversation": ("state",),
    "include": ("logprobs", "top_logprobs"),
    "input": ("messages", "state"),
    "instructions": ("system",),
    "metadata": ("metadata",),
    "previous_response_id": ("state",),
    "prompt": ("state",),
    "prompt_cache_options": ("cache",),
    "reasoning": ("reasoning",),
    "text": ("output", "verbosity"),
    "tool_choice": ("tool_choice", "tools"),
    "tools": ("messages", "tools"),
}
"""The fields of `Request` that each field of the body holds."""

_READ_LAST = frozenset({"input", "tools", "tool_choice"})

_LOGPROBS = "message.output_text.logprobs"
_FORMATS: dict[str, Literal["text", "json_object", "json_schema"]] = {
    "text": "text",
    "json_object": "json_object",
    "json_schema": "json_schema",
}
# Mapped fields of options.
_FORMAT = frozenset({"type", "schema", "name", "description", "strict"})
_TEXT = frozenset({"format", "verbosity"})
_REASONING = frozenset({"effort", "summary"})
_COMPACTION = {"type", "compact_threshold"}


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return a body as a request.

    Raises:
        DecodeError: The body is not a Responses request.
    """
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in body.items():
        if value is None:
            extra[name] = None
        elif name in _READ_LAST:
            continue
        elif name in _FIELDS:
            field, read = _FIELDS[name]
            fields[field] = read(body, name)
        elif name in _OPTIONS:
            _OPTIONS[name](body, fields, extra)
        else:
            extra[name] = value
    tools = tools_from_wire(body)
    choice, inexact = choice_from_wire(body)
    if inexact is not None:
        extra["tool_choice"] = inexact
    reader = InputReader(_items_of(body, fields), _declared_names(tools), context.server)
    messages = reader.messages()
    if reader.references:
        fields["state"] = {**fields.get("state", {}), "item_reference": reader.references}
    known = {_tool_key(tool) for tool in tools}
    tools += [tool for tool in reader.added_tools if _tool_key(tool) not in known]
    part = Request(
        **fields,
        messages=messages,
        tools=tuple(tools),
        tool_choice=choice,
        extra={DIALECT: extra} if extra else None,
    )
    return structs.replace(part, source=Source(DIALECT, body, part))


def _items_of(body: dict[str, Any], fields: dict[str, Any]) -> list[Any]:
    """Return the items of `input`; a string is a user message."""
    value = body.get("input")
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if is_array(value):
        return value
    if value is not None:
        raise unexpected(value, "a string or an array", "$.input")
    # `input` is optional if the server stores a prompt or a conversation.
    if "state" not in fields:
        raise DecodeError("missing, expected a string or an array", path="$.input")
    return []


def _declared_names(tools: list[AnyTool]) -> frozenset[str] | None:
    """Return the names of the client's tools; None if `tools` may not list all of them."""
    if not tools or any(
        isinstance(tool, ServerTool) and tool.kind in ("tool_search", CLIENT_SEARCH)
        for tool in tools
    ):
        return None
    return frozenset(tool.name for tool in tools if isinstance(tool, (Tool, CustomTool)))


def _tool_key(tool: AnyTool) -> object:
    """Return the identity of a tool within a request."""
    if isinstance(tool, (Tool, CustomTool)):
        return tool.name, tool.namespace and tool.namespace.name
    return (tool.kind, None) if isinstance(tool, ServerTool) else (tool.name, None)


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a projected request as a body."""
    source = request_source(request, DIALECT)
    if source is not None:
        return Written({**source}, _PATH)
    body: dict[str, Any] = {"model": request.model} if request.model else {}
    if request.system:
        # `instructions` is one string, with no parts to keep apart.
        body["instructions"] = "\n\n".join([block.text for block in request.system])
    items = input_to_wire(request.messages, context)
    if items or not request.state:
        body["input"] = items
    added = _added_tool_keys(request)
    tools = tools_to_wire([tool for tool in request.tools if _tool_key(tool) not in added])
    if tools:
        body["tools"] = tools
    unknown = {**unknown_fields_of(request.extra)}
    choice = request.tool_choice
    if choice is not None:
        # An unchanged choice keeps the details that `ToolChoice` cannot hold.
        inexact = unknown.pop("tool_choice", None)
        is_same = inexact is not None and choice_from_wire({"tool_choice": inexact})[0] == choice
        body["tool_choice"] = inexact if is_same else choice_to_wire(choice, request.tools)
    for name, (field, _) in _FIELDS.items():
        if name != "model" and (value := getattr(request, field)) is not None:
            body[name] = value
    if request.metadata is not None:
        body["metadata"] = request.metadata
    if request.store is None and "store" not in unknown and not is_same_dialect(request, DIALECT):
        body["store"] = False  # the API stores by default, other vendors store nothing
    _add_options(body, request, unknown)
    return Written(body, _PATH)


def _added_tool_keys(request: Request) -> set[object]:
    """Return the keys of the tools that items of the input add."""
    keys: set[object] = set()
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, OpaqueBlock) and block.kind == "additional_tools":
                keys |= {_tool_key(tool) for tool in tools_from_wire(object_in(block.data))}
            elif isinstance(block, ServerToolResult) and block.kind == "tool_search_output":
                keys |= {_tool_key(tool) for tool in tools_from_wire(block.content)}
    return keys


def _read_text(body: _Value, fields: _Value, extra: _Value) -> None:
    """Read `text`: output format and verbosity."""
    value = as_object(body["text"], "$.text")
    try:
        output_format = get_object(value, "format")
        if output_format is not None:
            fields["output"] = _format_from_wire(output_format)
        if (verbosity := get_str(value, "verbosity")) is not None:
            fields["verbosity"] = verbosity
    except DecodeError as exc:
        raise prefix_path(exc, "$.text") from None
    _store_unknown(value, {name for name in _TEXT if value.get(name) is not None}, "text", extra)


def _format_from_wire(form: _Value) -> OutputFormat:
    try:
        kind = _FORMATS.get(word := require_str(form, "type"))
        if kind is None:
            raise unexpected(word, "text, json_object or json_schema", "$.type")
        return OutputFormat(
            kind,
            get_object(form, "schema"),
            get_str(form, "name"),
            get_str(form, "description"),
            get_bool(form, "strict"),
            unknown_extra(form, {name for name in _FORMAT if form.get(name, "") is not None}),
        )
    except DecodeError as exc:
        raise prefix_path(exc, "$.format") from None


def _read_reasoning(body: _Value, fields: _Value, extra: _Value) -> None:
    value = as_object(body["reasoning"], "$.reasoning")
    try:
        effort, show = get_str(value, "effort"), get_str(value, "summary")
    except DecodeError as exc:
        raise prefix_path(exc, "$.reasoning") from None
    mapped = {name for name in _REASONING if value.get(name) is not None}
    rest = unknown_extra(value, mapped)
    if effort is None and show is None:
        extra["reasoning"] = value
    else:
        fields["reasoning"] = ReasoningOptions(effort=effort, show=show, extra=rest)


def _read_include(body: _Value, fields: _Value, extra: _Value) -> None:
    names = get_strings(body, "include") or ()
    rest = [name for name in names if name != _LOGPROBS]
    if len(rest) < len(names):
        fields["logprobs"] = True
    if rest or not names:
        extra["include"] = rest


def _read_conversation(body: _Value, fields: _Value, extra: _Value) -> None:
    value = body["conversation"]
    if not isinstance(value, str | dict):
        raise unexpected(value, "a string or an object", "$.conversation")
    _request_state(fields)["conversation"] = value


def _read_previous(body: _Value, fields: _Value, extra: _Value) -> None:
    _request_state(fields)["previous_response_id"] = get_str(body, "previous_response_id")


def _read_prompt(body: _Value, fields: _Value, extra: _Value) -> None:
    _request_state(fields)["prompt"] = as_object(body["prompt"], "$.prompt")


def _read_background(body: _Value, fields: _Value, extra: _Value) -> None:
    if get_bool(body, "background"):
        _request_state(fields)["background"] = True
    else:
        extra["background"] = False


def _request_state(fields: _Value) -> _Value:
    state: _Value = fields.setdefault("state", {})
    return state


def _read_cache_options(body: _Value, fields: _Value, extra: _Value) -> None:
    value = as_object(body["prompt_cache_options"], "$.prompt_cache_options")
    try:
        ttl = get_str(value, "ttl")
    except DecodeError as exc:
        raise prefix_path(exc, "$.prompt_cache_options") from None
    # An explicit mode sets no mark itself: the marks stand in the content.
    if value.get("mode") != "implicit":
        extra["prompt_cache_options"] = value
        return
    fields["cache"] = CacheMark(ttl)
    mapped = {"mode"} if ttl is None else {"mode", "ttl"}
    _store_unknown(value, mapped, "prompt_cache_options", extra)


def _read_compaction(body: _Value, fields: _Value, extra: _Value) -> None:
    """Read `context_management`; its only documented entry is compaction."""
    value = body["context_management"]
    if not is_array(value):
        raise unexpected(value, "an array", "$.context_management")
    entry = value[0] if len(value) == 1 else None
    if is_object(entry) and entry.keys() == _COMPACTION and entry["type"] == "compaction":
        threshold = entry["compact_threshold"]
        if type(threshold) is int:
            fields["compact_at_tokens"] = threshold
            return
    extra["context_management"] = value


def _read_metadata(body: _Value, fields: _Value, extra: _Value) -> None:
    value = as_object(body["metadata"], "$.metadata")
    if all(isinstance(text, str) for text in value.values()):
        fields["metadata"] = value
    else:
        extra["metadata"] = value


def _read_system(body: _Value, fields: _Value, extra: _Value) -> None:
    fields["system"] = (Text(require_str(body, "instructions")),)


def _store_unknown(value: _Value, mapped: set[str], name: str, extra: _Value) -> None:
    rest = unknown_fields(value, mapped)
    if rest or not value:
        extra[name] = rest


_OPTIONS: dict[str, _Reader] = {
    "background": _read_background,
    "context_management": _read_compaction,
    "conversation": _read_conversation,
    "include": _read_include,
    "instructions": _read_system,
    "metadata": _read_metadata,
    "previous_response_id": _read_previous,
    "prompt": _read_prompt,
    "prompt_cache_options": _read_cache_options,
    "reasoning": _read_reasoning,
    "text": _read_text,
}
"""Readers of options by name, called with the body, the request's fields and its `extra`.

No reader is called for a null.
"""


def _add_options(body: _Value, request: Request, unknown: _Value) -> None:
    """Add the options of a request to a body.

    Args:
        body: The body.
        request: The request.
        unknown: Unknown fields of this dialect.
    """
    if request.reasoning is not None and (reasoning := _reasoning_to_wire(request.reasoning)):
        body["reasoning"] = reasoning
    text: _Value = {}
    if request.output is not None:
        text["format"] = _format_to_wire(request.output)
    if request.verbosity is not None:
        text["verbosity"] = request.verbosity
    if text:
        body["text"] = text
    if request.logprobs:
        body["include"] = [_LOGPROBS]
    if request.cache is not None:
        ttl = {} if request.cache.ttl is None else {"ttl": request.cache.ttl}
        body["prompt_cache_options"] = {"mode": "implicit", **ttl}
    if request.compact_at_tokens is not None:
        threshold = request.compact_at_tokens
        body["context_management"] = [{"type": "compaction", "compact_threshold": threshold}]
    state = request.state or {}
    body |= {name: value for name, value in state.items() if name != "item_reference"}
    for name, value in unknown.items():
        body[name] = _merge_option(body.get(name), value)


def _merge_option(option: Any, rest: Any) -> Any:
    """Return an option merged with its unknown fields or entries."""
    if is_object(option) and is_object(rest):
        return {**option, **rest}
    if is_array(option) and is_array(rest):
        return [*rest, *option]
    return option if rest is None else rest


def _reasoning_to_wire(options: ReasoningOptions) -> _Value:
    effort = options.effort or ("none" if options.mode == "off" else None)
    value: _Value = {} if effort is None else {"effort": effort}
    if options.show not in (None, "none"):
        value["summary"] = options.show
    return value | unknown_fields_of(options.extra)


def _format_to_wire(output: OutputFormat) -> _Value:
    value: _Value = {"type": output.kind}
    if output.kind == "json_schema":
        # Two dialects have no names, and the API requires one.
        value |= {"name": output.name or "response", "schema": output.schema or {}}
        said = {"description": output.description, "strict": output.strict}
        value |= {name: field for name, field in said.items() if field is not None}
    return value | unknown_fields_of(output.extra)
