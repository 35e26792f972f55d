"""How many modules a request passes through, so that a reader can follow it.

A change that needs more than the bounds is to say why.  60 modules and 299 crossings were counted.
"""

from __future__ import annotations

import json

import pytest
from support.gateway.calls import called, opened
from support.http.raw_http import raw_upstream
from support.module_trace import ModuleTrace
from support.openai_chat.chunks import DONE, content

from streamnorm._upstream.requests import ClientRequest, Upstream, build_upstream_request

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
REQUEST = {
    "model": "m",
    "max_tokens": 9,
    "stream": True,
    "system": "Be brief.",
    "tools": [{"name": "get_weather", "description": "Look.", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Snow?"},
    ],
}
STREAM = b"".join([*map(content, ("It ", "sno")), content("ws.", "stop"), DONE])
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)
ANSWER = HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(STREAM), STREAM)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_streamed_request_of_a_gateway() -> None:
    with raw_upstream(ANSWER) as upstream:
        async with opened(upstream.url) as app:
            for _ in range(2):  # what the first one loads does not count
                with ModuleTrace() as trace:
                    caller = await called(app, "/v1/messages", REQUEST)
                assert b"message_stop" in b"".join(caller.bodies)
    assert 40 < len(trace.modules) <= 60, sorted(trace.modules)
    assert trace.crossing_count <= 300, trace.crossings.most_common(20)


def test_translated_request_body() -> None:
    received = ClientRequest(
        method="POST",
        path="/v1/messages",
        headers={"content-type": "application/json"},
        body=json.dumps(REQUEST).encode(),
    )
    upstream = Upstream(dialect="openai_chat", base_url="https://h")
    for _ in range(2):
        with ModuleTrace() as trace:
            sent = build_upstream_request(received, "anthropic", upstream)
        assert json.loads(sent.body)["stream"] is True
    assert 20 < len(trace.modules) <= 25, sorted(trace.modules)
