"""The delta run of Chat Completions: chunks that only extend the blocks of choice 0.

Three typed shapes in `wire` reject every chunk with other content, so that a chunk of such
a shape needs no further check: half the cost of decoding a `Chunk` and testing its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from streamnorm._core.codec import Delta, DeltaRun
from streamnorm._core.events import TextDelta, UsageUpdate
from streamnorm._core.json import FAST_ERRORS, too_deep
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import ChoiceBlocks
from streamnorm.dialects.openai_chat.template import Template, learn_template
from streamnorm.dialects.openai_chat.usage import UsageReader

__all__ = ["ChatRun"]

_Chunk: TypeAlias = (
    wire.RunChunk[wire.TextRunDelta]
    | wire.RunChunk[wire.ReasoningRunDelta]
    | wire.RunChunk[wire.CallsRunDelta]
)

_MAX_FAILURES = 8
_MAX_TEMPLATES = 8  # per block


class ChatRun(DeltaRun):
    """Reader of the delta run of a stream with one choice.

    Args:
        usage: Usage of the stream.
        max_json_depth: Bound on the nesting of a usage object.
    """

    def __init__(self, usage: UsageReader, max_json_depth: int) -> None:
        super().__init__()
        self._decode: Callable[[bytes], _Chunk] | None = None  # of the expected shape
        self._blocks: ChoiceBlocks
        self._expected: Delta | bool | None = None  # a delta, or True for calls
        # Failures in a row; after `_MAX_FAILURES` the shape is no longer tried for the block.
        self._failures = 0
        self._template: Template | None = None  # of the chunks of the block
        self._attempts_left = 0  # chunks from which a template may still be learned
        self._usage = usage
        self._max_json_depth = max_json_depth
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
            # Few servers report usage beside arguments.
            return self._append_arguments(delta) if chunk.usage is None else None
        text = delta.text
        if chunk.usage is None:
            self._has_usage = False
            if text and self._attempts_left:
                self._attempts_left -= 1
                self._template = learn_template(payload, text, self._peek)
        elif not self._merge_usage(chunk.usage):
            return None
        return text

    def pending_usage(self) -> UsageUpdate | None:
        before, self._reported = self._reported, self._usage.usage
        return None if self._reported == before else UsageUpdate(self._reported)

    def retract_usage(self) -> None:
        if self._has_usage:
            self._usage.usage = self._before

    def _append_arguments(self, delta: wire.CallsRunDelta) -> str | None:
        call = delta.tool_calls[0]
        text = call.function.arguments
        extended = self._blocks.append_arguments(call.index, text)
        if extended is None:
            return None
        self.delta = extended
        return text

    def _merge_usage(self, usage: dict[str, object]) -> bool:
        """Merge the usage of a chunk; False, and nothing changed, if it nests too deep."""
        if too_deep(usage, self._max_json_depth):
            return False
        self.reports_usage = self._has_usage = True
        self._before = self._usage.usage
        self._usage.merge(usage)
        return True

    def _peek(self, payload: bytes) -> str | None:
        """Return the text of a chunk without other effects; None if it has any."""
        chunk = None if self._decode is None else self._decode(payload)
        delta = None if chunk is None or chunk.usage is not None else chunk.choices[0].delta
        return None if delta is None or type(delta) is wire.CallsRunDelta else delta.text
