"""The store in memory: its bounds, and what it forgets first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.state.responses import response
from support.state.stores import Clock

from streamnorm.state import Found, Item, Lookup, MemoryStore, ResponseStore, SyncResponseStore


def chain(store: MemoryStore, id: str, scope: str = "a") -> list[str]:
    return [found.id for found in store.find(scope, Lookup(id)).chain]


def filled(count: int, **bounds: int) -> MemoryStore:
    store = MemoryStore(**bounds)
    for number in range(count):
        store.put("a", response(f"r{number}"))
    return store


def test_empty_lookup_finds_nothing() -> None:
    assert filled(1).find("a", Lookup()) == Found()


def test_chain_is_found_from_its_end() -> None:
    store = MemoryStore()
    for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r2")):
        store.put("a", response(id, previous))
    assert chain(store, "r3") == ["r3", "r2", "r1"]
    assert chain(store, "r2") == ["r2", "r1"]
    assert chain(store, "r4") == []


def test_item_is_that_of_the_response_stored_last() -> None:
    store = MemoryStore()
    store.put("a", response("r1", None, "x", "y"))
    store.put("a", response("r2", None, "x"))
    found = store.find("a", Lookup(None, ("x", "y", "z")))
    assert found.items == {
        "x": Item("x", b'{"id": "x", "of": "r2"}'),
        "y": Item("y", b'{"id": "y", "of": "r1"}'),
    }
    store.delete("a", "r2")
    assert store.find("a", Lookup(None, ("x",))).items == {
        "x": Item("x", b'{"id": "x", "of": "r1"}')
    }


def test_item_that_occurs_twice_in_a_response_is_found_and_deleted() -> None:
    store = MemoryStore()
    store.put("a", response("r1", None, "x", "x"))
    assert store.find("a", Lookup(None, ("x",))).items.keys() == {"x"}
    assert store.delete("a", "r1")
    assert store.find("a", Lookup(None, ("x",))).items == {}


def test_scopes_are_separate() -> None:
    store = MemoryStore()
    store.put("a", response("r1", None, "x"))
    store.put("b", response("r2", "r1"))
    assert store.find("b", Lookup("r1", ("x",))) == Found()
    assert chain(store, "r2", "b") == ["r2"]
    assert not store.delete("b", "r1")
    assert chain(store, "r1") == ["r1"]


def test_response_is_deleted_once() -> None:
    store = filled(1)
    assert store.delete("a", "r0")
    assert not store.delete("a", "r0")
    assert len(store) == 0


def test_response_of_the_same_id_is_replaced() -> None:
    store = MemoryStore()
    store.put("a", response("r1", None, "x"))
    store.put("a", response("r1", None, "y"))
    assert len(store) == 1
    assert store.find("a", Lookup(None, ("x", "y"))).items.keys() == {"y"}


@pytest.mark.parametrize(("count", "first"), [(2, "r0"), (3, "r0"), (4, "r1")])
def test_number_of_responses_is_bounded(count: int, first: str) -> None:
    store = filled(count, max_responses=3)
    assert len(store) == min(count, 3)
    assert chain(store, first) == [first]
    assert chain(store, f"r{int(first[1]) - 1}") == []


def test_responses_that_nobody_asks_for_are_forgotten() -> None:
    store = filled(10, max_responses=3)
    assert len(store._entries) == 3  # `len(store)` would forget them itself


@pytest.mark.parametrize(("bound", "count"), [(299, 2), (300, 3), (301, 3)])
def test_bytes_are_bounded(bound: int, count: int) -> None:
    store = MemoryStore(max_bytes=bound)
    for number in range(3):
        store.put("a", response(f"r{number}", size=100))
    assert len(store) == count


def test_deleted_and_replaced_responses_take_no_bytes() -> None:
    store = MemoryStore(max_bytes=300)
    for number in range(3):
        store.put("a", response(f"r{number}", size=100))
    store.put("a", response("r0", size=50))
    store.delete("a", "r1")
    store.put("a", response("r3", size=150))
    assert len(store) == 3


def test_response_beyond_the_bound_is_not_stored() -> None:
    store = filled(2, max_bytes=300)
    store.put("a", response("r2", size=301))
    store.put("a", response("r1", size=301))
    assert [chain(store, id) for id in ("r0", "r1", "r2")] == [["r0"], [], []]


def test_size_counts_many_small_items() -> None:
    small = response("r", None, *[str(number) for number in range(1000)])
    assert small.size > 500_000


@pytest.mark.parametrize(("after", "is_found"), [(9.9, True), (10.0, False)])
def test_response_is_forgotten_when_it_was_not_used(after: float, is_found: bool) -> None:
    clock = Clock()
    store = MemoryStore(max_age_s=10, clock=clock)
    store.put("a", response("r1", None, "x"))
    store.put("a", response("r2", "r1"))
    clock.now = 5
    store.find("a", Lookup("r2"))
    clock.now = 5 + after
    assert len(store) == (2 if is_found else 0)
    assert bool(store.find("a", Lookup(None, ("x",))).items) == is_found


def test_forgotten_response_cannot_be_deleted() -> None:
    clock = Clock()
    store = MemoryStore(max_age_s=10, clock=clock)
    store.put("a", response("r1"))
    clock.now = 10
    assert not store.delete("a", "r1")


def test_used_item_keeps_its_response() -> None:
    store = MemoryStore(max_responses=2)
    store.put("a", response("r1", None, "x"))
    store.put("a", response("r2"))
    store.find("a", Lookup(None, ("x",)))
    store.put("a", response("r3"))
    assert [chain(store, id) for id in ("r1", "r2", "r3")] == [["r1"], [], ["r3"]]


def test_chain_loses_its_end_before_its_start() -> None:
    store = MemoryStore(max_responses=3)
    for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r2")):
        store.put("a", response(id, previous))
    store.put("a", response("s1"))
    assert [chain(store, id) for id in ("r3", "r2", "s1")] == [[], ["r2", "r1"], ["s1"]]


@pytest.mark.parametrize("bounds", [{"max_responses": 3}, {"max_bytes": 3 * (512 + 24)}])
def test_chain_that_fills_the_store_is_not_stored_further(bounds: dict[str, int]) -> None:
    """Its caller learns that; to store the response would be to forget it at once."""
    store = MemoryStore(**bounds)
    ends = [(f"r{number}", f"r{number - 1}" if number else None) for number in range(4)]
    stored = [store.put("a", response(id, previous, "i0")) for id, previous in ends]
    assert stored == [True, True, True, False]
    assert chain(store, "r3") == []
    assert chain(store, "r2") == ["r2", "r1", "r0"]


def test_nothing_is_forgotten_for_a_response_that_is_not_stored() -> None:
    store = MemoryStore(max_bytes=3 * (512 + 24))
    for id, previous in (("s1", None), ("r1", None), ("r2", "r1")):
        store.put("a", response(id, previous, "i0"))
    assert not store.put("a", response("r3", "r2", "i0", size=1))
    assert len(store) == 3
    assert store.put("a", response("r3", "r2", "i0"))
    assert [chain(store, id) for id in ("s1", "r3")] == [[], ["r3", "r2", "r1"]]


def test_chain_that_exceeds_the_bytes_loses_bodies_before_its_end() -> None:
    store = MemoryStore(max_bytes=3000)
    store.put("a", response("r1", None, "x", size=1000))
    store.put("a", response("r2", "r1", size=1000))
    assert store.put("a", response("r3", "r2", size=1000))
    store.put("a", response("s1", size=500))
    assert chain(store, "r3") == ["r3", "r2", "r1"]
    bodies = [store.find("a", Lookup(id)).chain[0].body for id in ("r1", "r2", "r3", "s1")]
    assert [len(body) for body in bodies] == [0, 0, 1000, 500]


def test_chain_whose_items_fill_the_store_is_not_stored_further() -> None:
    store = MemoryStore(max_bytes=1500)
    assert store.put("a", response("r1", None, "x", "y", size=300))  # items take 512 bytes each
    assert not store.put("a", response("r2", "r1", size=600))
    assert len(store.find("a", Lookup("r1")).chain[0].body) == 300


def test_circle_is_found_once_and_forgotten() -> None:
    store = MemoryStore(max_responses=2)
    store.put("a", response("r1", "r2"))
    store.put("a", response("r2", "r1"))
    store.put("a", response("r3", "r3"))
    assert len(store) == 2
    assert chain(store, "r3") == ["r3"]


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "find", "refer", "delete"]), st.integers(0, 9), st.integers(0, 9)
    )
)


@given(STEPS)
def test_response_outlives_those_that_continue_it(steps: list[Step]) -> None:
    store, deleted = MemoryStore(max_responses=4), set[str]()
    previous_of: dict[str, str] = {}
    for action, one, other in steps:
        id, earlier = f"r{one}", f"r{other}"
        if action == "put" and other < one and id not in previous_of:
            has_earlier = bool(chain(store, earlier))
            previous_of[id] = earlier if has_earlier else ""
            store.put("a", response(id, earlier if has_earlier else None, f"i{one}"))
        elif action == "find":
            store.find("a", Lookup(id))
        elif action == "refer":
            store.find("a", Lookup(earlier, (f"i{one}", f"i{other}")))
        elif action == "delete" and store.delete("a", id):
            deleted.add(id)
        assert len(store) <= 4
    for id, earlier in previous_of.items():
        found = chain(store, id)
        if found and earlier and earlier not in deleted:
            assert found[1:2] == [earlier]


def test_threads_share_a_store() -> None:
    store = MemoryStore(max_responses=50)

    def work(worker: int) -> None:
        previous = None
        for number in range(200):
            id = f"r{worker}-{number}"
            store.put("a", response(id, previous, f"i{number}"))
            store.find("a", Lookup(id, (f"i{number}",)))
            previous = id

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(store) == 50


@pytest.mark.anyio
async def test_asynchronous_caller_has_the_same_store() -> None:
    store = MemoryStore()
    shared: ResponseStore = store
    twin: SyncResponseStore = store
    await shared.aput("a", response("r1", None, "x"))
    lookup = Lookup("r1", ("x",))
    assert await shared.afind("a", lookup) == twin.find("a", lookup)
    assert await shared.adelete("a", "r1")
    assert twin.find("a", lookup) == Found()
