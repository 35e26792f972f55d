"""Errors whose type a header states, as AWS sends them."""

from __future__ import annotations

import httpx
import pytest

import streamnorm


def refusal(kind: str | None, body: bytes = b'{"message":"Slow down."}') -> httpx.Client:
    headers = {"content-type": "application/json"}
    headers |= {} if kind is None else {"x-amzn-ErrorType": kind}

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers=headers, content=body)

    return httpx.Client(transport=httpx.MockTransport(answer))


def code_of(client: httpx.Client) -> str | None:
    with (
        client.stream("POST", "http://bedrock/model/m/converse-stream") as response,
        pytest.raises(streamnorm.UpstreamError) as raised,
    ):
        list(streamnorm.iter_events(response, dialect="bedrock_converse"))
    assert raised.value.status == 429
    assert raised.value.retryable
    return raised.value.code


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("ThrottlingException", "ThrottlingException"),
        ("ModelNotReadyException:http://internal.amazon.com/x/", "ModelNotReadyException"),
        (None, None),
        ("", None),
        ("no name", None),
        ("x" * 129, None),
    ],
)
def test_header_states_the_type(kind: str | None, code: str | None) -> None:
    assert code_of(refusal(kind)) == code


def test_body_without_a_message_has_the_type_of_the_header() -> None:
    assert code_of(refusal("ThrottlingException", b"")) == "ThrottlingException"


def test_type_in_the_body_wins() -> None:
    body = b'{"error":{"message":"m","code":"slow"}}'
    assert code_of(refusal("ThrottlingException", body)) == "slow"
