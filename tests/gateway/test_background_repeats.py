"""Responses in the background that are continued, or asked for again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from support.gateway.background import gateway_with_log, polled, sdk

from streamnorm.testing import FakeProvider, faults

pytestmark = pytest.mark.anyio

REQUEST: dict[str, Any] = {"model": "m", "input": "Snow?", "background": True}
KEYED: dict[str, Any] = {**REQUEST, "extra_headers": {"idempotency-key": "i-1"}}
KEYS: dict[str, Any] = {"client_keys": "env:KEYS", "environ": {"KEYS": "k"}}
CLIENT_KEYS = pytest.mark.parametrize("settings", [KEYS, {}], ids=["keys", "none"])


@CLIENT_KEYS
async def test_complete_answer_outlives_a_repetition_that_fails(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """The log has forgotten the response by then, and the store has it."""
    provider = FakeProvider(["It snows.", faults.http(429), "Bye."])
    stored = {"state": f"sqlite:{tmp_path / 'state.db'}", "retries": 0, **settings}
    async with (
        gateway_with_log(provider.app(), **stored) as one,
        gateway_with_log(provider.app(), **stored) as other,
        sdk(one) as first,
        sdk(other) as second,
    ):
        done = await polled(first, (await first.responses.create(**KEYED)).id)
        again = await second.responses.create(**KEYED)
        assert again.id == done.id
        assert await polled(second, done.id) == done
        further = await second.responses.create(
            model="m", input="Thanks.", previous_response_id=done.id
        )
        assert further.output_text == "Bye."


async def test_other_request_under_a_key_is_another_response() -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        snow = await client.responses.create(**KEYED)
        assert (await polled(client, snow.id)).output_text == "It snows."
        rain = await client.responses.create(**{**KEYED, "input": "Rain?"})
        assert (await polled(client, rain.id)).output_text == "It rains."
        assert (await client.responses.retrieve(snow.id)).output_text == "It snows."


async def test_failed_response_is_not_continued() -> None:
    provider = FakeProvider([faults.http(429)])
    async with gateway_with_log(provider.app(), retries=0) as gateway, sdk(gateway) as client:
        failed = await polled(client, (await client.responses.create(**REQUEST)).id)
        with pytest.raises(openai.BadRequestError, match="no complete output") as raised:
            await client.responses.create(model="m", input="?", previous_response_id=failed.id)
    assert raised.value.code == "previous_response_not_found"
