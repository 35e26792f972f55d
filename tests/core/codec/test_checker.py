"""The bound on the problems of one frame, the lines that a checker rejects, and order tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamnorm._core.codec import ANY, MAX_PROBLEMS, Checker, Order, OrderTable
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
    assert not Grumbler().rejects_carriage_returns


TURNS: OrderTable = {
    "red": {"green": "green", "red": "second red of light {light}, expected green"},
    "green": {"red": "red", ANY: ("off", "{event} of light {light}, expected red")},
    "off": {},
}


def problems_of(order: Order, *events: str) -> list[str]:
    return [problem for event in events for problem in order.advance(event)]


def test_first_state_of_a_table_is_the_initial_one() -> None:
    order = Order(TURNS)
    assert (order.state, problems_of(order, "green", "red"), order.state) == ("red", [], "red")


def test_problem_alone_leaves_the_state() -> None:
    order = Order(TURNS, light=3)
    assert problems_of(order, "red") == ["second red of light 3, expected green"]
    assert order.state == "red"


def test_problem_of_any_other_event_enters_the_state_beside_it() -> None:
    order = Order(TURNS, light=3)
    assert problems_of(order, "green", "blue") == ["blue of light 3, expected red"]
    assert order.state == "off"


def test_event_without_an_entry_is_legal() -> None:
    order = Order(TURNS)
    assert (problems_of(order, "blue"), order.state) == ([], "red")
