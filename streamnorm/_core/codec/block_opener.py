"""The block opener of all decoders: it assigns block indexes, checks bounds and mints ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import Block, ServerToolCall, ToolCall
from streamnorm._core.events import BlockStart, BlockStop, Event
from streamnorm._core.failures import store_bytes, too_large
from streamnorm._core.limits import Limits, StoredBytes, text_bytes, value_bytes
from streamnorm._core.text import mint_id

_NO_COUNTER = StoredBytes()  # replaced in each opener


class BlockOpener(Struct):
    """Assign the block indexes of one stream, and enforce the bounds on blocks.

    Every method that checks a bound raises `Fatal` if it is exceeded.

    Attributes:
        limits: Bounds.
        note: Function that counts an accepted deviation by its kind and position.
        seed: Values that minted ids are derived from.
        blocks: Number of blocks that have started.
        calls: Number of tool calls that have started.
        stored: Counter of the bytes that the decoder stores.
        citable: Counter of the text stored for citations by byte offsets.
        usage_bytes: Bytes of the unknown fields of the last usage snapshot.
    """

    limits: Limits
    note: Callable[[str, str], None]
    seed: tuple[object, ...] = ()
    blocks: int = 0
    calls: int = 0
    stored: StoredBytes = _NO_COUNTER
    citable: StoredBytes = _NO_COUNTER
    usage_bytes: int = 0

    def __post_init__(self) -> None:
        self.stored = StoredBytes(self.limits.max_accumulated_bytes)
        self.citable = StoredBytes(self.limits.max_held_bytes)

    def open(
        self, block: Block, events: list[Event], *, extra: dict[str, Any] | None = None
    ) -> int:
        """Append the start of a block; return the block's index.  Mint an id that a call lacks."""
        index = self.next_index()
        if isinstance(block, (ToolCall, ServerToolCall)):
            self.count_call(block.id, block.name)
            # Results are sent back by the id of their call, in every dialect but Gemini's.
            if not block.id:
                self.note("minted_id", "tool call")
                block = structs.replace(block, id=mint_id(*self.seed, index))
        events.append(BlockStart(index, block, extra=extra or None))
        return index

    def add_whole(
        self, block: Block, events: list[Event], extra: dict[str, Any] | None = None
    ) -> None:
        """Append the start and the stop of a complete block."""
        index = self.next_index()
        events += [BlockStart(index, block, extra=extra or None), BlockStop(index)]

    def next_index(self) -> int:
        """Return the next block index; raise `Fatal` beyond `max_blocks`."""
        # A peer may start blocks of a few bytes for ever.
        if self.blocks >= self.limits.max_blocks:
            raise too_large("max_blocks", self.limits.max_blocks)
        self.blocks += 1
        return self.blocks - 1

    def count_call(self, *names: str) -> None:
        """Count a tool call, and check the bounds on calls and on its id and name."""
        self.calls += 1
        if self.calls > self.limits.max_tool_calls:
            raise too_large("max_tool_calls", self.limits.max_tool_calls)
        self.check_names(*names)

    def check_names(self, *names: str) -> None:
        """Check ids and names against `max_id_chars`."""
        bound = self.limits.max_id_chars
        for name in names:
            if len(name) > bound:
                raise too_large("max_id_chars", bound)

    def mint_id(self, where: str, *keys: object) -> str:
        """Mint an id for a call that came without an id, before its block has an index.

        The id is derived from the seed, from `keys`, and from the number of blocks.
        """
        self.note("minted_id", where)
        return mint_id(*self.seed, *keys, self.blocks)

    def store(self, size: int) -> None:
        """Count bytes that the decoder stores; raise `Fatal` beyond `max_accumulated_bytes`."""
        store_bytes(self.stored, size)

    def store_text(self, text: str) -> int:
        """Count text that the decoder stores; return its size in UTF-8 bytes."""
        size = text_bytes(text)
        self.store(size)
        return size

    def store_fields(self, stored: dict[str, Any], fields: dict[str, Any]) -> None:
        """Store the unknown fields of a frame; a repeated field replaces the earlier field."""
        for name, value in fields.items():
            if name in stored:
                if stored[name] == value:
                    continue
                # Perplexity and Google repeat a field on every chunk: one value of it is stored.
                self.stored.release(_field_bytes(name, stored[name]))
            self.store(_field_bytes(name, value))
            stored[name] = value

    def store_usage(self, extra: dict[str, Any] | None) -> None:
        """Count the unknown fields of a usage snapshot, in place of the previous snapshot's."""
        self.stored.release(self.usage_bytes)
        self.usage_bytes = value_bytes(extra) if extra else 0
        self.store(self.usage_bytes)


def _field_bytes(name: str, value: object) -> int:
    return text_bytes(name) + value_bytes(value)
