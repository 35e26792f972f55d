"""One tool call: its fragments as they arrive, and what each of them adds to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.events import Event, JSONDelta, StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean
from streamnorm.dialects.openai_chat.tool_calls.arguments import COMPLETE_ENDS, Arguments

__all__ = ["Call", "ChunkId", "malformed"]

_ENDS_OR_NULL = COMPLETE_ENDS | {"l"}

ChunkId: TypeAlias = str | int | None
"""Id of a chunk; None if it is empty."""


class Call(Struct, eq=False):
    """One tool call of a choice.

    Attributes:
        id: The provider's id; None until it is known.
        name: The tool's name as far as it is known.
        arguments: The arguments so far.
        wire_index: Index on the wire, the latest if it drifts; None if it has none.
        chunk_id: Id of the chunk that began the call; None while its chunks have none.
        kind: Whether the arguments are JSON (`function`) or free text (`custom`).
        index: Block index; -1 while the start is held.
        delta: A delta of the block, once that has started.
        is_appendable: Whether `append_plain` may accept fragments.
        has_placeholder: Whether the arguments are a lone `{}` that has not been emitted.
        followed: Whether a later block has begun.
        stopped: Whether the block has stopped.
        carry: High surrogate at the end of the last fragment.
        signature: Signature that arrived before the start was emitted.
        issuer: Issuer of that signature.
    """

    id: str | None
    name: str
    arguments: Arguments
    wire_index: int | None = None
    chunk_id: ChunkId = None
    kind: Literal["function", "custom"] = "function"
    index: int = -1
    delta: JSONDelta = JSONDelta(-1, "")
    is_appendable: bool = False
    has_placeholder: bool = False
    followed: bool = False
    stopped: bool = False
    carry: str = ""
    signature: str | None = None
    issuer: str | None = None

    @property
    def has_content(self) -> bool:
        """Whether arguments or a signature have arrived."""
        return bool(self.arguments.size) or self.signature is not None

    def is_complete(self) -> bool:
        """Return whether no further arguments can follow."""
        return self.kind == "function" and self.arguments.is_complete()

    def is_executable(self) -> bool:
        """Return whether the arguments are whole, given that nothing follows."""
        return self.kind == "custom" or self.arguments.is_whole()

    def can_grow(self, *, is_last: bool) -> bool:
        """Return whether a fragment that names no call may continue this one.

        Args:
            is_last: Whether no later call has begun: one without arguments ends there.
        """
        if self.stopped or self.is_complete():
            return False
        return is_last or not self.arguments.is_empty()

    def update_appendable(self) -> None:
        """Set `is_appendable` after a fragment was read in full."""
        held = self.stopped or self.has_placeholder or self.carry or self.index < 0
        self.is_appendable = self.kind == "function" and not held and self.arguments.size > 0

    def append(self, text: str, note: Callable[[str, str], None], *, cumulative: bool) -> str:
        """Append a fragment and return the part of it to emit.

        A lone `{}` is held until the next fragment or `release`: it may be a placeholder
        for the object that follows it.

        Args:
            text: The fragment.
            note: Counts a deviation that was forgiven.
            cumulative: Whether each fragment repeats all before it.

        Raises:
            Fatal: The arguments were already complete.
        """
        arguments = self.arguments
        if self.kind == "custom":
            arguments.append(text)
            return text
        if arguments.size:
            if cumulative and text.startswith(arguments.text()):
                note("cumulative_arguments", "tool call")
                text = text[arguments.size :]
                if not text:
                    return ""
            if self._is_resent(text):
                note("resent_arguments", "tool call")
                return ""
            if self.has_placeholder:
                return self._append_to_placeholder(text, note)
        arguments.append(text)
        if text == "{}" and arguments.size == 2:
            self.has_placeholder = True
            return ""
        return text

    def append_plain(self, text: str) -> bool:
        """Append a fragment that only extends the arguments.

        False leaves the call unchanged: the fragment may repeat, restart or complete the
        arguments, and needs `append`.
        """
        arguments = self.arguments
        if not self.is_appendable or len(text) == arguments.size:
            return False
        if not text:
            return True
        first = text[0]
        if (first == "{" or first.isspace()) and arguments.closes_object():
            return False
        # Once a later block has begun, complete arguments stop the call.
        if self.followed and text[-1] in _ENDS_OR_NULL and arguments.may_end_with(text):
            return False
        return arguments.append_if_bounded(text)

    def release(self, events: list[Event]) -> None:
        """Append the arguments that are still held, given that nothing follows."""
        held = ("{}" if self.has_placeholder else "") + clean(self.carry)
        self.has_placeholder, self.carry = False, ""
        if held:
            events.append(JSONDelta(self.index, held))

    def _is_resent(self, text: str) -> bool:
        """Return whether a fragment repeats complete arguments, and changes nothing."""
        if self.has_placeholder:
            return False
        arguments = self.arguments
        if len(text) == arguments.size and text == arguments.text() and self._is_closed():
            return True
        if self.stopped:
            if text.isspace():
                return True
            raise malformed("arguments of a tool call that has stopped")
        if text.lstrip().startswith("{") and arguments.closes_object() and self._is_closed():
            raise malformed("a second object as arguments of one tool call")
        return False

    def _is_closed(self) -> bool:
        """Return whether the arguments are complete, or a `{}` that has been emitted."""
        return self.arguments.is_complete() or self.arguments.is_empty()

    def _append_to_placeholder(self, text: str, note: Callable[[str, str], None]) -> str:
        if not text.lstrip().startswith("{"):
            self.has_placeholder = False
            self.arguments.append(text)
            return "{}" + text
        note("placeholder_arguments", "tool call")
        self.arguments = Arguments(self.arguments.stored)
        self.arguments.append(text)
        self.has_placeholder = text == "{}"
        return "" if self.has_placeholder else text


def malformed(message: str) -> Fatal:
    """Return the error of a stream whose tool calls contradict themselves."""
    return Fatal(StreamError("malformed", message))
