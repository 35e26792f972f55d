"""A sample of the fault matrix that `tests/stress/gateway_faults.py` describes and runs whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product

import pytest
from acceptance.fault_cells import CELLS, SAMPLE, SOCKET_CELLS, SOCKET_SAMPLE, Cell
from acceptance.fault_runs import Bench, open_bench
from acceptance.interactions_client import CLIENTS
from support.faults.answers import MOMENTS


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with open_bench() as known:
        yield known


@pytest.mark.anyio
@pytest.mark.on_asyncio
@pytest.mark.slow
@pytest.mark.parametrize("cell", SAMPLE, ids=str)
async def test_gateway_survives_a_fault_of_its_upstream(cell: Cell, bench: Bench) -> None:
    assert await bench.run(cell) == []


@pytest.mark.anyio
@pytest.mark.on_asyncio
@pytest.mark.slow
async def test_answer_over_a_websocket_has_one_end_whatever_its_upstream_does(bench: Bench) -> None:
    found = {str(cell): await bench.run(cell) for cell in SOCKET_SAMPLE}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("cells", [CELLS, SAMPLE], ids=["all", "sample"])
def test_cells_are_of_all_pairs_and_moments(cells: list[Cell]) -> None:
    assert {(cell.client, cell.upstream) for cell in cells} == set(product(CLIENTS, CLIENTS))
    assert {cell.moment for cell in cells} == set(MOMENTS)
    assert {cell.fault.mode for cell in cells} == {"patient", "hasty", "refused", "tls"}
    assert {cell.fault.stream for cell in cells} == {True, False}


@pytest.mark.parametrize("cells", [SOCKET_CELLS, SOCKET_SAMPLE], ids=["all", "sample"])
def test_cells_over_websockets_are_of_all_upstreams_and_moments(cells: list[Cell]) -> None:
    assert {cell.upstream for cell in cells} == set(CLIENTS)
    assert {cell.moment for cell in cells} == set(MOMENTS)


def test_no_cell_is_run_twice() -> None:
    cells = [*CELLS, *SOCKET_CELLS]
    assert len(set(cells)) == len(cells)
    assert len({str(cell) for cell in cells}) == len(cells)
