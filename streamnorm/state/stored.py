"""Stored responses, the protocols of stores, and a store in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct, structs

from streamnorm._core.errors import StoreError
from streamnorm._core.json import FAST_ERRORS, is_object

# What an item costs in memory beside its JSON: its id, two objects, and an entry of an index.
_ITEM_BYTES = 512

DEFAULT_TTL_S = 30 * 24 * 3600.0
"""Seconds for which a response is stored after its last use, as long as the vendor does."""

MAX_CHAIN_BYTES = 64 * 1024 * 1024
"""Bytes that a response, or what a lookup finds, takes approximately, unless a store says so."""

RESPONSE_BYTES = 4096
"""Bytes that each response adds to its size where the bytes of a chain are bounded.

More than it costs: the responses of a chain are bounded with its bytes.
"""

_Key: TypeAlias = tuple[str, str]
"""Scope, and id of a response or an item."""


class Item(Struct, frozen=True):
    """An item of a response's input or output.

    Attributes:
        id: The id; one that the client sent without has an id for the lists of items alone.
        json: The item as the client sent or received it.
    """

    id: str
    json: bytes


class StoredResponse(Struct, frozen=True):
    """A response with its request's input items.

    Attributes:
        id: The id.
        previous: Id of the response that it continues; None if it is the first.
        body: The response object as JSON, without `output`; empty where it is not needed, or
            stored no longer.
        input: The items of its own request, with references replaced by the items.
        output: The items of its output.
    """

    id: str
    previous: str | None
    body: bytes
    input: tuple[Item, ...]
    output: tuple[Item, ...]

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        return len(self.body) + self.items_size

    @property
    def items_size(self) -> int:
        """Approximate size in memory without the body, in bytes."""
        return sum([len(item.json) + _ITEM_BYTES for item in self.input + self.output])

    @property
    def items_by_id(self) -> dict[str, Item]:
        """The items by id."""
        return {item.id: item for item in (*self.input, *self.output)}


class Lookup(Struct, frozen=True):
    """The responses and items that a request needs from a store.

    Attributes:
        response: Id of the last response of a chain; None if none is needed.
        items: Ids of items of any response.
    """

    response: str | None = None
    items: tuple[str, ...] = ()


class Found(Struct, frozen=True):
    """The stored responses and items for a lookup.

    Attributes:
        chain: The response, the one that it continues, and so on to the first.  The chain
            ends early at a response that is missing, or that it has already.  Only the first
            one has its body: with the tools that each repeats, it is often larger than the items.
        items: The items that are stored, by id.
    """

    chain: tuple[StoredResponse, ...] = ()
    items: Mapping[str, Item] = {}


class ResponseStore(Protocol):
    """Protocol of response stores for asynchronous callers.

    Nothing is found or deleted under another scope than it was put under.  A store may forget
    any response at any time, so its callers expect all of them to be missing.

    Raises:
        StoreError: By any method: the store failed.  Its text is logged, so it contains neither
            URL, path nor content.  The gateway takes any other `Exception` for the same failure,
            and logs its type alone.
    """

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items of a lookup."""
        ...

    async def aput(self, scope: str, response: StoredResponse) -> bool | None:
        """Store a response in place of any response with the same id.

        Returns:
            False if the response is beyond a bound of the store, and not stored.
        """
        ...

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; return whether it was stored."""
        ...


class SyncResponseStore(Protocol):
    """Protocol of response stores for synchronous callers, in any thread.

    Raises:
        StoreError: As by `ResponseStore`.
    """

    def find(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items of a lookup."""
        ...

    def put(self, scope: str, response: StoredResponse) -> bool | None:
        """Store a response in place of any response with the same id.

        Returns:
            False if the response is beyond a bound of the store, and not stored.
        """
        ...

    def delete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; return whether it was stored."""
        ...


def scope_of(credential: str) -> str:
    """Return a caller's scope: a digest of its credential."""
    return sha256(credential.encode("utf-8", "surrogatepass")).hexdigest()


def value_of(json: bytes) -> dict[str, Any]:
    """Return the object in stored JSON.

    Raises:
        StoreError: It is none.
    """
    try:
        value = msgspec.json.decode(json)
    except FAST_ERRORS as exc:
        raise StoreError("the store holds damaged JSON") from exc
    if not is_object(value):
        raise StoreError(f"the store holds {type(value).__name__}, expected an object")
    return value


_Items = list[tuple[bytes, bytes]]


class _Content(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Content of a stored response, without `id` and `previous_response_id`.

    Attributes:
        body: Empty, since the body is stored apart; the body in what earlier releases have stored.
        input: The items of the input.
        output: The items of the output.
    """

    body: bytes
    input: _Items
    output: _Items


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[_Content] = msgspec.msgpack.Decoder(_Content)


def key_of(id: str) -> bytes:
    """Return an id or a scope as bytes."""
    return id.encode("utf-8", "surrogatepass")


def id_of(key: object) -> str:
    """Return an id from its stored bytes.

    Raises:
        StoreError: They are none.
    """
    if not isinstance(key, bytes):
        raise StoreError(f"the store holds {type(key).__name__} as an id, expected bytes")
    try:
        return key.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as exc:
        raise StoreError("the store holds an id that is no UTF-8") from exc


def pack(response: StoredResponse) -> bytes:
    """Return a response's content as bytes, without the body."""
    return _ENCODER.encode(_Content(b"", _pack_items(response.input), _pack_items(response.output)))


def unpack(id: str, previous: str | None, content: object, body: object = b"") -> StoredResponse:
    """Return a response from its content's bytes.

    Args:
        id: The id.
        previous: Id of the response that it continues.
        content: Result of `pack`.
        body: The body; None for that in the content, as earlier releases stored it.

    Raises:
        StoreError: It is not what `pack` returns.
    """
    if not isinstance(content, bytes):
        raise StoreError(f"the store holds {type(content).__name__} as a response, expected bytes")
    if not isinstance(body, bytes | None):
        raise StoreError(f"the store holds {type(body).__name__} as a body, expected bytes")
    try:
        unpacked = _DECODER.decode(content)
    except msgspec.MsgspecError as exc:
        raise StoreError("the store holds a damaged response") from exc
    items = _unpack_items(unpacked.input), _unpack_items(unpacked.output)
    return StoredResponse(id, previous, unpacked.body if body is None else body, *items)


def _pack_items(items: tuple[Item, ...]) -> _Items:
    return [(key_of(item.id), item.json) for item in items]


def _unpack_items(items: _Items) -> tuple[Item, ...]:
    return tuple([Item(id_of(key), json) for key, json in items])


class _Entry(NamedTuple):
    """A stored response without its body, its body, its size with that, and time of last use."""

    response: StoredResponse
    body: bytes
    size: int
    used_at: float


class MemoryStore:
    """A `ResponseStore` and `SyncResponseStore` in the memory of one process.

    Beyond a bound, the response that was not used for the longest time is forgotten first.
    Using a response uses all that it continues, so none is forgotten before those that
    continue it: a chain loses its end before its start.  A chain that alone exceeds the bytes
    loses the bodies of the responses that are continued.  A response that exceeds a bound
    together with the items of all that it continues is not stored.

    Args:
        max_responses: Responses that are stored.
        max_bytes: Bytes that they take, approximately.
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
        """Return the number of stored responses."""
        with self._lock:
            self._expire()
            return len(self._entries)

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items; see `ResponseStore`."""
        return self.find(scope, lookup)

    async def aput(self, scope: str, response: StoredResponse) -> bool:
        """Store a response; see `ResponseStore`."""
        return self.put(scope, response)

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; see `ResponseStore`."""
        return self.delete(scope, id)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

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
            if chain:
                chain[0] = structs.replace(chain[0], body=self._entries[scope, chain[0].id].body)
            return Found(tuple(chain), items)

    def put(self, scope: str, response: StoredResponse) -> bool:
        """Store a response in place of any response with the same id; return whether it fits."""
        key, size = (scope, response.id), response.size
        with self._lock:
            self._remove(key)
            chains = _Chains(self._entries, scope)
            chain = chains.follow(response.previous)
            bodies = sum([len(self._entries[scope, earlier.id].body) for earlier in chain])
            whole = sum([self._entries[scope, earlier.id].size for earlier in chain]) + size
            # It would be forgotten at once, after all that belongs to other chains.
            if len(chain) >= self._max_responses or whole - bodies > self._max_bytes:
                return False
            if whole > self._max_bytes:
                self._drop_bodies(scope, chain)
            stored = structs.replace(response, body=b"")
            self._entries[key] = _Entry(stored, response.body, size, self._clock())
            self._bytes += size
            for item in (*response.input, *response.output):
                self._items.setdefault((scope, item.id), {})[response.id] = item
            self._use(scope, chains)
            self._expire()
            return True

    def delete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; return whether it was stored."""
        with self._lock:
            self._expire()
            return self._remove((scope, id))

    def _use(self, scope: str, chains: _Chains) -> None:
        """Mark the responses of chains as used now, each chain's first response as the latest."""
        now = self._clock()
        for chain in reversed(chains.found):  # a later chain continues in an earlier one
            for response in chain:
                key = (scope, response.id)
                self._entries[key] = self._entries[key]._replace(used_at=now)
                self._entries.move_to_end(key)

    def _expire(self) -> None:
        """Delete expired responses, and the least recently used responses beyond a bound."""
        oldest = self._clock() - self._max_age_s
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            exceeds = len(self._entries) > self._max_responses or self._bytes > self._max_bytes
            if entry.used_at > oldest and not exceeds:
                return
            self._remove(key)

    def _drop_bodies(self, scope: str, chain: list[StoredResponse]) -> None:
        for response in chain:
            key = (scope, response.id)
            entry = self._entries[key]
            self._entries[key] = entry._replace(body=b"", size=entry.size - len(entry.body))
            self._bytes -= len(entry.body)

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
    """Chains of responses in one scope; each response is in one chain.

    Attributes:
        found: The chains, the last response first.
    """

    def __init__(self, entries: OrderedDict[_Key, _Entry], scope: str) -> None:
        self.found: list[list[StoredResponse]] = []
        self._entries = entries
        self._scope = scope
        self._seen: set[str] = set()

    def follow(self, id: str | None) -> list[StoredResponse]:
        """Add and return a chain, up to a response that is missing or in another chain."""
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
