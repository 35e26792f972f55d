"""The steps that the model writes itself: its answer, and its thoughts.

https://ai.google.dev/api/interactions-api (read 2026-11-22).  A step becomes blocks with
what it brings, so that one that brings nothing, and is never stopped, holds nobody up.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Reasoning, Text
from streamnorm._core.events import (
    BlockStop,
    CitationDelta,
    Event,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
)
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm.dialects.gemini.answer import issued
from streamnorm.dialects.gemini.interactions.blocks import Blocks, Growth
from streamnorm.dialects.gemini.interactions.sources import source
from streamnorm.dialects.gemini.interactions.steps import Step, rest_of
from streamnorm.dialects.gemini.interactions.wire import Delta, MoreText
from streamnorm.dialects.gemini.offsets import Offsets
from streamnorm.dialects.gemini.parts import media

__all__ = ["OutputStep", "ThoughtStep"]


class OutputStep(Step):
    """What the model answers: text, with its sources, and files."""

    def __init__(self, kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> None:
        super().__init__(kind, wire, raw, blocks)
        self._text: Growth | None = None
        self._signature = ""
        self._offsets = Offsets(max_bytes=0)

    @property
    def index(self) -> int | None:
        return None if self._text is None else self._text.index

    def start(self, events: list[Event]) -> None:
        if self.kind != "model_output":  # as the revision before had its contents
            self.take(self.kind, self._wire, "", events)
            return
        contents = self._wire.get("content")
        for content in contents if is_array(contents) else ():
            kind = string_of(content, "type") if is_object(content) else ""
            if not (is_object(content) and self.take(kind or "text", content, "", events)):
                self._blocks.opaque(kind or "content", content, events, index=self.index)
        if rest := rest_of(self._wire, "type", "content"):
            self._blocks.opaque(self.kind, rest, events)

    def more(self, delta: Delta, events: list[Event]) -> bool:
        growth = self._text
        if growth is None or growth.carry or self._signature or type(delta) is not MoreText:
            return False
        if delta.text:
            events.append(TextDelta(growth.index, delta.text))
            self._offsets.append(delta.text)
        return True

    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
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

    def stop(self, events: list[Event], *, told: bool) -> None:
        if self._text is not None:
            self._offsets.append(self._text.flush(events))
            events.append(BlockStop(self._text.index))
            self._text = None

    def _write(self, text: object, events: list[Event]) -> None:
        if isinstance(text, str) and text:
            if self._signature:
                self.stop(events, told=True)
            whole = self._grow(events).add(text, events)
            self._offsets.append(whole)

    def _grow(self, events: list[Event]) -> Growth:
        if self._text is None:
            index = self._blocks.begin(Text(), None, events)
            self._text = Growth(index, lambda text: TextDelta(index, text))
            # An annotation belongs to one content, and counts within that.
            self._offsets = Offsets(max_bytes=self._blocks.shared.limits.max_held_bytes)
            self._signature = ""
        return self._text

    def _sign(self, signature: str, events: list[Event]) -> None:
        if not signature or (self._text is not None and self._signature == signature):
            return
        if self._signature:
            self.stop(events, told=True)
        growth = self._grow(events)
        self._offsets.append(growth.flush(events))
        self._signature = signature
        events.append(SignatureDelta(growth.index, *issued(signature)))

    def _cite(self, annotations: object, events: list[Event]) -> None:
        for annotation in annotations if is_array(annotations) else ():
            growth = self._text
            found = None
            if growth is not None and is_object(annotation):
                self._offsets.append(growth.flush(events))
                found = source(annotation, self._offsets)
            if growth is None or found is None:
                kind = string_of(annotation, "type") if is_object(annotation) else ""
                self._blocks.opaque(kind or "annotation", annotation, events, index=self.index)
            else:
                events.append(CitationDelta(growth.index, found))

    def _file(self, kind: str, wire: dict[str, Any], events: list[Event]) -> None:
        data, url = wire.get("data"), wire.get("uri")
        data = data if isinstance(data, str) else None
        url = url if isinstance(url, str) else None
        block = media(string_of(wire, "mime_type"), data, url)
        if block is None:
            self._blocks.opaque(kind, wire, events, index=self.index)
            return
        self.stop(events, told=True)
        extra = rest_of(wire, "type", "data", "uri", "mime_type")
        events.append(BlockStop(self._blocks.begin(block, extra, events)))


class ThoughtStep(Step):
    """What the model thought: summaries, and what proves them."""

    def __init__(self, kind: str, wire: dict[str, Any], raw: str, blocks: Blocks) -> None:
        super().__init__(kind, wire, raw, blocks)
        self._text: Growth | None = None
        self._begun = False
        self._part = 0
        self._signature = ""

    @property
    def index(self) -> int | None:
        return None if self._text is None else self._text.index

    def start(self, events: list[Event]) -> None:
        summary = self._wire.get("summary")
        for number, content in enumerate(summary if is_array(summary) else ()):
            if self._text is not None:
                self._text.flush(events)
            self._part = number
            self._write(content, events)
        self._sign(string_of(self._wire, "signature"), events)

    def take(self, kind: str, delta: dict[str, Any], raw: str, events: list[Event]) -> bool:
        match kind:
            case "thought_summary":
                self._write(delta.get("content"), events)
            case "text" | "thought":  # never for the user, in a thought
                self._write(delta, events)
            case "thought_signature":
                self._sign(string_of(delta, "signature"), events)
            case _:
                return False
        return True

    def stop(self, events: list[Event], *, told: bool) -> None:
        if not self._begun and told:
            self._grow(events)
        if self._text is not None:
            self._text.flush(events)
            events.append(BlockStop(self._text.index))
            self._text = None

    def _write(self, content: object, events: list[Event]) -> None:
        text = content.get("text") if is_object(content) else None
        if not isinstance(text, str):
            if content is not None:
                self._blocks.opaque("thought_summary", content, events, index=self.index)
        elif text:
            if self._signature:
                self.stop(events, told=True)
            self._grow(events).add(text, events)

    def _grow(self, events: list[Event]) -> Growth:
        if self._text is None:
            if self._begun:
                self._part = 0
            index = self._blocks.begin(Reasoning(), None, events)
            self._begun = True
            self._signature = ""
            self._text = Growth(index, lambda text: ReasoningDelta(index, text, self._part))
        return self._text

    def _sign(self, signature: str, events: list[Event]) -> None:
        if not signature:
            return
        if self._signature == signature:
            self._blocks.shared.note("resent_signature", "thought")
            return
        if self._signature:
            self.stop(events, told=True)
        growth = self._grow(events)
        growth.flush(events)
        self._signature = signature
        events.append(SignatureDelta(growth.index, *issued(signature)))
