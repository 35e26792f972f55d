"""A stream cut down to what one dialect can carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from streamnorm._json import compact
from streamnorm.blocks import (
    Block,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm.errors import UnknownDialect
from streamnorm.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStop,
    Opaque,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm.grammar import Grammar
from streamnorm.losses.capabilities import CAPABILITIES, Capabilities, Loss, Losses

__all__ = ["Projector", "project"]


class _State(Struct):
    """One block of the source on its way to the target."""

    choice: int
    block: Block
    extra: dict[str, Any] | None = None
    started: bool = True  # whether its BlockStart went out
    dropped: bool = False
    blank: list[str] = []  # leading white space that waits
    part: int = 0
    filled: bool = False  # whether arguments or a summary have begun
    ended: bool = False  # whether it is signed or has stopped


class Projector:
    """Turn a stream into what one dialect can carry.

    Every event that passes is one the dialect has a place for.  Indexes stay those of
    the source; a block that is dropped leaves a gap.

    Args:
        capabilities: The dialect.
        losses: Where losses are counted.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self._can = capabilities
        self._losses = losses
        self._grammar = Grammar()
        self._states: dict[int, _State] = {}
        self._usage = Usage()
        self._refused = False

    def passes(self, index: int) -> tuple[type | None, int]:
        """Return the type and part of delta that passes unchanged into a block.

        Who has one may leave this class out until another event comes.
        """
        state = self._states.get(index)
        if state is None or state.dropped or state.ended or not state.started:
            return None, 0
        match state.block:
            case Text():
                return TextDelta, 0
            case Reasoning() if state.filled:
                return ReasoningDelta, state.part
            case ToolCall(kind="function") if state.filled:
                return JSONDelta, 0
            case _:
                return None, 0

    def push(self, event: Event) -> list[Event]:
        """Return what of `event` the dialect can carry.

        Raises:
            LocalProtocolError: `event` may not come here.
            LossyEncoding: Something would be lost, and losses are not allowed.
        """
        self._grammar.advance(event)
        match event:
            case TextDelta(index, text):
                return self._text(event, self._states[index], text)
            case JSONDelta(index, text):
                return self._arguments(event, self._states[index], text)
            case ReasoningDelta(index):
                return self._reasoning(event, self._states[index])
            case RefusalDelta(index, text):
                if self._can.refusal:
                    return [event]
                return self._text(TextDelta(index, text), self._states[index], text)
            case BlockStart():
                return self._start(event)
            case BlockStop(index):
                return self._stop(event, self._states[index])
            case SignatureDelta(index):
                return self._signature(event, self._states[index])
            case CitationDelta(index):
                return self._citation(event, self._states[index])
            case Opaque():
                return self._opaque(event)
            case UsageUpdate(usage):
                self._usage = usage
                return [event]
            case MessageStop():
                return self._message_stop(event)
            case _:
                return [event]

    def _start(self, event: BlockStart) -> list[Event]:
        block = event.block
        state = self._states[event.index] = _State(event.choice, block, event.extra)
        if event.choice and not self._can.choices:
            self._losses.add("choices", f"choice {event.choice}", "dropped")
            state.dropped = True
            return []
        if isinstance(block, Refusal) and not self._can.refusal:
            self._losses.add("refusal", "block", "written as text")
            self._refused = True
            block = state.block = Text(block.text)
            event = structs.replace(event, block=block)
        match block:
            case Text() if not self._can.blank_text:
                state.started = False
                return []
            case ToolCall(kind="custom") if not self._can.custom_tools:
                self._losses.add("custom_tool", "block", "written as a function of one string")
                wrapped = structs.replace(block, kind="function", arguments="")
                return [structs.replace(event, block=wrapped), JSONDelta(event.index, '{"input":"')]
            case ServerToolCall() | ServerToolResult() if not self._can.server_tools:
                return self._drop(state, "server_tool", block)
            case OpaqueBlock(dialect=dialect) if dialect != self._can.dialect:
                return self._drop(state, "opaque_block", block)
            case Image() | Document() | ToolResult():
                return self._drop(state, "media", block)
            case _:
                return [event]

    def _drop(self, state: _State, feature: str, block: Block) -> list[Event]:
        self._losses.add(feature, type(block).__name__, "dropped")
        state.dropped = True
        return []

    def _text(self, event: TextDelta, state: _State, text: str) -> list[Event]:
        if state.dropped:
            return []
        if state.started:
            return [event]
        if not text.strip():
            state.blank.append(text)
            return []
        state.started = True
        start = BlockStart(event.index, state.block, state.choice, state.extra)
        return [start, TextDelta(event.index, "".join(state.blank) + text)]

    def _arguments(self, event: JSONDelta, state: _State, text: str) -> list[Event]:
        if state.dropped:
            return []
        block = state.block
        if isinstance(block, ToolCall) and block.kind == "custom" and not self._can.custom_tools:
            return [JSONDelta(event.index, _escaped(text))]
        if not state.filled and text == "null" and not self._can.null_arguments:
            self._losses.add("null_arguments", "tool call", "written as {}")
            return []
        state.filled = True
        return [event]

    def _reasoning(self, event: ReasoningDelta, state: _State) -> list[Event]:
        if state.dropped:
            return []
        joined = state.filled and event.part != state.part and not self._can.reasoning_parts
        state.part, state.filled = event.part, True
        if self._can.reasoning_parts:
            return [event]
        text = event.text
        if joined:
            self._losses.add("reasoning_parts", "block", "joined by a blank line")
            text = "\n\n" + text
        return [ReasoningDelta(event.index, text)]

    def _signature(self, event: SignatureDelta, state: _State) -> list[Event]:
        state.ended = True
        if state.dropped:
            return []
        if isinstance(state.block, self._can.signed):
            return [event]
        self._losses.add("signature", type(state.block).__name__, "dropped")
        return []

    def _citation(self, event: CitationDelta, state: _State) -> list[Event]:
        if state.dropped:
            return []
        if self._can.citations:
            return [event]
        self._losses.add("citations", event.citation.kind, "dropped")
        return []

    def _stop(self, event: BlockStop, state: _State) -> list[Event]:
        state.ended = True
        if state.dropped:
            return []
        if not state.started:
            self._losses.add("whitespace_text", "block", "dropped")
            return []
        block = state.block
        if isinstance(block, ToolCall) and block.kind == "custom" and not self._can.custom_tools:
            return [JSONDelta(event.index, '"}'), event]
        return [event]

    def _opaque(self, event: Opaque) -> list[Event]:
        state = self._states.get(event.index) if event.index is not None else None
        if state is not None and state.dropped:
            return []
        if event.dialect == self._can.dialect:
            # Its block may never start, if it is but white space.
            return [event if state is None or state.started else structs.replace(event, index=None)]
        self._losses.add("opaque", f"{event.dialect} {event.name}", "dropped")
        return []

    def _message_stop(self, event: MessageStop) -> list[Event]:
        if event.choice and not self._can.choices:
            return []
        for name in ("input_tokens", "output_tokens"):
            if getattr(self._usage, name) is None:
                self._losses.add("usage_unknown", name, "written as 0")
        if self._refused:
            event = structs.replace(event, reason="refusal")
        if event.reason not in self._can.stop_reasons:
            self._losses.add("stop_reason", event.reason, "written as end_turn")
            event = structs.replace(event, reason="end_turn")
        return [event]


def project(events: Iterable[Event], dialect: str) -> tuple[list[Event], tuple[Loss, ...]]:
    """Return what of a stream a dialect can carry, renumbered, and what it cannot.

    Raises:
        UnknownDialect: No table for `dialect`.
        LocalProtocolError: The stream breaks the grammar.
    """
    if dialect not in CAPABILITIES:
        known = ", ".join(CAPABILITIES)
        raise UnknownDialect(f"no capabilities of dialect {dialect!r}, expected one of {known}")
    losses = Losses()
    projector = Projector(CAPABILITIES[dialect], losses)
    numbers: dict[int, int] = {}
    projected: list[Event] = []
    for event in events:
        for passed in projector.push(event):
            if isinstance(passed, BlockStart):
                numbers[passed.index] = len(numbers)
            projected.append(_renumbered(passed, numbers))
    return projected, losses.list()


def _renumbered(event: Event, numbers: dict[int, int]) -> Event:
    index: int | None = getattr(event, "index", None)
    return event if index is None else structs.replace(event, index=numbers[index])


def _escaped(text: str) -> str:
    """Return text as the inside of a JSON string."""
    return compact(text)[1:-1]
