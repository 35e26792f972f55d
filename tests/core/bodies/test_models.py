"""Models of a server: names, pages, and the values of their fields."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import DecodeError
from streamnorm._core.bodies.models import (
    ModelField,
    ModelInfo,
    ModelPage,
    Pages,
    apply_model_map,
    date_text,
    model_from_wire,
    model_to_wire,
    models_in,
    page_of,
    page_size,
    rfc3339_text,
    seconds,
    seconds_of_text,
    shared_models,
    text,
)

A, B, C = (ModelInfo(id, name=id.upper(), created=5) for id in "abc")


@pytest.mark.parametrize(
    ("model_map", "ids"),
    [
        ({}, ["a", "b", "c"]),
        ({"x": "b"}, ["a", "x", "b", "c"]),
        ({"x": "b", "y": "b"}, ["a", "x", "y", "b", "c"]),
        ({"a": "b"}, ["a", "b", "c"]),  # `a` is another model now
        ({"a": "a"}, ["a", "b", "c"]),
        ({"a": "b", "b": "a"}, ["b", "a", "c"]),
        ({"x": "not-listed", "y": "not-listed"}, ["a", "b", "c", "x", "y"]),
        ({"x": "not-listed", "a": "gone"}, ["b", "c", "x", "a"]),
    ],
)
def test_models_stand_under_the_names_that_a_client_may_ask_for(
    model_map: dict[str, str], ids: list[str]
) -> None:
    assert [model.id for model in apply_model_map([A, B, C], model_map)] == ids


def test_alias_has_the_fields_of_its_model() -> None:
    named = {model.id: model for model in apply_model_map([A, B], {"a": "b", "x": "gone"})}
    assert named["a"] == ModelInfo("a", name="B", created=5)
    assert named["x"] == ModelInfo("x")


def test_model_listed_twice_is_named_once() -> None:
    assert apply_model_map([A, ModelInfo("a"), B], {}) == [A, B]
    assert apply_model_map([A, ModelInfo("a"), B], {"x": "a"}) == [
        *apply_model_map([A], {"x": "a"}),
        B,
    ]


# Pages

MODELS = [ModelInfo(id) for id in "abcde"]


@pytest.mark.parametrize(
    ("size", "cursors", "ids", "has_more"),
    [
        (5, {}, "abcde", False),
        (9, {}, "abcde", False),
        (4, {}, "abcd", True),
        (2, {"after": "b"}, "cd", True),
        (2, {"after": "c"}, "de", False),
        (2, {"after": "e"}, "", False),
        (2, {"before": "d"}, "bc", True),
        (2, {"before": "c"}, "ab", False),
        (2, {"before": "b"}, "a", False),
        (2, {"before": "a"}, "", False),
        (1, {"after": "a", "before": "e"}, "b", True),
    ],
)
def test_page_of_models(size: int, cursors: dict[str, str], ids: str, has_more: bool) -> None:
    page, more = page_of(MODELS, size, **cursors)
    assert "".join(model.id for model in page) == ids
    assert more is has_more


@pytest.mark.parametrize("cursor", ["after", "before"])
def test_cursor_names_a_model_of_the_list(cursor: str) -> None:
    with pytest.raises(DecodeError, match="no model of the list, expected one"):
        page_of(MODELS, 2, **{cursor: "x"})


def test_size_of_a_page_is_bounded() -> None:
    assert page_size({}, "limit", 20, 1000) == 20
    assert [page_size({"limit": n}, "limit", 20, 1000) for n in ("1", "1000", "1001")] == [
        *(1, 1000, 1000)
    ]
    assert page_size({"limit": "999999999"}, "limit", 20, 1000) == 1000


@pytest.mark.parametrize("limit", ["0", "-1", "", "x", "1.5", "٣", "9" * 10, "9" * 5000])
def test_size_that_is_no_number_is_refused(limit: str) -> None:
    with pytest.raises(DecodeError, match="no number from 1 on, expected one") as caught:
        page_size({"limit": limit}, "limit", 20, 1000)
    assert caught.value.path == "limit"


# Fields


def test_dates_are_seconds_since_1970() -> None:
    assert seconds_of_text("2025-02-19T00:00:00Z") == 1_739_923_200
    assert seconds_of_text("2025-02-19T01:00:00.5+01:00") == 1_739_923_200
    assert seconds_of_text("2025-02-19T00:00:00") == 1_739_923_200
    assert seconds_of_text("2025-02-19") == 1_739_923_200
    assert rfc3339_text(1_739_923_200) == "2025-02-19T00:00:00Z"
    assert rfc3339_text(0) == "1970-01-01T00:00:00Z"
    assert date_text(1_739_923_200) == "2025-02-19"


@pytest.mark.parametrize(
    "value", ["", "soon", "1969-12-31", "0001-01-01T00:00:00+23:59", 5, None, "9" * 5000, "\ud83d"]
)
def test_other_text_is_no_date(value: object) -> None:
    assert seconds_of_text(value) is None


def test_seconds_are_those_of_a_date_that_can_be_written() -> None:
    assert seconds(253_402_300_799) == 253_402_300_799
    assert rfc3339_text(253_402_300_799) == "9999-12-31T23:59:59Z"
    assert seconds(1_700_000_000.0) == 1_700_000_000
    for value in (253_402_300_800, -1, True, "5", None, 1e300, []):
        assert seconds(value) is None


def test_text_that_is_empty_says_nothing() -> None:
    assert text("a") == "a"
    for value in ("", None, 5, ["a"]):
        assert text(value) is None


FIELDS = {
    "title": ModelField("name", text, str.upper),
    "label": ModelField("name", text),
    "made": ModelField("created", seconds, int),
}


@pytest.mark.parametrize(
    ("value", "name", "created"),
    [
        ({}, None, None),
        ({"title": "t", "label": "l", "made": 5}, "t", 5),
        ({"title": "", "label": "l", "made": "x"}, "l", None),
    ],
)
def test_fields_of_the_right_type_are_read(
    value: dict[str, Any], name: str | None, created: int | None
) -> None:
    value = {"id": "m", **value}
    model = model_from_wire(value, "d", "id", FIELDS)
    assert model == ModelInfo("m", name=name, created=created, original={"d": value})


def test_only_known_fields_are_written() -> None:
    assert model_to_wire(ModelInfo("m"), FIELDS) == {}
    assert model_to_wire(ModelInfo("m", name="t", owner="o"), FIELDS) == {"title": "T"}


@pytest.mark.parametrize(
    ("body", "problem", "path"),
    [
        ({}, "missing, expected an array", "$.data"),
        ({"data": None}, "missing, expected an array", "$.data"),
        ({"data": {}}, "an object, expected an array", "$.data"),
        ({"data": [{"id": "m"}, 5]}, "an integer, expected an object", "$.data[1]"),
        ({"data": [{"id": "m"}, {}]}, "missing, expected a string", "$.data[1].id"),
        ({"data": [{"id": 5}]}, "an integer, expected a string", "$.data[0].id"),
        ({"data": [{"id": ""}]}, "empty, expected the name of a model", "$.data[0].id"),
    ],
)
def test_list_of_anything_else_is_refused(body: dict[str, Any], problem: str, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        models_in(body, "data", lambda value: model_from_wire(value, "d", "id", FIELDS))
    assert caught.value.path == path
    assert problem in str(caught.value)


def test_page_of_a_list_names_the_next_one_where_there_is_one() -> None:
    codec = structs.replace(
        shared_models("openai_chat"),
        pages=Pages(size="limit", default_size=20, max_size=100, after="after"),
        next_cursor=lambda body: body.get("last"),
    )
    listed = {"data": [{"id": "a"}]}
    assert codec.read_list(listed) == ModelPage([codec.read_model({"id": "a"})])
    assert codec.read_list({**listed, "last": "a"}).next_query == {"limit": "100", "after": "a"}


def test_model_of_another_vendor_has_what_the_schema_of_openai_requires() -> None:
    written = shared_models("openai_chat").write_model(ModelInfo("a"))
    assert written == {"id": "a", "object": "model", "created": 0, "owned_by": ""}
