"""The key of an upstream, removed from what the upstream says of an error."""

from __future__ import annotations

import msgspec

from streamnorm._core.events import StreamError
from streamnorm._registry import lookup
from streamnorm._upstream.requests import Upstream

__all__ = ["scrubbed_body", "scrubbed_error"]

_BEARER = "Bearer "
# A shorter key is a placeholder, as of a server that checks none.
_MIN_CHARS = 8


def scrubbed_body(body: bytes, upstream: Upstream) -> bytes:
    """Return an error body in which the upstream's own key, if any, is replaced by `x`.

    Some servers quote the key that they refuse.  Clients must not learn the gateway's.
    """
    for name in lookup(upstream.dialect).endpoints.key_headers:
        key = upstream.headers.get(name, "").removeprefix(_BEARER).encode()
        if len(key) >= _MIN_CHARS:
            body = body.replace(key, b"x" * len(key))
    return body


def scrubbed_error(error: StreamError, upstream: Upstream) -> StreamError:
    """Return an error without the upstream's own key."""
    data = msgspec.json.encode(error)
    scrubbed = scrubbed_body(data, upstream)
    return error if scrubbed == data else msgspec.json.decode(scrubbed, type=StreamError)
