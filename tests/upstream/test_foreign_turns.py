"""Histories in the upstream's own dialect of which another vendor wrote a part."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamnorm import decode_request, encode_request
from streamnorm._core.text import (
    SignatureCarrier,
    tag_redacted_reasoning,
    tag_signature,
    write_carrier,
)
from streamnorm._upstream.foreign_turns import disown_foreign_turns, may_have_foreign_turns
from streamnorm._upstream.requests import Upstream

PROOF = "cHJvb2Y="
FOREIGN = tag_signature(PROOF, "openai")
WRAPPED = base64.b64encode(FOREIGN.encode()).decode()
VENDORS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "gemini",
}
USER = {"role": "user", "content": "Hi."}
CALL = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}


def thinking(signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "Well.", "signature": signature}


def messages(*blocks: dict[str, Any]) -> dict[str, Any]:
    answer = {"role": "assistant", "content": [*blocks, CALL]}
    said = [USER, answer, {"role": "user", "content": [RESULT]}]
    return {"model": "m", "max_tokens": 9, "messages": said}


def items(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": [USER, *output, USER], "store": False, **fields}


def reasoning(**fields: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "Well."}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, **fields}


def contents(*parts: dict[str, Any]) -> dict[str, Any]:
    response = {"functionResponse": {"name": "f", "response": {"output": "ok"}}}
    said = [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [*parts]}]
    return {"contents": [*said, {"role": "user", "parts": [response]}]}


def function_call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "f", "args": {}}, **fields}


def sent(body: dict[str, Any], dialect: str, model: str = "", server: str | None = None) -> Any:
    """Return the body that an upstream gets, and what was lost."""
    upstream = Upstream(dialect=dialect, base_url="http://x", server=server or VENDORS.get(dialect))
    assert may_have_foreign_turns(json.dumps(body).encode(), upstream)
    assert may_have_foreign_turns(json.dumps(body, separators=(",", ":")).encode(), upstream)
    path = f"/v1beta/models/{model}:generateContent" if dialect == "gemini" else ""
    request = decode_request(body, dialect, path=path)
    changed = disown_foreign_turns(request, upstream)
    if changed is request:
        return None, ()
    made = encode_request(changed, dialect, server=server)
    return made.body, tuple(loss.feature for loss in made.losses)


@pytest.mark.parametrize(
    "block",
    [
        thinking(FOREIGN),
        thinking(tag_signature(PROOF, None)),
        thinking(""),
        {
            "type": "thinking",
            "thinking": "",
            "signature": write_carrier(SignatureCarrier(PROOF, "google", "c1")),
        },
        {"type": "redacted_thinking", "data": tag_redacted_reasoning(PROOF, "openai")},
    ],
)
def test_thinking_that_anthropic_did_not_sign_is_not_sent_to_it(block: dict[str, Any]) -> None:
    body, lost = sent(messages(block), "anthropic")
    assert body == messages()
    assert lost in ((), ("reasoning_dropped",))


def test_budget_is_switched_off_where_the_running_loop_lost_its_thinking() -> None:
    """With a budget, Anthropic wants thinking before the calls whose results it is sent."""
    enabled = {"type": "enabled", "budget_tokens": 1024}
    clearing = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    options = {"max_tokens": 2048, "thinking": enabled, "context_management": clearing}
    body, lost = sent(messages(thinking(FOREIGN)) | options, "anthropic", "claude-sonnet-4-5")
    assert body["thinking"] == {"type": "disabled"}
    assert "context_management" not in body
    assert lost == ("reasoning_dropped", "reasoning", "context_management")


@pytest.mark.parametrize("id", ["call_1", "chatcmpl-tool-9f", "functions.f:0"])
@pytest.mark.parametrize("is_interrupted", [False, True])
@pytest.mark.parametrize("before", [[], [{"type": "text", "text": "One moment."}]])
def test_budget_is_switched_off_where_a_model_that_does_not_think_began_the_running_loop(
    id: str, is_interrupted: bool, before: list[dict[str, Any]]
) -> None:
    """Its answer has no thinking to lose; Anthropic refuses to go on with it all the same."""
    answer = {"role": "assistant", "content": [*before, CALL | {"id": id}]}
    results: list[Any] = [RESULT | {"tool_use_id": id}]
    if is_interrupted:
        results.append({"type": "text", "text": "Go on."})
    enabled = {"type": "enabled", "budget_tokens": 1024}
    said = [USER, answer, {"role": "user", "content": results}]
    body = {"model": "m", "max_tokens": 2048, "messages": said, "thinking": enabled}
    made, lost = sent(body, "anthropic", "claude-sonnet-4-5")
    assert made["thinking"] == {"type": "disabled"}
    assert [len(message["content"]) for message in made["messages"][1:]] == [
        len(before) + 1,
        len(results),
    ]
    assert "reasoning" in lost


def test_budget_stays_for_a_server_that_does_not_verify_thinking() -> None:
    enabled = {"type": "enabled", "budget_tokens": 1024}
    body = messages() | {"max_tokens": 2048, "thinking": enabled}
    upstream = Upstream(dialect="anthropic", base_url="http://x", server="vllm")
    assert not may_have_foreign_turns(json.dumps(body).encode(), upstream)
    request = decode_request(body, "anthropic")
    assert disown_foreign_turns(request, upstream) is request


def test_loop_that_a_model_without_thinking_began_goes_on_with_a_budget_once_it_has_ended() -> None:
    enabled = {"type": "enabled", "budget_tokens": 1024}
    body = messages() | {"max_tokens": 2048, "thinking": enabled}
    body["messages"] += [{"role": "assistant", "content": "Done."}, USER]
    assert sent(body, "anthropic", "claude-sonnet-4-5") == (None, ())


@pytest.mark.parametrize("id", ["toolu_01A", "toolu_bdrk_01A", "toolu_vrtx_01A"])
def test_loop_whose_calls_anthropic_issued_stays_as_its_client_wrote_it(id: str) -> None:
    """A client that leaves thinking out, or asks for it too late, gets Anthropic's own answer."""
    answer = {"role": "assistant", "content": [CALL | {"id": id}]}
    said = [USER, answer, {"role": "user", "content": [RESULT | {"tool_use_id": id}]}]
    enabled = {"type": "enabled", "budget_tokens": 1024}
    body = {"model": "m", "max_tokens": 2048, "messages": said, "thinking": enabled}
    upstream = Upstream(dialect="anthropic", base_url="http://x", server="anthropic")
    assert not may_have_foreign_turns(json.dumps(body).encode(), upstream)
    request = decode_request(body, "anthropic")
    assert disown_foreign_turns(request, upstream) is request


def test_budget_stays_where_anthropic_wrote_the_running_loop() -> None:
    body = messages(thinking(PROOF)) | {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    answer = {"role": "assistant", "content": [thinking(FOREIGN), {"type": "text", "text": "Hm."}]}
    body |= {"max_tokens": 2048, "messages": [USER, answer, *body["messages"]]}
    made, lost = sent(body, "anthropic", "claude-sonnet-4-5")
    assert made["thinking"] == body["thinking"]
    assert lost == ("reasoning_dropped",)


def test_thinking_of_anthropic_stays_among_that_of_others() -> None:
    own = [USER, {"role": "assistant", "content": [thinking(PROOF), CALL]}]
    body = messages(thinking(FOREIGN))
    body["messages"] = [*own, {"role": "user", "content": [RESULT]}, *body["messages"][1:]]
    body["messages"][3] = {"role": "assistant", "content": [thinking(FOREIGN), CALL | {"id": "c2"}]}
    body["messages"][4] = {"role": "user", "content": [RESULT | {"tool_use_id": "c2"}]}
    made, _ = sent(body, "anthropic")
    assert made["messages"][:3] == body["messages"][:3]
    assert made["messages"][3]["content"] == [CALL | {"id": "c2"}]


def test_thinking_without_a_signature_stays_for_a_server_that_nobody_knows() -> None:
    """Such as vLLM, which writes it so; but a signature of ours is none of its own."""
    assert sent(messages(thinking("")), "anthropic", server="vllm") == (None, ())
    body, _ = sent(messages(thinking(FOREIGN)), "anthropic", server="vllm")
    assert body == messages()


@pytest.mark.parametrize("server", ["bedrock", "vertex"])
def test_hosts_of_a_vendor_verify_as_it_does(server: str) -> None:
    body, _ = sent(messages(thinking("")), "anthropic", server=server)
    assert body["messages"] == messages()["messages"]


@pytest.mark.parametrize(
    "item", [reasoning(), reasoning(encrypted_content=tag_signature(PROOF, "anthropic"))]
)
def test_reasoning_that_openai_did_not_encrypt_is_not_sent_to_it(item: dict[str, Any]) -> None:
    answer = {"type": "message", "role": "assistant", "content": "Hm."}
    body, lost = sent(items(item, answer), "openai_responses")
    assert "rs_1" not in json.dumps(body)
    assert [each.get("content") for each in body["input"]] == ["Hi.", "Hm.", "Hi."]
    assert lost == ("reasoning_dropped",)


@pytest.mark.parametrize(
    ("encrypted", "id"),
    [
        (tag_signature(PROOF, "openai", "rs_9"), {"id": "rs_9"}),
        (tag_signature(PROOF, "openai"), {}),
    ],
)
def test_reasoning_that_openai_encrypted_is_sent_to_it_as_it_was_issued(
    encrypted: str, id: dict[str, str]
) -> None:
    """Its client was answered by an upstream of another dialect, which had it from OpenAI."""
    answer = {"type": "message", "role": "assistant", "content": "Hm."}
    body, lost = sent(items(reasoning(encrypted_content=encrypted), answer), "openai_responses")
    expected = reasoning(encrypted_content=PROOF)
    del expected["id"]
    assert body["input"][1] == {**expected, **id}
    assert lost == ()


CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT_RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}


@pytest.mark.parametrize(
    "reasoning",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0}]},
    ],
)
def test_reasoning_is_not_sent_to_chat_completions_of_openai(reasoning: dict[str, Any]) -> None:
    """OpenAI writes none there and refuses the fields that its clients were answered with."""
    calls = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
    own = {"role": "assistant", "content": "Yes.", "refusal": None, "annotations": []}
    said = [USER, calls | reasoning, CHAT_RESULT, own, USER]
    made, lost = sent({"model": "gpt-5", "messages": said, "seed": 1}, "openai_chat")
    assert made["seed"] == 1
    assert made["messages"] == [USER, {**calls}, CHAT_RESULT, own, USER]
    assert set(lost) == {"reasoning_dropped"}


@pytest.mark.parametrize("server", ["compatible", "deepseek", "vllm"])
def test_reasoning_stays_for_servers_of_chat_completions_that_may_take_it(server: str) -> None:
    said = [USER, {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}, USER]
    upstream = Upstream(dialect="openai_chat", base_url="http://x", server=server)
    body = {"model": "deepseek-v4", "messages": said}
    assert not may_have_foreign_turns(json.dumps(body).encode(), upstream)
    request = decode_request(body, "openai_chat")
    assert disown_foreign_turns(request, upstream) is request


@pytest.mark.parametrize("store", [True, None])
def test_reasoning_that_a_server_may_have_stored_stays(store: bool | None) -> None:
    assert sent(items(reasoning(), store=store), "openai_responses") == (None, ())


@pytest.mark.parametrize(
    "part",
    [function_call(), function_call(thoughtSignature=WRAPPED)],
)
def test_call_that_google_did_not_sign_has_the_placeholder(part: dict[str, Any]) -> None:
    body, lost = sent(contents(part), "gemini", "gemini-3-pro-preview")
    (written,) = body["contents"][1]["parts"]
    assert written["thoughtSignature"] == "skip_thought_signature_validator"
    assert "signature_placeholder" in lost


def test_calls_after_a_signed_one_need_no_signature() -> None:
    parts = (function_call(thoughtSignature=PROOF), function_call())
    assert sent(contents(*parts), "gemini", "gemini-3-pro-preview") == (None, ())


def test_model_that_signs_no_calls_gets_them_unsigned() -> None:
    assert sent(contents(function_call()), "gemini", "gemini-2.5-flash") == (None, ())


def test_text_that_another_vendor_signed_is_sent_without_the_signature() -> None:
    text = {"text": "Hm.", "thoughtSignature": WRAPPED}
    signed = function_call(thoughtSignature=PROOF)
    body, lost = sent(contents(text, signed), "gemini", "gemini-3-pro-preview")
    named = {**signed, "functionCall": {"id": "call_1_0", **signed["functionCall"]}}
    assert body["contents"][1]["parts"] == [{"text": "Hm."}, named]
    assert "signature_dropped" in lost


def test_chat_completions_verifies_nothing() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    signed = {**call, "extra_content": {"google": {"thought_signature": PROOF}}}
    said = [USER, {"role": "assistant", "tool_calls": [signed], "function_call": None}]
    said.append({"role": "tool", "tool_call_id": "c1", "content": ""})
    assert sent({"model": "m", "messages": said}, "openai_chat") == (None, ())


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        (messages(thinking(PROOF)), "anthropic"),
        (messages({"type": "redacted_thinking", "data": PROOF}), "anthropic"),
        (messages({"type": "text", "text": "sn1."}), "anthropic"),
        (items(reasoning(encrypted_content=PROOF)), "openai_responses"),
    ],
)
def test_history_of_its_own_vendor_stays_the_same_object(
    body: dict[str, Any], dialect: str
) -> None:
    request = decode_request(body, dialect)
    upstream = Upstream(dialect=dialect, base_url="http://x", server=VENDORS[dialect])
    assert disown_foreign_turns(request, upstream) is request


def test_body_without_a_mark_need_not_be_decoded() -> None:
    for dialect, body in (
        ("anthropic", messages()),
        ("anthropic", messages(thinking(PROOF))),
        ("openai_chat", {"messages": [USER], "reasoning_effort": "low"}),
        ("openai_responses", items(reasoning={"effort": "low"})),
        ("gemini", {"contents": [], "budget_tokens": 1}),
    ):
        upstream = Upstream(dialect=dialect, base_url="http://x", server=VENDORS[dialect])
        assert not may_have_foreign_turns(json.dumps(body).encode(), upstream)


def test_reasoning_whose_vendor_an_aggregator_names_is_the_aggregators_own() -> None:
    named = reasoning(encrypted_content=PROOF, format="anthropic-claude-v1")
    body = items(named)
    upstream = Upstream(dialect="openai_responses", base_url="http://x", server="openrouter")
    request = decode_request(body, "openai_responses")
    assert disown_foreign_turns(request, upstream) is request


@pytest.mark.parametrize("before", [0, 1024 * 1024 - 5, 1024 * 1024, 3 * 1024 * 1024])
@pytest.mark.parametrize("mark", [b'"signature" : ""', b'"reasoning_content":"Hm."'])
def test_mark_is_found_wherever_it_stands_in_a_large_body(before: int, mark: bytes) -> None:
    """The body is searched a mebibyte at a time, and a mark may stand across the end of one."""
    upstream = Upstream(dialect="openai_chat", base_url="http://x", server="openai")
    body = b"x" * before + mark + b"x" * 2000
    assert may_have_foreign_turns(body, upstream)
    assert not may_have_foreign_turns(body.replace(mark, b""), upstream)


def test_calls_of_two_servers_with_one_id_get_ids_of_their_own_for_anthropic() -> None:
    """Anthropic answers: "messages: `tool_use` ids must be unique"."""
    body = messages()
    second = messages()["messages"][1:]
    body["messages"] += second
    made, lost = sent(body, "anthropic")
    first, answered, repeated, result = made["messages"][1:]
    assert [first, answered] == second
    assert repeated["content"] == [{**CALL, "id": "c1_2"}]
    assert result["content"] == [{**RESULT, "tool_use_id": "c1_2"}]
    assert lost == ("tool_id_changed",)


def test_calls_of_two_servers_with_one_id_get_ids_of_their_own_for_openai() -> None:
    call = {"type": "function_call", "call_id": "call_0", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_0", "output": "ok"}
    made, lost = sent(items(call, result, call, result), "openai_responses")
    assert made["input"][1:3] == [call, result]
    assert made["input"][3:5] == [
        {**call, "call_id": "call_0_2"},
        {**result, "call_id": "call_0_2"},
    ]
    assert lost == ("tool_id_changed",)


@pytest.mark.parametrize("server", [None, "vllm"])
def test_repeated_ids_stay_for_a_server_that_may_accept_them(server: str | None) -> None:
    upstream = Upstream(dialect="anthropic", base_url="http://x", server=server)
    body = messages()
    body["messages"] += messages()["messages"][1:]
    assert not may_have_foreign_turns(json.dumps(body).encode(), upstream)
    request = decode_request(body, "anthropic")
    assert disown_foreign_turns(request, upstream) is request


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("before", [0, 1024 * 1024 - 20])
def test_id_of_a_call_and_its_result_is_none_that_repeats(dialect: str, before: int) -> None:
    """A body is searched in slices, of which two have what stands where they meet."""
    names = {"anthropic": '"tool_use_id":"c1"', "openai_responses": '"call_id":"c1"'}
    count = 1 if dialect == "anthropic" else 2
    upstream = Upstream(dialect=dialect, base_url="http://x", server=VENDORS[dialect])
    found = " " * before + f"{names[dialect]}," * count
    assert not may_have_foreign_turns(found.encode(), upstream)
    assert may_have_foreign_turns((found + names[dialect]).encode(), upstream)
