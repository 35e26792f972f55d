"""Requests in both directions: reasoning options, then all other fields.

The vendor has one reasoning option, `reasoning_effort`.  Compatible servers have fields of
their own, of which a request may hold several.  `messages` and `tools` convert what they name.

https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import convert

from streamnorm._core.blocks import CacheMark
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_int,
    get_labels,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    unknown_fields,
)
from streamnorm._core.bodies.files import PDF
from streamnorm._core.bodies.projection.reasoning_options import reasoning_budget
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    is_same_dialect,
    request_source,
)
from streamnorm._core.bodies.table import (
    Field,
    Group,
    Reading,
    RequestTable,
    Table,
    Writing,
    add_unknown,
    unknown_of,
)
from streamnorm._core.codec import WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object, string_of
from streamnorm._core.tools import ToolChoice
from streamnorm.dialects.openai_chat.body.content import DIALECT, as_extra
from streamnorm.dialects.openai_chat.body.messages import messages_from_wire, messages_to_wire
from streamnorm.dialects.openai_chat.body.tools import (
    choice_from_wire,
    choice_to_wire,
    tools_from_wire,
    tools_to_wire,
)

_Fields: TypeAlias = "dict[str, Any]"

_PATH = "/v1/chat/completions"

_EFFORT = "reasoning_effort"
_TEMPLATE = "chat_template_kwargs"
_BUDGET = "budget_tokens"
_BUDGET_MARK = "{budget}"
_MODES = {"enabled": "adaptive", "adaptive": "adaptive", "disabled": "off"}
_OFF: _Fields = {"mode": "off"}
_ON: _Fields = {"mode": "adaptive"}

# Mapped fields of `response_format`.
_OUTPUT = frozenset({"type", "json_schema"})
_SCHEMA_NAME = "response"
_NO_NAMES = ("", _SCHEMA_NAME)
_USAGE = {"include_usage": True}


def reasoning_from_wire(body: _Fields, rest: _Fields) -> ReasoningOptions | None:
    """Return the reasoning options of a request.

    A field of another form, or one that contradicts an earlier field, is added unchanged to
    `rest`, the unknown fields of the request.
    """
    effort = get_str(body, _EFFORT)
    options: _Fields = {} if effort is None else {"effort": effort}
    for name, read in _READERS.items():
        value = body.get(name)
        if value is None:
            continue
        further, unknown = read(value)
        joined = None if further is None else _join(options, further)
        if joined is None:
            rest[name] = value
            continue
        options = joined
        if unknown:
            rest[name] = unknown
    if not options:
        return None
    if options.get("mode") == "off" and options.get("effort") == "none":
        del options["effort"]
    return convert(options, ReasoningOptions)


def _join(options: _Fields, further: _Fields) -> _Fields | None:
    """Return the merged reasoning options of two fields; None if the options contradict."""
    joined = options | further
    if len({_is_on(options), _is_on(further)} - {None}) > 1 or {_BUDGET, "effort"} <= joined.keys():
        return None
    if any(options[name] != joined[name] for name in options if name != "mode"):
        return None
    if _BUDGET in joined and joined.get("mode") != "off":
        joined["mode"] = "budget"
    return joined


def _is_on(options: _Fields) -> bool | None:
    """Return whether options turn reasoning on (True) or off (False); None if neither."""
    if "mode" in options:
        return bool(options["mode"] != "off")
    return False if options.get("effort") == "none" else None


def _read_reasoning(value: object) -> tuple[_Fields | None, _Fields]:
    """Read reasoning options from OpenRouter's `reasoning`: an effort, a budget, or a switch."""
    if not is_object(value) or len(value) != 1:
        return None, {}
    match value:
        case {"effort": str(word)}:
            return {"effort": word}, {}
        case {"max_tokens": int(budget)} if not isinstance(budget, bool):
            return {"mode": "budget", "budget_tokens": budget}, {}
        case {"enabled": bool(switch)}:
            return _read_switch(switch)
        case _:
            return None, {}


def _read_thinking(value: object) -> tuple[_Fields | None, _Fields]:
    """Read reasoning options from `thinking`: `{"type": "enabled"}`, with or without a budget."""
    if not is_object(value):
        return None, {}
    kind, budget = string_of(value, "type"), value.get("budget_tokens")
    if kind not in _MODES or not value.keys() <= {"type", "budget_tokens"}:
        return None, {}
    options: _Fields = {"mode": _MODES[kind]}
    if budget is not None:
        if type(budget) is not int or kind == "disabled":
            return None, {}
        options = {"mode": "budget", "budget_tokens": budget}
    return options, {}


def _read_switch(value: object) -> tuple[_Fields | None, _Fields]:
    """Read the reasoning switch `enable_thinking`."""
    return (_ON if value else _OFF) if isinstance(value, bool) else None, {}


def _read_budget(value: object) -> tuple[_Fields | None, _Fields]:
    """Read the reasoning budget `thinking_budget`."""
    return {_BUDGET: value} if type(value) is int else None, {}


def _read_template(value: object) -> tuple[_Fields | None, _Fields]:
    """Read the reasoning switch in chat template arguments; models name the switch differently."""
    if not is_object(value):
        return None, {}
    for name in ("enable_thinking", "thinking"):
        if isinstance(switch := value.get(name), bool):
            unknown = {other: item for other, item in value.items() if other != name}
            return _ON if switch else _OFF, unknown
    return None, {}


_READERS: dict[str, Callable[[object], tuple[_Fields | None, _Fields]]] = {
    "reasoning": _read_reasoning,
    "thinking": _read_thinking,
    "enable_thinking": _read_switch,
    "thinking_budget": _read_budget,
    _TEMPLATE: _read_template,
}
REASONING_FIELDS = (_EFFORT, *_READERS)
"""Fields of the body that hold reasoning options."""


def reasoning_to_wire(request: Request, context: WriteContext) -> _Fields:
    """Return reasoning options as the fields that the server's profile names, or as an effort."""
    options = request.reasoning or ReasoningOptions()
    template = context.capabilities.reasoning_fields.get(options.mode or "")
    if template is None:
        return {_EFFORT: options.effort} if options.effort else {}
    budget = reasoning_budget(options)
    fields: _Fields = {name: _fill_budget(value, budget) for name, value in template.items()}
    if options.effort is None:
        return fields
    if fields == template:
        return {_EFFORT: options.effort, **fields}
    if options.budget_tokens is not None:
        context.losses.add("effort", "request", "dropped beside a budget")
    return fields


def _fill_budget(value: Any, budget: int) -> Any:
    """Return a value of the profile's `reasoning_fields` with the budget filled in."""
    if is_object(value):
        return {name: _fill_budget(item, budget) for name, item in value.items()}
    return budget if value == _BUDGET_MARK else value


def _get_stop(body: _Fields, name: str) -> tuple[str, ...] | None:
    stop = body[name]
    return (stop,) if isinstance(stop, str) else get_strings(body, name)


def _get_logprobs(body: _Fields, name: str) -> bool | None:
    """Return `logprobs`, a boolean; None for a number, which some servers accept instead."""
    return None if type(body[name]) is int else get_bool(body, name)


def _choice_to_wire(writing: Writing) -> _Fields:
    choice, losses = writing.part.tool_choice, writing.context.losses
    if choice.mode == "named" and choice.kind not in ("function", "custom"):
        losses.add("tool_choice_weakened", "request", "server tools cannot be named")
        choice = ToolChoice("auto")
    return {"tool_choice": choice_to_wire(choice, writing.part.tools)}


_SCHEMA = Table(
    # The API requires a name; other dialects have none.
    Field("name", get_str, write=lambda name, _: name or _SCHEMA_NAME, always=True),
    Field("description", get_str),
    Field("schema", get_object),
    Field("strict", get_bool),
)


def _output_from_wire(value: object) -> OutputFormat | None:
    """Return the output format; None for an unknown type."""
    form = as_object(value)
    kind, extra = form.get("type"), unknown_fields(form, _OUTPUT, with_nulls=True)
    if kind == "text" or kind == "json_object":
        return OutputFormat(kind, extra=as_extra(extra))
    if kind != "json_schema":
        return None
    try:
        fields, unknown = _SCHEMA.read(as_object(form.get(kind)))
    except DecodeError as exc:
        raise prefix_path(exc, "$.json_schema") from None
    if unknown:
        extra[kind] = unknown
    if fields.get("name") in _NO_NAMES:
        del fields["name"]
    return OutputFormat(kind, **fields, extra=as_extra(extra))


def _output_to_wire(output: OutputFormat, writing: Writing) -> _Fields:
    value: _Fields = {"type": output.kind}
    if output.kind == "json_schema":
        value["json_schema"] = _SCHEMA.write(output)
    return add_unknown(value, unknown_of(output.extra, DIALECT))


def _cache_from_wire(value: object) -> CacheMark | None:
    """Return the request's cache mark if it enables implicit caching; else None."""
    options = as_object(value)
    if options.get("mode") != "implicit" or not options.keys() <= {"mode", "ttl"}:
        return None
    return CacheMark(get_str(options, "ttl"))


def _cache_to_wire(mark: CacheMark, writing: Writing) -> _Fields:
    return {"mode": "implicit"} if mark.ttl is None else {"mode": "implicit", "ttl": mark.ttl}


def _stream_from_wire(reading: Reading) -> _Fields:
    """Return `stream`; stream options other than `include_usage` stay unknown fields."""
    body = reading.body
    stream, options = get_bool(body, "stream"), get_object(body, "stream_options")
    if options and stream and options.get("include_usage") is True:
        options = unknown_fields(options, _USAGE.keys(), with_nulls=True)
    if options:
        reading.unknown["stream_options"] = options
    return {"stream": stream}


def _stream_to_wire(writing: Writing) -> _Fields:
    stream = writing.part.stream
    options: _Fields = writing.unknown.pop("stream_options", None) or {}
    if not stream:
        return {"stream": stream}
    # Without `include_usage` the stream reports no tokens.
    return {"stream": True, "stream_options": {**_USAGE, **options}}


REQUEST = RequestTable(
    DIALECT,
    Field("model", get_str),
    Field(
        "messages",
        read=messages_from_wire,
        write=messages_to_wire,
        required="an array",
        always=True,
    ),
    Group(
        ("tools",),
        ("tools", "functions", "web_search_options"),
        lambda reading: {"tools": tools_from_wire(reading.body)},
        tools_to_wire,
    ),
    Group(
        ("tool_choice",),
        ("tool_choice", "function_call"),
        lambda reading: {"tool_choice": choice_from_wire(reading.body, reading.unknown)},
        _choice_to_wire,
    ),
    Field("parallel_tool_calls", get_bool),
    # The deprecated `max_tokens` counts only on its own.
    Field("max_tokens", get_int, wire=("max_completion_tokens", "max_tokens")),
    Field("stop", _get_stop),
    Field("temperature", get_number),
    Field("top_p", get_number),
    Field("top_k", get_int),
    Field("seed", get_int),
    Field("frequency_penalty", get_number),
    Field("presence_penalty", get_number),
    Field("logit_bias", get_object),
    Field("logprobs", _get_logprobs),
    Field("top_logprobs", get_int),
    Field("choices", get_int, wire="n"),
    Field("output", wire="response_format", read=_output_from_wire, write=_output_to_wire),
    Field("verbosity", get_str),
    Group(
        ("reasoning",),
        REASONING_FIELDS,
        lambda reading: {"reasoning": reasoning_from_wire(reading.body, reading.unknown)},
        lambda writing: reasoning_to_wire(writing.part, writing.context),
    ),
    Field("user", get_str),
    Field("safety_identifier", get_str),
    Field("metadata", get_labels),
    Field("service_tier", get_str),
    Field("cache", wire="prompt_cache_options", read=_cache_from_wire, write=_cache_to_wire),
    Field("cache_key", get_str, wire="prompt_cache_key"),
    Group(("stream",), ("stream", "stream_options"), _stream_from_wire, _stream_to_wire),
    Field("store", get_bool),
)


def write_request(request: Request, context: WriteContext) -> Written:
    """Encode a request as a body; unchanged fields keep their spelling.

    Raises:
        EncodeError: A part of the request has no field.
    """
    whole = request_source(request, DIALECT)
    if whole is not None:
        return Written(dict(whole), _PATH)
    body = REQUEST.write_request(request, context)
    # A request of this dialect that never had tools is refused by the vendor, not changed here.
    if not (body.get("tools") or body.get("functions")) and (
        not is_same_dialect(request, DIALECT) or request.source.part.tools
    ):
        for name in ("tool_choice", "parallel_tool_calls"):
            if body.pop(name, None) is not None:
                context.losses.add(name, "request", "dropped, since there are no tools")
    return Written(body, _PATH)


_TIERS = ("auto", "default", "fast", "flex", "priority", "scale")

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    # Compatible servers accept `top_k`, the vendor does not.
    fields=REQUEST.names - {"top_k"},
    roles=frozenset({"user", "assistant", "system", "developer"}),
    system="message",
    inline_system="message",
    names=True,
    prefill=False,
    # heic: openclaw/openclaw#102354
    images=frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"}),
    image_details=frozenset({"auto", "low", "high", "original"}),
    # Chat reads PDF alone, Responses office files, too (pydantic-ai#4445, trpc-agent-go#1816).
    document_types=frozenset({PDF}),
    document_urls=False,
    audio=True,
    file_issuer="openai",
    refusal=True,
    ordered_blocks=False,
    split_results=True,
    max_id_chars=40,  # of most servers; OpenAI's own has been 64 since 2026
    name_pattern="[a-zA-Z0-9_-]{1,64}",
    custom_tools=True,
    restricted_choice=True,
    chooses_server_tools=False,  # a search model searches for each answer
    output_name_pattern="[a-zA-Z0-9_-]{1,64}",
    number_bounds={
        "top_p": (0, 1),
        "frequency_penalty": (-2, 2),
        "presence_penalty": (-2, 2),
        "top_logprobs": (0, 20),
        "choices": (1, 128),
    },
    dependent_fields={"top_logprobs": "logprobs"},
    min_answer_tokens=1,
    max_stops=4,
    shows_reasoning=False,
    marks=frozenset({"text", "image", "document", "audio", "tool_result"}),
    mark_ttls={"": "", "5m": "", "30m": "30m", "1h": "12h", "12h": "12h"},
    request_ttls={"": "", "30m": "30m"},
    counts_written_marks=True,  # OpenRouter's clients mark messages and tools, too
    service_tiers={tier: tier for tier in _TIERS},
    max_user_chars=128,
    max_cache_key_chars=64,
    label_bounds=(16, 64, 512),
)
