"""Reasons why a request got no response from its upstream, worded for the client's user.

Agents retry at "connection error" and "timed out": see `broken_connection`.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from typing import cast

from msgspec import structs

from streamnorm._core.events import StreamError
from streamnorm._core.failures import broken_connection

_HOST = ", certificate is not valid for"


def failed_request(error: Exception) -> StreamError:
    """Return the error of a request that got no response.

    Args:
        error: The exception of the HTTP client, httpx or aiohttp.
    """
    return structs.replace(broken_connection(error, 0), message=reason_of(error))


def reason_of(error: Exception) -> str:
    """Return the reason, without any part of the request or the name of the host.

    Args:
        error: The exception of the HTTP client, httpx or aiohttp.
    """
    failure = broken_connection(error, 0)
    if failure.kind == "stalled":  # causes of a timeout say only which operation timed out
        return failure.message
    causes = list(causes_of(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # "Hostname mismatch, certificate is not valid for 'host'."
            problem = _detail(causes, "verify_message").partition(_HOST)[0]
            return f"TLS error: the provider's certificate is not trusted: {problem}"
        if isinstance(cause, ssl.SSLError):
            problem = _detail(causes, "reason").replace("_", " ").lower()
            return f"TLS error: the handshake failed: {problem}"
        if isinstance(cause, socket.gaierror):
            return f"DNS error: the provider's host name does not resolve: {cause.strerror}"
        if isinstance(cause, ConnectionRefusedError):
            return "connection error: the provider refused the connection"
    if failure.message.startswith("connection error"):
        for cause in causes:
            if isinstance(cause, OSError) and cause.errno is not None:
                return f"connection error: {os.strerror(cause.errno)}"
    return failure.message


def _detail(causes: list[BaseException], name: str) -> str:
    """Return a detail of the first TLS error with one: errors raised in Python have none."""
    details = (getattr(cause, name, None) for cause in causes if isinstance(cause, ssl.SSLError))
    return next((str(detail) for detail in details if detail), "no details")


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; a failed connect groups one error per address."""
    pending = [error]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, BaseExceptionGroup):
            # isinstance cannot narrow the type of the members
            pending += cast("BaseExceptionGroup[BaseException]", current).exceptions
        elif cause := current.__cause__ or current.__context__:
            pending.append(cause)
