"""The events and the losses of a target: what a transcoder writes, without bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import structs

from streamnorm._core.events import BlockStart, BlockStop, Event, Opaque
from streamnorm._core.grammar import Sequencer
from streamnorm._core.losses import Loss, Losses, ReasoningField
from streamnorm._core.losses.executed_calls import executed_calls
from streamnorm._core.losses.projection import Projector
from streamnorm._registry import capabilities


def project(
    events: Iterable[Event],
    dialect: str,
    *,
    reasoning: ReasoningField | None = "reasoning_content",
    include_usage: bool = True,
    extras: bool = False,
) -> tuple[list[Event], tuple[Loss, ...]]:
    """Return the events that a dialect can carry, with dense indexes, and the losses.

    Args:
        events: A whole stream, or its beginning.
        dialect: Dialect to write.
        reasoning: Field that reasoning is written to, as for `encoder`.
        include_usage: Whether the encoder writes the usage.
        extras: Whether the encoder writes the vendor's own fields back: for events that were
            decoded from the same dialect.

    Raises:
        UnknownDialect: There is no such dialect, or it has no capabilities.
        LocalProtocolError: The stream breaks the grammar.
    """
    losses = Losses()
    target = capabilities(dialect, reasoning=reasoning, include_usage=include_usage)
    projector = Projector(target, losses)
    projector.vendor_fields.are_carried = extras
    events = list(events)
    executed, is_of_agent = executed_calls(
        event.block for event in events if isinstance(event, BlockStart)
    )
    if (executed or is_of_agent) and not extras:
        projector.expect_executed_calls(of_agent=is_of_agent)
    written = [out for event in events for out in projector.push(event)]
    if not target.boundaries:  # text of several blocks becomes one, in the order of the blocks
        sequencer = Sequencer(overlapping=target.overlapping)
        written = [out for event in written for out in sequencer.push(event)]
    written = [out for event in written for out in _without(event, projector.withdrawn_calls)]
    numbers: dict[int, int] = {}
    projected: list[Event] = []
    for event in written:
        if isinstance(event, BlockStart):
            before = projector.merged.get(event.index)
            count = len(set(numbers.values()))
            numbers[event.index] = count if before is None else numbers[before]
            if before is not None:
                continue
        if isinstance(event, BlockStop) and event.index in projector.merged.values():
            continue  # the next block continues this one
        projected.append(_renumber(event, numbers))
    return projected, losses.list()


def _without(event: Event, withdrawn_calls: Collection[int]) -> list[Event]:
    """Return `[event]`; for a withdrawn call, return `[]`, or opaque data without the index."""
    if getattr(event, "index", None) not in withdrawn_calls:
        return [event]
    return [structs.replace(event, index=None)] if isinstance(event, Opaque) else []


def _renumber(event: Event, numbers: dict[int, int]) -> Event:
    index: int | None = getattr(event, "index", None)
    return event if index is None else structs.replace(event, index=numbers[index])
