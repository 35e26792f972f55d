"""The root of a schema as one object, where a server accepts no union there.

What the branches of a union require together is required, and a property that several have is the
union of theirs: a value that is valid stays so, unless only a branch that does not name a property
accepts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_object
from streamnorm._core.schemas.definitions import define_targets
from streamnorm._core.schemas.parts import Lose
from streamnorm._core.schemas.pointers import pointed_at
from streamnorm._core.schemas.walk import subschemas, types_of

__all__ = ["object_root"]

_MAX_BRANCHES = 1000  # references multiply them
_MAX_DEPTH = 50
_UNIONS = ("anyOf", "oneOf")
_NOTES = ("title", "description")
_JOINED = frozenset({"$ref", "allOf", *_UNIONS})
_MERGED = frozenset({"additionalProperties", "properties", "required"})
_KEPT = _JOINED | _MERGED | {"$defs", "definitions", "type", *_NOTES}


def object_root(
    schema: dict[str, Any], refused: frozenset[str], lose: Lose, path: str
) -> dict[str, Any]:
    """Return a schema of an object without some keywords at its root; itself if it is so.

    Args:
        schema: The schema, which is not changed.
        refused: The keywords.
        lose: Counts the loss of a keyword.
        path: Where the schema stands, for errors.

    Raises:
        EncodeError: Its branches exceed a bound.
        LossyEncoding: Something is lost, and the losses are strict.
    """
    found = [keyword for keyword in schema if keyword in refused or keyword == "$ref"]
    if not found:
        return _with_type(schema, lose)
    inner = tuple(f"#/{keyword}/" for keyword in found)
    if any(str(node.get("$ref")).startswith(inner) for node in subschemas(schema)):
        schema = define_targets(schema, path, beside=None) or schema
    for keyword in found:
        if keyword in _UNIONS:
            lose(keyword, "merged")
        elif keyword not in _JOINED:
            lose(keyword, "dropped")
    joined = _Joiner(schema, lose, path).joined(schema)
    kept = {
        name: value
        for name, value in schema.items()
        if name not in found and name not in joined and name not in _MERGED
    }
    return _with_type(kept | joined, lose)


def _with_type(schema: dict[str, Any], lose: Lose) -> dict[str, Any]:
    """Return a schema with the type of objects, which the arguments of every tool are."""
    kind = schema.get("type")
    if kind == "object":
        return schema
    if kind is not None:
        lose("type", "written as object")
    others = {name: value for name, value in schema.items() if name != "type"}
    return {"type": "object", **others}


class _Joiner:
    """Joins the objects that a schema is made of.

    Args:
        root: The schema, whose parts references lead to.
        lose: Counts the loss of a keyword.
        path: Where the schema stands, for errors.
    """

    def __init__(self, root: dict[str, Any], lose: Lose, path: str) -> None:
        self._root = root
        self._lose = lose
        self._path = path
        self._left = _MAX_BRANCHES

    def joined(self, schema: dict[str, Any], depth: int = 0) -> dict[str, Any]:
        """Return what an object and its branches say of its properties, and the notes of both."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            raise EncodeError(
                f"a schema of more than {_MAX_BRANCHES} branches, expected at most that",
                path=self._path,
            )
        if depth:
            for keyword in schema:
                if keyword not in _KEPT:
                    self._lose(keyword, "dropped")
        parts = [_own(schema)]
        if isinstance(schema.get("$ref"), str):
            target = pointed_at(self._root, schema["$ref"])
            if target is not schema and is_object(target):
                parts.append(self.joined(target, depth + 1))
        parts += [self.joined(branch, depth + 1) for branch in _branches(schema, "allOf")]
        for keyword in _UNIONS:
            objects = [
                self.joined(branch, depth + 1)
                for branch in _branches(schema, keyword)
                if _may_be_object(branch)
            ]
            if objects:
                parts.append(_either(objects))
        return _all(parts)


def _branches(schema: dict[str, Any], keyword: str) -> list[dict[str, Any]]:
    value = schema.get(keyword)
    return [branch for branch in value if is_object(branch)] if is_array(value) else []


def _may_be_object(schema: dict[str, Any]) -> bool:
    return "type" not in schema or "object" in types_of(schema)


def _notes(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in _NOTES if name in schema}


def _own(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what a schema itself says of an object."""
    found = _notes(schema)
    if is_object(properties := schema.get("properties")):
        found["properties"] = properties
    if is_array(required := schema.get("required")):
        found["required"] = [name for name in required if isinstance(name, str)]
    if "additionalProperties" in schema:
        found["additionalProperties"] = schema["additionalProperties"]
    return found


def _all(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what several objects say that a value is at the same time."""
    joined = _joined_properties(parts, "allOf")
    required = dict.fromkeys(name for part in parts for name in part.get("required", ()))
    if required:
        joined["required"] = [*required]
    # A part that is closed names its own properties alone; those of the others are meant, too.
    others = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
    if others and all(other == others[0] for other in others):
        joined["additionalProperties"] = others[0]
    for part in parts:
        for name, note in _notes(part).items():
            joined.setdefault(name, note)
    return joined


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what several objects say of which a value is one."""
    joined = _joined_properties(parts, "anyOf")
    first, *rest = (part.get("required", ()) for part in parts)
    required = [name for name in first if all(name in names for names in rest)]
    if required:
        joined["required"] = required
    if all(part.get("additionalProperties") is False for part in parts):
        joined["additionalProperties"] = False
    return joined


def _joined_properties(parts: Iterable[dict[str, Any]], keyword: str) -> dict[str, Any]:
    """Return the properties of several objects, those of one name joined by a keyword."""
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, schema in part.get("properties", {}).items():
            found.setdefault(name, {})[compact(schema)] = schema
    if not found:
        return {}
    return {
        "properties": {
            name: next(iter(known.values())) if len(known) == 1 else {keyword: [*known.values()]}
            for name, known in found.items()
        }
    }
