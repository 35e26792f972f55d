"""What servers want of a schema beyond JSON Schema, written without a change of its meaning.

The result depends on the schema alone, so that the encoding of a tool never changes.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from streamnorm._core.json import is_object
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.definitions import define_targets
from streamnorm._core.schemas.root import object_root
from streamnorm._core.schemas.simplify import simplify_schema
from streamnorm._core.schemas.walk import rewritten, subschemas, types_of

__all__ = ["SchemaNeed", "fit_needs"]

_NOTES = frozenset({"$defs", "default", "description"})

SchemaNeed: TypeAlias = Literal["definitions", "items", "object", "properties"]
"""What a server wants of a schema: references that lead to `$defs` and have only notes beside them;
`items` of every array; an object at the root, without the keywords that it refuses there;
`properties` of the root, and wherever there are some, as an object."""


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
    if "items" in needs and any(map(_lacks_items, subschemas(schema))):
        schema = rewritten(schema, _with_items, path)
    if "properties" in needs:
        if any(map(_has_odd_properties, subschemas(schema))):
            lose("properties", "dropped")
            schema = rewritten(schema, _with_properties, path)
        if "properties" not in schema:
            schema = {**schema, "properties": {}}
    return schema


def _lacks_items(schema: dict[str, Any]) -> bool:
    is_said = "items" in schema or "prefixItems" in schema
    return not is_said and "array" in types_of(schema)


def _with_items(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "items": {}} if _lacks_items(schema) else schema


def _has_odd_properties(schema: dict[str, Any]) -> bool:
    return "properties" in schema and not is_object(schema["properties"])


def _with_properties(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {}} if _has_odd_properties(schema) else schema
