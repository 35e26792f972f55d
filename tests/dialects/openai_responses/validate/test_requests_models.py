"""What OpenAI's models refuse in requests of Responses, rule by rule."""

from __future__ import annotations

import pytest
from support.openai_responses.rules import Case

TEMPERATURE = "Unsupported parameter: 'temperature' is not supported with this model."


def effort(rule: str, model: str, value: str, known: str, legal: str, free: str) -> list[Case]:
    """Return the cases of an effort that a model does not have, at OpenAI and at Azure."""
    listed = f" Supported values are: {known}." if known else ""
    return [
        Case(
            f"openai_responses.{rule}",
            {"reasoning": {"effort": value}},
            "reasoning.effort",
            f"Unsupported value: '{value}' is not supported with the '{model}' model.{listed}",
            {"reasoning": {"effort": legal}},
            server,
            model,
            f"{server or ''}/{free}",
            code="unsupported_value",
        )
        for server in (None, "azure")
    ]


def sampling(rule: str, model: str, free: str, effort: str, legal: str) -> Case:
    """Return the case of a temperature that a model does not have at an effort."""
    return Case(
        f"openai_responses.{rule}",
        {"temperature": 0.5, "reasoning": {"effort": effort}},
        "temperature",
        TEMPERATURE,
        {"reasoning": {"effort": legal}} if legal else {"temperature": None},
        model=model,
        free=f"/{free}",
        code="unsupported_parameter",
    )


CASES = [
    # Numbers
    *(
        Case(
            "openai_responses.max_output_tokens",
            {"max_output_tokens": 10},
            "max_output_tokens",
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but"
            " got 10 instead.",
            {"max_output_tokens": 16},
            server,
            code="integer_below_min_value",
        )
        for server in (None, "azure")
    ),
    *(
        Case(
            "openai_responses.prompt_cache_key",
            {"prompt_cache_key": "k" * 72},
            "prompt_cache_key",
            "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length"
            " 64, but got a string with length 72 instead.",
            {"prompt_cache_key": "k" * 64},
            server,
            code="string_above_max_length",
        )
        for server in (None, "azure", "meta")
    ),
    # Efforts
    Case(
        "openai_responses.efforts",
        {"reasoning": {"effort": "ultra"}},
        "reasoning.effort",
        "Invalid value: 'ultra'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high',"
        " 'xhigh', and 'max'.",
        {"reasoning": {"effort": "max"}},
        model="gpt-5.6-sol",
    ),
    *(
        Case(
            "openai_responses.no_reasoning",
            {"reasoning": {"effort": "low"}},
            "reasoning.effort",
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            {"reasoning": None},
            server,
            model,
            free=f"{server or ''}/gpt-5.1",
            code="unsupported_parameter",
        )
        for server in (None, "azure")
        for model in ("gpt-4.1", "gpt-5-chat-latest")
    ),
    *effort(
        "efforts_of_gpt_5",
        "gpt-5-mini",
        "none",
        "'minimal', 'low', 'medium', and 'high'",
        "minimal",
        "gpt-5.1",
    ),
    *effort("efforts_of_gpt_5_pro", "gpt-5-pro", "medium", "'high'", "high", "gpt-5"),
    *effort(
        "efforts_of_codex",
        "gpt-5.1-codex",
        "none",
        "'low', 'medium', and 'high'",
        "low",
        "gpt-5.1-codex-max",
    ),
    *effort(
        "efforts_of_gpt_5_1",
        "gpt-5.1",
        "minimal",
        "'none', 'low', 'medium', and 'high'",
        "none",
        "gpt-5",
    ),
    *effort("minimal_effort", "gpt-5.2", "minimal", "", "xhigh", "gpt-5"),
    *effort("minimal_effort", "gpt-5.1-codex-max", "minimal", "", "xhigh", "gpt-5"),
    *effort("minimal_effort", "gpt-5.6-sol", "minimal", "", "max", "gpt-5.5"),
    *effort(
        "efforts_of_gpt_5_5",
        "gpt-5.5",
        "max",
        "'none', 'low', 'medium', 'high', and 'xhigh'",
        "xhigh",
        "gpt-5.6-sol",
    ),
    *effort(
        "efforts_of_chat_models", "gpt-5.2-chat-latest", "low", "'medium'", "medium", "gpt-5.2"
    ),
    *effort(
        "efforts_of_pro", "gpt-5.5-pro", "low", "'medium', 'high', and 'xhigh'", "high", "gpt-5.5"
    ),
    *effort("efforts_of_o_series", "o3", "max", "'low', 'medium', and 'high'", "high", "gpt-5.6"),
    *effort("always_reason", "gpt-5-codex", "none", "", "low", "gpt-5.1"),
    Case(
        "openai_responses.search_effort",
        {"tools": [{"type": "web_search"}], "reasoning": {"effort": "minimal"}},
        "tools[0].type",
        "The following tools cannot be used with reasoning.effort 'minimal': web_search.",
        {"tools": [{"type": "web_search"}], "reasoning": {"effort": "low"}},
        model="gpt-5-mini",
        free="/gpt-4.1",
        code=None,
    ),
    *(
        Case(
            "openai_responses.verbosity_of_model",
            {"text": {"verbosity": value}},
            "text.verbosity",
            f"Unsupported value: 'verbosity' does not support '{value}' with this model. Supported"
            " values are: 'medium'.",
            {"text": {"verbosity": "medium"}},
            server,
            model,
            f"{server or ''}/gpt-5.1",
            code="unsupported_value",
        )
        for server, model, value in ((None, "gpt-4o", "low"), ("azure", "o3", "high"))
    ),
    # Sampling
    sampling("sampling", "o3", "gpt-5.1", "low", ""),
    sampling("sampling", "gpt-5", "gpt-4.1", "low", ""),
    sampling("sampling_beside_effort", "gpt-5.1", "gpt-4.1", "low", "none"),
    sampling("sampling_unless_off", "gpt-5.6-sol", "gpt-5.1", "high", "none"),
    Case(
        "openai_responses.sampling_unless_off",
        {"top_p": 0.5},
        "top_p",
        "Unsupported parameter: 'top_p' is not supported with this model.",
        {"top_p": 1},
        "azure",
        "gpt-5.5",
        "azure/gpt-5.1",
        code="unsupported_parameter",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_as_the_vendor_refuses_it(case: Case) -> None:
    case.check()
