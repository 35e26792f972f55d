"""Response store in a SQLite file, for processes on one machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from time import time
from typing import TYPE_CHECKING

from streamnorm.state.stored import (
    DEFAULT_TTL_S,
    MAX_CHAIN_BYTES,
    RESPONSE_BYTES,
    Found,
    Item,
    Lookup,
    StoredResponse,
    id_of,
    key_of,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from sqlite3 import Connection


# Contents stand in a table of their own: SQLite writes a row anew as a whole, and `expires`
# changes often.  So do bodies, of which a lookup reads one, however long its chain is.
_TABLES = """
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
"""
_BODIES = """
CREATE TABLE bodies (
    key INTEGER PRIMARY KEY REFERENCES responses ON DELETE CASCADE,
    body BLOB NOT NULL
)
"""
_APPLICATION = int.from_bytes(b"snst", "big")
_VERSION = 2
# The contents of version 1 have the bodies in them.
_UPGRADES = {1: _BODIES}
# A recursive query returns its rows in the order in which it finds them, and UNION each once:
# a circle ends.  CROSS JOIN keeps that order.
_CHAIN = """
WITH RECURSIVE chain (key, id, previous, expires) AS (
    SELECT key, id, previous, expires FROM responses
    WHERE scope = :scope AND id = :id AND expires > :now
    UNION
    SELECT r.key, r.id, r.previous, r.expires
    FROM chain JOIN responses AS r ON r.scope = :scope AND r.id = chain.previous
    WHERE r.expires > :now
)
SELECT chain.key, chain.id, chain.previous, CAST(chain.expires AS INTEGER), contents.content
FROM chain CROSS JOIN contents ON contents.key = chain.key
"""
_NEWEST_WITH_ITEM = """
SELECT r.key, r.id, CAST(r.expires AS INTEGER)
FROM items JOIN responses AS r ON r.key = items.response
WHERE items.scope = :scope AND items.id = :id AND r.scope = :scope AND r.expires > :now
ORDER BY items.response DESC LIMIT 1
"""
# A response expires no later than the one that it continues, so the first that need not be
# refreshed ends the walk.
_REFRESH = """
UPDATE responses SET expires = :expires WHERE key IN (
    WITH RECURSIVE stale (key, previous) AS (
        SELECT key, previous FROM responses
        WHERE scope = :scope AND id = :id AND expires > :now AND expires < :expires
        UNION
        SELECT r.key, r.previous
        FROM stale JOIN responses AS r ON r.scope = :scope AND r.id = stale.previous
        WHERE r.expires > :now AND r.expires < :expires
    )
    SELECT key FROM stale
)
"""
_CLEAN = """
DELETE FROM responses WHERE key IN (
    SELECT key FROM responses WHERE expires <= :now ORDER BY expires LIMIT 4
)
"""
# By how much more than its time a response may be stored: chains are refreshed that seldom.
_STEPS = 32


class SQLiteStore:
    """A `ResponseStore` and `SyncResponseStore` in a SQLite file.

    Any number of processes and threads of one machine may share the file.  A response is
    forgotten at most 1/32 of `ttl_s` late; each `put` also removes some of those from the file.

    Args:
        path: Path of the file, which is created if there is none.
        ttl_s: Seconds after its last use at which a response is forgotten.
        max_chain_bytes: Bytes that a response, or the items that a lookup finds, take
            approximately.  A larger response is not stored, and of a longer chain only its end is
            found.
        timeout_s: Seconds to wait for other processes that write.
        clock: Returns the time in seconds, the same in all processes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ttl_s: float = DEFAULT_TTL_S,
        max_chain_bytes: int = MAX_CHAIN_BYTES,
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time,
    ) -> None:
        # Not at the top: SQLite takes some ten milliseconds to load.  Not later: a server that has
        # no free descriptor can load no module.
        from streamnorm.state.sqlite_file import Schema, SQLiteFile

        schema = Schema(_APPLICATION, _VERSION, _TABLES + _BODIES, _UPGRADES)
        self._file = SQLiteFile(path, schema, timeout_s)
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._max_chain_bytes = max_chain_bytes
        self._clock = clock

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items; see `ResponseStore`."""
        from anyio import to_thread

        if lookup == Lookup():
            return Found()  # all threads may wait for the disk
        return await to_thread.run_sync(self.find, scope, lookup)

    async def aput(self, scope: str, response: StoredResponse) -> bool:
        """Store a response; see `ResponseStore`."""
        from anyio import to_thread

        return await to_thread.run_sync(self.put, scope, response)

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; see `ResponseStore`."""
        from anyio import to_thread

        return await to_thread.run_sync(self.delete, scope, id)

    async def aclose(self) -> None:
        """Close the file."""
        self.close()

    def find(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items of a lookup."""
        from streamnorm.state.sqlite_file import transaction

        if lookup == Lookup():
            return Found()
        now, expires = self._times()
        with self._file.connection() as connection:
            reader = _Reader(connection, key_of(scope), now, self._max_chain_bytes)
            with transaction(connection, "BEGIN"):
                chain = reader.chain(lookup.response)
                items = reader.items(lookup.items)
            stale = [key for key, until in reader.used.items() if until < expires]
            if stale:
                with self._file.writing(connection):
                    for key in stale:
                        refreshed = {"scope": key_of(scope), "id": key}
                        connection.execute(_REFRESH, {**refreshed, "now": now, "expires": expires})
        return Found(tuple(chain), items)

    def put(self, scope: str, response: StoredResponse) -> bool:
        """Store a response in place of any response with the same id; return whether it fits."""
        now, expires = self._times()
        key = {"scope": key_of(scope), "id": key_of(response.id)}
        with self._file.connection() as connection, self._file.writing(connection):
            connection.execute("DELETE FROM responses WHERE scope = :scope AND id = :id", key)
            connection.execute(_CLEAN, {"now": now})
            # Behind the deletion: an older response of the id must not answer in its place.
            if response.size + RESPONSE_BYTES > self._max_chain_bytes:
                return False
            previous = None if response.previous is None else key_of(response.previous)
            number = connection.execute(
                "INSERT INTO responses (scope, id, previous, expires)"
                " VALUES (:scope, :id, :previous, :expires)",
                {**key, "previous": previous, "expires": expires},
            ).lastrowid
            connection.execute("INSERT INTO contents VALUES (?, ?)", (number, pack(response)))
            connection.execute("INSERT INTO bodies VALUES (?, ?)", (number, response.body))
            connection.executemany(
                "INSERT INTO items VALUES (?, ?, ?)",
                [(key["scope"], key_of(id), number) for id in response.items_by_id],
            )
            if previous is not None:
                used = {"scope": key["scope"], "id": previous}
                connection.execute(_REFRESH, {**used, "now": now, "expires": expires})
        return True

    def delete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; return whether it was stored."""
        now, _ = self._times()
        with self._file.connection() as connection, self._file.writing(connection):
            cursor = connection.execute(
                "DELETE FROM responses WHERE scope = ? AND id = ? AND expires > ?",
                (key_of(scope), key_of(id), now),
            )
            return cursor.rowcount > 0

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def _times(self) -> tuple[int, int]:
        """Return the current time and the expiry of a response used now, in milliseconds.

        The latter is rounded up to steps, so that most uses change nothing.
        """
        now = int(self._clock() * 1000)
        step = max(1, self._ttl_ms // _STEPS)
        return now, -(-(now + self._ttl_ms) // step) * step


class _Reader:
    """Reads the results of a lookup in one transaction.

    Args:
        connection: A connection in a transaction.
        scope: The scope.
        now: The time in milliseconds.
        max_bytes: Bytes to read, approximately.

    Attributes:
        used: Ids of the responses that are used, each with the time at which it expires; of
            a chain the last response alone.
    """

    def __init__(self, connection: Connection, scope: bytes, now: int, max_bytes: int) -> None:
        self.used: dict[bytes, int] = {}
        self._connection = connection
        self._known = {"scope": scope, "now": now}
        self._bytes_left = max_bytes

    def chain(self, id: str | None) -> list[StoredResponse]:
        """Return a chain of responses, newest first, up to a bound on its size."""
        chain: list[StoredResponse] = []
        if id is None:
            return chain
        with closing(self._connection.execute(_CHAIN, {**self._known, "id": key_of(id)})) as rows:
            for number, key, previous, expires, content in rows:
                earlier = None if previous is None else id_of(previous)
                body = b"" if chain else self._body(number)
                response = self._count_response(unpack(id_of(key), earlier, content, body))
                # A chain without its start is refused: reading on would be for nothing.
                if response is None:
                    break
                if not chain:
                    self.used[key] = expires
                chain.append(response)
        return chain

    def items(self, ids: Iterable[str]) -> dict[str, Item]:
        """Return items by id; of equal ids, the most recently stored item."""
        items: dict[str, Item] = {}
        items_of: dict[int, dict[str, Item]] = {}
        for id in dict.fromkeys(ids):
            query = {**self._known, "id": key_of(id)}
            holder = self._connection.execute(_NEWEST_WITH_ITEM, query).fetchone()
            if holder is None:
                continue
            number, key, expires = holder
            if number not in items_of:
                items_of[number] = self._items_of(number)
                self.used[key] = expires
            if id in items_of[number]:
                items[id] = items_of[number][id]
        return items

    def _body(self, number: int) -> object:
        row = self._connection.execute("SELECT body FROM bodies WHERE key = ?", (number,))
        return next(row, (None,))[0]

    def _items_of(self, number: int) -> dict[str, Item]:
        query = "SELECT content FROM contents WHERE key = ?"
        row = self._connection.execute(query, (number,)).fetchone()
        response = None if row is None else self._count_response(unpack("", None, row[0]))
        return {} if response is None else response.items_by_id

    def _count_response(self, response: StoredResponse) -> StoredResponse | None:
        """Return a response; None if its items and those read before exceed the bound."""
        self._bytes_left -= response.items_size + RESPONSE_BYTES
        return None if self._bytes_left < 0 else response
