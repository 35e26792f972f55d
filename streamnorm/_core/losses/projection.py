"""Projection of events onto the capabilities of a target."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import takewhile
from typing import Any, ClassVar

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.events import (
    CUT_SHORT,
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
from streamnorm._core.grammar import EventGrammar
from streamnorm._core.json import compact
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes, text_bytes
from streamnorm._core.losses import Capabilities, Losses
from streamnorm._core.losses.call_results import CallResults
from streamnorm._core.losses.executed_calls import ExecutedCalls
from streamnorm._core.losses.joined_text import Boundaries, WholeArguments
from streamnorm._core.losses.lent_signatures import LentSignatures
from streamnorm._core.losses.reducers import (
    Citations,
    DroppedCalls,
    MessageMetadata,
    SignatureCarriers,
    ToolCalls,
    VendorFields,
)
from streamnorm._core.text import TextBuffer

# Events that may be, or may be behind, a signature that another event carries.
_MAY_CARRY = (BlockStart, SignatureDelta)
_OF_CALLS = (JSONDelta, BlockStop)

_TEXTS = (Text, Reasoning, Refusal)
_CALLS = (ToolCall, ServerToolCall)
_HIDDEN = (Reasoning, RedactedReasoning)
"""Blocks that clients do not show to a user."""

_BROKEN_CALL = StreamError(
    "malformed",
    "the arguments of a tool call are no JSON object",
    code="MALFORMED_FUNCTION_CALL",
)


class _BlockState(Struct):
    """State of one block of the source.

    Attributes:
        start: Start of the block, in the target's form.
        wrapped: Whether its free text is written as a string in a JSON object.
        started: Whether its start was returned.
        dropped: Whether none of its events are returned.
        held: Events and text that arrived before the start could be returned.
        signature_only: Whether it has only a signature.
        part: Number of the reasoning summary written last.
        has_content: Whether arguments or a summary have begun.
        ended: Whether it is signed or has stopped.
        stopped: Whether it has stopped.
        held_bytes: Bytes counted for the events in `held`.
    """

    start: BlockStart
    wrapped: bool = False
    started: bool = True
    dropped: bool = False
    held: list[Event | TextBuffer] = []
    signature_only: bool = False
    part: int = 0
    has_content: bool = False
    ended: bool = False
    stopped: bool = False
    held_bytes: int = 0


class Projector:
    """Reduce a stream to events that one dialect can carry.

    Blocks keep the indexes of the source; a dropped block leaves a gap.

    Args:
        capabilities: Capabilities of the target.
        losses: Counter of every feature that the target cannot carry.
        stored: Counter of the bytes that projector and encoder store, which raises
            `LimitExceeded` beyond its bound.  None for no bound.

    Attributes:
        capabilities: Capabilities of the target.
        vendor_fields: Reducer of the vendor's own fields.
        merged: Index of the previous block, by the index of the block that merges with it.
        withdrawn_calls: Indexes of calls whose `BlockStart` was returned but whose
            arguments are no complete JSON object.  The encoder must not write them.
    """

    def __init__(
        self, capabilities: Capabilities, losses: Losses, stored: StoredBytes | None = None
    ) -> None:
        self.withdrawn_calls: dict[int, None] = {}
        self.capabilities = self._target = capabilities
        self._losses = losses
        self._stored = stored = stored or StoredBytes(sys.maxsize)
        self._grammar = EventGrammar()
        self._states: dict[int, _BlockState] = {}
        self.vendor_fields = VendorFields(losses)
        self._metadata = MessageMetadata(capabilities, losses, self.vendor_fields)
        self._citations = Citations(capabilities, losses, self.vendor_fields, stored)
        self._lent = LentSignatures(capabilities, losses, stored)
        self._carriers = SignatureCarriers(capabilities, losses, stored, self._lent)
        self._calls = ToolCalls(capabilities, losses)
        self._dropped_calls = DroppedCalls(capabilities, stored, self._calls)
        self._boundaries = None if capabilities.boundaries else Boundaries(capabilities, losses)
        self.merged = {} if self._boundaries is None else self._boundaries.merged
        self._whole = None if capabilities.broken_arguments else WholeArguments(losses, stored)
        self._executed: ExecutedCalls | None = None
        self._results = CallResults(stored) if self._is_page else None
        self._failed = self._stopped = False  # `_stopped`: whether any choice has

    def expect_executed_calls(self, *, of_agent: bool) -> None:
        """Leave out executed calls that start from now on; a page shows the provider's."""
        to_page = self._is_page
        if self._executed is None and not (of_agent and to_page):
            self._executed = ExecutedCalls(of_agent, self._losses, self._stored, to_page=to_page)

    @property
    def _is_page(self) -> bool:
        """Whether the target is a page, which has a place for all calls and results."""
        return ToolResult in self._target.media

    def begin_answer(self) -> None:
        """Begin another answer in the same stream; forget the refusal of the previous answer."""
        self._metadata.refused = False

    def passthrough_delta(self, index: int) -> tuple[type[Event] | None, int]:
        """Return the type and part of a block's deltas that `push` returns unchanged.

        Valid until another event of the block is pushed.
        """
        state = self._states.get(index)
        if state is None or state.dropped or state.ended or not state.started:
            return None, 0
        kind = type(state.start.block)
        if kind is Text:
            return TextDelta, 0
        if kind is ToolCall and state.has_content and not state.wrapped and self._whole is None:
            return JSONDelta, 0
        if kind is Reasoning and state.has_content:
            return ReasoningDelta, state.part
        return None, 0

    def held_sink(self, delta: Delta) -> Callable[[str], None] | None:
        """Return a function that holds further text of the block and part of a delta.

        None if the target writes it as it arrives, or before the first arguments of a call.
        """
        if self._executed is not None and (hold := self._executed.held_sink(delta)) is not None:
            return hold
        state = self._states.get(delta.index)
        if self._whole is None or state is None or state.dropped or state.wrapped:
            return None
        return self._whole.sink(delta.index)

    def push(self, event: Event) -> list[Event]:
        """Return `event` as events that the target can carry; [] if it is dropped or held.

        Raises:
            LocalProtocolError: The event breaks the grammar.
            LossyEncoding: Something would be lost, and losses are not allowed.
        """
        self._grammar.advance(event)
        if self._failed:
            return []
        if self._results is not None and not self.vendor_fields.are_carried:
            return [out for added in self._results.push(event) for out in self._project(added)]
        return self._project(event)

    def _project(self, event: Event) -> list[Event]:
        if self._executed is None:
            return self._reduce(event)
        return [out for passed in self._executed.push(event) for out in self._reduce(passed)]

    def _reduce(self, event: Event) -> list[Event]:
        kind = type(event)
        if not (
            kind in _MAY_CARRY
            or (type(event) is BlockStop and event.index in self._carriers.after)
            or (kind in _OF_CALLS and getattr(event, "index", None) in self._lent.calls)
        ):
            return self._reducers[kind](self, event)
        passed = self._carriers.push(event)
        return [out for event in passed for out in self._reducers[type(event)](self, event)]

    def _reduce_message_start(self, event: MessageStart) -> list[Event]:
        return [self._metadata.start(event)]

    def _reduce_usage_update(self, event: UsageUpdate) -> list[Event]:
        return [self.usage(event)]

    def _reduce_error(self, event: StreamError) -> list[Event]:
        self.fail()
        return [event]

    def _reduce_ping(self, event: Ping) -> list[Event]:
        return [event]

    def fail(self) -> None:
        """Withdraw the open calls of a stream that fails; legal at any time, unlike `push`."""
        self._stored.lift()
        if self._executed is not None:
            self._executed.discard()
        if self._whole is None:
            return
        for index, state in self._states.items():
            if type(state.start.block) in _CALLS and not (state.dropped or state.stopped):
                self._whole.discard(index, type(state.start.block).__name__)
                self.withdrawn_calls[index] = None

    def usage(self, event: UsageUpdate) -> UsageUpdate:
        """Return a usage snapshot that the target can carry; legal at any time, unlike `push`."""
        reduced = self._metadata.usage(event.usage)
        return event if reduced is event.usage else UsageUpdate(reduced)

    def _start(self, event: BlockStart) -> list[Event]:
        if type(event.block) is ToolCall:
            event = self._calls.start(event, event.block)
        target, block = self._target, event.block
        state = self._states[event.index] = _BlockState(event)
        # Targets without choices would write two answers as one.
        if event.choice and not target.choices:
            self._losses.add("choices", f"choice {event.choice}", "dropped")
            state.dropped = True
            return []
        # As text the refusal reaches the user; the stop reason marks it as a refusal.
        if not target.refusal and isinstance(block, Refusal):
            self._losses.add("refusal", "block", "written as text")
            self._metadata.refused = True
            block = Text()
            state.start = structs.replace(event, block=block)
        if (lacking := target.lacking_feature(block)) is not None:
            self._losses.add(lacking, type(block).__name__, "dropped")
            self._dropped_calls.drop(event)
            state.dropped = True
            return []
        left = None if event.extra is None else self.vendor_fields.drop(event.extra)
        if left is not event.extra:
            event = state.start = structs.replace(state.start, extra=left)
        # Such targets have functions alone, of which arguments are an object: the free text becomes
        # its field `input`.
        if type(block) is ToolCall and block.kind == "custom" and not target.custom_tools:
            self._losses.add("custom_tool", "block", "written as a function of one string")
            state.start = structs.replace(event, block=structs.replace(block, kind="function"))
            state.wrapped = True
            return [*self._emit_start(state), *self._json(event.index, '{"input":"')]
        if type(block) in _TEXTS:
            # A block without text is not written (nor one of white space, for some targets), so
            # its start is held until text arrives.
            state.started = target.boundaries and (target.blank_text or type(block) is not Text)
        return self._emit_start(state) if state.started else []

    def _emit_start(self, state: _BlockState, *, signature_only: bool = False) -> list[Event]:
        """Return the start of a block and the events held for it."""
        state.started = True
        start, index = state.start, state.start.index
        if self._lent.last is not None:
            self._lent.start(start)
        held: list[Event] = []
        if state.held:
            delta = RefusalDelta if isinstance(start.block, Refusal) else TextDelta
            held = [
                delta(index, item.text()) if isinstance(item, TextBuffer) else item
                for item in state.held
            ]
            self._discard_held(state)
        if self._boundaries is not None:
            self._boundaries.start(
                index, start.choice, type(start.block), signature_only=signature_only
            )
        return [start, *held]

    def _emit_signature_only(self, state: _BlockState) -> list[Event]:
        """Return the start of a block with only a signature; drop its held citations."""
        state.signature_only = True
        for _ in state.held:
            self._citations.drop()
        self._discard_held(state)
        return self._emit_start(state, signature_only=True)

    def _discard_held(self, state: _BlockState) -> None:
        for item in state.held:
            if isinstance(item, TextBuffer):
                item.release()
        self._stored.release(state.held_bytes)
        state.held, state.held_bytes = [], 0

    def _in_block(self, event: Event, state: _BlockState, size: int) -> list[Event]:
        """Return an event of a block, which is held until the block starts."""
        if not state.started:
            self._hold(state, event, size)
        return [event] if state.started else []

    def _hold(self, state: _BlockState, item: Event | TextBuffer, size: int = 0) -> None:
        """Hold an event or text until its block starts."""
        size += OBJECT_BYTES if state.held else 0
        self._stored.add(size)
        state.held_bytes += size
        state.held.append(item)

    def _reduce_refusal(self, event: RefusalDelta) -> list[Event]:
        as_text = event if self._target.refusal else TextDelta(event.index, event.text)
        return self._reduce_text(as_text)

    def _reduce_text(self, event: TextDelta | RefusalDelta) -> list[Event]:
        state, text = self._states[event.index], event.text
        if state.dropped:
            return []
        if state.started:
            return [event]
        # Anthropic refuses a history with a text of white space, which Qwen and GLM send before
        # calls.
        is_written = self._target.blank_text or bool(text.strip())
        if is_written and not state.held:
            return [*self._emit_start(state), event]
        last = state.held[-1] if state.held else None
        if isinstance(last, TextBuffer):
            last.append(text)
        else:
            self._hold(state, TextBuffer(text, self._stored))
        return self._emit_start(state) if is_written else []

    def _reduce_arguments(self, event: JSONDelta) -> list[Event]:
        state, text = self._states[event.index], event.partial_json
        if state.dropped:
            self._dropped_calls.append(event.index, text)
            return []
        if state.wrapped:
            return self._json(event.index, compact(text)[1:-1])
        # Groq's calls without arguments: `null` is no object for Anthropic and Gemini.
        if not state.has_content and text == "null" and not self._target.null_arguments:
            self._losses.add("null_arguments", "tool call", "written as {}")
            return []
        state.has_content = True
        return [event] if self._whole is None else self._json(event.index, text)

    def _json(self, index: int, text: str) -> list[Event]:
        """Return arguments as a delta; [] if they are buffered until the call stops."""
        if self._whole is None:
            return [JSONDelta(index, text)]
        self._whole.append(index, text)
        return []

    def _reduce_reasoning(self, event: ReasoningDelta) -> list[Event]:
        state = self._states[event.index]
        if state.dropped:
            return []
        has_parts = self._target.reasoning_parts
        new_part = state.has_content and event.part != state.part and not has_parts
        state.part, state.has_content = event.part, True
        started = [] if state.started else self._emit_start(state)
        if has_parts:
            return [*started, event]
        text = event.text
        if new_part:
            self._losses.add("reasoning_parts", "block", "joined by a blank line")
            text = "\n\n" + text
        return [*started, ReasoningDelta(event.index, text)]

    def _reduce_signature(self, event: SignatureDelta) -> list[Event]:
        state = self._states[event.index]
        state.ended = True
        if state.dropped:
            return []
        if (
            type(state.start.block) is Reasoning
            and (carried := self._carriers.unwrap(event)) is not None
        ):
            if carried.id:
                state.dropped = not state.started
                return []
            if not state.started:
                state.start = structs.replace(state.start, block=Text())
                event = SignatureDelta(event.index, carried.signature, carried.issuer)
        if type(state.start.block) is Reasoning and self._carriers.lend(event, state.start):
            state.dropped = not state.started
            return []
        if isinstance(state.start.block, self._target.signed):
            started = [] if state.started else self._emit_signature_only(state)
            if self._boundaries is not None:
                self._boundaries.sign(event.index)
            before = self.merged.get(event.index)
            if before is not None and isinstance(self._states[before].start.block, Reasoning):
                self._carriers.lend(event, state.start)  # readers find it on the reasoning
            return [*started, event]
        # A provider refuses a history whose thinking lacks its signature, hence a loss.
        self._losses.add("signature", type(state.start.block).__name__, "dropped")
        return []

    def _reduce_citation(self, event: CitationDelta) -> list[Event]:
        state = self._states[event.index]
        if state.dropped:
            return []
        if state.signature_only:
            self._citations.drop()
            return []
        citation = self._citations.reduce(event.index, event.citation)
        if citation is None:
            return []
        if citation is not event.citation:
            event = CitationDelta(event.index, citation)
        return self._in_block(event, state, text_bytes(compact(citation)))

    def _stop(self, event: BlockStop) -> list[Event]:
        state = self._states[event.index]
        passed = self._stop_block(event, state)
        if state.held:
            for item in state.held:
                if isinstance(item, Opaque):
                    self._reduce_opaque(item)
            self._discard_held(state)
        # Only the type of a stopped block is read again; its content may be large.
        empty = Reasoning() if type(state.start.block) in _HIDDEN else Text()
        state.start = BlockStart(event.index, empty, state.start.choice)
        return passed

    def _stop_block(self, event: BlockStop, state: _BlockState) -> list[Event]:
        state.ended = state.stopped = True
        if state.dropped:
            return []
        is_open_text = state.wrapped and event.is_unfinished
        if event.is_unfinished:
            event = self._calls.stop_unfinished(event, is_wrapped=state.wrapped)
        # An empty text is refused by Anthropic when it comes back ("text content blocks must be
        # non-empty").
        if not state.started:
            feature = "empty_block" if self._target.blank_text else "whitespace_text"
            self._losses.add(feature, "block", "dropped")
            return []
        rest = self._json(event.index, '"}') if state.wrapped and not is_open_text else []
        if self._whole is not None and type(state.start.block) in _CALLS:
            arguments = self._whole.pop(event.index, type(state.start.block).__name__)
            # The start may be written, but a call without whole arguments must not be run.
            if arguments is None:
                self.withdrawn_calls[event.index] = None
            rest = [JSONDelta(event.index, arguments)] if arguments else []
        if event.index in self._lent.calls:
            self._end_lent(event.index)
        if self._boundaries is not None:
            self._boundaries.stop(event.index, written=event.index not in self.withdrawn_calls)
        return [*rest, event]

    def _end_lent(self, index: int) -> None:
        """Forget the signature lent to a call, or lend it to the block behind a withdrawn call."""
        is_withdrawn = index in self.withdrawn_calls
        self._lent.stop(index, is_withdrawn=is_withdrawn)
        if not is_withdrawn:
            return
        behind = [
            state
            for other in takewhile(lambda other: other != index, reversed(self._states))
            if (state := self._states[other]).started
            and not state.dropped
            and other not in self.withdrawn_calls
        ]
        if behind:
            self._lent.start(behind[-1].start, has_signature=behind[-1].ended)

    def _reduce_opaque(self, event: Opaque) -> list[Event]:
        state = self._states.get(event.index) if event.index is not None else None
        if state is not None and state.dropped:
            return []
        target = self._target
        if event.dialect == target.dialect and event.name not in target.not_round_tripped:
            is_written = state is None or state.started  # a block of white space may never start
            if event.name not in target.block_events:
                return [event if is_written else structs.replace(event, index=None)]
            if state is not None and (state.started or not state.stopped):
                return self._in_block(event, state, text_bytes(event.data))
        self._losses.add("opaque", f"{event.dialect} {event.name}", "dropped")
        return []

    def _reduce_message_stop(self, event: MessageStop) -> list[Event]:
        if event.choice and not self._target.choices:
            return []
        stop = self._metadata.stop(event)
        if self._carriers.found or self._lent.last is not None:
            self._carriers.end()
        is_cut_short = stop.reason in CUT_SHORT
        # A token limit or a refusal explains the broken call to the client; any other reason would
        # make it run what is left.
        error = _BROKEN_CALL if self.withdrawn_calls and not is_cut_short else None
        # The grammar allows no error after the first `MessageStop`.
        dropped = self._dropped_calls
        if error is None and (dropped.are_executed or dropped.calls) and not self._stopped:
            says_nothing = self._says_nothing(event.choice)
            error = dropped.error(event, is_cut_short=is_cut_short, says_nothing=says_nothing)
        self._failed, self._stopped = error is not None, True
        return [stop if error is None else error]

    def _says_nothing(self, choice: int) -> bool:
        """Return whether a choice has only blocks that the client does not see."""
        states = [state for state in self._states.values() if state.start.choice == choice]
        return bool(states) and all(
            state.dropped or not state.started or isinstance(state.start.block, _HIDDEN)
            for state in states
        )

    _reducers: ClassVar[dict[type, Callable[[Any, Any], list[Event]]]] = {
        TextDelta: _reduce_text,
        JSONDelta: _reduce_arguments,
        ReasoningDelta: _reduce_reasoning,
        RefusalDelta: _reduce_refusal,
        SignatureDelta: _reduce_signature,
        CitationDelta: _reduce_citation,
        BlockStart: _start,
        BlockStop: _stop,
        MessageStart: _reduce_message_start,
        UsageUpdate: _reduce_usage_update,
        MessageStop: _reduce_message_stop,
        StreamError: _reduce_error,
        Ping: _reduce_ping,
        Opaque: _reduce_opaque,
    }
