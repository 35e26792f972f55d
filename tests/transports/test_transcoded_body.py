"""The body of a transcoded response, read by chunks and closed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from support.http.families import FamilyUnderTest, each_family
from support.http.transcoding_clients import (
    SSE,
    STREAMING,
    Answering,
    chat_stream,
    closable_body,
    transcoding,
)

from streamnorm import Abandoned, Completed, Failed
from streamnorm.state import MemoryStore, StoredResponse

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["async", "sync"])


async def begin(family: FamilyUnderTest, mode: str, transport: Any, path: str, body: Any) -> Any:
    """Return the body of a response, of which nothing was read."""
    request = family.http.Request("POST", f"https://x{path}", json=body)
    if mode == "sync":
        return transport.handle_request(request).stream
    return (await transport.handle_async_request(request)).stream


async def drain(mode: str, body: Any) -> list[bytes]:
    return list(body) if mode == "sync" else [chunk async for chunk in body]


async def close(mode: str, body: Any) -> None:
    body.close() if mode == "sync" else await body.aclose()


ERROR = b'data: {"error":{"message":"no capacity"}}\n\n'
ENDS = pytest.mark.parametrize(
    ("end", "outcome"), [([], Completed), ([ERROR], Failed)], ids=["completes", "fails"]
)


@modes
@each_family
@ENDS
async def test_answer_in_one_read_ends_with_its_chunk(
    family: FamilyUnderTest, mode: str, end: list[bytes], outcome: type[Any]
) -> None:
    source = closable_body(family, mode, [b"".join([*chat_stream()[: 2 if end else None], *end])])
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    body = await begin(family, mode, transport, "/v1/messages", STREAMING)
    assert transport.outcome is None
    assert bool(source.closed) == bool(end)  # some SDKs raise at an error, and close nothing
    (chunk,) = await drain(mode, body)
    assert b"message_start" in chunk
    assert isinstance(transport.outcome, outcome)
    assert source.closed


@modes
@each_family
@ENDS
async def test_answer_in_one_read_may_stay_unread(
    family: FamilyUnderTest, mode: str, end: list[bytes], outcome: type[Any]
) -> None:
    source = closable_body(family, mode, [b"".join([*chat_stream()[: 2 if end else None], *end])])
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    body = await begin(family, mode, transport, "/v1/messages", STREAMING)
    await close(mode, body)
    assert isinstance(transport.outcome, Failed if outcome is Failed else Abandoned)
    with pytest.raises(family.http.ReadError, match="read of a body that was closed"):
        await drain(mode, body)
    assert source.closed


@modes
@each_family
async def test_body_that_was_read_cannot_be_read_once_it_is_closed(
    family: FamilyUnderTest, mode: str
) -> None:
    source = closable_body(family, mode, chat_stream())
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    body = await begin(family, mode, transport, "/v1/messages", STREAMING)
    assert await drain(mode, body)
    assert await drain(mode, body) == []
    await close(mode, body)
    with pytest.raises(family.http.ReadError, match="read of a body that was closed"):
        await drain(mode, body)


class FullStore(MemoryStore):
    """A store that refuses every response."""

    def put(self, scope: str, response: StoredResponse) -> None:
        raise OSError("full")


@modes
@each_family
@pytest.mark.parametrize("max_bytes", [9, 9999])
async def test_streamed_answer_says_whether_the_store_has_taken_it(
    family: FamilyUnderTest, mode: str, max_bytes: int
) -> None:
    source = closable_body(family, mode, chat_stream())
    transport = transcoding(
        family,
        Answering(family, stream=source, headers=SSE),
        client="openai_responses",
        store=MemoryStore(max_bytes=max_bytes),
    )
    asked = {"model": "m", "input": "Hi.", "stream": True}
    body = await begin(family, mode, transport, "/v1/responses", asked)
    last = b"".join(await drain(mode, body)).split(b"\n\n")[-2]
    assert last.startswith(b"event: response.completed\n")
    assert (b'"store":true' in last, b'"store":false' in last) == (max_bytes > 9, max_bytes == 9)


@modes
@each_family
@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("in_one_read", [True, False])
async def test_refusal_of_the_store_closes_the_provider(
    family: FamilyUnderTest, mode: str, *, in_one_read: bool, stores: bool
) -> None:
    reads = [b"".join(chat_stream())] if in_one_read else chat_stream()
    source = closable_body(family, mode, reads)
    transport = transcoding(
        family,
        Answering(family, stream=source, headers=SSE),
        client="openai_responses",
        store=FullStore(),
    )
    asked = {"model": "m", "input": "Hi.", "stream": True, "store": stores}
    with pytest.raises(OSError, match="full") if stores else nullcontext():
        await drain(mode, await begin(family, mode, transport, "/v1/responses", asked))
    assert source.closed
    assert isinstance(transport.outcome, Completed)
