"""Requests, in both directions.

https://platform.openai.com/docs/api-reference/responses/create (read 2026-11-23), with what
Codex, opencode and LangChain send beyond it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import OpaqueBlock, ServerToolResult
from streamnorm._core.bodies.fields import (
    boolean_in,
    integer_in,
    number_in,
    text_in,
    unexpected,
)
from streamnorm._core.bodies.request import Request, Source, is_own, request_source
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, object_in
from streamnorm._core.tools import AnyTool, CustomTool, ServerTool, Tool
from streamnorm.dialects.openai_responses.body.extra import own_fields
from streamnorm.dialects.openai_responses.body.options import OPTIONS, add_options
from streamnorm.dialects.openai_responses.body.read_input import InputReader
from streamnorm.dialects.openai_responses.body.tools import (
    CLIENT_SEARCH,
    choice_from_wire,
    choice_to_wire,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.openai_responses.body.write_input import input_to_wire
from streamnorm.dialects.openai_responses.wire import DIALECT

__all__ = ["FIELD_PARTS", "read_request", "write_request"]

_PATH = "/v1/responses"

_FIELDS: dict[str, tuple[str, Callable[[dict[str, Any], str], Any]]] = {
    "model": ("model", text_in),
    "max_output_tokens": ("max_tokens", integer_in),
    "temperature": ("temperature", number_in),
    "top_p": ("top_p", number_in),
    "top_logprobs": ("top_logprobs", integer_in),
    "parallel_tool_calls": ("parallel_tool_calls", boolean_in),
    "user": ("user", text_in),
    "safety_identifier": ("safety_identifier", text_in),
    "service_tier": ("service_tier", text_in),
    "prompt_cache_key": ("cache_key", text_in),
    "store": ("store", boolean_in),
    "stream": ("stream", boolean_in),
}
"""Fields of the body that are one value, each with the field of the request and its reader."""

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

_READ_BY_THEMSELVES = frozenset({"input", "tools", "tool_choice"})


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return the request that a body is.

    Raises:
        DecodeError: It is no Responses request.
    """
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in body.items():
        if value is None:
            extra[name] = None
        elif name in _READ_BY_THEMSELVES:
            continue
        elif name in _FIELDS:
            field, read = _FIELDS[name]
            fields[field] = read(body, name)
        elif name in OPTIONS:
            OPTIONS[name](body, fields, extra)
        else:
            extra[name] = value
    tools = tools_from_wire(body)
    choice, inexact = choice_from_wire(body)
    if inexact is not None:
        extra["tool_choice"] = inexact
    reader = InputReader(_items_of(body, fields), _declared(tools), context.server)
    messages = reader.messages()
    if reader.references:
        fields["state"] = {**fields.get("state", {}), "item_reference": reader.references}
    known = {_key(tool) for tool in tools}
    tools += [tool for tool in reader.added_tools if _key(tool) not in known]
    part = Request(
        **fields,
        messages=messages,
        tools=tuple(tools),
        tool_choice=choice,
        extra={DIALECT: extra} if extra else None,
    )
    return structs.replace(part, source=Source(DIALECT, body, part))


def _items_of(body: dict[str, Any], fields: dict[str, Any]) -> list[Any]:
    """Return the items of the input; text is a message of the user."""
    value = body.get("input")
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if is_array(value):
        return value
    if value is not None:
        raise unexpected(value, "a string or an array", "$.input")
    if "state" not in fields:
        raise DecodeError("missing, expected a string or an array", path="$.input")
    return []


def _declared(tools: list[AnyTool]) -> frozenset[str] | None:
    """Return the names of the client's tools; None if the request may not list them all."""
    if not tools or any(
        isinstance(tool, ServerTool) and tool.kind in ("tool_search", CLIENT_SEARCH)
        for tool in tools
    ):
        return None
    return frozenset(tool.name for tool in tools if isinstance(tool, (Tool, CustomTool)))


def _key(tool: AnyTool) -> object:
    """Return what tells a tool from the others."""
    if isinstance(tool, (Tool, CustomTool)):
        return tool.name, tool.namespace and tool.namespace.name
    return (tool.kind, None) if isinstance(tool, ServerTool) else (tool.name, None)


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a projected request as a body."""
    source = request_source(request, DIALECT)
    if source is not None:
        return Written({**source}, _PATH)
    body: dict[str, Any] = {"model": request.model} if request.model else {}
    own_request = is_own(request, DIALECT)
    if request.system:
        body["instructions"] = "\n\n".join([block.text for block in request.system])
    items = input_to_wire(request.messages, context)
    if items or not request.state:
        body["input"] = items
    added = _added_tools(request)
    tools = tools_to_wire([tool for tool in request.tools if _key(tool) not in added])
    if tools:
        body["tools"] = tools
    own = {**own_fields(request.extra)}
    choice = request.tool_choice
    if choice is not None:
        # One that was not changed is written with what only this dialect knows of it.
        inexact = own.pop("tool_choice", None)
        is_same = inexact is not None and choice_from_wire({"tool_choice": inexact})[0] == choice
        body["tool_choice"] = inexact if is_same else choice_to_wire(choice, request.tools)
    for name, (field, _) in _FIELDS.items():
        if name != "model" and (value := getattr(request, field)) is not None:
            body[name] = value
    if request.metadata is not None:
        body["metadata"] = request.metadata
    if request.store is None and "store" not in own and not own_request:
        body["store"] = False  # other vendors store nothing
    add_options(body, request, own)
    return Written(body, _PATH)


def _added_tools(request: Request) -> set[object]:
    """Return the keys of the tools that an item of the input adds."""
    keys: set[object] = set()
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, OpaqueBlock) and block.kind == "additional_tools":
                keys |= {_key(tool) for tool in tools_from_wire(object_in(block.data))}
            elif isinstance(block, ServerToolResult) and block.kind == "tool_search_output":
                keys |= {_key(tool) for tool in tools_from_wire(block.content)}
    return keys
