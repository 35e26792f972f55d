"""Signatures of calls and texts for dialects that can sign only reasoning.

Some vendors sign tool calls and texts, and require the signature of a call to be sent back
with it.  For a dialect that can sign only reasoning, an empty reasoning block carries the
signature: before a call, after a text.  It names its call, since clients move reasoning before
all calls.  A dialect that can sign calls and texts gets the signature back on the block itself.
"""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.blocks import Image, Reasoning, RedactedReasoning, Text, ToolCall
from streamnorm._core.events import BlockStart, BlockStop, Event, SignatureDelta
from streamnorm._core.limits import StoredBytes, text_bytes
from streamnorm._core.losses import Capabilities, Losses, drop_signature
from streamnorm._core.text import SignatureCarrier, read_carrier, write_carrier


class SignatureCarriers:
    """Move signatures that the target cannot attach to a block into reasoning blocks, and back.

    Args:
        capabilities: Capabilities of the target.
        losses: Counter of `signature`: carried signatures whose call does not follow.
        stored: Counter of signatures that wait for their block, or for its end.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses, stored: StoredBytes) -> None:
        self._target = capabilities
        self._losses = losses
        self._stored = stored
        carries = capabilities.reasoning and Reasoning in capabilities.signed
        kinds = (Text, ToolCall) if carries else ()
        self._carried_types = tuple(kind for kind in kinds if kind not in capabilities.signed)
        # Redacted reasoning of any other issuer is written with a tag, and read back as such.
        self._signature_issuer = capabilities.redacted_as_signature_of if carries else None
        self._count = 0
        self._open: dict[int, BlockStart] = {}  # blocks whose signature needs a carrier
        # Carriers to emit at the stop of their block, each with its signature.
        self._after: dict[int, tuple[list[Event], SignatureDelta]] = {}
        self._found: dict[str, SignatureCarrier] = {}  # signatures of later calls, by call id

    def push(self, event: Event) -> list[Event]:
        """Return an event, and the block that carries its signature if the target needs it."""
        match event:
            case BlockStart(index, block):
                is_written = self._target.choices or not event.choice
                if is_written and isinstance(block, self._carried_types):
                    self._open[index] = event
                if isinstance(block, ToolCall):
                    return self._start_call(event, block)
                if isinstance(block, Image) and Image not in self._target.signed:
                    return [structs.replace(event, block=drop_signature(block, self._losses))]
                # Google has no redacted thought: what is redacted for others is a signature there.
                if isinstance(block, RedactedReasoning) and self._is_signature(block):
                    start = structs.replace(event, block=Reasoning())
                    return [start, SignatureDelta(index, block.data, block.issuer, block.id)]
            case SignatureDelta(index) if index in self._open:
                self._pop_carrier(index)
                self._stored.add(text_bytes(event.signature))
                self._after[index] = self._carrier(self._open[index], event), event
                return []
            case BlockStop(index) if index in self._open:
                del self._open[index]
                return [event, *self._pop_carrier(index)]
            case _:
                pass
        return [event]

    def unwrap(self, event: SignatureDelta) -> SignatureCarrier | None:
        """Return the signature that `event` carries for a block that the target can sign."""
        # Only signatures without an issuer can be our carriers: those of vendors are not read.
        carried = read_carrier(event.signature) if event.issuer is None else None
        if carried is None or (ToolCall if carried.id else Text) not in self._target.signed:
            return None
        if carried.id:
            self._stored.add(text_bytes(carried.signature))
            self._found[carried.id] = carried
        return carried

    def _pop_carrier(self, index: int) -> list[Event]:
        """Remove and return the events that carry a block's signature; [] if there are none."""
        if index not in self._after:
            return []
        carrier, signed = self._after.pop(index)
        self._stored.release(text_bytes(signed.signature))
        return carrier

    def end(self) -> None:
        """Count each carried signature whose tool call did not follow as lost."""
        for _ in range(len(self._found)):
            self._losses.add("signature", "ToolCall", "dropped")
        self._found.clear()

    def _start_call(self, event: BlockStart, call: ToolCall) -> list[Event]:
        signed: SignatureDelta | None = None
        if (found := self._found.pop(call.id, None)) is not None:
            self._stored.release(text_bytes(found.signature))
            signed = SignatureDelta(event.index, found.signature, found.issuer)
        if call.signature is not None:
            signed = SignatureDelta(event.index, call.signature, call.issuer)
            call = structs.replace(call, signature=None, issuer=None)
            event = structs.replace(event, block=call)
        if signed is None:
            return [event]
        is_open = event.index in self._open
        return [*self._carrier(event, signed), event] if is_open else [event, signed]

    def _carrier(self, start: BlockStart, signed: SignatureDelta) -> list[Event]:
        id = start.block.id if isinstance(start.block, ToolCall) else ""
        carried = SignatureCarrier(signed.signature, signed.issuer, id)
        self._count += 1
        index = -self._count
        return [
            BlockStart(index, Reasoning(), start.choice),
            SignatureDelta(index, write_carrier(carried), None),
            BlockStop(index),
        ]

    def _is_signature(self, block: RedactedReasoning) -> bool:
        """Return whether the target writes redacted reasoning as a signature."""
        return bool(block.data) and block.issuer == self._signature_issuer is not None
