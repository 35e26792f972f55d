"""What servers refuse that are compatible with Anthropic Messages, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.rules.rows import RuleRow

from streamnorm._core.codec import RequestFacts
from streamnorm.dialects.anthropic.body.validate import orphan_results, text_after_result

TEXT = {"type": "text", "text": "Hi"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}
THINKING = {"type": "thinking", "thinking": "…", "signature": "EqQB"}
REDACTED = {"type": "redacted_thinking", "data": "EqQB"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
DOCUMENT = {"type": "document", "source": {"type": "text", "data": "a"}}
FOUND = {"type": "search_result", "source": "s", "title": "t", "content": []}
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]
OFF = {"thinking": {"type": "disabled"}}
ON = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
UNFORCED = "Thinking mode does not support this tool_choice"


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def messages(*values: dict[str, Any]) -> dict[str, Any]:
    return {"max_tokens": 2048, "messages": list(values)}


USER, CALLING = turn("user", TEXT), turn("assistant", USE)
SYSTEM = {"role": "system", "content": "Be brief."}
LOOP = messages(USER, CALLING, turn("user", RESULT))
BLOCKS = "unknown variant, expected one of `text`, `thinking`, `tool_use`, `tool_result`"

CASES = [
    RuleRow(
        "deepseek.effort",
        "deepseek",
        "deepseek-v4",
        {**messages(USER), **OFF, "output_config": {"effort": "high"}},
        "output_config.effort",
        "thinking options type cannot be disabled when reasoning_effort is set",
        {"thinking": {"type": "adaptive"}},
    ),
    *(
        RuleRow(
            "deepseek.forced_tool",
            "deepseek",
            "deepseek-v4",
            {**messages(USER), "tools": TOOLS, "tool_choice": choice},
            "tool_choice.type",
            UNFORCED,
            OFF,
            "deepseek/deepseek-chat",
        )
        for choice in ({"type": "any"}, {"type": "tool", "name": "f"})
    ),
    RuleRow(
        "deepseek.forced_tool_asked",
        "deepseek",
        "deepseek-chat",
        {**messages(USER), **ON, "tools": TOOLS, "tool_choice": {"type": "any"}},
        "tool_choice.type",
        UNFORCED,
        {"tool_choice": {"type": "auto"}},
        "deepseek/deepseek-v4",
    ),
    *(
        RuleRow(
            "deepseek.blocks",
            "deepseek",
            "deepseek-v4",
            messages(turn("user", TEXT, block)),
            "messages[0].content[1]",
            f"messages[0].content[1]: {BLOCKS}",
            messages(USER),
        )
        for block in (IMAGE, DOCUMENT, FOUND, REDACTED)
    ),
    *(
        RuleRow(
            "deepseek.blocks",
            "deepseek",
            "deepseek-v4",
            messages(USER, CALLING, turn("user", {**RESULT, "content": [block]})),
            "messages[2].content[0].content[0]",
            f"messages[2].content[0].content[0]: {BLOCKS}",
            LOOP,
        )
        for block in (IMAGE, DOCUMENT, FOUND)
    ),
    RuleRow(
        "deepseek.temperature",
        "deepseek",
        "deepseek-v4",
        {**messages(USER), "temperature": 2.5},
        "temperature",
        "Invalid temperature value, the valid range of temperature is [0, 2]",
        {"temperature": 2},
    ),
    RuleRow(
        "minimax.tool_result",
        "minimax",
        "minimax-m2",
        messages(USER, turn("user", RESULT), CALLING),
        "messages[1].content[0].tool_use_id",
        "invalid params, tool result's tool id(toolu_1) not found (2013)",
        LOOP,
    ),
    RuleRow(
        "minimax.temperature",
        "minimax",
        "minimax-m2",
        {**messages(USER), "temperature": 0},
        "temperature",
        "invalid params, temperature: 0, expected more than 0 and at most 1 (2013)",
        {"temperature": 0.01},
    ),
    RuleRow(
        "minimax.text_after_result",
        "minimax",
        "minimax-m2",
        messages(USER, CALLING, turn("user", RESULT, TEXT)),
        "messages[2].content[1]",
        "invalid params, tool call result does not follow tool call (2013)",
        messages(USER, CALLING, turn("user", RESULT), USER),
    ),
    RuleRow(
        "qwen.context_management",
        "qwen",
        "qwen3-max",
        {**messages(USER), "context_management": {"edits": []}},
        "context_management",
        "context_management: Extra inputs are not permitted",
        {"context_management": None},
        "deepseek",
    ),
    *(
        RuleRow(
            rule,
            server,
            "m",
            messages(USER, SYSTEM),
            "messages[1].role",
            "messages[1].role: unknown variant `system`, expected `user` or `assistant`",
            messages(USER),
        )
        for rule, server in (("qwen.system", "qwen"), ("vllm.system_role", "vllm"))
    ),
    RuleRow(
        "minimax.system_role",
        "minimax",
        "minimax-m2",
        messages(USER, SYSTEM),
        "messages[1].role",
        "invalid params, chat content has invalid message role: system (2013)",
        messages(USER),
    ),
    RuleRow(
        "qwen.context_management",
        "qwen",
        "qwen3-max",
        {**messages(USER), "context_management": {"edits": []}},
        "context_management",
        "context_management: Extra inputs are not permitted",
        {"context_management": None},
    ),
    *(
        RuleRow(
            "vllm.thinking",
            "vllm",
            "qwen3-32b",
            messages(USER, turn("assistant", block, TEXT)),
            "messages[1].content[0]",
            "messages.1.content.0.type: Input should be 'text', 'image', 'tool_use' or"
            " 'tool_result'",
            messages(USER, turn("assistant", TEXT)),
        )
        for block in (THINKING, REDACTED)
    ),
]
CASES = [row._replace(dialect="anthropic") for row in CASES]


@pytest.mark.parametrize("row", CASES, ids=str)
def test_server_refuses_what_its_rule_says(row: RuleRow) -> None:
    row.check()


ODD = [
    {"messages": None},
    {"messages": [None, "a", {}, {"content": None}, {"content": "a"}]},
    {"messages": [{"content": [None, 5, {}, {"type": 5}, {"type": "tool_result"}]}]},
    {"messages": [{"content": [{"type": "tool_use", "id": 5}, {"tool_use_id": []}]}]},
]


@pytest.mark.parametrize("body", ODD, ids=str)
def test_checks_accept_any_json(body: dict[str, Any]) -> None:
    for check in (orphan_results, text_after_result):
        assert list(check(RequestFacts(body))) == []
