"""What the configuration changes in the requests for a model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.gateway.calls import asked, called, opened
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm import EncodeError, Loss, Request, Tool
from streamnorm.gateway import Gateway, ModelConfig, UpstreamConfig
from streamnorm.gateway.routing import apply_options, changes_requests

pytestmark = pytest.mark.anyio

SAID = [{"role": "user", "content": "Hi."}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": ["string", "null"]}},
    "additionalProperties": False,
}
SIMPLE: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
}


@asynccontextmanager
async def gateway(dialect: str, **options: Any) -> AsyncIterator[tuple[Gateway, ScriptedUpstream]]:
    """Provide a gateway whose upstream refuses all requests, for one model with options."""
    upstream = ScriptedUpstream({})
    async with served(upstream) as url:
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=url)}
        models = [ModelConfig(match="m", to=["local"], **options)]
        async with opened(upstreams, models=models) as app:
            yield app, upstream


async def sent(dialect: str, body: dict[str, Any], **options: Any) -> Any:
    """Return what an upstream gets of an Anthropic client's request."""
    async with gateway(dialect, **options) as (app, upstream):
        await asked(app, "/v1/messages", {"model": "m", "messages": SAID, **body})
    return upstream.requests[0].json


TOOLS = {"tools": [{"name": "f", "input_schema": SCHEMA}]}


@pytest.mark.parametrize(("body", "tokens"), [({}, 100), ({"max_tokens": 9}, 9)])
async def test_max_tokens_is_that_of_requests_without_one(body: Any, tokens: int) -> None:
    chat = {"model": "m", "messages": SAID}
    async with gateway("anthropic", max_tokens=100) as (app, upstream):
        named = {"max_completion_tokens": body["max_tokens"]} if body else {}
        await asked(app, "/v1/chat/completions", {**chat, **named})
    assert upstream.requests[0].json["max_tokens"] == tokens
    async with gateway("openai_chat", max_tokens=100) as (app, upstream):
        await asked(app, "/v1/chat/completions", {**chat, **body})
    found = upstream.requests[0].json
    assert found.get("max_tokens", found.get("max_completion_tokens")) == tokens


async def test_model_is_asked_for_one_call_at_a_time() -> None:
    assert (await sent("openai_chat", TOOLS, serial_tool_calls=True))[
        "parallel_tool_calls"
    ] is False
    assert "parallel_tool_calls" not in await sent("openai_chat", {}, serial_tool_calls=True)
    assert "parallel_tool_calls" not in await sent("openai_chat", TOOLS)
    own = await sent("anthropic", {**TOOLS, "max_tokens": 9}, serial_tool_calls=True)
    assert own["tool_choice"]["disable_parallel_tool_use"] is True


async def test_schemas_are_simplified() -> None:
    body = await sent("openai_chat", TOOLS, simplify_schemas=True)
    assert body["tools"][0]["function"]["parameters"] == SIMPLE
    body = await sent("openai_chat", TOOLS)
    assert body["tools"][0]["function"]["parameters"] == SCHEMA


async def test_options_change_requests_of_the_same_dialect_and_nothing_else_of_them() -> None:
    body = {"max_tokens": 9, "metadata": {"user_id": "u"}, **TOOLS}
    changed = await sent("anthropic", body, simplify_schemas=True)
    assert changed.pop("tools")[0]["input_schema"] == SIMPLE
    rest = {name: value for name, value in body.items() if name != "tools"}
    assert changed == {"model": "m", "messages": SAID, **rest}


@pytest.mark.parametrize("reasoning", ["reasoning_content", "reasoning", "none"])
async def test_reasoning_stands_in_the_field_that_clients_read(reasoning: Any) -> None:
    frames = [
        {"type": "message_start", "message": {"id": "m", "model": "m", "role": "assistant"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "thinking_delta", "thinking": "Hm."},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n" for frame in frames)
    answer = Answered(stream.encode(), headers={"content-type": "text/event-stream"})
    async with served(ScriptedUpstream({"/v1/messages": answer})) as url:
        upstreams = {"local": UpstreamConfig(dialect="anthropic", base_url=url)}
        models = [ModelConfig(match="m", to=["local"], reasoning=reasoning)]
        async with opened(upstreams, models=models) as app:
            body = {"model": "m", "messages": SAID, "stream": True}
            caller = await called(app, "/v1/chat/completions", body)
    text = b"".join(caller.bodies).decode()
    assert caller.status == 200
    for name in ("reasoning_content", "reasoning"):
        assert (f'"{name}":"Hm."' in text) is (name == reasoning)


# The function itself


def test_each_change_of_a_schema_is_a_loss() -> None:
    losses: list[Loss] = []
    options = ModelConfig(match="m", to=["a"], simplify_schemas=True)
    simple = Tool("g", input_schema={"type": "object"})
    request = Request(model="m", tools=(Tool("f", input_schema=SCHEMA), simple, Tool("h")))
    changed = apply_options(options, request, losses.append)
    assert [tool.input_schema for tool in changed.tools if isinstance(tool, Tool)] == [
        SIMPLE,
        {"type": "object"},
        None,
    ]
    assert changed.tools[1:] == request.tools[1:]
    features = [loss.feature for loss in losses]
    assert features == ["schema.additionalProperties", "schema.type"]


def test_schema_that_leads_nowhere_is_refused() -> None:
    options = ModelConfig(match="m", to=["a"], simplify_schemas=True)
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}
    request = Request(model="m", tools=(Tool("f", input_schema=schema),))
    with pytest.raises(EncodeError):
        apply_options(options, request, lambda _loss: None)


def test_request_without_options_is_the_same() -> None:
    options = ModelConfig(match="m", to=["a"])
    request = Request(model="m")
    assert apply_options(options, request, lambda _loss: None) is request
    assert not changes_requests(options)


SEARCH = {
    "max_tokens": 9,
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    "tool_choice": {"type": "tool", "name": "web_search"},
}


async def test_search_that_the_upstream_lacks_is_refused_by_name() -> None:
    async with gateway("openai_chat") as (app, upstream):
        body = {"model": "m", "messages": SAID, **SEARCH}
        status, answer = await asked(app, "/v1/messages", body)
    assert status == 400
    error = answer["error"]
    assert error["type"] == "invalid_request_error"
    found = "tool_choice: web_search is forced, expected a tool that openai_chat has"
    assert error["message"] == found
    assert upstream.requests == []


async def test_search_that_the_upstream_lacks_is_dropped_where_the_configuration_says_so() -> None:
    body = await sent("openai_chat", SEARCH, missing_tools="drop")
    assert "tools" not in body


async def test_search_goes_to_the_upstream_that_has_one() -> None:
    local, claude = ScriptedUpstream({}), ScriptedUpstream({})
    async with served(local) as first, served(claude) as second:
        upstreams = {
            "local": UpstreamConfig(dialect="openai_chat", base_url=first),
            "claude": UpstreamConfig(dialect="anthropic", base_url=second),
        }
        models = [ModelConfig(match="m", to=["local", "claude"])]
        async with opened(upstreams, models=models) as app:
            await asked(app, "/v1/messages", {"model": "m", "messages": SAID, **SEARCH})
    assert (len(local.requests), len(claude.requests)) == (0, 1)
