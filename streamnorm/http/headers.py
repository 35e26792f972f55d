"""The headers that pass between a client and its upstream: those of a list, and no others.

All names are in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamnorm._core.codec import Dialect

# Headers that mean the same to every provider.
_PASSED = ("idempotency-key", "traceparent", "tracestate", "user-agent", "x-client-request-id")
_RETURNED = ("retry-after", "retry-after-ms", "x-should-retry")
_RATE_LIMIT = "ratelimit-"  # a part of the names, after the vendor's
_BEARER = "bearer "


def request_headers(
    received: Mapping[str, str],
    client: Dialect,
    upstream: Dialect,
    *,
    body: Mapping[str, str],
    own: Mapping[str, str],
    forwards_key: bool = True,
) -> dict[str, str]:
    """Return the headers of a request to an upstream.

    The client's key is sent in the vendor's own header; not at all if `own` has a key, and then
    neither is the account that the client names: it belongs to the client's key.

    Args:
        received: Headers that the client sent.
        client: The client's dialect.
        upstream: The upstream's dialect.
        body: Headers that belong to the body.
        own: Headers of the upstream; they override all others.
        forwards_key: Whether the client's key is sent.
    """
    names = _PASSED + (upstream.endpoints.vendor_headers if upstream is client else ())
    sent = {name: received[name] for name in names if name in received}
    if not own.keys().isdisjoint(upstream.endpoints.key_headers):
        sent = {name: sent[name] for name in sent if name not in upstream.endpoints.account_headers}
    elif forwards_key:
        sent |= _key(received, client, upstream)
    fixed = {
        "accept": "*/*",
        # A few compressed bytes may stand for a gigabyte, and a stream gains little by it.
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    return {**sent, **body, **fixed, **own}


def _key(received: Mapping[str, str], client: Dialect, upstream: Dialect) -> dict[str, str]:
    """Return the header of the upstream that holds the client's key; {} if there is no key."""
    names = client.endpoints.key_headers
    if upstream is client:
        return {name: received[name] for name in names if name in received}
    name = next((name for name in names if received.get(name)), None)
    if name is None:
        return {}
    key = received[name]
    if name == "authorization":
        if not key.lower().startswith(_BEARER):
            return {}  # a password, say: no key that another header can hold
        key = key[len(_BEARER) :].strip()
    target = upstream.endpoints.key_headers[0]
    return {target: f"Bearer {key}" if target == "authorization" else key}


def answer_headers(
    received: Mapping[str, str], client: Dialect, upstream: Dialect
) -> dict[str, str]:
    """Return the headers of an answer to the client; the body's own are not among them.

    A value other than printable ASCII is left out.

    Args:
        received: Headers of the upstream's answer.
        client: The client's dialect.
        upstream: The upstream's dialect.
    """
    # A server refuses to send other values.
    values = {
        name: value for name, value in received.items() if value.isascii() and value.isprintable()
    }
    sent = {
        name: value for name, value in values.items() if name in _RETURNED or _RATE_LIMIT in name
    }
    for name in (upstream.endpoints.request_id_header, "x-request-id", "request-id"):
        if name in values:
            sent[client.endpoints.request_id_header] = values[name]
            break
    return sent
