"""Events to the SSE of Gemini's `streamGenerateContent`.

https://ai.google.dev/api/generate-content (read 2026-11-22).  The official clients take no
line but `data: ` with one JSON object: no comment, no event's name, no `[DONE]`.  Parts
are added up by who reads them; a call comes whole, its arguments an object; the last
chunk holds the finish reason and the counts.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import (
    Block,
    Citation,
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
)
from streamnorm._core.codec import EncodeOptions, Encoder
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm._core.text_buffer import TextBuffer
from streamnorm.dialects.gemini.capabilities import CAPABILITIES
from streamnorm.dialects.gemini.encode_grounding import sources_to_wire
from streamnorm.dialects.gemini.encode_places import OF_CHUNK, blocked_by, opaque_fields
from streamnorm.dialects.gemini.encode_usage import usage_to_wire
from streamnorm.dialects.gemini.encode_words import (
    FAILURES,
    error_to_wire,
    reason_to_wire,
    redacted_to_wire,
    signature_to_wire,
)

__all__ = ["GeminiEncoder"]

_dumps = msgspec.json.Encoder().encode

_PING = b"\r\n"
_HEAD = b'data: {"candidates":[{"content":{"parts":[{'
_CONTENT_END = b'}],"role":"model"}'
_CANDIDATE_END = b',"index":0}]'
_END = b"\r\n\r\n"

_TEXT = b'"text":'
_EMPTY = b'"text":""'
_THOUGHT = b',"thought":true'

# U+0085, U+2028 and U+2029: line ends to readers that cut lines as `str.splitlines` does.
_LINE_END = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")


class _Slot(Struct):
    """One block as it is written.

    Attributes:
        block: The block.
        tail: What stands behind its text.
        run: The text that it continues.
        start: Where in it the block begins, in characters.
        run_start: Where in all text that begins, in bytes.
        citations: Sources of its text.
        arguments: Arguments of the call.
        signature: Signature of the call, as the API has it.
        extra: The vendor's own fields of its part.
    """

    block: Block
    tail: bytes
    run: TextBuffer
    start: int
    run_start: int
    extra: dict[str, Any]
    citations: list[Citation] = []
    arguments: str = ""
    signature: str | None = None


class GeminiEncoder(Encoder):
    """Write Gemini.

    Args:
        options: See `Encoder`.
    """

    dialect = "gemini"
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._names: dict[str, Any] = {}  # the fields of every chunk
        self._tail = b"}" + _END  # what stands behind each candidate
        self._slots: dict[int, _Slot] = {}
        self._run = TextBuffer()  # the text that the next may continue
        self._run_bytes = 0  # bytes of all text before it
        self._usage = Usage()
        self._blocked = ""  # why the prompt was, if it was

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        slot = self._slots[index]
        head, tail = _HEAD + _TEXT, slot.tail
        if not isinstance(slot.block, Text):
            return lambda text: head + _string(text) + tail
        append = slot.run.append

        def write(text: str) -> bytes:
            append(text)
            data = _dumps(text)
            return head + (data if data.isascii() else _one_line(data)) + tail

        return write

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return _dumps(error_to_wire(error, extras=self.extras))

    def close(self) -> bytes:
        return b""

    # Deltas

    def _text(self, event: TextDelta) -> bytes:
        slot = self._slots[event.index]
        slot.run.append(event.text)
        return _HEAD + _TEXT + _string(event.text) + slot.tail

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        return _HEAD + _TEXT + _string(event.text) + self._slots[event.index].tail

    def _json(self, event: JSONDelta) -> bytes:
        self._slots[event.index].arguments = event.partial_json  # the projector joined them
        return b""

    def _signature(self, event: SignatureDelta) -> bytes:
        slot = self._slots[event.index]
        signature = signature_to_wire(event.signature, event.issuer)
        if isinstance(slot.block, ToolCall):
            slot.signature = signature
            return b""
        self._end_run()  # unsigned text behind it is none of this
        sealed = _EMPTY + b',"thoughtSignature":' + _dumps(signature)
        return _HEAD + sealed + slot.tail

    def _citation(self, event: CitationDelta) -> bytes:
        self._slots[event.index].citations.append(event.citation)
        return b""

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        block = event.block
        thought = b""
        if isinstance(block, Reasoning):
            self._end_run()
            thought = _THOUGHT
        extra = event.extra if self.extras and event.extra else {}
        tail = thought + _CONTENT_END + _CANDIDATE_END + self._tail
        run = self._run
        self._slots[event.index] = _Slot(block, tail, run, run.size, self._run_bytes, extra)
        match block:
            case RedactedReasoning():
                signed = {"thoughtSignature": redacted_to_wire(block)}
                return self._part({"text": "", "thought": True, **signed, **extra})
            case ServerToolResult(_, kind, content):
                return self._part({kind: content, **extra})
            case Image() | Document():
                return self._part({**_file(block), **extra})
            case OpaqueBlock(_, kind, data):
                # What was only thought must not pass for the answer.
                told = {"thought": True} if (event.extra or {}).get("thought") is True else {}
                return self._part({kind: _raw(data), **told, **extra})
            case _:
                return b""

    def _block_stop(self, event: BlockStop) -> bytes:
        slot = self._slots.pop(event.index)
        match slot.block:
            case Text():
                return self._sources(slot)
            case ToolCall(id, name) if event.index not in self._projector.withdrawn_calls:
                call = {"id": id, "name": name, "args": _raw(slot.arguments or "{}")}
                signed = {} if slot.signature is None else {"thoughtSignature": slot.signature}
                return self._part({"functionCall": call, **signed, **slot.extra})
            case ServerToolCall(kind=kind) if event.index not in self._projector.withdrawn_calls:
                return self._part({kind: _raw(slot.arguments or "{}"), **slot.extra})
            case _:
                return b""

    def _sources(self, slot: _Slot) -> bytes:
        if not slot.citations:
            return b""
        text, places = slot.run.text(), (slot.start, slot.run_start)
        return self._candidate(sources_to_wire(slot.citations, text, places, extras=self.extras))

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        names = {"modelVersion": self._model or event.model, "responseId": event.id}
        self._names = {key: name for key, name in names.items() if name}
        rest = _dumps(self._names)[1:]
        self._tail = (b"," if self._names else b"") + rest + _END
        extra = event.extra if self.extras and event.extra else {}
        self._blocked = blocked_by(extra)
        if self._blocked:
            return _frame({**extra, **self._names})
        return self._candidate({}, extra)

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        return b""

    def _message_stop(self, event: MessageStop) -> bytes:
        extra = event.extra if self.extras and event.extra else {}
        beside = {key: value for key, value in extra.items() if key in OF_CHUNK}
        of_answer = {key: value for key, value in extra.items() if key not in OF_CHUNK}
        beside |= self._counts()
        if event.raw_reason and event.raw_reason == (self._blocked or blocked_by(extra)):
            return _frame({**beside, **self._names}) if beside else b""  # there is no candidate
        return self._candidate({"finishReason": reason_to_wire(event), **of_answer}, beside)

    def _error(self, event: StreamError) -> bytes:
        sources = b"".join([self._sources(slot) for slot in self._slots.values()])
        word = (event.code or "").upper()
        if word not in FAILURES:
            return sources + _frame(error_to_wire(event, extras=self.extras))
        finish = {"finishReason": word, "finishMessage": event.message}
        return sources + self._candidate(finish, self._counts())

    def _opaque(self, event: Opaque) -> bytes:
        place, fields = opaque_fields(event)
        match place:
            case "candidate":
                return self._candidate(fields)
            case "part":
                return _frame({**self._around([{"text": "", **fields}], {}), **self._names})
            case "frame":
                return _frame(fields)
            case _:
                self._losses.add("opaque", event.name, "no object, dropped")
                return b""

    # Chunks

    def _counts(self) -> dict[str, Any]:
        if self._usage == Usage():
            return {}
        return {"usageMetadata": usage_to_wire(self._usage, extras=self.extras)}

    def _end_run(self) -> None:
        """Take it that what comes is no more of the text before it."""
        if self._run.size:
            self._run_bytes += len(self._run.text().encode("utf-8", "replace"))
            self._run = TextBuffer()

    def _part(self, part: dict[str, Any]) -> bytes:
        self._end_run()
        told = _one_line(_dumps(part))[1:-1]
        return _HEAD + told + _CONTENT_END + _CANDIDATE_END + self._tail

    def _candidate(self, fields: dict[str, Any], beside: dict[str, Any] | None = None) -> bytes:
        """Return a chunk that says nothing but `fields` of its candidate.

        Its part is empty text, as the API sends it: who prints `chunk.text` prints nothing.
        """
        around = self._around([{"text": ""}], fields)
        return _frame({**around, **(beside or {}), **self._names})

    def _around(self, parts: list[dict[str, Any]], fields: dict[str, Any]) -> dict[str, Any]:
        content = {"parts": parts, "role": "model"}
        return {"candidates": [{"content": content, **fields, "index": 0}]}


def _file(block: Image | Document) -> dict[str, Any]:
    if block.url is not None:
        return {"fileData": {"mimeType": block.media_type, "fileUri": block.url}}
    data = block.data or ""
    if (block.media_type or "").startswith("text/"):
        data = b64encode(data.encode("utf-8", "replace")).decode()
    return {"inlineData": {"mimeType": block.media_type, "data": data}}


def _frame(payload: dict[str, Any]) -> bytes:
    return b"data: " + _one_line(_dumps(payload)) + _END


def _string(text: str) -> bytes:
    return _one_line(_dumps(text))


def _raw(text: str) -> msgspec.Raw:
    """Return JSON text to be written as it is."""
    # A line end, which JSON has only between its tokens, would end the frame's line.
    return msgspec.Raw(text.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace"))


def _one_line(data: bytes) -> bytes:
    """Return JSON whose strings have no line ends; elsewhere there are none."""
    if data.isascii() or _LINE_END.search(data) is None:
        return data
    return _LINE_END.sub(lambda end: b"\\u%04x" % ord(end[0].decode()), data)
