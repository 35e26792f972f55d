"""Agent frameworks on a provider of another dialect, by the client that they are given."""

from __future__ import annotations

import pytest
from acceptance.frameworks import (
    ANSWER,
    FRAMEWORKS,
    TASK,
    Framework,
    assert_tools_were_run,
    run_agents,
)
from acceptance.transcoding_clients import SDK, SDKS
from support.http.strict_upstreams import strict_provider

from streamnorm.testing import FakeProvider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio, pytest.mark.slow]


def http_client(provider: FakeProvider, sdk: SDK, upstream: str) -> object:
    """Return an HTTP client whose requests reach the provider in another dialect."""
    transport = sdk.transports.TranscodingTransport(
        provider.transport(sdk.http.__name__),
        client=sdk.dialect,
        upstream=upstream,
        base_url="https://provider.test",
    )
    return sdk.http.AsyncClient(transport=transport)


@pytest.mark.parametrize("upstream", ["anthropic", "gemini"])
@pytest.mark.parametrize(
    ("run", "dialect"),
    [
        pytest.param(run, dialect, id=f"{name}-{dialect}")
        for name, (run, dialects) in FRAMEWORKS.items()
        for dialect in dialects
    ],
)
async def test_framework_runs_parallel_tools(run: Framework, dialect: str, upstream: str) -> None:
    provider = strict_provider(TASK)
    assert await run(dialect, http_client(provider, SDKS[dialect], upstream)) == ANSWER
    assert_tools_were_run(provider)


@pytest.mark.parametrize("upstream", ["anthropic", "gemini"])
async def test_openai_agents_refer_to_the_previous_response(upstream: str) -> None:
    provider = strict_provider(TASK)
    http = http_client(provider, SDKS["openai_responses"], upstream)
    options = {"auto_previous_response_id": True}
    assert await run_agents("openai_responses", http, **options) == ANSWER
    assert_tools_were_run(provider)
