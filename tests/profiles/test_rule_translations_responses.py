"""Requests of other dialects as OpenAI, Azure and others accept them in Responses, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from support.rules.translations import Translation

from streamnorm import translate_request

CHAT, MESSAGES, GEMINI, RESPONSES = "openai_chat", "anthropic", "gemini", "openai_responses"
LONG_ID = "toolu_" + "a" * 90
QUESTION: dict[str, Any] = {"role": "user", "content": "Rome?"}
OBJECT = {"type": "object", "properties": {}}
TOOL = {"name": "f", "input_schema": OBJECT}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": OBJECT}}
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
OWN = "sn1-id.openai.rs_1.gAAAAA"


def asked(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a request of Anthropic's or of Chat Completions."""
    return {"messages": [QUESTION, *messages], **fields}


def messages(*after: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return asked(*after, max_tokens=9000, **fields)


def thinking(signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "Hm.", "signature": signature}


def use(id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}}


def back(id: str = "toolu_1") -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": id, "content": "18"}]
    return {"role": "user", "content": content}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def loop(*before: dict[str, Any], id: str = "toolu_1") -> dict[str, Any]:
    """Return a request of Anthropic's with a call and its result."""
    return messages(assistant(*before, use(id)), back(id), tools=[TOOL])


def to_responses(
    rule: str,
    source: str,
    body: dict[str, Any],
    model: str,
    written: dict[str, list[Any]],
    *lost: str,
) -> Translation:
    return Translation(f"openai_responses.{rule}", source, body, RESPONSES, model, written, lost)


def effort(rule: str, model: str, asked_for: str, written: str) -> Translation:
    """Return an effort that the model lacks, and the nearest that it has."""
    body = asked(reasoning_effort=asked_for)
    return to_responses(rule, CHAT, body, model, {"reasoning.effort": [written]}, "effort_changed")


CASES = [
    # Encrypted reasoning goes back under its id; another vendor's does not
    to_responses(
        "encrypted_content",
        MESSAGES,
        loop(thinking(OWN)),
        "gpt-5",
        {
            "input[type=reasoning].id": ["rs_1"],
            "input[type=reasoning].encrypted_content": ["gAAAAA"],
        },
    ),
    to_responses(
        "encrypted_content",
        MESSAGES,
        loop(thinking("EqQBCkYI")),
        "gpt-5",
        {"input[type=reasoning]": []},
        "reasoning_dropped",
    ),
    # Fields of reasoning: no status, no content
    *(
        to_responses(
            rule, MESSAGES, loop(thinking(OWN)), "gpt-5", {f"input[type=reasoning].{name}": []}
        )
        for rule, name in (("reasoning_fields", "status"), ("reasoning_content", "content"))
    ),
    to_responses(
        "reasoning_id",
        MESSAGES,
        loop(thinking(OWN)),
        "gpt-5",
        {"input[type=reasoning].id": ["rs_1"]},
    ),
    # Thinking that nothing of its turn follows
    to_responses(
        "reasoning_alone",
        MESSAGES,
        messages(assistant(thinking(OWN)), {"role": "user", "content": "On."}),
        "gpt-5",
        {"input[type=reasoning]": [], "input.role": ["user", "user"]},
        "reasoning_dropped",
    ),
    # Ids
    to_responses(
        "call_item_id",
        MESSAGES,
        loop(),
        "gpt-5",
        {"input[type=function_call].id": [], "input[type=function_call].call_id": ["toolu_1"]},
    ),
    to_responses("id_length", MESSAGES, loop(id=LONG_ID), "gpt-5", {"input.id": []}),
    to_responses("call_id_length", MESSAGES, loop(id=LONG_ID), "gpt-5", {}),
    # A result without its call
    Translation(
        "openai_responses.result_of_no_call",
        CHAT,
        asked({"role": "tool", "tool_call_id": "call_1", "content": "1"}),
        RESPONSES,
        "gpt-5",
        error="messages[1].blocks[0]",
    ),
    # Bounds
    *(
        to_responses(
            "max_output_tokens",
            MESSAGES,
            asked(max_tokens=5),
            "gpt-5",
            {"max_output_tokens": [16]},
            "max_tokens_raised",
        )._replace(server=server)
        for server in (None, "azure")
    ),
    *(
        to_responses(
            "prompt_cache_key",
            CHAT,
            asked(prompt_cache_key="k" * 72),
            "gpt-5",
            # The SHA-256 of 72 times `k`
            {
                "prompt_cache_key": [
                    "eb5ee95bc74b88710e1e7722048ed58fffd9b59bf9d7566cc1d6a80c0db4b6ab"
                ]
            },
            "cache_key_hashed",
        )._replace(server=server)
        for server in (None, "azure", "meta")
    ),
    # Efforts
    effort("efforts_of_codex", "gpt-5.1-codex", "none", "low"),
    effort("efforts_of_gpt_5_1", "gpt-5.1", "minimal", "low"),
    effort("minimal_effort", "gpt-5.2", "minimal", "low"),
    effort("efforts_of_gpt_5_pro", "gpt-5-pro", "low", "high"),
    effort("efforts_of_gpt_5_5", "gpt-5.5", "max", "xhigh"),
    # Fields of other dialects
    to_responses(
        "fields",
        MESSAGES,
        messages(thinking={"type": "enabled", "budget_tokens": 5000}),
        "gpt-5",
        {"thinking": [], "messages": [], "reasoning.effort": ["low"]},
    ),
    to_responses(
        "reasoning_effort",
        CHAT,
        asked(reasoning_effort="high"),
        "gpt-5",
        {"reasoning_effort": [], "reasoning.effort": ["high"]},
    ),
    # Names of schemas
    *(
        to_responses(
            rule,
            CHAT,
            asked(
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": name, "schema": {**OBJECT}},
                }
            ),
            "gpt-5",
            {"text.format.name": ["response"]},
            "schema_name",
        )._replace(server=server)
        for rule, name in (("schema_name", "Weather Report"), ("schema_name_length", "a" * 65))
        for server in (None, "azure")
    ),
    # Texts
    to_responses(
        "assistant_parts",
        CHAT,
        asked(
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "Hot."}, {"type": "text", "text": "Dry."}],
            },
            QUESTION,
        ),
        "gpt-5",
        {"input[role=assistant].content": ["Hot.", "Dry."]},
    ),
    to_responses(
        "user_parts",
        MESSAGES,
        messages({"role": "user", "content": [{"type": "text", "text": "Look."}, PICTURE]}),
        "gpt-5",
        {"input[role=user].content.type": ["input_text", "input_image"]},
    ),
    *(
        Translation(
            rule,
            MESSAGES,
            messages(assistant({"type": "text", "text": "Hot."}), QUESTION),
            RESPONSES,
            "m",
            {"input[role=assistant].content": ["Hot."]},
            server=server,
        )
        for rule, server in (("azure.annotations", "azure"), ("vllm.annotations", "vllm"))
    ),
    # The backend of Codex
    Translation(
        "chatgpt.system_messages",
        CHAT,
        {"messages": [{"role": "system", "content": "Brief."}, QUESTION]},
        RESPONSES,
        "gpt-5.1-codex",
        {"input.role": ["developer", "user"]},
        server="chatgpt",
    ),
    Translation(
        "chatgpt.system_messages",
        CHAT,
        asked(
            {"role": "assistant", "content": "Hot."},
            {"role": "system", "content": "Brief."},
            QUESTION,
        ),
        RESPONSES,
        "gpt-5.1-codex",
        {"input.role": ["user", "assistant", "developer", "user"]},
        server="chatgpt",
    ),
    *(
        Translation(
            f"chatgpt.{name}",
            CHAT,
            asked(),
            RESPONSES,
            "gpt-5.1-codex",
            {name: [value]},
            server="chatgpt",
        )
        for name, value in (("store", False), ("stream", True))
    ),
    # Copilot: no ids that it did not issue
    Translation(
        "copilot.item_ids",
        MESSAGES,
        loop(thinking("sn1-id.openai.PSv0Sr.gAAAAA")),
        RESPONSES,
        "gpt-5.1-codex",
        {"input.id": ["PSv0Sr"]},
        server="copilot",
    ),
    Translation(
        "copilot.item_ids",
        MESSAGES,
        loop(thinking("sn1.openai.gAAAAA")),
        RESPONSES,
        "gpt-5.1-codex",
        {"input.id": []},
        server="copilot",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_written_as_the_rule_demands(case: Translation) -> None:
    case.check()


def test_long_id_of_a_call_is_one_short_id_in_both_items() -> None:
    body = {**loop(id=LONG_ID), "model": "gpt-5"}
    _, call, result = translate_request(body, dialect=MESSAGES, to=RESPONSES).body["input"]
    assert call["call_id"] == result["call_id"]
    assert len(call["call_id"]) <= 64
