"""A provider that says what a test tells it to: which requests it answers, and how."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from msgspec import structs
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered
from support.http.provider_requests import (
    PATHS,
    ask,
    chat,
    message_of,
    messages,
    post,
    request_for,
)

from streamnorm import (
    Message,
    MessageStart,
    MessageStop,
    Reasoning,
    Text,
    ToolCall,
    UnknownDialect,
    Usage,
    decode_message,
)
from streamnorm._core.codec import Endpoints
from streamnorm.recording import UnrecordedRequest
from streamnorm.recording.faults import cut, http, truncate
from streamnorm.recording.format import WireRequest
from streamnorm.testing import FakeProvider, FakeRequest, tool_call

STREAMED = {"model": "asked-1", "stream": True, "messages": []}

# Turns


def test_turns_answer_requests_of_any_dialect_in_order() -> None:
    provider = FakeProvider(("One", "Two"))
    assert [ask(provider, messages()).text, ask(provider, chat()).text] == ["One", "Two"]


@pytest.mark.parametrize("turns", [0, 2])
def test_request_after_the_last_turn_is_an_error(turns: int) -> None:
    provider = FakeProvider(["Hello"] * turns)
    for _ in range(turns):
        provider.respond(chat())
    words = f"^POST /v1/chat/completions: the script of {turns} turns is over$"
    with pytest.raises(UnrecordedRequest, match=words):
        provider.respond(chat())


def test_single_turn_answers_every_request() -> None:
    provider = FakeProvider("Hello")
    answers = [ask(provider, chat()) for _ in range(3)]
    assert [(answer.text, answer.id) for answer in answers] == [
        ("Hello", "msg_1"),
        ("Hello", "msg_2"),
        ("Hello", "msg_3"),
    ]


def test_concurrent_requests_get_one_turn_each() -> None:
    provider = FakeProvider([[f"word{n}", tool_call("f")] for n in range(200)])
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: ask(provider, chat()), range(200)))
    assert {answer.text for answer in answers} == {f"word{n}" for n in range(200)}
    # The ids belong to the turns, whoever gets them.
    assert {(answer.text, answer.tool_calls[0].id) for answer in answers} == {
        (f"word{n}", f"call_{n + 1}") for n in range(200)
    }
    assert len(provider.requests) == 200


def test_function_may_ask_the_provider_again() -> None:
    provider: FakeProvider
    inner = chat(messages=[{"role": "user", "content": "inner"}])

    def answer(request: FakeRequest) -> str:
        return "inside" if request.body["messages"] else ask(provider, inner).text + " out"

    provider = FakeProvider(answer)
    assert ask(provider, chat()).text == "inside out"


# Dialects


def test_dialect_is_that_of_the_path_or_of_the_option() -> None:
    elsewhere = post("http://gateway/complete", STREAMED)
    assert FakeProvider("Hi", dialect="claude").respond(elsewhere).dialect == "anthropic"
    assert FakeProvider("Hi", dialect="openai").respond(messages()).dialect == "openai_chat"
    provider = FakeProvider("Hi")
    words = r"^POST /complete: a path of no known dialect; FakeProvider\(…, dialect=…\)"
    with pytest.raises(UnrecordedRequest, match=words):
        provider.respond(elsewhere)
    assert [request.dialect for request in provider.requests] == [None]


def test_dialect_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(UnknownDialect, match="'esperanto'"):
        FakeProvider("Hi", dialect="esperanto")


def test_dialect_that_cannot_be_written_answers_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamnorm.testing.fake.detect_url", lambda _: "esperanto")
    with pytest.raises(UnrecordedRequest, match=r"^POST /v1/messages: no dialect") as info:
        FakeProvider("Hi").respond(messages())
    assert isinstance(info.value.__cause__, UnknownDialect)


GOOGLE = "https://google.example/v1beta/models/asked-1"


def test_path_of_gemini_asks_for_a_stream_and_names_the_model() -> None:
    provider = FakeProvider("Hello", faults=[http(503)])
    stream = post(f"{GOOGLE}:streamGenerateContent?alt=sse", {"contents": []})
    refused = provider.respond(stream)
    assert (refused.status, json.loads(refused.body)["error"]["status"]) == (503, "UNAVAILABLE")
    answer = ask(provider, stream)
    assert (answer.text, answer.model, answer.id) == ("Hello", "asked-1", "msg_1")
    whole = provider.respond(post(f"{GOOGLE}:generateContent", {"contents": []}))
    assert decode_message(whole.body, "gemini").model == "asked-1"
    assert [request.dialect for request in provider.requests] == ["gemini"] * 3


# Whole bodies

MESSAGE = Message(
    "msg_own",
    "own-1",
    (Text("One moment."), ToolCall("call_1", "f", '{"city":"Oslo"}')),
    "tool_use",
    usage=Usage(30, 7, 0, 0),
)


def content_of(message: Message) -> object:
    """Return what a stream and a whole body both hold of a message."""
    counts = (message.usage.input_tokens, message.usage.output_tokens)
    return message.model, message.blocks, message.stop_reason, counts


@pytest.mark.parametrize("dialect", PATHS)
def test_whole_body_is_the_message_of_the_stream(dialect: str) -> None:
    answer = FakeProvider(MESSAGE).respond(request_for(dialect, stream=False))
    assert (answer.status, answer.headers) == (200, {"content-type": "application/json"})
    assert (answer.end, answer.dialect) == ("eof", dialect)
    whole = decode_message(answer.body, dialect)
    streamed = ask(FakeProvider(MESSAGE), request_for(dialect, stream=True))
    assert content_of(whole) == content_of(streamed) == content_of(MESSAGE)
    assert whole.id == streamed.id


@pytest.mark.parametrize("dialect", PATHS)
def test_missing_values_of_a_whole_body_are_filled_in(dialect: str) -> None:
    provider = FakeProvider([["Hi", tool_call("f", a=1)], "Hello."])
    first, second = (
        decode_message(provider.respond(request_for(dialect, stream=False)).body, dialect)
        for _ in range(2)
    )
    assert first.id == ("resp_1" if dialect == "openai_responses" else "msg_1")
    assert (first.model, first.text) == ("asked-1", "Hi")
    assert [(call.id, call.arguments) for call in first.tool_calls] == [("call_1", '{"a":1}')]
    assert (first.stop_reason, second.stop_reason) == ("tool_use", "end_turn")
    assert second.usage.output_tokens == 2  # of six characters
    assert provider.losses == ()


def test_model_option_is_written_into_whole_bodies() -> None:
    body = FakeProvider(MESSAGE, model="fake-1").respond(chat(stream=False)).body
    assert decode_message(body, "openai_chat").model == "fake-1"


def test_request_that_does_not_say_stream_gets_a_whole_body() -> None:
    answer = FakeProvider("Hi").respond(post("https://h/v1/messages", {"messages": []}))
    assert decode_message(answer.body, "anthropic").text == "Hi"


def test_losses_of_whole_bodies_are_counted() -> None:
    provider = FakeProvider([[Reasoning(("Cold.",), "c2lnbmVk", "anthropic"), "Cold."]])
    provider.respond(chat(stream=False))
    assert [loss.feature for loss in provider.losses] == ["signature"]


@pytest.mark.parametrize("body", [[], "text", 5])
def test_whole_body_without_a_request_is_refused_and_uses_no_turn(body: object) -> None:
    provider = FakeProvider(["Hello"], faults=[truncate(event=1)])
    chat_answer = provider.respond(post("https://h/v1/chat/completions", body))
    answer = provider.respond(post("https://h/v1/messages", body))
    assert (chat_answer.status, answer.status) == (400, 400)
    assert answer.headers["content-type"] == "application/json"
    words = "no JSON object in the body, expected one"
    assert json.loads(answer.body) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": words},
    }
    error = json.loads(chat_answer.body)["error"]
    assert (error["message"], error["type"]) == (words, "invalid_request_error")
    assert provider.respond(chat()).status == 200


@pytest.mark.parametrize(
    "path", ["/v1/messages/count_tokens", "/v1beta/models/asked-1:countTokens"]
)
def test_request_that_counts_tokens_is_refused_and_uses_no_turn(path: str) -> None:
    provider = FakeProvider(["Hello"])
    answer = provider.respond(post(f"https://h{path}", {"messages": []}))
    assert answer.status == 400
    assert json.loads(answer.body)["error"]["message"] == "a FakeProvider counts no tokens"
    assert provider.respond(chat()).status == 200


def test_dialect_without_whole_bodies_is_only_streamed() -> None:
    with registered(structs.replace(TELEGRAPH, body=None, endpoints=Endpoints())):
        provider = FakeProvider("Hello", dialect="telegraph")
        answer = provider.respond(post("https://h/", {}))
        assert answer.status == 400
        words = "a FakeProvider has only streams of telegraph"
        assert json.loads(answer.body)["message"] == words
        assert ask(provider, post("https://h/", {"stream": True})).text == "Hello"


# Models


def test_model_option_precedes_the_message_and_the_request() -> None:
    own = Message(model="own-1", blocks=(Text("Hi"),))
    assert ask(FakeProvider(own), chat()).model == "own-1"
    assert ask(FakeProvider("Hi"), chat()).model == "asked-1"
    assert ask(FakeProvider(own, model="fake-1"), chat()).model == "fake-1"
    events = [MessageStart("m", "own-2"), MessageStop("end_turn")]
    assert ask(FakeProvider(events), messages()).model == "own-2"
    assert b'"model":""' in FakeProvider("Hi").respond(chat(model=None)).body


# Losses


def test_losses_are_counted() -> None:
    signed = Reasoning(("Cold.",), "c2lnbmVk", "anthropic")
    provider = FakeProvider([[signed, "Cold."]] * 2)
    assert ask(provider, messages()).blocks[0] == signed
    assert provider.losses == ()
    assert ask(provider, chat()).text == "Cold."
    assert [loss.feature for loss in provider.losses] == ["signature"]


# Faults


def test_faults_change_the_first_answers_or_all() -> None:
    faults = [http(529, times=2), truncate(byte=12), http(500)]
    provider = FakeProvider(["One", "Two"], faults=faults)
    answers = [provider.respond(chat()) for _ in range(5)]
    assert [answer.status for answer in answers] == [529, 529, 500, 200, 200]
    assert "error" in json.loads(answers[0].body)
    assert [len(answer.body) for answer in answers[3:]] == [12, 12]
    with pytest.raises(UnrecordedRequest):  # the errors took none of the two turns
        provider.respond(chat())


def test_faults_of_the_turn_come_before_those_of_the_provider() -> None:
    provider = FakeProvider([["Hello", cut(byte=20)]], faults=[truncate(byte=10)])
    playback = provider.respond(chat())
    assert (len(playback.body), playback.end) == (10, "eof")


def test_replacing_fault_for_all_uses_no_turn() -> None:
    provider = FakeProvider([], faults=[http(503, times=None)])
    assert [provider.respond(chat()).status for _ in range(3)] == [503] * 3


@pytest.mark.parametrize("dialect", PATHS)
def test_replacing_fault_also_answers_a_request_for_a_whole_body(dialect: str) -> None:
    provider = FakeProvider("Hello", faults=[http(503)])
    asked = request_for(dialect, stream=False)
    assert [provider.respond(asked).status for _ in range(2)] == [503, 200]


# Requests


def test_requests_can_be_asserted_on() -> None:
    provider = FakeProvider("Hello")
    provider.respond(messages(max_tokens=5))
    headers = (
        ("X-Tenant", "blue"),
        ("x-api-key", "canary-1"),
        ("X-Goog-Api-Key", "canary-2"),
        ("Cookie", "session=canary-3"),
        ("Proxy-Authorization", "Basic canary-4"),
        ("x-amz-security-token", "canary-5"),
    )
    provider.respond(post("https://h/v1/chat/completions?key=canary-6", STREAMED, headers))
    first, second = provider.requests
    assert (first.method, first.path, first.dialect) == ("POST", "/v1/messages", "anthropic")
    assert first.body == {**STREAMED, "max_tokens": 5}
    assert first.headers == {"content-type": "application/json"}
    assert (second.path, second.dialect) == ("/v1/chat/completions", "openai_chat")
    assert second.headers == {"x-tenant": "blue"}
    assert repr(first) == "FakeRequest('POST', '/v1/messages')"


@pytest.mark.parametrize("body", [None, b"", b"a=1&b=2", b"\xff\xfe", b"[" * 10_000])
def test_request_without_json_has_no_body(body: bytes | None) -> None:
    provider = FakeProvider("Hello")
    answer = provider.respond(WireRequest("PUT", "http://h/v1/messages", (), body))
    assert answer.status == 400
    assert [(request.method, request.body) for request in provider.requests] == [("PUT", None)]


def test_requests_are_a_snapshot() -> None:
    provider = FakeProvider(["Hello"])
    before = provider.requests
    provider.respond(chat())
    assert (before, len(provider.requests)) == ((), 1)


# Clients and applications


@pytest.mark.parametrize("package", [httpx, httpx2])
def test_client_of_either_package_is_answered(package: Any) -> None:
    class Derived(package.Client):  # type: ignore[misc]  # as the official SDKs do
        pass

    provider = FakeProvider(["One", "Two", "Three"])
    texts = []
    for client in (
        provider.client(package.Client),
        provider.client(Derived, headers={"x-tenant": "blue"}),
        package.Client(transport=provider.transport(package.__name__)),
    ):
        with client:
            response = client.post("http://h/v1/messages", json=STREAMED)
        texts.append(message_of(response.content, "anthropic").text)
    assert texts == ["One", "Two", "Three"]
    assert [request.headers.get("x-tenant") for request in provider.requests] == [
        None,
        "blue",
        None,
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("package", [httpx, httpx2])
async def test_concurrent_requests_of_an_asynchronous_client_are_answered(package: Any) -> None:
    provider = FakeProvider([f"word{n}" for n in range(5)])
    texts = set()

    async def ask_one(client: Any) -> None:
        response = await client.post("http://h/v1/messages", json=STREAMED)
        texts.add(message_of(response.content, "anthropic").text)

    async with provider.client(package.AsyncClient) as client, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask_one, client)
    assert texts == {f"word{n}" for n in range(5)}


@pytest.mark.anyio
async def test_asgi_application_is_answered() -> None:
    provider = FakeProvider(["Hello"])
    transport = httpx.ASGITransport(provider.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
        response = await client.post("/v1/messages", json=STREAMED)
        assert response.headers["content-type"] == "text/event-stream"
        assert message_of(response.content, "anthropic").text == "Hello"
        assert (await client.post("/v1/messages", json=STREAMED)).status_code == 404
    assert [request.path for request in provider.requests] == ["/v1/messages"] * 2


def test_class_that_is_no_client_is_refused() -> None:
    with pytest.raises(TypeError, match="expected Client or AsyncClient of httpx or httpx2"):
        FakeProvider("Hello").client(dict)


def test_first_event_of_anthropic_says_how_many_tokens_the_request_has() -> None:
    playback = FakeProvider(["Hello."]).respond(messages(stream=True))
    first, *_ = [
        json.loads(line[6:]) for line in playback.body.splitlines() if line[:6] == b"data: "
    ]
    assert first["type"] == "message_start"
    assert first["message"]["usage"]["input_tokens"] > 0
