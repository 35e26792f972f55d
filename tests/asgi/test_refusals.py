"""A provider's error response behind a gateway: the error that the client receives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http.asgi_client import Client, refused

import streamnorm
from streamnorm import Limits
from streamnorm.asgi import EventStreamResponse

pytestmark = pytest.mark.anyio

BODIES: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "error": {
            "message": "You exceeded your current quota",
            "type": "insufficient_quota",
            "param": None,
            "code": "insufficient_quota",
        }
    },
    "anthropic": {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "slow"},
        "request_id": "req_1",
    },
    "openai_responses": {
        "error": {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_in_seconds": 90,
        }
    },
    "gemini": {
        "error": {
            "code": 429,
            "message": "quota",
            "status": "RESOURCE_EXHAUSTED",
            "details": [{"retryDelay": "34s"}],
        }
    },
}

each_dialect = pytest.mark.parametrize("dialect", BODIES)


async def answer(body: bytes, status: int, to: str, **options: Any) -> Client:
    client = Client()
    stream = streamnorm.transcode(refused(body, status), to=to, **options)
    await client.request(EventStreamResponse(stream))
    return client


@each_dialect
async def test_error_body_passes_unchanged_to_its_own_dialect(dialect: str) -> None:
    body = json.dumps(BODIES[dialect], indent=1).encode()
    client = await answer(body, 429, dialect, dialect=dialect)
    assert (client.status, client.bodies) == (429, [body])


@each_dialect
async def test_error_body_is_translated_for_other_dialects(dialect: str) -> None:
    body = json.dumps(BODIES[dialect]).encode()
    for to in BODIES:
        for options in ({}, {"dialect": dialect, "verbatim": False}):
            client = await answer(body, 429, to, **options)
            (written,) = client.bodies
            assert client.status == 429
            assert written != body
            error = json.loads(written)["error"]
            assert error["message"] == BODIES[dialect]["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"sorry", "plain text"),
        (b"<html></html>", "an HTML page"),
        (b"", "an empty body"),
        (b'{"error":{"message":"long"}}', "a JSON body"),
    ],
)
async def test_unreadable_or_oversized_error_body_is_written_anew(body: bytes, kind: str) -> None:
    limits = Limits(max_error_body_bytes=20)
    client = await answer(body, 503, "gemini", dialect="gemini", limits=limits)
    (written,) = client.bodies
    assert client.status == 503
    assert json.loads(written) == {
        "error": {"code": 503, "message": f"HTTP 503 with {kind}", "status": "UNAVAILABLE"}
    }


async def test_error_body_agrees_with_the_status_of_the_response() -> None:
    client = await answer(b"<html>", 200, "gemini")
    assert client.status == 502
    assert json.loads(client.bodies[0])["error"]["code"] == 502
