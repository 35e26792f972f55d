"""What each dialect has a place for, and how losses and notes are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, structs

from streamnorm.blocks import Reasoning
from streamnorm.errors import LossyEncoding

__all__ = ["CAPABILITIES", "Capabilities", "Loss", "Losses", "Note", "OnLoss", "OnNote"]

# A peer may name things without end.
_MAX_KINDS = 256
_MAX_WHERE_CHARS = 100


class Loss(Struct, frozen=True):
    """Something the target dialect could not carry.

    Attributes:
        feature: What kind of thing: a row of the loss table.
        where: Where it stood: an event, a block or a field.
        count: How often.
        detail: What became of it.
    """

    feature: str
    where: str
    count: int = 1
    detail: str = ""


class Note(Struct, frozen=True):
    """Something a decoder forgave.

    Attributes:
        kind: What kind of thing, such as `minted_id` or `resent_arguments`.
        where: Where it stood.
        count: How often.
    """

    kind: str
    where: str
    count: int = 1


OnLoss: TypeAlias = Callable[[Loss], None]
OnNote: TypeAlias = Callable[[Note], None]


class Capabilities(Struct, frozen=True, kw_only=True):
    """What one dialect's streams have a place for.

    Attributes:
        dialect: Its name.
        choices: More than one answer.
        refusal: A refusal that is not text.
        reasoning_parts: Numbered summaries within one reasoning block.
        blank_text: Text blocks of white space alone.
        custom_tools: Tool calls with free text.
        citations: Sources of other vendors.
        signed: The blocks that can carry a signature.
        null_arguments: Tool arguments that are the JSON text `null`.
        server_tools: Calls that the provider executed, and their results.
        stop_reasons: Unified stop reasons with a word of their own.
    """

    dialect: str
    choices: bool
    refusal: bool
    reasoning_parts: bool
    blank_text: bool
    custom_tools: bool
    citations: bool
    signed: tuple[type, ...]
    null_arguments: bool
    server_tools: bool
    stop_reasons: frozenset[str]


CAPABILITIES: dict[str, Capabilities] = {
    "anthropic": Capabilities(
        dialect="anthropic",
        choices=False,
        refusal=False,
        reasoning_parts=False,
        # The API refuses such a block when the client sends it back.
        blank_text=False,
        custom_tools=False,
        # A citation needs a document index or an encrypted index that only Anthropic has.
        citations=False,
        signed=(Reasoning,),
        null_arguments=False,
        server_tools=False,
        stop_reasons=frozenset(
            {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"}
        ),
    ),
}


class Losses:
    """Count losses of the same kind and place together.

    Args:
        strict: Whether to raise `LossyEncoding` at the first.
        on_loss: Called with each loss as it happens, with a count of 1.
    """

    def __init__(self, *, strict: bool = False, on_loss: OnLoss | None = None) -> None:
        self._strict = strict
        self._on_loss = on_loss
        self._counts: dict[Loss, int] = {}

    def add(self, feature: str, where: str, detail: str = "") -> None:
        """Count one more.

        Raises:
            LossyEncoding: Losses are not allowed.
        """
        loss = self.count(feature, where, detail)
        if self._strict:
            raise LossyEncoding(f"{feature} in {where} would be lost", losses=[loss])

    def count(self, feature: str, where: str, detail: str = "") -> Loss:
        """Count one more, allowed or not: of a stream that has failed anyway."""
        loss = Loss(feature, where[:_MAX_WHERE_CHARS], 1, detail)
        if loss not in self._counts and len(self._counts) >= _MAX_KINDS:
            loss = Loss(feature, "elsewhere", 1, detail)
        self._counts[loss] = self._counts.get(loss, 0) + 1
        if self._on_loss is not None:
            self._on_loss(loss)
        return loss

    def list(self) -> tuple[Loss, ...]:
        """Return what was counted, in order of first appearance."""
        return tuple(structs.replace(loss, count=count) for loss, count in self._counts.items())
