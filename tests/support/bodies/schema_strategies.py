"""Hypothesis strategies of JSON Schemas, valid and invalid."""

from __future__ import annotations

from typing import Any

from support.draws import Draws

__all__ = ["KEYWORDS", "definitions", "junk", "schema", "value"]

_VALUES: tuple[Any, ...] = (None, True, False, 0, 1, 1.0, 1.5, "", "a", "2026-01-01")
_TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
_NAMES = "abc"
_JUNK: tuple[Any, ...] = (None, 1, "x", [], {}, [1], {"a": 1}, [{}], True, "#/$defs/a", 1e308)
KEYWORDS = (
    *("type", "properties", "items", "anyOf", "oneOf", "allOf", "required", "enum", "const"),
    *("prefixItems", "minItems", "maxItems", "minimum", "exclusiveMinimum", "$ref", "$id"),
    *("format", "title", "description", "nullable", "additionalProperties", "$anchor", "x"),
)


def value(d: Draws, depth: int = 2) -> Any:
    """Return a JSON value in the range of the generated schemas."""
    if depth and d.flag(3):
        return d.some(3, lambda: value(d, depth - 1))
    if depth and d.flag(2):
        return {name: value(d, depth - 1) for name in d.some(3, lambda: d.pick(_NAMES))}
    return d.pick(_VALUES)


def schema(d: Draws, depth: int = 3, names: str = _NAMES) -> Any:
    """Return a schema with a type wherever it has constraints.

    Args:
        names: Definitions that it may refer to, but for its properties and items, which may
            refer to all: no schema is itself.
    """
    if not depth or d.flag(8):
        return d.pick(({}, True, False, {"$ref": f"#/$defs/{d.pick(names)}"} if names else {}))
    made: dict[str, Any] = {}
    kind = d.pick(("type", "types", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"))
    match kind:
        case "type" | "types":
            types = [*dict.fromkeys(d.some(3, lambda: d.pick(_TYPES), 1))]
            made["type"] = types[0] if kind == "type" else types
            for name in types[:1] if kind == "type" else types:
                made |= _constraints(d, name, depth)
        case "enum":
            made["enum"] = d.some(3, lambda: d.pick(_VALUES), 1)
        case "const":
            made["const"] = value(d, 1)
        case "$ref" if names:
            made["$ref"] = f"#/$defs/{d.pick(names)}"
        case "$ref":
            pass
        case _:
            made[kind] = d.some(3, lambda: schema(d, depth - 1, names), 1)
    if d.flag(3):
        made["description"] = d.text(0, 2)
    if d.flag(4):
        made |= d.pick(
            (
                {"not": {"type": "null"}},
                {"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "integer"}]},
                {"default": 1, "examples": [1], "$comment": "c"},
                {"allOf": [{"type": ["integer", "object", "string"]}]},
            )
        )
    return made


def definitions(d: Draws) -> dict[str, Any]:
    """Return definitions that refer to each other."""
    return {name: schema(d, 2, _NAMES[number + 1 :]) for number, name in enumerate(_NAMES)}


def _constraints(d: Draws, name: str, depth: int) -> dict[str, Any]:
    low, high = d.below(3), d.below(3)
    match name:
        case "object":
            return {
                "properties": {each: schema(d, depth - 1) for each in d.text(0, 3, _NAMES)},
                "required": [*dict.fromkeys(d.text(0, 2, _NAMES))],
                **d.pick(({}, {"additionalProperties": False}, {"minProperties": low})),
            }
        case "array":
            return d.pick(
                (
                    {},
                    {"items": schema(d, depth - 1), "minItems": low, "maxItems": low + high},
                    {"prefixItems": d.some(2, lambda: schema(d, depth - 1), 1), "items": d.flag()},
                    {"prefixItems": d.some(2, lambda: schema(d, depth - 1), 1)},
                )
            )
        case "number" | "integer":
            return d.pick(
                ({}, {"minimum": low}, {"exclusiveMinimum": low - 1}, {"exclusiveMaximum": high})
            )
        case "string":
            return d.pick(({}, {"format": "date"}, {"format": "uri"}, {"maxLength": high}))
        case _:
            return {}


def junk(d: Draws, depth: int = 3) -> Any:
    """Return an arbitrary value in place of a schema."""
    if not depth or d.flag(5):
        return d.pick(_JUNK)
    if d.flag(4):
        return d.some(3, lambda: junk(d, depth - 1))
    return {name: junk(d, depth - 1) for name in d.some(4, lambda: d.pick(KEYWORDS), 1)}
