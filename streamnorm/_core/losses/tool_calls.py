"""Reducer of calls of the client's tools: their ids, their namespaces, and unfinished text."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.blocks import ToolCall
from streamnorm._core.events import BlockStart, BlockStop
from streamnorm._core.ids import mint_id
from streamnorm._core.losses.capabilities import Capabilities
from streamnorm._core.losses.loss import Losses

__all__ = ["ToolCalls"]


class ToolCalls:
    """Reduces the starts and stops of calls to what the target can carry.

    Args:
        capabilities: Those of the target.
        losses: Counts `duplicate_id`, `namespace` and `unfinished_call`.
    """

    _ids: set[tuple[int, str]] | None = None  # by choice; most messages have no call

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._can = capabilities
        self._losses = losses

    def start(self, event: BlockStart, call: ToolCall) -> BlockStart:
        """Return the start of a call, with an id that no call of its choice has."""
        if self._ids is None:
            self._ids = set()
        key = (event.choice, call.id)
        is_new = key not in self._ids
        has_place = call.namespace is None or self._can.namespaces
        if is_new and has_place:
            self._ids.add(key)
            return event
        if not is_new:
            self._losses.add("duplicate_id", "tool call", "written with an id of its own")
            call = structs.replace(call, id=mint_id(*key, event.index))
        self._ids.add(key)
        if not has_place:
            self._losses.add("namespace", "tool call", "dropped")
            call = structs.replace(call, namespace=None)
        return structs.replace(event, block=call)

    def stop(self, event: BlockStop, *, is_wrapped: bool) -> BlockStop:
        """Return the stop of a block.

        Args:
            event: The stop.
            is_wrapped: Whether the block is free text within a JSON object, which ends as it
                does.
        """
        if not event.is_unfinished or self._can.unfinished_calls:
            return event
        if not is_wrapped:
            self._losses.add("unfinished_call", "tool call", "written as if it were complete")
        return BlockStop(event.index)
