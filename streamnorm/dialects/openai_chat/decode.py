"""Decoder of Chat Completions: frames, chunks, deltas, the end, and delta runs.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21), and the
deviations of some thirty compatible servers.  Comments name the recordings that show them by
server and file: `groq/error-event`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, Unpack

from streamnorm._core.codec import DONE, DecodeOptions, Decoder, Delta, DeltaRun, read_no_json
from streamnorm._core.events import (
    CUT_SHORT,
    BlockStop,
    Completed,
    Event,
    MessageStart,
    Opaque,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, find_error, named_error, too_large
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean,
    compact,
    convert,
    decode_any,
    is_array,
    is_object,
    objects_of,
    too_deep,
)
from streamnorm._core.text import Signed
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import ChoiceBlocks, StreamState
from streamnorm.dialects.openai_chat.content import (
    NO_CONTENT,
    OPAQUE_DELTA_FIELDS,
    content_digest,
    reasoning_from_wire,
    split_provider_fields,
)
from streamnorm.dialects.openai_chat.options import QUIRKS, ChatOptions, Quirks
from streamnorm.dialects.openai_chat.outcome import UsageReader, chunk_error
from streamnorm.dialects.openai_chat.tool_calls import ChunkId, call_fragment_from_wire
from streamnorm.sse import Frame


class ChatDecoder(Decoder):
    """Decoder of Chat Completions streams.

    Args:
        options: Options that only Chat Completions has.
        shared: See `Decoder`.
    """

    dialect = "openai_chat"

    def __init__(
        self,
        *,
        options: ChatOptions = ChatOptions(),  # noqa: B008 - frozen
        **shared: Unpack[DecodeOptions],
    ) -> None:
        super().__init__(**shared)
        self._state = StreamState(
            self._limits,
            self.note,
            quirks=QUIRKS.get(shared.get("server") or "", Quirks()),
            think_tags=options.think_tags,
        )
        self._usage = UsageReader()
        self._run = self._delta_run = ChatRun(self._usage, self._state)
        self._choices: dict[int, ChoiceBlocks] = {}
        self._whole: dict[int, str] = {}  # digests of whole messages without deltas, by choice
        self._started = False
        self._first_fields: dict[str, Any] = {}  # unknown fields up to the first chunk
        self._last_fields: dict[str, Any] = {}  # further ones in last chunks
        self._side_fields: dict[str, Any] = {}  # as last emitted

    def read(self, frame: Frame, events: list[Event]) -> None:
        try:
            chunk = wire.decode_chunk(frame.data)
        except FAST_ERRORS:
            # Not only `[DONE]`: vLLM sends NaN among log probabilities (vllm/nan-logprobs), and a
            # delta may end in half a character (openai/surrogate-pair-over-deltas).
            self._read_unusual(frame, events)
        else:
            self._read_chunk(frame, chunk, events)
        self._run.expect(self._choices)

    def read_body(self, body: dict[str, Any]) -> list[Event]:
        """Return the events of a whole response, decoded like a stream of one chunk.

        Each choice has a message.

        Raises:
            InvalidJSON: A field is of another type.
            Fatal: The body is an error, contradicts itself, or exceeds a bound.
        """
        text = compact(body)  # without lone surrogates, which a decoded object may hold
        chunk = convert(decode_any(text, max_depth=self._limits.max_json_depth), wire.Chunk)
        for number, choice in enumerate(chunk.choices or ()):
            choice.index = number if choice.index is None else choice.index
        events: list[Event] = []
        self._read_chunk(Frame("message", text), chunk, events)
        for choice in chunk.choices or ():
            extra = self._choices[choice.index or 0].extra
            extra.update(_unknown(choice.message, wire.DELTA_FIELDS))
        self._finish(events)
        return events

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        if not is_object(value):
            return frame.data.startswith(DONE)
        # Perplexity and Writer never send `[DONE]` (perplexity/crlf-usage-every-chunk-no-done), so
        # that every chunk that finishes may be the last.
        finishes = any(choice.get("finish_reason") for choice in objects_of(value.get("choices")))
        return finishes or self._all_finished() or super().may_end_with(frame, value)

    @property
    def lacks_only_terminal(self) -> bool:
        return bool(self._choices) and self._all_finished()

    def complete_without_terminal(self, events: list[Event]) -> tuple[str, ...]:
        if not self.lacks_only_terminal:
            return ()
        self._finish(events)
        return ("no_done",)

    # Chunks

    def _read_unusual(self, frame: Frame, events: list[Event]) -> None:
        """Read a frame that the typed decoder rejects, such as `[DONE]`."""
        data = frame.data
        if frame.data.startswith(DONE):  # as both official SDKs test it (read 2026-11-21)
            self._finish(events)
            return
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=wire.PIECES)
            # The name of the frame decides, for its payload may be of any type.
            if frame.event == "error":
                raise Fatal(named_error(data, self.json_of(data)))
            # Gemini's compatible endpoint sends a list of one error (gemini/error-array).  In an
            # object `error` may stand beside choices, which are read first.
            if (error := find_error(value)) is not None and is_array(value):
                raise Fatal(error)
            chunk = convert(value, wire.Chunk)
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events)
            return
        self.note("unusual_json", "chunk")
        self._state.may_hold_surrogates = True
        self._read_chunk(frame, chunk, events)
        self._state.may_hold_surrogates = False

    def _read_chunk(self, frame: Frame, chunk: wire.Chunk, events: list[Event]) -> None:
        choices = chunk.choices or ()
        # Unknown fields are stored from the first chunk and from all that may be the last.
        is_last = not choices
        for choice in choices:
            is_last = is_last or bool(choice.finish_reason)
        value: dict[str, Any] = {}
        if is_last or not self._choices or chunk.error or frame.event == "error":
            value = self._json_object(frame.data)
        # Groq and LM Studio name the frame `error` (groq/error-event,
        # lmstudio/error-event-without-a-type).  Beside choices an error waits for the end of the
        # chunk (openrouter/error-mid-stream-with-finish-error).
        if not choices or frame.event == "error":
            error = find_error(value)
            if error is None and frame.event == "error":
                error = named_error(frame.data, value)
            if error is not None:
                raise Fatal(error)
        if chunk.choices is None and not chunk.usage:
            if wire.is_empty_chunk(value):
                return
            name = frame.event if frame.event != "message" else value.get("object")
            events.append(Opaque(self.dialect, clean(str(name or "frame")), compact(value)))
            return
        self._state.read_chunk_id(chunk.id)
        is_first = not self._choices
        if not self._started:
            self._store_unknown(self._first_fields, value, wire.CHUNK_FIELDS)
            self._start(chunk, events)
        elif is_last:  # which repeat `created` and other fields of the first chunk
            known = wire.CHUNK_FIELDS.union(self._first_fields)
            self._store_unknown(self._last_fields, value, known)
        # Two choices without an index would become one text.
        if len(choices) > 1 and [choice.index for choice in choices].count(None) > 1:
            raise self.malformed(f"{len(choices)} choices in one chunk, expected their indexes")
        reported = [chunk.usage] if chunk.usage else []
        # Groq, once here alone, now in both fields.
        if chunk.x_groq and is_object(usage := chunk.x_groq.get("usage")):
            reported.append(usage)
        for number, choice in enumerate(choices):
            if value and choice.delta is None and choice.message is None:
                self._refuse_legacy(value["choices"][number], is_first=is_first)
            # Content first: vLLM, Mistral and GLM send it in the chunk that finishes
            # (vllm/text-in-the-finish-chunk, mistral/no-index-whole-calls).
            blocks = self._read_choice(choice, events)
            # SGLang sends an empty reason on every chunk (sglang/empty-finish-on-every-chunk).
            if choice.finish_reason:
                blocks.finish(choice.finish_reason)
                self._store_last_fields(blocks, value["choices"][number])
            if choice.usage:  # Moonshot (moonshot/usage-in-the-choice)
                reported.append(choice.usage)
        if reported:
            self._read_usage(reported, value, events)
        self._read_side_fields(chunk, events)
        # Last, since OpenRouter sends the error beside a choice with its delta.
        if (error := chunk_error(chunk, value, self._state.check_depth)) is not None:
            raise Fatal(error)

    def _json_object(self, data: str) -> dict[str, Any]:
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth)
        except InvalidJSON as exc:
            raise self.invalid(exc) from exc
        return value if is_object(value) else {}

    def _start(self, chunk: wire.Chunk, events: list[Event]) -> None:
        if not (chunk.id or chunk.choices):  # Azure's empty first chunk
            for key in ("created", "system_fingerprint"):
                if not self._first_fields.get(key):
                    self._first_fields.pop(key, None)
            return
        id, model = clean(str(chunk.id or "")), clean(chunk.model or "")
        self._state.check_names(id, model)
        self._started = True
        # Hugging Face's TGI sends an empty id, from which alone equal ids would be minted for all
        # answers.
        self._state.seed = (id, model, self._first_fields.get("created"))
        events.append(MessageStart(id, model, self._first_fields or None))
        if self._usage.usage != Usage():
            events.append(UsageUpdate(self._usage.usage))

    def _read_choice(self, choice: wire.Choice, events: list[Event]) -> ChoiceBlocks:
        number = choice.index or 0
        blocks = self._choices.get(number)
        if blocks is None:
            if len(self._choices) >= self._limits.max_choices:
                raise too_large("max_choices", self._limits.max_choices)
            blocks = self._choices[number] = ChoiceBlocks(number, self._state)
        delta = choice.delta
        if delta is None and choice.message is not None:
            # Whole responses have messages alone.  Perplexity repeats the text so far in one beside
            # every delta, and MiniMax ends with one (minimax/whole-message-in-place-of-a-delta).
            if blocks.is_empty:
                delta = self._message_as_delta(choice.message)
                if (digest := content_digest(choice.message)) != NO_CONTENT:
                    self._whole[number] = digest
            elif number in self._whole:  # after deltas it repeats them
                self._check_repeated(choice.message, self._whole[number])
        if delta is not None:
            self._read_delta(delta, blocks, events)
        if choice.logprobs is not None:
            blocks.add_opaque("logprobs", choice.logprobs, events)
        return blocks

    def _check_repeated(self, message: Any, digest: str) -> None:
        """Check that a whole message after another one repeats it, or is empty."""
        if content_digest(message) not in (digest, NO_CONTENT):
            raise self.malformed("second whole message of a choice, expected deltas")

    def _refuse_legacy(self, choice: dict[str, Any], *, is_first: bool) -> None:
        """Refuse a choice of `/v1/completions`, whose text is no delta.

        Its text may begin empty; behind other chunks only text shows it.
        """
        text = choice.get("text")
        if isinstance(text, str) and (text or is_first):
            raise self.malformed("choice with the text of a legacy completion, expected a delta")

    def _message_as_delta(self, message: Any) -> wire.Delta:
        """Return a whole message as a delta with complete calls."""
        try:
            delta = convert(message, wire.Delta)
        except InvalidJSON as exc:
            raise self.invalid(exc) from exc
        for number, call in enumerate(delta.tool_calls or ()):
            call.index = number
        return delta

    def _store_last_fields(self, blocks: ChoiceBlocks, value: dict[str, Any]) -> None:
        """Store the unknown fields of a choice that has a finish reason."""
        self._store_unknown(blocks.extra, value, wire.CHOICE_FIELDS)
        if is_object(delta := value.get("delta")):  # Vercel's gateway puts the cost here
            self._store_unknown(blocks.extra, delta, wire.DELTA_FIELDS)

    def _store_unknown(
        self, stored: dict[str, Any], value: dict[str, Any], known: frozenset[str]
    ) -> None:
        """Add the fields of `value` that are not in `known` to `stored`."""
        if unknown := _unknown(value, known):
            self._state.store_fields(stored, unknown)

    def _read_usage(
        self, reported: list[dict[str, Any]], value: dict[str, Any], events: list[Event]
    ) -> None:
        before = self._usage.usage
        for usage in reported:
            if not value:  # else the depth of the whole chunk was checked
                self._state.check_depth(usage)
            self._usage.merge(usage)
        if self._usage.usage.extra != before.extra:
            self._state.store_usage(self._usage.usage.extra)
        # Groq sends equal counts in up to three chunks.
        if self._usage.usage != before and self._started:
            events.append(UsageUpdate(self._usage.usage))

    def _read_side_fields(self, chunk: wire.Chunk, events: list[Event]) -> None:
        for name in wire.SIDE_FIELDS:
            value = getattr(chunk, name)
            # Perplexity repeats its sources on every chunk
            # (perplexity/search-results-and-think-tags).
            if value and value != self._side_fields.get(name):
                self._state.check_depth(value)
                self._state.store_fields(self._side_fields, {name: value})
                events.append(Opaque(self.dialect, name, compact(value)))

    # Deltas

    def _read_delta(self, delta: wire.Delta, blocks: ChoiceBlocks, events: list[Event]) -> None:
        """Append the events of one delta: reasoning, text and its sources, then tool calls."""
        # One delta may hold all three (baseten/reasoning-text-and-call-in-one-delta); models think
        # first and call tools last.
        if (
            delta.reasoning_details
            or delta.reasoning_content
            or delta.reasoning
            or delta.thinking_blocks
        ):
            for detail in reasoning_from_wire(delta):
                blocks.add_reasoning(detail, events)
        content = delta.content
        if content:
            if isinstance(content, str):
                blocks.add_content(content, events)
            else:
                _read_parts(content, blocks, events)
        for annotation in delta.annotations or ():
            self._state.check_depth(annotation)
            blocks.add_annotation(annotation, events)
        if delta.provider_specific_fields:
            citations, rest = split_provider_fields(delta)
            for citation in citations:
                self._state.check_depth(citation)
                blocks.add_provider_citation(citation, events)
            if rest:
                blocks.add_opaque("provider_specific_fields", rest, events)
        if delta.refusal:
            blocks.add_text("refusal", delta.refusal, events)
        calls, function = delta.tool_calls or [], delta.function_call
        if function is not None and (function.name or function.arguments):
            # A message has at most one legacy call (openai/legacy-function-call).
            legacy = wire.Function(function.name, function.arguments)
            calls = [*calls, wire.ToolCallDelta(0, function=legacy)]
        for call in calls:
            fragment = call_fragment_from_wire(call, self._state.check_depth)
            if fragment is not None:
                blocks.add_call_fragment(fragment, events)
                if call.extra_content and fragment.signature is None:
                    blocks.add_opaque("extra_content", call.extra_content, events)
        for name in OPAQUE_DELTA_FIELDS:
            if value := getattr(delta, name):
                blocks.add_opaque(name, value, events)

    # The end

    def _all_finished(self) -> bool:
        return all(blocks.is_finished for blocks in self._choices.values())

    def _finish(self, events: list[Event]) -> None:
        # LM Studio answers so when the context overflows (lmstudio/nothing-but-the-terminal).
        if not self._started:
            raise self.malformed(f"{DONE} before the first chunk")
        if not self._choices:
            self._choices[0] = ChoiceBlocks(0, self._state)
        if 0 not in self._choices:  # most targets write choice 0 alone
            raise self.malformed(f"choice {min(self._choices)} alone, expected choice 0")
        choices = dict(sorted(self._choices.items()))
        # No chunk ends a block: whatever is open ends with the stream.
        indexes = [index for blocks in choices.values() for index in blocks.flush(events)]
        self._choices[0].extra.update(self._last_fields)
        stops = {number: blocks.stop() for number, blocks in choices.items()}
        unfinished = [
            choices[number].last_custom_call
            for number, stop in stops.items()
            if stop.reason in CUT_SHORT
        ]
        events += [BlockStop(index, index in unfinished) for index in sorted(indexes)]
        events += stops.values()
        # Snowflake sends `[DONE]` without a finish reason (snowflake/no-finish-reason).
        lenient = () if self._all_finished() else ("no_finish",)
        self.outcome = Completed(stops[0].reason, self._usage.usage, lenient)


def _read_parts(parts: list[Any], blocks: ChoiceBlocks, events: list[Event]) -> None:
    """Append the events of `content` in parts, as Mistral sends it."""
    for part in parts:
        match part:
            case str():
                blocks.add_content(part, events)
            case {"type": "text", "text": str(text)}:
                blocks.add_content(text, events)
            # mistral/content-in-parts: a thinking part holds a list of parts, of which references
            # have no text.
            case {"type": "thinking", "thinking": thoughts} if is_array(thoughts):
                for thought in thoughts:
                    if is_object(thought) and isinstance(thought.get("text"), str):
                        blocks.add_text("reasoning", thought["text"], events)
                    else:
                        blocks.add_opaque("content_part", thought, events)
                signature: object = part.get("signature")
                if isinstance(signature, str) and signature:
                    blocks.sign_reasoning(Signed(signature, "mistral"), events)
            case _:
                blocks.add_opaque("content_part", part, events)


def _unknown(value: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in known and item is not None}


_Chunk: TypeAlias = (
    wire.RunChunk[wire.TextRunDelta]
    | wire.RunChunk[wire.ReasoningRunDelta]
    | wire.RunChunk[wire.CallsRunDelta]
)

# A server whose every chunk has a field outside the shapes would pay for two decoders per chunk.
_MAX_FAILURES = 8


class ChatRun(DeltaRun):
    """Delta run of chunks that only extend blocks of choice 0.

    Three typed shapes in `wire` reject every chunk with other content, so that a chunk of such
    a shape needs no further check: half the cost of decoding a `Chunk` and testing its fields.

    Args:
        usage: Usage of the stream.
        state: Ids of the stream's chunks, and the bound on the nesting of a usage object.
    """

    takes_fresh = True
    # OpenAI and Mistral pad each chunk with random letters against traffic analysis.
    padding = re.compile(rb'"(?:obfuscation|p)" *: *"([0-9A-Za-z]*)"')

    def __init__(self, usage: UsageReader, state: StreamState) -> None:
        super().__init__()
        self._decode: Callable[[bytes], _Chunk] | None = None  # of the expected shape
        self._blocks: ChoiceBlocks
        self._expected: Delta | bool | None = None  # a delta, or True for calls
        # Failures in a row; after `_MAX_FAILURES` the shape is no longer tried for the block.
        self._failures = 0
        self._call_count = 0  # calls so far: each has templates of its own
        self._moves = 0  # of the calls, as the templates know them
        self._usage = usage
        self._state = state
        self._reported = self._before = usage.usage
        self._has_usage = False  # whether the last chunk reported usage

    def expect(self, choices: dict[int, ChoiceBlocks]) -> None:
        """Select the chunk shape that the fast path expects, after a chunk on the slow path."""
        self._reported, self._has_usage = self._usage.usage, False
        blocks = choices.get(0) if len(choices) == 1 else None
        expected, call_count, moves = None, 0, 0
        if blocks is not None:
            expected = blocks.appendable
            call_count, moves = len(blocks.calls.all), blocks.calls.moves
        is_new = expected is not self._expected
        if is_new:
            self._expected, self._failures = expected, 0
        if is_new or moves != self._moves:
            self.renew_templates()
        elif call_count > self._call_count:
            self.allow_templates()
        self._call_count, self._moves = call_count, moves
        self._decode = None
        if blocks is None or not expected or self._failures >= _MAX_FAILURES:
            return
        self._blocks = blocks
        if expected is True:
            self._decode = wire.decode_arguments
        else:
            self.delta = expected
            is_text = type(expected) is TextDelta
            self._decode = wire.decode_text if is_text else wire.decode_reasoning

    def decode(self, payload: bytes) -> str | None:
        if self._decode is None:
            return None
        try:
            chunk = self._decode(payload)
        except FAST_ERRORS:
            self._failures += 1
            return None
        if self._failures:
            self._failures = 0
        delta = chunk.choices[0].delta
        if type(delta) is wire.CallsRunDelta:
            # Few servers report usage in chunks with arguments.
            if chunk.usage is not None:
                return None
            fragment = delta.tool_calls[0]
            text = fragment.function.arguments
            call = self._blocks.calls.find_open(fragment.index, chunk.id)
            if call is None or not call.try_append(text):
                return None
            self.delta = call.delta
            if self.can_learn:
                peek = partial(self._peek, chunk.id)
                self.learn(
                    payload,
                    text,
                    peek,
                    delta=call.delta,
                    extend=call.try_append,
                    fresh=call.arguments.fresh,
                    takes_inner=True,
                )
            return text
        # Groq's Compound changes the id with every chunk (groq/executed-tools-and-new-ids).
        if chunk.id != self._state.first_chunk_id and self._state.changes_id(chunk.id):
            return None
        text = delta.text
        if chunk.usage is None:
            self._has_usage = False
            if self.can_learn:
                self.learn(payload, text, partial(self._peek, chunk.id))
        elif self._templates.last is not None:
            # Templates do not reset `_has_usage`, which would retract these counts later.
            self.clear_templates()
            return None
        # Perplexity, Baseten and Databricks report counts with every chunk.
        elif not self._merge_usage(chunk.usage):
            return None
        return text

    def pending_usage(self) -> UsageUpdate | None:
        before, self._reported = self._reported, self._usage.usage
        return None if self._reported == before else UsageUpdate(self._reported)

    def retract_usage(self) -> None:
        # The frame is read again in full, where its counts have to be a change.
        if self._has_usage:
            self._usage.usage = self._before

    def _merge_usage(self, usage: dict[str, object]) -> bool:
        """Merge a chunk's usage into the snapshot; return False if the usage needs the slow path.

        False, and nothing changes, if it is the first, nests too deep or changes the stored unknown
        fields.
        """
        if too_deep(usage, self._state.limits.max_json_depth):
            return False
        if not self.reports_usage:  # whose consumer expects none
            self.reports_usage = True
            return False
        before = self._usage.usage
        self._usage.merge(usage)
        if self._usage.usage.extra != before.extra:
            self._usage.usage = before
            return False
        self._has_usage = True
        self._before = before
        return True

    def _peek(self, id: ChunkId, payload: bytes) -> str | None:
        """Return a chunk's text; None if the chunk has another id than `id` or reports usage."""
        chunk = None if self._decode is None else self._decode(payload)
        if chunk is None or chunk.usage is not None or chunk.id != id:
            return None
        return _text_of(chunk)


def _text_of(chunk: _Chunk) -> str:
    """Return the text, the reasoning or the arguments of a chunk."""
    delta = chunk.choices[0].delta
    if type(delta) is wire.CallsRunDelta:
        return delta.tool_calls[0].function.arguments
    return delta.text
