"""A whole stream cut down to what one dialect can carry."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import structs

from streamnorm._core.events import BlockStart, BlockStop, Event, Opaque
from streamnorm._core.losses.capabilities import Loss, Losses, ReasoningField, capabilities
from streamnorm._core.losses.projection import Projector
from streamnorm._core.ordering import Sequencer

__all__ = ["project"]


def project(
    events: Iterable[Event],
    dialect: str,
    *,
    reasoning: ReasoningField | None = "reasoning_content",
    include_usage: bool = True,
) -> tuple[list[Event], tuple[Loss, ...]]:
    """Return what of a stream a dialect can carry, renumbered, and what it cannot.

    Args:
        events: A whole stream, or its beginning.
        dialect: The dialect.
        reasoning: Where its encoder writes reasoning, as for `encoder`.
        include_usage: Whether it writes the usage.

    Raises:
        UnknownDialect: No table for `dialect`.
        LocalProtocolError: The stream breaks the grammar.
    """
    losses = Losses()
    can = capabilities(dialect, reasoning=reasoning, include_usage=include_usage)
    projector = Projector(can, losses)
    passed = [out for event in events for out in projector.push(event)]
    if not can.boundaries:  # text of several blocks becomes one, in the order of the blocks
        sequencer = Sequencer(overlapping=can.overlapping)
        passed = [out for event in passed for out in sequencer.push(event)]
    passed = [out for event in passed for out in _written(event, projector.unwritten)]
    numbers: dict[int, int] = {}
    projected: list[Event] = []
    for event in passed:
        if isinstance(event, BlockStart):
            before = projector.merged.get(event.index)
            count = len(set(numbers.values()))
            numbers[event.index] = count if before is None else numbers[before]
            if before is not None:
                continue
        if isinstance(event, BlockStop) and event.index in projector.merged.values():
            continue  # what follows goes on with it
        projected.append(_renumbered(event, numbers))
    return projected, losses.list()


def _written(event: Event, unwritten: Collection[int]) -> list[Event]:
    """Return what is written of an event, given the calls of which nothing is."""
    if getattr(event, "index", None) not in unwritten:
        return [event]
    return [structs.replace(event, index=None)] if isinstance(event, Opaque) else []


def _renumbered(event: Event, numbers: dict[int, int]) -> Event:
    index: int | None = getattr(event, "index", None)
    return event if index is None else structs.replace(event, index=numbers[index])
