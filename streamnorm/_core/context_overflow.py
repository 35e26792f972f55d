"""Recognition of context overflows: errors that a request is too long for its model.

Servers have no common code for this error; most have only a phrase in the message.  Clients
recognise the phrase or code of their own API, and compact the conversation or ask for fewer
tokens.  Each dialect therefore writes the error in its vendor's form.  The patterns are constant
phrases and numbers of at most 15 characters, so a search takes linear time.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct

from streamnorm._core.events import StreamError

_CODES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",  # of gateways
        "exceed_context_size_error",  # llama.cpp (ggml-org/llama.cpp#15780)
        "model_context_window_exceeded",  # GLM
        "model_max_prompt_tokens_exceeded",  # Copilot
    }
)

# Each row is one spelling: a message that contains all of its phrases.
_SPELLINGS = (
    ("prompt is too long",),  # the Messages API; Fireworks
    ("exceed context limit",),  # the Messages API, where `max_tokens` takes the rest
    # Chat Completions, vLLM, OpenRouter, DeepSeek, Llama on Bedrock; Mistral has "too large for
    # model with 32768 maximum context length".
    ("maximum context length",),
    ("exceed", "context window"),  # Responses, MiniMax, oMLX
    ("exceed", "available context size"),  # llama.cpp
    # llama.cpp, and LM Studio with MLX (ggml-org/llama.cpp#19774).
    ("context size has been exceeded",),
    ("exceed", "max context length"),  # Ollama
    ("input length exceeds the context length",),  # Ollama (nano-step/nano-brain#208)
    ("longer than the model's context length",),  # SGLang, Together (QwenLM/Qwen3#1321)
    ("longer than the maximum model length",),  # vLLM
    ("input tokens", "context length is only"),  # vLLM, with `max_tokens` or without
    ("input length", "exceeds the maximum allowed"),  # SGLang (#4048), Poolside
    ("input length", "exceeds maximum allowed token size"),  # NIM
    ("input prompt", "is too long and exceeds limit"),  # vLLM (#10440)
    ("greater than the context length",),  # LM Studio
    ("when context the overflows",),  # LM Studio (lmstudio-ai/lmstudio-bug-tracker#546)
    ("cannot truncate prompt with n_keep",),  # LM Studio (anomalyco/opencode#11141)
    ("reached context length of",),  # LM Studio (lmstudio-ai/lmstudio-bug-tracker#1024)
    ("input token count", "exceeds the maximum number of tokens"),  # Google's APIs
    (
        "input token count",
        "model only supports up to",
    ),  # Vertex AI (google-gemini/gemini-cli#19727)
    ("input tokens exceed",),  # Chat Completions, for a limit of the project; Nova
    ("maximum prompt length is",),  # xAI
    ("prompt token count", "exceeds the limit"),  # Copilot
    ("reduce the length of the messages",),  # Groq, Cerebras
    ("input is too long for requested model",),  # Bedrock (anthropics/claude-code#8637)
    ("exceeded model token limit",),  # Kimi
    ("prompt exceeds max length",),  # GLM
    ("range of input length should be",),  # DashScope
    ("`inputs`", "tokens", "must"),  # TGI, with `max_new_tokens` or without
    ("tokens in the prompt cannot exceed",),  # Cohere
    ("sum of prompt length", "max_num_tokens"),  # TensorRT-LLM
    ("must be less than", "max_seq_len"),  # SiliconFlow (langgenius/dify#19394)
    ("exceed max message tokens",),  # Volcengine (agentscope-ai/QwenPaw#272)
    ("context length exceeded",),
    ("context_length_exceeded",),
)

# A spent quota is no overflow, although its message may mention tokens and limits.
_QUOTA_STATUS = 429
_QUOTA_WORDS = ("rate_limit", "throttl", "quota")

_COUNT = r"(\d[\d,]{0,14})"

# Patterns in which `N` matches a number.
_INPUT_TOKENS = (
    r"prompt is too long: N",
    r"context limit: N \+",
    r"\(N in the messages",
    r"\(N of text input",
    r"N tokens from the input messages",
    r"messages resulted in N",
    r"input token count \(N",
    r"prompt token count of N",
    r"request \(N tokens",
    r"input \(N tokens",
    r"input prompt \(N tokens",
    r"input length \(N",
    r"input length N exceeds",
    r"prompt \(length N\)",
    r"prompt length \(N",
    r"prompt_tokens \(N",
    r"n_keep \(N",
    r"n_keep: N",
    r"keep the first N",
    r"passed N input tokens",
    r"input token count is N",
    r"prompt contains N",
    r"prompt contains at least N",
    r"request has N input tokens",
    r"request contains N",
    r"requested: N",
    r"current length is N",
    r"received N",
)
_OUTPUT_TOKENS = (
    r"\+ N >",
    r"N in the completion",
    r"N in the output",
    r"N tokens for the completion",
    r"requested N output tokens",
    r"is too large: N",
)
_LIMIT = (
    r"> N maximum",
    r"\d > N",
    r"context length is (?:only )?N",
    r"context length of (?:only )?N",
    r"context length \(N",
    r"context length: N",
    r"context size \(N tokens",
    r"with N maximum context length",
    r"model length of N",
    r"tokens allowed \(N",
    r"allowed length \(N",
    r"allowed input length of N",
    r"token size N",
    r"context window of N",
    r"max_num_tokens \(N",
    r"max_seq_len \(N",
    r"n_ctx \(N",
    r"n_ctx: N",
    r"only supports up to N",
    r"configured limit of N",
    r"maximum prompt length is N",
    r"exceeds the limit of N",
    r"exceeds limit of N",
    r"model token limit: N",
    r"while limit is N",
    r"cannot exceed N",
)


class ContextOverflow(Struct, frozen=True):
    """Token counts in a provider's context overflow error; None for counts that the error omits.

    Attributes:
        input_tokens: Tokens of the request.
        output_tokens: Tokens that the request allows the answer.
        limit: Tokens of the model's context, for both.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    limit: int | None = None

    @property
    def input_fits(self) -> bool:
        """Whether the input would fit without the tokens of the answer."""
        return (
            self.input_tokens is not None
            and self.output_tokens is not None
            and self.limit is not None
            and self.input_tokens <= self.limit
        )


def is_context_overflow(message: str, *words: str | None, status: int | None = None) -> bool:
    """Return whether an error reports a request that is too long for its model.

    Args:
        message: Message of the provider's error.
        words: Code and type of the error.
        status: HTTP status of the error.
    """
    known = [word.lower() for word in words if word]
    if not _CODES.isdisjoint(known):
        return True
    if status == _QUOTA_STATUS or any(quota in word for word in known for quota in _QUOTA_WORDS):
        return False
    text = message.lower()
    return any(all(phrase in text for phrase in phrases) for phrases in _SPELLINGS)


def context_overflow(error: StreamError) -> ContextOverflow | None:
    """Return the token counts of a context overflow; None for any other error."""
    type = (error.extra or {}).get("type")
    words = (error.code, type if isinstance(type, str) else None)
    if error.kind != "upstream" or not is_context_overflow(
        error.message, *words, status=error.status_hint
    ):
        return None
    text = error.message.lower()
    return ContextOverflow(
        *(_count(text, patterns) for patterns in (_INPUT_TOKENS, _OUTPUT_TOKENS, _LIMIT))
    )


@cache  # errors are rare: compiling all patterns takes milliseconds
def _compile(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern.replace("N", _COUNT)) for pattern in patterns)


def _count(text: str, patterns: tuple[str, ...]) -> int | None:
    for pattern in _compile(patterns):
        if (found := pattern.search(text)) is not None:
            return int(found[1].replace(",", ""))
    return None
