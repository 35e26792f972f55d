"""Requests, in both directions.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import (
    boolean_in,
    integer_in,
    number_in,
    object_of,
    rest_of,
    text_in,
    texts_in,
    within,
)
from streamnorm._core.bodies.request import Request, Source, request_source
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm.dialects.anthropic.body.betas import with_needed_betas
from streamnorm.dialects.anthropic.body.extra import (
    DIALECT,
    add_rest,
    mark_and_rest,
    own_fields,
)
from streamnorm.dialects.anthropic.body.fitting import without_clearing
from streamnorm.dialects.anthropic.body.messages import (
    messages_from_wire,
    messages_to_wire,
    system_from_wire,
    system_to_wire,
)
from streamnorm.dialects.anthropic.body.options import (
    add_compaction,
    add_output_config,
    add_thinking,
    compaction_from_wire,
    output_from_wire,
    reasoning_from_wire,
    tier_from_wire,
)
from streamnorm.dialects.anthropic.body.tools import (
    add_tool_choice,
    add_tools,
    tool_choice_from_wire,
    tools_from_wire,
)

__all__ = ["FIELD_PARTS", "read_request", "write_request"]

_PATH = "/v1/messages"
_BETA_HEADER = "anthropic-beta"

# Fields with unified places; of some, a part of what they hold has none.
_FIELDS = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "mcp_servers", "stop_sequences"}
    | {"max_tokens", "temperature", "top_p", "top_k", "stream", "thinking", "output_config"}
    | {"output_format", "metadata", "service_tier", "context_management", "thread"}
)
FIELD_PARTS = {name: (name,) for name in _FIELDS} | {
    "cache_control": ("cache",),
    "context_management": ("compact_at_tokens",),
    "mcp_servers": ("tools",),
    "metadata": ("user",),
    "output_config": ("output", "reasoning"),
    "output_format": ("output",),
    "stop_sequences": ("stop",),
    "thinking": ("reasoning",),
    "thread": ("state",),
    "tool_choice": ("parallel_tool_calls", "tool_choice", "tools"),
}
"""The fields of `Request` that each field of the body holds."""
_CHOICE = frozenset({"type", "name", "disable_parallel_tool_use"})


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return the request that a body is.

    Raises:
        DecodeError: The body is no request of Anthropic.
    """
    messages = messages_from_wire(body, context.server)
    tools = tools_from_wire(body)
    choice, parallel = tool_choice_from_wire(body, tools)
    output, output_field = output_from_wire(body)
    compact_at, management = compaction_from_wire(body)
    tier, user = tier_from_wire(body), _user_from_wire(body)
    thread = object_of(body, "thread")
    mark, extra = mark_and_rest(body, {name for name in _FIELDS if body.get(name) is not None})
    rest = {**own_fields(extra), **_partial_rest(body, output_field)}
    if management:
        rest["context_management"] = management
    if tier is None and body.get("service_tier") is not None:
        rest["service_tier"] = body["service_tier"]
    request = Request(
        model=text_in(body, "model") or "",
        system=system_from_wire(body),
        messages=messages,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_tokens=integer_in(body, "max_tokens"),
        stop=texts_in(body, "stop_sequences") or (),
        temperature=number_in(body, "temperature"),
        top_p=number_in(body, "top_p"),
        top_k=integer_in(body, "top_k"),
        output=output,
        reasoning=reasoning_from_wire(body),
        user=user,
        service_tier=tier,
        cache=mark,
        compact_at_tokens=compact_at,
        stream=boolean_in(body, "stream"),
        state=None if thread is None else {"thread": thread},
        betas=_betas_from_wire(context),
        extra={DIALECT: rest} if rest else None,
    )
    return structs.replace(request, source=Source(DIALECT, body, request))


def _user_from_wire(body: dict[str, Any]) -> str | None:
    metadata = object_of(body, "metadata")
    if metadata is None:
        return None
    try:
        return text_in(metadata, "user_id")
    except DecodeError as exc:
        raise within(exc, "$.metadata") from None


def _betas_from_wire(context: ReadContext) -> tuple[str, ...]:
    names = context.headers.get(_BETA_HEADER, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _partial_rest(body: dict[str, Any], output_field: str) -> dict[str, Any]:
    """Return what has no unified place of the fields that have one for a part."""
    mapped = {
        "metadata": frozenset({"user_id"}),
        "output_config": frozenset({"effort", output_field}),
        "tool_choice": _CHOICE,
    }
    rest = {
        name: rest
        for name, known in mapped.items()
        if (rest := rest_of(object_of(body, name) or {}, known)) is not None
    }
    if output_field != "output_format" and body.get("output_format") is not None:
        rest["output_format"] = body["output_format"]
    return rest


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a projected request as a body, with its betas as a header.

    Raises:
        EncodeError: A part has no legal form.
    """
    body = request_source(request, DIALECT)
    if body is None:
        body = _body_to_wire(request, context)
    betas, target = request.betas, context.capabilities
    # A client of the dialect names them, unless it talks to a server that needs none.
    if target.vendor_checks or not target.only_refusals:
        betas = with_needed_betas(body, betas, target)
    return Written(body, _PATH, {_BETA_HEADER: ",".join(betas)} if betas else {})


def _body_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    body: dict[str, Any] = {"model": request.model} if request.model else {}
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    if request.system:
        body["system"] = system_to_wire(request.system, context)
    add_tools(body, request, context)
    add_tool_choice(body, request, context)
    if request.reasoning is not None:
        add_thinking(body, request.reasoning, context)
    add_output_config(body, request, context)
    for name in ("temperature", "top_p", "top_k", "stream"):
        value = getattr(request, name)
        if value is not None:
            body[name] = value
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.user is not None:
        body["metadata"] = {"user_id": request.user}
    if request.service_tier is not None:
        body["service_tier"] = context.capabilities.service_tiers[request.service_tier]
    body |= request.state or {}
    body["messages"] = messages_to_wire(request.messages, context)
    add_rest(body, request.cache, own_fields(request.extra))
    if request.compact_at_tokens is not None:
        add_compaction(body, request.compact_at_tokens)
    return without_clearing(body, context) if _is_switched_off(request) else body


def _is_switched_off(request: Request) -> bool:
    """Return whether the client asked for reasoning that was switched off since."""
    options, source = request.reasoning, request.source
    if options is None or options.mode != "off" or source is None:
        return False
    return options is not source.part.reasoning
