"""Events to Chat Completions SSE.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).  The
official accumulators add up what they are sent: role, ids, types and names come once,
indexes of calls are dense from 0, and what is no part of a delta stands beside it.
`[DONE]` follows success and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Block, Reasoning, RedactedReasoning, Refusal, Text, ToolCall
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
from streamnorm._core.ids import tag_signature
from streamnorm._core.json import count_of
from streamnorm.dialects.openai_chat.annotations import Sources
from streamnorm.dialects.openai_chat.capabilities import CAPABILITIES
from streamnorm.dialects.openai_chat.details import Details, redacted_detail
from streamnorm.dialects.openai_chat.opaques import opaque_fields
from streamnorm.dialects.openai_chat.usage import usage_to_wire

__all__ = ["ChatEncoder"]

_dumps = msgspec.json.Encoder().encode

_DONE = b"data: [DONE]\n\n"
_PING = b": ping\n\n"
_OBJECT = "chat.completion.chunk"

_EMPTY_CHOICE: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}

_FINISHES = {
    "end_turn": "stop",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    409: ("conflict", None),
    413: ("invalid_request_error", None),
    422: ("invalid_request_error", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
    504: ("server_error", "timeout"),
    529: ("server_error", "overloaded"),
}


class _Answer(Struct):
    """One choice as it is written.

    Attributes:
        head: What stands in its chunks before the delta's content.
        sources: Sources of its text.
        calls: How many tool calls have started.
        details: Its reasoning blocks, where signatures are written.
        refused: Whether a refusal was written.
    """

    head: bytes
    sources: Sources
    details: Details
    calls: int = 0
    refused: bool = False


class _Slot(Struct):
    """Where the deltas of one block go.

    Attributes:
        answer: Its choice.
        block: The block.
        head: The constant beginning of its chunks, up to the text.
        tail: Their constant end.
        number: Index of the tool call.
        filled: Whether arguments were written.
        characters: Of its text so far, but for what `counted` tells.
        counted: How many the writer at hand has written.
    """

    answer: _Answer
    block: Block
    head: bytes = b""
    tail: bytes = b""
    number: int = -1
    filled: bool = False
    characters: int = 0
    counted: Callable[[], int] = int

    def settle(self) -> None:
        """Add up what the writer at hand has counted."""
        self.characters += self.counted()
        self.counted = int


class ChatEncoder(Encoder):
    """Write Chat Completions.

    Args:
        options: See `Encoder`.  Reasoning goes to `reasoning_content`, `reasoning`, or, with
            its signatures and who issued them, to `reasoning_details`; it is left out
            where `reasoning` is None.
    """

    dialect = "openai_chat"
    capabilities = CAPABILITIES

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self._include_usage = options.get("include_usage", True)
        self._field = options.get("reasoning", "reasoning_content")
        self._chunk: dict[str, Any] = {}  # the fields of every chunk but its choices
        self._first: dict[str, Any] = {}  # fields of the first chunk alone
        self._answers: dict[int, _Answer] = {}
        self._slots: dict[int, _Slot] = {}
        self._usage = Usage()
        self._stopped = False

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        slot = self._slots[index]
        head, tail = slot.head, slot.tail
        if not isinstance(slot.block, Text):
            return lambda text: head + _dumps(text) + tail

        slot.settle()
        characters = 0

        def write(text: str) -> bytes:
            nonlocal characters
            characters += len(text)
            return head + _dumps(text) + tail

        slot.counted = lambda: characters
        return write

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return _dumps(_error_of(error, extras=self.extras))

    def close(self) -> bytes:
        if not self._stopped:
            return b""
        self._stopped = False
        usage = b""
        if self._include_usage and self._usage != Usage():
            wire: dict[str, Any] = {
                "choices": [],
                "usage": usage_to_wire(self._usage, extras=self.extras),
            }
            usage = _frame({**self._chunk, **self._tiered(), **wire})
        return usage + _DONE

    # Deltas

    def _text(self, event: TextDelta) -> bytes:
        slot = self._slots[event.index]
        slot.characters += len(event.text)
        return slot.head + _dumps(event.text) + slot.tail

    def _reasoning(self, event: ReasoningDelta | RefusalDelta) -> bytes:
        slot = self._slots[event.index]
        return slot.head + _dumps(event.text) + slot.tail

    _refusal = _reasoning

    def _json(self, event: JSONDelta) -> bytes:
        slot = self._slots[event.index]
        slot.filled = True
        return slot.head + _dumps(event.partial_json) + slot.tail

    def _signature(self, event: SignatureDelta) -> bytes:
        slot = self._slots[event.index]
        if isinstance(slot.block, Reasoning):
            detail = slot.answer.details.signature(event.signature, event.issuer)
            return self._delta(slot.answer, {"reasoning_details": [detail]})
        # The field of Gemini's compatible endpoint; another vendor's value goes through it sealed.
        signature = event.signature
        if event.issuer != "google":
            signature = tag_signature(signature, event.issuer)
        signed = {"extra_content": {"google": {"thought_signature": signature}}}
        # The python SDK and LangChain fail at a piece of a call without its function.
        custom = isinstance(slot.block, ToolCall) and slot.block.kind == "custom"
        piece = {"custom": {"input": ""}} if custom else {"function": {"arguments": ""}}
        call = {"index": slot.number, **piece, **signed}
        return self._delta(slot.answer, {"tool_calls": [call]})

    def _citation(self, event: CitationDelta) -> bytes:
        slot = self._slots[event.index]
        slot.answer.sources.add(event.index, event.citation)
        return b""

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        answer, started = self._answer(event.choice)
        slot = self._slots[event.index] = _Slot(answer, event.block)
        match event.block:
            case Text():
                answer.sources.begin(event.index)
                self._shape(slot, b'"content":', b"")
            case Refusal():
                answer.refused = True
                self._shape(slot, b'"refusal":', b"")
            case Reasoning() if self._field == "reasoning_details":
                head = b'"reasoning_details":[{"type":"reasoning.text","index":%d,"text":'
                self._shape(slot, head % answer.details.begin(), b"}]")
            case Reasoning():
                self._shape(slot, b'"%b":' % (self._field or "").encode(), b"")
            case RedactedReasoning(data, issuer):
                detail = redacted_detail(data, issuer, answer.details.begin())
                return started + self._delta(answer, {"reasoning_details": [detail]})
            case ToolCall(id, name, kind=kind):
                return started + self._call_start(slot, id, name, kind)
            case block:
                raise AssertionError(f"{type(block).__name__} passed the projection")
        return started

    def _call_start(self, slot: _Slot, id: str, name: str, kind: str) -> bytes:
        slot.number = slot.answer.calls
        slot.answer.calls += 1
        field = "arguments" if kind == "function" else "input"
        owner = "function" if kind == "function" else "custom"
        head = b'"tool_calls":[{"index":%d,"%b":{"%b":'
        self._shape(slot, head % (slot.number, owner.encode(), field.encode()), b"}}]")
        call = {"index": slot.number, "id": id, "type": kind, owner: {"name": name, field: ""}}
        return self._delta(slot.answer, {"tool_calls": [call]})

    def _block_stop(self, event: BlockStop) -> bytes:
        slot = self._slots.pop(event.index)
        if isinstance(slot.block, Text):
            slot.settle()
            slot.answer.sources.end(event.index, slot.characters)
        if isinstance(slot.block, ToolCall) and not slot.filled and slot.block.kind == "function":
            return slot.head + b'"{}"' + slot.tail  # which every client can parse
        return b""

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        extra = dict(event.extra or {})
        created = extra.pop("created", extra.get("created_at"))  # as Responses calls it
        self._chunk = {
            "id": event.id,
            "object": _OBJECT,
            "created": count_of(created) or 0,
            "model": self._model or event.model,
        }
        self._note_tier(extra.pop("service_tier", None))
        self._first = extra if self.extras else {}
        return self._answer(0)[1]

    def _answer(self, choice: int) -> tuple[_Answer, bytes]:
        """Return a choice, and its first chunk if it has none yet."""
        answer = self._answers.get(choice)
        if answer is not None:
            return answer, b""
        head = _dumps({**self._chunk, "choices": []})[:-2] + b'{"index":%d,"delta":{' % choice
        answer = self._answers[choice] = _Answer(b"data: " + head, Sources(), Details())
        start = {"index": choice, "delta": {"role": "assistant", "content": None}}
        choices = [{**start, "finish_reason": None}]
        first, self._first = self._first, {}
        return answer, _frame({**first, **self._chunk, **self._tiered(), "choices": choices})

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        self._note_tier((event.usage.extra or {}).get("service_tier"))
        return b""

    def _message_stop(self, event: MessageStop) -> bytes:
        answer, started = self._answer(event.choice)
        self._stopped = True
        extra = dict(event.extra or {}) if self.extras else {}
        self._note_tier((event.extra or {}).get("service_tier"))
        finish = _FINISHES[event.reason]
        if event.reason == "refusal" and answer.refused:
            finish = "stop"  # the refusal itself says why
        choice: dict[str, Any] = {"index": event.choice, "delta": {}, "finish_reason": finish}
        if event.reason == "stop_sequence":
            choice["stop_reason"] = event.stop_sequence  # as vLLM tells it
        sources = answer.sources.annotations()
        told = self._delta(answer, {"annotations": sources}) if sources else b""
        extra.pop("service_tier", None)
        return (
            started + told + _frame({**extra, **self._chunk, **self._tiered(), "choices": [choice]})
        )

    def _error(self, event: StreamError) -> bytes:
        self._stopped = False
        return _frame(_error_of(event, extras=self.extras))

    def _opaque(self, event: Opaque) -> bytes:
        slot = self._slots.get(event.index) if event.index is not None else None
        answer = slot.answer if slot is not None else self._answers.get(0)
        fields = opaque_fields(event)
        if fields is None or answer is None:
            # Every client takes every frame for a chunk, and fails at what is no object.
            if event.data.lstrip().startswith("{"):
                return b"data: %b\n\n" % _one_line(event.data)
            self._losses.add("opaque", event.name, "no object, dropped")
            return b""
        place, value = fields
        if place == "end":
            answer.sources.add_whole(value["annotations"])
            return b""
        if place == "chunk":  # a chunk without choices is one of usage
            return _frame({**value, **self._chunk, "choices": [_EMPTY_CHOICE]})
        if place == "delta":
            return self._delta(answer, value)
        head = answer.head + b"}," + _dumps(value)[1:-1]
        return head + b',"finish_reason":null}]}\n\n'

    # Chunks

    def _shape(self, slot: _Slot, head: bytes, tail: bytes) -> None:
        slot.head = slot.answer.head + head
        slot.tail = tail + b'},"finish_reason":null}]}\n\n'

    def _delta(self, answer: _Answer, delta: dict[str, Any]) -> bytes:
        return answer.head + _dumps(delta)[1:-1] + b'},"finish_reason":null}]}\n\n'


def _frame(payload: dict[str, Any]) -> bytes:
    return b"data: " + _dumps(payload) + b"\n\n"


def _one_line(data: str) -> bytes:
    # A line end, which JSON has only between its tokens, would end the frame's line.
    return data.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace")


def _error_of(error: StreamError, *, extras: bool) -> dict[str, Any]:
    type, code = _ERRORS.get(error.status_hint or 0, ("server_error", None))
    if error.status_hint is not None and 400 <= error.status_hint < 500:
        type = _ERRORS.get(error.status_hint, ("invalid_request_error", None))[0]
    told = error.code if error.kind == "upstream" else error.kind
    if extras and error.kind == "upstream":  # one of this dialect, with words of its own
        own = {"type": type, "param": None, **(error.extra or {}), "code": told}
        return {"error": {"message": error.message, **own}}
    return {"error": {"message": error.message, "type": type, "param": None, "code": code or told}}
