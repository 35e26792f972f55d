"""Values of partial JSON, read while they grow, never change for their reader."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.json_texts import documents, exactly, pieces

from streamnorm.partial_json import OpenContainer, PartialJSON


@given(pieces(documents()), st.data())
def test_value_stays_as_it_was_read(fragments: list[str], data: st.DataObject) -> None:
    """The reader holds the value, or one part of it."""
    parser = PartialJSON()
    kept: list[tuple[object, str]] = []
    for fragment in fragments:
        parser.feed(fragment)
        part: Any = parser.value
        while isinstance(part, (list, dict)) and part and data.draw(st.booleans()):
            part = part[-1] if isinstance(part, list) else part[list(part)[-1]]
        if data.draw(st.booleans()):
            kept.append((part, exactly(part)))
        del part
        if kept and data.draw(st.booleans()):
            del kept[data.draw(st.integers(0, len(kept) - 1))]
        assert [exactly(part) for part, _ in kept] == [before for _, before in kept]


TEXT = '{"rows":[[1,2,{"a":"bc'
HOLDERS: dict[str, Callable[[Any], object]] = {
    "the value": lambda value: value,
    "a member": lambda value: value["rows"],
    "the innermost container": lambda value: value["rows"][0][2],
    "the open string": lambda value: value["rows"][0][2]["a"],
    "another list": lambda value: [value],
    "an iterator": lambda value: iter(value["rows"][0]),
    "a view": lambda value: value["rows"][0][2].items(),
    "an iterator of a view": lambda value: iter(value.values()),
    "a function": lambda value: lambda: value["rows"],
    "a bound method": lambda value: value["rows"][0].index,
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_held_part_of_a_value_never_changes(hold: Callable[[Any], object]) -> None:
    parser = PartialJSON()
    parser.feed(TEXT)
    held = hold(parser.value)
    for char in 'd"},3],[4,{"b":"x':
        parser.feed(char)
        assert parser.value
    match held:
        case list() | dict() | str():
            assert "d" not in str(held)
            assert "3" not in str(held)
        case Iterator():
            assert "d" not in str(list(held))
        case _ if callable(held):
            assert (
                held() == [[1, 2, {"a": "bc"}]] if hold is HOLDERS["a function"] else held(2) == 1
            )
        case _:
            assert list(held) == [("a", "bc")]  # type: ignore[call-overload]


def test_value_is_read_again_as_the_same_object_while_nothing_comes() -> None:
    parser = PartialJSON()
    parser.feed('{"a":[1,')
    assert parser.value is parser.value


def test_closed_part_is_shared() -> None:
    parser = PartialJSON()
    parser.feed('[{"a":1},')
    first: Any = parser.value
    parser.feed("2,")
    second: Any = parser.value
    assert (first, second) == ([{"a": 1}], [{"a": 1}, 2])
    assert first[0] is second[0]


def test_finished_value_is_always_the_same_object() -> None:
    parser = PartialJSON()
    parser.feed('{"a":[1]}')
    first = parser.value
    parser.feed(" ")
    assert parser.value is first


def copied_members(parser: PartialJSON, fragments: list[str], keep: int) -> int:
    """Return how many members were copied while the reader holds the last `keep` values."""
    code, copied = OpenContainer.add_to.__code__, 0

    def trace(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal copied
        if event == "call" and frame.f_code is code:
            seen = frame.f_locals
            copied += len(seen["self"].values) - seen["start"]

    kept: list[object] = []
    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        for fragment in fragments:
            parser.feed(fragment)
            kept.append(parser.value)
            del kept[: max(len(kept) - keep, 0)]
    finally:
        sys.setprofile(before)
    return copied


SHAPES: dict[str, Callable[[int], object]] = {
    "array": lambda count: [*range(count)],
    "object": lambda count: {f"key {number}": number for number in range(count)},
    "rows": lambda count: {"rows": [{"id": number, "tags": []} for number in range(count)]},
    "nested": lambda count: [[*range(count // 2)], {"a": [*range(count // 2)]}],
}


@pytest.mark.parametrize("keep", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_reading_in_a_loop_copies_each_member_a_few_times(
    shape: Callable[[int], object], keep: int
) -> None:
    """Three copies are updated in turn."""
    for count in (100, 400):
        text = json.dumps(shape(count))
        parser = PartialJSON()
        assert copied_members(parser, list(text), keep) <= 3 * (3 * count + 10)
        assert parser.value == shape(count)


def test_reader_that_holds_every_value_pays_for_every_copy() -> None:
    parser = PartialJSON()
    assert copied_members(parser, ["["] + ["1,"] * 100, 101) == 100 * 101 // 2


def test_released_values_hold_no_memory() -> None:
    parser = PartialJSON()
    parser.feed("[")
    for _ in range(100):
        parser.feed("[1],")
        assert parser.value
    assert len(parser._snapshots._copies) <= 3


def test_copy_of_a_held_value_may_be_changed() -> None:
    parser = PartialJSON()
    parser.feed('{"a":[1,')
    mine: Any = copy.deepcopy(parser.value)
    mine["a"].append("x")
    parser.feed("2")
    parser.feed("]")
    assert parser.value == {"a": [1, 2]}
