"""Requests for servers other than the vendor: only what they refuse is written otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.rules import CALL, RESULT, USER, items

from streamnorm import (
    Citation,
    InputMessage,
    Refusal,
    Request,
    Text,
    decode_request,
    encode_request,
    translate_request,
)
from streamnorm.validation import validate_request

OWN = "openai_responses"
SAID: dict[str, Any] = {"type": "output_text", "text": "Hm.", "annotations": []}
CITED: dict[str, Any] = {
    **SAID,
    "annotations": [
        {"type": "url_citation", "url": "https://u", "title": "T", "start_index": 0, "end_index": 2}
    ],
}
NO: dict[str, Any] = {"type": "refusal", "refusal": "No."}


def output(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [*parts], **fields}


def sent(body: dict[str, Any], server: str | None, model: str = "gpt-5.5") -> dict[str, Any]:
    """Return a request of the dialect as a server gets it, which must accept it."""
    request = decode_request({"model": model, **body}, OWN)
    made = encode_request(request, OWN, server=server)
    assert validate_request(made.body, OWN, server=server) == []
    return made.body


def bare(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "annotations"}


@pytest.mark.parametrize("server", ["azure", "vllm", "sglang"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        # One text needs no id.
        (output(bare(SAID)), {**output(), "content": "Hm."}),
        (output(SAID, phase="commentary"), {**output(phase="commentary"), "content": "Hm."}),
        # Others have one made of their place.
        (output(CITED), output(CITED, id="msg_sn_1", status="completed")),
        (
            output(bare(SAID), NO, status="incomplete"),
            output(SAID, NO, id="msg_sn_1", status="incomplete"),
        ),
        (
            {"role": "assistant", "content": [SAID, SAID]},
            output(SAID, SAID, id="msg_sn_1", status="completed"),
        ),
        (output(bare(SAID), id="msg_1"), output(SAID, id="msg_1", status="completed")),
        (
            output(bare(SAID), id="msg_1", status="completed"),
            output(SAID, id="msg_1", status="completed"),
        ),
        # All others stay.
        (output(CITED, id="msg_1", status="completed"), None),
        (output(NO), None),
        ({"role": "assistant", "content": "Hm."}, None),
        ({"type": "web_search_call", "id": "ws_1", "status": "completed"}, None),
    ],
)
def test_output_text_is_complete_for_strict_servers(
    before: dict[str, Any], after: dict[str, Any] | None, server: str
) -> None:
    made = sent(items(before, USER), server)["input"]
    assert made == [USER, before if after is None else after, USER]
    assert sent(items(before, USER), None)["input"] == [USER, before, USER]


@pytest.mark.parametrize("server", ["azure", "vllm"])
def test_answer_of_another_dialect_is_complete_for_strict_servers(server: str) -> None:
    cited = Text("Hm.", (Citation("url_citation", "https://u", "T", start=0, end=2),))
    messages = (
        InputMessage("user", (Text("Hi"),)),
        InputMessage("assistant", (cited, Text("a"), Refusal("No."))),
        InputMessage("user", (Text("Hi"),)),
    )
    made = encode_request(Request(model="gpt-5.5", messages=messages), OWN, server=server)
    assert made.body["input"] == [
        USER,
        output(CITED, id="msg_sn_1_0", status="completed"),
        {"role": "assistant", "content": "a"},
        output(NO, id="msg_sn_1_2", status="completed"),
        USER,
    ]
    assert validate_request(made.body, OWN, server=server) == []


@pytest.mark.parametrize("server", ["copilot", "githubcopilot"])
def test_copilot_gets_no_id_that_it_did_not_issue(server: str) -> None:
    own, minted = output(SAID, id="PSv0Sr+=="), output(NO, id="msg_sn_1", status="completed")
    made = sent(items(own, minted, USER), server, "gpt-5.1-codex")["input"]
    assert made == [USER, own, {k: v for k, v in minted.items() if k != "id"}, USER]
    messages = (
        InputMessage("user", (Text("Hi"),)),
        InputMessage("assistant", (Refusal("No."),)),
        InputMessage("user", (Text("Hi"),)),
    )
    made = encode_request(Request(model="m", messages=messages), OWN, server=server).body["input"]
    assert made == [USER, output(NO, status="completed"), USER]


def test_chatgpt_stores_nothing_and_streams_and_has_no_system_messages() -> None:
    body = {
        **items({"role": "system", "content": "Be brief."}, CALL, RESULT),
        "max_output_tokens": 100,
        "store": True,
    }
    request = decode_request({"model": "gpt-5.1-codex", **body}, OWN)
    made = encode_request(request, OWN, server="chatgpt")
    assert made.body == {
        "model": "gpt-5.1-codex",
        **items({"role": "developer", "content": "Be brief."}, CALL, RESULT),
        "store": False,
        "stream": True,
    }
    assert {loss.feature for loss in made.losses} == {"max_tokens", "store", "stream"}
    assert validate_request(made.body, OWN, server="chatgpt") == []


def test_chatgpt_gets_requests_of_other_dialects() -> None:
    system = {"role": "system", "content": "Be brief."}
    body = {"model": "gpt-5.1-codex", "messages": [system, USER, system]}
    made = translate_request(body, dialect="openai_chat", to=OWN, server="chatgpt")
    developer = {"role": "developer", "content": "Be brief."}
    assert made.body["input"] == [developer, USER, developer]
    assert validate_request(made.body, OWN, server="chatgpt") == []


def test_azure_gets_known_fields_alone() -> None:
    made = sent({**items(), "thinking": {"type": "enabled"}, "top_k": 3, "user": "u"}, "azure")
    assert made == {"model": "gpt-5.5", **items(), "user": "u"}


def test_xai_gets_its_own_reasoning_and_no_other() -> None:
    def thinking(signature: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": "", "signature": signature}

    call = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "1"}
    content = [thinking("sn1-id.xai.rs_1.xAI="), thinking("sn1-id.openai.rs_2.gAAA"), call]
    messages = [USER, {"role": "assistant", "content": content}]
    body = {"max_tokens": 8, "messages": [*messages, {"role": "user", "content": [result]}]}
    for server, id, encrypted in (("xai", "rs_1", "xAI="), (None, "rs_2", "gAAA")):
        body["model"] = "grok-4.3" if server else "gpt-5.5"
        made = translate_request(body, dialect="anthropic", to=OWN, server=server)
        reasoning = {"type": "reasoning", "id": id, "summary": [], "encrypted_content": encrypted}
        assert made.body["input"][1] == reasoning
        assert made.body["max_output_tokens"] == (8 if server else 16)
        assert validate_request(made.body, OWN, server=server) == []


@pytest.mark.parametrize(
    ("model", "asked", "effort"),
    [
        ("gpt-5.1-codex", "none", "low"),
        ("gpt-5.1", "minimal", "low"),
        ("gpt-5.1", "max", "high"),
        ("gpt-5.5", "max", "xhigh"),
        ("gpt-5.6-sol", "minimal", "low"),
        ("gpt-5.6-sol", "max", "max"),
        ("gpt-5-pro", "low", "high"),
        ("gpt-5", "none", "minimal"),
        ("o3", "xhigh", "high"),
    ],
)
def test_effort_that_a_model_lacks_is_the_nearest_that_it_has(
    model: str, asked: str, effort: str
) -> None:
    body = {"model": model, "messages": [USER], "reasoning_effort": asked}
    made = translate_request(body, dialect="openai_chat", to=OWN)
    assert made.body["reasoning"] == {"effort": effort}
    assert [loss.feature for loss in made.losses] == ["effort_changed"] * (asked != effort)


def test_long_names_of_caches_and_short_answers_are_those_that_openai_accepts() -> None:
    body = {"model": "gpt-5.5", "messages": [USER], "max_completion_tokens": 1}
    body["prompt_cache_key"] = "k" * 72
    made = translate_request(body, dialect="openai_chat", to=OWN)
    assert made.body["max_output_tokens"] == 16
    assert len(made.body["prompt_cache_key"]) == 64
    assert [loss.feature for loss in made.losses] == ["max_tokens_raised", "cache_key_hashed"]
    assert validate_request(made.body, OWN) == []


def test_repeated_ids_of_calls_are_told_apart() -> None:
    """Kimi numbers the calls of each answer anew."""
    call = {"id": "f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "f:0", "content": "1"},
    ]
    body = {"model": "gpt-5.5", "messages": [USER, *turn, *turn]}
    made = translate_request(body, dialect="openai_chat", to=OWN)
    ids = [item["call_id"] for item in made.body["input"] if "call_id" in item]
    assert ids == ["f:0", "f:0", "f:0_2", "f:0_2"]
    assert validate_request(made.body, OWN) == []


@pytest.mark.parametrize("text", ["", " \n"])
def test_blank_instructions_are_left_out(text: str) -> None:
    request = Request(
        model="gpt-5.5",
        system=(Text(text),),
        messages=(InputMessage("user", (Text("Hi"),)),),
    )
    made = encode_request(request, OWN)
    assert "instructions" not in made.body
    assert [loss.feature for loss in made.losses] == ["empty_message_dropped"]
    own = {"model": "gpt-5.5", "instructions": text, **items()}
    assert encode_request(decode_request(own, OWN), OWN).body == own


SEARCH = {"type": "web_search_20250305", "name": "web_search"}


def test_choice_names_the_tool_that_tools_has() -> None:
    body = {
        "model": "gpt-5.5",
        "max_tokens": 100,
        "messages": [USER],
        "tools": [SEARCH],
        "tool_choice": {"type": "tool", "name": "web_search"},
    }
    made = translate_request(body, dialect="anthropic", to=OWN)
    assert made.body["tools"] == [{"type": "web_search"}]
    assert made.body["tool_choice"] == {"type": "web_search"}
    assert validate_request(made.body, OWN) == []


def test_choice_of_the_dialect_names_the_tool_where_the_server_knows_no_other_word() -> None:
    choice, tools = {"type": "web_search_preview"}, [{"type": "web_search"}]
    body = {**items(), "tools": tools, "tool_choice": choice}
    assert sent(body, None)["tool_choice"] == choice
    assert sent(body, "chatgpt")["tool_choice"] == {"type": "web_search"}
    exact = {**items(), "tools": tools, "tool_choice": {"type": "web_search"}}
    assert sent(exact, "chatgpt")["tool_choice"] == {"type": "web_search"}
    more = {"type": "web_search_preview", "context": 1}
    changed = sent({**body, "tool_choice": more}, "chatgpt")
    assert changed["tool_choice"] == {"type": "web_search", "context": 1}


@pytest.mark.parametrize("named", [{}, {"name": "exec"}])
@pytest.mark.parametrize(
    ("server", "types"),
    [
        ("openai", ("custom_tool_call", "custom_tool_call_output")),
        ("vllm", ("function_call", "function_call_output")),
        ("sglang", ("function_call", "function_call_output")),
    ],
)
def test_result_of_a_custom_call_has_the_type_of_its_call(
    server: str, types: tuple[str, str], named: dict[str, Any]
) -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "ls"}
    result = {"type": "custom_tool_call_output", "call_id": "c", "output": "a", **named}
    tools = [{"type": "custom", "name": "exec"}]
    _, made, answered = sent({"input": [USER, call, result], "tools": tools}, server)["input"]
    assert (made["type"], answered["type"]) == types
    if server != "openai":
        assert answered == {"type": "function_call_output", "call_id": "c", "output": "a"}
