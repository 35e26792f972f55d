"""Requests and errors of clients at the paths of a cloud."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import StreamError
from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._upstream.answers import encode_error_response
from streamnorm._upstream.passthrough import prepare_passthrough
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
    build_upstream_request,
)

BODY: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Snow?"}],
}
PATH = "/base/model/arn%3Ax%2Fclaude/invoke-with-response-stream"


def received(body: Any = BODY, path: str = PATH, **headers: str) -> ClientRequest:
    return ClientRequest(
        method="POST",
        path=path,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=json.dumps(body).encode(),
    )


def built(request: ClientRequest, dialect: str, **more: Any) -> UpstreamRequest:
    upstream = Upstream(dialect=dialect, base_url="https://h", **more)
    return build_upstream_request(request, "anthropic", upstream)


def test_upstream_of_another_dialect_gets_model_and_stream_of_the_path() -> None:
    sent = built(received(), "openai_chat")
    body = json.loads(sent.body)
    assert (body["model"], body["stream"], sent.streams) == ("arn:x/claude", True, True)
    assert sent.losses == ()


def test_vendor_gets_version_and_betas_as_headers() -> None:
    sent = built(received({**BODY, "anthropic_beta": ["a-1", "b-2"]}), "anthropic")
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert sent.headers["anthropic-beta"] == "a-1,b-2"
    assert json.loads(sent.body) == {
        "model": "arn:x/claude",
        "stream": True,
        "max_tokens": 9,
        "messages": BODY["messages"],
    }


@pytest.mark.parametrize("model", [None, "eu.other:0"])
def test_cloud_gets_the_bytes_of_the_client(model: str | None) -> None:
    upstream = Upstream(
        dialect="anthropic",
        base_url="https://h/tenant",
        server="bedrock",
        framing=INVOKE_CHUNKS,
        model=model,
    )
    headers = {"x_amzn_bedrock_trace": "ENABLED", "x_amzn_trace_id": "1", "x_amz_date": "2"}
    request = received({**BODY, "new": 1}, **headers)
    sent = prepare_passthrough(request, upstream)
    assert sent.body == request.body
    name = "arn:x%2Fclaude" if model is None else model
    assert sent.url == f"https://h/tenant/model/{name}/invoke-with-response-stream"
    assert sent.headers["x-amzn-bedrock-trace"] == "ENABLED"
    assert {"x-amzn-trace-id", "x-amz-date"}.isdisjoint(sent.headers)
    assert sent.streams
    assert sent.include_usage
    assert not prepare_passthrough(received(path="/model/m/invoke"), upstream).streams


def test_model_that_is_no_segment_of_a_path_is_refused() -> None:
    upstream = Upstream(dialect="anthropic", base_url="https://h", framing=INVOKE_CHUNKS)
    with pytest.raises(RequestRefused, match="no name that a path can have"):
        prepare_passthrough(received(path="/model/%2E%2E/invoke"), upstream)


def test_error_has_the_form_of_the_cloud() -> None:
    error = StreamError("upstream", "Slow.", status_hint=529)
    found = encode_error_response(error, "anthropic", upstream="anthropic", cloud=BEDROCK)
    assert (found.status, json.loads(found.body)) == (429, {"message": "Slow."})
    assert found.headers == {"x-amzn-errortype": "ThrottlingException"}


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "ValidationException"),
        (401, "UnrecognizedClientException"),
        (402, "AccessDeniedException"),
        (403, "AccessDeniedException"),
        (404, "ResourceNotFoundException"),
        (408, "ModelTimeoutException"),
        (409, "ConflictException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (503, "ServiceUnavailableException"),
        (504, "ModelTimeoutException"),
        (529, "ThrottlingException"),
    ],
)
def test_status_has_its_exception_at_the_cloud(status: int, name: str) -> None:
    error = StreamError("upstream", "No.", status_hint=status)
    assert BEDROCK.error_headers(error) == {"x-amzn-errortype": name}


def test_words_of_the_dialect_stay() -> None:
    error = StreamError("upstream", "no", "context_length_exceeded", 400)
    found = encode_error_response(error, "anthropic", upstream="openai_chat", cloud=BEDROCK)
    assert json.loads(found.body) == {"message": "prompt is too long: no"}
