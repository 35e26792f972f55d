"""`streamnorm serve` with few descriptors, and clients that hold all that they can."""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from support.cli.servers import provider
from support.gateway.limited_processes import BODY, HEAD, LimitedGateway, limited_gateway, received

from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="figures of processes in /proc")

DESCRIPTORS = 64
WITHOUT_EXTRAS = "import sys; sys.modules.update(dict.fromkeys(['uvloop', 'httptools']))"
CONFIG = """
idle_s = 0.4

[upstreams.local]
dialect = "openai_chat"
base_url = "{url}"
"""


@contextmanager
def gateway(
    directory: Path, extras: bool, descriptors: tuple[int, int]
) -> Iterator[LimitedGateway]:
    """Run a gateway with limits of open descriptors, with uvloop and httptools or without."""
    before = "pass" if extras else WITHOUT_EXTRAS
    with provider(FakeProvider(["It snows."] * 9).app()) as url:
        config = CONFIG.format(url=url)
        with limited_gateway(directory, config, descriptors=descriptors, before=before) as server:
            yield server


def open_ones(clients: Sequence[socket.socket]) -> list[socket.socket]:
    """Return the clients whose connection the server has not closed."""
    closed, _, _ = select.select(clients, [], [], 0)
    return [client for client in clients if client not in closed]


@pytest.fixture(params=[True, False], ids=["uvloop-httptools", "asyncio-h11"])
def extras(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_silent_connections_hold_up_no_request(extras: bool, tmp_path: Path) -> None:
    with gateway(tmp_path, extras, (DESCRIPTORS, DESCRIPTORS)) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(80)]
        assert b"It snows." in server.ask()
        assert 0 < len(open_ones(clients)) < DESCRIPTORS
        used, begun_at = server.cpu_s(), time.monotonic()
        time.sleep(0.5)
        assert server.cpu_s() - used < (time.monotonic() - begun_at) / 2
        said = server.errors.read_text()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    assert "Traceback" not in said
    assert said.startswith("streamnorm: at most 16 connections, since few files may be open")
    assert len(said) < 1000


def test_slow_bodies_in_every_place_are_ended(extras: bool, tmp_path: Path) -> None:
    """Their bytes arrive more often than the gap between two that is allowed."""
    # Longer than all that can be sent before a busy machine runs the gateway's clock.
    head = HEAD.replace(b"content-length: %d" % len(BODY), b"content-length: 1000000")
    assert head != HEAD
    with gateway(tmp_path, extras, (DESCRIPTORS, DESCRIPTORS)) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(16)]
        for client in clients:
            client.sendall(head + BODY[:1])
        waiting, ends_at = clients, time.monotonic() + 60
        while waiting and time.monotonic() < ends_at:
            time.sleep(0.05)
            waiting = open_ones(waiting)
            for client in waiting:
                with suppress(ConnectionError):
                    client.send(b" ")
        assert not waiting
        assert {received(client)[:13] for client in clients} == {b"HTTP/1.1 408 "}
        assert b"It snows." in server.ask()


def test_headers_of_300_megabytes_are_not_stored(extras: bool, tmp_path: Path) -> None:
    with gateway(tmp_path, extras, (1024, 1024)) as server:
        assert b"It snows." in server.ask()
        before = server.peak_bytes()
        for piece in (b"a: b\r\n" * 10_000, b"x" * 60_000):
            sent = 0
            with server.connect() as client, suppress(ConnectionError):
                client.sendall(HEAD[:-2] + b"a: ")
                while sent < 300_000_000:
                    client.sendall(piece)
                    sent += len(piece)
            assert sent < 30_000_000  # most of it in buffers of the sockets
        assert server.peak_bytes() - before < 10_000_000
        assert b"It snows." in server.ask()


def test_soft_limit_is_raised(extras: bool, tmp_path: Path) -> None:
    with gateway(tmp_path, extras, (DESCRIPTORS, 4096)) as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
        with ExitStack() as stack:
            clients = [stack.enter_context(server.connect()) for _ in range(200)]
            assert b"It snows." in server.ask()
            assert open_ones(clients) == clients
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3] == "4096"
