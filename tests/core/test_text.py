"""Tests of texts."""

from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given
from support.draws import Draws, draws

from streamnorm._core.text import common_prefix_size


@pytest.mark.parametrize(
    ("one", "other", "size"),
    [
        ("", "", 0),
        ("a", "", 0),
        ("abc", "abd", 2),
        ("abc", "ab", 2),
        ("abc", "abc", 3),
        ("xbc", "abc", 0),
        (["a", "b"], ["a", "c"], 1),
        (["a"], ["a"], 1),
    ],
)
def test_common_prefix(one: str | list[str], other: str | list[str], size: int) -> None:
    assert common_prefix_size(one, other) == size


@given(d=draws(24))
def test_common_prefix_is_that_of_the_characters(d: Draws) -> None:
    one, other = (d.text(0, 8, "ab") for _ in range(2))
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    assert common_prefix_size(one, other) == len(list(equal))
