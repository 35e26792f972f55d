"""Counts of tokens and lists of models between a client and its upstream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import Encoded, StreamError
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._upstream.auxiliary import (
    PassthroughAnswer,
    UpstreamCall,
    UpstreamReply,
    call_steps,
)
from streamnorm._upstream.requests import ClientRequest, RequestRefused, Upstream, match_operation

SAID = [{"role": "user", "content": "Hi."}]
MESSAGES: dict[str, Any] = {"model": "m", "messages": SAID}
ERROR = {"error": {"message": "slow down", "type": "rate_limit_error"}}


def provider(dialect: str, **more: Any) -> Upstream:
    return Upstream(dialect=dialect, base_url="https://h/v1", **more)


def answer(body: object, status: int = 200) -> UpstreamReply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return UpstreamReply(status=status, content_type="application/json", body=data)


def run(
    received: ClientRequest,
    client: str,
    upstream: Upstream,
    *answers: UpstreamReply,
    strict: bool = False,
) -> tuple[list[UpstreamCall], Encoded | StreamError]:
    """Return the requests for the upstream, and the answer to the client."""
    asked = match_operation(received, client)
    steps = call_steps(received, asked, client, upstream, TokenEstimator(), strict=strict)
    requests: list[UpstreamCall] = []
    given = iter(answers)
    try:
        requests.append(next(steps))
        while True:
            requests.append(steps.send(next(given)))
    except StopIteration as done:
        return requests, done.value


def counting(body: Any = MESSAGES, client: str = "anthropic") -> ClientRequest:
    path = "/v1/messages/count_tokens" if client == "anthropic" else "/v1/responses/input_tokens"
    return ClientRequest(
        method="POST",
        path=path,
        headers={"x-api-key": "key", "content-type": "application/json"},
        body=json.dumps(body).encode(),
    )


def getting(path: str, **query: str) -> ClientRequest:
    headers = {"x-api-key": "key", "authorization": "Bearer key"}
    return ClientRequest(
        method="GET", path=path, headers=headers, body=b"", query=tuple(query.items())
    )


# Counts


def test_count_is_no_stream() -> None:
    (sent,), _ = run(counting(), "anthropic", provider("anthropic"), answer({"input_tokens": 5}))
    assert not sent.streams


def test_upstream_counts() -> None:
    upstream = provider("gemini", model_map={"m": "gemini-x"})
    (sent,), counted = run(counting(), "anthropic", upstream, answer({"totalTokens": 42}))
    assert (sent.method, sent.url) == ("POST", "https://h/v1/models/gemini-x:countTokens")
    assert sent.headers["x-goog-api-key"] == "key"
    assert sent.headers["content-type"] == "application/json"
    assert sent.body is not None
    assert b'"parts":[{"text":"Hi."}]' in sent.body
    assert isinstance(counted, Encoded)
    assert (counted.body, counted.headers) == ({"input_tokens": 42}, {})


def test_chat_server_with_a_counter_is_asked_in_the_dialect_that_it_counts_in() -> None:
    upstream = provider("openai_chat", server="vllm")
    (sent,), counted = run(counting(), "anthropic", upstream, answer({"input_tokens": 7}))
    assert sent.url == "https://h/v1/messages/count_tokens"
    assert sent.headers["authorization"] == "Bearer key"
    assert isinstance(counted, Encoded)
    assert (counted.body, counted.headers) == ({"input_tokens": 7}, {})


LOSSY = {**MESSAGES, "context_management": {"edits": []}}


@pytest.mark.parametrize("upstream", ["gemini", "openai_responses"])
def test_losses_of_a_count_are_reported(upstream: str) -> None:
    answers = {"gemini": {"totalTokens": 1}, "openai_responses": {"input_tokens": 1}}
    counted = answer(answers[upstream])
    (sent,), _ = run(counting(LOSSY), "anthropic", provider(upstream), counted)
    assert [loss.feature for loss in sent.losses] == ["context_management"]
    (sent,), _ = run(counting(), "anthropic", provider(upstream), counted)
    assert sent.losses == ()


def test_call_without_an_object_of_arguments_is_counted() -> None:
    """As the message with it is sent."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "[1]"}
    result = {"type": "function_call_output", "call_id": "c", "output": "expected an object"}
    received = counting({"model": "m", "input": [*SAID, call, result]}, "openai_responses")
    counted = answer({"totalTokens": 1})
    (sent,), _ = run(received, "openai_responses", provider("gemini"), counted)
    assert sent.body is not None
    assert b'"args":{"_raw":"[1]"}' in sent.body


@pytest.mark.parametrize("upstream", ["gemini", "openai_responses"])
def test_strict_refuses_a_count_that_would_lose_something(upstream: str) -> None:
    with pytest.raises(RequestRefused, match="context_management") as raised:
        run(counting(LOSSY), "anthropic", provider(upstream), strict=True)
    assert raised.value.error.status_hint == 400
    assert [loss.feature for loss in raised.value.losses] == ["context_management"]


def test_strict_loses_nothing_in_an_estimate() -> None:
    requests, counted = run(counting(LOSSY), "anthropic", provider("openai_chat"), strict=True)
    assert requests == []
    assert isinstance(counted, Encoded)


@pytest.mark.parametrize(
    ("upstream", "answers"),
    [("openai_chat", []), ("gemini", [answer(b"", 404)]), ("openai_responses", [answer({}, 501)])],
)
def test_upstream_that_counts_none_is_estimated(
    upstream: str, answers: list[UpstreamReply]
) -> None:
    requests, counted = run(counting(), "anthropic", provider(upstream), *answers)
    assert len(requests) == len(answers)
    assert isinstance(counted, Encoded)
    assert counted.body["input_tokens"] > 0
    assert counted.headers == {"x-streamnorm-estimated": "input_tokens"}


@pytest.mark.parametrize(
    ("received", "kind", "status"),
    [
        (answer(ERROR, 429), "upstream", 429),
        (answer(ERROR), "upstream", 429),
        (answer({"tokens": 1}), "malformed", None),
        (answer(b"<html>", 500), "upstream", 500),
    ],
)
def test_failed_count_is_an_error(received: UpstreamReply, kind: str, status: int | None) -> None:
    _, failed = run(counting(), "anthropic", provider("gemini"), received)
    assert isinstance(failed, StreamError)
    assert (failed.kind, failed.status_hint) == (kind, status)


def test_count_of_no_request_is_refused() -> None:
    with pytest.raises(RequestRefused, match="messages"):
        run(counting({"model": "m", "messages": 5}), "anthropic", provider("gemini"))


# Models


def test_models_are_listed_page_by_page() -> None:
    pages = [
        answer({"models": [{"name": "models/a"}], "nextPageToken": "next"}),
        answer({"models": [{"name": "models/b"}]}),
    ]
    upstream = provider("gemini", model_map={"mine": "b"})
    requests, listed = run(getting("/v1/models", limit="1"), "anthropic", upstream, *pages)
    assert [request.method for request in requests] == ["GET", "GET"]
    assert requests[0].url.startswith("https://h/v1/models?")
    assert "pageToken=next" in requests[1].url
    assert requests[0].body is None
    assert "content-type" not in requests[0].headers
    assert isinstance(listed, Encoded)
    assert [model["id"] for model in listed.body["data"]] == ["a"]
    assert listed.body["has_more"] is True


def test_version_that_a_server_needs_is_sent() -> None:
    page = {"data": [{"id": "a", "type": "model"}], "has_more": False}
    (sent,), _ = run(getting("/v1/models"), "openai_chat", provider("anthropic"), answer(page))
    assert sent.headers["anthropic-version"] == "2026-10-21"
    (sent,), _ = run(getting("/v1/models"), "anthropic", provider("anthropic"), answer(page))
    assert "anthropic-version" not in sent.headers  # the client has sent its own, or none


def test_one_model_has_the_name_of_the_client() -> None:
    upstream = provider("openai_chat", model_map={"mine": "b"})
    found = {"id": "b", "object": "model", "created": 1, "owned_by": "o"}
    (sent,), model = run(getting("/v1/models/mine"), "anthropic", upstream, answer(found))
    assert sent.url == "https://h/v1/models/b"
    assert isinstance(model, Encoded)
    assert model.body["id"] == "mine"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m"])
def test_upstream_without_lists_of_models_is_not_asked(path: str) -> None:
    requests, failed = run(getting(path), "anthropic", provider("bedrock_converse"))
    assert requests == []
    assert isinstance(failed, StreamError)
    assert failed.status_hint == 404


def test_tokens_of_interactions_are_counted_at_their_host() -> None:
    (sent,), counted = run(
        counting(), "anthropic", provider("gemini_interactions"), answer({"totalTokens": 7})
    )
    assert sent.url == "https://h/v1/models/m:countTokens"
    assert counted == Encoded({"input_tokens": 7})


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m"])
@pytest.mark.parametrize(
    ("received", "kind"), [(answer(ERROR, 404), "upstream"), (answer({"x": 1}), "malformed")]
)
def test_failed_list_is_an_error(path: str, received: UpstreamReply, kind: str) -> None:
    _, failed = run(getting(path), "anthropic", provider("openai_chat"), received)
    assert isinstance(failed, StreamError)
    assert failed.kind == kind


def test_query_of_no_page_is_refused() -> None:
    page = answer({"data": [{"id": "a"}]})
    with pytest.raises(RequestRefused, match="limit"):
        run(getting("/v1/models", limit="many"), "anthropic", provider("openai_chat"), page)


# Others


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/responses/resp_1"), ("POST", "/v1/responses/compact")]
)
def test_request_that_no_other_server_answers_is_not_found(method: str, path: str) -> None:
    received = ClientRequest(method=method, path=path, headers={}, body=b"{}")
    with pytest.raises(RequestRefused) as raised:
        run(received, "openai_responses", provider("anthropic"))
    assert raised.value.error.status_hint == 404


@pytest.mark.parametrize(("status", "expected"), [(599, 599), (600, 502), (999, 502)])
def test_status_that_no_server_can_send_is_a_bad_gateway(status: int, expected: int) -> None:
    received, upstream = getting("/v1/responses/resp_1"), provider("openai_responses")
    (sent,), passed = run(received, "openai_responses", upstream, answer({"id": "r"}, status))
    assert isinstance(passed, PassthroughAnswer)
    assert (passed.status, passed.body) == (expected, b'{"id": "r"}')
    assert not sent.streams


def test_stored_response_is_streamed_where_the_client_asks_for_it() -> None:
    received = getting("/v1/responses/resp_1", stream="true")
    (sent,), _ = run(received, "openai_responses", provider("openai_responses"), answer({}))
    assert sent.streams


def test_no_secret_is_shown() -> None:
    (sent,), _ = run(counting(), "anthropic", provider("gemini"), answer({"totalTokens": 1}))
    assert repr(sent) == "UpstreamCall('POST', …)"
