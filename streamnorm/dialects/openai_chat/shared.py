"""What the answers of one Chat Completions stream share."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from streamnorm._core.limits import Limits
from streamnorm.dialects.openai_chat.quirks import Quirks

__all__ = ["Shared"]


class Shared(Struct):
    """What the answers of one stream share.

    Attributes:
        limits: Bounds.
        quirks: How this server must be read.
        note: Counts something that was forgiven.
        think_tags: Whether `<think>` in text is reasoning.
        seed: What minted ids are made of.
        blocks: How many blocks have started.
        calls: How many calls have begun.
        surrogates: Whether the chunk at hand may hold lone surrogates.
    """

    limits: Limits
    quirks: Quirks
    note: Callable[[str, str], None]
    think_tags: bool
    seed: tuple[object, ...] = ()
    blocks: int = 0
    calls: int = 0
    surrogates: bool = False
