"""A server whose connection is closed before it says that its client has disconnected."""

from __future__ import annotations

import anyio
import pytest
from support.http.asgi_client import Client, Message

from streamnorm.asgi.responses import open_exchange

pytestmark = pytest.mark.anyio

# What a write to a closed transport raises in uvloop.
CLOSED = "unable to perform operation on <TCPTransport closed=True>; the handler is closed"


class ServerError(Exception):
    """An error of a server's own, such as `h11.LocalProtocolError`."""


async def answered(client: Client) -> bool:
    """Return whether an answer was sent to its end."""
    async with open_exchange(client.receive, client.send) as exchange:
        await exchange.start(200, [])
        await exchange.send(b"a", more=False)
        return True
    return False  # type: ignore[unreachable]  # the exchange was cancelled


@pytest.mark.parametrize("failing", ["http.response.start", "http.response.body"])
async def test_write_to_a_closed_transport_is_a_disconnect(failing: str) -> None:
    """It stays one if the server never says so."""

    async def fail(message: Message) -> None:
        if message["type"] == failing:
            raise RuntimeError(CLOSED)

    client = Client(fail)
    assert not await answered(client)
    assert client.messages[-1]["type"] == failing


async def test_error_of_a_server_whose_client_disconnects_is_a_disconnect() -> None:
    """uvicorn with h11 has answered a wrong chunk itself, and says so a moment later."""

    async def fail(_message: Message) -> None:
        disconnects.start_soon(disconnect)
        raise ServerError

    async def disconnect() -> None:
        await anyio.lowlevel.checkpoint()
        client.gone.set()

    client = Client(fail)
    async with anyio.create_task_group() as disconnects:
        assert not await answered(client)
    assert len(client.messages) == 1


@pytest.mark.parametrize("error", [ServerError(), RuntimeError("sent twice")])
async def test_other_error_of_a_server_is_raised(error: Exception) -> None:
    async def fail(_message: Message) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await answered(Client(fail))
    assert caught.value is error
