"""The bound on the problems of one frame, and the lines that a checker rejects."""

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


@pytest.mark.parametrize(("count", "reported"), [(0, 0), (999, 999), (1000, 1000), (1001, 1000)])
def test_problems_of_a_frame_are_bounded(count: int, reported: int) -> None:
    problems = Grumbler().check(Frame("message", str(count)))
    assert problems == [f"problem {number}" for number in range(reported)]
    assert MAX_PROBLEMS == 1000


def test_ids_and_comments_are_legal_by_default() -> None:
    assert not Grumbler().rejects_id_and_retry
    assert not Grumbler().rejects_comments
