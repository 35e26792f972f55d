"""Content blocks of one message, decoded from wire events to unified events.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).  `OpenBlock` is
a block between its start and its stop, `MessageBlocks` finds the block of each event.

Compatible servers deviate: deltas without an index or at the index of another block, text in
the start and again in the first delta, starts and signatures sent twice, stops that never come.
What is unambiguous is accepted and noted; what is not ends the stream as malformed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from streamnorm._core.blocks import (
    Block,
    Citation,
    OpaqueBlock,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
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
)
from streamnorm._core.failures import malformed, too_large
from streamnorm._core.json import clean, is_json, objects_of, rejoin, string_of
from streamnorm._core.limits import (
    OBJECT_BYTES,
    USUAL_FIELDS_BYTES,
    Limits,
    StoredBytes,
    text_bytes,
    value_bytes,
)
from streamnorm._core.text import LONG_CHARS, MAX_FRESH, TextBuffer
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.content import (
    CALL_TYPES,
    CALLS,
    call_from_wire,
    citation_from_wire,
    complete_compaction,
    event_from_wire,
    input_from_wire,
    opaque_from_wire,
    redacted_from_wire,
    result_fields,
    result_from_wire,
    same_input,
    signature_from_wire,
)

_KINDS: dict[type[Block], tuple[type[Block], ...]] = {
    Text: (Text,),
    Reasoning: (Reasoning,),
    ToolCall: CALLS,
}
_NAMES: dict[type[Block], str] = {Text: "text", Reasoning: "thinking", ToolCall: "tool_use"}
_DELTAS: dict[type[Block], type[Delta]] = {
    Text: TextDelta,
    Reasoning: ReasoningDelta,
    ToolCall: JSONDelta,
    ServerToolCall: JSONDelta,
}
_WIRE_DELTAS: dict[type[wire.Delta], type[Delta]] = {
    wire.TextDelta: TextDelta,
    wire.ThinkingDelta: ReasoningDelta,
    wire.InputJSONDelta: JSONDelta,
}


class OpenBlock(Struct):
    """A content block that has started and not stopped.

    Attributes:
        unified: The unified block, empty if it grows by deltas.
        extra: Fields of the start that are not mapped to `unified`.
        start_text: Text or thinking in the start.
        start_signature: Signature in the start; a signature delta replaces it.
        start_input: Input in the start; deltas replace it.
        start_citations: Citations in the start.
        index: Unified index; -1 while the `BlockStart` is held.
        delta: Empty delta of the block; None before `BlockStart`, and for a block without deltas.
        has_deltas: Whether a delta with text, thinking or input has arrived.
        fragments: Input of a call so far; empty for other blocks.
        carry: High surrogate at the end of the last delta.
        signature: Signature of the last signature delta, as spelt on the wire.
        stored_bytes: Bytes counted as stored until the block stops, without `fragments`.
    """

    unified: Block
    extra: dict[str, Any] = {}
    start_text: str = ""
    start_signature: str = ""
    start_input: str = ""
    start_citations: tuple[Citation, ...] = ()
    index: int = -1
    delta: Delta | None = None
    has_deltas: bool = False
    fragments: TextBuffer = field(default_factory=TextBuffer)
    carry: str = ""
    signature: str = ""
    stored_bytes: int = 0

    def append_fragment(self, text: str, stored: StoredBytes) -> bool:
        """Store a fragment of a call's input; return False beyond the bound.

        Fragments are counted in batches: the fragment that ends a batch may exceed the bound,
        and the one that ends the next batch is refused.
        """
        fresh = self.fragments.fresh
        if len(fresh) < MAX_FRESH and len(text) <= LONG_CHARS:
            fresh.append(text)
            return True
        # The batch before has passed the bound by at most `MAX_FRESH` fragments of `LONG_CHARS`.
        if stored.left < 0:
            return False
        fresh.append(text)
        stored.left -= self.fragments.pack()
        return True


def open_block(block: dict[str, Any], raw_input: str | None, server: str | None) -> OpenBlock:
    """Return a new block for a `content_block_start`; the block's unified index is set later.

    Raises:
        Fatal: The block lacks its type or a required field.
    """
    match block.get("type"):
        case "text":
            return OpenBlock(
                Text(),
                wire.unknown_fields(block, ("type", "text", "citations")),
                # "" at the API; MiniMax repeats the first delta here, some proxies send the whole
                # text (minimax/text-repeated, proxy/whole-blocks-in-starts).
                start_text=clean(wire.text_of(block, "text")),
                start_citations=tuple(map(citation_from_wire, objects_of(block.get("citations")))),
            )
        case "thinking":
            return OpenBlock(
                Reasoning(),
                wire.unknown_fields(block, ("type", "thinking", "signature")),
                start_text=clean(wire.text_of(block, "thinking")),
                # "" at the API, and missing at DeepSeek; gateways that frame whole answers sign
                # here.
                start_signature=string_of(block, "signature"),
            )
        case "redacted_thinking" if isinstance(data := block.get("data"), str):
            return OpenBlock(
                redacted_from_wire(data, server), wire.unknown_fields(block, ("type", "data"))
            )
        # llama.cpp leaves out `input`, the API sends `{}` before deltas.
        case str(kind) if kind in CALL_TYPES and (name := string_of(block, "name")):
            return OpenBlock(
                call_from_wire(kind, name, block),
                wire.unknown_fields(block, ("type", "id", "name", "input")),
                start_input=input_from_wire(block, raw_input),
            )
        # By the suffix, since each server tool of the API has a result type of its own.
        case str(kind) if kind.endswith("_tool_result") and isinstance(
            id := block.get("tool_use_id"), str
        ):
            result = result_from_wire(kind, id, block)
            return OpenBlock(result, wire.unknown_fields(block, result_fields(result)))
        case str(kind) if kind in CALL_TYPES or kind == "redacted_thinking":
            raise malformed(f"{kind} lacks a field, expected all that are required")
        case str(kind):
            # The versioning policy allows new block types at any time (anthropic/unknown-types).
            return OpenBlock(opaque_from_wire(kind, block))
        case _:
            raise malformed("content block without a type, expected one")


class MessageBlocks:
    """The open blocks of one message.

    Blocks are found by their index on the wire, which is only a key; unified indexes
    count the blocks in the order of their starts.

    Args:
        server: Name of the server, which decides the issuer of signatures.
        limits: Bounds on blocks, calls and stored bytes.
        note: Called with each deviation that is accepted.

    Attributes:
        has_client_call: Whether the message contains a client tool call.
        unfinished_calls: Number of client tool calls that stopped with incomplete arguments.
        may_split_pairs: Whether the current payload may hold halves of surrogate pairs.
        opener: Opener of the blocks, and counter of stored bytes.
    """

    def __init__(
        self, server: str | None, limits: Limits, note: Callable[[str, str], None]
    ) -> None:
        self.has_client_call = False
        self.unfinished_calls = 0
        self.may_split_pairs = False
        self._server = server
        self.opener = BlockOpener(limits, note)
        self._note = note
        self._open: dict[object, OpenBlock] = {}
        self._indexes: dict[object, int] = {}  # unified index by wire index, also after the stop
        self._contents: dict[object, int] = {}  # hash of a stopped block's content, by wire index
        self._implied: tuple[object, object] | None = None  # key of the open block without a start
        self._call_ids: set[str] = set()

    def begin_message(self, id: str) -> None:
        """Set the message's id, from which the ids of calls without an id are derived."""
        self.opener.seed = (id,)

    def is_unknown(self, wire_index: object) -> bool:
        """Return whether the open block at an index has an unknown type."""
        block = self._open.get(wire_index)
        return block is not None and isinstance(block.unified, OpaqueBlock)

    @property
    def is_open(self) -> bool:
        """Whether any block is open."""
        return bool(self._open)

    def appendable_block(self, wire_index: object, kind: type[wire.Delta]) -> OpenBlock | None:
        """Return the open block that a delta can extend; None if the delta needs the slow path."""
        block = self._open.get(wire_index)
        # The first delta may repeat the start, and nothing extends what a signature has sealed.
        if block is None or not block.has_deltas or block.carry or block.signature:
            return None
        return block if _WIRE_DELTAS[kind] is type(block.delta) else None

    def start(
        self, wire_index: object, block: dict[str, Any], raw_input: str | None, events: list[Event]
    ) -> None:
        """Open the block of a `content_block_start`.

        Args:
            wire_index: Index on the wire; None if the event has none.
            block: The content block.
            raw_input: Input of the block as spelt on the wire.
            events: List to append to.

        Raises:
            Fatal: The block lacks a required field, its index or the id of its call was used
                before, or a limit is exceeded.
        """
        opened = open_block(block, raw_input, self._server)
        self._stop_implied(events)
        # Clients find a block by its index: SGLang and proxies reuse one, and each client reads
        # that as another message (proxy/index-reused).
        if wire_index in self._indexes or wire_index in self._open:
            raise malformed("content_block_start at an index in use, expected a new index")
        # An event without an index can only mean the block that is open, which has no number then.
        key = object() if wire_index is None else wire_index
        self._open[key] = opened
        if isinstance(opened.unified, OpaqueBlock) and opened.unified.kind == "compaction":
            # Held until its delta, which completes the block: the API sends the summary of a
            # compaction in one `compaction_delta`, and opaque blocks have no unified deltas.
            self._store(opened, value_bytes(block) + OBJECT_BYTES)
            return
        self._store(opened, max(value_bytes(block) - USUAL_FIELDS_BYTES, 0))
        self._emit_start(key, opened, events)
        if opened.start_text:
            events.append(_DELTAS[type(opened.unified)](opened.index, opened.start_text))
        # A whole block, in `message_start` or from a gateway, has its citations here.
        events += [CitationDelta(opened.index, citation) for citation in opened.start_citations]

    def add_complete(
        self, position: int, block: dict[str, Any], raw_input: str | None, events: list[Event]
    ) -> None:
        """Emit a block that is complete in `message_start`, without `content_block_…` events.

        The API sends whole blocks there after programmatic tool calls.  Blocks that follow have
        later indexes, since the SDKs append them.
        """
        self.start(position, block, raw_input, events)
        self.stop(position, events)

    def append_text(self, wire_index: object, text: str, events: list[Event]) -> None:
        """Append a text delta."""
        # A delta that repeats a stopped block adds nothing; any other is malformed there
        # (proxy/deltas-of-closed-and-unknown-blocks).
        if not text or self._repeats(wire_index, Text, text):
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Text):
            block = self._open_implied(wire_index, Text, events)
        if (text := self._drop_repeated_text(block, text)) and (
            text := self._join_surrogates(block, text)
        ):
            events.append(TextDelta(block.index, text))

    def append_thinking(self, wire_index: object, text: str, events: list[Event]) -> None:
        """Append a thinking delta; if the block is signed, open a new block."""
        if not text:
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Reasoning):
            block = self._open_implied(wire_index, Reasoning, events)
        if not (text := self._drop_repeated_text(block, text)):
            return
        # proxy/thinking-after-its-signature: replayed under the old signature, the API refuses the
        # thinking.
        if block.signature:
            block = self._continue_unsigned(block, events)
        if text := self._join_surrogates(block, text):
            events.append(ReasoningDelta(block.index, text))

    def append_input(self, wire_index: object, text: str, events: list[Event]) -> None:
        """Append a delta of a call's input."""
        if not text or self._repeats(wire_index, ToolCall, text):
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, _KINDS[ToolCall]):
            # No call is opened for a stray input: it would have neither id nor name.
            block = self._find_only_open(wire_index, ToolCall)
        block.has_deltas = True
        if text := self._join_surrogates(block, text):
            if not block.append_fragment(text, self.opener.stored):
                raise too_large("max_accumulated_bytes", self.opener.stored.bound)
            events.append(JSONDelta(block.index, text))

    def sign(self, wire_index: object, signature: str, events: list[Event]) -> None:
        """Sign a thinking block; a second, different signature opens a new, empty block."""
        # llama.cpp ends its thinking with the signature "".
        if not signature or self._repeats(wire_index, Reasoning, signature):
            return
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Reasoning):
            block = self._find_only_open(wire_index, Reasoning)
        # The SDKs assign signatures, so that servers may send one twice.
        if block.signature == signature:
            self._note("resent_signature", "thinking")
            return
        if block.signature:
            block = self._continue_unsigned(block, events)
        self._store(block, text_bytes(signature))
        block.signature = signature
        # The signature covers the text before it, half a character included.
        self._flush_carry(block, events)
        issued = signature_from_wire(clean(signature), self._server)
        events.append(SignatureDelta(block.index, *issued))

    def cite(self, wire_index: object, citation: dict[str, Any], events: list[Event]) -> None:
        """Add a citation to a text block."""
        block = self._open.get(wire_index)
        if block is None or not isinstance(block.unified, Text):
            block = self._find_only_open(wire_index, Text)
        events.append(CitationDelta(block.index, citation_from_wire(citation)))

    def is_held(self, wire_index: object) -> bool:
        """Return whether a block's start is held until its `compaction_delta` arrives."""
        return self._find_held_compaction(wire_index) is not None

    def complete_held(
        self, wire_index: object, fields: dict[str, Any], events: list[Event]
    ) -> bool:
        """Complete and emit a held `compaction` block; False if the index has no held block."""
        compaction = self._find_held_compaction(wire_index)
        if compaction is None:
            return False
        block = self._open[wire_index]
        block.unified = complete_compaction(compaction, fields)
        self._emit_start(wire_index, block, events)
        return True

    def _find_held_compaction(self, wire_index: object) -> OpaqueBlock | None:
        block = self._open.get(wire_index)
        if block is None or block.index >= 0 or not isinstance(block.unified, OpaqueBlock):
            return None
        return block.unified

    def add_unknown(self, wire_index: object, name: str, value: Any, events: list[Event]) -> None:
        """Emit an unknown event as opaque data, with the unified index of its block, if any."""
        # The reference asks clients to ignore unknown events; here they pass, beside their block.
        index = self._indexes.get(wire_index) if isinstance(wire_index, int) else None
        events.append(event_from_wire(name, value, index))

    def stop(self, wire_index: object, events: list[Event]) -> None:
        """Close a block; a stop without an index closes the only open block."""
        if wire_index is None and len(self._open) == 1:
            (wire_index,) = self._open
        block = self._open.pop(wire_index, None)
        if block is None:
            self._note("extra_block_stop", "block")
            return
        self._emit_stop(wire_index, block, events)
        if self._implied is not None and self._implied[1] == wire_index:
            self._stop_implied(events)

    def finish(self, events: list[Event]) -> None:
        """Close all open blocks at the end of the message."""
        self._stop_implied(events)
        # Servers that send no stops end all blocks with the message (proxy/missing-block-stops).
        for key, block in sorted(self._open.items(), key=lambda item: item[1].index):
            self._note("missing_block_stop", "block")
            self._emit_stop(key, block, events)
        for _ in range(self.unfinished_calls):
            self._note("unfinished_arguments", "tool call")

    def _store(self, block: OpenBlock, size: int) -> None:
        """Count bytes that an open block stores; they are released when the block stops."""
        self.opener.store(size)
        block.stored_bytes += size

    def _emit_start(self, key: object, block: OpenBlock, events: list[Event]) -> None:
        started = block.unified
        if isinstance(started, CALLS):
            # A tool result names its call by the id alone.
            if started.id in self._call_ids:
                raise malformed("second call of one id, expected another id")
            if started.id:
                self._call_ids.add(started.id)
            self.has_client_call = self.has_client_call or isinstance(started, ToolCall)
        block.index = self.opener.open(started, events, extra=block.extra)
        if (delta := _DELTAS.get(type(started))) is not None:
            block.delta = delta(block.index, "")
        if isinstance(key, int):
            self._indexes[key] = block.index

    def _emit_stop(self, key: object, block: OpenBlock, events: list[Event]) -> None:
        # A compaction without a summary has no delta, and starts here.
        if block.index < 0:
            self._emit_start(key, block, events)
        self.opener.stored.release(block.stored_bytes)
        self._flush_carry(block, events)
        content: str = block.signature or block.start_signature
        if isinstance(block.unified, CALLS):
            content = self._complete_input(block)
        elif not block.has_deltas and not content:
            content = block.start_text
        if content and isinstance(key, int):
            self._contents[key] = hash((_DELTAS[type(block.unified)], content))
        # At the stop, because deltas would have replaced it (kimi/whole-input-in-start,
        # proxy/input-in-start-and-in-deltas).
        if block.start_input and not block.has_deltas:
            events.append(JSONDelta(block.index, block.start_input))
        # A signature delta replaces the signature of the start, as in the SDKs.
        if block.start_signature and not block.signature:
            issued = signature_from_wire(block.start_signature, self._server)
            events.append(SignatureDelta(block.index, *issued))
        events.append(BlockStop(block.index))

    def _complete_input(self, call: OpenBlock) -> str:
        """Return a call's complete input; note a client call with invalid input.

        Kimi and the API's programmatic calls send the input in the start alone, other servers
        in the deltas, some in both: then the two must be the same JSON.
        """
        self.opener.store(call.fragments.pack())
        in_start, in_deltas = call.start_input, call.fragments.text()
        self.opener.stored.release(text_bytes(in_deltas))
        if in_start and in_deltas and not same_input(in_start, in_deltas):
            raise malformed("deltas of another input than that of the start, expected the same")
        arguments = in_deltas or in_start
        # With `eager_input_streaming` the API does not validate the input
        # (anthropic/eager-input-is-no-json); without, the token limit cuts it
        # (anthropic/max-tokens-in-arguments).
        if isinstance(call.unified, ToolCall) and arguments and not is_json(arguments):
            self.unfinished_calls += 1
        return arguments

    def _continue_unsigned(self, signed: OpenBlock, events: list[Event]) -> OpenBlock:
        """Replace a signed block by a new one for text after the signature."""
        key = next(key for key, block in self._open.items() if block is signed)
        self.opener.stored.release(signed.stored_bytes)
        self._flush_carry(signed, events)
        events.append(BlockStop(signed.index))
        block = self._open[key] = OpenBlock(Reasoning(), has_deltas=signed.has_deltas)
        self._emit_start(key, block, events)
        return block

    def _stop_implied(self, events: list[Event]) -> None:
        if self._implied is not None:
            key, self._implied = self._implied, None
            self._emit_stop(key, self._open.pop(key), events)

    def _repeats(self, wire_index: object, kind: type[Block], content: str) -> bool:
        """Return whether a delta repeats a stopped block's content; note the repetition."""
        held = self._contents.get(wire_index)
        if held is None or held != hash((_DELTAS[kind], content)):
            return False
        self._note("resent_delta", kind.__name__)
        return True

    def _find_only_open(self, wire_index: object, kind: type[Block]) -> OpenBlock:
        """Return the only open block of a kind, for a delta that has no index.

        Raises:
            Fatal: The delta has an index, or several such blocks are open.
        """
        alike = [block for block in self._open.values() if isinstance(block.unified, _KINDS[kind])]
        # A guess would write one call's input into another.
        if wire_index is not None or len(alike) != 1:
            raise malformed(f"delta of no open {_NAMES[kind]} block, expected one at its index")
        self._note("misplaced_delta", kind.__name__)
        return alike[0]

    def _open_implied(
        self, wire_index: object, kind: type[Text | Reasoning], events: list[Event]
    ) -> OpenBlock:
        """Return the block for a text or thinking delta at the index of a block of another kind.

        SGLang sends text amid a tool's input (sgl-project/sglang#24293), LiteLLM thinking amid
        text (BerriAI/litellm#33224).  If no block of the kind is open, a new one is opened that
        ends when the next block starts.
        """
        key = (kind, wire_index)
        if key not in self._open:
            alike = any(isinstance(block.unified, kind) for block in self._open.values())
            host = self._open.get(wire_index)
            if alike or host is None or host.delta is None:
                return self._find_only_open(wire_index, kind)
            self._stop_implied(events)
            self._implied = key
            self._open[key] = OpenBlock(Text() if kind is Text else Reasoning())
            self._emit_start(key, self._open[key], events)
        self._note("misplaced_delta", kind.__name__)
        return self._open[key]

    def _drop_repeated_text(self, block: OpenBlock, text: str) -> str:
        """Return `text`; "" if a first delta repeats the text of the block's start (MiniMax).

        cline/cline#9215
        """
        if block.has_deltas:
            return text
        block.has_deltas = True
        # Compared whole: text that only begins like the start is its continuation.
        if text != block.start_text:
            return text
        self._note("resent_text", type(block.unified).__name__)
        return ""

    def _join_surrogates(self, block: OpenBlock, text: str) -> str:
        if self.may_split_pairs or block.carry:
            text, block.carry = rejoin(block.carry, text)
        return text

    def _flush_carry(self, block: OpenBlock, events: list[Event]) -> None:
        if block.carry:
            carry, block.carry = clean(block.carry), ""
            events.append(_DELTAS[type(block.unified)](block.index, carry))
