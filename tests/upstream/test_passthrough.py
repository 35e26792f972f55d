"""A client's request for an upstream of its own dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import Limits
from streamnorm._core.bodies.request import Reply
from streamnorm._upstream.passthrough import passthrough_body, prepare_passthrough
from streamnorm._upstream.requests import ClientRequest, RequestRefused, Upstream, UpstreamRequest

CANARY = "canary-7f3a"
MESSAGES = b'{ "model": "m",\n"messages": [{"role": "user", "content": "Hi."}], "new": 1.50 }'
CONTENTS = b'{"contents": [{"parts": [{"text": "Hi."}]}]}'
KEY = {"x-api-key": CANARY, "authorization": f"Bearer {CANARY}"}


def passed(
    body: bytes,
    path: str = "/v1/messages",
    dialect: str = "anthropic",
    *,
    headers: dict[str, str] | None = None,
    query: dict[str, str] | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    own: dict[str, str] | None = None,
    **more: Any,
) -> UpstreamRequest:
    received = ClientRequest(
        method="POST",
        path=path,
        headers=headers or {},
        body=body,
        query=tuple((query or {}).items()),
    )
    upstream = Upstream(dialect=dialect, base_url="https://h/tenant", headers=own or {}, **more)
    return prepare_passthrough(received, upstream, limits=limits)


def refusal(body: bytes, **options: Any) -> str:
    with pytest.raises(RequestRefused) as raised:
        passed(body, **options)
    error = raised.value.error
    assert error.status_hint == 400
    assert CANARY not in repr(raised.value) + repr(error)
    return error.message.removeprefix("$: ")


def test_request_is_passed_byte_for_byte() -> None:
    sent = passed(MESSAGES, headers={"anthropic-beta": "new-2026", "cookie": CANARY})
    assert sent.body == MESSAGES
    assert (sent.method, sent.url) == ("POST", "https://h/tenant/v1/messages")
    assert sent.headers["anthropic-beta"] == "new-2026"
    assert CANARY not in str(sent.headers)
    assert (sent.streams, sent.reply, sent.losses) == (False, Reply(), ())
    assert sent.include_usage
    assert sent.request is None


@pytest.mark.parametrize(
    ("dialect", "path", "body", "streams"),
    [
        ("anthropic", "/v1/messages", b'{"model":"m","stream":true}', True),
        ("openai_chat", "/v1/chat/completions", b'{"model":"m","stream":false}', False),
        ("openai_responses", "/v1/responses", b'{"model":"m","stream":true}', True),
        ("gemini", "/v1beta/models/m:streamGenerateContent", CONTENTS, True),
        ("gemini", "/v1beta/models/m:generateContent", CONTENTS, False),
        ("openai_chat", "/v1/unknown", b'{"model":"m","stream":true}', False),
    ],
)
def test_path_or_body_asks_for_a_stream(
    dialect: str, path: str, body: bytes, *, streams: bool
) -> None:
    sent = passed(body, path, dialect)
    assert sent.streams is streams
    assert sent.body == body


# The model


@pytest.mark.parametrize("names", [{"model": "claude-x"}, {"model_map": {"m": "claude-x"}}])
def test_model_alone_is_changed(names: dict[str, Any]) -> None:
    sent = passed(MESSAGES, **names)
    changed = b'{"model":"claude-x","messages":[{"role": "user", "content": "Hi."}],"new":1.50}'
    assert sent.body == changed


def test_model_of_the_same_name_changes_nothing() -> None:
    assert passed(MESSAGES, model="m", model_map={"m": "x"}).body == MESSAGES


def test_model_is_named_where_the_client_names_none() -> None:
    assert passed(b'{"messages":[]}', model="m").body == b'{"messages":[],"model":"m"}'


def test_model_of_a_body_that_only_the_slow_parser_reads_is_changed() -> None:
    sent = passed(rb'{"model":"m","\ud800":"a"}', model="x")
    assert json.loads(sent.body) == {"model": "x", "\ufffd": "a"}


@pytest.mark.parametrize(
    ("name", "own", "path"),
    [
        ("m", "gemini-x", "/v1beta/models/gemini-x:generateContent"),
        ("models/m", "x", "/v1beta/models/x:generateContent"),
        ("org/m", "x", "/v1beta/models/x:generateContent"),
        ("m:m", "x", "/v1beta/models/x:generateContent"),
        ("m", "a b?c#d", "/v1beta/models/a%20b%3Fc%23d:generateContent"),
    ],
)
def test_model_in_the_path_is_changed_there(name: str, own: str, path: str) -> None:
    body = b'{"model":"m","contents":[]}'  # which the vendor does not read
    sent = passed(body, f"/v1beta/models/{name}:generateContent", "gemini", model=own)
    assert sent.url == f"https://h/tenant{path}"
    assert sent.body == body


def test_model_that_leaves_the_base_url_is_refused() -> None:
    path = "/v1beta/models/../../admin:generateContent"
    assert "dot segments" in refusal(CONTENTS, path=path, dialect="gemini")


# What passes


def test_only_known_fields_of_the_query_pass() -> None:
    query = {"alt": "sse", "key": CANARY, "beta": "true", "x": "y"}
    path = "/v1beta/models/m:streamGenerateContent"
    assert passed(CONTENTS, path, "gemini", query=query).url.endswith("Content?alt=sse")
    assert passed(MESSAGES, query=query).url == "https://h/tenant/v1/messages?beta=true"
    odd = passed(MESSAGES, query={"beta": "a&b=c d\n#"}).url
    assert odd == "https://h/tenant/v1/messages?beta=a%26b%3Dc+d%0A%23"


def test_path_is_quoted() -> None:
    sent = passed(CONTENTS, "/v1beta/models/a?b#c\r\n@h:generateContent", "gemini")
    assert sent.url == "https://h/tenant/v1beta/models/a%3Fb%23c%0D%0A@h:generateContent"


def test_key_passes_only_where_it_may() -> None:
    assert passed(MESSAGES, headers=KEY).headers["x-api-key"] == CANARY
    for options in ({"forwards_key": False}, {"own": {"x-api-key": "own"}}):
        sent = passed(MESSAGES, headers=KEY, **options)
        assert CANARY not in str(sent.headers)


# What is refused


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        rb'{"model":"a","m\u006fdel":"b"}',
        b'{"a":{"b":[{"canary-7f3a":1,"canary-7f3a":1}]}}',
        b'{"a":{"b":1,"b":2},"a":3}',
        b'{"":1,"":2}',
        rb'{"\ud800":1,"\ud800":2}',
    ],
)
def test_key_that_stands_twice_is_refused(body: bytes) -> None:
    assert refusal(body) == "an object with a key twice, expected each key once"


def test_same_key_of_different_objects_is_none() -> None:
    body = b'{"a":{"a":[{"a":1},{"a":1}]},"A":1}'
    assert passed(body).body == body


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "a JSON object"),
        (b"[]", "no JSON object, expected one"),
        (b"{", "expected a JSON object"),
        (b'{"a":"canary-7f3a', "expected a JSON object"),
        (b'{"temperature":NaN}', "$.temperature: NaN, Infinity or a number beyond a double"),
        (b'{"temperature":-Infinity}', "$.temperature: NaN, Infinity or a number beyond"),
        (b'{"temperature":1e400}', "$.temperature: NaN, Infinity or a number beyond a double"),
        (b'{"temperature":NaN,"temperature":1}', "no strict JSON, expected a JSON object"),
        (b'{"seed":%s}' % (b"1" * 5000), "expected a JSON object"),
        (b'{"model":5,"a":"\xff"}', "is not UTF-8, expected JSON"),
        ('{"model":"m"}'.encode("utf-16"), "expected JSON"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "nested deeper than 128, expected at most that"),
        (b'{"a":' + b"[" * 129 + b"]" * 129 + b',"b":1}', "nested deeper than 128"),
        (b'{"a":' + b"[" * 99999 + b"]" * 99999 + b',"a":1}', "nested deeper than 128"),
    ],
    ids=lambda value: str(value[:30]),
)
def test_body_that_is_no_object_within_the_bounds_is_refused(body: bytes, found: str) -> None:
    assert found in refusal(body)


@pytest.mark.parametrize("depth", [200, 500, 800, 900, 950, 980])
def test_depth_of_what_a_later_key_hides_is_bounded(depth: int) -> None:
    message = refusal(b'{"a":' + b"[" * depth + b"]" * depth + b',"a":1}')
    assert message.startswith(("nested deeper", "an object with a key twice", "no strict JSON"))


def test_size_is_bounded() -> None:
    size = len(MESSAGES)
    assert passed(MESSAGES, limits=Limits(max_event_bytes=size)).body == MESSAGES
    found = refusal(MESSAGES, limits=Limits(max_event_bytes=size - 1))
    assert found == f"{size} bytes, expected at most {size - 1}"


# Named servers


CHAT = "/v1/chat/completions"
ODD = rb'{"messages": [ {"role":"user", "content":"\u00e9"} ], "top_p": 1.0, "model": "grok-4"'


def test_request_passes_byte_for_byte_where_its_server_refuses_nothing() -> None:
    sent = passed(ODD + b"}", CHAT, "openai_chat", server="xai")
    assert sent.body == ODD + b"}"
    assert (sent.losses, sent.reply, sent.request) == ((), Reply(), None)


def test_only_what_its_server_refuses_is_changed() -> None:
    sent = passed(ODD + b', "stop": ["a"]}', CHAT, "openai_chat", server="xai")
    assert sent.body == (
        rb'{"messages":[ {"role":"user", "content":"\u00e9"} ],"top_p":1.0,"model":"grok-4"}'
    )
    assert [loss.feature for loss in sent.losses] == ["stop_dropped"]


def test_server_is_sent_its_own_name_of_the_model() -> None:
    options: dict[str, Any] = {"server": "xai", "model_map": {"grok-4": "grok-2"}}
    sent = passed(ODD + b', "stop": ["a"]}', CHAT, "openai_chat", **options)
    assert json.loads(sent.body)["model"] == "grok-2"
    assert json.loads(sent.body)["stop"] == ["a"]
    assert b'[ {"role":"user", "content":"\\u00e9"} ]' in sent.body


def test_beta_that_its_server_does_not_know_goes_with_its_field() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"a"}],"context_management":{"x":1}}'
    named = {"anthropic-beta": "context-management-2025-06-27, other", "anthropic-version": "v"}
    sent = passed(body, headers=named, server="qwen")
    assert sent.body == b'{"model":"m","messages":[{"role":"user","content":"a"}]}'
    assert sent.headers["anthropic-beta"] == "other"
    assert sent.headers["anthropic-version"] == "v"
    alone = {"anthropic-beta": "context-management-2025-06-27"}
    assert "anthropic-beta" not in passed(body, headers=alone, server="qwen").headers
    assert passed(body, headers=named, server="kimi").headers["anthropic-beta"] == (
        "context-management-2025-06-27,other"
    )


def test_server_with_a_path_of_its_own_is_sent_there() -> None:
    body = b'{"model":"claude-opus-4-8","max_tokens":5,"messages":[{"role":"user","content":"a"}]}'
    sent = passed(body, query={"beta": "true"}, server="bedrock")
    assert sent.url == "https://h/tenant/model/claude-opus-4-8/invoke"
    assert json.loads(sent.body) == {
        "max_tokens": 5,
        "messages": [{"role": "user", "content": "a"}],
        "anthropic_version": "bedrock-2023-05-31",
    }


def test_request_that_cannot_be_read_is_the_server_s_affair() -> None:
    body = b'{"model": "m", "messages": 5}'
    assert passed(body, CHAT, "openai_chat", server="xai").body == body


def test_request_that_its_server_refuses_in_every_form_is_refused() -> None:
    body = b'{"model":"glm-4.6","messages":[{"role":"system","content":"a"}]}'
    with pytest.raises(RequestRefused, match="no message of the user") as raised:
        passed(body, CHAT, "openai_chat", server="glm")
    assert raised.value.error.status_hint == 400
    assert raised.value.error.extra == {"param": "messages"}


def test_tools_that_its_server_has_under_another_kind_are_restored() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": [{}]}
    body["tools"] = [{"type": "custom", "custom": {"name": "f"}}]
    sent = passed(json.dumps(body).encode(), CHAT, "openai_chat", server="groq")
    assert json.loads(sent.body)["tools"][0]["type"] == "function"
    assert sent.reply.tools["f"].is_custom


@pytest.mark.parametrize(
    "name",
    ["Model", "MODEL", "Stream", "me\u017f\u017fages", "Previous_Response_Id", "\\u004dodel"],
)
def test_name_in_another_case_is_refused(name: str) -> None:
    """A server in Go reads it in place of the one that was read here."""
    for body in (f'{{"model":"m","{name}":"other"}}', f'{{"{name}":"other","messages":[]}}'):
        assert "in case alone" in refusal(body.encode())


@pytest.mark.parametrize("name", ["modelName", "Models", "enableThinking", "X-Model", "MODE"])
def test_other_name_with_capitals_passes(name: str) -> None:
    body = f'{{"model":"m","messages":[],"{name}":1}}'.encode()
    assert passed(body).body == body


def test_name_in_another_case_below_the_top_passes() -> None:
    body = b'{"model":"m","messages":[],"metadata":{"Model":"x","model":"y"}}'
    assert passed(body).body == body


FILLER = b',"filler":["%s"]' % b'","'.join([b"x" * 1000] * 2_200)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (b',"system":"a","system":"a"', "an object with a key twice, expected each key once"),
        (b',"a":[{"b":1,"b":1}]', "an object with a key twice, expected each key once"),
        (b',"a":"half \\ud83d","b":{"c":1,"c":1}', "an object with a key twice"),
        (b',"a":NaN', "$.a: NaN, Infinity or a number beyond a double"),
        (b',"a":{"b":NaN,"b":1}', "no strict JSON, expected a JSON object"),
        (b',"a":"half \\ud83d"', None),
        (b',"a":"%s"' % (b"\\n" * 1_100_000), None),
        (b',"a":{"b":["%s"]}' % (b'"b":1,"b":1'.replace(b'"', b'\\"') * 170_000), None),
    ],
)
def test_large_body_is_checked_as_a_small_one(fields: bytes, message: str | None) -> None:
    body = MESSAGES[:-1] + FILLER + fields + b"}"
    if message is None:
        assert passed(body).body == body
    else:
        assert refusal(body).startswith(message)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{ "input": "a" }', b'{ "input": "a" }'),
        (b'{ "model": "other" }', b'{ "model": "other" }'),
        (b'{ "model": "m", "n": 1.50 }', b'{"model":"other","n":1.50}'),
        (b"", None),
    ],
)
def test_body_for_an_auxiliary_endpoint_changes_in_the_model_alone(
    body: bytes, expected: bytes | None
) -> None:
    received = ClientRequest(method="POST", path="/v1/responses/r/cancel", headers={}, body=body)
    upstream = Upstream(dialect="openai_responses", base_url="https://h", model="other")
    assert passthrough_body(received, upstream) == expected


@pytest.mark.parametrize("body", [b'{"model":"m","model":"n"}', b'{"Model":"m"}'])
def test_ambiguous_body_for_an_auxiliary_endpoint_is_refused(body: bytes) -> None:
    """Servers in Go read the last of equal keys, and keys in another case."""
    received = ClientRequest(method="POST", path="/v1/responses/r/cancel", headers={}, body=body)
    with pytest.raises(RequestRefused):
        passthrough_body(received, Upstream(dialect="openai_responses", base_url="https://h"))
