"""Stored responses for clients whose provider stores none.

https://platform.openai.com/docs/guides/conversation-state (read 2026-11-23).  By default a
client of the Responses API lets the server store each answer (`store`), and names it in the
next request (`previous_response_id`), or its items (`item_reference`).  Providers of other
dialects know nothing of this; here such a request becomes one with its whole input:

    turn = Turn(body)                                      # 1. the client's request
    found = await store.afind(scope, turn.lookup)
    request = decode_request(turn.expand(found))           # 2. the same with its whole input
    encoded = encode_request(request, upstream)
    reply = turn.reply(encoded.reply)                      # 3. for the writer of the answer
    ...                                                    # 4. transcode the answer with `reply`
    answer = encode_message(message, dialect, reply=reply).body
    if (stored := turn.stored(answer)) is not None:        # 5. before the client gets the end
        await store.aput(scope, stored)

Step 5 comes before the last bytes of the answer are passed on: a client may send its next
request as soon as it has read them.  An answer that failed or was cut is not stored.

`scope` separates callers: nothing stored under one scope is ever found under another.
`scope_of` makes one of a credential.

The other requests of the API are answered from the store alone:

    operation = read_operation(method, path, query)        # None: the request is none of them
    found = await store.afind(scope, operation.lookup)
    answer = operation.answer(found)
    if operation.deletes:
        await store.adelete(scope, operation.id)

A request that needs what is not stored raises `StateError`, here as in `Turn` and `expand`;
`error_body` writes the vendor's error.  It is never answered without its history: an agent
that is would repeat its first step for ever.

`MemoryStore` is for one process, `SQLiteStore` for the processes of one machine, `RedisStore`
for those of several; `open_store` returns the one that a URL names.  All have the methods of
`ResponseStore`, for asynchronous callers; the first two also those of `SyncResponseStore`, for
others.  A store that fails raises `StoreError`.
"""

from __future__ import annotations

from streamnorm._core.errors import StateError, StoreError
from streamnorm.state.redis import RedisStore
from streamnorm.state.sqlite import SQLiteStore
from streamnorm.state.stored import (
    DEFAULT_TTL_S,
    Found,
    Item,
    Lookup,
    MemoryStore,
    ResponseStore,
    StoredResponse,
    SyncResponseStore,
    scope_of,
)
from streamnorm.state.turn import Operation, Turn, error_body, read_operation

__all__ = [
    "Found",
    "Item",
    "Lookup",
    "MemoryStore",
    "Operation",
    "RedisStore",
    "ResponseStore",
    "SQLiteStore",
    "StateError",
    "StoreError",
    "StoredResponse",
    "SyncResponseStore",
    "Turn",
    "error_body",
    "open_store",
    "read_operation",
    "scope_of",
]


def open_store(url: str, *, ttl_s: float = DEFAULT_TTL_S) -> MemoryStore | SQLiteStore | RedisStore:
    """Return the store at a URL, which is opened at the first use.

    Args:
        url: `memory:` for one process; `sqlite:PATH` for the processes of one machine;
            `redis://`, `rediss://`, `valkey://` or `valkeys://` for those of several.
        ttl_s: Seconds after its last use at which a response is forgotten.

    Raises:
        ValueError: The URL names no store.
        ImportError: redis-py is needed and not installed.
    """
    scheme, _, rest = url.partition(":")
    if url == "memory:":
        return MemoryStore(max_age_s=ttl_s)
    if scheme == "sqlite" and rest:
        return SQLiteStore(rest, ttl_s=ttl_s)
    if scheme in ("redis", "rediss", "valkey", "valkeys"):
        return RedisStore(url, ttl_s=ttl_s)
    raise ValueError("no URL of a store, expected memory:, sqlite:PATH or redis://HOST")
