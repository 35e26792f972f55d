"""Losses of encoding, notes of decoding, and the counter of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from msgspec import Struct, structs

from streamnorm._core.errors import LossyEncoding

T = TypeVar("T")

# Names come from the peer, which may send any number of different ones.
_MAX_KINDS = 256
_MAX_NAME_CHARS = 100


class Loss(Struct, frozen=True):
    """Something the target dialect could not carry.

    Attributes:
        feature: Name of what was lost, such as `signature`; the documentation lists all names.
        where: The event, block or field that had it.
        count: Number of occurrences.
        detail: The result, such as `dropped` or `written as text`.
    """

    feature: str
    where: str
    count: int = 1
    detail: str = ""


class Note(Struct, frozen=True):
    """A departure from the protocol that a decoder accepted.

    Attributes:
        kind: Kind of the departure, such as `minted_id` or `resent_arguments`.
        where: The event, block or field that departs.
        count: Number of occurrences.
    """

    kind: str
    where: str
    count: int = 1


OnLoss: TypeAlias = Callable[[Loss], None]
OnNote: TypeAlias = Callable[[Note], None]


class Losses:
    """A counter of losses; equal losses are counted as one entry.

    Args:
        strict: Whether to raise `LossyEncoding` at the first.
        on_loss: Called with each loss as it happens, with a count of 1.
    """

    def __init__(self, *, strict: bool = False, on_loss: OnLoss | None = None) -> None:
        self._strict = strict
        self._on_loss = on_loss
        self._kinds: dict[tuple[str, str, str], Loss] = {}  # by the arguments of `add`
        self._counts: dict[Loss, int] = {}
        self._record: list[tuple[str, str, str]] | None = None

    def add(self, feature: str, where: str, detail: str = "", *, expected: str = "") -> None:
        """Count one loss.

        Args:
            feature: Name of what is lost.
            where: The event, block or field that had it.
            detail: The result.
            expected: The lossless alternative, for the error text.

        Raises:
            LossyEncoding: Losses are not allowed.
        """
        loss = self.count(feature, where, detail)
        if self._strict:
            hint = f", expected {expected}" if expected else ""
            raise LossyEncoding(
                f"{loss.feature} in {loss.where} would be lost{hint}", losses=[loss]
            )

    def count(self, feature: str, where: str, detail: str = "") -> Loss:
        """Count and return one loss; never raises, even if `strict`."""
        if self._record is not None:
            self._record.append((feature, where, detail))
        loss = self._kinds.get((feature, where, detail))
        if loss is None:
            loss = self._kind(feature[:_MAX_NAME_CHARS], where[:_MAX_NAME_CHARS], detail)
        self._counts[loss] = self._counts.get(loss, 0) + 1
        if self._on_loss is not None:
            self._on_loss(loss)
        return loss

    def record(self, work: Callable[[], T]) -> tuple[T, tuple[tuple[str, str, str], ...]]:
        """Return the result of `work`, and the arguments of `add` for each loss it counted."""
        record: list[tuple[str, str, str]] = []
        self._record = record
        try:
            return work(), tuple(record)
        finally:
            self._record = None

    def _kind(self, feature: str, where: str, detail: str) -> Loss:
        """Return the entry for a new loss; beyond the bounds on entries, a common one."""
        loss = Loss(feature, where, 1, detail)
        if loss not in self._counts and len(self._counts) >= _MAX_KINDS:
            loss = Loss(feature, "elsewhere", 1, detail)
            # Unknown fields of a request are features, too, and a client may send any number.
            if loss not in self._counts and len(self._counts) >= 2 * _MAX_KINDS:
                loss = Loss("other", "elsewhere")
        if loss.where == where and loss.feature == feature:
            self._kinds[feature, where, detail] = loss
        return loss

    def list(self) -> tuple[Loss, ...]:
        """Return the losses with their counts, in order of first appearance."""
        return tuple(structs.replace(loss, count=count) for loss, count in self._counts.items())
