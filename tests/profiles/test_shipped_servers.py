"""What servers refuse, rename or need, row by row: what they have a place for."""

from __future__ import annotations

from typing import Any

import pytest
from support.rules.profile_rows import Row

from streamnorm.profiles import shipped_profiles

CHAT, MESSAGES, RESPONSES = "openai_chat", "anthropic", "openai_responses"
NO_SAMPLING = [
    *("temperature", "top_p", "frequency_penalty", "presence_penalty"),
    *("logit_bias", "logprobs", "top_logprobs"),
]
NO_FILES = {"documents": False, "document_urls": False}
# Compatible servers do not know the tools with free text of OpenAI.
WRAPS = {"custom_tools": False, "marks": frozenset()}
UNFORCED = frozenset({"auto", "none"})
HOSTS = ("nim", "scaleway")
FIRST_ALONE = {"single_system": True, "inline_system": "text"}
ALTERNATES = {**FIRST_ALONE, "strict_alternation": True}


def chat(server: str, model: str = "m", has: dict[str, Any] | None = None, **lacks: str) -> Row:
    missing = {name: words.split() for name, words in lacks.items()}
    return Row(CHAT, server, model, has or {}, missing)


ROWS = [
    # Vertex (A): no top-level cache_control, no inline system
    Row(MESSAGES, "vertex", "claude-opus-5", {"inline_system": "text"}),
    Row(MESSAGES, "vertex", "m", {}, {"fields": ["cache"]}),
    # Bedrock (A): no inline system
    Row(MESSAGES, "bedrock", "anthropic.claude-opus-5-v1:0", {"inline_system": "text"}),
    # Copilot: ids of at most 40; codex models only at /responses; A: prefill as the vendor
    chat("copilot", "gpt-4.1", {"max_id_chars": 40, "available": True}),
    chat("githubcopilot", "gpt-4.1", {"max_id_chars": 40}),
    chat("copilot", "gpt-5.1-codex", {"available": False}),
    chat("copilot", "gpt-5.4-mini", {"available": False}, efforts="minimal max"),
    Row(RESPONSES, "copilot", "gpt-5.1-codex", {"available": True, "new_item_ids": False}),
    Row(RESPONSES, "githubcopilot", "gpt-5.1-codex", {"reasoning_id_pattern": None}),
    # ChatGPT: no system messages, store false, stream true, no bound of tokens
    Row(
        RESPONSES,
        "chatgpt",
        "gpt-5.1-codex",
        {"added_fields": {"store": False, "stream": True}},
        {"roles": ["system"], "fields": ["cache", "max_tokens", *NO_SAMPLING]},
    ),
    # Azure: known fields alone, and output text with annotations
    Row(RESPONSES, "azure", "gpt-4.1", {"complete_answers": True}),
    Row(MESSAGES, "copilot", "claude-opus-4.5", {"prefill": True}),
    Row(MESSAGES, "copilot", "claude-opus-4.6", {"prefill": False}),
    # Azure OpenAI: no `file` parts; reasoning models refuse temperature and logit_bias
    chat("azure", "gpt-4o", {**NO_FILES, "custom_tools": True}, fields="reasoning cache verbosity"),
    chat(
        "azure",
        "gpt-4o",
        {"null_content": False, "max_tools": 128},
        fields="reasoning cache verbosity",
    ),
    chat("azure", "DeepSeek-V3.2", {**NO_FILES, **WRAPS}, roles="developer"),
    chat(
        "azure",
        "o3-mini",
        {"renamed_fields": {"max_tokens": "max_completion_tokens"}},
        fields="temperature top_p frequency_penalty presence_penalty logit_bias logprobs"
        " top_logprobs parallel_tool_calls stop cache verbosity",
    ),
    # Foundry: no inline system
    Row(MESSAGES, "azure", "claude-opus-5", {"inline_system": "text"}),
    # DeepSeek C
    chat(
        "deepseek",
        "deepseek-v4-pro",
        {
            **WRAPS,
            "reasoning_choices": UNFORCED,
            "reasons_by_default": True,
            "reasoning_text": True,
            "reasoning_required": True,
            "efforts": ("none", "low", "high", "max"),
            "prefill": False,
        },
        roles="developer",
        output_kinds="json_schema",
        fields="seed",
    ),
    chat("deepseek", "deepseek-chat", {"reasons_by_default": False}),
    chat("deepseek", "deepseek-r1", {"reasoning_text": False, "reasoning_required": False}),
    chat("deepseek-beta", "deepseek-v4", {"prefill": True}, roles="developer"),
    # DeepSeek R: calls must stay adjacent
    Row(RESPONSES, "deepseek", "deepseek-v4", {"adjacent_calls": True, "reasons_by_default": True}),
    # DeepSeek A
    Row(
        MESSAGES,
        "deepseek",
        "deepseek-v4-pro",
        {
            "allowed_betas": frozenset(),
            "mcp_servers": None,
            "images": frozenset(),
            "image_urls": False,
            **NO_FILES,
            "text_documents": False,
            "marks": frozenset(),
            "max_temperature": 2.0,
            "reasoning_issuer": "deepseek",
            "inline_system": "text",
        },
        {"fields": ["cache", "parallel_tool_calls", "service_tier", "top_k"]},
    ),
    # Qwen DashScope C: choice only auto or none while thinking; no files; omni: audio as data URI
    chat("qwen", "qwen3-max", {**WRAPS, **NO_FILES, "reasoning_choices": UNFORCED, "audio": True}),
    chat("qwen", "qwen3-max", {"audio_data_urls": False, "added_fields": {}}),
    chat("qwen", "qwen3-omni-flash", {"audio_data_urls": True}),
    chat("qwen", "qwq-plus", {"added_fields": {"stream": True}}),
    Row(MESSAGES, "qwen", "qwen3-max", {"inline_system": "text"}),
    chat("qwen", "qwen3-max", roles="developer"),
    # At least 16 tokens; a key of at most 64 characters; no JSON without a schema
    chat("perplexity", "sonar-pro", {**WRAPS, "min_answer_tokens": 16}),
    chat("sakana", "m", {**WRAPS, "min_answer_tokens": 16}),
    chat("bedrock", "xai.grok-4", {"min_answer_tokens": 16}),
    chat("bedrock", "openai.gpt-oss-120b", {"min_answer_tokens": None}),
    chat("meta", "m", {"max_cache_key_chars": 64}),
    Row(RESPONSES, "meta", "m", {"max_cache_key_chars": 64}),
    chat("anthropic", "claude-opus-5", WRAPS, output_kinds="json_object"),
    # Kimi
    *(
        chat(
            server,
            "kimi-k2.6",
            {
                **WRAPS,
                **NO_FILES,
                "audio": False,
                "reasoning_text": True,
                "reasoning_required": "calls",
                "reasoning_choices": UNFORCED,
                "schema": "simple",
                "id_pattern": None,
                "max_id_chars": None,
            },
            choices_of_tool="required",
        )
        for server in ("kimi", "moonshot")
    ),
    chat(
        "kimi",
        "kimi-k3",
        {"efforts": ("low", "high", "max"), "replaced_values": {}, "reasons_by_default": True},
        choices_of_tool="required",
    ),
    Row(MESSAGES, "kimi", "kimi-k3", {"reasoning_issuer": "kimi"}),
    # GLM / Z.ai: no developer; 5.3: low, high, max, never off; reasoning back
    chat("zai", "glm-5.2", {**WRAPS, "reasoning_text": True}, roles="developer", efforts=""),
    chat(
        "glm",
        "glm-5.3",
        {
            "efforts": ("low", "high", "max"),
            "reasoning_off": False,
            "reasons_by_default": True,
            "user_message": True,
        },
        roles="developer",
    ),
    # MiniMax: one system message, the first; A: no system role; temperature in (0, 1]; drops
    chat(
        "minimax",
        "MiniMax-M3",
        {**WRAPS, **FIRST_ALONE, "max_temperature": 1.0},
        fields="top_k stop service_tier",
    ),
    Row(
        MESSAGES,
        "minimax",
        "MiniMax-M3",
        {"inline_system": "text", "max_temperature": 1.0, "min_temperature": 0.01},
        {"fields": ["top_k", "stop", "service_tier"]},
    ),
    # Mistral
    chat(
        "mistral",
        "mistral-large-4",
        {
            **WRAPS,
            "id_pattern": "[A-Za-z0-9]{9}",
            "restricted_choice": False,
            "weak_choice": "required",
            "results_then_assistant": True,
            "reasoning_form": "part",
            "reasoning_text": True,
            "prefill": True,
        },
        choices_of_tool="named",
        roles="developer",
    ),
    # xAI: penalties refused, stop on reasoning models; effort
    chat("xai", "grok-3-mini", WRAPS, fields="frequency_penalty presence_penalty stop"),
    chat(
        "xai",
        "grok-4.3",
        {"efforts": ("none", "low", "medium", "high")},
        fields="frequency_penalty presence_penalty stop",
    ),
    chat("xai", "x-ai/grok-4.5", {"efforts": ("low", "medium", "high")}),
    chat("xai", "grok-2", {"json_arguments": True}, fields="reasoning"),
    chat("xai", "grok-4", {}, fields="frequency_penalty presence_penalty stop reasoning"),
    Row(
        RESPONSES,
        "xai",
        "grok-4.5",
        {
            "efforts": ("low", "medium", "high"),
            "reasoning_issuer": "xai",
            "reasoning_answered": False,
            "min_answer_tokens": None,
        },
    ),
    # Groq: JSON + tools refused; efforts; no file, audio
    chat("groq", "llama-4", {**WRAPS, **NO_FILES, "audio": False, "output_with_tools": False}),
    chat("groq", "qwen/qwen3-32b", {"efforts": ("none", "medium")}),
    chat("groq", "openai/gpt-oss-120b", {"efforts": ("low", "medium", "high")}),
    # Cerebras
    chat(
        "cerebras",
        "llama-4",
        WRAPS,
        fields="frequency_penalty presence_penalty logit_bias parallel_tool_calls service_tier",
    ),
    chat("cerebras", "zai-glm-4.7", {"reasoning_form": "tags", "reasoning_text": True}),
    chat("cerebras", "gpt-oss-120b", {"efforts": ("low", "medium", "high")}),
    # OpenRouter
    chat(
        "openrouter",
        "meta/llama-4",
        {
            **WRAPS,
            "document_urls": True,
            "reasoning_form": "details",
            "reasoning_text": True,
            "inline_system": "text",
        },
    ),
    *(
        chat("openrouter", model, {"marks": frozenset({"system", "text", "image"})})
        for model in ("anthropic/claude-opus-4.5", "google/gemini-3-pro")
    ),
    *(
        chat("openrouter", model, {"reasoning_issuer": issuer, "reasoning_form": "details"})
        for issuer, models in (
            ("openai", ("openai/gpt-5", "openai/gpt-5.2", "openai/o4-mini", "openai/codex-mini")),
            ("xai", ("x-ai/grok-4-fast:free", "x-ai/grok-4.1-fast", "x-ai/grok-code-fast-1")),
            ("vendor", ("openai/gpt-oss-120b", "openai/gpt-4.1", "x-ai/grok-3-mini")),
        )
        for model in models
    ),
    # LiteLLM
    *(
        chat("litellm", model, {"reasoning_issuer": issuer, "reasoning_form": "blocks"})
        for issuer, models in (
            ("anthropic", ("claude-opus-4-6", "anthropic/claude-opus-4-6", "an-alias")),
            ("openai", ("gpt-5.2", "openai/o4-mini", "codex-mini")),
            ("google", ("gemini/gemini-3-pro-preview", "gemini-3-pro")),
        )
        for model in models
    ),
    chat(
        "litellm",
        "claude-opus-4-6",
        {"reasoning_text": False, "custom_tools": False},
        fields="cache_key choices frequency_penalty logit_bias logprobs presence_penalty "
        "safety_identifier seed store top_logprobs verbosity",
    ),
    chat(
        "litellm",
        "an-alias",
        {"reasoning_text": True, "custom_tools": False, "restricted_choice": False},
        fields="cache_key safety_identifier store verbosity",
    ),
    chat("litellm", "openai/gpt-4.1", {}, fields="cache reasoning store verbosity"),
    chat("litellm", "gemini-3-pro", {"signed": frozenset({"tool_call"})}),
    # vLLM; SGLang as vLLM: Qwen no developer, system first; Mistral, Gemma alternate
    *(
        row
        for server in ("vllm", "sglang")
        for row in (
            chat(server, "Qwen/Qwen3-32B", {**WRAPS, "inline_system": "text"}, roles="developer"),
            chat(server, "mistralai/Mistral-Small-4", {**WRAPS, **ALTERNATES}, roles="developer"),
            chat(server, "google/gemma-4", {**WRAPS, **ALTERNATES}, roles="developer"),
            chat(
                server,
                "meta/llama-4",
                {**WRAPS, "strict_alternation": False, "inline_system": "message"},
                roles="developer",
            ),
        )
    ),
    # llama.cpp: alternation (Devstral)
    *(
        chat(server, "devstral-small", {**WRAPS, **ALTERNATES}, roles="developer")
        for server in ("llamacpp", "llama.cpp")
    ),
    chat("llamacpp", "llama-4", {**WRAPS, "strict_alternation": False}, roles="developer"),
    # Any other server of open models: roles and tools that all of them know
    chat("compatible", "llama-4", WRAPS, roles="developer"),
    # Ollama: choice not enforced, no strict, `reasoning`, parallel flag; R stateless
    chat(
        "ollama",
        "llama-4",
        {**WRAPS, "strict_tools": False, "reasoning_text": True},
        roles="developer",
        choices_of_tool="required named",
        fields="parallel_tool_calls",
    ),
    Row(
        RESPONSES,
        "ollama",
        "llama-4",
        {"custom_tools": False, "strict_tools": False, "reasoning_answered": False},
        {"fields": ["parallel_tool_calls", "state", "store"]},
    ),
    # vLLM R: messages of the assistant are complete, or text
    *(
        Row(
            RESPONSES,
            server,
            "qwen3-32b",
            {"custom_tools": False, "complete_answers": True, "max_cache_key_chars": None},
        )
        for server in ("vllm", "sglang")
    ),
    # LM Studio: choices are words; json_schema or text
    chat(
        "lmstudio",
        "llama-4",
        {**WRAPS, "weak_choice": "required", "restricted_choice": False},
        roles="developer",
        choices_of_tool="named",
        output_kinds="",
    ),
    # Mistral's models elsewhere
    *(chat(server, "mistral-large-3", {"results_then_assistant": True}) for server in HOSTS),
    *(chat(server, "llama-4", {**WRAPS, "results_then_assistant": False}) for server in HOSTS),
    # vLLM before 0.21 (A): no system role
    Row(MESSAGES, "vllm", "qwen3-32b", {"inline_system": "text", "reasoning_issuer": None}),
    # Gemini OpenAI: signatures in extra_content
    *(
        chat(
            server,
            "gemini-3-pro",
            {
                **WRAPS,
                "reasoning_form": "extra_content",
                "reasoning_issuer": "google",
                "signed": {"tool_call"},
                "signature_placeholder": "skip_thought_signature_validator",
            },
        )
        for server in ("gemini", "google")
    ),
    chat("gemini", "gemini-2.5-pro", {"signature_placeholder": None}),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_server_has_what_its_row_says(row: Row) -> None:
    row.check()


def test_every_server_that_is_known_has_a_row() -> None:
    assert {row.server for row in ROWS} == shipped_profiles().servers


@pytest.mark.parametrize("server", ["together", "fireworks", None])
def test_servers_without_a_verified_rule_are_as_the_vendor(server: str | None) -> None:
    Row(CHAT, server, "llama-4", {"custom_tools": True}, {"roles": [], "fields": []}).check()
