"""Requests in both directions: body, options, and the betas that fields require.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  The body comes first, then
the options that several fields hold together (`thinking` and `output_config`, the service tier,
`context_management`), then the table of betas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Literal, TypeAlias

from msgspec import Struct, structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_object,
    as_str,
    get_bool,
    get_int,
    get_number,
    get_object,
    get_str,
    get_strings,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.files import PDF
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    request_source,
)
from streamnorm._core.bodies.table import (
    Field,
    Group,
    Nested,
    Reading,
    RequestTable,
    Table,
    WithRest,
    Writing,
    add_unknown,
    leave_out,
    unknown_of,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm.dialects.anthropic.body.content import (
    as_extra,
    drop_untyped,
    mark_from_wire,
    mark_to_wire,
)
from streamnorm.dialects.anthropic.body.fitting import drop_clearing_edits
from streamnorm.dialects.anthropic.body.messages import (
    messages_from_wire,
    messages_to_wire,
    system_from_wire,
    system_to_wire,
)
from streamnorm.dialects.anthropic.body.tools import (
    tool_choice_from_wire,
    tool_choice_to_wire,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.anthropic.traits import CAPABILITIES, ENDPOINTS
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
_CLOUD_FIELDS = frozenset({"anthropic_beta", "anthropic_version", "model", "stream"})
_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_VERSION_HEADER, _FIRST_VERSION = "anthropic-version", "2023-06-01"
_MCP = ("mcp-client-2025-11-20", "mcp-client-2026-09-15")
_COMPUTER_TOOLS = ("computer_20241022", "bash_20241022", "text_editor_20241022")
_PATH = "/v1/messages"
_BETA_HEADER = "anthropic-beta"

_THINKING = Table(
    Field("mode", wire="type", read=lambda word: _MODES.get(as_str(word)), required="a string"),
    Field("budget_tokens", get_int),
    # The beta's `updates` are summaries, too, sent while the model thinks.
    Field(
        "show",
        wire="display",
        read=lambda word: _SHOWS.get(as_str(word)) or WithRest("auto", word),
    ),
)


def _thinking_from_wire(value: object) -> ReasoningOptions:
    fields, unknown = _THINKING.read(as_object(value))
    return ReasoningOptions(**fields, extra=as_extra(unknown))


def _thinking_to_wire(reasoning: ReasoningOptions, writing: Writing) -> _Body | None:
    losses, show = writing.context.losses, reasoning.show
    value: _Body = {}
    if reasoning.mode is not None:
        value["type"] = _TYPES[reasoning.mode]
    if reasoning.budget_tokens is not None and reasoning.mode == "budget":
        value["budget_tokens"] = reasoning.budget_tokens
    unknown = unknown_of(reasoning.extra, DIALECT)
    if show is not None and reasoning.mode in ("budget", "adaptive"):
        value["display"] = "omitted" if show == "none" else "summarized"
        if show in ("concise", "detailed"):
            losses.add("reasoning_summary", "request", "written as summarized")
    elif show is not None and "display" not in unknown:
        losses.add("reasoning_summary", "request", "dropped without reasoning")
    if reasoning.mode == "off":
        unknown = unknown_fields(unknown, {"display"})  # `disabled` has no display
    return {**value, **unknown} or None


def _format_from_wire(value: object) -> OutputFormat | None:
    form = as_object(value)
    if form.get("type") != "json_schema":
        return None
    extra = as_extra(unknown_fields(form, {"type", "schema"}))
    return OutputFormat("json_schema", get_object(form, "schema"), strict=True, extra=extra)


_CONFIG = Table(Field("effort", get_str), Field("output", wire="format", read=_format_from_wire))


def _config_from_wire(reading: Reading) -> _Body:
    """Return the output format, and the reasoning options with their effort."""
    config, unknown = _CONFIG.read_field(reading.body, "output_config")
    if unknown:
        reading.unknown["output_config"] = unknown
    output, reasoning = (reading.fields.get(name) for name in ("output", "reasoning"))
    if "output" in config:
        if output is not None:
            reading.unknown["output_format"] = reading.body["output_format"]
        output = config["output"]
    if "effort" in config:
        reasoning = reasoning or ReasoningOptions()
        reasoning = structs.replace(reasoning, effort=config["effort"])
    return {"output": output, "reasoning": reasoning}


def _config_to_wire(writing: Writing) -> _Body:
    config: _Body = {}
    losses = writing.context.losses
    reasoning: ReasoningOptions | None = writing.part.reasoning
    output: OutputFormat | None = writing.part.output
    if reasoning is not None and reasoning.effort is not None:
        config["effort"] = reasoning.effort
    if output is not None and output.kind == "json_schema":
        form = {"type": "json_schema", "schema": output.schema or {}}
        config["format"] = add_unknown(form, unknown_of(output.extra, DIALECT))
        for field in ("name", "description"):
            if getattr(output, field) is not None:
                losses.add(f"schema_{field}", "request", "dropped")
        if output.strict is False:
            losses.add("schema_strict", "request", "enforced")
    return {"output_config": config} if config else {}


def _compaction_from_wire(value: object) -> WithRest | None:
    """Return the token threshold of the compaction edit, and the other edits.

    Beside other edits, the compaction stays among them without its trigger, so that
    `_compaction_to_wire` puts the trigger back at its position.
    """
    management = as_object(value)
    edits = management.get("edits")
    if not is_array(edits):
        return None
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
            return WithRest(tokens, None)
        edits = [*edits[:number], other, *edits[number + 1 :]]
        return WithRest(tokens, {**management, "edits": edits})
    return None


def _compaction_to_wire(tokens: int, writing: Writing) -> _Body:
    """Return `context_management` with a compaction edit at `tokens`."""
    trigger = {"type": "input_tokens", "value": tokens}
    management = writing.unknown.pop("context_management", None)
    edits = management.get("edits") if is_object(management) else None
    edits = list(edits) if is_array(edits) else []
    for number, edit in enumerate(edits):
        if is_object(edit) and edit.get("type") == _COMPACTION and "trigger" not in edit:
            edits[number] = {**edit, "trigger": trigger}
            break
    else:
        edits.append({"type": _COMPACTION, "trigger": trigger})
    return {**(management if is_object(management) else {}), "edits": edits}


def _tier_to_wire(tier: str, writing: Writing) -> str:
    return writing.context.capabilities.service_tiers.get(tier, tier)


REQUEST = RequestTable(
    DIALECT,
    Field("model", get_str, write=lambda model, _: model or None),
    Field("max_tokens", get_int),
    Field("system", read=system_from_wire, write=system_to_wire),
    Group(
        ("tools",),
        ("tools", "mcp_servers"),
        lambda reading: {"tools": tools_from_wire(reading.body)},
        tools_to_wire,
    ),
    Group(
        ("tool_choice", "parallel_tool_calls"),
        ("tool_choice",),
        tool_choice_from_wire,
        tool_choice_to_wire,
        needs=("tools",),
    ),
    Field("reasoning", wire="thinking", read=_thinking_from_wire, write=_thinking_to_wire),
    # The beta `structured-outputs` had it before `output_config.format` replaced it.
    Field("output", wire="output_format", read=_format_from_wire, write=leave_out),
    Group(("output", "reasoning"), ("output_config",), _config_from_wire, _config_to_wire),
    Field("temperature", get_number),
    Field("top_p", get_number),
    Field("top_k", get_int),
    Field("stream", get_bool),
    Field("stop", get_strings, wire="stop_sequences"),
    Nested("metadata", Table(Field("user", get_str, wire="user_id"))),
    Field("service_tier", read=lambda tier: _TIERS.get(as_str(tier)), write=_tier_to_wire),
    Group(
        ("state",),
        ("thread",),
        lambda reading: {"state": {"thread": get_object(reading.body, "thread")}},
        lambda writing: writing.part.state,
    ),
    Group(
        ("messages",),
        ("messages",),
        messages_from_wire,
        messages_to_wire,
        required="an array",
        always=True,
    ),
    Field("cache", wire="cache_control", read=mark_from_wire, write=mark_to_wire),
    Field(
        "compact_at_tokens",
        wire="context_management",
        read=_compaction_from_wire,
        write=_compaction_to_wire,
    ),
)


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    Raises:
        DecodeError: The body is no request of Anthropic.
    """
    headers, asked = context.headers, ENDPOINTS.match("POST", context.path)
    if asked is not None and asked.model:  # of a cloud, which has the model in its path
        headers = {**headers, **cloud_headers(body)}
        stream = {"stream": True} if ENDPOINTS.streams(context.path, body) else {}
        rest = {name: body[name] for name in body if name not in _CLOUD_FIELDS}
        body = {"model": asked.model, **stream, **rest}
    names = headers.get(_BETA_HEADER, "").split(",")
    betas = tuple(name.strip() for name in names if name.strip())
    return REQUEST.read_request(body, context, betas=betas)


def cloud_headers(body: dict[str, Any]) -> dict[str, str]:
    """Return the version and beta headers that a cloud's body states as fields.

    https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
    (read 2026-11-27).

    Raises:
        DecodeError: No header can hold one of them.
    """
    version = get_str(body, "anthropic_version") or ""
    # Names of their own are of the time of the vendor's first version.
    headers = {_VERSION_HEADER: version if _VERSION.fullmatch(version) else _FIRST_VERSION}
    betas = ",".join(get_strings(body, "anthropic_beta") or ())
    if not (betas.isascii() and betas.isprintable()):
        raise unexpected(betas, "names of printable ASCII", "$.anthropic_beta")
    return {**headers, _BETA_HEADER: betas} if betas else headers


def write_request(request: Request, context: WriteContext) -> Written:
    """Encode a projected request as a body and a header with its betas.

    Raises:
        EncodeError: A part has no legal form.
    """
    body = request_source(request, DIALECT)
    if body is None:
        body = drop_untyped(REQUEST.write_request(request, context), "cache_control", "tool_choice")
        if _was_switched_off(request):
            body = drop_clearing_edits(body, context)
    betas, target = request.betas, context.capabilities
    # In its own dialect the client names its betas itself; only a server with the vendor's checks
    # needs what the client forgot.
    if target.vendor_checks or not target.only_refusals:
        betas = _add_needed_betas(body, betas, target)
    return Written(body, _PATH, {_BETA_HEADER: ",".join(betas)} if betas else {})


def _was_switched_off(request: Request) -> bool:
    """Return whether reasoning was switched off after the request was decoded."""
    options, source = request.reasoning, request.source
    if options is None or options.mode != "off" or source is None:
        return False
    return options is not source.part.reasoning


class _Beta(Struct, frozen=True):
    """A beta, and the fields that require it.

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
    """Return `betas` with the betas that fields of the body require.

    The API refuses the field of a beta that is not enabled.
    """
    known = target.allowed_betas
    for beta in _BETAS:
        if known is not None and beta.name not in known:
            continue
        allowed = betas if known is None or not betas else [name for name in betas if name in known]
        if beta.name in allowed or any(name in allowed for name in beta.also):
            continue
        if beta.is_needed(body):
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
    """Return a predicate: the body has a compaction edit (`compacts`), or another edit."""

    def has_edit(body: _Body) -> bool:
        management = body.get("context_management")
        edits = objects_of(management.get("edits")) if is_object(management) else []
        return any(str(edit.get("type")).startswith("compact_") is compacts for edit in edits)

    return has_edit


def _has_system_field(field: str) -> Callable[[_Body], bool]:
    """Return a predicate: a system message of the body has the field."""
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
    """Return a predicate: the object `owner` in the body has the field."""

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


_MARKED_BLOCKS = (
    "text image document tool_call tool_result server_tool_call server_tool_result opaque"
)
_TTLS = {"": "", "5m": "5m", "1h": "1h", "30m": "", "12h": "1h"}

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect="anthropic",
    fields=REQUEST.names | {"betas"},
    roles=frozenset({"user", "assistant", "system"}),
    inline_system="after_user",
    images=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    # "Only HTTPS URLs are supported."
    image_urls="https",
    text_documents=True,
    document_types=frozenset({PDF}),
    document_urls="pdf",  # anthropic 2.14.0: `URLPDFSourceParam`
    file_issuer="anthropic",
    citations=CAPABILITIES.citations,
    # platform.claude.com/docs/en/build-with-claude/structured-outputs#feature-compatibility
    prefill_with_schema=False,
    mixed_results=True,
    result_media=frozenset({"text", "image", "document", "opaque"}),
    error_results=True,
    # The API refuses ids with other characters than letters, digits, `_` and `-`; the room
    # escapes them when it writes and restores them when it reads (`escape_id`).
    id_pattern=None,
    # Also on Bedrock (`toolu_bdrk_`) and Vertex AI (`toolu_vrtx_`).
    issued_id_pattern="toolu_",
    unique_ids=True,
    name_pattern=r"[a-zA-Z0-9_-]{1,128}",
    # anthropics/claude-code#79418, decocms/studio#6874
    property_pattern=r"[a-zA-Z0-9_.-]{1,64}",
    deferred_tools=True,
    server_tools={
        "web_search": frozenset(
            {"allowed_domains", "blocked_domains", "max_uses", "user_location"}
        ),
        "web_fetch": frozenset({"allowed_domains", "blocked_domains", "max_uses"}),
        "code_execution": frozenset(),
        "tool_search": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "allowed_tools", "require_approval"}),
    server_history=True,
    enforces_outputs=True,
    # `output_config.format` has no type for JSON without a schema.
    output_kinds=frozenset({"text", "json_schema"}),
    max_tokens=32_000,
    max_temperature=1.0,
    # The API refuses fewer (LionSR/TeXRA#2624).
    number_bounds={"compact_at_tokens": (50_000, inf)},
    thinking="adaptive",
    bounded_budgets=True,
    signed_budgets=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    reasoning_issuer="anthropic",
    # "The final block in an assistant message cannot be `thinking`" (forgecode#2107).
    reasoning_answered=True,
    marks=frozenset(["system", "tool", "assistant", *_MARKED_BLOCKS.split()]),
    mark_ttls=_TTLS,
    request_ttls=_TTLS,
    falling_ttls=True,
    service_tiers={"auto": "auto", "default": "standard_only"},
)
