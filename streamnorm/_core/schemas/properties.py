"""Names of a tool's properties that a vendor refuses, replaced in its schema and in its calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from streamnorm._core.json import FAST_ERRORS, compact, is_array, is_object
from streamnorm._core.schemas.simplify import resolve_pointer

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_CHARS = 64
_MAX_ROOTS = 100
_LISTS = ("allOf", "anyOf", "oneOf")  # of schemas that the arguments match, too
_PARTS = ("if", "then", "else", "not")
_DEPENDENT = ("dependentRequired", "dependencies", "dependentSchemas")
_BY_NAME = ("properties", *_DEPENDENT)
_TOP = "#/properties/"


def legal_properties(schema: dict[str, Any], pattern: re.Pattern[str]) -> dict[str, str]:
    """Return the names to write in place of those that a vendor refuses at the top of a schema.

    A name depends on the schema alone.

    Args:
        schema: Schema of a tool's arguments.
        pattern: Regular expression that legal names match as a whole.
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
    """Return a schema with other names of its properties, at its top alone."""
    renamed: dict[str, Any] = _rename_pointers(_rename_top(schema, names), names)
    return renamed


def rename_arguments(arguments: str, names: Mapping[str, str]) -> str:
    """Return the arguments of a call with other names; as they are if they are no JSON object.

    The values keep their bytes.
    """
    try:
        members = _members(arguments)
    except FAST_ERRORS:
        return arguments
    # Of two members that would have one name, each keeps its own.
    used = {old: new for old, new in names.items() if old in members and new not in members}
    if not used:
        return arguments
    return compact({used.get(name, name): member for name, member in members.items()})


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
    """Yield the root of a schema, and the schemas that the same value must or may match."""
    left, seen = [schema], set[int]()
    while left and len(seen) < _MAX_ROOTS:
        found = left.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        pointer = found.get("$ref")
        target = resolve_pointer(schema, pointer) if isinstance(pointer, str) else None
        entries = [entry for keyword in _LISTS for entry in _array(found.get(keyword))]
        left += filter(is_object, reversed([target, *entries]))


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


def _rename_top(schema: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a schema of the arguments, or a part of it that they have to match, too."""
    renamed = dict(schema)
    for keyword, value in schema.items():
        if keyword in _BY_NAME and is_object(value):
            renamed[keyword] = {names.get(name, name): member for name, member in value.items()}
    for keyword in _DEPENDENT:
        if is_object(members := renamed.get(keyword)):
            renamed[keyword] = {
                name: _rename_top(value, names) if is_object(value) else _rename_all(value, names)
                for name, value in members.items()
            }
    for keyword in _LISTS:
        if is_array(entries := schema.get(keyword)):
            renamed[keyword] = [
                _rename_top(entry, names) if is_object(entry) else entry for entry in entries
            ]
    for keyword in _PARTS:
        if is_object(part := schema.get(keyword)):
            renamed[keyword] = _rename_top(part, names)
    if "required" in schema:
        renamed["required"] = _rename_all(schema["required"], names)
    if is_object(legal := schema.get("propertyNames")) and "enum" in legal:
        renamed["propertyNames"] = {**legal, "enum": _rename_all(legal["enum"], names)}
    return renamed


def _rename_pointers(value: Any, names: Mapping[str, str]) -> Any:
    """Return a schema whose references to properties of the top have their new names."""
    if is_array(value):
        return [_rename_pointers(item, names) for item in value]
    if not is_object(value):
        return value
    renamed = {key: _rename_pointers(item, names) for key, item in value.items()}
    pointer = value.get("$ref")
    if isinstance(pointer, str) and pointer.startswith(_TOP):
        name, slash, rest = unquote(pointer[len(_TOP) :]).partition("/")
        old = name.replace("~1", "/").replace("~0", "~")
        if old in names:
            renamed["$ref"] = f"{_TOP}{names[old]}{slash}{rest}"
    return renamed


def _rename_all(value: Any, names: Mapping[str, str]) -> Any:
    if not is_array(value):
        return value
    return [names.get(name, name) if isinstance(name, str) else name for name in value]


def _array(value: Any) -> list[Any]:
    return value if is_array(value) else []
