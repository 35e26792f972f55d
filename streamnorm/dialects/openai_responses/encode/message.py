"""Writers of messages and their content parts, which are text or refusals."""

from __future__ import annotations

from typing import Any

import msgspec

from streamnorm._core.blocks import Citation
from streamnorm._core.json import dumps
from streamnorm._core.limits import OBJECT_BYTES, value_bytes
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.openai_responses.citations import citation_to_wire
from streamnorm.dialects.openai_responses.encode.items import ItemHead, ItemWriter

__all__ = ["MessageWriter", "PartWriter"]


class MessageWriter(ItemWriter):
    """Writer of a message.

    Attributes:
        accepts_parts: Whether the next block may be a part of this message.
    """

    type = "message"

    def __init__(self, head: ItemHead) -> None:
        super().__init__(head)
        self.accepts_parts = False
        self._parts: list[msgspec.Raw | None] = []  # None for those that are open

    def part(self, part_type: str, extra: dict[str, Any]) -> PartWriter:
        """Return the writer of the next part."""
        return PartWriter(self, self._next_position(), part_type, extra)

    def write_whole(self, part: bytes) -> bytes:
        """Return the events of a complete part, and of the end of the message if it ends here."""
        position = self._next_position()
        fields = {**position, "part": msgspec.Raw(part)}
        return (
            self.frames.write("response.content_part.added", fields)
            + self.frames.write("response.content_part.done", fields)
            + self.store_part(position["content_index"], part)
        )

    def store_part(self, content_index: int, part: bytes) -> bytes:
        """Store a complete part; return the end of the message if it ends here."""
        self._parts[content_index] = msgspec.Raw(part)
        return b"" if self.accepts_parts else self.release()

    def release(self) -> bytes:
        """Accept no more parts; return the end of the message if none is open."""
        self.accepts_parts = False
        return self.stop() if None not in self._parts else b""

    def _next_position(self) -> dict[str, Any]:
        self._parts.append(None)
        return {**self.position, "content_index": len(self._parts) - 1}

    def _fields(self, status: str) -> dict[str, Any]:
        return {"status": status, "role": "assistant", "content": self._parts}


class PartWriter:
    """Writer of one content part: text or a refusal.

    Args:
        message: Its message.
        position: Item id and indexes of the part.
        part_type: Its type.
        extra: Its other fields.

    Attributes:
        write: Returns a delta.
    """

    def __init__(
        self,
        message: MessageWriter,
        position: dict[str, Any],
        part_type: str,
        extra: dict[str, Any],
    ) -> None:
        self.message = message
        self.position = position
        self._frames = message.frames
        self._type = part_type
        self._text_key = "text" if part_type == "output_text" else "refusal"
        self._extra = extra
        self._stored = message.stored
        self._text = TextBuffer(stored=message.stored)
        self._annotations: list[dict[str, Any]] = []
        self._held_citations: list[Citation] = []
        self._logprobs: list[Any] = []
        suffix = b',"logprobs":[]' if part_type == "output_text" else b""
        self.write = self._frames.delta_writer(
            f"response.{part_type}.delta", position, self._text.append, suffix
        )

    def start(self) -> bytes:
        """Return the `added` event."""
        empty = {**self.position, "part": self._part("", self._annotations)}
        return self._frames.write("response.content_part.added", empty)

    def cite(self, citation: Citation) -> bytes:
        """Return the event of an annotation; nothing if its end offset is not known yet."""
        self._stored.add(OBJECT_BYTES + len(dumps(citation)))
        # A citation of the whole text ends where the text does; later ones wait behind it.
        needs_end = citation.end is None and citation.kind == "url_citation"
        if not needs_end and not self._held_citations:
            return self._annotation(citation)
        self._held_citations.append(citation)
        return b""

    def write_logprobs(self, logprobs: list[Any]) -> bytes:
        """Return log probabilities in a delta without text; the complete part repeats them.

        Args:
            logprobs: Those of text that was written.
        """
        self._stored.add(value_bytes(logprobs))
        self._logprobs += logprobs
        fields = {**self.position, "delta": "", "logprobs": logprobs}
        return self._frames.write("response.output_text.delta", fields)

    def stop(self) -> bytes:
        """Return the events that end the part, and its message if that ends here."""
        annotations = b"".join([self._annotation(citation) for citation in self._held_citations])
        text, position = self._text.text(), self.position
        self._text = TextBuffer()
        logprobs = {"logprobs": self._logprobs} if self._type == "output_text" else {}
        part = dumps(self._part(text, self._annotations))
        text_done = {**position, self._text_key: text, **logprobs}
        part_done = {**position, "part": msgspec.Raw(part)}
        return b"".join(
            [
                annotations,
                self._frames.write(f"response.{self._type}.done", text_done),
                self._frames.write("response.content_part.done", part_done),
                self.message.store_part(position["content_index"], part),
            ]
        )

    def _part(self, text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
        if self._type == "refusal":
            return {**self._extra, "type": "refusal", "refusal": text}
        return {
            **self._extra,
            "type": "output_text",
            "text": text,
            "annotations": annotations,
            "logprobs": self._logprobs,
        }

    def _annotation(self, citation: Citation) -> bytes:
        annotation = citation_to_wire(citation, self._text.size)
        self._annotations.append(annotation)
        index = {"annotation_index": len(self._annotations) - 1}
        fields = {**self.position, **index, "annotation": annotation}
        return self._frames.write("response.output_text.annotation.added", fields)
