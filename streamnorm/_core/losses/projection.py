"""A stream cut down to what one dialect can carry, event by event."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from streamnorm._core.blocks import (
    Block,
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
from streamnorm._core.events import (
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
    StreamError,
    TextDelta,
    UsageUpdate,
)
from streamnorm._core.grammar import Grammar
from streamnorm._core.losses.arguments import WholeArguments, escaped
from streamnorm._core.losses.boundaries import Boundaries
from streamnorm._core.losses.capabilities import Capabilities, Losses
from streamnorm._core.losses.carriers import Carriers
from streamnorm._core.losses.media import is_plain_file
from streamnorm._core.losses.sources import Sources
from streamnorm._core.losses.state import BlockState
from streamnorm._core.losses.totals import Totals
from streamnorm._core.text_buffer import TextBuffer

__all__ = ["Projector"]

_BROKEN_OFF = ("max_tokens", "refusal")
"""The stops that tell by themselves why a call is missing."""

_BROKEN_CALL = StreamError(
    "malformed",
    "the arguments of a tool call are no JSON object",
    code="MALFORMED_FUNCTION_CALL",
)


class Projector:
    """Turn a stream into what one dialect can carry.

    Every event that passes is one the dialect has a place for.  Indexes stay those of
    the source; a block that is dropped leaves a gap.

    Args:
        capabilities: The dialect.
        losses: Where losses are counted.

    Attributes:
        unwritten: The calls whose start went out, and of which nothing is written since
            their arguments have no place.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.unwritten: dict[int, None] = {}
        self._can = capabilities
        self._losses = losses
        self._grammar = Grammar()
        self._states: dict[int, BlockState] = {}
        self._totals = Totals(capabilities, losses)
        self._sources = Sources(capabilities, losses)
        self._carriers = Carriers(capabilities, losses)
        self._boundaries = None if capabilities.boundaries else Boundaries(capabilities, losses)
        self._whole = None if capabilities.broken_arguments else WholeArguments(losses)
        self._failed = False

    @property
    def merged(self) -> dict[int, int]:
        """The blocks that the target cannot tell from one before, each with that one's index."""
        return {} if self._boundaries is None else self._boundaries.merged

    @property
    def capabilities(self) -> Capabilities:
        """The dialect's table."""
        return self._can

    def passthrough_delta(self, index: int) -> tuple[type[Event] | None, int]:
        """Return the type and part of the deltas that `push` returns unchanged for a block.

        Valid until another event of the block is pushed.
        """
        state = self._states.get(index)
        if state is None or state.dropped or state.ended or not state.started:
            return None, 0
        match state.block:
            case Text():
                return TextDelta, 0
            case Reasoning() if state.filled:
                return ReasoningDelta, state.part
            case ToolCall() if state.filled and not state.wrapped and self._whole is None:
                return JSONDelta, 0
            case _:
                return None, 0

    def argument_sink(self, index: int) -> Callable[[str], None] | None:
        """Return a function that collects arguments for a dialect that has them whole.

        None if arguments of this block are not collected, or none were yet.  Valid until
        the block stops.
        """
        state = self._states.get(index)
        if self._whole is None or state is None or state.dropped or state.wrapped:
            return None
        return self._whole.sink(index)

    def push(self, event: Event) -> list[Event]:
        """Return what of `event` the dialect can carry.

        Raises:
            LocalProtocolError: `event` may not come here.
            LossyEncoding: Something would be lost, and losses are not allowed.
        """
        self._grammar.advance(event)
        if self._failed:
            return []
        if not isinstance(event, (BlockStart, SignatureDelta, BlockStop)):
            return self._pass(event)
        return [out for passed in self._carriers.push(event) for out in self._pass(passed)]

    def _pass(self, event: Event) -> list[Event]:
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
                self._totals.tier(extra)
                return [event]
            case UsageUpdate():
                return [self.usage(event)]
            case MessageStop():
                return self._message_stop(event)
            case StreamError():
                self._give_up()
                return [event]
            case _:
                return [event]

    def usage(self, event: UsageUpdate) -> UsageUpdate:
        """Return what of the counts the dialect can carry: `push` does it in order."""
        told = self._totals.usage(event.usage)
        return event if told is event.usage else UsageUpdate(told)

    # Starts

    def _start(self, event: BlockStart) -> list[Event]:
        can, block = self._can, event.block
        state = self._states[event.index] = BlockState(event)
        if event.choice and not can.choices:
            self._losses.add("choices", f"choice {event.choice}", "dropped")
            state.dropped = True
            return []
        if isinstance(block, Refusal) and not can.refusal:
            self._losses.add("refusal", "block", "written as text")
            self._totals.refused = True
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
            case OpaqueBlock(dialect=dialect) if not (
                dialect == can.dialect and isinstance(block, can.media)
            ):
                return self._drop(state, "opaque_block", block)
            case Image() | Document() | ToolResult() if not (
                isinstance(block, can.media) and is_plain_file(block)
            ):
                return self._drop(state, "media", block)
            case ToolCall(kind="custom") if not can.custom_tools:
                self._losses.add("custom_tool", "block", "written as a function of one string")
                state.start = structs.replace(event, block=structs.replace(block, kind="function"))
                state.wrapped = True
                return [*self._let_out(state), *self._json(event.index, '{"input":"')]
            case Text() if not can.blank_text:
                state.started = False
            case Text() | Reasoning() | Refusal() if not can.boundaries:
                state.started = False  # of an empty one nothing is written
            case _:
                return self._let_out(state)
        return []

    def _drop(self, state: BlockState, feature: str, block: Block) -> list[Event]:
        self._losses.add(feature, type(block).__name__, "dropped")
        state.dropped = True
        return []

    def _let_out(self, state: BlockState, *, bare: bool = False) -> list[Event]:
        """Return the start of a block and what waited for it."""
        state.started = True
        start, index = state.start, state.start.index
        waiting = [
            TextDelta(index, item.text()) if isinstance(item, TextBuffer) else item
            for item in state.waiting
        ]
        state.waiting = []
        if self._boundaries is not None:
            self._boundaries.start(index, start.choice, type(start.block), bare=bare)
        return [start, *waiting]

    def _let_out_bare(self, state: BlockState) -> list[Event]:
        """Return the start of a block that is but a signature: there is nothing to cite."""
        state.bare = True
        for _ in state.waiting:
            self._sources.drop()
        state.waiting = []
        return self._let_out(state, bare=True)

    # Deltas

    def _text(self, event: Event, state: BlockState, text: str) -> list[Event]:
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

    def _arguments(self, event: JSONDelta, state: BlockState, text: str) -> list[Event]:
        if state.dropped:
            return []
        if state.wrapped:
            return self._json(event.index, escaped(text))
        if not state.filled and text == "null" and not self._can.null_arguments:
            self._losses.add("null_arguments", "tool call", "written as {}")
            return []
        state.filled = True
        return [event] if self._whole is None else self._json(event.index, text)

    def _json(self, index: int, text: str) -> list[Event]:
        """Return arguments, unless they have to wait for the rest."""
        if self._whole is None:
            return [JSONDelta(index, text)]
        self._whole.add(index, text)
        return []

    def _reasoning(self, event: ReasoningDelta, state: BlockState) -> list[Event]:
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

    def _signature(self, event: SignatureDelta, state: BlockState) -> list[Event]:
        state.ended = True
        if state.dropped:
            return []
        if isinstance(state.block, Reasoning) and (taken := self._carriers.take(event)) is not None:
            if taken.id:
                state.dropped = not state.started
                return []
            if not state.started:
                state.start = structs.replace(state.start, block=Text())
                event = SignatureDelta(event.index, taken.signature, taken.issuer)
        if isinstance(state.block, self._can.signed):
            started = [] if state.started else self._let_out_bare(state)
            if self._boundaries is not None:
                self._boundaries.sign(event.index)
            return [*started, event]
        self._losses.add("signature", type(state.block).__name__, "dropped")
        return []

    def _citation(self, event: CitationDelta, state: BlockState) -> list[Event]:
        if state.dropped:
            return []
        if state.bare:
            self._sources.drop()
            return []
        citation = self._sources.take(event.index, event.citation)
        if citation is None:
            return []
        if citation is not event.citation:
            event = CitationDelta(event.index, citation)
        if not state.started:
            state.waiting.append(event)
            return []
        return [event]

    def _stop(self, event: BlockStop, state: BlockState) -> list[Event]:
        state.ended = state.stopped = True
        if state.dropped:
            return []
        if not state.started:
            feature = "empty_block" if self._can.blank_text else "whitespace_text"
            self._losses.add(feature, "block", "dropped")
            return []
        rest = self._json(event.index, '"}') if state.wrapped else []
        if self._whole is not None and isinstance(state.block, ToolCall | ServerToolCall):
            arguments = self._whole.take(event.index, type(state.block).__name__)
            if arguments is None:
                self.unwritten[event.index] = None
            rest = [JSONDelta(event.index, arguments)] if arguments else []
        if self._boundaries is not None:
            self._boundaries.stop(event.index, written=event.index not in self.unwritten)
        return [*rest, event]

    def _give_up(self) -> None:
        """Take it that the stream ends here: nothing is written of calls that are open."""
        if self._whole is None:
            return
        for index, state in self._states.items():
            if isinstance(state.block, ToolCall | ServerToolCall) and not (
                state.dropped or state.stopped
            ):
                self._whole.drop(index, type(state.block).__name__)
                self.unwritten[index] = None

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
        if event.choice and not self._can.choices:
            return []
        event = self._totals.stop(event)
        self._carriers.end()
        if self.unwritten and event.reason not in _BROKEN_OFF:
            self._failed = True
            return [_BROKEN_CALL]
        return [event]
