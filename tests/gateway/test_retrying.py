"""Retries: when, how often, and after how long."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest
from support.gateway.servers import served_gateway
from support.gateway.upstreams import ANSWER, Head, Step, StepUpstream, asked

from streamnorm import StreamError
from streamnorm.gateway.retrying import retry_delay, should_retry

JSON = {"content-type": "application/json"}
ERROR = b'{"error":{"message":"Broken."}}'
SOON = {"retry-after-ms": "1"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "7"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7),
        ({"retry-after": "121"}, 120),
        ({"retry-after": "1e300"}, 120),
        ({"retry-after": "inf"}, 120),
        ({"retry-after": "Wed, 31 Dec 9999 23:59:59 GMT"}, 120),
    ],
)
def test_upstream_says_when_within_two_minutes(headers: dict[str, str], seconds: float) -> None:
    assert retry_delay(headers, 1) == seconds


def test_upstream_says_when_by_a_date() -> None:
    headers = {"retry-after": formatdate(time.time() + 60, usegmt=True)}
    assert 50 < retry_delay(headers, 1) <= 60


NO_DELAYS = (
    *("", "0", "-1", "nan", "soon", "1 2 3 4 5 6"),
    *("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 99 Foo 2015", "Mon, 01 Jan 99999999999 00:00:00 GMT"),
)


@pytest.mark.parametrize("value", NO_DELAYS)
def test_delay_grows_where_the_upstream_says_nothing_of_it(value: str) -> None:
    for number, most in ((1, 0.5), (2, 1), (3, 2), (5, 8), (6, 8), (5000, 8)):
        assert 0.75 * most <= retry_delay({"retry-after": value}, number) <= most


@pytest.mark.parametrize(
    ("status", "advice", "retryable", "expected"),
    [
        (503, None, None, True),
        (529, None, True, True),
        (429, None, False, False),  # no quota, say
        (401, None, None, False),
        (400, None, None, False),
        (503, "false", True, False),
        (400, "true", False, True),
        (503, "perhaps", None, True),
    ],
)
def test_upstream_says_whether(
    status: int, advice: str | None, retryable: bool | None, expected: bool
) -> None:
    error = StreamError("upstream", "", status_hint=status, retryable=retryable)
    headers = {} if advice is None else {"x-should-retry": advice}
    assert should_retry(error, status, headers) is expected


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("retries", "first", "requests", "status"),
    [
        (0, [Head(503, {**JSON, **SOON}), ERROR], 1, 503),
        (1, [Head(503, {**JSON, **SOON}), ERROR], 2, 200),
        (3, [Head(503, {**JSON, **SOON}), ERROR], 2, 200),
        (1, [Head(503, {**JSON, **SOON, "x-should-retry": "false"}), ERROR], 1, 503),
        (1, [Head(401, {**JSON, **SOON}), ERROR], 1, 401),
        (1, [Head(401, {**JSON, **SOON, "x-should-retry": "true"}), ERROR], 2, 200),
        (1, [Head(200, SOON), b'data: {"error":{"message":"Busy.","code":503}}\n\n'], 2, 200),
    ],
)
async def test_same_upstream_is_asked_again(
    retries: int, first: list[Step], requests: int, status: int
) -> None:
    upstream = StepUpstream(first, [*ANSWER])
    async with served_gateway(upstream, retries=retries) as gateway:
        response = await asked(gateway.url, "anthropic")
    assert (response.status_code, len(upstream.requests)) == (status, requests)


@pytest.mark.anyio
async def test_call_that_waits_for_the_client_is_asked_for_once() -> None:
    """The same request has the same answer, and costs as much again."""
    call = {"type": "computer_call", "id": "cu_1", "call_id": "call_1", "status": "completed"}
    answer = {"id": "resp_1", "model": "m", "status": "completed", "output": [call]}
    upstream = StepUpstream([Head(200, JSON), json.dumps(answer).encode()])
    async with served_gateway(upstream, retries=3, dialect="openai_responses") as gateway:
        response = await asked(gateway.url, "anthropic", stream=False)
    assert (response.status_code, len(upstream.requests)) == (400, 1)
    assert response.json()["error"]["type"] == "invalid_request_error"
