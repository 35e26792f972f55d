"""Signatures that move between blocks, where the target signs other blocks than the vendor.

Some vendors sign tool calls and texts, and require the signature of a call to be sent back
with it.  For a dialect that can sign only reasoning, an empty reasoning block carries the
signature: before a call, after a text.  It names its call, since clients move reasoning before
all calls.  A dialect that can sign calls and texts gets the signature back on the block itself.

Another API of such a vendor signs the reasoning before a call instead.  Clients of a dialect
that signs calls may send no reasoning back, as Gemini CLI and those of Chat Completions: there the
first call behind the reasoning gets the signature.
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
        # Signature of the reasoning that was signed last, and its choice, until a block starts.
        self._lent: tuple[SignatureDelta, int] | None = None

    def push(self, event: Event) -> list[Event]:
        """Return an event, and the block that carries its signature if the target needs it."""
        match event:
            case BlockStart(index, block):
                lent = self._take_lent(event)
                is_written = self._target.choices or not event.choice
                if is_written and isinstance(block, self._carried_types):
                    self._open[index] = event
                if isinstance(block, ToolCall):
                    return self._start_call(event, block, lent)
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

    def lend(self, event: SignatureDelta, start: BlockStart) -> bool:
        """Store a signature of reasoning for a call that directly follows the reasoning.

        Args:
            event: The signature.
            start: Start of the reasoning.

        Returns:
            Whether the signature can go on nothing but a call.
        """
        if event.issuer is None:  # our own carrier
            return False
        if ToolCall not in self._carried_types and event.issuer != self._target.call_issuer:
            return False
        self._drop_lent()
        self._lent = event, start.choice
        self._stored.add(text_bytes(event.signature))
        return Reasoning not in self._target.signed

    def _take_lent(self, start: BlockStart) -> SignatureDelta | None:
        """Return the signature of the reasoning directly before a call, if the call may need it."""
        if self._lent is None:
            return None
        lent, choice = self._lent
        call, compares = start.block, ToolCall in self._carried_types
        needs = isinstance(call, ToolCall) and (compares or call.signature is None)
        if not needs or choice != start.choice:
            self._drop_lent()
            return None
        self._lent = None
        self._stored.release(text_bytes(lent.signature))
        return SignatureDelta(start.index, lent.signature, lent.issuer)

    def _drop_lent(self) -> None:
        """Forget the signature for a following call; count it as lost if it is nowhere else."""
        if self._lent is None:
            return
        self._stored.release(text_bytes(self._lent[0].signature))
        self._lent = None
        if Reasoning not in self._target.signed:
            self._losses.add("signature", "Reasoning", "dropped")

    def _pop_carrier(self, index: int) -> list[Event]:
        """Remove and return the events that carry a block's signature; [] if there are none."""
        if index not in self._after:
            return []
        carrier, signed = self._after.pop(index)
        self._stored.release(text_bytes(signed.signature))
        return carrier

    def end(self) -> None:
        """Count each carried signature whose tool call did not follow as lost."""
        self._drop_lent()
        for _ in range(len(self._found)):
            self._losses.add("signature", "ToolCall", "dropped")
        self._found.clear()

    def _start_call(
        self, event: BlockStart, call: ToolCall, lent: SignatureDelta | None
    ) -> list[Event]:
        is_carried = isinstance(call, self._carried_types)
        if is_carried and lent is not None and _is_signed_by(call, lent):
            # The reasoning has it already: both were written for clients that send one of them.
            return [structs.replace(event, block=_without_signature(call))]
        signed = None if is_carried else lent
        if (found := self._found.pop(call.id, None)) is not None:
            self._stored.release(text_bytes(found.signature))
            signed = SignatureDelta(event.index, found.signature, found.issuer)
        if call.signature is not None:
            signed = SignatureDelta(event.index, call.signature, call.issuer)
            event = structs.replace(event, block=_without_signature(call))
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


def _is_signed_by(call: ToolCall, event: SignatureDelta) -> bool:
    return (call.signature, call.issuer) == (event.signature, event.issuer)


def _without_signature(call: ToolCall) -> ToolCall:
    return structs.replace(call, signature=None, issuer=None)
