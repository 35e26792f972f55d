"""Requests to Gemini's `generateContent`, in both directions: the body, then `generationConfig`.

https://ai.google.dev/api/generate-content (read 2026-11-23).  The path names the model and
whether the answer is a stream.  Unknown fields are added after the mapped ones, which win.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from msgspec import structs

from streamnorm._core.blocks import Text
from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_bool,
    get_int,
    get_number,
    get_object,
    get_objects,
    get_str,
    get_strings,
    prefix_path,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import (
    InputMessage,
    OutputFormat,
    ReasoningOptions,
    Request,
    Source,
    is_same_dialect,
    unchanged_source,
)
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import clean
from streamnorm._core.tools import AnyTool
from streamnorm.dialects.gemini.body.fields import add_extra, extra_of, to_camel, wrap_singles
from streamnorm.dialects.gemini.body.messages import ContentsWriter, message_from_wire
from streamnorm.dialects.gemini.body.tools import (
    TOOL_CONFIG,
    choice_from_wire,
    choice_to_wire,
    json_schema,
    lower_case_types,
    tools_from_wire,
    tools_to_wire,
)
from streamnorm.dialects.gemini.endpoints import ENDPOINTS
from streamnorm.dialects.gemini.wire import DIALECT

_CONFIG = "generationConfig"

_NUMBERS = {
    "temperature": "temperature",
    "top_p": "topP",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
_INTEGERS = {
    "top_k": "topK",
    "seed": "seed",
    "choices": "candidateCount",
    "max_tokens": "maxOutputTokens",
    "top_logprobs": "logprobs",
}
_OTHERS = {"stop": "stopSequences", "logprobs": "responseLogprobs"}
_FIELDS = {**_NUMBERS, **_INTEGERS, **_OTHERS}
OPTIONS = (*_FIELDS, "output", "reasoning")
"""Fields of `Request` that `generationConfig` holds."""
_THINKING = "thinkingConfig"
_LEVELS = frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})
_JSON, _TEXT = "application/json", "text/plain"
_SYSTEM, _TOOLS = "systemInstruction", "tools"
_STATE, _TIER = "cachedContent", "serviceTier"
_MAPPED = frozenset({"contents", _SYSTEM, _TOOLS, TOOL_CONFIG, _CONFIG, _STATE, _TIER, "model"})
_PARTS: dict[str, tuple[str, ...]] = {
    _SYSTEM: ("system",),
    _TOOLS: ("tools",),
    TOOL_CONFIG: ("tools", "tool_choice", "extra"),
    _CONFIG: (*OPTIONS, "extra"),
}
"""Fields of `Request` by the field of the body that holds them; `_unchanged_fields` uses these."""
_ALL_PARTS = _PARTS | {
    "contents": ("messages",),
    "model": ("model",),
    _STATE: ("state",),
    _TIER: ("service_tier",),
}
FIELD_PARTS = _ALL_PARTS | {
    re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", name): parts
    for name, parts in _ALL_PARTS.items()
}
"""Fields of `Request` by every field of the body, in both spellings."""
_TIERS = {"standard": "default", "flex": "flex", "priority": "priority"}
_RESOURCES = ("models/", "tunedModels/")


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Return the unified request of a body.

    Raises:
        DecodeError: The body is no request of Gemini.
    """
    wire = wrap_singles(to_camel(body), "contents", _TOOLS)
    if get_array(wire, "contents") is None:
        raise DecodeError("missing, expected an array", path="$.contents")
    fields, extra = _options_from_wire(wire)
    choice, is_validated, calling = choice_from_wire(wire)
    extra |= calling
    extra |= unknown_fields(wire, _MAPPED, with_nulls=True)
    tier = get_str(wire, _TIER)
    if tier in _TIERS:
        fields["service_tier"] = _TIERS[tier]
    elif tier is not None:
        extra[_TIER] = tier
    cache = get_str(wire, _STATE)
    path = context.path.partition("?")[0]
    is_stream = ENDPOINTS.streams(path, None)
    request = Request(
        model=_read_model(path, wire),
        system=_read_system(wire),
        messages=_read_messages(wire),
        tools=tools_from_wire(wire, strict=is_validated),
        tool_choice=choice,
        stream=is_stream if ENDPOINTS.model(path, None) else None,
        state=None if cache is None else {_STATE: cache},
        extra=extra_of(extra),
        **fields,
    )
    return structs.replace(request, source=Source(DIALECT, body, request))


def read_tools(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the tools that a request offers.

    Raises:
        DecodeError: An entry is no tool of the dialect.
    """
    wire = wrap_singles(to_camel(body), _TOOLS)
    return tools_from_wire(wire, strict=choice_from_wire(wire)[1])


def _read_model(path: str, wire: dict[str, Any]) -> str:
    in_path = unquote(ENDPOINTS.model(path, None))
    return in_path or (get_str(wire, "model") or "").removeprefix("models/")


def _read_messages(wire: dict[str, Any]) -> tuple[InputMessage, ...]:
    messages: list[InputMessage] = []
    for number, content in enumerate(wire["contents"]):
        try:
            messages.append(message_from_wire(as_object(content, "$")))
        except DecodeError as exc:
            raise prefix_path(exc, f"$.contents[{number}]") from None
    return tuple(messages)


def _read_system(wire: dict[str, Any]) -> tuple[Text, ...]:
    """Return the system instruction; the vendor ignores its role."""
    content = get_object(wire, _SYSTEM)
    if content is None:
        return ()
    texts: list[Text] = []
    try:
        for path, part in get_objects(wrap_singles(content, "parts"), "parts"):
            try:
                texts.append(_read_instruction(to_camel(part)))
            except DecodeError as exc:
                raise prefix_path(exc, path) from None
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{_SYSTEM}") from None
    return tuple(texts)


def _read_instruction(part: dict[str, Any]) -> Text:
    text = require_str(part, "text")
    others = {key: item for key, item in part.items() if key != "text" and item is not False}
    return Text(text, extra=extra_of(others))


def write_request(request: Request, context: WriteContext) -> Written:
    """Return a projected request as a body.

    Raises:
        EncodeError: A part has no legal form.
    """
    path = _path(request)
    body: dict[str, Any] | None = unchanged_source(request, DIALECT, but="model")
    if body is not None:
        return Written(body, path)
    for name in request.state or ():
        if name != _STATE:
            raise EncodeError("state of another provider, expected none", path=f"state.{name}")
    known = _unchanged_fields(request)
    body = {"contents": ContentsWriter(context).write(request.messages)}
    if request.system:
        parts = [add_extra({"text": text.text}, text.extra) for text in request.system]
        body[_SYSTEM] = {"parts": parts}
    if request.tools and _TOOLS not in known:
        body[_TOOLS] = tools_to_wire(request.tools, context)
    if TOOL_CONFIG not in known and (choice := choice_to_wire(request, context)):
        body[TOOL_CONFIG] = choice
    if _CONFIG not in known and (options := _options_to_wire(request, context)):
        body[_CONFIG] = options
    body |= request.state or {}
    if request.service_tier is not None:
        tiers = context.capabilities.service_tiers
        body[_TIER] = tiers.get(request.service_tier, request.service_tier)
    return Written({**add_extra(body, request.extra), **known}, path)


def _unchanged_fields(request: Request) -> dict[str, Any]:
    """Return fields of the original body whose fields of `Request` were not replaced since.

    They are written as they were, so that one replaced option does not respell its neighbours.
    """
    source = request.source
    if not isinstance(source, Source) or source.dialect != DIALECT:
        return {}
    wire, before = to_camel(source.value), source.part
    return {
        field: wire[field]
        for field, names in _PARTS.items()
        if field in wire and all(getattr(request, name) is getattr(before, name) for name in names)
    }


def _path(request: Request) -> str:
    """Return the path of the endpoint; empty if the request names no model."""
    if not request.model:
        return ""
    model = clean(request.model)
    resource = model if model.startswith(_RESOURCES) else f"models/{quote(model, safe='')}"
    method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
    return f"/v1beta/{resource}:{method}"


def _options_from_wire(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `generationConfig` as fields of `Request`, and its unknown fields by path.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    wire = get_object(body, _CONFIG)
    if wire is None:
        return {}, {}
    try:
        wire = to_camel(wire)
        options = _read_options(wire)
        known = {*_FIELDS.values()}
        output = _read_output(wire)
        if output is not None:
            options["output"], used = output
            known |= used
        thinking = get_object(wire, _THINKING)
        if thinking is not None:
            known.add(_THINKING)
            try:
                options["reasoning"] = _read_reasoning(to_camel(thinking))
            except DecodeError as exc:
                raise prefix_path(exc, f"$.{_THINKING}") from None
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{_CONFIG}") from None
    return options, {
        f"{_CONFIG}.{name}": value
        for name, value in unknown_fields(wire, known, with_nulls=True).items()
    }


def _read_options(wire: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {name: get_number(wire, field) for name, field in _NUMBERS.items()}
    for name, field in _INTEGERS.items():
        options[name] = _get_integer(wire, field)
    options["stop"] = get_strings(wire, "stopSequences") or ()
    options["logprobs"] = get_bool(wire, "responseLogprobs")
    return options


def _get_integer(wire: dict[str, Any], field: str) -> int | None:
    """Return an integer field; clients whose language has one number type send `40.0`."""
    value = get_number(wire, field)
    if value is not None and value != value // 1:
        raise unexpected(value, "an integer", f"$.{field}")
    return None if value is None else int(value)


def _read_output(wire: dict[str, Any]) -> tuple[OutputFormat, set[str]] | None:
    """Return the output format, and the fields that hold it; None if no unified format matches."""
    kind = wire.get("responseMimeType")
    schema, own = get_object(wire, "responseJsonSchema"), get_object(wire, "responseSchema")
    if kind == _TEXT and schema is None and own is None:
        return OutputFormat("text"), {"responseMimeType"}
    if kind not in (None, _JSON):
        return None
    if schema is not None:
        used = {"responseMimeType", "responseJsonSchema"}
        return OutputFormat("json_schema", lower_case_types(schema), strict=True), used
    if own is not None:
        try:
            converted = json_schema(own)
        except DecodeError as exc:
            raise prefix_path(exc, "$.responseSchema") from None
        used = {"responseMimeType", "responseSchema"}
        return OutputFormat("json_schema", converted, strict=True), used
    return None if kind is None else (OutputFormat("json_object"), {"responseMimeType"})


def _read_reasoning(wire: dict[str, Any]) -> ReasoningOptions:
    known = {"thinkingBudget", "includeThoughts"}
    budget, shown = get_int(wire, "thinkingBudget"), get_bool(wire, "includeThoughts")
    level = wire.get("thinkingLevel")
    effort = None
    if isinstance(level, str) and level.upper() in _LEVELS:
        effort = level.lower()
        known.add("thinkingLevel")
    show = None if shown is None else "auto" if shown else "none"
    extra = extra_of(unknown_fields(wire, known, with_nulls=True))
    if budget is None:
        return ReasoningOptions(None, effort, None, show, extra)
    if budget > 0:
        return ReasoningOptions("budget", effort, budget, show, extra)
    # The vendor's -1 leaves the budget to the model.
    return ReasoningOptions("off" if budget == 0 else "adaptive", effort, None, show, extra)


def _options_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    """Return the options of a request as `generationConfig`; {} if it has none."""
    wire: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = getattr(request, name)
        if value is not None and value != ():
            wire[field] = list(value) if name == "stop" else value
    if request.output is not None:
        wire |= _output_to_wire(request.output, context)
    if request.reasoning is not None:
        # `thinkingBudget: -1` asks a model with budgets to think as it likes; models with levels
        # do that anyway.  A request of this dialect keeps it, whatever the model.
        modes = context.capabilities.thinking == "budget" or is_same_dialect(request, DIALECT)
        thinking = _reasoning_to_wire(request.reasoning, context, modes=modes)
        if thinking:
            wire[_THINKING] = thinking
    return wire


def _output_to_wire(output: OutputFormat, context: WriteContext) -> dict[str, Any]:
    losses = context.losses
    if output.kind == "text":
        return {"responseMimeType": _TEXT}
    if output.kind == "json_object" or output.schema is None:
        return {"responseMimeType": _JSON}
    for name in ("name", "description"):
        if getattr(output, name) is not None:
            losses.add(f"schema_{name}", "request", "dropped")
    if output.strict is False:
        losses.add("schema_strict", "request", "enforced")
    return {"responseMimeType": _JSON, "responseJsonSchema": output.schema}


def _reasoning_to_wire(
    reasoning: ReasoningOptions, context: WriteContext, *, modes: bool
) -> dict[str, Any]:
    wire: dict[str, Any] = dict((reasoning.extra or {}).get(DIALECT, {}))
    match reasoning.mode:
        case "off":
            wire["thinkingBudget"] = 0
        case "budget":
            wire["thinkingBudget"] = reasoning.budget_tokens
        case "adaptive" if modes:
            wire["thinkingBudget"] = -1
        case _:
            pass
    if reasoning.effort is not None:
        if "thinkingBudget" in wire:  # the API refuses both
            context.losses.add("effort_changed", "request", "dropped beside a budget")
        else:
            wire["thinkingLevel"] = reasoning.effort.upper()
    if reasoning.show is not None:
        wire["includeThoughts"] = reasoning.show != "none"
        if reasoning.show in ("concise", "detailed"):
            context.losses.add("reasoning_summary", "request", "written as includeThoughts")
    return wire
