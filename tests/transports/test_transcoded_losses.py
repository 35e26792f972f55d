"""Losses of an exchange between a client and a provider of another dialect."""

from __future__ import annotations

import pytest
from support.http.families import FamilyUnderTest, each_family
from support.http.transcoding_clients import (
    ANSWER,
    CLIENT_URL,
    MESSAGES,
    SSE,
    STREAMING,
    Answering,
    chat_stream,
    fetch,
    transcoding,
)

from streamnorm import Failed, Loss

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["async", "sync"])


@modes
@each_family
async def test_losses_of_request_and_answer_are_reported(
    family: FamilyUnderTest, mode: str
) -> None:
    told: list[Loss] = []
    answer = {**ANSWER, "choices": [{**ANSWER["choices"][0], "index": n} for n in (0, 1)]}
    transport = transcoding(family, Answering(family, json=answer), on_loss=told.append)
    assert transport.losses == ()
    await fetch(family, mode, transport, {**MESSAGES, "top_k": 3})
    assert [loss.feature for loss in transport.losses] == ["top_k", "choices"]
    assert told == [*transport.losses]
    await fetch(family, mode, transport)
    assert [loss.feature for loss in transport.losses] == ["choices"]  # of the last exchange


@modes
@each_family
async def test_losses_of_a_stream_are_reported(family: FamilyUnderTest, mode: str) -> None:
    told: list[Loss] = []
    second = b'data: {"id":"c-1","choices":[{"index":1,"delta":{"content":"a"}}]}\n\n'
    content = b"".join([*chat_stream()[:1], second, *chat_stream()[1:]])
    answering = Answering(family, content=content, headers=SSE)
    transport = transcoding(family, answering, on_loss=told.append)
    await fetch(family, mode, transport, {**STREAMING, "top_k": 3})
    assert [loss.feature for loss in transport.losses][:2] == ["top_k", "choices"]
    assert {loss.feature for loss in told} == {"top_k", "choices"}


@modes
@each_family
async def test_strict_refuses_before_the_request_is_sent(
    family: FamilyUnderTest, mode: str
) -> None:
    answering = Answering(family, json=ANSWER)
    transport = transcoding(family, answering, strict=True)
    response = await fetch(family, mode, transport, {**MESSAGES, "top_k": 3})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert "top_k" in response.json()["error"]["message"]
    assert answering.requests == []
    assert [loss.feature for loss in transport.losses] == ["top_k"]
    assert isinstance(transport.outcome, Failed)
    assert (await fetch(family, mode, transport)).status_code == 200


@modes
@each_family
async def test_search_that_the_provider_lacks_is_refused_unless_it_may_be_dropped(
    family: FamilyUnderTest, mode: str
) -> None:
    search = {**MESSAGES, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    answering = Answering(family, json=ANSWER)
    response = await fetch(family, mode, transcoding(family, answering), search)
    assert response.status_code == 400
    assert "no tool but web_search" in response.json()["error"]["message"]
    assert answering.requests == []
    transport = transcoding(family, answering, missing_tools="drop")
    assert (await fetch(family, mode, transport, search)).status_code == 200
    assert [loss.feature for loss in transport.losses] == ["server_tool_dropped"]


@modes
@each_family
async def test_losses_of_a_count_are_reported_and_refused_where_strict(
    family: FamilyUnderTest, mode: str
) -> None:
    told: list[Loss] = []
    lossy = {**MESSAGES, "context_management": {"edits": []}}
    del lossy["max_tokens"]
    answering = Answering(family, json={"totalTokens": 4})
    for strict, status in ((False, 200), (True, 400)):
        transport = transcoding(
            family, answering, upstream="gemini", strict=strict, on_loss=told.append
        )
        response = await fetch(family, mode, transport, lossy, url=f"{CLIENT_URL}/count_tokens")
        assert response.status_code == status
        assert [loss.feature for loss in transport.losses] == ["context_management"]
        assert told == [*transport.losses]
        assert isinstance(transport.outcome, Failed) == strict
        told.clear()
    assert len(answering.requests) == 1
