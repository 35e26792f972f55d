"""Messages as they are written: their parts, which are text or refusals."""

from __future__ import annotations

from typing import Any

import msgspec

from streamnorm._core.blocks import Citation
from streamnorm._core.text_buffer import TextBuffer
from streamnorm.dialects.openai_responses.encode.frame_writer import Frames, dumps
from streamnorm.dialects.openai_responses.encode.items import Item

__all__ = ["Message", "Part"]


class Message(Item):
    """A message: the parts of it that are written, and whether more may come.

    Attributes:
        shared: Whether the block that comes next may be a part of it.
    """

    type = "message"

    def __init__(self, frames: Frames, number: int, id: str, extra: dict[str, Any]) -> None:
        super().__init__(frames, number, id, extra)
        self.shared = False
        self._parts: list[msgspec.Raw | None] = []

    def part(self, kind: str, field: str, extra: dict[str, Any]) -> Part:
        """Return the next part, which has not started."""
        return Part(self._frames, self, self._next_place(), kind, field, extra)

    def whole(self, part: bytes) -> bytes:
        """Return the events of a part that comes whole, and what ends the item if that does."""
        place = self._next_place()
        fields = {**place, "part": msgspec.Raw(part)}
        return (
            self._frames.write("response.content_part.added", fields)
            + self._frames.write("response.content_part.done", fields)
            + self.take(place["content_index"], part)
        )

    def take(self, number: int, part: bytes) -> bytes:
        """Take a part that is complete, and return what ends the item if that does."""
        self._parts[number] = msgspec.Raw(part)
        return b"" if self.shared else self.release()

    def release(self) -> bytes:
        """Return what ends the item, if no part of it is open: no other will come."""
        self.shared = False
        return self.stop() if None not in self._parts else b""

    def _next_place(self) -> dict[str, Any]:
        self._parts.append(None)
        return {**self.place, "content_index": len(self._parts) - 1}

    def _fields(self, status: str) -> dict[str, Any]:
        return {"status": status, "role": "assistant", "content": self._parts}


class Part:
    """One part of a message: text or a refusal.

    Args:
        frames: What writes its events.
        message: What it is a part of.
        place: What tells in an event that it belongs to this part.
        kind: Its type.
        field: The field of its text.
        extra: Its other fields.

    Attributes:
        write: Return a delta.
    """

    def __init__(
        self,
        frames: Frames,
        message: Message,
        place: dict[str, Any],
        kind: str,
        field: str,
        extra: dict[str, Any],
    ) -> None:
        self.message = message
        self.place = place
        self._frames = frames
        self._kind = kind
        self._field = field
        self._extra = extra
        self._text = TextBuffer()
        self._sources: list[dict[str, Any]] = []
        self._waiting: list[Citation] = []
        self._logprobs: list[Any] = []
        rest = b',"logprobs":[]' if kind == "output_text" else b""
        self.write = frames.deltas(f"response.{kind}.delta", place, self._text.append, rest)

    def start(self) -> bytes:
        """Return the part's first event."""
        empty = {**self.place, "part": self._part("", self._sources)}
        return self._frames.write("response.content_part.added", empty)

    def cite(self, citation: Citation) -> bytes:
        """Take a source of the text, and return it if its place is known."""
        # One of the whole text ends where the text does, and the others stay behind it.
        endless = citation.end is None and citation.kind == "url_citation"
        if not endless and not self._waiting:
            return self._annotation(citation)
        self._waiting.append(citation)
        return b""

    def tell(self, logprobs: list[Any], *, keep: bool) -> bytes:
        """Return tokens of text that was written, in a delta without text.

        Args:
            logprobs: The tokens.
            keep: Whether the whole part is to tell of them again.
        """
        self._logprobs += logprobs if keep else ()
        fields = {**self.place, "delta": "", "logprobs": logprobs}
        return self._frames.write("response.output_text.delta", fields)

    def stop(self) -> bytes:
        """Return what ends the part, and its message if that does."""
        sources = b"".join([self._annotation(citation) for citation in self._waiting])
        text, place = self._text.text(), self.place
        self._text = TextBuffer()
        told = {"logprobs": self._logprobs} if self._kind == "output_text" else {}
        part = dumps(self._part(text, self._sources))
        done = {**place, self._field: text, **told}
        return b"".join(
            [
                sources,
                self._frames.write(f"response.{self._kind}.done", done),
                self._frames.write(
                    "response.content_part.done", {**place, "part": msgspec.Raw(part)}
                ),
                self.message.take(place["content_index"], part),
            ]
        )

    def _part(self, text: str, sources: list[dict[str, Any]]) -> dict[str, Any]:
        if self._kind == "refusal":
            return {**self._extra, "type": "refusal", "refusal": text}
        return {
            **self._extra,
            "type": "output_text",
            "text": text,
            "annotations": sources,
            "logprobs": self._logprobs,
        }

    def _annotation(self, citation: Citation) -> bytes:
        source = _source(citation, self._text.size)
        self._sources.append(source)
        fields = {"annotation_index": len(self._sources) - 1, "annotation": source}
        return self._frames.write("response.output_text.annotation.added", {**self.place, **fields})


def _source(citation: Citation, length: int) -> dict[str, Any]:
    """Return a citation of a text so long."""
    told: dict[str, Any] = {**(citation.extra or {}), "type": citation.kind}
    start, end, url, title = citation.start, citation.end, citation.url, citation.title
    if citation.kind == "url_citation":  # whose fields are all required
        start, end = start or 0, length if end is None else end
        url, title = url or "", title or ""
    fields = {"start_index": start, "end_index": end, "url": url, "title": title}
    told |= {key: value for key, value in fields.items() if value is not None}
    if citation.cited_text is not None:  # as OpenRouter tells it
        told["content"] = citation.cited_text
    return told
