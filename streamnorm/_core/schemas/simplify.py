"""Simplified schemas with resolved references.

`simplify_schema` reads each subschema as parts (keywords with their values), merges the parts of
`allOf` and references, and writes them again.  `object_root` only joins what a server refuses at
the root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_object
from streamnorm._core.losses import Losses
from streamnorm._core.schemas import (
    DROPPED,
    NOTES,
    VALUES,
    Lose,
    Parts,
    merge,
    rewrite_schema,
    subschemas,
    types_of,
    union,
    write_schema,
)

_MAX_SUBSCHEMAS = 5000  # as many properties as OpenAI accepts; references multiply them
_MAX_VALUES = 100_000  # of enumerations and lists of required properties, likewise
_MAX_DEPTH = 100

_OUTLINE = ("type", *NOTES)
_MAX_BRANCHES = 1000  # references multiply them
_MAX_UNION_DEPTH = 50
_UNIONS = ("anyOf", "oneOf")
_NOTES = ("title", "description")
_JOINED = frozenset({"$ref", "allOf", *_UNIONS})
_MERGED = frozenset({"additionalProperties", "properties", "required"})
_KEPT = _JOINED | _MERGED | {"$defs", "definitions", "type", *_NOTES}

MISSING = object()
"""Target of a pointer that leads nowhere."""

_MAX_NODES = 5000  # subschemas of all new definitions, which may contain each other


def simplify_schema(schema: dict[str, Any], losses: Losses, *, path: str) -> dict[str, Any]:
    """Return the schema of a tool's arguments in the keywords that all servers accept.

    Args:
        schema: The schema; it is not changed, and returned itself if it is simple.
        losses: Counter of changes, as `schema.` and the keyword.
        path: Path of the tool, for errors.

    Raises:
        EncodeError: A `$ref` leads nowhere, the extra `schemas` that resolves it is missing, or
            the schema exceeds a bound once its references are inlined.
        LossyEncoding: There is a change, and the losses are strict.
    """
    simplifier = _Simplifier(schema, losses, path)
    simple = simplifier.root()
    return simple if simplifier.is_changed else schema


class _Scope(NamedTuple):
    """Depth and reference context of a subschema.

    Attributes:
        depth: Nesting in the result.
        targets: Identities of the schemas whose references are being inlined.
        resolver: Resolver of the references in it; None for the root's.
    """

    depth: int = 0
    targets: frozenset[int] = frozenset()
    resolver: Any = None

    def below(self, levels: int) -> _Scope:
        return self._replace(depth=self.depth + levels)


class _Simplifier:
    """Simplifies one schema."""

    def __init__(self, schema: dict[str, Any], losses: Losses, path: str) -> None:
        self._schema = schema
        self._losses = losses
        self._path = path
        self._left = _MAX_SUBSCHEMAS
        self._left_values = _MAX_VALUES
        self._references: References | None = None
        self.is_changed = False

    def root(self) -> dict[str, Any]:
        """Return the simplified schema, which always has the type `object`."""
        simple = self._simplify(self._schema, _Scope(targets=frozenset({id(self._schema)})))
        if simple is None:
            simple = {}
        elif simple.get("type") == "object":
            return simple
        notes: dict[str, Any] = {name: simple[name] for name in NOTES if name in simple}
        objects = [each for each in simple.get("anyOf", ()) if each.get("type") == "object"]
        if not objects:
            self._lose("type", "written as object")
            return {"type": "object", **notes}
        self._lose("anyOf", "merged")
        return {"type": "object", **notes, **self._join_objects(objects)}

    def _join_objects(self, objects: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the properties of several objects, and the names that all the objects require."""
        found: dict[str, list[dict[str, Any]]] = {}
        for each in objects:
            for name, schema in each.get("properties", {}).items():
                found.setdefault(name, []).append(schema)
        required = [{*each.get("required", ())} for each in objects]
        properties = {
            name: write_schema({"anyOf": union(schemas, self._lose)}, self._lose)
            for name, schemas in found.items()
        }
        everywhere = [name for name in found if all(name in names for names in required)]
        return {"properties": properties, **({"required": everywhere} if everywhere else {})}

    def _lose(self, keyword: str, detail: str) -> None:
        self.is_changed = True
        self._losses.add(f"schema.{keyword}", "tools", detail)

    def _simplify(self, schema: object, scope: _Scope) -> dict[str, Any] | None:
        """Return a simplified subschema; None if no value fits it."""
        parts = self._read_parts(schema, scope)
        return None if parts is None else write_schema(parts, self._lose)

    def _read_parts(self, schema: object, scope: _Scope) -> Parts | None:
        """Return a subschema's constraints, inner schemas simplified; None if no value fits."""
        if schema is False:
            return None
        if not is_object(schema):
            self._lose("true" if schema is True else "keyword", "written as {}")
            return {}
        self._left -= 1
        if self._left < 0:
            raise self._error(f"more than {_MAX_SUBSCHEMAS} subschemas, expected at most that")
        if scope.depth > _MAX_DEPTH:
            raise self._error(f"a schema nested deeper than {_MAX_DEPTH}, expected at most that")
        parts: Parts = {}
        for keyword, value in schema.items():
            if keyword in VALUES:
                self._read_value(keyword, value, parts)
            elif keyword not in _SUBSCHEMAS:
                self._lose(keyword if keyword in DROPPED else "keyword", "dropped")
        # Several types, with null among them, are written as a union, which adds two levels.
        inner = scope.below(2 if len(parts.get("type", ())) > 1 or "nullable" in parts else 0)
        for keyword, read in _SUBSCHEMAS.items():
            if keyword in schema and not read(self, schema, parts, inner):
                return None
        return parts

    def _error(self, message: str) -> EncodeError:
        return EncodeError(message, path=self._path)

    def _read_value(self, keyword: str, value: object, parts: Parts) -> None:
        if is_array(value):
            self._left_values -= len(value)
            if self._left_values < 0:
                raise self._error(f"more than {_MAX_VALUES} values, expected at most that")
        known = VALUES[keyword](value)
        if known is None:
            self._lose(keyword, "dropped")
            return
        if keyword == "const":
            self._lose("const", "written as enum")
            keyword = "enum"
        elif keyword == "type" and is_array(value) and len(value) == 1:
            self._lose("type", "written as text")
        merge(parts, {keyword: known}, self._lose)

    def read_properties(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        if not is_object(named := schema["properties"]):
            self._lose("properties", "dropped")
            return True
        properties: dict[str, Any] = {}
        for name, each in named.items():
            simple = self._simplify(each, scope.below(2))
            if simple is None:
                self._lose("false", "property dropped")
            else:
                properties[name] = simple
        parts["properties"] = properties
        return True

    def read_items(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        """Read the schema of all items of an array, or of the array's first items and the rest."""
        items = schema.get("items")
        first, rest = schema.get("prefixItems"), items
        if is_array(items):  # before draft 2020-12 `items` could be an array
            first, rest = items, schema.get("additionalItems")
        if first is not None:
            self._lose("prefixItems", "merged")
        elif "additionalItems" in schema:
            self._lose("additionalItems", "dropped")
        if not is_array(first):
            first = []
            if items is None:
                return True
        branches = [self._simplify(each, scope.below(3)) for each in first]
        others: dict[str, Any] | None = {}
        if rest is not None:
            others = self._simplify(rest, scope.below(3 if first else 1))
        if others is None:
            self._lose("items", "written as maxItems")
            merge(parts, {"maxItems": len(first)}, self._lose)
        known = [each for each in (*branches, others) if each is not None]
        if first:
            parts["items"] = write_schema({"anyOf": union(known, self._lose)}, self._lose)
        elif known:
            parts["items"] = known[0]
        return True

    def read_first_items(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        return "items" in schema or self.read_items(schema, parts, scope)

    def read_any_of(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        return self._read_branches("anyOf", schema, parts, scope)

    def read_one_of(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        self._lose("oneOf", "written as anyOf")
        return self._read_branches("oneOf", schema, parts, scope)

    def _read_branches(
        self, keyword: str, schema: dict[str, Any], parts: Parts, scope: _Scope
    ) -> bool:
        if not is_array(given := schema[keyword]) or not given:
            self._lose(keyword, "dropped")
            return True
        found = [self._simplify(each, scope.below(2)) for each in given]
        branches = [each for each in found if each is not None]
        if len(branches) < len(found):
            self._lose("false", "branch dropped")
        if known := union(branches, self._lose):
            merge(parts, {"anyOf": known}, self._lose)
        return bool(branches)

    def read_all_of(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        if not is_array(given := schema["allOf"]):
            self._lose("allOf", "dropped")
            return True
        self._lose("allOf", "merged")
        for each in given:
            other = self._read_parts(each, scope.below(1))
            if other is None:
                return False
            merge(parts, other, self._lose)
        return True

    def read_reference(self, schema: dict[str, Any], parts: Parts, scope: _Scope) -> bool:
        if self._references is None:
            self._references = References(self._schema, self._path)
        target, resolver = self._references.resolve(schema["$ref"], scope.resolver)
        if id(target) in scope.targets:
            self._lose("$ref", "recursion cut")
            known = {name: target[name] for name in _OUTLINE if name in target}
            other = self._read_parts(known, scope.below(1))
        else:
            self._lose("$ref", "inlined")
            inner = _Scope(scope.depth + 1, scope.targets | {id(target)}, resolver)
            other = self._read_parts(target, inner)
        if other is None:
            return False
        merge(parts, other, self._lose)
        return True


_Read = Callable[[_Simplifier, dict[str, Any], Parts, _Scope], bool]

# Read in this order: keywords beside a reference win over the keywords of its target.
_SUBSCHEMAS: dict[str, _Read] = {
    "properties": _Simplifier.read_properties,
    "items": _Simplifier.read_items,
    "prefixItems": _Simplifier.read_first_items,
    "anyOf": _Simplifier.read_any_of,
    "oneOf": _Simplifier.read_one_of,
    "allOf": _Simplifier.read_all_of,
    "$ref": _Simplifier.read_reference,
}
"""Methods that read the keywords with subschemas; False if no value is valid."""


def object_root(
    schema: dict[str, Any], refused: frozenset[str], lose: Lose, path: str
) -> dict[str, Any]:
    """Return a schema of type `object` without refused keywords at its root.

    The same object if nothing changes.

    Args:
        schema: The schema, which is not changed.
        refused: Keywords that are refused at the root; unions among them are merged.
        lose: Function that counts the loss of a keyword.
        path: Path of the schema, for errors.

    Raises:
        EncodeError: The branches exceed a bound.
        LossyEncoding: Something is lost, and the losses are strict.
    """
    found = [keyword for keyword in schema if keyword in refused or keyword == "$ref"]
    if not found:
        return _set_object_type(schema, lose)
    inner = tuple(f"#/{keyword}/" for keyword in found)
    if any(str(node.get("$ref")).startswith(inner) for node in subschemas(schema)):
        schema = define_targets(schema, path, beside=None) or schema
    for keyword in found:
        if keyword in _UNIONS:
            lose(keyword, "merged")
        elif keyword not in _JOINED:
            lose(keyword, "dropped")
    join = _Joiner(schema, lose, path).join(schema)
    kept = {
        name: value
        for name, value in schema.items()
        if name not in found and name not in join and name not in _MERGED
    }
    return _set_object_type(kept | join, lose)


def _set_object_type(schema: dict[str, Any], lose: Lose) -> dict[str, Any]:
    """Return a schema with the type `object`, the type of all tool arguments."""
    kind = schema.get("type")
    if kind == "object":
        return schema
    if kind is not None:
        lose("type", "written as object")
    others = {name: value for name, value in schema.items() if name != "type"}
    return {"type": "object", **others}


class _Joiner:
    """Joins the objects in a schema's branches into one object.

    Args:
        root: The schema, in which references are resolved.
        lose: Function that counts the loss of a keyword.
        path: Path of the schema, for errors.
    """

    def __init__(self, root: dict[str, Any], lose: Lose, path: str) -> None:
        self._root = root
        self._lose = lose
        self._path = path
        self._left = _MAX_BRANCHES

    def join(self, schema: dict[str, Any], depth: int = 0) -> dict[str, Any]:
        """Return the properties, title and description of an object and of all its branches."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_UNION_DEPTH:
            raise EncodeError(
                f"a schema of more than {_MAX_BRANCHES} branches, expected at most that",
                path=self._path,
            )
        if depth:
            for keyword in schema:
                if keyword not in _KEPT:
                    self._lose(keyword, "dropped")
        parts = [_read_own(schema)]
        if isinstance(schema.get("$ref"), str):
            target = resolve_pointer(self._root, schema["$ref"])
            if target is not schema and is_object(target):
                parts.append(self.join(target, depth + 1))
        parts += [self.join(branch, depth + 1) for branch in _branches(schema, "allOf")]
        for keyword in _UNIONS:
            objects = [
                self.join(branch, depth + 1)
                for branch in _branches(schema, keyword)
                if _may_be_object(branch)
            ]
            if objects:
                parts.append(_unite(objects))
        return _intersect(parts)


def _branches(schema: dict[str, Any], keyword: str) -> list[dict[str, Any]]:
    value = schema.get(keyword)
    return [branch for branch in value if is_object(branch)] if is_array(value) else []


def _may_be_object(schema: dict[str, Any]) -> bool:
    return "type" not in schema or "object" in types_of(schema)


def _notes(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in _NOTES if name in schema}


def _read_own(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema's own keywords about properties, and the title and description."""
    found = _notes(schema)
    if is_object(properties := schema.get("properties")):
        found["properties"] = properties
    if is_array(required := schema.get("required")):
        found["required"] = [name for name in required if isinstance(name, str)]
    if "additionalProperties" in schema:
        found["additionalProperties"] = schema["additionalProperties"]
    return found


def _intersect(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join objects that a value must all satisfy (`allOf`)."""
    join = _join_properties(parts, "allOf")
    required = dict.fromkeys(name for part in parts for name in part.get("required", ()))
    if required:
        join["required"] = [*required]
    # A closed part names only its own properties, but its author means the others', too.
    others = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
    if others and all(other == others[0] for other in others):
        join["additionalProperties"] = others[0]
    for part in parts:
        for name, note in _notes(part).items():
            join.setdefault(name, note)
    return join


def _unite(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join objects of which a value must satisfy one (`anyOf`, `oneOf`)."""
    join = _join_properties(parts, "anyOf")
    first, *rest = (part.get("required", ()) for part in parts)
    required = [name for name in first if all(name in names for names in rest)]
    if required:
        join["required"] = required
    if all(part.get("additionalProperties") is False for part in parts):
        join["additionalProperties"] = False
    return join


def _join_properties(parts: Iterable[dict[str, Any]], keyword: str) -> dict[str, Any]:
    """Merge the properties of object schemas; list a property's differing schemas in `keyword`."""
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


def resolve_pointer(root: dict[str, Any], pointer: str) -> Any:
    """Return the subschema at a JSON pointer, or `MISSING`."""
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
    """Return the JSON pointer to a definition."""
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
        """Return a reference's target, and the resolver for references in the target.

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
    """Return a schema whose references all point to its `$defs`.

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
