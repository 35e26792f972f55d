"""Reasoning, output format, service tier and the compaction of context, in both directions."""

from __future__ import annotations

from typing import Any, Literal

from streamnorm._core.bodies.fields import (
    integer_in,
    object_of,
    required_text,
    rest_of,
    text_in,
    within,
)
from streamnorm._core.bodies.request import OutputFormat, ReasoningOptions, Request
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.anthropic.body.extra import DIALECT, own_fields

__all__ = [
    "add_compaction",
    "add_output_config",
    "add_thinking",
    "compaction_from_wire",
    "output_from_wire",
    "reasoning_from_wire",
    "tier_from_wire",
]

_MODES: dict[str, Literal["off", "budget", "adaptive"]] = {
    "enabled": "budget",
    "adaptive": "adaptive",
    "disabled": "off",
}
_TYPES = {mode: word for word, mode in _MODES.items()}
_SHOWS = {"summarized": "auto", "omitted": "none"}
_TIERS = {"auto": "auto", "standard_only": "default"}
_COMPACTION = "compact_20260112"


def reasoning_from_wire(body: dict[str, Any]) -> ReasoningOptions | None:
    """Return how much the model reasons: `thinking`, and the effort in `output_config`.

    Raises:
        DecodeError: A field is of another type.
    """
    thinking = object_of(body, "thinking")
    config = object_of(body, "output_config")
    try:
        effort = None if config is None else text_in(config, "effort")
    except DecodeError as exc:
        raise within(exc, "$.output_config") from None
    if thinking is None:
        return None if effort is None else ReasoningOptions(effort=effort)
    try:
        word, budget = required_text(thinking, "type"), integer_in(thinking, "budget_tokens")
        display = text_in(thinking, "display")
    except DecodeError as exc:
        raise within(exc, "$.thinking") from None
    mapped = {"budget_tokens"}
    if word in _MODES:
        mapped.add("type")
    if display in _SHOWS:
        mapped.add("display")
    rest = rest_of(thinking, mapped)
    return ReasoningOptions(
        _MODES.get(word),
        effort,
        budget,
        # Updates are summaries, sent as they are made.
        _SHOWS.get(display, "auto") if display is not None else None,
        extra=None if rest is None else {DIALECT: rest},
    )


def add_thinking(body: dict[str, Any], reasoning: ReasoningOptions, context: WriteContext) -> None:
    """Add `thinking` to a body."""
    value: dict[str, Any] = {}
    if reasoning.mode is not None:
        value["type"] = _TYPES[reasoning.mode]
    if reasoning.budget_tokens is not None and reasoning.mode == "budget":
        value["budget_tokens"] = reasoning.budget_tokens
    rest = own_fields(reasoning.extra)
    show = reasoning.show
    if show is not None and reasoning.mode in ("budget", "adaptive"):
        value["display"] = "omitted" if show == "none" else "summarized"
        if show in ("concise", "detailed"):
            context.losses.add("reasoning_summary", "request", "written as summarized")
    elif show is not None and "display" not in rest:
        context.losses.add("reasoning_summary", "request", "dropped without reasoning")
    if reasoning.mode == "off":  # of what was asked for before
        rest = {name: item for name, item in rest.items() if name != "display"}
    value |= rest
    if value:
        body["thinking"] = value


def output_from_wire(body: dict[str, Any]) -> tuple[OutputFormat | None, str]:
    """Return the form of the answer, and the field that has it; "" if none has.

    It stood in a field `output_format` before it stood in `output_config`.

    Raises:
        DecodeError: A field is of another type.
    """
    config = object_of(body, "output_config") or {}
    for owner, name, path in (
        (config, "format", "$.output_config"),
        (body, "output_format", "$"),
    ):
        try:
            form = object_of(owner, name)
            if form is None or form.get("type") != "json_schema":
                continue
            schema = object_of(form, "schema")
        except DecodeError as exc:
            raise within(exc, path) from None
        rest = rest_of(form, {"type", "schema"})
        extra = None if rest is None else {DIALECT: rest}
        return OutputFormat("json_schema", schema, strict=True, extra=extra), name
    return None, ""


def add_output_config(body: dict[str, Any], request: Request, context: WriteContext) -> None:
    """Add `output_config` to a body."""
    config: dict[str, Any] = {}
    reasoning, output = request.reasoning, request.output
    if reasoning is not None and reasoning.effort is not None:
        config["effort"] = reasoning.effort
    if output is not None and output.kind == "json_schema":
        config["format"] = {
            "type": "json_schema",
            "schema": output.schema or {},
            **own_fields(output.extra),
        }
        for field in ("name", "description"):
            if getattr(output, field) is not None:
                context.losses.add(f"schema_{field}", "request", "dropped")
        if output.strict is False:
            context.losses.add("schema_strict", "request", "enforced")
    if config:
        body["output_config"] = config


def tier_from_wire(body: dict[str, Any]) -> str | None:
    """Return the service tier in OpenAI's word; None if there is no such word."""
    return _TIERS.get(text_in(body, "service_tier") or "")


def compaction_from_wire(body: dict[str, Any]) -> tuple[int | None, dict[str, Any] | None]:
    """Return the input tokens beyond which the context is compacted, and the other edits.

    Where there are others, the compaction stands among them without its trigger.

    Raises:
        DecodeError: A field is of another type.
    """
    management = object_of(body, "context_management")
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
        rest = {name: item for name, item in edit.items() if name != "trigger"}
        if len(edits) == 1 and len(rest) == 1 and len(management) == 1:
            return tokens, None
        return tokens, {**management, "edits": [*edits[:number], rest, *edits[number + 1 :]]}
    return None, management


def add_compaction(body: dict[str, Any], tokens: int) -> None:
    """Add the tokens beyond which the context is compacted to a body with its extra fields."""
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
