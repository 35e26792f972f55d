"""A SQLite file that is locked, full, damaged, or somebody else's: an error that says so."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.state.responses import response

from streamnorm.state import Lookup, SQLiteStore, StoreError
from streamnorm.state.sqlite_file import _create, _create_file, _use_write_ahead_log

_ALL = Lookup("r1", ("x",))


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    """Provide a store of two responses, which waits for nobody."""
    store = SQLiteStore(path, timeout_s=0.01)
    store.put("a", response("r0"))
    store.put("a", response("r1", "r0", "x"))
    yield store
    store.close()


def change(path: Path, statements: str) -> None:
    """Run statements on a file, as another application."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(statements)


def test_locked_file(store: SQLiteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"^the store is locked by another process$"):
            store.put("a", response("r2"))
        assert len(store.find("a", Lookup("r1")).chain) == 2
    store.put("a", response("r2"))


def test_new_file_that_another_process_has_locked(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        store = SQLiteStore(path, timeout_s=0.02)
        with pytest.raises(StoreError, match=r"^the store is locked by another process$"):
            store.put("a", response("r1"))


def test_switch_to_the_log_is_tried_again(path: Path) -> None:
    with (
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
        closing(sqlite3.connect(path, timeout=0)) as connection,
    ):
        other.execute("BEGIN EXCLUSIVE")
        release = Timer(0.02, other.rollback)
        release.start()
        _use_write_ahead_log(connection, 10)
        release.join()
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_thread_waits_for_another_for_some_time_only(store: SQLiteStore) -> None:
    with (
        store._file.connection() as connection,
        store._file.writing(connection),
        pytest.raises(StoreError, match=r"^the store is locked by another thread$"),
    ):
        store.delete("a", "r1")
    assert store.delete("a", "r1")


def test_full_disk(store: SQLiteStore) -> None:
    with store._file.connection() as connection:
        connection.execute("PRAGMA max_page_count = 12")
    with pytest.raises(StoreError, match=r"^the store has no space left on its disk$"):
        store.put("a", response("r1", size=100_000))
    assert len(store.find("a", _ALL).chain) == 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "the store cannot be opened: its file cannot be written"),
        ("missing/state.db", "the store cannot be opened: its file cannot be written"),
        ("a\0b", "the store cannot be opened: its file cannot be written"),
        ("text", "the store is no SQLite database"),
    ],
)
def test_path_of_no_database(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "text").write_bytes(b"secret" * 1000)
    store = SQLiteStore(f"{tmp_path}/{name}")
    with pytest.raises(StoreError) as caught:
        store.find("a", _ALL)
    assert str(caught.value) == expected


def test_database_of_another_application(path: Path) -> None:
    change(path, "CREATE TABLE responses (id)")
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match=r"^the store is a database of another application$"):
        store.put("a", response("r1"))
    change(path, "INSERT INTO responses VALUES (1)")  # which is unchanged, and not locked


def test_file_of_another_release(store: SQLiteStore, path: Path) -> None:
    store.close()
    change(path, "PRAGMA user_version = 3")
    with pytest.raises(StoreError, match=r"^the store has schema 3, expected 2$"):
        store.find("a", _ALL)


def test_file_that_two_processes_create(store: SQLiteStore) -> None:
    with store._file.connection() as connection:
        _create(connection, store._file._schema)  # as the second one does when the first has ended
    assert len(store.find("a", _ALL).chain) == 2


def test_damaged_pages(store: SQLiteStore, path: Path) -> None:
    store.close()
    data = bytearray(path.read_bytes())
    data[8192:] = bytes(byte ^ 0x5A for byte in data[8192:])
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"^the store is damaged$"):
        store.find("a", _ALL)


def test_damaged_schema(store: SQLiteStore, path: Path) -> None:
    store.close()
    path.write_bytes(path.read_bytes().replace(b"scope BLOB", b"sc\xffpe BLOB"))
    with pytest.raises(StoreError, match=r"^the store is damaged$"):
        store.find("a", _ALL)


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a store of a chain of responses."""
    path = tmp_path_factory.mktemp("whole") / "state.db"
    store = SQLiteStore(path)
    for number in range(8):
        store.put("a", response(f"r{number}", f"r{number - 1}" if number else None, "x", size=300))
    store.close()
    return path.read_bytes()


@given(changes=st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 255)), min_size=1))
def test_any_damage_is_an_error_of_ours(whole_file: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(whole_file)
    for at, byte in changes:
        data[at % len(data)] = byte
    with TemporaryDirectory() as folder:
        path = Path(folder, "state.db")
        path.write_bytes(data)
        store = SQLiteStore(path, timeout_s=0.01)
        for work in (
            lambda: store.find("a", Lookup("r7", ("x",))),
            lambda: store.put("a", response("r8", "r7", "y")),
            lambda: store.delete("a", "r3"),
        ):
            with suppress(StoreError):
                work()
        store.close()


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("UPDATE contents SET content = 'text'", "str as a response, expected bytes"),
        ("UPDATE contents SET content = x'93c0'", "a damaged response"),
        ("UPDATE contents SET content = x'93c40090'", "a damaged response"),
        ("UPDATE contents SET content = x'93c400909192c401ffc400'", "an id that is no UTF-8"),
        ("UPDATE bodies SET body = 'text'", "str as a body, expected bytes"),
        ("UPDATE responses SET previous = 5", "int as an id, expected bytes"),
        ("UPDATE responses SET previous = x'ff' WHERE previous NOT NULL", "an id that is no UTF-8"),
    ],
)
def test_damaged_response(store: SQLiteStore, path: Path, statements: str, expected: str) -> None:
    change(path, statements)
    with pytest.raises(StoreError) as caught:
        store.find("a", Lookup("r1"))
    assert str(caught.value) == f"the store holds {expected}"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("UPDATE responses SET expires = 'late'", (["r1", "r0"], ["x"])),
        ("DELETE FROM contents", ([], [])),
        ("DELETE FROM items", (["r1", "r0"], [])),
        ("DELETE FROM responses", ([], [])),
        ("UPDATE contents SET content = x'93c4009090'", (["r1", "r0"], [])),
        ("UPDATE responses SET scope = x'62'", ([], [])),
    ],
)
def test_damaged_rows(
    store: SQLiteStore, path: Path, statements: str, expected: tuple[list[str], list[str]]
) -> None:
    change(path, statements)
    found = store.find("a", _ALL)
    assert ([response.id for response in found.chain], [*found.items]) == expected


def test_missing_table(store: SQLiteStore, path: Path) -> None:
    change(path, "DROP TABLE contents")
    with pytest.raises(StoreError, match=r"^the store failed$"):
        store.find("a", _ALL)


def test_failed_connection_is_not_used_again(store: SQLiteStore) -> None:
    with pytest.raises(ZeroDivisionError), store._file.connection() as failed:
        _ = 1 / 0
    with store._file.connection() as connection:
        assert connection is not failed
    with pytest.raises(sqlite3.ProgrammingError):
        failed.execute("SELECT 1")


@pytest.mark.parametrize("leftover", [(), ("-wal", "-shm")], ids=["all", "log_stays"])
def test_deleted_file_is_made_anew(
    store: SQLiteStore, path: Path, leftover: tuple[str, ...]
) -> None:
    """Connections to a deleted file write to it, and nobody else ever reads that."""
    for suffix in {"", "-wal", "-shm"} - {*leftover}:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert store.find("a", _ALL).chain == ()
    store.put("a", response("r2"))
    other = SQLiteStore(path)
    assert len(other.find("a", Lookup("r2")).chain) == 1
    assert other.find("a", _ALL).chain == ()
    other.close()


def test_file_that_was_replaced_is_read(store: SQLiteStore, path: Path, tmp_path: Path) -> None:
    """As a restored backup replaces it."""
    restored = SQLiteStore(tmp_path / "restored.db")
    restored.put("a", response("r7"))
    restored.close()
    (tmp_path / "restored.db").replace(path)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    assert len(store.find("a", Lookup("r7")).chain) == 1


def test_file_that_is_deleted_while_it_is_used(store: SQLiteStore, path: Path) -> None:
    with store._file.connection() as connection:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink()
        store.put("a", response("r2"))  # opens the new file
    assert len(store.find("a", Lookup("r2")).chain) == 1
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")  # it is closed, not used again


def test_file_that_another_process_has_made_anew_stays(store: SQLiteStore, path: Path) -> None:
    _create_file(str(path))
    assert len(store.find("a", _ALL).chain) == 2


def test_file_is_made_without_locks_of_folders(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    store = SQLiteStore(path)
    store.put("a", response("r1"))
    assert path.stat().st_mode & 0o777 == 0o600
    store.close()


def test_deleted_folder_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    store = SQLiteStore(folder / "state.db")
    store.put("a", response("r1"))
    shutil.rmtree(folder)
    with pytest.raises(StoreError, match=r"^the store cannot be opened"):
        store.put("a", response("r2"))


def test_processes_that_make_a_deleted_file_anew_share_it(path: Path) -> None:
    """Each finds that the file is gone, and none deletes the log of another."""
    stores = [SQLiteStore(path) for _ in range(4)]
    for round in range(5):
        for number, store in enumerate(stores):
            store.put("a", response(f"r{round}.{number}"))
        path.unlink()  # its log stays
        with ThreadPoolExecutor(4) as pool:
            work = [
                pool.submit(store.put, "a", response(f"s{round}.{number}"))
                for number, store in enumerate(stores)
            ]
            for done in work:
                done.result()
        for number in range(4):
            for store in stores:
                assert len(store.find("a", Lookup(f"s{round}.{number}")).chain) == 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for store in stores:
        store.close()


OTHER = """
import sys
from support.state.responses import response
from streamnorm.state import Lookup, SQLiteStore

store = SQLiteStore(sys.argv[1])
store.put("a", response("other"))
print(len(store.find("a", Lookup(sys.argv[2])).chain))
store.close()
"""


def test_process_that_ends_leaves_the_log_to_those_that_use_it(
    store: SQLiteStore, path: Path
) -> None:
    """SQLite deletes the log with the last connection, of which it learns by locks.

    To close any descriptor of the file releases all that the process has.
    """

    def find(id: str) -> str:
        env = {"PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", OTHER, str(path), id]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    with store._file.connection():
        store.put("a", response("r2"))  # by another connection
        assert find("r2") == "1\n"
    store.put("a", response("r3"))
    assert find("r3") == "1\n"
    assert len(store.find("a", Lookup("r3")).chain) == 1
