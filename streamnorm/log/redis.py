"""Log store in Redis or Valkey, for processes on several machines.

https://redis.io/docs/latest/develop/data-types/streams/ (read 2026-11-27).  A stream here is a
hash, and a stream of the server whose entries are the reads that were stored at once, with the
number of the first as their id.  Each step is a script, so that no two processes end one epoch.
Readers elsewhere are woken by a message of `PUBLISH`, which may be lost: they look again each
second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeAlias

import anyio

from streamnorm._core.errors import StoreError
from streamnorm.log.records import (
    FORMAT,
    LOST,
    Append,
    Reading,
    Record,
    Streams,
    check_format,
    pack,
    unpack_chunks,
)
from streamnorm.state.redis_server import open_client, store_failures
from streamnorm.state.stored import key_of

_Value: TypeAlias = str | bytes | int

# Keys: the hash; the stream; the set of cancelled epochs.
# Fields of the hash: its format; epoch, fingerprint; count and size of the reads; end; time at
# which the lease lapses, at which the reads are forgotten, and at which somebody followed it last;
# `linger`; all in milliseconds.
_COMMON = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function is_running(hash, epoch)
    local found = redis.call('HMGET', hash, 'epoch', 'end', 'expires')
    return found[1] == epoch and not found[2] and tonumber(found[3]) > now
end

local function change(hash, reads, ttl)
    redis.call('HSET', hash, 'expires', now + ttl)
    redis.call('PEXPIRE', hash, ttl * 2)
    redis.call('PEXPIRE', reads, ttl)
    redis.call('PUBLISH', hash, '')
end

local function record()
    local found = redis.call(
        'HMGET', KEYS[1], 'epoch', 'print', 'count', 'size', 'cancelled', 'end',
        'lease', 'expires', 'format', 'linger'
    )
    if not found[1] then
        return false
    end
    found[7] = tonumber(found[7]) - now
    found[8] = tonumber(found[8]) <= now and 1 or 0
    return found
end
"""
_CLAIM = (
    _COMMON
    + """
local ttl, lease, epoch, print, format, linger, replaces = unpack(ARGV)
local found = record()
if found and found[8] == 0 then
    local gives_way = found[6] and (replaces == '1' or replaces == found[1])
        or replaces == '1' and found[2] ~= print
    if found[1] == epoch or not gives_way then
        -- A claim that comes again, since the answer to the first was lost, is its own.
        return {found[1] == epoch and 1 or 0, found}
    end
    redis.call('ZREM', KEYS[3], found[1])
end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call(
    'HSET', KEYS[1], 'epoch', epoch, 'print', print, 'count', 0, 'size', 0,
    'lease', now + lease, 'followed', now, 'format', format
)
if #linger > 0 then
    redis.call('HSET', KEYS[1], 'linger', linger)
end
change(KEYS[1], KEYS[2], ttl)
return {1, record()}
"""
)
# Of any number of streams, whose keys stand before that of the set.  None fails by the others.
# For each it returns 1 if the reads are stored, also by an earlier call whose answer was lost; 0 if
# the epoch has ended, or is another; -1 if the server has lost what comes before them.  If all are
# stored it returns 1 alone: each value costs the client as much as the server's work for it, and so
# does each argument.  Hence two for all streams: seven numbers of each, the last of which are the
# lengths of what it has in the second.
_APPEND = (
    _COMMON
    + """
local function append(hash, reads, lease, first, count, size, epoch, ending, content)
    local found = redis.call('HMGET', hash, 'epoch', 'end', 'expires', 'count', 'size')
    local known, last, total = tonumber(found[4]), first + count - 1, tonumber(found[5])
    if not found[1] then
        return -1
    end
    if found[1] ~= epoch or tonumber(found[3]) <= now then
        return 0
    end
    if found[2] then
        return found[2] == ending and known == last and 1 or 0
    end
    if known ~= last then
        if known ~= first - 1 then
            return -1
        end
        redis.call('XADD', reads, first .. '-1', 'r', content)
        total = total + size
    end
    redis.call('HSET', hash, 'count', last, 'size', total, 'lease', now + lease)
    if #ending > 0 then
        redis.call('HSET', hash, 'end', ending)
        redis.call('ZREM', KEYS[#KEYS], epoch)
    end
    change(hash, reads, ARGV[1])
    return 1
end

local results, are_stored, behind = {}, true, 0
local function take(length)
    behind = behind + length
    return ARGV[3]:sub(behind - length + 1, behind)
end

local numbers = ARGV[2]:gmatch('%d+')
for i = 1, (#KEYS - 1) / 2 do
    local lease, first, count, size = numbers(), numbers(), numbers(), numbers()
    local epoch, ending, content = take(numbers()), take(numbers()), take(numbers())
    local ok, result = pcall(
        append, KEYS[2 * i - 1], KEYS[2 * i], lease, first, count, size, epoch, ending, content
    )
    -- Older servers raise errors as texts.
    results[i] = (ok or type(result) == 'table') and result or {err = result}
    are_stored = are_stored and result == 1
end
return are_stored and 1 or results
"""
)
_END = (
    _COMMON
    + """
local ttl, epoch, ending = unpack(ARGV)
if not is_running(KEYS[1], epoch) or tonumber(redis.call('HGET', KEYS[1], 'lease')) > now then
    return 0
end
redis.call('HSET', KEYS[1], 'end', ending)
redis.call('ZREM', KEYS[3], epoch)
change(KEYS[1], KEYS[2], ttl)
return 1
"""
)
# Keys: the hashes of followed streams; those of produced ones.
_FOLLOW = (
    _COMMON
    + """
local unfollowed = {}
for number, hash in ipairs(KEYS) do
    local epoch = ARGV[number + 1]
    if is_running(hash, epoch) then
        local found = redis.call('HMGET', hash, 'linger', 'followed')
        if number <= tonumber(ARGV[1]) then
            redis.call('HSET', hash, 'followed', now)
        elseif found[1] and found[2] + found[1] <= now then
            unfollowed[#unfollowed + 1] = epoch
        end
    end
end
return unfollowed
"""
)
_FREE = (
    _COMMON
    + """
if is_running(KEYS[1], ARGV[1]) and redis.call('HGET', KEYS[1], 'count') == '0' then
    redis.call('DEL', KEYS[1], KEYS[2])
    redis.call('ZREM', KEYS[3], ARGV[1])
    redis.call('PUBLISH', KEYS[1], '')
end
"""
)
_CANCEL = (
    _COMMON
    + """
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch or not is_running(KEYS[1], epoch) then
    return 0
end
redis.call('HSET', KEYS[1], 'cancelled', 1)
-- Those that were never ended are forgotten with their streams.
redis.call('ZREMRANGEBYSCORE', KEYS[3], 0, now - 2 * ARGV[1])
redis.call('ZADD', KEYS[3], now, epoch)
return 1
"""
)
# The first read behind a position may stand in an entry that begins before it.  All entries are one
# value, since each costs the client some ten microseconds.
_READ = (
    _COMMON
    + """
local after, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = record()
if not found then
    return false
end
local entries = {}
if found[8] == 0 and after < tonumber(found[3]) then
    local next = string.format('%.0f-1', after + 1)
    local start = redis.call('XREVRANGE', KEYS[2], next, '-', 'COUNT', 1)
    local from = start[1] and start[1][1] or '-'
    -- Entries have one read or many: at first a few.
    local limit = 8
    while left > 0 do
        local some = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', limit)
        for _, entry in ipairs(some) do
            local content = entry[2][2]
            left = left - #content
            if left < 0 and #entries > 0 then
                break
            end
            entries[#entries + 1] = content
            from = '(' .. entry[1]
        end
        if #some < limit then
            break
        end
        limit = math.min(2 * limit, 128)
    end
end
return {found, #entries, table.concat(entries)}
"""
)

_CANCELLED = b"streamnorm:log:cancelled"
# Readers whose stream nobody told to have ended.
_MAX_SUBSCRIPTIONS = 4096


class RedisLogStore:
    """A `LogStore` in Redis or Valkey, for asyncio.

    Args:
        url: URL of the server: `redis://`, `rediss://`, `valkey://` or `valkeys://`.
        ttl_s: Seconds after its last change at which a stream is forgotten.
        timeout_s: Seconds in which the server must answer.

    Raises:
        ValueError: The URL is none.
        ImportError: redis-py is not installed.
    """

    def __init__(self, url: str, *, ttl_s: float, timeout_s: float = 5.0) -> None:
        self._ttl_ms = max(1, int(ttl_s * 1000))
        # redis-py declares many of its results as one type or another.
        self._redis: Any = open_client(url, timeout_s)
        self._news = _News(self._redis)
        register = self._redis.register_script
        self._claim, self._append, self._end = map(register, (_CLAIM, _APPEND, _END))
        self._free, self._cancel, self._read = map(register, (_FREE, _CANCEL, _READ))
        self._follow = register(_FOLLOW)

    async def aclaim(
        self, scope: str, id: str, record: Record, *, replaces: bool | str = False
    ) -> tuple[Record, bool]:
        """Claim an id for a new stream; see `LogStore`."""
        lease_ms = int(record.lease_s * 1000)
        linger = b"" if record.linger_s is None else int(record.linger_s * 1000)
        values: list[_Value] = [self._ttl_ms, lease_ms, record.epoch, record.fingerprint, FORMAT]
        values += [linger, replaces if isinstance(replaces, str) else int(replaces)]
        with store_failures():
            is_new, found = await self._claim(keys=_keys(scope, id), args=values)
        return (record, True) if is_new else (_record_of(found), False)

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        """Store appends of streams; see `LogStore`."""
        keys: list[bytes] = []
        numbers: list[str] = []
        contents: list[bytes] = []
        for scope, id, epoch, chunk, lease_s, ending in appends:
            hash, entries, _ = _keys(scope, id)
            keys += (hash, entries)
            named, ended, content = epoch.encode(), ending or b"", pack(chunk)
            size, lengths = sum(map(len, chunk.reads)), f"{len(named)} {len(ended)} {len(content)}"
            numbers.append(
                f"{int(lease_s * 1000)} {chunk.first} {len(chunk.reads)} {size} {lengths}"
            )
            contents += (named, ended, content)
        keys.append(_CANCELLED)
        values: list[_Value] = [self._ttl_ms, " ".join(numbers), b"".join(contents)]
        with store_failures():
            results = await self._append(keys=keys, args=values)
        if results == 1:
            return [True] * len(appends)
        return [_result_of(result) for result in results]

    async def aend(self, scope: str, id: str, epoch: str, ending: bytes) -> bool:
        """End a stream whose producer is dead; see `LogStore`."""
        values: list[_Value] = [self._ttl_ms, epoch, ending]
        with store_failures():
            return bool(await self._end(keys=_keys(scope, id), args=values))

    async def afree(self, scope: str, id: str, epoch: str) -> None:
        """Release the id of a stream of which nothing was stored; see `LogStore`."""
        with store_failures():
            await self._free(keys=_keys(scope, id), args=[epoch])

    async def acancel(self, scope: str, id: str) -> bool:
        """Ask the producer of a stream to stop; see `LogStore`."""
        with store_failures():
            return bool(await self._cancel(keys=_keys(scope, id), args=[self._ttl_ms]))

    async def acancelled(self) -> set[str]:
        """Return the epochs of the running streams that were cancelled; see `LogStore`."""
        with store_failures():
            found: list[bytes] = await self._redis.zrange(_CANCELLED, 0, -1)
        return {epoch.decode(errors="replace") for epoch in found}

    async def afollow(self, followed: Streams, produced: Streams) -> set[str]:
        """Record the streams that are followed; see `LogStore`."""
        keys = [_keys(*key)[0] for key in (*followed.values(), *produced.values())]
        values: list[_Value] = [len(followed), *followed, *produced]
        with store_failures():
            found: list[bytes] = await self._follow(keys=keys, args=values)
        return {epoch.decode(errors="replace") for epoch in found}

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        """Return a stream's record and the chunks after a position; see `LogStore`."""
        keys, values = _keys(scope, id), [after, max_bytes]
        watch = self._news.find(keys[0])
        # Otherwise the last reader has seen that there is nothing behind the position.
        if wait_s <= 0 or watch is None or watch.count != after:
            reading = await self._read_once(keys, values, watch)
            if wait_s <= 0 or not _is_without_news(reading):
                return reading
        if watch is None:
            with store_failures():
                watch = await self._news.watch(keys[0])
            # What came before the subscription was not heard.
            reading = await self._read_once(keys, values, watch)
            if not _is_without_news(reading):
                return reading
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await watch.changed.wait()
        return await self._read_once(keys, values, self._news.find(keys[0]))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._news.aclose()
        await self._redis.aclose()

    async def _read_once(
        self, keys: tuple[bytes, ...], values: list[int], watch: _Watch | None
    ) -> Reading | None:
        with store_failures():
            reply = await self._read(keys=keys, args=values)
        if reply is None:
            return None
        found, count, contents = reply
        record = _record_of(found)
        if watch is not None:
            watch.count = record.count
        return Reading(record, unpack_chunks(count, contents) if count else [])


class _Watch:
    """Notifications about one stream since the watch began.

    Attributes:
        changed: Set when the stream changes.
        count: Number of its reads at some time before; None if nobody has read it.
    """

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.count: int | None = None


class _News:
    """Subscriber to change notifications, for all readers of a store."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._channels = redis.pubsub()
        self._watches: dict[bytes, _Watch] = {}  # last watched last
        self._listening: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None  # of that task
        self._watching = asyncio.Lock()

    def find(self, channel: bytes) -> _Watch | None:
        """Return a stream's watch; None if the store is not subscribed to the stream."""
        if self._listening is None or self._listening.done():
            return None
        watch = self._watches.pop(channel, None)
        if watch is None:
            return None
        self._watches[channel] = _Watch() if watch.changed.is_set() else watch
        return self._watches[channel]

    async def watch(self, channel: bytes) -> _Watch:
        """Return a stream's watch; subscribe if necessary."""
        # One at a time: another one would close the connection on which this one begins.
        async with self._watching:
            watch = self.find(channel)
            if watch is not None:
                return watch
            if self._listening is None or self._listening.done():
                await self._channels.aclose()
                self._channels = self._redis.pubsub()
                self._watches.clear()
            await self._channels.subscribe(channel)
            self._watches[channel] = watch = _Watch()
            if len(self._watches) > _MAX_SUBSCRIPTIONS:
                oldest = next(iter(self._watches))
                del self._watches[oldest]
                await self._channels.unsubscribe(oldest)
            if self._listening is None or self._listening.done():
                self._scope = anyio.CancelScope()
                self._listening = asyncio.create_task(self._listen(self._scope))
            return watch

    async def aclose(self) -> None:
        """End all subscriptions."""
        if self._listening is not None and self._scope is not None:
            # A scope cancels until its task has ended.  A task alone may go on: before Python 3.12
            # `asyncio.wait_for`, by which redis-py sends, can lose the one cancellation
            # (https://github.com/python/cpython/issues/86296).
            self._scope.cancel()
            await self._listening
        await self._channels.aclose()

    async def _listen(self, scope: anyio.CancelScope) -> None:
        try:
            with scope, store_failures():
                async for message in self._channels.listen():
                    if message["type"] == "message" and message["channel"] in self._watches:
                        self._watches[message["channel"]].changed.set()
        except StoreError:
            pass  # the next reader subscribes again
        finally:
            for watch in self._watches.values():
                watch.changed.set()


def _is_without_news(reading: Reading | None) -> bool:
    return reading is not None and not reading.chunks and reading.record.is_running


def _result_of(result: object) -> bool | StoreError:
    """Return the script's result for one stream, as `LogStore.aappend` defines it."""
    if isinstance(result, Exception):
        try:
            with store_failures():
                raise result
        except StoreError as exc:
            return exc
    return StoreError(LOST) if result == -1 else result == 1


@lru_cache(maxsize=1024)
def _keys(scope: str, id: str) -> tuple[bytes, bytes, bytes]:
    # Digests, so that no name contains another; in braces, as all keys of a stream would have to
    # have one slot of a cluster.
    name = sha256(sha256(key_of(scope)).digest() + key_of(id)).hexdigest().encode()
    return b"streamnorm:log:{%b}" % name, b"streamnorm:log:{%b}:reads" % name, _CANCELLED


def _record_of(found: Any) -> Record:
    """Return the record in a script's reply.

    Raises:
        StoreError: It is none, or one of another release.
    """
    try:
        epoch, fingerprint, count, size, cancelled, ending, *times, form, linger = found
        lease_ms, is_expired = times
        check_format(int(form))
        return Record(
            epoch.decode(),
            fingerprint,
            int(count),
            int(size),
            cancelled is not None,
            ending,
            lease_ms / 1000,
            bool(is_expired),
            None if linger is None else int(linger) / 1000,
        )
    except (TypeError, ValueError, AttributeError) as exc:
        raise StoreError("the store holds data of another application") from exc
