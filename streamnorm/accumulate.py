"""Events to a message, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct, structs

from streamnorm._json import compact, is_object
from streamnorm._text import TextBuffer
from streamnorm.blocks import (
    GROWING_BLOCKS,
    Block,
    Citation,
    Reasoning,
    Refusal,
    ServerToolCall,
    Text,
    ToolCall,
)
from streamnorm.errors import LimitExceeded, LocalProtocolError
from streamnorm.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm.limits import Limits
from streamnorm.messages import Message
from streamnorm.partial_json import PartialJSON, ValueDelta

__all__ = ["Accumulator", "accumulate", "message_events"]

# Folding in batches costs half of folding one by one; 32 events are a few kilobytes.
_BATCH = 32
_BATCH_BYTES = 8192


class _Growing(Struct):
    """A block under construction; its text is written, not concatenated."""

    start: Block
    choice: int
    extra: dict[str, Any] | None
    parts: list[TextBuffer]
    citations: list[Citation]
    signature: str | None = None
    issuer: str | None = None

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
                return structs.replace(block, parts=texts, **signed)
            case Refusal(text):
                return Refusal(text + "".join(texts))
            case ToolCall() as block:
                arguments = block.arguments + "".join(texts)
                return structs.replace(block, arguments=arguments, **signed)
            case ServerToolCall() as block:
                return structs.replace(block, arguments=block.arguments + "".join(texts))
            case whole:
                return whole


class Accumulator:
    """Add events up to messages, one for each choice.

    Args:
        limits: `max_accumulated_bytes` bounds the text of all deltas and the JSON of blocks'
            starts and of citations, in UTF-8 bytes; `max_json_depth` the nesting of partial
            arguments.

    Attributes:
        usage: The last snapshot.
        room: Bytes of the stream that may come before text has to be folded (see `keeper`).
    """

    def __init__(self, *, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self._max_bytes = limits.max_accumulated_bytes
        self._max_json_depth = limits.max_json_depth
        self._bytes = 0
        self.room = 0
        # Up to here no message can have passed its bound: no text grows more on its way
        # from the wire (a byte that is not UTF-8 becomes three).
        self._safe_bytes = limits.max_accumulated_bytes // 8
        self._pending: list[Event] = []
        self._start = MessageStart()
        self._usage = Usage()
        self._blocks: dict[int, _Growing] = {}
        self._fresh: dict[int, list[str]] = {}  # text of this batch, by block
        self._stops: dict[int, MessageStop] = {}
        self._inputs: dict[int, PartialJSON] = {}  # of the calls that somebody asked about

    def push(self, event: Event) -> None:
        """Add one event.

        Raises:
            LimitExceeded: The message is larger than `max_accumulated_bytes`; raised here
                or by a later call, since events are folded in batches.
        """
        self.extend((event,))

    def extend(self, events: Iterable[Event]) -> None:
        """Add events, as `push` does."""
        self._pending += events
        if len(self._pending) >= _BATCH:
            self.fold()

    def take(self, events: list[Event], size: int) -> list[Event]:
        """Add what a piece of a stream gave, and end the stream that is too long.

        Args:
            events: What a decoder made of the piece.
            size: Bytes of the piece.

        Returns:
            `events`; where the message passes its bound, those before that, and a
            `StreamError("too_large")`.
        """
        self.room -= size
        if self.room >= 0 or self.refill():
            self._pending += events
            if len(self._pending) >= _BATCH:
                self.fold()
            return events
        for number, event in enumerate(events):
            self._pending.append(event)
            try:
                self.fold()
            except LimitExceeded as exc:
                error = StreamError("too_large", str(exc), code=exc.limit)
                return [*events[:number], error]
        return events

    def keeper(self, index: int, part: int = 0) -> Callable[[str], None]:
        """Return what keeps more text of a part of an open block, the shortest way.

        Until text of the block comes by another method.  Whoever uses it takes the bytes of the
        stream from `room` first, and takes the long way where `refill` does not help.
        """
        self.fold()
        if not part:
            return self._fresh[index].append
        buffer = self._blocks[index].part(part)
        return lambda text: self._add(buffer.extend((text,)))

    def refill(self) -> bool:
        """Fold what waits to make room for more; return whether the bound is still far."""
        self.fold()
        left = self._safe_bytes + self.room  # which is below 0, by what was taken too much
        self.room = max(0, min(_BATCH_BYTES, left))
        self._safe_bytes = left - self.room
        return left >= 0

    @property
    def start(self) -> MessageStart:
        """How the message began, also where it has become too large."""
        began = (event for event in self._pending if isinstance(event, MessageStart))
        return next(began, self._start)

    @property
    def usage(self) -> Usage:
        """The last snapshot of the tokens."""
        self.fold()
        return self._usage

    def message(self, choice: int = 0) -> Message:
        """Return what has arrived so far."""
        self.fold()
        stop = self._stops.get(choice)
        blocks = [block for block in self._blocks.values() if block.choice == choice]
        extras = tuple(block.extra for block in blocks)
        return Message(
            id=self._start.id,
            model=self._start.model,
            blocks=tuple(block.block() for block in blocks),
            stop_reason=stop.reason if stop else None,
            raw_stop_reason=stop.raw_reason if stop else None,
            stop_sequence=stop.stop_sequence if stop else None,
            usage=self._usage,
            extra=self._start.extra,
            stop_extra=stop.extra if stop else None,
            block_extras=extras if any(extras) else (),
        )

    def partial_input(self, index: int) -> dict[str, object]:
        """Return what is known so far of the arguments of the call in block `index`.

        It is `{}` while no object has begun, and stays so where none ever does (text that is
        no object, a custom call).  It stays as it is from where text stops being JSON;
        `ToolCall.input()` raises there.  `PartialJSON.value` says what reading costs and
        what you may do with the value.

        Raises:
            LocalProtocolError: There is no call in that block.
            LimitExceeded: As `push`.
        """
        value = self._input(index).value
        return value if is_object(value) else {}

    def input_deltas(self, index: int) -> list[ValueDelta]:
        """Return what the arguments of the call in block `index` gained since the last call.

        The first call returns all that has come.

        Raises:
            LocalProtocolError: There is no call in that block.
            LimitExceeded: As `push`.
        """
        return self._input(index).deltas()

    def _input(self, index: int) -> PartialJSON:
        """Return the parser of a call, which has read all that has come."""
        self.fold()
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

    def fold(self) -> None:
        """Add up the events that still wait for their batch.

        Raises:
            LimitExceeded: The message is larger than `max_accumulated_bytes`.
        """
        pending, fresh = self._pending, self._fresh
        if self._bytes > self._max_bytes:
            pending.clear()
            raise self._too_large()
        try:
            for event in pending:
                if type(event) is TextDelta:
                    fresh[event.index].append(event.text)
                elif type(event) is JSONDelta:
                    fresh[event.index].append(event.partial_json)
                elif type(event) is ReasoningDelta and not event.part:
                    fresh[event.index].append(event.text)
                elif type(event) is UsageUpdate:
                    self._usage = event.usage
                else:
                    self._fold_one(event)
        finally:
            pending.clear()
        for index, pieces in fresh.items():
            if pieces:
                size = self._blocks[index].part(0).extend(pieces)
                pieces.clear()
                self._add(size)

    def _fold_one(self, event: Event) -> None:
        match event:
            case ReasoningDelta(index, text, part):
                self._add(self._blocks[index].part(part).extend((text,)))
            case RefusalDelta(index, text):
                self._fresh[index].append(text)
            case BlockStart():
                self._open(event)
            case SignatureDelta(index, signature, issuer):
                growing = self._blocks[index]
                growing.signature, growing.issuer = signature, issuer
                self._count(signature)
            case CitationDelta(index, citation):
                self._blocks[index].citations.append(citation)
                self._count(compact(citation))
            case MessageStart():
                self._start = event
            case MessageStop():
                self._stops[event.choice] = event
            case _:
                pass

    def _open(self, event: BlockStart) -> None:
        index, block = event.index, event.block
        growing = _Growing(block, event.choice, event.extra, [], [])
        if isinstance(block, Reasoning):
            growing.parts = [TextBuffer(text) for text in block.parts]
            self._fresh[index] = []
        elif isinstance(block, GROWING_BLOCKS):
            growing.part(0)
            self._fresh[index] = []
        self._blocks[index] = growing
        self._count(compact(block))
        if event.extra:
            self._count(compact(event.extra))

    def _count(self, text: str) -> None:
        self._add(len(text) if text.isascii() else len(text.encode()))

    def _add(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._max_bytes:
            raise self._too_large()

    def _too_large(self) -> LimitExceeded:
        message = f"message of {self._bytes} bytes, expected at most {self._max_bytes}"
        return LimitExceeded(message, limit="max_accumulated_bytes")


def accumulate(events: Iterable[Event], *, choice: int = 0) -> Message:
    """Return the message that events add up to, complete or not.

    Args:
        events: A legal stream (see `grammar`).
        choice: Which answer, where several were asked for.

    Raises:
        LimitExceeded: The message is larger than the default `max_accumulated_bytes`.
    """
    accumulator = Accumulator()
    accumulator.extend(events)
    return accumulator.message(choice)


def message_events(message: Message) -> list[Event]:
    """Return the stream that adds up to a message."""
    events: list[Event] = [MessageStart(message.id, message.model, message.extra)]
    extras = message.block_extras or (None,) * len(message.blocks)
    for index, (block, extra) in enumerate(zip(message.blocks, extras, strict=True)):
        events += _block_events(index, block, extra)
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
        case ToolCall(arguments=arguments):
            start = structs.replace(block, arguments="")
            deltas = [JSONDelta(index, arguments)] if arguments else []
        case ServerToolCall(arguments=arguments):
            start = structs.replace(block, arguments="")
            deltas = [JSONDelta(index, arguments)] if arguments else []
        case _:
            pass
    if isinstance(block, (Text, Reasoning)) and block.signature is not None:
        deltas.append(SignatureDelta(index, block.signature, block.issuer))
    return [BlockStart(index, start, extra=extra), *deltas, BlockStop(index)]
