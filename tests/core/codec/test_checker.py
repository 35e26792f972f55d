"""What all checkers share: how many problems they tell of one frame."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamnorm._core.codec import MAX_PROBLEMS, Checker
from streamnorm.sse import Frame


class Grumbler(Checker):
    def read(self, frame: Frame) -> Iterator[str]:
        for number in range(int(frame.data)):
            yield f"problem {number}"

    def missing(self) -> list[str]:
        return []


@pytest.mark.parametrize(("count", "told"), [(0, 0), (999, 999), (1000, 1000), (1001, 1000)])
def test_problems_of_a_frame_are_bounded(count: int, told: int) -> None:
    problems = Grumbler().check(Frame("message", str(count)))
    assert problems == [f"problem {number}" for number in range(told)]
    assert MAX_PROBLEMS == 1000


def test_clients_break_on_other_lines_only_where_a_dialect_says_so() -> None:
    assert (Grumbler().bare, Grumbler().data_alone) == (False, False)
