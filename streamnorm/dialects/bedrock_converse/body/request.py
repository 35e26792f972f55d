"""Requests of Converse in both directions: body, and fields that only some models have.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (read
2026-11-27, botocore 1.44.8).  The path names the model and whether the answer is a stream.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html (read 2026-11-27).
`additionalModelRequestFields` holds the fields that only some models have: Claude `thinking`,
`top_k` and `anthropic_beta`, Nova `reasoningConfig` and `inferenceConfig.topK`, gpt-oss
`reasoning_effort`.  `outputConfig` holds an effort, and the schema of the output as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import (
    as_object,
    get_int,
    get_number,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    read_objects,
    unknown_fields,
)
from streamnorm._core.bodies.request import (
    InputMessage,
    OutputFormat,
    ReasoningOptions,
    Request,
    unchanged_source,
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
    unknown_of,
)
from streamnorm._core.bodies.wire_fields import path_segment
from streamnorm._core.codec import ReadContext, WriteContext, Written
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import compact, is_object, object_in
from streamnorm.dialects.bedrock_converse.body.files import S3_ISSUER, as_extra
from streamnorm.dialects.bedrock_converse.body.messages import (
    message_from_wire,
    messages_to_wire,
    system_from_wire,
    system_to_wire,
)
from streamnorm.dialects.bedrock_converse.body.tools import (
    CONFIG,
    config_from_wire,
    config_to_wire,
)
from streamnorm.dialects.bedrock_converse.traits import CAPABILITIES, ENDPOINTS
from streamnorm.dialects.bedrock_converse.wire import DIALECT

OPTIONS, OUTPUT = "additionalModelRequestFields", "outputConfig"

_Fields: TypeAlias = "dict[str, Any]"

_MODES: dict[object, Literal["off", "budget", "adaptive"]] = {
    "enabled": "budget",
    "adaptive": "adaptive",
    "disabled": "off",
}
_TYPES = {mode: word for word, mode in _MODES.items()}
_THINKING = frozenset({"type", "budget_tokens", "display"})
_SHOWS = {"summarized": "auto", "omitted": "none"}
_NOVA = frozenset({"type", "maxReasoningEffort"})


# Reading


def options_from_wire(reading: Reading) -> _Fields:
    """Return the reasoning options, `top_k`, betas and output format of a request.

    What has no unified field, or is a second form of one, stays an unknown field.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    fields: _Fields = {}
    for owner, readers in _OWNERS.items():
        inner = get_object(reading.body, owner)
        if inner is None:
            continue
        rest = dict(inner)
        try:
            for name, read in readers.items():
                if inner.get(name) is not None:
                    read(inner, name, fields, rest)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{owner}") from None
        if rest or not inner:
            reading.unknown[owner] = rest
    return fields


def _read_top_k(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    fields["top_k"] = get_int(inner, name)
    del rest[name]


def _read_nova_top_k(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    config = get_object(inner, name) or {}
    if "top_k" in fields or config.get("topK") is None:
        return
    fields["top_k"] = get_int(config, "topK")
    _set_rest(rest, name, unknown_fields(config, {"topK"}))


def _read_betas(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    fields["betas"] = get_strings(inner, name)
    del rest[name]


def _read_thinking(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    thinking = as_object(inner[name], f"$.{name}")
    mode = _MODES.get(get_str(thinking, "type"))
    if mode is None or "reasoning" in fields:
        return
    display = get_str(thinking, "display")
    show = _SHOWS.get(display or "")
    known = _THINKING if display is None or show is not None else _THINKING - {"display"}
    budget = get_int(thinking, "budget_tokens")
    extra = as_extra(unknown_fields(thinking, known))
    fields["reasoning"] = ReasoningOptions(mode, None, budget, show, extra)
    del rest[name]


def _read_nova_reasoning(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    config = as_object(inner[name], f"$.{name}")
    type, effort = get_str(config, "type"), get_str(config, "maxReasoningEffort")
    if "reasoning" in fields or type not in ("enabled", "disabled"):
        return
    mode: Literal["off", "adaptive"] = "adaptive" if type == "enabled" else "off"
    fields["reasoning"] = ReasoningOptions(mode, effort)
    _set_rest(rest, name, unknown_fields(config, _NOVA))


def _read_effort(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    options: ReasoningOptions = fields.get("reasoning") or ReasoningOptions()
    if options.effort is None:
        fields["reasoning"] = structs.replace(options, effort=get_str(inner, name))
        del rest[name]


def _read_claude_effort(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    config = dict(as_object(inner[name], f"$.{name}"))
    try:
        if config.get("effort") is not None:
            _read_effort(dict(config), "effort", fields, config)
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{name}") from None
    _set_rest(rest, name, config)


def _read_format(inner: _Fields, name: str, fields: _Fields, rest: _Fields) -> None:
    form = as_object(inner[name], f"$.{name}")
    structure = form.get("structure")
    definition = structure.get("jsonSchema") if is_object(structure) else None
    text = definition.get("schema") if is_object(definition) else None
    schema = object_in(text) if isinstance(text, str) else None
    if form.get("type") != "json_schema" or not is_object(definition) or not schema:
        return
    title, description = get_str(definition, "name"), get_str(definition, "description")
    extra = as_extra(unknown_fields(definition, {"schema", "name", "description"}))
    fields["output"] = OutputFormat(
        "json_schema", schema, title, description, strict=True, extra=extra
    )
    del rest[name]


def _set_rest(rest: _Fields, name: str, unknown: _Fields) -> None:
    if unknown:
        rest[name] = unknown
    else:
        del rest[name]


_Read: TypeAlias = "Callable[[_Fields, str, _Fields, _Fields], None]"
_OWNERS: dict[str, dict[str, _Read]] = {
    OPTIONS: {
        "thinking": _read_thinking,
        "reasoning_config": _read_thinking,  # the name before Claude 4
        "reasoningConfig": _read_nova_reasoning,
        "reasoning_effort": _read_effort,
        "output_config": _read_claude_effort,
        "top_k": _read_top_k,
        "inferenceConfig": _read_nova_top_k,
        "anthropic_beta": _read_betas,
    },
    OUTPUT: {"effort": _read_effort, "textFormat": _read_format},
}


# Writing


def options_to_wire(writing: Writing) -> _Fields:
    """Return `additionalModelRequestFields` and `outputConfig`."""
    request, context = writing.part, writing.context
    reasoning: ReasoningOptions | None = request.reasoning
    options: _Fields = {}
    output: _Fields = {}
    if reasoning is not None:
        options, output = _reasoning_to_wire(reasoning, writing)
    if request.top_k is not None:
        options["top_k"] = request.top_k
    if betas := _known_betas(request.betas, writing):
        options["anthropic_beta"] = betas
    form: OutputFormat | None = request.output
    if form is not None and form.kind == "json_schema":
        output["textFormat"] = _format_to_wire(form)
        if form.strict is False:
            context.losses.add("schema_strict", "request", "enforced")
    return ({OPTIONS: options} if options else {}) | ({OUTPUT: output} if output else {})


def _reasoning_to_wire(options: ReasoningOptions, writing: Writing) -> tuple[_Fields, _Fields]:
    """Return the model fields and the output fields that request reasoning.

    A profile has the fields of a vendor other than Anthropic, by mode.
    """
    context = writing.context
    effort = {} if options.effort is None else {"effort": options.effort}
    template = context.capabilities.reasoning_fields.get(options.mode or "")
    if template is not None:
        return dict(template), effort
    if context.capabilities.thinking == "effort":
        return {"reasoning_effort": options.effort} if effort else {}, {}
    thinking: _Fields = {}
    if options.mode is not None:
        thinking["type"] = _TYPES[options.mode]
    if options.mode == "budget":
        thinking["budget_tokens"] = options.budget_tokens
    if options.show is not None and options.mode in ("budget", "adaptive"):
        thinking["display"] = "omitted" if options.show == "none" else "summarized"
        if options.show in ("concise", "detailed"):
            context.losses.add("reasoning_summary", "request", "written as summarized")
    elif options.show is not None:
        context.losses.add("reasoning_summary", "request", "dropped without reasoning")
    if thinking:
        thinking |= unknown_fields(unknown_of(options.extra, DIALECT), thinking.keys())
    return {"thinking": thinking} if thinking else {}, effort


def _known_betas(betas: tuple[str, ...], writing: Writing) -> list[str]:
    """Return the betas that the server accepts; count all other betas as losses."""
    known = writing.context.capabilities.allowed_betas
    kept = [beta for beta in betas if known is None or beta in known]
    for _ in range(len(betas) - len(kept)):
        writing.context.losses.add("beta", "request", "not known to the server")
    return kept


def _format_to_wire(form: OutputFormat) -> _Fields:
    definition: _Fields = {"schema": compact(form.schema or {})}
    if form.name is not None:
        definition["name"] = form.name
    if form.description is not None:
        definition["description"] = form.description
    definition |= unknown_fields(unknown_of(form.extra, DIALECT), definition.keys())
    return {"type": "json_schema", "structure": {"jsonSchema": definition}}


_TIERS = frozenset({"default", "flex", "priority"})


def _messages_from_wire(value: object) -> tuple[InputMessage, ...]:
    return tuple(read_objects(value, message_from_wire))


def _stop_to_wire(stop: tuple[str, ...], writing: Writing) -> list[str] | None:
    kept = [text for text in stop if text]  # at least one character
    if len(kept) < len(stop):
        writing.context.losses.add("stop_dropped", "request", "without a character")
    return kept or None


def _tier_from_wire(value: object) -> WithRest | None:
    tier = as_object(value)
    type = get_str(tier, "type")
    if type not in _TIERS:  # `reserved` has no counterpart
        return None
    return WithRest(type, {name: item for name, item in tier.items() if name != "type"})


def _tier_to_wire(tier: str, writing: Writing) -> dict[str, Any]:
    return {"type": writing.context.capabilities.service_tiers.get(tier, tier)}


REQUEST = RequestTable(
    DIALECT,
    Field(
        "messages",
        read=_messages_from_wire,
        write=messages_to_wire,
        required="an array",
        always=True,
    ),
    Field("system", read=system_from_wire, write=system_to_wire),
    Nested(
        "inferenceConfig",
        Table(
            Field("max_tokens", get_int, wire="maxTokens"),
            Field("temperature", get_number),
            Field("top_p", get_number, wire="topP"),
            Field("stop", get_strings, wire="stopSequences", write=_stop_to_wire),
        ),
    ),
    Group(
        ("tools", "tool_choice"),
        (CONFIG,),
        config_from_wire,
        config_to_wire,
        needs=("messages",),
    ),
    Group(
        ("output", "reasoning", "top_k", "betas"),
        (OPTIONS, OUTPUT),
        options_from_wire,
        options_to_wire,
    ),
    Field("service_tier", wire="serviceTier", read=_tier_from_wire, write=_tier_to_wire),
)


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    Raises:
        DecodeError: The body is no request of Converse.
    """
    path = context.path.partition("?")[0]
    model = ENDPOINTS.model(path, None)
    if not model:
        return REQUEST.read_request(body, context)
    stream = ENDPOINTS.streams(path, None)
    return REQUEST.read_request(body, context, model=model, stream=stream)


def write_request(request: Request, context: WriteContext) -> Written:
    """Encode a projected request as a body.

    Raises:
        EncodeError: A part has no legal form.
    """
    source = unchanged_source(request, DIALECT, but="model")
    body = REQUEST.write_request(request, context) if source is None else source
    return Written(body, _path(request))


def _path(request: Request) -> str:
    """Return the path of the endpoint; "" if the request names no model.

    The id of a model may be an ARN, with slashes and colons in one segment.

    Raises:
        EncodeError: The name of the model is a dot segment.
    """
    if not request.model:
        return ""
    method = "converse-stream" if request.stream else "converse"
    return f"/model/{path_segment(request.model)}/{method}"


_MARKED_BLOCKS = "text image document video tool_call tool_result opaque"

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    fields=REQUEST.names | {"stream"},
    inline_system="text",
    images=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    image_urls=False,
    document_urls=False,
    text_documents=True,
    audio=True,
    video=True,
    file_issuer=S3_ISSUER,
    citations=CAPABILITIES.citations,
    prefill_with_schema=False,  # as Anthropic's own API, whose models it serves
    mixed_results=True,
    result_media=frozenset({"text", "image", "document", "video", "opaque"}),
    orphan_results=False,
    error_results=True,
    id_pattern=None,  # `id_to_wire` escapes ids, `unescape_id` restores them
    unique_ids=True,
    name_pattern=r"[a-zA-Z0-9_-]{1,64}",
    # aws-solutions-library-samples/accelerated-intelligent-document-processing-on-aws#709
    property_pattern=r"[a-zA-Z0-9_.-]{1,64}",
    server_history=True,
    enforces_outputs=True,
    output_kinds=frozenset({"text", "json_schema"}),
    lone_choice=False,
    min_answer_tokens=1,
    number_bounds={"top_p": (0.0, 1.0)},
    max_temperature=1.0,
    max_stops=2500,
    thinking="adaptive",
    bounded_budgets=True,
    signed_budgets=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    reasoning_issuer="anthropic",
    marks=frozenset(["system", "tool", "assistant", *_MARKED_BLOCKS.split()]),
    marks_in_results=False,
    mark_ttls={"": "", "5m": "5m", "1h": "1h", "30m": "", "12h": "1h"},
    falling_ttls=True,
    service_tiers={"default": "default", "flex": "flex", "priority": "priority"},
)
