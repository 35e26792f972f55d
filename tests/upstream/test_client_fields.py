"""Fields that refusals name: those of the client's own body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from streamnorm import EncodeError, InputMessage, Request, Text, decode_request
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._upstream.auxiliary import call_steps
from streamnorm._upstream.client_fields import name_client_field
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    build_upstream_request,
    match_operation,
)

NO_IMAGE = "data:image/png;base64,@@"
USER = {"role": "user", "content": "Hi."}
CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
OTHER_CALL = {**CALL, "call_id": "b"}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "1"}
OTHER_RESULT = {**RESULT, "call_id": "b"}
IMAGE = {"type": "input_image", "image_url": NO_IMAGE}
SHOWN = {"role": "user", "content": [{"type": "input_text", "text": "Look."}, IMAGE]}
TEXTS = [{"type": "output_text", "text": text, "annotations": []} for text in "ab"]
SAID = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": TEXTS}
GEMINI_USER = {"role": "user", "parts": [{"text": "Hi."}]}
GEMINI_CALL = {"functionCall": {"name": "f", "args": {}, "id": "a"}}
STEP = {"type": "user_input", "content": [{"type": "text", "text": "Hi."}]}
CHAT_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def request_of(path: str, body: dict[str, Any]) -> ClientRequest:
    headers = {"content-type": "application/json"}
    data = json.dumps({"model": "m", **body}).encode()
    return ClientRequest(method="POST", path=path, headers=headers, body=data)


def refused_field(path: str, client: str, body: dict[str, Any], upstream: str) -> str:
    """Return the field that the refusal of a request names."""
    received = request_of(path, body)
    with pytest.raises(RequestRefused) as raised:
        build_upstream_request(received, client, Upstream(dialect=upstream, base_url="https://h"))
    extra = raised.value.error.extra
    assert extra is not None
    field = extra["param"]
    assert raised.value.error.message.startswith(f"{field}: ")
    return str(field)


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([USER, RESULT], "input[1]"),
        ([USER, CALL, OTHER_CALL, RESULT, USER], "input[2]"),
        # A message of two texts and a call are one message of the assistant.
        ([USER, SAID, CALL, USER], "input[2]"),
        ([USER, SHOWN], "input[1].content[1]"),
        # The results become one message for the upstream, so that the next one has another number.
        ([USER, CALL, OTHER_CALL, RESULT, OTHER_RESULT, SHOWN], "input[5].content[1]"),
        ([USER, CALL, {**RESULT, "output": [IMAGE]}], "input[2]"),
        ([USER, CALL, CALL, RESULT], "input[1]"),
        ([], "input"),
    ],
    ids=["orphan", "second", "group", "content", "joined", "nested", "twice", "empty"],
)
def test_field_of_responses(items: list[Any], field: str) -> None:
    asked = {"input": items}
    assert refused_field("/v1/responses", "openai_responses", asked, "anthropic") == field


@pytest.mark.parametrize(
    ("contents", "field"),
    [
        ([GEMINI_USER, {"role": "model", "parts": [GEMINI_CALL]}, GEMINI_USER], "contents[1]"),
        ([GEMINI_USER, {"role": "model", "parts": [{"text": "x"}, GEMINI_CALL]}], "contents[1]"),
    ],
    ids=["call", "text"],
)
def test_field_of_gemini(contents: list[Any], field: str) -> None:
    path = "/v1beta/models/m:generateContent"
    number = len(contents[1]["parts"]) - 1
    asked = {"contents": [*contents, GEMINI_USER], "systemInstruction": {"parts": [{"text": "s"}]}}
    assert refused_field(path, "gemini", asked, "anthropic") == f"{field}.parts[{number}]"


def test_field_of_interactions() -> None:
    result = {"type": "function_result", "call_id": "z", "name": "f", "result": "1"}
    asked = {"input": [STEP, result]}
    field = refused_field("/v1beta/interactions", "gemini_interactions", asked, "anthropic")
    assert field == "input[1]"


@pytest.mark.parametrize(
    ("called", "upstream", "field"),
    [
        ({"role": "assistant", "tool_calls": [CHAT_CALL]}, "gemini", "messages[2].tool_calls[0]"),
        ({"role": "tool", "tool_call_id": "z", "content": "x"}, "anthropic", "messages[2]"),
    ],
    ids=["call", "result"],
)
def test_field_of_chat(called: dict[str, Any], upstream: str, field: str) -> None:
    messages: list[Any] = [{"role": "system", "content": "s"}, USER, called]
    asked = {"messages": [*messages, USER]}
    assert refused_field("/v1/chat/completions", "openai_chat", asked, upstream) == field


def test_other_fields_keep_their_names() -> None:
    asked = {"input": [USER], "tools": [{"type": "web_search"}]}
    assert refused_field("/v1/responses", "openai_responses", asked, "openai_chat") == "tools"


def test_field_of_a_request_for_a_count() -> None:
    asked = {"contents": [GEMINI_USER, {"role": "model", "parts": [GEMINI_CALL]}, GEMINI_USER]}
    received = request_of("/v1beta/models/m:countTokens", asked)
    provider = Upstream(dialect="anthropic", base_url="https://h")
    operation = match_operation(received, "gemini")
    steps = call_steps(received, operation, "gemini", provider, TokenEstimator())
    with pytest.raises(RequestRefused) as raised:
        next(steps)
    assert raised.value.error.extra == {"param": "contents[1].parts[0]"}


def named(path: str, request: Request) -> str:
    return name_client_field(EncodeError("no", path=path), request).path


def test_field_that_the_body_lacks_keeps_its_name() -> None:
    built = Request(model="m", messages=(InputMessage("user", (Text("Hi."),)),))
    assert named("messages[0]", built) == "messages[0]"
    asked = decode_request({"model": "m", "messages": [USER]}, "openai_chat")
    more = structs.replace(asked, messages=(*asked.messages, built.messages[0]))
    for path in (
        "messages[1]",
        "messages[9]",
        "messages[0].blocks[9]",
        "messages[0].tool_calls[0]",
    ):
        assert named(path, more) == path or path.startswith("messages[0]")
    joined = decode_request({"model": "m", "input": [USER, SAID, CALL]}, "openai_responses")
    assert named("messages[1].blocks[0]", joined) == "messages[1].blocks[0]"
    assert named("messages[1].blocks[2]", joined) == "input[2]"
    other = structs.replace(asked, source=structs.replace(asked.source, value={"messages": []}))
    assert named("messages[0]", other) == "messages[0]"
