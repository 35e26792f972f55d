"""One upstream after the other: what leads to the next, and what the client gets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from support.gateway.servers import served
from support.gateway.upstreams import (
    ABORT,
    ANSWER,
    REQUESTS,
    Head,
    Records,
    Step,
    StepUpstream,
    asked,
)
from support.openai_chat.chunks import DONE, chunk

from streamnorm import Completed, Failed, Usage
from streamnorm.gateway import Config, Gateway, ModelConfig, UpstreamConfig
from streamnorm.testing import FakeProvider
from streamnorm.validation import validate

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
ERROR = b'{"error":{"message":"Broken."}}'
ERROR_EVENT = b'data: {"error":{"message":"Broken."}}\n\n'
WHOLE = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}
        ],
    }
).encode()


@asynccontextmanager
async def gateway(
    *upstreams: StepUpstream | str,
    dialects: Mapping[int, str] | None = None,
    observers: tuple[Records, ...] = (),
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[str]:
    """Serve a gateway that asks upstreams one after the other, and yield its URL.

    Args:
        upstreams: The upstreams, or their URLs.
        dialects: Their dialects by position, where they are not of Chat Completions.
        observers: Observers of the gateway.
        options: Options of the model.
        settings: Settings of the gateway.
    """
    async with AsyncExitStack() as stack:
        entries = {}
        for position, upstream in enumerate(upstreams):
            url = upstream
            if isinstance(upstream, StepUpstream):
                url = await stack.enter_async_context(served(upstream))
            dialect = (dialects or {}).get(position, "openai_chat")
            entries[f"u{position}"] = UpstreamConfig(dialect=dialect, base_url=str(url))
        models = [ModelConfig(match="*", to=list(entries), **(options or {}))]
        config = Config(upstreams=entries, models=models, **settings)
        app = Gateway(config, environ={}, observers=observers)
        yield await stack.enter_async_context(served(app))


FAILURES: dict[str, list[Step]] = {
    "401": [Head(401, JSON), ERROR],
    "404": [Head(404, JSON), ERROR],
    "429": [Head(429, JSON), ERROR],
    "500": [Head(500, JSON), ERROR],
    "529": [Head(529, JSON), ERROR],
    "redirect": [Head(307, {"location": "http://127.0.0.1:1/"})],
    "error_in_first_frame": [ERROR_EVENT],
    "error_in_json": [Head(200, JSON), ERROR],
    "html": [Head(200, {"content-type": "text/html"}), b"<html>Hello</html>"],
    "empty": [Head()],
    "cut_before_status": [ABORT],
    "cut_before_first_event": [Head(), ABORT],
    "compressed": [Head(200, {"content-encoding": "br"}), b"..."],
    "no_status": [1.0],
    "no_first_event": [Head(), 1.0],
    "nothing_but_pings": [Head(), *[b": ping\n\n", 0.01] * 100],
}

LATE = ("no_status", "no_first_event", "nothing_but_pings")


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("failure", FAILURES)
async def test_failure_before_the_first_byte_leads_to_the_next_upstream(
    failure: str, stream: bool
) -> None:
    first, records = StepUpstream(FAILURES[failure]), Records()
    second = StepUpstream([*ANSWER] if stream else [Head(200, JSON), WHOLE])
    # The second upstream has them, too, and the machine may be busy.
    bounds = {"first_byte_s": 0.4, "idle_s": 0.4, "progress_s": 0.4} if failure in LATE else {}
    async with gateway(first, second, observers=(records,), **bounds) as url:
        response = await asked(url, "anthropic", stream=stream)
    assert response.status_code == 200
    if stream:
        assert validate(response.content, "anthropic") == []
    else:
        assert [block["text"] for block in response.json()["content"]] == ["ab"]
    assert (len(first.requests), len(second.requests)) == (1, 1)
    [call] = records.ended
    assert (call.upstream, call.attempts) == ("u1", 2)
    assert call.outcome == Completed("end_turn", Usage())


@pytest.mark.parametrize(
    "end", [[ERROR_EVENT], [], [ABORT], [1.0]], ids=["error", "end", "abort", "silence"]
)
async def test_comments_before_an_error_do_not_begin_the_answer(end: list[Step]) -> None:
    first, second = StepUpstream([b": wait\n\n", 0.01, *end]), StepUpstream()
    async with gateway(first, second, idle_s=0.4) as url:
        response = await asked(url, "openai_chat")
    assert response.content == b"".join(ANSWER)


async def test_comments_pass_with_the_first_event() -> None:
    steps = [b": wait\n\n", 0.01, b": wait\n\n", 0.01, *ANSWER]
    async with gateway(StepUpstream(steps)) as url:
        response = await asked(url, "openai_chat")
    assert response.content == b": wait\n\n" * 2 + b"".join(ANSWER)


async def test_many_comments_begin_the_answer() -> None:
    comments = b": wait\n\n" * 10_000
    first, second = StepUpstream([comments, 0.05, ERROR_EVENT]), StepUpstream()
    async with gateway(first, second) as url:
        response = await asked(url, "openai_chat")
    assert (response.status_code, second.requests) == (200, [])
    assert response.content.endswith(ERROR_EVENT)


async def test_refused_connection_leads_to_the_next_upstream() -> None:
    async with gateway("http://127.0.0.1:1", StepUpstream()) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == 200


@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_fault_of_the_request_asks_nobody_else(status: int) -> None:
    first, second = StepUpstream([Head(status, JSON), ERROR]), StepUpstream()
    async with gateway(first, second) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == status
    assert response.json()["error"]["message"] == "Broken."
    assert second.requests == []


BLOCKED = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def _blocked(content: str) -> list[Step]:
    """Return the events of an answer that the filter of a provider ends."""
    return [
        chunk({"role": "assistant", "content": content}, **BLOCKED),
        chunk({}, "content_filter", **BLOCKED),
        DONE,
    ]


def _whole(content: str | None, reason: str) -> list[Step]:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}}
    body = {**json.loads(WHOLE), "choices": [{**choice, "finish_reason": reason}]}
    return [Head(200, JSON), json.dumps(body).encode()]


FILTERED = b'{"error":{"message":"The prompt was filtered.","code":"content_filter"}}'
REFUSALS: dict[str, list[Step]] = {
    "empty_stream": _blocked(""),
    "empty_answer": _whole(None, "content_filter"),
    "prompt": [Head(400, JSON), FILTERED],
    "prompt_in_stream": [b"data: " + FILTERED + b"\n\n"],
}
PASSED_ON = {"fall_back_on_refusal": True}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_refusal_before_any_content_leads_to_the_next_upstream_where_configured(
    refusal: str,
) -> None:
    stream = refusal != "empty_answer"
    for client in ("openai_chat", "anthropic"):
        first, records = StepUpstream(REFUSALS[refusal]), Records()
        second = StepUpstream([*ANSWER] if stream else [Head(200, JSON), WHOLE])
        observers = (records,)
        async with gateway(first, second, observers=observers, options=PASSED_ON) as url:
            response = await asked(url, client, stream=stream)
        assert response.status_code == 200
        assert (len(first.requests), len(second.requests)) == (1, 1)
        assert records.ended[0].outcome == Completed("end_turn", Usage())
        first, second = StepUpstream(REFUSALS[refusal]), StepUpstream()
        async with gateway(first, second) as url:
            await asked(url, client, stream=stream)
        assert second.requests == []


async def test_refusal_behind_content_is_the_answer() -> None:
    for stream in (True, False):
        steps = _blocked("a") if stream else _whole("a", "content_filter")
        first, second = StepUpstream(steps), StepUpstream()
        async with gateway(first, second, options=PASSED_ON) as url:
            response = await asked(url, "openai_chat", stream=stream)
        assert b"content_filter" in response.content
        assert second.requests == []


async def test_refusal_of_the_last_upstream_is_the_answer() -> None:
    first, second = StepUpstream([Head(500, JSON), ERROR]), StepUpstream(_blocked(""))
    async with gateway(first, second, options=PASSED_ON) as url:
        response = await asked(url, "openai_chat")
    assert (response.status_code, b"content_filter" in response.content) == (200, True)


async def test_answer_without_content_that_is_no_refusal_is_the_answer() -> None:
    steps = [chunk({"role": "assistant", "content": ""}, "stop", **BLOCKED), DONE]
    first, second = StepUpstream(steps), StepUpstream()
    async with gateway(first, second, options=PASSED_ON) as url:
        response = await asked(url, "openai_chat")
    assert response.content == b"".join(step for step in steps if isinstance(step, bytes))
    assert second.requests == []


SPENT = [
    (
        "anthropic",
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            },
        },
    ),
    (
        "anthropic",
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "You have reached your specified API usage limits. You will regain "
                "access on 2026-12-01 at 00:00 UTC.",
            },
        },
    ),
    (
        "openai_chat",
        {
            "error": {
                "message": "Billing hard limit has been reached",
                "type": "invalid_request_error",
                "code": "billing_hard_limit_reached",
            }
        },
    ),
]


@pytest.mark.parametrize(("dialect", "error"), SPENT)
async def test_spent_account_leads_to_the_next_upstream(
    dialect: str, error: dict[str, Any]
) -> None:
    first, second = StepUpstream([Head(400, JSON), json.dumps(error).encode()]), StepUpstream()
    async with gateway(first, second, dialects={0: dialect}) as url:
        response = await asked(url, "openai_chat")
    assert response.status_code == 200
    assert len(second.requests) == 1


async def test_nobody_else_is_asked_after_the_first_byte() -> None:
    first, second = StepUpstream([ANSWER[0], ABORT]), StepUpstream()
    async with gateway(first, second) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == 200
    assert b"connection lost after 1 event" in response.content
    assert second.requests == []


async def test_last_failure_reaches_the_client() -> None:
    first = StepUpstream([Head(500, JSON), ERROR])
    second = StepUpstream([Head(503, {**JSON, "retry-after": "7"}), ERROR])
    async with gateway(first, second) as url:
        response = await asked(url, "anthropic")
    assert (response.status_code, response.headers["retry-after"]) == (503, "7")


async def test_failure_of_an_upstream_outranks_a_request_that_another_cannot_carry() -> None:
    """Chat Completions has no counterpart of a conversation that is stored with OpenAI."""
    first, second = StepUpstream([Head(503, JSON), ERROR]), StepUpstream()
    async with (
        gateway(first, second, dialects={0: "openai_responses"}) as url,
        httpx.AsyncClient() as http,
    ):
        path, body = REQUESTS["openai_responses"]
        response = await http.post(url + path, json={**body, "conversation": "conv_1"})
    assert response.status_code == 503
    assert second.requests == []


async def test_redirect_is_not_followed_and_named_in_the_log() -> None:
    elsewhere, records = StepUpstream(), Records()
    async with served(elsewhere) as target:
        upstream = StepUpstream([Head(307, {"location": f"{target}/v1/chat/completions"})])
        async with gateway(upstream, observers=(records,)) as url:
            response = await asked(url, "anthropic")
    assert response.status_code == 502
    assert response.json()["error"]["message"] == (
        "HTTP 307 with an empty body "
        "(a redirect, which is not followed: is the URL of the request right?)"
    )
    assert target not in response.text
    assert elsewhere.requests == []
    (call,) = records.ended
    assert isinstance(call.outcome, Failed)
    assert call.outcome.error.code == "redirect"


async def test_rate_limit_headers_reach_the_client() -> None:
    limits = {
        "retry-after": "3",
        "retry-after-ms": "2500",
        "x-should-retry": "true",
        "x-ratelimit-remaining-requests": "0",
    }
    async with gateway(StepUpstream([Head(429, {**JSON, **limits}), ERROR])) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == 429
    assert limits.items() <= dict(response.headers).items()


SLOW_GOOGLE = json.dumps(
    {
        "error": {
            "code": 429,
            "message": "Slow.",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.25s"}
            ],
        }
    }
).encode()


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses", "gemini"])
async def test_time_that_google_names_reaches_any_client(client: str, stream: bool) -> None:
    upstream = StepUpstream([Head(429, JSON), SLOW_GOOGLE])
    async with gateway(upstream, dialects={0: "gemini"}) as url:
        response = await asked(url, client, stream=stream)
    # SDKs read whole seconds; no earlier than was asked.
    assert (response.status_code, response.headers["retry-after"]) == (429, "8")


@pytest.mark.parametrize("client", ["gemini", "gemini_interactions"])
async def test_time_that_a_header_names_is_in_the_errors_of_google(client: str) -> None:
    upstream = StepUpstream([Head(429, {**JSON, "retry-after-ms": "2500"}), ERROR])
    async with gateway(upstream) as url:
        response = await asked(url, client)
    error = response.json()["error"]
    assert response.headers["retry-after-ms"] == "2500"
    assert error["details"] == [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}
    ]


async def test_retry_waits_as_long_as_google_asks() -> None:
    soon = SLOW_GOOGLE.replace(b"7.25s", b"0.001s")
    answer = (
        b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}\n\n'
    )
    upstream = StepUpstream([Head(429, JSON), soon], [answer])
    async with gateway(upstream, dialects={0: "gemini"}, retries=1) as url:
        response = await asked(url, "anthropic")
    assert (response.status_code, len(upstream.requests)) == (200, 2)


async def test_header_that_is_no_text_is_left_out() -> None:
    head = Head(429, {**JSON, "retry-after": "\u20ac"})
    async with gateway(StepUpstream([head, ERROR])) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == 429
    assert "retry-after" not in response.headers


OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'


@pytest.mark.parametrize("client", REQUESTS)
@pytest.mark.parametrize(
    "steps",
    [[Head(529, JSON), OVERLOADED], [Head(), b"event: error\ndata: " + OVERLOADED + b"\n\n"]],
    ids=["status", "first_event"],
)
async def test_overloaded_anthropic_has_the_status_of_an_overloaded_server_of_the_client(
    client: str, steps: list[Step]
) -> None:
    async with gateway(StepUpstream(steps), dialects={0: "anthropic"}) as url:
        response = await asked(url, client)
    assert response.status_code == (529 if client == "anthropic" else 503)
    assert "Overloaded" in response.text


async def test_529_of_another_upstream_is_an_overloaded_error_to_anthropic() -> None:
    async with gateway(StepUpstream([Head(529, JSON), ERROR])) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == 529
    assert response.json()["error"]["type"] == "overloaded_error"


async def test_losses_of_a_failed_attempt_do_not_count() -> None:
    """Anthropic has no `logit_bias`; Chat Completions has."""
    first, second, records = StepUpstream([Head(503, JSON), ERROR]), StepUpstream(), Records()
    async with (
        gateway(first, second, dialects={0: "anthropic"}, observers=(records,)) as url,
        httpx.AsyncClient() as http,
    ):
        path, body = REQUESTS["openai_chat"]
        response = await http.post(url + path, json={**body, "logit_bias": {"1": 1}})
    assert response.status_code == 200
    assert records.ended[0].losses == {}


async def test_losses_of_the_answer_count() -> None:
    records = Records()
    async with (
        served(FakeProvider("Hello.").app()) as upstream,
        gateway(upstream, dialects={0: "anthropic"}, observers=(records,)) as url,
        httpx.AsyncClient() as http,
    ):
        path, body = REQUESTS["openai_chat"]
        response = await http.post(url + path, json={**body, "logit_bias": {"1": 1}})
    assert response.status_code == 200
    assert records.ended[0].losses == {"logit_bias": 1, "max_tokens_defaulted": 1}
