"""Simplification of a tool's JSON Schema to the keywords that all servers accept.

What Anthropic's and OpenAI's strict modes, Gemini's function declarations and the grammars of
local servers all accept is kept: one `type`, `enum`, `properties`, `required`, `items`,
`minItems`, `maxItems`, `minimum`, `maximum`, some formats, `anyOf`, `title`, `description`.
The rest is written with these keywords where they can say it, else dropped, so that a value
that was valid stays valid, with two exceptions: a schema with `properties`, `items` and the
like but without `type` becomes one of objects or arrays, which is what its author means, and
the union of several objects becomes one object at the root, where no union is accepted.

A nullable type becomes `anyOf` with `{"type": "null"}`, and is not made plainly that type:
where every property is required, as OpenAI's strict mode demands, the model could no longer
leave one out.  A recursive `$ref` is cut where it begins again, and is no error: the model
sees one level of such a type, while an error would make the whole conversation impossible.

The result depends on the schema alone, so that the encoding of a tool never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil, floor, isfinite
from typing import Any, TypeAlias

from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_object

_TOO_MANY = 2**63  # JSON encoders accept integers below

NOTES = ("title", "description")

TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")

# Formats that both strict modes accept; Anthropic's alone accepts `uri`.
_FORMATS = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)

TYPE_OF = {
    "properties": "object",
    "required": "object",
    "items": "array",
    "minItems": "array",
    "maxItems": "array",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "format": "string",
}
"""The type of the values that a constraint applies to."""

DROPPED = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveRef"),
        *("$schema", "$vocabulary", "additionalProperties", "contains", "contentEncoding"),
        *("contentMediaType", "contentSchema", "default", "definitions", "dependencies"),
        *("dependentRequired", "dependentSchemas", "deprecated", "else", "example", "examples"),
        *("if", "maxContains", "maxLength", "maxProperties", "minContains", "minLength"),
        *("minProperties", "multipleOf", "not", "pattern", "patternProperties", "propertyNames"),
        *("propertyOrdering", "readOnly", "then", "unevaluatedItems", "unevaluatedProperties"),
        *("uniqueItems", "writeOnly"),
    }
)
"""Known keywords that simplification drops."""

_MAX_DEPTH = 100
_MAPS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})

_SINGLE = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items"}
    | {"not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
_HOLDERS = _MAPS | _LISTS | _SINGLE

Edit = Callable[[dict[str, Any]], dict[str, Any]]
"""Function that returns an edited subschema; the same object if nothing changes."""

Parts: TypeAlias = dict[str, Any]
"""The constraints and notes of a schema by keyword.  `type` is an array; `properties`, `items`
and `anyOf` have simplified schemas."""

Lose: TypeAlias = Callable[[str, str], None]
"""Function that counts the loss of a keyword, with the result of the loss."""

_LARGEST = frozenset({"minItems", "minimum", "exclusiveMinimum"})
_SMALLEST = frozenset({"maxItems", "maximum", "exclusiveMaximum"})

_LARGE = 2**53


def json_type(value: object) -> str | None:
    """Return the type of a scalar JSON value; None for an array, an object or a large integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case int():
            return "integer" if abs(value) < _TOO_MANY else None
        case float() if isfinite(value):
            return "integer" if value.is_integer() else "number"
        case _:
            return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _format(value: object) -> str | None:
    return value if isinstance(value, str) and value in _FORMATS else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: object) -> float | None:
    is_number = json_type(value) in ("integer", "number")
    return value if is_number and isinstance(value, int | float) else None


def _types(value: object) -> list[str] | None:
    """Return the value of `type` as an array; None if it is invalid."""
    if isinstance(value, str):
        return [value] if value in TYPES else None
    if not is_array(value) or not value or not all(isinstance(each, str) for each in value):
        return None
    named = [each for each in TYPES if each in value]
    return named if len(named) == len({*value}) else None


def _enum(value: object) -> list[Any] | None:
    """Return the values of an enumeration of scalars; None if it is invalid."""
    if not is_array(value) or not value or None in map(json_type, value):
        return None
    return value


def _names(value: object) -> list[str] | None:
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        return None
    return value


VALUES: dict[str, Callable[[object], Any]] = {
    "title": _text,
    "description": _text,
    "type": _types,
    "nullable": lambda value: value is True or None,
    "enum": _enum,
    "const": lambda value: _enum([value]),
    "format": _format,
    "required": _names,
    "minItems": _count,
    "maxItems": _count,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
}
"""Keywords without subschemas, with functions that return their value; None if it is invalid."""


def rewrite_schema(schema: dict[str, Any], edit: Edit, path: str, depth: int = 0) -> dict[str, Any]:
    """Return a schema with an edit applied to each subschema, innermost first.

    Args:
        schema: The schema, which is not changed; returned itself if no edit changes anything.
        edit: The edit.
        path: Path of the schema, for errors.
        depth: Nesting of the schema.

    Raises:
        EncodeError: The schema nests too deep.
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
                name: rewrite_schema(item, edit, path, depth + 1) if is_object(item) else item
                for name, item in value.items()
            }
            if all(changed[name] is item for name, item in value.items()):
                continue
        elif is_object(value):
            changed = rewrite_schema(value, edit, path, depth + 1)
        elif keyword in _LISTS and is_array(value):
            changed = [
                rewrite_schema(item, edit, path, depth + 1) if is_object(item) else item
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


def subschemas(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and all its subschemas, in no particular order."""
    found = [schema]
    for node in found:
        found += [child for _, child in children(node)]
    return found


def types_of(schema: dict[str, Any]) -> list[Any]:
    """Return the types that a schema names."""
    named = schema.get("type")
    return named if is_array(named) else [named]


def merge(parts: Parts, other: Parts, lose: Lose) -> None:
    """Add the constraints in `other` to `parts`."""
    for keyword, value in other.items():
        if keyword not in parts:
            parts[keyword] = value
        elif keyword in _LARGEST:
            parts[keyword] = max(parts[keyword], value)
        elif keyword in _SMALLEST:
            parts[keyword] = min(parts[keyword], value)
        elif keyword == "properties":
            parts[keyword] = {**parts[keyword], **value, **parts[keyword]}
            if any(parts[keyword][name] != each for name, each in value.items()):
                lose(keyword, "dropped")
        elif keyword == "required":
            parts[keyword] = [*dict.fromkeys((*parts[keyword], *value))]
        elif keyword in _COMMON and (both := _COMMON[keyword](parts[keyword], value)):
            parts[keyword] = both
        elif parts[keyword] != value:
            lose(keyword, "dropped")


def _common_types(types: list[str], others: list[str]) -> list[str]:
    found = [each for each in types if each in others]
    if "integer" not in found and {"integer", "number"} <= {*types, *others}:
        found = [each for each in found if each != "number"]
        found.append("integer")
    return found


def _common_values(values: list[Any], others: list[Any]) -> list[Any]:
    known = {(json_type(each), each) for each in others}
    return [each for each in values if (json_type(each), each) in known]


_COMMON: dict[str, Callable[[Any, Any], list[Any]]] = {
    "type": _common_types,
    "enum": _common_values,
}
"""Functions that return what both values of a keyword allow; [] if they exclude each other."""


def union(branches: Iterable[dict[str, Any]], lose: Lose) -> list[dict[str, Any]]:
    """Return the distinct branches of a union, with nested unions flattened.

    Enumerations of one type are joined.  [] if any value is valid.
    """
    found: dict[str, dict[str, Any]] = {}
    enums: dict[str, dict[str, Any]] = {}
    values: dict[str, _Values] = {}
    for branch in branches:
        if [*branch] == ["anyOf"]:
            lose("anyOf", "merged")
        for each in branch["anyOf"] if [*branch] == ["anyOf"] else [branch]:
            key = compact(each)
            if "type" not in each and "anyOf" not in each:
                lose("anyOf", "dropped")
                return []
            kind = each["type"] if each.keys() == {"type", "enum"} else ""
            if kind in enums:
                values[kind].update(_by_type(each["enum"]))
                lose("anyOf", "merged")
            elif key in found:
                lose("anyOf", "merged")
            else:
                found[key] = {**each}
                if kind:
                    enums[kind], values[kind] = found[key], _by_type(each["enum"])
    for kind, enum in enums.items():
        enum["enum"] = [value for _, value in values[kind]]
    return [*found.values()]


_Values: TypeAlias = dict[tuple[str | None, Any], None]
"""Distinct values in order, with their JSON types: in Python 1 equals True."""


def _by_type(values: list[Any]) -> _Values:
    return dict.fromkeys((json_type(each), each) for each in values)


def write_schema(parts: Parts, lose: Lose) -> dict[str, Any]:
    """Return the constraints in `parts` as a schema with keywords that all servers accept."""
    notes: dict[str, Any] = {name: parts[name] for name in NOTES if name in parts}
    types, branches = _types_and_branches(parts, lose)
    if not branches and types:
        branches = _split_by_type(types, parts, lose)
    if not branches:
        return notes
    if len(branches) == 1:
        return {**branches[0], **notes}
    return {"anyOf": branches, **notes}


def _types_and_branches(parts: Parts, lose: Lose) -> tuple[list[str], list[dict[str, Any]]]:
    """Return a schema's types, or the branches of its union."""
    branches: list[dict[str, Any]] = parts.get("anyOf", [])
    is_constrained = any(keyword in TYPE_OF or keyword == "enum" for keyword in parts)
    if branches and is_constrained:
        lose("anyOf", "dropped")
        branches = []
    types: list[str] = parts.get("type", [])
    if branches and types:
        lose("type", "merged")
        branches = union(_filter_branches(branches, types), lose)
    elif not branches and not types:
        types = _infer_types(parts)
        if types:
            lose("type", "added")
    if "nullable" in parts:
        lose("nullable", "written as anyOf")
        if branches and {"type": "null"} not in branches:
            branches = [*branches, {"type": "null"}]
        elif types and "null" not in types:
            types = [*types, "null"]
    if len(branches) == 1:
        lose("anyOf", "merged")
    return types, branches


def _filter_branches(branches: list[dict[str, Any]], types: list[str]) -> list[dict[str, Any]]:
    """Return the branches of a union that allow one of `types`."""
    found: list[dict[str, Any]] = []
    for branch in branches:
        kind = branch.get("type")
        if kind is None or kind in types or (kind == "integer" and "number" in types):
            found.append(branch)
        elif kind == "number" and "integer" in types:
            # An enumeration stays: without its decimals no value might be left.
            found.append(branch if "enum" in branch else {**branch, "type": "integer"})
    return found


def _infer_types(parts: Parts) -> list[str]:
    """Return the types that an untyped schema's constraints imply."""
    if "enum" in parts:
        return [*dict.fromkeys(json_type(each) or "" for each in parts["enum"])]
    return [*dict.fromkeys(TYPE_OF[keyword] for keyword in parts if keyword in TYPE_OF)]


def _split_by_type(types: list[str], parts: Parts, lose: Lose) -> list[dict[str, Any]]:
    """Return a schema for each of `types` that the constraints in `parts` allow."""
    if "integer" in types and "number" in types:
        lose("type", "merged")
        types = [kind for kind in types if kind != "integer"]
    values: dict[str, list[Any]] = {}
    for each in parts.get("enum", ()):
        kind = json_type(each) or ""
        values.setdefault("number" if kind == "integer" and kind not in types else kind, []).append(
            each
        )
    if "nullable" in parts:
        values.setdefault("null", [None])
    allowed = [kind for kind in types if kind in values] if "enum" in parts else types
    if not allowed:
        lose("enum", "dropped")
        values, allowed = {}, types
    elif "enum" in parts and (values.keys() - {*allowed} or allowed in (["boolean"], ["null"])):
        lose("enum", "dropped")
    if len(types) > 1:
        lose("type", "written as anyOf")
    known = {*types, "number"} if "integer" in types else {*types}
    for keyword in parts:
        if keyword in TYPE_OF and TYPE_OF[keyword] not in known:
            lose(keyword, "dropped")
    return [_write_type(kind, parts, values.get(kind, []), lose) for kind in allowed]


def _write_type(kind: str, parts: Parts, values: list[Any], lose: Lose) -> dict[str, Any]:
    concerned = "number" if kind == "integer" else kind
    schema: dict[str, Any] = {"type": kind}
    if values and kind not in ("boolean", "null"):
        schema["enum"] = [*dict.fromkeys(values)]
        if len(schema["enum"]) < len(values):
            lose("enum", "merged")
    schema |= {name: value for name, value in parts.items() if TYPE_OF.get(name) == concerned}
    if kind in ("integer", "number"):
        _include_bounds(schema, lose)
    elif kind == "array" and "items" not in schema:
        lose("items", "added")
        schema["items"] = {}
    elif "required" in schema:
        names = [name for name in schema["required"] if name in schema.get("properties", ())]
        if len(names) < len(schema.pop("required")):
            lose("required", "dropped")
        if names:
            schema["required"] = names
    return schema


def _include_bounds(schema: dict[str, Any], lose: Lose) -> None:
    """Replace exclusive bounds by inclusive bounds; for integers, by the next integer."""
    is_integer = schema["type"] == "integer"
    if "exclusiveMinimum" in schema:
        lose("exclusiveMinimum", "written as minimum")
        bound = schema.pop("exclusiveMinimum")
        if is_integer and abs(bound) < _LARGE:
            bound = floor(bound) + 1
        schema["minimum"] = max(bound, schema.get("minimum", bound))
    if "exclusiveMaximum" in schema:
        lose("exclusiveMaximum", "written as maximum")
        bound = schema.pop("exclusiveMaximum")
        if is_integer and abs(bound) < _LARGE:
            bound = ceil(bound) - 1
        schema["maximum"] = min(bound, schema.get("maximum", bound))
