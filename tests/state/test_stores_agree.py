"""Whatever is stored, found and deleted: all stores find the same."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from support.state.responses import response
from support.state.stores import emptied

from streamnorm.state import Lookup, MemoryStore, RedisStore, SQLiteStore

IDS = st.sampled_from(["r1", "r2", "r3", "r4"])
ITEMS = st.lists(st.sampled_from(["x", "y", "z"]), max_size=3)
SCOPES = st.sampled_from(["a", "b"])
PUTS = st.tuples(st.just("put"), SCOPES, IDS, st.none() | IDS, ITEMS)
FINDS = st.tuples(st.just("find"), SCOPES, st.none() | IDS, st.none(), ITEMS)
DELETES = st.tuples(st.just("delete"), SCOPES, IDS, st.none(), st.just([]))
STEPS = st.lists(PUTS | FINDS | DELETES, max_size=30)
Step = tuple[str, str, str | None, str | None, list[str]]


async def compare(steps: list[Step], url: str) -> None:
    with TemporaryDirectory() as folder:
        memory, sqlite, redis = MemoryStore(), SQLiteStore(Path(folder, "db")), RedisStore(url)
        emptied(url)
        for action, scope, id, previous, items in steps:
            if action == "find":
                lookup = Lookup(id, tuple(items))
                expected = memory.find(scope, lookup)
                assert sqlite.find(scope, lookup) == expected
                assert await redis.afind(scope, lookup) == expected
            elif action == "put":
                stored = response(id or "", previous, *items)
                assert memory.put(scope, stored)
                assert sqlite.put(scope, stored)
                assert await redis.aput(scope, stored)
            else:
                expected_deleted = memory.delete(scope, id or "")
                assert sqlite.delete(scope, id or "") == expected_deleted
                assert await redis.adelete(scope, id or "") == expected_deleted
        sqlite.close()
        await redis.aclose()


@given(steps=STEPS)
def test_stores_agree(valkey_url: str, steps: list[Step]) -> None:
    asyncio.run(compare(steps, valkey_url))
