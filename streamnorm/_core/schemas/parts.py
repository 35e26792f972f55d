"""What a schema says, by keyword: several schemas as one, and the branches of a union."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from streamnorm._core.json import compact
from streamnorm._core.schemas.keywords import json_type

__all__ = ["Lose", "Parts", "merge", "union"]

Parts: TypeAlias = dict[str, Any]
"""The constraints and notes of a schema by keyword.  `type` is an array; `properties`, `items`
and `anyOf` have simplified schemas."""

Lose: TypeAlias = Callable[[str, str], None]
"""Counts the loss of a keyword, with its result."""

_LARGEST = frozenset({"minItems", "minimum", "exclusiveMinimum"})
_SMALLEST = frozenset({"maxItems", "maximum", "exclusiveMaximum"})


def merge(parts: Parts, other: Parts, lose: Lose) -> None:
    """Add what another schema says, which is valid at the same time."""
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
"""What two values of a keyword allow both; nothing is allowed by one of them alone."""


def union(branches: Iterable[dict[str, Any]], lose: Lose) -> list[dict[str, Any]]:
    """Return the different branches of a union, with those of unions in it.

    Enumerations of one type become one.  Nothing is returned if any value is valid.
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
"""Different values in order, with their types: 1 and true are equal in Python."""


def _by_type(values: list[Any]) -> _Values:
    return dict.fromkeys((json_type(each), each) for each in values)
