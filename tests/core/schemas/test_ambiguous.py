"""Schemas that say in two ways of which type their values are, or in none."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm._core.schemas import is_ambiguous

OBJECT: dict[str, Any] = {"type": "object"}


def with_property(schema: object) -> dict[str, Any]:
    return {**OBJECT, "properties": {"a": schema}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object", "null"]},
        with_property({"type": "string", "anyOf": [{"enum": ["a"]}]}),
        with_property({"type": "array", "items": [{"type": "string"}]}),
        with_property({"type": "array", "items": False}),
        with_property({"$ref": "#/definitions/A"}),
        with_property({"$ref": "#/$defs/A", "type": "object"}),
        with_property({"anyOf": [{"type": "string", "anyOf": []}]}),
    ],
    ids=str,
)
def test_schema_is_ambiguous(schema: dict[str, Any]) -> None:
    assert is_ambiguous(schema)


@pytest.mark.parametrize(
    "schema",
    [
        OBJECT,
        with_property({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        with_property({"type": "array", "items": {"type": "string"}, "minItems": 1}),
        with_property({"$ref": "#/$defs/A"}),
        {**OBJECT, "properties": {"items": {"type": "array"}}, "additionalProperties": False},
    ],
    ids=str,
)
def test_schema_is_plain(schema: dict[str, Any]) -> None:
    assert not is_ambiguous(schema)
