"""What OpenAI's models refuse in requests of Chat Completions, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.rules.chat import TOOLS, Case, said

CUSTOM = [{"type": "custom", "custom": {"name": "f"}}]
SAMPLING: dict[str, Any] = {
    "frequency_penalty": 0.5,
    "logit_bias": {"1": 1},
    "logprobs": True,
    "presence_penalty": 0.5,
    "top_p": 0.5,
}


def unsupported(value: str, model: str, known: str = "") -> str:
    listed = f" Supported values are: {known}." if known else ""
    return f"Unsupported value: '{value}' is not supported with the '{model}' model.{listed}"


def effort(
    rule: str, model: str, value: str, known: str, legal: str, free: str, server: str | None = None
) -> Case:
    """Return the case of an effort that a model does not have."""
    return Case(
        f"openai_chat.{rule}",
        {"reasoning_effort": value},
        "reasoning_effort",
        unsupported(value, model, known),
        {"reasoning_effort": legal},
        server,
        model,
        free,
    )


def no_parameter(rule: str, model: str, field: str, value: object, free: str, **more: Any) -> Case:
    """Return the case of a field that a model does not have."""
    return Case(
        f"openai_chat.{rule}",
        {field: value, **more},
        field,
        f"Unsupported parameter: '{field}' is not supported with this model.",
        {field: None},
        model=model,
        free=free,
    )


def temperature(rule: str, model: str, free: str, **effort: str) -> Case:
    return Case(
        f"openai_chat.{rule}",
        {"temperature": 0.16, **effort},
        "temperature",
        "Unsupported value: 'temperature' does not support 0.16 with this model. Only the default"
        " (1) value is supported.",
        {"temperature": 1},
        model=model,
        free=free,
    )


CASES = [
    # Efforts
    Case(
        "openai_chat.reasoning_effort",
        {"reasoning_effort": "ultra"},
        "reasoning_effort",
        "Invalid value: 'ultra'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high',"
        " 'xhigh', and 'max'.",
        {"reasoning_effort": "low"},
        model="gpt-5",
        free="/gpt-4.1",
    ),
    *(
        Case(
            "openai_chat.no_reasoning",
            {"reasoning_effort": "none"},
            "reasoning_effort",
            "Unrecognized request argument supplied: reasoning_effort",
            {"reasoning_effort": None},
            server,
            model,
            free=f"{server or ''}/gpt-5.1",
        )
        for server, model in [(None, "gpt-4.1"), ("azure", "gpt-4o"), ("copilot", "gpt-4.1")]
    ),
    effort(
        "efforts_of_gpt_5",
        "gpt-5",
        "none",
        "'minimal', 'low', 'medium', and 'high'",
        "minimal",
        "/gpt-5.1",
    ),
    effort("efforts_of_gpt_5_pro", "gpt-5-pro", "medium", "'high'", "high", "/gpt-5"),
    effort(
        "efforts_of_codex",
        "gpt-5.1-codex",
        "none",
        "'low', 'medium', and 'high'",
        "low",
        "/gpt-5.1",
    ),
    effort(
        "efforts_of_gpt_5_1",
        "gpt-5.1",
        "minimal",
        "'none', 'low', 'medium', and 'high'",
        "low",
        "/gpt-5",
    ),
    effort("minimal_effort", "gpt-5.2", "minimal", "", "xhigh", "/gpt-5"),
    effort("minimal_effort", "gpt-5.6-sol", "minimal", "", "none", "/gpt-5", "azure"),
    effort(
        "efforts_of_gpt_5_5",
        "gpt-5.5",
        "max",
        "'none', 'low', 'medium', 'high', and 'xhigh'",
        "xhigh",
        "/gpt-5.6-sol",
    ),
    effort("efforts_of_chat_models", "gpt-5.2-chat", "low", "'medium'", "medium", "/gpt-5.2"),
    effort(
        "efforts_of_pro",
        "gpt-5.4-pro",
        "low",
        "'medium', 'high', and 'xhigh'",
        "xhigh",
        "/gpt-5.4",
    ),
    effort(
        "efforts_of_o_series",
        "o4-mini",
        "minimal",
        "'low', 'medium', and 'high'",
        "low",
        "/gpt-5",
    ),
    effort("always_reason", "gpt-5.1-codex-max", "none", "", "xhigh", "/gpt-5.1"),
    # Functions beside reasoning
    Case(
        "openai_chat.effort_of_functions",
        {"reasoning_effort": "high", "tools": TOOLS},
        "reasoning_effort",
        "Function tools with reasoning_effort are not supported for gpt-5.4 in"
        " /v1/chat/completions. Please use /v1/responses instead.",
        {"reasoning_effort": None},
        model="gpt-5.4",
        free="/gpt-5.2",
    ),
    *(
        Case(
            "openai_chat.functions_need_no_effort",
            {"tools": TOOLS, **said},
            "reasoning_effort",
            "Function tools with reasoning_effort are not supported for gpt-5.6-sol in"
            " /v1/chat/completions. To use function tools, use /v1/responses or set"
            " reasoning_effort to 'none'.",
            {"reasoning_effort": "none"},
            model="gpt-5.6-sol",
            free="/gpt-5.4",
        )
        for said in ({}, {"reasoning_effort": "low"})
    ),
    Case(
        "openai_chat.functions_need_no_effort",
        {"tools": TOOLS},
        "reasoning_effort",
        "Function tools with reasoning_effort are not supported for gpt-5.5 in"
        " /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to"
        " 'none'.",
        {"tools": CUSTOM},
        model="gpt-5.5",
        free="openrouter",
    ),
    # Sampling
    temperature("temperature", "gpt-5-mini", "/gpt-4.1"),
    temperature("temperature", "o3", "/gpt-5.1"),
    temperature("temperature_beside_effort", "gpt-5.1", "/gpt-4.1", reasoning_effort="low"),
    temperature("temperature_without_none", "gpt-5.5", "/gpt-5.4"),
    *(
        no_parameter("sampling", model, name, value, "/gpt-4.1")
        for model in ("gpt-5", "o3-mini")
        for name, value in SAMPLING.items()
    ),
    no_parameter(
        "sampling_beside_effort", "gpt-5.2", "top_p", 0.5, "/gpt-4.1", reasoning_effort="low"
    ),
    no_parameter("sampling_without_none", "gpt-5.6-sol", "top_p", 0.5, "/gpt-5.4"),
    Case(
        "openai_chat.sampling",
        {"logit_bias": {"1": 5}},
        "logit_bias",
        "Unsupported parameter: 'logit_bias' is not supported with this model.",
        {"logit_bias": None},
        "azure",
        "gpt-5",
        free="azure/gpt-4.1",
    ),
    *(
        no_parameter("no_stop", model, "stop", ["a"], "/gpt-4.1")
        for model in ("o3", "o4-mini", "gpt-5", "gpt-5.2")
    ),
    # Others
    *(
        Case(
            "openai_chat.max_completion_tokens",
            {"max_completion_tokens": 10},
            "max_completion_tokens",
            "Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 16,"
            " but got 10 instead.",
            {"max_completion_tokens": 16},
            server,
            "gpt-5",
            free=f"{server or ''}/gpt-4.1",
        )
        for server in (None, "azure", "copilot")
    ),
    *(
        Case(
            "openai_chat.max_tokens",
            {"max_tokens": 100},
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use"
            " 'max_completion_tokens' instead.",
            {"max_tokens": None, "max_completion_tokens": 100},
            server,
            "gpt-5.1",
            free=f"{server or ''}/gpt-4.1",
        )
        for server in (None, "azure", "copilot")
    ),
    *(
        Case(
            f"openai_chat.{rule}",
            {field: most + 1},
            field,
            f"max_tokens is too large: {most + 1}. This model supports at most {most} completion"
            f" tokens, whereas you provided {most + 1}.",
            {field: most},
            server,
            model,
            free=f"{server or ''}/gpt-4.1",
        )
        for rule, model, most in (
            ("tokens_4o", "gpt-4o-mini", 16_384),
            ("tokens_turbo", "gpt-4o-2024-05-13", 4096),
            ("tokens_turbo", "gpt-4-turbo", 4096),
        )
        for server in (None, "azure")
        for field in ("max_tokens", "max_completion_tokens")
    ),
    *(
        Case(
            "openai_chat.verbosity_of_model",
            {"verbosity": value},
            "verbosity",
            f"Unsupported value: 'verbosity' does not support '{value}' with this model. Supported"
            " values are: 'medium'.",
            {"verbosity": "medium"},
            server,
            model,
            free=f"{server or ''}/gpt-5.1",
        )
        for server, model, value in (
            (None, "gpt-4o", "low"),
            ("azure", "gpt-4.1-mini", "high"),
            (None, "o4-mini", "low"),
        )
    ),
    no_parameter("parallel_calls", "o3-mini", "parallel_tool_calls", False, "/o3", tools=TOOLS),
    Case(
        "openai_chat.breakpoints",
        said({"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}),
        "messages[0].content[0].prompt_cache_breakpoint",
        "Unsupported parameter: 'messages[0].content[0].prompt_cache_breakpoint' is not supported"
        " with this model.",
        said({"type": "text", "text": "a"}),
        model="gpt-5.5",
        free="/gpt-5.6-sol",
    ),
    *(
        Case(
            "copilot.models",
            {},
            "model",
            f"model {model} is not accessible via the /chat/completions endpoint",
            {"model": "gpt-5-mini"},
            "copilot",
            model,
            free="copilot/gpt-5-mini",
        )
        for model in ("gpt-5.3-codex", "gpt-5.4", "gpt-5.6-luna")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_as_the_vendor_refuses_it(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("server", ["azure", "copilot"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused_request_of_a_client_reaches_a_cloud_legal_or_not_at_all(
    case: Case, server: str
) -> None:
    case.check_repair(server)
