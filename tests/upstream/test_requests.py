"""A client's request as the request for its upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from streamnorm import Limits, Request
from streamnorm._upstream.answers import encode_error_response
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
    asks_for_usage,
    build_upstream_request,
    decode_request_body,
    match_operation,
)

SAID = [{"role": "user", "content": "Hi."}]
MESSAGES: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": SAID}
CHAT: dict[str, Any] = {"model": "m", "messages": SAID}
CONTENTS: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}
RESPONSE: dict[str, Any] = {"model": "m", "input": "Hi."}
HEADERS = {"content-type": "application/json", "x-api-key": "canary-7f3a"}


def received(path: str, body: Any, *, method: str = "POST", **headers: str) -> ClientRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return ClientRequest(method=method, path=path, headers={**HEADERS, **named}, body=data)


def test_released_body_is_translated_by_what_was_decoded_and_keeps_its_size() -> None:
    request = structs.replace(received("/v1/messages", MESSAGES), decoded=MESSAGES)
    whole = asked(request, "anthropic", upstream("openai_chat"))
    size = request.size
    request.release()
    request.release()
    assert (request.body, request.size) == (b"", size)
    assert asked(request, "anthropic", upstream("openai_chat")).body == whole.body


def test_reply_names_the_model_where_messages_name_none() -> None:
    request = received("/v1/messages", MESSAGES)
    provider = upstream("bedrock_converse", model_map={"m": "nova"})
    assert asked(request, "anthropic", provider).reply.model == "nova"
    assert asked(request, "anthropic", upstream("openai_chat")).reply.model == ""


def test_another_body_of_a_request_is_decoded_anew() -> None:
    request = structs.replace(received("/v1/messages", MESSAGES), decoded=MESSAGES)
    other = request.with_body(b'{"model":"n"}')
    assert (other.body, other.size, other.decoded) == (b'{"model":"n"}', 13, None)
    assert decode_request_body(request, Limits()) is MESSAGES
    assert decode_request_body(other, Limits()) == {"model": "n"}
    assert received("/v1/messages", None).size == 0


def upstream(dialect: str, **more: Any) -> Upstream:
    return Upstream(dialect=dialect, base_url="https://h", **more)


def asked(
    request: ClientRequest, client: str, provider: Upstream, **options: Any
) -> UpstreamRequest:
    return build_upstream_request(request, client, provider, **options)


def refused(request: ClientRequest, client: str, provider: Upstream, **options: Any) -> Any:
    with pytest.raises(RequestRefused) as raised:
        build_upstream_request(request, client, provider, **options)
    return raised.value


def test_request_is_translated() -> None:
    request = received("/v1/messages", {**MESSAGES, "stream": True, "top_k": 3})
    sent = asked(request, "anthropic", upstream("openai_chat", headers={"x-own": "1"}))
    assert sent.url == "https://h/v1/chat/completions"
    assert json.loads(sent.body) == {
        "model": "m",
        "messages": SAID,
        "max_completion_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert sent.headers["authorization"] == "Bearer canary-7f3a"
    assert sent.headers["x-own"] == "1"
    assert sent.streams
    assert [loss.feature for loss in sent.losses] == ["top_k"]


def test_headers_that_belong_to_the_body_are_sent() -> None:
    sent = asked(received("/v1/chat/completions", CHAT), "openai_chat", upstream("anthropic"))
    assert sent.headers["anthropic-version"] == "2026-10-21"
    assert not sent.streams


def test_request_of_the_same_dialect_is_not_changed() -> None:
    body = {**MESSAGES, "stream": True, "a_new_field": {"b": 1}}
    sent = asked(received("/v1/messages", body), "anthropic", upstream("anthropic"))
    assert json.loads(sent.body) == body
    assert sent.url == "https://h/v1/messages"
    assert sent.losses == ()


@pytest.mark.parametrize(
    ("method", "streams"), [("streamGenerateContent", True), ("generateContent", False)]
)
def test_path_of_gemini_names_model_and_stream(method: str, streams: bool) -> None:
    # `Accept` is what the SDK sends with any request; it decides nothing.
    request = received(f"/v1beta/models/gemini-x:{method}", CONTENTS, accept="text/event-stream")
    sent = asked(request, "gemini", upstream("openai_chat"))
    assert json.loads(sent.body)["model"] == "gemini-x"
    assert sent.streams is streams


def test_body_decides_about_the_stream_and_not_accept() -> None:
    request = received("/v1/messages", MESSAGES, accept="text/event-stream")
    assert not asked(request, "anthropic", upstream("openai_chat")).streams


def test_reply_repeats_the_request_where_the_client_s_dialect_does() -> None:
    request = received("/v1/responses", {**RESPONSE, "temperature": 0.2})
    for dialect in ("anthropic", "openai_chat", "gemini", "gemini_interactions"):
        sent = asked(request, "openai_responses", upstream(dialect))
        assert sent.reply.response == {"temperature": 0.2}
    # An upstream of the same dialect repeats it, which changes nothing of its bytes.
    assert asked(request, "openai_responses", upstream("openai_responses")).reply.response == {}
    chat = received("/v1/chat/completions", {**CHAT, "temperature": 0.2})
    assert asked(chat, "openai_chat", upstream("anthropic")).reply.response == {}


def test_reply_to_a_page_names_the_calls_of_its_chat() -> None:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": "c0", "type": "function", "function": function}]
    asking = [
        {"id": "1", "role": "assistant", "toolCalls": calls},
        {"id": "2", "role": "tool", "toolCallId": "c0", "content": "x"},
    ]
    ids = {"threadId": "t", "runId": "r"}
    provider = upstream("openai_chat", model="m")
    for messages, is_continued in ((asking, True), ([*asking, {"id": "3", **SAID[0]}], False)):
        sent = asked(received("/run", {**ids, "messages": messages}), "ag_ui", provider)
        assert sent.reply.response == ids
        assert sent.reply.calls == {"c0": is_continued}
    assert asked(received("/v1/messages", MESSAGES), "anthropic", provider).reply.calls is None


def test_reply_to_a_client_of_another_dialect_names_the_calls_of_its_history() -> None:
    use = {"type": "tool_use", "id": "get:0", "name": "get", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "get:0", "content": "x"}
    messages = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    request = received("/v1/messages", {**MESSAGES, "messages": messages})
    assert asked(request, "anthropic", upstream("openai_chat")).reply.calls == {"get:0": True}
    # What passes in the client's own dialect is not changed.
    assert asked(request, "anthropic", upstream("anthropic")).reply.calls is None


def test_model_is_mapped_by_its_name() -> None:
    mapped = upstream("openai_chat", model_map={"m": "llama-4", "n": "other"})
    body = json.loads(asked(received("/v1/messages", MESSAGES), "anthropic", mapped).body)
    assert body["model"] == "llama-4"
    own = upstream("anthropic", model_map={"m": "claude-x"})
    body = json.loads(asked(received("/v1/messages", MESSAGES), "anthropic", own).body)
    assert body == {**MESSAGES, "model": "claude-x"}
    path = upstream("gemini", model_map={"m": "gemini-x"})
    sent = asked(received("/v1/messages", MESSAGES), "anthropic", path)
    assert sent.url == "https://h/v1beta/models/gemini-x:generateContent"


def test_server_removes_what_it_refuses() -> None:
    body = {**MESSAGES, "messages": SAID, "temperature": 0.5}
    provider = upstream("openai_chat", server="groq")
    sent = json.loads(asked(received("/v1/messages", body), "anthropic", provider).body)
    assert sent["temperature"] == 0.5


@pytest.mark.parametrize(
    ("options", "includes"),
    [({}, False), ({"stream_options": {"include_usage": True}}, True)],
)
def test_client_that_asks_for_usage_reads_it(options: dict[str, Any], includes: bool) -> None:
    request = received("/v1/chat/completions", {**CHAT, "stream": True, **options})
    assert asked(request, "openai_chat", upstream("anthropic")).include_usage is includes
    # The bytes of the same dialect pass as they are.
    assert asked(request, "openai_chat", upstream("openai_chat")).include_usage


@pytest.mark.parametrize(
    "body", [None, [], {}, {"stream_options": []}, {"stream_options": {"include_usage": 1}}]
)
def test_other_bodies_do_not_ask_for_usage(body: object) -> None:
    assert not asks_for_usage(body)


# Refusals


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/v1/files", "a path of no known endpoint, expected one of anthropic"),
        ("POST", "/v1/chat/completions", "a path of openai_chat, expected one of anthropic"),
        ("GET", "/v1/messages", "another method, expected one that the endpoint has"),
    ],
)
def test_other_path_or_method_is_not_found(method: str, path: str, words: str) -> None:
    with pytest.raises(RequestRefused) as raised:
        match_operation(received(path, MESSAGES, method=method), "anthropic")
    assert (raised.value.error.status_hint, raised.value.error.message) == (404, words)


def test_method_and_path_say_what_is_asked_for() -> None:
    asked = match_operation(received("/v1/messages/count_tokens", MESSAGES), "anthropic")
    assert asked.operation == "count"
    asked = match_operation(received("/v1/responses/resp_1", b"", method="GET"), "openai_responses")
    assert (asked.operation, asked.response_id) == ("response", "resp_1")


UPLOAD = "an upload, expected a JSON body"
OTHER_TYPE = "content-type: another than JSON, expected application/json"


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (None, "application/json", UPLOAD),
        (b"--x", "multipart/form-data; boundary=x", OTHER_TYPE),
        (b"a=1", "application/x-www-form-urlencoded", OTHER_TYPE),
        (b"{}", "text/plain, application/vnd.api+json", OTHER_TYPE),
    ],
)
def test_upload_is_an_unsupported_media_type(
    body: bytes | None, content_type: str, message: str
) -> None:
    request = received("/v1/messages", body, content_type=content_type)
    refusal = refused(request, "anthropic", upstream("openai_chat"))
    assert refusal.error.status_hint == 415
    assert refusal.error.message == message


def test_compressed_body_is_an_unsupported_media_type() -> None:
    request = received("/v1/messages", b"\x1f\x8b", content_encoding="gzip")
    refusal = refused(request, "anthropic", upstream("openai_chat"))
    assert refusal.error.status_hint == 415
    assert refusal.error.message == "a compressed body, expected an uncompressed one"


@pytest.mark.parametrize("kind", ["", "application/json; charset=utf-8", "application/x+json"])
def test_json_has_several_names(kind: str) -> None:
    request = received("/v1/messages", MESSAGES, content_type=kind)
    assert asked(request, "anthropic", upstream("openai_chat")).body


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[]", "no JSON object"),
        (b"\xff", "expected JSON"),
        ({**MESSAGES, "messages": 5}, "messages"),
        ({**MESSAGES, "model": 5}, "model"),
    ],
)
def test_body_of_no_request_is_a_bad_request(body: Any, words: str) -> None:
    refusal = refused(received("/v1/messages", body), "anthropic", upstream("openai_chat"))
    assert refusal.error.status_hint == 400
    assert words in refusal.error.message


def test_body_beyond_the_bounds_is_a_bad_request() -> None:
    limits = Limits(max_event_bytes=10)
    request = received("/v1/messages", MESSAGES)
    refusal = refused(request, "anthropic", upstream("openai_chat"), limits=limits)
    assert "expected at most 10" in refusal.error.message


@pytest.mark.parametrize("target", ["openai_chat", "anthropic", "gemini", "gemini_interactions"])
@pytest.mark.parametrize(
    ("state", "name", "code"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "previous_response_not_found"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_reference", None),
        ({"conversation": "conv_1"}, "conversation", None),
        ({"background": True}, "background", None),
    ],
)
def test_state_of_a_provider_is_refused_by_name(
    target: str, state: dict[str, Any], name: str, code: str | None
) -> None:
    request = received("/v1/responses", {**RESPONSE, **state})
    error = refused(request, "openai_responses", upstream(target)).error
    assert error.status_hint == 400
    assert error.message.startswith(f"{name}: state of another provider")
    assert error.extra == {"param": name}
    assert error.code == code


def test_request_without_a_legal_form_is_a_bad_request() -> None:
    said = [{"role": "tool", "tool_call_id": "call_1", "content": "snow"}]
    request = received("/v1/chat/completions", {"model": "m", "messages": said})
    error = refused(request, "openai_chat", upstream("anthropic")).error
    assert error.status_hint == 400
    assert error.extra is not None
    assert "messages" in error.extra["param"]


OPEN_CALL = {"type": "tool-f", "toolCallId": "c", "state": "input-available", "input": {}}
AGAIN = {"id": "3", "role": "user", "parts": [{"type": "text", "text": "Well?"}]}


def page_request(*steps: dict[str, Any]) -> ClientRequest:
    parts = [each for step in steps for each in ({"type": "step-start"}, step)]
    answer = {"id": "2", "role": "assistant", "parts": parts}
    return received("/ui/chat", {"messages": [AGAIN, answer, AGAIN]})


def test_problem_of_a_page_s_messages_has_no_position_among_those_of_the_request() -> None:
    """Each step of an answer is a message of the request, and no message of the page."""
    request, provider = page_request(OPEN_CALL, OPEN_CALL), upstream("openai_chat", model="m")
    error = refused(request, "ui_message_stream", provider, repair="fill")
    assert str(error) == "$.messages: two calls with one id, expected an id for each"
    assert error.error.extra == {"param": "messages"}


def test_calls_without_results_may_be_answered_for_the_client() -> None:
    request, provider = page_request(OPEN_CALL), upstream("openai_chat", model="m")
    error = refused(request, "ui_message_stream", provider)
    expected = "call without a result, expected one before the next assistant message"
    assert str(error) == f"$.messages: {expected}"
    sent = asked(request, "ui_message_stream", provider, repair="fill")
    assert "No result was recorded" in sent.body.decode()


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "bedrock_converse"])
@pytest.mark.parametrize("arguments", ['{"cmd": "ca', "[1,2]", "null"])
def test_call_that_an_agent_could_not_parse_stays_in_its_conversation(
    dialect: str, arguments: str
) -> None:
    """Codex answers such a call with an error, and sends both in each request after it."""
    call = {"type": "function_call", "call_id": "c", "name": "exec", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "c", "output": "EOF while parsing"}
    body = {**RESPONSE, "input": [*SAID, call, result]}
    sent = asked(received("/v1/responses", body), "openai_responses", upstream(dialect))
    assert json.dumps({"_raw": arguments}, separators=(",", ":")) in sent.body.decode()
    assert b"EOF while parsing" in sent.body
    assert [loss.count for loss in sent.losses if loss.feature == "arguments_raw"] == [1]


def test_problem_of_messages_has_its_position_among_those_of_other_clients() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    said = [*SAID, {"role": "assistant", "content": [call]}, *SAID]
    request = received("/v1/messages", {**MESSAGES, "messages": said})
    error = refused(request, "anthropic", upstream("openai_chat"))
    assert error.error.extra == {"param": "messages[1].content[0]"}


def test_other_problem_of_a_page_s_request_keeps_its_path() -> None:
    error = refused(page_request(), "ui_message_stream", upstream("gemini"))
    assert error.error.extra == {"param": "model"}


def test_refusal_is_shown_as_its_message_alone() -> None:
    assert str(RequestRefused("no such model", 404, code="not_found")) == "no such model"


def test_model_without_a_name_has_no_path() -> None:
    request = received("/v1/chat/completions", {"messages": SAID})
    error = refused(request, "openai_chat", upstream("gemini")).error
    assert (error.status_hint, error.extra) == (400, {"param": "model"})


def test_model_that_leaves_the_base_url_is_a_bad_request() -> None:
    request = received("/v1/messages", {**MESSAGES, "model": "models/../../other"})
    error = refused(request, "anthropic", upstream("gemini")).error
    assert error.status_hint == 400
    assert error.message == "model: a path with dot segments, expected none"


def test_strict_refuses_what_would_be_lost() -> None:
    request = received("/v1/messages", {**MESSAGES, "top_k": 3})
    refusal = refused(request, "anthropic", upstream("openai_chat"), strict=True)
    assert refusal.error.status_hint == 400
    assert [loss.feature for loss in refusal.losses] == ["top_k"]
    assert "top_k" in refusal.error.message
    assert refusal.error.retryable is False


def test_no_secret_is_shown() -> None:
    request = received("/v1/messages", {**MESSAGES, "system": "canary-7f3a"})
    provider = upstream("openai_chat", headers={"authorization": "Bearer canary-7f3a"})
    sent = asked(request, "anthropic", provider)
    for shown in (request, provider, sent, structs.replace(request, method="GET")):
        assert "canary" not in repr(shown)


def test_model_that_all_requests_ask_for_wins() -> None:
    provider = upstream("openai_chat", model="llama-4", model_map={"m": "other"})
    body = json.loads(asked(received("/v1/messages", MESSAGES), "anthropic", provider).body)
    assert body["model"] == "llama-4"
    assert provider.upstream_model("") == "llama-4"


def test_key_of_the_client_passes_only_where_it_may() -> None:
    provider = upstream("openai_chat", forwards_key=False)
    sent = asked(received("/v1/messages", MESSAGES), "anthropic", provider)
    assert "canary" not in str(sent.headers)


def test_request_is_adjusted_before_it_is_encoded() -> None:
    def adjust(request: Request) -> Request:
        return structs.replace(request, temperature=0.5)

    provider = upstream("openai_chat", model="llama-4")
    sent = asked(received("/v1/messages", MESSAGES), "anthropic", provider, adjust=adjust)
    assert json.loads(sent.body)["temperature"] == 0.5
    assert sent.request is not None
    assert (sent.request.model, sent.request.temperature) == ("llama-4", 0.5)


def test_refusal_may_have_headers() -> None:
    assert RequestRefused("no").headers == {}
    assert RequestRefused("no", 429, headers={"retry-after": "1"}).headers == {"retry-after": "1"}


ODD = rb'{ "model":"m", "messages": [ {"role":"user", "content":"\u00e9"} ], "top_p": 1.0 }'


@pytest.mark.parametrize("server", [None, "xai"])
def test_request_of_the_upstream_s_dialect_is_sent_byte_for_byte(server: str | None) -> None:
    request = structs.replace(received("/v1/chat/completions", {}), body=ODD)
    assert asked(request, "openai_chat", upstream("openai_chat", server=server)).body == ODD
    other = upstream("openai_chat", server=server, model="n")
    sent = asked(request, "openai_chat", other).body
    assert b'"messages":[ {"role":"user", "content":"\\u00e9"} ],"top_p":1.0' in sent


THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


@pytest.mark.parametrize(
    "thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}]
)
@pytest.mark.parametrize(
    ("dialect", "server"),
    [
        ("openai_chat", None),
        ("openai_responses", None),
        ("gemini", None),
        ("anthropic", "bedrock"),
        ("anthropic", "deepseek"),
        ("anthropic", "qwen"),
    ],
)
def test_thread_is_refused_where_no_server_holds_it(
    dialect: str, server: str | None, thread: dict[str, str]
) -> None:
    request = received("/v1/messages", {**MESSAGES, "thread": thread})
    exc = refused(request, "anthropic", upstream(dialect, server=server))
    assert exc.error.status_hint == 400
    assert exc.error.extra == {"param": "thread", "details": THREADS}
    answer = encode_error_response(exc.error, "anthropic", upstream=None)
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["type"], error["details"]) == (
        400,
        "invalid_request_error",
        THREADS,
    )


@pytest.mark.parametrize("server", [None, "anthropic"])
def test_thread_is_relayed_to_anthropic(server: str | None) -> None:
    body = {**MESSAGES, "model": "claude-opus-5", "thread": {"type": "create"}}
    sent = asked(received("/v1/messages", body), "anthropic", upstream("anthropic", server=server))
    assert json.loads(sent.body)["thread"] == {"type": "create"}


def test_beta_goes_with_its_field_also_from_the_headers() -> None:
    body = {**MESSAGES, "safeguards": [{"type": "dangerous_tool_use"}]}
    beta = "dangerous-tool-use-2026-09-03"
    request = received("/v1/messages", body, anthropic_beta=f"{beta},new-2026")
    sent = asked(request, "anthropic", upstream("anthropic", server="qwen"))
    assert sent.headers["anthropic-beta"] == "new-2026"
    assert "safeguards" not in json.loads(sent.body)
    request = received("/v1/messages", body, anthropic_beta=beta)
    sent = asked(request, "anthropic", upstream("anthropic", server="qwen"))
    assert "anthropic-beta" not in sent.headers
