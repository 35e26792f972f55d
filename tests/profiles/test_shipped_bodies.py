"""What servers refuse, rename or need, row by row: the bodies that they are sent."""

from __future__ import annotations

from typing import Any

import pytest
from support.rules.profile_rows import capabilities_for, fitted_for

from streamnorm._core.bodies.wire_fields import endpoint_path

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
BM25 = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
REGEX = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}


# Clouds, with the official SDK as the judge


def sdk_request(cloud: str, body: dict[str, Any], beta: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the body that the official SDK sends to a cloud."""
    from anthropic._models import FinalRequestOptions
    from anthropic.lib.bedrock import _client as bedrock
    from anthropic.lib.vertex import _client as vertex

    options = FinalRequestOptions(
        method="post", url="/v1/messages", json_data=dict(body), headers={"anthropic-beta": beta}
    )
    if cloud == "bedrock":
        options = bedrock._prepare_options(options, {})
        return options.url, options.json_data
    options = vertex._prepare_options(options, project_id="p", region="r")
    return options.url.removeprefix("/projects/p/locations/r"), options.json_data


@pytest.mark.parametrize("cloud", ["bedrock", "vertex"])
@pytest.mark.parametrize("stream", [{}, {"stream": False}, {"stream": True}])
@pytest.mark.parametrize(
    "model", ["anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5@20251101", "a/b c"]
)
def test_clouds_get_what_the_official_sdk_sends(
    cloud: str, stream: dict[str, bool], model: str
) -> None:
    body = {"model": model, "max_tokens": 5, "messages": MESSAGES, **stream}
    headers = {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    path, expected = sdk_request(cloud, body, headers["anthropic-beta"])
    fitted, lost = fitted_for(body, "anthropic", cloud, model, "2026-10-21", headers=headers)
    assert fitted.body == expected
    assert fitted.headers == ({} if cloud == "bedrock" else headers)
    assert lost == []
    target = capabilities_for("anthropic", cloud, model)
    found = endpoint_path(
        "/v1/messages", model, target, stream="stream" in stream and body["stream"]
    )
    assert found.replace("@", "%40") == path.replace("@", "%40")


@pytest.mark.parametrize("version", [None, "2023-06-01"])
@pytest.mark.parametrize(
    ("cloud", "name"), [("vertex", "vertex-2023-10-16"), ("bedrock", "bedrock-2023-05-31")]
)
def test_version_before_2026_10_21_has_a_name_of_the_cloud(
    cloud: str, name: str, version: str | None
) -> None:
    fitted, lost = fitted_for({"temperature": 1}, "anthropic", cloud, version=version)
    assert fitted == ({"temperature": 1, "anthropic_version": name}, {})
    assert lost == []


@pytest.mark.parametrize("cloud", ["vertex", "bedrock"])
def test_clouds_have_no_mark_at_the_top(cloud: str) -> None:
    body = {"messages": MESSAGES, "cache_control": {"type": "ephemeral"}}
    fitted, lost = fitted_for(body, "anthropic", cloud)
    assert {*fitted.body} == {"messages", "anthropic_version"}
    assert lost == ["cache_control"]


@pytest.mark.parametrize(
    ("cloud", "known"),
    [
        ("vertex", ["context-management-2025-06-27"]),
        ("bedrock", ["context-management-2025-06-27"]),
        ("azure", ["context-management-2025-06-27", "mcp-client-2025-11-20"]),
    ],
)
def test_clouds_have_some_betas(cloud: str, known: list[str]) -> None:
    """`Unexpected value(s)` on Vertex (claude-code#56970), `invalid beta flag` on Bedrock."""
    names = ["context-management-2025-06-27", "mcp-client-2025-11-20", "advisor-tool-2026-03-01"]
    body = {"messages": MESSAGES, "context_management": {"edits": [{}]}, "mcp_servers": [{}]}
    headers = {"anthropic-beta": ",".join(names)}
    fitted, lost = fitted_for(body, "anthropic", cloud, headers=headers)
    has_servers = names[1] in known
    assert "context_management" in fitted.body
    assert ("mcp_servers" in fitted.body) is has_servers
    listed = fitted.headers.get("anthropic-beta") or ",".join(fitted.body["anthropic_beta"])
    assert listed == ",".join(known)
    assert lost == [*["mcp_servers"] * (not has_servers), "beta"]


def test_bedrock_has_no_lifetimes_of_marks() -> None:
    """litellm#17250: "cache_control.ephemeral.ttl: Extra inputs are not permitted"."""
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    left = {"cache_control": {"type": "ephemeral"}}
    body = {
        "system": [{"text": "a", **mark}],
        "tools": [{"name": "f", **mark}],
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [mark]}]}],
    }
    fitted, lost = fitted_for(body, "anthropic", "bedrock")
    assert fitted.body == {
        "system": [{"text": "a", **left}],
        "tools": [{"name": "f", **left}],
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [left]}]}],
        "anthropic_version": "bedrock-2023-05-31",
    }
    assert lost == ["ttl", "ttl", "ttl"]
    assert {*capabilities_for("anthropic", "bedrock").mark_ttls.values()} == {""}


def test_bedrock_refuses_what_it_does_not_know() -> None:
    tools = [{"name": "f", "input_schema": {}, "eager_input_streaming": True}, BM25]
    body = {"messages": MESSAGES, "tools": tools, "service_tier": "auto", "temperature": 1}
    fitted, lost = fitted_for(body, "anthropic", "bedrock")
    assert fitted.body == {
        "messages": MESSAGES,
        "tools": [{"name": "f", "input_schema": {}}, REGEX],
        "temperature": 1,
        "anthropic_version": "bedrock-2023-05-31",
    }
    assert lost == ["eager_input_streaming", "service_tier"]


def test_body_for_one_cloud_goes_to_the_other() -> None:
    body = {"anthropic_version": "vertex-2023-10-16", "messages": MESSAGES}
    fitted, lost = fitted_for(body, "anthropic", "bedrock")
    assert fitted.body["anthropic_version"] == "bedrock-2023-05-31"
    assert lost == ["anthropic_version"]


@pytest.mark.parametrize("server", ["qwen", "deepseek"])
def test_context_management_goes_with_its_beta(server: str) -> None:
    """claude-code#21612 #39589 #51700, litellm#26240."""
    body = {"messages": MESSAGES, "context_management": {"edits": [{"type": "clear_x"}]}}
    headers = {"anthropic-beta": "context-management-2025-06-27"}
    fitted, lost = fitted_for(body, "anthropic", server, headers=headers)
    assert fitted.body == {"messages": MESSAGES}
    assert fitted.headers == {}
    assert lost == ["context_management", "beta"]


# One body a row: server, model, fields that are written, fields that are sent, what is lost

Fields = dict[str, Any]
ON, OFF = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
MARKED = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}


def reasoned(**fields: str) -> Fields:
    return {"messages": [{"role": "assistant", "content": "a", **fields}]}


CHAT: list[tuple[str, str, Fields, Fields, list[str]]] = [
    # Copilot: max_completion_tokens for gpt-5 and later
    ("copilot", "gpt-4.1", {"max_completion_tokens": 5}, {"max_tokens": 5}, []),
    ("copilot", "gpt-5.1", {"max_completion_tokens": 5}, {"max_completion_tokens": 5}, []),
    ("copilot", "claude-opus-4.5", {"max_completion_tokens": 5}, {"max_tokens": 5}, []),
    # Azure: reasoning models refuse max_tokens
    ("azure", "o3", {"max_tokens": 5}, {"max_completion_tokens": 5}, []),
    # DeepSeek: max_tokens; thinking is switched off by a field of its own
    ("deepseek", "deepseek-v4", {"max_completion_tokens": 5}, {"max_tokens": 5}, []),
    ("deepseek", "deepseek-v4", {"reasoning_effort": "none"}, OFF, []),
    ("deepseek", "deepseek-v4", {"reasoning_effort": "max"}, {"reasoning_effort": "max"}, []),
    # Qwen: enable_thinking and thinking_budget
    ("qwen", "qwen3", {"reasoning_effort": "none"}, {"enable_thinking": False}, []),
    (
        "qwen",
        "qwen3",
        {"reasoning_effort": "medium"},
        {"enable_thinking": True, "thinking_budget": 10_000},
        [],
    ),
    (
        "qwen",
        "qwen3",
        {"reasoning_effort": "xhigh"},
        {"enable_thinking": True, "thinking_budget": 32_768},
        [],
    ),
    ("qwen", "qwq-plus", {"stream": False}, {"stream": True}, ["stream"]),
    # Kimi: thinking xor reasoning_effort; no $schema
    ("kimi", "kimi-k2.6", {"reasoning_effort": "none"}, OFF, []),
    ("kimi", "kimi-k2.6", {"reasoning_effort": "high"}, ON, []),
    ("kimi", "kimi-k3", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}, []),
    (
        "kimi",
        "kimi-k3",
        {"tools": [{"function": {"parameters": {"$schema": "x", "type": "object"}}}]},
        {"tools": [{"function": {"parameters": {"type": "object"}}}]},
        ["$schema"],
    ),
    # GLM: thinking before 5.2
    ("zai", "glm-4.6", {"reasoning_effort": "none"}, OFF, []),
    ("zai", "glm-5.1", {"reasoning_effort": "high"}, ON, []),
    ("zai", "glm-5.2", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}, []),
    ("zai", "glm-5.3", {"reasoning_effort": "max"}, {"reasoning_effort": "max"}, []),
    # Mistral: random_seed, required → any
    ("mistral", "mistral-large", {"seed": 5}, {"random_seed": 5}, []),
    ("mistral", "mistral-large", {"tool_choice": "required"}, {"tool_choice": "any"}, []),
    ("mistral", "mistral-large", {"tool_choice": "auto"}, {"tool_choice": "auto"}, []),
    # Groq: unknown keys of messages refused
    ("groq", "llama-4", reasoned(reasoning="r"), reasoned(), ["reasoning"]),
    ("groq", "llama-4", reasoned(reasoning_content="r"), reasoned(), ["reasoning_content"]),
    ("groq", "qwen/qwen3", {"reasoning_effort": "medium"}, {"reasoning_effort": "default"}, []),
    ("groq", "qwen/qwen3", {"reasoning_effort": "none"}, {"reasoning_effort": "none"}, []),
    # OpenRouter: max_tokens, reasoning{effort}; cache_control for anthropic and google
    ("openrouter", "m", {"max_completion_tokens": 5}, {"max_tokens": 5}, []),
    ("openrouter", "openai/gpt-5", {"max_tokens": 5}, {"max_tokens": 5}, []),
    ("openrouter", "m", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}, []),
    (
        "openrouter",
        "anthropic/claude-opus-4.5",
        {"messages": [{"role": "user", "content": [MARKED]}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
                    ],
                }
            ]
        },
        [],
    ),
    # Ollama: `reasoning`
    ("ollama", "m", reasoned(reasoning_content="r"), reasoned(reasoning="r"), []),
]


@pytest.mark.parametrize(("server", "model", "body", "sent", "lost"), CHAT)
def test_chat_servers_get_their_own_spelling(
    server: str, model: str, body: Fields, sent: Fields, lost: list[str]
) -> None:
    fitted, names = fitted_for(body, "openai_chat", server, model)
    assert fitted.body == sent
    assert names == lost


@pytest.mark.parametrize(
    ("server", "fields", "prefix"),
    [
        ("vllm", {"continue_final_message": True, "add_generation_prompt": False}, {}),
        ("sglang", {"continue_final_message": True, "add_generation_prompt": False}, {}),
        ("mistral", {}, {"prefix": True}),
        ("deepseek-beta", {}, {"prefix": True}),
        ("groq", {}, {}),
    ],
)
def test_prefill_is_marked_as_the_server_wants_it(
    server: str, fields: Fields, prefix: Fields
) -> None:
    last = {"role": "assistant", "content": "Dear"}
    fitted, lost = fitted_for({"messages": [*MESSAGES, last]}, "openai_chat", server, "m")
    assert fitted.body == {"messages": [*MESSAGES, {**last, **prefix}], **fields}
    assert lost == []


def test_vllm_refuses_the_status_of_calls() -> None:
    """ogx#6069: refused before PR 26706."""
    body = {"input": [{**CALL, "status": "completed"}, {"type": "message", "status": "completed"}]}
    fitted, lost = fitted_for(body, "openai_responses", "vllm", "m")
    assert fitted.body == {"input": [CALL, {"type": "message", "status": "completed"}]}
    assert lost == ["status"]


@pytest.mark.parametrize(
    ("body", "sent", "lost"),
    [
        # ignored: container, mcp_servers, service_tier, top_k, cache_control, disable_parallel
        ({"container": "c", "model": "m"}, {"model": "m"}, ["container"]),
        ({"mcp_servers": [{}], "top_k": 5, "service_tier": "auto"}, {}, None),
        (
            {"tools": [{"name": "f", "cache_control": {}}], "system": [{"cache_control": {}}]},
            {"tools": [{"name": "f"}]},
            ["cache_control", "cache_control"],
        ),
        (
            {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
            {"tool_choice": {"type": "auto"}},
            ["disable_parallel_tool_use"],
        ),
        # ignored: budget_tokens
        (
            {"thinking": {"type": "enabled", "budget_tokens": 5000}},
            {"thinking": {"type": "enabled"}},
            ["budget_tokens"],
        ),
        ({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "enabled"}}, []),
        # refused: image, document, search_result, redacted_thinking
        *(
            (
                {"messages": [{"role": "user", "content": [{"type": kind}, {"type": "text"}]}]},
                {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
                [kind],
            )
            for kind in ("image", "document", "search_result", "redacted_thinking")
        ),
        # thinking comes back
        (
            {"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]},
            {"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]},
            [],
        ),
    ],
)
def test_deepseek_gets_what_it_reads_of_messages(
    body: Fields, sent: Fields, lost: list[str] | None
) -> None:
    fitted, names = fitted_for(body, "anthropic", "deepseek", "deepseek-v4")
    assert fitted.body == sent
    assert names == (lost if lost is not None else ["mcp_servers", "service_tier", "top_k"])
