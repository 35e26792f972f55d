"""The three shapes of nearly every chunk: more of what the chunk before it had.

They refuse all that says more, so that what fits needs no further question: that costs
half of reading a `Chunk` and asking for each of its fields.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

__all__ = [
    "MoreArguments",
    "MoreCall",
    "MoreReasoning",
    "MoreText",
    "more_arguments",
    "reasoning_of",
    "text_of",
]


class _Delta(Struct, gc=False, kw_only=True):
    """What all shapes' deltas refuse."""

    reasoning_details: None = None
    refusal: None = None
    function_call: None = None
    annotations: None = None
    audio: None = None
    executed_tools: None = None
    images: None = None


class _TextDelta(_Delta, gc=False, kw_only=True):
    content: str
    reasoning_content: None = None
    reasoning: None = None
    tool_calls: None = None


class _ReasoningDelta(_Delta, gc=False, kw_only=True):
    content: Literal[""] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: None = None


class _MoreArguments(Struct, gc=False):
    arguments: str
    name: None = None


class MoreCall(Struct, gc=False):
    """More arguments of one call."""

    index: int
    function: _MoreArguments
    id: None = None
    custom: None = None
    extra_content: None = None


class _CallsDelta(_Delta, gc=False, kw_only=True):
    content: Literal[""] | None = None
    reasoning_content: None = None
    reasoning: None = None
    tool_calls: tuple[MoreCall]


class _More(Struct, gc=False):
    """What all shapes' choices refuse."""

    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None
    usage: None = None
    error: None = None


class _TextChoice(_More, gc=False, kw_only=True):
    delta: _TextDelta


class _ReasoningChoice(_More, gc=False, kw_only=True):
    delta: _ReasoningDelta


class _CallsChoice(_More, gc=False, kw_only=True):
    delta: _CallsDelta


class _MoreChunk(Struct, gc=False):
    """What all shapes refuse."""

    usage: None = None
    error: None = None
    x_groq: None = None
    citations: None = None
    search_results: None = None
    related_questions: None = None
    images: None = None


class MoreText(_MoreChunk, gc=False, kw_only=True):
    """A chunk that is more text of choice 0, and nothing else."""

    choices: tuple[_TextChoice]


class MoreReasoning(_MoreChunk, gc=False, kw_only=True):
    """A chunk that is more reasoning of choice 0, and nothing else."""

    choices: tuple[_ReasoningChoice]


class MoreArguments(_MoreChunk, gc=False, kw_only=True):
    """A chunk that is more arguments of one call of choice 0, and nothing else."""

    choices: tuple[_CallsChoice]


_MORE_TEXT: msgspec.json.Decoder[MoreText] = msgspec.json.Decoder(MoreText)
_MORE_REASONING: msgspec.json.Decoder[MoreReasoning] = msgspec.json.Decoder(MoreReasoning)
_MORE_ARGUMENTS: msgspec.json.Decoder[MoreArguments] = msgspec.json.Decoder(MoreArguments)


def more_arguments(data: str | bytes) -> MoreCall:
    """Return the one piece of a call of a chunk that is more arguments, and nothing else.

    Raises:
        One of `FAST_ERRORS`: It may be something else.
    """
    return _MORE_ARGUMENTS.decode(data).choices[0].delta.tool_calls[0]


def text_of(data: str | bytes) -> str:
    """Return the text of a chunk that is more text, and nothing else.

    Raises:
        One of `FAST_ERRORS`: It may be something else.
    """
    return _MORE_TEXT.decode(data).choices[0].delta.content


def reasoning_of(data: str | bytes) -> str:
    """Return the reasoning of a chunk that is more reasoning, and nothing else.

    Raises:
        One of `FAST_ERRORS`: It may be something else.
    """
    delta = _MORE_REASONING.decode(data).choices[0].delta
    return delta.reasoning_content or delta.reasoning or ""
