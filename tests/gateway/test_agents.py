"""What coding agents send, in small, through a gateway to upstreams of other dialects and back.

Shapes: Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61; what becomes of each field is written
down by hand from the vendors' references.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.gateway.calls import JSON, body_of, called, opened
from support.gateway.servers import served

from streamnorm import Reasoning, Text, ToolCall
from streamnorm.gateway import CallRecord, Gateway, UpstreamConfig
from streamnorm.testing import FakeProvider, tool_call

pytestmark = pytest.mark.anyio


class Losses:
    """An observer of what was lost in the last request."""

    def __init__(self) -> None:
        self.last: set[str] = set()

    def begin(self, call: CallRecord) -> None:
        pass

    def end(self, call: CallRecord) -> None:
        assert call.ending == "completed"
        self.last = set(call.losses)


@asynccontextmanager
async def between(dialect: str, script: Any) -> AsyncIterator[tuple[Gateway, FakeProvider, Losses]]:
    """Provide a gateway in front of a provider of a dialect, the provider, and the losses."""
    provider, losses = FakeProvider(script), Losses()
    async with served(provider.app()) as url:
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=url)}
        async with opened(upstreams, observers=(losses,)) as app:
            yield app, provider, losses


# Claude Code

RULES = "Read a file before you edit it."
CLAUDE_HEADERS = (
    *JSON,
    ("anthropic-version", "2023-06-01"),
    ("anthropic-beta", "claude-code-20250219,context-management-2025-06-27,effort-2025-11-24"),
)
CLAUDE: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 1000,
    "system": [
        {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.330;"},
        {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {"role": "system", "content": RULES, "output_config": {"effort": "low"}},
    ],
    "tools": [
        {"name": "Read", "input_schema": {"type": "object"}},
        {"name": "ToolSearch", "input_schema": {"type": "object"}},
        {"name": "WebFetch", "input_schema": {"type": "object"}, "defer_loading": True},
    ],
    "thinking": {"type": "adaptive", "display": "updates"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "medium"},
}
# The instruction in the middle of the conversation.
MIDDLE: dict[str, Any] = {
    "openai_chat": {"role": "system", "content": RULES},
    "openai_responses": {"role": "system", "content": RULES},
    "gemini": {"role": "user", "parts": [{"text": f"<system>\n{RULES}\n</system>"}]},
}
PROMPTS = {"openai_chat": "messages", "openai_responses": "input", "gemini": "contents"}


@pytest.mark.parametrize("dialect", MIDDLE)
async def test_claude_code_works_on_another_provider(dialect: str) -> None:
    calls = [tool_call("Read", path="a.py"), tool_call("ToolSearch", query="web")]
    script = [[Reasoning(("Well.",)), Text("One moment."), *calls], "Done."]
    async with between(dialect, script) as (app, provider, losses):
        first = await called(app, "/v1/messages?beta=true", CLAUDE, headers=CLAUDE_HEADERS)
        expected = {"betas", "context_management", "output_config", "display"}
        assert expected <= losses.last
        answer = body_of(first)["content"]
        uses = [block for block in answer if block["type"] == "tool_use"]
        assert [(use["name"], use["input"]) for use in uses] == [
            ("Read", {"path": "a.py"}),
            ("ToolSearch", {"query": "web"}),
        ]
        found = [{"type": "tool_reference", "tool_name": "WebFetch"}]
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": content}
            for use, content in zip(uses, ("import os", found), strict=True)
        ]
        said = [{"role": "assistant", "content": answer}, {"role": "user", "content": results}]
        further = {**CLAUDE, "messages": [*CLAUDE["messages"], *said]}
        second = await called(app, "/v1/messages?beta=true", further, headers=CLAUDE_HEADERS)
    assert body_of(second)["content"] == [{"type": "text", "text": "Done."}]
    for request in provider.requests:
        assert "anthropic-beta" not in request.headers
        text = json.dumps(request.body)
        for name in ("context_management", "output_config", "defer_loading", "cache_control"):
            assert name not in text
        assert MIDDLE[dialect] in request.body[PROMPTS[dialect]]
    assert "[tool WebFetch loaded]" in json.dumps(provider.requests[1].body)
    history = [request.body[PROMPTS[dialect]] for request in provider.requests]
    assert history[1][: len(history[0])] == history[0]


# Codex

PATCH = "*** Begin Patch\n*** End Patch"
CODEX: dict[str, Any] = {
    "model": "gpt-6-sol",
    "stream": False,
    "input": [
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {
                    "type": "custom",
                    "name": "apply_patch",
                    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
                },
                {
                    "type": "namespace",
                    "name": "agents",
                    "description": "Agents.",
                    "tools": [{"type": "function", "name": "spawn", "parameters": {}}],
                },
            ],
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "developer",
            "content": [{"type": "input_text", "text": "You are Codex."}],
        },
        {
            "type": "message",
            "id": "msg_2",
            "role": "user",
            "content": [{"type": "input_text", "text": "Fix it."}],
        },
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"a": "b"},
}


def named_tools(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools of a request in any dialect."""
    tools = body["tools"]
    declared = [each for tool in tools for each in tool.get("functionDeclarations", [tool])]
    return [(tool.get("function") or tool.get("custom") or tool)["name"] for tool in declared]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
async def test_codex_works_on_another_provider(dialect: str) -> None:
    patch = tool_call("apply_patch", input=PATCH)
    if dialect == "openai_chat":  # which has such tools
        patch = ToolCall("", "apply_patch", PATCH, "custom")
    script = [
        [
            Reasoning(("Well.",), "c2ln", "anthropic") if dialect == "anthropic" else Text("Hm."),
            patch,
            tool_call("agents__spawn", task="x"),
        ],
        "Done.",
    ]
    async with between(dialect, script) as (app, provider, losses):
        first = body_of(await called(app, "/v1/responses", CODEX))
        assert first["store"] is False
        assert {"tools_moved", "namespace_flattened", "client_metadata"} <= losses.last
        custom, spawn = [item for item in first["output"] if item["type"].endswith("_call")]
        assert (custom["type"], custom["name"], custom["input"]) == (
            "custom_tool_call",
            "apply_patch",
            PATCH,
        )
        assert (spawn["type"], spawn["name"], spawn["namespace"], spawn["arguments"]) == (
            *("function_call", "spawn", "agents"),
            '{"task":"x"}',
        )
        outputs = [
            {"type": kind, "call_id": call["call_id"], "output": "ok"}
            for kind, call in (
                ("custom_tool_call_output", custom),
                ("function_call_output", spawn),
            )
        ]
        further = {**CODEX, "input": [*CODEX["input"], *first["output"], *outputs]}
        second = body_of(await called(app, "/v1/responses", further))
    assert second["output"][-1]["content"][0]["text"] == "Done."
    for request in provider.requests:
        assert named_tools(request.body) == ["apply_patch", "agents__spawn"]
    text = json.dumps(provider.requests[1].body)
    assert "sn1" not in text
    assert ("c2ln" in text) == (dialect == "anthropic")  # back to who signed it
    assert text.count("agents__spawn") == 2 + (dialect == "gemini")  # and in its result
    assert json.dumps(PATCH)[1:-1] in text.replace("\\\\", "\\")


# Gemini CLI


async def test_gemini_cli_gets_and_returns_the_signatures_of_another_provider() -> None:
    generate = "/v1beta/models/gemini-3-pro:generateContent"
    body: dict[str, Any] = {
        "contents": [{"role": "user", "parts": [{"text": "Fix it."}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "You are an agent."}]},
        "tools": [
            {"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}
        ],
        "generationConfig": {"topK": 64, "thinkingConfig": {"includeThoughts": True}},
    }
    script = [[Reasoning(("Well.",), "c2ln", "anthropic"), tool_call("f", a=1)], "Done."]
    async with between("anthropic", script) as (app, provider, losses):
        first = body_of(await called(app, generate, body))
        content = first["candidates"][0]["content"]
        (call,) = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        answer = {"id": call["id"], "name": "f", "response": {"output": "ok"}}
        said = [content, {"role": "user", "parts": [{"functionResponse": answer}]}]
        further = {**body, "contents": [*body["contents"], *said]}
        second = body_of(await called(app, generate, further))
        assert "reasoning_dropped" not in losses.last
    assert second["candidates"][0]["content"]["parts"] == [{"text": "Done."}]
    thinking = {"type": "thinking", "thinking": "Well.", "signature": "c2ln"}
    assert provider.requests[1].body["messages"][1]["content"][0] == thinking


# opencode


@pytest.mark.parametrize(
    "dialect", ["anthropic", "openai_responses", "gemini", "gemini_interactions"]
)
async def test_title_of_opencode_is_streamed_with_its_usage(dialect: str) -> None:
    body = {
        "model": "small",
        "max_tokens": 100,
        "messages": [
            {"role": "system", "content": "You are a title generator."},
            {"role": "user", "content": "Generate a title for this conversation:\n"},
            {"role": "user", "content": '"Fix it."'},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with between(dialect, "Fix") as (app, provider, losses):
        caller = await called(app, "/v1/chat/completions", body)
    chunks = [
        json.loads(line.removeprefix("data: "))
        for line in b"".join(caller.bodies).decode().splitlines()
        if line.startswith("data: {")
    ]
    text = "".join(c["delta"].get("content") or "" for each in chunks for c in each["choices"])
    assert text == "Fix"
    assert [bool(each.get("usage")) for each in chunks] == [False] * (len(chunks) - 1) + [True]
    assert losses.last == set()
    assert "title generator" in json.dumps(provider.requests[0].body)
