"""Conversations stored by several processes, some of them killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections import Counter
from contextlib import suppress
from itertools import count, product
from multiprocessing.connection import Connection
from typing import NamedTuple

from msgspec import structs

from streamnorm.state import Found, Item, Lookup, StoredResponse, open_store

__all__ = ["Conversation", "Report", "stress"]

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])
_BEGUN, _STORED = b"b", b"s"
_SCOPES = 16
_MIDDLE_S = 0.002  # of a put, some part of which passes before the process is killed


class Conversation(NamedTuple):
    """A conversation with responses determined by their numbers.

    Attributes:
        worker: Number of the process that holds it.
        number: Its number there.
    """

    worker: int
    number: int

    @property
    def scope(self) -> str:
        """Scope of the client, shared by several conversations."""
        return f"client {(self.worker + self.number) % _SCOPES}"

    @property
    def other_scope(self) -> str:
        """Scope of another client."""
        return f"client {(self.worker + self.number + 1) % _SCOPES}"

    def response(self, turn: int) -> StoredResponse:
        """Return the response of a turn."""
        stem = f"{self.worker}_{self.number}_{turn}"
        text = b'{"text":"%s"}' % (stem.encode() * (1 + 50 * (turn % 3)))
        items = (Item(f"in_{stem}", text), Item("same for all", text), Item(f"out_{stem}", text))
        previous = f"resp_{self.worker}_{self.number}_{turn - 1}" if turn else None
        return StoredResponse(f"resp_{stem}", previous, text, items[:1], items[1:])

    def found(self, turn: int) -> Found:
        """Return the expected result of a turn's lookup: of the chain, one body."""
        earlier = [structs.replace(self.response(at), body=b"") for at in range(turn - 1, -1, -1)]
        chain = (self.response(turn), *earlier)
        item = chain[0].output[-1]
        return Found(chain, {item.id: item})

    def lookup(self, turn: int) -> Lookup:
        """Return the lookup of a turn's chain and item."""
        found = self.found(turn)
        return Lookup(found.chain[0].id, tuple(found.items))


class Report(NamedTuple):
    """Outcome of the conversations.

    Attributes:
        stored: Responses whose storing was acknowledged.
        unacknowledged: How many of those that were not are stored, whole, nevertheless.
        killed: Processes killed while they stored a response.
        wrong: What was lost, mixed or shown to another client.
    """

    stored: int
    unacknowledged: int
    killed: int
    wrong: Counter[str]


def stress(
    url: str, *, processes: int, conversations: int, turns: int, kills: int, seed: int
) -> Report:
    """Store conversations from some processes while others are killed."""
    workers = [
        _PROCESSES.Process(target=_hold, args=(url, worker, conversations, turns))
        for worker in range(processes)
    ]
    for process in workers:
        process.start()
    chance = random.Random(seed)  # noqa: S311 - no secret
    known = [_killed(url, processes + number, chance) for number in range(kills)]
    wrong: Counter[str] = Counter()
    for process in workers:
        process.join()
        wrong["failed process"] += process.exitcode != 0
    complete = [Conversation(*at) for at in product(range(processes), range(conversations))]
    ends = dict.fromkeys(complete, turns)
    ends |= {Conversation(processes + number, 0): stored for number, stored in enumerate(known)}
    unacknowledged = asyncio.run(_judge(url, ends, set(complete), wrong))
    return Report(sum(ends.values()), unacknowledged, len(known), +wrong)


def _hold(url: str, worker: int, conversations: int, turns: int) -> None:
    """Store conversations simultaneously, looking each up before it continues."""

    async def hold() -> None:
        store = open_store(url)
        for turn in range(turns):
            for number in range(conversations):
                conversation = Conversation(worker, number)
                if turn:
                    found = await store.afind(conversation.scope, conversation.lookup(turn - 1))
                    assert found == conversation.found(turn - 1)
                await store.aput(conversation.scope, conversation.response(turn))
        await store.aclose()

    asyncio.run(hold())


def _killed(url: str, worker: int, chance: random.Random) -> int:
    """Kill a process that stores responses; return how many were acknowledged."""
    reader, writer = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_store_on, args=(url, worker, writer))
    process.start()
    writer.close()
    stored = 0
    with reader, suppress(EOFError, OSError):  # the last message may be cut
        for _ in range(2 * chance.randrange(1, 6) - 1):
            stored += reader.recv_bytes() == _STORED
        time.sleep(chance.random() * _MIDDLE_S)
        process.kill()
        while True:
            stored += reader.recv_bytes() == _STORED
    process.join()
    return stored


def _store_on(url: str, worker: int, writer: Connection) -> None:
    """Store one conversation's responses until the process is killed."""

    async def store_on() -> None:
        store = open_store(url)
        conversation = Conversation(worker, 0)
        for turn in count():
            writer.send_bytes(_BEGUN)
            await store.aput(conversation.scope, conversation.response(turn))
            writer.send_bytes(_STORED)

    asyncio.run(store_on())


async def _judge(
    url: str, ends: dict[Conversation, int], complete: set[Conversation], wrong: Counter[str]
) -> int:
    """Check the lookups against the acknowledged responses; return the number of others."""
    store = open_store(url)
    more = 0
    for conversation, turns in ends.items():
        if turns:
            lookup = conversation.lookup(turns - 1)
            found = await store.afind(conversation.scope, lookup)
            wrong["not found as stored"] += found != conversation.found(turns - 1)
            other = await store.afind(conversation.other_scope, lookup)
            wrong["found by another client"] += other != Found()
        next_one = await store.afind(conversation.scope, conversation.lookup(turns))
        if next_one != Found():
            wrong["response that nobody stored"] += conversation in complete
            wrong["response stored in part"] += next_one != conversation.found(turns)
            more += 1
    await store.aclose()
    return more
