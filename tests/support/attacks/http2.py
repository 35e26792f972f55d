"""Attacks over HTTP/2 with prior knowledge (hypercorn)."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from urllib.parse import urlsplit

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes

from support.attacks.bench import PROMPT, TENANTS, Attack, Bench, Setup
from support.gateway.upstreams import REQUESTS
from support.http.echo_upstream import MARKER, endless_steps, new_marker, slow_steps

__all__ = ["ATTACKS"]

_STREAMS = 40
_RESETS = 300
_WAIT_S = 60.0


class _Client:
    """An HTTP/2 connection with message requests.

    Attributes:
        bodies: The bodies of the answers by stream.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.bodies: dict[int, bytes] = {}
        self._reader = reader
        self._writer = writer
        self._h2 = H2Connection(H2Configuration(client_side=True))
        self._open: set[int] = set()

    @classmethod
    async def connect(cls, url: str, *, window: int | None = None) -> _Client:
        """Connect with an initial window size."""
        address = urlsplit(url)
        self = cls(*await asyncio.open_connection(address.hostname, address.port))
        self._h2.initiate_connection()
        if window is not None:
            self._h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        await self.flush()
        return self

    async def flush(self) -> None:
        """Send pending bytes."""
        self._writer.write(self._h2.data_to_send())
        await self._writer.drain()

    def ask(self, marker: str, key: str) -> int:
        """Send a request; return its stream."""
        path, body = REQUESTS["openai_chat"]
        data = json.dumps(body).replace("Hello", f"{marker} {PROMPT}").encode()
        stream = self._h2.get_next_available_stream_id()
        fields = {":method": "POST", ":path": path, ":scheme": "http", ":authority": "localhost"}
        fields |= {"content-type": "application/json", "authorization": f"Bearer {key}"}
        self._h2.send_headers(stream, [*fields.items()])
        self._h2.send_data(stream, data, end_stream=True)
        self._open.add(stream)
        self.bodies[stream] = b""
        return stream

    def reset(self, stream: int) -> None:
        """Reset a stream."""
        self._h2.reset_stream(stream)
        self._open.discard(stream)

    async def read_all(self) -> None:
        """Read until all streams have ended."""
        async with asyncio.timeout(_WAIT_S):
            while self._open:
                data = await self._reader.read(65_536)
                assert data, "the connection ended in the middle of answers"
                for event in self._h2.receive_data(data):
                    if isinstance(event, DataReceived):
                        self.bodies[event.stream_id] += event.data
                        self._h2.acknowledge_received_data(
                            event.flow_controlled_length, event.stream_id
                        )
                    elif isinstance(event, StreamEnded | StreamReset):
                        self._open.discard(event.stream_id or 0)
                await self.flush()

    def leave(self) -> None:
        """Reset the connection."""
        self._writer.transport.abort()


async def _many_streams(bench: Bench) -> str:
    """Attack by simultaneous requests of two tenants on one connection."""
    bench.upstream.plan = partial(slow_steps, pause_s=0.01)
    client = await _Client.connect(bench.url)
    markers = {}
    for number in range(_STREAMS):
        marker = new_marker()
        markers[client.ask(marker, TENANTS[number % 2])] = marker.encode()
    await client.flush()
    await client.read_all()
    for stream, marker in markers.items():
        assert {*MARKER.findall(client.bodies[stream])} == {marker}, "another stream's answer"
    client.leave()
    return f"{_STREAMS} streams at a time have their own answers"


async def _resets(bench: Bench) -> str:
    """Attack by resetting each request as soon as it is sent."""
    bench.upstream.plan = endless_steps
    client = await _Client.connect(bench.url)
    for _ in range(_RESETS):
        client.reset(client.ask(new_marker(), TENANTS[0]))
        await client.flush()
    await _released(bench)
    client.leave()
    bench.upstream.plan = lambda _: None
    await bench.ask()
    return f"{_RESETS} requests reset, {len(bench.upstream.requests) - 1} reached the upstream"


async def _closed_window(bench: Bench) -> str:
    """Attack by a client that accepts no bytes of its answers."""
    client = await _Client.connect(bench.url, window=0)
    for _ in range(_STREAMS):
        client.ask(new_marker(), TENANTS[0])
    await client.flush()
    for name in REQUESTS:
        await bench.ask(name, stream=True)
    client.leave()
    await _released(bench)
    await bench.ask()
    return f"{_STREAMS} answers without a window, others go on"


async def _released(bench: Bench) -> None:
    """Wait until the upstream is sending no answer."""
    async with asyncio.timeout(_WAIT_S):
        await asyncio.sleep(0.5)
        while bench.upstream.running:  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.05)


_HYPERCORN = ("hypercorn",)
_SETUP = Setup("keepalive_s = 1\n")
ATTACKS = (
    Attack("HTTP/2: many streams", _many_streams, _SETUP, _HYPERCORN),
    Attack("HTTP/2: rapid resets", _resets, _SETUP, _HYPERCORN),
    Attack("HTTP/2: a closed window", _closed_window, _SETUP, _HYPERCORN),
)
