"""The grammar of unified events, and the sequencer that serializes interleaved blocks.

    stream   = (Ping | Opaque)* MessageStart body
    body     = (block events | UsageUpdate | Ping | Opaque)* (MessageStop+ | StreamError)
    block k  = BlockStart(k) delta* BlockStop(k), k dense from 0; blocks may overlap

Blocks that grow start empty.  A delta goes to an open block of its kind (`DELTAS`).  A
signature ends the text or reasoning that it signs.  Usage comes before the first
`MessageStop`; a choice that has stopped has no open block and starts none.

Chat Completions may interleave the arguments of parallel tool calls; the clients of the
other dialects append at a block's start and ignore the index of its deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, ClassVar, NamedTuple, TypeAlias

from msgspec import Struct, field

from streamnorm._core.blocks import Block, Reasoning, Refusal, ServerToolCall, Text, ToolCall
from streamnorm._core.errors import LimitExceeded, LocalProtocolError
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    UsageUpdate,
)
from streamnorm._core.json import compact
from streamnorm._core.limits import NEAR_BYTES, OBJECT_BYTES, Limits, StoredBytes, text_bytes
from streamnorm._core.text import FULL_LIST, TextBuffer

DELTAS: dict[type, tuple[type, ...]] = {
    TextDelta: (Text,),
    ReasoningDelta: (Reasoning,),
    RefusalDelta: (Refusal,),
    JSONDelta: (ToolCall, ServerToolCall),
    SignatureDelta: (Text, Reasoning, ToolCall),
    CitationDelta: (Text,),
}
"""Types of blocks that each type of delta may be added to."""


class Violation(Struct, frozen=True):
    """A violation of the event grammar or of the protocol.

    Attributes:
        position: Number of the event or frame, from 0; for a missing event, the number of
            events.
        message: What was found, then what was expected.
    """

    position: int
    message: str


class _Open(Struct):
    kind: type
    choice: int
    signed: bool = False


class EventGrammar(Struct, eq=False):
    """Check one stream of events against the grammar.

    Attributes:
        started: Whether the message has started.
        failed: Whether the stream has failed.
        next: Index of the next block.
        open: The open blocks, by their index.
        choices: Whether each choice has stopped.
        stopped: Whether any choice has stopped.
    """

    started: bool = False
    failed: bool = False
    next: int = 0
    open: dict[int, _Open] = {}
    choices: dict[int, bool] = {}
    stopped: bool = False

    def check(self, event: Event) -> str | None:
        """Check the next event; return its problem, None if it is legal.

        An illegal event still changes the state where it makes sense, so that one mistake is
        reported once.
        """
        if self.failed:
            return f"{_name(event)} after stream_error, expected nothing"
        # A class pattern that does not match costs as much as a call.
        check = self._checks[type(event)]
        if self.started or check in self._anywhere or getattr(event, "index", 0) is None:
            return check(self, event)
        self.started = True
        check(self, event)
        return f"{_name(event)} comes first, expected message_start"

    def advance(self, event: Event) -> None:
        """Check the next event; raise `LocalProtocolError` if it is illegal.

        Raises:
            LocalProtocolError: The event breaks the grammar.
        """
        problem = self.check(event)
        if problem is not None:
            raise LocalProtocolError(problem)

    def missing(self) -> list[str]:
        """Return the events missing at the end of the stream, as problems."""
        if self.failed:
            return []
        lacking = [f"block {index} is open, expected block_stop" for index in self.open]
        if not self.started:
            lacking.append("no event, expected message_start")
        choices = self.choices or {0: False}
        unstopped = sorted(choice for choice, has_stopped in choices.items() if not has_stopped)
        return lacking + [f"choice {choice} ends without message_stop" for choice in unstopped]

    def _check_ping(self, event: Ping) -> None:
        """Accept a ping, which may come at any time."""

    def _check_error(self, event: StreamError) -> str | None:
        self.failed = True
        return "stream_error after message_stop, expected nothing" if self.stopped else None

    def _check_message_start(self, event: MessageStart) -> str | None:
        if self.started:
            return "second message_start, expected one"
        self.started = True
        return None

    def _check_usage(self, event: UsageUpdate) -> str | None:
        return "usage_update after message_stop, expected it before" if self.stopped else None

    def _check_opaque(self, event: Opaque) -> str | None:
        if event.index is None or event.index < self.next:
            return None
        return f"opaque of block {event.index}, which has not started"

    def _check_block_stop(self, event: BlockStop) -> str | None:
        if self.open.pop(event.index, None) is None:
            return f"block {event.index} stops, expected an open block"
        return None

    def _check_start(self, event: BlockStart) -> str | None:
        expected = self.next
        self.next = max(expected, event.index) + 1
        self.open[event.index] = _Open(type(event.block), event.choice)
        has_stopped = self.choices.setdefault(event.choice, False)
        if event.index != expected:
            return f"block {event.index} starts, expected {expected}"
        if has_stopped:
            return f"block {event.index} starts in choice {event.choice}, which has stopped"
        if _is_filled(event.block):
            return f"block {event.index} starts filled, expected deltas to fill it"
        return None

    def _check_stop(self, event: MessageStop) -> str | None:
        choice = event.choice
        if self.choices.get(choice):
            return f"second message_stop of choice {choice}, expected one"
        self.choices[choice] = self.stopped = True
        left = [index for index, block in self.open.items() if block.choice == choice]
        if left:
            return f"message_stop with block {left[0]} open, expected block_stop first"
        return None

    def _check_delta(self, event: Event) -> str | None:
        index: int = getattr(event, "index")  # noqa: B009 - every event that gets here has one
        block = self.open.get(index)
        if block is None:
            return f"{_name(event)} of block {index}, expected an open block"
        if block.kind not in DELTAS[type(event)]:
            return f"{_name(event)} of block {index}, which is {block.kind.__name__}"
        # A signature covers what precedes it; a call's arguments may follow, since Gemini signs a
        # call at its start, and citations of a text come last.
        if block.signed and block.kind is not ToolCall and type(event) is not CitationDelta:
            return f"{_name(event)} of block {index}, which is signed"
        block.signed = block.signed or type(event) is SignatureDelta
        return None

    _checks: ClassVar[dict[type, Callable[[Any, Any], str | None]]] = {
        **dict.fromkeys(DELTAS, _check_delta),
        MessageStart: _check_message_start,
        BlockStart: _check_start,
        BlockStop: _check_block_stop,
        UsageUpdate: _check_usage,
        MessageStop: _check_stop,
        StreamError: _check_error,
        Ping: _check_ping,
        Opaque: _check_opaque,
    }
    _anywhere: ClassVar = (
        _check_message_start,
        _check_error,
        _check_ping,
    )


def validate(events: Iterable[Event]) -> list[Violation]:
    """Return all violations of the grammar in a stream."""
    grammar = EventGrammar()
    violations: list[Violation] = []
    position = 0
    for event in events:
        problem = grammar.check(event)
        if problem is not None:
            violations.append(Violation(position, problem))
        position += 1
    return violations + [Violation(position, message) for message in grammar.missing()]


def _is_filled(block: Block) -> bool:
    """Return whether a block starts with content that should arrive as deltas."""
    if type(block) is ToolCall:
        return bool(block.arguments)
    match block:
        case Text(text, citations, signature):
            return bool(text or citations) or signature is not None
        case Reasoning(parts, signature):
            return bool(parts) or signature is not None
        case ServerToolCall(arguments=text) | Refusal(text):
            return bool(text)
        case _:
            return False


def _name(event: Event) -> str:
    return str(event.__struct_config__.tag)


class BlockOrder:
    """The held blocks of one choice, lowest index first.

    Blocks added by a projection have negative indexes, in any order; they come after the blocks
    that started before them.

    Attributes:
        open: Index of the open block that holds back all later ones, or None.
    """

    __slots__ = ("_added", "_heap", "_latest", "open")

    def __init__(self) -> None:
        self.open: int | None = None
        self._latest = -1  # highest index that has started
        self._added = 0  # number of held blocks with negative indexes
        self._heap: list[tuple[int, int, int]] = []

    def start(self, index: int) -> bool:
        """Add a block, and return whether it is held."""
        self._latest = max(self._latest, index)
        if self.open is None:
            return False
        if index < 0:
            self._added += 1
            heappush(self._heap, (self._latest, self._added, index))
        else:
            heappush(self._heap, (index, 0, index))
        return True

    def next(self) -> int | None:
        """Remove and return the first held block; None if no block is held or a block is open."""
        if self.open is not None or not self._heap:
            return None
        return heappop(self._heap)[2]


TextualDelta: TypeAlias = Delta | RefusalDelta
"""The deltas that can be joined."""


def part_of(delta: TextualDelta) -> int:
    """Return the number of the summary that a reasoning delta extends; 0 for other deltas."""
    return delta.part if type(delta) is ReasoningDelta else 0


_LIMIT = "max_held_bytes"
_MAX_LENT = 16  # blocks that are held and grow in turn
# Start, deltas and stop of a block, whose number has a bound of its own.
_USUAL_ITEMS = 3


class HeldDeltas:
    """Held deltas of one type and part, emitted as one delta.

    Args:
        first: The first of them, of which the text is not yet appended.
        stored: Counter of the bytes of their text.

    Attributes:
        text: Their text.
    """

    __slots__ = ("_first", "text")

    def __init__(self, first: TextualDelta, stored: StoredBytes | None = None) -> None:
        self._first = first
        self.text = TextBuffer(stored=stored)

    def takes(self, event: Event) -> bool:
        """Return whether `event` can be joined to these deltas."""
        first = self._first
        return type(event) is type(first) and getattr(event, "part", 0) == part_of(first)

    def event(self) -> Event:
        """Return the held text as one delta."""
        text = self.text.text()
        match self._first:
            case ReasoningDelta(index, _, part):
                return ReasoningDelta(index, text, part)
            case delta:
                return type(delta)(delta.index, text)


class HeldTexts(NamedTuple):
    """Taker of further texts of a held block.

    Attributes:
        fresh: Takes up to `BATCH - 1` texts of at most `LONG_CHARS`; full near the bound.
        append: Takes a text, and counts those before.
    """

    fresh: list[str]
    append: Callable[[str], None]


_Items: TypeAlias = list[Event | HeldDeltas]


class _ChoiceQueue(Struct):
    """The held blocks of one choice, with their order and their events.

    Attributes:
        order: Order of the held blocks.
        held: Held events, by the index of their block.
    """

    order: BlockOrder = field(default_factory=BlockOrder)
    held: dict[int, _Items] = {}


class Sequencer:
    """Serialize interleaved blocks: one open block at a time.

    Events of the lowest open block pass at once; events of later blocks are held until it
    stops.  Order within a block never changes; held deltas are emitted joined.  Nothing is
    started, stopped or renumbered.  Blocks of different choices never hold each other back.

    Args:
        overlapping: Block types that may be open beside others: they are held until the
            others stop, and hold nothing back.
        max_held_bytes: Bound on held text and JSON, in UTF-8 bytes, with the memory of events
            that cannot be joined.

    Attributes:
        dropped_bytes: Text and JSON that was still held when the stream failed.
        held_behind: Open block that held back each of the held blocks when it started.
    """

    def __init__(
        self,
        *,
        overlapping: tuple[type, ...] = (),
        max_held_bytes: int = Limits().max_held_bytes,
    ) -> None:
        self.dropped_bytes = 0
        self.held_behind: dict[int, int] = {}
        self._bytes = 0  # held, but for what stands in the lists that were lent
        self._lent: list[TextBuffer] = []  # whose lists others append to
        self._overhead_bytes = 0  # of held events beyond a usual number, without their text
        self._overlapping = overlapping
        self._max_held_bytes = max_held_bytes
        self._queues: dict[int, _ChoiceQueue] = {}
        self._queue_of: dict[int, _ChoiceQueue] = {}  # by block
        self._done = False

    @property
    def held_bytes(self) -> int:
        """Held text and JSON, in UTF-8 bytes."""
        return self._bytes + sum(text_bytes("".join(buffer.fresh)) for buffer in self._lent)

    def push(self, event: Event) -> list[Event]:
        """Return the events that can be emitted now, oldest first.

        If more than `max_held_bytes` would be held, the last one is a
        `StreamError("too_large")` and the sequencer is finished.
        """
        if self._done:
            return []
        index: int | None = getattr(event, "index", None)
        if self._lent and (type(event) is BlockStart or type(event) is BlockStop):
            self._take_back()
        if index is None:
            return [self._end(event)] if type(event) is StreamError else [event]
        if type(event) is BlockStart:
            return self._start(event)
        queue = self._queue_of[index]
        if index in queue.held:
            return self._hold(queue.held[index], event)
        if type(event) is BlockStop and index == queue.order.open:
            return [event, *self._release(queue)]
        return [event]

    def held_texts(self, delta: TextualDelta) -> HeldTexts | None:
        """Return what takes a block's next texts; None if its deltas are not held.

        Equal to `push` of deltas of the same type and part, but raises `LimitExceeded` instead of
        returning a `StreamError`.  Valid until a block starts or stops.
        """
        queue = self._queue_of.get(delta.index)
        items = queue.held.get(delta.index) if queue is not None else None
        if items is None:
            return None
        held = self._joinable(items, delta)
        buffer = held.text

        def append(text: str) -> None:
            nonlocal held
            # A citation, a signature or another part stays between the two deltas around it.
            if items[-1] is not held:
                held = self._joinable(items, delta)
            self._append_text(held.text, text)
            if self._is_full():
                raise LimitExceeded(self._overflow().message, limit=_LIMIT)

        if self._is_near or len(self._lent) >= _MAX_LENT:
            return HeldTexts(FULL_LIST, append)
        if buffer not in self._lent:
            self._lent.append(buffer)
        return HeldTexts(buffer.fresh, append)

    @property
    def _is_near(self) -> bool:
        """Whether the bound is near: each text is then counted as it arrives, not in a batch."""
        return self._max_held_bytes - self._bytes - self._overhead_bytes < NEAR_BYTES

    def _append_text(self, buffer: TextBuffer, text: str) -> None:
        buffer.fresh.append(text)
        self._bytes += buffer.pack()

    def _is_full(self) -> bool:
        """Return whether the bound is exceeded; lend no lists near it."""
        if self._lent and self._is_near:
            self._take_back()
        return self._bytes + self._overhead_bytes > self._max_held_bytes

    def _take_back(self) -> None:
        """Count the text in the lists that were lent, and fill these so that they take no more."""
        while self._lent:
            buffer = self._lent.pop()
            self._bytes += buffer.pack()
            buffer.renew()

    def _start(self, event: BlockStart) -> list[Event]:
        queue = self._queues.get(event.choice)
        if queue is None:
            queue = self._queues[event.choice] = _ChoiceQueue()
        self._queue_of[event.index] = queue
        if queue.order.start(event.index):
            # A block is held only where another one is open.
            self.held_behind[event.index] = queue.order.open or 0
            items = queue.held[event.index] = []
            return self._hold(items, event)
        # OpenAI's clients accept calls that are open at once; Anthropic's find a delta by the last
        # start.
        if type(event.block) not in self._overlapping:
            queue.order.open = event.index
        return [event]

    def _release(self, queue: _ChoiceQueue) -> list[Event]:
        """Return held events in block order, up to the first open block that holds back others."""
        out: list[Event] = []
        queue.order.open = None
        while (index := queue.order.next()) is not None:
            items = queue.held.pop(index)
            del self.held_behind[index]
            self._overhead_bytes -= OBJECT_BYTES * max(len(items) - _USUAL_ITEMS, 0)
            for item in items:
                if type(item) is HeldDeltas and not item.text.size:
                    continue  # no text has come
                event = item.event() if isinstance(item, HeldDeltas) else item
                self._bytes -= event_bytes(event)
                out.append(event)
            first = items[0]
            waits = type(first) is BlockStart and type(first.block) not in self._overlapping
            if waits and not any(isinstance(item, BlockStop) for item in items):
                queue.order.open = index
        return out

    def _hold(self, items: _Items, event: Event) -> list[Event]:
        if isinstance(event, (JSONDelta, TextDelta, RefusalDelta, ReasoningDelta)):
            text = event.partial_json if isinstance(event, JSONDelta) else event.text
            self._append_text(self._joinable(items, event).text, text)
        else:
            self._bytes += event_bytes(event)
            self._append(items, event)
        if self._is_full():
            return [self._overflow()]
        return []

    def _joinable(self, items: _Items, delta: TextualDelta) -> HeldDeltas:
        """Return the last held deltas of `items` if `delta` can join them, else new held deltas."""
        last = items[-1]
        if type(last) is not HeldDeltas or not last.takes(delta):
            last = HeldDeltas(delta)
            self._append(items, last)
        return last

    def _append(self, items: _Items, item: Event | HeldDeltas) -> None:
        last = items[-1] if items else None
        if type(last) is HeldDeltas and last.text in self._lent:
            self._take_back()
        items.append(item)
        if len(items) > _USUAL_ITEMS:
            self._overhead_bytes += OBJECT_BYTES

    def _overflow(self) -> StreamError:
        message = (
            f"{self.held_bytes + self._overhead_bytes} bytes wait behind an open block, "
            f"expected at most {self._max_held_bytes}"
        )
        return self._end(StreamError("too_large", message, code=_LIMIT))

    def _end(self, error: StreamError) -> StreamError:
        self._done = True
        self.dropped_bytes, self._bytes = self.held_bytes, 0
        self._lent.clear()
        self._queues.clear()
        self._queue_of.clear()
        return error


def event_bytes(event: Event) -> int:
    """Return the UTF-8 bytes of text and JSON in an event."""
    match event:
        case TextDelta(_, text) | ReasoningDelta(_, text) | RefusalDelta(_, text):
            pass
        case JSONDelta(_, text) | SignatureDelta(_, text) | Opaque(data=text):
            pass
        case BlockStart(_, block):
            text = compact(block)
        case CitationDelta(_, citation):
            text = compact(citation)
        case _:
            return 0
    return len(text) if text.isascii() else len(text.encode())
