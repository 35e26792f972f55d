"""Why a request got no response from its upstream, in words for the person at the client."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from typing import cast

import httpx

__all__ = ["reason_of"]

_REASONS: dict[type[httpx.HTTPError], str] = {
    httpx.ConnectTimeout: "connecting timed out",
    httpx.TimeoutException: "the response timed out",
    httpx.ConnectError: "connecting failed",
    httpx.NetworkError: "the connection was lost before a response",
    httpx.RemoteProtocolError: "the connection was closed without a valid response",
    httpx.LocalProtocolError: "the request is not valid HTTP",
}


def reason_of(error: httpx.HTTPError) -> str:
    """Return why there was no response; the text holds nothing of the request."""
    # The causes of a timeout only show what was waited for.
    causes = [] if isinstance(error, httpx.TimeoutException) else list(_causes(error))
    for cause in causes:
        # OpenSSL's errors have these attributes, those raised in Python need not.
        if isinstance(cause, ssl.SSLCertVerificationError):
            problem = getattr(cause, "verify_message", "no details")
            return f"its TLS certificate is not trusted: {problem}"
        if isinstance(cause, ssl.SSLError):
            problem = getattr(cause, "reason", None) or "no details"
            return f"the TLS handshake failed: {problem.replace('_', ' ').lower()}"
        if isinstance(cause, socket.gaierror):
            return f"DNS does not resolve its host name: {cause.strerror}"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
    if isinstance(error, httpx.ConnectError):
        for cause in causes:
            if isinstance(cause, OSError) and cause.errno is not None:
                return f"connecting failed: {os.strerror(cause.errno)}"
    for kind, reason in _REASONS.items():
        if isinstance(error, kind):
            return reason
    return "the request failed"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it; connecting has an error for each address."""
    pending = [error]
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, BaseExceptionGroup):
            # isinstance leaves open of what it is a group
            pending += cast("BaseExceptionGroup[BaseException]", current).exceptions
        elif cause := current.__cause__ or current.__context__:
            pending.append(cause)
