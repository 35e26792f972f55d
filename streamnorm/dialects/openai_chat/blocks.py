"""Blocks of one choice, decoded from deltas without stated boundaries.

A text, reasoning or refusal block stops when another block starts; `tool_calls` decides
when a call starts and stops.  Content behind the held start of a call is queued.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamnorm._core.blocks import (
    Block,
    Citation,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Text,
    ToolCall,
)
from streamnorm._core.codec import BlockOpener, Delta
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    MessageStop,
    Opaque,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.json import clean, compact, rejoin, too_deep
from streamnorm._core.limits import OBJECT_BYTES, value_bytes
from streamnorm._core.text import Signed
from streamnorm.dialects.openai_chat.content import (
    EncryptedReasoning,
    ReasoningDetail,
    ThinkTags,
    citation_from_wire,
    provider_citation_from_wire,
)
from streamnorm.dialects.openai_chat.open_calls import (
    HeldText,
    PendingStarts,
    TextKind,
    ToolCalls,
)
from streamnorm.dialects.openai_chat.options import Quirks
from streamnorm.dialects.openai_chat.outcome import stop_reason_from_wire
from streamnorm.dialects.openai_chat.tool_calls import Call, CallFragment, ChunkId

_BLOCKS: dict[TextKind, Block] = {"text": Text(), "reasoning": Reasoning(), "refusal": Refusal()}
_WHITE_SPACE = " \t\r\n"  # between the values of JSON
# Opaque events that may follow a finish reason.
_METADATA = frozenset({"annotations", "extra_content", "logprobs", "provider_specific_fields"})
_DELTAS: dict[TextKind, Callable[[int, str], Event]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "refusal": RefusalDelta,
}


class StreamState(BlockOpener):
    """Block opener and decoding state that all choices of a stream share.

    Attributes:
        quirks: Quirks of the server.
        think_tags: Whether `<think>` within text is reasoning.
        may_hold_surrogates: Whether the current chunk may hold lone surrogates.
        chunk_id: Id of the current chunk; None if it is empty.
        first_chunk_id: The first id that a chunk had.
        id_changes: Whether a later chunk had a different id.
    """

    quirks: Quirks = Quirks()
    think_tags: bool = False
    may_hold_surrogates: bool = False
    chunk_id: ChunkId = None
    first_chunk_id: ChunkId = None
    id_changes: bool = False

    def read_chunk_id(self, id: ChunkId) -> None:
        """Set the id of the current chunk; note the first deviation from the first chunk's id.

        Groq changes the id with every chunk, Avian and Perplexity with the last.  That is a
        note, and an error only for a tool call that continues under the new id.
        """
        self.chunk_id = id or None
        if self.first_chunk_id is None:
            self.first_chunk_id = self.chunk_id
        elif id != self.first_chunk_id and self.changes_id(id):
            self.id_changes = True
            self.note("id_changed", "chunk")

    def changes_id(self, id: ChunkId) -> bool:
        """Return whether an `id` other than the first chunk's is the first such id of a chunk."""
        return bool(id) and not self.id_changes

    def check_depth(self, value: object) -> None:
        """Raise `Fatal` if a value nests deeper than `max_json_depth`."""
        if too_deep(value, self.limits.max_json_depth):
            raise too_large("max_json_depth", self.limits.max_json_depth)


class ChoiceBlocks:
    """The open blocks of one choice, and the queue of content that must wait.

    Attributes:
        finish_reason: The last finish reason; None until one has arrived.
        is_finished: Whether no content has followed it: content revokes a finish.
        extra: Unknown fields of the choice's last chunk.
        text_blocks: Number of text blocks that have started.
        calls: The tool calls.
    """

    def __init__(self, choice: int, state: StreamState) -> None:
        self.finish_reason: str | None = None
        self.is_finished = False
        self.extra: dict[str, Any] = {}
        self.text_blocks = 0
        self.calls = ToolCalls(state.note, state.stored)
        self._choice = choice
        self._state = state
        self._open_text = -1  # index of the open text, reasoning or refusal block
        self._kind: TextKind | None = None  # its kind; None once it is signed
        self._text_delta: Delta | None = None  # a delta of it, if it is text or reasoning
        self._signed_index: int | None = None  # that of the last reasoning block
        self._unsigned = -1  # that block, if it is open beside later ones for its signature
        # `signed_index` of reasoning that has stopped without a signature.
        self._stopped_unsigned: set[int | None] = set()
        self._early_citations: list[tuple[Citation, object]] = []  # with their annotations
        self._carry = ""  # high surrogate at the end of its last delta
        self._is_refused = False
        self._pending = PendingStarts(state.limits.max_held_bytes)
        self._think_tags = ThinkTags() if state.think_tags else None

    @property
    def is_empty(self) -> bool:
        """Whether no text block is open and no call has begun."""
        return self._open_text < 0 and self._unsigned < 0 and not self.calls.all

    @property
    def appendable(self) -> Delta | bool:
        """What the next chunk may extend on the fast path: a block, open calls, or nothing.

        A delta of the open text or reasoning block; True if open calls may accept
        fragments; False for nothing.
        """
        if self.is_finished:  # the next text revokes the finish reason, which needs the slow path
            return False
        if self._text_delta is not None and not (
            self._carry or self._pending.items or self._think_tags
        ):
            return self._text_delta
        # Qianfan's fragments repeat what came before: none of them merely extends the arguments.
        return bool(self.calls.open) and not self._state.quirks.cumulative_arguments

    def finish(self, reason: str) -> None:
        """Set the finish reason; content that follows makes the choice unfinished again."""
        self.finish_reason, self.is_finished = reason, True

    def add_content(self, text: str, events: list[Event]) -> None:
        """Append the events of `content`, which may hold reasoning in `<think>` tags."""
        if self._think_tags is None:
            self.add_text("text", text, events)
            return
        for kind, part in self._think_tags.feed(text):
            self.add_text(kind, part, events)

    def add_text(
        self, kind: TextKind, text: str, events: list[Event], *, signed_index: int | None = None
    ) -> None:
        """Append the events of text, reasoning or a refusal.

        Args:
            kind: Which of them.
            text: The text.
            events: The events of the chunk.
            signed_index: As of `ReasoningDetail`.
        """
        # SGLang, DeepSeek and Mistral send `content: ""` with the fragments of a call: no text
        # begins.
        if not text:
            return
        # Baseten's thinking models send `stop` before the text (baseten/finish-before-the-text): a
        # cut in that text must be seen.
        self.is_finished = False
        if self._pending.items:
            self._pending.add_text(kind, text, signed_index)
            self._release(events)
            return
        self._append_text(kind, text, events, signed_index)

    def sign_reasoning(
        self, signed: Signed, events: list[Event], detail: ReasoningDetail | None = None
    ) -> None:
        """Append a signature to the reasoning that it signs, or to a new, empty block.

        Args:
            signed: The signature.
            events: The events of the chunk.
            detail: The reasoning detail that holds the signature.
        """
        append = partial(self._append_signature, _clean_signed(signed), detail=detail)
        self._append_in_order(append, signed.signature + (signed.id or ""), events)

    def add_reasoning(self, detail: ReasoningDetail, events: list[Event]) -> None:
        """Append the events of one reasoning detail."""
        # Text before signature: one detail may hold both (openrouter/reasoning-details-signature),
        # and a signature covers what precedes it.
        self.add_text("reasoning", detail.text, events, signed_index=detail.signed_index)
        if detail.signature is not None:
            self.sign_reasoning(detail.signature, events, detail)
        if detail.encrypted is not None:
            self._add_encrypted(detail.encrypted, events)
        if detail.opaque is not None:
            self.add_opaque(detail.field, detail.opaque, events)

    def add_annotation(self, annotation: object, events: list[Event]) -> None:
        """Append an annotation as a citation of the open text, or as an opaque event.

        OpenRouter's web search sends its sources before the first text, which cites them.
        """
        citation = citation_from_wire(annotation, in_first_text=self.text_blocks <= 1)
        if citation is not None and not self.text_blocks:
            self._state.store(OBJECT_BYTES + value_bytes(annotation))
            self._early_citations.append((citation, annotation))
        # With a held call before it the text that is cited has not started yet.
        elif citation is not None and self._kind == "text" and not self._pending.items:
            events.append(CitationDelta(self._open_text, citation))
        else:
            self.add_opaque("annotations", annotation, events)

    def add_provider_citation(self, value: dict[str, Any], events: list[Event]) -> None:
        """Append one of Anthropic's citations to the open text, or to the next one.

        Anthropic sends the citations of a text before it.
        """
        citation = provider_citation_from_wire(value)
        if self._kind == "text" and not self._pending.items:
            events.append(CitationDelta(self._open_text, citation))
            return
        self._state.store(OBJECT_BYTES + value_bytes(value))
        self._early_citations.append((citation, value))

    def add_opaque(self, name: str, value: object, events: list[Event]) -> None:
        """Append an opaque event with a field that no unified event can carry."""
        # Audio and images are content, and content revokes a reason
        # (baseten/finish-before-the-text).
        self.is_finished = self.is_finished and name in _METADATA
        self._append_opaque(name, value, events)

    def _append_opaque(self, name: str, value: object, events: list[Event]) -> None:
        self._state.check_depth(value)
        index = self._open_text if self._open_text >= 0 and not self._pending.items else None
        events.append(Opaque("openai_chat", name, compact(value), index))

    def add_call_fragment(self, fragment: CallFragment, events: list[Event]) -> None:
        """Append the events of a tool call fragment."""
        state = self._state
        known = len(self.calls.all)
        call = self.calls.resolve(fragment, state.chunk_id)
        # Together and GLM set `tool_calls` on the first call (together/call-after-the-finish): a
        # cut in the second must be seen.
        if len(self.calls.all) > known:
            self.is_finished = False
            state.count_call(call.name, fragment.id or "")
            self._pending.add_call(call)
        elif fragment.id or fragment.name:
            # vLLM sends the name behind the id (vllm/name-after-id), gateways even behind arguments
            # (gateway/arguments-before-the-name).
            if not call.name.endswith(fragment.name):
                state.note("late_name", "tool call")
            if fragment.name and call.index < 0:  # it is what the call waited for
                self.is_finished = False
            state.check_names(call.name, fragment.id or "")
        text = fragment.arguments
        # Tokenizers cut an emoji between two fragments, as between two deltas of text
        # (openai/surrogate-pair-over-deltas).
        if state.may_hold_surrogates or call.carry:
            text, call.carry = rejoin(call.carry, text)
        # Signature first: Gemini sends both in one fragment, and most targets write the signature
        # with the start of the call (gemini/thought-signature-no-index).
        if fragment.signature is not None:
            self._sign_call(call, *fragment.signature[:2], events)
        if text:
            self._add_arguments(call, text, events)
        elif self._pending.items:  # the name may be what the queue waits for
            self._release(events)
        call.update_appendable()

    def flush(self, events: list[Event]) -> list[int]:
        """Append all held content at the end; return the indexes of the open blocks."""
        if self._think_tags is not None:
            for kind, text in self._think_tags.close():
                self.add_text(kind, text, events)
        self._release(events, force=True)
        for signature in self.calls.held_signatures.values():  # of calls that never began
            # Only Google's signatures are held by the id of a call
            # (openrouter/gemini-signature-before-its-call).
            signed = Signed(signature, "google")
            append = partial(self._append_encrypted, signed, is_block=False)
            self._append_in_order(append, "", events)
        # Every other dialect requires the name where the call starts.
        if self._pending.items:
            raise Fatal(StreamError("malformed", "tool call without a name, expected one"))
        for _, annotation in self._early_citations:  # of a message without text
            self.add_opaque("annotations", annotation, events)
        self._flush_carry(events)
        indexes = self.calls.flush(events) if self.calls.open else []
        return indexes + [index for index in (self._unsigned, self._open_text) if index >= 0]

    @property
    def last_custom_call(self) -> int:
        """Index of the custom call that is the last open block; -1 if another block is.

        A bound of tokens cuts its free text, which nothing in the text shows.
        """
        last = max(self.calls.open, default=-1)
        is_last = last > self._open_text and self.calls.open[last].kind == "custom"
        return last if is_last else -1

    def stop(self) -> MessageStop:
        """Return the event that ends the message, with the choice's stop reason."""
        calls, is_cut = self.calls.all, False
        for call in calls:
            # OpenAI cuts arguments at the token limit (openai/length-in-arguments), Together loses
            # their tail even with the reason `tool_calls`.
            if not call.is_executable():
                self._state.note("unfinished_arguments", "tool call")
                is_cut = True
            # No finish says that a call without arguments was not to have some.
            elif not call.arguments.size:
                is_cut = True
        return stop_reason_from_wire(
            self.finish_reason,
            choice=self._choice,
            has_calls=bool(calls),
            is_cut=is_cut and not self.is_finished,
            is_refused=self._is_refused,
            extra=self.extra,
        )

    # Held content

    def _append_in_order(
        self, append: Callable[[list[Event]], None], content: str, events: list[Event]
    ) -> None:
        """Append events now, or hold the events until all content held earlier is released."""
        # A signature ends the wait for a name to grow: another block follows.
        self._release(events, force=True)
        if not self._pending.items:
            append(events)
            return
        self._pending.add_events(append, content)

    def _release(self, events: list[Event], *, force: bool = False) -> None:
        """Append the events of held content, up to a call that must wait."""
        while self._pending.items and (item := self._pending.pop(force=force)) is not None:
            match item:
                case Call():
                    self._start_call(item, events)
                case HeldText(kind, text, signed_index):
                    self._append_text(kind, text.text(), events, signed_index, is_held=True)
                case held:
                    held.append(events)

    # Text and reasoning

    def _append_text(
        self,
        kind: TextKind,
        text: str,
        events: list[Event],
        signed_index: int | None,
        *,
        is_held: bool = False,
    ) -> None:
        if self._kind != kind and not (kind == "reasoning" and self._resume(signed_index)):
            self._start_block(_BLOCKS[kind], events, kind=kind, signed_index=signed_index)
        # A held text may end in half a character though the chunk that releases it holds none.
        if is_held or self._state.may_hold_surrogates or self._carry:
            text, self._carry = rejoin(self._carry, text)
            if not text:
                return
        events.append(_DELTAS[kind](self._open_text, text))

    def _append_signature(
        self, signed: Signed, events: list[Event], *, detail: ReasoningDetail | None = None
    ) -> None:
        index, entry = (None, None) if detail is None else (detail.signed_index, detail.entry)
        is_open = self._kind == "reasoning" or self._resume(index)
        if index in self._stopped_unsigned and not (is_open and index == self._signed_index):
            # Its reasoning has stopped, and Anthropic refuses it as the signature of another text.
            self._append_opaque("reasoning_details", entry, events)
            return
        if not is_open:
            # Anthropic signs thinking that it leaves out, and Gemini requires the signature of its
            # own in the history: an empty block carries either.
            self._start_block(Reasoning(), events, kind="reasoning", signed_index=index)
        self._flush_carry(events)
        events.append(SignatureDelta(self._open_text, *signed))
        # Reasoning that follows is not covered: interleaved thinking signs each part by itself.
        self._kind = self._text_delta = None
        if self._open_text < self._state.blocks - 1:  # later blocks may wait for its stop
            events.append(BlockStop(self._open_text))
            self._open_text = -1

    def _resume(self, index: int | None) -> bool:
        """Go on with the reasoning that waits for its signature; return whether it has `index`."""
        if self._unsigned < 0 or index != self._signed_index:
            return False
        self._open_text, self._unsigned, self._kind = self._unsigned, -1, "reasoning"
        self._text_delta = ReasoningDelta(self._open_text, "")
        return True

    def _add_encrypted(self, encrypted: EncryptedReasoning, events: list[Event]) -> None:
        """Append encrypted reasoning as the signature of a block or as a redacted block.

        Google's signs the tool call with the id `owner`, which may begin later; that of
        others signs the open reasoning, or is a block of its own.
        """
        owner, signed = encrypted.owner, _clean_signed(encrypted.signed)
        data, issuer, _ = signed
        # openrouter/encrypted-reasoning-then-call-at-index-one: the id of OpenAI's detail is that
        # of an item, and no call's.
        if issuer != "google" or not isinstance(owner, str) or encrypted.is_block:
            append = partial(self._append_encrypted, signed, is_block=encrypted.is_block)
            self._append_in_order(append, data + (signed.id or ""), events)
        elif (call := self.calls.by_id.get(owner)) is not None:
            self._sign_call(call, data, issuer, events)
        else:
            self.calls.hold_signature(owner, data, self._state.limits.max_held_bytes)

    def _append_encrypted(self, signed: Signed, events: list[Event], *, is_block: bool) -> None:
        # OpenAI's encrypted reasoning belongs to the summary before it, Anthropic's redacted
        # thinking to no text at all.
        if not is_block and self._kind == "reasoning":
            self._append_signature(signed, events)
            return
        events.append(BlockStop(self._start_block(RedactedReasoning(*signed), events)))

    def _start_block(
        self,
        block: Block,
        events: list[Event],
        *,
        kind: TextKind | None = None,
        signed_index: int | None = None,
    ) -> int:
        """Stop the open text and all complete calls, start a block, and return its index."""
        index = self._state.next_index()
        self._flush_carry(events)
        # The wire has no stop.  Complete JSON cannot grow, so that another block ends a complete
        # call; a call with fragments still to come stays open, for parallel calls may interleave
        # (openai/parallel-tools-interleaved-two).
        stopped = self.calls.stop_complete(events) if self.calls.open else []
        stopped += self._stop_text(is_text=kind is not None)
        events += map(BlockStop, sorted(stopped))
        events.append(BlockStart(index, block, self._choice))
        self._open_text = index if kind else -1
        self._kind, self._text_delta = kind, None
        if kind == "text":
            self._text_delta = TextDelta(index, "")
            self.text_blocks += 1
            events += [CitationDelta(index, citation) for citation, _ in self._early_citations]
            self._early_citations.clear()
        elif kind == "reasoning":
            self._text_delta = ReasoningDelta(index, "")
            self._signed_index = signed_index
        elif kind == "refusal":
            self._is_refused = True
        return index

    def _stop_text(self, *, is_text: bool) -> list[int]:
        """Return the text, reasoning and refusal blocks that stop since another block starts.

        openrouter/signature-after-the-call: Claude on Vertex AI is signed behind its calls, and
        Anthropic refuses thinking without its signature.  Reasoning that may still be signed stays
        open beside calls; text, which is read while it arrives, would wait for it.

        Args:
            is_text: Whether the other block is text, reasoning or a refusal.
        """
        stopped = [self._open_text] if self._open_text >= 0 else []
        if self._kind == "reasoning" and self._signed_index is not None:
            self._unsigned, stopped = self._open_text, []
        if is_text and self._unsigned >= 0:
            self._stopped_unsigned.add(self._signed_index)
            stopped.append(self._unsigned)
            self._unsigned = -1
        return stopped

    def _flush_carry(self, events: list[Event]) -> None:
        if self._carry and self._kind is not None:
            carry, self._carry = clean(self._carry), ""
            events.append(_DELTAS[self._kind](self._open_text, carry))

    # Tool calls

    def _start_call(self, call: Call, events: list[Event]) -> None:
        id = call.id
        # Some Hugging Face routes never send one (huggingface/no-id); results are matched by it.
        if id is None:
            id = self._state.mint_id("tool call", self._choice)
        # openrouter/gemini-signature-before-its-call: the detail names the call that comes after
        # it.
        if held := self.calls.held_signatures.pop(id, ""):
            call.signature, call.issuer = held, "google"
        name, kind = clean(call.name), call.kind
        block = ToolCall(clean(id), name, "", kind, call.signature, call.issuer)
        self.calls.start(call, self._start_block(block, events), events)

    def _sign_call(
        self, call: Call, signature: str, issuer: str | None, events: list[Event]
    ) -> None:
        # Gemini refuses a call whose signature is missing; behind the stop no target can add it.
        if call.stopped:
            raise Fatal(StreamError("malformed", "signature of a tool call that has stopped"))
        # gemini/signature-in-a-delta-of-its-own, openrouter/gemini-signature-after-its-call.
        if call.index >= 0:
            events.append(SignatureDelta(call.index, clean(signature), issuer))
            return
        self._pending.mark_ready(signature, first=not call.has_content)
        call.signature, call.issuer = clean(signature), issuer
        self._release(events)

    def _add_arguments(self, call: Call, text: str, events: list[Event]) -> None:
        state = self._state
        size = call.arguments.size
        first = not size and call.signature is None
        text = call.append(text, state.note, cumulative=state.quirks.cumulative_arguments)
        if call.has_placeholder and not size:
            self.is_finished = False
        elif text and self.is_finished:  # white space is content as long as more must come
            self.is_finished = not text.strip(_WHITE_SPACE) and call.is_complete()
        if call.index < 0:
            self._pending.mark_ready(text, first=first)
            self._release(events)
        elif text:
            self.calls.emit_arguments(call, text, events)


def _clean_signed(signed: Signed) -> Signed:
    signature, issuer, id = signed
    return Signed(clean(signature), issuer, None if id is None else clean(id))
