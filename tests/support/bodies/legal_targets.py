"""Targets of request translation, and their request rules."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from streamnorm import Encoded, EncodeError, Request, encode_request
from streamnorm._core.bodies.projection.results import RepairPolicy
from streamnorm.validation import validate_request

__all__ = ["TARGETS", "Target", "legal_or_refused", "violations_of"]


class Target(NamedTuple):
    """A model on a server.

    Attributes:
        dialect: Dialect of the server.
        server: Its name; None is the vendor.
        model: The model.
    """

    dialect: str
    server: str | None
    model: str

    def __str__(self) -> str:
        return f"{self.dialect}-{self.server or 'vendor'}-{self.model}"


_MODELS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("openai_chat", None): (
        *("gpt-4.1", "gpt-5", "gpt-5.1", "gpt-5.1-codex", "gpt-5.4", "gpt-5.6-sol"),
        *("gpt-5-pro", "o3", "o4-mini"),
    ),
    ("openai_responses", None): (
        *("gpt-4.1", "gpt-5", "gpt-5.1", "gpt-5.1-codex", "gpt-5.4", "gpt-5.5", "gpt-5.6-sol"),
        *("gpt-5-pro", "o3"),
    ),
    ("anthropic", None): (
        *("claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-opus-4-5"),
        *("claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5"),
        *("claude-haiku-4-5", "claude-fable-5-1", "claude-opus-5"),
    ),
    ("gemini", None): (
        *("gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-3-pro-preview"),
        *("gemini-3-flash", "gemini-4-pro"),
    ),
    ("gemini_interactions", None): ("gemini-2.5-flash", "gemini-3-flash-preview"),
    ("bedrock_converse", None): (
        *("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "anthropic.claude-sonnet-4-5-v1:0"),
        *("anthropic.claude-opus-4-8", "us.amazon.nova-2-lite-v1:0", "amazon.nova-pro-v1:0"),
        *("meta.llama4-maverick-17b-instruct-v1:0", "mistral.mistral-large-2407-v1:0"),
        *("openai.gpt-oss-120b-1:0", "cohere.command-r-plus-v1:0"),
    ),
    ("anthropic", "bedrock"): ("anthropic.claude-sonnet-4-5-v1:0", "anthropic.claude-opus-4-8"),
    ("anthropic", "copilot"): ("claude-sonnet-4.5", "claude-opus-4.6"),
    ("anthropic", "deepseek"): ("deepseek-v4", "deepseek-chat"),
    ("anthropic", "kimi"): ("kimi-k3",),
    ("anthropic", "minimax"): ("minimax-m2",),
    ("anthropic", "qwen"): ("qwen3-max",),
    ("anthropic", "vertex"): ("claude-sonnet-4-5", "claude-opus-4-8"),
    ("anthropic", "vllm"): ("qwen3-32b",),
    ("gemini", "vertex"): ("gemini-2.5-pro", "gemini-3-pro-preview"),
    ("openai_chat", "azure"): ("gpt-4.1", "gpt-5", "deepseek-v3.2"),
    ("openai_chat", "cerebras"): ("gpt-oss-120b", "zai-glm-4.7"),
    ("openai_chat", "copilot"): ("gpt-4.1", "gpt-5", "claude-sonnet-4.5"),
    ("openai_chat", "deepseek"): (
        *("deepseek-v4", "deepseek-reasoner", "deepseek-chat", "deepseek-r1"),
    ),
    ("openai_chat", "glm"): ("glm-4.6", "glm-5.3"),
    ("openai_chat", "groq"): ("qwen3-32b", "gpt-oss-120b", "llama-3.3-70b"),
    ("openai_chat", "kimi"): ("kimi-k2.5", "kimi-k3", "kimi-k2-0905-preview"),
    ("openai_chat", "litellm"): ("claude-opus-4-6", "gpt-5.2", "gemini-3-pro-preview"),
    ("openai_chat", "llamacpp"): ("devstral-small", "qwen3-32b"),
    ("openai_chat", "lmstudio"): ("qwen3-32b",),
    ("openai_chat", "minimax"): ("minimax-m2",),
    ("openai_chat", "mistral"): ("mistral-large-latest", "magistral-medium"),
    ("openai_chat", "nim"): ("mistralai/mistral-large-3",),
    ("openai_chat", "ollama"): ("qwen3:32b", "gpt-oss:20b"),
    ("openai_chat", "openrouter"): (
        *("anthropic/claude-sonnet-4.5", "google/gemini-3-pro-preview", "openai/gpt-5"),
    ),
    ("openai_chat", "qwen"): ("qwen3-max", "qwen-plus", "qwen3-32b", "qwq-plus"),
    ("openai_chat", "scaleway"): ("mistral-small-3.2",),
    ("openai_chat", "sglang"): ("qwen3-32b", "gemma-4"),
    ("openai_chat", "vllm"): ("qwen3-32b", "mistral-small"),
    ("openai_chat", "xai"): ("grok-4", "grok-4.3", "grok-4.5", "grok-code-fast-1"),
    ("openai_responses", "azure"): ("gpt-5", "gpt-4.1"),
    ("openai_responses", "chatgpt"): ("gpt-5.1-codex", "gpt-5.5"),
    ("openai_responses", "copilot"): ("gpt-5.1-codex",),
    ("openai_responses", "ollama"): ("qwen3:32b",),
    ("openai_responses", "vllm"): ("qwen3-32b",),
    ("openai_responses", "xai"): ("grok-4.3",),
}

TARGETS = [
    Target(dialect, server, model)
    for (dialect, server), models in _MODELS.items()
    for model in models
]
"""Models on servers, each with rules of its own."""


def violations_of(made: Encoded, target: Target) -> list[str]:
    """Return a target's violations in an encoded request: rule, path and text."""
    found = validate_request(
        made.body,
        target.dialect,
        model=target.model,
        server=target.server,
        path=made.path,
        headers=made.headers,
    )
    return [f"{each.rule} at {each.path}: {each.message}" for each in found]


def legal_or_refused(
    request: Request, target: Target, repair: RepairPolicy = "error"
) -> list[str] | EncodeError:
    """Return a target's violations in a request, or the error with its path."""
    asked = structs.replace(request, model=target.model)
    try:
        made = encode_request(
            asked, target.dialect, server=target.server, repair=repair, arguments="raw"
        )
    except EncodeError as exc:
        return exc
    return violations_of(made, target)
