"""Encoder of the UI message stream.

npm `ai` 7.0.173, 6.0.326 and 5.0.277: `src/ui-message-stream/ui-message-chunks.ts`, the schema,
and `src/ui/process-ui-message-stream.ts`, the reducer of `useChat` (read 2026-11-23).  What is
written is accepted by all three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Unpack

from msgspec import Struct

from streamnorm._core.blocks import (
    Document,
    Image,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.codec import EncodeOptions, RunEncoder
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
    sum_usage,
)
from streamnorm._core.json import dumps, is_object, object_in, string_of
from streamnorm._core.limits import OBJECT_BYTES, text_bytes, value_bytes
from streamnorm._core.text import Signed, TextBuffer
from streamnorm.dialects.ui_message_stream import wire
from streamnorm.dialects.ui_message_stream.content import (
    CONTINUED,
    METADATA,
    add_mark,
    chunk_to_wire,
    citation_to_wire,
    cut_input_to_wire,
    file_to_wire,
    input_to_wire,
    reasoning_end_to_wire,
    redacted_to_wire,
    repeated_call_to_wire,
    result_to_wire,
    server_result_to_wire,
    signature_to_wire,
    text_citation_to_wire,
)
from streamnorm.dialects.ui_message_stream.outcome import (
    error_body,
    error_to_wire,
    stop_reason_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.ui_message_stream.traits import CAPABILITIES, PageOptions
from streamnorm.dialects.ui_message_stream.wire import Chunk, chunk, with_metadata

_STEP = "start-step"
_MESSAGE_ID = "messageId"


class _WrittenBlock(Struct):
    """Encoding state of an open block.

    Attributes:
        kind: `text`, `reasoning` or `tool-input`.
        id: Id of the part.
        head: Start of the frame of a delta, up to its text.
        part: Number of the reasoning summary that is open.
        call: Fields that each chunk of a call has; None for other blocks.
        arguments: Arguments of the call so far.
        metadata: `providerMetadata` for the end of the part.
        citations: `citations` for it.
        results: Chunks of results of the call, which follow its end.
    """

    kind: str
    id: str
    head: bytes
    part: int = 0
    call: Chunk | None = None
    arguments: TextBuffer | None = None
    metadata: dict[str, Any] = {}
    citations: list[Chunk] = []
    results: list[bytes] = []


class UIMessageEncoder(RunEncoder):
    """Encoder of the UI message stream.

    `response_fields` may hold `messageId`, the id of the assistant's message that is continued.

    Args:
        options: Options that only the UI message stream has.
        shared: See `Encoder`.
    """

    dialect = wire.DIALECT
    capabilities = CAPABILITIES
    # Other front ends than `useChat` tell by it which protocol they read
    # (`src/ui-message-stream/ui-message-stream-headers.ts`).
    response_headers: ClassVar = {"x-vercel-ai-ui-message-stream": "v1"}
    # The client shows the body as it is (`src/ui/create-ui-api-call-error.ts`).
    error_media_type = "text/plain; charset=utf-8"

    def __init__(
        self,
        *,
        options: PageOptions = PageOptions(),  # noqa: B008 - frozen
        **shared: Unpack[EncodeOptions],
    ) -> None:
        super().__init__(**shared)
        self._writes_citations = options.page_client == "ai@7"
        self._open: dict[int, _WrittenBlock] = {}
        self._next_id = 0
        self._sources = 0
        self._call_ids: set[str] = set()
        self._open_calls: dict[str, _WrittenBlock] = {}
        # Calls without arguments that have ended: whether they are whole is known by what follows.
        self._unproven_calls: list[Chunk] = []

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        block = self._open[index]
        return delta_frames(block.head, b"}\n\n", block.arguments)

    def ping(self) -> bytes:
        return b": keep-alive\n\n"

    def error_body(self, error: StreamError) -> bytes:
        return error_body(error)

    def _message_start(self, event: MessageStart) -> bytes:
        fields: Chunk = {"type": "start"}
        extra = self._vendor_fields(event.extra)
        known = extra.get("messageMetadata")
        metadata = dict(known) if is_object(known) else {}
        # An id names one message of the chat: `useChat` puts an answer in the place of an earlier
        # one of its id.  Those of providers repeat (Ollama draws `chatcmpl-N` from 999 numbers), so
        # that the client makes one.  Another id than that of the message that is continued makes
        # a second message; "" would be the id of every message.
        is_of_page = self.extras and ("id" not in metadata or _MESSAGE_ID in extra)
        if id := self.response_fields.get(_MESSAGE_ID) or (event.id if is_of_page else ""):
            fields[_MESSAGE_ID] = id
        if event.id and not self.extras:
            metadata["id"] = event.id
        if model := self._name_model(event):
            metadata["model"] = model
        if metadata:
            fields["messageMetadata"] = metadata
        return chunk(fields) + chunk({"type": _STEP})

    def _block_start(self, event: BlockStart) -> bytes:
        # Providers write one block after the other: one that follows proves those before it whole.
        return self._prove_calls() + self._start_block(event, self._vendor_fields(event.extra))

    def _start_block(self, event: BlockStart, fields: Chunk) -> bytes:
        match event.block:
            case Text():
                return self._start_text(event.index, "text", fields)
            case Reasoning():
                return self._start_text(event.index, "reasoning", fields)
            case ToolCall(id, name):
                return self._start_call(event.index, {**fields, "toolCallId": id, "toolName": name})
            case ServerToolCall(id, name):
                # On the last chunk of the call as well: it is there that the client executes.
                call = {"toolCallId": id, "toolName": name, "providerExecuted": True}
                return self._start_call(event.index, {**fields, **call})
            case RedactedReasoning() as block:
                return self._write_redacted(block)
            case ServerToolResult() as block:
                return self._write_result(block, chunk(server_result_to_wire(block, fields)))
            case ToolResult(content=content) as block:
                if any(not isinstance(item, Text) for item in content):
                    self._losses.add("media", "ToolResult", "dropped")
                return self._write_result(block, result_to_wire(block, fields))
            case Image() | Document() as block:
                return chunk({**fields, **file_to_wire(block)})
            case _ as block:
                raise AssertionError(f"{type(block).__name__} passed the projection")

    def _start_text(self, index: int, kind: str, fields: Chunk) -> bytes:
        number, self._next_id = self._next_id, self._next_id + 1
        id = str(number) if kind == "text" else f"{number}:0"
        return self._start_part(index, kind, id, fields)

    def _start_part(
        self, index: int, kind: str, id: str, fields: Chunk | None = None, part: int = 0
    ) -> bytes:
        head = b'data: {"type":"%b-delta","id":"%b","delta":' % (kind.encode(), id.encode())
        self._open[index] = _WrittenBlock(kind, id, head, part)
        return chunk({**(fields or {}), "type": f"{kind}-start", "id": id})

    def _start_call(self, index: int, call: Chunk) -> bytes:
        self._add_call_id(call["toolCallId"])
        fields = dumps({"type": "tool-input-delta", "toolCallId": call["toolCallId"]})
        head = b'data: %b,"inputTextDelta":' % fields[:-1]
        metadata = call.pop(METADATA, {})
        self._open[index] = _WrittenBlock(
            *("tool-input", "", head),
            call=call,
            arguments=TextBuffer("", self._stored),
            metadata=metadata,
        )
        self._open_calls[call["toolCallId"]] = self._open[index]
        return chunk(with_metadata({"type": "tool-input-start", **call}, metadata))

    def _prove_calls(self) -> bytes:
        """End calls whose empty arguments are now known to be complete; return the chunks."""
        proven, self._unproven_calls = self._unproven_calls, []
        return b"".join([input_to_wire(call, "") for call in proven])

    def _write_result(self, result: ServerToolResult | ToolResult, written: bytes) -> bytes:
        """Return the chunks of a result; while the call is open, store them and return b""."""
        # Each chunk of a call is its state from there on: the client would take a call whose input
        # comes behind its result for one without a result.
        if block := self._open_calls.get(result.tool_call_id):
            self._stored.add(OBJECT_BYTES + len(written))
            block.results.append(written)
            return b""
        return self._call_of_result(result) + written

    def _call_of_result(self, result: ServerToolResult | ToolResult) -> bytes:
        """Return the chunks of a call if the message lacks the call of a result, else no bytes.

        The client fails at the result of an unknown call.  OpenAI's results of a shell name an id
        that their call has beside its own.
        """
        id = result.tool_call_id
        if id in self._call_ids or self._has_earlier_call(result):
            return b""
        self._add_call_id(id)
        if isinstance(result, ToolResult) and id in self.client_calls:
            return repeated_call_to_wire(self.client_calls[id])
        name = result.kind if isinstance(result, ServerToolResult) else result.name
        call = {"toolCallId": id, "toolName": name or "tool", "providerExecuted": True}
        return input_to_wire(call, "")

    def _has_earlier_call(self, result: ServerToolResult | ToolResult) -> bool:
        """Return whether a result's call is in the earlier message that the stream continues."""
        if self.earlier_calls is not None:
            return self.earlier_calls.get(result.tool_call_id, False)
        # Only the application answers calls of an earlier stream.
        return isinstance(result, ToolResult) and _MESSAGE_ID in self.response_fields

    def _add_call_id(self, id: str) -> None:
        self._stored.add(text_bytes(id) + OBJECT_BYTES)
        self._call_ids.add(id)

    def _write_redacted(self, block: RedactedReasoning) -> bytes:
        id, self._next_id = f"{self._next_id}:0", self._next_id + 1
        end = with_metadata({"type": "reasoning-end", "id": id}, redacted_to_wire(block))
        return chunk({"type": "reasoning-start", "id": id}) + chunk(end)

    def _text(self, event: TextDelta) -> bytes:
        return self._open[event.index].head + dumps(event.text) + b"}\n\n"

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        block, before = self._open[event.index], b""
        if event.part != block.part:
            # The AI SDK numbers the summaries of an item so.
            id = f"{block.id.partition(':')[0]}:{event.part}"
            end: Chunk = {"type": "reasoning-end", "id": block.id}
            # The page sends parts back without their ids.
            before = chunk(with_metadata(end, add_mark({}, CONTINUED, True)))
            before += self._start_part(event.index, "reasoning", id, part=event.part)
            block = self._open[event.index]
        return before + block.head + dumps(event.text) + b"}\n\n"

    def _json(self, event: JSONDelta) -> bytes:
        return self.delta_writer(event.index)(event.partial_json)

    def _signature(self, event: SignatureDelta) -> bytes:
        signed = Signed(event.signature, event.issuer, event.id)
        block = self._open[event.index]
        to_wire = reasoning_end_to_wire if block.kind == "reasoning" else signature_to_wire
        # At the end of the part: each `providerMetadata` replaces the one before it.
        block.metadata = to_wire(signed)
        return b""

    def _citation(self, event: CitationDelta) -> bytes:
        number, self._sources = self._sources, self._sources + 1
        source = citation_to_wire(event.citation, f"source-{number}")
        if self._writes_citations:
            entry = text_citation_to_wire(event.citation, source)
            self._stored.add(OBJECT_BYTES + value_bytes(entry))
            self._open[event.index].citations.append(entry)
        return chunk(source)

    def _block_stop(self, event: BlockStop) -> bytes:
        block = self._open.pop(event.index, None)
        if block is None:  # one that was written whole
            return b""
        if block.call is None or block.arguments is None:
            end = with_metadata({"type": f"{block.kind}-end", "id": block.id}, block.metadata)
            return chunk({**end, "citations": block.citations} if block.citations else end)
        self._open_calls.pop(block.call["toolCallId"], None)
        arguments = block.arguments.text()
        block.arguments.release()
        call = with_metadata(block.call, block.metadata)
        results = b"".join(block.results)
        if not (arguments.strip() or event.is_unfinished or "providerExecuted" in call or results):
            # The bound of tokens may have cut it before its first argument (Anthropic), of which
            # only the stop reason tells; the client executes a call whose input is available.
            self._unproven_calls.append(call)
            return b""
        return input_to_wire(call, arguments, is_unfinished=event.is_unfinished) + results

    def _message_stop(self, event: MessageStop) -> bytes:
        finish: Chunk = {"type": "finish", "finishReason": stop_reason_to_wire(event.reason)}
        extra = self._vendor_fields(event.extra).get("messageMetadata")
        metadata = dict(extra) if is_object(extra) else {}
        if counts := usage_to_wire(sum_usage(self.usage_by_model.values())):
            metadata["usage"] = {**self._vendor_fields(self._usage.extra), **counts}
        if metadata:
            finish["messageMetadata"] = metadata
        calls = self.end_answer(event)
        return calls + chunk({"type": "finish-step"}) + chunk(finish) + wire.DONE_FRAME

    def _error(self, event: StreamError) -> bytes:
        # Calls stay open: the client executes a call whose input is available.  The client takes
        # the end of the bytes for success, so there is always an `error`.
        return error_to_wire(event) + wire.DONE_FRAME

    def end_answer(self, stop: MessageStop) -> bytes:
        if stop.reason != "max_tokens":
            return self._prove_calls()
        cut, self._unproven_calls = self._unproven_calls, []
        return b"".join(map(cut_input_to_wire, cut))

    def _opaque(self, event: Opaque) -> bytes:
        if event.name == METADATA:
            if event.index in self._open:
                self._open[event.index].metadata = object_in(event.data)
            return b""
        # The clients fail at a chunk without a type.
        if not string_of(object_in(event.data), "type"):
            self._losses.add("opaque", "chunk without a type", "dropped")
            return b""
        before = b""
        if event.name == _STEP:
            # Clients up to v6 forget open parts at the end of a step.
            before = self._prove_calls() + chunk({"type": "finish-step"})
        return before + chunk_to_wire(event)

    def _end_step(self) -> bytes:
        return self._prove_calls() + chunk({"type": "finish-step"}) + chunk({"type": _STEP})
