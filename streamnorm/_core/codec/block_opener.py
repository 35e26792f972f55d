"""The opening of a block: its index, bounds, minted ids, and the bytes kept for unknown fields."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from streamnorm._core.failures import too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.limits import Limits

__all__ = ["BlockOpener"]


class BlockOpener(Struct):
    """Number the blocks of one stream and enforce the bounds on what they bring.

    Every method that checks a bound raises `Fatal` where it is passed.

    Attributes:
        limits: Bounds.
        note: Counts something that was forgiven.
        seed: Values that minted ids are derived from.
        blocks: Number of blocks that have started.
        calls: Number of tool calls that have started.
        kept: Characters of the payloads from which a field was kept.
    """

    limits: Limits
    note: Callable[[str, str], None]
    seed: tuple[object, ...] = ()
    blocks: int = 0
    calls: int = 0
    kept: int = 0

    def next_block(self) -> int:
        """Return the index of a block that starts, at most `max_blocks`."""
        if self.blocks >= self.limits.max_blocks:
            raise too_large("max_blocks", self.limits.max_blocks)
        self.blocks += 1
        return self.blocks - 1

    def count_call(self, *names: str) -> None:
        """Count a call, at most `max_tool_calls`, and bound its id and name."""
        self.calls += 1
        if self.calls > self.limits.max_tool_calls:
            raise too_large("max_tool_calls", self.limits.max_tool_calls)
        self.check_names(*names)

    def check_names(self, *names: str) -> None:
        """Bound ids and names to `max_id_chars`."""
        if max(map(len, names)) > self.limits.max_id_chars:
            raise too_large("max_id_chars", self.limits.max_id_chars)

    def mint(self, where: str) -> str:
        """Return an id for a call that came without one."""
        self.note("minted_id", where)
        return mint_id(*self.seed, self.blocks)

    def keep(self, size: int) -> None:
        """Count a payload from which a field is kept; all of them are at most
        `max_accumulated_bytes`.
        """
        self.kept += size
        if self.kept > self.limits.max_accumulated_bytes:
            raise too_large("max_accumulated_bytes", self.limits.max_accumulated_bytes)
