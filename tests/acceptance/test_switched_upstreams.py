"""A task that one upstream began goes on at another, and comes back, with each official SDK.

The first upstream answers, the second takes its place for a turn in which it is overloaded, and
the first ends the task.  Each gets a history that is legal for it, with the signatures that its
vendor issued and no others.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from acceptance.gateways import Upstream
from acceptance.transcoding_clients import SDK, SDKS, Reading
from support.bodies.history_rules import broken_rules
from support.bodies.sdk_types import problems
from support.gateway.servers import served
from support.http.strict_upstreams import COMPATIBLE, strict_provider

from streamnorm import Reasoning, StreamError, Text, ToolCall
from streamnorm.gateway import Config, Gateway, ModelConfig, UpstreamConfig
from streamnorm.testing import FakeRequest

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

ISSUERS = {"anthropic": "anthropic", "openai_responses": "openai", "gemini": "google"}
PROOFS = {
    dialect: base64.b64encode(f"the proof of {issuer}".encode() * 2).decode()
    for dialect, issuer in ISSUERS.items()
}
OVERLOADED = StreamError("upstream", "overloaded", "overloaded_error", 529)
# What of each first upstream's signatures a client sends back; google-genai has more in its parts
# than the SDK's own examples send.
CARRIED = {
    "anthropic": {"anthropic", "openai_responses", "gemini"},
    "openai_responses": {"anthropic", "openai_responses", "gemini"},
    "openai_chat": {"gemini"},
    "gemini": {"gemini"},
}


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[tuple[Upstream, str]]:
    app = Upstream()
    async with served(app, strict=False) as url:
        yield app, url


class Task:
    """A task of three turns, of which the first upstream is overloaded in the second."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._answers = 0
        self._has_failed = False

    def __call__(self, request: FakeRequest) -> Any:
        if self._answers == 1 and request.dialect == self._first and not self._has_failed:
            self._has_failed = True
            return OVERLOADED
        self._answers += 1
        if self._answers == 3:
            return "It snows in both."
        return self._calls(request.dialect or "")

    def _calls(self, dialect: str) -> list[Any]:
        """Return reasoning and parallel calls, signed as the vendor does."""
        proof, issuer = PROOFS.get(dialect), ISSUERS.get(dialect)
        cities = [f'{{"city":"{city}"}}' for city in ("Oslo", "Rome")]
        ids = [f"call_{self._answers}_{number}" for number in (1, 2)]
        oslo, rome = (
            ToolCall(id, "get_weather", city) for id, city in zip(ids, cities, strict=True)
        )
        thought, said = (f"Thought {self._answers}.",), Text("One moment.")
        if dialect == "gemini":
            oslo = ToolCall(oslo.id, oslo.name, oslo.arguments, signature=proof, issuer=issuer)
            return [Reasoning(thought), said, oslo, rome]
        id = f"rs_{self._answers}" if dialect == "openai_responses" else None
        return [Reasoning(thought, proof, issuer, id=id), said, oslo, rome]


def readings() -> list[Reading]:
    turns = [
        Reading(
            "One moment.",
            f"Thought {turn}.",
            tuple(
                (f"call_{turn}_{number}", "get_weather", {"city": city})
                for number, city in ((1, "Oslo"), (2, "Rome"))
            ),
        )
        for turn in (1, 2)
    ]
    return [*turns, Reading("It snows in both.")]


def broken(request: FakeRequest, client: str) -> list[str]:
    """Return what is wrong with a request; a client of Chat sends more than its own types have."""
    dialect = request.dialect or ""
    found = broken_rules(dialect, request.body)
    if not client == dialect == "openai_chat":
        found += [each for each in problems(dialect, request.body) if "model: missing" not in each]
    return found


PAIRS = [(first, second) for first in SDKS for second in SDKS if first != second]


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_task_goes_on_at_another_upstream_and_comes_back(
    sdk: SDK, first: str, second: str, upstream: tuple[Upstream, str]
) -> None:
    app, url = upstream
    provider = strict_provider(Task(first), server=COMPATIBLE)
    app.app = provider.app()
    config = Config(
        upstreams={
            name: UpstreamConfig(dialect=name, base_url=url, server=ISSUERS.get(name))
            for name in (first, second)
        },
        models=[ModelConfig(match="*", to=[first, second])],
    )
    gateway = Gateway(config, environ={})
    async with sdk.http.AsyncClient(transport=sdk.http.ASGITransport(gateway)) as http:
        assert await sdk.converse_async(http, 3, base_url="http://gateway") == readings()
    await gateway._network.aclose()
    asked = [request.dialect for request in provider.requests]
    assert asked == [first, first, second, first]
    for request in provider.requests:
        assert broken(request, sdk.dialect) == []
    *_, switched, back = (json.dumps(request.body) for request in provider.requests)
    for body in (switched, back):
        assert '"sn1' not in body  # a signature that names another issuer
        assert '"c24x' not in body  # the same in base64
    is_google_in_chat = (sdk.dialect, first, second) == ("openai_chat", "gemini", "openai_chat")
    if first in PROOFS:
        assert (PROOFS[first] in switched) == is_google_in_chat
        assert (PROOFS[first] in back) == (first in CARRIED[sdk.dialect])
