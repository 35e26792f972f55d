"""An upstream's whole answer, or its failure, in the client's dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import Completed, Limits, Loss, Reply, StreamError, Usage, message_events
from streamnorm._core.blocks import Text
from streamnorm._core.bodies.request import ToolName
from streamnorm._core.messages import Message
from streamnorm._upstream.answers import (
    TranslatedAnswer,
    encode_error_response,
    translate_answer,
)
from streamnorm._upstream.requests import identify_reply
from streamnorm.codec import encoder

CHAT: dict[str, Any] = {
    "id": "c-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
COMPLETED = Completed("end_turn", Usage(3, 2))


def answer(body: Any, client: str = "anthropic", **options: Any) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return translate_answer(data, client, "openai_chat", **options)


def test_answer_is_translated() -> None:
    found = answer(CHAT)
    assert isinstance(found, TranslatedAnswer)
    body = json.loads(found.body)
    assert (body["type"], body["content"]) == ("message", [{"type": "text", "text": "Hi."}])
    assert (body["stop_reason"], body["model"]) == ("end_turn", "m")
    assert found.outcome == COMPLETED
    assert found.losses == ()


def test_answer_of_the_same_dialect_is_not_changed() -> None:
    data = json.dumps({**CHAT, "new": 1.50}, indent=1).encode()
    found = answer(b"\xef\xbb\xbf \r\n\t" + data, "openai_chat")
    assert (found.body, found.outcome, found.losses) == (data, COMPLETED, ())


RUNNING: dict[str, Any] = {"id": "resp_1", "model": "m", "status": "queued", "output": []}


def test_answer_that_goes_on_in_the_background_is_not_changed() -> None:
    data = json.dumps(RUNNING).encode()
    found = translate_answer(data, "openai_responses", "openai_responses")
    assert found == TranslatedAnswer(data, Completed("other", Usage()), (), has_blocks=False)


@pytest.mark.parametrize("status", ["queued", "in_progress", "new"])
@pytest.mark.parametrize(
    ("client", "reply"),
    [("openai_chat", Reply()), ("openai_responses", Reply(response={"id": "resp_2"}))],
)
def test_answer_that_has_not_ended_is_an_error(client: str, reply: Reply, status: str) -> None:
    data = json.dumps({**RUNNING, "status": status}).encode()
    found = translate_answer(data, client, "openai_responses", reply=reply)
    assert found == StreamError("malformed", "an answer that has not ended, expected its end")


def test_calls_get_the_names_of_the_client() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "a_b", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = Reply({"a_b": ToolName("a.b")})
    for client in ("anthropic", "openai_chat"):
        found = answer({**CHAT, "choices": [choice]}, client, reply=reply)
        assert b'"a.b"' in found.body
        assert b"a_b" not in found.body


def test_no_call_gets_the_id_of_an_earlier_call() -> None:
    """Claude Code leaves out a call whose id it knows, and the model calls again without end."""
    call = {"id": "call_0", "type": "function", "function": {"name": "get", "arguments": "{}"}}
    other = {**call, "id": "call_1"}
    message = {"role": "assistant", "content": None, "tool_calls": [call, other]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = Reply(calls={"call_0": False, "call_0-2": True})
    found = answer({**CHAT, "choices": [choice]}, reply=reply)
    ids = [block["id"] for block in json.loads(found.body)["content"]]
    assert ids == ["call_0-3", "call_1"]
    assert found.losses == (Loss("duplicate_id", "tool call", 1, "written with an id of its own"),)


def test_no_call_of_another_choice_gets_the_id_of_an_earlier_call() -> None:
    call = {"functionCall": {"id": "call_0", "name": "get", "args": {}}}
    content = {"role": "model", "parts": [call]}
    candidates = [{"index": at, "content": content, "finishReason": "STOP"} for at in range(2)]
    data = json.dumps({"candidates": candidates}).encode()
    found = translate_answer(data, "openai_chat", "gemini", reply=Reply(calls={"call_0": False}))
    calls = [each["message"]["tool_calls"][0] for each in json.loads(found.body)["choices"]]
    assert [call["id"] for call in calls] == ["call_0-2", "call_0-3"]


def test_time_is_that_of_the_caller_where_the_answer_has_none() -> None:
    body = {"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]}
    data = json.dumps(body).encode()
    found = translate_answer(data, "openai_chat", "gemini", created=1700000000.5)
    assert isinstance(found, TranslatedAnswer)
    assert json.loads(found.body)["created"] == 1700000000


@pytest.mark.parametrize(
    "client", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_stream_that_nobody_asked_for_is_read_to_its_end(client: str) -> None:
    writer = encoder("openai_chat")
    message = Message("c-1", "m", (Text("Hi."),), "end_turn", usage=Usage(3, 2))
    events = message_events(message)
    data = b"".join(map(writer.encode, events)) + writer.close()
    found = answer(data, client)
    assert isinstance(found, TranslatedAnswer)
    assert b"Hi." in found.body
    assert found.outcome == COMPLETED


def test_further_answers_are_counted_as_lost() -> None:
    choices = [{**CHAT["choices"][0], "index": index} for index in (0, 1)]
    losses: list[Loss] = []
    found = answer({**CHAT, "choices": choices}, on_loss=losses.append)
    assert found.losses == (Loss("choices", "choice 1", 1, "dropped"),)
    assert losses == [*found.losses]
    same = answer({**CHAT, "choices": choices}, "openai_chat", on_loss=losses.append)
    assert same.losses == ()
    assert len(losses) == 1


def test_answer_above_the_bound_is_too_large() -> None:
    """A generated image may be: the answer is legal, and its operator can raise the bound."""
    size = len(json.dumps(CHAT))
    found = answer(CHAT, limits=Limits(max_event_bytes=size - 1))
    message = f"max_event_bytes of {size - 1} passed"
    assert found == StreamError("too_large", message, code="max_event_bytes")
    assert isinstance(answer(CHAT, limits=Limits(max_event_bytes=size)), TranslatedAnswer)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", StreamError("truncated", "", retryable=True)),
        (b"<html>", StreamError("malformed", "an HTML page, expected an answer of openai_chat")),
        (b"hello", StreamError("malformed", "")),
        (b'{"id":1', StreamError("malformed", "an answer that is not of openai_chat")),
        ({"id": 1}, StreamError("malformed", "an answer that is not of openai_chat")),
        (
            {"error": {"message": "slow down", "type": "rate_limit_error"}},
            StreamError("upstream", "slow down", status_hint=429, retryable=True),
        ),
        (
            b'data: {"error":{"message":"slow down","type":"rate_limit_error"}}\n\n',
            StreamError("upstream", "slow down", status_hint=429, retryable=True),
        ),
        (
            b'data: {"id":"c","choices":[{"index":1,"delta":{"content":"a"},'
            b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
            StreamError("malformed", "choice 1 alone, expected choice 0"),
        ),
    ],
)
def test_what_is_no_answer_is_an_error(body: Any, error: StreamError) -> None:
    found = answer(body)
    assert isinstance(found, StreamError)
    assert found.kind == error.kind
    assert error.message in found.message
    assert (found.status_hint, found.retryable) == (error.status_hint, error.retryable)


def test_stream_that_breaks_off_is_an_error() -> None:
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    found = answer(f"data: {json.dumps(chunk)}\n\n".encode())
    assert isinstance(found, StreamError)
    assert found.kind == "truncated"


def test_answer_without_a_legal_form_is_an_error() -> None:
    """A call whose name no client's tool has cannot be written as that tool's."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    found = answer({**CHAT, "choices": [choice]})
    assert isinstance(found, StreamError)
    assert found.kind == "malformed"


SCREENSHOT = {
    "id": "cu_1",
    "type": "computer_call",
    "call_id": "call_1",
    "status": "completed",
    "action": {"type": "screenshot"},
    "pending_safety_checks": [],
}


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
def test_call_that_waits_for_the_client_is_the_error_of_a_stream(client: str) -> None:
    """Another status than 400 would be asked again, and paid again, for the same answer."""
    body = {**RUNNING, "status": "completed", "output": [SCREENSHOT]}
    found = translate_answer(json.dumps(body).encode(), client, "openai_responses")
    message = f"computer_call waits for the client, expected a call that {client} has"
    assert found == StreamError("malformed", message, "computer_call", 400, retryable=False)
    response = encode_error_response(found, client, upstream="openai_responses")
    assert response.status == 400
    assert json.loads(response.body)["error"]["message"] == message


# Errors


def test_error_of_a_page_says_that_it_is_no_json() -> None:
    error = StreamError("upstream", "Slow down.", status_hint=429)
    found = encode_error_response(error, "ui_message_stream", upstream="anthropic")
    assert (found.status, found.body) == (429, b"Slow down.")
    assert found.headers == {"content-type": "text/plain; charset=utf-8"}
    assert encode_error_response(error, "ag_ui", upstream="anthropic").headers == {}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StreamError("upstream", "no", status_hint=429), 429),
        (StreamError("upstream", "no"), 502),
        (StreamError("upstream", "moved", status_hint=307), 502),
        (StreamError("malformed", "no", status_hint=400), 400),
        (StreamError("malformed", "no"), 502),
        (StreamError("truncated", "no"), 502),
        (StreamError("stalled", "no"), 504),
    ],
)
def test_error_has_the_status_of_the_provider(error: StreamError, status: int) -> None:
    found = encode_error_response(error, "gemini", upstream="openai_chat")
    assert found.status == status
    assert json.loads(found.body)["error"]["code"] == status


@pytest.mark.parametrize(
    ("client", "upstream", "status"),
    [
        ("gemini", "anthropic", 503),
        ("openai_responses", "openai_chat", 503),
        ("anthropic", "openai_chat", 529),
        ("openai_chat", "openai_chat", 529),
    ],
)
def test_overloaded_provider_has_the_status_that_the_client_sends_again_after(
    client: str, upstream: str, status: int
) -> None:
    error = StreamError("upstream", "no", status_hint=529)
    assert encode_error_response(error, client, upstream=upstream).status == status


@pytest.mark.parametrize(
    ("upstream", "param"), [(None, "input"), ("openai_chat", "input"), ("anthropic", None)]
)
def test_fields_of_the_vendor_pass_to_its_own_clients(
    upstream: str | None, param: str | None
) -> None:
    error = StreamError("upstream", "no", status_hint=400, extra={"param": "input"})
    found = encode_error_response(error, "openai_chat", upstream=upstream)
    assert json.loads(found.body)["error"]["param"] == param


@pytest.mark.parametrize(
    ("client", "fields"),
    [
        ("openai_chat", {"code": "context_length_exceeded"}),
        ("openai_responses", {"code": "context_length_exceeded"}),
        ("anthropic", {"message": "prompt is too long: 9 tokens > 8 maximum"}),
        (
            "gemini",
            {
                "message": "The input token count (9) exceeds the maximum number of tokens allowed "
                "(8).",
                "status": "INVALID_ARGUMENT",
            },
        ),
    ],
)
@pytest.mark.parametrize(
    "upstream", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
def test_request_that_is_too_long_is_refused_as_the_client_knows_it(
    client: str, fields: dict[str, Any], upstream: str
) -> None:
    """A server of any dialect may be llama.cpp, which has said 500."""
    message = "request (9 tokens) exceeds the available context size (8 tokens)"
    error = StreamError("upstream", message, "exceed_context_size_error", 500)
    found = encode_error_response(error, client, upstream=upstream)
    written = json.loads(found.body)["error"]
    assert (found.status, written | fields) == (400, written)


def test_further_answers_of_a_stream_are_counted_as_lost() -> None:
    frames: list[bytes] = []
    for index in (0, 1):
        choice = {"index": index, "delta": {"content": "Hi."}, "finish_reason": "stop"}
        chunk = {"id": "c-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        frames.append(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    found = answer(b"".join([*frames, b"data: [DONE]\n\n"]))
    assert isinstance(found, TranslatedAnswer)
    assert Loss("choices", "choice 1", 1, "dropped") in found.losses


def test_answer_without_a_name_gets_that_of_the_reply() -> None:
    """Converse names neither the message nor its model."""
    body = {
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
    reply = identify_reply(Reply(model="nova"), "req-1")
    assert reply == Reply(id="req-1", model="nova")
    answer = translate_answer(
        json.dumps(body).encode(), "anthropic", "bedrock_converse", reply=reply
    )
    assert isinstance(answer, TranslatedAnswer)
    written = json.loads(answer.body)
    assert (written["id"], written["model"]) == ("req-1", "nova")


def test_reply_of_a_named_message_needs_no_id() -> None:
    assert identify_reply(Reply(), "req-1") == Reply()
    assert identify_reply(Reply(model="nova"), "x" * 513) == Reply(model="nova")
    assert identify_reply(Reply(model="nova"), "req\udcff") == Reply(model="nova")
