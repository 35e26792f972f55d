"""The answer of a provider to a request that it refuses, in the provider's own form."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from streamnorm._core.codec import RequestViolation
from streamnorm._core.errors import DecodeError
from streamnorm._core.events import StreamError
from streamnorm._registry import encoder, lookup
from streamnorm._request_validation import validate_request
from streamnorm.recording.exchange import Playback, Step

__all__ = ["JSON", "Refusal", "refusal_of"]

JSON = {"content-type": "application/json"}


class Refusal(Struct, frozen=True):
    """The answer to a request that is refused.

    Attributes:
        answer: The error response, which reports the first violation.
        violations: All violations; none if the body is no JSON object.
    """

    answer: Playback
    violations: tuple[RequestViolation, ...] = ()


def refusal_of(
    content: bytes,
    dialect: str,
    *,
    method: str,
    path: str,
    headers: Mapping[str, str],
    server: str | None = None,
) -> Refusal | None:
    """Return how a provider refuses a request for a message; None if it accepts it.

    Requests for anything but a message, such as a count of tokens, are not checked.

    Args:
        content: The body as it arrived.
        dialect: Dialect of the request.
        method: HTTP method.
        path: Path of the URL, without the query.
        headers: Headers by lower-case name.
        server: Name of the server; None is the dialect's vendor.
    """
    known = lookup(dialect)
    asked = known.endpoints.asked(method, path)
    if asked is not None and asked.operation not in ("message", "stream"):
        return None
    try:
        found = validate_request(content, dialect, server=server, path=path, headers=headers)
    except DecodeError as exc:
        error = StreamError("upstream", str(exc), status_hint=400)
        return Refusal(_response(400, encoder(dialect).error_body(error), dialect))
    if not found:
        return None
    first = found[0]
    if known.refusal_body is not None:
        body = known.refusal_body(first)
    else:
        word = first.type or first.code
        error = StreamError("upstream", first.message, word, first.status)
        body = encoder(dialect, extras=True).error_body(error)
    return Refusal(_response(first.status, body, dialect), tuple(found))


def _response(status: int, body: bytes, dialect: str) -> Playback:
    return Playback(status, JSON, (Step(0.0, body),), dialect=dialect)
