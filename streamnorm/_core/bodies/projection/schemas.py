"""Projection of JSON schemas: of tools and of the response format.

A target may accept only part of JSON Schema, and less of it in schemas that it enforces
(`strict`).  A schema that cannot be enforced is sent without `strict`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import OutputFormat, is_same_dialect
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.schemas import simplify_schema
from streamnorm._core.schemas.keywords import types_of
from streamnorm._core.schemas.simplify import object_root
from streamnorm._core.schemas.strict import (
    EnforcedSchemas,
    NotEnforced,
    fit_enforced,
    fit_needs,
    free_properties,
    is_split,
)
from streamnorm._core.tools import Tool

_OUTPUT = "output.schema"


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
        """Return a tool with a schema that the target accepts, strict if it enforces the schema.

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
        """Return the enforceable schema of a strict tool and True, or the schema and None."""
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
    """Totals of the enforced schemas of a request, against the vendor's bounds."""

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
    """Return a response format with a schema that the target accepts; None if it accepts none.

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
