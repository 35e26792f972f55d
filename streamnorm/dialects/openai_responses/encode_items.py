"""Encoders of output items, and the serializer of events with sequence numbers.

`FrameWriter` numbers the events.  An `ItemWriter` writes an item's events and stores the
complete item for the terminal event: reasoning, calls, whole items, then messages with parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Citation, ServerToolCall, ToolCall
from streamnorm._core.codec.templates import numbered_delta_frames
from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, dumps, is_json, is_object
from streamnorm._core.limits import OBJECT_BYTES, PART_BYTES, StoredBytes, text_bytes, value_bytes
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.openai_responses.content import citation_to_wire
from streamnorm.dialects.openai_responses.items import types


class FrameWriter:
    """Serializer of one stream's events, with consecutive sequence numbers.

    Attributes:
        next_number: Sequence number of the next event.
    """

    def __init__(self) -> None:
        self.next_number = 0

    def write(self, event_type: str, fields: dict[str, Any]) -> bytes:
        """Return one event as bytes."""
        number = self.next_number
        self.next_number += 1
        body = dumps({"type": event_type, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (event_type.encode(), body)

    def delta_writer(
        self,
        event_type: str,
        position: dict[str, Any],
        stored: TextBuffer,
        suffix: bytes = b"",
    ) -> Callable[[str], bytes]:
        """Return a fast serializer for one text's deltas.

        Args:
            event_type: Type of the deltas.
            position: Item id and indexes of the text.
            stored: Takes each text.
            suffix: JSON members that follow the text.
        """
        name = event_type.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        middle, tail = b"," + dumps(position)[1:-1] + b',"delta":', suffix + b"}\n\n"
        return numbered_delta_frames(head, middle, tail, stored, self)


class ItemHead(Struct):
    """Position, id and extra fields of a new item.

    Attributes:
        frames: Serializer of the item's events.
        output_index: Position in the output.
        id: Id of the item.
        extra: The other fields.
        stored: Counter of what the encoder stores.
    """

    frames: FrameWriter
    output_index: int
    id: str
    extra: dict[str, Any]
    stored: StoredBytes


class ItemWriter(ABC):
    """Encoder of one output item.

    Stored content is counted until the stream ends: the terminal event repeats the item.

    Attributes:
        done: The complete item as JSON; None before `stop`.
    """

    type = ""

    def __init__(self, head: ItemHead) -> None:
        self.output_index = head.output_index
        self.id = head.id
        self.done: bytes | None = None
        self.frames = head.frames
        self.stored = head.stored
        self._extra = head.extra

    @property
    def position(self) -> dict[str, Any]:
        """The fields that identify this item in its events."""
        return {"item_id": self.id, "output_index": self.output_index}

    def start(self) -> bytes:
        """Return the `added` event."""
        return self._write_added(self._fields("in_progress"))

    def stop(self) -> bytes:
        """Return the events that end the item."""
        return self._write_done(dumps(self._item(self._fields("completed"))))

    @abstractmethod
    def _fields(self, status: str) -> dict[str, Any]:
        """Return the item's fields, except id, type and extra fields."""

    def _write_added(self, fields: dict[str, Any]) -> bytes:
        event = {"output_index": self.output_index, "item": self._item(fields)}
        return self.frames.write(types.ITEM_ADDED, event)

    def _write_done(self, item: bytes) -> bytes:
        self.done = item
        event = {"output_index": self.output_index, "item": msgspec.Raw(item)}
        return self.frames.write(types.ITEM_DONE, event)

    def _item(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {**self._extra, "id": self.id, "type": self.type, **fields}


# Reasoning


class ReasoningWriter(ItemWriter):
    """Encoder of a reasoning item with summaries."""

    type = "reasoning"

    def __init__(self, head: ItemHead) -> None:
        super().__init__(head)
        self._summaries: list[TextBuffer] = []
        self._ended: dict[int, msgspec.Raw] = {}  # parts of the summaries that have ended
        self._reopened: dict[int, None] = {}  # summaries with deltas behind their end
        self._writers: dict[int, Callable[[str], bytes]] = {}
        self._last = 0  # summary of the last delta
        self._encrypted: str | None = None

    def write(self, text: str, part: int = 0) -> bytes:
        """Return a delta of a summary, preceded by the events that start a new summary."""
        started = b"" if part < len(self._summaries) else self._start_summaries(part)
        if part != len(self._summaries) - 1:
            self._reopened[part] = None
        self._last = part
        return started + self._writers[part](text)

    @property
    def delta_writer(self) -> Callable[[str], bytes]:
        """Serializer of further deltas for the summary whose delta was written last."""
        return self._writers[self._last]

    def sign(self, encrypted: str) -> None:
        """Set the `encrypted_content` of the complete item."""
        self.stored.release(text_bytes(self._encrypted or ""))
        self.stored.add(text_bytes(encrypted))
        self._encrypted = encrypted

    def stop(self) -> bytes:
        """Return the events that end the open summaries and the item."""
        open_summaries = (*self._reopened, len(self._summaries) - 1)
        return b"".join([self._end_summary(part) for part in open_summaries]) + super().stop()

    def _start_summaries(self, last: int) -> bytes:
        written: list[bytes] = []
        while len(self._summaries) <= last:
            part = len(self._summaries)
            written.append(self._end_summary(part - 1))
            position = {**self.position, types.SUMMARY_TEXT.index_key: part}
            if part:
                self.stored.add(PART_BYTES)
            self._summaries.append(TextBuffer(stored=self.stored))
            self._writers[part] = self.frames.delta_writer(
                types.SUMMARY_TEXT.delta, position, self._summaries[part]
            )
            empty = {**position, "part": _summary("")}
            written.append(self.frames.write(types.SUMMARY_TEXT.part_added, empty))
        return b"".join(written)

    def _end_summary(self, part: int) -> bytes:
        """Return the events that end a summary; b"" if `part` is negative."""
        if part < 0:
            return b""
        text = msgspec.Raw(self._summaries[part].json())
        self._ended[part] = summary = msgspec.Raw(dumps(_summary(text)))
        position = {**self.position, types.SUMMARY_TEXT.index_key: part}
        return self.frames.write(
            types.SUMMARY_TEXT.done, {**position, types.SUMMARY_TEXT.key: text}
        ) + self.frames.write(types.SUMMARY_TEXT.part_done, {**position, "part": summary})

    def _fields(self, status: str) -> dict[str, Any]:
        fields: dict[str, Any] = {types.SUMMARY_TEXT.field: [*self._ended.values()]}
        if self._encrypted is not None:
            fields["encrypted_content"] = self._encrypted
        return fields


def _summary(text: str | msgspec.Raw) -> dict[str, Any]:
    return {"type": types.SUMMARY_TEXT.part, types.SUMMARY_TEXT.key: text}


# Calls


class ToolCallWriter(ItemWriter):
    """Encoder of a client tool call's item.

    Attributes:
        write: Returns a delta of the arguments.
        is_unfinished: Whether the arguments have ended and are incomplete.
    """

    is_unfinished = False

    def __init__(self, head: ItemHead, call: ToolCall) -> None:
        super().__init__(head)
        self._call = call
        self._arguments = TextBuffer(stored=head.stored)
        self._whole: str | msgspec.Raw = ""  # the arguments, once they have ended
        self._is_function = call.kind != "custom"
        self.type = "function_call" if self._is_function else "custom_tool_call"
        (self._text,) = types.ITEM_TYPES[self.type].texts
        self.write = head.frames.delta_writer(self._text.delta, self.position, self._arguments)

    def stop(self) -> bytes:
        """Return the events that end the arguments and the item.

        Nothing if the call is unfinished: some clients execute it at its `done`, whatever
        the response says later.
        """
        rest = b""
        if self._is_function:
            if not self._arguments.size:  # clients parse the arguments as JSON
                rest = self.write("{}")
            self.is_unfinished = not is_json(self._arguments.text())
        if self.is_unfinished:
            return b""
        return rest + self._end("completed")

    def stop_unfinished(self, status: str) -> bytes:
        """Return the events that end an unfinished call's item at the end of the message.

        Nothing for free text, which stands in the terminal event alone: Codex executes it at
        its `done`, whatever the status, and cannot see that it is cut.

        Args:
            status: Status of the item.  In a complete response the arguments are the model's
                mistake, which the client answers; opencode reads no call that is incomplete, and
                ends its run as if the model had called nothing.
        """
        if not self._is_function:
            self._whole = self._arguments.text()
            self.done = dumps(self._item(self._fields("incomplete")))
            return b""
        return self._end(status)

    def _end(self, status: str) -> bytes:
        """Return the events that end the arguments and the item."""
        self._whole = msgspec.Raw(dumps(self._arguments.text()))
        done = self.frames.write(self._text.done, {**self.position, self._text.key: self._whole})
        return done + self._write_done(dumps(self._item(self._fields(status))))

    def _fields(self, status: str) -> dict[str, Any]:
        call: dict[str, Any] = {"call_id": self._call.id, "name": self._call.name}
        if self._call.namespace is not None:
            call["namespace"] = self._call.namespace
        return {"status": status, **call, self._text.key: self._whole}


class ServerCallWriter(ItemWriter):
    """Encoder of a server tool call's item.

    The `call_id` of some types, and the container of an interpreter, are known only when the
    call is complete; the `added` event of these types waits until then.

    Args:
        head: Position, id and extra fields of the item.
        call: The call, without its arguments.

    Attributes:
        is_added: Whether `start` writes the `added` event.
        held: Events of the item held until its `added` event.
    """

    def __init__(self, head: ItemHead, call: ServerToolCall) -> None:
        super().__init__(head)
        self.type = call.kind
        self._item_type = types.item_type_of(call.kind)
        self.is_added = self._item_type.initial_fields is not None
        self.held: list[Opaque] = []
        self._name = call.name
        self._arguments = TextBuffer(stored=head.stored)
        self._held_bytes = 0

    def hold(self, event: Opaque) -> None:
        """Hold an event until the item's `added` event is written."""
        size = OBJECT_BYTES + text_bytes(event.name) + text_bytes(event.data)
        self.stored.add(size)
        self._held_bytes += size
        self.held.append(event)

    def start(self) -> bytes:
        """Return the `added` event; b"" if the event waits for the complete call."""
        return super().start() if self.is_added else b""

    def write(self, text: str) -> bytes:
        """Buffer a fragment of the arguments, which become fields of the item."""
        self._arguments.append(text)
        return b""

    def write_late_added(self) -> bytes:
        """Return the `added` event that `start` has held back; b"" if it was written."""
        if self.is_added:
            return b""
        # The held events of a custom call are the deltas of its input.
        empty = {"input": ""} if self.type == "custom_tool_call" else {}
        status = self._status("in_progress")
        return self._write_added({**self._argument_fields(), **empty, **status})

    def stop(self) -> bytes:
        """Return the `done` event."""
        fields = self._argument_fields()
        if self.is_added and fields.get("call_id") == "":
            del fields["call_id"]  # xAI adds it to complete searches
        self.stored.release(self._held_bytes)
        return self._write_done(dumps(self._item({**self._status("completed"), **fields})))

    def _fields(self, status: str) -> dict[str, Any]:
        # Most types have only one tool, whose name is no field.
        name = {"name": self._name} if self._name != self.type else {}
        return {**self._status(status), **name, **(self._item_type.initial_fields or {})}

    def _status(self, status: str) -> dict[str, Any]:
        return {"status": status} if self._item_type.has_status else {}

    def _argument_fields(self) -> dict[str, Any]:
        """Return the item's fields that the arguments contain."""
        text = self._arguments.text()
        try:
            value = msgspec.json.decode(text or "{}")
        except FAST_ERRORS:
            value = None
        if not is_object(value):
            return {"arguments": text}
        return {key: item for key, item in value.items() if key not in ("id", "type")}


class WholeItemWriter:
    """Encoder of an item that is complete at its start.

    Args:
        frames: Serializer of its events.
        output_index: The position in the output.
        item: The item as JSON.
    """

    def __init__(self, frames: FrameWriter, output_index: int, item: bytes) -> None:
        self.output_index = output_index
        self.item = item
        self._frames = frames

    @property
    def position(self) -> dict[str, Any]:
        """The field that identifies this item in its events."""
        return {"output_index": self.output_index}

    def start(self) -> bytes:
        """Return the `added` event."""
        return self._write(types.ITEM_ADDED)

    def stop(self) -> bytes:
        """Return the `done` event."""
        return self._write(types.ITEM_DONE)

    def _write(self, event_type: str) -> bytes:
        return self._frames.write(event_type, {**self.position, "item": msgspec.Raw(self.item)})


class MessageWriter(ItemWriter):
    """Encoder of a message item.

    Attributes:
        accepts_parts: Whether the next block may be a part of this message.
    """

    type = "message"

    def __init__(self, head: ItemHead) -> None:
        super().__init__(head)
        self.accepts_parts = False
        self._parts: list[msgspec.Raw | None] = []  # None for those that are open

    def part(self, part_type: types.TextType, extra: dict[str, Any]) -> PartWriter:
        """Return an encoder for the next part."""
        return PartWriter(self, self._next_position(), part_type, extra)

    def write_whole(self, part: bytes) -> bytes:
        """Return the events of a complete part, and of the message's end if no part can follow."""
        position = self._next_position()
        fields = {**position, "part": msgspec.Raw(part)}
        return (
            self.frames.write(types.OUTPUT_TEXT.part_added, fields)
            + self.frames.write(types.OUTPUT_TEXT.part_done, fields)
            + self.store_part(position[types.OUTPUT_TEXT.index_key], part)
        )

    def store_part(self, content_index: int, part: bytes) -> bytes:
        """Store a complete part; return the events that end the message if no part can follow."""
        self._parts[content_index] = msgspec.Raw(part)
        return b"" if self.accepts_parts else self.release()

    def release(self) -> bytes:
        """Accept no further parts; return the events that end the message if no part is open."""
        self.accepts_parts = False
        return self.stop() if None not in self._parts else b""

    def _next_position(self) -> dict[str, Any]:
        self._parts.append(None)
        return {**self.position, types.OUTPUT_TEXT.index_key: len(self._parts) - 1}

    def _fields(self, status: str) -> dict[str, Any]:
        return {"status": status, "role": "assistant", types.OUTPUT_TEXT.field: self._parts}


class PartWriter:
    """Encoder of one content part: text or a refusal.

    Args:
        message: The message.
        position: Item id and indexes of the part.
        part_type: The type.
        extra: The other fields.

    Attributes:
        write: Returns a delta.
    """

    def __init__(
        self,
        message: MessageWriter,
        position: dict[str, Any],
        part_type: types.TextType,
        extra: dict[str, Any],
    ) -> None:
        self.message = message
        self.position = position
        self._frames = message.frames
        self._type = part_type
        self._extra = extra
        self._stored = message.stored
        self._text = TextBuffer(stored=message.stored)
        self._annotations: list[dict[str, Any]] = []
        self._held_citations: list[Citation] = []
        self._logprobs: list[Any] = []
        suffix = b',"logprobs":[]' if part_type is types.OUTPUT_TEXT else b""
        self.write = self._frames.delta_writer(part_type.delta, position, self._text, suffix)

    def start(self) -> bytes:
        """Return the `added` event."""
        empty = {**self.position, "part": self._part("", self._annotations)}
        return self._frames.write(self._type.part_added, empty)

    def cite(self, citation: Citation) -> bytes:
        """Return the event of an annotation; b"" while its end offset is unknown."""
        self._stored.add(OBJECT_BYTES + len(dumps(citation)))
        # A citation of the whole text ends where the text does; later ones wait behind it.
        needs_end = citation.end is None and citation.kind == "url_citation"
        if not needs_end and not self._held_citations:
            return self._annotation(citation)
        self._held_citations.append(citation)
        return b""

    def write_logprobs(self, logprobs: list[Any]) -> bytes:
        """Return an empty delta with log probabilities, which the complete part repeats.

        Args:
            logprobs: Log probabilities of text already written.
        """
        self._stored.add(value_bytes(logprobs))
        self._logprobs += logprobs
        fields = {**self.position, "delta": "", "logprobs": logprobs}
        return self._frames.write(self._type.delta, fields)

    def stop(self) -> bytes:
        """Return the events that end the part, and the message item if this part is the last."""
        annotations = b"".join([self._annotation(citation) for citation in self._held_citations])
        text, position = msgspec.Raw(self._text.json()), self.position
        self._text = TextBuffer()
        logprobs = {"logprobs": self._logprobs} if self._type is types.OUTPUT_TEXT else {}
        part = dumps(self._part(text, self._annotations))
        text_done = {**position, self._type.key: text, **logprobs}
        part_done = {**position, "part": msgspec.Raw(part)}
        return b"".join(
            [
                annotations,
                self._frames.write(self._type.done, text_done),
                self._frames.write(self._type.part_done, part_done),
                self.message.store_part(position[self._type.index_key], part),
            ]
        )

    def _part(self, text: str | msgspec.Raw, annotations: list[dict[str, Any]]) -> dict[str, Any]:
        part = {**self._extra, "type": self._type.part, self._type.key: text}
        if self._type is types.REFUSAL:
            return part
        return {**part, "annotations": annotations, "logprobs": self._logprobs}

    def _annotation(self, citation: Citation) -> bytes:
        annotation = citation_to_wire(citation, self._text.size)
        self._annotations.append(annotation)
        index = {"annotation_index": len(self._annotations) - 1}
        fields = {**self.position, **index, "annotation": annotation}
        return self._frames.write(types.ANNOTATION_ADDED, fields)
