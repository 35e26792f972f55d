"""Whole bodies of a provider, read within a bound."""

from __future__ import annotations

from typing import Any

import pytest
from support.http.families import FamilyUnderTest, each_family
from support.http.transcoding_clients import closable_body

from streamnorm.transports.transcoded_responses import read_whole, read_whole_async

pytestmark = pytest.mark.anyio


async def read(family: FamilyUnderTest, mode: str, source: Any, max_bytes: int) -> object:
    response = family.http.Response(200, stream=source)
    if mode == "sync":
        return read_whole(response, max_bytes)
    return await read_whole_async(response, max_bytes)


@each_family
@pytest.mark.parametrize("mode", ["async", "sync"])
@pytest.mark.parametrize(
    ("max_bytes", "reads"), [(7, [b"abcd", b"efgh"]), (8, [b"abcd", b"efgh", b"ijkl"])]
)
async def test_body_beyond_the_bound_is_not_read_on(
    family: FamilyUnderTest, mode: str, max_bytes: int, reads: list[bytes]
) -> None:
    source = closable_body(family, mode, [b"abcd", b"efgh", b"ijkl", b"mnop"])
    assert await read(family, mode, source, max_bytes) == b"".join(reads)
    assert source.closed


@each_family
@pytest.mark.parametrize("mode", ["async", "sync"])
async def test_whole_body_is_read(family: FamilyUnderTest, mode: str) -> None:
    source = closable_body(family, mode, [b"abcd", b"efgh"])
    assert await read(family, mode, source, 8) == b"abcdefgh"
    assert source.closed
