"""A stream cut down to what one dialect can carry, event by event."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from streamnorm._json import compact
from streamnorm._text import TextBuffer
from streamnorm.blocks import (
    Block,
    Citation,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStart,
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
from streamnorm.losses.capabilities import Capabilities, Losses

__all__ = ["Projector"]

_PLAIN = (Text, Reasoning, Refusal)
"""The blocks that only a boundary keeps apart from the next of their kind."""


class _State(Struct):
    """One block of the source on its way to the target.

    Attributes:
        start: Its start, as the target has it.
        wrapped: Whether it is free text that is written as a function's one string.
        started: Whether its start went out.
        dropped: Whether nothing of it goes out.
        waiting: What came before its start could go out.
        part: Number of the summary that is written.
        filled: Whether arguments or a summary have begun.
        ended: Whether it is signed or has stopped.
        stopped: Whether it has stopped.
        signed: Whether its signature went out.
        next: The block behind it, if that is of its kind and nothing is between them.
    """

    start: BlockStart
    wrapped: bool = False
    started: bool = True
    dropped: bool = False
    waiting: list[Event | TextBuffer] = []
    part: int = 0
    filled: bool = False
    ended: bool = False
    stopped: bool = False
    signed: bool = False
    next: int | None = None

    @property
    def block(self) -> Block:
        return self.start.block


class Projector:
    """Turn a stream into what one dialect can carry.

    Every event that passes is one the dialect has a place for.  Indexes stay those of
    the source; a block that is dropped leaves a gap.

    Args:
        capabilities: The dialect.
        losses: Where losses are counted.

    Attributes:
        merged: The blocks that the target cannot tell from one before them, each with
            that one's index.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.merged: dict[int, int] = {}
        self._can = capabilities
        self._losses = losses
        self._grammar = Grammar()
        self._states: dict[int, _State] = {}
        self._latest: dict[int, int] = {}  # of each choice, the last block that went out
        self._usage = Usage()
        self._refused = False
        self._tier: object = None  # the last one that was lost
        self._stopped = False

    @property
    def capabilities(self) -> Capabilities:
        """The dialect's table."""
        return self._can

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
            case ToolCall() if state.filled and not state.wrapped:
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
                as_text = event if self._can.refusal else TextDelta(index, text)
                return self._text(as_text, self._states[index], text)
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
            case MessageStart(extra=extra):
                self._check_tier(extra)
                return [event]
            case UsageUpdate(usage):
                self._usage = usage
                self._check_tier(usage.extra)
                return [event]
            case MessageStop():
                return self._message_stop(event)
            case _:
                return [event]

    # Starts

    def _start(self, event: BlockStart) -> list[Event]:
        can, block = self._can, event.block
        state = self._states[event.index] = _State(event)
        if event.choice and not can.choices:
            self._losses.add("choices", f"choice {event.choice}", "dropped")
            state.dropped = True
            return []
        if isinstance(block, Refusal) and not can.refusal:
            self._losses.add("refusal", "block", "written as text")
            self._refused = True
            block = Text()
            state.start = structs.replace(event, block=block)
        match block:
            case Reasoning() if not can.reasoning:
                return self._drop(state, "reasoning", block)
            case RedactedReasoning() if not can.redacted_reasoning:
                return self._drop(state, "redacted_reasoning", block)
            case ServerToolCall(kind=kind) | ServerToolResult(kind=kind) if not kind.endswith(
                can.server_tools
            ):
                return self._drop(state, "server_tool", block)
            # A dialect without boundaries has no blocks of its own.
            case OpaqueBlock(dialect=dialect) if dialect != can.dialect or not can.boundaries:
                return self._drop(state, "opaque_block", block)
            case Image() | Document() | ToolResult():
                return self._drop(state, "media", block)
            case ToolCall(kind="custom") if not can.custom_tools:
                self._losses.add("custom_tool", "block", "written as a function of one string")
                state.start = structs.replace(event, block=structs.replace(block, kind="function"))
                state.wrapped = True
                return [*self._let_out(state), JSONDelta(event.index, '{"input":"')]
            case Text() if not can.blank_text:
                state.started = False
            case Text() | Reasoning() | Refusal() if not can.boundaries:
                state.started = False  # of an empty one nothing is written
            case _:
                return self._let_out(state)
        return []

    def _drop(self, state: _State, feature: str, block: Block) -> list[Event]:
        self._losses.add(feature, type(block).__name__, "dropped")
        state.dropped = True
        return []

    def _let_out(self, state: _State) -> list[Event]:
        """Return the start of a block and what waited for it."""
        state.started = True
        start, index = state.start, state.start.index
        waiting = [
            TextDelta(index, item.text()) if isinstance(item, TextBuffer) else item
            for item in state.waiting
        ]
        state.waiting = []
        if not self._can.boundaries:
            latest = self._latest.get(start.choice, -1)
            before = self._states.get(latest)
            if before is not None and latest < start.index and isinstance(start.block, _PLAIN):
                self._follow(before, start)
            self._latest[start.choice] = max(latest, start.index)
        return [start, *waiting]

    def _follow(self, before: _State, start: BlockStart) -> None:
        """Find out whether a block can be told from the one before it."""
        if type(before.block) is type(start.block):
            before.next = start.index
            if before.stopped:
                self._merge(before)

    def _merge(self, before: _State) -> None:
        if before.next is not None and not before.signed:
            self._losses.add("boundaries", type(before.block).__name__, "written as one block")
            self.merged[before.next] = before.start.index

    # Deltas

    def _text(self, event: Event, state: _State, text: str) -> list[Event]:
        if state.dropped:
            return []
        if state.started:
            return [event]
        last = state.waiting[-1] if state.waiting else None
        if not isinstance(event, TextDelta):
            state.waiting.append(event)
        elif isinstance(last, TextBuffer):
            last.append(text)
        else:
            state.waiting.append(TextBuffer(text))
        return self._let_out(state) if self._can.blank_text or text.strip() else []

    def _arguments(self, event: JSONDelta, state: _State, text: str) -> list[Event]:
        if state.dropped:
            return []
        if state.wrapped:
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
        started = [] if state.started else self._let_out(state)
        if self._can.reasoning_parts:
            return [*started, event]
        text = event.text
        if joined:
            self._losses.add("reasoning_parts", "block", "joined by a blank line")
            text = "\n\n" + text
        return [*started, ReasoningDelta(event.index, text)]

    def _signature(self, event: SignatureDelta, state: _State) -> list[Event]:
        state.ended = True
        if state.dropped:
            return []
        if isinstance(state.block, self._can.signed):
            state.signed = True
            return [event] if state.started else [*self._let_out(state), event]
        self._losses.add("signature", type(state.block).__name__, "dropped")
        return []

    def _citation(self, event: CitationDelta, state: _State) -> list[Event]:
        if state.dropped:
            return []
        citation = event.citation
        if citation.kind not in self._can.citations:
            if self._can.url_citation is None or citation.url is None:
                self._losses.add("citations", citation.kind, "dropped")
                return []
            self._losses.add("citations", citation.kind, f"written as {self._can.url_citation}")
            event = CitationDelta(event.index, _by_address(citation, self._can.url_citation))
        if not state.started:
            state.waiting.append(event)
            return []
        return [event]

    def _stop(self, event: BlockStop, state: _State) -> list[Event]:
        state.ended = state.stopped = True
        if state.dropped:
            return []
        if not state.started:
            feature = "empty_block" if self._can.blank_text else "whitespace_text"
            self._losses.add(feature, "block", "dropped")
            return []
        self._merge(state)
        if state.wrapped:
            return [JSONDelta(event.index, '"}'), event]
        return [event]

    # All else

    def _opaque(self, event: Opaque) -> list[Event]:
        state = self._states.get(event.index) if event.index is not None else None
        if state is not None and state.dropped:
            return []
        if event.dialect == self._can.dialect and event.name not in self._can.unplaced:
            # Its block may never start, if it is but white space.
            return [event if state is None or state.started else structs.replace(event, index=None)]
        self._losses.add("opaque", f"{event.dialect} {event.name}", "dropped")
        return []

    def _message_stop(self, event: MessageStop) -> list[Event]:
        can = self._can
        if event.choice and not can.choices:
            return []
        self._check_tier(event.extra)
        if not self._stopped and (
            can.usage == "always" or (can.usage == "known" and self._usage != Usage())
        ):
            for name in ("input_tokens", "output_tokens"):
                if getattr(self._usage, name) is None:
                    self._losses.add("usage_unknown", name, "written as 0")
        self._stopped = True
        if self._refused:
            event = structs.replace(event, reason="refusal")
        bare = event.reason == "stop_sequence" and event.stop_sequence is None
        if event.reason not in can.stop_reasons or (bare and not can.bare_stop_sequence):
            self._losses.add("stop_reason", event.reason, "written as end_turn")
            event = structs.replace(event, reason="end_turn")
        return [event]

    def _check_tier(self, extra: dict[str, Any] | None) -> None:
        tier = (extra or {}).get("service_tier")
        if isinstance(tier, str) and tier != self._tier and tier not in self._can.service_tiers:
            self._losses.add("service_tier", tier, "dropped")
            self._tier = tier


def _by_address(citation: Citation, kind: str) -> Citation:
    """Return a citation with what any dialect knows of a source with an address."""
    return Citation(
        kind, citation.url, citation.title, citation.cited_text, citation.start, citation.end
    )


def _escaped(text: str) -> str:
    """Return text as the inside of a JSON string."""
    return compact(text)[1:-1]
