"""Reducers for single features of blocks: citations, metadata, calls, signatures.

`Projector` itself reduces the features that one event decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from streamnorm._core.blocks import (
    Citation,
    Image,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.errors import ArgumentsError
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    SignatureDelta,
    StreamError,
    Usage,
)
from streamnorm._core.json import is_array, is_object
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes, text_bytes
from streamnorm._core.losses import Capabilities, Losses, drop_signature
from streamnorm._core.losses.lent_signatures import LentSignatures
from streamnorm._core.text import SignatureCarrier, TextBuffer, mint_id, read_carrier, write_carrier
from streamnorm.partial_json import decode_arguments


class Citations(Struct, eq=False):
    """Reduce the citations of text blocks.

    Attributes:
        target: Capabilities of the target.
        losses: Counter of `citations`.
        vendor_fields: Reducer of the vendor's own fields.
        stored: Counter of the bytes stored to write each citation once.
        written: Citations that were written, in targets without the cited text.
    """

    target: Capabilities
    losses: Losses
    vendor_fields: VendorFields
    stored: StoredBytes
    written: dict[str, None] = {}

    def reduce(self, index: int, citation: Citation) -> Citation | None:
        """Return a citation of block `index` that the target can carry; None to drop it."""
        target = self.target
        if citation.kind not in target.citations:
            if target.url_citation is None or citation.url is None:
                self.losses.add("citations", citation.kind, "dropped")
                return None
            self.losses.add("citations", citation.kind, f"written as {target.url_citation}")
            text = citation.cited_text if target.url_citation in target.cited_texts else None
            citation = Citation(
                *(target.url_citation, citation.url, citation.title, text),
                *(citation.start, citation.end),
            )
        elif citation.cited_text is not None and citation.kind not in target.cited_texts:
            self.losses.add("citations", "cited text", "dropped")
            citation = structs.replace(citation, cited_text=None)
        if citation.extra is not None and not target.citation_fields:
            citation = structs.replace(citation, extra=self.vendor_fields.drop(citation.extra))
        # Citations that differed only in their text are now equal.
        if not target.citations <= target.cited_texts:
            key = f"{index} {citation!r}"
            if key in self.written:
                return None
            self.stored.add(OBJECT_BYTES + text_bytes(key))
            self.written[key] = None
        return citation

    def drop(self) -> None:
        """Count a citation of a block without text as lost."""
        self.losses.add("citations", "empty text", "dropped")


class MessageMetadata(Struct, eq=False):
    """Reduce token counts, service tiers and stop reasons to those that the target has.

    Attributes:
        target: Capabilities of the target.
        losses: Counter of `service_tier`, `stop_reason`, `usage` and `usage_unknown`.
        vendor_fields: Reducer of the vendor's own fields.
        refused: Whether a refusal was written as text.
        last_usage: The last usage snapshot, as the source has it.
        reduced: The last usage snapshot, as the target can carry it.
        lost_tier: The service tier that was counted last.
        stopped: Whether any choice has stopped.
    """

    target: Capabilities
    losses: Losses
    vendor_fields: VendorFields
    refused: bool = False
    last_usage: Usage = Usage()
    reduced: Usage = Usage()
    lost_tier: object = None
    stopped: bool = False

    def usage(self, usage: Usage) -> Usage:
        """Return a usage snapshot that the target can carry; losses are counted later."""
        self.last_usage = usage
        output = usage.output_tokens or 0
        if usage.cache_write_tokens and not self.target.cache_write:
            usage = structs.replace(usage, cache_write_tokens=None)
        if usage.reasoning_tokens and not self.target.reasoning_tokens:
            usage = structs.replace(usage, reasoning_tokens=None)
        # xAI counts reasoning outside the output.
        if (usage.reasoning_tokens or 0) > output and not self.target.excess_reasoning:
            usage = structs.replace(usage, reasoning_tokens=output)
        left = self.vendor_fields.without_lost(usage.extra)
        if left is not usage.extra:
            usage = structs.replace(usage, extra=left)
        self.reduced = usage
        return usage

    def start(self, event: MessageStart) -> MessageStart:
        """Return a start without vendor fields that the target does not write."""
        self.tier(event.extra)
        left = self.vendor_fields.drop(event.extra)
        if left is not event.extra:
            event = structs.replace(event, extra=left)
        if (event.id or event.model) and not self.target.identity:
            # Every stream of another dialect has both: their loss ends no strict encoder.
            self.losses.count("identity", "message_start", "dropped")
            event = structs.replace(event, id="", model="")
        return event

    def tier(self, extra: dict[str, Any] | None) -> None:
        """Count the service tier in `extra` as lost if the target has no equivalent."""
        tier = None if extra is None else extra.get("service_tier")
        if (
            isinstance(tier, str)
            and tier != self.lost_tier
            and tier not in self.target.service_tiers
        ):
            self.losses.add("service_tier", tier, "dropped")
            self.lost_tier = tier

    def stop(self, event: MessageStop) -> MessageStop:
        """Return a stop with a reason that the target has."""
        target = self.target
        if not self.stopped:
            self.stopped = True
            self._count_usage()
        self.tier(event.extra)
        left = self.vendor_fields.drop(event.extra)
        if left is not event.extra:
            event = structs.replace(event, extra=left)
        # The refusal is text by now: the stop reason is all that is left of it.
        if self.refused:
            event = structs.replace(event, reason="refusal")
        if event.reason == "other" and event.raw_reason in target.native_stop_reasons:
            return event
        unnamed = event.reason == "stop_sequence" and event.stop_sequence is None
        if event.reason not in target.stop_reasons or (
            unnamed and not target.unnamed_stop_sequence
        ):
            self.losses.add("stop_reason", event.reason, "written as end_turn")
            event = structs.replace(event, reason="end_turn", stop_sequence=None)
        return event

    def _count_usage(self) -> None:
        """Count the losses in the final usage snapshot, the only one that clients report."""
        target, usage, reduced = self.target, self.last_usage, self.reduced
        self.tier(usage.extra)
        if target.usage != "never" and reduced.extra is not usage.extra:
            self.vendor_fields.drop(usage.extra)
        if reduced.cache_write_tokens != usage.cache_write_tokens:
            self.losses.add("usage", "cache_write_tokens", "dropped")
        if reduced.reasoning_tokens != usage.reasoning_tokens:
            self.losses.add("usage", "reasoning_tokens", "written as output_tokens")
        if target.usage == "always" or (target.usage == "known" and usage != Usage()):
            # Clients of some targets fail without the two counts, and 0 is no count.
            for name in ("input_tokens", "output_tokens"):
                if getattr(usage, name) is None:
                    self.losses.add("usage_unknown", name, "written as 0")


# Vendor fields whose loss is not counted: types, ids, states, times (those that a server measures,
# as Converse's `metrics.latencyMs`, with them), sums and padding; fields that
# other features and the writers of blocks handle; and fields that echo the request.
_UNCOUNTED = frozenset(
    {
        *("type", "object", "role", "id", "index", "item_id", "status", "responseId"),
        *("total_tokens", "totalTokenCount"),
        *("created", "created_at", "completed_at", "createTime", "metrics"),
        *("system_fingerprint", "obfuscation", "service_tier", "thought"),
        *("access_programs", "background", "conversation", "frequency_penalty", "image"),
        *("instructions", "max_output_tokens", "max_tool_calls", "metadata"),
        *("parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"),
        *("safety_identifier", "store", "temperature", "text", "tool_choice", "tools"),
        *("top_logprobs", "top_p", "truncation", "user"),
    }
)


class VendorFields(Struct, eq=False):
    """Reduce vendor fields (`extra`) to those that the target writes.

    Each answer of some vendors has fields that are no content, so their loss does not end a
    strict encoder.

    Attributes:
        losses: Counter of `extra`.
        are_carried: Whether all fields are written back: source and target have one dialect.
        carried: Names of fields that are always written.
    """

    losses: Losses
    are_carried: bool = False
    carried: frozenset[str] = frozenset()

    def drop(self, fields: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the vendor fields that the target can write; count all others as lost."""
        left = self.without_lost(fields)
        if fields is not None and left is not fields:
            for name in [name for name in fields if name not in (left or ())]:
                self.losses.count("extra", name, "dropped")
        return left

    def without_lost(self, fields: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the vendor fields of an event that the target writes, without counting losses."""
        if fields is None or self.are_carried:
            return fields
        left = {
            name: value
            for name, value in fields.items()
            if name in _UNCOUNTED or name in self.carried or not _says_something(value)
        }
        return fields if len(left) == len(fields) else left or None


def _says_something(value: object) -> bool:
    """Return whether a value has content besides nulls, zeros and empty texts."""
    if is_object(value):
        return any(map(_says_something, value.values()))
    if is_array(value):
        return any(map(_says_something, value))
    return bool(value)


class ToolCalls(Struct, eq=False):
    """Reduce the starts and stops of calls to the target's capabilities.

    Attributes:
        target: Capabilities of the target.
        losses: Counter of `duplicate_id`, `namespace` and `unfinished_call`.
        ids: Choice and id of each call that has started; None before the first.
    """

    target: Capabilities
    losses: Losses
    ids: set[tuple[int, str]] | None = None  # most messages have no call

    def start(self, event: BlockStart, call: ToolCall) -> BlockStart:
        """Return the start of a call, with an id that is unique within its choice."""
        if self.ids is None:
            self.ids = set()
        key = (event.choice, call.id)
        is_new = key not in self.ids
        has_place = call.namespace is None or self.target.namespaces
        if is_new and has_place:
            self.ids.add(key)
            return event
        # Clients match results by id, and providers refuse a history with an id twice.
        if not is_new:
            self.losses.add("duplicate_id", "tool call", "written with an id of its own")
            call = structs.replace(call, id=mint_id(*key, event.index))
        self.ids.add(key)
        if not has_place:
            self.losses.add("namespace", "tool call", "dropped")
            call = structs.replace(call, namespace=None)
        return structs.replace(event, block=call)

    def stop_unfinished(self, event: BlockStop, *, is_wrapped: bool) -> BlockStop:
        """Return the stop of a block with unfinished text, as the target writes it.

        Args:
            event: The stop.
            is_wrapped: Whether the block is free text in a JSON object, whose missing end shows
                that the text is unfinished.
        """
        if self.target.unfinished_calls:
            return event
        if not is_wrapped:
            self.losses.add("unfinished_call", "tool call", "written as if it were complete")
        return BlockStop(event.index)


def _always(fields: dict[str, Any]) -> bool:
    return True


def _outside_a_container(fields: dict[str, Any]) -> bool:
    environment = fields.get("environment")
    return not (is_object(environment) and environment.get("type") == "container_reference")


# Kinds of items that the client may have to execute, with a function from the fields of the item
# to whether it has to.
# https://platform.openai.com/docs/guides/tools (read 2026-11-23).
CLIENT_KINDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "apply_patch_call": _always,
    "computer_call": _always,
    "local_shell_call": _always,
    "mcp_approval_request": _always,
    "shell_call": _outside_a_container,
    "tool_search_call": lambda fields: fields.get("execution") == "client",
}


class _DroppedCall(Struct):
    """A call that the target cannot carry.

    Attributes:
        call: Block of the call's start.
        choice: Number of its choice.
        arguments: Fields of the item as JSON, if the client may have to execute the call.
    """

    call: ServerToolCall
    choice: int
    arguments: TextBuffer | None


_EXECUTED = "a written call was executed, expected events of a page's dialect"


class DroppedCalls(Struct, eq=False):
    """Find dropped calls whose result the client would wait for.

    Attributes:
        target: Capabilities of the target.
        stored: Counter of the bytes of dropped calls.
        written: The client's calls, which are not dropped.
        calls: The dropped calls, by the index of their block.
        answered: Ids of calls with a result in the same answer.
        are_executed: Whether a result of a written call was dropped.
    """

    target: Capabilities
    stored: StoredBytes
    written: ToolCalls
    calls: dict[int, _DroppedCall] = {}
    answered: set[str] = set()
    are_executed: bool = False

    def drop(self, start: BlockStart) -> None:
        """Record a dropped block, if it is a tool call or the result of one."""
        match start.block:
            case ServerToolCall(kind=kind, arguments=text) as call:
                is_client = kind in CLIENT_KINDS
                arguments = TextBuffer(text, self.stored) if is_client else None
                self.calls[start.index] = _DroppedCall(call, start.choice, arguments)
            case ServerToolResult(id):  # the provider executed the call, for example in a container
                self.stored.add(text_bytes(id))
                self.answered.add(id)
            case ToolResult(id):
                key = start.choice, id
                self.are_executed |= self.written.ids is not None and key in self.written.ids
            case _:
                pass

    def append(self, index: int, text: str) -> None:
        """Append arguments of a dropped block."""
        dropped = self.calls.get(index)
        if dropped is not None and dropped.arguments is not None:
            dropped.arguments.append(text)

    def error(
        self, stop: MessageStop, *, is_cut_short: bool, says_nothing: bool
    ) -> StreamError | None:
        """Return the error for an answer whose client would wait for a dropped call, or None.

        Args:
            stop: The first `MessageStop` of the source.
            is_cut_short: Whether its reason explains unexecuted calls of its choice.
            says_nothing: Whether the target shows nothing of its choice to the client.
        """
        if self.are_executed:  # which the client would do again
            return StreamError("malformed", _EXECUTED, retryable=False)
        # A client sends a paused answer back, and the provider executes its calls.  Without the
        # calls, the client would take an empty answer for a complete one.
        is_paused = stop.reason == "pause" and stop.reason not in self.target.stop_reasons
        for dropped in self.calls.values():
            # The stop reason shows the client that the answer is cut: it expects no call.
            if is_cut_short and dropped.choice == stop.choice:
                continue
            is_empty = is_paused and says_nothing and dropped.choice == stop.choice
            if self._waits(dropped, is_paused=is_empty):
                return self._lacking(dropped.call.kind)
        return None

    def _waits(self, dropped: _DroppedCall, *, is_paused: bool) -> bool:
        if dropped.arguments is None:
            return is_paused and dropped.call.id not in self.answered
        try:
            fields = decode_arguments(dropped.arguments.text())
        except ArgumentsError:  # incomplete fields name no condition
            fields = {}
        return CLIENT_KINDS[dropped.call.kind](fields) and (
            fields.get("call_id") not in self.answered
        )

    def _lacking(self, kind: str) -> StreamError:
        message = f"{kind} waits for the client, expected a call that {self.target.dialect} has"
        # The same request leads to the same answer, so a retry is useless.
        return StreamError("malformed", message, kind, 400, retryable=False)


class SignatureCarriers(Struct, eq=False):
    """Move signatures that the target cannot attach to a block into reasoning blocks, and back.

    Google signs tool calls and texts, and requires the signature of a call to be sent back with
    it.  For a dialect that can sign only reasoning, an empty reasoning block carries it: before a
    call, which it names, since clients move reasoning before all calls; after a text.

    Attributes:
        target: Capabilities of the target.
        losses: Counter of `signature`: carried signatures whose call does not follow.
        stored: Counter of signatures that wait for their block, or for its end.
        lent: Signatures of reasoning that a call behind it gets, too.
        after: Carriers to emit at the stop of their block, each with its signature.
        found: Carried signatures of later calls, by call id.
        starts: Starts of blocks whose signature needs a carrier.
        count: Number of carriers.
        carried_types: Types of blocks whose signature goes on reasoning.
    """

    target: Capabilities
    losses: Losses
    stored: StoredBytes
    lent: LentSignatures
    after: dict[int, tuple[list[Event], SignatureDelta]] = {}
    found: dict[str, SignatureCarrier] = {}
    starts: dict[int, BlockStart] = {}
    count: int = 0
    carried_types: tuple[type, ...] = ()

    def __post_init__(self) -> None:
        if self._carries:
            signed = self.target.signed
            self.carried_types = tuple([kind for kind in (Text, ToolCall) if kind not in signed])

    def push(self, event: Event) -> list[Event]:
        """Return an event, and the block that carries its signature if the target needs it."""
        match event:
            case BlockStart(index, block):
                is_written = self.target.choices or not event.choice
                if is_written and type(block) in self.carried_types:
                    self.starts[index] = event
                if type(block) is Text:
                    return [event]
                if isinstance(block, ToolCall):
                    if self.lent.last is not None:
                        self.lent.start(event, has_signature=ToolCall in self.carried_types)
                    return self._start_call(event, block)
                if isinstance(block, Image) and Image not in self.target.signed:
                    return [structs.replace(event, block=drop_signature(block, self.losses))]
                # Google has no redacted thought: what is redacted for others is a signature there.
                if isinstance(block, RedactedReasoning) and self._is_signature(block):
                    start = structs.replace(event, block=Reasoning())
                    return [start, SignatureDelta(index, block.data, block.issuer, block.id)]
            case SignatureDelta() if not self.lent.accept_own(event):
                return []
            case SignatureDelta(index) if index in self.starts:
                self._pop_carrier(index)
                self.stored.add(text_bytes(event.signature))
                self.after[index] = self._carrier(self.starts[index], event), event
                return []
            case JSONDelta(index) if index in self.lent.calls:
                return self.lent.push(event)
            case BlockStop(index):
                passed = self.lent.push(event) if index in self.lent.calls else [event]
                return [*passed, *self._pop_carrier(index)]
            case _:
                pass
        return [event]

    def unwrap(self, event: SignatureDelta) -> SignatureCarrier | None:
        """Return the signature that `event` carries for a block that the target can sign."""
        # Only signatures without an issuer can be our carriers: those of vendors are not read.
        carried = read_carrier(event.signature) if event.issuer is None else None
        if carried is None or (ToolCall if carried.id else Text) not in self.target.signed:
            return None
        if carried.id:
            self.stored.add(text_bytes(carried.signature))
            self.found[carried.id] = carried
        return carried

    def lend(self, event: SignatureDelta, start: BlockStart) -> bool:
        """Store a signature of reasoning for a call that directly follows the reasoning.

        Args:
            event: The signature.
            start: Start of the reasoning.

        Returns:
            Whether the signature can go on nothing but a call.
        """
        if event.issuer is None:  # our own carrier
            return False
        if ToolCall not in self.carried_types and event.issuer != self.target.call_issuer:
            return False
        self.lent.lend(event, start.choice)
        return Reasoning not in self.target.signed

    def _pop_carrier(self, index: int) -> list[Event]:
        """Remove and return the events that carry a block's signature; [] if there are none."""
        if index not in self.after:
            return []
        carrier, signed = self.after.pop(index)
        self.stored.release(text_bytes(signed.signature))
        return carrier

    def end(self) -> None:
        """Count each carried signature whose tool call did not follow as lost."""
        self.lent.drop_last()
        for _ in range(len(self.found)):
            self.losses.add("signature", "ToolCall", "dropped")
        self.found.clear()

    def _start_call(self, event: BlockStart, call: ToolCall) -> list[Event]:
        signed = None
        if (found := self.found.pop(call.id, None)) is not None:
            self.stored.release(text_bytes(found.signature))
            signed = SignatureDelta(event.index, found.signature, found.issuer)
        if call.signature is not None:
            signed = SignatureDelta(event.index, call.signature, call.issuer)
            event = structs.replace(event, block=_without_signature(call))
        # The reasoning may have it already: both were written for clients that send one of them.
        if signed is None or not self.lent.accept_own(signed):
            return [event]
        is_open = event.index in self.starts
        return [*self._carrier(event, signed), event] if is_open else [event, signed]

    def _carrier(self, start: BlockStart, signed: SignatureDelta) -> list[Event]:
        id = start.block.id if isinstance(start.block, ToolCall) else ""
        carried = SignatureCarrier(signed.signature, signed.issuer, id)
        self.count += 1
        index = -self.count
        return [
            BlockStart(index, Reasoning(), start.choice),
            SignatureDelta(index, write_carrier(carried), None),
            BlockStop(index),
        ]

    @property
    def _carries(self) -> bool:
        return self.target.reasoning and Reasoning in self.target.signed

    def _is_signature(self, block: RedactedReasoning) -> bool:
        """Return whether the target writes redacted reasoning as a signature."""
        # Redacted reasoning of any other issuer is written with a tag, and read back as such.
        issuer = self.target.redacted_as_signature_of if self._carries else None
        return bool(block.data) and block.issuer == issuer is not None


def _without_signature(call: ToolCall) -> ToolCall:
    return structs.replace(call, signature=None, issuer=None)
