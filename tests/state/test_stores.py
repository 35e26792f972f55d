"""What all stores do alike."""

from __future__ import annotations

import pytest
from support.state.responses import response
from support.state.stores import MAX_BYTES, AnyStore, chain_in, items_in

from streamnorm.state import Found, Item, Lookup, StoredResponse

pytestmark = pytest.mark.anyio

ODD_IDS = ["", "\0", "\ud800", "é", "a" * 2000, "}:r:", "'; --", "{a}", "1", "r:1"]


@pytest.fixture
def anyio_backend(kind: str) -> str:
    """Use each store on the back ends that it is for."""
    return kind.partition("-")[2] or "asyncio"


async def test_empty_lookup_finds_nothing(store: AnyStore) -> None:
    await store.aput("a", response("r1"))
    assert await store.afind("a", Lookup()) == Found()


async def test_response_is_found_as_it_was_stored(store: AnyStore) -> None:
    first = StoredResponse("r1", None, b"{}", (Item("i1", b'{"a": "\xc3\xa9"}'),), ())
    second = StoredResponse("r2", "r1", b'{"b":1}', (), (Item("i2", b"{}"), Item("i3", b"[]")))
    await store.aput("a", first)
    await store.aput("a", second)
    found = await store.afind("a", Lookup("r2", ("i1", "i2", "i3", "i4")))
    items = {"i1": first.input[0], "i2": second.output[0], "i3": second.output[1]}
    bare = StoredResponse("r1", None, b"", first.input, ())
    assert found == Found((second, bare), items)
    assert await store.afind("a", Lookup("r1")) == Found((first,))


async def test_chain_is_found_from_its_end(store: AnyStore) -> None:
    for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r2")):
        await store.aput("a", response(id, previous))
    assert await chain_in(store, "r3") == ["r3", "r2", "r1"]
    assert await chain_in(store, "r2") == ["r2", "r1"]
    assert await chain_in(store, "r4") == []


async def test_chain_ends_at_a_response_that_is_missing(store: AnyStore) -> None:
    for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r2")):
        await store.aput("a", response(id, previous))
    await store.adelete("a", "r2")
    assert await chain_in(store, "r3") == ["r3"]
    assert await chain_in(store, "r1") == ["r1"]


async def test_response_can_be_continued_twice(store: AnyStore) -> None:
    for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r1")):
        await store.aput("a", response(id, previous))
    assert await chain_in(store, "r2") == ["r2", "r1"]
    assert await chain_in(store, "r3") == ["r3", "r1"]


async def test_item_is_that_of_the_response_stored_last(store: AnyStore) -> None:
    await store.aput("a", response("r1", None, "x", "y"))
    await store.aput("a", response("r2", None, "x"))
    expected = {"x": b'{"id": "x", "of": "r2"}', "y": b'{"id": "y", "of": "r1"}'}
    assert await items_in(store, "x", "y", "z") == expected
    await store.adelete("a", "r2")
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "r1"}'}


async def test_item_that_occurs_twice_in_a_response_is_found_and_deleted(store: AnyStore) -> None:
    twice = StoredResponse("r1", None, b"{}", (Item("x", b"1"),), (Item("x", b"2"),))
    await store.aput("a", twice)
    assert await items_in(store, "x", "x") == {"x": b"2"}
    assert await store.adelete("a", "r1")
    assert await items_in(store, "x") == {}


async def test_item_of_a_response_replaced_without_it_is_not_found(store: AnyStore) -> None:
    await store.aput("a", response("r1", None, "x"))
    await store.aput("a", response("r1", None, "y"))
    assert await items_in(store, "x", "y") == {"y": b'{"id": "y", "of": "r1"}'}
    assert await chain_in(store, "r1") == ["r1"]


async def test_item_of_very_many_responses_is_found_as_long_as_one_is_stored(
    store: AnyStore,
) -> None:
    for number in range(70):
        await store.aput("a", response(f"r{number}", None, "x"))
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "r69"}'}
    for number in range(69, 0, -1):
        await store.adelete("a", f"r{number}")
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "r0"}'}


async def test_response_is_deleted_once(store: AnyStore) -> None:
    await store.aput("a", response("r1"))
    assert await store.adelete("a", "r1")
    assert not await store.adelete("a", "r1")
    assert await chain_in(store, "r1") == []


@pytest.mark.parametrize("other", ["b", "a}:r:r1", "", "A", "a\0"])
async def test_scopes_are_separate(store: AnyStore, other: str) -> None:
    await store.aput("a", response("r1", None, "x"))
    await store.aput(other, response("r2", "r1"))
    assert await store.afind(other, Lookup("r1", ("x",))) == Found()
    assert await chain_in(store, "r2", other) == ["r2"]
    assert not await store.adelete(other, "r1")
    assert await chain_in(store, "r1") == ["r1"]


async def test_id_of_two_scopes_names_two_responses(store: AnyStore) -> None:
    await store.aput("a", response("r1", None, "x"))
    await store.aput("b", response("r1", None, "y"))
    assert await store.adelete("b", "r1")
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "r1"}'}
    assert await chain_in(store, "r1") == ["r1"]


async def test_any_text_is_an_id(store: AnyStore) -> None:
    previous = None
    for id in ODD_IDS:
        await store.aput("a", response(id, previous, id))
        previous = id
    assert await chain_in(store, ODD_IDS[-1]) == ODD_IDS[::-1]
    assert list(await items_in(store, *ODD_IDS)) == ODD_IDS
    for id in ODD_IDS:
        assert await store.adelete("a", id)


@pytest.mark.parametrize(("size", "is_stored"), [(MAX_BYTES - 4096, True), (MAX_BYTES + 1, False)])
async def test_response_beyond_the_bound_is_not_stored(
    store: AnyStore, size: int, *, is_stored: bool
) -> None:
    assert await store.aput("a", response("r1"))
    assert await store.aput("a", response("r1", size=size)) is is_stored
    found = await store.afind("a", Lookup("r1"))
    assert [len(found.body) for found in found.chain] == [size] * is_stored


async def test_bodies_do_not_fill_a_chain(store: AnyStore) -> None:
    """Each repeats the tools of its request, which may be larger than all items."""
    size = MAX_BYTES // 2
    for number in range(4):
        previous = f"r{number - 1}" if number else None
        assert await store.aput("a", response(f"r{number}", previous, f"i{number}", size=size))
    found = await store.afind("a", Lookup("r3", ("i0",)))
    assert [(found.id, len(found.body)) for found in found.chain] == [
        ("r3", size),
        ("r2", 0),
        ("r1", 0),
        ("r0", 0),
    ]
    assert list(found.items) == ["i0"]


async def test_circle_is_found_once(store: AnyStore) -> None:
    await store.aput("a", response("r1", "r2", "x"))
    await store.aput("a", response("r2", "r1"))
    await store.aput("a", response("r3", "r3"))
    assert await chain_in(store, "r1") == ["r1", "r2"]
    assert await chain_in(store, "r3") == ["r3"]
    assert list(await items_in(store, "x")) == ["x"]


async def test_lookup_finds_a_chain_and_items_of_it_and_others(store: AnyStore) -> None:
    await store.aput("a", response("r1", None, "x"))
    await store.aput("a", response("r2", "r1", "y"))
    await store.aput("a", response("r3", None, "z"))
    found = await store.afind("a", Lookup("r2", ("z", "x")))
    assert [response.id for response in found.chain] == ["r2", "r1"]
    assert {id: item.json for id, item in found.items.items()} == {
        "z": b'{"id": "z", "of": "r3"}',
        "x": b'{"id": "x", "of": "r1"}',
    }


async def test_closed_store_can_be_used_again(store: AnyStore) -> None:
    await store.aput("a", response("r1"))
    await store.aclose()
    assert await chain_in(store, "r1") == ["r1"]
