"""Field tables, on a small dialect of their own."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import CacheMark, DecodeError, OutputFormat, Request
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import as_object, get_int, get_number, get_str, get_strings
from streamnorm._core.bodies.table import (
    Field,
    Group,
    Nested,
    Reading,
    RequestTable,
    Table,
    WithRest,
    Writing,
    add_unknown,
)
from streamnorm._core.codec import ReadContext, WriteContext
from streamnorm._core.losses import Losses

CONTEXT = ReadContext()


def read_mark(value: object) -> WithRest | None:
    mark = as_object(value)
    if "ttl" not in mark:
        return None
    return WithRest(CacheMark(get_str(mark, "ttl")), {k: v for k, v in mark.items() if k != "ttl"})


def read_store(reading: Reading) -> dict[str, Any]:
    if reading.body.get("keep") == "maybe":
        reading.unknown["keep"] = "maybe"
        return {}
    return {"store": reading.body.get("keep", reading.body.get("hold"))}


def write_store(writing: Writing) -> dict[str, Any]:
    return {"keep": writing.part.store, "for": writing.part.user}


TABLE = RequestTable(
    "d",
    Field("model", write=lambda model, _: model or None),
    Field("messages", read=lambda _: (), required="an array", always=True),
    Field("max_tokens", get_int, wire=("limit", "old_limit")),
    Field("stop", get_strings),
    Group(("store",), ("keep", "hold"), read_store, write_store, needs=("user",)),
    Field("cache", wire="mark", read=read_mark, write=lambda mark, _: {"ttl": mark.ttl}),
    Nested(
        "config",
        Table(Field("temperature", get_number), Field("top_p", get_number, wire="topP")),
        is_path=True,
    ),
    Nested("owner", Table(Field("user", get_str, wire="id"))),
    normalize=lambda body: {name.lower(): value for name, value in body.items()},
)


def read(**fields: Any) -> Request:
    return TABLE.read_request({"messages": [], **fields}, CONTEXT)


def write(request: Request, **changes: Any) -> dict[str, Any]:
    context = WriteContext(BodyCapabilities(dialect="d", fields=TABLE.names), Losses(strict=False))
    return TABLE.write_request(structs.replace(request, **changes), context)


def parts(request: Request) -> Request:
    return structs.replace(request, source=None)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"model": "m"}, {"model": "m"}),
        ({"limit": 3}, {"max_tokens": 3}),
        ({"old_limit": 4}, {"max_tokens": 4}),
        ({"old_limit": 4, "limit": 3}, {"max_tokens": 3}),
        ({"limit": 3, "old_limit": 4}, {"max_tokens": 3}),
        ({"LIMIT": 3}, {"max_tokens": 3}),
        ({"limit": None, "old_limit": 4}, {"max_tokens": 4, "extra": {"d": {"limit": None}}}),
        ({"stop": ["a"]}, {"stop": ("a",)}),
        ({"hold": True}, {"store": True}),
        ({"keep": "maybe"}, {"extra": {"d": {"keep": "maybe"}}}),
        ({"mark": {"ttl": "1h"}}, {"cache": CacheMark("1h")}),
        (
            {"mark": {"ttl": "1h", "x": 1}},
            {"cache": CacheMark("1h"), "extra": {"d": {"mark": {"x": 1}}}},
        ),
        ({"mark": {"x": 1}}, {"extra": {"d": {"mark": {"x": 1}}}}),
        ({"other": None}, {"extra": {"d": {"other": None}}}),
        (
            {"config": {"temperature": 1, "seed": 2}},
            {"temperature": 1, "extra": {"d": {"config.seed": 2}}},
        ),
        ({"owner": {"id": "u"}}, {"user": "u"}),
        (
            {"owner": {"id": "u", "x": None}},
            {"user": "u", "extra": {"d": {"owner": {"x": None}}}},
        ),
        ({"owner": {}}, {"extra": {"d": {"owner": {}}}}),
    ],
)
def test_fields_are_read_as_unified_and_unknown_ones(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert parts(read(**fields)) == Request(**expected)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"messages": None}, "missing, expected an array at $.messages"),
        ({"limit": "3"}, "a string of 1 characters, expected an integer at $.limit"),
        ({"mark": {"ttl": 3}}, "an integer, expected a string at $.mark.ttl"),
        ({"config": {"topP": []}}, "an array, expected a number at $.config.topP"),
        ({"owner": []}, "an array, expected an object at $.owner"),
    ],
)
def test_error_has_the_path_of_the_field(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read(**fields)
    assert f"{refused.value.args[0]} at {refused.value.path}" == error


def test_set_fields_are_written_in_the_order_of_the_table() -> None:
    request = Request(
        user="u", temperature=0.5, cache=CacheMark("1h"), store=False, stop=("a",), model="m"
    )
    assert list(write(request).items()) == [
        ("model", "m"),
        ("messages", []),
        ("stop", ["a"]),
        ("keep", False),
        ("for", "u"),
        ("mark", {"ttl": "1h"}),
        ("config", {"temperature": 0.5}),
        ("owner", {"id": "u"}),
    ]
    assert write(Request()) == {"messages": []}


def test_unchanged_fields_stay_as_they_were_spelt_in_their_order() -> None:
    body: dict[str, Any] = {
        "x": 1,
        "config": {"topP": 1.0},
        "stop": [],
        "old_limit": 3,
        "messages": [],
        "hold": 1,
    }
    request = TABLE.read_request(body, CONTEXT)
    changed = write(request, temperature=0.5, max_tokens=4, model="m")
    assert list(changed.items()) == [
        ("x", 1),
        ("config", {"temperature": 0.5, "topP": 1.0}),
        ("stop", []),
        ("old_limit", 4),
        ("messages", []),
        ("hold", 1),
        ("model", "m"),
    ]
    without = write(request, max_tokens=None)
    assert "old_limit" not in without
    assert without["config"] is body["config"]


def test_unchanged_and_unknown_fields_keep_the_names_of_the_client() -> None:
    request = read(LIMIT=3, STOP=["a"], OTHER=1)
    assert write(request, max_tokens=4) == {"messages": [], "limit": 4, "STOP": ["a"], "OTHER": 1}


def test_field_from_elsewhere_wins_over_that_of_the_body() -> None:
    assert TABLE.read_request({"messages": [], "model": "a"}, CONTEXT, model="b").model == "b"


def test_rest_of_a_group_may_be_kept_by_path() -> None:
    def read_store(reading: Reading) -> dict[str, Any]:
        reading.unknown["keep.x"] = reading.body["keep"]["x"]
        return {"store": True}

    table = RequestTable(
        "d",
        Group(("store",), ("keep",), read_store, lambda _: {"keep": {}}, is_path=True),
        add=lambda body, unknown: {**body, "unknown": unknown},
    )
    request = table.read_request({"keep": {"x": 1}}, CONTEXT)
    context = WriteContext(BodyCapabilities(dialect="d", fields=table.names), Losses(strict=False))
    assert table.write_request(request, context) == {"keep": {"x": 1}, "unknown": {}}
    changed = structs.replace(request, extra={"d": {"keep.x": 2}})
    assert table.write_request(changed, context) == {"keep": {}, "unknown": {"keep.x": 2}}


def test_row_is_written_anew_if_a_field_changed_that_its_writer_reads() -> None:
    request = read(hold=True)
    assert write(request, user="u") == {
        "messages": [],
        "keep": True,
        "for": "u",
        "owner": {"id": "u"},
    }


@pytest.mark.parametrize(
    ("fields", "extra", "expected"),
    [
        ({"mark": {"ttl": "1h", "x": 1}}, {}, {"mark": {"ttl": "1h"}}),
        ({"mark": {"ttl": "1h", "x": 1}}, {"mark": {"x": 2}}, {"mark": {"x": 2, "ttl": "1h"}}),
        ({"config": {"topP": 1, "x": 1}}, {}, {"config": {"topP": 1}}),
        ({"limit": None, "old_limit": 3}, {}, {"old_limit": 3}),
        ({"other": 1}, {}, {}),
    ],
)
def test_unknown_field_that_was_dropped_is_not_written(
    fields: dict[str, Any], extra: dict[str, Any], expected: dict[str, Any]
) -> None:
    request = read(**fields)
    assert request.extra is not None
    assert write(request, extra={"d": extra}) == {"messages": [], **expected}


def test_unchanged_unknown_fields_are_in_the_original_value() -> None:
    body: dict[str, Any] = {
        "messages": [],
        "mark": {"x": 1, "ttl": "1h"},
        "config": {"s": 1, "topP": 1},
    }
    written = write(TABLE.read_request(body, CONTEXT), model="m")
    assert written == {**body, "model": "m"}
    assert written["mark"] is body["mark"]


@pytest.mark.parametrize(
    ("written", "unknown", "expected"),
    [
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 1, "b": 3}),
        ({"a": {"x": 1}}, {"a": {"x": 2, "y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": 1}, {"a": {"y": 3}}, {"a": 1}),
    ],
)
def test_written_value_stays_and_the_rest_of_an_object_is_merged(
    written: dict[str, Any], unknown: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert add_unknown(written, unknown) == expected


def test_table_of_a_part_writes_its_fields() -> None:
    table = Table(Field("kind", wire="type"), Field("name", get_str), Field("strict"))
    assert table.write(OutputFormat("text", strict=False)) == {"type": "text", "strict": False}
    assert table.names == {"kind", "name", "strict"}
