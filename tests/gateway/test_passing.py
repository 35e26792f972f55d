"""Requests of the upstream's own dialect: checked, and passed as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.calls import (
    CANARY,
    JSON,
    POSTS,
    asked,
    assert_refused,
    called,
    every_dialect,
    opened,
)
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm.gateway import ModelConfig, UpstreamConfig

pytestmark = pytest.mark.anyio

# Odd, but JSON: white space, fields that no vendor knows, escapes, and numbers that a parser
# would change.  No vendor accepts it, so an upstream that is sent it must not be strict.
ODD = rb' , "new_field": { "a" : 1.50, "b":1e5 },  "\u0078":"\u00e9\/", "c":12345678901234567890 }'


def odd(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()[:-1] + ODD


@every_dialect
async def test_body_arrives_byte_for_byte(client: str) -> None:
    target, body = POSTS[client]
    upstream = ScriptedUpstream({})
    async with served(upstream, strict=False) as url, opened(url, dialect=client) as app:
        await called(app, target, odd(body))
    (sent,) = upstream.requests
    assert (sent.method, sent.target, sent.body) == ("POST", target, odd(body))


@every_dialect
async def test_model_has_the_name_that_the_configuration_says(client: str) -> None:
    target, body = POSTS[client]
    upstream = ScriptedUpstream({})
    async with served(upstream, strict=False) as url:
        upstreams = {"local": UpstreamConfig(dialect=client, base_url=url)}
        models = [ModelConfig(match="m", to=["local/org/other"])]
        async with opened(upstreams, models=models) as app:
            await called(app, target, odd(body))
    (sent,) = upstream.requests
    if client == "gemini":
        assert sent.target == "/v1beta/models/org/other:generateContent"
        assert sent.body == odd(body)
    elif client == "bedrock_converse":
        assert sent.target == "/model/org%2Fother/converse"
        assert sent.body == odd(body)
    else:
        assert sent.target == target
        assert sent.json == {**json.loads(odd(body)), "model": "org/other"}
        assert b'{ "a" : 1.50, "b":1e5 }' in sent.body


@every_dialect
async def test_key_that_stands_twice_reaches_no_upstream(client: str) -> None:
    target, body = POSTS[client]
    upstream = ScriptedUpstream({})
    text = json.dumps(body)[1:-1]
    async with served(upstream) as url, opened(url, dialect=client) as app:
        for twice in (
            f'{{"model":"{CANARY}","model":"a",{text}}}',
            f'{{"a":{{"b":1,"b":2}},{text}}}',
        ):
            caller = await called(app, target, twice.encode())
            assert "an object with a key twice" in assert_refused(caller, 400, client)
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("key", "environ", "sent_key"),
    [(None, {}, None), ("client", {}, "of-client"), ("env:KEY", {"KEY": "own"}, "own")],
)
async def test_key_is_that_of_the_configuration(
    key: str | None, environ: dict[str, str], sent_key: str | None
) -> None:
    answer = Answered({}, 401, {"set-cookie": CANARY, "x-internal": CANARY})
    upstream = ScriptedUpstream({"/v1/messages": answer})
    headers = [*JSON, ("x-api-key", "of-client"), ("cookie", CANARY), ("x-forwarded-for", CANARY)]
    async with served(upstream) as url:
        upstreams = {"local": UpstreamConfig(dialect="anthropic", base_url=url, key=key)}
        async with opened(upstreams, environ=environ) as app:
            target, body = POSTS["anthropic"]
            caller = await called(app, f"{target}?key={CANARY}&beta=true", body, headers=headers)
    (sent,) = upstream.requests
    assert sent.headers.get("x-api-key") == sent_key
    assert sent.target == "/v1/messages?beta=true"
    assert CANARY not in str(sent.headers)
    assert caller.status == 401
    assert CANARY not in str(caller.headers)


async def test_server_that_is_named_is_sent_what_it_takes() -> None:
    """What DeepSeek refuses of Claude Code's requests is changed, and the rest is as it was."""
    message = b'[ {"role":"user", "content":"a\\u00e9"} ]'
    fields = b'"output_config": {"effort":"high"}, "thinking": {"type":"disabled"}, "x": 1.50'
    body = b'{"model": "m", "max_tokens": 5, "messages": %b, %b}' % (message, fields)
    upstream = ScriptedUpstream({})
    async with served(upstream, stands_for="deepseek") as url:
        config = UpstreamConfig(dialect="anthropic", base_url=url, server="deepseek")
        async with opened({"local": config}) as app:
            await called(app, "/v1/messages", body)
            await called(app, "/v1/messages", body.replace(b"disabled", b"enabled"))
    changed, passed = upstream.requests
    assert changed.body == (
        b'{"model":"m","max_tokens":5,"messages":%b,"thinking":{"type":"disabled"},"x":1.50}'
        % message
    )
    assert passed.body == body.replace(b"disabled", b"enabled")


@pytest.mark.parametrize("stream", [False, True])
async def test_full_context_of_a_compatible_server_makes_claude_code_compact(
    *, stream: bool
) -> None:
    """llama.cpp speaks the Messages API in words of its own."""
    message = "request (9 tokens) exceeds the available context size (8 tokens), try increasing it"
    error = {"type": "exceed_context_size_error", "message": message}
    target, body = POSTS["anthropic"]
    upstream = ScriptedUpstream({target: Answered({"type": "error", "error": error}, 400)})
    async with served(upstream) as url, opened(url, dialect="anthropic") as app:
        status, answer = await asked(app, target, {**body, "stream": stream})
    assert (status, answer["error"]) == (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
    )
