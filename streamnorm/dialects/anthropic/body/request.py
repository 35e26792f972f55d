"""Requests, in both directions: the body, its options, and the betas that its fields need.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  The body comes first, then
the options that several fields hold together (`thinking` and `output_config`, the service tier,
`context_management`), then the table of betas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    get_bool,
    get_int,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    Source,
    request_source,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm.dialects.anthropic.body.content import add_extra, dialect_fields, split_cache_mark
from streamnorm.dialects.anthropic.body.fitting import drop_clearing_edits
from streamnorm.dialects.anthropic.body.messages import (
    messages_from_wire,
    messages_to_wire,
    system_from_wire,
    system_to_wire,
)
from streamnorm.dialects.anthropic.body.tools import (
    add_tool_choice,
    add_tools,
    tool_choice_from_wire,
    tools_from_wire,
)
from streamnorm.dialects.anthropic.wire import DIALECT

_MODES: dict[str, Literal["off", "budget", "adaptive"]] = {
    "enabled": "budget",
    "adaptive": "adaptive",
    "disabled": "off",
}
_TYPES = {mode: word for word, mode in _MODES.items()}
_SHOWS = {"summarized": "auto", "omitted": "none"}
_TIERS = {"auto": "auto", "standard_only": "default"}
_COMPACTION = "compact_20260112"
_Body: TypeAlias = "dict[str, Any]"
_MCP = ("mcp-client-2025-11-20", "mcp-client-2026-09-15")
_COMPUTER_TOOLS = ("computer_20241022", "bash_20241022", "text_editor_20241022")
_PATH = "/v1/messages"
_BETA_HEADER = "anthropic-beta"

# Of `metadata`, `output_config`, `tool_choice` and `context_management` only a part is mapped.
_MAPPED = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "mcp_servers", "stop_sequences"}
    | {"max_tokens", "temperature", "top_p", "top_k", "stream", "thinking", "output_config"}
    | {"output_format", "metadata", "service_tier", "context_management", "thread"}
)
FIELD_PARTS = {name: (name,) for name in _MAPPED} | {
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
"""Fields of `Request` by the field of the body that holds them."""
_CHOICE = frozenset({"type", "name", "disable_parallel_tool_use"})


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return the unified request of a body.

    Raises:
        DecodeError: The body is no request of Anthropic.
    """
    messages = messages_from_wire(body, context.server)
    tools = tools_from_wire(body)
    choice, parallel = tool_choice_from_wire(body, tools)
    output, output_field = _output_from_wire(body)
    compact_at, management = _compaction_from_wire(body)
    tier, user = _tier_from_wire(body), _user_from_wire(body)
    thread = get_object(body, "thread")
    mark, extra = split_cache_mark(body, {name for name in _MAPPED if body.get(name) is not None})
    unknown = {**dialect_fields(extra), **_unknown_parts(body, output_field)}
    if management:
        unknown["context_management"] = management
    if tier is None and body.get("service_tier") is not None:
        unknown["service_tier"] = body["service_tier"]
    request = Request(
        model=get_str(body, "model") or "",
        system=system_from_wire(body),
        messages=messages,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        max_tokens=get_int(body, "max_tokens"),
        stop=get_strings(body, "stop_sequences") or (),
        temperature=get_number(body, "temperature"),
        top_p=get_number(body, "top_p"),
        top_k=get_int(body, "top_k"),
        output=output,
        reasoning=_reasoning_from_wire(body),
        user=user,
        service_tier=tier,
        cache=mark,
        compact_at_tokens=compact_at,
        stream=get_bool(body, "stream"),
        state=None if thread is None else {"thread": thread},
        betas=_betas_from_wire(context),
        extra={DIALECT: unknown} if unknown else None,
    )
    return structs.replace(request, source=Source(DIALECT, body, request))


def _user_from_wire(body: dict[str, Any]) -> str | None:
    metadata = get_object(body, "metadata")
    if metadata is None:
        return None
    try:
        return get_str(metadata, "user_id")
    except DecodeError as exc:
        raise prefix_path(exc, "$.metadata") from None


def _betas_from_wire(context: ReadContext) -> tuple[str, ...]:
    names = context.headers.get(_BETA_HEADER, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def _unknown_parts(body: dict[str, Any], output_field: str) -> dict[str, Any]:
    """Return the unknown fields within the fields that are mapped in part."""
    mapped = {
        "metadata": frozenset({"user_id"}),
        "output_config": frozenset({"effort", output_field}),
        "tool_choice": _CHOICE,
    }
    parts = {
        name: unknown
        for name, known in mapped.items()
        if (unknown := unknown_fields(get_object(body, name) or {}, known))
    }
    if output_field != "output_format" and body.get("output_format") is not None:
        parts["output_format"] = body["output_format"]
    return parts


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a projected request as a body, with its betas as a header.

    Raises:
        EncodeError: A part has no legal form.
    """
    body = request_source(request, DIALECT)
    if body is None:
        body = _body_to_wire(request, context)
    betas, target = request.betas, context.capabilities
    # In its own dialect the client names its betas itself; only a server with the vendor's checks
    # needs what the client forgot.
    if target.vendor_checks or not target.only_refusals:
        betas = _add_needed_betas(body, betas, target)
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
        _add_thinking(body, request.reasoning, context)
    _add_output_config(body, request, context)
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
    add_extra(body, request.cache, dialect_fields(request.extra))
    if request.compact_at_tokens is not None:
        _add_compaction(body, request.compact_at_tokens)
    return drop_clearing_edits(body, context) if _was_switched_off(request) else body


def _was_switched_off(request: Request) -> bool:
    """Return whether a body asked for reasoning that has been switched off since it was read."""
    options, source = request.reasoning, request.source
    if options is None or options.mode != "off" or source is None:
        return False
    return options is not source.part.reasoning


def _reasoning_from_wire(body: dict[str, Any]) -> ReasoningOptions | None:
    """Return the reasoning options: `thinking`, and the effort in `output_config`.

    Raises:
        DecodeError: A field is of another type.
    """
    thinking = get_object(body, "thinking")
    config = get_object(body, "output_config")
    try:
        effort = None if config is None else get_str(config, "effort")
    except DecodeError as exc:
        raise prefix_path(exc, "$.output_config") from None
    if thinking is None:
        return None if effort is None else ReasoningOptions(effort=effort)
    try:
        word, budget = require_str(thinking, "type"), get_int(thinking, "budget_tokens")
        display = get_str(thinking, "display")
    except DecodeError as exc:
        raise prefix_path(exc, "$.thinking") from None
    mapped = {"budget_tokens"}
    if word in _MODES:
        mapped.add("type")
    if display in _SHOWS:
        mapped.add("display")
    unknown = unknown_fields(thinking, mapped)
    return ReasoningOptions(
        _MODES.get(word),
        effort,
        budget,
        # The beta's `updates` are summaries, too, sent while the model thinks.
        _SHOWS.get(display, "auto") if display is not None else None,
        extra={DIALECT: unknown} if unknown else None,
    )


def _add_thinking(body: dict[str, Any], reasoning: ReasoningOptions, context: WriteContext) -> None:
    """Add `thinking` to a body."""
    value: dict[str, Any] = {}
    if reasoning.mode is not None:
        value["type"] = _TYPES[reasoning.mode]
    if reasoning.budget_tokens is not None and reasoning.mode == "budget":
        value["budget_tokens"] = reasoning.budget_tokens
    unknown = dialect_fields(reasoning.extra)
    show = reasoning.show
    if show is not None and reasoning.mode in ("budget", "adaptive"):
        value["display"] = "omitted" if show == "none" else "summarized"
        if show in ("concise", "detailed"):
            context.losses.add("reasoning_summary", "request", "written as summarized")
    elif show is not None and "display" not in unknown:
        context.losses.add("reasoning_summary", "request", "dropped without reasoning")
    if reasoning.mode == "off":
        unknown = unknown_fields(unknown, {"display"})  # `disabled` has no display
    value |= unknown
    if value:
        body["thinking"] = value


def _output_from_wire(body: dict[str, Any]) -> tuple[OutputFormat | None, str]:
    """Return the output format, and the name of the field that holds it; "" without a format.

    The beta `structured-outputs` had `output_format`, before `output_config.format` replaced it.

    Raises:
        DecodeError: A field is of another type.
    """
    config = get_object(body, "output_config") or {}
    for owner, name, path in (
        (config, "format", "$.output_config"),
        (body, "output_format", "$"),
    ):
        try:
            form = get_object(owner, name)
            if form is None or form.get("type") != "json_schema":
                continue
            schema = get_object(form, "schema")
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
        unknown = unknown_fields(form, {"type", "schema"})
        extra = {DIALECT: unknown} if unknown else None
        return OutputFormat("json_schema", schema, strict=True, extra=extra), name
    return None, ""


def _add_output_config(body: dict[str, Any], request: Request, context: WriteContext) -> None:
    """Add `output_config` to a body."""
    config: dict[str, Any] = {}
    reasoning, output = request.reasoning, request.output
    if reasoning is not None and reasoning.effort is not None:
        config["effort"] = reasoning.effort
    if output is not None and output.kind == "json_schema":
        config["format"] = {
            "type": "json_schema",
            "schema": output.schema or {},
            **dialect_fields(output.extra),
        }
        for field in ("name", "description"):
            if getattr(output, field) is not None:
                context.losses.add(f"schema_{field}", "request", "dropped")
        if output.strict is False:
            context.losses.add("schema_strict", "request", "enforced")
    if config:
        body["output_config"] = config


def _tier_from_wire(body: dict[str, Any]) -> str | None:
    """Return the service tier by OpenAI's name; None if OpenAI has no such tier."""
    return _TIERS.get(get_str(body, "service_tier") or "")


def _compaction_from_wire(body: dict[str, Any]) -> tuple[int | None, dict[str, Any] | None]:
    """Return the input tokens at which the context is compacted, and the unknown fields.

    Beside other edits, the compaction stays among them without its trigger, so that
    `_add_compaction` puts the trigger back at its position.

    Raises:
        DecodeError: A field is of another type.
    """
    management = get_object(body, "context_management")
    edits = None if management is None else management.get("edits")
    if management is None or not is_array(edits):
        return None, management
    for number, edit in enumerate(edits):
        if not is_object(edit) or edit.get("type") != _COMPACTION:
            continue
        trigger = edit.get("trigger")
        if not is_object(trigger) or trigger.keys() != {"type", "value"}:
            continue
        tokens = trigger["value"]
        if trigger["type"] != "input_tokens" or type(tokens) is not int:
            continue
        other = {name: item for name, item in edit.items() if name != "trigger"}
        if len(edits) == 1 and len(other) == 1 and len(management) == 1:
            return tokens, None
        return tokens, {**management, "edits": [*edits[:number], other, *edits[number + 1 :]]}
    return None, management


def _add_compaction(body: dict[str, Any], tokens: int) -> None:
    """Add the compaction of the context at `tokens` to a body that has its unknown fields."""
    trigger = {"type": "input_tokens", "value": tokens}
    management = body.get("context_management")
    edits = management.get("edits") if is_object(management) else None
    edits = list(edits) if is_array(edits) else []
    for number, edit in enumerate(edits):
        if is_object(edit) and edit.get("type") == _COMPACTION and "trigger" not in edit:
            edits[number] = {**edit, "trigger": trigger}
            break
    else:
        edits.append({"type": _COMPACTION, "trigger": trigger})
    body["context_management"] = {
        **(management if is_object(management) else {}),
        "edits": edits,
    }


class _Beta(Struct, frozen=True):
    """A beta and the field that needs it.

    Attributes:
        name: Name of the beta.
        is_needed: Predicate: the body has the field.
        also: Names of other betas that enable the field.
    """

    name: str
    is_needed: Callable[[_Body], bool]
    also: tuple[str, ...] = ()


def _add_needed_betas(
    body: _Body, betas: tuple[str, ...], target: BodyCapabilities
) -> tuple[str, ...]:
    """Return `betas`, followed by the betas that fields of a body need.

    The API refuses the field of a beta that is not enabled.
    """
    known = target.allowed_betas
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
    """Return a predicate: the body has edits that compact, or edits that do not."""

    def has_edit(body: _Body) -> bool:
        management = body.get("context_management")
        edits = objects_of(management.get("edits")) if is_object(management) else []
        return any(str(edit.get("type")).startswith("compact_") is compacts for edit in edits)

    return has_edit


def _has_system_field(field: str) -> Callable[[_Body], bool]:
    """Return a predicate: a system message of the body has a field."""
    return lambda body: any(field in message for message in _system_messages(body))


def _has_tool_change(body: _Body) -> bool:
    return any(
        block.get("type") in ("tool_addition", "tool_removal")
        for message in _system_messages(body)
        for block in objects_of(message["content"])
    )


def _system_messages(body: _Body) -> Iterator[_Body]:
    return (message for message in body["messages"] if message["role"] == "system")


def _has_inner_field(owner: str, field: str) -> Callable[[_Body], bool]:
    """Return a predicate: the object in field `owner` of the body has a field."""

    def has(body: _Body) -> bool:
        value = body.get(owner)
        return is_object(value) and value.get(field) is not None

    return has


def _has_updates(body: _Body) -> bool:
    thinking = body.get("thinking")
    return is_object(thinking) and thinking.get("display") == "updates"


_BETAS = (
    _Beta(_MCP[0], _has_toolset, _MCP),
    # Its revision has no toolsets: a server names its tools itself.
    _Beta("mcp-client-2025-04-04", _has_servers_alone, _MCP),
    _Beta("context-management-2025-06-27", _has_edit(compacts=False)),
    _Beta("compact-2026-01-12", _has_edit(compacts=True)),
    _Beta(
        "mid-conversation-output-config-2026-07-01",
        _has_system_field("output_config"),
        ("per-turn-control-2026-07-01",),  # the name that Claude Code 2.1.330 sends
    ),
    _Beta("mid-conversation-system-clear-at-2026-08-21", _has_system_field("clear_at")),
    _Beta("mid-conversation-tool-changes-2026-07-01", _has_tool_change),
    _Beta("thinking-binding-controls-2026-08-01", _has_inner_field("thinking", "block_binding")),
    _Beta("thinking-display-updates-2026-08-18", _has_updates),
    _Beta("task-budgets-2026-03-13", _has_inner_field("output_config", "task_budget")),
    _Beta("advisor-tool-2026-03-01", _has_tool("advisor_")),
    _Beta("computer-use-2024-10-22", _has_tool(*_COMPUTER_TOOLS)),
    _Beta("computer-use-2025-01-24", _has_tool("computer_20250124")),
    _Beta("computer-use-2025-11-24", _has_tool("computer_20251124")),
)
