"""The walk through a JSON Schema that is changed in places, and copied no further than these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_array, is_object

__all__ = ["Edit", "children", "rewritten", "subschemas", "types_of"]

_MAX_DEPTH = 100
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items"}
    | {"not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
_HOLDERS = _MAPS | _LISTS | _SINGLE

Edit = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns a subschema edited; the same object if nothing changes."""


def rewritten(schema: dict[str, Any], edit: Edit, path: str, depth: int = 0) -> dict[str, Any]:
    """Return a schema with an edit of each subschema, the innermost first.

    Args:
        schema: The schema, which is not changed; it is returned itself if no edit changes it.
        edit: The edit.
        path: Where the schema stands, for errors.
        depth: Its nesting.

    Raises:
        EncodeError: It nests too deep.
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
                name: rewritten(item, edit, path, depth + 1) if is_object(item) else item
                for name, item in value.items()
            }
            if all(changed[name] is item for name, item in value.items()):
                continue
        elif is_object(value):
            changed = rewritten(value, edit, path, depth + 1)
        elif keyword in _LISTS and is_array(value):
            changed = [
                rewritten(item, edit, path, depth + 1) if is_object(item) else item
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
    """Yield a schema and all its subschemas, in no order."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for _, child in children(node)]


def types_of(schema: dict[str, Any]) -> list[Any]:
    """Return the types that a schema names."""
    named = schema.get("type")
    return named if is_array(named) else [named]
