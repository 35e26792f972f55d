"""Responses in the background that are continued, or asked for again."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from support.gateway.background import gateway_with_log, polled, sdk

from streamnorm.testing import FakeProvider, faults

pytestmark = pytest.mark.anyio

REQUEST: dict[str, Any] = {"model": "m", "input": "Snow?", "background": True}


async def test_failed_response_is_not_continued() -> None:
    provider = FakeProvider([faults.http(429)])
    async with gateway_with_log(provider.app(), retries=0) as gateway, sdk(gateway) as client:
        failed = await polled(client, (await client.responses.create(**REQUEST)).id)
        with pytest.raises(openai.BadRequestError, match="no complete output") as raised:
            await client.responses.create(model="m", input="?", previous_response_id=failed.id)
    assert raised.value.code == "previous_response_not_found"
