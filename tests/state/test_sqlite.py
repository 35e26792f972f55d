"""The store in a SQLite file: its time to live, its connections, and what it costs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from anyio import fail_after, to_thread
from hypothesis import given
from hypothesis import strategies as st
from support.state.responses import response
from support.state.stores import Clock

from streamnorm.state import (
    Found,
    Item,
    Lookup,
    ResponseStore,
    SQLiteStore,
    StoredResponse,
    SyncResponseStore,
)

_opened: list[SQLiteStore] = []


@pytest.fixture(autouse=True)
def close_stores() -> Iterator[None]:
    """Close the stores that a test has opened."""
    yield
    while _opened:
        _opened.pop().close()


def opened(path: str | Path, clock: Clock | None = None) -> SQLiteStore:
    """Return a store whose responses expire after 32 seconds."""
    _opened.append(SQLiteStore(path, ttl_s=32, clock=clock or Clock()))
    return _opened[-1]


def chain(store: SQLiteStore, id: str) -> list[str]:
    return [found.id for found in store.find("a", Lookup(id)).chain]


def filled(path: Path, count: int, clock: Clock | None = None) -> SQLiteStore:
    """Return a store with a chain of `count` responses."""
    store = opened(path, clock)
    for number in range(count):
        store.put("a", response(f"r{number}", f"r{number - 1}" if number else None, f"i{number}"))
    return store


def rows_in(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [count] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - ours
        return int(count)


def test_store_has_both_kinds_of_methods(path: Path) -> None:
    asynchronous: ResponseStore = SQLiteStore(path)
    synchronous: SyncResponseStore = SQLiteStore(path)
    assert asynchronous is not synchronous
    assert not path.exists()  # before the first use


@pytest.mark.anyio
async def test_empty_lookup_waits_for_no_thread(path: Path) -> None:
    """Else requests without state would wait where a slow disk holds all threads."""
    limiter = to_thread.current_default_thread_limiter()
    threads = [object() for _ in range(int(limiter.total_tokens))]
    for thread in threads:
        limiter.acquire_on_behalf_of_nowait(thread)
    try:
        with fail_after(5):
            assert await opened(path).afind("a", Lookup()) == Found()
    finally:
        for thread in threads:
            limiter.release_on_behalf_of(thread)
    assert opened(path).find("a", Lookup()) == Found()


def test_file_is_for_its_owner_alone(path: Path) -> None:
    filled(path, 1)
    files = [path, *path.parent.glob("state.db-*")]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_what_was_stored_outlasts_the_store(path: Path) -> None:
    clock = Clock()
    filled(path, 2, clock).close()
    assert chain(opened(path, clock), "r1") == ["r1", "r0"]


# As releases before bodies had a table of their own created the file.
VERSION_1 = """
CREATE TABLE responses (
    key INTEGER PRIMARY KEY,
    scope BLOB NOT NULL,
    id BLOB NOT NULL,
    previous BLOB,
    expires INTEGER NOT NULL,
    UNIQUE (scope, id)
);
CREATE INDEX responses_by_expiry ON responses (expires);
CREATE TABLE contents (
    key INTEGER PRIMARY KEY REFERENCES responses ON DELETE CASCADE,
    content BLOB NOT NULL
);
CREATE TABLE items (
    scope BLOB NOT NULL,
    id BLOB NOT NULL,
    response INTEGER NOT NULL REFERENCES responses ON DELETE CASCADE,
    PRIMARY KEY (scope, id, response)
) WITHOUT ROWID;
CREATE INDEX items_by_response ON items (response);
PRAGMA application_id = 1936618356;
PRAGMA user_version = 1;
INSERT INTO responses VALUES (1, x'61', x'7231', NULL, 32000), (2, x'61', x'7232', x'7231', 32000);
INSERT INTO contents VALUES (1, x'93c4027b7d9192c40178c4027b7d90'), (2, x'93c4027b7d9090');
INSERT INTO items VALUES (x'61', x'78', 1);
"""


def test_file_of_an_earlier_release_is_read_and_extended(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(VERSION_1)
    store = opened(path)
    item = Item("x", b"{}")
    first, second = (
        StoredResponse("r1", None, b"{}", (item,), ()),
        StoredResponse("r2", "r1", b"{}", (), ()),
    )
    assert store.find("a", Lookup("r1", ("x",))) == Found((first,), {"x": item})
    store.put("a", response("r3", "r2", size=3))
    assert store.find("a", Lookup("r2")).chain[0] == second
    assert [len(found.body) for found in store.find("a", Lookup("r3")).chain] == [3, 0, 0]
    assert store.delete("a", "r2")
    store.close()
    assert chain(opened(path), "r3") == ["r3"]


def test_relative_path_stays_the_same_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    store = opened(path.name)
    monkeypatch.chdir("/")
    store.put("a", response("r1"))
    assert path.exists()


def test_no_name_stands_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened(":memory:").put("a", response("r1"))
    assert chain(opened(":memory:"), "r1") == ["r1"]


# Time to live


@pytest.mark.parametrize(("put_at", "until"), [(0, 32), (0.001, 33), (0.5, 33), (1, 33)])
def test_response_is_forgotten_after_its_time(path: Path, put_at: float, until: float) -> None:
    clock = Clock()
    clock.now = put_at
    store = filled(path, 1, clock)
    clock.now = until - 0.001
    with closing(sqlite3.connect(path)) as connection:
        [expires] = connection.execute("SELECT expires FROM responses").fetchone()
    assert expires == until * 1000
    clock.now = until
    assert chain(store, "r0") == []
    assert store.find("a", Lookup(None, ("i0",))) == Found()
    assert not store.delete("a", "r0")


def test_found_chain_is_stored_for_longer(path: Path) -> None:
    clock = Clock()
    store = filled(path, 3, clock)
    clock.now = 20
    assert chain(store, "r1") == ["r1", "r0"]
    clock.now = 51.9
    assert chain(store, "r2") == []
    assert chain(store, "r1") == ["r1", "r0"]


def test_found_item_stores_its_chain_for_longer(path: Path) -> None:
    clock = Clock()
    store = filled(path, 3, clock)
    clock.now = 20
    store.find("a", Lookup(None, ("i1", "i0")))
    clock.now = 51.9
    assert [chain(store, id) for id in ("r2", "r1")] == [[], ["r1", "r0"]]


def test_continued_chain_is_stored_for_longer(path: Path) -> None:
    clock = Clock()
    store = filled(path, 2, clock)
    clock.now = 31
    store.put("a", response("next", "r1"))
    clock.now = 62
    assert chain(store, "next") == ["next", "r1", "r0"]


def test_chain_that_is_used_often_is_rarely_written(path: Path) -> None:
    clock = Clock()
    store = filled(path, 3, clock)
    with closing(sqlite3.connect(path)) as connection:

        def version() -> object:
            return connection.execute("PRAGMA data_version").fetchone()

        chain(store, "r2")
        before = version()
        chain(store, "r2")
        assert version() == before
        clock.now = 1
        chain(store, "r2")
        assert version() != before


def test_put_removes_some_forgotten_responses_from_the_file(path: Path) -> None:
    clock = Clock()
    store = filled(path, 10, clock)
    clock.now = 32
    store.put("a", response("new", None, "item"))
    assert [rows_in(path, table) for table in ("responses", "contents", "bodies", "items")] == [
        7,
        7,
        7,
        7,
    ]
    for number in range(2):
        store.put("a", response(f"new{number}"))
    assert rows_in(path, "responses") == 3


def test_forgotten_response_is_replaced(path: Path) -> None:
    clock = Clock()
    store = filled(path, 1, clock)
    clock.now = 32
    store.put("a", response("r0", None, "x"))
    assert list(store.find("a", Lookup("r0", ("x", "i0"))).items) == ["x"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "find", "refer", "wait"]), st.integers(0, 9), st.integers(0, 9)
    )
)


@given(STEPS)
def test_response_outlives_those_that_continue_it(steps: list[tuple[str, int, int]]) -> None:
    clock = Clock()
    previous_of: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        store = SQLiteStore(Path(folder, "db"), ttl_s=32, clock=clock)
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
            elif action == "wait":
                clock.now += one + other / 10
        for id, earlier in previous_of.items():
            found = chain(store, id)
            if found and earlier:
                assert found[1:2] == [earlier]
        store.close()


# Connections


def test_connections_are_used_again(path: Path) -> None:
    store = opened(path)
    with store._file.connection() as one:
        pass
    with store._file.connection() as again:
        assert again is one


def test_unused_connections_are_closed_beyond_a_bound(path: Path) -> None:
    store = opened(path)
    with ExitStack() as stack:
        connections = [stack.enter_context(store._file.connection()) for _ in range(9)]
    assert len(store._file._idle) == 8
    idle = [connection for connection, _ in store._file._idle]
    [closed] = [connection for connection in connections if connection not in idle]
    with pytest.raises(sqlite3.ProgrammingError):
        closed.execute("SELECT 1")


def test_child_process_opens_connections_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(path, 1)
    [(connection, _)] = store._file._idle
    monkeypatch.setattr(os, "getpid", lambda: 0)
    assert chain(store, "r0") == ["r0"]
    assert connection not in [idle for idle, _ in store._file._idle]
    connection.close()


# Cost, in instructions of SQLite's virtual machine

COUNT = 60


def instructions(store: SQLiteStore, work: Callable[[], object]) -> int:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    with store._file.connection() as connection:
        connection.set_progress_handler(step, 10)
    work()
    with store._file.connection() as connection:
        connection.set_progress_handler(None, 0)
    return count


def find_chain(store: SQLiteStore, count: int) -> None:
    assert len(chain(store, f"r{count - 1}")) == count


def find_items(store: SQLiteStore, count: int) -> None:
    ids = tuple([f"i{number}" for number in range(count)])
    assert len(store.find("a", Lookup(None, ids)).items) == count


@pytest.mark.parametrize("after_s", [0, 5])
@pytest.mark.parametrize("work", [find_chain, find_items])
def test_cost_grows_in_proportion(
    tmp_path: Path, work: Callable[[SQLiteStore, int], None], after_s: float
) -> None:
    def cost(count: int) -> int:
        clock = Clock()
        store = filled(tmp_path / f"{count}.db", count, clock)
        clock.now = after_s
        return instructions(store, lambda: work(store, count))

    assert cost(4 * COUNT) < 4.4 * cost(COUNT)


def test_cost_of_the_next_response_does_not_grow(tmp_path: Path) -> None:
    def cost(count: int) -> int:
        store = filled(tmp_path / f"{count}.db", count)
        next_one = response("next", f"r{count - 1}", "item")
        return instructions(store, lambda: store.put("a", next_one))

    assert cost(4 * COUNT) < 1.2 * cost(COUNT)
