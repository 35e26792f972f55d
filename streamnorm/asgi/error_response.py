"""The error response of a stream that failed before anything of it was sent."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from streamnorm._core.events import StreamError
from streamnorm._core.failures import response_status
from streamnorm.asgi.exchange import Exchange

__all__ = ["send_error", "send_json"]


async def send_error(
    exchange: Exchange, error: StreamError, error_body: Callable[[StreamError], bytes]
) -> None:
    """Send an error response: with the provider's status, 504 for a timeout or 502 for all else.

    Args:
        exchange: Where to send it.
        error: How the stream failed.
        error_body: Returns the body, in the client's dialect.
    """
    status = response_status(error)
    body = error_body(structs.replace(error, status_hint=status))
    await send_json(exchange, status, [(b"content-type", b"application/json")], body)


async def send_json(
    exchange: Exchange, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Send a complete response with its length."""
    await exchange.start(status, [*headers, (b"content-length", b"%d" % len(body))])
    await exchange.send(body, more=False)
