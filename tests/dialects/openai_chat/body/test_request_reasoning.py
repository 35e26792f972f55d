"""How much to reason, in the words of OpenAI and of compatible servers."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.requests import body_of, read

from streamnorm import ReasoningOptions, decode_request, encode_request, translate_request

HI = {"role": "user", "content": "Hi"}
ON = ReasoningOptions("adaptive")
OFF = ReasoningOptions("off")


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"reasoning_effort": "high"}, ReasoningOptions(effort="high")),
        ({"thinking": {"type": "enabled"}}, ON),
        ({"thinking": {"type": "adaptive"}}, ON),
        ({"thinking": {"type": "disabled"}}, OFF),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            ReasoningOptions("budget", budget_tokens=2048),
        ),
        ({"enable_thinking": True}, ON),
        ({"enable_thinking": False}, OFF),
        (
            {"enable_thinking": True, "thinking_budget": 512},
            ReasoningOptions("budget", budget_tokens=512),
        ),
        ({"thinking_budget": 512}, ReasoningOptions("budget", budget_tokens=512)),
        (
            {"enable_thinking": False, "thinking_budget": 512},
            ReasoningOptions("off", budget_tokens=512),
        ),
        ({"reasoning": {"enabled": True}}, ON),
        ({"reasoning": {"enabled": False}}, OFF),
        ({"chat_template_kwargs": {"enable_thinking": False}}, OFF),
        ({"chat_template_kwargs": {"thinking": True}}, ON),
        ({"thinking": {"type": "enabled"}, "enable_thinking": True}, ON),
        (
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
            ReasoningOptions("adaptive", "high"),
        ),
        ({"thinking": {"type": "disabled"}, "reasoning_effort": "none"}, OFF),
    ],
    ids=str,
)
def test_words_of_servers_are_read(fields: dict[str, Any], options: ReasoningOptions) -> None:
    request = read(body_of(HI, **fields))
    assert request.reasoning == options
    assert request.extra is None


@pytest.mark.parametrize(
    ("fields", "options", "unmapped"),
    [
        # another form
        ({"thinking": True}, None, {"thinking": True}),
        ({"thinking": {"type": "new"}}, None, {"thinking": {"type": "new"}}),
        ({"thinking": {"type": "enabled", "x": 1}}, None, None),
        ({"thinking": {"type": "enabled", "budget_tokens": "many"}}, None, None),
        ({"thinking": {"type": "disabled", "budget_tokens": 5}}, None, None),
        ({"enable_thinking": "yes"}, None, None),
        ({"thinking_budget": True}, None, None),
        ({"reasoning": {"effort": "high", "exclude": True}}, None, None),
        ({"reasoning": {"exclude": True}}, None, None),
        ({"reasoning": {"max_tokens": True}}, None, None),
        ({"chat_template_kwargs": "x"}, None, None),
        ({"chat_template_kwargs": {"x": 1}}, None, None),
        # more beside it
        (
            {"chat_template_kwargs": {"enable_thinking": True, "x": 1}},
            ON,
            {"chat_template_kwargs": {"x": 1}},
        ),
        # a contradiction of what stands before it
        (
            {"thinking": {"type": "enabled"}, "enable_thinking": False},
            ON,
            {"enable_thinking": False},
        ),
        (
            {"reasoning_effort": "none", "enable_thinking": True},
            ReasoningOptions(effort="none"),
            {"enable_thinking": True},
        ),
        (
            {"reasoning_effort": "low", "thinking_budget": 512},
            ReasoningOptions(effort="low"),
            {"thinking_budget": 512},
        ),
        (
            {"reasoning_effort": "low", "reasoning": {"effort": "high"}},
            ReasoningOptions(effort="low"),
            {"reasoning": {"effort": "high"}},
        ),
    ],
    ids=str,
)
def test_other_words_stay_as_they_are(
    fields: dict[str, Any], options: ReasoningOptions | None, unmapped: dict[str, Any] | None
) -> None:
    request = read(body_of(HI, **fields))
    assert request.reasoning == options
    assert request.extra == {"openai_chat": fields if unmapped is None else unmapped}


def test_words_of_a_server_become_those_of_another_vendor() -> None:
    body = body_of(HI, max_tokens=9000, enable_thinking=False)
    encoded = translate_request(body, dialect="openai_chat", to="anthropic", version="2023-06-01")
    assert encoded.body["thinking"] == {"type": "disabled"}
    assert encoded.losses == ()


ASKED: list[tuple[dict[str, Any], str, str, dict[str, Any], list[str]]] = [
    # (Anthropic's fields, server, model, its own, lost)
    (
        {"thinking": {"type": "adaptive"}},
        *("deepseek", "deepseek-chat", {"thinking": {"type": "enabled"}}, []),
    ),
    (
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        "deepseek",
        "deepseek-v4",
        {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        [],
    ),
    (
        {"thinking": {"type": "disabled"}},
        *("deepseek", "deepseek-v4", {"thinking": {"type": "disabled"}}, []),
    ),
    (
        {"thinking": {"type": "adaptive"}},
        *("kimi", "kimi-k2.6", {"thinking": {"type": "enabled"}}, []),
    ),
    (
        {"thinking": {"type": "adaptive"}},
        *("zai", "glm-4.6", {"thinking": {"type": "enabled"}}, []),
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 3000}},
        *("qwen", "qwen-plus", {"enable_thinking": True, "thinking_budget": 3000}, []),
    ),
    (
        {"thinking": {"type": "adaptive"}},
        *("qwen", "qwen-plus", {"enable_thinking": True, "thinking_budget": 10_000}, []),
    ),
    (
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        *("qwen", "qwen-plus", {"enable_thinking": True, "thinking_budget": 2048}, []),
    ),
    (
        {
            "thinking": {"type": "enabled", "budget_tokens": 3000},
            "output_config": {"effort": "low"},
        },
        "qwen",
        "qwen-plus",
        {"enable_thinking": True, "thinking_budget": 3000},
        ["effort"],
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 3000}},
        *("openrouter", "m", {"reasoning": {"max_tokens": 3000}}, []),
    ),
    (
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        *("openrouter", "m", {"reasoning": {"enabled": True, "effort": "low"}}, []),
    ),
    (
        {"thinking": {"type": "disabled"}},
        *("vllm", "qwen3-32b", {"chat_template_kwargs": {"enable_thinking": False}}, []),
    ),
    (
        {"thinking": {"type": "enabled", "budget_tokens": 3000}},
        "llamacpp",
        "glm-4.6",
        {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": True}},
        ["budget_changed"],
    ),
    ({"thinking": {"type": "adaptive"}}, "xai", "grok-4", {}, ["reasoning"]),
    ({"thinking": {"type": "adaptive"}}, "groq", "llama-4", {}, ["reasoning"]),
]


@pytest.mark.parametrize(("fields", "server", "model", "sent", "lost"), ASKED, ids=str)
def test_reasoning_is_asked_for_in_the_words_of_the_server(
    fields: dict[str, Any], server: str, model: str, sent: dict[str, Any], lost: list[str]
) -> None:
    body = {"model": model, "max_tokens": 8000, "messages": [HI], "stream": True, **fields}
    encoded = encode_request(decode_request(body, "anthropic"), "openai_chat", server=server)
    others = {"model", "messages", "stream", "stream_options", "max_tokens"}
    others |= {"max_completion_tokens"}
    assert {name: encoded.body[name] for name in encoded.body if name not in others} == sent
    assert [loss.feature for loss in encoded.losses] == lost
