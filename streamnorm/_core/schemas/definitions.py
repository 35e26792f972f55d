"""References of a schema that lead to its `$defs`, with nothing beside them but notes.

Both are written so without a change of meaning: what a reference leads to elsewhere in the schema
becomes a definition, and a reference with other keywords beside it the one branch of a union.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_object
from streamnorm._core.schemas.pointers import pointed_at, pointer_to
from streamnorm._core.schemas.walk import rewritten, subschemas

__all__ = ["define_targets"]

_MAX_NODES = 5000  # of what becomes a definition: several may be parts of each other


def define_targets(
    schema: dict[str, Any], path: str, *, beside: frozenset[str] | None
) -> dict[str, Any] | None:
    """Return a schema whose references lead to its `$defs`; the same object if they do.

    None is returned if a reference is no pointer to a part of the schema.

    Args:
        schema: The schema, which is not changed.
        path: Where it stands, for errors.
        beside: Keywords that may stand beside a reference; None = any.

    Raises:
        EncodeError: What becomes definitions exceeds a bound.
    """
    references: dict[str, None] = {}
    for node in subschemas(schema):
        if "$ref" in node:
            if not isinstance(node["$ref"], str):
                return None
            references[node["$ref"]] = None
    if not references:
        return schema
    moved: dict[str, str] = {}  # names of new definitions, by the pointers to what they hold
    targets: dict[str, Any] = {}
    known = schema.get("$defs")
    definitions = known if is_object(known) else {}
    left = _MAX_NODES
    for pointer in references:
        if pointer == "#":
            continue
        target = pointed_at(schema, pointer)
        if not is_object(target) and not isinstance(target, bool):
            return None
        parts = pointer.split("/")
        if parts[1] == "$defs" and len(parts) == 3:
            continue
        left -= sum(1 for _ in subschemas(target)) if is_object(target) else 1
        if left < 0:
            raise EncodeError(
                f"more than {_MAX_NODES} subschemas of references, expected at most that",
                path=path,
            )
        moved[pointer] = name = _free_name("_".join(parts[2:]), definitions.keys() | targets.keys())
        targets[name] = target
    if targets:
        schema = {name: value for name, value in schema.items() if name != "definitions"}
        schema["$defs"] = definitions | targets

    def edit(node: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in node:
            return node
        pointer = node["$ref"]
        if pointer in moved:
            node = {**node, "$ref": pointer_to(moved[pointer])}
        is_legal = beside is None or all(name in beside or name == "$ref" for name in node)
        return node if is_legal else _as_branch(node)

    return rewritten(schema, edit, path)


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _as_branch(node: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema with its reference as the branch of a union, or of an intersection."""
    others = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
    branch = {"$ref": node["$ref"]}
    if "anyOf" not in others:
        return {**others, "anyOf": [branch]}
    before = others.get("allOf")
    return {**others, "allOf": [*before, branch] if isinstance(before, list) else [branch]}
