"""Clients of Responses that leave before the end of an answer that is to be stored."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
import redis
from support.gateway.calls import JSON, opened
from support.gateway.servers import served
from support.gateway.stateful_clients import KEY, StateClient
from support.gateway.upstreams import ANSWER, Records, StepUpstream
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message

from streamnorm import Abandoned, Completed

pytestmark = pytest.mark.anyio


def caller(*, leaves: bool = True) -> Caller:
    """Return a client, which may leave when the first event arrives."""

    async def leave(message: Message) -> None:
        if leaves and message.get("body"):
            client.gone.set()

    body = json.dumps({"model": "m", "input": "Hi.", "stream": True}).encode()
    headers = (*JSON, ("authorization", f"Bearer {KEY}"))
    client = Caller("/v1/responses", headers=headers, body=(body,), on_send=leave)
    return client


def id_in(client: Caller) -> str:
    data = b"".join(client.bodies)
    return data.partition(b'"response":{"id":"')[2].partition(b'"')[0].decode()


@pytest.mark.parametrize(("policy", "is_stored"), [("drain", True), ("cancel", False)])
async def test_answer_that_is_read_to_its_end_is_stored(
    state: str, policy: Literal["drain", "cancel"], *, is_stored: bool
) -> None:
    upstream, records = StepUpstream([ANSWER[0], 0.02, *ANSWER[1:]]), Records()
    async with (
        served(upstream) as url,
        opened(url, state=state, on_disconnect=policy, observers=(records,)) as app,
    ):
        client = caller()
        await client.call(app)
        status, _ = await StateClient(app).ask("GET", id_in(client))
    assert status == (200 if is_stored else 404)
    assert isinstance(records.ended[0].outcome, Completed if is_stored else Abandoned)


async def test_client_that_leaves_while_its_answer_is_stored(valkey_url: str) -> None:
    records = Records()
    client = caller(leaves=False)

    async def upstream(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await StepUpstream()(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": ANSWER[0], "more_body": True})
        await asyncio.sleep(0.02)
        with redis.Redis.from_url(valkey_url) as store:
            store.client_pause(200, all=False)  # the store takes that long to write
        await send({"type": "http.response.body", "body": b"".join(ANSWER[1:])})
        await asyncio.sleep(0.05)
        client.gone.set()

    async with (
        served(upstream) as url,
        opened(url, state=valkey_url, observers=(records,)) as app,
    ):
        await client.call(app)
    assert isinstance(records.ended[0].outcome, Abandoned)
    assert b"response.completed" not in b"".join(client.bodies)
