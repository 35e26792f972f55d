"""Stores outside the process: long chains, bounds, several users at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from support.state.responses import response
from support.state.stores import chain_in, emptied, items_in

from streamnorm.state import Item, Lookup, RedisStore, SQLiteStore, StoredResponse

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

MIB = 1024 * 1024


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'state.db'}"
    url: str = request.getfixturevalue("valkey_url")
    emptied(url)
    return url


class Opener:
    """Opens stores, and closes them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: list[SQLiteStore | RedisStore] = []

    def __call__(self, max_chain_bytes: int = 64 * MIB) -> SQLiteStore | RedisStore:
        store: SQLiteStore | RedisStore
        if self._url.startswith("sqlite:"):
            path = self._url.removeprefix("sqlite:")
            store = SQLiteStore(path, max_chain_bytes=max_chain_bytes)
        else:
            store = RedisStore(self._url, max_chain_bytes=max_chain_bytes)
        self._opened.append(store)
        return store

    async def aclose(self) -> None:
        for store in self._opened:
            await store.aclose()


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Opener]:
    """Provide a function that opens the store once more, as another process does."""
    opener = Opener(url)
    yield opener
    await opener.aclose()


async def stored(store: SQLiteStore | RedisStore, count: int, size: int) -> None:
    """Store a chain of responses, each with an item of a size."""
    previous = None
    for number in range(count):
        item = Item(f"i{number}", b" " * size)
        await store.aput("a", StoredResponse(f"r{number}", previous, b"{}", (), (item,)))
        previous = f"r{number}"


async def test_what_one_process_stores_another_finds(opened: Opener) -> None:
    one, other = opened(), opened()
    await stored(one, 2, 0)
    assert await chain_in(other, "r1") == ["r1", "r0"]
    assert await other.adelete("a", "r1")
    assert await chain_in(one, "r1") == []


async def test_chain_of_several_mebibytes_is_found(opened: Opener) -> None:
    store = opened()
    await stored(store, 12, MIB // 4)
    found = await store.afind("a", Lookup("r11", ("i3",)))
    assert [response.id for response in found.chain] == [f"r{n}" for n in range(11, -1, -1)]
    assert {len(response.output[0].json) for response in found.chain} == {MIB // 4}
    assert found.items["i3"] == found.chain[8].output[0]


async def test_items_of_several_mebibytes_are_found(opened: Opener) -> None:
    store = opened()
    items = [Item(f"i{number}", b"%d" % number * (MIB // 2)) for number in range(5)]
    for item in items:
        await store.aput("a", StoredResponse(f"r{item.id}", None, b"{}", (item,), ()))
    found = await store.afind("a", Lookup(None, tuple([item.id for item in items])))
    assert list(found.items.values()) == items


@pytest.mark.parametrize(("bound", "count"), [(29_999, 2), (30_000, 3), (30_001, 3)])
async def test_bytes_of_a_chain_are_bounded(opened: Opener, bound: int, count: int) -> None:
    await stored(opened(), 3, 10_000 - 4096 - 512)
    assert len(await chain_in(opened(bound), "r2")) == count
    assert len(await items_in(opened(bound), "i0", "i1", "i2")) == count


async def test_chain_and_items_share_the_bound(opened: Opener) -> None:
    await stored(opened(), 2, 10_000)
    found = await opened(15_000).afind("a", Lookup("r1", ("i0", "i1")))
    assert [response.id for response in found.chain] == ["r1"]
    assert "i0" not in found.items


async def test_many_callers_store_and_find_at_once(opened: Opener) -> None:
    stores = [opened(), opened()]
    found: dict[str, list[str]] = {}

    async def converse(name: str) -> None:
        store = stores[len(name) % 2]
        previous = None
        for number in range(5):
            id = f"{name}{number}"
            await store.aput(name, response(id, previous, "same"))
            assert await items_in(store, "same", scope=name) == {
                "same": b'{"id": "same", "of": "%s"}' % id.encode()
            }
            previous = id
        found[name] = await chain_in(store, f"{name}4", name)

    names = ["x" * number for number in range(1, 21)]
    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(converse, name)
    assert found == {name: [f"{name}{number}" for number in (4, 3, 2, 1, 0)] for name in names}
