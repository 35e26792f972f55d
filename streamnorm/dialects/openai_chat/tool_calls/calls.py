"""The tool calls of one choice: which call a fragment belongs to, and when a call stops.

Servers leave out the index, send 0 for every call, count from 1, let the index drift, repeat
id and name, or send the id late.  A fragment is matched by id, then by index, then to the
latest call.  A function call stops when its arguments are complete and another block has
started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field

from streamnorm._core.events import BlockStop, Event, JSONDelta, StreamError
from streamnorm._core.json import clean
from streamnorm._core.provider_errors import Fatal, too_large
from streamnorm.dialects.openai_chat.tool_calls.arguments import COMPLETE_ENDS, Arguments
from streamnorm.dialects.openai_chat.tool_calls.fragments import CallFragment

__all__ = ["Call", "ToolCalls"]

_ENDS_OR_NULL = COMPLETE_ENDS | {"l"}


class Call(Struct, eq=False):
    """One tool call of a choice.

    Attributes:
        id: The provider's id; None until it is known.
        name: The tool's name as far as it is known.
        kind: Whether the arguments are JSON (`function`) or free text (`custom`).
        arguments: The arguments so far.
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
    kind: Literal["function", "custom"] = "function"
    arguments: Arguments = field(default_factory=Arguments)
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
        return not self.arguments.size or self.is_complete() or self.arguments.text() == "{}"

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
        arguments.append(text)
        return True

    def release(self, events: list[Event]) -> None:
        """Append the arguments that are still held, given that nothing follows."""
        held = ("{}" if self.has_placeholder else "") + clean(self.carry)
        self.has_placeholder, self.carry = False, ""
        if held:
            events.append(JSONDelta(self.index, held))

    def _is_resent(self, text: str) -> bool:
        """Return whether a fragment repeats complete arguments, and changes nothing."""
        arguments = self.arguments
        if len(text) == arguments.size > 2 and text == arguments.text() and arguments.is_complete():
            return True
        if self.stopped:
            if text.isspace():
                return True
            raise Fatal(StreamError("malformed", "arguments of a tool call that has stopped"))
        if text.lstrip().startswith("{") and arguments.closes_object() and arguments.is_complete():
            raise Fatal(StreamError("malformed", "a second object as arguments of one tool call"))
        return False

    def _append_to_placeholder(self, text: str, note: Callable[[str, str], None]) -> str:
        if not text.lstrip().startswith("{"):
            self.has_placeholder = False
            self.arguments.append(text)
            return "{}" + text
        note("placeholder_arguments", "tool call")
        self.arguments = Arguments()
        self.arguments.append(text)
        self.has_placeholder = text == "{}"
        return "" if self.has_placeholder else text


class ToolCalls:
    """The tool calls of one choice.

    Attributes:
        all: The calls, in order of appearance.
        by_index: The calls that have an index on the wire.
        by_id: The calls that have an id.
        last: The call that the latest fragment belonged to.
        open: The calls whose blocks have started and not stopped, by block index.
        held_signatures: Signatures that arrived before their calls, by id of the call.
    """

    def __init__(self) -> None:
        self.all: list[Call] = []
        self.by_index: dict[int, Call] = {}
        self.by_id: dict[str, Call] = {}
        self.last: Call | None = None
        self.open: dict[int, Call] = {}
        self.held_signatures: dict[str, str] = {}
        self._held_chars = 0
        # Calls, by block index, that may be complete when the next block starts.
        self._unsettled: dict[int, Call] = {}

    def resolve(self, fragment: CallFragment) -> Call:
        """Return the call that a fragment belongs to, a new one if the fragment begins it."""
        call, name = self._known(fragment), fragment.name
        if call is None:
            call = self._add(fragment)
        elif name and call.index < 0 and name != call.name:
            if not call.name:
                call.name = name
            elif not call.arguments.size:  # a name in parts ends where arguments begin
                call.name += name
        self.last = call
        return call

    def start(self, call: Call, index: int, events: list[Event]) -> None:
        """Open the block of a call, whose start was appended, and append its arguments so far."""
        call.index, call.delta = index, JSONDelta(index, "")
        self.open[index] = self._unsettled[index] = call
        if call.arguments.size and not call.has_placeholder:
            events.append(JSONDelta(index, call.arguments.text()))
        call.update_appendable()

    def append_plain(self, call_index: int, fragment: str) -> JSONDelta | None:
        """Append a fragment to an open call, and return a delta of its block.

        None leaves the call unchanged: the fragment may repeat, restart or complete the
        arguments; read the frame in full.
        """
        call = self.by_index.get(call_index)
        if call is None or not call.append_plain(fragment):
            return None
        if fragment:
            self.last = call
        return call.delta

    def emit_arguments(self, call: Call, text: str, events: list[Event]) -> None:
        """Append arguments of an open call, and its stop if it is followed and now complete."""
        events.append(JSONDelta(call.index, text))
        self._unsettled[call.index] = call
        if call.followed and text[-1] in COMPLETE_ENDS and call.is_complete():
            self._stop(call, events)
            events.append(BlockStop(call.index))

    def stop_complete(self, events: list[Event]) -> list[int]:
        """Stop the complete calls, since another block starts, and return their block indexes."""
        calls = [call for _, call in sorted(self._unsettled.items())]
        for call in calls:
            call.followed = True
        complete = [call for call in calls if call.is_complete()]
        for call in complete:
            self._stop(call, events)
        self._unsettled.clear()
        return [call.index for call in complete]

    def flush(self, events: list[Event]) -> list[int]:
        """Append the held arguments of open calls at the end, and return their block indexes."""
        for call in self.open.values():
            call.release(events)
        return list(self.open)

    def hold_signature(self, id: str, signature: str, max_held_bytes: int) -> None:
        """Hold the signature of a call that has not begun.

        Raises:
            Fatal: More than `max_held_bytes` characters have been held.
        """
        self.held_signatures[id] = signature
        self._held_chars += len(signature)
        if self._held_chars > max_held_bytes:
            raise too_large("max_held_bytes", max_held_bytes)

    def _known(self, fragment: CallFragment) -> Call | None:
        """Return the call that a fragment continues; None if the fragment begins a call."""
        if fragment.id is not None:
            return self.by_id.get(fragment.id) or self._call_without_id(fragment.id, fragment)
        if fragment.index is not None:
            call = self.by_index.get(fragment.index)
            if call is None:  # the index drifts, or the call starts without an id
                return None if fragment.name else self.last
            return None if call.id is None and _begins_call(fragment, after=call) else call
        call = self.last
        return None if call is None or _begins_call(fragment, after=call) else call

    def _call_without_id(self, id: str, fragment: CallFragment) -> Call | None:
        """Set the late id of the call at the fragment's index, and return the call."""
        call = self.by_index.get(fragment.index) if fragment.index is not None else None
        if call is None or call.id is not None:
            return None
        if fragment.name and call.name and fragment.name != call.name:
            return None
        call.id = id  # a block that has started keeps its minted id
        self.by_id[id] = call
        return call

    def _stop(self, call: Call, events: list[Event]) -> None:
        call.stopped, call.is_appendable = True, False
        del self.open[call.index], self._unsettled[call.index]
        call.release(events)

    def _add(self, fragment: CallFragment) -> Call:
        call = Call(fragment.id, fragment.name, "custom" if fragment.is_custom else "function")
        self.all.append(call)
        if call.id is not None:
            self.by_id[call.id] = call
        if fragment.index is not None:
            self.by_index[fragment.index] = call
        return call


def _begins_call(fragment: CallFragment, *, after: Call) -> bool:
    """Return whether a fragment without id cannot continue the call `after`."""
    if not (fragment.name and after.name and after.arguments.size):
        return False
    if fragment.name != after.name:
        return True
    text = fragment.arguments
    return bool(text) and after.is_complete() and text != after.arguments.text()
