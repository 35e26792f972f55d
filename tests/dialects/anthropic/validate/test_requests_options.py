"""Tools and options that Anthropic refuses, each with the nearest legal request."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.refusals import (
    Refusal,
    assistant,
    call,
    cloud_request,
    request,
    result,
    text,
    tool,
    user,
)

from streamnorm.validation import validate_request

OPUS = "claude-opus-5"
BUDGET = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE = {"type": "adaptive"}
OFF = {"type": "disabled"}
ANY = {"type": "any"}
CLEAR = {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}
CONTEXT = {"anthropic-beta": "context-management-2025-06-27"}
MCP = {"anthropic-beta": "mcp-client-2025-11-20"}
VERSION = {"anthropic-version": "2026-10-21"}
OLD_MODELS = tuple(
    (None, model)
    for model in (
        "claude-opus-4-6",
        "claude-sonnet-4-6",
        "claude-opus-4-5-20251101",
        "claude-opus-4-20250514",
        "claude-haiku-4-5",
        "claude-3-7-sonnet-20250219",
        "m",
    )
)
NEW_MODELS = ("claude-opus-4-7", "claude-opus-4.8", "claude-sonnet-5", OPUS, "claude-fable-5-1")
DEPRECATED = "is deprecated for this model."


def search_tool() -> dict[str, Any]:
    return {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}


def reference(name: str) -> dict[str, Any]:
    content = [{"type": "tool_reference", "tool_name": name}]
    return request(user("q"), assistant(call()), user(result(content=content)), tools=[tool()])


TOOLS = [
    Refusal(f"anthropic.{rule}", refused, path, message, legal)
    for rule, path, message, refused, legal in (
        (
            "tool_names",
            "tools[1].name",
            "tools: Tool names must be unique.",
            request(tools=[{"type": "web_search_20250305", "name": "f"}, tool("f")]),
            request(tools=[{"type": "web_search_20250305", "name": "web_search"}, tool("f")]),
        ),
        (
            "deferred_tools",
            "tools",
            "At least one tool must have defer_loading=false. All tools cannot be deferred.",
            request(tools=[tool(defer_loading=True)]),
            request(tools=[tool(defer_loading=True), search_tool()]),
        ),
        (
            "tool_reference",
            "messages[2].content[0].content[0].tool_name",
            "Tool reference 'g' not found in available tools",
            reference("g"),
            reference("f"),
        ),
        (
            "tool_reference",
            "messages[1].content[0].content.tool_references[0].tool_name",
            "Tool reference 'g' not found in available tools",
            request(
                user("q"),
                assistant(
                    {
                        "type": "tool_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": {
                            "type": "tool_search_tool_search_result",
                            "tool_references": [{"type": "tool_reference", "tool_name": "g"}],
                        },
                    }
                ),
                tools=[tool()],
            ),
            reference("f"),
        ),
        (
            "choice_without_tools",
            "tool_choice",
            "tool_choice: may only be specified while providing tools",
            request(tool_choice={"type": "auto"}),
            request(tool_choice={"type": "auto"}, tools=[tool()]),
        ),
        (
            "unknown_choice",
            "tool_choice.name",
            "Tool 'g' not found in provided tools",
            request(tools=[tool()], tool_choice={"type": "tool", "name": "g"}),
            request(tools=[tool()], tool_choice={"type": "tool", "name": "f"}),
        ),
    )
]
CHOICES = [
    *(
        Refusal(
            "anthropic.forced_choice",
            request(tools=[tool()], tool_choice=choice),
            "tool_choice.type",
            'tool_choice: type "tool" and "any" are not supported for this model.',
            request(tools=[tool()], tool_choice={"type": "auto"}),
            model,
            others=((None, OPUS), (None, "claude-sonnet-5")),
        )
        for model in ("claude-fable-5-1", "claude-mythos-preview")
        for choice in (ANY, {"type": "tool", "name": "f"})
    ),
    Refusal(
        "anthropic.forced_choice_while_thinking",
        request(tools=[tool()], tool_choice=ANY, thinking=BUDGET),
        "tool_choice.type",
        "Thinking may not be enabled when tool_choice forces tool use.",
        request(tools=[tool()], tool_choice=ANY, thinking=ADAPTIVE),
        "claude-opus-4-6",
    ),
]
NAMES = [
    Refusal(f"anthropic.{rule}", request(**refused), path, message, request(**legal))
    for rule, path, message, refused, legal in (
        *(
            (
                "stop_sequence",
                "stop_sequences[1]",
                "stop_sequences: each stop sequence must contain non-whitespace",
                {"stop_sequences": ["END", blank]},
                {"stop_sequences": ["END", "\n."]},
            )
            for blank in ("\n\n", "")
        ),
        (
            "user_mail",
            "metadata.user_id",
            "metadata.user_id: user_id appears to contain an email address. Please send a uuid or "
            "hash value instead",
            {"metadata": {"user_id": "ann@example.com"}},
            {"metadata": {"user_id": "ann@example"}},
        ),
        (
            "user_telephone",
            "metadata.user_id",
            "metadata.user_id: user_id appears to contain a phone number. Please send a uuid or "
            "hash value instead",
            {"metadata": {"user_id": "+49 (30) 123-4567"}},
            {"metadata": {"user_id": "user-49301234567"}},
        ),
    )
]
SAMPLING = [
    *(
        Refusal(
            f"anthropic.{rule}",
            request(**{field: value}),
            field,
            f"{field} {DEPRECATED}",
            request(),
            model,
            others=OLD_MODELS,
        )
        for model in NEW_MODELS
        for rule, field, value in (
            ("temperature", "temperature", 0.5),
            ("nucleus", "top_p", 0.9),
            ("top_k", "top_k", 40),
        )
    ),
    *(
        Refusal(
            "anthropic.temperature_and_top_p",
            request(temperature=0.5, top_p=0.9),
            "top_p",
            "`temperature` and `top_p` cannot both be specified for this model. "
            "Please use only one.",
            request(top_p=0.9),
            model,
            others=((None, "claude-sonnet-4-20250514"), (None, "claude-opus-4-20250514")),
        )
        for model in ("claude-opus-4-1-20250805", "claude-sonnet-4-6", "claude-haiku-4-5")
    ),
    *(
        Refusal(
            f"anthropic.{rule}",
            request(thinking=thinking, **{field: refused}),
            field,
            message,
            request(thinking=thinking, **legal),
            "claude-opus-4-6",
        )
        for thinking in (BUDGET, ADAPTIVE)
        for rule, field, refused, message, legal in (
            (
                "temperature_while_thinking",
                "temperature",
                0.5,
                "`temperature` may only be set to 1 when thinking is enabled.",
                {"temperature": 1},
            ),
            (
                "top_p_while_thinking",
                "top_p",
                0.9,
                "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
                {"top_p": 0.95},
            ),
            (
                "top_k_while_thinking",
                "top_k",
                40,
                "`top_k` must be unset when thinking is enabled.",
                {},
            ),
        )
    ),
]
VERSIONS = [
    Refusal(
        "anthropic.version_2026_10_21",
        refused,
        path,
        f"{where}: Extra inputs are not permitted",
        legal,
        headers=VERSION,
    )
    for path, where, refused, legal in (
        ("temperature", "temperature", request(temperature=1), request()),
        (
            "messages[1].content[0]",
            "messages.1.content.0",
            request(user("q"), assistant({"type": "document", "source": {"type": "url"}})),
            request(user({"type": "document", "source": {"type": "url"}})),
        ),
        (
            "messages[0].content[0].citations",
            "messages.0.content.0.text.citations",
            request(user(text("a", citations=[{"type": "char_location"}]))),
            request(user(text("a", citations=[]))),
        ),
    )
]
THINKING = [
    *(
        Refusal(
            "anthropic.tokens_64k",
            request(max_tokens=64_001),
            "max_tokens",
            "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens",
            request(max_tokens=64_000),
            model,
            others=((None, "claude-opus-4-6"),),
        )
        for model in ("claude-opus-4-5", "claude-sonnet-4-20250514", "claude-sonnet-4-5@20250929")
    ),
    Refusal(
        "anthropic.max_budget",
        request(max_tokens=1024, thinking=BUDGET),
        "max_tokens",
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        request(max_tokens=1025, thinking=BUDGET),
    ),
    *(
        Refusal(
            f"anthropic.{rule}",
            request(thinking=refused),
            "thinking.type",
            message,
            request(thinking=legal),
            model,
            others=tuple((None, other) for other in others),
        )
        for rule, message, models, refused, legal, others in (
            (
                "budget_refused",
                '"thinking.type.enabled" is not supported for this model. Use '
                '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
                NEW_MODELS,
                BUDGET,
                ADAPTIVE,
                ("claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5"),
            ),
            (
                "adaptive_refused",
                "adaptive thinking is not supported on this model",
                (
                    "claude-opus-4-5",
                    "claude-sonnet-4-5@20250929",
                    "claude-haiku-4.5",
                    "claude-sonnet-4",
                    "claude-3-7-sonnet-20250219",
                ),
                ADAPTIVE,
                BUDGET,
                ("claude-opus-4-6", "claude-sonnet-4-6", OPUS),
            ),
            (
                "no_thinking",
                "thinking: not supported for this model",
                ("claude-3-5-sonnet-20241022", "claude-3-haiku-20240307"),
                BUDGET,
                OFF,
                ("claude-3-7-sonnet-20250219", OPUS),
            ),
            (
                "thinking_required",
                "thinking.type.disabled: not supported for this model",
                ("claude-opus-5-5",),
                OFF,
                ADAPTIVE,
                (OPUS, "claude-opus-4-8"),
            ),
        )
        for model in models
    ),
]
EFFORTS = [
    *(
        Refusal(
            f"anthropic.{rule}",
            request(output_config={"effort": refused}),
            "output_config.effort",
            message,
            request(output_config={"effort": legal}) if legal else request(),
            model,
            others=tuple((None, other) for other in others),
        )
        for rule, message, models, refused, legal, others in (
            (
                "effort_refused",
                "This model does not support the effort parameter.",
                ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1-20250805"),
                "low",
                "",
                ("claude-opus-4-5", "claude-sonnet-4-6", OPUS),
            ),
            (
                "effort_of_opus_4_5",
                "output_config.effort: Input should be 'low', 'medium' or 'high'",
                ("claude-opus-4-5-20251101",),
                "max",
                "high",
                ("claude-opus-4-6",),
            ),
            (
                "effort_of_4_6",
                "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'",
                ("claude-opus-4-6", "claude-sonnet-4.6"),
                "xhigh",
                "max",
                ("claude-opus-4-7",),
            ),
        )
        for model in models
    ),
    *(
        Refusal(
            "anthropic.effort_without_thinking",
            request(thinking=OFF, output_config={"effort": effort}),
            "output_config.effort",
            f"output_config.effort '{effort}' is not supported when thinking is disabled on this "
            "model. Use effort 'high' or below, or enable thinking.",
            request(thinking=OFF, output_config={"effort": "high"}),
            OPUS,
            others=((None, "claude-opus-4-8"),),
        )
        for effort in ("xhigh", "max")
    ),
    *(
        Refusal(
            "bedrock.effort",
            cloud_request(output_config={"effort": "low"}),
            "output_config.effort",
            "output_config.effort: Extra inputs are not permitted",
            cloud_request(),
            model,
            "bedrock",
            others=((None, model), ("bedrock", "anthropic.claude-opus-4-6-v1")),
        )
        for model in ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-haiku-4-5")
    ),
]
CLEARING = [
    Refusal(
        f"anthropic.{rule}",
        request(**CLEAR, **refused),
        "context_management.edits[0]",
        "`clear_thinking_20251015` strategy requires `thinking` to be enabled or adaptive",
        request(**CLEAR, **legal),
        model,
        others=((None, "claude-opus-4-6" if model == OPUS else OPUS),),
        headers=CONTEXT,
    )
    for rule, model, refused, legal in (
        ("clear_thinking", "claude-opus-4-6", {}, {"thinking": ADAPTIVE}),
        (
            "clear_thinking",
            "claude-opus-4-5",
            {"thinking": OFF},
            {"thinking": BUDGET},
        ),
        ("clear_thinking_of_5", OPUS, {"thinking": OFF}, {}),
    )
]

EARLY, SOON = (
    {"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": tokens}}]}
    for tokens in (49_999, 50_000)
)
COMPACTING = [
    Refusal(
        "anthropic.compaction_trigger",
        request(context_management=EARLY),
        "context_management.edits[0].trigger.value",
        "compact_20260112: trigger.value must be at least 50000",
        request(context_management=SOON),
        others=(("deepseek", "m"),),
        headers={"anthropic-beta": "compact-2026-01-12"},
    )
]

CASES = [
    *(*TOOLS, *CHOICES, *NAMES, *SAMPLING, *VERSIONS, *THINKING, *EFFORTS, *CLEARING, *COMPACTING),
]


@pytest.mark.parametrize("refusal", CASES, ids=str)
def test_request_is_refused_by(refusal: Refusal) -> None:
    refusal.check()


def test_budget_of_interleaved_thinking_may_be_above_the_answer() -> None:
    body = request(max_tokens=1024, thinking=BUDGET)
    headers = {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    assert validate_request(body, "anthropic", headers=headers) == []


def test_tools_of_a_toolset_have_names_that_the_request_does_not_say() -> None:
    toolset = {"type": "mcp_toolset", "mcp_server_name": "docs"}
    body = {**reference("find"), "tools": [tool(), toolset]}
    body["tool_choice"] = {"type": "tool", "name": "find"}
    assert validate_request(body, "anthropic", headers=MCP) == []
