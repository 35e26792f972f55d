"""SQLite files with schemas, and connections to them.

https://www.sqlite.org/wal.html (read 2026-11-23).  With a write-ahead log readers and the one
writer do not wait for each other, and what was committed survives the end of any process.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from sqlite3 import Connection
from threading import Lock
from time import monotonic, sleep
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from uuid import uuid4

from streamnorm._core.errors import StoreError

FileID: TypeAlias = tuple[int, int]
"""Device and inode of a file."""

# What it means that SQLite fails, by its primary result code.
_FAILURES = {
    5: "is locked by another process",
    6: "is locked",
    8: "is read-only",
    10: "has a disk that fails",
    11: "is damaged",
    13: "has no space left on its disk",
    14: "cannot be opened",
    26: "is no SQLite database",
}
_BUSY, _CORRUPT = 5, 11
_RETRY_S = 0.01
_MAX_IDLE = 8  # connections


class Schema(NamedTuple):
    """Schema of one kind of store's files.

    Attributes:
        application: `PRAGMA application_id` of the files.
        version: `PRAGMA user_version`.
        statements: What creates the tables.
        upgrades: What makes this version of an earlier one, by that.
    """

    application: int
    version: int
    statements: str
    upgrades: Mapping[int, str] = MappingProxyType({})


class SQLiteFile:
    """A file shared by processes and threads of one machine.

    Args:
        path: Path of the file, which is created if there is none.
        schema: The schema.
        timeout_s: Seconds to wait for other processes that write.
    """

    def __init__(self, path: str | os.PathLike[str], schema: Schema, timeout_s: float) -> None:
        self._path = os.path.abspath(path)
        self._schema = schema
        self._timeout_s = timeout_s
        self._forget_connections()

    @contextmanager
    def connection(self) -> Generator[Connection]:
        """Lend a connection; close it after an error.

        Raises:
            StoreError: SQLite failed.
        """
        if self._process != os.getpid():
            # A child must not use the connections of its parent, nor close them.
            self._inherited = self._idle
            self._forget_connections()
        try:
            connection, file = self._pop_idle(identify_file(self._path)) or connect(
                self._path, self._schema, self._timeout_s
            )
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, UnicodeError) as exc:
            raise failure(exc) from exc
        if len(self._idle) < _MAX_IDLE:
            self._idle.append((connection, file))
        else:
            connection.close()

    @contextmanager
    def writing(self, connection: Connection) -> Generator[None]:
        """Commit the writes that are made in the `with` block.

        Raises:
            StoreError: Another thread writes for too long.
        """
        lock = self._write_lock
        if not lock.acquire(timeout=self._timeout_s):
            raise StoreError("the store is locked by another thread")
        try:
            # A transaction that begins by reading cannot wait for another writer
            # (https://www.sqlite.org/lang_transaction.html, read 2026-11-23).
            with transaction(connection, "BEGIN IMMEDIATE"):
                yield
        finally:
            lock.release()

    def version(self) -> tuple[int, int] | None:
        """Return a value that changes with every commit of any process."""
        try:
            status = os.stat(f"{self._path}-wal")
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        idle = self._idle
        self._forget_connections()
        for connection, _ in idle:
            connection.close()

    def _forget_connections(self) -> None:
        self._process = os.getpid()
        # Each with what identifies its file: a deleted or replaced one is used no longer.
        self._idle: list[tuple[Connection, FileID]] = []
        # SQLite polls for its lock; threads of one process wait here without.
        self._write_lock = Lock()

    def _pop_idle(self, file: FileID | None) -> tuple[Connection, FileID] | None:
        """Return an idle connection; close idle connections to a deleted file."""
        while True:
            try:
                idle = self._idle.pop()
            except IndexError:
                return None
            if idle[1] == file:
                return idle
            idle[0].close()


def connect(path: str, schema: Schema, timeout_s: float) -> tuple[Connection, FileID]:
    """Open a file, with its schema created if necessary; return the connection and file identity.

    Args:
        path: Path of the file.
        schema: The schema.
        timeout_s: Seconds to wait for other processes that write.

    Raises:
        StoreError: The file belongs to another application or release, or cannot be opened.
        sqlite3.Error: SQLite fails.
    """
    try:
        if not os.path.exists(path):
            _create_file(os.path.realpath(path))
        # If the file is replaced before SQLite opens it, the connection is not used again.
        file = identify_file(path)
        # No `open`: when it is closed, the process loses its locks on the file, and another
        # one deletes the log that it still writes (https://www.sqlite.org/howtocorrupt.html).
        if file is None or not (os.path.isfile(path) and os.access(path, os.R_OK | os.W_OK)):
            raise PermissionError
    except (OSError, ValueError) as exc:
        raise StoreError("the store cannot be opened: its file cannot be written") from exc
    connection = sqlite3.connect(
        path, timeout=timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        _use_write_ahead_log(connection, timeout_s)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if _marks(connection) != schema[:2]:
            with transaction(connection, "BEGIN IMMEDIATE"):
                _create(connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection, file


def identify_file(path: str) -> FileID | None:
    """Return a file's identity; None if there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


@contextmanager
def transaction(connection: Connection, begin: str) -> Generator[None]:
    """Commit the statements of the `with` block as one transaction."""
    connection.execute(begin)
    yield
    connection.execute("COMMIT")


def failure(error: sqlite3.Error | UnicodeError) -> StoreError:
    """Return the `StoreError` for an error of SQLite.

    A `UnicodeError` is one whose text quotes a damaged schema.
    """
    code = _CORRUPT if isinstance(error, UnicodeError) else getattr(error, "sqlite_errorcode", 0)
    code &= 0xFF
    return StoreError(f"the store {_FAILURES.get(code, 'failed')}")


def _create_file(path: str) -> None:
    """Create an empty file unless there is one, and remove a stale write-ahead log.

    Processes that have the deleted file open go on with its log and its index of that, until
    they notice; those of the new file must be others.
    """
    with _lock_folder(os.path.dirname(path)):
        if os.path.exists(path):
            return
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(path + suffix)
        new = f"{path}-{uuid4().hex}"
        # What clients say is not for other users of the machine.
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        os.rename(new, path)


@contextmanager
def _lock_folder(folder: str) -> Generator[None]:
    """Lock a folder, so that one process at a time creates files in it."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    file = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without such locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _use_write_ahead_log(connection: Connection, timeout_s: float) -> None:
    """Switch the file permanently to a write-ahead log."""
    end = monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
        except sqlite3.OperationalError as exc:
            # SQLite itself does not wait where two processes switch at once.
            if exc.sqlite_errorcode != _BUSY or monotonic() > end:
                raise
            sleep(_RETRY_S)
        else:
            return


def _marks(connection: Connection) -> tuple[int, int]:
    """Return the file's application id and schema version."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _create(connection: Connection, schema: Schema) -> None:
    """Create the schema if the file is still empty, or has an earlier version of it.

    Raises:
        StoreError: It has another.
    """
    application, version = _marks(connection)
    statements = schema.statements
    if application == schema.application:
        if version == schema.version:
            return  # another process has created it meanwhile
        if version not in schema.upgrades:
            raise StoreError(f"the store has schema {version}, expected {schema.version}")
        statements = schema.upgrades[version]
    elif connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
        raise StoreError("the store is a database of another application")
    for statement in statements.split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {schema.application}")
    connection.execute(f"PRAGMA user_version = {schema.version}")
