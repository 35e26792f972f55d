"""Options that only some models have, and the format of the output, in both directions.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html (read 2026-11-27).
`additionalModelRequestFields` holds the vendor's own fields.  Claude has `thinking`, `top_k` and
`anthropic_beta`, Nova `reasoningConfig` and `inferenceConfig.topK`, gpt-oss `reasoning_effort`.
`outputConfig` holds an effort, and the schema of the output as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_int,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    unknown_fields,
)
from streamnorm._core.bodies.request import OutputFormat, ReasoningOptions
from streamnorm._core.bodies.table import Reading, Writing, unknown_of
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import compact, is_object, object_in
from streamnorm.dialects.bedrock_converse.body.files import as_extra
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
    """Return the reasoning options, `top_k`, the betas and the output format.

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
    """Return the fields of the model, and those of the output, that ask for reasoning.

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
    """Return the betas that the server knows: it refuses "invalid beta flag"."""
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
