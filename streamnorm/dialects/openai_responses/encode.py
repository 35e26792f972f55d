"""Events to OpenAI Responses SSE.

https://platform.openai.com/docs/api-reference/responses-streaming (read 2026-11-21).  Every
item is added, filled and done, and the last event holds them all again: some clients
read the pieces, others the items alone, others the end.  No `[DONE]`: the API sends none.
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
    Usage,
    UsageUpdate,
)
from streamnorm._core.ids import seal_reasoning, tag_signature
from streamnorm._core.json import FAST_ERRORS, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm.dialects.openai_responses import encode_items as items
from streamnorm.dialects.openai_responses.capabilities import CAPABILITIES
from streamnorm.dialects.openai_responses.encode_frames import Frames, dumps
from streamnorm.dialects.openai_responses.encode_message import Message, Part
from streamnorm.dialects.openai_responses.encode_response import (
    error_fields,
    response_id,
    skeleton,
    usage_to_wire,
)

__all__ = ["ResponsesEncoder"]

# What is kept for the last event; clients put it together themselves where it is missing.
MAX_KEPT_BYTES = Limits().max_accumulated_bytes
MAX_EARLY = 16

_COMMENT = b": ping\n\n"
_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}

_Slot = Part | items.Reasoning | items.Call | items.ServerCall


class ResponsesEncoder(Encoder):
    """Write OpenAI Responses.

    Keeps what was written, since the last event holds it again.

    Args:
        options: See `Encoder`.
    """

    dialect = "openai_responses"
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._frames = Frames()
        self._response = skeleton(response_id(""), self._model or "", 0, {})
        self._usage: Usage | None = None
        self._begun = self._ended = False
        self._early: list[Opaque] = []  # what came before it began, which no client takes
        self._next = 0
        self._ids: set[str] = set()
        # The open blocks: all of them, and those of a kind.
        self._slots: dict[int, _Slot] = {}
        self._wholes: dict[int, items.WholeItem] = {}
        self._parts: dict[int, Part] = {}
        self._thoughts: dict[int, items.Reasoning] = {}
        self._places: dict[int, dict[str, Any]] = {}
        self._message: Message | None = None  # the last one, if more may come
        self._done: dict[int, bytes] = {}
        self._kept = 0
        self._called = self._refused = False

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        slot = self._slots[index]
        return slot.more if isinstance(slot, items.Reasoning) else slot.write

    def resume_after_passthrough(self, start: MessageStart, next_sequence_number: int) -> None:
        self._take_start(start)
        self._frames.continue_from(next_sequence_number)

    def ping(self) -> bytes:
        # Codex waits on only where an event comes; but none may come before the first.
        live = self._begun and not self._ended
        return self._frames.write("keepalive", {}) if live else _COMMENT

    def error_body(self, error: StreamError) -> bytes:
        return dumps({"error": error_fields(error, extras=self.extras)})

    def close(self) -> bytes:
        return b""

    # Deltas

    def _text(self, event: TextDelta | RefusalDelta) -> bytes:
        return self._slots[event.index].write(event.text)

    _refusal = _text

    def _json(self, event: JSONDelta) -> bytes:
        return self._slots[event.index].write(event.partial_json)

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        return self._thoughts[event.index].write(event.text, event.part)

    def _signature(self, event: SignatureDelta) -> bytes:
        self._thoughts[event.index].sign(_sealed(event.signature, event.issuer))
        return b""

    def _citation(self, event: CitationDelta) -> bytes:
        return self._parts[event.index].cite(event.citation)

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        index, extra = event.index, dict(event.extra or {}) if self.extras else {}
        match event.block:
            case Text():
                return self._part(index, extra, "output_text", "text")
            case Refusal():
                self._refused = True
                return self._part(index, extra, "refusal", "refusal")
            case Reasoning() | RedactedReasoning() as block:
                thought = items.Reasoning(*self._place("reasoning", extra))
                self._thoughts[index] = thought
                if isinstance(block, RedactedReasoning):
                    thought.sign(seal_reasoning(block.data, block.issuer))
                return self._begin(index, thought)
            case ToolCall() as block:
                self._called = True
                kind = "custom_tool_call" if block.kind == "custom" else "function_call"
                return self._begin(index, items.Call(*self._place(kind, extra), block))
            case ServerToolCall() as block:
                extra.setdefault("item_id", block.id)
                return self._begin(index, items.ServerCall(*self._place(block.kind, extra), block))
            case ServerToolResult() as block:
                return self._whole(index, _result(block, extra))
            case OpaqueBlock(data=data) if "item_id" in (event.extra or {}):
                return self._whole_part(index, extra, data)
            case OpaqueBlock(data=data):
                return self._whole(index, data)
            case block:
                raise AssertionError(f"{type(block).__name__} passed the projection")

    def _block_stop(self, event: BlockStop) -> bytes:
        whole = self._wholes.pop(event.index, None)
        if whole is not None:
            self._keep_bytes(whole.number, whole.item)
            return whole.stop()
        slot = self._slots.pop(event.index, None)
        if slot is None:  # a part that came whole
            return b""
        self._parts.pop(event.index, None)
        self._thoughts.pop(event.index, None)
        written = b""
        if isinstance(slot, items.ServerCall):
            told = [slot.reveal(), *(self._renewed(late) for late in slot.waiting)]
            written = b"".join(told)
        written += slot.stop()
        self._keep(slot.message if isinstance(slot, Part) else slot)
        return written

    def _part(self, index: int, extra: dict[str, Any], kind: str, field: str) -> bytes:
        """Return the start of a part, of the message before if it says so."""
        more = extra.pop("part", {})
        message, begun = self._message_of(extra)
        part = self._slots[index] = self._parts[index] = message.part(kind, field, more)
        self._places[index] = part.place
        return begun + part.start()

    def _whole_part(self, index: int, extra: dict[str, Any], data: str) -> bytes:
        """Return the events of a part that only this dialect knows, as JSON text."""
        message, begun = self._message_of(extra)
        written = message.whole(_one_line(data))
        self._places[index] = message.place
        self._keep(message)
        return begun + written

    def _message_of(self, extra: dict[str, Any]) -> tuple[Message, bytes]:
        """Return the message that a part belongs to, and its first event if it is new."""
        id, message = extra.get("item_id"), self._message
        if message is not None and message.id == id:
            return message, b""
        released = self._release()
        message = Message(*self._place("message", extra))
        message.shared = message.id == id
        self._message = message if message.shared else None
        return message, released + message.start()

    def _begin(self, index: int, item: items.Reasoning | items.Call | items.ServerCall) -> bytes:
        self._slots[index] = item
        self._places[index] = item.place
        return self._release() + item.start()

    def _whole(self, index: int, data: str) -> bytes:
        """Return the start of an item that comes whole, as JSON text."""
        number = self._take_number()
        item = self._wholes[index] = items.WholeItem(self._frames, number, _one_line(data))
        self._places[index] = item.place
        return self._release() + item.start()

    def _release(self) -> bytes:
        """End the message that another block could have continued."""
        message, self._message = self._message, None
        if message is None:
            return b""
        written = message.release()
        self._keep(message)
        return written

    def _place(self, kind: str, extra: dict[str, Any]) -> tuple[Frames, int, str, dict[str, Any]]:
        """Return what the next item is made of."""
        number, id = self._take_number(), extra.pop("item_id", None)
        if not isinstance(id, str) or not id or id in self._ids:
            stem = str(self._response["id"]).removeprefix("resp_")
            id = f"{_PREFIXES.get(kind, 'item')}_{stem}_{number}"
        self._ids.add(id)
        return self._frames, number, id, extra

    def _take_number(self) -> int:
        self._next += 1
        return self._next - 1

    def _keep(self, item: items.Item) -> None:
        """Keep an item for the last event, if it is done."""
        if item.done is not None:
            self._keep_bytes(item.number, item.done)

    def _keep_bytes(self, number: int, item: bytes) -> None:
        if self._room(len(item)):
            self._done[number] = item
        else:
            self._done.clear()

    def _room(self, size: int) -> bool:
        """Tell whether so much more may be kept."""
        self._kept += size
        return self._kept <= MAX_KEPT_BYTES

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        self._take_start(event)
        begun = {"response": self._snapshot("in_progress", output=[])}
        names = ("response.created", "response.in_progress")
        return b"".join([self._frames.write(name, begun) for name in names]) + self._flush()

    def _take_start(self, event: MessageStart) -> None:
        extra = dict(event.extra or {})
        self._note_tier(extra.pop("service_tier", None))
        model = self._model or event.model
        created = extra.get("created_at", extra.get("created"))
        told = extra if self.extras else {}
        id = event.id if self.extras and event.id else response_id(event.id)
        self._response = skeleton(id, model, created, told)
        self._begun = True

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        self._note_tier((event.usage.extra or {}).get("service_tier"))
        return b""

    def _message_stop(self, event: MessageStop) -> bytes:
        extra = dict(event.extra or {})
        self._note_tier(extra.pop("service_tier", None))
        released = self._release()
        why = self._incomplete(event)
        status = "completed" if why is None else "incomplete"
        told: dict[str, Any] = extra if self.extras else {}
        if why is not None:
            told["incomplete_details"] = {"reason": why}
        usage = usage_to_wire(self._usage or Usage(), extras=self.extras)
        return released + self._end(status, {**told, "usage": usage})

    def _incomplete(self, event: MessageStop) -> str | None:
        """Return why a response is incomplete; None if it is complete."""
        if event.reason == "max_tokens":
            return "max_output_tokens"
        # A refusal says of itself why the response ended; calls beside it hide that.
        if event.reason == "refusal" and (self._called or not self._refused):
            return "content_filter"
        return event.raw_reason if event.reason == "other" else None  # a word of its own

    def _error(self, event: StreamError) -> bytes:
        error = error_fields(event, extras=self.extras)
        # Some read the error in its own field, some beside it, Codex only the failure.
        beside = {key: error[key] for key in ("code", "message", "param")}
        told = self._flush() + self._frames.write("error", {**beside, "error": error})
        usage = None if self._usage is None else usage_to_wire(self._usage, extras=self.extras)
        failure = {"code": error["code"], "message": error["message"]}
        return told + self._end("failed", {"error": failure, "usage": usage})

    def _end(self, status: str, told: dict[str, Any]) -> bytes:
        """Return the last event, with all the items that are done."""
        self._ended = True
        whole: dict[str, Any] = {"id": self._response["id"], **told}
        if self._kept <= MAX_KEPT_BYTES:
            whole["output"] = [msgspec.Raw(self._done[n]) for n in sorted(self._done)]
        response = self._snapshot(status, **whole)
        return self._frames.write(f"response.{status}", {"response": response})

    def _snapshot(self, status: str, **told: Any) -> dict[str, Any]:
        """Return the response as it is now."""
        return {**self._response, "usage": None, **told, **self._tiered(), "status": status}

    # Data of this dialect

    def _opaque(self, event: Opaque) -> bytes:
        if not self._begun:
            if len(self._early) < MAX_EARLY:
                self._early.append(event)
            else:
                self._losses.add("opaque", event.name, "before the message, dropped")
            return b""
        if event.name == "logprobs":
            return self._logprobs(event)
        slot = self._slots.get(event.index) if event.index is not None else None
        if isinstance(slot, items.ServerCall) and not slot.told:
            if self._room(len(event.data)):
                slot.waiting.append(event)
            else:
                self._losses.add("held", event.name, "dropped")
            return b""
        return self._renewed(event)

    def _renewed(self, event: Opaque) -> bytes:
        """Return an event with the numbers and ids that are those of its item here."""
        place = self._places.get(event.index, {}) if event.index is not None else {}
        written = self._frames.renew(event.name, event.data, place)
        if written is None:
            self._losses.add("opaque", event.name, "no object, dropped")
        return written or b""

    def _logprobs(self, event: Opaque) -> bytes:
        """Return the tokens of text that was written."""
        part = self._parts.get(event.index) if event.index is not None else None
        try:
            tokens = msgspec.json.decode(event.data)
        except FAST_ERRORS:
            tokens = None
        if part is None or not is_array(tokens):
            self._losses.add("opaque", event.name, "no text, dropped")
            return b""
        return part.tell(tokens, keep=self._room(len(event.data)))

    def _flush(self) -> bytes:
        """Return what waited for the response to begin."""
        waiting, self._early = self._early, []
        return b"".join([self._renewed(event) for event in waiting])


def _one_line(data: str) -> bytes:
    # A line end, which JSON has only between its tokens, would end the frame's line.
    return data.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace")


def _sealed(signature: str, issuer: str | None) -> str:
    """Return a signature as OpenAI's clients give it back, whoever can read it."""
    return signature if issuer == "openai" else tag_signature(signature, issuer)


def _result(block: ServerToolResult, extra: dict[str, Any]) -> str:
    """Return a result as an item."""
    content = block.content
    if is_object(content) and content.get("type") == block.kind:
        return dumps(content).decode()
    id = extra.get("item_id")
    known = {"id": id} if id is not None else {}
    item = {**known, "type": block.kind, "call_id": block.tool_call_id, "output": content}
    return dumps(item).decode()
