"""The kinds of checks that rules of several dialects share."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm.profiles.rules import read_request_rules

RULE = """
[[rule]]
id = "own.rule"
dialect = "openai_chat"
summary = "a rule"
says = "No."
check = { kind = "%s", %s }
"""


def found(
    kind: str, parameters: str, body: dict[str, Any], *, stream: bool = False
) -> list[Finding]:
    """Return what a check finds in a body."""
    [rule] = read_request_rules(RULE % (kind, parameters), "own.toml")
    return [*rule.check(RequestFacts(body, stream=stream))]


def paths(kind: str, parameters: str, body: dict[str, Any]) -> list[str]:
    """Return where a check finds something in a body."""
    return [finding.path for finding in found(kind, parameters, body)]


# forbidden


def test_forbidden_field_is_found_at_every_place() -> None:
    body = {"tools": [{"strict": True}, {"name": "f"}, {"strict": False}], "strict": True}
    assert found("forbidden", 'at = ["tools.strict"]', body) == [
        Finding("tools[0].strict", True, name="strict"),
        Finding("tools[2].strict", False, name="strict"),
    ]


@pytest.mark.parametrize("body", [{}, {"user": None}, {"user_id": "x"}, {"metadata": {"user": 1}}])
def test_field_that_is_missing_or_null_is_not_forbidden(body: dict[str, Any]) -> None:
    assert found("forbidden", 'at = ["user"]', body) == []


@pytest.mark.parametrize(
    ("value", "count"),
    [("max", 1), ("high", 0), (1, 1), (1.0, 1), (True, 0), (["max"], 0), ({}, 0)],
)
def test_values_are_forbidden(value: object, count: int) -> None:
    assert len(found("forbidden", 'at = ["a"], one_of = ["max", 1]', {"a": value})) == count


@pytest.mark.parametrize(("value", "count"), [("low", 0), ("max", 1), (0, 0), (False, 1), ([], 1)])
def test_all_other_values_are_forbidden(value: object, count: int) -> None:
    assert len(found("forbidden", 'at = ["a"], none_of = ["low", 0]', {"a": value})) == count


# one_of


@pytest.mark.parametrize("value", ["a", 2, 2.0, True, None, [], ["z"], {}, {"z": 1}])
def test_listed_value_or_one_of_another_type_is_accepted(value: object) -> None:
    assert found("one_of", 'at = ["x"], values = ["a", 2, true]', {"x": value}) == []


@pytest.mark.parametrize("value", ["b", "", 1, 1.0, False, 0])
def test_value_that_is_not_listed_is_found(value: object) -> None:
    found_ = found("one_of", 'at = ["x"], values = ["a", 2, true]', {"x": value})
    assert found_ == [Finding("x", value)]


# known_fields


def test_unknown_fields_are_found_in_the_body_objects_and_arrays() -> None:
    body = {"model": "m", "thinking": {}, "tools": [{"name": "f"}, {"nam": 1}, "text", None]}
    assert found("known_fields", 'at = [""], names = ["model", "tools"]', body) == [
        Finding("thinking", name="thinking")
    ]
    assert found("known_fields", 'at = ["tools"], names = ["name"]', body) == [
        Finding("tools[1].nam", name="nam")
    ]
    assert paths("known_fields", 'at = ["thinking"], names = []', {"thinking": {"type": 1}}) == [
        "thinking.type"
    ]


@pytest.mark.parametrize("value", ["text", 1, None, True, [], ["x"], {}])
def test_value_without_fields_has_no_unknown_ones(value: object) -> None:
    assert found("known_fields", 'at = ["a"], names = ["b"]', {"a": value}) == []


# required


def test_missing_fields_are_found_in_the_body_objects_and_arrays() -> None:
    body = {"model": None, "tools": [{"name": "f"}, {"name": None}, "text", {}]}
    assert found("required", 'at = [""], names = ["model", "tools", "n"]', body) == [
        Finding("model", name="model"),
        Finding("n", name="n"),
    ]
    assert found("required", 'at = ["tools"], names = ["name"]', body) == [
        Finding("tools[1].name", name="name"),
        Finding("tools[3].name", name="name"),
    ]


@pytest.mark.parametrize("value", ["text", 1, None, True, [], ["x"]])
def test_nothing_is_required_of_what_is_no_object(value: object) -> None:
    assert found("required", 'at = ["a"], names = ["b"]', {"a": value}) == []


# bounds


@pytest.mark.parametrize(
    ("value", "limit"),
    [(15, 16), (16, None), (20, None), (20.5, 20), (21, 20), (-(10**30), 16), (15.9, 16)],
)
def test_number_beyond_its_bounds_is_found(value: float, limit: float | None) -> None:
    expected = [] if limit is None else [Finding("a", value, limit=limit)]
    assert found("bounds", 'at = ["a"], least = 16, most = 20', {"a": value}) == expected


def test_single_bound_bounds_one_side() -> None:
    assert found("bounds", 'at = ["a"], most = 0.5', {"a": -(10**9)}) == []
    assert found("bounds", 'at = ["a"], least = 0.5', {"a": 10**9}) == []


@pytest.mark.parametrize("value", ["1", True, None, [1], {"a": 1}])
def test_what_is_no_number_has_no_bounds(value: object) -> None:
    assert found("bounds", 'at = ["a"], least = 16', {"a": value}) == []


# length


@pytest.mark.parametrize(
    ("value", "count", "limit"),
    [
        ("a", 1, 2),
        ("ab", None, None),
        ("äöüß", None, None),
        ("abcde", 5, 4),
        ([], 0, 2),
        ([1, 2, 3, 4, 5], 5, 4),
        ({"a": 1}, 1, 2),
        ({"a": 1, "b": 2}, None, None),
    ],
)
def test_length_beyond_its_bounds_is_found(
    value: object, count: int | None, limit: int | None
) -> None:
    expected = [] if count is None else [Finding("a", count=count, limit=limit)]
    assert found("length", 'at = ["a"], least = 2, most = 4', {"a": value}) == expected


def test_length_without_an_upper_bound_is_any() -> None:
    assert found("length", 'at = ["a"], least = 1', {"a": "x" * 1000}) == []


@pytest.mark.parametrize("value", [1, 1.5, True, None])
def test_what_has_no_length_is_accepted(value: object) -> None:
    assert found("length", 'at = ["a"], least = 2', {"a": value}) == []


# pattern


def test_text_that_does_not_match_as_a_whole_is_found() -> None:
    parameters = 'at = ["tools.name"], matches = "[a-z]+"'
    body = {"tools": [{"name": "ab"}, {"name": "a b"}, {"name": ""}, {"name": 1}, {"name": None}]}
    assert found("pattern", parameters, body) == [
        Finding("tools[1].name", "a b"),
        Finding("tools[2].name", ""),
    ]


def test_text_in_which_something_is_found_is_found() -> None:
    parameters = 'at = ["stop"], never = "^\\\\s*$"'
    assert found("pattern", parameters, {"stop": ["a", " ", "\n", 1, "a\n"]}) == [
        Finding("stop[1]", " "),
        Finding("stop[2]", "\n"),
    ]
    assert paths("pattern", parameters, {"stop": ""}) == ["stop"]


@pytest.mark.parametrize("value", [1, True, None, {"a": " "}, [[" "]]])
def test_what_is_no_text_matches(value: object) -> None:
    assert found("pattern", 'at = ["a"], matches = "x"', {"a": value}) == []


# unique


def test_value_of_an_earlier_field_is_found() -> None:
    body = {"tools": [{"name": "a"}, {"name": "b"}, {"name": "a"}, {"name": "a"}], "own": "b"}
    assert found("unique", 'at = ["tools.name", "own"]', body) == [
        Finding("tools[2].name", "a"),
        Finding("tools[3].name", "a"),
        Finding("own", "b"),
    ]


def test_what_is_no_text_may_come_twice() -> None:
    assert (
        found("unique", 'at = ["a.b"]', {"a": [{"b": 1}, {"b": 1}, {"b": None}, {"b": []}]}) == []
    )


# Conditions


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"a": 1}, 0),
        ({"a": 1, "b": None}, 0),
        ({"a": 1, "b": 2}, 1),
        ({"a": 1, "b": 2, "c": "x"}, 0),
        ({"a": 1, "b": 2, "c": "y"}, 1),
        ({"a": 1, "b": 2, "c": ["x"]}, 1),
    ],
)
@pytest.mark.parametrize("kind", ["forbidden", "unique"])
def test_rule_counts_where_its_conditions_hold(kind: str, body: dict[str, Any], count: int) -> None:
    parameters = 'at = ["a", "a"], when = [{ at = "b" }], unless = [{ at = "c", one_of = ["x"] }]'
    if kind == "unique":
        body = {**body, "a": "text"}
    else:
        parameters = parameters.replace('"a", "a"', '"a"')
    assert len(found(kind, parameters, body)) == count


def test_all_conditions_must_hold_at_any_place() -> None:
    parameters = (
        'at = ["a"], when = [{ at = "tools[type=function].strict", one_of = [true] }, { at = "b" }]'
    )
    tools = [{"type": "custom", "strict": True}, {"type": "function", "strict": True}]
    assert found("forbidden", parameters, {"a": 1, "tools": tools}) == []
    assert found("forbidden", parameters, {"a": 1, "b": 1, "tools": tools[:1]}) == []
    assert len(found("forbidden", parameters, {"a": 1, "b": 1, "tools": tools})) == 1


@pytest.mark.parametrize(
    ("parameters", "streamed", "whole"),
    [("", True, True), ("streams = true, ", True, False), ("streams = false, ", False, True)],
)
def test_rule_counts_for_streams_or_for_whole_answers(
    parameters: str, streamed: bool, whole: bool
) -> None:
    parameters += 'at = ["a"]'
    assert bool(found("forbidden", parameters, {"a": 1}, stream=True)) is streamed
    assert bool(found("forbidden", parameters, {"a": 1}, stream=False)) is whole


def test_numbers_out_of_bounds_may_be_accepted() -> None:
    parameters = 'at = ["a"], least = 128, besides = [-1]'
    assert found("bounds", parameters, {"a": -1}) == []
    assert len(found("bounds", parameters, {"a": 0})) == 1


def test_half_a_character_is_a_violation_where_the_rule_counts() -> None:
    [rule] = read_request_rules(RULE % ("well_formed", 'when = [{ at = "a" }]'), "own.toml")
    assert [*rule.check(RequestFacts({"a": 1}, lone_surrogate="b"))] == [Finding("b")]
    assert [*rule.check(RequestFacts({"c": 1}, lone_surrogate="b"))] == []
    assert [*rule.check(RequestFacts({"a": 1}))] == []
