"""Names of a tool's properties that a vendor refuses, replaced in its schema and in its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from streamnorm._core.json import FAST_ERRORS, compact, is_array, is_object

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_CHARS = 64
_COMBINED = ("allOf", "anyOf", "oneOf")  # whose properties become those of the root


def legal_properties(schema: dict[str, Any], pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the names to write in place of those that a vendor refuses at the top of a schema.

    A name depends on the schema alone.

    Args:
        schema: Schema of a tool's arguments.
        pattern: What legal names match as a whole.
    """
    known = dict.fromkeys(name for root in _roots(schema) for name in _names(root))
    taken = {name for name in known if pattern.fullmatch(name)}
    legal: dict[str, str] = {}
    for name in known:
        if name not in taken:
            legal[name] = _free_name(_ILLEGAL.sub("_", name).strip("_") or "value", taken)
            taken.add(legal[name])
    return legal


def rename_schema(schema: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a schema with other names of its properties; of the root alone."""
    renamed = dict(schema)
    for keyword in ("properties", "dependentRequired", "dependentSchemas"):
        if is_object(members := schema.get(keyword)):
            renamed[keyword] = {names.get(name, name): value for name, value in members.items()}
    if is_object(members := renamed.get("dependentRequired")):
        renamed["dependentRequired"] = {
            name: _rename_all(value, names) for name, value in members.items()
        }
    if "required" in schema:
        renamed["required"] = _rename_all(schema["required"], names)
    return renamed


def rename_arguments(arguments: str, names: Mapping[str, str]) -> str:
    """Return the arguments of a call with other names; as they are if they are no JSON object.

    The values keep their bytes.
    """
    try:
        members = _members(arguments)
    except FAST_ERRORS:
        return arguments
    if names.keys().isdisjoint(members):
        return arguments
    return compact({names.get(name, name): member for name, member in members.items()})


class ArgumentsRenamer:
    """Rename the properties in the arguments of one call, once they are complete.

    Args:
        names: Names of the properties, by those in the arguments.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._held: list[str] = []

    def feed(self, arguments: str) -> str:
        """Store the next fragment; return nothing yet."""
        self._held.append(arguments)
        return ""

    def close(self) -> str:
        """Return the arguments."""
        return rename_arguments("".join(self._held), self._names)


def _roots(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for keyword in _COMBINED:
        entries = schema.get(keyword)
        yield from filter(is_object, entries if is_array(entries) else ())


def _names(schema: dict[str, Any]) -> Iterable[str]:
    properties = schema.get("properties")
    return properties if is_object(properties) else ()


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name[:_MAX_CHARS], 1
    while free in taken:
        number += 1
        ending = f"_{number}"
        free = name[: _MAX_CHARS - len(ending)] + ending
    return free


def _rename_all(value: Any, names: Mapping[str, str]) -> Any:
    if not is_array(value):
        return value
    return [names.get(name, name) if isinstance(name, str) else name for name in value]
