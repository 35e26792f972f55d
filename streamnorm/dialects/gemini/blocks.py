"""Open blocks of one candidate: parts without boundaries, decoded to unified blocks.

https://ai.google.dev/api/caching#Part (read 2026-11-22).  A part of text extends the open block
while text does not change to thought or back.  A text block stays open until the next block
starts, because its citations arrive last.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Block,
    Citation,
    Image,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
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
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean, compact, is_object, rejoin, string_of
from streamnorm._core.limits import OBJECT_BYTES, text_bytes
from streamnorm._core.text import TextOffsets
from streamnorm.dialects.gemini.content import (
    redacted_from_wire,
    replace_half_characters,
    signature_from_wire,
)
from streamnorm.dialects.gemini.outcome import stop_reason_from_wire
from streamnorm.dialects.gemini.tool_calls import (
    CallPart,
    CandidateCalls,
    OpenCall,
    PartialArguments,
    call_part_from_wire,
    server_call_from_wire,
    server_result_from_wire,
)
from streamnorm.dialects.gemini.wire import DIALECT, RawPart, data_field


class _OpenText(Struct):
    """An open block of text or of a thought.

    Attributes:
        index: Index of the block.
        thought: Whether the block is a thought.
        delta: Empty delta of the block.
        offsets: Text of the block, for its citations; None for a thought.
        signature: Signature of the block, after which no text is added.
        carry: High surrogate at the end of the last delta.
    """

    index: int
    thought: bool
    delta: TextDelta | ReasoningDelta
    offsets: TextOffsets | None
    signature: str = ""
    carry: str = ""


class CandidateBlocks:
    """The open blocks of one candidate.

    Args:
        choice: Index of the candidate.
        opener: Opener of blocks, shared with the other candidates.

    Attributes:
        finish: Finish reason as spelt on the wire; None before it arrives, and after content
            that follows it.
        blocked: Whether `finish` is the `blockReason` of the prompt.
        last_content: Data field of the last part with content.
        extra: Unknown fields of the candidate.
    """

    def __init__(self, choice: int, opener: BlockOpener) -> None:
        self.finish: str | None = None
        self.blocked = False
        self.last_content = ""
        self.extra: dict[str, Any] = {}
        self._choice = choice
        self._opener = opener
        self._text: _OpenText | None = None
        self._call: OpenCall | None = None
        self._calls = CandidateCalls()
        self._stopped_bytes = 0  # bytes of text in stopped blocks
        self._cited: dict[str, None] = {}
        self._metadata: dict[str, Any] = {}  # last value by field

    @property
    def ends_in_code(self) -> bool:
        """Whether the last non-empty part is code that the server runs."""
        return self.last_content == "executableCode"

    @property
    def text_offsets(self) -> TextOffsets | None:
        """Offsets in the open block's text, for citations; None if no text is open."""
        return None if self._text is None else self._text.offsets

    def try_append(self, text: str, thought: bool) -> TextDelta | ReasoningDelta | None:
        """Append text to the open block; return the block's empty delta, or None for the slow path.

        None leaves the block unchanged: read the chunk in full.
        """
        block = self._text
        # A signature ends what it covers: Google's guide to thought signatures asks clients not to
        # merge a signed part with others.
        if block is None or block.thought is not thought or block.signature or block.carry:
            return None
        # The text revokes the finish reason, which is part of the slow path.
        if self.finish is not None:
            return None
        if block.offsets is not None:
            block.offsets.append(text)
        return block.delta

    def read_part(self, part: dict[str, Any], raw: RawPart, events: list[Event]) -> None:
        """Append the events of one part.

        Args:
            part: The part.
            raw: JSON text of the part's calls.
            events: List to append to.

        Raises:
            Fatal: The part is malformed or contradicts earlier parts, or exceeds a limit.
        """
        field = data_field(part)
        value = part.get(field)
        extra = {
            key: replace_half_characters(key, item)
            for key, item in part.items()
            if key != field and item is not None and (key, item) != ("text", "")
        }
        match field:
            case "text":
                self._read_text(part, extra, events)
            case "functionCall" if is_object(value):
                self._read_call(call_part_from_wire(value, raw.function_call), extra, events)
            case "executableCode" | "toolCall" if is_object(value):
                call, text = server_call_from_wire(field, value, raw)
                self._add_server_call(call, text, extra, events)
            case "codeExecutionResult" | "toolResponse" | "functionResponse" if is_object(value):
                self._read_result(field, value, extra, events)
            # A thought may be an image, too, and is no file of the answer.
            case "inlineData" | "fileData" if is_object(value) and not part.get("thought"):
                self._revoke_finish(field)
                file = _file_from_wire(field, value)
                if isinstance(file, Image):
                    file, extra = _sign_image(file, extra)
                self._add_block(file, extra, events)
            # Google adds data fields with its models; the part goes back in the history as it came.
            case _:
                self._revoke_finish(field)
                block = OpaqueBlock(DIALECT, clean(field), compact(value))
                self._add_block(block, extra, events)

    def _revoke_finish(self, field: str) -> None:
        """Discard the finish reason, since content follows it.

        Older models repeat `finishReason` in every chunk.
        """
        self.finish, self.last_content = None, field

    # Text and thoughts

    def _read_text(self, part: dict[str, Any], extra: dict[str, Any], events: list[Event]) -> None:
        text, thought = part.get("text"), part.get("thought") is True
        self._append(text if isinstance(text, str) else "", thought, events)
        self._sign(string_of(extra, "thoughtSignature"), thought, events)
        for key, value in extra.items():
            if key not in ("thought", "thoughtSignature"):
                self.add_opaque(key, value, events)

    def _append(self, text: str, thought: bool, events: list[Event]) -> None:
        if text:
            self._revoke_finish("text")
        block = self._text
        if block is None or block.thought is not thought or block.signature:
            # Empty text is the last part of most answers, with a finish reason or a signature.
            if not text:
                return
            block = self._start_text(thought, events)
        text, block.carry = rejoin(block.carry, text)
        if text:
            self._emit(block, text, events)

    def _sign(self, signature: str, thought: bool, events: list[Event]) -> None:
        """Append a signature to the open block, or to a new, empty block."""
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
        # A signature on an empty part is that of the text before it, unless the part says that it
        # is of a thought, whose text is hidden.
        if block is None or block.signature or (thought and not block.thought):
            block = self._start_text(thought, events)
        self._flush(block, events)
        block.signature = signature
        events.append(SignatureDelta(block.index, *signature_from_wire(signature)))

    def _start_text(self, thought: bool, events: list[Event]) -> _OpenText:
        index = self._start(Reasoning() if thought else Text(), None, events)
        room = self._opener.citable
        offsets = None if thought else TextOffsets(self._stopped_bytes, room=room)
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
        # Fragments have neither id nor name: they belong to the call that is open
        # (vertex/partial-arguments).
        call = self._call
        if call is not None and call.is_continued_by(part):
            self._add_unknown(part, events)
            # Any fragment of a call may bring its signature.
            if signature:
                events.append(SignatureDelta(call.index, *signature_from_wire(signature)))
            self._append_arguments(call, part, events)
            return
        if not part.name:
            if part.id or part.arguments is not None or part.entries or part.continues:
                raise Fatal(StreamError("malformed", "function call without a name, expected one"))
            # Vertex AI ends a call by an empty `functionCall`; here its fragments have ended it
            # already.
            self._opener.note("extra_call_end", "tool call")
            return
        in_fragments = bool(part.entries) or part.continues
        # A call without arguments has `args: {}` or no `args` (google/calls-without-arguments).
        arguments = "" if part.arguments in (None, "{}") else part.arguments or ""
        # Only complete calls are resent; fragments get content that no earlier call has.
        content = f"fragments {self._opener.blocks}" if in_fragments else arguments
        if self._calls.repeats("call", part.id, part.name, content):
            self._opener.note("resent_call", "tool call")
            return
        self._add_unknown(part, events)
        self._revoke_finish("functionCall")
        self._calls.check_start(part)
        index = self._start_call(ToolCall(part.id, part.name), signature, extra, events)
        if in_fragments:
            fragments = PartialArguments(self._opener.limits, self._opener.stored)
            self._call = OpenCall(index, part.id, part.name, fragments)
            self._append_arguments(self._call, part, events)
            return
        self._calls.complete(arguments)
        if part.arguments:
            events.append(JSONDelta(index, part.arguments))
        events.append(BlockStop(index))

    def _add_unknown(self, part: CallPart, events: list[Event]) -> None:
        if part.unknown:
            self.add_opaque("functionCall", part.unknown, events)

    def _start_call(
        self, call: ToolCall, signature: str, extra: dict[str, Any], events: list[Event]
    ) -> int:
        self._opener.count_call(call.id, call.name)
        # Google sends most calls without an id and matches results by name; all other dialects
        # match by id.
        if not call.id:
            call = structs.replace(call, id=self._opener.mint_id("tool call"))
        self._calls.start(call.id, call.name)
        if signature:
            value, issuer, _ = signature_from_wire(signature)
            call = structs.replace(call, signature=value, issuer=issuer)
        return self._start(call, extra, events)

    def _append_arguments(self, call: OpenCall, part: CallPart, events: list[Event]) -> None:
        self._revoke_finish("functionCall")
        text = "".join([call.arguments.write(entry) for entry in part.entries])
        if not part.continues:
            text += call.arguments.finish()
        if text:
            events.append(JSONDelta(call.index, text))
        if not part.continues:
            self._call = None
            # The end came within a string, whose rest no client can add.
            if not call.arguments.is_whole:
                self._calls.cut(call.name)
            events.append(BlockStop(call.index))

    def _add_server_call(
        self, call: ServerToolCall, arguments: str, extra: dict[str, Any], events: list[Event]
    ) -> None:
        if self._calls.repeats("call", call.id, call.name, arguments):
            self._opener.note("resent_call", "server tool call")
            return
        self._revoke_finish(call.kind)
        self._opener.count_call(call.id, call.name)
        if not call.id:
            call = structs.replace(call, id=self._opener.mint_id("server tool call"))
        self._calls.start_server_call(call.id)
        index = self._start(call, extra, events)
        events += [JSONDelta(index, arguments), BlockStop(index)]

    def _read_result(
        self, field: str, value: dict[str, Any], extra: dict[str, Any], events: list[Event]
    ) -> None:
        id = string_of(value, "id")
        if self._calls.repeats(f"{field} of a call", id, "", compact(value)):
            self._opener.note("resent_result", "tool result")
            return
        self._revoke_finish(field)
        # Google's results of client tools name the tool, and their id is optional.
        if field == "functionResponse":
            id = self._calls.answer(id, string_of(value, "name"))
        else:
            id = self._calls.answer_server_call(id)
        self._opener.check_names(id)
        self._add_block(server_result_from_wire(field, value, id), extra, events)

    # All blocks

    def _add_block(self, block: Block, extra: dict[str, Any], events: list[Event]) -> None:
        """Append a complete block."""
        index = self._start(block, extra, events)
        events.append(BlockStop(index))

    def _start(self, block: Block, extra: dict[str, Any] | None, events: list[Event]) -> int:
        self._stop_open(events)
        index = self._opener.next_index()
        events.append(BlockStart(index, block, self._choice, extra or None))
        return index

    def _stop_open(self, events: list[Event]) -> None:
        """Stop the open block; the arguments of a call that is cut off stay incomplete JSON."""
        if (block := self._text) is not None:
            self._flush(block, events)
            events.append(BlockStop(block.index))
            if block.offsets is not None:
                self._stopped_bytes += block.offsets.size
                block.offsets.release()
            self._text = None
        if (call := self._call) is not None:
            self._opener.note("missing_call_end", "tool call")
            self._calls.cut(call.name)
            if text := call.arguments.cut():
                events.append(JSONDelta(call.index, text))
            events.append(BlockStop(call.index))
            self._call = None

    # Fields of the candidate

    def cite(self, citations: list[Citation], events: list[Event]) -> None:
        """Append the citations of the open text that were not appended before."""
        block = self._text
        if block is None or not citations:
            return
        # A citation counts bytes of all text so far, half a character included.
        self._flush(block, events)
        for citation in citations:
            key = f"{block.index} {citation!r}"
            if key not in self._cited:
                self._opener.store(OBJECT_BYTES + text_bytes(key))
                self._cited[key] = None
                events.append(CitationDelta(block.index, citation))

    def add_metadata(self, name: str, value: Any, events: list[Event]) -> None:
        """Append a metadata field as an opaque event if its value has changed."""
        if value and self._metadata.get(name) != value:
            self._opener.store_fields(self._metadata, {name: value})
            self.add_opaque(name, value, events)

    def add_opaque(self, name: str, value: Any, events: list[Event]) -> None:
        """Append an opaque event with a field that no unified event can carry."""
        index = self._text.index if self._text is not None else None
        events.append(Opaque(DIALECT, name, compact(value), index))

    def finish_message(self, events: list[Event]) -> MessageStop:
        """Stop the open block, and return the message stop of the candidate."""
        raw = self.finish or ""
        awaits_client = self._calls.awaits_client
        reason = (
            "refusal" if self.blocked else stop_reason_from_wire(raw, awaits_client=awaits_client)
        )
        self._stop_open(events)
        for _ in range(self._calls.unfinished):
            self._opener.note("unfinished_arguments", "tool call")
        return MessageStop(reason, raw, choice=self._choice, extra=self.extra or None)


def _sign_image(image: Image, extra: dict[str, Any]) -> tuple[Image, dict[str, Any]]:
    """Return an image with the signature among the other fields of its part, and the rest."""
    wire = string_of(extra, "thoughtSignature")
    if not wire:
        return image, extra
    signature, issuer, _ = signature_from_wire(wire)
    extra = {key: value for key, value in extra.items() if key != "thoughtSignature"}
    return structs.replace(image, signature=signature, issuer=issuer), extra


def _file_from_wire(field: str, value: dict[str, Any]) -> Block:
    data, url = value.get("data"), value.get("fileUri")
    data, url = data if isinstance(data, str) else None, url if isinstance(url, str) else None
    # `displayName` has no unified field: a file with it stays opaque.
    has_other_fields = not value.keys() <= {"mimeType", "data", "fileUri"}
    block = None if has_other_fields else file_block(string_of(value, "mimeType"), data, url)
    return block or OpaqueBlock(DIALECT, field, compact(value))
