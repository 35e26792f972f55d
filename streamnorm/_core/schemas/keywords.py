"""The keywords of JSON Schema: which of them are kept, and with which values."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from streamnorm._core.json import is_array

__all__ = ["DROPPED", "NOTES", "TYPES", "TYPE_OF", "VALUES", "json_type"]

_TOO_MANY = 2**63  # what JSON encoders take

NOTES = ("title", "description")

TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")

# Those of both strict modes: Anthropic's takes `uri`, too.
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)

TYPE_OF = {
    "properties": "object",
    "required": "object",
    "items": "array",
    "minItems": "array",
    "maxItems": "array",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "format": "string",
}
"""The type of the values that a constraint concerns."""

DROPPED = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef"),
        *("$schema", "$vocabulary", "additionalProperties", "contains", "contentEncoding"),
        *("contentMediaType", "contentSchema", "default", "definitions", "dependencies"),
        *("dependentRequired", "dependentSchemas", "deprecated", "else", "example", "examples"),
        *("if", "maxContains", "maxLength", "maxProperties", "minContains", "minLength"),
        *("minProperties", "multipleOf", "not", "pattern", "patternProperties", "propertyNames"),
        *("propertyOrdering", "readOnly", "then", "unevaluatedItems", "unevaluatedProperties"),
        *("uniqueItems", "writeOnly"),
    }
)
"""Known keywords that are not kept."""


def json_type(value: object) -> str | None:
    """Return the type of a JSON value that is no array or object; None of another."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer" if abs(value) < _TOO_MANY else None
        case float() if isfinite(value):
            return "integer" if value.is_integer() else "number"
        case _:
            return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _format(value: object) -> str | None:
    return value if isinstance(value, str) and value in _FORMATS else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: object) -> float | None:
    is_number = json_type(value) in ("integer", "number")
    return value if is_number and isinstance(value, int | float) else None


def _types(value: object) -> list[str] | None:
    """Return the types that a schema names, as an array."""
    if isinstance(value, str):
        return [value] if value in TYPES else None
    if not is_array(value) or not value or not all(isinstance(each, str) for each in value):
        return None
    named = [each for each in TYPES if each in value]
    return named if len(named) == len({*value}) else None


def _enum(value: object) -> list[Any] | None:
    """Return the values of an enumeration of texts, numbers, booleans and null."""
    if not is_array(value) or not value or None in map(json_type, value):
        return None
    return value


def _names(value: object) -> list[str] | None:
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        return None
    return value


VALUES: dict[str, Callable[[object], Any]] = {
    "title": _text,
    "description": _text,
    "type": _types,
    "nullable": lambda value: value is True or None,
    "enum": _enum,
    "const": lambda value: _enum([value]),
    "format": _format,
    "required": _names,
    "minItems": _count,
    "maxItems": _count,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
}
"""Functions of keywords without subschemas that return the value to keep; None to drop it."""
