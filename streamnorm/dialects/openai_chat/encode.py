"""Encoder of Chat Completions.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).  The
official accumulators join what they receive: role, ids, types and names are sent once, and
calls are numbered densely from 0.  `[DONE]` follows success alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from msgspec import Struct, field

from streamnorm._core.blocks import Block, Reasoning, RedactedReasoning, Refusal, Text, ToolCall
from streamnorm._core.codec import EncodeOptions, Encoder
from streamnorm._core.codec.templates import counted_delta_frames, delta_frames
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
)
from streamnorm._core.json import count_of, dumps, encode_line
from streamnorm._core.text import Signed
from streamnorm.dialects.openai_chat.content import Annotations, ReasoningDetails, opaque_to_wire
from streamnorm.dialects.openai_chat.options import FIELDS, ChatOptions
from streamnorm.dialects.openai_chat.outcome import (
    error_to_wire,
    stop_reason_to_wire,
    usage_to_wire,
)
from streamnorm.dialects.openai_chat.tool_calls import (
    arguments_frame,
    call_signature_to_wire,
    call_start_to_wire,
)
from streamnorm.dialects.openai_chat.traits import CAPABILITIES

_DONE = b"data: [DONE]\n\n"
# A comment: openai-python raises at an event without data, and skips comments (3.54.0, read
# 2026-11-21).
_PING = b": ping\n\n"
_OBJECT = "chat.completion.chunk"

_EMPTY_CHOICE: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}
_CHOICE_END = b',"finish_reason":null}]}\n\n'
_DELTA_END = b"}" + _CHOICE_END


class _EncodedChoice(Struct):
    """Encoding state of one choice.

    Attributes:
        head: Constant beginning of its chunks, up to the delta's content.
        annotations: Citations of its text.
        details: Numbering of its reasoning blocks.
        lists: Numbers of entries of the vendor's lists in the message, such as images.
        calls: Number of tool calls that have started.
        is_refused: Whether a refusal was written.
    """

    head: bytes
    annotations: Annotations
    details: ReasoningDetails = field(default_factory=ReasoningDetails)
    lists: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    is_refused: bool = False

    def delta(self, delta: dict[str, Any]) -> bytes:
        """Return a chunk with a delta."""
        return self.head + dumps(delta)[1:-1] + _DELTA_END


class _EncodedBlock(Struct):
    """Encoding state of one block.

    Attributes:
        choice: The choice.
        block: The block.
        head: Constant beginning of its chunks, up to the text.
        tail: Constant end of its chunks.
        number: Index of the tool call; -1 for other blocks.
        has_arguments: Whether arguments were written.
        characters: Length of its text, except the part written by the current delta writer.
        written: Returns the length of the text that the current delta writer has written.
    """

    choice: _EncodedChoice
    block: Block
    head: bytes = b""
    tail: bytes = b""
    number: int = -1
    has_arguments: bool = False
    characters: int = 0
    written: Callable[[], int] = int

    def set_frame(self, head: bytes, tail: bytes) -> None:
        """Set the bytes before and after a chunk's text, given those within its `delta` object."""
        self.head = self.choice.head + head
        self.tail = tail + _DELTA_END

    def collect_written(self) -> None:
        """Add to `characters` the length of the text that the delta writer has written."""
        self.characters += self.written()
        self.written = int


class ChatEncoder(Encoder):
    """Encoder of Chat Completions streams.

    Args:
        options: Options that only Chat Completions has.
        shared: See `Encoder`.
    """

    dialect = "openai_chat"
    capabilities = CAPABILITIES

    def __init__(
        self,
        *,
        options: ChatOptions = ChatOptions(),  # noqa: B008 - frozen
        **shared: Unpack[EncodeOptions],
    ) -> None:
        super().__init__(**shared)
        field = options.reasoning
        if field is not None and field not in FIELDS:
            raise ValueError(
                f"reasoning is {field!r}, expected one of {', '.join(FIELDS)}, or None"
            )
        self._include_usage = options.include_usage
        self._reasoning_field = field
        self._chunk: dict[str, Any] = {}  # the fields of every chunk but its choices
        self._first_fields: dict[str, Any] = {}  # fields of the first chunk alone
        self._choices: dict[int, _EncodedChoice] = {}
        self._blocks: dict[int, _EncodedBlock] = {}
        self._stopped = False

    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        block = self._blocks[index]
        if not isinstance(block.block, Text):
            return delta_frames(block.head, block.tail)
        block.collect_written()
        write, block.written = counted_delta_frames(block.head, block.tail)
        return write

    def ping(self) -> bytes:
        return _PING

    def error_body(self, error: StreamError) -> bytes:
        return dumps(error_to_wire(error, extras=self.extras))

    def close(self) -> bytes:
        if not self._stopped:
            return b""
        self._stopped = False
        # Clients ask for the counts with `stream_options.include_usage`, as the vendor defaults to
        # none.
        if not self._include_usage or self._usage == Usage():
            return _DONE
        # Behind the finish, without choices and with nothing after it: the SDKs read a null in any
        # later chunk as the usage.
        usage = usage_to_wire(self._usage, extras=self.extras)
        return _frame({**self._chunk, **self._tier_field, "choices": [], "usage": usage}) + _DONE

    # Deltas

    def _text(self, event: TextDelta) -> bytes:
        block = self._blocks[event.index]
        block.characters += len(event.text)
        return block.head + dumps(event.text) + block.tail

    def _reasoning(self, event: ReasoningDelta | RefusalDelta) -> bytes:
        block = self._blocks[event.index]
        return block.head + dumps(event.text) + block.tail

    _refusal = _reasoning

    def _json(self, event: JSONDelta) -> bytes:
        block = self._blocks[event.index]
        block.has_arguments = True
        return block.head + dumps(event.partial_json) + block.tail

    def _signature(self, event: SignatureDelta) -> bytes:
        block = self._blocks[event.index]
        choice, signature, issuer = block.choice, event.signature, event.issuer
        if isinstance(block.block, Reasoning):
            detail = choice.details.signature_to_wire(Signed(signature, issuer, event.id))
            # The plain reasoning fields hold text alone.
            return choice.delta({"reasoning_details": [detail]})
        kind = block.block.kind if isinstance(block.block, ToolCall) else "function"
        call = call_signature_to_wire(block.number, kind, signature, issuer)
        return choice.delta({"tool_calls": [call]})

    def _citation(self, event: CitationDelta) -> bytes:
        # Collected: a second list would break the Python SDK's accumulator.
        self._blocks[event.index].choice.annotations.add(event.index, event.citation)
        return b""

    # Blocks

    def _block_start(self, event: BlockStart) -> bytes:
        choice, started = self._choice(event.choice)
        block = self._blocks[event.index] = _EncodedBlock(choice, event.block)
        match event.block:
            case Text():
                choice.annotations.start_block(event.index)
                block.set_frame(b'"content":', b"")
            case ToolCall(id, name, kind=kind):
                # Both SDKs fail at a first index other than 0, and at gaps.
                block.number = choice.calls
                choice.calls += 1
                block.set_frame(*arguments_frame(block.number, kind))
                call = call_start_to_wire(block.number, id, name, kind)
                return started + choice.delta({"tool_calls": [call]})
            case Refusal():
                choice.is_refused = True
                block.set_frame(b'"refusal":', b"")
            case Reasoning() if self._reasoning_field == "reasoning_details":
                block.set_frame(*choice.details.text_frame())
            case Reasoning():
                block.set_frame(b'"%b":' % (self._reasoning_field or "").encode(), b"")
            case RedactedReasoning(data, issuer, id):
                detail = choice.details.redacted_to_wire(Signed(data, issuer, id))
                return started + choice.delta({"reasoning_details": [detail]})
            case other:
                raise AssertionError(f"{type(other).__name__} passed the projection")
        return started

    def _block_stop(self, event: BlockStop) -> bytes:
        block = self._blocks.pop(event.index)
        match block.block:
            case Text():
                block.collect_written()
                block.choice.annotations.stop_block(event.index, block.characters)
            case ToolCall(kind="function") if not block.has_arguments:
                return block.head + b'"{}"' + block.tail  # which every client can parse
            case _:
                pass
        return b""

    # The message

    def _message_start(self, event: MessageStart) -> bytes:
        extra = dict(event.extra or {})
        # Clients require `created`, which Anthropic and Gemini do not send.
        created = extra.pop("created", extra.get("created_at"))  # `created_at` in Responses
        self._chunk = {
            "id": event.id,
            "object": _OBJECT,
            "created": count_of(created) or 0,
            "model": self._model or event.model,
        }
        self._note_tier(extra.pop("service_tier", None))
        self._first_fields = extra if self.extras else {}
        return self._choice(0)[1]

    def _choice(self, index: int) -> tuple[_EncodedChoice, bytes]:
        """Return a choice's state, and the choice's first chunk if no chunk was written."""
        choice = self._choices.get(index)
        if choice is not None:
            return choice, b""
        head = dumps({**self._chunk, "choices": []})[:-2] + b'{"index":%d,"delta":{' % index
        choice = self._choices[index] = _EncodedChoice(b"data: " + head, Annotations(self._stored))
        # The role once per choice: the TypeScript SDK throws without, the Python SDK joins
        # repetitions to `assistantassistant`.
        start = {"index": index, "delta": {"role": "assistant", "content": None}}
        choices = [{**start, "finish_reason": None}]
        first, self._first_fields = self._first_fields, {}
        return choice, _frame({**first, **self._chunk, **self._tier_field, "choices": choices})

    def _message_stop(self, event: MessageStop) -> bytes:
        choice, started = self._choice(event.choice)
        self._stopped = True
        extra = self._vendor_fields(event.extra)
        extra.pop("service_tier", None)
        self._note_tier((event.extra or {}).get("service_tier"))
        finish = stop_reason_to_wire(event.reason, is_refused=choice.is_refused)
        # As the vendor ends a choice: an empty delta, behind all content.
        last: dict[str, Any] = {"index": event.choice, "delta": {}, "finish_reason": finish}
        if event.reason == "stop_sequence":
            last["stop_reason"] = event.stop_sequence  # vLLM's field
        annotations = choice.annotations.to_wire()
        cited = choice.delta({"annotations": annotations}) if annotations else b""
        chunk = {**extra, **self._chunk, **self._tier_field, "choices": [last]}
        return started + cited + _frame(chunk)

    def _error(self, event: StreamError) -> bytes:
        # With `[DONE]` behind the error, clients that ignore errors would read the answer as
        # complete.
        self._stopped = False
        if self._include_usage and self._usage != Usage():  # written at the end alone
            self._losses.add("usage", "failed stream", "dropped")
        if any(choice.annotations.to_wire() for choice in self._choices.values()):
            self._losses.add("held", "failed stream", "citations dropped")
        return _frame(error_to_wire(event, extras=self.extras))

    def _opaque(self, event: Opaque) -> bytes:
        block = self._blocks.get(event.index) if event.index is not None else None
        choice = block.choice if block is not None else self._choices.get(0)
        placed = opaque_to_wire(event, None if choice is None else choice.lists)
        if placed is None or choice is None:
            # Clients read every frame as a chunk, and fail at JSON other than an object.
            if event.data.lstrip().startswith("{"):
                return b"data: %b\n\n" % encode_line(event.data)
            self._losses.add("opaque", event.name, "no object, dropped")
            return b""
        position, fields = placed
        if position == "end":
            choice.annotations.add_opaque(fields["annotations"])
            return b""
        if position == "chunk":  # without choices clients would read it as the usage chunk
            return _frame({**fields, **self._chunk, "choices": [_EMPTY_CHOICE]})
        if position == "delta":
            return choice.delta(fields)
        return choice.head + b"}," + dumps(fields)[1:-1] + _CHOICE_END


def _frame(payload: dict[str, Any]) -> bytes:
    return b"data: " + dumps(payload) + b"\n\n"
