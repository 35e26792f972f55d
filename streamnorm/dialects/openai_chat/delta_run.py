"""The delta run of Chat Completions: chunks that only extend the blocks of choice 0.

Three typed shapes in `wire` reject every chunk with other content, so that a chunk of such
a shape needs no further check: half the cost of decoding a `Chunk` and testing its fields.

Nearly every chunk equals the one before but for its text.  Once a chunk has been decoded, the
bytes before and after the text are compared with those of a template instead, in a third of
the time; the string between them is always decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from streamnorm._core.codec import Delta, DeltaRun
from streamnorm._core.events import TextDelta, UsageUpdate
from streamnorm._core.json import FAST_ERRORS, too_deep
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import ChoiceBlocks
from streamnorm.dialects.openai_chat.options import StreamState
from streamnorm.dialects.openai_chat.outcome import UsageReader
from streamnorm.dialects.openai_chat.tool_calls import ChunkId

_Chunk: TypeAlias = (
    wire.RunChunk[wire.TextRunDelta]
    | wire.RunChunk[wire.ReasoningRunDelta]
    | wire.RunChunk[wire.CallsRunDelta]
)

Template: TypeAlias = Callable[[bytes], str | None]
"""Returns the text of a chunk that fits the template; None for any other chunk."""

# A server whose every chunk has a field outside the shapes would pay for two decoders per chunk.
_MAX_FAILURES = 8
_MAX_TEMPLATES = 8  # per block
# Perplexity's chunks grow with the text: comparing them would take quadratic time.
_MAX_TEMPLATE_BYTES = 4096  # of a chunk that a template is learned from
_PROBE = "?"
# OpenAI and Mistral pad each chunk with random letters against traffic analysis.
_PADDING = re.compile(rb'"(?:obfuscation|p)" *: *"([0-9A-Za-z]*)"')

_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_decode_string = _STRING.decode
_encode_string = msgspec.json.encode


class ChatRun(DeltaRun):
    """Reader of the delta run of a stream with one choice.

    Args:
        usage: Usage of the stream.
        state: Ids of the stream's chunks, and the bound on the nesting of a usage object.
    """

    def __init__(self, usage: UsageReader, state: StreamState) -> None:
        super().__init__()
        self._decode: Callable[[bytes], _Chunk] | None = None  # of the expected shape
        self._blocks: ChoiceBlocks
        self._expected: Delta | bool | None = None  # a delta, or True for calls
        # Failures in a row; after `_MAX_FAILURES` the shape is no longer tried for the block.
        self._failures = 0
        self._template: Template | None = None  # of the chunks of the block
        self._attempts_left = 0  # chunks from which a template may still be learned
        self._usage = usage
        self._state = state
        self._reported = self._before = usage.usage
        self._has_usage = False  # whether the last chunk reported usage

    def expect(self, choices: dict[int, ChoiceBlocks]) -> None:
        """Select the shape of the next chunk, after a chunk was read in full."""
        self._reported = self._usage.usage
        blocks = choices.get(0) if len(choices) == 1 else None
        expected = None
        if blocks is not None:
            expected = blocks.appendable_delta or blocks.has_appendable_calls
        if expected is not self._expected:
            self._expected, self._failures = expected, 0
            self._template, self._attempts_left = None, _MAX_TEMPLATES
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
        template = self._template
        if template is not None and (text := template(payload)) is not None:
            return text
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
            return self._append_arguments(delta, chunk.id) if chunk.usage is None else None
        # Groq's Compound changes the id with every chunk (groq/executed-tools-and-new-ids).
        if chunk.id != self._state.first_chunk_id and self._state.changes_id(chunk.id):
            return None
        text = delta.text
        if chunk.usage is None:
            self._has_usage = False
            if text and self._attempts_left:
                self._attempts_left -= 1
                self._template = learn_template(payload, text, self._peek)
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

    def _append_arguments(self, delta: wire.CallsRunDelta, chunk_id: ChunkId) -> str | None:
        call = delta.tool_calls[0]
        text = call.function.arguments
        extended = self._blocks.calls.try_append(call.index, text, chunk_id)
        if extended is None:
            return None
        self.delta = extended
        return text

    def _merge_usage(self, usage: dict[str, object]) -> bool:
        """Merge the usage of a chunk.

        False, and nothing changes, if it nests too deep or changes the stored unknown fields.
        """
        if too_deep(usage, self._state.limits.max_json_depth):
            return False
        before = self._usage.usage
        self._usage.merge(usage)
        if self._usage.usage.extra != before.extra:
            self._usage.usage = before
            return False
        self.reports_usage = self._has_usage = True
        self._before = before
        return True

    def _peek(self, payload: bytes) -> str | None:
        """Return the text of a chunk without other effects; None if it has any."""
        chunk = None if self._decode is None else self._decode(payload)
        delta = None if chunk is None or chunk.usage is not None else chunk.choices[0].delta
        return None if delta is None or type(delta) is wire.CallsRunDelta else delta.text


def learn_template(
    payload: bytes, text: str, peek: Callable[[bytes], str | None]
) -> Template | None:
    """Return a template of the chunks that differ from one in their text; None if unsafe.

    Args:
        payload: A chunk that was read.
        text: Its text.
        peek: Returns the text of a chunk that has no other effect, without reading it.
    """
    literal = _encode_string(text)
    # A text that occurs twice may be the value of another field, such as `content` of Perplexity's
    # `message`.
    if len(payload) > _MAX_TEMPLATE_BYTES or payload.count(literal) != 1:
        return None
    head, _, tail = payload.partition(literal)
    padding = _PADDING.search(tail)
    middle, end = (tail[: padding.start(1)], tail[padding.end(1) :]) if padding else (b"", tail)
    try:
        # With another string in its place that string is the text, and nothing else changes;
        # with an empty one no other field takes its place.
        for probe in (_PROBE, ""):
            if peek(head + _encode_string(probe) + middle + end) != probe:
                return None
    except FAST_ERRORS:
        return None
    if middle:
        return _template(head + b'"', b'"' + middle, end)
    return _template(head + b'"', b"", b'"' + end)


def _template(head: bytes, middle: bytes, end: bytes) -> Template:
    """Return a template of chunks with the same bytes around their text.

    Args:
        head: Bytes before the text.
        middle: Bytes between text and padding; empty if there is no padding.
        end: Bytes after the padding, or after the text.
    """
    start, skip, stop = len(head), len(middle), -len(end)

    def read(payload: bytes) -> str | None:
        if payload[:start] != head or payload[stop:] != end:
            return None
        at = stop
        if skip:
            at = payload.rfind(middle)
            padding = payload[at + skip : stop]
            if padding and not padding.isalnum():
                return None
        try:
            return _decode_string(payload[start - 1 : at + 1])
        except FAST_ERRORS:
            return None

    return read
