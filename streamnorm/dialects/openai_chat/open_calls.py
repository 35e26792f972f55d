"""Tool calls of one choice: held starts, assignment of fragments to calls, and stops.

A chat call starts once its name is known and an argument, another block or the end has
arrived.  Content that arrives earlier is queued in `PendingStarts`, so that blocks start in
wire order.  Servers omit, repeat or change indexes and ids: `ToolCalls` resolves a fragment by
the keys it has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct, field

from streamnorm._core.events import BlockStop, Event, JSONDelta
from streamnorm._core.failures import malformed, store_bytes, too_large
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes, text_bytes
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.openai_chat.tool_calls import (
    COMPLETE_ENDS,
    Arguments,
    Call,
    CallFragment,
    ChunkId,
)

# Queued items whose own memory is not counted.
_USUAL_ITEMS = 4

TextKind: TypeAlias = Literal["text", "reasoning", "refusal"]


class HeldText(Struct):
    """Held text: consecutive deltas of one kind, joined.

    Attributes:
        kind: The kind.
        text: The text.
        signed_index: Index of the reasoning detail that it is of, if such details are signed.
    """

    kind: TextKind
    text: TextBuffer
    signed_index: int | None


class HeldEvents(Struct):
    """A held signature or encrypted reasoning; `append` emits its events."""

    append: Callable[[list[Event]], None]


class PendingStarts(Struct, eq=False):
    """Queue, in wire order, of held call starts and of the content behind these starts.

    Attributes:
        max_held_bytes: Bound on queued text, arguments and signatures, in UTF-8 bytes, with the
            memory of many items.
        items: The queued items.
        ready: Number of queued items that have content to emit.
        held_bytes: Bytes that count against the bound.
    """

    max_held_bytes: int
    items: deque[Call | HeldText | HeldEvents] = field(default_factory=deque)
    ready: int = 0
    held_bytes: int = 0

    def add_call(self, call: Call) -> None:
        """Queue a call that has no content yet."""
        self.items.append(call)

    def mark_ready(self, content: str, *, first: bool) -> None:
        """Count new content of a queued call against the bound; `first` marks its first content."""
        self.ready += first
        self._count(content)

    def add_text(self, kind: TextKind, text: str, signed_index: int | None) -> None:
        """Queue text; join it to the last queued item if this item is text of the same detail."""
        last = self.items[-1]
        if not (
            isinstance(last, HeldText) and (last.kind, last.signed_index) == (kind, signed_index)
        ):
            last = HeldText(kind, TextBuffer(), signed_index)
            self._append(last)
        last.text.append(text)
        self._count(text)

    def add_events(self, append: Callable[[list[Event]], None], content: str) -> None:
        """Queue a signature or encrypted reasoning; `content` counts against the bound."""
        self._append(HeldEvents(append))
        self._count(content)

    def pop(self, *, force: bool) -> Call | HeldText | HeldEvents | None:
        """Remove and return the first queued item; None if the item must wait.

        The first item waits until any item has content: until then a name may still grow,
        even between the fragments of parallel calls.  A call without a name always waits.

        Args:
            force: Do not wait for content: another block or the end has arrived.
        """
        if not (self.ready or force):
            return None
        item = self.items[0]
        # gateway/arguments-before-the-name: every target writes the name with the start.
        if isinstance(item, Call) and not item.name:
            return None
        self.items.popleft()
        self.ready -= item.has_content if isinstance(item, Call) else 1
        if not self.items:
            self.held_bytes = 0  # released all at once: sizes of single items are not stored
        return item

    def _append(self, item: HeldText | HeldEvents) -> None:
        self.items.append(item)
        self.ready += 1
        if len(self.items) > _USUAL_ITEMS:
            self.held_bytes += OBJECT_BYTES

    def _count(self, content: str) -> None:
        self.held_bytes += text_bytes(content)
        if self.held_bytes > self.max_held_bytes:
            raise too_large("max_held_bytes", self.max_held_bytes)


_KINDS: tuple[Literal["function"], Literal["custom"]] = ("function", "custom")


class ToolCalls(Struct, eq=False):
    """The tool calls of one choice.

    Attributes:
        note: Records an accepted deviation.
        stored: Counter of what the decoder stores.
        all: The calls, in order of appearance.
        by_index: The calls that have an index on the wire.
        by_id: The calls that have an id.
        open: The calls whose blocks have started and not stopped, by block index.
        held_signatures: Signatures that arrived before their calls, by id of the call.
        moves: How often an index came to be of another call, or of one not known yet.
    """

    note: Callable[[str, str], None]
    stored: StoredBytes
    all: list[Call] = []
    by_index: dict[int, Call] = {}
    by_id: dict[str, Call] = {}
    open: dict[int, Call] = {}
    held_signatures: dict[str, str] = {}
    moves: int = 0
    _left: set[int] = set()  # indexes from which a call has drifted
    _reached: set[int] = set()  # indexes to which a call has drifted
    _blank_at: int | None = None  # unknown index of whitespace that may begin a drift
    _held_bytes: int = 0  # of all signatures held so far, replaced ones included
    # Calls, by block index, that may be complete when the next block starts.
    _unsettled: dict[int, Call] = {}

    def resolve(self, fragment: CallFragment, chunk_id: ChunkId) -> Call:
        """Return the call that a fragment continues, or a new call if the fragment starts a call.

        Raises:
            Fatal: The fragment fits no call, or two.
        """
        call, name = self._find_call(fragment), fragment.name
        if call is None:
            return self._add(fragment, chunk_id)
        if chunk_id is not None and chunk_id != call.chunk_id:
            if call.chunk_id is not None:
                # The chunk id is what two spliced answers differ in; joined arguments would be a
                # call of neither.
                raise malformed("a tool call goes on in a chunk of another id")
            call.chunk_id = chunk_id
        # A repeated name changes nothing, as Fireworks and vLLM send it
        # (fireworks/id-and-name-repeated, vllm/metadata-again-with-the-last-arguments), nor does
        # any name behind arguments.
        if name and name != call.name and not (call.name and call.arguments.size):
            # Some routes of OpenRouter cut the name (openrouter/name-in-pieces).
            if call.index < 0:
                call.name += name  # in parts, which end where arguments begin
            elif not call.name.endswith(name):
                raise malformed("the name of a tool call goes on after its start")
        return call

    def start(self, call: Call, index: int, events: list[Event]) -> None:
        """Register a call whose start was appended, and append its arguments so far."""
        call.index, call.delta = index, JSONDelta(index, "")
        self.open[index] = self._unsettled[index] = call
        if call.arguments.size and not call.has_placeholder:
            events.append(JSONDelta(index, call.arguments.text()))
        call.update_appendable()

    def find_open(self, call_index: int, chunk_id: ChunkId) -> Call | None:
        """Return the call whose arguments a fragment may extend; None if the slow path must decide.

        The same call is at the index in chunks of the same id until `moves` changes.
        """
        call = self.by_index.get(call_index)
        # A blank fragment at an unknown index waits for the fragment that explains it.
        if call is None or (chunk_id != call.chunk_id and chunk_id) or self._blank_at is not None:
            return None
        return call

    def emit_arguments(self, call: Call, text: str, events: list[Event]) -> None:
        """Append arguments of an open call; stop a complete call if a later block has begun."""
        events.append(JSONDelta(call.index, text))
        self._unsettled[call.index] = call
        # With interleaved calls the last brace of one may come behind the start of the next
        # (openai/parallel-tools-interleaved-three-characters).
        if call.followed and text[-1] in COMPLETE_ENDS and call.is_complete():
            self._stop(call, events)
            events.append(BlockStop(call.index))

    def stop_complete(self, events: list[Event]) -> list[int]:
        """Stop all complete calls, since another block starts; return their block indexes."""
        stopped: list[int] = []
        for index, call in sorted(self._unsettled.items()):
            call.followed = True
            if call.is_complete():
                self._stop(call, events)
                stopped.append(index)
        self._unsettled.clear()
        return stopped

    def flush(self, events: list[Event]) -> list[int]:
        """Append the held arguments of all open calls; return the block indexes of the calls."""
        for call in self.open.values():
            call.release(events)
        return list(self.open)

    def hold_signature(self, id: str, signature: str, max_held_bytes: int) -> None:
        """Hold the signature of a call that has not begun.

        Raises:
            Fatal: More than `max_held_bytes` have been held.
        """
        self.held_signatures[id] = signature
        self._held_bytes += OBJECT_BYTES + text_bytes(id) + text_bytes(signature)
        if self._held_bytes > max_held_bytes:
            raise too_large("max_held_bytes", max_held_bytes)

    def _find_call(self, fragment: CallFragment) -> Call | None:
        """Return the call that a fragment continues; None if the fragment starts a call."""
        index = fragment.index
        if index in self._left:
            raise malformed(f"tool call index {index} again after it had drifted")
        if self._blank_at is not None and (
            index != self._blank_at or fragment.id is not None or fragment.name
        ):
            raise malformed(
                f"a blank fragment at index {self._blank_at}, where no tool call goes on"
            )
        at = None if index is None else self.by_index.get(index)
        # The id before the index: Ollama's index is 0 for every call, Foundry Local's is 1
        # (ollama/index-always-zero, foundry-local/index-always-one).
        if fragment.id is not None:
            call = self.by_id.get(fragment.id)
            if call is None:
                return self._call_without_id(fragment.id, fragment, at)
            if index is not None and index != call.wire_index is not None:
                _check_same_call(fragment, call, at)
            return call
        # Mistral and Gemini's endpoint send none, GLM sends -1 (mistral/no-index-whole-calls,
        # gemini/no-index-and-empty-id-on-continuation).
        if index is None:
            return self._call_without_index(fragment)
        if at is None:
            # The first index need not be 0: GPT-5 behind OpenRouter begins at 1
            # (openrouter/encrypted-reasoning-then-call-at-index-one).
            return None if fragment.name else self._drifting_call(index, fragment.arguments)
        # Without ids the name is all that begins the next call at the same index.
        return None if at.id is None and _begins_call(fragment, after=at) else at

    def _call_without_id(self, id: str, fragment: CallFragment, at: Call | None) -> Call | None:
        """Return the call at a fragment's index and set its id; None if the id is of a new call."""
        if at is None or at.id is not None:
            return None
        # Two names are two calls, for any index.
        if fragment.name and at.name and fragment.name != at.name:
            return None
        at.id = id  # a block that has started keeps its minted id
        self.by_id[id] = at
        return at

    def _call_without_index(self, fragment: CallFragment) -> Call | None:
        """Return the call that a fragment without id and index continues; None for a new call."""
        last = self.all[-1] if self.all else None
        if fragment.name:
            return None if last is None or _begins_call(fragment, after=last) else last
        growing = self._growing_calls()
        if len(growing) > 1:
            raise malformed(
                f"arguments of any of {len(growing)} open tool calls, expected an index"
            )
        if growing:
            return growing[0]
        if last is None:
            # An argument text without any key belongs to the last call; here there is none.
            raise malformed("arguments before the id and the name of their tool call")
        text = fragment.arguments.strip()
        # Whole arguments once more are what vLLM's parsers send; anything else has lost its call.
        if text and text != last.arguments.text().strip():
            raise malformed("arguments of no tool call: all of them are complete")
        return last

    def _drifting_call(self, index: int, arguments: str) -> Call:
        """Return the call that a fragment with an unknown index continues.

        sgl-project/sglang#6310 and agno-agi/agno#8880: the arguments that begin at one index
        end at another.  A brace may begin those of a call whose start was lost.
        """
        growing = self._growing_calls()
        call = growing[0] if len(growing) == 1 else None
        # sglang/index-drifts-within-a-call goes on in the middle of the arguments.
        text = arguments.lstrip()
        if (
            call is None
            or call.kind == "custom"
            or call.arguments.is_empty()
            or text.startswith("{")
        ):
            raise malformed(f"arguments at index {index}, where no tool call has begun")
        self.moves += 1
        if not text:  # white space: the next fragment shows where it belongs
            self._blank_at = index
            return call
        self._blank_at = None
        store_bytes(self.stored, OBJECT_BYTES)  # of both indexes
        self.note("index_drift", "tool call")
        if call.wire_index is not None:
            self._left.add(call.wire_index)
            del self.by_index[call.wire_index]
        self._reached.add(index)
        self.by_index[index], call.wire_index = call, index
        return call

    def _growing_calls(self) -> list[Call]:
        """Return the calls that a fragment with neither id nor index may continue."""
        if not self.all:
            return []
        *earlier, last = self.all
        growing = [call for call in earlier if call.can_grow(is_last=False)] if earlier else []
        return [*growing, last] if last.can_grow(is_last=True) else growing

    def _stop(self, call: Call, events: list[Event]) -> None:
        call.stop()
        del self.open[call.index], self._unsettled[call.index]
        call.release(events)

    def _add(self, fragment: CallFragment, chunk_id: ChunkId) -> Call:
        index, kind = fragment.index, _KINDS[fragment.is_custom]
        if index in self._reached:
            raise malformed(f"a tool call begins at index {index}, to which another had drifted")
        arguments = Arguments(self.stored)
        call = Call(fragment.id, fragment.name, arguments, index, chunk_id, kind)
        self.all.append(call)
        if call.id is not None:
            self.by_id[call.id] = call
        if index is not None:
            self.moves += index in self.by_index
            self.by_index[index] = call
        return call


def _check_same_call(fragment: CallFragment, call: Call, at: Call | None) -> None:
    """Raise `Fatal` if a fragment with a call's id also names another call.

    Args:
        fragment: A fragment whose index differs from the call's.
        call: The call with the fragment's id.
        at: The call at the fragment's index, or None.
    """
    if at is not None:
        raise malformed("a fragment with the id of one tool call and the index of another")
    if fragment.name and call.name and fragment.name != call.name:
        raise malformed("two tool calls with one id")


def _begins_call(fragment: CallFragment, *, after: Call) -> bool:
    """Return whether a fragment without an id cannot continue the call `after`."""
    # Before any argument a second name is a further piece of the first (openrouter/name-in-pieces).
    if not (fragment.name and after.name and after.arguments.size):
        return False
    if fragment.name != after.name:
        return True
    text = fragment.arguments
    # The same tool twice, without ids: complete arguments are followed by others.
    return bool(text) and after.is_complete() and text != after.arguments.text()
