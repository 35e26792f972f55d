"""Clients end a task as they must, however the upstream of a gateway answers its first turn.

Every client meets every variant, on upstreams of the other dialects in turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import openai
import pytest
from acceptance.agent_variants import VARIANTS, Variant
from acceptance.frameworks import ANSWER, FRAMEWORKS, Framework
from acceptance.gateways import Gateways, gateways_to_upstream
from acceptance.transcoding_clients import SDKS
from support.http.strict_upstreams import COMPATIBLE, strict_provider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio, pytest.mark.slow]

RETRIES = 2  # as many as the SDKs have by default, Google's excepted


async def run_sdk(
    dialect: str, http: Any, base_url: str | None = None, *, stream: bool = True, retries: int = 0
) -> str:
    """Run the task with an SDK alone."""
    readings = await SDKS[dialect].converse_async(
        http, 2, stream=stream, base_url=base_url, retries=retries
    )
    return readings[-1].text


CLIENTS = {"sdk": (run_sdk, tuple(SDKS)), **FRAMEWORKS}


class Cell(NamedTuple):
    """A client, a variant, and the dialect of the upstream.

    Attributes:
        name: The client's name.
        run: The client.
        dialect: The client's dialect.
        variant: The variant's name.
        upstream: The upstream's dialect.
    """

    name: str
    run: Framework
    dialect: str
    variant: str
    upstream: str

    def __str__(self) -> str:
        return f"{self.name}-{self.dialect}-{self.upstream}-{self.variant}"


def _cells() -> list[Cell]:
    """Return each client with each variant, on the possible upstreams of others in turn."""
    cells: list[Cell] = []
    for name, (run, dialects) in CLIENTS.items():
        for dialect in dialects:
            for variant, answers in VARIANTS.items():
                others = [one for one in answers.upstreams or SDKS if one != dialect]
                if others:
                    upstream = others[len(cells) % len(others)]
                    cells.append(Cell(name, run, dialect, variant, upstream))
    return cells


def expected_error(cell: Cell) -> type[Exception]:
    """Return the client's exception for an error within a stream."""
    if cell.name == "pydantic-ai":
        from pydantic_ai.exceptions import ModelAPIError  # imported late, as it takes a second

        return ModelAPIError
    # openai-agents and LangChain leave the exceptions of the SDK as they are.
    return SDKS[cell.dialect].stream_error if cell.name == "sdk" else openai.APIError


@pytest.fixture(scope="module")
async def hasty() -> AsyncIterator[Gateways]:
    async with gateways_to_upstream(idle_s=0.05) as known:
        yield known


@pytest.mark.parametrize("cell", _cells(), ids=str)
async def test_task_ends_as_it_must_in_as_many_requests(
    cell: Cell, running: Gateways, hasty: Gateways
) -> None:
    variant: Variant = VARIANTS[cell.variant]
    gateways = hasty if cell.variant == "silent" else running
    provider = strict_provider(variant.script, server=COMPATIBLE)
    gateways.upstream.app = provider.app()
    async with SDKS[cell.dialect].http.AsyncClient() as http:
        asked = cell.run(cell.dialect, http, gateways.urls[cell.upstream], retries=RETRIES)
        if variant.fails:
            with pytest.raises(expected_error(cell)):
                await asked
        else:
            assert await asked == ANSWER
        assert await gateways.connections_in_use(cell.upstream) == 0
    assert [request.dialect for request in provider.requests] == [cell.upstream] * variant.requests
