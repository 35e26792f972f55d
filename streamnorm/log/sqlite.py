"""Log store in a SQLite file, for processes on one machine.

https://www.sqlite.org/wal.html (read 2026-11-23).  What was committed survives the end of any
process; with `synchronous = NORMAL` the last commits may be lost with the machine's power.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from streamnorm._core.errors import StoreError
from streamnorm.log.records import (
    FORMAT,
    LOST,
    Append,
    Reading,
    Record,
    Streams,
    accepts,
    bytes_of,
    gives_way,
    pack,
    unpack_chunks,
)
from streamnorm.state.stored import key_of

if TYPE_CHECKING:
    from sqlite3 import Connection

_APPLICATION = int.from_bytes(b"snlg", "big")
# Reads stand in a table of their own: SQLite writes a row anew as a whole.
_TABLES = """
CREATE TABLE streams (
    key INTEGER PRIMARY KEY,
    scope BLOB NOT NULL,
    id BLOB NOT NULL,
    epoch TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    count INTEGER NOT NULL,
    size INTEGER NOT NULL,
    is_cancelled INTEGER NOT NULL,
    ending BLOB,
    lease_until INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    is_expired INTEGER NOT NULL,
    linger INTEGER,
    followed INTEGER NOT NULL,
    UNIQUE (scope, id)
);
CREATE INDEX streams_by_expiry ON streams (expires);
CREATE INDEX cancelled_streams ON streams (epoch)
    WHERE is_cancelled AND ending IS NULL AND NOT is_expired;
CREATE TABLE reads (
    stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
    first INTEGER NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (stream, first)
)
"""
_RECORD = """
SELECT key, epoch, fingerprint, count, size, is_cancelled, ending, lease_until,
    is_expired OR expires <= :now, linger
FROM streams WHERE scope = :scope AND id = :id
"""
_CLAIM = """
INSERT INTO streams (
    scope, id, epoch, fingerprint, count, size, is_cancelled, ending, lease_until,
    expires, is_expired, linger, followed
)
VALUES (
    :scope, :id, :epoch, :fingerprint, 0, 0, 0, NULL, :lease_until, :expires, 0, :linger, :now
)
"""
# In the statements below a constant, which ruff cannot see.
_RUNNING = (
    "scope = :scope AND id = :id AND epoch = :epoch"
    " AND ending IS NULL AND NOT is_expired AND expires > :now"
)
_APPEND = """
UPDATE streams
SET count = count + :added, size = size + :bytes, ending = :ending,
    lease_until = :lease_until, expires = :expires
WHERE key = :key
"""
_END = f"""
UPDATE streams SET ending = :ending, expires = :expires
WHERE {_RUNNING} AND lease_until <= :now
"""  # noqa: S608
_FREE = f"DELETE FROM streams WHERE {_RUNNING} AND count = 0"  # noqa: S608
_CANCEL = """
UPDATE streams SET is_cancelled = 1
WHERE scope = :scope AND id = :id AND ending IS NULL AND NOT is_expired AND expires > :now
"""
_FOLLOW = f"UPDATE streams SET followed = :now WHERE {_RUNNING}"  # noqa: S608
_UNFOLLOWED = f"SELECT 1 FROM streams WHERE {_RUNNING} AND followed + linger <= :now"  # noqa: S608
# The first read behind a position may stand in a row that begins before it.
_READS = """
SELECT content FROM reads
WHERE stream = :key AND first >= (
    SELECT ifnull(max(first), 0) FROM reads WHERE stream = :key AND first <= :after + 1
)
ORDER BY first
"""
_EXPIRED = """
SELECT key, is_expired FROM streams WHERE expires <= :now ORDER BY expires LIMIT 4
"""
_NO_VALUES: Mapping[str, Any] = {}
# How soon a reader in another process looks whether anything was stored, and reads if it does not
# see that.
_MIN_POLL_S = 0.001
_MAX_POLL_S = 0.02


class SQLiteLogStore:
    """A `LogStore` in a SQLite file.

    Any number of processes and threads of one machine may share the file.

    Args:
        path: Path of the file, which is created if there is none.
        ttl_s: Seconds after its last change at which a stream is forgotten.
        timeout_s: Seconds to wait for other processes that write.
        clock: Returns the time in seconds, the same in all processes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ttl_s: float,
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time,
    ) -> None:
        # Not at the top: SQLite takes some ten milliseconds to load.
        from streamnorm.state.sqlite_file import Schema, SQLiteFile

        self._file = SQLiteFile(path, Schema(_APPLICATION, FORMAT, _TABLES), timeout_s)
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._clock = clock

    async def aclaim(
        self, scope: str, id: str, record: Record, *, replaces: bool | str = False
    ) -> tuple[Record, bool]:
        """Claim an id for a new stream; see `LogStore`."""
        return await to_thread.run_sync(self._claim, scope, id, record, replaces)

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        """Store appends of streams; see `LogStore`."""
        return await to_thread.run_sync(self._append_all, appends)

    async def aend(self, scope: str, id: str, epoch: str, ending: bytes) -> bool:
        """End a stream whose producer is dead; see `LogStore`."""
        values = {"epoch": epoch, "ending": ending}
        return await to_thread.run_sync(self._change, _END, scope, id, values)

    async def afree(self, scope: str, id: str, epoch: str) -> None:
        """Release the id of a stream of which nothing was stored; see `LogStore`."""
        await to_thread.run_sync(self._change, _FREE, scope, id, {"epoch": epoch})

    async def acancel(self, scope: str, id: str) -> bool:
        """Ask the producer of a stream to stop; see `LogStore`."""
        return await to_thread.run_sync(self._change, _CANCEL, scope, id)

    async def acancelled(self) -> set[str]:
        """Return the epochs of the running streams that were cancelled; see `LogStore`."""
        return await to_thread.run_sync(self._list_cancelled)

    async def afollow(self, followed: Streams, produced: Streams) -> set[str]:
        """Record the streams that are followed; see `LogStore`."""
        return await to_thread.run_sync(self._follow, followed, produced)

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        """Return a stream's record and the chunks after a position; see `LogStore`."""
        until = anyio.current_time() + wait_s
        poll_s = _MIN_POLL_S
        while True:
            version = self._file.version()
            reading = await to_thread.run_sync(self._read, scope, id, after, max_bytes)
            if reading is None or reading.chunks or not reading.record.is_running:
                return reading
            if not await self._wait(version, poll_s, until):
                return reading
            # Where other streams change, too, most looks are in vain.
            poll_s = min(2 * poll_s, _MAX_POLL_S)

    async def _wait(self, version: object, poll_s: float, until: float) -> bool:
        """Wait for a possible change of the file; return False at the deadline."""
        unseen_until = anyio.current_time() + _MAX_POLL_S
        while (now := anyio.current_time()) < until:
            if now >= unseen_until:
                return True
            await anyio.sleep(min(poll_s, until - now))
            if self._file.version() != version:
                return True
        return False

    async def aclose(self) -> None:
        """Close the file."""
        self._file.close()

    def _claim(
        self, scope: str, id: str, record: Record, replaces: bool | str
    ) -> tuple[Record, bool]:
        with self._file.connection() as connection, self._file.writing(connection):
            self._forget(connection)
            known = self._find(connection, scope, id)
            if known is not None and not gives_way(known[1], record, replaces=replaces):
                return known[1], known[1].epoch == record.epoch
            values = {
                **self._make_parameters(scope, id),
                "lease_until": self._later(record.lease_s),
            }
            values |= {"epoch": record.epoch, "fingerprint": record.fingerprint}
            values["linger"] = None if record.linger_s is None else int(record.linger_s * 1000)
            connection.execute("DELETE FROM streams WHERE scope = :scope AND id = :id", values)
            connection.execute(_CLAIM, values)
            return record, True

    def _append_all(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        results: list[bool | StoreError] = []
        with self._file.connection() as connection, self._file.writing(connection):
            for append in appends:
                try:
                    results.append(self._append(connection, append))
                except StoreError as exc:
                    results.append(exc)
        return results

    def _append(self, connection: Connection, append: Append) -> bool:
        scope, id, _, chunk, lease_s, ending = append
        found = self._find(connection, scope, id)
        if found is None:
            raise StoreError(LOST)
        key, record = found
        if not accepts(record, append):
            return False
        added = [] if chunk.last == record.count else chunk.reads
        values = {
            **self._make_parameters(scope, id),
            "lease_until": self._later(lease_s),
            "key": key,
        }
        values |= {"added": len(added), "bytes": sum(map(len, added)), "ending": ending}
        connection.execute(_APPEND, values)
        if added:
            connection.execute(
                "INSERT INTO reads VALUES (?, ?, ?)", (key, chunk.first, pack(chunk))
            )
        return True

    def _change(
        self, statement: str, scope: str, id: str, values: Mapping[str, Any] = _NO_VALUES
    ) -> bool:
        with self._file.connection() as connection, self._file.writing(connection):
            return (
                connection.execute(
                    statement, {**self._make_parameters(scope, id), **values}
                ).rowcount
                > 0
            )

    def _list_cancelled(self) -> set[str]:
        with self._file.connection() as connection:
            rows = connection.execute(
                "SELECT epoch FROM streams WHERE is_cancelled AND ending IS NULL AND NOT is_expired"
            ).fetchall()
        return {epoch for [epoch] in rows if isinstance(epoch, str)}

    def _follow(self, followed: Streams, produced: Streams) -> set[str]:
        with self._file.connection() as connection:
            if followed:
                with self._file.writing(connection):
                    for epoch, key in followed.items():
                        connection.execute(_FOLLOW, {**self._make_parameters(*key), "epoch": epoch})
            return {
                epoch
                for epoch, key in produced.items()
                if connection.execute(
                    _UNFOLLOWED, {**self._make_parameters(*key), "epoch": epoch}
                ).fetchone()
            }

    def _read(self, scope: str, id: str, after: int, max_bytes: int) -> Reading | None:
        from streamnorm.state.sqlite_file import transaction

        with self._file.connection() as connection, transaction(connection, "BEGIN"):
            found = self._find(connection, scope, id)
            if found is None:
                return None
            key, record = found
            contents: list[bytes] = []
            size = 0
            if after < record.count and not record.is_expired:
                cursor = connection.execute(_READS, {"key": key, "after": after})
                for [content] in cursor:
                    size += len(bytes_of(content))
                    if contents and size > max_bytes:
                        break
                    contents.append(content)
                cursor.close()
            return Reading(record, unpack_chunks(len(contents), *contents))

    def _find(self, connection: Connection, scope: str, id: str) -> tuple[int, Record] | None:
        row = connection.execute(_RECORD, self._make_parameters(scope, id)).fetchone()
        if row is None:
            return None
        key, epoch, fingerprint, count, size, cancelled, ending, lease, expired, linger = row
        kinds = (str, bytes, int, int, int)
        if not all(map(isinstance, (epoch, fingerprint, count, size, lease), kinds)):
            raise StoreError("the store holds a damaged stream")
        lease_s = lease / 1000 - self._clock()
        return key, Record(
            epoch,
            fingerprint,
            count,
            size,
            bool(cancelled),
            ending,
            lease_s,
            bool(expired),
            None if linger is None else linger / 1000,
        )

    def _forget(self, connection: Connection) -> None:
        """Delete the bytes of some expired streams, and later the streams' ids."""
        now = {"now": self._later(0)}
        for key, is_expired in connection.execute(_EXPIRED, now).fetchall():
            if is_expired:
                connection.execute("DELETE FROM streams WHERE key = ?", (key,))
                continue
            connection.execute("DELETE FROM reads WHERE stream = ?", (key,))
            connection.execute(
                "UPDATE streams SET is_expired = 1, size = 0, expires = expires + ? WHERE key = ?",
                (self._ttl_ms, key),
            )

    def _make_parameters(self, scope: str, id: str) -> dict[str, Any]:
        now = self._later(0)
        return {
            "scope": key_of(scope),
            "id": key_of(id),
            "now": now,
            "expires": now + self._ttl_ms,
        }

    def _later(self, seconds: float) -> int:
        """Return the time `seconds` from now, in milliseconds since 1970."""
        return int((self._clock() + seconds) * 1000)
