"""The part of JSON Schema that a provider enforces, and schemas written within it.

The result depends on the schema alone, so that the encoding of a tool never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import Struct

from streamnorm._core.json import is_array, is_object
from streamnorm._core.schemas.definitions import define_targets
from streamnorm._core.schemas.pointers import pointer_to
from streamnorm._core.schemas.walk import children, rewritten, subschemas, types_of

__all__ = [
    "EnforcedSchemas",
    "Fitted",
    "NotEnforced",
    "fit_enforced",
    "free_properties",
    "is_split",
]


class EnforcedSchemas(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a provider accepts in a schema that it enforces.

    Attributes:
        refused: Keywords that it refuses.
        removed: Those of them that are removed; a schema with another is not enforced.
        formats: Values of `format`; None = any.
        most_min_items: Highest `minItems`; None = any.
        closed: Whether every object must have `additionalProperties: false`.
        all_required: Whether every property must be required.
        typed: Whether every subschema must have a type.
        bare_references: Whether nothing stands beside a `$ref`.
        recursive: Whether definitions may lead to themselves.
        lookaround: Whether patterns look ahead and behind.
        most_properties: Number of properties; None = any.
        most_levels: Number of objects within each other; None = any.
        most_chars: Number of characters of names and enumerated texts; None = any.
        most_values: Number of enumerated values; None = any.
        most_tools: Number of tools of a request that are enforced; None = any.
        most_optional: Number of properties of all enforced schemas of a request that are not
            required; None = any.
        most_unions: Number of their properties that have `anyOf` or several types; None = any.
    """

    refused: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    formats: frozenset[str] | None = None
    most_min_items: int | None = None
    closed: bool = True
    all_required: bool = False
    typed: bool = False
    bare_references: bool = False
    recursive: bool = True
    lookaround: bool = True
    most_properties: int | None = None
    most_levels: int | None = None
    most_chars: int | None = None
    most_values: int | None = None
    most_tools: int | None = None
    most_optional: int | None = None
    most_unions: int | None = None


class NotEnforced(Exception):
    """A provider cannot enforce a schema; the text says what it has that is not accepted."""


class Fitted(NamedTuple):
    """A schema that a provider enforces.

    Attributes:
        schema: The schema.
        lost: Keywords that were changed, each with its result.
    """

    schema: dict[str, Any]
    lost: list[tuple[str, str]]


def fit_enforced(schema: dict[str, Any], form: EnforcedSchemas, path: str) -> Fitted:
    """Return a schema within what a provider enforces; the same object if it is.

    Args:
        schema: The schema, which is not changed.
        form: What the provider accepts.
        path: Where the schema stands, for errors.

    Raises:
        NotEnforced: It has what cannot be written.
        EncodeError: It exceeds a bound.
    """
    lost: list[tuple[str, str]] = []
    beside = frozenset[str]() if form.bare_references else None
    defined = define_targets(schema, path, beside=beside)
    if defined is None:
        raise NotEnforced("a reference out of the schema")
    if form.closed and any(map(is_split, subschemas(defined))):
        raise NotEnforced("an object of several parts")
    fitted = rewritten(defined, lambda node: _fitted(node, form, lost), path)
    _check(fitted, form)
    return Fitted(fitted, lost)


def is_split(node: dict[str, Any]) -> bool:
    """Return whether an object has parts that would refuse the properties of each other.

    `additionalProperties` knows the properties that stand beside it alone.
    """
    parts = list(_parts(node))
    is_closed = all(part.get("additionalProperties") is False for part in parts)
    return len(parts) > 1 and not is_closed


def _parts(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas that name properties of one object; one of several branches of a union."""
    if "properties" in node or "$ref" in node:
        yield node
    for keyword, child in children(node):
        if keyword == "allOf":
            yield from _parts(child)
    for keyword in ("anyOf", "oneOf"):
        branches = [
            part for key, child in children(node) if key == keyword for part in _parts(child)
        ]
        yield from branches[:1]


def _fitted(
    node: dict[str, Any], form: EnforcedSchemas, lost: list[tuple[str, str]]
) -> dict[str, Any]:
    """Return a subschema without what is removed, closed if it is an object."""
    changes: dict[str, Any] = {}
    gone: set[str] = set()
    for keyword in node:
        if keyword == "oneOf" and keyword in form.removed and "anyOf" not in node:
            changes["anyOf"] = node["oneOf"]
            lost.append((keyword, "written as anyOf"))
            gone.add(keyword)
        elif keyword in form.removed or _is_refused_value(keyword, node[keyword], form):
            lost.append((keyword, "dropped"))
            gone.add(keyword)
    if form.closed and "object" in types_of(node):
        others = node.get("additionalProperties", True)
        if others is not False:
            if "properties" not in node or not (others is True or others == {}):
                raise NotEnforced("an object with properties of any name")
            lost.append(("additionalProperties", "written as false"))
            changes["additionalProperties"] = False
    if not (gone or changes):
        return node
    return {name: value for name, value in node.items() if name not in gone} | changes


def _is_refused_value(keyword: str, value: object, form: EnforcedSchemas) -> bool:
    if keyword == "format":
        return form.formats is not None and not (isinstance(value, str) and value in form.formats)
    if keyword != "minItems" or form.most_min_items is None:
        return False
    return isinstance(value, bool) or value not in range(form.most_min_items + 1)


def _check(schema: dict[str, Any], form: EnforcedSchemas) -> None:
    """Raise an error if a schema has what cannot be enforced."""
    for node in subschemas(schema):
        for keyword in node:
            if keyword in form.refused:
                raise NotEnforced(f"`{keyword}`")
        if form.all_required and any(True for _ in _free(node)):
            raise NotEnforced("a property that is not required")
        if form.typed and node.keys().isdisjoint(_TYPED):
            raise NotEnforced("a part without a type")
        pattern = str(node.get("pattern"))
        if not form.lookaround and any(text in pattern for text in _LOOKAROUND):
            raise NotEnforced("a pattern that looks around")
    if not form.recursive and _is_recursive(schema):
        raise NotEnforced("a recursive reference")
    _check_size(schema, form)


def _check_size(schema: dict[str, Any], form: EnforcedSchemas) -> None:
    """Raise an error if a schema is too large to be enforced."""
    if form.most_properties is None and form.most_levels is None:
        return
    properties = levels = chars = values = 0
    waiting = [(schema, 0)]
    while waiting:
        node, level = waiting.pop()
        names, enum = _properties(node), node.get("enum")
        listed = enum if is_array(enum) else []
        level += bool(names)
        properties, levels, values = (
            properties + len(names),
            max(levels, level),
            values + len(listed),
        )
        chars += sum(len(text) for text in (*names, *listed) if isinstance(text, str))
        # A definition is counted as a schema of its own.
        waiting += [(child, 0 if key in _DEFINITIONS else level) for key, child in children(node)]
    for count, most in (
        (properties, form.most_properties),
        (levels, form.most_levels),
        (chars, form.most_chars),
        (values, form.most_values),
    ):
        if most is not None and count > most:
            raise NotEnforced("too many parts")


def free_properties(schema: dict[str, Any]) -> tuple[int, int]:
    """Return the number of properties that are not required, and of those that are unions.

    Definitions are not counted: the API was observed to count what is reached without them.
    """
    free = unions = 0
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        free += sum(1 for _ in _free(node))
        unions += sum(map(_is_union, _properties(node).values()))
        waiting += [child for key, child in children(node) if key not in _DEFINITIONS]
    return free, unions


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    named = schema.get("properties")
    return named if is_object(named) else {}


def _free(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the properties that are not required."""
    required = schema.get("required")
    named = required if is_array(required) else []
    names = {name for name in named if isinstance(name, str)}
    for name in _properties(schema):
        if name not in names:
            yield name


def _is_union(schema: object) -> bool:
    return is_object(schema) and ("anyOf" in schema or is_array(schema.get("type")))


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return whether a reference leads back to itself; all lead to `$defs` or to the root."""
    known = schema.get("$defs")
    definitions = known if is_object(known) else {}
    leading = {
        pointer_to(name): _references(part) for name, part in definitions.items() if is_object(part)
    }
    done: set[str] = set()
    for start in leading:
        path: dict[str, Iterator[str]] = {start: iter(leading[start])}
        while path:
            pointer, targets = next(reversed(path.items()))
            target = next(targets, None)
            if target is None:
                del path[pointer]
                done.add(pointer)
            elif target == "#" or target in path:
                return True
            elif target not in done and target in leading:
                path[target] = iter(leading[target])
    return "#" in _references(schema)


def _references(schema: dict[str, Any]) -> list[str]:
    found = [node.get("$ref") for node in subschemas(schema)]
    return [reference for reference in found if isinstance(reference, str)]


_TYPED = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_DEFINITIONS = frozenset({"$defs", "definitions"})
