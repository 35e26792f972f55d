"""Encoder of streams of Google's Interactions API.

https://ai.google.dev/gemini-api/docs/streaming and google-genai 3.6.1,
`_gaos/types/interactions` (read 2026-11-27).  A block is a step of its own.  Texts of one answer
share a step, as in all recordings: a step of text therefore stays open until another block
begins.  The last event is the same for every status; an error takes its place, and nothing
follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from msgspec import Raw, Struct

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
from streamnorm._core.bodies.files import base64_of
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
from streamnorm._core.json import dumps, encode_line, is_array, object_in
from streamnorm._core.limits import OBJECT_BYTES
from streamnorm._core.losses import Losses
from streamnorm._core.rpc_errors import error_to_wire as error_response
from streamnorm._core.shapes import holds_object
from streamnorm._core.text import Signed, TextBuffer
from streamnorm.dialects.gemini_interactions.content import (
    citations_to_wire,
    redacted_to_wire,
    result_fields,
    signature_to_wire,
)
from streamnorm.dialects.gemini_interactions.outcome import (
    error_to_wire,
    stop_reason_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.gemini_interactions.traits import CAPABILITIES
from streamnorm.dialects.gemini_interactions.wire import CALL_SUFFIX, DIALECT, KIND_SUFFIX

_MCP_CALL, _SERVER = "mcp_server_tool_call", "server_name"
_DONE = b"event: done\ndata: [DONE]\n\n"
_END = b'},"event_type":"step.delta"}\n\n'


class _Step(Struct):
    """A step that the encoder has started.

    Attributes:
        index: Index on the wire.
        text: Text of an answer, of which citations count bytes; or the arguments of a call of
            the provider.
    """

    index: int
    text: TextBuffer


class _OpenBlock(Struct):
    """A block that has started and not stopped, with the step that holds the block.

    Attributes:
        step: Step of the block.
        block: Unified block of the start.
        frame: Start and end of the frame of a delta, around its text.
        start: First character of the block in the text of the step.
        citations: Citations of the text.
        stored_bytes: Bytes of citations and fields that are counted as stored.
        fields: Further fields of the delta that holds these.
    """

    step: _Step
    block: Block
    frame: tuple[bytes, bytes]
    start: int
    citations: list[Citation] = []
    stored_bytes: int = 0
    fields: dict[str, Any] = {}


class InteractionsEncoder(Encoder):
    """Encoder of one interaction's stream.

    Args:
        options: See `Encoder`.
    """

    dialect = DIALECT
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._interaction: dict[str, Any] = {}  # fields of the start, which the last event repeats
        self._open: dict[int, _OpenBlock] = {}
        self._next_index = 0
        # Steps of stopped blocks that another block may extend, by index of the block.
        self._extensible: dict[int, _Step] = {}

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        open_block = self._open[index]
        head, tail = open_block.frame
        stored = _buffer_of(open_block)
        if stored is not None and isinstance(open_block.block, ServerToolCall):

            def store(text: str) -> bytes:
                stored.append(text)
                return b""

            return store
        return delta_frames(head, tail, stored)

    def delta_template(self, index: int) -> tuple[bytes, bytes] | None:
        open_block = self._open[index]
        return open_block.frame if _buffer_of(open_block) is None else None

    def ping(self) -> bytes:
        return b": ping\n\n"

    def error_body(self, error: StreamError) -> bytes:
        return dumps(error_response(error, extras=self.extras))

    # Deltas

    def _text(self, event: TextDelta) -> bytes:
        return self.delta_writer(event.index)(event.text)

    _reasoning: Callable[[InteractionsEncoder, ReasoningDelta], bytes] = _text  # type: ignore[assignment]  # both have a text

    def _json(self, event: JSONDelta) -> bytes:
        return self.delta_writer(event.index)(event.partial_json)

    def _signature(self, event: SignatureDelta) -> bytes:
        step = self._open[event.index].step
        signature = signature_to_wire(Signed(event.signature, event.issuer, event.id))
        return _delta(step, {"type": "thought_signature", "signature": signature})

    def _citation(self, event: CitationDelta) -> bytes:
        # Google sends the annotations behind the text, when all offsets are known.
        open_block = self._open[event.index]
        self._store(open_block, OBJECT_BYTES + len(dumps(event.citation)))
        open_block.citations.append(event.citation)
        return b""

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        block, extra = event.block, self._vendor_fields(event.extra)
        # A block that the projection joins to the last one goes on in the step of that.
        step = self._extensible.pop(self._projector.merged.get(event.index, -1), None)
        stopped = self._stop_extensible()
        if step is not None:
            frame = _frame_of(block, step)
            self._open[event.index] = _OpenBlock(step, block, frame, step.text.size)
            return stopped
        step = self._new_step()
        self._open[event.index] = open_block = _OpenBlock(step, block, _frame_of(block, step), 0)
        if _SERVER in extra:
            open_block.fields = {_SERVER: extra[_SERVER]}
        start, deltas = _block_to_wire(block, extra, self._losses)
        return stopped + _start(step, start) + b"".join([_delta(step, each) for each in deltas])

    def _block_stop(self, event: BlockStop) -> bytes:
        open_block = self._open.pop(event.index)
        self._stored.release(open_block.stored_bytes)
        step = open_block.step
        match open_block.block:
            case Text():
                self._extensible[event.index] = step
                return self._citations(open_block)
            case ServerToolCall() as call:
                return self._server_call(call, open_block) + self._stop(step)
            case _:
                return self._stop(step)

    def _store(self, open_block: _OpenBlock, size: int) -> None:
        self._stored.add(size)
        open_block.stored_bytes += size

    def _new_step(self) -> _Step:
        self._next_index += 1
        return _Step(self._next_index - 1, TextBuffer(stored=self._stored))

    def _stop(self, step: _Step) -> bytes:
        step.text.release()
        return _event("step.stop", {"index": step.index})

    def _stop_extensible(self) -> bytes:
        """Stop the steps left open for further text; return their `step.stop` events."""
        steps = [*self._extensible.values()]
        self._extensible.clear()
        return b"".join(map(self._stop, steps))

    def _citations(self, open_block: _OpenBlock) -> bytes:
        if not open_block.citations:
            return b""
        text, start = open_block.step.text.text(), open_block.start
        annotations = citations_to_wire(open_block.citations, text, start, extras=self.extras)
        return _delta(
            open_block.step, {"type": "text_annotation_delta", "annotations": annotations}
        )

    def _server_call(self, call: ServerToolCall, open_block: _OpenBlock) -> bytes:
        """Return the delta with a server tool call's complete arguments."""
        text = open_block.step.text.text()
        if not text and open_block.fields.keys() <= {_SERVER}:
            return b""
        if text and not holds_object(text):
            return _delta(open_block.step, {"type": "arguments_delta", "arguments": text})
        arguments = Raw(encode_line(text or "{}"))
        fields = {**_call_fields(call), **open_block.fields}
        return _delta(open_block.step, {**fields, "arguments": arguments})

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        extra = self._take_extra(event.extra) if event.extra else {}
        id = self.response_fields.get("id", event.id)
        fields: dict[str, Any] = {"id": id, "status": "in_progress", "object": "interaction"}
        if model := self._model or event.model:
            fields["model"] = model
        if created := self.response_fields.get("created"):
            fields["created"] = created
        self._interaction = {**extra, **fields}
        status = {"interaction_id": id, "status": "in_progress"}
        created = _event("interaction.created", {"interaction": self._interaction})
        return created + _event("interaction.status_update", status)

    def _message_stop(self, event: MessageStop) -> bytes:
        extra = self._take_extra(event.extra) if event.extra else {}
        fields = {**self._interaction, **extra, **self._tier_field}
        if "id" in self.response_fields:  # "" since then, if the interaction could not be stored
            fields["id"] = self.response_fields["id"]
        fields["status"] = stop_reason_to_wire(event.reason, event.raw_reason)
        if self._usage != Usage():
            fields["usage"] = usage_to_wire(self._usage, extras=self.extras)
        completed = _event("interaction.completed", {"interaction": fields})
        return self._stop_extensible() + completed + _DONE

    def _error(self, event: StreamError) -> bytes:
        # A client takes `[DONE]`, and the last event, for the end of a complete interaction.
        error = error_to_wire(event, extras=self.extras)
        return self._stop_extensible() + _frame("error", dumps(error))

    def _opaque(self, event: Opaque) -> bytes:
        data, value = encode_line(event.data), object_in(event.data)
        open_block = None if event.index is None else self._open.get(event.index)
        call = None if open_block is None else open_block.block
        if open_block is not None and isinstance(call, ServerToolCall) and "type" not in value:
            # Fields of a call beside its arguments stand in the same delta.
            open_block.fields = {**open_block.fields, **value}
            self._store(open_block, len(data))
            return b""
        if value.get("type") != event.name:  # no delta
            if event.name.startswith("interaction."):
                data = dumps({**value, "event_type": event.name})
            return _frame(event.name, data)
        if open_block is not None:
            return _delta(open_block.step, Raw(data))
        # Only an open step has deltas.
        stopped, step = self._stop_extensible(), self._new_step()
        delta = _start(step, {"type": "model_output"}) + _delta(step, Raw(data))
        return stopped + delta + self._stop(step)


def _buffer_of(open_block: _OpenBlock) -> TextBuffer | None:
    """Return the buffer that stores a block's text; None if no later event needs the text."""
    is_stored = isinstance(open_block.block, Text | ServerToolCall)
    return open_block.step.text if is_stored else None


def _frame_of(block: Block, step: _Step) -> tuple[bytes, bytes]:
    """Return the bytes before and after the text in a frame with a delta of the block."""
    match block:
        case Text():
            head, tail = b'"type":"text","text":', b""
        case Reasoning():
            head = b'"type":"thought_summary","content":{"type":"text","text":'
            tail = b"}"
        case _:
            head, tail = b'"type":"arguments_delta","arguments":', b""
    return b'event: step.delta\ndata: {"index":%d,"delta":{%b' % (step.index, head), tail + _END


def _block_to_wire(
    block: Block, extra: dict[str, Any], losses: Losses
) -> tuple[dict[str, Any] | Raw, list[dict[str, Any]]]:
    """Return the step that a block starts, and the first deltas of the step."""
    match block:
        case Text():
            return {"type": "model_output", **extra}, []
        case Reasoning():
            return {"type": "thought", **extra}, []
        case RedactedReasoning():
            signature = {"type": "thought_signature", "signature": redacted_to_wire(block)}
            return {"type": "thought"}, [signature]
        case ToolCall(id, name):
            call: dict[str, Any] = {
                "type": "function_call",
                "id": id,
                "name": name,
                "arguments": {},
            }
            return {**extra, **call}, []
        case ServerToolCall():
            return {**_call_fields(block), **extra, "id": block.id, "arguments": {}}, []
        case ServerToolResult():
            return _result_to_wire(block, losses)
        case Image() | Document():
            return {"type": "model_output"}, [{**file_to_wire(block), **extra}]
        case OpaqueBlock(data=data):
            return Raw(encode_line(data)), []
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")


def _type_of(kind: str) -> str:
    """Return the step type of a server tool call or result."""
    return kind.removesuffix(KIND_SUFFIX)


def _call_fields(call: ServerToolCall) -> dict[str, Any]:
    kind = _type_of(call.kind)
    fields: dict[str, Any] = {"type": kind}
    if kind != call.name + CALL_SUFFIX:
        fields["name"] = call.name
    if kind == _MCP_CALL:
        fields[_SERVER] = ""  # the clients demand one
    return fields


def _result_to_wire(
    result: ServerToolResult, losses: Losses
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the step of a server tool result, and the delta with its content.

    Google sends the result in the delta alone; its clients demand one in the start, too.
    """
    kind = _type_of(result.kind)
    fields = result_fields(result, losses)
    start = {"type": kind, "call_id": result.tool_call_id, **fields}
    content: Any = fields.get("result")
    is_text = isinstance(content, str)
    if not (is_text or is_array(content)):
        return start, []
    return {**start, "result": "" if is_text else []}, [{"type": kind, "result": content}]


def file_to_wire(block: Image | Document) -> dict[str, Any]:
    """Return an image or a document as a content."""
    kind = "image" if isinstance(block, Image) else "document"
    if block.url is not None:
        return {"type": kind, "mime_type": block.media_type, "uri": block.url}
    data = base64_of(block.media_type or "", block.data or "")
    return {"type": kind, "mime_type": block.media_type, "data": data}


def _start(step: _Step, fields: dict[str, Any] | Raw) -> bytes:
    return _event("step.start", {"index": step.index, "step": fields})


def _delta(step: _Step, delta: dict[str, Any] | Raw) -> bytes:
    return _event("step.delta", {"index": step.index, "delta": delta})


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return _frame(kind, dumps({**fields, "event_type": kind}))


def _frame(kind: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode("utf-8", "replace"), data)
