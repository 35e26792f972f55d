"""The shape of a Chat Completions chunk, as far as it is read on every frame.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21), and
what compatible servers add.  Only what is used is declared: undeclared fields of the
first and the last chunk are kept in `extra`, those of the chunks between are dropped.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import msgspec
from msgspec import Struct, field

__all__ = [
    "CHOICE_FIELDS",
    "CHUNK_FIELDS",
    "DELTA_FIELDS",
    "PIECES",
    "SIDE_FIELDS",
    "ArgumentsChunk",
    "CallDelta",
    "Choice",
    "Chunk",
    "Delta",
    "Function",
    "RunChunk",
    "ToolCallDelta",
    "decode_arguments",
    "decode_chunk",
    "decode_reasoning",
    "decode_text",
    "says_nothing",
]

Arguments: TypeAlias = str | dict[str, Any] | list[Any] | None
"""Text; GLM-4.5 and Mistral may send the object itself."""


class Function(Struct, gc=False):
    """A function's name and arguments, or a custom tool's name and input."""

    name: str | None = None
    arguments: Arguments = None
    input: str | None = None


class ToolCallDelta(Struct):
    """A piece of a tool call."""

    index: int | None = None
    id: str | int | None = None
    type: str | None = None
    function: Function | None = None
    custom: Function | None = None
    extra_content: dict[str, Any] | None = None


class Delta(Struct):
    """A piece of an answer.  Mistral's content may be a list of parts."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[ToolCallDelta] | None = None
    refusal: str | None = None
    function_call: Function | None = None
    annotations: list[Any] | None = None
    audio: Any = None
    executed_tools: Any = None
    images: Any = None


class Choice(Struct):
    """One answer's part of a chunk.  `message` stands beside or in place of `delta` at
    Perplexity, Writer and MiniMax.
    """

    index: int | None = None
    delta: Delta | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    usage: dict[str, Any] | None = None
    error: Any = None
    message: Any = None


class Chunk(Struct):
    """One frame's payload."""

    choices: list[Choice] | None = None
    id: str | int | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None
    citations: Any = None
    search_results: Any = None
    related_questions: Any = None
    images: Any = None


_DECODER: msgspec.json.Decoder[Chunk] = msgspec.json.Decoder(Chunk)
decode_chunk = _DECODER.decode

PIECES = frozenset(
    {"content", "text", "thinking", "reasoning", "reasoning_content", "summary", "refusal"}
    | {"arguments", "input"}
    | {"choices", "delta", "message", "reasoning_details"}
    | {"tool_calls", "function", "custom", "function_call"}
)
"""The keys whose strings are pieces of a longer text, and those on the way to them."""

SIDE_FIELDS = ("citations", "search_results", "related_questions", "images")
"""Top-level fields without a place in the events; servers repeat them on every chunk."""

CHUNK_FIELDS = frozenset(
    {"id", "object", "model", "choices", "usage", "error", *SIDE_FIELDS}
    # Random padding against traffic analysis, at OpenAI and at Mistral.
    | {"obfuscation", "p"}
)
"""Top-level fields that never go to `extra`."""

_CONSTANT_FIELDS = frozenset({*CHUNK_FIELDS, "created", "service_tier", "system_fingerprint"})

CHOICE_FIELDS = frozenset(
    {"index", "delta", "finish_reason", "logprobs", "message", "usage", "text", "obfuscation"}
)
"""Fields of a choice that never go to `extra`."""

DELTA_FIELDS = frozenset({*Delta.__struct_fields__, "role"})
"""Fields of a choice's last delta that never go to `extra`."""


def says_nothing(chunk: dict[str, Any]) -> bool:
    """Tell whether a chunk without choices has only what all have, as gpt-audio sends many."""
    named = str(chunk.get("object")).startswith("chat.completion")
    return named and chunk.keys() <= _CONSTANT_FIELDS


# The shapes of delta runs: chunks that only extend a block, or report tokens besides.

_Nothing: TypeAlias = tuple[()] | None


class _RunDelta(Struct, gc=False, kw_only=True):
    """What all shapes' deltas refuse, but where it is empty."""

    reasoning_details: _Nothing = None
    refusal: Literal[""] | None = None
    function_call: None = None
    annotations: _Nothing = None
    audio: None = None
    executed_tools: None = None
    images: None = None


class _TextDelta(_RunDelta, gc=False, kw_only=True):
    text: str = field(name="content")
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    tool_calls: _Nothing = None


class _ReasoningDelta(_RunDelta, gc=False, kw_only=True):
    content: Literal[""] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: _Nothing = None

    @property
    def text(self) -> str:
        """The reasoning, which servers send under one name or under both."""
        return self.reasoning_content or self.reasoning or ""


class _Arguments(Struct, gc=False):
    arguments: str
    name: None = None


class CallDelta(Struct, gc=False):
    """A fragment of the arguments of one call."""

    index: int
    function: _Arguments
    type: str | None = None
    id: None = None
    custom: None = None
    extra_content: None = None


class _CallsDelta(_RunDelta, gc=False, kw_only=True):
    content: Literal[""] | None = None
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    tool_calls: tuple[CallDelta]


class _RunChoice(Struct, gc=False):
    """What all shapes' choices refuse."""

    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None
    usage: None = None
    error: None = None


class _TextChoice(_RunChoice, gc=False, kw_only=True):
    delta: _TextDelta


class _ReasoningChoice(_RunChoice, gc=False, kw_only=True):
    delta: _ReasoningDelta


class _CallsChoice(_RunChoice, gc=False, kw_only=True):
    delta: _CallsDelta


class _RunChunk(Struct, gc=False):
    """What all shapes have, and what they refuse."""

    id: str | int | None = None
    model: str | None = None
    usage: dict[str, object] | None = None
    error: None = None
    x_groq: None = None
    citations: None = None
    search_results: None = None
    related_questions: None = None
    images: None = None


class TextChunk(_RunChunk, gc=False, kw_only=True):
    """A chunk with text of choice 0, and nothing else."""

    choices: tuple[_TextChoice]


class ReasoningChunk(_RunChunk, gc=False, kw_only=True):
    """A chunk with reasoning of choice 0, and nothing else."""

    choices: tuple[_ReasoningChoice]


@final
class ArgumentsChunk(_RunChunk, gc=False, kw_only=True):
    """A chunk with arguments of one call of choice 0, and nothing else."""

    choices: tuple[_CallsChoice]


RunChunk: TypeAlias = TextChunk | ReasoningChunk | ArgumentsChunk

_TEXT: msgspec.json.Decoder[TextChunk] = msgspec.json.Decoder(TextChunk)
_REASONING: msgspec.json.Decoder[ReasoningChunk] = msgspec.json.Decoder(ReasoningChunk)
_ARGUMENTS: msgspec.json.Decoder[ArgumentsChunk] = msgspec.json.Decoder(ArgumentsChunk)
decode_text = _TEXT.decode
decode_reasoning = _REASONING.decode
decode_arguments = _ARGUMENTS.decode
