"""The official Anthropic SDK against bytes that arrive over a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import httpx2
import pytest
from support.streams.corpus import pieces, recordings

from streamnorm import Transcoder, accumulate, project
from streamnorm._core.text import escape_id
from streamnorm.codec import decoder
from streamnorm.recording import Recording

REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": []}
CASES = (
    "openai/text",
    "openai/one-tool",
    "openai/parallel-tools-interleaved-three-characters",
    "openai/text-in-the-middle-of-arguments",
    "deepseek/reasoning-then-text",
    "perplexity/crlf-usage-every-chunk-no-done",
)
FAILING_CASES = (
    "openai/error-in-stream",
    "openai/cut-in-arguments",
    "groq/error-event",
    "openrouter/error-before-first-token",
)


def recording(case: str) -> Recording:
    return next(r for r in recordings() if f"{r.path.parent.name}/{r.path.stem}" == case)


@contextmanager
def anthropic_server(source: bytes, piece_bytes: int) -> Iterator[str]:
    """Serve a Chat Completions stream as Anthropic's, one write for each piece of it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            transcoder = Transcoder("openai_chat", "anthropic")
            for piece in pieces(source, piece_bytes):
                self.write(transcoder.feed(piece))
            self.write(transcoder.close())
            self.wfile.write(b"0\r\n\r\n")

        def write(self, written: list[bytes]) -> None:
            for data in written:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def expected(source: bytes) -> list[Any]:
    chat = decoder("openai_chat")
    events = chat.feed(source) + chat.close()
    message = accumulate(project(events, "anthropic")[0])
    calls = [
        (escape_id(call.id), call.name, json.loads(call.arguments)) for call in message.tool_calls
    ]
    return [message.text, calls, message.stop_reason, message.usage.output_tokens or 0]


def found(message: anthropic.types.Message) -> list[Any]:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"]
    return [text, calls, message.stop_reason, message.usage.output_tokens]


@pytest.mark.parametrize("case", CASES)
def test_sdk_reads_a_recording_over_a_socket(case: str) -> None:
    source = recording(case).body
    message = expected(source)
    with (
        anthropic_server(source, 200) as url,
        httpx2.Client(trust_env=False) as http,
        anthropic.Anthropic(api_key="-", base_url=url, http_client=http) as client,
        client.messages.stream(**REQUEST) as stream,
    ):
        assert found(stream.get_final_message()) == message


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES[:3])
async def test_async_sdk_reads_a_recording_over_a_socket(case: str) -> None:
    source = recording(case).body
    message = expected(source)
    with anthropic_server(source, 200) as url:
        async with (
            httpx2.AsyncClient(trust_env=False) as http,
            anthropic.AsyncAnthropic(api_key="-", base_url=url, http_client=http) as client,
            client.messages.stream(**REQUEST) as stream,
        ):
            assert found(await stream.get_final_message()) == message


@pytest.mark.parametrize("case", FAILING_CASES)
def test_sdk_raises_over_a_socket_what_failed(case: str) -> None:
    with (
        anthropic_server(recording(case).body, 200) as url,
        httpx2.Client(trust_env=False) as http,
        anthropic.Anthropic(api_key="-", base_url=url, http_client=http) as client,
        client.messages.stream(**REQUEST) as stream,
        pytest.raises(anthropic.APIStatusError),
    ):
        stream.get_final_message()
