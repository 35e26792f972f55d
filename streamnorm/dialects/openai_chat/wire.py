"""Wire structs and field names of Chat Completions chunks.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21), and the
fields that compatible servers add.  Unknown fields of the first and the last chunk are
stored in `extra`, those of the chunks between are dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, final

import msgspec
from msgspec import Meta, Struct, field

Arguments: TypeAlias = str | dict[str, Any] | list[Any] | None
"""Arguments as text; GLM-4.5 and Mistral may send the object itself."""


class Function(Struct, gc=False):
    """A function's name and arguments, or a custom tool's name and input."""

    name: str | None = None
    arguments: Arguments = None
    input: str | None = None


class ToolCallDelta(Struct):
    """A fragment of a tool call."""

    index: int | None = None
    # OpenRouter relays numbers (openrouter/numeric-id).
    id: str | int | None = None
    type: str | None = None
    function: Function | None = None
    custom: Function | None = None
    extra_content: dict[str, Any] | None = None
    provider_specific_fields: Any = None


class Delta(Struct):
    """The delta of a choice: the content that a chunk adds.

    A field that is added here must be refused by the deltas of a run below, or be the text of
    one; if its strings are parts of a text, it also stands in `PIECES`.
    """

    content: str | list[Any] | None = None
    # DeepSeek's name, taken over by Qwen, GLM, Kimi, xAI and llama.cpp.
    reasoning_content: str | None = None
    # The name at Groq, Cerebras, Together, Ollama and newer vLLM.
    reasoning: str | None = None
    # OpenRouter's, with signatures.
    reasoning_details: list[Any] | None = None
    # LiteLLM's, with signatures; `reasoning_content` repeats their text.
    thinking_blocks: list[Any] | None = None
    tool_calls: list[ToolCallDelta] | None = None
    refusal: str | None = None
    # The vendor's former field for one call.
    function_call: Function | None = None
    annotations: list[Any] | None = None
    audio: Any = None
    # Groq's server tools (groq/executed-tools-and-new-ids).
    executed_tools: Any = None
    images: Any = None
    # LiteLLM's, for fields that OpenAI lacks.
    provider_specific_fields: Any = None


class Choice(Struct):
    """One choice of a chunk.

    Perplexity, Writer and MiniMax send a whole `message` beside or instead of `delta`.
    """

    index: int | None = None
    delta: Delta | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    # Moonshot counts here.
    usage: dict[str, Any] | None = None
    error: Any = None
    message: Any = None


class Chunk(Struct):
    """A chunk: the payload of a frame."""

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
    | {"choices", "delta", "message", "reasoning_details", "thinking_blocks"}
    | {"tool_calls", "function", "custom", "function_call"}
)
"""Keys whose strings are parts of a longer text, and the keys of their parents.

Half of a character at the end of such a string is joined with its other half; in a text
field that is missing here, characters that are cut in two are lost."""

SIDE_FIELDS = ("citations", "search_results", "related_questions", "images")
"""Top-level fields without a unified event; servers repeat them on every chunk."""

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


def is_empty_chunk(chunk: dict[str, Any]) -> bool:
    """Return whether a chunk without choices has no content (gpt-audio sends many)."""
    named = str(chunk.get("object")).startswith("chat.completion")
    return named and chunk.keys() <= _CONSTANT_FIELDS


# The shapes of a delta run: chunks that only extend a block, or report usage as well.

_Nothing: TypeAlias = tuple[()] | None
_AnyDelta = TypeVar("_AnyDelta", bound="TextRunDelta | ReasoningRunDelta | CallsRunDelta")


class _RunDelta(Struct, gc=False, kw_only=True):
    """Base of the delta structs of a delta run, with the fields that must be empty."""

    refusal: Literal[""] | None = None
    function_call: None = None
    annotations: _Nothing = None
    audio: None = None
    executed_tools: None = None
    images: None = None


class TextRunDelta(_RunDelta, gc=False, kw_only=True):
    """A delta with text only."""

    text: str = field(name="content")
    reasoning_details: _Nothing = None
    thinking_blocks: _Nothing = None
    provider_specific_fields: None = None
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    tool_calls: _Nothing = None


class _RunDetail(Struct, gc=False, kw_only=True):
    """A detail of `reasoning_details` that has text alone."""

    type: Literal["reasoning.text", "reasoning.summary"]
    text: str | None = None
    summary: str | None = None
    signature: Literal[""] | None = None
    data: Literal[""] | None = None


class _RunThinking(Struct, gc=False, kw_only=True):
    """A block of `thinking_blocks` that has text alone."""

    type: Literal["thinking"]
    thinking: str
    signature: Literal[""] | None = None


class _RunFields(Struct, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Fields of LiteLLM that repeat a thinking block."""

    thinking_blocks: list[_RunThinking]


class ReasoningRunDelta(_RunDelta, gc=False, kw_only=True):
    """A delta of reasoning alone, which servers send in one field or in several."""

    reasoning_details: Annotated[list[_RunDetail], Meta(max_length=1)] | None = None
    thinking_blocks: Annotated[list[_RunThinking], Meta(max_length=1)] | None = None
    provider_specific_fields: _RunFields | None = None
    # DeepSeek and Alibaba send `content: null` beside reasoning, others "".
    content: Literal[""] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: _Nothing = None

    @property
    def text(self) -> str:
        """The reasoning text, from the field that carries it."""
        # OpenRouter repeats the text of a detail in `reasoning`.
        for detail in self.reasoning_details or ():
            if text := detail.text or detail.summary:
                return text
        # LiteLLM repeats the text of a block in `reasoning_content`.
        for block in () if self.reasoning_details else self.thinking_blocks or ():
            if block.thinking:
                return block.thinking
        return self.reasoning_content or self.reasoning or ""


class _RunFunction(Struct, gc=False):
    arguments: str
    name: None = None


class _RunCall(Struct, gc=False):
    index: int
    function: _RunFunction
    type: str | None = None
    id: None = None
    custom: None = None
    extra_content: None = None
    provider_specific_fields: None = None


@final
class CallsRunDelta(_RunDelta, gc=False, kw_only=True):
    """A delta with nothing but an arguments fragment of one call."""

    content: Literal[""] | None = None
    reasoning_content: Literal[""] | None = None
    reasoning: Literal[""] | None = None
    reasoning_details: _Nothing = None
    thinking_blocks: _Nothing = None
    provider_specific_fields: None = None
    tool_calls: tuple[_RunCall]


class _RunChoice(Struct, Generic[_AnyDelta], gc=False, kw_only=True):
    """A choice with a delta only."""

    delta: _AnyDelta
    index: Literal[0] = 0
    finish_reason: None = None
    logprobs: None = None
    usage: None = None
    error: None = None


class RunChunk(Struct, Generic[_AnyDelta], gc=False, kw_only=True):
    """A chunk of one choice, which may report usage.

    Unknown fields are ignored, so every field that `Chunk` reads is named.
    """

    choices: tuple[_RunChoice[_AnyDelta]]
    id: str | int | None = None
    model: str | None = None
    # Perplexity and Baseten count in every chunk, most servers in the last.
    usage: dict[str, object] | None = None
    error: None = None
    x_groq: None = None
    citations: None = None
    search_results: None = None
    related_questions: None = None
    images: None = None


_TEXT = msgspec.json.Decoder(RunChunk[TextRunDelta])
_REASONING = msgspec.json.Decoder(RunChunk[ReasoningRunDelta])
_ARGUMENTS = msgspec.json.Decoder(RunChunk[CallsRunDelta])
decode_text = _TEXT.decode
decode_reasoning = _REASONING.decode
decode_arguments = _ARGUMENTS.decode
