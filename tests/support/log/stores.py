"""Stores of logs that count what they are asked, and long streams for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Append, Reading
from streamnorm.state import StoreError
from support.streams.short import STREAMS

__all__ = ["CountingStore", "long_stream"]

_CHAT = STREAMS["openai_chat"]
_PIECE = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%d"}}]}\n\n'


def long_stream(count: int) -> list[bytes]:
    """Return the reads of a stream with so many pieces of text."""
    return [*_CHAT[:2], *(_PIECE % number for number in range(count)), *_CHAT[2:]]


class CountingStore(MemoryLogStore):
    """A store whose steps take some turns of the loop, and are counted."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.steps: Counter[str] = Counter()

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        self.steps["append"] += 1
        for _ in range(50):
            await asyncio.sleep(0)
        return await super().aappend(appends)

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        self.steps["read"] += 1
        return await super().aread(scope, id, after, max_bytes, wait_s)
