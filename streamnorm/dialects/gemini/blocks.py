"""Open blocks of one candidate: parts, which have no boundaries, become blocks.

https://ai.google.dev/api/caching#Part (read 2026-11-22).  Text extends its block while the
kind does not change.  A block of text stays open until the next block starts, so that its
citations, which come last, find it.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Block,
    Citation,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    file_block,
)
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStop,
    Opaque,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.json import clean, compact, is_object, rejoin, string_of
from streamnorm._core.provider_errors import Fatal
from streamnorm._core.text_offsets import TextOffsets
from streamnorm.dialects.gemini.opaque import without_half_characters
from streamnorm.dialects.gemini.reasoning import redacted_from_wire, signature_from_wire
from streamnorm.dialects.gemini.stop_reasons import stop_reason_from_wire
from streamnorm.dialects.gemini.tool_calls import (
    CallPart,
    PartialArguments,
    call_part,
    server_call_from_wire,
)
from streamnorm.dialects.gemini.wire import DIALECT, RawPart

__all__ = ["CandidateBlocks"]

_DATA_FIELDS = frozenset(
    {"text", "functionCall", "executableCode", "toolCall", "codeExecutionResult"}
    | {"toolResponse", "functionResponse", "inlineData", "fileData"}
)
_MODIFIERS = frozenset(
    {"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
)


class _OpenText(Struct):
    """An open block of text or of a thought.

    Attributes:
        index: Index of the block.
        thought: Whether it is a thought.
        delta: An empty delta of the block.
        offsets: Text of the block, for its citations; None of a thought.
        signature: Its signature, after which nothing is added.
        carry: High surrogate that the last delta ended in.
    """

    index: int
    thought: bool
    delta: TextDelta | ReasoningDelta
    offsets: TextOffsets | None
    signature: str = ""
    carry: str = ""


class _OpenCall(Struct):
    """An open call whose arguments come in fragments."""

    index: int
    arguments: PartialArguments


class CandidateBlocks:
    """Turn the parts of one candidate into blocks.

    Args:
        choice: Index of the candidate.
        opener: Shared with the other candidates.

    Attributes:
        finish: The last finish reason, as spelt on the wire.
        extra: Fields of the candidate without a unified field.
    """

    def __init__(self, choice: int, opener: BlockOpener) -> None:
        self.finish: str | None = None
        self.extra: dict[str, Any] = {}
        self._choice = choice
        self._opener = opener
        self._text: _OpenText | None = None
        self._call: _OpenCall | None = None
        self._stopped_bytes = 0  # of text in blocks that have stopped
        self._unanswered: dict[str, str] = {}  # names of client tool calls by id
        self._last_server_call = ""  # id
        self._cited: dict[str, None] = {}
        self._metadata: dict[str, Any] = {}  # last value of each

    @property
    def text_offsets(self) -> TextOffsets | None:
        """Text of the open block, for its citations; None if no text is open."""
        return None if self._text is None else self._text.offsets

    def append_plain(self, text: str, thought: bool) -> TextDelta | ReasoningDelta | None:
        """Append text that only extends the open block, and return a delta of the block.

        None leaves the block unchanged: read the chunk in full.
        """
        block = self._text
        if block is None or block.thought is not thought or block.signature or block.carry:
            return None
        if block.offsets is not None:
            block.offsets.append(text)
        return block.delta

    def read_part(self, part: dict[str, Any], raw: RawPart, events: list[Event]) -> None:
        """Append the events of one part.

        Args:
            part: The part.
            raw: JSON text of its calls.
            events: Where to append.

        Raises:
            Fatal: The stream ends here.
        """
        said = [key for key in part if part[key] is not None and key not in _MODIFIERS]
        # The first known field, wherever unknown ones stand.
        field = next((key for key in said if key in _DATA_FIELDS), said[0] if said else "text")
        value = part.get(field)
        extra = {
            key: without_half_characters(key, item)
            for key, item in part.items()
            if key != field and item is not None
        }
        match field:
            case "text":
                self._read_text(part, extra, events)
            case "functionCall" if is_object(value):
                self._read_call(call_part(value, raw.function_call), extra, events)
            case "executableCode" | "toolCall" if is_object(value):
                call, text = server_call_from_wire(field, value, raw)
                self._add_server_call(call, text, extra, events)
            case "codeExecutionResult" | "toolResponse" if is_object(value):
                id = string_of(value, "id") or self._last_server_call
                self._add_result(ServerToolResult(id, field, value), extra, events)
            case "functionResponse" if is_object(value):
                id = self._answered_call(string_of(value, "id"), string_of(value, "name"))
                self._add_result(ServerToolResult(id, field, value), extra, events)
            case "inlineData" | "fileData" if is_object(value) and not part.get("thought"):
                self._add_block(_file_from_wire(field, value), extra, events)
            case _:
                block = OpaqueBlock(DIALECT, clean(field), compact(value))
                self._add_block(block, extra, events)

    # Text and thoughts

    def _read_text(self, part: dict[str, Any], extra: dict[str, Any], events: list[Event]) -> None:
        text, thought = part.get("text"), part.get("thought") is True
        self._append(text if isinstance(text, str) else "", thought, events)
        self._sign(string_of(extra, "thoughtSignature"), thought, events)
        for key, value in extra.items():
            if key not in ("thought", "thoughtSignature"):
                self.opaque(key, value, events)

    def _append(self, text: str, thought: bool, events: list[Event]) -> None:
        block = self._text
        if block is None or block.thought is not thought or block.signature:
            if not text:
                return
            block = self._start_text(thought, events)
        text, block.carry = rejoin(block.carry, text)
        if text:
            self._emit(block, text, events)

    def _sign(self, signature: str, thought: bool, events: list[Event]) -> None:
        """Append the signature of the open block, or of an empty block if none is open."""
        if not signature:
            return
        redacted = redacted_from_wire(signature)
        if redacted is not None:
            self._add_block(redacted, {}, events)
            return
        block = self._text
        if block is not None and block.signature == signature:
            self._opener.note("resent_signature", "text")
            return
        if block is None or block.signature:
            block = self._start_text(thought, events)
        self._flush(block, events)
        block.signature = signature
        events.append(SignatureDelta(block.index, *signature_from_wire(signature)))

    def _start_text(self, thought: bool, events: list[Event]) -> _OpenText:
        index = self._start(Reasoning() if thought else Text(), None, events)
        max_bytes = self._opener.limits.max_held_bytes
        offsets = None if thought else TextOffsets(self._stopped_bytes, max_bytes=max_bytes)
        delta = ReasoningDelta(index, "") if thought else TextDelta(index, "")
        self._text = _OpenText(index, thought, delta, offsets)
        return self._text

    def _emit(self, block: _OpenText, text: str, events: list[Event]) -> None:
        if block.offsets is None:
            events.append(ReasoningDelta(block.index, text))
            return
        events.append(TextDelta(block.index, text))
        block.offsets.append(text)

    def _flush(self, block: _OpenText, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            self._emit(block, carry, events)

    # Calls and results

    def _read_call(self, part: CallPart, extra: dict[str, Any], events: list[Event]) -> None:
        signature = string_of(extra, "thoughtSignature")
        extra = {key: value for key, value in extra.items() if key != "thoughtSignature"}
        if part.rest:
            self.opaque("functionCall", part.rest, events)
        if not part.name:
            if signature and self._call is not None:
                events.append(SignatureDelta(self._call.index, *signature_from_wire(signature)))
            if part.arguments is None and self._call is not None:
                self._append_arguments(self._call, part, events)
            elif part.arguments is not None or part.entries or part.goes_on:
                raise Fatal(StreamError("malformed", "function call without a name, expected one"))
            else:
                self._opener.note("extra_call_end", "tool call")
            return
        index = self._start_call(ToolCall(part.id, part.name), signature, extra, events)
        if part.entries or part.goes_on:
            self._call = _OpenCall(index, PartialArguments(self._opener.limits))
            self._append_arguments(self._call, part, events)
            return
        if part.arguments:
            events.append(JSONDelta(index, part.arguments))
        events.append(BlockStop(index))

    def _start_call(
        self, call: ToolCall, signature: str, extra: dict[str, Any], events: list[Event]
    ) -> int:
        self._opener.count_call(call.id, call.name)
        if not call.id:
            call = structs.replace(call, id=self._opener.mint_id("tool call"))
        self._unanswered[call.id] = call.name
        if signature:
            value, issuer = signature_from_wire(signature)
            call = structs.replace(call, signature=value, issuer=issuer)
        return self._start(call, extra, events)

    def _append_arguments(self, call: _OpenCall, part: CallPart, events: list[Event]) -> None:
        text = "".join([call.arguments.write(entry) for entry in part.entries])
        if not part.goes_on:
            text += call.arguments.finish()
        if text:
            events.append(JSONDelta(call.index, text))
        if not part.goes_on:
            self._call = None
            events.append(BlockStop(call.index))

    def _add_server_call(
        self, call: ServerToolCall, arguments: str, extra: dict[str, Any], events: list[Event]
    ) -> None:
        self._opener.count_call(call.id, call.name)
        if not call.id:
            call = structs.replace(call, id=self._opener.mint_id("server tool call"))
        self._last_server_call = call.id
        index = self._start(call, extra, events)
        events += [JSONDelta(index, arguments), BlockStop(index)]

    def _add_result(
        self, result: ServerToolResult, extra: dict[str, Any], events: list[Event]
    ) -> None:
        self._opener.check_names(result.tool_call_id)
        self._add_block(result, extra, events)

    def _answered_call(self, id: str, name: str) -> str:
        """Return the id of the client tool call that a result answers; its tool has run."""
        if not id:
            id = next((known for known, tool in self._unanswered.items() if tool == name), "")
        self._unanswered.pop(id, None)
        return id

    # All blocks

    def _add_block(self, block: Block, extra: dict[str, Any], events: list[Event]) -> None:
        """Append a whole block."""
        index = self._start(block, extra, events)
        events.append(BlockStop(index))

    def _start(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        self._stop_open(events)
        index = self._opener.next_index()
        events.append(BlockStart(index, block, self._choice, extra or None))
        return index

    def _stop_open(self, events: list[Event], *, cut: bool = False) -> None:
        """Stop the open block; the arguments of a call that was cut stay incomplete."""
        if (block := self._text) is not None:
            self._flush(block, events)
            events.append(BlockStop(block.index))
            self._stopped_bytes += 0 if block.offsets is None else block.offsets.size
            self._text = None
        if (call := self._call) is not None:
            self._opener.note("missing_call_end", "tool call")
            text = "" if cut else call.arguments.finish()
            if text:
                events.append(JSONDelta(call.index, text))
            events.append(BlockStop(call.index))
            self._call = None

    # Fields beside the parts

    def cite(self, citations: list[Citation], events: list[Event]) -> None:
        """Append citations of the open text, each once."""
        block = self._text
        if block is None or not citations:
            return
        self._flush(block, events)
        for citation in citations:
            key = f"{block.index} {citation!r}"
            if key not in self._cited:
                self._cited[key] = None
                events.append(CitationDelta(block.index, citation))

    def add_metadata(self, name: str, value: Any, events: list[Event]) -> None:
        """Append data that chunks often repeat, if it has changed."""
        if value and self._metadata.get(name) != value:
            self._metadata[name] = value
            self.opaque(name, value, events)

    def opaque(self, name: str, value: Any, events: list[Event]) -> None:
        """Append data that has no unified event."""
        index = self._text.index if self._text is not None else None
        events.append(Opaque(DIALECT, name, compact(value), index))

    def finish_message(self, blocked: str | None, events: list[Event]) -> MessageStop:
        """Stop the open block and return the end of the candidate.

        Args:
            blocked: The `blockReason` of the prompt, if there is one.
            events: Where to append.
        """
        word = self.finish or blocked or ""
        called = bool(self._unanswered)
        reason = stop_reason_from_wire(word, called=called) if self.finish else "refusal"
        self._stop_open(events, cut=reason not in ("end_turn", "tool_use"))
        return MessageStop(reason, word, choice=self._choice, extra=self.extra or None)


def _file_from_wire(field: str, value: dict[str, Any]) -> Block:
    data, url = value.get("data"), value.get("fileUri")
    data, url = data if isinstance(data, str) else None, url if isinstance(url, str) else None
    has_other_fields = not value.keys() <= {"mimeType", "data", "fileUri"}
    block = None if has_other_fields else file_block(string_of(value, "mimeType"), data, url)
    return block or OpaqueBlock(DIALECT, field, compact(value))
