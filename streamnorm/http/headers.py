"""Headers forwarded between client and upstream, and errors of failed requests.

All names are in lower case.

Agents retry at "connection error" and "timed out": see `broken_connection`.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from email.utils import mktime_tz, parsedate_tz
from math import ceil
from typing import Any, cast

from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.framing import Framing
from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits
from streamnorm._core.source_failures import broken_connection, handled_by_source

# Headers with the same meaning for every provider.
_REQUEST_HEADERS = (
    "idempotency-key",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-client-request-id",
)
# The SDKs of OpenAI and Anthropic read these before they retry.
_RESPONSE_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
# LiteLLM's prefix of the headers that it received from its provider.
_RELAYED = "llm_provider-"
_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid")
_RATE_LIMIT = "ratelimit-"  # a part of the names, after the vendor's
_BEARER = "bearer "
_MAX_TYPE_CHARS = 128
_SIGNATURE = "AWS4-HMAC-SHA256"

_HOST = ", certificate is not valid for"


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

    The client's key is sent in the header that the vendor reads.  If `own` holds a key, neither the
    client's key is sent nor the account that the client names, which belongs to that key.

    Args:
        received: Headers that the client sent.
        client: The client's dialect.
        upstream: The upstream's dialect.
        body: Headers that describe the body.
        own: Configured headers of the upstream; they override all others.
        forwards_key: Whether the client's key is sent.
    """
    names = _REQUEST_HEADERS + (upstream.endpoints.vendor_headers if upstream is client else ())
    sent = {name: received[name] for name in names if name in received}
    # OpenAI refuses a key of one organization beside the name of another.
    if not own.keys().isdisjoint(upstream.endpoints.key_headers):
        sent = {name: sent[name] for name in sent if name not in upstream.endpoints.account_headers}
    elif forwards_key:
        sent |= _key_header(received, client, upstream)
    fixed = {
        "accept": "*/*",
        # A few compressed bytes may stand for a gigabyte, and a stream gains little by it.
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    return {**sent, **body, **fixed, **own}


def error_type_in(headers: Mapping[str, Any]) -> str | None:
    """Return the error type in a response's headers, or None."""
    # AWS appends the address of its definition: `ThrottlingException:http://…` (botocore 1.44.5).
    stated = str(headers.get(BEDROCK.error_type_header) or "").partition(":")[0]
    return stated if stated.isidentifier() and len(stated) <= _MAX_TYPE_CHARS else None


def request_id_in(headers: Mapping[str, Any]) -> str:
    """Return the AWS request id in a response's headers, or ""."""
    stated = str(headers.get(BEDROCK.request_id_header) or "")
    return stated if is_id(stated) else ""


def is_id(value: str) -> bool:
    """Return whether a header's value can be used as a message id."""
    return value.isascii() and value.isprintable() and len(value) <= Limits().max_id_chars


def has_signature(headers: Mapping[str, str]) -> bool:
    """Return whether a request has an AWS signature instead of a key."""
    return headers.get("authorization", "").startswith(_SIGNATURE)


def _key_header(received: Mapping[str, str], client: Dialect, upstream: Dialect) -> dict[str, str]:
    """Return the client's key in the upstream's header for keys; {} if there is no key."""
    names = client.endpoints.key_headers
    if has_signature(received):  # of this request, which no upstream gets
        return {}
    if upstream is client:
        return {name: received[name] for name in names if name in received}
    name = next((name for name in names if received.get(name)), None)
    if name is None:
        return {}
    key = received[name]
    if name == "authorization":
        if not key.lower().startswith(_BEARER):
            return {}  # Basic credentials, for example, which no other header can hold
        key = key[len(_BEARER) :].strip()
    target = upstream.endpoints.key_headers[0]
    return {target: f"Bearer {key}" if target == "authorization" else key}


def response_headers(
    received: Mapping[str, str], client: Dialect, upstream: Dialect
) -> dict[str, str]:
    """Return the headers of an upstream's response to forward, without headers about the body.

    A value other than printable ASCII is left out.

    Args:
        received: Headers of the upstream's response.
        client: The client's dialect.
        upstream: The upstream's dialect.
    """
    # Servers of HTTP refuse to send other values.
    values = {
        name: value for name, value in received.items() if value.isascii() and value.isprintable()
    }
    sent = {
        name: value
        for name, value in values.items()
        if name in _RESPONSE_HEADERS or _RATE_LIMIT in name
    }
    for name in _RESPONSE_HEADERS:
        if name not in values and _RELAYED + name in values:
            sent[name] = values[_RELAYED + name]
    # OpenAI's name, Anthropic's and that of AWS, since a compatible server or a cloud may use
    # another than the vendor.
    for name in (upstream.endpoints.request_id_header, *_REQUEST_IDS):
        if name in values:
            sent[client.endpoints.request_id_header] = values[name]
            break
    return sent


def retry_after_in(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds that a response's headers ask a client to wait, or None.

    Zero, a past date and what is no number at all say nothing of when.

    Args:
        headers: The headers, names in lower case.
        now_s: The time, in seconds since 1970.
    """
    for prefix in ("", _RELAYED):
        if (seconds := _retry_after(headers, prefix, now_s)) is not None:
            return seconds
    return None


def _retry_after(headers: Mapping[str, str], prefix: str, now_s: float) -> float | None:
    """Return the seconds to wait that headers with a prefix ask for, or None."""
    if (milliseconds := _number(headers.get(f"{prefix}retry-after-ms", ""))) > 0:
        return milliseconds / 1000
    after = headers.get(f"{prefix}retry-after", "")
    if (seconds := _number(after)) > 0:
        return seconds
    # RFC 9110, section 10.2.3: seconds or a date.
    date = parsedate_tz(after)
    if date is None:
        return None
    try:
        seconds = mktime_tz(date) - now_s
    except (ValueError, OverflowError):  # no such day, or one too far away
        return None
    return seconds if seconds > 0 else None


def join_retry_after(
    error: StreamError, headers: dict[str, str], now_s: float
) -> tuple[StreamError, dict[str, str]]:
    """Return an error and the headers of its response, both with the time that one of them names.

    Google says it in the error, all others in a header.

    Args:
        error: The error.
        headers: The headers, names in lower case.
        now_s: The time, in seconds since 1970.
    """
    seconds = retry_after_in(headers, now_s)
    if seconds is not None:
        return structs.replace(error, retry_after=seconds), headers
    if error.retry_after is None:
        return error, headers
    return error, {**headers, "retry-after": str(ceil(error.retry_after))}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def cloud_headers(received: Mapping[str, str], client: Dialect, framing: Framing) -> dict[str, str]:
    """Return the upstream's response headers that belong to a cloud, for a client of that cloud.

    Args:
        received: Headers of the upstream's response.
        client: The client's dialect, as it is spoken there.
        framing: Framing of the upstream, which is the client's if it is the cloud itself.
    """
    cloud = client.cloud
    if cloud is None or framing is not client.framing:
        return {}
    return {
        name: value
        for name, value in received.items()
        if (name == cloud.error_type_header or name.startswith(cloud.header_prefix))
        and value.isascii()
        and value.isprintable()
    }


def failed_request(error: Exception) -> StreamError:
    """Return the error of a request without a response.

    Args:
        error: The exception of the HTTP client, httpx or aiohttp.
    """
    return structs.replace(broken_connection(error, 0), message=reason_of(error))


def reason_of(error: Exception) -> str:
    """Return the reason of an HTTP client's error, without request details or host names.

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
    """Return the first value of the attribute `name` among the TLS errors in `causes`."""
    details = (getattr(cause, name, None) for cause in causes if isinstance(cause, ssl.SSLError))
    return next((str(detail) for detail in details if detail), "no details")


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, including those in exception groups, each once."""
    pending, known = [error], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in known:  # errors may be the causes of each other
            continue
        known.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            # isinstance cannot narrow the type of the members
            pending += cast("BaseExceptionGroup[BaseException]", current).exceptions
        elif cause := current.__cause__ or handled_by_source(current):
            pending.append(cause)
