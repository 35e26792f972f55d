"""The official SDKs read a stream of a gateway that is full of pings as they read it without."""

from __future__ import annotations

import pytest
from acceptance.transcoding_clients import SDK, SDKS, Reading
from support.gateway_servers import served_gateway
from support.gateway_upstreams import ANSWER, Head, Step, StepUpstream

pytestmark = pytest.mark.anyio

SILENCE_S = 0.03
FIRST, *REST = [step for event in ANSWER for step in (event, SILENCE_S)]
STEPS: dict[str, list[Step]] = {
    "in_the_stream": [FIRST, *REST],
    "before_the_first_event": [Head(), SILENCE_S, FIRST, *REST],
    "before_the_status": [SILENCE_S, FIRST, *REST],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("phase", STEPS)
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_pings_do_not_change_what_an_sdk_reads(sdk: SDK, phase: str) -> None:
    settings = {"keepalive_s": 0.002, "commit_after_s": 0.002}
    async with (
        served_gateway(StepUpstream(STEPS[phase]), **settings) as gateway,
        sdk.http.AsyncClient() as http,
    ):
        [reading] = await sdk.converse_async(http, 1, base_url=gateway.url)
    assert reading == Reading("ab")
