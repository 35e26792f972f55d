"""How much Gemini 2.5 reasons: one budget, within the bounds of the model.

https://ai.google.dev/gemini-api/docs/thinking (read 2026-11-23): 2.5 Pro takes budgets of 128 to
32768 tokens and always thinks, 2.5 Flash of 0 to 24576, 2.5 Flash Lite 0 or 512 to 24576; -1 is
the model's own choice.  `thinkingLevel` is of Gemini 3.  The thoughts count in `maxOutputTokens`.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import translate_request

PRO, FLASH, LITE = "gemini-2.5-pro", "gemini-2.5-flash", "models/gemini-2.5-flash-lite-preview"
ADAPTIVE = {"type": "adaptive"}
OFF = {"type": "disabled"}


def translate(fields: dict[str, Any], client: str, model: str) -> tuple[Any, dict[str, str]]:
    """Return the `thinkingConfig` that a request has for a model, and what is lost."""
    body = {"model": model, "messages": [{"role": "user", "content": "q"}], **fields}
    encoded = translate_request(body, to="gemini", dialect=client)
    lost = {loss.feature: loss.detail for loss in encoded.losses}
    return encoded.body.get("generationConfig", {}).get("thinkingConfig"), lost


def thinking(budget: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": budget}


@pytest.mark.parametrize(
    ("model", "asked", "written"),
    [
        (PRO, 100_000, 32_768),
        (PRO, 40_000, 32_768),
        (PRO, 32_768, 32_768),
        (PRO, 1024, 1024),
        (FLASH, 31_999, 24_576),
        (FLASH, 24_576, 24_576),
        (LITE, 31_999, 24_576),
        (LITE, 1024, 1024),
    ],
)
def test_budget_is_within_the_bounds_of_the_model(model: str, asked: int, written: int) -> None:
    fields = {"max_tokens": 60_000, "thinking": thinking(asked)}
    config, lost = translate(fields, "anthropic", model)
    assert config == {"thinkingBudget": written}
    changed = {"budget_changed": f"written as {written}"}
    assert lost == ({} if written == asked else changed)


@pytest.mark.parametrize(
    ("model", "effort", "budget"),
    [
        (PRO, "minimal", 1024),
        (PRO, "high", 16_384),
        (PRO, "xhigh", 32_768),
        (PRO, "max", 32_768),
        (FLASH, "low", 2048),
        (FLASH, "xhigh", 24_576),
        (LITE, "max", 24_576),
        (FLASH, "none", 0),
        (LITE, "none", 0),
        (PRO, "none", 128),
    ],
)
def test_effort_is_a_budget_of_the_model(model: str, effort: str, budget: int) -> None:
    config, lost = translate({"reasoning_effort": effort}, "openai_chat", model)
    assert config == {"thinkingBudget": budget}
    assert ("effort_changed" in lost) is (effort == "max" or budget == 128)


@pytest.mark.parametrize(
    ("model", "max_tokens", "budget"),
    [
        (FLASH, 20_000, 15_000),
        (FLASH, 4096, 3072),
        (FLASH, 2000, 1000),
        (PRO, 1000, 500),
        (PRO, 200, 128),
        (FLASH, 200, 100),
        (LITE, 1000, 0),
    ],
)
def test_budget_of_an_effort_leaves_room_for_the_answer(
    model: str, max_tokens: int, budget: int
) -> None:
    fields = {"reasoning_effort": "high", "max_completion_tokens": max_tokens}
    config, lost = translate(fields, "openai_chat", model)
    assert config == {"thinkingBudget": budget}
    # An effort stands for no exact number.
    assert set(lost) == ({"reasoning"} if budget == 0 else set())


@pytest.mark.parametrize(
    ("model", "asked", "written"), [(FLASH, 1999, 1999), (FLASH, 2000, 1000), (PRO, 5000, 1000)]
)
def test_budget_of_a_request_leaves_room_for_the_answer(
    model: str, asked: int, written: int
) -> None:
    """A budget below the limit of tokens is legal at Anthropic, too."""
    fields = {"max_tokens": 2000, "thinking": thinking(asked)}
    config, _ = translate(fields, "anthropic", model)
    assert config == {"thinkingBudget": written}


@pytest.mark.parametrize("model", [PRO, FLASH, LITE])
@pytest.mark.parametrize(
    ("asked", "budget"),
    [(thinking(10_000), 10_000), (ADAPTIVE, 2048), (None, 2048)],
    ids=["budget", "adaptive", "effort alone"],
)
def test_a_level_is_never_written(model: str, asked: Any, budget: int) -> None:
    fields = {"max_tokens": 32_000, "output_config": {"effort": "low"}}
    if asked is not None:
        fields["thinking"] = asked
    config, _ = translate(fields, "anthropic", model)
    assert config == {"thinkingBudget": budget}


def test_effort_beside_a_budget_is_a_loss() -> None:
    fields = {"max_tokens": 32_000, "output_config": {"effort": "low"}, "thinking": thinking(2048)}
    assert translate(fields, "anthropic", FLASH)[1] == {"effort_changed": "written as the default"}


@pytest.mark.parametrize("model", [PRO, FLASH, LITE])
def test_model_chooses_where_the_client_lets_it(model: str) -> None:
    fields = {"max_tokens": 32_000, "thinking": ADAPTIVE}
    assert translate(fields, "anthropic", model) == ({"thinkingBudget": -1}, {})


def test_reasoning_of_pro_cannot_be_switched_off() -> None:
    fields = {"max_tokens": 32_000, "thinking": OFF}
    assert translate(fields, "anthropic", FLASH) == ({"thinkingBudget": 0}, {})
    lost = {"effort_changed": "reasoning cannot be switched off"}
    assert translate(fields, "anthropic", PRO) == ({"thinkingBudget": 128}, lost)


def test_budget_stays_after_calls_of_another_vendor() -> None:
    """Anthropic alone refuses one there."""
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    fields = {"max_tokens": 32_000, "thinking": thinking(2048), "messages": turns}
    config, _ = translate(fields, "anthropic", FLASH)
    assert config == {"thinkingBudget": 2048}
