"""Decoder of Gemini's `streamGenerateContent`: chunks, message state, and delta runs.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent (read
2026-11-22).  `blocks.py` reads the parts of one candidate.  This module reads the chunk and the
message: frames, first and last chunk, token counts, errors and the end.  Comments name the
recordings that show a case by server and file: `google/prompt-blocked`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias, Unpack

from streamnorm._core.codec import DONE, DecodeOptions, Decoder, DeltaRun, read_no_json
from streamnorm._core.codec.block_opener import BlockOpener
from streamnorm._core.codec.templates import PROBED_COUNTS
from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    Opaque,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import Fatal, find_error, named_error, too_large
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    compact,
    decode_any,
    is_array,
    is_object,
    objects_of,
    string_of,
)
from streamnorm._core.open_calls import TURN_TOKEN
from streamnorm._core.shapes import found
from streamnorm.dialects.gemini import wire
from streamnorm.dialects.gemini.blocks import CandidateBlocks
from streamnorm.dialects.gemini.body_format import JSON_ARRAY
from streamnorm.dialects.gemini.content import (
    grounding_from_wire,
    recitations_from_wire,
    replace_half_characters,
)
from streamnorm.dialects.gemini.outcome import (
    ChangingCounts,
    UsageReader,
    failed_finish,
    finish_reason_of,
    numbers_of,
)
from streamnorm.dialects.gemini.traits import has_finish
from streamnorm.dialects.gemini.wire import DIALECT, Counts, TextChunk, decode_text
from streamnorm.sse import Frame

_CHUNK_MARKS = frozenset(
    {"candidates", "usageMetadata", "promptFeedback", "responseId", "modelVersion"}
)
"""Fields of which a chunk has at least one."""
_MAPPED_FIELDS = frozenset(
    {"candidates", "usageMetadata", "responseId", "modelVersion", "response", "error"}
)
_CANDIDATE_FIELDS = frozenset(
    {"index", "content", "finishReason", "citationMetadata", "groundingMetadata"}
    | {"logprobsResult"}
)

_Value: TypeAlias = dict[str, Any]


class GeminiDecoder(Decoder):
    """Decoder of Gemini's `streamGenerateContent`, with `alt=sse` or as a JSON array.

    Args:
        options: See `Decoder`.
    """

    dialect = DIALECT
    formats = (JSON_ARRAY,)

    def __init__(self, **options: Unpack[DecodeOptions]) -> None:
        super().__init__(**options)
        self._opener = BlockOpener(self._limits, self.note)
        self._started = False
        self._id = ""  # the `responseId`
        self._extra: _Value = {}  # unknown fields of the chunks
        self._late_extra: _Value = {}  # unknown fields that arrived after the start
        self._usage = UsageReader()
        self._candidates: dict[int, CandidateBlocks] = {}
        self._run = self._delta_run = GeminiRun(self._candidates, self._usage, self._extra)

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._read_any(frame, events)
        self._run.resume()

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        # The source ends the stream, not a frame: an error may follow the last finish reason.
        self._judge_strays()
        if rest is not None and rest.data.startswith(DONE):
            # `[DONE]` is no frame of Gemini: a message that is complete without it lacks nothing.
            self.note("unterminated", "last frame")
            self.read(rest, events)
            rest = None
        super().end(rest, events)

    def may_end_with(self, frame: Frame, value: Any) -> bool:
        if not is_object(value):
            return False
        inner = value.get("response")
        chunk = {**value, **inner} if is_object(inner) else value
        # Google sends no terminal: any chunk behind a finish reason may be the last.
        if has_finish(chunk) or (not _CHUNK_MARKS.isdisjoint(chunk) and self._is_finished()):
            return True
        return super().may_end_with(frame, value)

    @property
    def lacks_only_terminal(self) -> bool:
        return self._is_finished()

    def complete_without_terminal(self, events: list[Event]) -> tuple[str, ...]:
        if self._is_finished():
            self._finish(events)
        return ()

    # Frames

    def _read_any(self, frame: Frame, events: list[Event]) -> None:
        data = frame.data
        if frame.event == "error":
            raise Fatal(named_error(data, self.json_of(data)))
        try:
            value = decode_any(data, max_depth=self._limits.max_json_depth, pieces=wire.PIECES)
        except InvalidJSON as problem:
            read_no_json(self, frame, problem, events)
            return
        # Google wraps errors in an array of one.
        for chunk in value if is_array(value) else (value,):
            if is_object(chunk):
                self._read_object(chunk, frame, events)
            else:
                events.append(Opaque(DIALECT, "frame", compact(chunk)))

    def read_done(self, events: list[Event]) -> None:
        super().read_done(events)
        if self._is_finished():
            self._finish(events)

    def _read_object(self, value: _Value, frame: Frame, events: list[Event]) -> None:
        inner = value.get("response")
        if is_object(inner) and "candidates" not in value:  # Code Assist
            value = {**value, **inner}
        if _CHUNK_MARKS.isdisjoint(value):
            error = find_error(value)
            if error is not None:
                raise Fatal(error)
            if value:
                events.append(Opaque(DIALECT, "frame", compact(value)))
            return
        self._read_chunk(value, frame.data, events)
        if value.get("error") and (error := find_error({"error": value["error"]})) is not None:
            raise Fatal(error)

    def _read_chunk(self, value: _Value, data: str, events: list[Event]) -> None:
        self._check_id(value)
        self._store_extra(value)
        # Where Google executes functions of MCP servers itself, each chunk has a token of the turn.
        if TURN_TOKEN in self._extra:
            self.executes_calls = "provider"
        first = not self._started
        if first:
            self._start(value, events)
            # Most first chunks have the counts of the prompt, which encoders write in their first
            # frame.
            self._read_usage(value.get("usageMetadata"), events)
            if self._usage.usage != Usage():
                self.first_usage = self._usage.usage
        failed: StreamError | None = None
        raw: list[list[wire.RawPart]] | None = None
        seen: set[int] = set()
        for number, candidate in enumerate(objects_of(value.get("candidates"))):
            index = self._index_of(candidate)
            if index in seen:
                raise self.malformed(f"two candidates {index} in one chunk, expected one")
            seen.add(index)
            if raw is None:
                raw = _raw_parts(data)
            parts = raw[number] if number < len(raw) else []
            blocks = self._blocks_of(index)
            # Raised last: the counts of a failed answer stand in the same chunk
            # (google/malformed-function-call).
            failed = self._read_candidate(blocks, candidate, parts, events) or failed
        if not first:
            self._read_usage(value.get("usageMetadata"), events)
        feedback = value.get("promptFeedback")
        # A blocked prompt has no candidate (google/prompt-blocked).
        if is_object(feedback) and (reason := finish_reason_of(feedback.get("blockReason"))):
            self._block(reason)
        if failed is not None:
            raise Fatal(failed)

    # The message

    def _check_id(self, value: _Value) -> None:
        """Check that a chunk has the message's id, or no id."""
        id = string_of(value, "responseId")
        if id and self._id and id != self._id:
            raise self.malformed("chunk of another responseId, expected the first")
        self._id = self._run.response_id = id or self._id

    def _start(self, value: _Value, events: list[Event]) -> None:
        id, model = string_of(value, "responseId"), string_of(value, "modelVersion")
        self._opener.check_names(id, model)
        self._started = True
        # Vertex AI has a time in every chunk, older models have no `responseId`.
        self._opener.seed = (id, model, string_of(value, "createTime"))
        events.append(MessageStart(id, model, dict(self._extra) or None))

    def _store_extra(self, value: _Value) -> None:
        """Store unknown fields of a chunk; later values replace earlier ones."""
        fields = {
            key: replace_half_characters(key, item)
            for key, item in value.items()
            if key not in _MAPPED_FIELDS and item is not None and self._extra.get(key) != item
        }
        self._opener.store_fields(self._extra, fields)
        if self._started:
            self._late_extra.update(fields)

    def _read_usage(self, usage: Any, events: list[Event]) -> None:
        if usage and is_object(usage) and self._usage.read(usage):
            events.append(UsageUpdate(self._usage.usage))

    # Candidates

    def _index_of(self, candidate: _Value) -> int:
        """Return a candidate's index; the API may leave out the index 0."""
        index = candidate.get("index")
        # Protobuf leaves out 0 (https://protobuf.dev/programming-guides/json/, read 2026-11-23).
        if index is None:
            return 0
        if type(index) is not int or index < 0:
            raise self.malformed(f"candidate index is {found(index)}, expected an integer from 0")
        return index

    def _block(self, block_reason: str) -> None:
        """Store the prompt's `blockReason` as finish reason of all unfinished candidates."""
        # A message needs a choice, though a blocked prompt has no candidate.
        self._blocks_of(0)
        for blocks in self._candidates.values():
            if blocks.finish is None:
                blocks.finish, blocks.blocked = block_reason, True

    def _blocks_of(self, index: int) -> CandidateBlocks:
        blocks = self._candidates.get(index)
        if blocks is None:
            if len(self._candidates) >= self._limits.max_choices:
                raise too_large("max_choices", self._limits.max_choices)
            blocks = self._candidates[index] = CandidateBlocks(index, self._opener)
        return blocks

    def _read_candidate(
        self,
        blocks: CandidateBlocks,
        candidate: _Value,
        raw: list[wire.RawPart],
        events: list[Event],
    ) -> StreamError | None:
        """Append the events of a candidate; return an error if its finish reason means failure."""
        blocks.last_content = ""
        # A candidate that only finishes has no content, or content without parts.
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for position, part in enumerate(parts if is_array(parts) else ()):
            if is_object(part):
                text = raw[position] if position < len(raw) else wire.RawPart()
                blocks.read_part(part, text, events)
        for name, read in (
            ("citationMetadata", recitations_from_wire),
            ("groundingMetadata", grounding_from_wire),
        ):
            metadata = candidate.get(name)
            if metadata and is_object(metadata):
                citations, rest = read(metadata, blocks.text_offsets)
                blocks.cite(citations, events)
                blocks.add_metadata(name, rest, events)
        if candidate.get("logprobsResult"):
            blocks.add_opaque("logprobsResult", candidate["logprobsResult"], events)
        fields = {
            key: replace_half_characters(key, item)
            for key, item in candidate.items()
            if key not in _CANDIDATE_FIELDS and item is not None and blocks.extra.get(key) != item
        }
        self._opener.store_fields(blocks.extra, fields)
        reason = finish_reason_of(candidate.get("finishReason"))
        if reason and not blocks.ends_in_code:  # the result of the code follows, and more
            blocks.finish, blocks.blocked = reason, False
        # `STOP` has no `finishMessage`; the reasons of failure name the cause there.
        return failed_finish(reason, string_of(candidate, "finishMessage"))

    # The end

    def _is_finished(self) -> bool:
        finished = all(blocks.finish for blocks in self._candidates.values())
        return finished and bool(self._candidates)

    def _finish(self, events: list[Event]) -> None:
        if 0 not in self._candidates:  # most targets write no choice other than 0
            raise self.malformed(f"candidate {min(self._candidates)} alone, expected candidate 0")
        # The start of the message is written by now: late fields go with its end.
        self._candidates[0].extra.update(self._late_extra)
        candidates = [blocks for _, blocks in sorted(self._candidates.items())]
        stops = [blocks.finish_message(events) for blocks in candidates]
        events += stops
        self.outcome = Completed(stops[0].reason, self._usage.usage)


def _raw_parts(data: str) -> list[list[wire.RawPart]]:
    try:
        return wire.raw_parts(data)
    except FAST_ERRORS:
        return []


# Most streams have few chunks, and a template costs what it saves in some thirty.
_MIN_DECODED = 16


class GeminiRun(DeltaRun):
    """Delta run of chunks that only extend text or a thought of candidate 0.

    Nearly every chunk also reports token counts, which stay pending until `pending_usage`.

    Args:
        candidates: Candidates by index.
        usage: Reader of the message's token counts.
        extra: Unknown fields of the chunks so far.

    Attributes:
        response_id: Id of the message.
    """

    reports_usage = True

    def __init__(
        self,
        candidates: dict[int, CandidateBlocks],
        usage: UsageReader,
        extra: dict[str, Any],
    ) -> None:
        super().__init__()
        self._candidates = candidates
        self._usage = usage
        self._extra = extra
        self._refused: Counts | None = None  # counts of a chunk that is read in full next
        self._decoded = 0  # chunks since the last one that was read in full
        self._has_counts = False  # whether the last chunk that was decoded reports counts
        self.response_id = ""

    def decode(self, payload: bytes) -> str | None:
        candidate = self._candidates.get(0)
        if candidate is None:
            return None
        try:
            chunk = decode_text(payload)
        except FAST_ERRORS:
            return None
        counts, created = chunk.usage_metadata, chunk.create_time
        if counts is not None:
            template = self._templates.last
            # Chunks that fit a template without counts would retract these later.
            is_first = template is not None and template.counts is None
            if is_first or not self._usage.matches_last(counts):
                self._refused = counts
                return None
        # A chunk of another message is an error, which the slow path reports.
        if chunk.response_id and chunk.response_id != self.response_id:
            return None
        # Vertex AI repeats the time of the first chunk.
        if created is not None and created != self._extra.get("createTime"):
            return None
        part = chunk.candidates[0].content.parts[0]
        text = part.text
        delta = candidate.try_append(text, part.thought)
        if delta is None:
            return None
        self.delta = delta
        if self._templates.last is not None:
            self._store_counts()
        self._decoded += 1
        if self._decoded >= _MIN_DECODED and self.can_learn:
            self._learn(payload, chunk, candidate)
        self._has_counts = counts is not None
        if counts is not None:
            self._usage.add_pending(numbers_of(counts))
        return text

    def pending_usage(self) -> UsageUpdate | None:
        if self.counts is not None:
            self._store_counts()
        return UsageUpdate(self._usage.usage) if self._usage.refresh() else None

    def retract_usage(self) -> None:
        # The chunk that exceeded a limit may report no counts: those before it stay.
        if self.counts is None and self._has_counts:
            self._usage.retract_pending()
        self.counts = self.counts_before

    def resume(self) -> None:
        """Restart the delta run after a chunk that was read in full."""
        counts, self._refused = self._refused, None
        if counts is not None:
            self._usage.set_last(counts)
        self._decoded = 0
        self.renew_templates()

    def _learn(self, payload: bytes, chunk: TextChunk, candidate: CandidateBlocks) -> None:
        """Learn the template of chunks that differ only in their text and two token counts."""
        counts: ChangingCounts | None = None
        expected: tuple[int | None, ...] | None = None
        if chunk.usage_metadata is not None:
            numbers = numbers_of(chunk.usage_metadata)
            if (counts := self._usage.find_changing(payload, numbers)) is None:
                return
            expected = counts.replace(*PROBED_COUNTS)

        def peek(payload: bytes) -> str | None:
            other = decode_text(payload)
            usage = other.usage_metadata
            is_same = usage is not None and self._usage.matches_last(usage)
            # The text may equal a field of the message, which a probe replaces, too.
            is_same_message = (other.response_id, other.create_time) == message
            if not is_same_message or (numbers_of(usage) if is_same else None) != expected:
                return None
            return other.candidates[0].content.parts[0].text

        message = chunk.response_id, chunk.create_time
        text = chunk.candidates[0].content.parts[0].text
        offsets = candidate.text_offsets
        extend = None if offsets is None else partial(_extend, candidate)
        fresh = None if offsets is None else offsets.fresh
        self.learn(payload, text, peek, delta=self.delta, extend=extend, fresh=fresh, counts=counts)

    def _store_counts(self) -> None:
        """Pass the token counts of the last chunk read by a template to the usage reader."""
        digits, template = self.counts, self._templates.last
        if digits is None or template is None or not isinstance(template.counts, ChangingCounts):
            return
        self.counts = self.counts_before = None
        self._usage.add_pending(template.counts.replace(int(digits[0]), int(digits[2])))


def _extend(candidate: CandidateBlocks, text: str) -> bool:
    """Append text to a candidate's open block; return whether the block accepts the text."""
    return candidate.try_append(text, thought=False) is not None
