"""Projection of a request's options, and of the JSON Schemas in a request.

Options are all fields of `Request` besides the conversation, the tools and the reasoning.

A target may accept only part of JSON Schema, and less of it in schemas that it enforces
(`strict`).  A schema that cannot be enforced is sent without `strict`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import CacheMark, Text
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection.reasoning_options import is_reasoning
from streamnorm._core.bodies.request import (
    InputMessage,
    OutputFormat,
    Request,
    Source,
    drop_foreign_fields,
    is_same_dialect,
    replace_parts,
)
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.schemas import types_of
from streamnorm._core.schemas.simplify import object_root, simplify_schema
from streamnorm._core.schemas.strict import (
    EnforcedSchemas,
    NotEnforced,
    fit_enforced,
    fit_needs,
    free_properties,
    is_split,
)
from streamnorm._core.tools import Tool

# Fields that other modules project, or that every target has.
_NO_OPTIONS = frozenset(
    ["model", "system", "messages", "tools", "tool_choice", "reasoning", "state", "extra", "source"]
)
_OPTIONS = tuple(name for name in Request.__struct_fields__ if name not in _NO_OPTIONS)
_DEFAULTS: dict[str, Any] = dict(
    zip(Request.__struct_fields__, Request.__struct_defaults__, strict=True)
)
# Values that ask for the behaviour of a provider without the field: dropping them loses nothing.
_NEEDLESS = {
    "cache": CacheMark(),
    "parallel_tool_calls": True,
    "stream": False,
    "choices": 1,
}
_FEATURES = {"stop": "stop_dropped", "choices": "choices_dropped", "cache": "cache_ttl"}

_OUTPUT = "output.schema"
_ASK_FOR_JSON = "Answer with a JSON object."


def project_options(
    request: Request,
    target: BodyCapabilities,
    losses: Losses,
    *,
    same_dialect: bool,
    lenient: bool,
    same_target: bool = False,
) -> Request:
    """Return a request with the options that the target accepts.

    Args:
        request: The request, with projected reasoning options.
        target: Capabilities of the target.
        losses: Counter of dropped and changed options.
        same_dialect: Whether the request is in the target's dialect.
        lenient: Whether absent options get no default, even if the dialect demands one.
        same_target: Whether options stay as they are unless they were replaced after decoding.

    Raises:
        EncodeError: The server answers no requests of this dialect.
    """
    whole, read = request, _find_unchanged_options(request) if same_target else {}
    if read:
        request = structs.replace(request, **{name: _DEFAULTS[name] for name in read})
    if not target.available:
        raise EncodeError("model of another API, expected one of this", path="model")
    if "safety_identifier" not in target.fields and "user" in target.fields:
        user = request.safety_identifier or request.user
        if request.user and user != request.user:
            losses.add("user", "request", "dropped beside safety_identifier")
        if user is not request.user or request.safety_identifier is not None:
            request = structs.replace(request, user=user, safety_identifier=None)
    fields = target.fields
    if target.reasoning_excludes and is_reasoning(request, target):
        fields = fields - {
            name
            for name in target.reasoning_excludes
            if getattr(request, name) != target.reasoning_accepts.get(name)
        }
    dropped: dict[str, Any] = {}
    for name in _OPTIONS:
        value = getattr(request, name)
        if value is None or value == () or name in fields:
            continue
        dropped[name] = _DEFAULTS[name]
        # Where marks say what is cached, as at Converse, nothing is without one.
        needs_mark = name == "cache" and bool(target.marks)
        is_needless = name in _NEEDLESS and value == _NEEDLESS[name] and not needs_mark
        if target.only_refusals or not is_needless:
            feature = "cache_mark_dropped" if needs_mark else _FEATURES.get(name, name)
            losses.add(feature, "request", "dropped")
    if not same_target:
        request = _drop_refused_extra(request, target, fields, losses)
    _drop_conflicts(request, target, losses, dropped)
    if dropped:
        request = structs.replace(request, **dropped)
    changes = _fit_values(request, target, losses, same_dialect=same_dialect, lenient=lenient)
    options = {name: getattr(request, name) for name in _OPTIONS} | changes | read
    return replace_parts(whole, **options, extra=request.extra)


def has_output_schema(request: Request, target: BodyCapabilities) -> bool:
    """Return whether the options that the target accepts include a schema of the answer.

    Raises:
        EncodeError: The schema has no legal form.
    """
    output = request.output
    if output is None or output.kind != "json_schema" or "output" not in target.fields:
        return False
    is_left = is_same_dialect(request, target.dialect) and not target.only_refusals
    fitted = _fit_output(output, target, Losses(), has_tools=bool(request.tools), is_left=is_left)
    return fitted is not None and fitted.kind == "json_schema"


def ask_for_json(request: Request, target: BodyCapabilities, losses: Losses) -> Request:
    """Return a request for any JSON object, with the word JSON where the target demands it."""
    is_asked = request.output is not None and request.output.kind == "json_object"
    if not (is_asked and target.json_word) or any(map(_names_json, _texts_of(request))):
        return request
    losses.add("json_asked", "messages", "asked for by a system message")
    asked = InputMessage("system", (Text(_ASK_FOR_JSON),))
    return structs.replace(request, messages=(asked, *request.messages))


def _names_json(text: str) -> bool:
    return "json" in text.lower()


def _texts_of(request: Request) -> Iterator[str]:
    yield from (block.text for block in request.system)
    for message in request.messages:
        yield from (block.text for block in message.blocks if isinstance(block, Text))


def _find_unchanged_options(request: Request) -> dict[str, Any]:
    """Return the options that have not changed since the request was decoded."""
    source = request.source
    if not isinstance(source, Source):
        return {}
    return {
        name: value
        for name in _OPTIONS
        if (value := getattr(request, name)) is getattr(source.part, name)
    }


def _drop_refused_extra(
    request: Request, target: BodyCapabilities, fields: frozenset[str], losses: Losses
) -> Request:
    """Return a request without refused options in its `extra`.

    An option with an unexpected type is in `extra`: some servers have a number in `logprobs`.
    """
    extra = (request.extra or {}).get(target.dialect, {})
    refused = [name for name in _OPTIONS if name in extra and name not in fields]
    if not refused:
        return request
    for name in refused:
        losses.add(name, "request", "dropped")
    kept = {name: value for name, value in extra.items() if name not in refused}
    return structs.replace(request, extra={target.dialect: kept} if kept else None)


def _drop_conflicts(
    request: Request, target: BodyCapabilities, losses: Losses, dropped: dict[str, Any]
) -> None:
    """Add to `dropped` each option that conflicts with the model or with another option."""

    def drop(name: str, detail: str) -> None:
        losses.add(name, "request", detail)
        dropped[name] = None

    def is_set(name: str) -> bool:
        return name not in dropped and getattr(request, name) is not None

    exclusive = [name for name in target.exclusive_fields if is_set(name)]
    for name in exclusive[1:]:
        drop(name, f"dropped beside {exclusive[0]}")
    for name, other in target.dependent_fields.items():
        if is_set(name) and (other in dropped or not getattr(request, other)):
            drop(name, f"dropped without {other}")
    fixed = target.fixed_values
    if target.fixed_values_off is not None and not is_reasoning(request, target):
        fixed = target.fixed_values_off
    for name, value in fixed.items():
        if is_set(name) and getattr(request, name) != value:
            drop(name, f"dropped: {value:g} alone is accepted")


def _fit_values(
    request: Request, target: BodyCapabilities, losses: Losses, *, same_dialect: bool, lenient: bool
) -> dict[str, Any]:
    """Return new values for the options that exceed a bound of the target."""
    changes: dict[str, Any] = {}
    if request.temperature is not None:
        bounded = min(max(request.temperature, target.min_temperature), target.max_temperature)
        if bounded != request.temperature:
            losses.add("temperature_clamped", "request", f"written as {bounded:g}")
            changes["temperature"] = bounded
    for name, (least, most) in target.number_bounds.items():
        value = getattr(request, name)
        if value is not None and not least <= value <= most:
            # The bounds are floats; an integer option must stay an integer.
            bound = type(value)(least if value < least else most)
            losses.add(name, "request", f"written as {bound:g}")
            changes[name] = bound
    stop = request.stop
    if not target.blank_stops and any(not text.strip() for text in stop):
        losses.add("stop_dropped", "request", "white space alone")
        changes["stop"] = stop = tuple(text for text in stop if text.strip())
    if target.max_stops is not None and len(stop) > target.max_stops:
        losses.add("stop_dropped", "request", f"first {target.max_stops} written")
        changes["stop"] = stop[: target.max_stops]
    # A request in the dialect without `max_tokens` may be one to count its tokens, which needs
    # none.
    if request.max_tokens is None and target.max_tokens is not None and not lenient:
        losses.add("max_tokens_defaulted", "request", f"written as {target.max_tokens}")
        changes["max_tokens"] = target.max_tokens
    fewest = target.min_answer_tokens
    if request.max_tokens is not None and fewest is not None and request.max_tokens < fewest:
        losses.add("max_tokens_raised", "request", f"written as {fewest}")
        changes["max_tokens"] = fewest
    is_known = target.only_refusals or request.service_tier in target.service_tiers
    if request.service_tier is not None and not is_known:
        losses.add("service_tier", "request", "dropped")
        changes["service_tier"] = None
    for name in ("user", "safety_identifier"):
        user = getattr(request, name)
        if user is not None and _is_refused_user(user, target):
            losses.add("user_hashed", "request", "written as its SHA-256")
            changes[name] = _hash(user)
    longest = target.max_cache_key_chars
    key = request.cache_key
    if key is not None and longest is not None and len(key) > longest:
        losses.add("cache_key_hashed", "request", "written as its SHA-256")
        changes["cache_key"] = _hash(key)
    if request.metadata is not None and target.label_bounds is not None:
        labels = _fit_labels(request.metadata, target.label_bounds, losses)
        if len(labels) < len(request.metadata):
            changes["metadata"] = labels or None
    if request.output is not None:
        is_left = same_dialect and not target.only_refusals
        output = _fit_output(
            request.output, target, losses, has_tools=bool(request.tools), is_left=is_left
        )
        if output is not request.output:
            changes["output"] = output
    return changes


def _is_refused_user(user: str, target: BodyCapabilities) -> bool:
    if target.max_user_chars is not None and len(user) > target.max_user_chars:
        return True
    return target.personal_users is not None and re.search(target.personal_users, user) is not None


def _hash(name: str) -> str:
    """Return the SHA-256 of a name, so that equal names stay equal."""
    return sha256(name.encode("utf-8", "replace")).hexdigest()


def _fit_labels(
    labels: dict[str, str], bounds: tuple[int, int, int], losses: Losses
) -> dict[str, str]:
    """Return the labels within the bounds of the target."""
    most, name_chars, label_chars = bounds
    kept = {
        name: label
        for name, label in labels.items()
        if len(name) <= name_chars and len(label) <= label_chars
    }
    for _ in range(len(labels) - len(kept)):
        losses.add("metadata", "request", "dropped: too long")
    for name in list(kept)[most:]:
        losses.add("metadata", "request", f"first {most} labels written")
        del kept[name]
    return kept


def _fit_output(
    output: OutputFormat,
    target: BodyCapabilities,
    losses: Losses,
    *,
    has_tools: bool,
    is_left: bool,
) -> OutputFormat | None:
    """Return the response format that the target accepts; None if it accepts none.

    Args:
        output: The response format.
        target: Capabilities of the target.
        losses: Counter of what is lost.
        has_tools: Whether the request has tools.
        is_left: Whether the schema stays as the client wrote it.
    """
    refused = has_tools and not target.output_with_tools and output.kind != "text"
    fitted: OutputFormat | None = output
    if (
        output.kind == "json_schema"
        and output.kind in target.output_kinds
        and not refused | is_left
    ):
        fitted = project_output_schema(output, target, losses)
    if fitted is not None and output.kind in target.output_kinds and not refused:
        output = fitted
        name, pattern = output.name, target.output_name_pattern
        if name is not None and pattern is not None and re.fullmatch(pattern, name) is None:
            losses.add("schema_name", "request", "dropped")
            output = structs.replace(output, name=None)
        return drop_foreign_fields(output, target.dialect, losses, "request")
    if not refused and output.kind == "json_schema" and "json_object" in target.output_kinds:
        losses.add("schema_dropped", "request", "written as any JSON object")
        return OutputFormat("json_object")
    losses.add("json_mode_dropped" if output.kind == "json_object" else "schema_dropped", "request")
    return None


class ToolSchemas:
    """Fit the schemas of tools to a target, in the order of the tools.

    The bounds on all enforced schemas of a request go to the first tools.

    Args:
        target: Capabilities of the target.
        losses: Counter of what is lost.
        output: Response format of the request; its enforced schema counts as well.
    """

    def __init__(
        self, target: BodyCapabilities, losses: Losses, output: OutputFormat | None
    ) -> None:
        self._target = target
        self._losses = losses
        self._budget = _Budget(target.enforced_schemas or EnforcedSchemas())
        if target.enforces_outputs and output is not None and output.schema is not None:
            # A response schema beyond the bounds is not enforced, so it does not count.
            with suppress(NotEnforced):
                self._budget.count(output.schema, is_tool=False)

    def fit(self, tool: Tool, path: str) -> Tool:
        """Return a tool with an accepted schema, marked strict if the target enforces the schema.

        Args:
            tool: The tool.
            path: Path of the schema, for errors.

        Raises:
            EncodeError: The schema has no legal form.
        """
        target, losses, schema = self._target, self._losses, tool.input_schema
        strict = tool.strict
        if strict is not None and not target.strict_tools:
            if strict:
                losses.add("strict", "tools", "dropped")
            strict = None
        if schema is not None and target.schema == "simple":
            schema = simplify_schema(schema, losses, path=path)
        if schema is not None and (
            target.only_refusals or not is_same_dialect(tool, target.dialect)
        ):
            schema = fit_needs(
                schema,
                target.schema_needs,
                target.schema_root_refused,
                losses,
                where="tools",
                path=path,
            )
            if strict and target.enforced_schemas is not None:
                schema, strict = self._enforce(schema, target.enforced_schemas, path)
        if schema is tool.input_schema and strict is tool.strict:
            return tool
        return structs.replace(tool, input_schema=schema, strict=strict)

    def _enforce(
        self, schema: dict[str, Any], form: EnforcedSchemas, path: str
    ) -> tuple[dict[str, Any], bool | None]:
        """Return an enforceable schema and True, or `schema` and None if it is not enforceable."""
        # Without `properties` a tool has no parameters, although JSON Schema would allow any.
        whole: dict[str, Any] = schema if "properties" in schema else {**schema, "properties": {}}
        try:
            fitted, lost = fit_enforced(whole, form, path)
            self._budget.count(fitted, is_tool=True)
        except NotEnforced as exc:
            self._losses.add("strict", "tools", f"not enforced: {exc}")
            return schema, None
        for keyword, detail in lost:
            self._losses.add(f"schema.{keyword}", "tools", detail)
        return fitted, True


class _Budget:
    """Totals of all enforced schemas in a request, checked against the vendor's bounds."""

    def __init__(self, form: EnforcedSchemas) -> None:
        self._form = form
        self._tools: int = 0
        self._optional: int = 0
        self._unions: int = 0

    def count(self, schema: dict[str, Any], *, is_tool: bool) -> None:
        """Add a schema to the totals.

        Raises:
            NotEnforced: A total would exceed its bound; nothing is added.
        """
        form = self._form
        if form.most_tools is None and form.most_optional is None and form.most_unions is None:
            return
        optional, unions = free_properties(schema)
        totals = (self._tools + is_tool, self._optional + optional, self._unions + unions)
        bounds = (form.most_tools, form.most_optional, form.most_unions)
        names = ("tools", "properties that are not required", "unions")
        for total, most, name in zip(totals, bounds, names, strict=True):
            if most is not None and total > most:
                raise NotEnforced(f"more than {most} {name} of all strict schemas")
        self._tools, self._optional, self._unions = totals


def project_output_schema(
    output: OutputFormat, target: BodyCapabilities, losses: Losses
) -> OutputFormat | None:
    """Return a response format with an accepted schema; None if the target accepts none.

    Args:
        output: The response format, with a schema.
        target: Capabilities of the target.
        losses: Counter of what is lost.

    Raises:
        EncodeError: The schema has no legal form, or the request demands that it is enforced
            and the target cannot.
    """

    def lose(keyword: str, detail: str) -> None:
        losses.add(f"schema.{keyword}", "request", detail)

    before = schema = output.schema or {}
    is_object = "type" not in schema or "object" in types_of(schema)
    if "object" in target.output_schema_needs and not is_object:
        raise EncodeError(
            "a schema of an answer that is no object, expected one of an object", path=_OUTPUT
        )
    schema = fit_needs(
        schema,
        target.output_schema_needs,
        target.schema_root_refused,
        losses,
        where="request",
        path=_OUTPUT,
    )
    strict, form = output.strict, target.enforced_schemas
    if form is not None and (strict or target.enforces_outputs):
        if form.closed and is_object and is_split(schema):
            # `additionalProperties: false` in one part of `allOf` refuses the others' properties.
            schema = object_root(schema, frozenset({"allOf"}), lose, _OUTPUT)
        try:
            fitted, lost = fit_enforced(schema, form, _OUTPUT)
            _Budget(form).count(fitted, is_tool=False)
        except NotEnforced as exc:
            if not target.enforces_outputs:
                losses.add("schema_strict", "request", f"not enforced: {exc}")
                strict = False
            elif strict:
                raise EncodeError(
                    f"{exc} in the schema of the answer, expected what the target enforces",
                    path=_OUTPUT,
                ) from exc
            else:
                return None
        else:
            schema = fitted
            for keyword, detail in lost:
                lose(keyword, detail)
    if schema is before and strict is output.strict:
        return output
    return structs.replace(output, schema=schema, strict=strict)
