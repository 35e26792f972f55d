"""Steps of the model's answer: text with citations, and files.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  A block starts with its first
content, so that an empty step that is never stopped holds back no later block.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Text, file_block
from streamnorm._core.events import BlockStop, CitationDelta, Event, SignatureDelta, TextDelta
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm._core.text import TextOffsets
from streamnorm.dialects.gemini_interactions.citations import citation_from_wire
from streamnorm.dialects.gemini_interactions.items.step import (
    GrowingBlock,
    OpenStep,
    OutputText,
    signature_from_wire,
)
from streamnorm.dialects.gemini_interactions.wire import Delta, TextFragment, other_fields

__all__ = ["OutputStep"]


class OutputStep(OpenStep):
    """A step of the answer: text with citations, and files."""

    _offsets: TextOffsets  # of the open block
    _signature = ""
    _written: OutputText

    def start(self, events: list[Event]) -> None:
        self._written = OutputText()
        if self.kind in ("model_output", "text"):
            self._blocks.outputs.append(self._written)
        if self.kind != "model_output":  # a content of the former revision
            self.read_delta(self.kind, self._fields, "", events)
            return
        contents = self._fields.get("content")
        for content in contents if is_array(contents) else ():
            kind = string_of(content, "type") if is_object(content) else ""
            if not (is_object(content) and self.read_delta(kind or "text", content, "", events)):
                self._blocks.opaque(kind or "content", content, events, index=self.index)
        if rest := other_fields(self._fields, "type", "content"):
            self._blocks.opaque(self.kind, rest, events)

    def append(self, delta: Delta, events: list[Event]) -> bool:
        block = self._block
        if block is None or block.carry or self._signature or type(delta) is not TextFragment:
            return False
        if delta.text:
            events.append(TextDelta(block.index, delta.text))
            self._count(delta.text)
        return True

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
            case "image" | "document":
                self._file(kind, delta, events)
            case _:
                return False
        return True

    def stop(self, events: list[Event], *, explicit: bool) -> None:
        if self._block is not None:
            self._count(self._block.flush(events))
            events.append(BlockStop(self._block.index))
            self._offsets.release()
            self._block = None

    def _write(self, text: object, events: list[Event]) -> None:
        if isinstance(text, str) and text:
            if self._signature:
                self.stop(events, explicit=True)
            self._count(self._grow(events).append(text, events))

    def _count(self, text: str) -> None:
        """Count text that was appended to the open block."""
        self._offsets.append(text)
        self._written.append(text)

    def _grow(self, events: list[Event]) -> GrowingBlock:
        if self._block is None:
            index = self._blocks.start(Text(), None, events)
            self._block = GrowingBlock(index, lambda text: TextDelta(index, text))
            # Annotations count bytes within one content.
            self._offsets = TextOffsets(room=self._blocks.citable)
            self._signature = ""
        return self._block

    def _sign(self, signature: str, events: list[Event]) -> None:
        if not signature or (self._block is not None and self._signature == signature):
            return
        if self._signature:
            self.stop(events, explicit=True)
        block = self._grow(events)
        self._count(block.flush(events))
        self._signature = signature
        events.append(SignatureDelta(block.index, *signature_from_wire(signature)))

    def _cite(self, annotations: object, events: list[Event]) -> None:
        for annotation in annotations if is_array(annotations) else ():
            block = self._block
            found = None
            if block is not None and is_object(annotation):
                self._count(block.flush(events))
                found = citation_from_wire(annotation, self._offsets)
            if block is None or found is None:
                kind = string_of(annotation, "type") if is_object(annotation) else ""
                self._blocks.opaque(kind or "annotation", annotation, events, index=self.index)
            else:
                events.append(CitationDelta(block.index, found))

    def _file(self, kind: str, content: dict[str, Any], events: list[Event]) -> None:
        data, url = content.get("data"), content.get("uri")
        data = data if isinstance(data, str) else None
        url = url if isinstance(url, str) else None
        block = file_block(string_of(content, "mime_type"), data, url)
        if block is None:
            self._blocks.opaque(kind, content, events, index=self.index)
            return
        self.stop(events, explicit=True)
        extra = other_fields(content, "type", "data", "uri", "mime_type")
        events.append(BlockStop(self._blocks.start(block, extra, events)))
