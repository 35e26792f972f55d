"""Arguments are checked against the schema of their tool."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from streamnorm._core.schemas.strict import ArgumentsChecker

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "array", "items": {"$ref": "#/$defs/Day"}},
    },
    "required": ["city"],
    "$defs": {"Day": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}


def test_valid_arguments_have_no_problem() -> None:
    checker = ArgumentsChecker(SCHEMA)
    assert checker.problem({"city": "Oslo", "days": [{"n": 3}]}) is None
    assert checker.problem({"city": "Rome"}) is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "$: 'city' is a required property"),
        ({"city": 3}, "$.city: 3 is not of type 'string'"),
        ({"city": "Oslo", "days": [{}, {"n": "x"}]}, "$.days[1].n: 'x' is not of type 'integer'"),
    ],
)
def test_a_problem_names_the_path(arguments: dict[str, object], problem: str) -> None:
    assert ArgumentsChecker(SCHEMA).problem(arguments) == problem


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (99, "$: 'city' is a required property"),
        (100, "$.days[99].n: 'x' is not of type 'integer'"),
    ],
)
def test_the_first_hundred_problems_are_compared(wrong: int, problem: str) -> None:
    assert ArgumentsChecker(SCHEMA).problem({"days": [{"n": "x"}] * wrong}) == problem


def test_the_draft_is_the_one_that_the_schema_names() -> None:
    """In draft 4 `exclusiveMinimum` is a boolean."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"minimum": 0, "exclusiveMinimum": True}},
    }
    assert ArgumentsChecker(schema).problem({"n": 0}) is not None
    assert ArgumentsChecker(schema).problem({"n": 1}) is None


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself jsonschema opens the URL."""
    opened: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", opened.append)
    checker = ArgumentsChecker({"$ref": "http://127.0.0.1:9/schema"})
    with pytest.raises(Exception, match="Unresolvable"):
        checker.problem({})
    assert opened == []


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(
        ImportError, match=r"expected the extra `schemas`: pip install '\.\[schemas\]' in a clone"
    ):
        ArgumentsChecker(SCHEMA)
