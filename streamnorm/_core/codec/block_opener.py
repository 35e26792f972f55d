"""What the answers of one Gemini stream share."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from streamnorm._core.failures import too_large
from streamnorm._core.ids import mint_id
from streamnorm._core.limits import Limits

__all__ = ["DIALECT", "Shared", "answered"]

DIALECT = "gemini"


class Shared(Struct):
    """What the answers of one stream share.

    Attributes:
        limits: Bounds.
        note: Counts something that was forgiven.
        seed: What minted ids are made of.
        blocks: How many blocks have started.
        calls: How many calls have begun.
        kept: Characters of the payloads that something is kept of.
    """

    limits: Limits
    note: Callable[[str, str], None]
    seed: tuple[object, ...] = ()
    blocks: int = 0
    calls: int = 0
    kept: int = 0

    def next_block(self) -> int:
        """Return the index of a block that starts.

        Raises:
            Fatal: There are too many.
        """
        if self.blocks >= self.limits.max_blocks:
            raise too_large("max_blocks", self.limits.max_blocks)
        self.blocks += 1
        return self.blocks - 1

    def count_call(self, *names: str) -> None:
        """Count a call with its id and name.

        Raises:
            Fatal: There are too many, or one of them is too long.
        """
        self.calls += 1
        if self.calls > self.limits.max_tool_calls:
            raise too_large("max_tool_calls", self.limits.max_tool_calls)
        self.check_names(*names)

    def check_names(self, *names: str) -> None:
        """Bound ids and names.

        Raises:
            Fatal: One of them is too long.
        """
        if max(map(len, names)) > self.limits.max_id_chars:
            raise too_large("max_id_chars", self.limits.max_id_chars)

    def mint(self, where: str) -> str:
        """Return an id for a call that came without one."""
        self.note("minted_id", where)
        return mint_id(*self.seed, self.blocks)

    def keep(self, size: int) -> None:
        """Bound what fields nobody knows may add up to.

        Raises:
            Fatal: It is too much.
        """
        self.kept += size
        if self.kept > self.limits.max_accumulated_bytes:
            raise too_large("max_accumulated_bytes", self.limits.max_accumulated_bytes)


def answered(asked: dict[str, str], id: str, name: str) -> str:
    """Return the id of the call that an answer is to; the client need not execute it.

    Args:
        asked: Names of the calls that nobody has answered, by id; this one is taken out.
        id: Which of them; empty where the answer does not say.
        name: Name of the tool.
    """
    if not id:
        id = next((known for known, of in asked.items() if of == name), "")
    asked.pop(id, None)
    return id
