"""One answer of a Gemini stream: from parts, which have no boundaries, to blocks.

Text goes on in its block while the kind does not change.  A block of text stays open
until another starts, so that its sources, which come at the end, find it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Block,
    Citation,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStop,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
)
from streamnorm._core.ids import sealed_reasoning, untag_signature, unwrap_base64
from streamnorm._core.json import clean, compact, rejoin
from streamnorm._core.text_offsets import TextOffsets
from streamnorm.dialects.gemini.partial_args import PartialArguments
from streamnorm.dialects.gemini.stops import stop_reason
from streamnorm.dialects.gemini.wire import DIALECT

__all__ = ["Answer", "issued"]

_GOOGLE = "google"


class _Growing(Struct):
    """A block of text or of a thought that may go on.

    Attributes:
        index: Its number.
        thought: Whether it is a thought.
        delta: A delta of it.
        offsets: Where the sources of a text find their places; None of a thought.
        signature: Its signature, after which nothing is added.
        carry: High surrogate that its text ended in.
    """

    index: int
    thought: bool
    delta: TextDelta | ReasoningDelta
    offsets: TextOffsets | None
    signature: str = ""
    carry: str = ""


class _Streaming(Struct):
    """A call whose arguments come in pieces.

    Attributes:
        index: Its number.
        arguments: What writes them.
    """

    index: int
    arguments: PartialArguments


class Answer:
    """Follow one answer.

    Args:
        choice: Its number.
        opener: Shared with the other candidates.

    Attributes:
        finish: The last finish reason, as spelt on the wire.
        extra: Fields of the candidate that have no place in the events.
        note: Counts something that was forgiven.
    """

    def __init__(self, choice: int, opener: BlockOpener) -> None:
        self.finish: str | None = None
        self.extra: dict[str, Any] = {}
        self.note = opener.note
        self._choice = choice
        self._opener = opener
        self._growing: _Growing | None = None
        self._streaming: _Streaming | None = None
        self._size = 0  # bytes of the text before it
        self._asked: dict[str, str] = {}  # names of the calls that nobody has answered, by id
        self._served = ""  # id of the last call that the provider executed
        self._cited: dict[str, None] = {}
        self._told: dict[str, Any] = {}

    @property
    def text_place(self) -> TextOffsets | None:
        """Where the sources of the open text find their places; None if none is open."""
        return None if self._growing is None else self._growing.offsets

    # Text

    def more(self, text: str, thought: bool, events: list[Event]) -> None:
        """Take more text, or more of a thought."""
        block = self._growing
        if block is None or block.thought is not thought or block.signature:
            if not text:
                return
            block = self._grow(thought, events)
        text, block.carry = rejoin(block.carry, text)
        if text:
            self._append(block, text, events)

    def append_plain(self, text: str, thought: bool) -> TextDelta | ReasoningDelta | None:
        """Append text that only extends the open block, and return a delta of the block.

        None leaves the block unchanged: its chunk is to be read in full.
        """
        block = self._growing
        if block is None or block.thought is not thought or block.signature or block.carry:
            return None
        if block.offsets is not None:
            block.offsets.append_later(text)
        return block.delta

    def sign(self, signature: str, thought: bool, events: list[Event]) -> None:
        """Take the signature of the text at hand, or of none."""
        if not signature:
            return
        redacted = sealed_reasoning(unwrap_base64(signature))
        if redacted is not None:
            self.whole(RedactedReasoning(*redacted), {}, events)
            return
        block = self._growing
        if block is not None and block.signature == signature:
            self.note("resent_signature", "text")
            return
        if block is None or block.signature:
            block = self._grow(thought, events)
        self._flush(block, events)
        block.signature = signature
        events.append(SignatureDelta(block.index, *issued(signature)))

    def _grow(self, thought: bool, events: list[Event]) -> _Growing:
        index = self._start(Reasoning() if thought else Text(), None, events)
        room = self._opener.limits.max_held_bytes
        offsets = None if thought else TextOffsets(self._size, max_bytes=room)
        delta = ReasoningDelta(index, "") if thought else TextDelta(index, "")
        self._growing = _Growing(index, thought, delta, offsets)
        return self._growing

    def _append(self, block: _Growing, text: str, events: list[Event]) -> None:
        if block.offsets is None:
            events.append(ReasoningDelta(block.index, text))
            return
        events.append(TextDelta(block.index, text))
        block.offsets.append(text)

    def _flush(self, block: _Growing, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            self._append(block, carry, events)

    # Calls

    def call(
        self,
        call: ToolCall,
        arguments: str,
        signature: str,
        extra: dict[str, Any],
        events: list[Event],
    ) -> None:
        """Take a whole call."""
        index = self._start_call(call, signature, extra, events)
        if arguments:
            events.append(JSONDelta(index, arguments))
        events.append(BlockStop(index))

    def begin_call(
        self, call: ToolCall, signature: str, extra: dict[str, Any], events: list[Event]
    ) -> None:
        """Take the start of a call whose arguments come in pieces."""
        index = self._start_call(call, signature, extra, events)
        self._streaming = _Streaming(index, PartialArguments(self._opener.limits))

    def more_call(
        self, entries: list[dict[str, Any]], *, goes_on: bool, events: list[Event]
    ) -> bool:
        """Take more arguments.  Return False if no call waits for them."""
        call = self._streaming
        if call is None:
            return False
        text = "".join([call.arguments.write(entry) for entry in entries])
        if not goes_on:
            text += call.arguments.finish()
        if text:
            events.append(JSONDelta(call.index, text))
        if not goes_on:
            self._streaming = None
            events.append(BlockStop(call.index))
        return True

    def sign_call(self, signature: str, events: list[Event]) -> None:
        """Take a signature that comes with more arguments."""
        if signature and self._streaming is not None:
            events.append(SignatureDelta(self._streaming.index, *issued(signature)))

    def server_call(
        self, call: ServerToolCall, arguments: str, extra: dict[str, Any], events: list[Event]
    ) -> None:
        """Take a call that the provider executes."""
        self._opener.count_call(call.id, call.name)
        if not call.id:
            call = structs.replace(call, id=self._opener.mint("server tool call"))
        self._served = call.id
        index = self._start(call, extra, events)
        events += [JSONDelta(index, arguments), BlockStop(index)]

    def result(self, result: ServerToolResult, extra: dict[str, Any], events: list[Event]) -> None:
        """Take what a call gave that the provider executed."""
        self._opener.check_names(result.tool_call_id)
        self.whole(result, extra, events)

    def answered(self, id: str, name: str) -> str:
        """Return the id of the call that an answer is to; the client need not execute it."""
        if not id:
            id = next((known for known, tool in self._asked.items() if tool == name), "")
        self._asked.pop(id, None)
        return id

    @property
    def last_served(self) -> str:
        """Id of the last call that the provider executed."""
        return self._served

    def _start_call(
        self, call: ToolCall, signature: str, extra: dict[str, Any], events: list[Event]
    ) -> int:
        self._opener.count_call(call.id, call.name)
        if not call.id:
            call = structs.replace(call, id=self._opener.mint("tool call"))
        self._asked[call.id] = call.name
        if signature:
            value, issuer = issued(signature)
            call = structs.replace(call, signature=value, issuer=issuer)
        return self._start(call, extra, events)

    # Other blocks

    def whole(self, block: Block, extra: dict[str, Any], events: list[Event]) -> None:
        """Take a block that is whole."""
        index = self._start(block, extra, events)
        events.append(BlockStop(index))

    def _start(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        self._stop(events)
        index = self._opener.next_block()
        events.append(BlockStart(index, block, self._choice, extra or None))
        return index

    def _stop(self, events: list[Event], *, cut: bool = False) -> None:
        """Stop what is open."""
        if (block := self._growing) is not None:
            self._flush(block, events)
            events.append(BlockStop(block.index))
            self._size += 0 if block.offsets is None else block.offsets.size
            self._growing = None
        if (call := self._streaming) is not None:
            self.note("missing_call_end", "tool call")
            text = "" if cut else call.arguments.finish()
            if text:
                events.append(JSONDelta(call.index, text))
            events.append(BlockStop(call.index))
            self._streaming = None

    # What stands beside the parts

    def cite(self, citations: list[Citation], events: list[Event]) -> None:
        """Take sources of the open text, each once."""
        block = self._growing
        if block is None or not citations:
            return
        self._flush(block, events)
        for citation in citations:
            key = f"{block.index} {citation!r}"
            if key not in self._cited:
                self._cited[key] = None
                events.append(CitationDelta(block.index, citation))

    def metadata(self, name: str, value: Any, events: list[Event]) -> None:
        """Take data that is often repeated, each value once."""
        if value and self._told.get(name) != value:
            self._told[name] = value
            self.opaque(name, value, events)

    def opaque(self, name: str, value: Any, events: list[Event]) -> None:
        """Take data that only Gemini's clients know."""
        index = self._growing.index if self._growing is not None else None
        events.append(Opaque(DIALECT, name, compact(value), index))

    # The end

    def stop(self, blocked: str | None, events: list[Event]) -> MessageStop:
        """Stop what is open, and return the end of the answer.

        Args:
            blocked: Why the whole response was blocked, if it was.
            events: Where to append.
        """
        word = self.finish or blocked or ""
        reason = stop_reason(word, called=bool(self._asked)) if self.finish else "refusal"
        self._stop(events, cut=reason not in ("end_turn", "tool_use"))
        return MessageStop(reason, word, choice=self._choice, extra=self.extra or None)


def issued(signature: str) -> tuple[str, str | None]:
    """Return a signature and its issuer: the one in our tag, else Google."""
    return untag_signature(unwrap_base64(signature)) or (signature, _GOOGLE)
