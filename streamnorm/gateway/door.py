"""What arrives at a gateway: a request, whole and within bounds, and what it asks for."""

from __future__ import annotations

from urllib.parse import parse_qsl

from streamnorm._core.codec import Asked, Dialect
from streamnorm._registry import DIALECTS
from streamnorm._upstream.requests import ClientRequest
from streamnorm.asgi.exchange import Receive, Scope

__all__ = ["asked_of", "path_of", "read_body", "received_request"]


def path_of(scope: Scope) -> str:
    """Return the path of a request, without that at which the gateway is mounted."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return "/" + "/".join(segment for segment in path.split("/") if segment)


async def read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the body of a request; None if the client disconnected.

    A body above the bound is returned incomplete, as soon as it exceeds it.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > max_bytes or not message.get("more_body", False):
            return b"".join(parts)


def received_request(scope: Scope, body: bytes) -> ClientRequest:
    """Return a request as the rest of the gateway reads it."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return ClientRequest(
        method=scope["method"],
        path=path_of(scope),
        headers=headers,
        body=body,
        query=dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"))),
    )


def asked_of(received: ClientRequest) -> tuple[Dialect, Asked] | None:
    """Return the dialect that a request is of, and what it asks for; None for another path."""
    for dialect in DIALECTS.values():
        asked = dialect.endpoints.asked(received.method, received.path)
        if asked is not None:
            return dialect, asked
    return None
