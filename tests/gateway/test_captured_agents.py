"""Requests of real agents through a gateway to an upstream of each other dialect.

The judges are the types of the upstream's official SDK, and the rules on calls and results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.bodies.history_rules import broken_rules
from support.bodies.request_corpus import captured_requests, needs_requests
from support.bodies.sdk_types import problems
from support.gateway.calls import called, opened
from support.gateway.servers import served

from streamnorm.gateway import CallRecord, UpstreamConfig
from streamnorm.testing import FakeProvider

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    import backports.zstd as zstd

pytestmark = pytest.mark.anyio

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini")
VENDORS = {
    "anthropic": "anthropic",
    "openai_chat": "openai",
    "openai_responses": "openai",
    "gemini": "google",
}
AGENTS = ("claude", "codex", "opencode", "gemini-cli", "pi", "qwen", "aider", "llm")
# Reasoning goes back to nobody but who wrote it; the other two are no text of the conversation.
NO_TEXT = ("thinking", "reasoning", "additional_tools")
# Headers of the captured connection.
CONNECTION = ("host", "content-length", "content-encoding", "accept-encoding")


class Records:
    """An observer that collects the records of requests."""

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []

    def begin(self, call: CallRecord) -> None:
        pass

    def end(self, call: CallRecord) -> None:
        self.calls.append(call)


def texts(value: Any) -> Iterator[str]:
    """Yield the texts of a conversation."""
    if isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, dict) and value.get("type") not in NO_TEXT and not value.get("thought"):
        for name, each in value.items():
            if isinstance(each, str) and name in ("text", "content", "output", "instructions"):
                yield each
            elif name not in ("args", "response"):  # objects, written as text elsewhere
                yield from texts(each)


def conversation(body: dict[str, Any]) -> Iterator[str]:
    for name in ("system", "instructions", "messages", "input", "contents", "systemInstruction"):
        yield from texts([body.get(name)])


def calls_in(value: Any) -> int:
    """Return how many calls of the client's tools a body has."""
    if isinstance(value, list):
        return sum(map(calls_in, value))
    if not isinstance(value, dict):
        return 0
    kinds = ("tool_use", "function_call", "custom_tool_call")
    here = value.get("type") in kinds or not value.keys().isdisjoint(
        ("functionCall", "function", "custom")
    )
    return here + sum(map(calls_in, value.values())) * (not here)


@needs_requests
@pytest.mark.parametrize("server", ["vendor", "compatible"])
@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
async def test_request_of_an_agent_arrives_in_legal_form(
    client: str, target: str, server: str
) -> None:
    stands_for = VENDORS[target] if server == "vendor" else server
    named = VENDORS[target] if server == "vendor" else None
    provider, records = FakeProvider("Done."), Records()
    count = 0
    async with (
        # To its own vendor a request passes as it is.  The mock that these were captured with
        # did not think, so that turns of Claude Code's history lack what Anthropic demands.
        served(provider.app(), stands_for=stands_for, strict=client != target) as url,
        opened(
            {"local": UpstreamConfig(dialect=target, base_url=url, server=named)},
            observers=(records,),
        ) as app,
    ):
        for real in captured_requests(client):
            if not real.name.startswith(AGENTS) or real.path.endswith("count_tokens"):
                continue
            count += 1
            data = json.dumps(real.body, ensure_ascii=False).encode()
            headers = [(n, v) for n, v in real.headers.items() if n.lower() not in CONNECTION]
            if real.name.startswith("codex"):
                data = zstd.compress(data)
                headers.append(("content-encoding", "zstd"))
            sent_before = len(provider.requests)
            path = real.path if client != "gemini" else f"{real.path}?alt=sse"
            caller = await called(app, path, data, headers=[("host", "here"), *headers])
            assert caller.status == 200, (real, caller.bodies)
            assert records.calls[-1].ending == "completed", real
            (sent,) = provider.requests[sent_before:]
            if client == target:
                assert sent.body == real.body, real
                continue
            found = problems(target, sent.body, beta="anthropic-beta" in sent.headers)
            assert [each for each in found if "model: missing" not in each] == [], real
            assert broken_rules(target, sent.body) == [], real
            there = json.dumps(sent.body, ensure_ascii=False)
            for text in conversation(real.body):
                if text.strip():
                    assert json.dumps(text, ensure_ascii=False)[1:-1] in there, (real, text[:80])
            fields = ("messages", "input", "contents")
            asked, arrived = (
                sum(calls_in(body.get(name)) for name in fields) for body in (real.body, sent.body)
            )
            assert arrived == asked, real
    assert count >= 4
