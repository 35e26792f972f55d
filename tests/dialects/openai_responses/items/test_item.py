"""Extra fields of items, and the match of their parts."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm.dialects.openai_responses.items.item import align_parts, extra_fields


@pytest.mark.parametrize(
    ("wire", "fields"),
    [
        (
            {"id": "i", "type": "t", "status": "s", "a": 1, "b": 2, "c": None},
            {"item_id": "i", "b": 2},
        ),
        ({"id": "", "b": False}, {"b": False}),
        ({"id": None}, {}),
        ({"id": 3}, {}),
    ],
)
def test_unmapped_fields_are_extra(wire: dict[str, Any], fields: dict[str, Any]) -> None:
    assert extra_fields(wire, "a") == fields


@pytest.mark.parametrize(
    ("seen", "whole", "paired"),
    [
        ({0: "a", 1: "b"}, [0, 1], {0: "a", 1: "b"}),
        ({1: "b", 0: "a"}, [0, 1], {0: "a", 1: "b"}),
        ({1: "a"}, [0], {0: "a"}),
        ({1: "a"}, [0, 1], {1: "a"}),
        ({5: "b", 2: "a"}, [1, 3], {1: "a", 3: "b"}),
        ({}, [0], {}),
        ({}, [], {}),
    ],
)
def test_equal_counts_of_parts_match_in_order(
    seen: dict[int, str], whole: list[int], paired: dict[int, str]
) -> None:
    assert align_parts(seen, whole) == paired
