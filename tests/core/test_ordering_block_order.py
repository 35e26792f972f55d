"""The order in which held blocks are written."""

from __future__ import annotations

from streamnorm._core.grammar import BlockOrder


def held_behind(order: BlockOrder, first: int, *others: int) -> list[int]:
    """Return the order in which blocks come that started while another was open."""
    assert order.start(first) is False
    order.open = first
    assert [order.start(index) for index in others] == [True] * len(others)
    assert order.next() is None
    order.open = None
    taken = [order.next() for _ in others]
    assert order.next() is None
    return [index for index in taken if index is not None]


def test_block_is_held_only_while_another_is_open() -> None:
    order = BlockOrder()
    assert order.start(0) is False
    assert order.start(1) is False
    assert order.next() is None


def test_lowest_index_comes_first() -> None:
    assert held_behind(BlockOrder(), 0, 3, 1, 2) == [1, 2, 3]
    assert held_behind(BlockOrder(), -1, 3, 0, 1) == [0, 1, 3]


def test_added_block_comes_behind_those_that_started_before_it() -> None:
    assert held_behind(BlockOrder(), 0, 1, -1, 2) == [1, -1, 2]
    assert held_behind(BlockOrder(), 0, 2, -1, 1) == [1, 2, -1]
    assert held_behind(BlockOrder(), 5, -1, 6) == [-1, 6]
    assert held_behind(BlockOrder(), -1, 0, 1) == [0, 1]


def test_added_blocks_come_in_the_order_in_which_they_were_added() -> None:
    assert held_behind(BlockOrder(), 0, 1, -1, -2, 2, -3) == [1, -1, -2, 2, -3]
    assert held_behind(BlockOrder(), -1, -2, -3) == [-2, -3]


def test_block_that_was_not_held_counts_as_started() -> None:
    order = BlockOrder()
    order.start(7)
    assert held_behind(order, 0, -1, 5, 8) == [5, -1, 8]
