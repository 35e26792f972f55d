"""Which of several equal upstreams is asked first."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from support.gateway.servers import served

from streamnorm._registry import DIALECTS
from streamnorm.gateway import Config, Gateway, ModelConfig, UpstreamConfig
from streamnorm.gateway.routing import Balancer, Routing, Target, conversation_of
from streamnorm.testing import FakeProvider

GPUS = [f"gpu{number}" for number in range(4)]
UPSTREAMS = {
    name: UpstreamConfig(dialect="chat", base_url="http://127.0.0.1:8000/v1")
    for name in (*GPUS, "spare", "last")
}
FIRST = {"role": "user", "content": "Weather in Lagos?"}


def targets_of(*to: str | list[str], balance: Any = "conversation") -> tuple[Target, ...]:
    models = [ModelConfig(match="*", to=[*to], balance=balance)]
    found = Routing(Config(upstreams=UPSTREAMS, models=models), {})
    return found.targets("m", DIALECTS["openai_chat"])


def asked(
    balancer: Balancer,
    targets: tuple[Target, ...],
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> list[str]:
    return [target.name for target in balancer.order(targets, headers or {}, body)]


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": "Be short."}, {**FIRST, "content": text}]}


def test_upstreams_that_are_not_equal_keep_their_order() -> None:
    targets = targets_of("spare", "gpu1", "last")
    for number in range(20):
        assert asked(Balancer(), targets, said(str(number))) == ["spare", "gpu1", "last"]


def test_conversations_are_spread_and_each_keeps_its_upstream() -> None:
    targets = targets_of("spare", GPUS, "last")
    firsts = Counter[str]()
    for number in range(400):
        body = said(f"Question {number}")
        order = asked(Balancer(), targets, body)
        assert (order[0], order[-1]) == ("spare", "last")
        assert sorted(order[1:-1]) == GPUS
        firsts[order[1]] += 1
        later = copy.deepcopy(body)
        later["messages"] += [{"role": "assistant", "content": "Sunny."}, FIRST]
        assert asked(Balancer(), targets, later) == order  # of any worker
    assert len(firsts) == len(GPUS)
    assert min(firsts.values()) > 60  # 100 on average, with a deviation of 9


def test_upstream_that_is_left_out_moves_only_its_own_conversations() -> None:
    all_, fewer = targets_of(GPUS), targets_of(GPUS[:-1])
    for number in range(100):
        body = said(f"Question {number}")
        order = asked(Balancer(), all_, body)
        assert asked(Balancer(), fewer, body) == [name for name in order if name != GPUS[-1]]


def test_in_turn_each_is_asked_once_a_round() -> None:
    targets = targets_of(GPUS, "spare", balance="round_robin")
    balancer = Balancer()
    orders = [asked(balancer, targets, said("Hi")) for _ in range(2 * len(GPUS))]
    assert [order[0] for order in orders] == GPUS * 2
    assert orders[1] == ["gpu1", "gpu2", "gpu3", "gpu0", "spare"]


SESSION = "32263d84-cddd-4ee9-80a3-20ed89c2e916"


@pytest.mark.parametrize(
    "name",
    [
        *("x-claude-code-session-id", "x-session-affinity", "x-session-id"),
        *("session-id", "session_id", "thread-id"),
    ],
)
def test_conversation_is_the_session_in_a_header(name: str) -> None:
    body = {**said("Hi"), "metadata": {"user_id": "u"}, "prompt_cache_key": "k"}
    assert conversation_of({name: SESSION, "user-agent": "x"}, body) == SESSION


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"metadata": {"user_id": "u"}, "prompt_cache_key": "k"}, "u"),
        ({"metadata": {"user_id": 7}, "prompt_cache_key": "k"}, "k"),
        ({"metadata": None, "prompt_cache_key": ""}, "Hi\nuser"),
        ({"cachedContent": "cachedContents/1"}, "cachedContents/1"),
        ({"conversation": "conv_1", "prompt_cache_key": "k"}, "conv_1"),
        ({"conversation": {"id": "conv_1"}, "prompt_cache_key": "k"}, "conv_1"),
        ({"conversation": {}}, "Hi\nuser"),
        ({"id": "chat"}, "chat"),
        ({"threadId": "thread", "runId": "run"}, "thread"),
        ({}, "Hi\nuser"),
    ],
)
def test_without_a_session_the_user_the_chat_or_the_cache_counts(
    fields: dict[str, Any], expected: str
) -> None:
    assert conversation_of({}, {**said("Hi"), **fields}) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"input": "Hi"}, "Hi"),
        ({"input": [{"role": "developer", "content": "Be short."}, FIRST]}, FIRST["content"]),
        ({"contents": [{"parts": [{"text": "Hi"}]}]}, "Hi"),
        ({"contents": [{"role": "model", "parts": []}, {"role": "user", "parts": []}]}, "user"),
    ],
)
def test_first_message_of_the_user_is_found_in_each_dialect(
    body: dict[str, Any], expected: str
) -> None:
    assert conversation_of({}, body).split("\n")[0] == expected


def test_text_alone_and_its_message_are_one_conversation() -> None:
    """A request with text for an input is a message in the history of the next one."""
    message = {"role": "user", "content": "Hi"}
    assert conversation_of({}, {"input": "Hi"}) == conversation_of({}, {"input": [message]})


def test_marks_for_the_prompt_cache_belong_to_no_conversation() -> None:
    part = {"type": "text", "text": "Hi"}
    marked = {**part, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    bodies = [{"messages": [{"role": "user", "content": [each]}]} for each in (part, marked)]
    assert conversation_of({}, bodies[0]) == conversation_of({}, bodies[1]) != ""


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": None},
        {"messages": [7, None, {"role": "assistant"}]},
        {"input": {"role": "user"}},
        {"contents": [[]]},
    ],
)
def test_body_without_a_message_of_the_user_has_a_conversation_all_the_same(
    body: dict[str, Any],
) -> None:
    assert asked(Balancer(), targets_of(GPUS), body)


def test_long_text_counts_by_its_begin_its_end_and_its_length() -> None:
    found = {
        conversation_of({}, {"input": text})
        for text in ("a" * 10_000, "a" * 10_001, "b" + "a" * 9_999, "a" * 9_999 + "b")
    }
    assert len(found) == 4
    assert all(len(text) < 3_000 for text in found)


def test_conversation_with_half_a_surrogate_has_an_upstream() -> None:
    assert asked(Balancer(), targets_of(GPUS), said("\ud83d"))


# In a gateway

_CLOSED = "http://127.0.0.1:9"  # where nobody listens


async def _owners(providers: list[FakeProvider], urls: list[str]) -> dict[str, str]:
    """Return who answered each of some conversations, of two turns each."""
    upstreams = {
        f"gpu{number}": UpstreamConfig(dialect="chat", base_url=f"{url}/v1")
        for number, url in enumerate(urls)
    }
    config = Config(upstreams=upstreams, models=[ModelConfig(match="*", to=[[*upstreams]])])
    owners = {}
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(Gateway(config, environ={})))
        opened = httpx.AsyncClient(base_url=url, trust_env=False)
        client = await stack.enter_async_context(opened)
        for session in map(str, range(12)):
            before = [len(provider.requests) for provider in providers]
            body = {"model": "m", "max_tokens": 9, "messages": [FIRST]}
            headers = {"x-claude-code-session-id": session}
            for _ in range(2):
                answer = await client.post("/v1/messages", json=body, headers=headers)
                assert answer.status_code == 200, answer.text
            counts = [
                len(provider.requests) - count
                for provider, count in zip(providers, before, strict=True)
            ]
            assert sorted(counts) == [0, 0, 2]
            owners[session] = f"gpu{counts.index(2)}"
    return owners


@pytest.mark.anyio
async def test_upstream_that_is_down_moves_its_conversations_to_the_others() -> None:
    providers = [FakeProvider("Sunny.") for _ in range(3)]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(each.app())) for each in providers]
        owners = await _owners(providers, urls)
        assert {*owners.values()} == {"gpu0", "gpu1", "gpu2"}
        without = await _owners(providers, [_CLOSED, *urls[1:]])
    moved = {session for session, owner in owners.items() if owner == "gpu0"}
    assert {session for session in owners if without[session] != owners[session]} == moved
