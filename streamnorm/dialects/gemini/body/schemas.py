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

__all__ = ["json_schema", "lower_case_types"]

_RENAMED = {"ref": "$ref", "defs": "$defs"}
_NAMES = "TYPE_UNSPECIFIED STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL"
_TYPES = dict(enumerate(_NAMES.split()))
_BOUNDS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_MAPS = frozenset({"properties", "defs"})
_UPPER = frozenset(_NAMES.split())
# Of JSON Schema: keywords that map names to schemas, and those that hold no schema but values.
_JSON_MAPS = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)
_VALUES = frozenset({"enum", "const", "default", "examples", "required"})


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as JSON Schema; keywords that Gemini does not have stay as they are.

    Raises:
        DecodeError: A schema within it is no object.
    """
    schema = camel(schema)
    converted: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "nullable" or value is None:
            continue
        try:
            value = _keyword(name, value)
        except DecodeError as exc:
            raise within(exc, f"$.{name}") from None
        if value is not None:
            converted[_RENAMED.get(name, name)] = value
    return _nullable(converted) if schema.get("nullable") is True else converted


def lower_case_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema with its names of types in lower case.

    Gemini CLI 0.61 sends those of Gemini's `Schema` also where the API has JSON Schema.
    """
    return {name: _lower_case(name, value) for name, value in schema.items()}


def _lower_case(name: str, value: Any) -> Any:
    if name == "type" and isinstance(value, str):
        return value.lower() if value in _UPPER else value
    if name in _VALUES:
        return value
    if name in _JSON_MAPS and is_object(value):
        return {key: lower_case_types(one) if is_object(one) else one for key, one in value.items()}
    if is_object(value):
        return lower_case_types(value)
    return [_lower_case(name, one) for one in value] if is_array(value) else value


def _keyword(name: str, value: Any) -> Any:
    """Return the value of a keyword; None if it says nothing."""
    if name == "type":
        # Clients of protocol buffers may send the number of a type.
        value = _TYPES.get(value, value) if type(value) is int else value
        if isinstance(value, str):
            is_said = value != "TYPE_UNSPECIFIED"
            return (value.lower() if value.isupper() else value) if is_said else None
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
