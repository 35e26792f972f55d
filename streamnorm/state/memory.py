"""A bounded store in the memory of one process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import NamedTuple, TypeAlias

from streamnorm.state.stored import MAX_CHAIN_BYTES, Found, Item, Lookup, StoredResponse

_Key: TypeAlias = tuple[str, str]
"""Scope, and id of a response or an item."""


class _Entry(NamedTuple):
    """A stored response, its size, and when it was last used."""

    response: StoredResponse
    size: int
    used_at: float


class MemoryStore:
    """A store for one process: a `ResponseStore` and a `SyncResponseStore` in one.

    Beyond a bound, the response that was not used for the longest time is forgotten first.
    Using a response uses all that it continues, so none is forgotten before those that
    continue it: a chain loses its end before its start.

    Args:
        max_responses: Responses that are stored.
        max_bytes: Bytes that they take, approximately.  A larger response is not stored.
        max_age_s: Seconds after its last use at which a response is forgotten.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        *,
        max_responses: int = 4096,
        max_bytes: int = MAX_CHAIN_BYTES,
        max_age_s: float = 24 * 3600,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = Lock()  # a synchronous client may be shared by threads
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()  # least recently used first
        # By the id of an item, the responses that have it, each with the item.
        self._items: dict[_Key, dict[str, Item]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of responses that are stored."""
        with self._lock:
            self._expire()
            return len(self._entries)

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items; see `ResponseStore`."""
        return self.find(scope, lookup)

    async def aput(self, scope: str, response: StoredResponse) -> None:
        """Store a response; see `ResponseStore`."""
        self.put(scope, response)

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; see `ResponseStore`."""
        return self.delete(scope, id)

    async def aclose(self) -> None:
        """Return at once: there is nothing to close."""

    def find(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items of a lookup."""
        with self._lock:
            self._expire()
            chains = _Chains(self._entries, scope)
            chain = chains.follow(lookup.response)
            items: dict[str, Item] = {}
            for id in lookup.items:
                holders = self._items.get((scope, id))
                if holders is not None:
                    newest = next(reversed(holders))
                    items[id] = holders[newest]
                    chains.follow(newest)
            self._use(scope, chains)
            return Found(tuple(chain), items)

    def put(self, scope: str, response: StoredResponse) -> None:
        """Store a response, in place of one with its id."""
        size = response.size
        with self._lock:
            self._remove((scope, response.id))
            if size > self._max_bytes:
                return
            self._entries[scope, response.id] = _Entry(response, size, self._clock())
            self._bytes += size
            for item in (*response.input, *response.output):
                self._items.setdefault((scope, item.id), {})[response.id] = item
            chains = _Chains(self._entries, scope)
            chains.follow(response.id)
            self._use(scope, chains)
            self._expire()

    def delete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; return whether it was stored."""
        with self._lock:
            self._expire()
            return self._remove((scope, id))

    def _use(self, scope: str, chains: _Chains) -> None:
        """Make all responses of chains the most recently used, each chain's first the most."""
        now = self._clock()
        for chain in reversed(chains.found):  # a later chain continues in an earlier one
            for response in chain:
                key = (scope, response.id)
                self._entries[key] = self._entries[key]._replace(used_at=now)
                self._entries.move_to_end(key)

    def _expire(self) -> None:
        """Delete responses that are too old or beyond a bound."""
        oldest = self._clock() - self._max_age_s
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            exceeds = len(self._entries) > self._max_responses or self._bytes > self._max_bytes
            if entry.used_at > oldest and not exceeds:
                return
            self._remove(key)

    def _remove(self, key: _Key) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._bytes -= entry.size
        scope, id = key
        for item in (*entry.response.input, *entry.response.output):
            holders = self._items.get((scope, item.id), {})
            holders.pop(id, None)  # an item may occur twice
            if not holders:
                self._items.pop((scope, item.id), None)
        return True


class _Chains:
    """Chains of responses of one scope, each response in one of them.

    Attributes:
        found: The chains, the last response first.
    """

    def __init__(self, entries: OrderedDict[_Key, _Entry], scope: str) -> None:
        self.found: list[list[StoredResponse]] = []
        self._entries = entries
        self._scope = scope
        self._seen: set[str] = set()

    def follow(self, id: str | None) -> list[StoredResponse]:
        """Add a chain, and return it: up to a response that is missing or in a chain already."""
        chain: list[StoredResponse] = []
        while id is not None and id not in self._seen:
            entry = self._entries.get((self._scope, id))
            if entry is None:
                break
            self._seen.add(id)
            chain.append(entry.response)
            id = entry.response.previous
        self.found.append(chain)
        return chain
