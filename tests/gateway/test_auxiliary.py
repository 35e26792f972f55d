"""Counts of tokens and lists of models at a gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.gateway.calls import JSON, NOWHERE, asked, body_of, called, opened, scripted
from support.gateway.servers import served
from support.http.loopback import Server
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm.gateway import ModelConfig, UpstreamConfig, auxiliary
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a"
SAID = [{"role": "user", "content": "Hi."}]
MESSAGES: dict[str, Any] = {"model": "m", "messages": SAID}
CONTENTS: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}
ANTHROPIC = (*JSON, ("x-api-key", "k"), ("anthropic-version", "2023-06-01"))
GEMINI = (*JSON, ("x-goog-api-key", "k"))
COUNT = "/v1/messages/count_tokens"


# Counts


@pytest.mark.parametrize(
    ("target", "body", "answer"),
    [
        (COUNT, MESSAGES, {"input_tokens": 42}),
        (
            "/v1/responses/input_tokens",
            {"model": "m", "input": "Hi."},
            {"object": "response.input_tokens", "input_tokens": 42},
        ),
        ("/v1beta/models/m:countTokens", CONTENTS, {"totalTokens": 42}),
        ("/v1/models/m:countTokens", CONTENTS, {"totalTokens": 42}),
    ],
)
async def test_upstream_counts_the_tokens(target: str, body: Any, answer: Any) -> None:
    async with scripted({"/v1beta/models/m:countTokens": {"totalTokens": 42}}) as (app, upstream):
        caller = await called(app, target, body)
    assert caller.status == 200
    assert body_of(caller) == answer
    assert "x-streamnorm-estimated" not in caller.headers
    (sent,) = upstream.requests
    assert b'"Hi."' in sent.body


@pytest.mark.parametrize(
    ("dialect", "path", "answer"),
    [
        ("anthropic", COUNT, {"input_tokens": 42}),
        ("openai_responses", "/v1/responses/input_tokens", {"input_tokens": 42}),
        ("gemini", "/v1beta/models/m:countTokens", {"totalTokens": 42}),
        ("openai_chat", "", None),
    ],
)
async def test_tokens_of_a_responses_request_are_counted_by_every_upstream(
    dialect: str, path: str, answer: Any
) -> None:
    body = {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": "Weather in Lagos?"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "Rain."},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    }
    async with scripted({path: answer}, dialect) as (app, upstream):
        caller = await called(app, "/v1/responses/input_tokens", body)
    found = body_of(caller)
    assert (caller.status, found["object"]) == (200, "response.input_tokens")
    if answer is None:  # no server of Chat Completions counts
        assert found["input_tokens"] > 10
        assert caller.headers["x-streamnorm-estimated"] == "input_tokens"
        assert upstream.requests == []
    else:
        assert found["input_tokens"] == 42
        assert [sent.target for sent in upstream.requests] == [path]
        assert b"Weather in Lagos?" in upstream.requests[0].body


async def test_count_of_the_same_dialect_asks_the_vendor() -> None:
    answers = {COUNT: Answered({"input_tokens": 7}, headers={"request-id": "req_1"})}
    async with scripted(answers, "anthropic") as (app, upstream):
        caller = await called(app, COUNT, MESSAGES, headers=ANTHROPIC)
    assert (caller.status, body_of(caller)) == (200, {"input_tokens": 7})
    assert caller.headers["request-id"] == "req_1"
    assert upstream.requests[0].headers["anthropic-version"] == "2023-06-01"
    assert "x-api-key" not in upstream.requests[0].headers  # which is not the upstream's


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_tokens_that_nobody_counts_are_estimated(status: int) -> None:
    async with scripted({"/v1beta/models/m:countTokens": Answered({}, status)}) as (app, _):
        caller = await called(app, COUNT, MESSAGES)
    assert caller.status == 200
    assert body_of(caller)["estimated"] is True
    assert caller.headers["x-streamnorm-estimated"] == "input_tokens"


async def test_estimate_learns_from_the_answers_of_the_upstream() -> None:
    text = "x" * 4000
    body = {**MESSAGES, "messages": [{"role": "user", "content": text}]}
    usage = {"prompt_tokens": 2000, "completion_tokens": 1, "total_tokens": 2001}
    message = {"role": "assistant", "content": "Hi."}
    answer = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }
    async with scripted({"/v1/chat/completions": answer}, "openai_chat") as (app, _):
        _, before = await asked(app, COUNT, body)
        status, _ = await asked(app, "/v1/messages", {**body, "max_tokens": 9})
        assert status == 200
        _, after = await asked(app, COUNT, body)
    assert before["input_tokens"] == pytest.approx(4000 / 3.5, abs=10)
    # Two bytes a token: the prior of 2,000 bytes still counts a little.
    assert 1500 < after["input_tokens"] < 2000


async def test_unknown_model_is_not_counted() -> None:
    models = [ModelConfig(match="claude-*", to=["local"])]
    async with opened(models=models) as app:
        status, body = await asked(app, COUNT, MESSAGES)
    assert (status, body["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("body", [b"{", {"model": "m", "messages": 5}, b"[" * 10_000])
async def test_count_of_no_request_is_refused(body: Any) -> None:
    async with scripted({}) as (app, upstream):
        status, error = await asked(app, COUNT, body)
    assert (status, error["error"]["type"]) == (400, "invalid_request_error")
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answered({"error": {"message": "slow", "code": 429}}, 429, {"retry-after": "7"}), 429),
        (Answered({"tokens": 5}), 502),
        (Answered(b"<html>"), 502),
        (Answered(b"abc", 429, {"content-encoding": "br"}), 429),
        (Answered(b"x" * 2000), 502),
        (Answered({"totalTokens": 5}, headers={"content-encoding": "gzip"}), 502),
        (Answered({}, 302, {"location": f"http://127.0.0.1:9/{CANARY}"}), 502),
    ],
)
async def test_failed_count_is_an_error_of_the_client(answer: Answered, status: int) -> None:
    answers = {"/v1beta/models/m:countTokens": answer}
    async with scripted(answers, max_event_bytes=1000) as (app, _):
        caller = await called(app, COUNT, MESSAGES)
    assert caller.status == status
    assert body_of(caller)["type"] == "error"
    assert CANARY not in str(caller.messages)
    assert caller.headers.get("retry-after") == answer.headers.get("retry-after")


async def test_key_that_an_upstream_quotes_is_not_shown() -> None:
    failed = Answered({"error": {"message": f"no key: {CANARY}", "code": 401}}, 401)
    upstream = ScriptedUpstream({"/v1beta/models/m:countTokens": failed, "/v1beta/models": failed})
    async with served(upstream) as url:
        upstreams = {"local": UpstreamConfig(dialect="gemini", base_url=url, key="env:KEY")}
        async with opened(upstreams, environ={"KEY": CANARY}) as app:
            for target, method in ((COUNT, "POST"), ("/v1beta/models", "GET")):
                caller = await called(app, target, MESSAGES, method=method)
                assert caller.status == 401
                assert CANARY not in str(caller.messages)
    assert upstream.requests[0].headers["x-goog-api-key"] == CANARY


async def test_upstream_that_nobody_hears_is_an_error_without_its_address() -> None:
    async with opened(NOWHERE, dialect="gemini") as app:
        status, body = await asked(app, COUNT, MESSAGES)
    assert status == 502
    assert body["error"]["message"] == "connection error: the provider refused the connection"


async def test_silent_upstream_is_not_waited_for() -> None:
    server = Server([], stays_open=True)
    async with server.running(), opened(server.url, dialect="gemini", first_byte_s=0.02) as app:
        status, _ = await asked(app, COUNT, MESSAGES)
    assert status == 504


# Models

CHAT_LIST = {
    "object": "list",
    "data": [
        {"id": "llama-4", "object": "model", "created": 5, "owned_by": "meta"},
        {"id": "qwen3", "object": "model", "created": 6, "owned_by": "qwen"},
    ],
}


@pytest.mark.parametrize(
    ("target", "headers", "names"),
    [
        ("/v1/models", JSON, lambda body: [model["id"] for model in body["data"]]),
        ("/models", JSON, lambda body: [model["id"] for model in body["data"]]),
        (
            "/v1/models",
            ANTHROPIC,
            lambda body: [model["id"] for model in body["data"] if model["type"] == "model"],
        ),
        (
            "/v1/models",
            (*JSON, ("x-api-key", "k")),
            lambda body: [model["id"] for model in body["data"] if body["has_more"] is False],
        ),
        (
            "/v1beta/models",
            JSON,
            lambda body: [model["name"].removeprefix("models/") for model in body["models"]],
        ),
        (
            "/v1/models",
            GEMINI,
            lambda body: [model["name"].removeprefix("models/") for model in body["models"]],
        ),
    ],
)
async def test_models_are_listed_in_the_dialect_of_the_client(
    target: str, headers: Any, names: Any
) -> None:
    async with scripted({"/v1/models": CHAT_LIST}, "openai_chat") as (app, _):
        status, body = await asked(app, target, method="GET", headers=headers)
    assert status == 200
    assert names(body) == ["llama-4", "qwen3"]


async def test_one_model_is_described() -> None:
    found = {"id": "a/b:c", "object": "model", "created": 5, "owned_by": "meta"}
    async with scripted({"/v1/models/a%2Fb:c": found}, "openai_chat") as (app, upstream):
        for target, headers in (
            ("/v1/models/a/b:c", JSON),
            ("/v1/models/a/b:c", ANTHROPIC),
            ("/v1beta/models/a/b:c", GEMINI),
        ):
            status, body = await asked(app, target, method="GET", headers=headers)
            assert status == 200, upstream.requests[-1].target
            assert body.get("id", body.get("name")) in ("a/b:c", "models/a/b:c")
        status, body = await asked(app, "/v1/models/nobody", method="GET")
        assert (status, set(body["error"])) == (404, {"message", "type", "param", "code"})


MODELS = [
    ModelConfig(match="claude-x", to=["other/claude-5"]),
    ModelConfig(match="llama-*", to=["local"]),
    ModelConfig(match="fast", to=["local/qwen3"]),
    ModelConfig(match="all-*", to=["local/qwen3"]),
    ModelConfig(match="fast", to=["other"]),
]


async def test_list_has_the_models_of_the_configuration() -> None:
    upstream = ScriptedUpstream({"/v1/models": CHAT_LIST})
    async with served(upstream) as url:
        upstreams = {
            "local": UpstreamConfig(dialect="openai_chat", base_url=url),
            "other": UpstreamConfig(dialect="anthropic", base_url=NOWHERE),
        }
        async with opened(upstreams, models=MODELS) as app:
            _, body = await asked(app, "/v1/models", method="GET")
    assert [model["id"] for model in body["data"]] == ["claude-x", "llama-4", "fast"]
    assert body["data"][1]["owned_by"] == "meta"
    assert len(upstream.requests) == 1


async def test_model_of_an_earlier_entry_is_not_listed_for_a_later_one() -> None:
    models = [
        ModelConfig(match="llama-*", to=["other/m"]),
        ModelConfig(match="*", to=["local", "other"]),
    ]
    upstream = ScriptedUpstream({"/v1/models": CHAT_LIST})
    async with served(upstream) as url:
        upstreams = {
            "local": UpstreamConfig(dialect="openai_chat", base_url=url),
            "other": UpstreamConfig(dialect="anthropic", base_url=NOWHERE),  # is left out
        }
        async with opened(upstreams, models=models) as app:
            _, body = await asked(app, "/v1/models", method="GET", headers=ANTHROPIC)
    assert [model["id"] for model in body["data"]] == ["qwen3"]


async def test_silent_upstream_does_not_hold_up_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auxiliary, "_LISTED_S", 0.05)
    silent, upstream = Server([], stays_open=True), ScriptedUpstream({"/v1/models": CHAT_LIST})
    async with silent.running(), served(upstream) as url:
        upstreams = {
            "silent": UpstreamConfig(dialect="openai_chat", base_url=silent.url),
            "local": UpstreamConfig(dialect="openai_chat", base_url=url),
        }
        models = [ModelConfig(match="*", to=["silent", "local"])]
        async with asyncio.timeout(5), opened(upstreams, models=models) as app:
            _, body = await asked(app, "/v1/models", method="GET")
    assert [model["id"] for model in body["data"]] == ["llama-4", "qwen3"]


async def test_list_of_which_nothing_is_known_is_an_error() -> None:
    async with opened(models=[ModelConfig(match="*", to=["local"])]) as app:
        status, body = await asked(app, "/v1/models", method="GET", headers=ANTHROPIC)
    assert (status, body["type"]) == (502, "error")


async def test_model_that_is_not_configured_is_not_found() -> None:
    async with opened(models=MODELS[1:2]) as app:
        status, body = await asked(app, "/v1/models/gpt-9", method="GET")
    assert (status, body["error"]["code"]) == (404, "model_not_found")


async def test_query_names_the_page() -> None:
    async with scripted({"/v1/models": CHAT_LIST}, "openai_chat") as (app, _):
        _, body = await asked(app, "/v1/models?limit=1", method="GET", headers=ANTHROPIC)
        assert ([model["id"] for model in body["data"]], body["has_more"]) == (["llama-4"], True)
        status, _ = await asked(app, "/v1/models?limit=x", method="GET", headers=ANTHROPIC)
        assert status == 400


async def test_requests_for_no_message_use_no_turn_of_a_provider() -> None:
    provider = FakeProvider(["Hi."])
    async with served(provider.app()) as url, opened(url, dialect="openai_chat") as app:
        _, counted = await asked(app, COUNT, MESSAGES)
        assert counted["estimated"] is True
        status, _ = await asked(app, "/v1/messages", {**MESSAGES, "max_tokens": 9})
    assert status == 200
