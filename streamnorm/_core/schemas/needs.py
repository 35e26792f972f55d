"""What servers want of a schema beyond JSON Schema, written without a change of its meaning.

The result depends on the schema alone, so that the encoding of a tool never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from streamnorm._core.json import is_array, is_object
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.definitions import define_targets
from streamnorm._core.schemas.root import object_root
from streamnorm._core.schemas.simplify import simplify_schema
from streamnorm._core.schemas.walk import Edit, rewritten, subschemas, types_of

__all__ = ["SchemaNeed", "fit_needs"]

_NOTES = frozenset({"$defs", "default", "description"})

SchemaNeed: TypeAlias = Literal[
    "branch_types",
    "definitions",
    "item_schemas",
    "items",
    "object",
    "ordered_properties",
    "properties",
    "property_maps",
]
"""What a server wants of a schema: types in the branches of `anyOf`, not beside it; references that
lead to `$defs` and have only notes beside them; `items` that are an object; `items` of every array;
an object at the root, without the keywords that are refused there; properties in the order that
`propertyOrdering` has; `properties` of the root; and `properties` that are an object."""


def fit_needs(
    schema: dict[str, Any],
    needs: frozenset[SchemaNeed],
    refused: frozenset[str],
    losses: Losses,
    *,
    where: str,
    path: str,
) -> dict[str, Any]:
    """Return a schema as a server wants it; the same object if it is so.

    Args:
        schema: The schema, which is not changed.
        needs: What the server wants.
        refused: Keywords that it refuses at the root.
        losses: Counts what is lost, as `schema.` and the keyword.
        where: The field that has the schema, for losses.
        path: Where the schema stands, for errors.

    Raises:
        EncodeError: A reference leads nowhere, or the schema exceeds a bound.
        LossyEncoding: Something is lost, and the losses are strict.
    """

    def lose(keyword: str, detail: str) -> None:
        losses.add(f"schema.{keyword}", where, detail)

    if "object" in needs:
        schema = object_root(schema, refused, lose, path)
    if "definitions" in needs:
        defined = define_targets(schema, path, beside=_NOTES)
        # A reference to an anchor, for example, is inlined.
        schema = simplify_schema(schema, losses, path=path) if defined is None else defined
    for need, is_unmet, edit, lost in _EDITS:
        if need in needs and any(map(is_unmet, subschemas(schema))):
            if lost is not None:
                lose(*lost)
            schema = rewritten(schema, edit, path)
    if "properties" in needs and "properties" not in schema:
        schema = {**schema, "properties": {}}
    return schema


def _has_odd_items(schema: dict[str, Any]) -> bool:
    return "items" in schema and not is_object(schema["items"])


def _with_item_schemas(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema whose items are those of a tuple, in any order, or anything."""
    if not _has_odd_items(schema):
        return schema
    known = schema["items"]
    branches = [each for each in known if is_object(each)] if is_array(known) else []
    return {**schema, "items": {"anyOf": branches} if branches else {}}


def _has_outer_type(schema: dict[str, Any]) -> bool:
    return "anyOf" in schema and "type" in schema


def _with_branch_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema with its type in the branches of its union that have none."""
    if not _has_outer_type(schema):
        return schema
    branches = schema["anyOf"] if is_array(schema["anyOf"]) else []
    others = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**others, "anyOf": [_typed(branch, schema["type"]) for branch in branches]}


def _typed(branch: object, kind: object) -> object:
    is_untyped = is_object(branch) and branch.keys().isdisjoint(("$ref", "anyOf", "type"))
    return {"type": kind, **branch} if is_object(branch) and is_untyped else branch


def _lacks_items(schema: dict[str, Any]) -> bool:
    is_said = "items" in schema or "prefixItems" in schema
    return not is_said and "array" in types_of(schema)


def _with_items(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "items": {}} if _lacks_items(schema) else schema


def _has_odd_properties(schema: dict[str, Any]) -> bool:
    return "properties" in schema and not is_object(schema["properties"])


def _with_properties(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {}} if _has_odd_properties(schema) else schema


def _has_ordering(schema: dict[str, Any]) -> bool:
    return "propertyOrdering" in schema


def _with_order(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema whose properties stand in the order that the model writes them in."""
    if not _has_ordering(schema):
        return schema
    schema = dict(schema)
    order, known = schema.pop("propertyOrdering"), schema.get("properties")
    if is_array(order) and is_object(known):
        first = [name for name in order if isinstance(name, str) and name in known]
        schema["properties"] = {name: known[name] for name in dict.fromkeys([*first, *known])}
    return schema


_EDITS: tuple[
    tuple[SchemaNeed, Callable[[dict[str, Any]], bool], Edit, tuple[str, str] | None], ...
] = (
    ("item_schemas", _has_odd_items, _with_item_schemas, ("items", "merged")),
    (
        "branch_types",
        _has_outer_type,
        _with_branch_types,
        ("type", "written in the branches"),
    ),
    ("items", _lacks_items, _with_items, None),
    (
        "ordered_properties",
        _has_ordering,
        _with_order,
        ("propertyOrdering", "written as the order of the properties"),
    ),
    ("property_maps", _has_odd_properties, _with_properties, ("properties", "dropped")),
)
"""Edits of subschemas: the need, what lacks it, the edit, and what is lost by it."""
