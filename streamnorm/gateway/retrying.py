"""Retries of failed requests at the same upstream: which ones, and after what delay."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from streamnorm._core.events import StreamError
from streamnorm.http.headers import retry_after_in

UNKNOWN_RESPONSE = "previous_response_not_found"
"""Code of a request that goes on from a response which the provider does not have, or no longer."""

MAX_DELAY_S = 120.0
"""Longest time that a request waits, whatever the upstream asks for."""

# Another request may succeed; 529 is Anthropic's "overloaded".
_RETRIED = (408, 409, 429, 500, 502, 503, 504, 529)
_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 8.0


def should_retry(error: StreamError, status: int, headers: Mapping[str, str]) -> bool:
    """Return whether to retry a failed request.

    Args:
        error: How it failed.
        status: HTTP status that the client would get.
        headers: Headers of the answer, names in lower case; none if there was no answer.
    """
    # Servers of OpenAI and Anthropic send it, and their SDKs obey.
    match headers.get("x-should-retry"):
        case "true":
            return True
        case "false":
            return False
        case _:
            return error.retryable is not False and status in _RETRIED


def retry_delay(headers: Mapping[str, str], number: int) -> float:
    """Return the seconds to wait before a retry.

    Args:
        headers: Headers of the answer, names in lower case.
        number: How often it will have been sent again then, from 1.
    """
    asked = retry_after_in(headers, time.time())
    if asked is not None:
        return min(asked, MAX_DELAY_S)
    # The backoff of the official SDKs: 0.5 to 8 s.
    jitter = random.uniform(0.75, 1.0)  # noqa: S311 - no secret
    return jitter * min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(number - 1, 10))
