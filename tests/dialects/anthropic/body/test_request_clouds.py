"""Requests at the paths of clouds, which have the model in the path and betas in the body."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import DecodeError, decode_request, encode_request
from streamnorm.dialects.anthropic.body.request import cloud_headers

MESSAGES = [{"role": "user", "content": "Snow?"}]
BODY: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": MESSAGES,
}
VERTEX = "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x"


@pytest.mark.parametrize(
    ("path", "body", "model", "stream"),
    [
        ("/model/a%2Fb:0/invoke", {}, "a/b:0", None),
        ("/model/a/invoke", {"stream": True, "model": "c"}, "a", None),
        ("/model/a/invoke-with-response-stream", {}, "a", True),
        (f"{VERTEX}:rawPredict", {}, "claude-x", None),
        (f"{VERTEX}:streamRawPredict", {"stream": True}, "claude-x", True),
    ],
)
def test_path_names_model_and_stream(
    path: str, body: dict[str, Any], model: str, stream: bool | None
) -> None:
    request = decode_request({**BODY, **body}, "anthropic", path=path)
    assert (request.model, request.stream, request.max_tokens) == (model, stream, 9)
    assert request.extra is None


def test_betas_of_header_and_body() -> None:
    body = {**BODY, "anthropic_beta": ["a-1", "b-2"]}
    path = "/model/a/invoke"
    request = decode_request(body, path=path, headers={"anthropic-beta": "c-3"})
    assert request.betas == ("a-1", "b-2")
    assert decode_request(BODY, path=path, headers={"Anthropic-Beta": "c-3"}).betas == ("c-3",)


def test_request_of_a_cloud_is_written_for_the_vendor_and_for_the_cloud() -> None:
    body = {**BODY, "anthropic_beta": ["context-1m-2025-08-07"], "system": "Be brief."}
    request = decode_request(body, path="/model/a/invoke-with-response-stream")
    vendor = encode_request(request, "anthropic")
    rest = {"max_tokens": 9, "messages": MESSAGES, "system": "Be brief."}
    assert vendor.body == {"model": "a", "stream": True, **rest}
    assert vendor.headers == {"anthropic-beta": "context-1m-2025-08-07"}
    cloud = encode_request(request, "anthropic", server="bedrock")
    assert cloud.body == body
    assert cloud.path == "/model/a/invoke-with-response-stream"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({}, {"anthropic-version": "2023-06-01"}),
        ({"anthropic_version": "vertex-2023-10-16"}, {"anthropic-version": "2023-06-01"}),
        ({"anthropic_version": "2026-10-21"}, {"anthropic-version": "2026-10-21"}),
        ({"anthropic_version": "2026-10-21\n"}, {"anthropic-version": "2023-06-01"}),
        ({"anthropic_beta": None}, {"anthropic-version": "2023-06-01"}),
        (
            {"anthropic_beta": ["a", "b"]},
            {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"},
        ),
    ],
)
def test_headers_that_stand_in_the_body(body: dict[str, Any], headers: dict[str, str]) -> None:
    assert cloud_headers(body) == headers


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("anthropic_version", 1),
        ("anthropic_beta", "a"),
        ("anthropic_beta", [1]),
        ("anthropic_beta", ["a\r\nx: y"]),
        ("anthropic_beta", ["ä"]),
    ],
)
def test_field_that_no_header_can_hold_is_refused(field: str, value: object) -> None:
    with pytest.raises(DecodeError) as raised:
        decode_request({**BODY, field: value}, path="/model/a/invoke")
    assert raised.value.path.startswith(f"$.{field}")
