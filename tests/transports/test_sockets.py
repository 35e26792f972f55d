"""Exchanges over real connections are recorded unchanged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from support.http.families import READS, FamilyUnderTest, each_family, recorded_in

PATIENCE_S = 5.0  # of the server, with a test that has failed


class Server(NamedTuple):
    """A server that streams.

    Attributes:
        url: Where to ask.
        taken: To be released when the client has a read; only then comes the next.
        asked: The `accept-encoding` of each request.
    """

    url: str
    taken: threading.Semaphore
    asked: list[str]


@contextmanager
def serving(end: Literal["eof", "reset", "timeout"] = "eof") -> Iterator[Server]:
    """Serve `READS` to each request, one write each, and end as given."""
    taken, over, asked = threading.Semaphore(0), threading.Event(), list[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            asked.append(self.headers["accept-encoding"])
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                self.stream()
            except OSError:
                self.close_connection = True  # the client has left

        def stream(self) -> None:
            for data in READS:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                taken.acquire(timeout=PATIENCE_S)
            if end == "timeout":
                over.wait(PATIENCE_S)
            if end == "eof":
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_port}/v1/messages", taken, asked)
    finally:
        over.set()
        taken.release(len(READS))
        server.shutdown()
        thread.join()
        server.server_close()


@each_family
def test_reads_of_a_connection_are_recorded(family: FamilyUnderTest, tmp_path: Path) -> None:
    inner = family.http.HTTPTransport()
    transport = family.transports.RecordingTransport(inner, tmp_path)
    got = []
    with (
        serving() as server,
        family.http.Client(transport=transport) as client,
        client.stream("POST", server.url, json={"stream": True}) as response,
    ):
        for data in response.iter_raw():
            got.append(data)
            server.taken.release()
    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == got == READS
    assert recording.response.end == "eof"
    assert server.asked == ["identity"]


@pytest.mark.anyio
@each_family
async def test_reads_of_an_asynchronous_connection_are_recorded(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    inner = family.http.AsyncHTTPTransport()
    transport = family.transports.RecordingTransport(inner, tmp_path)
    got = []
    with serving() as server:
        async with (
            family.http.AsyncClient(transport=transport) as client,
            client.stream("POST", server.url, json={"stream": True}) as response,
        ):
            async for data in response.aiter_raw():
                got.append(data)
                server.taken.release()
    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == got == READS
    assert recording.response.end == "eof"
    assert server.asked == ["identity"]


@pytest.mark.anyio
@each_family
@pytest.mark.parametrize(
    ("end", "error"), [("reset", "RemoteProtocolError"), ("timeout", "ReadTimeout")]
)
async def test_failed_connection_replays_the_failure(
    family: FamilyUnderTest, end: Literal["reset", "timeout"], error: str, tmp_path: Path
) -> None:
    inner = family.http.AsyncHTTPTransport()
    transport = family.transports.RecordingTransport(inner, tmp_path)
    timeout = family.http.Timeout(PATIENCE_S, read=0.05)
    with serving(end) as server:
        server.taken.release(len(READS))
        async with family.http.AsyncClient(transport=transport, timeout=timeout) as client:
            with pytest.raises(getattr(family.http, error)):
                await client.post(server.url, json={})
            assert inner._pool.connections == []
    (recording,) = recorded_in(tmp_path)
    assert recording.body == b"".join(READS)
    assert recording.response.end == end
    replayed = family.transports.ReplayTransport(tmp_path)
    with pytest.raises(family.http.ReadTimeout if end == "timeout" else family.http.ReadError):
        family.fetch(replayed, json={})


# The clients leave generators of their own to the garbage collector, which trio tells.
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
@pytest.mark.anyio
@each_family
async def test_abandoned_stream_leaves_no_connection(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    inner = family.http.AsyncHTTPTransport()
    transport = family.transports.RecordingTransport(inner, tmp_path)
    with serving() as server:
        async with family.http.AsyncClient(transport=transport) as client:
            request = client.build_request("POST", server.url, json={})
            response = await client.send(request, stream=True)
            assert await anext(response.stream.__aiter__()) == READS[0]
            await response.aclose()
            assert inner._pool.connections == []
    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == READS[:1]
    assert recording.response.end == "aborted"
