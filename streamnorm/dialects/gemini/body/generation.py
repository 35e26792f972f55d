"""Options of a request: `generationConfig`, both directions.

https://ai.google.dev/api/generate-content#GenerationConfig (read 2026-11-23).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.bodies.fields import (
    boolean_in,
    integer_in,
    number_in,
    object_of,
    texts_in,
    unexpected,
    unmapped,
    within,
)
from streamnorm._core.bodies.request import OutputFormat, ReasoningOptions, Request, is_own
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm.dialects.gemini.body.fields import camel, extra_of
from streamnorm.dialects.gemini.body.schemas import json_schema, lower_case_types
from streamnorm.dialects.gemini.wire import DIALECT

__all__ = ["CONFIG", "OPTIONS", "options_from_wire", "options_to_wire"]

CONFIG = "generationConfig"

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


def options_from_wire(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a request as fields of `Request`, and the fields that are none.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    wire = object_of(body, CONFIG)
    if wire is None:
        return {}, {}
    try:
        wire = camel(wire)
        options = _options(wire)
        known = {*_FIELDS.values()}
        output = _output(wire)
        if output is not None:
            options["output"], used = output
            known |= used
        thinking = object_of(wire, _THINKING)
        if thinking is not None:
            known.add(_THINKING)
            try:
                options["reasoning"] = _reasoning(camel(thinking))
            except DecodeError as exc:
                raise within(exc, f"$.{_THINKING}") from None
    except DecodeError as exc:
        raise within(exc, f"$.{CONFIG}") from None
    return options, {f"{CONFIG}.{name}": value for name, value in unmapped(wire, known).items()}


def _options(wire: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {name: number_in(wire, field) for name, field in _NUMBERS.items()}
    for name, field in _INTEGERS.items():
        options[name] = _integer(wire, field)
    options["stop"] = texts_in(wire, "stopSequences") or ()
    options["logprobs"] = boolean_in(wire, "responseLogprobs")
    return options


def _integer(wire: dict[str, Any], field: str) -> int | None:
    """Return an integer, which clients of a number type may send as `40.0`."""
    value = number_in(wire, field)
    if value is not None and value != value // 1:
        raise unexpected(value, "an integer", f"$.{field}")
    return None if value is None else int(value)


def _output(wire: dict[str, Any]) -> tuple[OutputFormat, set[str]] | None:
    """Return the form of the answer, and the fields that say it; None if it has no word."""
    kind = wire.get("responseMimeType")
    schema, own = object_of(wire, "responseJsonSchema"), object_of(wire, "responseSchema")
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
            raise within(exc, "$.responseSchema") from None
        used = {"responseMimeType", "responseSchema"}
        return OutputFormat("json_schema", converted, strict=True), used
    return None if kind is None else (OutputFormat("json_object"), {"responseMimeType"})


def _reasoning(wire: dict[str, Any]) -> ReasoningOptions:
    known = {"thinkingBudget", "includeThoughts"}
    budget, shown = integer_in(wire, "thinkingBudget"), boolean_in(wire, "includeThoughts")
    level = wire.get("thinkingLevel")
    effort = None
    if isinstance(level, str) and level.upper() in _LEVELS:
        effort = level.lower()
        known.add("thinkingLevel")
    show = None if shown is None else "auto" if shown else "none"
    extra = extra_of(unmapped(wire, known))
    if budget is None:
        return ReasoningOptions(None, effort, None, show, extra)
    if budget < 0:
        return ReasoningOptions("adaptive", effort, None, show, extra)
    if budget == 0:
        return ReasoningOptions("off", effort, None, show, extra)
    return ReasoningOptions("budget", effort, budget, show, extra)


def options_to_wire(request: Request, context: WriteContext) -> dict[str, Any]:
    """Return the options of a request as `generationConfig`; empty if it has none."""
    wire: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = getattr(request, name)
        if value is not None and value != ():
            wire[field] = list(value) if name == "stop" else value
    if request.output is not None:
        wire |= _output_to_wire(request.output, context)
    if request.reasoning is not None:
        # A client of the dialect says so itself, whatever the model.
        modes = context.capabilities.thinking == "budget" or is_own(request, DIALECT)
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
