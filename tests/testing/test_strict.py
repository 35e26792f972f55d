"""A strict fake provider: the requests that it refuses, and how."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import openai
import pytest
from support.http.provider_requests import PATHS, ask, chat, messages, post

from streamnorm._core.blocks import Reasoning
from streamnorm.recording import UnrecordedRequest
from streamnorm.recording.faults import http
from streamnorm.recording.format import WireRequest
from streamnorm.testing import FakeProvider, tool_call
from streamnorm.validation import RequestViolation

SAYS = (
    "Invalid 'max_output_tokens': integer below minimum value. "
    "Expected a value >= 16, but got 10 instead."
)


def response(path: str = "/v1/responses", **more: Any) -> WireRequest:
    """Return a request of Responses."""
    return post(f"https://h{path}", {"model": "gpt-5", "input": "Hi.", **more})


REFUSED = response(max_output_tokens=10)


def test_refused_request_gets_the_error_of_the_vendor() -> None:
    provider = FakeProvider("Hello", strict=True)
    answer = provider.respond(REFUSED)
    assert (answer.status, answer.dialect) == (400, "openai_responses")
    assert dict(answer.headers) == {"content-type": "application/json"}
    assert json.loads(answer.body) == {
        "error": {
            "message": SAYS,
            "type": "invalid_request_error",
            "param": "max_output_tokens",
            "code": "integer_below_min_value",
        }
    }


SAID: list[Any] = [{"role": "user", "content": "Hi."}]


def test_thinking_of_a_fake_is_accepted_in_the_next_turn() -> None:
    """Anthropic demands each thinking block back with its signature."""
    turn: list[Any] = [
        Reasoning(("Hm.",)),
        tool_call("f"),
        Reasoning(("So.",), "b3du", "anthropic"),
        "Hi.",
    ]
    provider = FakeProvider([turn, "Hello"], strict=True)
    options: dict[str, Any] = {"stream": False, "max_tokens": 9}
    answer = json.loads(provider.respond(messages(messages=SAID, **options)).body)
    first, call, second, _ = answer["content"]
    assert b64decode(first["signature"], validate=True)
    assert second["signature"] == "b3du"
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "1"}
    said: list[Any] = [
        *SAID,
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result]},
    ]
    assert provider.respond(messages(messages=said, **options)).status == 200
    assert provider.violations == ()


def test_calls_of_a_fake_are_accepted_in_the_next_turn() -> None:
    """Gemini 3 demands the signature of a step's first call back, and signs no other one."""
    turn: list[Any] = [Reasoning(("Hm.",)), "One moment.", tool_call("f"), tool_call("g")]
    provider = FakeProvider([turn, "Hello"], strict=True)
    url = "https://h/v1beta/models/gemini-3-pro-preview:generateContent"
    tools = [{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]
    said: list[Any] = [{"role": "user", "parts": [{"text": "Hi."}]}]
    answer = json.loads(provider.respond(post(url, {"contents": said, "tools": tools})).body)
    content = answer["candidates"][0]["content"]
    signed = [part for part in content["parts"] if "thoughtSignature" in part]
    assert [part["functionCall"]["name"] for part in signed] == ["f"]
    results: list[Any] = [
        {"functionResponse": {"name": name, "response": {}}} for name in ("f", "g")
    ]
    said = [*said, content, {"role": "user", "parts": results}]
    assert provider.respond(post(url, {"contents": said, "tools": tools})).status == 200
    assert provider.violations == ()


@pytest.mark.parametrize("request_of", [chat, response])
def test_reasoning_that_is_stored_or_text_is_not_signed(request_of: Any) -> None:
    answer = FakeProvider([[Reasoning(("Hm.",)), "Hi."]]).respond(request_of(stream=False))
    assert b"encrypted" not in answer.body
    assert b"signature" not in answer.body


def test_dialects_without_a_parameter_have_the_error_of_the_status() -> None:
    """The error of Anthropic has a type alone, that of Google a status."""
    provider = FakeProvider("Hello", strict=True)
    said = [{"role": "user", "content": "Hi."}]
    answer = provider.respond(messages(stream=False, messages=said))
    assert (answer.status, json.loads(answer.body)) == (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "max_tokens: Field required"},
        },
    )
    schema = {"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}}
    tools = [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]
    contents = [{"role": "user", "parts": [{"text": "Hi."}]}]
    body = {"contents": contents, "tools": tools}
    answer = provider.respond(post(f"https://h{PATHS['gemini']}", body))
    assert (answer.status, json.loads(answer.body)) == (
        400,
        {
            "error": {
                "code": 400,
                "message": "GenerateContentRequest.tools[0].function_declarations[0].parameters"
                ".properties[a].items: missing field.",
                "status": "INVALID_ARGUMENT",
            }
        },
    )


def test_refused_request_is_stored_with_its_violations() -> None:
    provider = FakeProvider("Hello", strict=True)
    provider.respond(REFUSED)
    assert [request.body["max_output_tokens"] for request in provider.requests] == [10]
    assert provider.violations == (
        RequestViolation(
            "openai_responses.max_output_tokens",
            "max_output_tokens",
            SAYS,
            400,
            None,
            "integer_below_min_value",
        ),
    )


def test_refused_request_uses_neither_turn_nor_fault() -> None:
    provider = FakeProvider(["Hello"], faults=[http(503)], strict=True)
    assert provider.respond(REFUSED).status == 400
    assert provider.respond(response()).status == 503
    assert ask(provider, response(stream=True)).text == "Hello"
    assert provider.respond(REFUSED).status == 400
    with pytest.raises(UnrecordedRequest, match="script of 1 turns is over"):
        provider.respond(response())


def test_provider_that_is_not_strict_accepts_every_request() -> None:
    provider = FakeProvider("Hello")
    assert provider.respond(REFUSED).status == 200
    assert provider.violations == ()


def test_rules_are_those_of_the_server() -> None:
    provider = FakeProvider("Hello", strict=True, server="vllm")
    assert provider.respond(REFUSED).status == 200
    assert FakeProvider("Hello", strict=True, server="azure").respond(REFUSED).status == 400


def test_requests_for_no_message_are_not_checked() -> None:
    provider = FakeProvider("Hello", strict=True)
    counted = provider.respond(response("/v1/responses/input_tokens", max_output_tokens=10))
    assert json.loads(counted.body)["error"]["message"] == "a FakeProvider counts no tokens"
    assert provider.violations == ()


def test_path_of_no_route_is_taken_for_a_message() -> None:
    provider = FakeProvider("Hello", dialect="responses", strict=True)
    assert provider.respond(response("/complete", max_output_tokens=10)).status == 400


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"model":"\xff"}'])
def test_body_that_is_no_json_object_is_refused(dialect: str, content: bytes) -> None:
    path = PATHS[dialect].replace("generateContent", "streamGenerateContent")
    provider = FakeProvider("Hello", strict=True)
    answer = provider.respond(WireRequest("POST", f"https://h{path}", (), content))
    assert answer.status == 400
    assert "expected" in json.loads(answer.body)["error"]["message"]
    assert provider.violations == ()


def test_unknown_path_is_still_an_error_of_the_test() -> None:
    with pytest.raises(UnrecordedRequest, match="a path of no known dialect"):
        FakeProvider("Hi", strict=True).respond(post("https://h/complete", {}))


def test_legal_request_is_answered() -> None:
    provider = FakeProvider("Hello", strict=True)
    asked = chat(messages=[{"role": "user", "content": "Hi."}])
    assert (ask(provider, asked).text, provider.violations) == ("Hello", ())


def test_client_raises_the_error_of_a_refusal() -> None:
    provider = FakeProvider("Hello", strict=True)
    with (
        provider.client(openai.DefaultHttpxClient) as http_client,
        openai.OpenAI(api_key="-", http_client=http_client) as client,
        pytest.raises(openai.BadRequestError) as info,
    ):
        client.responses.create(model="gpt-5", input="Hi.", max_output_tokens=10)
    assert (info.value.param, info.value.code) == ("max_output_tokens", "integer_below_min_value")
    assert len(provider.requests) == 1
