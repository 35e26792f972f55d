"""The reader of delta runs: chunks that only extend the text or the calls of choice 0.

Three shapes (in `wire`) refuse all that says more, so that what fits needs no further
question: that costs half of decoding a `Chunk` and asking for each of its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from streamnorm._json import FAST_ERRORS, too_deep
from streamnorm.codec import (
    Delta,
    DeltaRun,
    Template,
    constant_template,
    padded_template,
    string_pattern,
    surroundings,
)
from streamnorm.dialects.openai_chat import wire
from streamnorm.dialects.openai_chat.answer import Answer
from streamnorm.dialects.openai_chat.usage import UsageReader
from streamnorm.events import TextDelta, UsageUpdate

__all__ = ["ChatRun"]

_PREFIX = b"data: "
_LF, _ZERO = 10, ord("0")
_MAX_FAILURES = 8

_CONTENT = string_pattern("content")
_REASONING = string_pattern("reasoning_content", "reasoning")
_ARGUMENTS = string_pattern("arguments")
_CALL_INDEX = re.compile(rb'"tool_calls"[ \t]*:[ \t]*\[\{"index"[ \t]*:[ \t]*(\d),')
_PADDING = string_pattern("obfuscation", "p")  # against traffic analysis; it means nothing


class ChatRun(DeltaRun):
    """Read chunks of a stream with one choice that only extend its open blocks.

    Args:
        usage: The tokens of the stream.
        max_json_depth: Nesting beyond which they are refused.
    """

    def __init__(self, usage: UsageReader, max_json_depth: int) -> None:
        super().__init__()
        self._read: Callable[[bytes], str | None] | None = None
        self._answer: Answer
        # A server whose chunks always say more than the shapes is soon left alone.
        self._expected: Delta | bool | None = None  # a delta, or whether it is of calls
        self._failures = 0  # in a row, in its block
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
            self.forget()
            self._expected, self._failures = expected, 0
        self._read = None
        if answer is None or not expected or self._failures >= _MAX_FAILURES:
            return
        self._answer = answer
        if expected is True:
            self._read = self._arguments_of
        else:
            self.delta = expected
            is_text = type(expected) is TextDelta
            self._read = self._text_of if is_text else self._reasoning_of

    def decode(self, raw: bytes) -> str | None:
        if self._read is None or raw[:6] != _PREFIX or _LF in raw:
            return None
        self._is_counted = False
        try:
            text = self._read(raw[6:])
        except FAST_ERRORS:
            self._failures += 1
            return None
        if self._failures:
            self._failures = 0
        return text

    def pending_usage(self) -> UsageUpdate | None:
        before, self._reported = self._reported, self._usage.usage
        return None if self._reported == before else UsageUpdate(self._reported)

    def retract_usage(self) -> None:
        if self._is_counted:
            self._usage.usage = self._before

    # One shape each

    def _text_of(self, payload: bytes) -> str | None:
        chunk = wire.decode_text(payload)
        if chunk.usage is not None and not self._count(chunk.usage):
            return None
        return chunk.choices[0].delta.content

    def _reasoning_of(self, payload: bytes) -> str | None:
        chunk = wire.decode_reasoning(payload)
        if chunk.usage is not None and not self._count(chunk.usage):
            return None
        return chunk.choices[0].delta.text

    def _arguments_of(self, payload: bytes) -> str | None:
        chunk = wire.decode_arguments(payload)
        if chunk.usage is not None:  # which few servers report beside arguments
            return None
        call = chunk.choices[0].delta.tool_calls[0]
        text = call.function.arguments
        delta = self._answer.append_arguments(call.index, text)
        if delta is None:
            return None
        self.delta = delta
        return text

    def _count(self, usage: dict[str, object]) -> bool:
        """Take the tokens that a chunk reports; False if they nest too deep."""
        if too_deep(usage, self._max_json_depth):
            return False
        self.tells_usage = self._is_counted = True
        self._before = self._usage.usage
        self._usage.merge(usage)
        return True

    # Templates

    def learn(self, raw: bytes) -> Template | None:
        if self._is_counted:  # with other numbers in each chunk
            return None
        padding = _PADDING.search(raw)
        if padding is not None:  # with any other it must be the same
            raw = raw[: padding.start(1)] + b"x" + raw[padding.end(1) :]
        if self._read == self._arguments_of:
            return self._learn_arguments(raw)
        member = _CONTENT if type(self.delta) is TextDelta else _REASONING
        return _template(raw, member, lambda frame: self.decode(frame) == "?")

    def _learn_arguments(self, raw: bytes) -> Template | None:
        """Return a template for fragments of all open calls with an index of one digit."""
        index = _CALL_INDEX.search(raw)
        if index is None:
            return None
        place = index.start(1)
        templates: dict[int, Template] = {}  # by the digit
        for number in range(10):
            if self._answer.plain_call(number) is None:
                continue
            known = _template(
                raw[:place] + b"%d" % number + raw[place + 1 :],
                _ARGUMENTS,
                partial(_is_fragment, number),
            )
            if known is None:
                return None
            templates[_ZERO + number] = known
        append = self._answer.append_arguments

        def read(raw: bytes) -> str | None:
            digit = raw[place] if len(raw) > place else 0
            template = templates.get(digit)
            if template is None or (text := template(raw)) is None:
                return None
            delta = append(digit - _ZERO, text)
            if delta is None:
                return None
            self.delta = delta
            return text

        return read


def _is_fragment(call_index: int, frame: bytes) -> bool:
    """Tell whether a frame has `?` as a fragment of a call's arguments, and says nothing else."""
    call = wire.decode_arguments(frame[6:]).choices[0].delta.tool_calls[0]
    return (call.index, call.function.arguments) == (call_index, "?")


def _template(
    raw: bytes, member: re.Pattern[bytes], reads_as: Callable[[bytes], bool]
) -> Template | None:
    around = surroundings(raw, member, reads_as)
    if around is None:
        return None
    head, tail = around
    padding = _PADDING.search(tail)
    if padding is None:
        return constant_template(head, tail)
    return padded_template(head, tail[: padding.start(1)], tail[padding.end(1) :])
