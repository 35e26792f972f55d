"""Writers of output items: `added`, deltas and `done`.

Each item keeps one position in the output and one id from its first event to its last; the
SDKs fail where either changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import ServerToolCall, ToolCall
from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, dumps, is_json, is_object
from streamnorm._core.limits import OBJECT_BYTES, PART_BYTES, StoredBytes, text_bytes
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.openai_responses.encode.frame_writer import FrameWriter

__all__ = [
    "ItemHead",
    "ItemWriter",
    "ReasoningWriter",
    "ServerCallWriter",
    "ToolCallWriter",
    "WholeItemWriter",
]


class ItemHead(Struct):
    """Position, id and extra fields of a new item.

    Attributes:
        frames: Serializer of the item's events.
        output_index: Position in the output.
        id: Id of the item.
        extra: Its other fields.
        stored: Counter of what the encoder stores.
    """

    frames: FrameWriter
    output_index: int
    id: str
    extra: dict[str, Any]
    stored: StoredBytes


class ItemWriter(ABC):
    """Writer of one output item.

    What it stores counts as it arrives, and as long as the stream lasts: the terminal event
    repeats the item.

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
        """The fields by which an event names this item."""
        return {"item_id": self.id, "output_index": self.output_index}

    def start(self) -> bytes:
        """Return the `added` event."""
        return self._write_added(self._fields("in_progress"))

    def stop(self) -> bytes:
        """Return the events that end the item."""
        return self._write_done(dumps(self._item(self._fields("completed"))))

    @abstractmethod
    def _fields(self, status: str) -> dict[str, Any]:
        """Return the fields of the item beside id, type and extra fields."""

    def _write_added(self, fields: dict[str, Any]) -> bytes:
        event = {"output_index": self.output_index, "item": self._item(fields)}
        return self.frames.write("response.output_item.added", event)

    def _write_done(self, item: bytes) -> bytes:
        self.done = item
        event = {"output_index": self.output_index, "item": msgspec.Raw(item)}
        return self.frames.write("response.output_item.done", event)

    def _item(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {**self._extra, "id": self.id, "type": self.type, **fields}


# Reasoning


class ReasoningWriter(ItemWriter):
    """Writer of a reasoning item, as summaries: every client shows those."""

    type = "reasoning"

    def __init__(self, head: ItemHead) -> None:
        super().__init__(head)
        self._summaries: list[TextBuffer] = []
        self._reopened: dict[int, None] = {}  # summaries with deltas behind their end
        self._writers: dict[int, Callable[[str], bytes]] = {}
        self._last = 0  # summary of the last delta
        self._encrypted: str | None = None

    def write(self, text: str, part: int = 0) -> bytes:
        """Return a delta of a summary, behind the starts of summaries up to it."""
        started = b"" if part < len(self._summaries) else self._start_summaries(part)
        if part != len(self._summaries) - 1:
            self._reopened[part] = None
        self._last = part
        return started + self._writers[part](text)

    @property
    def delta_writer(self) -> Callable[[str], bytes]:
        """The serializer for further deltas of the summary of the last delta."""
        return self._writers[self._last]

    def sign(self, encrypted: str) -> None:
        """Set `encrypted_content`, which is written with the complete item."""
        self.stored.release(text_bytes(self._encrypted or ""))
        self.stored.add(text_bytes(encrypted))
        self._encrypted = encrypted

    def stop(self) -> bytes:
        """Return the events that end the item and its open summaries."""
        open_summaries = (*self._reopened, len(self._summaries) - 1)
        return b"".join([self._end_summary(part) for part in open_summaries]) + super().stop()

    def _start_summaries(self, last: int) -> bytes:
        written: list[bytes] = []
        while len(self._summaries) <= last:
            part = len(self._summaries)
            written.append(self._end_summary(part - 1))
            position = {**self.position, "summary_index": part}
            if part:
                self.stored.add(PART_BYTES)
            self._summaries.append(TextBuffer(stored=self.stored))
            self._writers[part] = self.frames.delta_writer(
                "response.reasoning_summary_text.delta", position, self._summaries[part].append
            )
            empty = {**position, "part": _summary("")}
            written.append(self.frames.write("response.reasoning_summary_part.added", empty))
        return b"".join(written)

    def _end_summary(self, part: int) -> bytes:
        """Return the events that end a summary; nothing if `part` is negative."""
        if part < 0:
            return b""
        text, position = self._summaries[part].text(), {**self.position, "summary_index": part}
        text_done, part_done = {**position, "text": text}, {**position, "part": _summary(text)}
        return self.frames.write(
            "response.reasoning_summary_text.done", text_done
        ) + self.frames.write("response.reasoning_summary_part.done", part_done)

    def _fields(self, status: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"summary": [_summary(s.text()) for s in self._summaries]}
        if self._encrypted is not None:
            fields["encrypted_content"] = self._encrypted
        return fields


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


# Calls


class ToolCallWriter(ItemWriter):
    """Writer of a call of one of the client's tools.

    Attributes:
        write: Returns a delta of the arguments.
        is_unfinished: Whether the arguments have ended and are no whole JSON value, or no
            whole text.
    """

    is_unfinished = False

    def __init__(self, head: ItemHead, call: ToolCall) -> None:
        super().__init__(head)
        self._call = call
        self._arguments = TextBuffer(stored=head.stored)
        is_custom = call.kind == "custom"
        self.type = "custom_tool_call" if is_custom else "function_call"
        self._arguments_key = "input" if is_custom else "arguments"
        self._event_prefix = f"response.{self.type}_{self._arguments_key}"
        self.write = head.frames.delta_writer(
            f"{self._event_prefix}.delta", self.position, self._arguments.append
        )

    def stop(self) -> bytes:
        """Return the events that end the item and its arguments.

        Nothing if the call is unfinished: some clients execute it at its `done`, whatever
        the response says later.
        """
        rest = b""
        if self._arguments_key == "arguments":
            if not self._arguments.size:  # clients parse the arguments as JSON
                rest = self.write("{}")
            self.is_unfinished = not is_json(self._arguments.text() or "{}")
        if self.is_unfinished:
            return b""
        return rest + self._arguments_done() + super().stop()

    def stop_unfinished(self) -> bytes:
        """Return the events that end an unfinished item, at the end of the message.

        Nothing for free text, which stands in the terminal event alone: Codex executes it at
        its `done`, whatever the status, and cannot see that it is cut.
        """
        item = dumps(self._item(self._fields("incomplete")))
        if self._arguments_key == "input":
            self.done = item
            return b""
        return self._arguments_done() + self._write_done(item)

    def _arguments_done(self) -> bytes:
        done = {**self.position, self._arguments_key: self._arguments.text()}
        return self.frames.write(f"{self._event_prefix}.done", done)

    def _fields(self, status: str) -> dict[str, Any]:
        call = {"call_id": self._call.id, "name": self._call.name}
        if self._call.namespace is not None:
            call["namespace"] = self._call.namespace
        return {"status": status, **call, self._arguments_key: self._arguments.text()}


class ServerCallWriter(ItemWriter):
    """Writer of a call that the server executed.

    The `call_id` of some types, and the container of an interpreter, are known only when the
    call is complete; the `added` event of these types waits until then.

    Args:
        call: The call, without its arguments.

    Attributes:
        is_added: Whether `start` writes the `added` event.
        held: Events of the item that wait for its `added` event.
    """

    def __init__(self, head: ItemHead, call: ServerToolCall) -> None:
        super().__init__(head)
        self.type = call.kind
        self.is_added = call.kind in _KNOWN_AT_START
        self.held: list[Opaque] = []
        self._name = call.name
        self._arguments = TextBuffer(stored=head.stored)
        self._held_bytes = 0

    def hold(self, event: Opaque) -> None:
        """Hold an event of the item until its `added` event is written."""
        size = OBJECT_BYTES + text_bytes(event.name) + text_bytes(event.data)
        self.stored.add(size)
        self._held_bytes += size
        self.held.append(event)

    def start(self) -> bytes:
        """Return the `added` event; nothing if it must wait."""
        return super().start() if self.is_added else b""

    def write(self, text: str) -> bytes:
        """Buffer a fragment of the arguments, which hold the fields of the item."""
        self._arguments.append(text)
        return b""

    def write_late_added(self) -> bytes:
        """Return the `added` event that `start` left out; nothing if it did not."""
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
        return {**self._status(status), **name, **_KNOWN_AT_START[self.type]}

    def _status(self, status: str) -> dict[str, Any]:
        return {} if self.type in _WITHOUT_STATUS else {"status": status}

    def _argument_fields(self) -> dict[str, Any]:
        """Return the fields of the item that the arguments hold."""
        text = self._arguments.text()
        try:
            value = msgspec.json.decode(text or "{}")
        except FAST_ERRORS:
            value = None
        if not is_object(value):
            return {"arguments": text}
        return {key: item for key, item in value.items() if key not in ("id", "type")}


# Types whose `added` event needs nothing else, with their required fields, empty.
_KNOWN_AT_START: dict[str, dict[str, Any]] = {
    "web_search_call": {},
    "file_search_call": {"queries": []},
    "image_generation_call": {},
    "compaction": {},
    "mcp_call": {"server_label": "", "arguments": ""},
    "mcp_list_tools": {"server_label": "", "tools": []},
    "mcp_approval_request": {"server_label": "", "arguments": ""},
}


# `ResponseOutputItem` of openai 3.54 has types without the field, and strict clients refuse it.
_WITHOUT_STATUS = frozenset(
    {"compaction", "mcp_approval_request", "mcp_approval_response", "mcp_list_tools", "program"}
)


class WholeItemWriter:
    """Writer of an item that is complete at its start.

    Args:
        frames: Serializer of its events.
        output_index: Its position in the output.
        item: The item as JSON.
    """

    def __init__(self, frames: FrameWriter, output_index: int, item: bytes) -> None:
        self.output_index = output_index
        self.item = item
        self._frames = frames

    @property
    def position(self) -> dict[str, Any]:
        """The field by which an event names this item, whose id is unchanged."""
        return {"output_index": self.output_index}

    def start(self) -> bytes:
        """Return the `added` event."""
        return self._write("response.output_item.added")

    def stop(self) -> bytes:
        """Return the `done` event."""
        return self._write("response.output_item.done")

    def _write(self, event_type: str) -> bytes:
        return self._frames.write(event_type, {**self.position, "item": msgspec.Raw(self.item)})
