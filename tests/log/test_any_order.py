"""Readers that are cut and producers that die, at any time: every reader gets the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.log.streams import follow, ids_in
from support.state.stores import Clock
from support.streams.short import STREAMS

from streamnorm.log import Log, State, committing, tails
from streamnorm.log import log as log_module
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Append, Streams
from streamnorm.state import StoreError

LEASE_S = 100.0
LINGER_S = 50.0
FOLLOW_S = 0.005
TARGETS = (
    "openai_chat",
    "anthropic",
    "openai_responses",
    "gemini",
    "gemini_interactions",
    "ui_message_stream",
)
PIECE = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%d"}}]}\n\n'


class CutStore(MemoryLogStore):
    """The store as one process sees it, until that is cut off.

    Attributes:
        is_cut: Whether nothing of the process is stored any more, as if it had been killed.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(ttl_s=1e9, clock=clock)
        self.is_cut = False

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        if self.is_cut:
            raise StoreError("cut off")
        return await super().aappend(appends)

    async def afollow(self, followed: Streams, produced: Streams) -> set[str]:
        if self.is_cut and produced:
            raise StoreError("cut off")
        return await super().afollow(followed, produced)

    @property
    def followed_at(self) -> float:
        """When the stream was followed last."""
        return self._streams["", "a"].followed_at


@pytest.fixture(autouse=True, scope="module")
def tell_often() -> Iterator[None]:
    """Tell the store often who follows, so that no rule waits for long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "_FOLLOW_S", FOLLOW_S)
        patch.setattr(committing, "_RETRIES_S", 0.0)  # who is killed tries no more
        patch.setattr(tails, "_WAIT_S", FOLLOW_S)
        yield


@dataclass
class Reader:
    """A reader elsewhere, which may be cut and goes on behind its last event."""

    target: str
    received: list[bytes] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    has_ended: bool = False

    async def read(self, log: Log) -> None:
        """Read to the end."""
        ids = ids_in(b"".join(self.received))
        async with await log.follow("a", to=self.target, after=ids[-1] if ids else "") as stream:
            async for data in stream:
                self.received.append(data)
        self.has_ended = True


class StreamMachine(RuleBasedStateMachine):
    """One stream, its producer, and readers in another process."""

    @initialize()
    def produce(self) -> None:
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.store = CutStore(self.clock)
        self.reads: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.readers: list[Reader] = []
        self.possible: set[State] = {"truncated"}
        self.sent = 0
        self.producer = self.runner.get_loop().create_task(self._produce())
        self.reads.put_nowait(PIECE % 0)
        self.settle()

    async def _produce(self) -> None:
        async def source() -> AsyncIterator[bytes]:
            while (read := await self.reads.get()) is not None:
                yield read

        async with Log(self.store, lease_s=LEASE_S).produce("a", source(), linger_s=LINGER_S):
            pass

    def settle(self) -> None:
        """Let all tasks do what they can."""

        async def turn() -> None:
            for _ in range(60):
                await asyncio.sleep(0)

        self.runner.run(turn())

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.reads.put_nowait(PIECE % self.sent)
        self.settle()

    @rule()
    def finish(self) -> None:
        for read in (*STREAMS["openai_chat"][2:], None):
            self.reads.put_nowait(read)
        self.possible.add("complete")
        self.settle()

    @rule()
    def break_off(self) -> None:
        self.reads.put_nowait(None)
        self.settle()

    @rule()
    def cancel(self) -> None:
        self.possible.add("cancelled")
        self.runner.run(Log(self.store).cancel("a"))
        self.runner.run(asyncio.sleep(0.11))  # how soon the producer learns of it

    @rule()
    def kill(self) -> None:
        self.store.is_cut = True

    @rule()
    def lapse(self) -> None:
        self.possible.add("cancelled")  # no reader was noted for so long
        self.clock.now += LEASE_S + 1
        self.settle()

    @rule(to=st.none() | st.sampled_from(TARGETS))
    def linger(self, to: str | None) -> None:
        """Let time pass, without a reader or with one that is noted."""
        if to is not None:
            self.start_reader(to)
        if not self.is_followed:
            self.possible.add("cancelled")

        async def pass_time() -> None:
            for _ in range(6):
                self.clock.now += LINGER_S / 5
                await asyncio.sleep(2 * FOLLOW_S)
                while self.is_followed and self.store.followed_at < self.clock.now:  # noqa: ASYNC110 - of a store
                    await asyncio.sleep(FOLLOW_S)

        self.runner.run(asyncio.wait_for(pass_time(), 10))

    @property
    def is_followed(self) -> bool:
        """Whether a reader reads."""
        return any(reader.task and not reader.task.done() for reader in self.readers)

    @rule(to=st.sampled_from(TARGETS))
    def start_reader(self, to: str) -> None:
        self.readers.append(Reader(to))
        self.go_on(len(self.readers) - 1)

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 99))
    def cut(self, which: int) -> None:
        reader = self.readers[which % len(self.readers)]
        if reader.task is not None:
            reader.task.cancel()
            self.runner.run(asyncio.wait([reader.task]))

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 99))
    def go_on(self, which: int) -> None:
        reader = self.readers[which % len(self.readers)]
        if not reader.has_ended and (reader.task is None or reader.task.done()):
            reader.task = self.runner.get_loop().create_task(reader.read(Log(self.store)))
        self.settle()

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        self.store.is_cut = True
        self.clock.now += LEASE_S + 1
        try:
            self.runner.run(self.compare())
        finally:
            self.producer.cancel()
            self.runner.close()

    async def compare(self) -> None:
        """Assert that each reader gets all, once it has gone on to the end."""
        log = Log(self.store)
        assert (await log.status("a")).state in self.possible
        for reader in self.readers:
            if reader.task is not None and not reader.task.done():
                await asyncio.wait_for(reader.task, 10)
            # What Gemini's clients take for an error is no event, and has no cursor.
            if not reader.has_ended:
                await reader.read(log)
            whole = await follow(log, "a", reader.target)
            assert b"".join(reader.received) == whole
            assert len(set(ids_in(whole))) == len(ids_in(whole))


StreamMachine.TestCase.settings = settings(settings(), stateful_step_count=15)
TestStream = StreamMachine.TestCase
