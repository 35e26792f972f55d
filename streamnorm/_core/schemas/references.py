"""References within a schema: pointers, their targets, and references moved to `$defs`."""

from __future__ import annotations

from typing import Any

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.schemas.keywords import rewrite_schema, subschemas

MISSING = object()
"""Target of a pointer that leads nowhere."""

_MAX_NODES = 5000  # subschemas of all new definitions, which may contain each other


def resolve_pointer(root: dict[str, Any], pointer: str) -> Any:
    """Return the target of a pointer in a schema; `MISSING` if it leads nowhere."""
    if pointer != "#" and not pointer.startswith("#/"):
        return MISSING
    value: Any = root
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if is_object(value):
            value = value.get(name, MISSING)
        elif is_array(value) and name.isascii() and name.isdecimal() and len(name) < 10:
            value = value[int(name)] if int(name) < len(value) else MISSING
        else:
            return MISSING
    return value


def pointer_to(name: str) -> str:
    """Return the pointer to a definition."""
    return "#/$defs/" + name.replace("~", "~0").replace("/", "~1")


class References:
    """Resolver of references within one schema; nothing is fetched.

    Args:
        schema: The schema.
        path: Path of the tool, for errors.

    Raises:
        EncodeError: The library `referencing` is missing.
    """

    def __init__(self, schema: dict[str, Any], path: str) -> None:
        try:
            from referencing import Registry
            from referencing.jsonschema import DRAFT202012
        except ImportError as exc:
            raise EncodeError(
                "no referencing, which inlines a $ref, "
                "expected the extra `schemas`: pip install '.[schemas]' in a clone",
                path=path,
            ) from exc
        self._path = path
        resource = DRAFT202012.create_resource(schema)
        self._registry = Registry[Any]().with_resource("", resource)
        self._is_crawled = False

    def resolve(self, reference: object, resolver: Any) -> tuple[Any, Any]:
        """Return the target of a reference, and the resolver of references in the target.

        Args:
            reference: The value of `$ref`.
            resolver: Resolver of the schema with the reference; None for the root's.

        Raises:
            EncodeError: The reference leads nowhere.
        """
        from referencing.exceptions import Unresolvable

        try:
            if not isinstance(reference, str):
                raise TypeError
            if not (reference == "#" or reference.startswith("#/") or self._is_crawled):
                self._registry, self._is_crawled = self._registry.crawl(), True
            found = (resolver or self._registry.resolver()).lookup(reference)
        # The library assumes valid schemas, for example that `$id` is a string.
        except (Unresolvable, AttributeError, LookupError, TypeError, ValueError) as exc:
            raise EncodeError(
                "a $ref that leads nowhere, expected one within the schema", path=self._path
            ) from exc
        return found.contents, found.resolver


def define_targets(
    schema: dict[str, Any], path: str, *, beside: frozenset[str] | None
) -> dict[str, Any] | None:
    """Return a schema whose references all lead to its `$defs`; the same object if they do.

    None if a reference is no pointer to a part of the schema.

    Args:
        schema: The schema, which is not changed.
        path: Path of the schema, for errors.
        beside: Keywords that may stand beside a reference; None = any.

    Raises:
        EncodeError: The new definitions exceed a bound.
    """
    references: dict[str, None] = {}
    for node in subschemas(schema):
        if "$ref" in node:
            if not isinstance(node["$ref"], str):
                return None
            references[node["$ref"]] = None
    if not references:
        return schema
    moved: dict[str, str] = {}  # names of new definitions, by the pointers to their schemas
    targets: dict[str, Any] = {}
    known = schema.get("$defs")
    definitions = known if is_object(known) else {}
    left = _MAX_NODES
    for pointer in references:
        if pointer == "#":
            continue
        target = resolve_pointer(schema, pointer)
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

    return rewrite_schema(schema, edit, path)


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _as_branch(node: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema with its reference moved into a branch of `anyOf` or `allOf`."""
    others = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
    branch = {"$ref": node["$ref"]}
    if "anyOf" not in others:
        return {**others, "anyOf": [branch]}
    before = others.get("allOf")
    return {**others, "allOf": [*before, branch] if isinstance(before, list) else [branch]}
