"""Gemini's `Schema` as JSON Schema.

https://ai.google.dev/api/caching#Schema (read 2026-11-23).  Types are in upper case, null is
a flag, and bounds are 64-bit integers, which JSON has as strings.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.bodies.fields import object_at, within
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.gemini.body.fields import camel

__all__ = ["ORDERING", "json_schema", "names_order"]

_RENAMED = {"ref": "$ref", "defs": "$defs"}
_BOUNDS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_MAPS = frozenset({"properties", "defs"})
ORDERING = "propertyOrdering"
"""The order in which the model writes the properties, which JSON Schema has no keyword for."""
_HINTS = frozenset({"nullable", ORDERING})
_ORDERINGS = frozenset({ORDERING, "property_ordering"})


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as JSON Schema; keywords that Gemini does not have stay as they are.

    Raises:
        DecodeError: A schema within it is no object.
    """
    schema = camel(schema)
    converted: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _HINTS or value is None:
            continue
        try:
            value = _keyword(name, value)
        except DecodeError as exc:
            raise within(exc, f"$.{name}") from None
        if value is not None:
            converted[_RENAMED.get(name, name)] = value
    if is_array(order := schema.get(ORDERING)) and is_object(converted.get("properties")):
        converted["properties"] = _in_order(converted["properties"], order)
    return _nullable(converted) if schema.get("nullable") is True else converted


def names_order(schema: object) -> bool:
    """Return whether a schema, or one within it, names the order of its properties."""
    if is_object(schema):
        return any(
            (name in _ORDERINGS and is_array(value) and bool(value)) or names_order(value)
            for name, value in schema.items()
        )
    return is_array(schema) and any(map(names_order, schema))


def _in_order(properties: dict[str, Any], order: list[Any]) -> dict[str, Any]:
    """Return properties in an order, which vendors without a keyword take from the schema."""
    first = [name for name in order if isinstance(name, str) and name in properties]
    return {name: properties[name] for name in dict.fromkeys([*first, *properties])}


def _keyword(name: str, value: Any) -> Any:
    """Return the value of a keyword; None if it says nothing."""
    if name == "type" and isinstance(value, str):
        return None if value == "TYPE_UNSPECIFIED" else value.lower() if value.isupper() else value
    if name in _BOUNDS and isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    if name in _MAPS and is_object(value):
        return {key: _within(item, f"$.{key}") for key, item in value.items()}
    if name == "anyOf" and is_array(value):
        return [_within(item, f"$[{number}]") for number, item in enumerate(value)]
    if name == "items" or (name == "additionalProperties" and is_object(value)):
        return _within(value, "$")
    if name == "format" and value == "enum":
        return None
    return value


def _within(value: Any, path: str) -> dict[str, Any]:
    try:
        return json_schema(object_at(value, "$"))
    except DecodeError as exc:
        raise within(exc, path) from None


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also accepts null."""
    kind = schema.get("type")
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    values = schema.get("enum")
    if is_array(values) and None not in values:
        schema["enum"] = [*values, None]
    return schema
