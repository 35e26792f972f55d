"""Signatures of what a dialect cannot sign, on reasoning of their own.

Gemini signs tool calls and texts, and wants the first back with the calls.  Where a dialect
has no place for those, an empty block of reasoning carries them: before a call, behind a
text.  It names the call, since clients put reasoning before all calls.  Where there is a
place, they go back to it.
"""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.blocks import Reasoning, RedactedReasoning, Text, ToolCall
from streamnorm._core.events import BlockStart, BlockStop, Event, SignatureDelta
from streamnorm._core.ids import Carried, carried_signature, carry_signature
from streamnorm._core.losses.capabilities import Capabilities, Losses

__all__ = ["Carriers"]


class Carriers:
    """Put signatures on carriers, and take them off.

    Args:
        capabilities: The dialect.
        losses: Where those are counted whose call never comes.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._can = capabilities
        self._losses = losses
        carries = capabilities.reasoning and Reasoning in capabilities.signed
        kinds = (Text, ToolCall) if carries else ()
        self._carried = tuple(kind for kind in kinds if kind not in capabilities.signed)
        # What another vendor sealed says so, and comes back as what it is.
        self._bare = capabilities.bare_redacted if carries else None
        self._count = 0
        self._open: dict[int, BlockStart] = {}  # those whose signature has to be carried
        self._behind: dict[int, list[Event]] = {}  # the carriers that wait for their stop
        self._found: dict[str, Carried] = {}  # signatures of calls to come

    def push(self, event: Event) -> list[Event]:
        """Return an event, and the carrier of its signature as a block with a negative index."""
        match event:
            case BlockStart(index, block):
                if isinstance(block, self._carried) and self._has_choice(event):
                    self._open[index] = event
                if isinstance(block, ToolCall):
                    return self._start(event, block)
                if isinstance(block, RedactedReasoning) and self._is_bare(block):
                    start = structs.replace(event, block=Reasoning())
                    return [start, SignatureDelta(index, block.data, block.issuer)]
            case SignatureDelta(index) if index in self._open:
                self._behind[index] = self._carrier(self._open[index], event)
                return []
            case BlockStop(index) if index in self._open:
                del self._open[index]
                return [event, *self._behind.pop(index, [])]
            case _:
                pass
        return [event]

    def take(self, event: SignatureDelta) -> Carried | None:
        """Return what a block carries that has a place of its own here, if it does."""
        carried = carried_signature(event.signature) if event.issuer is None else None
        if carried is None or (ToolCall if carried.id else Text) not in self._can.signed:
            return None
        if carried.id:
            self._found[carried.id] = carried
        return carried

    def end(self) -> None:
        """Count the signatures whose call did not come, or had come before."""
        for _ in range(len(self._found)):
            self._losses.add("signature", "ToolCall", "dropped")
        self._found.clear()

    def _start(self, event: BlockStart, call: ToolCall) -> list[Event]:
        found = self._found.pop(call.id, None)
        signed = (
            None if found is None else SignatureDelta(event.index, found.signature, found.issuer)
        )
        if call.signature is not None:
            signed = SignatureDelta(event.index, call.signature, call.issuer)
            call = structs.replace(call, signature=None, issuer=None)
            event = structs.replace(event, block=call)
        if signed is None:
            return [event]
        return (
            [*self._carrier(event, signed), event] if event.index in self._open else [event, signed]
        )

    def _carrier(self, start: BlockStart, signed: SignatureDelta) -> list[Event]:
        id = start.block.id if isinstance(start.block, ToolCall) else ""
        carried = Carried(signed.signature, signed.issuer, id)
        self._count += 1
        index = -self._count
        return [
            BlockStart(index, Reasoning(), start.choice),
            SignatureDelta(index, carry_signature(carried), None),
            BlockStop(index),
        ]

    def _is_bare(self, block: RedactedReasoning) -> bool:
        return bool(block.data) and self._bare is not None and block.issuer == self._bare

    def _has_choice(self, start: BlockStart) -> bool:
        return self._can.choices or not start.choice
