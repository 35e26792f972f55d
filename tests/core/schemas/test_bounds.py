"""Bounds of schemas: the last that is accepted, and the first that is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamnorm import EncodeError
from streamnorm._core.losses import Losses
from streamnorm._core.schemas import json_type, rewrite_schema
from streamnorm._core.schemas.simplify import define_targets, object_root, simplify_schema

Schema = dict[str, Any]
TEXT = {"type": "string"}


def of(schema: Any) -> Schema:
    return {"type": "object", "properties": {"p": schema}}


def referring(count: int) -> Schema:
    """Return an object with a property that so many references in a row lead to."""
    inner = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1, count)}
    return {**of({"$ref": "#/$defs/d1"}), "$defs": {**inner, f"d{count}": TEXT}}


def nested(wrap: Callable[[Any], Schema], count: int) -> Any:
    schema: Any = TEXT
    for _ in range(count):
        schema = wrap(schema)
    return schema


# A property stands two levels below its object, what is in an array or a branch that is merged one
# level below it, a branch of a union two; a type with null, and a tuple, are written as a union.
NESTED: list[Any] = [
    pytest.param(lambda n: nested(of, n), 50, id="properties"),
    pytest.param(lambda n: of(nested(lambda s: {"type": "array", "items": s}, n)), 98, id="arrays"),
    pytest.param(
        lambda n: of(nested(lambda s: {"type": ["array", "null"], "items": s}, n)),
        32,
        id="arrays or null",
    ),
    pytest.param(
        lambda n: of(nested(lambda s: {"type": "array", "nullable": True, "items": s}, n)),
        32,
        id="nullable arrays",
    ),
    pytest.param(
        lambda n: of(nested(lambda s: {"type": "array", "prefixItems": [s]}, n)), 32, id="tuples"
    ),
    pytest.param(lambda n: of(nested(lambda s: {"allOf": [s]}, n)), 98, id="allOf"),
    pytest.param(lambda n: of(nested(lambda s: {"anyOf": [s]}, n)), 49, id="anyOf"),
    pytest.param(referring, 98, id="references"),
]


@pytest.mark.parametrize(("schema", "last"), NESTED)
def test_simple_schema_nests_a_hundred_levels(schema: Callable[[int], Schema], last: int) -> None:
    simplify_schema(schema(last), Losses(), path="tools[0]")
    with pytest.raises(EncodeError, match="nested deeper than 100"):
        simplify_schema(schema(last + 1), Losses(), path="tools[0]")


WRAPS: list[Any] = [
    pytest.param(lambda schema: {"properties": {"p": schema}}, id="properties"),
    pytest.param(lambda schema: {"items": schema}, id="items"),
    pytest.param(lambda schema: {"anyOf": [schema]}, id="anyOf"),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_rewritten_schema_nests_a_hundred_levels(wrap: Callable[[Any], Schema]) -> None:
    deep = nested(wrap, 100)
    assert rewrite_schema(deep, lambda schema: schema, "tools[0]") is deep
    with pytest.raises(EncodeError, match="nested deeper than 100"):
        rewrite_schema(wrap(deep), lambda schema: schema, "tools[0]")


def joined(schema: Schema) -> Schema:
    refused = frozenset({"allOf", "anyOf", "$ref"})
    return object_root(schema, refused, lambda keyword, result: None, "tools[0]")


def test_branches_of_a_root_nest_fifty_levels() -> None:
    def all_of(schema: Any) -> Schema:
        return {"allOf": [schema]}

    joined(nested(all_of, 50))
    with pytest.raises(EncodeError, match="more than 1000 branches"):
        joined(nested(all_of, 51))


def test_branches_of_a_union_at_a_root_nest_fifty_levels() -> None:
    def any_of(schema: Any) -> Schema:
        return {"anyOf": [schema]}

    joined(nested(any_of, 51))  # the last is no object, and not read
    with pytest.raises(EncodeError, match="more than 1000 branches"):
        joined(nested(any_of, 52))


def test_references_at_a_root_lead_over_fifty_others() -> None:
    def root(count: int) -> Schema:
        definitions = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1, count)}
        definitions[f"d{count}"] = {"type": "object"}
        return {"$ref": "#/$defs/d1", "$defs": definitions}

    joined(root(50))
    with pytest.raises(EncodeError, match="more than 1000 branches"):
        joined(root(51))


def test_root_has_a_thousand_branches() -> None:
    """Itself is one."""
    joined({"allOf": [TEXT] * 999})
    with pytest.raises(EncodeError, match="more than 1000 branches"):
        joined({"allOf": [TEXT] * 1000})


def test_targets_of_references_have_five_thousand_parts() -> None:
    def schema(count: int) -> Schema:
        target = {"properties": {f"p{n}": {} for n in range(count - 1)}}
        return {"properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": target}}

    assert define_targets(schema(5000), "tools[0]", beside=None) is not None
    with pytest.raises(EncodeError, match="more than 5000 subschemas"):
        define_targets(schema(5001), "tools[0]", beside=None)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *[(None, "null"), (True, "boolean"), ("a", "string"), (1, "integer"), (1.0, "integer")],
        *[(1.5, "number"), (float("inf"), None), ([], None), ({}, None)],
        *[(2**63 - 1, "integer"), (2**63, None), (-(2**63), None)],
    ],
)
def test_type_of_a_scalar(value: object, kind: str | None) -> None:
    assert json_type(value) == kind
