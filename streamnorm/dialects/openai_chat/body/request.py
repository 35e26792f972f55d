"""Requests, in both directions: reasoning options, then the body with all other fields.

The vendor has one reasoning option, `reasoning_effort`.  Compatible servers have fields of
their own, of which a request may hold several.  `messages` and `tools` convert what they name.

https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import convert, structs

from streamnorm._core.blocks import CacheMark
from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_bool,
    get_int,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    unknown_fields,
)
from streamnorm._core.bodies.projection.reasoning_options import reasoning_budget
from streamnorm._core.bodies.request import (
    OutputFormat,
    ReasoningOptions,
    Request,
    Source,
    request_source,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object, string_of
from streamnorm._core.tools import ToolChoice
from streamnorm.dialects.openai_chat.body.content import (
    DIALECT,
    add_unknown_fields,
    as_extra,
    unknown_fields_of,
)
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

# Mapped fields of `response_format` and of its schema.
_OUTPUT = frozenset({"type", "json_schema"})
_SCHEMA = frozenset({"name", "description", "schema", "strict"})
# The API requires a name; other dialects have none.
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
    """Return the options of two fields together; None if they contradict each other."""
    joined = options | further
    if len({_is_on(options), _is_on(further)} - {None}) > 1 or {_BUDGET, "effort"} <= joined.keys():
        return None
    if any(options[name] != joined[name] for name in options if name != "mode"):
        return None
    if _BUDGET in joined and joined.get("mode") != "off":
        joined["mode"] = "budget"
    return joined


def _is_on(options: _Fields) -> bool | None:
    """Return whether options switch reasoning on or off; None if they do neither."""
    if "mode" in options:
        return bool(options["mode"] != "off")
    return False if options.get("effort") == "none" else None


def _read_reasoning(value: object) -> tuple[_Fields | None, _Fields]:
    """Read OpenRouter's object: an effort, a budget, or a switch."""
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
    """Read `{"type": "enabled"}`, which may have a budget."""
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
    """Read `enable_thinking`."""
    return (_ON if value else _OFF) if isinstance(value, bool) else None, {}


def _read_budget(value: object) -> tuple[_Fields | None, _Fields]:
    """Read `thinking_budget`."""
    return {_BUDGET: value} if type(value) is int else None, {}


def _read_template(value: object) -> tuple[_Fields | None, _Fields]:
    """Read the switch in the arguments of a chat template, whose name depends on the model."""
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
    """Return the reasoning options, in the fields of the server's profile or as an effort."""
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
    """Return a value of a profile's template with the budget in place of its mark."""
    if is_object(value):
        return {name: _fill_budget(item, budget) for name, item in value.items()}
    return budget if value == _BUDGET_MARK else value


# Fields of the body by unified field, the one to write first.
_FIELDS = {
    "model": ("model",),
    "messages": ("messages",),
    "tools": ("tools", "functions", "web_search_options"),
    "tool_choice": ("tool_choice", "function_call"),
    "parallel_tool_calls": ("parallel_tool_calls",),
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "stop": ("stop",),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "seed": ("seed",),
    "frequency_penalty": ("frequency_penalty",),
    "presence_penalty": ("presence_penalty",),
    "logit_bias": ("logit_bias",),
    "logprobs": ("logprobs",),
    "top_logprobs": ("top_logprobs",),
    "choices": ("n",),
    "output": ("response_format",),
    "verbosity": ("verbosity",),
    "reasoning": REASONING_FIELDS,
    "user": ("user",),
    "safety_identifier": ("safety_identifier",),
    "metadata": ("metadata",),
    "service_tier": ("service_tier",),
    "cache": ("prompt_cache_options",),
    "cache_key": ("prompt_cache_key",),
    "stream": ("stream", "stream_options"),
    "store": ("store",),
}
_MAPPED = frozenset(name for names in _FIELDS.values() for name in names)
FIELD_PARTS = {field: (name,) for name, fields in _FIELDS.items() for field in fields} | {
    "parallel_tool_calls": ("parallel_tool_calls", "tools"),
    "tool_choice": ("tool_choice", "tools"),
}
"""The fields of `Request` that each field of the body holds."""


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return a body as a request.

    Raises:
        DecodeError: The body is not a Chat Completions request.
    """
    messages = get_array(body, "messages")
    if messages is None:
        raise DecodeError("missing, expected an array", path="$.messages")
    rest = unknown_fields(body, _MAPPED, with_nulls=True)
    request = Request(
        model=get_str(body, "model") or "",
        messages=messages_from_wire(messages),
        tools=tools_from_wire(body),
        tool_choice=choice_from_wire(body, rest),
        parallel_tool_calls=get_bool(body, "parallel_tool_calls"),
        max_tokens=_max_tokens_from_wire(body),
        stop=_stop_from_wire(body),
        temperature=get_number(body, "temperature"),
        top_p=get_number(body, "top_p"),
        top_k=get_int(body, "top_k"),
        seed=get_int(body, "seed"),
        frequency_penalty=get_number(body, "frequency_penalty"),
        presence_penalty=get_number(body, "presence_penalty"),
        logit_bias=get_object(body, "logit_bias"),
        logprobs=_logprobs_from_wire(body, rest),
        top_logprobs=get_int(body, "top_logprobs"),
        choices=get_int(body, "n"),
        output=_output_from_wire(body, rest),
        verbosity=get_str(body, "verbosity"),
        reasoning=reasoning_from_wire(body, rest),
        user=get_str(body, "user"),
        safety_identifier=get_str(body, "safety_identifier"),
        metadata=_metadata_from_wire(body, rest),
        service_tier=get_str(body, "service_tier"),
        cache=_cache_from_wire(body, rest),
        cache_key=get_str(body, "prompt_cache_key"),
        stream=_stream_from_wire(body, rest),
        store=get_bool(body, "store"),
        # Evaluated last: the readers above add to `rest`.
        extra=as_extra(rest),
    )
    return structs.replace(request, source=Source(DIALECT, body, request))


def _max_tokens_from_wire(body: dict[str, Any]) -> int | None:
    """Return the token limit; the deprecated `max_tokens` counts only on its own."""
    old, new = get_int(body, "max_tokens"), get_int(body, "max_completion_tokens")
    return old if new is None else new


def _stop_from_wire(body: dict[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    return (stop,) if isinstance(stop, str) else get_strings(body, "stop") or ()


def _logprobs_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> bool | None:
    """Return whether to send log probabilities; on some servers `logprobs` is their number."""
    if isinstance(value := body.get("logprobs"), int) and not isinstance(value, bool):
        rest["logprobs"] = value
        return None
    return get_bool(body, "logprobs")


def _output_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> OutputFormat | None:
    """Return the output format; a format of an unknown type is an unknown field."""
    value = get_object(body, "response_format")
    if value is None:
        return None
    kind = value.get("type")
    extra = unknown_fields(value, _OUTPUT, with_nulls=True)
    if kind == "text" or kind == "json_object":
        return OutputFormat(kind, extra=as_extra(extra))
    if kind != "json_schema":
        rest["response_format"] = value
        return None
    path = "$.response_format.json_schema"
    schema = as_object(value.get("json_schema"), path)
    if inner := unknown_fields(schema, _SCHEMA, with_nulls=True):
        extra["json_schema"] = inner
    try:
        return OutputFormat(
            "json_schema",
            get_object(schema, "schema"),
            None if (name := get_str(schema, "name")) in _NO_NAMES else name,
            get_str(schema, "description"),
            get_bool(schema, "strict"),
            as_extra(extra),
        )
    except DecodeError as exc:
        raise prefix_path(exc, path) from exc


def _metadata_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> dict[str, str] | None:
    labels = get_object(body, "metadata")
    if labels is not None and not all(isinstance(label, str) for label in labels.values()):
        rest["metadata"] = labels
        return None
    return labels


def _cache_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> CacheMark | None:
    """Return the mark of implicit caching, if the request enables it."""
    options = get_object(body, "prompt_cache_options")
    if options is None:
        return None
    if options.get("mode") != "implicit" or not options.keys() <= {"mode", "ttl"}:
        rest["prompt_cache_options"] = options
        return None
    try:
        return CacheMark(get_str(options, "ttl"))
    except DecodeError as exc:
        raise prefix_path(exc, "$.prompt_cache_options") from exc


def _stream_from_wire(body: dict[str, Any], rest: dict[str, Any]) -> bool | None:
    """Return `stream`; `include_usage` is implied, and only other stream options are stored."""
    stream, options = get_bool(body, "stream"), get_object(body, "stream_options")
    if options and stream and options.get("include_usage") is True:
        options = unknown_fields(options, _USAGE.keys(), with_nulls=True)
    if options:
        rest["stream_options"] = options
    return stream


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a request as a body; unchanged fields keep their original spelling.

    Raises:
        EncodeError: A part of the request has no field.
    """
    whole = request_source(request, DIALECT)
    if whole is not None:
        return Written(dict(whole), _PATH)
    source: Source | None = request.source
    if source is not None and source.dialect != DIALECT:
        source = None
    body: dict[str, Any] = {}
    original = {} if source is None else _original_fields(source, request)
    for name, fields in _FIELDS.items():
        value = getattr(request, name)
        if source is not None and value is getattr(source.part, name):
            body |= {field: original[field] for field in fields if field in original}
        elif (value is not None and value != ()) or name == "messages":
            write = _WRITERS.get(name)
            body |= {fields[0]: value} if write is None else write(request, context)
    add_unknown_fields(body, request.extra)
    before = request if source is None else source.part
    # A request of this dialect that never had tools is refused by the vendor, not changed here.
    had_none = source is not None and not before.tools
    if not (body.get("tools") or body.get("functions") or had_none):
        _drop_choice(body, context)
    if not request.stream and request.stream is not before.stream:
        body.pop("stream_options", None)
    return Written(body, _PATH)


def _original_fields(source: Source, request: Request) -> dict[str, Any]:
    """Return the original fields of the body, without unknown ones that were dropped since."""
    dropped = unknown_fields_of(source.part.extra).keys() - unknown_fields_of(request.extra).keys()
    fields: dict[str, Any] = source.value
    return {name: fields[name] for name in fields if name not in dropped} if dropped else fields


def _drop_choice(body: dict[str, Any], context: WriteContext) -> None:
    """Drop the fields that the API refuses in a request without tools."""
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.pop(name, None) is not None:
            context.losses.add(name, "request", "dropped, since there are no tools")


def _max_tokens_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    source: Source | None = request.source
    is_chat = source is not None and source.dialect == DIALECT
    original: dict[str, Any] = source.value if source is not None and is_chat else {}
    is_old = "max_tokens" in original and "max_completion_tokens" not in original
    return {"max_tokens" if is_old else "max_completion_tokens": request.max_tokens}


def _output_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    output = request.output or OutputFormat("text")
    value: dict[str, Any] = {"type": output.kind}
    if output.kind == "json_schema":
        fields = {
            "name": output.name or _SCHEMA_NAME,
            "description": output.description,
            "schema": output.schema,
            "strict": output.strict,
        }
        value["json_schema"] = {name: item for name, item in fields.items() if item is not None}
    return {"response_format": add_unknown_fields(value, output.extra)}


def _cache_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    ttl = request.cache and request.cache.ttl
    lifetime = {} if ttl is None else {"ttl": ttl}
    return {"prompt_cache_options": {"mode": "implicit", **lifetime}}


def _stream_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    if not request.stream:
        return {"stream": request.stream}
    # Without `include_usage` the stream reports no tokens.
    options: dict[str, Any] = unknown_fields_of(request.extra).get("stream_options") or {}
    return {"stream": True, "stream_options": {**_USAGE, **options}}


def _choice_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    choice = request.tool_choice or ToolChoice("auto")
    if choice.mode == "named" and choice.kind not in ("function", "custom"):
        context.losses.add("tool_choice_weakened", "request", "server tools cannot be named")
        choice = ToolChoice("auto")
    return {"tool_choice": choice_to_wire(choice, request.tools)}


_WRITERS: dict[str, Callable[[Request, WriteContext], dict[str, Any]]] = {
    "messages": lambda request, context: {"messages": messages_to_wire(request.messages, context)},
    "tools": lambda request, context: tools_to_wire(request.tools),
    "tool_choice": _choice_to_wire,
    "max_tokens": _max_tokens_to_wire,
    "stop": lambda request, context: {"stop": list(request.stop)},
    "output": _output_to_wire,
    "reasoning": reasoning_to_wire,
    "cache": _cache_to_wire,
    "stream": _stream_to_wire,
}
