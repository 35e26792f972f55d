"""Encoder of OpenAI Responses, and the response object in its events.

https://platform.openai.com/docs/api-reference/responses/object (read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import msgspec

from streamnorm._core.blocks import (
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
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
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    UsageUpdate,
)
from streamnorm._core.json import dumps, is_array, is_object
from streamnorm._core.limits import USUAL_FIELDS_BYTES, Limits, text_bytes
from streamnorm._core.text import Signed, digest_id, escape_id
from streamnorm.dialects.openai_responses.content import (
    event_to_wire,
    logprobs_to_wire,
    opaque_to_wire,
    redacted_to_wire,
    signature_to_wire,
)
from streamnorm.dialects.openai_responses.encode_items import (
    FrameWriter,
    ItemHead,
    ItemWriter,
    MessageWriter,
    PartWriter,
    ReasoningWriter,
    ServerCallWriter,
    ToolCallWriter,
    WholeItemWriter,
)
from streamnorm.dialects.openai_responses.items import types
from streamnorm.dialects.openai_responses.items.tool_calls import result_to_wire
from streamnorm.dialects.openai_responses.outcome import (
    error_to_wire,
    stop_reason_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.openai_responses.traits import CAPABILITIES

# Bound on events of this dialect that arrive before the message starts.
MAX_EARLY_EVENTS = 16

_COMMENT = b": ping\n\n"

_PREFIX = "resp_"
_MAX_ID_CHARS = Limits().max_id_chars
_FOREIGN_PREFIXES = ("chatcmpl-", "msg_", "gen-")

# Every key that the compliance suite of Open Responses requires, with its value for a request
# without options.
_DEFAULTS: dict[str, Any] = {
    "background": False,
    "completed_at": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}

# Fields whose value in the response reports the outcome, not the request.
_NOT_ECHOED = frozenset(
    {
        *("background", "completed_at", "error", "incomplete_details", "previous_response_id"),
        *("service_tier", "store"),
    }
)
# Fields of a function that a response always has.
_FUNCTION: dict[str, Any] = {"description": None, "parameters": None, "strict": None}

_BlockWriter = PartWriter | ReasoningWriter | ToolCallWriter | ServerCallWriter


class ResponsesEncoder(Encoder):
    """Encoder of OpenAI Responses.

    Stores complete items, which the terminal event repeats.

    Args:
        options: See `Encoder`.

    Attributes:
        complete: The response of the terminal event; {} before it.
        failure: The error that ended the message; None without an error.
    """

    dialect = "openai_responses"
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self.complete: dict[str, Any] = {}
        self.failure: StreamError | None = None
        self._frames = FrameWriter()
        self._response: dict[str, Any] = {}
        self._has_usage = self._is_started = self._is_ended = False
        self._early: list[Opaque] = []  # no client accepts an event before response.created
        self._next_output_index = 0
        self._item_ids: set[str] = set()
        # Open blocks by index: all but whole items, then by kind.
        self._writers: dict[int, _BlockWriter] = {}
        self._whole_items: dict[int, WholeItemWriter] = {}
        self._parts: dict[int, PartWriter] = {}
        self._reasonings: dict[int, ReasoningWriter] = {}
        self._positions: dict[int, dict[str, Any]] = {}  # stopped blocks included
        self._message: MessageWriter | None = None  # the last one, if it accepts parts
        self._done: dict[int, bytes] = {}  # complete items by output index
        self._unfinished_calls: list[ToolCallWriter] = []
        self._has_tool_call = self._has_refusal = False

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        reasoning = self._reasonings.get(index)
        return self._writers[index].write if reasoning is None else reasoning.delta_writer

    def resume_after_passthrough(self, start: MessageStart, next_sequence_number: int) -> None:
        self._set_response(start)
        self._frames.next_number = next_sequence_number

    def ping(self) -> bytes:
        # Only an event resets Codex's timeout; but none may precede response.created.
        is_live = self._is_started and not self._is_ended
        return self._frames.write("keepalive", {}) if is_live else _COMMENT

    def error_body(self, error: StreamError) -> bytes:
        return dumps({"error": error_to_wire(error, extras=self.extras)})

    # Deltas

    def _text(self, event: TextDelta | RefusalDelta) -> bytes:
        return self._writers[event.index].write(event.text)

    _refusal = _text

    def _json(self, event: JSONDelta) -> bytes:
        return self._writers[event.index].write(event.partial_json)

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        return self._reasonings[event.index].write(event.text, event.part)

    def _signature(self, event: SignatureDelta) -> bytes:
        item = self._reasonings[event.index]
        signed = Signed(event.signature, event.issuer, event.id)
        item.sign(signature_to_wire(signed, item.id))
        return b""

    def _citation(self, event: CitationDelta) -> bytes:
        return self._parts[event.index].cite(event.citation)

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        index, extra = event.index, self._vendor_fields(event.extra)
        match event.block:
            case Text():
                return self._start_part(index, extra, types.OUTPUT_TEXT)
            case Refusal():
                self._has_refusal = True
                return self._start_part(index, extra, types.REFUSAL)
            case Reasoning() | RedactedReasoning() as block:
                reasoning = ReasoningWriter(self._new_item("reasoning", extra))
                self._reasonings[index] = reasoning
                if isinstance(block, RedactedReasoning):
                    reasoning.sign(redacted_to_wire(block))
                return self._start_item(index, reasoning)
            case ToolCall() as block:
                self._has_tool_call = True
                item_type = "custom_tool_call" if block.kind == "custom" else "function_call"
                call = ToolCallWriter(self._new_item(item_type, extra), block)
                return self._start_item(index, call)
            case ServerToolCall() as block:
                extra.setdefault("item_id", block.id)
                server_call = ServerCallWriter(self._new_item(block.kind, extra), block)
                return self._start_item(index, server_call)
            case ServerToolResult() as block:
                item = dumps(result_to_wire(block, extra.get("item_id")))
                return self._start_whole_item(index, item)
            case OpaqueBlock(data=data) if "item_id" in (event.extra or {}):
                return self._write_whole_part(index, extra, data)
            case OpaqueBlock(data=data):
                return self._start_whole_item(index, opaque_to_wire(data))
            case block:
                raise AssertionError(f"{type(block).__name__} passed the projection")

    def _block_stop(self, event: BlockStop) -> bytes:
        whole_item = self._whole_items.pop(event.index, None)
        if whole_item is not None:
            self._done[whole_item.output_index] = whole_item.item
            return whole_item.stop()
        match self._writers.pop(event.index, None):
            case None:  # a part of an unknown type, written whole at its start
                return b""
            case PartWriter() as part:
                del self._parts[event.index]
                written, item = part.stop(), part.message
            case ToolCallWriter() as item:
                item.is_unfinished = event.is_unfinished
                written = item.stop()
                if item.is_unfinished:
                    self._unfinished_calls.append(item)
            case ReasoningWriter() as item:
                del self._reasonings[event.index]
                written = item.stop()
            case item:
                written = item.write_late_added()
                written += b"".join([self._write_opaque(held) for held in item.held])
                written += item.stop()
        self._store_done(item)
        return written

    def _start_part(self, index: int, extra: dict[str, Any], part_type: types.TextType) -> bytes:
        """Return the events that start a part in the last message item or in a new message item."""
        part_extra = extra.pop("part", {})
        message, started = self._message_for(extra)
        part = message.part(part_type, part_extra)
        self._writers[index] = self._parts[index] = part
        self._positions[index] = part.position
        return started + part.start()

    def _write_whole_part(self, index: int, extra: dict[str, Any], data: str) -> bytes:
        """Return the events of a complete content part of an unknown type."""
        message, started = self._message_for(extra)
        written = message.write_whole(opaque_to_wire(data))
        self._positions[index] = message.position
        self._store_done(message)
        return started + written

    def _message_for(self, extra: dict[str, Any]) -> tuple[MessageWriter, bytes]:
        """Return the message item for a part, and the events to write before the part."""
        id, message = extra.get("item_id"), self._message
        if message is not None and message.id == id:
            return message, b""
        released = self._release_message()
        message = MessageWriter(self._new_item("message", extra))
        message.accepts_parts = message.id == id
        self._message = message if message.accepts_parts else None
        return message, released + message.start()

    def _start_item(
        self, index: int, item: ReasoningWriter | ToolCallWriter | ServerCallWriter
    ) -> bytes:
        self._writers[index] = item
        self._positions[index] = item.position
        return self._release_message() + item.start()

    def _start_whole_item(self, index: int, item: bytes) -> bytes:
        self._stored.add(len(item))
        writer = WholeItemWriter(self._frames, self._take_output_index(), item)
        self._whole_items[index] = writer
        self._positions[index] = writer.position
        return self._release_message() + writer.start()

    def _release_message(self) -> bytes:
        """Return the events that end the message left open for parts; b"" if no message is open."""
        message, self._message = self._message, None
        if message is None:
            return b""
        written = message.release()
        self._store_done(message)
        return written

    def _new_item(self, item_type: str, extra: dict[str, Any]) -> ItemHead:
        """Return the head of a new item, with the id in `extra` if no earlier item has this id."""
        output_index, id = self._take_output_index(), extra.pop("item_id", None)
        if not isinstance(id, str) or not id or id in self._item_ids:
            stem = str(self._response["id"]).removeprefix("resp_")
            id = f"{types.item_type_of(item_type).id_prefix}_{stem}_{output_index}"
        self._stored.add(max(text_bytes(id) - USUAL_FIELDS_BYTES, 0))
        self._item_ids.add(id)
        return ItemHead(self._frames, output_index, id, extra, self._stored)

    def _take_output_index(self) -> int:
        self._next_output_index += 1
        return self._next_output_index - 1

    def _store_done(self, item: ItemWriter) -> None:
        """Store a complete item for the terminal event."""
        if item.done is not None:
            self._done[item.output_index] = item.done

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        self._set_response(event)
        response = dumps(self._snapshot("in_progress", output=[]))
        fields = {"response": msgspec.Raw(response)}
        types = ("response.created", "response.in_progress")
        return b"".join([self._frames.write(type, fields) for type in types]) + self._write_early()

    def _set_response(self, event: MessageStart) -> None:
        extra = dict(event.extra or {})
        self._note_tier(extra.pop("service_tier", None))
        model = self._model or event.model
        created_at = extra.get("created_at", extra.get("created"))
        created_at = self.response_fields.get("created_at", created_at)
        id = event.id if self.extras and event.id else response_id(event.id)
        id = self.response_fields.get("id", id)
        fields = {**(extra if self.extras else {}), **self.response_fields}
        self._response = initial_response(id, model, created_at, fields)
        self._is_started = True

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._has_usage = True
        return super()._usage_update(event)

    def _message_stop(self, event: MessageStop) -> bytes:
        extra = dict(event.extra or {})
        self._note_tier(extra.pop("service_tier", None))
        released = self._release_message()
        for call in self._unfinished_calls:
            # A server that does not state that the model called tools may have lost the rest.
            is_whole = event.reason == "tool_use"
            released += call.stop_unfinished("completed" if is_whole else "incomplete")
            self._store_done(call)
        reason = stop_reason_to_wire(
            event, has_tool_call=self._has_tool_call, has_refusal=self._has_refusal
        )
        fields: dict[str, Any] = extra if self.extras else {}
        if reason is not None:
            fields["incomplete_details"] = {"reason": reason}
        usage = usage_to_wire(self._usage, extras=self.extras)
        status = "completed" if reason is None else "incomplete"
        return released + self._write_terminal(status, {**fields, "usage": usage})

    def _error(self, event: StreamError) -> bytes:
        self.failure = event
        if not self._is_started:
            self._response = initial_response(response_id(""), self._model or "", 0, {})
        error = error_to_wire(event, extras=self.extras)
        # Clients read the error nested or flat; Codex reads `response.failed` alone.
        flat = {key: error[key] for key in ("code", "message", "param")}
        written = self._write_early() + self._frames.write("error", {**flat, "error": error})
        usage = usage_to_wire(self._usage, extras=self.extras) if self._has_usage else None
        failure = {"code": error["code"], "message": error["message"]}
        return written + self._write_terminal("failed", {"error": failure, "usage": usage})

    def _write_terminal(self, status: str, fields: dict[str, Any]) -> bytes:
        """Return the terminal event, with all complete items."""
        self._is_ended = True
        fields = {"id": self._response["id"], **fields, **self.response_fields}
        # A failed response is not stored, unless it was made in the background: its client finds
        # it under its id.
        if status == "failed" and "store" in fields and not fields.get("background"):
            fields["store"] = False
        fields["output"] = [msgspec.Raw(item) for _, item in sorted(self._done.items())]
        self.complete = self._snapshot(status, **fields)
        return self._frames.write(f"response.{status}", {"response": self.complete})

    def _snapshot(self, status: str, **fields: Any) -> dict[str, Any]:
        """Return the current response object."""
        return {**self._response, "usage": None, **fields, **self._tier_field, "status": status}

    # Events of this dialect

    def _opaque(self, event: Opaque) -> bytes:
        if not self._is_started:
            if len(self._early) < MAX_EARLY_EVENTS:
                self._stored.add(text_bytes(event.data))
                self._early.append(event)
            else:
                self._losses.add("opaque", event.name, "before the message, dropped")
            return b""
        if event.name == "logprobs":
            return self._write_logprobs(event)
        writer = self._writers.get(event.index) if event.index is not None else None
        if isinstance(writer, ServerCallWriter) and not writer.is_added:
            writer.hold(event)
            return b""
        return self._write_opaque(event)

    def _write_opaque(self, event: Opaque) -> bytes:
        """Return the wire event of an opaque event, with ids and indexes of its written item."""
        position = self._positions.get(event.index, {}) if event.index is not None else {}
        typed_fields = event_to_wire(event, position)
        if typed_fields is None:
            self._losses.add("opaque", event.name, "no object, dropped")
            return b""
        return self._frames.write(*typed_fields)

    def _write_logprobs(self, event: Opaque) -> bytes:
        part = self._parts.get(event.index) if event.index is not None else None
        logprobs = logprobs_to_wire(event)
        if part is None or logprobs is None:
            self._losses.add("opaque", event.name, "no text, dropped")
            return b""
        return part.write_logprobs(logprobs)

    def _write_early(self) -> bytes:
        """Return the opaque events that arrived before the message start, as bytes."""
        early, self._early = self._early, []
        self._stored.release(sum(text_bytes(event.data) for event in early))
        return b"".join([self._write_opaque(event) for event in early])


def echoed_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the request fields that a response echoes, completed with defaults."""
    echoed: dict[str, Any] = {}
    for name, default in _DEFAULTS.items():
        value = body.get(name)
        if value is None or name in _NOT_ECHOED:
            continue
        if name == "tools" and is_array(value):
            echoed[name] = [_echo_tool(tool) for tool in value]
        elif is_object(value) and is_object(default):
            echoed[name] = {**default, **value}
        else:
            echoed[name] = value
    return echoed


def _echo_tool(tool: object) -> object:
    if is_object(tool) and tool.get("type") == "function":
        return {**_FUNCTION, **tool}
    return tool


def response_id(message_id: str) -> str:
    """Return a message's id in the form of a response id, with the prefix `resp_`."""
    if message_id.startswith(_PREFIX):
        return message_id
    prefix = next((prefix for prefix in _FOREIGN_PREFIXES if message_id.startswith(prefix)), "")
    id = _PREFIX + escape_id(message_id.removeprefix(prefix) or "0")
    # Nobody reads the message's own id out of it again.
    return id if len(id) <= _MAX_ID_CHARS else _PREFIX + digest_id(message_id)


def initial_response(
    id: str, model: str, created_at: object, extra: dict[str, Any]
) -> dict[str, Any]:
    """Return a response object without status, output and usage.

    Args:
        id: The id.
        model: Name of the model.
        created_at: Unix time in seconds; 0 is written for values of other types.
        extra: Fields of the source's first response.
    """
    fixed = {
        "id": id,
        "object": "response",
        "created_at": created_at if isinstance(created_at, int | float) else 0,
        "model": model,
    }
    # `fixed` comes first for the order of the keys, and last to win over `extra`.
    return {
        **fixed,
        **_DEFAULTS,
        **extra,
        **fixed,
        "error": None,
        "incomplete_details": None,
    }
