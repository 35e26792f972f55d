"""`connect` with `to`: requests whose response is written in another dialect."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import httpx2
import pytest
from support.http.loopback import HEAD, Server, chunked
from support.openai_chat.chunks import DONE, content

import streamnorm
from streamnorm import Abandoned, Completed, Outcome, UnknownDialect, Usage

pytestmark = pytest.mark.anyio

families = pytest.mark.parametrize("family", [httpx, httpx2])
BODY = [content("a"), content("b", "stop"), DONE]
WHOLE = [HEAD, *map(chunked, BODY), b"0\r\n\r\n"]


@families
async def test_response_is_written_in_the_other_dialect(family: Any) -> None:
    outcomes: list[Outcome] = []
    async with Server(WHOLE).running() as server, family.AsyncClient() as client:
        async with streamnorm.connect(
            client,
            "POST",
            server.url,
            json={"stream": True},
            to="anthropic",
            model="m-2",
            on_end=outcomes.append,
        ) as stream:
            assert server.requests == []
            written = b"".join([chunk async for chunk in stream])
        assert outcomes == [Completed("end_turn", Usage())]
        assert len(server.requests) == 1
        assert server.requests[0].endswith((b'{"stream":true}', b'{"stream": true}'))
    message = streamnorm.accumulate(streamnorm.codec.decoder("anthropic").feed(written))
    assert (message.text, message.model) == ("ab", "m-2")


async def test_response_of_the_same_dialect_passes_unchanged() -> None:
    async with Server(WHOLE).running() as server, httpx.AsyncClient() as client:
        stream = streamnorm.connect(client, "GET", server.url, to="chat", dialect="chat")
        assert b"".join([chunk async for chunk in stream]) == b"".join(BODY)


async def test_options_of_the_transcoder_are_not_sent_to_the_client() -> None:
    losses: list[Any] = []
    body = [content("<think>why</think>so"), content("", "stop").rstrip()]

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"".join(body))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        stream = streamnorm.connect(
            client,
            "GET",
            "http://x",
            to="gemini",
            dialect="chat",
            ordering="interleaved",
            verbatim=False,
            strict=False,
            limits=streamnorm.Limits(),
            on_loss=losses.append,
            on_note=losses.append,
            server="deepseek",
            think_tags=True,
            model="m",
            include_usage=False,
            reasoning=None,
            keep_message=False,
            reply=streamnorm.Reply(),
        )
        written = b"".join([chunk async for chunk in stream])
    assert b"so" in written
    assert b"why" not in written
    assert losses


@pytest.mark.parametrize("to", [None, "anthropic"])
async def test_option_of_neither_is_reported_at_once(to: Any) -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(TypeError, match="jsn"):
            streamnorm.connect(client, "POST", "http://x", to=to, jsn={})


async def test_errors_of_a_written_stream_cannot_be_yielded() -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(TypeError, match="errors"):
            streamnorm.connect(client, "POST", "http://x", to="anthropic", errors="yield")


async def test_unknown_target_is_reported_at_once() -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(UnknownDialect):
            streamnorm.connect(client, "GET", "http://x", to="klingon")


@families
async def test_cancelling_the_first_read_cancels_the_request(family: Any) -> None:
    async with Server([], stays_open=True).running() as server, family.AsyncClient() as client:
        stream = streamnorm.connect(client, "GET", server.url, to="anthropic")

        async def read() -> None:
            await anext(stream)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await server.asked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await server.left.wait()
        assert stream.outcome == Abandoned()
        assert client._transport._pool.connections == []
