"""Pages of the real clients at the gateway, which is all the backend that they have.

The chat of `useChat` and AG-UI's client ask two questions; of the first the model calls a tool of
the page in between, whose result continues the same answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from acceptance.node_sdks import Heard, ask, missing
from anyio import to_thread
from msgspec import structs
from support.gateway.calls import opened
from support.gateway.servers import served
from support.http.strict_upstreams import COMPATIBLE, strict_provider

from streamnorm.gateway import PageConfig, UpstreamConfig
from streamnorm.testing import FakeProvider, faults, tool_call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.on_asyncio,
    pytest.mark.outside,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

# Two of the dialects for each client, so that each protocol is asked for all of them.
UPSTREAMS = {
    "ai5": ("anthropic", "openai_chat"),
    "ai6": ("openai_responses", "gemini"),
    "ai7": ("anthropic", "gemini"),
    "0": ("anthropic", "openai_chat"),
    "1": ("openai_responses", "gemini"),
}
OPTIONS = PageConfig(model="m-1", system="Be brief.", max_tokens=500)
QUESTIONS = ["Snow in Oslo?", "And tomorrow?"]
ANSWERS = ["It snows in Oslo.", "Tomorrow, too."]


TURNS = (tool_call("get_weather", city="Oslo"), *ANSWERS)


async def run(
    page: str, script: str, client: str, dialect: str, turns: Sequence[Any] = TURNS
) -> tuple[Heard, FakeProvider]:
    """Return what a client has in the end, and the provider behind the gateway."""
    provider = strict_provider(turns, server=COMPATIBLE)
    async with served(provider.app()) as upstream:
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=upstream)}
        async with opened(upstreams, pages={page: OPTIONS}) as app, served(app) as url:
            path = "/ui/chat" if page == "ui_message_stream" else "/ag-ui/run"
            job = {"url": url + path, "questions": QUESTIONS, "tool": "weather"}
            (heard,) = await to_thread.run_sync(partial(ask, script, client, [job]))
    return heard, provider


def assert_asked_as_configured(provider: FakeProvider) -> None:
    assert len(provider.requests) == 3
    for request in provider.requests:
        assert "m-1" in (request.body.get("model") or request.path)
        assert "Be brief." in json.dumps(request.body)
    assert "weather of Oslo" in json.dumps(provider.requests[1].body)
    assert ANSWERS[0] in json.dumps(provider.requests[2].body)


@pytest.mark.parametrize("client", ["ai5", "ai6", "ai7"])
async def test_use_chat_needs_no_other_backend(client: str) -> None:
    for dialect in UPSTREAMS[client]:
        heard, provider = await run("ui_message_stream", "ui_chat", client, dialect)
        assert "error" not in heard, (dialect, heard)
        messages = heard["messages"]
        assert [each["role"] for each in messages] == ["user", "assistant"] * 2, dialect
        first, second = (_parts(each) for each in messages[1::2])
        assert first == [("tool-get_weather", "weather of Oslo"), ("text", ANSWERS[0])], dialect
        assert second == [("text", ANSWERS[1])], dialect
        assert_asked_as_configured(provider)


def _parts(message: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (part["type"], part.get("text") or part["output"])
        for part in message["parts"]
        if part["type"] != "step-start"
    ]


CUT = ["One moment.", tool_call("get_weather", city="Oslo"), faults.cut(event=7)]


@pytest.mark.parametrize("client", ["ai5", "ai6", "ai7", "0", "1"])
async def test_chat_goes_on_after_a_call_that_was_cut(client: str) -> None:
    is_chat = client.startswith("ai")
    page, script = ("ui_message_stream", "ui_chat") if is_chat else ("ag_ui", "ag_ui_thread")
    provider = strict_provider([CUT, ANSWERS[1]])
    async with served(provider.app()) as upstream:
        upstreams = {"local": UpstreamConfig(dialect="anthropic", base_url=upstream)}
        async with opened(upstreams, pages={page: OPTIONS}) as app, served(app) as url:
            path = "/ui/chat" if is_chat else "/ag-ui/run"
            job = {"url": url + path, "questions": QUESTIONS, "tool": "-", "goesOn": True}
            (heard,) = await to_thread.run_sync(partial(ask, script, client, [job]))
    assert "error" not in heard, heard
    last = heard["messages"][-1]
    said = last["parts"][-1]["text"] if is_chat else last["content"]
    assert said == ANSWERS[1]
    first, second = provider.requests
    assert QUESTIONS[0] in json.dumps(first.body)
    assert QUESTIONS[1] in json.dumps(second.body)


@pytest.mark.parametrize("client", ["ai6", "ai7", "0", "1"])
async def test_calls_of_one_id_keep_their_arguments_and_results(client: str) -> None:
    """A provider that numbers the calls of each answer from 0."""
    is_chat = client.startswith("ai")
    page, script = ("ui_message_stream", "ui_chat") if is_chat else ("ag_ui", "ag_ui_thread")
    calls = [
        structs.replace(tool_call("get_weather", city=city), id="call_0")
        for city in ("Oslo", "Rome", "Bern")
    ]
    turns = [calls[0], calls[1], ANSWERS[0], calls[2], ANSWERS[1]]
    heard, _ = await run(page, script, client, "openai_chat", turns)
    assert "error" not in heard, heard
    found: dict[str, str] = {}
    for message in heard["messages"]:
        for part in message.get("parts", ()):
            if part["type"] == "tool-get_weather":
                assert part["output"] == f"weather of {part['input']['city']}"
                found[part["toolCallId"]] = part["output"]
        if message["role"] == "tool":
            found[message["toolCallId"]] = message["content"]
    assert found == {
        "call_0": "weather of Oslo",
        "call_0-2": "weather of Rome",
        "call_0-3": "weather of Bern",
    }


@pytest.mark.parametrize("client", ["0", "1"])
async def test_ag_ui_needs_no_other_backend(client: str) -> None:
    for dialect in UPSTREAMS[client]:
        heard, provider = await run("ag_ui", "ag_ui_thread", client, dialect)
        assert "error" not in heard, (dialect, heard)
        roles = [each["role"] for each in heard["messages"]]
        assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"], dialect
        said = [each["content"] for each in heard["messages"] if each.get("content")]
        assert said == [QUESTIONS[0], "weather of Oslo", ANSWERS[0], QUESTIONS[1], ANSWERS[1]]
        assert_asked_as_configured(provider)
