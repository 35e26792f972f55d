"""Signatures of reasoning that the tool call behind it gets, too."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.blocks import Reasoning, ServerToolCall, ToolCall
from streamnorm._core.events import BlockStart, BlockStop, Event, JSONDelta, SignatureDelta
from streamnorm._core.limits import StoredBytes, text_bytes
from streamnorm._core.losses import Capabilities, Losses


class _LentSignature(Struct):
    """The signature of the reasoning directly before an open call.

    Attributes:
        signed: The signature.
        choice: Number of the choice of the reasoning.
        written: Whether nothing is left to write: the call has a signature, or cannot have one.
    """

    signed: SignatureDelta
    choice: int
    written: bool = False


class LentSignatures(Struct, eq=False):
    """Lend the signature of reasoning to the tool call directly behind it.

    Google's Interactions API signs the reasoning before a call instead of the call.  Clients of a
    dialect that signs calls may send no reasoning back: the first call behind it gets the
    signature, unless the call has its own before its arguments.  Blocks that are not written
    separate no call from its reasoning.

    A signature that reasoning and call share is written once to a target that signs only reasoning.

    Attributes:
        target: Capabilities of the target.
        losses: Counter of `signature`: those of reasoning that are nowhere else.
        stored: Counter of the signatures, until their call stops.
        last: Signature of the reasoning that was signed last, until a later block is written.
        calls: The lent signatures, by the index of the open call behind the reasoning.
    """

    target: Capabilities
    losses: Losses
    stored: StoredBytes
    last: _LentSignature | None = None
    calls: dict[int, _LentSignature] = {}

    def lend(self, event: SignatureDelta, choice: int) -> None:
        """Store a signature of reasoning for a call that directly follows the reasoning."""
        self.drop_last()
        self.last = _LentSignature(event, choice)
        self.stored.add(text_bytes(event.signature))

    def start(self, start: BlockStart, *, has_signature: bool = False) -> None:
        """Lend the last signature to a written block, if that is a call, else forget it.

        Args:
            start: Start of the block.
            has_signature: Whether the block is signed already, or needs no signature.
        """
        last = self.last
        if last is None or last.signed.index == start.index:
            return
        match start.block:
            case ToolCall() if last.choice == start.choice:
                last.written = has_signature
            case ServerToolCall():  # which may be withdrawn
                last.written = True
            case _:
                self.drop_last()
                return
        self.last, self.calls[start.index] = None, last

    def accept_own(self, own: SignatureDelta) -> bool:
        """Return whether a call's own signature has to be written: not if the target has it."""
        lent = self.calls.get(own.index)
        if lent is None:
            return True
        was_written, lent.written = lent.written, True
        if (lent.signed.signature, lent.signed.issuer) == (own.signature, own.issuer):
            return not was_written
        if not was_written:
            self._count_lost()
        return True

    def push(self, event: JSONDelta | BlockStop) -> list[Event]:
        """Return an event of a call, after the lent signature that is not written yet."""
        lent = self.calls[event.index]
        if lent.written:
            return [event]
        lent.written = True
        return [SignatureDelta(event.index, lent.signed.signature, lent.signed.issuer), event]

    def stop(self, index: int, *, is_withdrawn: bool) -> None:
        """Forget the signature lent to a call; if the call is withdrawn, store it for the next."""
        lent = self.calls.pop(index)
        if is_withdrawn and self.last is None:
            self.last = lent
            return
        self.stored.release(text_bytes(lent.signed.signature))

    def drop_last(self) -> None:
        """Forget the signature for a following call; count it as lost if it is nowhere else."""
        if self.last is None:
            return
        self.stored.release(text_bytes(self.last.signed.signature))
        self.last = None
        self._count_lost()

    def _count_lost(self) -> None:
        if Reasoning not in self.target.signed:
            self.losses.add("signature", "Reasoning", "dropped")
