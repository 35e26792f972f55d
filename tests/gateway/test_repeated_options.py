"""Options of a request that a translated response repeats."""

from __future__ import annotations

from typing import Any

import pytest
from support.gateway.calls import opened
from support.gateway.servers import served
from support.gateway.stateful_clients import StateClient

from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "name": "f", "description": "Look.", "parameters": {}, "strict": True}
OPTIONS: dict[str, Any] = {"instructions": "Be brief.", "temperature": 0.2, "tools": [TOOL]}


@pytest.mark.parametrize("state", [None, "memory:"])
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_translated_response_repeats_its_request(
    state: str | None, *, store: bool, stream: bool
) -> None:
    async with (
        served(FakeProvider("Hi.").app()) as url,
        opened(url, dialect="anthropic", state=state) as app,
    ):
        response = await StateClient(app).create("Hi", stream=stream, store=store, **OPTIONS)
    assert {name: response[name] for name in OPTIONS} == OPTIONS
    assert response["store"] is (store and state is not None)
