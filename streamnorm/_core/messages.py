"""Whole messages, accumulated from events and decomposed into events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Block,
    Citation,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.errors import LimitExceeded, LocalProtocolError
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
    StopReason,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm._core.json import compact, is_object
from streamnorm._core.limits import (
    NEAR_BYTES,
    OBJECT_BYTES,
    PART_BYTES,
    USUAL_FIELDS_BYTES,
    Limits,
    text_bytes,
    value_bytes,
)
from streamnorm._core.open_calls import open_calls
from streamnorm._core.text import BATCH, FULL_LIST, TextBuffer
from streamnorm.partial_json import PartialJSON, ValueDelta


class Message(Struct, frozen=True, omit_defaults=True, eq=False):
    """One answer of a model, complete or partial.

    Equality ignores `opaque` and `source`.

    Attributes:
        id: The provider's id; empty if it sent none.
        model: The model that answered.
        blocks: The content, in order.
        stop_reason: Unified stop reason; None if the message has not ended.
        raw_stop_reason: The vendor's finish reason, as spelt on the wire.
        stop_sequence: The sequence that ended the message, if the vendor reports it.
        usage: Token counts.
        extra: Other fields of the vendor's first object.
        stop_extra: Other fields of the vendor's last object.
        block_extras: The vendor's other fields of each block, or None; () if no block has any.
        opaque: Data that only its own dialect knows, such as log probabilities; `index` is the
            number of a block.
        source: The `MessageSource` of a whole response; None for any other message.
    """

    id: str = ""
    model: str = ""
    blocks: tuple[Block, ...] = ()
    stop_reason: StopReason | None = None
    raw_stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage = Usage()
    extra: dict[str, Any] | None = None
    stop_extra: dict[str, Any] | None = None
    block_extras: tuple[dict[str, Any] | None, ...] = ()
    opaque: tuple[Opaque, ...] = ()
    source: Any = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._list_compared() == other._list_compared()

    def __hash__(self) -> int:
        return hash(self._list_compared())

    def _list_compared(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in _COMPARED])

    @property
    def text(self) -> str:
        """The text for the user: all `Text` blocks, concatenated."""
        return "".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the client is asked to execute, in order; not those with a result."""
        return open_calls(self.blocks)


_COMPARED = tuple(name for name in Message.__struct_fields__ if name not in ("opaque", "source"))


class MessageSource(Struct, frozen=True):
    """The response that a message was decoded from.

    If only the model of the message changes, and the dialect stays, the response is written
    again as it was read.

    Attributes:
        dialect: Name of the dialect.
        body: The decoded response; None if it was a stream.
        message: The message as it was decoded, without its source.
        choices: The other answers, by their numbers; ids and token counts are those of `message`.
    """

    dialect: str
    body: dict[str, Any] | None
    message: Message
    choices: tuple[tuple[int, Message], ...] = ()


def came_from(message: Message, dialect: str) -> bool:
    """Return whether a message was decoded from a dialect, even if it was changed later."""
    return isinstance(message.source, MessageSource) and message.source.dialect == dialect


def unchanged_body(message: Message, dialect: str) -> dict[str, Any] | None:
    """Return the body that a message was decoded from, if the body can be written again.

    None if the message came from another dialect, or if a field besides the model was replaced.
    """
    if not came_from(message, dialect):
        return None
    before = message.source.message
    for name in message.__struct_fields__:
        if name not in ("model", "source") and getattr(message, name) is not getattr(before, name):
            return None
    body: dict[str, Any] | None = message.source.body
    return body


# Packing text in batches costs a tenth of packing each delta.
_BATCH_BYTES = 900  # memory of the text that waits to be packed
_STRING_BYTES = 48  # memory of a string besides its characters
_MAX_LENT = 16  # blocks that grow in turn
_MAX_BYTES_PER_CHAR = 4


class _Growing(Struct):
    """A block under construction, with its text buffers."""

    start: Block
    choice: int
    extra: dict[str, Any] | None
    parts: list[TextBuffer]
    citations: list[Citation]
    signature: str | None = None
    issuer: str | None = None
    id: str | None = None  # item that the signature is bound to
    is_unfinished: bool = False

    def part(self, number: int) -> TextBuffer:
        while len(self.parts) <= number:
            self.parts.append(TextBuffer())
        return self.parts[number]

    def block(self) -> Block:
        signed: dict[str, Any] = {}
        if self.signature is not None:
            signed = {"signature": self.signature, "issuer": self.issuer}
        texts = tuple(part.text() for part in self.parts)
        match self.start:
            case Text() as block:
                citations = (*block.citations, *self.citations)
                text = block.text + "".join(texts)
                return structs.replace(block, text=text, citations=citations, **signed)
            case Reasoning() as block:
                return structs.replace(block, parts=texts, id=self.id, **signed)
            case Refusal(text):
                return Refusal(text + "".join(texts))
            case ToolCall() as block:
                arguments = block.arguments + "".join(texts)
                ended = {"is_unfinished": True} if self.is_unfinished else {}
                return structs.replace(block, arguments=arguments, **signed, **ended)
            case ServerToolCall() as block:
                return structs.replace(block, arguments=block.arguments + "".join(texts))
            case whole:
                return whole


class Accumulator:
    """Accumulate events into messages, one per choice.

    Args:
        limits: `max_accumulated_bytes` bounds the text of all deltas, the JSON of blocks'
            starts and of citations, and opaque data, in UTF-8 bytes, with 200 bytes more for
            each citation and opaque event; `max_json_depth` the nesting of partial arguments.

    Attributes:
        start: The `MessageStart`.
        usage: The last usage snapshot.
    """

    def __init__(self, *, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self.start = MessageStart()
        self.usage = Usage()
        self._max_bytes = limits.max_accumulated_bytes
        self._max_json_depth = limits.max_json_depth
        self._bytes = 0  # accumulated so far, without unpacked text
        # Memory that may be appended before the text must be packed and counted, so small that the
        # bound cannot be exceeded until then.
        self._unchecked_bytes = 0
        self._unpacked: list[TextBuffer] = []
        self._lent: list[TextBuffer] = []  # whose lists others append to
        self._blocks: dict[int, _Growing] = {}
        self._stops: dict[int, MessageStop] = {}
        self._opaque: list[Opaque] = []
        self._inputs: dict[int, PartialJSON] = {}  # for calls whose partial input was read

    @property
    def is_empty(self) -> bool:
        """Whether no event has arrived."""
        return not self._blocks and self.start == MessageStart() and self.usage == Usage()

    @property
    def has_blocks(self) -> bool:
        """Whether a block has begun."""
        return bool(self._blocks)

    @property
    def ended_choices(self) -> list[int]:
        """Numbers of the choices that have ended, in ascending order."""
        return sorted(self._stops)

    def push(self, event: Event) -> None:
        """Add one event.

        Raises:
            LimitExceeded: The message is larger than `max_accumulated_bytes`.
        """
        # A class pattern that does not match costs five times as much as a comparison of types.
        if type(event) is BlockStart:
            self._open(event)
        elif type(event) is BlockStop:
            if event.is_unfinished:
                self._blocks[event.index].is_unfinished = True
        elif type(event) is TextDelta or type(event) is RefusalDelta:
            self._append(self._blocks[event.index].part(0), event.text)
        elif type(event) is JSONDelta:
            self._append(self._blocks[event.index].part(0), event.partial_json)
        elif type(event) is ReasoningDelta:
            self._append(self._part(event.index, event.part), event.text)
        elif type(event) is UsageUpdate:
            # Snapshots are cumulative (Anthropic's reference of `message_delta`): adding them up
            # would count twice.
            self.usage = event.usage
        elif type(event) is MessageStart:
            self.start = event
        elif type(event) is MessageStop:
            self._stops[event.choice] = event
        elif type(event) is SignatureDelta:
            growing, id = self._blocks[event.index], event.id or ""
            if growing.signature is not None:
                self._bytes -= text_bytes(growing.signature + (growing.id or ""))
            # The SDKs assign a signature: of two the last counts.
            growing.signature, growing.issuer, growing.id = event.signature, event.issuer, event.id
            self._count(event.signature + id)
        elif type(event) is CitationDelta:
            self._blocks[event.index].citations.append(event.citation)
            self._count(compact(event.citation), OBJECT_BYTES)
        elif type(event) is Opaque:
            self._opaque.append(event)
            self._count(event.name + event.data, OBJECT_BYTES)

    def extend(self, events: Iterable[Event]) -> None:
        """Add each of `events`, as `push` does."""
        for event in events:
            self.push(event)

    def take(self, events: list[Event]) -> list[Event]:
        """Add events; return the same events.

        If the message exceeds its bound, only the events before are returned, followed by a
        `StreamError("too_large")`.
        """
        for number, event in enumerate(events):
            try:
                self.push(event)
            except LimitExceeded as exc:
                return [*events[:number], StreamError("too_large", str(exc), code=exc.limit)]
        return events

    def text_sinks(self, index: int, part: int = 0) -> tuple[Callable[[str], None], list[str]]:
        """Return a function that appends text to an open block, as a delta does, and a list.

        Up to `BATCH` texts of at most `LONG_CHARS` may be appended to the list, without a call.
        It is full where each text must be counted as it arrives.
        """
        buffer = self._part(index, part)
        fresh = self._lend(buffer)

        def append(text: str) -> None:
            if fresh is buffer.fresh and len(fresh) >= BATCH:
                self._pack()
            self._append(buffer, text)

        return append, fresh

    def message(self, choice: int = 0) -> Message:
        """Return the message so far.

        Raises:
            LimitExceeded: The message is larger than `max_accumulated_bytes`.
        """
        self._pack()
        stop = self._stops.get(choice)
        numbers = [index for index, block in self._blocks.items() if block.choice == choice]
        blocks = [self._blocks[index] for index in numbers]
        extras = tuple(block.extra for block in blocks)
        return Message(
            id=self.start.id,
            model=self.start.model,
            blocks=tuple(block.block() for block in blocks),
            stop_reason=stop.reason if stop else None,
            raw_stop_reason=stop.raw_reason if stop else None,
            stop_sequence=stop.stop_sequence if stop else None,
            usage=self.usage,
            extra=self.start.extra,
            stop_extra=stop.extra if stop else None,
            block_extras=extras if any(extras) else (),
            opaque=self._opaque_of(choice, numbers) if self._opaque else (),
        )

    def partial_input(self, index: int) -> dict[str, object]:
        """Return the arguments received so far for the call in block `index`.

        `{}` until an object begins, and for arguments that are no object (a custom call).  Where
        the text stops being JSON, the value stays as it is; `ToolCall.input()` raises there.
        See `PartialJSON.value` for the cost of reading and the use of the value.

        Raises:
            LocalProtocolError: There is no call in that block.
            LimitExceeded: As `push`.
        """
        value = self._input(index).value
        return value if is_object(value) else {}

    def input_deltas(self, index: int) -> list[ValueDelta]:
        """Return the changes to the arguments of block `index` since the last `input_deltas`.

        The first call returns all changes so far.

        Raises:
            LocalProtocolError: There is no call in that block.
            LimitExceeded: As `push`.
        """
        return self._input(index).deltas()

    def _input(self, index: int) -> PartialJSON:
        """Return the argument parser of a call, fed with all arguments received so far."""
        self._pack()
        growing = self._blocks.get(index)
        if growing is None or not isinstance(growing.start, (ToolCall, ServerToolCall)):
            found = type(growing.start).__name__ if growing else "nothing"
            raise LocalProtocolError(f"block {index} is {found}, expected a call")
        if growing.start.kind == "custom":
            return PartialJSON()  # free text has no members
        parser = self._inputs.get(index)
        if parser is None:
            parser = self._inputs[index] = PartialJSON(max_depth=self._max_json_depth)
            parser.feed(growing.start.arguments)
        parser.feed(growing.part(0).unread())
        return parser

    def _opaque_of(self, choice: int, indexes: list[int]) -> tuple[Opaque, ...]:
        """Return the opaque data of a choice; data without a block belongs to choice 0.

        Args:
            choice: Number of the choice.
            indexes: Indexes of its blocks.
        """
        numbers: dict[int | None, int | None] = {
            index: number for number, index in enumerate(indexes)
        }
        if choice == 0:
            numbers[None] = None
        return tuple(
            event
            if event.index == (number := numbers[event.index])
            else structs.replace(event, index=number)
            for event in self._opaque
            if event.index in numbers
        )

    def _part(self, index: int, number: int) -> TextBuffer:
        """Return the text buffer of one part of a block; count the memory of a new part."""
        growing = self._blocks[index]
        if number >= len(growing.parts) > 0:
            self._count("", (number + 1 - len(growing.parts)) * PART_BYTES)
        return growing.part(number)

    def _append(self, buffer: TextBuffer, text: str) -> None:
        self._unchecked_bytes -= len(text) + _STRING_BYTES
        fresh = buffer.fresh
        if not fresh:
            self._unpacked.append(buffer)
        fresh.append(text)
        if self._unchecked_bytes < 0:
            self._pack()

    def _pack(self, size: int = 0) -> None:
        """Join and store the text of recent deltas, and count its bytes and `size` others.

        Raises:
            LimitExceeded: The message is larger than `max_accumulated_bytes`.
        """
        if self._bytes <= self._max_bytes:
            for buffer in (*self._unpacked, *self._lent):
                self._bytes += buffer.pack()
        for buffer in (*self._unpacked, *self._lent):
            buffer.fresh.clear()  # text beyond the bound was not packed
        self._unpacked.clear()
        self._bytes += size
        left = self._max_bytes - self._bytes
        if left < NEAR_BYTES and self._lent:
            self._take_back()
        self._unchecked_bytes = min(_BATCH_BYTES, left // _MAX_BYTES_PER_CHAR)
        if left < 0:
            message = f"message of {self._bytes} bytes, expected at most {self._max_bytes}"
            raise LimitExceeded(message, limit="max_accumulated_bytes")

    def _lend(self, buffer: TextBuffer) -> list[str]:
        if self._max_bytes - self._bytes < NEAR_BYTES:
            return FULL_LIST
        if buffer not in self._lent:
            if len(self._lent) >= _MAX_LENT:
                self._take_back()
            self._lent.append(buffer)
        return buffer.fresh

    def _take_back(self) -> None:
        """Pack the text in the lists that were lent, and fill these so that they take no more."""
        lent, self._lent = self._lent, []
        for buffer in lent:
            self._bytes += buffer.pack()
            buffer.renew()

    def _open(self, event: BlockStart) -> None:
        block = event.block
        growing = _Growing(block, event.choice, event.extra, [], [])
        if type(block) is Reasoning:
            growing.parts = [TextBuffer(text) for text in block.parts]
        self._blocks[event.index] = growing
        self._count(compact(block))
        if type(block) is ServerToolResult:
            self._count("", _excess_bytes(block.content))
        if event.extra:
            self._count(compact(event.extra), _excess_bytes(event.extra))

    def _count(self, text: str, overhead: int = 0) -> None:
        size = text_bytes(text) + overhead
        self._unchecked_bytes -= size
        if self._unchecked_bytes < 0:
            self._pack(size)
        else:
            self._bytes += size


def _excess_bytes(value: object) -> int:
    """Return the memory of a decoded JSON value beyond the usual fields of a block."""
    return max(value_bytes(value) - USUAL_FIELDS_BYTES, 0)


class UsageAccumulator(Struct, eq=False):
    """Accumulate the start and the usage of a message, without its content.

    Attributes:
        start: The `MessageStart`.
        usage: The last usage snapshot.
        has_blocks: Whether a block has begun.
    """

    start: MessageStart = MessageStart()
    usage: Usage = Usage()
    has_blocks: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no event has arrived."""
        return self.start == MessageStart() and self.usage == Usage()

    def take(self, events: list[Event]) -> list[Event]:
        """Add the start and the usage in `events`; return all `events`."""
        for event in events:
            if isinstance(event, BlockStart):
                self.has_blocks = True
            elif isinstance(event, UsageUpdate):
                self.usage = event.usage
            elif isinstance(event, MessageStart):
                self.start = event
        return events

    def text_sinks(self, index: int, part: int = 0) -> tuple[Callable[[str], None], list[str]]:
        """Return a function that discards text, and a list that takes none."""
        return _drop, FULL_LIST

    def message(self, choice: int = 0) -> Message:
        """Raise an error: no content is stored.

        Raises:
            LocalProtocolError: Always.
        """
        raise LocalProtocolError("message of a stream with keep_message=False, expected none")


def _drop(text: str) -> None:
    pass


def accumulate(events: Iterable[Event], *, choice: int = 0) -> Message:
    """Return the message accumulated from events, complete or not.

    Args:
        events: Events in legal order, of which `validate` returns no violation.
        choice: Number of the choice.

    Raises:
        LimitExceeded: The message is larger than the default `max_accumulated_bytes`.
    """
    accumulator = Accumulator()
    accumulator.extend(events)
    return accumulator.message(choice)


def message_events(message: Message) -> list[Event]:
    """Return events that accumulate to `message`."""
    events: list[Event] = [MessageStart(message.id, message.model, message.extra)]
    extras = message.block_extras or (None,) * len(message.blocks)
    opaque: dict[int | None, list[Event]] = {}
    for data in message.opaque:
        opaque.setdefault(data.index, []).append(data)
    for index, (block, extra) in enumerate(zip(message.blocks, extras, strict=True)):
        *content, stop = _block_events(index, block, extra)
        events += [*content, *opaque.get(index, ()), stop]
    events += opaque.get(None, ())
    if message.usage != Usage():
        events.append(UsageUpdate(message.usage))
    if message.stop_reason is not None:
        events.append(
            MessageStop(
                message.stop_reason,
                message.raw_stop_reason,
                message.stop_sequence,
                extra=message.stop_extra,
            )
        )
    return events


def _block_events(index: int, block: Block, extra: dict[str, Any] | None) -> list[Event]:
    deltas: list[Event] = []
    start: Block = block
    is_unfinished = False
    match block:
        case Text(text, citations):
            start = Text()
            deltas = [TextDelta(index, text)] if text else []
            deltas += [CitationDelta(index, citation) for citation in citations]
        case Reasoning(parts):
            start = Reasoning()
            deltas = [ReasoningDelta(index, text, part) for part, text in enumerate(parts) if text]
        case Refusal(text):
            start = Refusal()
            deltas = [RefusalDelta(index, text)] if text else []
        case ToolCall(arguments=arguments, is_unfinished=is_unfinished):
            start = structs.replace(block, arguments="", is_unfinished=False)
            deltas = [JSONDelta(index, arguments)] if arguments else []
        case ServerToolCall(arguments=arguments):
            start = structs.replace(block, arguments="")
            deltas = [JSONDelta(index, arguments)] if arguments else []
        case _:
            pass
    if isinstance(block, (Text, Reasoning)) and block.signature is not None:
        id = block.id if isinstance(block, Reasoning) else None
        deltas.append(SignatureDelta(index, block.signature, block.issuer, id))
    return [BlockStart(index, start, extra=extra), *deltas, BlockStop(index, is_unfinished)]
