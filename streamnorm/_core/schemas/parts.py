"""Schemas as parts (values by keyword): merged, joined to unions, and written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil, floor
from typing import Any, TypeAlias

from streamnorm._core.json import compact
from streamnorm._core.schemas.keywords import NOTES, TYPE_OF, json_type

Parts: TypeAlias = dict[str, Any]
"""The constraints and notes of a schema by keyword.  `type` is an array; `properties`, `items`
and `anyOf` have simplified schemas."""

Lose: TypeAlias = Callable[[str, str], None]
"""Function that counts the loss of a keyword, with the result of the loss."""

_LARGEST = frozenset({"minItems", "minimum", "exclusiveMinimum"})
_SMALLEST = frozenset({"maxItems", "maximum", "exclusiveMaximum"})

_LARGE = 2**53


def merge(parts: Parts, other: Parts, lose: Lose) -> None:
    """Merge the parts of another schema that a value must fit as well."""
    for keyword, value in other.items():
        if keyword not in parts:
            parts[keyword] = value
        elif keyword in _LARGEST:
            parts[keyword] = max(parts[keyword], value)
        elif keyword in _SMALLEST:
            parts[keyword] = min(parts[keyword], value)
        elif keyword == "properties":
            parts[keyword] = {**parts[keyword], **value, **parts[keyword]}
            if any(parts[keyword][name] != each for name, each in value.items()):
                lose(keyword, "dropped")
        elif keyword == "required":
            parts[keyword] = [*dict.fromkeys((*parts[keyword], *value))]
        elif keyword in _COMMON and (both := _COMMON[keyword](parts[keyword], value)):
            parts[keyword] = both
        elif parts[keyword] != value:
            lose(keyword, "dropped")


def _common_types(types: list[str], others: list[str]) -> list[str]:
    found = [each for each in types if each in others]
    if "integer" not in found and {"integer", "number"} <= {*types, *others}:
        found = [each for each in found if each != "number"]
        found.append("integer")
    return found


def _common_values(values: list[Any], others: list[Any]) -> list[Any]:
    known = {(json_type(each), each) for each in others}
    return [each for each in values if (json_type(each), each) in known]


_COMMON: dict[str, Callable[[Any, Any], list[Any]]] = {
    "type": _common_types,
    "enum": _common_values,
}
"""Functions that return what both values of a keyword allow; [] if they exclude each other."""


def union(branches: Iterable[dict[str, Any]], lose: Lose) -> list[dict[str, Any]]:
    """Return the distinct branches of a union, nested unions flattened.

    Enumerations of one type are joined.  [] if any value is valid.
    """
    found: dict[str, dict[str, Any]] = {}
    enums: dict[str, dict[str, Any]] = {}
    values: dict[str, _Values] = {}
    for branch in branches:
        if [*branch] == ["anyOf"]:
            lose("anyOf", "merged")
        for each in branch["anyOf"] if [*branch] == ["anyOf"] else [branch]:
            key = compact(each)
            if "type" not in each and "anyOf" not in each:
                lose("anyOf", "dropped")
                return []
            kind = each["type"] if each.keys() == {"type", "enum"} else ""
            if kind in enums:
                values[kind].update(_by_type(each["enum"]))
                lose("anyOf", "merged")
            elif key in found:
                lose("anyOf", "merged")
            else:
                found[key] = {**each}
                if kind:
                    enums[kind], values[kind] = found[key], _by_type(each["enum"])
    for kind, enum in enums.items():
        enum["enum"] = [value for _, value in values[kind]]
    return [*found.values()]


_Values: TypeAlias = dict[tuple[str | None, Any], None]
"""Distinct values in order, with their JSON types: in Python 1 equals True."""


def _by_type(values: list[Any]) -> _Values:
    return dict.fromkeys((json_type(each), each) for each in values)


def write_schema(parts: Parts, lose: Lose) -> dict[str, Any]:
    """Write parts as a schema in the keywords that all servers accept."""
    notes: dict[str, Any] = {name: parts[name] for name in NOTES if name in parts}
    types, branches = _types_and_branches(parts, lose)
    if not branches and types:
        branches = _split_by_type(types, parts, lose)
    if not branches:
        return notes
    if len(branches) == 1:
        return {**branches[0], **notes}
    return {"anyOf": branches, **notes}


def _types_and_branches(parts: Parts, lose: Lose) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the types of a schema, or else the branches of its union."""
    branches: list[dict[str, Any]] = parts.get("anyOf", [])
    is_constrained = any(keyword in TYPE_OF or keyword == "enum" for keyword in parts)
    if branches and is_constrained:
        lose("anyOf", "dropped")
        branches = []
    types: list[str] = parts.get("type", [])
    if branches and types:
        lose("type", "merged")
        branches = union(_filter_branches(branches, types), lose)
    elif not branches and not types:
        types = _infer_types(parts)
        if types:
            lose("type", "added")
    if "nullable" in parts:
        lose("nullable", "written as anyOf")
        if branches and {"type": "null"} not in branches:
            branches = [*branches, {"type": "null"}]
        elif types and "null" not in types:
            types = [*types, "null"]
    if len(branches) == 1:
        lose("anyOf", "merged")
    return types, branches


def _filter_branches(branches: list[dict[str, Any]], types: list[str]) -> list[dict[str, Any]]:
    """Return the branches of a union with one of some types; nested unions are kept."""
    found: list[dict[str, Any]] = []
    for branch in branches:
        kind = branch.get("type")
        if kind is None or kind in types or (kind == "integer" and "number" in types):
            found.append(branch)
        elif kind == "number" and "integer" in types:
            # An enumeration stays: without its decimals no value might be left.
            found.append(branch if "enum" in branch else {**branch, "type": "integer"})
    return found


def _infer_types(parts: Parts) -> list[str]:
    """Return the types that the constraints of an untyped schema apply to."""
    if "enum" in parts:
        return [*dict.fromkeys(json_type(each) or "" for each in parts["enum"])]
    return [*dict.fromkeys(TYPE_OF[keyword] for keyword in parts if keyword in TYPE_OF)]


def _split_by_type(types: list[str], parts: Parts, lose: Lose) -> list[dict[str, Any]]:
    """Return a schema for each of some types."""
    if "integer" in types and "number" in types:
        lose("type", "merged")
        types = [kind for kind in types if kind != "integer"]
    values: dict[str, list[Any]] = {}
    for each in parts.get("enum", ()):
        kind = json_type(each) or ""
        values.setdefault("number" if kind == "integer" and kind not in types else kind, []).append(
            each
        )
    if "nullable" in parts:
        values.setdefault("null", [None])
    allowed = [kind for kind in types if kind in values] if "enum" in parts else types
    if not allowed:
        lose("enum", "dropped")
        values, allowed = {}, types
    elif "enum" in parts and (values.keys() - {*allowed} or allowed in (["boolean"], ["null"])):
        lose("enum", "dropped")
    if len(types) > 1:
        lose("type", "written as anyOf")
    known = {*types, "number"} if "integer" in types else {*types}
    for keyword in parts:
        if keyword in TYPE_OF and TYPE_OF[keyword] not in known:
            lose(keyword, "dropped")
    return [_write_type(kind, parts, values.get(kind, []), lose) for kind in allowed]


def _write_type(kind: str, parts: Parts, values: list[Any], lose: Lose) -> dict[str, Any]:
    concerned = "number" if kind == "integer" else kind
    schema: dict[str, Any] = {"type": kind}
    if values and kind not in ("boolean", "null"):
        schema["enum"] = [*dict.fromkeys(values)]
        if len(schema["enum"]) < len(values):
            lose("enum", "merged")
    schema |= {name: value for name, value in parts.items() if TYPE_OF.get(name) == concerned}
    if kind in ("integer", "number"):
        _include_bounds(schema, lose)
    elif kind == "array" and "items" not in schema:
        lose("items", "added")
        schema["items"] = {}
    elif "required" in schema:
        names = [name for name in schema["required"] if name in schema.get("properties", ())]
        if len(names) < len(schema.pop("required")):
            lose("required", "dropped")
        if names:
            schema["required"] = names
    return schema


def _include_bounds(schema: dict[str, Any], lose: Lose) -> None:
    """Replace exclusive bounds by inclusive ones: the same number, or the next integer."""
    is_integer = schema["type"] == "integer"
    if "exclusiveMinimum" in schema:
        lose("exclusiveMinimum", "written as minimum")
        bound = schema.pop("exclusiveMinimum")
        if is_integer and abs(bound) < _LARGE:
            bound = floor(bound) + 1
        schema["minimum"] = max(bound, schema.get("minimum", bound))
    if "exclusiveMaximum" in schema:
        lose("exclusiveMaximum", "written as maximum")
        bound = schema.pop("exclusiveMaximum")
        if is_integer and abs(bound) < _LARGE:
            bound = ceil(bound) - 1
        schema["maximum"] = min(bound, schema.get("maximum", bound))
