"""The open parts and calls of one message, decoded from chunks to unified events.

Text and reasoning are found by their `id`, calls by their `toolCallId`.  An id of a text is free
again after its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field, structs

from streamnorm._core.blocks import (
    Image,
    Reasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.codec import BlockOpener, Delta
from streamnorm._core.events import (
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
    delta_factory,
)
from streamnorm._core.failures import malformed
from streamnorm._core.json import InvalidJSON, clean, clean_tree, decode_any, is_object, rejoin
from streamnorm._core.limits import OBJECT_BYTES, Limits, text_bytes, value_bytes
from streamnorm.dialects.ui_message_stream.content import (
    BROKEN,
    CONTINUED,
    CUT,
    DENIED,
    METADATA,
    REFUSED_INPUT,
    UNFINISHED,
    citation_from_wire,
    file_from_wire,
    is_repeated,
    metadata_from_wire,
    redacted_from_wire,
    result_from_wire,
    server_error_from_wire,
    signature_from_wire,
    split_mark,
)
from streamnorm.dialects.ui_message_stream.wire import Chunk, input_text, text_field

PartKind: TypeAlias = Literal["text", "reasoning"]

# Summaries of one item are numbered so (`@ai-sdk/openai`).
_SUMMARY = re.compile(r"(.*):([0-9]{1,6})", re.DOTALL)
_PART_FIELDS = ("type", "id")
_RESULT_FIELDS = (
    *("type", "toolCallId", "output", "errorText", "providerExecuted", "preliminary"),
)
_FILE_FIELDS = ("type", "url", "mediaType")
_CALL_FIELDS = (
    *("type", "toolCallId", "toolName", "providerExecuted", "input", "errorText"),
    "inputEncoding",
)


class OpenPart(Struct):
    """A text or reasoning part that deltas extend.

    Attributes:
        kind: The kind.
        delta: Empty delta of its block; None until the block has started.
        metadata: Last `providerMetadata`.
        carry: High surrogate at the end of the last delta.
        extra: Fields of its start that no unified one stands for.
        part: Number of the summary.
        has_text: Whether it is open and a delta with text of it has arrived.
        stored_bytes: Bytes counted for its id and its extra fields.
        metadata_bytes: Bytes counted for its metadata.
    """

    kind: PartKind
    delta: Delta | None = None
    metadata: object = None
    carry: str = ""
    extra: dict[str, Any] | None = None
    part: int = 0
    has_text: bool = False
    stored_bytes: int = 0
    metadata_bytes: int = 0


class Call(Struct):
    """A tool call.

    Attributes:
        id: The `toolCallId`; a minted id if that is empty.
        delta: Empty delta of its block.
        by_provider: Whether the provider executes it.
        name: Name of the tool.
        step: Number of its step.
        fragments: The arguments so far.
        stored_bytes: Bytes counted for the arguments.
        carry: High surrogate at the end of the last delta.
        metadata: `providerMetadata` of its start, until its end.
        is_open: Whether its block is open.
        has_result: Whether its final result has come.
        awaits_approval: Whether a person is asked at the page if it may be executed.
        takes_text: Whether its input is free text.
    """

    id: str
    delta: JSONDelta
    by_provider: bool
    name: str
    step: int
    fragments: list[str] = field(default_factory=list)
    stored_bytes: int = 0
    carry: str = ""
    metadata: object = None
    is_open: bool = True
    has_result: bool = False
    awaits_approval: bool = False
    takes_text: bool = False

    def append(self, text: str, size: int) -> None:
        """Store a fragment of the arguments, counted with `size` bytes."""
        self.stored_bytes += size
        self.fragments.append(text)


class MessageBlocks:
    """The open parts and the calls of one message.

    Args:
        limits: Bounds on blocks, calls and stored bytes.
        note: Called with each deviation that is accepted.

    Attributes:
        opener: Opener of the blocks, and counter of stored bytes.
        open: The open parts by kind and id.
        calls: The last call of each `toolCallId`.
        step: Number of the current step: an id of a call may be used again in a later one.
        ended: A reasoning that has ended, unless the next chunk starts its next summary: its
            id without the number, the number, and the part.
    """

    def __init__(self, limits: Limits, note: Callable[[str, str], None]) -> None:
        self.opener = BlockOpener(limits, note)
        self.open: dict[tuple[PartKind, str], OpenPart] = {}
        self.calls: dict[str, Call] = {}
        self.step = 0
        self._has_unanswered_call = False  # whose id was used again
        self.ended: tuple[str, int, OpenPart] | None = None
        self._limits = limits
        self._note = note

    @property
    def awaits_client(self) -> bool:
        """Whether a client tool call lacks a result, and no call awaits approval.

        The agent goes on after the approval, so no call is then for another client.
        """
        calls = self.calls.values()
        if any(call.awaits_approval and not call.has_result for call in calls):
            return False
        return self._has_unanswered_call or any(map(_awaits_client, calls))

    # Text and reasoning

    def start_part(self, kind: PartKind, value: Chunk, events: list[Event]) -> None:
        """Open the part of a `text-start` or `reasoning-start`.

        Raises:
            Fatal: Its id is that of an open part, or a limit is exceeded.
        """
        id = text_field(value, "id")
        self.opener.check_names(id)
        if (kind, id) in self.open:
            raise malformed(f"{kind}-start of an open id, expected another id")
        if kind == "reasoning" and self._continue_summary(id, value):
            return
        self.flush(events)
        extra = clean_tree({name: each for name, each in value.items() if name not in _PART_FIELDS})
        part = self.open[kind, id] = OpenPart(kind, extra=extra or None)
        # A part without a text opens no block, which would be counted.
        part.stored_bytes = OBJECT_BYTES + text_bytes(id) + value_bytes(extra)
        self.opener.store(part.stored_bytes)
        self._keep_metadata(part, value.get("providerMetadata"))
        # Whether reasoning is redacted is known by its first text, or at its end.
        if kind == "text":
            self._start_block(part, events)

    def _keep_metadata(self, part: OpenPart, metadata: object) -> None:
        size = value_bytes(metadata)
        self.opener.store(size)
        self.opener.stored.release(part.metadata_bytes)
        part.metadata, part.metadata_bytes = metadata, size

    def _continue_summary(self, id: str, value: Chunk) -> bool:
        summary = _SUMMARY.fullmatch(id)
        if self.ended is None or summary is None:
            return False
        stem, number, part = self.ended
        if summary[1] != stem or int(summary[2]) <= number or part.delta is None:
            return False
        self.ended = None
        part.part, part.has_text = int(summary[2]), False
        part.delta = ReasoningDelta(part.delta.index, "", part.part)
        self._keep_metadata(part, value.get("providerMetadata") or part.metadata)
        self.open["reasoning", id] = part
        return True

    def append(
        self, kind: PartKind, id: str, text: str, metadata: object, events: list[Event]
    ) -> None:
        """Add a `text-delta` or `reasoning-delta` to the part with its id.

        Raises:
            Fatal: No part of the id is open, as for the client.
        """
        self.flush(events)
        part = self.open.get((kind, id))
        if part is None:
            raise malformed(f"{kind}-delta of no open id, expected a {kind}-start before it")
        if metadata is not None:
            self._keep_metadata(part, metadata)
        text, part.carry = rejoin(part.carry, text)
        if text:
            delta = part.delta or self._start_block(part, events)
            part.has_text = True
            events.append(delta_factory(delta)(text))

    def end_part(self, kind: PartKind, value: Chunk, events: list[Event]) -> None:
        """Close the part of a `text-end` or `reasoning-end`."""
        self.flush(events)
        id = text_field(value, "id")
        part = self.open.pop((kind, id), None)
        if part is None:
            raise malformed(f"{kind}-end of no open id, expected a {kind}-start before it")
        part.has_text = False  # no further delta extends it
        part.metadata = value.get("providerMetadata") or part.metadata
        if kind == "reasoning" and is_object(part.metadata):
            _, part.metadata = split_mark(part.metadata, CONTINUED)
        summary = _SUMMARY.fullmatch(id) if kind == "reasoning" else None
        if summary is None or _is_signed(part.metadata):
            self._stop_part(part, events)
        else:
            self._emit_carry(part, events)
            self.ended = summary[1], int(summary[2]), part

    def flush(self, events: list[Event]) -> None:
        """Stop the reasoning block that stayed open after its part's end, for further summaries."""
        if self.ended is not None:
            part, self.ended = self.ended[2], None
            self._stop_part(part, events)

    def cite(self, value: Chunk, events: list[Event]) -> bool:
        """Append a source as a citation of the open text; False if no text is open."""
        texts = [part for part in self.open.values() if part.kind == "text"]
        if not texts or texts[-1].delta is None:
            return False
        events.append(CitationDelta(texts[-1].delta.index, citation_from_wire(value)))
        return True

    def _start_block(self, part: OpenPart, events: list[Event]) -> Delta:
        block = Text() if part.kind == "text" else Reasoning()
        extra = part.extra
        if extra is not None and _is_signed(extra.get("providerMetadata")):
            extra = {name: item for name, item in extra.items() if name != "providerMetadata"}
        index = self.opener.open(block, events, extra=extra)
        part.delta = TextDelta(index, "") if part.kind == "text" else ReasoningDelta(index, "")
        return part.delta

    def _stop_part(self, part: OpenPart, events: list[Event]) -> None:
        self.opener.stored.release(part.stored_bytes + part.metadata_bytes)
        redacted = redacted_from_wire(part.metadata) if part.kind == "reasoning" else None
        self._emit_carry(part, events)
        if part.delta is None and redacted is not None:
            self.opener.add_whole(redacted, events)
            return
        delta = part.delta or self._start_block(part, events)
        signed = signature_from_wire(part.metadata)
        if signed is not None:
            events.append(SignatureDelta(delta.index, *signed))
        elif redacted is None:
            self._emit_metadata(delta.index, part.metadata, part.extra, events)
        events.append(BlockStop(delta.index))
        if redacted is not None:
            self.opener.add_whole(redacted, events)

    def _emit_metadata(
        self, index: int, metadata: object, extra: dict[str, Any] | None, events: list[Event]
    ) -> None:
        """Append the metadata of a block's end if they differ from the metadata of its start."""
        if metadata and metadata != (extra or {}).get(METADATA):
            events.append(metadata_from_wire(metadata, index))

    def _emit_carry(self, part: OpenPart, events: list[Event]) -> None:
        if part.carry:
            text, part.carry = clean(part.carry), ""
            events.append(delta_factory(part.delta or self._start_block(part, events))(text))

    # Calls

    def start_call(self, value: Chunk, events: list[Event]) -> Call:
        """Open the call of a chunk with a tool name.

        Raises:
            Fatal: The call has no name, its id was used before, or a limit is exceeded.
        """
        self.flush(events)
        id, name = clean(text_field(value, "toolCallId")), clean(text_field(value, "toolName"))
        before = self.calls.get(id)
        if before is not None and (before.step == self.step or before.is_open):
            raise malformed("second call of one id in a step, expected another id")
        self._has_unanswered_call |= before is not None and _awaits_client(before)
        by_provider = value.get("providerExecuted") is True
        extra = clean_tree({key: item for key, item in value.items() if key not in _CALL_FIELDS})
        if not by_provider and _is_signed(extra.get(METADATA)):
            del extra[METADATA]
        own_id = id or self.opener.mint_id("tool call")
        block: ToolCall | ServerToolCall = ToolCall(own_id, name)
        if by_provider:
            block = ServerToolCall(own_id, name, kind=name)
        elif _takes_text(value):
            block = ToolCall(own_id, name, kind="custom")
        size = text_bytes(id) + text_bytes(name) + value_bytes(value.get("providerMetadata"))
        self.opener.store(size + OBJECT_BYTES)
        index = self.opener.open(block, events, extra=extra)
        call = self.calls[id] = Call(own_id, JSONDelta(index, ""), by_provider, name, self.step)
        call.metadata = value.get("providerMetadata")
        call.takes_text = isinstance(block, ToolCall) and block.kind == "custom"
        return call

    def append_input(self, id: str, text: str, events: list[Event]) -> None:
        """Add a `tool-input-delta` to its call.

        Raises:
            Fatal: The call is not open, or a limit is exceeded.
        """
        self.flush(events)
        call = self.calls.get(id)
        if call is None or not call.is_open:
            raise malformed("tool-input-delta of no open call, expected its start before it")
        text, call.carry = rejoin(call.carry, text)
        if text:
            self._store_input(call, text)
            events.append(JSONDelta(call.delta.index, text))

    def _store_input(self, call: Call, text: str) -> None:
        size = text_bytes(text) + OBJECT_BYTES
        self.opener.store(size)
        call.append(text, size)

    def complete_call(self, value: Chunk, data: str, events: list[Event]) -> None:
        """Close the call of a `tool-input-available` or `tool-input-error`.

        Args:
            value: The chunk.
            data: The JSON text.
            events: The list to append to.

        Raises:
            Fatal: The input is missing, or another one than the deltas had.
        """
        self.flush(events)
        if "input" not in value:
            raise malformed(f"{value['type']} without an input, expected one")
        call = self.calls.get(clean(text_field(value, "toolCallId")))
        if call is None or not call.is_open:
            call = self.start_call(value, events)
        elif value.get("providerExecuted") is True and not call.by_provider:
            # The client would already have been asked to execute it.
            raise malformed("providerExecuted at the end of a call alone, expected at its start")
        is_error = value["type"] == "tool-input-error"
        is_text = is_error or call.takes_text
        self._settle_input(call, value["input"], data, is_text=is_text, events=events)
        metadata = value.get(METADATA) or call.metadata
        signed = signature_from_wire(metadata)
        if signed is not None and not call.by_provider:
            events.append(SignatureDelta(call.delta.index, *signed))
        else:
            self._emit_metadata(call.delta.index, metadata, {METADATA: call.metadata}, events)
        call.metadata = None
        error = clean(text_field(value, "errorText")) if is_error else BROKEN
        # What a server refused is no call to execute, even if it is JSON; broken text shows itself.
        self._stop_call(call, events, is_unfinished=error not in (BROKEN, REFUSED_INPUT, CUT))
        if error not in (BROKEN, REFUSED_INPUT, UNFINISHED, CUT):
            id = clean(text_field(value, "toolCallId"))
            call.has_result = True
            failed = ServerToolResult(id, call.name, error, is_error=True)
            block = ToolResult(id, (Text(error),), is_error=True)
            self.opener.add_whole(failed if call.by_provider else block, events)

    def _settle_input(
        self, call: Call, value: object, data: str, *, is_text: bool, events: list[Event]
    ) -> None:
        """Append a call's complete input, or compare it with the input that deltas streamed."""
        streamed = "".join(call.fragments)
        if not streamed:
            text = clean(value) if is_text and isinstance(value, str) else input_text(data, value)
            if text:
                self._store_input(call, text)
                events.append(JSONDelta(call.delta.index, text))
        elif value not in (streamed, self._json_of(streamed)):
            # The AI SDK validates, completes and repairs the input behind the deltas.
            self._note("changed_arguments", "tool call")

    def _json_of(self, text: str) -> object:
        try:
            # White space alone is no input, as no text is.
            return decode_any(text.strip() or "{}", max_depth=self._limits.max_json_depth)
        except InvalidJSON:
            return text

    def _stop_call(self, call: Call, events: list[Event], *, is_unfinished: bool = False) -> None:
        if call.carry:
            events.append(JSONDelta(call.delta.index, clean(call.carry)))
        call.is_open, call.carry, call.fragments = False, "", []
        self.opener.stored.release(call.stored_bytes)
        events.append(BlockStop(call.delta.index, is_unfinished))

    def add_output(self, value: Chunk, events: list[Event]) -> bool:
        """Append a call's result; return False for a preliminary or a repeated result.

        Raises:
            Fatal: There is no such call, as for the client.
        """
        self.flush(events)
        call = self.calls.get(clean(text_field(value, "toolCallId")))
        if call is None:
            raise malformed("output of an unknown call, expected its start before it")
        if call.is_open:
            if not is_repeated(call.metadata):
                self._note("missing_block_stop", "tool call")
            self._stop_call(call, events)
        if value.get("preliminary") is True or call.has_result:
            return False
        if value["type"] == "tool-output-error":
            error = clean(text_field(value, "errorText"))
            block = ToolResult(call.id, (Text(error),), is_error=True)
        elif value["type"] == "tool-output-denied":
            block = ToolResult(call.id, (Text(DENIED),), is_error=True)
        elif "output" not in value:
            raise malformed("tool-output-available without an output, expected one")
        else:
            block = result_from_wire(call.id, value["output"])
        output: object = value.get("output")
        is_error = value["type"] != "tool-output-available"
        if value["type"] == "tool-output-error":
            output = server_error_from_wire(clean(text_field(value, "errorText")))
        # Google executes some calls of functions itself, which only the result says.
        by_provider = call.by_provider or value.get("providerExecuted") is True
        call.has_result = True
        result = ServerToolResult(call.id, call.name, output, is_error) if by_provider else block
        self.opener.add_whole(result, events, _other_fields(value, _RESULT_FIELDS))
        return True

    def request_approval(self, value: Chunk, events: list[Event]) -> None:
        """Note that the call of a `tool-approval-request` awaits a person's approval."""
        self.flush(events)
        call = self.calls.get(clean(text_field(value, "toolCallId")))
        if call is not None:
            call.awaits_approval = True

    # Whole blocks, and the end

    def add_file(self, value: Chunk, events: list[Event]) -> bool:
        """Append the block of a `file` chunk; return False if no block type has the media type."""
        block = file_from_wire(text_field(value, "mediaType"), text_field(value, "url"))
        if block is None:
            return False
        extra = _other_fields(value, _FILE_FIELDS)
        signed = signature_from_wire(value.get("providerMetadata"))
        if isinstance(block, Image) and signed is not None:
            del extra["providerMetadata"]
            block = structs.replace(block, signature=signed.signature, issuer=signed.issuer)
        self.opener.add_whole(block, events, extra)
        return True

    def finish(self, events: list[Event]) -> None:
        """Close all open blocks at the end of the message."""
        self.flush(events)
        for part in self.open.values():
            self._note("missing_block_stop", part.kind)
            self._stop_part(part, events)
        for call in self.calls.values():
            if call.is_open:
                # The client executes no call whose input was never available.
                self._note("unfinished_arguments", "tool call")
                self._stop_call(call, events, is_unfinished=True)


def _awaits_client(call: Call) -> bool:
    return not call.by_provider and not call.has_result


def _takes_text(value: Chunk) -> bool:
    """Return whether a call's input is free text, judged by its first chunk."""
    if value["type"] == "tool-input-available":
        return isinstance(value.get("input"), str)
    return value.get("inputEncoding") == "text"


def _other_fields(value: Chunk, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a chunk that have no unified field."""
    fields: dict[str, Any] = clean_tree({k: item for k, item in value.items() if k not in known})
    return fields


def _is_signed(metadata: object) -> bool:
    return signature_from_wire(metadata) is not None or redacted_from_wire(metadata) is not None
