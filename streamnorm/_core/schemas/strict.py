"""Schemas adapted to what a server accepts and enforces, and validation of arguments.

`fit_needs` edits a schema so that the server accepts it, `fit_enforced` so that the server can
enforce it (`strict`).  The result depends on the schema alone, so that the encoding of a tool
never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from streamnorm._core.json import is_array, is_object
from streamnorm._core.losses import Losses
from streamnorm._core.schemas import Edit, children, rewrite_schema, subschemas, types_of
from streamnorm._core.schemas.simplify import (
    define_targets,
    object_root,
    pointer_to,
    simplify_schema,
)

_NOTES = frozenset({"$defs", "default", "description"})

SchemaNeed: TypeAlias = Literal[
    "branch_types",
    "definitions",
    "draft_2020",
    "item_schemas",
    "items",
    "object",
    "ordered_properties",
    "properties",
    "property_maps",
]
"""A demand of a server on schemas.

    branch_types        types in the branches of `anyOf`, not beside it
    definitions         references that lead to `$defs`, with only notes beside them
    draft_2020          tuples and exclusive bounds as draft 2020-12 spells them, or none
    item_schemas        `items` that are an object
    items               `items` of every array
    object              an object at the root, without the keywords that are refused there
    ordered_properties  properties in the order of `propertyOrdering`
    properties          `properties` of the root
    property_maps       `properties` that are an object
"""

_TYPED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "type"})
_SCALARS: dict[type, str] = {
    bool: "boolean",
    float: "number",
    int: "integer",
    str: "string",
    type(None): "null",
}
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")
_DEFINITIONS = frozenset({"$defs", "definitions"})

# Booleans before draft 6, beside the bound that they exclude.
_EXCLUSIVE = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))

_MAX_ERRORS = 100


def fit_needs(
    schema: dict[str, Any],
    needs: frozenset[SchemaNeed],
    refused: frozenset[str],
    losses: Losses,
    *,
    where: str,
    path: str,
) -> dict[str, Any]:
    """Return a schema that meets a server's demands; the same object if nothing changes.

    Args:
        schema: The schema, which is not changed.
        needs: Demands of the server.
        refused: Keywords that the server refuses at the root.
        losses: Counter of what is lost, as `schema.` and the keyword.
        where: Field of the request with the schema, for losses.
        path: Path of the schema, for errors.

    Raises:
        EncodeError: A reference leads nowhere, or the schema exceeds a bound.
        LossyEncoding: Something is lost, and the losses are strict.
    """

    def lose(keyword: str, detail: str) -> None:
        losses.add(f"schema.{keyword}", where, detail)

    if "object" in needs and not _has_object_root(schema, refused):
        schema = object_root(schema, refused, lose, path)
    if "definitions" in needs:
        defined = define_targets(schema, path, beside=_NOTES)
        # A reference to an anchor, for example, is inlined.
        schema = simplify_schema(schema, losses, path=path) if defined is None else defined
    nodes: list[dict[str, Any]] = []
    for need, is_unmet, edit, lost in _EDITS:
        if need in needs:
            nodes = nodes or subschemas(schema)
            if any(map(is_unmet, nodes)):
                if lost is not None:
                    lose(*lost)
                schema, nodes = rewrite_schema(schema, edit, path), []
    if "properties" in needs and "properties" not in schema:
        schema = {**schema, "properties": {}}
    return schema


def _has_object_root(schema: dict[str, Any], refused: frozenset[str]) -> bool:
    return schema.get("type") == "object" and refused.isdisjoint(schema) and "$ref" not in schema


def _has_odd_items(schema: dict[str, Any]) -> bool:
    return "items" in schema and not is_object(schema["items"])


def _fix_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema whose `items` is an object, not an array or boolean."""
    if not _has_odd_items(schema):
        return schema
    known = schema["items"]
    branches = [each for each in known if is_object(each)] if is_array(known) else []
    return {**schema, "items": {"anyOf": branches} if branches else {}}


def _has_outer_type(schema: dict[str, Any]) -> bool:
    return "anyOf" in schema and "type" in schema


def _move_type_into_branches(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema with its type moved into the untyped branches of its union."""
    if not _has_outer_type(schema):
        return schema
    branches = schema["anyOf"] if is_array(schema["anyOf"]) else []
    others = {keyword: value for keyword, value in schema.items() if keyword != "type"}
    return {**others, "anyOf": [_add_type(branch, schema["type"]) for branch in branches]}


def _add_type(branch: object, kind: object) -> object:
    is_untyped = is_object(branch) and branch.keys().isdisjoint(("$ref", "anyOf", "type"))
    return {"type": kind, **branch} if is_object(branch) and is_untyped else branch


def _lacks_items(schema: dict[str, Any]) -> bool:
    # OpenAI ignores `prefixItems`: "array schema missing items" (AnswerDotAI/fastcore#798).
    return "items" not in schema and "array" in types_of(schema)


def _add_items(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "items": {}} if _lacks_items(schema) else schema


def _has_odd_properties(schema: dict[str, Any]) -> bool:
    return "properties" in schema and not is_object(schema["properties"])


def _fix_properties(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {}} if _has_odd_properties(schema) else schema


def _has_ordering(schema: dict[str, Any]) -> bool:
    return "propertyOrdering" in schema


def _order_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema whose properties have the order of `propertyOrdering`."""
    if not _has_ordering(schema):
        return schema
    schema = dict(schema)
    order, known = schema.pop("propertyOrdering"), schema.get("properties")
    if is_array(order) and is_object(known):
        first = [name for name in order if isinstance(name, str) and name in known]
        schema["properties"] = {name: known[name] for name in dict.fromkeys([*first, *known])}
    return schema


def _is_of_earlier_draft(schema: dict[str, Any]) -> bool:
    return is_array(schema.get("items")) or any(
        isinstance(schema.get(exclusive), bool) for exclusive, _ in _EXCLUSIVE
    )


def _update_draft(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a subschema as draft 2020-12 spells it.

    https://json-schema.org/draft/2020-12/release-notes
    """
    if not _is_of_earlier_draft(schema):
        return schema
    schema = dict(schema)
    if is_array(schema.get("items")):
        first, rest = schema.pop("items"), schema.pop("additionalItems", None)
        if first:
            schema.setdefault("prefixItems", first)
        if is_object(rest) or isinstance(rest, bool):
            schema["items"] = rest
    for exclusive, bound in _EXCLUSIVE:
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and bound in schema:
            schema[exclusive] = schema.pop(bound)
    return schema


def _invalid_keywords(schema: dict[str, Any]) -> list[str]:
    items = schema.get("items", True)
    invalid = [] if is_object(items) or isinstance(items, bool) else ["items"]
    bounds = {name: schema[name] for name, _ in _EXCLUSIVE if name in schema}
    return invalid + [
        name
        for name, bound in bounds.items()
        if isinstance(bound, bool) or not isinstance(bound, int | float)
    ]


def _drop_invalid_keywords(schema: dict[str, Any]) -> dict[str, Any]:
    invalid = _invalid_keywords(schema)
    if not invalid:
        return schema
    return {name: value for name, value in schema.items() if name not in invalid}


_EDITS: tuple[
    tuple[SchemaNeed, Callable[[dict[str, Any]], bool], Edit, tuple[str, str] | None], ...
] = (
    ("draft_2020", _is_of_earlier_draft, _update_draft, None),
    (
        "draft_2020",
        lambda schema: bool(_invalid_keywords(schema)),
        _drop_invalid_keywords,
        ("keyword", "dropped"),
    ),
    ("item_schemas", _has_odd_items, _fix_items, ("items", "merged")),
    (
        "branch_types",
        _has_outer_type,
        _move_type_into_branches,
        ("type", "written in the branches"),
    ),
    ("items", _lacks_items, _add_items, None),
    (
        "ordered_properties",
        _has_ordering,
        _order_properties,
        ("propertyOrdering", "written as the order of the properties"),
    ),
    ("property_maps", _has_odd_properties, _fix_properties, ("properties", "dropped")),
)
"""Edits of subschemas: the demand, a test for subschemas that violate it, the edit, the loss."""


class EnforcedSchemas(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider's rules for schemas that it enforces.

    Attributes:
        refused: Keywords that the provider refuses.
        removed: Refused keywords that are removed; a schema with any other is not enforced.
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
    """A provider cannot enforce a schema; the text names the unsupported part."""


class EnforcedSchema(NamedTuple):
    """A schema that a provider's strict mode can enforce, and the keywords that were changed.

    Attributes:
        schema: The schema.
        lost: Changed keywords, each with the result of the change.
    """

    schema: dict[str, Any]
    lost: list[tuple[str, str]]


def fit_enforced(schema: dict[str, Any], form: EnforcedSchemas, path: str) -> EnforcedSchema:
    """Return a schema that a provider can enforce; the same object if nothing changes.

    Args:
        schema: The schema, which is not changed.
        form: Rules of the provider.
        path: Path of the schema, for errors.

    Raises:
        NotEnforced: No equivalent schema can be enforced.
        EncodeError: The schema exceeds a bound.
    """
    lost: list[tuple[str, str]] = []
    beside = frozenset[str]() if form.bare_references else None
    defined = define_targets(schema, path, beside=beside)
    if defined is None:
        raise NotEnforced("a reference out of the schema")
    if form.closed and any(map(is_split, subschemas(defined))):
        raise NotEnforced("an object of several parts")
    fitted = rewrite_schema(defined, lambda node: _fit_node(node, form, lost), path)
    _check(fitted, form)
    return EnforcedSchema(fitted, lost)


def is_split(node: dict[str, Any]) -> bool:
    """Return whether an object's subschemas, if closed, would reject each other's properties.

    `additionalProperties` considers only the properties beside it.
    """
    parts = list(_parts(node))
    is_closed = all(part.get("additionalProperties") is False for part in parts)
    return len(parts) > 1 and not is_closed


def _parts(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the subschemas that list properties of one object; of a union, only the first."""
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


def _fit_node(
    node: dict[str, Any], form: EnforcedSchemas, lost: list[tuple[str, str]]
) -> dict[str, Any]:
    """Return a subschema without removed keywords; close its object if required."""
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
    if form.typed and node.keys().isdisjoint(_TYPED) and (kind := _type_of_values(node)):
        changes["type"] = kind
    if not (gone or changes):
        return node
    return {name: value for name, value in node.items() if name not in gone} | changes


def _type_of_values(node: dict[str, Any]) -> str | list[str] | None:
    """Return the type of a subschema's enumerated scalars; None if it lists other values or none.

    OpenAI demands a type beside `enum`, too (openclaw/clawpatch#60).
    """
    enum = [node["const"]] if "const" in node else node.get("enum")
    values: list[object] = enum if is_array(enum) else []
    kinds = dict.fromkeys(_SCALARS.get(type(value)) for value in values)
    if "number" in kinds:  # which integers are as well
        kinds.pop("integer", None)
    names = [kind for kind in kinds if kind is not None]
    if len(names) < len(kinds):
        return None
    return names[0] if len(names) == 1 else names or None


def _is_refused_value(keyword: str, value: object, form: EnforcedSchemas) -> bool:
    if keyword == "format":
        return form.formats is not None and not (isinstance(value, str) and value in form.formats)
    if keyword != "minItems" or form.most_min_items is None:
        return False
    return isinstance(value, bool) or value not in range(form.most_min_items + 1)


def _check(schema: dict[str, Any], form: EnforcedSchemas) -> None:
    """Raise `NotEnforced` if a schema violates a rule of the provider."""
    for node in subschemas(schema):
        for keyword in node:
            if keyword in form.refused:
                raise NotEnforced(f"`{keyword}`")
        if form.all_required and any(True for _ in _free(node)):
            raise NotEnforced("a property that is not required")
        if form.typed and (node.keys().isdisjoint(_TYPED) or _has_boolean(node)):
            raise NotEnforced("a part without a type")
        pattern = str(node.get("pattern"))
        if not form.lookaround and any(text in pattern for text in _LOOKAROUND):
            raise NotEnforced("a pattern that looks around")
    if not form.recursive and _is_recursive(schema):
        raise NotEnforced("a recursive reference")
    _check_size(schema, form)


def _has_boolean(node: dict[str, Any]) -> bool:
    """Return whether a part is `true` or `false`, as schemars writes a value of any type."""
    parts: list[object] = [node.get("items")]
    for keyword in ("$defs", "definitions", "properties"):
        named = node.get(keyword)
        parts += named.values() if is_object(named) else ()
    branches = node.get("anyOf")
    parts += branches if is_array(branches) else ()
    return any(isinstance(part, bool) for part in parts)


def _check_size(schema: dict[str, Any], form: EnforcedSchemas) -> None:
    """Raise `NotEnforced` if a schema exceeds a bound of the provider."""
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
        # A definition counts as a schema of its own, whose levels start at zero.
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
    """Return the number of optional properties, and of properties that are unions.

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
    """Yield the names of optional properties."""
    required = schema.get("required")
    named = required if is_array(required) else []
    names = {name for name in named if isinstance(name, str)}
    for name in _properties(schema):
        if name not in names:
            yield name


def _is_union(schema: object) -> bool:
    return is_object(schema) and ("anyOf" in schema or is_array(schema.get("type")))


def _is_recursive(schema: dict[str, Any]) -> bool:
    """Return whether a schema is recursive; its references lead to `$defs` or the root."""
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


class ArgumentsChecker:
    """Validate arguments with jsonschema (extra `schemas`).

    References within the schema are resolved; nothing is fetched.  A malicious schema can make
    validation take forever, for example with a regular expression: use only schemas of authors
    whose code you would run.

    Args:
        schema: JSON Schema of the arguments.

    Raises:
        ImportError: jsonschema is missing.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        try:
            jsonschema: Any = import_module("jsonschema")
            referencing: Any = import_module("referencing")
        except ImportError as exc:
            raise ImportError(
                "no jsonschema, expected the extra `schemas`: pip install '.[schemas]' in a clone"
            ) from exc
        self._schema = schema
        self._jsonschema = jsonschema
        # Without a registry jsonschema fetches the URLs in a schema.
        self._registry = referencing.Registry()
        self._validator: Any = None

    def problem(self, arguments: dict[str, object]) -> str | None:
        """Return the path and text of the most relevant problem, or None.

        Raises:
            Exception: The schema is invalid; jsonschema raises exceptions of several types.
        """
        if self._validator is None:
            default = self._jsonschema.Draft202012Validator
            kind = self._jsonschema.validators.validator_for(self._schema, default=default)
            self._validator = kind(self._schema, registry=self._registry)
        errors = self._validator.iter_errors(arguments)
        error = self._jsonschema.exceptions.best_match(islice(errors, _MAX_ERRORS))
        return None if error is None else f"{error.json_path}: {error.message}"
