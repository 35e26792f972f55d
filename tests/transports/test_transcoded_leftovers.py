"""Requests that are cancelled at random points leave nothing in the pool, or at the server."""

from __future__ import annotations

import pytest
from support.http.cancelled_requests import cancel_requests
from support.http.families import FamilyUnderTest, each_family

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


# httpx leaves generators to the garbage collector, which trio reports.
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@each_family
async def test_cancelled_requests_leave_no_more_than_without_the_transport(
    family: FamilyUnderTest,
) -> None:
    bare = await cancel_requests(family, 40, seed=1, through=False)
    left = await cancel_requests(family, 40, seed=1, through=True)
    assert not left.counts_exceed(bare), (left, bare)
