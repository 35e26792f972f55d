"""What families of models refuse or need, as their vendors document it, row by row."""

from __future__ import annotations

import pytest
from support.rules.profile_rows import SAMPLING, Row, capabilities_for, fitted_for

from streamnorm import translate_request
from streamnorm.validation import validate_request

ADAPTIVE = ("low", "medium", "high", "xhigh", "max")
LOGS = ["logit_bias", "logprobs", "top_logprobs"]
OPENAI_SAMPLING = ["temperature", "top_p", "frequency_penalty", "presence_penalty", *LOGS]
FORCED = ["required", "named"]


CLAUDE = [
    # thinking.enabled, sampling, forced choice, prefill refused; effort to max; 128k out
    Row(
        "anthropic",
        None,
        "claude-fable-5",
        {"thinking": "adaptive", "thinking_budgets": False, "prefill": False, "efforts": ADAPTIVE},
        {"choices_of_tool": FORCED, "fields": SAMPLING},
    ),
    *(
        Row(
            "anthropic",
            None,
            model,
            {"max_tokens": 128_000, "inline_system": "after_user"},
            {"choices_of_tool": FORCED, "fields": SAMPLING},
        )
        for model in ("claude-fable-5-1", "claude-mythos-5", "claude-mythos-preview")
    ),
    # thinking.enabled, sampling, prefill; disabled + effort above high; thinks by default
    *(
        Row(
            "anthropic",
            None,
            model,
            {
                "thinking": "adaptive",
                "thinking_budgets": False,
                "prefill": False,
                "off_efforts": ("low", "medium", "high"),
                "reasons_by_default": True,
                "inline_system": "after_user",
                "max_tokens": 128_000,
            },
            {"choices_of_tool": [], "fields": SAMPLING},
        )
        for model in ("claude-opus-5", "claude-opus-5-20260301", "anthropic/claude-opus-5")
    ),
    # thinking.enabled, sampling, prefill; system messages in the middle only 4-8
    *(
        Row(
            "anthropic",
            None,
            model,
            {"thinking_budgets": False, "prefill": False, "inline_system": inline},
            {"choices_of_tool": [], "fields": SAMPLING},
        )
        for model, inline in (
            ("claude-opus-4-7", "text"),
            ("claude-opus-4-8", "after_user"),
            ("claude-opus-4.8", "after_user"),
        )
    ),
    # thinking by default; the system role is ignored
    *(
        Row(
            "anthropic",
            None,
            model,
            {
                "thinking_budgets": False,
                "prefill": False,
                "reasons_by_default": True,
                "inline_system": "text",
            },
            {"fields": SAMPLING},
        )
        for model in ("claude-sonnet-5", "claude-sonnet-5-20260201", "claude-sonnet-5@20260201")
    ),
    # prefill; xhigh is max; both kinds of thinking; 128k
    *(
        Row(
            "anthropic",
            "another",
            model,
            {
                "prefill": False,
                "thinking": "adaptive",
                "thinking_budgets": True,
                "efforts": ("low", "medium", "high", "max"),
                "max_tokens": 128_000,
                "inline_system": "text",
                "reasoning_choices": None,
            },
        )
        for model in ("claude-opus-4-6", "claude-sonnet-4-6-20260101", "claude-sonnet-4.6")
    ),
    # no adaptive; effort, 64k
    *(
        Row(
            "anthropic",
            "another",
            model,
            {
                "prefill": True,
                "thinking": "budget",
                "max_tokens": 64_000,
                "efforts": ("low", "medium", "high"),
                "reasoning_choices": frozenset({"auto", "none"}),
                "reasoning_excludes": frozenset(SAMPLING),
                "inline_system": "text",
            },
            {"output_kinds": []},
        )
        for model in ("claude-opus-4-5", "us.anthropic.claude-opus-4-5-20251101-v1:0")
    ),
    # no adaptive, no effort; 64k
    *(
        Row(
            "anthropic",
            "another",
            model,
            {
                "prefill": True,
                "thinking": "budget",
                "max_tokens": 64_000,
                "exclusive_fields": ("temperature", "top_p"),
            },
            {"output_kinds": []},
        )
        for model in ("claude-sonnet-4-5-20250929", "claude-haiku-4-5")
    ),
    # opus-4-1: 32k; 4-0: also no schema
    Row("anthropic", None, "claude-opus-4-1", {"max_tokens": 32_000}, {"output_kinds": []}),
    *(
        Row("anthropic", None, model, {"max_tokens": most}, {"output_kinds": ["json_schema"]})
        for model, most in (
            ("claude-opus-4-20250514", 32_000),
            ("claude-opus-4-0", 32_000),
            ("claude-sonnet-4-20250514", 64_000),
            ("claude-sonnet-4@20250514", 64_000),
        )
    ),
    # 3.5 and before: no thinking, and short answers
    *(
        Row("anthropic", None, model, {"max_tokens": most}, {"output_kinds": ["json_schema"]})
        for model, most in (
            ("claude-3-haiku-20240307", 4096),
            ("claude-3-5-sonnet-20241022", 8192),
            ("claude-3-7-sonnet-20250219", 64_000),
        )
    ),
    Row("anthropic", "another", "claude-3-5-haiku", {}, {"fields": ["reasoning", *SAMPLING]}),
    Row("anthropic", "another", "claude-3-7-sonnet", {"thinking": "budget"}, {"fields": SAMPLING}),
    # others, newer than the list: as the newest family
    *(
        Row(
            "anthropic",
            None,
            model,
            {
                "thinking": "adaptive",
                "thinking_budgets": False,
                "prefill": False,
                "efforts": ADAPTIVE,
                "max_tokens": 128_000,
                "inline_system": "after_user",
            },
            {"fields": SAMPLING},
        )
        for model in ("claude-sonnet-5-5", "claude-haiku-5-5", "claude-opus-5-2", "claude-nova-6")
    ),
    # thinks always
    Row("anthropic", None, "claude-opus-5-5", {"reasoning_off": False}),
    Row("anthropic", None, "claude-opus-5", {"reasoning_off": True}),
]


def openai(model: str, has: dict[str, object], *lacking: str, efforts: str = "") -> Row:
    # Cache breakpoints begin with 5.6.
    cached = model.startswith(("gpt-5.6", "gpt-6", "gpt-oss"))
    lacks = {"fields": [*lacking, *([] if cached else ["cache"])], "efforts": efforts.split()}
    return Row("openai_responses", None, model, has, lacks)


NOT_BY_DEFAULT = {"reasons_by_default": False, "reasoning_excludes": frozenset(OPENAI_SAMPLING)}
BY_DEFAULT = {"reasons_by_default": True, "reasoning_excludes": frozenset(OPENAI_SAMPLING)}
ALWAYS = {"reasons_by_default": True, "renamed_fields": {}}
BELOW_HIGH = "none minimal xhigh max"

OPENAI = [
    # always reason: no `none`, no sampling; max_tokens
    openai("o1", ALWAYS, "verbosity", "parallel_tool_calls", *OPENAI_SAMPLING, efforts=BELOW_HIGH),
    openai(
        "o3-mini", ALWAYS, "verbosity", "parallel_tool_calls", *OPENAI_SAMPLING, efforts=BELOW_HIGH
    ),
    openai("o3", ALWAYS, "verbosity", *OPENAI_SAMPLING, efforts=BELOW_HIGH),
    openai("o4-mini-2025-04-16", ALWAYS, "verbosity", *OPENAI_SAMPLING, efforts=BELOW_HIGH),
    openai("gpt-5", ALWAYS, *OPENAI_SAMPLING, efforts="none xhigh max"),
    openai("openai/gpt-5-mini", ALWAYS, *OPENAI_SAMPLING, efforts="none xhigh max"),
    openai("gpt-5-codex", ALWAYS, *OPENAI_SAMPLING, efforts=BELOW_HIGH),
    openai("gpt-5.1-codex", ALWAYS, *OPENAI_SAMPLING, efforts=BELOW_HIGH),
    openai("gpt-5.1-codex-mini", ALWAYS, *OPENAI_SAMPLING, efforts=BELOW_HIGH),
    openai("gpt-5-pro", ALWAYS, *OPENAI_SAMPLING, efforts="none minimal low medium xhigh max"),
    openai("gpt-5.1-codex-max", ALWAYS, *OPENAI_SAMPLING, efforts="none minimal max"),
    *(
        openai(model, ALWAYS, *OPENAI_SAMPLING, efforts="none minimal low max")
        for model in ("gpt-5.2-pro", "gpt-5.4-pro", "gpt-5.5-pro-2026-01-01")
    ),
    # only effort medium
    *(
        openai(model, ALWAYS, *OPENAI_SAMPLING, efforts="none minimal low high xhigh max")
        for model in ("gpt-5.1-chat-latest", "gpt-5.2-chat", "gpt-5.3-chat-latest")
    ),
    # effort default none; sampling only with none; no minimal, xhigh from 5.2, max from 5.6
    openai("gpt-5.1", NOT_BY_DEFAULT, efforts="minimal xhigh max"),
    *(
        openai(model, NOT_BY_DEFAULT, efforts="minimal max")
        for model in ("gpt-5.2", "gpt-5.3-codex", "gpt-5.4-mini")
    ),
    # reason by default, none allowed
    openai("gpt-5.5", BY_DEFAULT, efforts="minimal max"),
    openai("gpt-5.6-sol", BY_DEFAULT, efforts="minimal"),
    # unverified: as 5.6
    openai("gpt-6-sol", BY_DEFAULT, efforts="minimal"),
    openai("gpt-6-astra", ALWAYS, *OPENAI_SAMPLING, efforts="none minimal"),
    # no reasoning fields
    openai("gpt-5-chat-latest", {"reasons_by_default": False}, "reasoning"),
    openai("gpt-4o", {"reasons_by_default": False}, "reasoning", "verbosity"),
    # of another vendor
    openai("gpt-oss-120b", {"reasons_by_default": False, "reasoning_excludes": frozenset()}),
]

NO_MINIMAL = (
    "gemini-3.1-pro",
    "gemini-3.7-flash",
    "gemini-3.8-flash",
    "gemini-4-argon",
    "gemini-4-carbon",
)

GEMINI = [
    # thinkingBudget; no functionResponse.parts, no tools + schema
    Row(
        "gemini",
        None,
        "gemini-2.5-flash",
        {
            "thinking": "budget",
            "result_media": frozenset(),
            "output_with_tools": False,
            "mixed_tools": False,
            "signature_placeholder": None,
            "reasoning_off": True,
            # no thinkingLevel; budgets of 0 to 24576
            "efforts": (),
            "min_budget": 1,
            "max_budget": 24_576,
        },
    ),
    # 0, or 512 to 24576
    Row("gemini", None, "gemini-2.5-flash-lite", {"min_budget": 512, "max_budget": 24_576}),
    # pro: not 0, but 128 to 32768
    Row(
        "gemini",
        None,
        "models/gemini-2.5-pro",
        {"thinking": "budget", "reasoning_off": False, "min_budget": 128, "max_budget": 32_768},
    ),
    # thinkingLevel; signatures; media in results
    *(
        Row(
            "gemini",
            None,
            model,
            {
                "thinking": "level",
                "signature_placeholder": "skip_thought_signature_validator",
                "result_media": frozenset({"image", "document"}),
                "result_media_types": frozenset(
                    {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
                ),
                "output_with_tools": True,
                "mixed_tools": True,
            },
            {"efforts": [*lacking, "none", "max"]},
        )
        for model, *lacking in (
            ("gemini-3-flash", "xhigh"),
            ("gemini-3.1-flash-lite", "xhigh"),
            ("gemini-3.5-flash", "xhigh"),
            ("gemini-4-pro",),
        )
    ),
    # MINIMAL not on
    *(
        Row("gemini", None, model, {}, {"efforts": ["none", "minimal", "xhigh", "max"]})
        for model in (*NO_MINIMAL, "models/gemini-3.8-flash")
    ),
    Row(
        *("gemini", None, "gemini-3-pro-preview", {}),
        {"efforts": ["none", "minimal", "medium", "xhigh", "max"]},
    ),
    # Interactions has levels alone, for all models; names without a version are those of 3.x
    *(
        Row("gemini_interactions", None, model, {}, {"efforts": ["minimal", "xhigh"]})
        for model in NO_MINIMAL
    ),
    *(
        Row(dialect, None, model, {}, {"efforts": ["minimal", "xhigh"]})
        for dialect in ("gemini", "gemini_interactions")
        for model in ("gemini-flash-latest", "gemini-pro-latest")
    ),
    Row("gemini_interactions", None, "gemini-3.6-flash", {}, {"efforts": ["xhigh"]}),
    Row(
        *("gemini_interactions", None, "gemini-3-pro-preview", {}),
        {"efforts": ["minimal", "medium", "xhigh"]},
    ),
]


@pytest.mark.parametrize("row", [*CLAUDE, *OPENAI, *GEMINI], ids=str)
def test_model_has_what_its_row_says(row: Row) -> None:
    row.check()


@pytest.mark.parametrize("row", OPENAI, ids=str)
def test_models_of_chat_are_those_of_responses(row: Row) -> None:
    """They lack `max`; those that reason have no stop and another name for `max_tokens`."""
    lacks = {name: {*values} for name, values in row.lacks.items()}
    has = dict(row.has)
    is_openai = not row.model.startswith("gpt-oss")
    if is_openai:
        lacks["efforts"].add("max")
        has["max_tools"] = 128
    if is_openai and "reasoning" not in lacks["fields"]:
        has["renamed_fields"] = {"max_tokens": "max_completion_tokens"}
        has["min_answer_tokens"] = 16
        if row.model != "o1":
            lacks["fields"].add("stop")
    row._replace(dialect="openai_chat", has=has, lacks=lacks).check()


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        *((model, ("none",)) for model in ("gpt-5.4", "gpt-5.5", "gpt-5.6-sol", "gpt-6-sol")),
        *((model, None) for model in ("gpt-5", "gpt-5.2", "gpt-5-chat", "gpt-4.1", "o3")),
    ],
)
def test_newer_models_have_tools_without_reasoning_at_chat_alone(
    model: str, efforts: tuple[str, ...] | None
) -> None:
    target = capabilities_for("openai_chat", None, model)
    dialect = None if efforts is None else "openai_responses"
    assert (target.efforts_with_tools, target.tools_dialect) == (efforts, dialect)
    for server, other in [("azure", "openai_chat"), ("openrouter", "openai_chat")]:
        assert capabilities_for(other, server, model).efforts_with_tools is None
    assert capabilities_for("openai_responses", None, model).efforts_with_tools is None


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        *((model, ("low", "medium", "high")) for model in ("gpt-5", "gpt-5-mini-2025-08-07")),
        *((model, None) for model in ("gpt-5-codex", "gpt-5-chat", "gpt-5.2", "o3")),
    ],
)
def test_first_gpt_5_searches_the_web_with_efforts_above_minimal(
    model: str, efforts: tuple[str, ...] | None
) -> None:
    assert capabilities_for("openai_responses", None, model).efforts_with_search == efforts
    assert capabilities_for("openai_chat", None, model).efforts_with_search is None


def test_small_budget_beside_a_search_is_written_as_the_effort_low() -> None:
    body = {
        "model": "gpt-5",
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [{"role": "user", "content": "q"}],
    }
    quick = translate_request(body, dialect="anthropic", to="openai_responses")
    assert quick.body["reasoning"]["effort"] == "minimal"
    body["tools"] = [{"type": "web_search_20250305", "name": "web_search"}]
    encoded = translate_request(body, dialect="anthropic", to="openai_responses")
    assert encoded.body["reasoning"]["effort"] == "low"
    assert "effort_changed" in [loss.feature for loss in encoded.losses]
    assert validate_request(encoded.body, "openai_responses") == []


@pytest.mark.parametrize(
    ("model", "mode", "context", "marks"),
    [
        ("o3", False, False, False),
        ("gpt-4.1", False, False, False),
        ("gpt-5", False, False, False),
        ("gpt-5.3-codex", False, False, False),
        ("gpt-5.4", False, True, False),
        ("gpt-5.5-pro", False, True, False),
        ("gpt-5.6", True, True, True),
        ("gpt-6-sol", True, True, True),
    ],
)
def test_models_of_responses_have_mode_context_and_marks(
    model: str, mode: bool, context: bool, marks: bool
) -> None:
    """`mode` and breakpoints from 5.6, `all_turns` from 5.4."""
    body = {"reasoning": {"effort": "low", "mode": "pro", "context": "all_turns"}}
    fitted, _ = fitted_for(body, "openai_responses", model=model)
    names = ["effort", *["mode"] * mode, *["context"] * context]
    assert list(fitted.body["reasoning"]) == names
    assert bool(capabilities_for("openai_responses", model=model).marks) is marks


def test_other_contexts_are_known_to_older_models() -> None:
    body = {"reasoning": {"context": "auto"}}
    assert fitted_for(body, "openai_responses", model="gpt-5")[0].body is body


def test_old_spelling_of_the_limit_is_refused_by_models_that_always_reason() -> None:
    assert fitted_for({"max_tokens": 5}, "openai_chat", model="o3")[0].body == {
        "max_completion_tokens": 5
    }


def test_effort_is_refused_by_models_without() -> None:
    body = {"output_config": {"effort": "low"}, "model": "m"}
    fitted, lost = fitted_for(body, "anthropic", model="claude-haiku-4-5")
    assert fitted.body == {"model": "m"}
    assert lost == ["effort"]


def test_thinking_of_sonnet_5_5_is_switched_off_by_a_word_of_its_own() -> None:
    body = {"thinking": {"type": "disabled"}}
    fitted, lost = fitted_for(body, "anthropic", model="claude-sonnet-5-5")
    assert fitted.body == {"thinking": {"type": "between_tools"}}
    assert lost == []
    assert fitted_for(body, "anthropic", model="claude-sonnet-5")[0].body is body


def test_unknown_model_has_no_rules() -> None:
    assert capabilities_for("openai_chat", model="llama-4") == capabilities_for("openai_chat")
