"""Response store in Redis or Valkey, for processes on several machines.

https://redis.io/docs/latest/develop/programmability/eval-intro/ (read 2026-11-23).  Scripts run
in the server, so a lookup takes one round trip, however long its chain is.  Since a script holds
up all other clients, it returns at most 1 MiB; each further one takes another round trip.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

import msgspec
from msgspec import Struct

from streamnorm._core.errors import StoreError
from streamnorm.state.redis_server import open_client, store_failures
from streamnorm.state.stored import (
    DEFAULT_TTL_S,
    MAX_CHAIN_BYTES,
    RESPONSE_BYTES,
    Found,
    Lookup,
    StoredResponse,
    id_of,
    key_of,
    pack,
    unpack,
)

_COMMON = """
local prefix = KEYS[1]

local function remove(id)
    local key = prefix .. 'r:' .. id
    local items = redis.call('HGET', key, 'i')
    if not items then
        return 0
    end
    redis.call('UNLINK', key)
    for _, item in ipairs(cmsgpack.unpack(items)) do
        redis.call('ZREM', prefix .. 'i:' .. item, id)
    end
    return 1
end
"""

# When what is used now expires is rounded up to steps, so that most uses change nothing.  A
# response expires no later than the one that it continues, so the first that need not be
# refreshed ends the walk.
_USE = """
local ttl = tonumber(ARGV[1])
local time = redis.call('TIME')
local step = math.max(1, math.floor(ttl / 32))
local expires = math.ceil((time[1] * 1000 + time[2] / 1000 + ttl) / step) * step

local function refresh(id)
    while id do
        local key = prefix .. 'r:' .. id
        local found = redis.call('HMGET', key, 'e', 'p')
        if not found[1] or tonumber(found[1]) >= expires then
            return
        end
        redis.call('HSET', key, 'e', expires)
        redis.call('PEXPIREAT', key, expires)
        for _, item in ipairs(cmsgpack.unpack(redis.call('HGET', key, 'i'))) do
            redis.call('PEXPIREAT', prefix .. 'i:' .. item, expires)
        end
        id = found[2]
    end
end
"""

# Arguments: time to live; bytes to find; bytes to return; how many ids of responses follow,
# none or one; that; ids of items.
# Returns: the responses found; how many of them are the chain; for each item the
# number of the response that has it, from 1, or 0; the body of the chain's first response, if it
# is not too large.  All are one string each, since clients read many values slowly.
FIND = (
    _COMMON
    + _USE
    + """
local bytes_to_find, bytes_to_return = tonumber(ARGV[2]), tonumber(ARGV[3])
local starts = tonumber(ARGV[4])
local found, number_of, count = {}, {}, 0

local function add(id)
    local key = prefix .. 'r:' .. id
    local fields = redis.call('HMGET', key, 'p', 's')
    if not fields[2] then
        return false
    end
    bytes_to_find = bytes_to_find - tonumber(fields[2])
    if bytes_to_find < 0 then
        return false
    end
    local size = redis.call('HSTRLEN', key, 'c')
    bytes_to_return = bytes_to_return - size
    local content = bytes_to_return >= 0 and redis.call('HGET', key, 'c')
    count = count + 1
    number_of[id] = count
    local previous = fields[1]
    found[#found + 1] = struct.pack(
        '>I4i4I4i4', #id, previous and #previous or -1, size, content and #content or -1
    ) .. id .. (previous or '')
    found[#found + 1] = content or ''
    return true, previous
end

if starts == 1 then
    local id = ARGV[5]
    while id and not number_of[id] do
        local is_added, previous = add(id)
        id = is_added and previous
    end
    refresh(ARGV[5])
end

local length, holders = count, {}
for at = 5 + starts, #ARGV do
    local key, holder, searches = prefix .. 'i:' .. ARGV[at], 0, true
    while searches do
        local ids = redis.call('ZREVRANGE', key, 0, 63)
        searches = #ids > 0
        for _, id in ipairs(ids) do
            if number_of[id] or redis.call('EXISTS', prefix .. 'r:' .. id) == 1 then
                if not number_of[id] and add(id) then
                    refresh(id)
                end
                holder = number_of[id] or 0
                searches = false
                break
            end
            redis.call('ZREM', key, id)
        end
    end
    holders[#holders + 1] = struct.pack('>I4', holder)
end
local body = false
if length > 0 then
    local key = prefix .. 'r:' .. ARGV[5]
    body = redis.call('HSTRLEN', key, 'b') <= bytes_to_return and redis.call('HGET', key, 'b')
end
return {table.concat(found), length, table.concat(holders), body}
"""
)

# Arguments: ids of responses.
# Returns: their contents as one string.
READ = """
local contents = {}
for _, id in ipairs(ARGV) do
    local content = redis.call('HGET', KEYS[1] .. 'r:' .. id, 'c')
    contents[#contents + 1] = struct.pack('>i4', content and #content or -1)
    contents[#contents + 1] = content or ''
end
return table.concat(contents)
"""

# Arguments: time to live; id of the response; content; body; size of the content; how many ids of
# responses that it continues follow, none or one; that; ids of its items.
# An item that many responses have is found in the newest of them.  Those that have expired are
# removed from the item by chance, faster than others are added.
PUT = (
    _COMMON
    + _USE
    + """
local id, starts = ARGV[2], tonumber(ARGV[6])
local key = prefix .. 'r:' .. id
local items = {}
remove(id)
for at = 7 + starts, #ARGV do
    local item_key = prefix .. 'i:' .. ARGV[at]
    redis.call('ZADD', item_key, time[1] * 1000000 + time[2], id)
    if redis.call('ZCARD', item_key) > 64 then
        for _, other in ipairs(redis.call('ZRANDMEMBER', item_key, 2)) do
            if other ~= id and redis.call('EXISTS', prefix .. 'r:' .. other) == 0 then
                redis.call('ZREM', item_key, other)
            end
        end
    end
    redis.call('PEXPIREAT', item_key, expires)
    items[#items + 1] = ARGV[at]
end
redis.call('HSET', key, 'c', ARGV[3], 'b', ARGV[4], 's', ARGV[5])
redis.call('HSET', key, 'i', cmsgpack.pack(items), 'e', expires)
redis.call('PEXPIREAT', key, expires)
if starts == 1 then
    redis.call('HSET', key, 'p', ARGV[7])
    refresh(ARGV[7])
end
"""
)

# Arguments: id of the response.
# Returns: whether it was stored.
DELETE = _COMMON + "return remove(ARGV[1])\n"


# What one script returns; more is read by further ones.
_MAX_RETURNED_BYTES = 1024 * 1024
# Items of a response, and of a lookup: a script takes some 10 µs for each.
_MAX_ITEMS = 10_000


class RedisStore:
    """A `ResponseStore` in Redis or Valkey, for asyncio.

    A response is forgotten at most 1/32 of `ttl_s` late, and earlier if the server evicts it.
    Of its items, the first 10,000 are found by their ids.

    Args:
        url: URL of the server: `redis://`, `rediss://`, `valkey://` or `valkeys://`.
        ttl_s: Seconds after its last use at which a response is forgotten.
        max_chain_bytes: Bytes that a response, or the items that a lookup finds, take
            approximately.  A larger response is not stored, and of a longer chain only its end is
            found.
        timeout_s: Seconds in which the server must answer.

    Raises:
        ValueError: The URL is none.
        ImportError: redis-py is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl_s: float = DEFAULT_TTL_S,
        max_chain_bytes: int = MAX_CHAIN_BYTES,
        timeout_s: float = 5.0,
    ) -> None:
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._max_chain_bytes = max_chain_bytes
        self._redis = open_client(url, timeout_s)
        self._find = self._redis.register_script(FIND)
        self._read = self._redis.register_script(READ)
        self._put = self._redis.register_script(PUT)
        self._delete = self._redis.register_script(DELETE)

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items; see `ResponseStore`."""
        if lookup == Lookup():
            return Found()
        items = tuple(dict.fromkeys(lookup.items))[:_MAX_ITEMS]
        starts = [] if lookup.response is None else [key_of(lookup.response)]
        prefix = _prefix(scope)
        with store_failures():
            reply = await self._find(
                keys=[prefix],
                args=[
                    self._ttl_ms,
                    self._max_chain_bytes,
                    _MAX_RETURNED_BYTES,
                    len(starts),
                    *starts,
                    *[key_of(id) for id in items],
                ],
            )
            entries, length, holders = read_reply(reply, len(items))
            if length and entries[0].body is None:  # too large for a script, or not stored apart
                entries[0].body = await self._redis.hget(prefix + b"r:" + entries[0].id, "b")
            for batch in batches_of(entries, _MAX_RETURNED_BYTES):
                reply = await self._read(keys=[prefix], args=[entry.id for entry in batch])
                add_contents(batch, reply)
        return found_in(entries, length, dict(zip(items, holders, strict=True)))

    async def aput(self, scope: str, response: StoredResponse) -> bool:
        """Store a response; see `ResponseStore`."""
        if response.size + RESPONSE_BYTES > self._max_chain_bytes:
            await self.adelete(scope, response.id)
            return False
        ids = [*response.items_by_id][:_MAX_ITEMS]
        previous = [] if response.previous is None else [key_of(response.previous)]
        with store_failures():
            await self._put(
                keys=[_prefix(scope)],
                args=[
                    self._ttl_ms,
                    key_of(response.id),
                    pack(response),
                    response.body,
                    response.items_size + RESPONSE_BYTES,
                    len(previous),
                    *previous,
                    *[key_of(id) for id in ids],
                ],
            )
        return True

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; see `ResponseStore`."""
        with store_failures():
            return bool(await self._delete(keys=[_prefix(scope)], args=[key_of(id)]))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _prefix(scope: str) -> bytes:
    """Return the prefix of all keys of a scope."""
    # In braces, so that all keys of a scope would have one slot of a cluster.
    return b"streamnorm:{%b}:" % sha256(key_of(scope)).hexdigest().encode()


_ENTRY = struct.Struct(">iiIi")  # lengths of id, previous id and content; between them the size
_LENGTH = struct.Struct(">i")
_Reply: TypeAlias = tuple[bytes, int, bytes, bytes | None]
_NUMBER = struct.Struct(">I")


class Entry(Struct):
    """A stored response in a script's reply.

    Attributes:
        id: The id.
        previous: Id of the response that it continues.
        size: Bytes of its content.
        content: The content; None if it was not returned.
        body: The body, which is bytes; None if it was not returned.
    """

    id: bytes
    previous: bytes | None
    size: int
    content: bytes | None
    body: object = None


def read_reply(reply: object, count: int) -> tuple[list[Entry], int, list[int]]:
    """Parse the reply of the lookup script.

    Args:
        reply: The reply.
        count: How many items were looked up.

    Returns:
        The responses; how many of them are the chain; for each item the number of the response
        that has it, from 1, or 0.

    Raises:
        StoreError: The script returned something else.
    """
    try:
        data, length, numbers, body = msgspec.convert(reply, _Reply)
        holders = [number for [number] in _NUMBER.iter_unpack(numbers)]
        entries: list[Entry] = []
        at = 0
        while at < len(data):
            id_length, previous_length, size, content_length = _ENTRY.unpack_from(data, at)
            id, at = _bytes(data, at + _ENTRY.size, id_length)
            previous, at = _bytes(data, at, previous_length)
            content, at = _bytes(data, at, content_length)
            entries.append(Entry(id or b"", previous, size, content))
    except (msgspec.ValidationError, struct.error) as exc:
        raise _unexpected() from exc
    if len(holders) != count or max(holders, default=0) > len(entries):
        raise _unexpected()
    if not 0 <= length <= len(entries):
        raise _unexpected()
    if length:
        entries[0].body = body
    return entries, length, holders


def batches_of(entries: Sequence[Entry], max_bytes: int) -> list[list[Entry]]:
    """Return the entries whose content is missing, in batches of bounded size."""
    batches: list[list[Entry]] = []
    left = 0
    for entry in entries:
        if entry.content is not None:
            continue
        if not batches or entry.size > left:
            batches.append([])
            left = max_bytes
        batches[-1].append(entry)
        left -= entry.size
    return batches


def add_contents(entries: Sequence[Entry], reply: object) -> None:
    """Add the contents in a script's reply to their entries.

    Raises:
        StoreError: The script returned something else.
    """
    if not isinstance(reply, bytes):
        raise _unexpected()
    at = 0
    try:
        for entry in entries:
            [length] = _LENGTH.unpack_from(reply, at)
            entry.content, at = _bytes(reply, at + _LENGTH.size, length)
    except struct.error as exc:
        raise _unexpected() from exc


def found_in(entries: Sequence[Entry], length: int, holders: Mapping[str, int]) -> Found:
    """Return the stored responses and items in entries.

    Args:
        entries: The responses with their contents; one without has expired meanwhile.
        length: How many of them are the chain.
        holders: For each item the number of the response that has it, from 1, or 0.
    """
    unpacked: list[StoredResponse | None] = []
    for number, entry in enumerate(entries):
        if entry.content is None:
            unpacked.append(None)
            continue
        previous = None if entry.previous is None else id_of(entry.previous)
        body = b"" if number else entry.body
        unpacked.append(unpack(id_of(entry.id), previous, entry.content, body))
    chain: list[StoredResponse] = []
    for response in unpacked[:length]:
        # Expired between two scripts: the chain ends here, as if it had been shorter.
        if response is None:
            break
        chain.append(response)
    items_of = {
        number: response.items_by_id
        for number in {*holders.values()} - {0}
        if (response := unpacked[number - 1]) is not None
    }
    items = {
        id: items_of[number][id] for id, number in holders.items() if id in items_of.get(number, ())
    }
    return Found(tuple(chain), items)


def _bytes(data: bytes, start: int, length: int) -> tuple[bytes | None, int]:
    """Return a length-prefixed part of a string (None for length -1), and its end."""
    if length == -1:
        return None, start
    end = start + length
    if not start <= end <= len(data):
        raise _unexpected()
    return data[start:end], end


def _unexpected() -> StoreError:
    return StoreError("the store holds data of another application")
