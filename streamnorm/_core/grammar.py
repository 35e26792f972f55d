"""The grammar of unified events: which event may follow which.

    stream   = (Ping | Opaque)* MessageStart body
    body     = (block events | UsageUpdate | Ping | Opaque)* (MessageStop+ | StreamError)
    block k  = BlockStart(k) delta* BlockStop(k), k dense from 0; blocks may overlap

Blocks that grow start empty.  A delta goes to an open block of its kind (`DELTAS`).  A
signature ends the text or reasoning that it signs.  Usage comes before the first
`MessageStop`; a choice that has stopped has no open block and starts none.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from streamnorm._core.blocks import Block, Reasoning, Refusal, ServerToolCall, Text, ToolCall
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
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
    """A departure of events from the grammar, or of bytes from their protocol.

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


class Grammar:
    """Check one stream of events against the grammar."""

    def __init__(self) -> None:
        self._started = False
        self._failed = False
        self._next = 0
        self._open: dict[int, _Open] = {}
        self._choices: dict[int, bool] = {}  # whether each choice has stopped
        self._stopped = False  # whether any choice has stopped

    def check(self, event: Event) -> str | None:
        """Check the next event, and return the problem; None if it is legal.

        An illegal event still changes the state where it makes sense, so that one mistake is
        reported once.
        """
        if self._failed:
            return f"{_name(event)} after stream_error, expected nothing"
        match event:
            case Ping():
                return None
            case StreamError():
                self._failed = True
                return (
                    "stream_error after message_stop, expected nothing" if self._stopped else None
                )
            case Opaque(index=None):
                return None
            case MessageStart():
                if self._started:
                    return "second message_start, expected one"
                self._started = True
                return None
            case _:
                if not self._started:
                    self._started = True
                    self._check_body(event)
                    return f"{_name(event)} comes first, expected message_start"
                return self._check_body(event)

    def advance(self, event: Event) -> None:
        """Check the next event.

        Raises:
            LocalProtocolError: The event breaks the grammar.
        """
        problem = self.check(event)
        if problem is not None:
            raise LocalProtocolError(problem)

    def missing(self) -> list[str]:
        """Return the problems of a stream that ends here: missing events."""
        if self._failed:
            return []
        lacking = [f"block {index} is open, expected block_stop" for index in self._open]
        if not self._started:
            lacking.append("no event, expected message_start")
        choices = self._choices or {0: False}
        unstopped = sorted(choice for choice, has_stopped in choices.items() if not has_stopped)
        return lacking + [f"choice {choice} ends without message_stop" for choice in unstopped]

    def _check_body(self, event: Event) -> str | None:
        match event:
            case BlockStart():
                return self._check_start(event)
            case BlockStop(index):
                if self._open.pop(index, None) is None:
                    return f"block {index} stops, expected an open block"
                return None
            case UsageUpdate():
                return (
                    "usage_update after message_stop, expected it before" if self._stopped else None
                )
            case MessageStop(choice=choice):
                return self._check_stop(choice)
            case Opaque(index=int(index)):
                return (
                    None
                    if index < self._next
                    else f"opaque of block {index}, which has not started"
                )
            case _:
                return self._check_delta(event)

    def _check_start(self, event: BlockStart) -> str | None:
        expected = self._next
        self._next = max(expected, event.index) + 1
        self._open[event.index] = _Open(type(event.block), event.choice)
        has_stopped = self._choices.setdefault(event.choice, False)
        if event.index != expected:
            return f"block {event.index} starts, expected {expected}"
        if has_stopped:
            return f"block {event.index} starts in choice {event.choice}, which has stopped"
        if _is_filled(event.block):
            return f"block {event.index} starts filled, expected deltas to fill it"
        return None

    def _check_stop(self, choice: int) -> str | None:
        if self._choices.get(choice):
            return f"second message_stop of choice {choice}, expected one"
        self._choices[choice] = self._stopped = True
        left = [index for index, block in self._open.items() if block.choice == choice]
        if left:
            return f"message_stop with block {left[0]} open, expected block_stop first"
        return None

    def _check_delta(self, event: Event) -> str | None:
        index: int = getattr(event, "index")  # noqa: B009 - every event that gets here has one
        block = self._open.get(index)
        if block is None:
            return f"{_name(event)} of block {index}, expected an open block"
        if block.kind not in DELTAS[type(event)]:
            return f"{_name(event)} of block {index}, which is {block.kind.__name__}"
        # A signature covers what precedes it; a call's arguments may follow, since Gemini signs a
        # call at its start, and citations of a text come last.
        if block.signed and block.kind is not ToolCall and not isinstance(event, CitationDelta):
            return f"{_name(event)} of block {index}, which is signed"
        block.signed = block.signed or isinstance(event, SignatureDelta)
        return None


def validate(events: Iterable[Event]) -> list[Violation]:
    """Return all departures of a whole stream from the grammar; [] if it is legal."""
    grammar = Grammar()
    violations: list[Violation] = []
    position = 0
    for event in events:
        problem = grammar.check(event)
        if problem is not None:
            violations.append(Violation(position, problem))
        position += 1
    return violations + [Violation(position, message) for message in grammar.missing()]


def _is_filled(block: Block) -> bool:
    """Return whether a block already has content that deltas should add."""
    match block:
        case Text(text, citations, signature):
            return bool(text or citations) or signature is not None
        case Reasoning(parts, signature):
            return bool(parts) or signature is not None
        case ToolCall(arguments=text) | ServerToolCall(arguments=text) | Refusal(text):
            return bool(text)
        case _:
            return False


def _name(event: Event) -> str:
    return str(event.__struct_config__.tag)
