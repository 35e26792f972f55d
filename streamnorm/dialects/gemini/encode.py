"""Encoder of Gemini's `streamGenerateContent` as server-sent events.

https://ai.google.dev/api/generate-content (read 2026-11-22).  The official clients accept
`data: ` lines with one JSON object and nothing else: no comment, no event name, no `[DONE]`.
They join the texts of the parts.  A call is one part whose arguments are an object, so that it
is written at its stop.  The last chunk holds the finish reason and the token counts.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Unpack

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
from streamnorm._core.codec.templates import delta_frames
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
)
from streamnorm._core.json import dumps
from streamnorm._core.limits import OBJECT_BYTES
from streamnorm._core.rpc_errors import error_to_wire
from streamnorm._core.text import Signed, TextBuffer
from streamnorm.dialects.gemini.content import (
    CHUNK_LEVEL_FIELDS,
    block_reason,
    citations_to_wire,
    opaque_to_wire,
    redacted_to_wire,
    signature_to_wire,
)
from streamnorm.dialects.gemini.outcome import (
    FAILED,
    stop_reason_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.gemini.tool_calls import (
    server_call_to_wire,
    server_result_to_wire,
    tool_call_to_wire,
)
from streamnorm.dialects.gemini.traits import CAPABILITIES
from streamnorm.dialects.gemini.wire import DIALECT, raw_json

# google-genai reads any other line than `data: ` as JSON, comments included: a blank line is the
# only keep-alive (3.4.0, read 2026-11-22).
_PING = b"\r\n"
_HEAD = b'data: {"candidates":[{"content":{"parts":[{'
_CONTENT_END = b'}],"role":"model"}'
_CANDIDATE_END = b',"index":0}]'
# Google ends lines by CRLF.
_END = b"\r\n\r\n"

_TEXT = b'"text":'
_EMPTY = b'"text":""'
_THOUGHT = b',"thought":true'

# U+0085, U+2028 and U+2029 end a line for clients that use `str.splitlines`.
_LINE_END = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]")
# @google/genai before its version 3 ignores an error event and handles the end of the body as
# the end of the answer.  An unfinished event makes it raise "Incomplete JSON segment at the end"
# (`processStreamResponse` of 1.52.0, read 2026-11-23).  No client reads a comment.
_UNFINISHED = b":"


class _OpenBlock(Struct):
    """A block that has started and not stopped.

    Attributes:
        block: Unified block of the start.
        tail: Bytes of a chunk after the text of the block.
        joined: Contiguous text that the block extends; clients join it to one part.
        start: First character of the block in `joined`.
        joined_start: First byte of `joined` in all text of the answer.
        extra: Google's fields of the part.
        citations: Citations of the text.
        citation_bytes: Bytes of the citations that are counted as stored.
        arguments: Arguments of a call.
        signature: Signature of a call, as it is written.
    """

    block: Block
    tail: bytes
    joined: TextBuffer
    start: int
    joined_start: int
    extra: dict[str, Any]
    citations: list[Citation] = []
    citation_bytes: int = 0
    arguments: str = ""
    signature: str | None = None


class GeminiEncoder(Encoder):
    """Encoder of Gemini's `streamGenerateContent`.

    Args:
        options: See `Encoder`.
    """

    dialect = DIALECT
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._names: dict[str, Any] = {}  # `modelVersion` and `responseId`, in every chunk
        self._tail = b"}" + _END  # bytes behind the candidates of each chunk
        self._open: dict[int, _OpenBlock] = {}
        # Contiguous text that the next block may extend.
        self._joined = TextBuffer(stored=self._stored)
        self._joined_start = 0  # bytes of all text before it
        self._blocked = ""  # the `blockReason` of the prompt

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        open_block = self._open[index]
        stored = open_block.joined if isinstance(open_block.block, Text) else None
        frame_of = delta_frames(_HEAD + _TEXT, open_block.tail, stored)

        def write(text: str) -> bytes:
            frame = frame_of(text)
            return frame if text.isascii() or not _has_line_end(text) else _one_line(frame)

        return write

    def resume_after_passthrough(self, start: MessageStart, next_sequence_number: int) -> None:
        self._usage = Usage()  # the original chunks reported it

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return dumps(error_to_wire(error, extras=self.extras))

    # Deltas

    def _text(self, event: TextDelta) -> bytes:
        open_block = self._open[event.index]
        open_block.joined.append(event.text)
        return _HEAD + _TEXT + _string(event.text) + open_block.tail

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        return _HEAD + _TEXT + _string(event.text) + self._open[event.index].tail

    def _json(self, event: JSONDelta) -> bytes:
        # The projector has held the arguments until they were complete.
        self._open[event.index].arguments = event.partial_json
        return b""

    def _signature(self, event: SignatureDelta) -> bytes:
        open_block = self._open[event.index]
        signed = Signed(event.signature, event.issuer, event.id)
        signature = signature_to_wire(signed, extras=self.extras)
        # Gemini 3 answers 400 if the signature returns on another part than its call.
        if isinstance(open_block.block, ToolCall):
            open_block.signature = signature
            return b""
        self._end_joined()  # clients do not join text after a signature
        sealed = _EMPTY + b',"thoughtSignature":' + _string(signature)
        return _HEAD + sealed + open_block.tail

    def _citation(self, event: CitationDelta) -> bytes:
        # Google sends the sources with the last chunk of a text, when all offsets are known.
        open_block, size = self._open[event.index], OBJECT_BYTES + len(dumps(event.citation))
        self._stored.add(size)
        open_block.citation_bytes += size
        open_block.citations.append(event.citation)
        return b""

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        block = event.block
        thought = b""
        if isinstance(block, Reasoning):
            self._end_joined()
            # In each part: one without the mark is shown as the answer.
            thought = _THOUGHT
        extra = self._vendor_fields(event.extra)
        # Each chunk names the role, as Google's chunks do.
        tail = thought + _CONTENT_END + _CANDIDATE_END + self._tail
        joined = self._joined
        self._open[event.index] = _OpenBlock(
            block, tail, joined, joined.size, self._joined_start, extra
        )
        part = complete_part(block, event.extra, extra, is_own=self.extras)
        return b"" if part is None else self._part(part)

    def _block_stop(self, event: BlockStop) -> bytes:
        open_block = self._open.pop(event.index)
        self._stored.release(open_block.citation_bytes)
        match open_block.block:
            case Text():
                return self._citations(open_block)
            case ToolCall() as call if event.index not in self._projector.withdrawn_calls:
                part = tool_call_to_wire(call, open_block.arguments, open_block.signature)
                return self._part({**part, **open_block.extra})
            case ServerToolCall() as call if event.index not in self._projector.withdrawn_calls:
                part = server_call_to_wire(call, open_block.arguments)
                return self._part({**part, **open_block.extra})
            case _:
                return b""

    def _citations(self, open_block: _OpenBlock) -> bytes:
        if not open_block.citations:
            return b""
        fields = citations_to_wire(
            open_block.citations,
            open_block.joined.text(),
            open_block.start,
            open_block.joined_start,
            extras=self.extras,
        )
        return self._candidate(fields)

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        names = {"modelVersion": self._model or event.model, "responseId": event.id}
        self._names = {key: name for key, name in names.items() if name}
        rest = dumps(self._names)[1:]
        self._tail = (b"," if self._names else b"") + rest + _END
        extra = self._vendor_fields(event.extra)
        self._blocked = block_reason(extra)
        # A candidate beside the feedback would be an answer to a prompt that was refused.
        if self._blocked:
            return _frame({**extra, **self._names})
        return self._candidate({}, extra)

    def _message_stop(self, event: MessageStop) -> bytes:
        extra = self._vendor_fields(event.extra)
        chunk_fields = {key: value for key, value in extra.items() if key in CHUNK_LEVEL_FIELDS}
        candidate_fields = {
            key: value for key, value in extra.items() if key not in CHUNK_LEVEL_FIELDS
        }
        chunk_fields |= self._counts()
        if event.raw_reason and event.raw_reason == (self._blocked or block_reason(extra)):
            # A blocked prompt has no candidate.
            return _frame({**chunk_fields, **self._names}) if chunk_fields else b""
        return self._candidate(
            {"finishReason": stop_reason_to_wire(event), **candidate_fields}, chunk_fields
        )

    def _error(self, event: StreamError) -> bytes:
        citations = b"".join([self._citations(open_block) for open_block in self._open.values()])
        code = (event.code or "").upper()
        # Google has finish reasons for answers that failed, and an error object for all else.
        if code not in FAILED:
            counts = self._counts()
            usage = self._candidate({}, counts) if counts else b""
            error = _frame(error_to_wire(event, extras=self.extras))
            return citations + usage + error + _UNFINISHED
        finish = {"finishReason": code, "finishMessage": event.message}
        return citations + self._candidate(finish, self._counts())

    def _opaque(self, event: Opaque) -> bytes:
        target, fields = opaque_to_wire(event)
        match target:
            case "candidate":
                return self._candidate(fields)
            case "part":
                return _frame({**self._chunk_of([{"text": "", **fields}], {}), **self._names})
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

    def _end_joined(self) -> None:
        """End the contiguous text, since clients read later text as a new part."""
        if self._joined.size:
            self._joined_start += len(self._joined.text().encode("utf-8", "replace"))
            self._joined.release()
            self._joined = TextBuffer(stored=self._stored)

    def _part(self, part: dict[str, Any]) -> bytes:
        self._end_joined()
        fields = _one_line(dumps(part))[1:-1]
        return _HEAD + fields + _CONTENT_END + _CANDIDATE_END + self._tail

    def _candidate(
        self, fields: dict[str, Any], chunk_fields: dict[str, Any] | None = None
    ) -> bytes:
        """Return a chunk whose candidate has `fields` and empty text.

        Its part is empty text, as the API sends it: a client that prints `chunk.text` prints
        nothing.
        """
        around = self._chunk_of([{"text": ""}], fields)
        return _frame({**around, **(chunk_fields or {}), **self._names})

    def _chunk_of(self, parts: list[dict[str, Any]], fields: dict[str, Any]) -> dict[str, Any]:
        content = {"parts": parts, "role": "model"}
        return {"candidates": [{"content": content, **fields, "index": 0}]}


def complete_part(
    block: Block, fields: dict[str, Any] | None, extra: dict[str, Any], *, is_own: bool
) -> dict[str, Any] | None:
    """Return a block without deltas as a part; None for a block with deltas.

    Args:
        block: The block.
        fields: Unknown fields of the block in any dialect.
        extra: Google's fields among them, which are written.
        is_own: Whether the block came from Google itself.
    """
    match block:
        case RedactedReasoning():
            signed = {"thoughtSignature": redacted_to_wire(block)}
            return {"text": "", "thought": True, **signed, **extra}
        case ServerToolResult():
            return {**server_result_to_wire(block), **extra}
        case Image(signature=str(signature)):
            wire = signature_to_wire(Signed(signature, block.issuer), extras=is_own)
            return {**_file(block), "thoughtSignature": wire, **extra}
        case Image() | Document():
            return {**_file(block), **extra}
        case OpaqueBlock(_, kind, data):
            # A thought must not be shown as the answer, whatever becomes of `extra`.
            thought = {"thought": True} if (fields or {}).get("thought") is True else {}
            return {kind: raw_json(data), **thought, **extra}
        case _:
            return None


def _file(block: Image | Document) -> dict[str, Any]:
    if block.url is not None:
        return {"fileData": {"mimeType": block.media_type, "fileUri": block.url}}
    data = block.data or ""
    # `inlineData` is Base64 for every type.
    if (block.media_type or "").startswith("text/"):
        data = b64encode(data.encode("utf-8", "replace")).decode()
    return {"inlineData": {"mimeType": block.media_type, "data": data}}


def _frame(payload: dict[str, Any]) -> bytes:
    return b"data: " + _one_line(dumps(payload)) + _END


def _string(text: str) -> bytes:
    return _one_line(dumps(text))


def _has_line_end(text: str) -> bool:
    # A twentieth of what a search in the encoded text costs.
    return "\x85" in text or "\u2028" in text or "\u2029" in text


def _one_line(data: bytes) -> bytes:
    """Return JSON with line ends in strings escaped."""
    if data.isascii() or _LINE_END.search(data) is None:
        return data
    return _LINE_END.sub(lambda end: b"\\u%04x" % ord(end[0].decode()), data)
