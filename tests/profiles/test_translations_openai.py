"""Requests of clients as they reach OpenAI, Azure and Copilot by Chat Completions."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import Encoded, EncodeError, LossyEncoding, translate_request

QUESTION = {"role": "user", "content": "Rome?"}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def translated(
    body: dict[str, Any], source: str, to: str, server: str | None, model: str
) -> tuple[Encoded, list[str]]:
    """Return the request for a target, and what it lost."""
    encoded = translate_request({**body, "model": model}, dialect=source, to=to, server=server)
    return encoded, [loss.feature for loss in encoded.losses]


TOOL = {"name": "f", "input_schema": WEATHER}
THINKING = {"max_tokens": 9000, "messages": [QUESTION], "tools": [TOOL]}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 5000}}


@pytest.mark.parametrize(
    ("model", "fields", "server", "effort"),
    [
        # Tools beside an effort: until 5.3, and at other servers
        ("gpt-5", BUDGET, None, "low"),
        ("gpt-5.2", BUDGET, None, "low"),
        ("gpt-5.4", BUDGET, "azure", "low"),
        ("gpt-5.4", BUDGET, None, "none"),
        ("gpt-5.6-sol", BUDGET, None, "none"),
        # Where nothing is said, 5.5 and later must be told not to reason
        ("gpt-5.4", {}, None, None),
        ("gpt-5.5", {}, None, "none"),
        ("gpt-6-sol", {}, None, "none"),
        # Without tools nothing is changed
        ("gpt-5.6-sol", {**BUDGET, "tools": []}, None, "low"),
    ],
)
def test_effort_beside_tools(
    model: str, fields: dict[str, Any], server: str | None, effort: str | None
) -> None:
    encoded, lost = translated({**THINKING, **fields}, "anthropic", "openai_chat", server, model)
    assert encoded.body.get("reasoning_effort") == effort
    assert ("effort_changed" in lost) is (effort == "none")


def test_strict_names_responses_where_chat_has_no_tools_beside_reasoning() -> None:
    effort = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
    body = {**THINKING, **effort, "model": "gpt-5.4"}
    with pytest.raises(LossyEncoding, match=r"lost, expected dialect openai_responses$"):
        translate_request(body, dialect="anthropic", to="openai_chat", strict=True)


@pytest.mark.parametrize(
    ("model", "effort", "written"),
    [
        ("gpt-5", "none", "minimal"),
        ("gpt-5-pro", "low", "high"),
        ("gpt-5.1", "minimal", "low"),
        ("gpt-5.1", "xhigh", "high"),
        ("gpt-5.1-codex", "none", "low"),
        ("gpt-5.5", "minimal", "low"),
        ("gpt-5.5", "max", "xhigh"),
        ("o4-mini", "xhigh", "high"),
    ],
)
def test_effort_that_a_model_lacks_is_the_nearest_that_it_has(
    model: str, effort: str, written: str
) -> None:
    body = {"input": "Rome?", "reasoning": {"effort": effort}}
    encoded, lost = translated(body, "openai_responses", "openai_chat", None, model)
    assert encoded.body["reasoning_effort"] == written
    assert lost == ["effort_changed"]


@pytest.mark.parametrize(
    ("model", "tokens", "stops"),
    [("gpt-4.1", 10, ["END"]), ("gpt-5", 16, None), ("o3", 16, None), ("o1", 16, ["END"])],
)
def test_bound_on_an_answer_and_stops_of_models_that_reason(
    model: str, tokens: int, stops: list[str] | None
) -> None:
    body = {"max_tokens": 10, "messages": [QUESTION], "stop_sequences": ["END"]}
    encoded, lost = translated(body, "anthropic", "openai_chat", None, model)
    assert encoded.body["max_completion_tokens"] == tokens
    assert encoded.body.get("stop") == stops
    assert ("max_tokens_raised" in lost, "stop_dropped" in lost) == (tokens == 16, stops is None)


def test_warming_of_a_cache_asks_for_one_token() -> None:
    body = {"max_tokens": 0, "messages": [QUESTION]}
    encoded, lost = translated(body, "anthropic", "openai_chat", None, "gpt-4.1")
    assert (encoded.body["max_completion_tokens"], lost) == (1, ["max_tokens_raised"])


def test_azure_gets_what_a_client_sends_but_for_what_it_refuses() -> None:
    spelt = {
        "stream": False,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Rome?"}]}],
        "temperature": 0.5,
        "user": "ann",
        "odd": {"a": 1},
    }
    encoded, lost = translated(spelt, "openai_chat", "openai_chat", "azure", "gpt-4.1")
    assert (encoded.body, lost) == ({**spelt, "model": "gpt-4.1"}, [])
    refused = {
        "thinking": {"type": "enabled"},
        "logprobs": 3,
        "tools": [],
        "tool_choice": "auto",
        "stream_options": {"include_usage": True},
        "response_format": {"type": "json_schema", "json_schema": {"name": "", "schema": WEATHER}},
    }
    messages = [{"role": "assistant", "content": None}, *spelt["messages"]]
    encoded, _ = translated(
        {**spelt, **refused, "messages": messages}, "openai_chat", "openai_chat", "azure", "gpt-5"
    )
    assert encoded.body == {
        "model": "gpt-5",
        "stream": False,
        "messages": [{"role": "assistant", "content": ""}, *spelt["messages"]],
        "user": "ann",
        "odd": {"a": 1},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "response", "schema": WEATHER},
        },
    }


def test_client_of_a_cloud_must_answer_its_calls() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [QUESTION, {"role": "assistant", "tool_calls": calls}, QUESTION]
    body = {"model": "gpt-4.1", "messages": messages}
    for server in ("azure", "copilot"):
        with pytest.raises(EncodeError, match="call without a result") as caught:
            translate_request(body, dialect="openai_chat", to="openai_chat", server=server)
        assert caught.value.path == "messages[1].tool_calls[0]"
        with pytest.raises(EncodeError, match="no messages"):
            translate_request(
                {**body, "messages": []}, dialect="openai_chat", to="openai_chat", server=server
            )
    assert translate_request(body, dialect="openai_chat", to="openai_chat").body == body
