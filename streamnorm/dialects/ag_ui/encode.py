"""Encoder of AG-UI.

`@ag-ui/client` 1.0.0 and 0.0.59, `src/verify/verify.ts` and `src/transform/sse.ts` (read
2026-11-27): the output passes both.  Frames end by LF LF alone; no field is null; nothing follows
`RUN_FINISHED` or `RUN_ERROR`, not even `[DONE]`, which the clients parse as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from streamnorm._core.blocks import (
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
)
from streamnorm._core.json import compact, dumps, is_json, object_in, string_of
from streamnorm._core.limits import OBJECT_BYTES, text_bytes
from streamnorm._core.text import TextBuffer
from streamnorm.dialects.ag_ui import wire
from streamnorm.dialects.ag_ui.content import (
    BROKEN,
    NO_ARGUMENTS,
    citation_to_wire,
    cut_to_wire,
    event_to_wire,
    mark_of,
    part_id,
    redacted_to_wire,
    result_to_wire,
    signature_to_wire,
    unanswered_to_wire,
)
from streamnorm.dialects.ag_ui.outcome import (
    error_to_wire,
    outcome_to_wire,
    stop_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.ag_ui.traits import CAPABILITIES, PageOptions

_RUN_ID, _THREAD_ID, _VERSION = "runId", "threadId", "protocolVersion"
_DELTA_END = b"}\n\n"


class AGUIEncoder(RunEncoder):
    """Encoder of AG-UI.

    `response_fields` may hold `threadId`, `runId` and `protocolVersion` of the request; without
    them the run has the id of the message.

    Args:
        options: Options that only AG-UI has.
        shared: See `Encoder`.
    """

    dialect = wire.DIALECT
    capabilities = CAPABILITIES

    def __init__(
        self,
        *,
        options: PageOptions = PageOptions(),  # noqa: B008 - frozen
        **shared: Unpack[EncodeOptions],
    ) -> None:
        super().__init__(**shared)
        self._client = options.page_client
        self._pending: dict[str, None] = {}  # calls of the client without a result
        self._run: dict[str, Any] = {}  # thread and run
        self._messages = 0  # number of ids given
        self._parent = ""  # message that calls belong to; "" before the first
        self._ids: dict[int, str] = {}  # id of the open message, span or call, by index
        # Start of a block's content frames, up to the text.
        self._heads: dict[int, bytes] = {}
        self._parts: dict[int, int] = {}  # open reasoning part, by index
        self._part_counts: dict[int, int] = {}  # messages of a span, by index
        self._citations: dict[int, list[dict[str, Any]]] = {}
        self._without_arguments: dict[int, None] = {}
        self._unanswered: dict[str, None] = {}  # calls that the provider has not answered
        self._kinds: dict[int, type] = {}
        self._call_ids: set[str] = set()
        # Calls of the client without arguments that have ended: whether they are whole is known by
        # what follows.
        self._unproven: list[str] = []
        self._arguments: dict[int, TextBuffer] = {}  # of open calls of the client
        self._cut: dict[str, str] = {}  # problems of calls that are not whole, without a result

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        return delta_frames(self._heads[index], _DELTA_END, self._arguments.get(index))

    def ping(self) -> bytes:
        return b": keep-alive\n\n"

    def error_body(self, error: StreamError) -> bytes:
        return dumps(error_to_wire(error))

    # Deltas

    def _text(self, event: TextDelta) -> bytes:
        return self._heads[event.index] + dumps(event.text) + _DELTA_END

    def _json(self, event: JSONDelta) -> bytes:
        self._without_arguments.pop(event.index, None)
        return self.delta_writer(event.index)(event.partial_json)

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        index = event.index
        turn = b""
        if self._parts.get(index) != event.part:
            turn = self._end_part(index, continues=True) + self._start_part(index, event.part)
        return turn + self._heads[index] + dumps(event.text) + _DELTA_END

    def _start_part(self, index: int, part: int) -> bytes:
        """Return the event that starts a message for one part of a reasoning block."""
        self._parts[index] = part
        count = self._part_counts[index] = self._part_counts.get(index, -1) + 1
        id = part_id(self._ids[index], count)
        self._heads[index] = _content_head(wire.REASONING_CONTENT, {"messageId": id})
        return _frame(wire.REASONING_START, {"messageId": id, "role": "reasoning"})

    def _end_part(self, index: int, *, continues: bool = False) -> bytes:
        """Return the event that ends the open message of a reasoning block, if one is open.

        Args:
            index: Index of the block.
            continues: Whether the next message is a further part of the block: the client sends
                messages without their span.
        """
        if self._parts.pop(index, None) is None:
            return b""
        mark = {"metadata": {wire.IS_CONTINUED: True}} if continues else {}
        return _frame(wire.REASONING_END, {"messageId": self._part_id(index), **mark})

    def _part_id(self, index: int) -> str:
        return part_id(self._ids[index], self._part_counts[index])

    def _signature(self, event: SignatureDelta) -> bytes:
        index, kind, written = event.index, self._kinds[event.index], b""
        entity, subtype = self._ids[index], "tool-call" if kind is ToolCall else "message"
        if kind is Reasoning:
            # The client loses a value whose message does not exist yet.
            if index not in self._parts:
                written = self._start_part(index, 0)
            entity = self._part_id(index)
        return written + _write_encrypted(subtype, entity, signature_to_wire(event))

    def _citation(self, event: CitationDelta) -> bytes:
        entry = citation_to_wire(event.citation)
        self._stored.add(OBJECT_BYTES + text_bytes(compact(entry)))
        self._citations.setdefault(event.index, []).append(entry)
        return b""

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        index, block = event.index, event.block
        self._kinds[index] = type(block)
        # Providers write one block after the other: one that follows proves those before it whole.
        self._unproven.clear()
        extra = self._vendor_fields(event.extra)
        match block:
            case ToolCall() | ServerToolCall():
                return self._start_call(index, block, extra)
            case ServerToolResult():
                return self._write_result(block, result_to_wire(block))
            case ToolResult():
                return self._write_result(block, self._client_result(block))
            case Reasoning():
                id = self._ids[index] = self._next_id()
                return _frame(wire.SPAN_START, {**extra, "messageId": id})
            case RedactedReasoning():
                # A value in a span without a message is lost by the client.
                id = self._ids[index] = self._next_id()
                return (
                    _frame(wire.SPAN_START, {"messageId": id})
                    + self._start_part(index, 0)
                    + _write_encrypted("message", self._part_id(index), redacted_to_wire(block))
                )
            case Text():
                id = self._ids[index] = self._parent = self._next_id()
                self._heads[index] = _content_head(wire.TEXT_CONTENT, {"messageId": id})
                fields = {**extra, "messageId": id, "role": "assistant"}
                return _frame(wire.TEXT_START, fields)
            case _:
                raise AssertionError(f"{type(block).__name__} passed the projection")

    def _start_call(
        self, index: int, call: ToolCall | ServerToolCall, extra: dict[str, Any]
    ) -> bytes:
        # A call without a parent becomes a message of its own; calls of one parent share it, and
        # it need not exist (`src/apply/default.ts`).
        self._parent = self._parent or self._next_id()
        self._add_call_id(call.id)
        self._ids[index] = call.id
        self._heads[index] = _content_head(wire.CALL_ARGS, {"toolCallId": call.id})
        self._without_arguments[index] = None
        fields = {
            **extra,
            "toolCallId": call.id,
            "toolCallName": call.name,
            "parentMessageId": self._parent,
        }
        if isinstance(call, ServerToolCall):
            self._unanswered[call.id] = None
            fields["metadata"] = mark_of(call)
        else:
            self._pending[call.id] = None
            self._arguments[index] = TextBuffer("", self._stored)
        return _frame(wire.CALL_START, fields)

    def _write_result(self, result: ServerToolResult | ToolResult, fields: dict[str, Any]) -> bytes:
        """Return the bytes of a result, preceded by its call if the thread lacks the call.

        The clients store the result of an unknown call, with which a thread is no history any
        more.  OpenAI's results of a shell name an id that their call has beside its own.
        """
        id, call = result.tool_call_id, b""
        # Google executes some calls of functions itself, which only the result says.
        for waiting in (self._pending, self._unanswered, self._cut):
            waiting.pop(id, None)
        if id not in self._call_ids and not self._has_earlier_call(result):
            self._add_call_id(id)
            self._parent = self._parent or self._next_id()
            name = result.kind if isinstance(result, ServerToolResult) else result.name
            start = {
                "toolCallId": id,
                "toolCallName": name or "tool",
                "parentMessageId": self._parent,
                "metadata": mark_of(ServerToolCall(id, "")),
            }
            call = _frame(wire.CALL_START, start)
            # Clients parse the arguments as JSON.
            call += _frame(wire.CALL_ARGS, {"toolCallId": id, "delta": "{}"})
            call += _frame(wire.CALL_END, {"toolCallId": id})
        return call + self._result(id, fields)

    def _has_earlier_call(self, result: ServerToolResult | ToolResult) -> bool:
        """Return whether an earlier run of the thread made the call of a result."""
        if self.earlier_calls is not None:
            return result.tool_call_id in self.earlier_calls
        # Only the application answers calls of an earlier run.
        return isinstance(result, ToolResult)

    def _add_call_id(self, id: str) -> None:
        self._stored.add(text_bytes(id) + OBJECT_BYTES)
        self._call_ids.add(id)

    def _client_result(self, result: ToolResult) -> dict[str, Any]:
        texts = [part.text for part in result.content if isinstance(part, Text)]
        if len(texts) < len(result.content):
            self._losses.add("media", "ToolResult", "dropped")
        content = "".join(texts)
        # What the event has no field for.
        marks = {wire.IS_ERROR: result.is_error, wire.IS_JSON: result.value == content}
        metadata = {name: True for name, is_so in marks.items() if is_so}
        return {"content": content, **({"metadata": metadata} if metadata else {})}

    def _result(self, call_id: str, fields: dict[str, Any]) -> bytes:
        ids = {"messageId": self._next_id(), "toolCallId": call_id}
        return _frame(wire.CALL_RESULT, {**ids, **fields, "role": "tool"})

    def _block_stop(self, event: BlockStop) -> bytes:
        index, kind = event.index, self._kinds.pop(event.index)
        id, written = self._ids.get(index, ""), b""
        if kind in (ToolCall, ServerToolCall):
            if kind is ToolCall:
                self._check_arguments(index, id)
            if index in self._without_arguments:  # clients parse the arguments as JSON
                written = self._json(JSONDelta(index, "{}"))
            written += _frame(wire.CALL_END, {"toolCallId": id})
        elif kind in (Reasoning, RedactedReasoning):
            written = self._end_part(index) + _frame(wire.SPAN_END, {"messageId": id})
        elif kind is Text:
            citations = self._citations.pop(index, None)
            metadata = {} if citations is None else {"metadata": {wire.CITATIONS: citations}}
            written = _frame(wire.TEXT_END, {"messageId": id, **metadata})
        self._heads.pop(index, None)
        self._ids.pop(index, None)
        return written

    def _check_arguments(self, index: int, id: str) -> None:
        """Record whether a client call that ends has complete arguments."""
        arguments = self._arguments.pop(index)
        text = arguments.text()
        arguments.release()
        if not text.strip():
            self._unproven.append(id)
        elif not is_json(text):
            self._cut[id] = BROKEN

    def _next_id(self) -> str:
        """Return a new message id, unique across roles and the runs of a thread."""
        self._messages += 1
        return f"{self._run.get(_RUN_ID, 'run')}-{self._messages}"

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        extra = self._vendor_fields(event.extra)
        asked = self.response_fields
        run_id = asked.get(_RUN_ID) or event.id or self.minted_id or "run"
        thread_id = asked.get(_THREAD_ID) or extra.get(_THREAD_ID) or f"thread-{run_id}"
        self._run = {_THREAD_ID: thread_id, _RUN_ID: run_id}
        metadata = {wire.MESSAGE_ID: event.id, wire.MODEL: self._name_model(event)}
        return _frame(wire.RUN_STARTED, {**extra, **self._run, "metadata": metadata})

    def _message_stop(self, event: MessageStop) -> bytes:
        self.end_answer(event)
        cut = self._answer_cut_calls()
        # The client takes an unanswered call for its own.
        pending = [self._result(id, unanswered_to_wire()) for id in self._unanswered]
        fields = {**self._vendor_fields(event.extra), **self._run, **self._usage_field()}
        fields["metadata"] = stop_to_wire(event)
        if self._reads_outcome and "outcome" not in fields:
            fields["outcome"] = outcome_to_wire(self._pending)
        return cut + b"".join(pending) + _frame(wire.RUN_FINISHED, fields)

    def end_answer(self, stop: MessageStop) -> bytes:
        if stop.reason == "max_tokens":
            # The bound of tokens may have cut them before their first argument (Anthropic), of
            # which only the stop reason tells.
            self._cut |= dict.fromkeys(self._unproven, NO_ARGUMENTS)
        self._unproven.clear()
        return b""

    def _answer_cut_calls(self) -> bytes:
        """Return an error result for each incomplete call without a result.

        The client would execute it.
        """
        results = [self._result(id, cut_to_wire(problem)) for id, problem in self._cut.items()]
        for id in self._cut:
            del self._pending[id]
        self._cut.clear()
        return b"".join(results)

    @property
    def _reads_outcome(self) -> bool:
        """Whether the client is known to accept pending calls in the `outcome` of a run.

        0.0.57 and 0.0.59 fail at `pendingToolCallIds`.
        """
        if self._client is not None:
            return self._client == "ag-ui@1"
        return str(self.response_fields.get(_VERSION, "")).startswith("1.")

    def _error(self, event: StreamError) -> bytes:
        if event.code == wire.CANCELLED and self._reads_outcome and self._run:
            open_calls = {ToolCall, ServerToolCall} & {*self._kinds.values()}
            # The end of a call would say that its arguments are whole.
            if not open_calls:
                return self._cancel()
        # With everything left open: the clients accept no other event than this one.
        return _frame(wire.RUN_ERROR, {**error_to_wire(event), **self._usage_field()})

    def _cancel(self) -> bytes:
        # The client fails at the end of a run where anything is open (`src/verify/verify.ts`).
        ends = [self._block_stop(BlockStop(index)) for index in [*self._kinds]]
        cut = self._answer_cut_calls()
        outcome = {"outcome": {"type": wire.CANCELLED}}
        fields = {**self._run, **self._usage_field(), **outcome}
        return b"".join(ends) + cut + _frame(wire.RUN_FINISHED, fields)

    def _usage_field(self) -> dict[str, Any]:
        usage = usage_to_wire(self.usage_by_model)
        return {"usage": usage} if usage else {}

    def _end_step(self) -> bytes:
        # The calls of the next answer belong to a message of their own.
        self._parent = ""
        return self._answer_cut_calls()

    def _opaque(self, event: Opaque) -> bytes:
        # The clients fail at an event without a type.
        if not string_of(object_in(event.data), "type"):
            self._losses.add("opaque", "event without a type", "dropped")
            return b""
        return event_to_wire(event)


def _frame(type: str, fields: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % dumps({"type": type, **fields})


def _content_head(type: str, id: dict[str, str]) -> bytes:
    return b'data: %b,"delta":' % dumps({"type": type, **id})[:-1]


def _write_encrypted(subtype: str, entity: str, value: str) -> bytes:
    fields = {"subtype": subtype, "entityId": entity, "encryptedValue": value}
    return _frame(wire.ENCRYPTED_VALUE, fields)
