"""Output items as they are written: added, filled and done.

Each has one place in the output and one id from its first event to its last; the SDKs
fail where either changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec

from streamnorm._core.blocks import ServerToolCall, ToolCall
from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, is_object
from streamnorm._core.text_buffer import TextBuffer
from streamnorm.dialects.openai_responses.encode.frame_writer import Frames, dumps

__all__ = ["Call", "Item", "Reasoning", "ServerCall", "WholeItem"]


class Item(ABC):
    """One output item.

    Args:
        frames: What writes its events.
        number: Its place in the output.
        id: Its id.
        extra: Its other fields.

    Attributes:
        done: The whole of it as JSON, once it is done.
    """

    type = ""

    def __init__(self, frames: Frames, number: int, id: str, extra: dict[str, Any]) -> None:
        self.number = number
        self.id = id
        self.done: bytes | None = None
        self._frames = frames
        self._extra = extra

    @property
    def place(self) -> dict[str, Any]:
        """What tells in an event that it belongs to this item."""
        return {"item_id": self.id, "output_index": self.number}

    def start(self) -> bytes:
        """Return the item's first event."""
        return self._add(self._fields("in_progress"))

    def stop(self) -> bytes:
        """Return what ends the item."""
        return self._finish(dumps(self._item(self._fields("completed"))))

    @abstractmethod
    def _fields(self, status: str) -> dict[str, Any]:
        """Return what the item holds beside its id and type."""

    def _add(self, fields: dict[str, Any]) -> bytes:
        place = {"output_index": self.number, "item": self._item(fields)}
        return self._frames.write("response.output_item.added", place)

    def _finish(self, item: bytes) -> bytes:
        self.done = item
        place = {"output_index": self.number, "item": msgspec.Raw(item)}
        return self._frames.write("response.output_item.done", place)

    def _item(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {**self._extra, "id": self.id, "type": self.type, **fields}


# Reasoning


class Reasoning(Item):
    """Reasoning, as summaries: every client shows those."""

    type = "reasoning"

    def __init__(self, frames: Frames, number: int, id: str, extra: dict[str, Any]) -> None:
        super().__init__(frames, number, id, extra)
        self._summaries: list[TextBuffer] = []
        self._late: dict[int, None] = {}  # those that went on behind their end
        self._deltas: dict[int, Callable[[str], bytes]] = {}
        self._last = 0  # the one that was written last
        self._encrypted: str | None = None

    def write(self, text: str, part: int = 0) -> bytes:
        """Return a delta of a summary, behind the starts of those that were not told."""
        begun = b"" if part < len(self._summaries) else self._begin(part)
        if part != len(self._summaries) - 1:
            self._late[part] = None
        self._last = part
        return begun + self._deltas[part](text)

    @property
    def more(self) -> Callable[[str], bytes]:
        """What writes more of the summary that was written last."""
        return self._deltas[self._last]

    def sign(self, encrypted: str) -> None:
        """Take what only its issuer can read; it is told when the item is done."""
        self._encrypted = encrypted

    def stop(self) -> bytes:
        """Return what ends the item, and the summaries that are open."""
        ends = [self._end(number) for number in (*self._late, len(self._summaries) - 1)]
        return b"".join(ends) + super().stop()

    def _begin(self, part: int) -> bytes:
        written: list[bytes] = []
        while len(self._summaries) <= part:
            number = len(self._summaries)
            written.append(self._end(number - 1))
            place = {**self.place, "summary_index": number}
            self._summaries.append(TextBuffer())
            self._deltas[number] = self._frames.deltas(
                "response.reasoning_summary_text.delta", place, self._summaries[number].append
            )
            empty = {**place, "part": _summary("")}
            written.append(self._frames.write("response.reasoning_summary_part.added", empty))
        return b"".join(written)

    def _end(self, number: int) -> bytes:
        """Return what ends a summary, if there is one of that number."""
        if number < 0:
            return b""
        text, place = self._summaries[number].text(), {**self.place, "summary_index": number}
        done, part = {**place, "text": text}, {**place, "part": _summary(text)}
        return self._frames.write(
            "response.reasoning_summary_text.done", done
        ) + self._frames.write("response.reasoning_summary_part.done", part)

    def _fields(self, status: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"summary": [_summary(s.text()) for s in self._summaries]}
        if self._encrypted is not None:
            fields["encrypted_content"] = self._encrypted
        return fields


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


# Calls


class Call(Item):
    """A call of one of the client's tools.

    Attributes:
        write: Return a delta of the arguments.
    """

    def __init__(
        self, frames: Frames, number: int, id: str, extra: dict[str, Any], call: ToolCall
    ) -> None:
        super().__init__(frames, number, id, extra)
        self._call = call
        self._text = TextBuffer()
        custom = call.kind == "custom"
        self.type = "custom_tool_call" if custom else "function_call"
        self._field = "input" if custom else "arguments"
        self._events = f"response.{self.type}_{self._field}"
        self.write = frames.deltas(f"{self._events}.delta", self.place, self._text.append)

    def stop(self) -> bytes:
        """Return what ends the item, and its arguments."""
        # Clients parse what they were sent, and no text is no JSON.
        rest = self.write("{}") if self._field == "arguments" and not self._text.size else b""
        done = {**self.place, self._field: self._text.text()}
        return rest + self._frames.write(f"{self._events}.done", done) + super().stop()

    def _fields(self, status: str) -> dict[str, Any]:
        call = {"call_id": self._call.id, "name": self._call.name}
        return {"status": status, **call, self._field: self._text.text()}


class ServerCall(Item):
    """A call that the provider executed.

    Its `call_id` is a part of its identity, and is known when it is complete, as the container
    of an interpreter is; of those that have one, nothing is told before.

    Args:
        call: The call, without what it was called with.

    Attributes:
        told: Whether its first event is written at its start.
        waiting: Events that belong to it, and must come behind its first.
    """

    def __init__(
        self, frames: Frames, number: int, id: str, extra: dict[str, Any], call: ServerToolCall
    ) -> None:
        super().__init__(frames, number, id, extra)
        self.type = call.kind
        self.told = call.kind in _KNOWN_AT_START
        self.waiting: list[Opaque] = []
        self._name = call.name
        self._text = TextBuffer()

    def start(self) -> bytes:
        """Return the item's first event, if all that it needs is known."""
        return super().start() if self.told else b""

    def write(self, text: str) -> bytes:
        """Take a piece of the item."""
        self._text.append(text)
        return b""

    def reveal(self) -> bytes:
        """Return the item's first event, if it had to wait."""
        if self.told:
            return b""
        # The input of a custom call is what the events that waited add up to.
        empty = {"input": ""} if self.type == "custom_tool_call" else {}
        return self._add({**self._held(), **empty, "status": "in_progress"})

    def stop(self) -> bytes:
        """Return what ends the item."""
        held = self._held()
        if self.told and held.get("call_id") == "":
            del held["call_id"]  # which xAI adds to its searches when they are done
        return self._finish(dumps(self._item({"status": "completed", **held})))

    def _fields(self, status: str) -> dict[str, Any]:
        # Most have but one tool, and no name for it.
        named = {"name": self._name} if self._name != self.type else {}
        return {"status": status, **named, **_KNOWN_AT_START[self.type]}

    def _held(self) -> dict[str, Any]:
        """Return what the item holds beside its id and type."""
        text = self._text.text()
        try:
            value = msgspec.json.decode(text or "{}")
        except FAST_ERRORS:
            value = None
        if not is_object(value):
            return {"arguments": text}
        return {key: item for key, item in value.items() if key not in ("id", "type")}


# With the fields that their types require, empty.
_KNOWN_AT_START: dict[str, dict[str, Any]] = {
    "web_search_call": {},
    "file_search_call": {"queries": []},
    "image_generation_call": {},
    "compaction": {},
    "mcp_call": {"server_label": "", "arguments": ""},
    "mcp_list_tools": {"server_label": "", "tools": []},
    "mcp_approval_request": {"server_label": "", "arguments": ""},
}


class WholeItem:
    """An item that comes whole; what belongs to it stands between its two events.

    Args:
        frames: What writes its events.
        number: Its place in the output.
        item: The whole of it as JSON.
    """

    def __init__(self, frames: Frames, number: int, item: bytes) -> None:
        self.number = number
        self.item = item
        self._frames = frames

    @property
    def place(self) -> dict[str, Any]:
        """What tells in an event that it belongs to this item; its id is the one it came with."""
        return {"output_index": self.number}

    def start(self) -> bytes:
        """Return the item's first event."""
        return self._tell("response.output_item.added")

    def stop(self) -> bytes:
        """Return what ends the item."""
        return self._tell("response.output_item.done")

    def _tell(self, name: str) -> bytes:
        return self._frames.write(name, {**self.place, "item": msgspec.Raw(self.item)})
