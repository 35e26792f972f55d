"""Paths of fields, and edits that copy what they change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm._core.bodies.fields import (
    Step,
    edit_fields,
    fields_at,
    has_field,
    parse_path,
)


def removed(body: dict[str, Any], path: str) -> dict[str, Any]:
    def remove(holder: dict[str, Any], name: str) -> dict[str, Any]:
        return {key: value for key, value in holder.items() if key != name}

    before = deepcopy(body)
    after = edit_fields(body, parse_path(path), remove)
    assert body == before
    return after


def test_path_is_names_with_dots_and_choices_of_elements() -> None:
    assert parse_path("a") == (Step("a"),)
    assert parse_path("a.b$.c-d") == (Step("a"), Step("b$"), Step("c-d"))
    assert parse_path("a[type=x_*].b") == (Step("a", "type", "x_*", is_exact=False), Step("b"))
    assert parse_path("a[v=1.5]") == (Step("a", "v", "1.5"),)


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), (".", 0), ("a.", 0), ("a..b", 2), ("a[b]", 0), ("a[b=]", 0), ("a[b=c]d", 0)],
)
def test_text_that_is_no_path_is_refused_where_it_ends(text: str, position: int) -> None:
    with pytest.raises(ValueError, match=f"character {position},"):
        parse_path(text)


@pytest.mark.parametrize(
    ("path", "body", "after"),
    [
        ("a", {"a": 1, "b": 2}, {"b": 2}),
        ("a", {"a": None}, {}),
        ("a.b", {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        ("a.b", {"a": [{"b": 1, "c": 2}, {"c": 3}, "text"]}, {"a": [{"c": 2}, {"c": 3}, "text"]}),
        ("a.b.c", {"a": [{"b": [{"c": 1, "d": 2}]}]}, {"a": [{"b": [{"d": 2}]}]}),
        ("a[t=x]", {"a": [{"t": "x"}, {"t": "y"}]}, {"a": [{"t": "y"}]}),
        ("a[t=x_*]", {"a": [{"t": "x_1"}, {"t": "x_2"}, {"t": 3}, {}]}, {"a": [{"t": 3}, {}]}),
        ("a[t=x].b", {"a": [{"t": "x", "b": 1}, {"b": 1}]}, {"a": [{"t": "x"}, {"b": 1}]}),
        ("a[t=x]", {"a": {"t": "x"}, "b": 1}, {"b": 1}),
    ],
)
def test_field_is_removed_at_every_place(
    path: str, body: dict[str, Any], after: dict[str, Any]
) -> None:
    assert removed(body, path) == after


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("a", {}),
        ("a.b", {"a": None}),
        ("a.b", {"a": "text"}),
        ("a.b", {"a": {"c": 1}}),
        ("a.b", {"a": [{}, {"c": 1}, [{"b": 1}]]}),
        ("a.b", {"a": []}),
        ("a[t=x]", {"a": [{"t": "y"}, {"t": ["x"]}, "x"]}),
        ("a[t=x].b", {"a": {"t": "y", "b": 1}}),
    ],
)
def test_body_without_the_field_is_the_same_object(path: str, body: dict[str, Any]) -> None:
    assert removed(body, path) is body
    assert not has_field(body, parse_path(path))


def test_what_is_left_empty_is_removed() -> None:
    assert removed({"a": {"b": 1}, "c": 2}, "a.b") == {"c": 2}
    assert removed({"a": {"b": {"c": 1}}}, "a.b.c") == {}
    assert removed({"a": [{"b": 1}, {"b": 1, "c": 2}]}, "a.b") == {"a": [{"c": 2}]}
    assert removed({"a": [{"t": "x"}]}, "a[t=x]") == {}


def test_object_is_removed_with_the_array_that_was_its_content() -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "x"}]}, {"role": "user"}]}
    assert removed(body, "messages.content[type=x]") == {"messages": [{"role": "user"}]}


def test_what_was_empty_before_stays() -> None:
    body: dict[str, Any] = {"a": [{}, {"b": 1, "c": []}]}
    assert removed(body, "a.b") == {"a": [{}, {"c": []}]}


KEYS = st.sampled_from(["a", "b", "t"])
LEAVES = st.none() | st.booleans() | st.sampled_from(["x", "xy", "z"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner), max_leaves=20
)
PATHS = ["a", "a.b", "a.a.b", "a[t=x]", "a[t=x*].b", "a[t=x].b[t=z]"]


@given(body=st.dictionaries(KEYS, VALUES), path=st.sampled_from(PATHS))
def test_removal_leaves_no_field_and_changes_nothing_else(body: dict[str, Any], path: str) -> None:
    after = removed(body, path)
    assert (after is body) is not has_field(body, parse_path(path))
    assert not has_field(after, parse_path(path))
    assert {name: value for name, value in after.items() if name != "a"} == {
        name: value for name, value in body.items() if name != "a"
    }


def test_field_is_found() -> None:
    assert has_field({"a": [{"b": None}]}, parse_path("a.b"))
    assert has_field({"a": [{"t": "x"}]}, parse_path("a[t=x]"))


# Fields that a path leads to


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        ("a", {"a": 1, "b": 2}, [("a", 1)]),
        ("a", {"a": None}, [("a", None)]),
        ("a", {"a": [1, 2]}, [("a", [1, 2])]),
        ("a", {"b": 1}, []),
        ("a.b", {"a": {"b": 1}}, [("a.b", 1)]),
        ("a.b", {"a": [{"b": 1}, {}, "text", {"b": 2}]}, [("a[0].b", 1), ("a[3].b", 2)]),
        ("a.b", {"a": "text"}, []),
        ("a.b.c", {"a": [{"b": [{"c": 1}, {"c": 2}]}]}, [("a[0].b[0].c", 1), ("a[0].b[1].c", 2)]),
        ("a[t=x]", {"a": [{"t": "x"}, {"t": "y"}]}, [("a[0]", {"t": "x"})]),
        ("a[t=x]", {"a": {"t": "x"}}, [("a", {"t": "x"})]),
        ("a[t=x]", {"a": {"t": "y"}}, []),
        ("a[t=x_*].b", {"a": [{"t": "x_1", "b": 1}, {"t": "x", "b": 2}]}, [("a[0].b", 1)]),
        ("a[t=x]", {"a": ["x", None, [{"t": "x"}]]}, []),
    ],
)
def test_fields_are_found_with_their_places(
    path: str, body: dict[str, Any], found: list[tuple[str, Any]]
) -> None:
    assert [*fields_at(body, parse_path(path))] == found


@given(body=st.dictionaries(KEYS, VALUES), path=st.sampled_from(PATHS))
def test_fields_are_found_where_an_edit_finds_them(body: dict[str, Any], path: str) -> None:
    found = [*fields_at(body, parse_path(path))]
    assert bool(found) is has_field(body, parse_path(path))
