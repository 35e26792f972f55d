"""What long conversations and many references cost: never more than in proportion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.bodies.compactions import KEY, TRIGGER, sealed
from support.operation_counts import operations
from support.state.responses import response

from streamnorm.state import Lookup, MemoryStore, Turn
from streamnorm.state.compaction import Sealer, asks_for_compaction, open_summaries, summary_request

COUNT = 80


def chained(count: int) -> MemoryStore:
    """Return a store with a conversation of `count` responses, each with an item."""
    store = MemoryStore()
    previous = None
    for number in range(count):
        store.put("a", response(f"r{number}", previous, f"i{number}"))
        previous = f"r{number}"
    return store


def find_chain(store: MemoryStore, count: int) -> None:
    found = store.find("a", Lookup(f"r{count - 1}"))
    assert len(found.chain) == count


def find_items_of_a_chain(store: MemoryStore, count: int) -> None:
    found = store.find("a", Lookup(None, tuple([f"i{number}" for number in range(count)])))
    assert len(found.items) == count


def find_one_item_often(store: MemoryStore, count: int) -> None:
    found = store.find("a", Lookup(None, ("i0",) * count))
    assert len(found.items) == 1


def continue_chain(store: MemoryStore, count: int) -> None:
    store.put("a", response("next", f"r{count - 1}", "item"))
    assert len(store) == count + 1


def forget_all(store: MemoryStore, count: int) -> None:
    large = response("large", None, size=64 * 1024 * 1024)
    store.put("a", large)
    assert len(store) == 1


def expand(store: MemoryStore, count: int) -> None:
    items = [{"type": "item_reference", "id": f"i{number}"} for number in range(count // 2)]
    turn = Turn({"input": [*items, *({"role": "user", "content": "a"} for _ in range(count))]})
    body = turn.expand(store.find("a", turn.lookup))
    assert len(body["input"]) == len(items) + count
    turn = Turn({"previous_response_id": f"r{count - 1}"})
    assert len(turn.expand(store.find("a", turn.lookup))["input"]) == count
    assert turn.stored({"id": turn.id, "status": "completed", "output": [{}] * count}) is not None


def compact(store: MemoryStore, count: int) -> None:
    said = {"role": "user", "content": "a"}
    calls = [{"type": "function_call", "call_id": str(number)} for number in range(count)]
    results = [{"type": "function_call_output", "call_id": str(number)} for number in range(count)]
    body = {"input": [*calls, *results, sealed("It snows."), *[said] * count, TRIGGER]}
    assert asks_for_compaction(body)
    found = open_summaries(body, Sealer([KEY]), passes_others=False)
    assert len(summary_request(found)["input"]) == count + 2


@pytest.mark.parametrize(
    "work",
    [
        find_chain,
        find_items_of_a_chain,
        find_one_item_often,
        continue_chain,
        forget_all,
        expand,
        compact,
    ],
)
def test_cost_grows_in_proportion(work: Callable[[MemoryStore, int], None]) -> None:
    def cost(count: int) -> int:
        store = chained(count)
        return operations(lambda: work(store, count))

    assert cost(4 * COUNT) < 4.2 * cost(COUNT)
