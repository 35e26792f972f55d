"""The reader of delta runs: chunks that only extend the text or the calls of choice 0.

Three shapes (in `wire`) refuse all that says more, so that what fits needs no further
question: that costs half of decoding a `Chunk` and asking for each of its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from streamnorm._core.codec import Delta, DeltaRun
from streamnorm._core.events import TextDelta, UsageUpdate
from streamnorm._core.json import FAST_ERRORS, too_deep
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.blocks import Answer
from streamnorm.dialects.openai_chat.template import Template, learn_template
from streamnorm.dialects.openai_chat.usage import UsageReader

__all__ = ["ChatRun"]

_Chunk: TypeAlias = (
    wire.RunChunk[wire.TextRunDelta]
    | wire.RunChunk[wire.ReasoningRunDelta]
    | wire.RunChunk[wire.CallsRunDelta]
)

_MAX_FAILURES = 8
_MAX_LESSONS = 8  # of a block


class ChatRun(DeltaRun):
    """Read chunks of a stream with one choice that only extend its open blocks.

    Args:
        usage: The tokens of the stream.
        max_json_depth: Nesting beyond which they are refused.
    """

    def __init__(self, usage: UsageReader, max_json_depth: int) -> None:
        super().__init__()
        self._decode: Callable[[bytes], _Chunk] | None = None  # one shape
        self._answer: Answer
        # A server whose chunks always say more than the shapes is soon left alone.
        self._expected: Delta | bool | None = None  # a delta, or whether it is of calls
        self._failures = 0  # in a row, in its block
        self._template: Template | None = None  # of the chunks of the block
        self._lessons = 0  # chunks that a template may yet be made of
        self._usage = usage
        self._max_json_depth = max_json_depth
        self._reported = self._before = usage.usage
        self._is_counted = False  # whether the last chunk reported tokens

    def expect(self, answers: dict[int, Answer]) -> None:
        """Expect chunks that extend what is open after a chunk that was read in full."""
        self._reported = self._usage.usage
        answer = answers.get(0) if len(answers) == 1 else None
        expected = None if answer is None else answer.extendable_delta or answer.has_open_calls
        if expected is not self._expected:
            self._expected, self._failures = expected, 0
            self._template, self._lessons = None, _MAX_LESSONS
        self._decode = None
        if answer is None or not expected or self._failures >= _MAX_FAILURES:
            return
        self._answer = answer
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
            # Few servers report tokens beside arguments.
            return self._append(delta) if chunk.usage is None else None
        text = delta.text
        if chunk.usage is None:
            self._is_counted = False
            if text and self._lessons:
                self._lessons -= 1
                self._template = learn_template(payload, text, self._peek)
        elif not self._count(chunk.usage):
            return None
        return text

    def pending_usage(self) -> UsageUpdate | None:
        before, self._reported = self._reported, self._usage.usage
        return None if self._reported == before else UsageUpdate(self._reported)

    def retract_usage(self) -> None:
        if self._is_counted:
            self._usage.usage = self._before

    def _append(self, delta: wire.CallsRunDelta) -> str | None:
        call = delta.tool_calls[0]
        text = call.function.arguments
        extended = self._answer.append_arguments(call.index, text)
        if extended is None:
            return None
        self.delta = extended
        return text

    def _count(self, usage: dict[str, object]) -> bool:
        """Take the tokens that a chunk reports; False if they nest too deep."""
        if too_deep(usage, self._max_json_depth):
            return False
        self.tells_usage = self._is_counted = True
        self._before = self._usage.usage
        self._usage.merge(usage)
        return True

    def _peek(self, payload: bytes) -> str | None:
        """Return the text of a chunk if nothing but that has to be done."""
        chunk = None if self._decode is None else self._decode(payload)
        delta = None if chunk is None or chunk.usage is not None else chunk.choices[0].delta
        return None if delta is None or type(delta) is wire.CallsRunDelta else delta.text
