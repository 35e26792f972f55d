"""Keywords of JSON Schema: their legal values, and the traversal of subschemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_array, is_object

_TOO_MANY = 2**63  # JSON encoders accept integers below

NOTES = ("title", "description")

TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")

# Formats that both strict modes accept; Anthropic's alone accepts `uri`.
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
"""The type of the values that a constraint applies to."""

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
"""Known keywords that simplification drops."""

_MAX_DEPTH = 100
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})

_SINGLE = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items"}
    | {"not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
_HOLDERS = _MAPS | _LISTS | _SINGLE

Edit = Callable[[dict[str, Any]], dict[str, Any]]
"""Function that returns an edited subschema; the same object if nothing changes."""


def json_type(value: object) -> str | None:
    """Return the type of a scalar JSON value; None for an array, an object or a large integer."""
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
    """Return the value of `type` as an array; None if it is invalid."""
    if isinstance(value, str):
        return [value] if value in TYPES else None
    if not is_array(value) or not value or not all(isinstance(each, str) for each in value):
        return None
    named = [each for each in TYPES if each in value]
    return named if len(named) == len({*value}) else None


def _enum(value: object) -> list[Any] | None:
    """Return the values of an enumeration of scalars; None if it is invalid."""
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
"""Keywords without subschemas, with functions that return their value; None if it is invalid."""


def rewrite_schema(schema: dict[str, Any], edit: Edit, path: str, depth: int = 0) -> dict[str, Any]:
    """Return a schema with an edit applied to each subschema, the innermost first.

    Args:
        schema: The schema, which is not changed; returned itself if no edit changes anything.
        edit: The edit.
        path: Path of the schema, for errors.
        depth: Nesting of the schema.

    Raises:
        EncodeError: The schema nests too deep.
    """
    if depth > _MAX_DEPTH:
        raise EncodeError(
            f"a schema nested deeper than {_MAX_DEPTH}, expected at most that", path=path
        )
    changes: dict[str, Any] = {}
    for keyword in _HOLDERS.intersection(schema):
        value = schema[keyword]
        changed = value
        if is_object(value) and keyword in _MAPS:
            changed = {
                name: rewrite_schema(item, edit, path, depth + 1) if is_object(item) else item
                for name, item in value.items()
            }
            if all(changed[name] is item for name, item in value.items()):
                continue
        elif is_object(value):
            changed = rewrite_schema(value, edit, path, depth + 1)
        elif keyword in _LISTS and is_array(value):
            changed = [
                rewrite_schema(item, edit, path, depth + 1) if is_object(item) else item
                for item in value
            ]
            if all(item is before for item, before in zip(changed, value, strict=True)):
                continue
        if changed is not value:
            changes[keyword] = changed
    return edit({**schema, **changes} if changes else schema)


def children(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the subschemas directly within a schema, each with the keyword that holds it."""
    for keyword in _HOLDERS.intersection(schema):
        value = schema[keyword]
        if is_object(value):
            for item in value.values() if keyword in _MAPS else (value,):
                if is_object(item):
                    yield keyword, item
        elif keyword in _LISTS and is_array(value):
            for item in value:
                if is_object(item):
                    yield keyword, item


def subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all its subschemas, in no particular order."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for _, child in children(node)]


def types_of(schema: dict[str, Any]) -> list[Any]:
    """Return the types that a schema names."""
    named = schema.get("type")
    return named if is_array(named) else [named]
