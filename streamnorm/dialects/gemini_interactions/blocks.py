"""Open steps and their blocks: base class, then steps of output, thought and unknown type.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  `InteractionBlocks` is the state
of the whole interaction, `OpenStep` a step between its start and its stop.  Steps that call tools
are in `steps.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar
from zlib import crc32

from msgspec import Struct, field

from streamnorm._core.blocks import Block, OpaqueBlock, Reasoning, Text, file_block
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.codec.templates import Extend
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    delta_factory,
)
from streamnorm._core.failures import malformed
from streamnorm._core.json import clean, compact, is_array, is_object, rejoin, string_of
from streamnorm._core.text import LONG_CHARS, MAX_FRESH, TextOffsets
from streamnorm.dialects.gemini_interactions.content import (
    citation_from_wire,
    redacted_from_wire,
    signature_from_wire,
)
from streamnorm.dialects.gemini_interactions.wire import (
    DIALECT,
    SUMMARY_DELTAS,
    TEXT_DELTAS,
    DeltaDecoder,
    unknown_fields,
)

_ANNOTATIONS = "text_annotation_delta"


class OutputText(Struct):
    """Size and checksum of the text in one output step."""

    size: int = 0  # bytes
    crc: int = 0

    def append(self, text: str) -> None:
        """Update the size and the checksum with text that follows."""
        data = text.encode("utf-8", "replace")
        self.size += len(data)
        self.crc = crc32(data, self.crc)


class InteractionBlocks(BlockOpener):
    """State shared by all steps of one interaction.

    Attributes:
        unanswered: Names of the client tool calls without a result, by call id.
        running: Ids of the server tool calls without a result.
        calls_by_id: Name and arguments of all calls, by id.
        outputs: Length and checksum of the text of each step of the answer.
        unfinished: Number of client tool calls whose arguments are no complete JSON.
    """

    unanswered: dict[str, str] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    calls_by_id: dict[str, tuple[str, str]] = field(default_factory=dict)
    outputs: list[OutputText] = field(default_factory=list)
    unfinished: int = 0

    def start(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        """Append the start of a block and return its index."""
        index = self.next_index()
        events.append(BlockStart(index, block, extra=extra or None))
        return index

    def name_call(self, id: str, name: str) -> None:
        """Store the id and the name of a new call.

        Raises:
            Fatal: Another call has the id.
        """
        if id in self.calls_by_id:
            raise malformed("two calls of one id, expected different ids")
        self.calls_by_id[id] = name, ""

    def add_opaque(
        self, name: str, value: Any, events: list[Event], *, index: int | None = None
    ) -> None:
        """Append an opaque event with data that no unified event can carry."""
        events.append(Opaque(DIALECT, clean(name), compact(value), index))

    def add_delta(
        self, kind: str, events: list[Event], index: int | None, **fields: object
    ) -> None:
        """Append an opaque event with a delta that no unified event can carry."""
        self.add_opaque(kind, {"type": kind, **fields}, events, index=index)


class GrowingBlock:
    """An open block that further deltas extend.

    Args:
        delta: Empty delta of the block.

    Attributes:
        index: Index of the block.
        delta: Empty delta of the block, and of the part that deltas extend.
        has_text: Whether a delta with text has arrived.
        carry: High surrogate at the end of the last delta.
    """

    def __init__(self, delta: Delta) -> None:
        self.index = delta.index
        self.delta = delta
        self.has_text = False
        self.carry = ""

    def append(self, text: str, events: list[Event]) -> str:
        """Append a delta of `text`; hold back a final high surrogate; return the delta's text."""
        text, self.carry = rejoin(self.carry, text)
        if text:
            self.has_text = True
            events.append(delta_factory(self.delta)(text))
        return text

    def flush(self, events: list[Event]) -> str:
        """Append U+FFFD for a held high surrogate, and return the text; "" if nothing is held."""
        carry, self.carry = clean(self.carry), ""
        if carry:
            events.append(delta_factory(self.delta)(carry))
        return carry


class OpenStep(ABC):
    """A step that has started and not stopped: base class of the step types.

    Args:
        kind: Type of the step.
        fields: Fields of the start.
        arguments: JSON text of the arguments in the start; "" without arguments.
        blocks: State shared with the other steps.

    Attributes:
        block: The open block; None if none is open.
        delta_decoder: Decoder of the deltas that extend the block.
    """

    delta_decoder: ClassVar[DeltaDecoder] = TEXT_DELTAS

    def __init__(
        self, kind: str, fields: dict[str, Any], arguments: str, blocks: InteractionBlocks
    ) -> None:
        self.kind = kind
        self._fields = fields
        self._start_arguments = arguments
        self._blocks = blocks
        self.block: GrowingBlock | None = None

    @property
    def index(self) -> int | None:
        """Index of the open block; None if no block is open."""
        return None if self.block is None else self.block.index

    @abstractmethod
    def start(self, events: list[Event]) -> None:
        """Append the events of the step's start."""

    def extensible_block(self) -> GrowingBlock | None:
        """Return the open block if the fast path may append deltas to the block; else None."""
        block = self.block
        # The first text of a block opens it for the target.
        return None if block is None or not block.has_text or block.carry else block

    def text_sinks(self) -> tuple[Extend | None, list[str] | None]:
        """Return what accounts for the texts of deltas on the fast path; None where nothing does.

        Returns:
            A function that accounts for a text, and a list that takes up to `MAX_FRESH` texts of
            at most `LONG_CHARS` characters in its place.  The function returns False, and the step
            is unchanged, if the frame must be read in full.
        """
        return None, None

    @abstractmethod
    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        """Append the events of a delta; return False if the step type lacks this delta type.

        Args:
            kind: Type of the delta.
            delta: The delta.
            arguments: JSON text of the delta's arguments; "" without arguments.
            events: List to append to.
        """

    @abstractmethod
    def stop(self, events: list[Event], *, explicit: bool) -> None:
        """Append the events of the step's end.

        Args:
            events: List to append to.
            explicit: Whether the server has stopped the step, and not only the interaction.
        """


class UnknownStep(OpenStep):
    """A step of an unknown type, or `user_input`; decoded to an opaque block."""

    _index: int | None = None

    @property
    def index(self) -> int | None:
        return self._index

    def start(self, events: list[Event]) -> None:
        block = OpaqueBlock(DIALECT, clean(self.kind), compact(self._fields))
        self._index = self._blocks.start(block, None, events)

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        return False

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        # A step whose start exceeded a limit has no block.
        events += [] if self._index is None else [BlockStop(self._index)]


class OutputStep(OpenStep):
    """A `model_output` step, or a content of the former revision: text and files."""

    _offsets: TextOffsets  # of the open block
    _signature = ""
    _written: OutputText

    def start(self, events: list[Event]) -> None:
        self._uncounted: list[str] = []  # the last fragments of the open block
        self._written = OutputText()
        # The last event repeats the texts of the answer, which are then compared with these.
        if self.kind in ("model_output", "text"):
            self._blocks.outputs.append(self._written)
        if self.kind != "model_output":  # the former revision starts a content, not a step
            self.read_delta(self.kind, self._fields, "", events)
            return
        # The last event repeats whole steps, whose contents stand here; streamed steps start bare.
        contents = self._fields.get("content")
        for content in contents if is_array(contents) else ():
            kind = string_of(content, "type") if is_object(content) else ""
            if not (is_object(content) and self.read_delta(kind or "text", content, "", events)):
                self._blocks.add_opaque(kind or "content", content, events, index=self.index)
        if rest := unknown_fields(self._fields, ("type", "content")):
            self._blocks.add_opaque(self.kind, rest, events)

    def extensible_block(self) -> GrowingBlock | None:
        return None if self._signature else super().extensible_block()

    def text_sinks(self) -> tuple[Extend | None, list[str] | None]:
        return self._extend, self._uncounted

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        match kind:
            case "text":
                self._write(delta.get("text"), events)
                self._cite(delta.get("annotations"), events)
            case "text_annotation_delta" | "text_annotation":
                self._cite(delta.get("annotations"), events)
            case "thought_signature":
                self._sign(string_of(delta, "signature"), events)
            # Audio and video have no unified block.
            case "image" | "document":
                self._file(kind, delta, events)
            case _:
                return False
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        if self.block is not None:
            self._extend(self.block.flush(events))
            self._count()
            events.append(BlockStop(self.block.index))
            self._offsets.release()
            self.block = None

    def _write(self, text: object, events: list[Event]) -> None:
        if isinstance(text, str) and text:
            if self._signature:
                # A signature covers the text before it alone.
                self.stop(events, explicit=True)
            self._extend(self._grow(events).append(text, events))

    def _extend(self, text: str) -> bool:
        uncounted = self._uncounted
        uncounted.append(text)
        if len(uncounted) >= MAX_FRESH or len(text) > LONG_CHARS:
            self._count()
        return True

    def _count(self) -> None:
        """Add the uncounted fragments to the text's size, checksum and citation offsets."""
        text = "".join(self._uncounted)
        self._uncounted.clear()
        self._offsets.append(text)
        self._written.append(text)

    def _grow(self, events: list[Event]) -> GrowingBlock:
        if self.block is None:
            index = self._blocks.start(Text(), None, events)
            self.block = GrowingBlock(TextDelta(index, ""))
            # Annotations count bytes within one content.
            self._offsets = TextOffsets(room=self._blocks.citable)
            self._signature = ""
        return self.block

    def _sign(self, signature: str, events: list[Event]) -> None:
        if not signature or (self.block is not None and self._signature == signature):
            return
        if self._signature:
            self.stop(events, explicit=True)
        block = self._grow(events)
        self._extend(block.flush(events))
        self._signature = signature
        events.append(SignatureDelta(block.index, *signature_from_wire(signature)))

    def _cite(self, annotations: object, events: list[Event]) -> None:
        for annotation in annotations if is_array(annotations) else ():
            block = self.block
            found = None
            if block is not None and is_object(annotation):
                self._extend(block.flush(events))
                self._count()
                found = citation_from_wire(annotation, self._offsets)
            # An annotation without text before it, or of an unknown type, stays opaque.
            if block is None or found is None:
                self._blocks.add_delta(_ANNOTATIONS, events, self.index, annotations=[annotation])
            else:
                events.append(CitationDelta(block.index, found))

    def _file(self, kind: str, content: dict[str, Any], events: list[Event]) -> None:
        data, url = content.get("data"), content.get("uri")
        data = data if isinstance(data, str) else None
        url = url if isinstance(url, str) else None
        block = file_block(string_of(content, "mime_type"), data, url)
        if block is None:
            self._blocks.add_opaque(kind, content, events, index=self.index)
            return
        self.stop(events, explicit=True)
        extra = unknown_fields(content, ("type", "data", "uri", "mime_type"))
        events.append(BlockStop(self._blocks.start(block, extra, events)))


class ThoughtStep(OpenStep):
    """A `thought` step: summaries, each one part of a reasoning block, and signatures."""

    delta_decoder = SUMMARY_DELTAS
    _has_started = False  # a block of the step, which may have stopped since
    _part = 0
    _signature = ""

    def start(self, events: list[Event]) -> None:
        summary = self._fields.get("summary")
        for part, content in enumerate(summary if is_array(summary) else ()):
            # Each content of a summary is a part of its own.
            self._part = part
            if self.block is not None:
                self.block.flush(events)
                self.block.delta = ReasoningDelta(self.block.index, "", part)
            self._write(content, events)
        self._sign(string_of(self._fields, "signature"), events)

    def extensible_block(self) -> GrowingBlock | None:
        return None if self._signature else super().extensible_block()

    def read_delta(
        self, kind: str, delta: dict[str, Any], arguments: str, events: list[Event]
    ) -> bool:
        match kind:
            case "thought_summary":
                self._write(delta.get("content"), events)
            case "text" | "thought":  # reasoning: a thought step holds nothing else
                self._write(delta, events)
            case "thought_signature":
                self._sign(string_of(delta, "signature"), events)
            case _:
                return False
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        if not self._has_started and explicit:
            self._grow(events)
        if self.block is not None:
            self.block.flush(events)
            events.append(BlockStop(self.block.index))
            self.block = None

    def _write(self, content: object, events: list[Event]) -> None:
        if not is_object(content) or not isinstance(content.get("text"), str):
            if content is not None:
                self._blocks.add_delta("thought_summary", events, self.index, content=content)
            return
        if text := content["text"]:
            if self._signature:
                self.stop(events, explicit=True)
            self._grow(events).append(text, events)
        # Reasoning has no citations.
        if rest := unknown_fields(content, ("type", "text")):
            rest = {"type": "text", "text": "", **rest}
            self._blocks.add_delta("thought_summary", events, self.index, content=rest)

    def _grow(self, events: list[Event]) -> GrowingBlock:
        if self.block is None:
            # A signature has ended the block before: parts are numbered within a block.
            if self._has_started:
                self._part = 0
            index = self._blocks.start(Reasoning(), None, events)
            self._has_started = True
            self._signature = ""
            self.block = GrowingBlock(ReasoningDelta(index, "", self._part))
        return self.block

    def _sign(self, signature: str, events: list[Event]) -> None:
        if not signature:
            return
        if self._signature == signature:
            self._blocks.note("resent_signature", "thought")
            return
        if self._signature:
            self.stop(events, explicit=True)
        redacted = redacted_from_wire(signature)
        if redacted is not None:  # of another vendor, which the encoder wrote as a signature
            self.stop(events, explicit=False)
            events.append(BlockStop(self._blocks.start(redacted, None, events)))
            self._has_started = True
            return
        # Most thoughts have a signature and no summary: the history needs that step.
        block = self._grow(events)
        block.flush(events)
        self._signature = signature
        events.append(SignatureDelta(block.index, *signature_from_wire(signature)))
