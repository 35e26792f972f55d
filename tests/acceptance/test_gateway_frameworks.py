"""Agent frameworks run the tools of a task through a gateway, on an upstream of every dialect.

The whole matrix:

    python -m pytest -m "" tests/acceptance/test_gateway_frameworks.py
"""

from __future__ import annotations

import pytest
from acceptance.frameworks import ANSWER, FRAMEWORKS, TASK, Framework, assert_tools_were_run
from acceptance.gateways import Gateways
from acceptance.transcoding_clients import SDKS
from support.http.strict_upstreams import COMPATIBLE, strict_provider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio, pytest.mark.slow]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("target", SDKS)
@pytest.mark.parametrize(
    ("run", "dialect"),
    [
        pytest.param(run, dialect, id=f"{name}-{dialect}")
        for name, (run, dialects) in FRAMEWORKS.items()
        for dialect in dialects
    ],
)
async def test_framework_runs_parallel_tools_in_two_requests(
    run: Framework,
    dialect: str,
    target: str,
    stream: bool,
    running: Gateways,
) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    running.upstream.app = provider.app()
    async with SDKS[dialect].http.AsyncClient() as http:
        assert await run(dialect, http, running.urls[target], stream=stream) == ANSWER
        assert await running.connections_in_use(target) == 0
    assert_tools_were_run(provider)
    assert [request.dialect for request in provider.requests] == [target] * 2
