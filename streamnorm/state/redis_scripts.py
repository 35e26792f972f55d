"""The scripts of `RedisStore`, which run in the server.

    <prefix>r:<id>   a response, a hash: `p` is the id of the response that it continues, `c`
                     its content, `s` its size, `i` the ids of its items as MessagePack, `e`
                     when it expires, in milliseconds
    <prefix>i:<id>   an item, a sorted set: the responses that have it, oldest first

All keys of a scope begin with one prefix, whose hash tag puts them in one slot of a cluster.
"""

from __future__ import annotations

__all__ = ["DELETE", "FIND", "PUT", "READ"]

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
# number of the response that has it, from 1, or 0.  All are one string each, since clients
# read many values slowly.
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
    local holder = 0
    for _, id in ipairs(redis.call('ZREVRANGE', prefix .. 'i:' .. ARGV[at], 0, -1)) do
        if number_of[id] or redis.call('EXISTS', prefix .. 'r:' .. id) == 1 then
            if not number_of[id] and add(id) then
                refresh(id)
            end
            holder = number_of[id] or 0
            break
        end
    end
    holders[#holders + 1] = struct.pack('>I4', holder)
end
return {table.concat(found), length, table.concat(holders)}
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

# Arguments: time to live; id of the response; content; size; how many ids of responses that it
# continues follow, none or one; that; ids of its items.
# An item that many responses have is found in the newest of them.
PUT = (
    _COMMON
    + _USE
    + """
local id, starts = ARGV[2], tonumber(ARGV[5])
local key = prefix .. 'r:' .. id
local items = {}
remove(id)
for at = 6 + starts, #ARGV do
    local item_key = prefix .. 'i:' .. ARGV[at]
    redis.call('ZADD', item_key, time[1] * 1000000 + time[2], id)
    redis.call('ZREMRANGEBYRANK', item_key, 0, -65)
    redis.call('PEXPIREAT', item_key, expires)
    items[#items + 1] = ARGV[at]
end
redis.call('HSET', key, 'c', ARGV[3], 's', ARGV[4], 'i', cmsgpack.pack(items), 'e', expires)
redis.call('PEXPIREAT', key, expires)
if starts == 1 then
    redis.call('HSET', key, 'p', ARGV[6])
    refresh(ARGV[6])
end
"""
)

# Arguments: id of the response.
# Returns: whether it was stored.
DELETE = _COMMON + "return remove(ARGV[1])\n"
