"""Requests that only the vendor's own server can answer, passed on to it, and its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses import frames as responses
from support.streams.mutations import chunked

from streamnorm import Completed, Failed, LocalProtocolError, StreamError, Truncated
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._upstream.auxiliary import UpstreamCall, UpstreamReply, call_steps
from streamnorm._upstream.passthrough import PassthroughAnswer, PassthroughStream
from streamnorm._upstream.requests import ClientRequest, RequestRefused, Upstream, match_operation

NATIVE = "openai_responses"
HEADERS = {
    "authorization": "Bearer key",
    "openai-beta": "responses=v1",
    "cookie": "secret",
    "content-type": "application/json",
}
UPSTREAM = Upstream(
    dialect=NATIVE, base_url="https://h/v1", model_map={"m": "gpt-x"}, headers={"x-own": "1"}
)


def client_request(
    method: str, path: str, body: bytes | None = b"", *query: tuple[str, str], **headers: str
) -> ClientRequest:
    return ClientRequest(
        method=method, path=path, headers={**HEADERS, **headers}, body=body, query=query
    )


def sent_for(received: ClientRequest, upstream: Upstream = UPSTREAM) -> UpstreamCall:
    asked = match_operation(received, NATIVE)
    return next(call_steps(received, asked, NATIVE, upstream, TokenEstimator()))


def answered(status: int, body: bytes, kind: str = "application/json") -> Any:
    received = client_request("GET", "/v1/responses/resp_1")
    steps = call_steps(
        received, match_operation(received, NATIVE), NATIVE, UPSTREAM, TokenEstimator()
    )
    next(steps)
    with pytest.raises(StopIteration) as done:
        steps.send(UpstreamReply(status=status, content_type=kind, body=body))
    return done.value.value


# Requests


@pytest.mark.parametrize("prefix", ["", "/v1", "/a/proxy/v1"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/responses/resp_1"),
        ("DELETE", "/responses/resp_1"),
        ("POST", "/responses/resp_1/cancel"),
        ("GET", "/responses/resp_1/input_items"),
    ],
)
def test_request_about_a_response_is_passed_on(method: str, path: str, prefix: str) -> None:
    sent = sent_for(client_request(method, prefix + path))
    assert (sent.method, sent.url, sent.body) == (method, f"https://h/v1{path}", None)
    assert sent.headers == {
        "authorization": "Bearer key",
        "openai-beta": "responses=v1",
        "accept": "*/*",
        "accept-encoding": "identity",
        "x-own": "1",
    }
    assert not sent.streams
    assert repr(sent) == f"UpstreamCall({method!r}, …)"


def test_of_the_query_is_passed_what_the_vendor_knows() -> None:
    query = [
        *(("include[]", "a b"), ("include[]", "c&d"), ("key", "secret"), ("stream", "true")),
        ("starting_after", "42"),
    ]
    sent = sent_for(client_request("GET", "/v1/responses/resp_1", b"", *query))
    assert sent.url == (
        "https://h/v1/responses/resp_1"
        "?include%5B%5D=a+b&include%5B%5D=c%26d&stream=true&starting_after=42"
    )
    assert sent.streams


def test_id_is_one_segment_of_the_path() -> None:
    sent = sent_for(client_request("GET", "/v1/responses/a?b#c d%2e"))
    assert sent.url == "https://h/v1/responses/a%3Fb%23c%20d%252e"


@pytest.mark.parametrize("id", [".", ".."])
def test_id_that_leaves_the_path_is_refused(id: str) -> None:
    with pytest.raises(RequestRefused, match="dot segments"):
        sent_for(client_request("DELETE", f"/v1/responses/{id}"))


def test_request_to_compact_is_passed_byte_for_byte() -> None:
    body = b'{ "model": "other", "input": [1e2] }'
    sent = sent_for(client_request("POST", "/v1/responses/compact", body))
    assert (sent.method, sent.url) == ("POST", "https://h/v1/responses/compact")
    assert sent.body == body
    assert sent.headers["content-type"] == "application/json"


def test_request_to_compact_has_the_name_that_the_provider_has_for_the_model() -> None:
    sent = sent_for(client_request("POST", "/v1/responses/compact", b'{"model":"m","input":"a"}'))
    assert sent.body is not None
    assert json.loads(sent.body) == {"model": "gpt-x", "input": "a"}


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [(b"[", {}, 400), (None, {}, 415), (b"{}", {"content-encoding": "gzip"}, 415)],
)
def test_body_that_is_no_json_is_refused(
    body: bytes | None, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(RequestRefused) as raised:
        sent_for(client_request("POST", "/v1/responses/compact", body, **headers))
    assert raised.value.error.status_hint == status


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini", "gemini_interactions"])
def test_no_other_dialect_is_asked(dialect: str) -> None:
    upstream = Upstream(dialect=dialect, base_url="https://h")
    with pytest.raises(RequestRefused, match="only the vendor's own server") as raised:
        sent_for(client_request("GET", "/v1/responses/resp_1"), upstream)
    assert raised.value.error.status_hint == 404


# Answers


@pytest.mark.parametrize("status", [200, 202])
def test_answer_passes_unchanged(status: int) -> None:
    body = b'{ "id": "resp_1", "new": 1e2 }'
    kind = "application/json; charset=utf-8"
    assert answered(status, body, kind) == PassthroughAnswer(
        status=status, content_type=kind, body=body
    )


def test_answer_without_a_body_passes() -> None:
    assert answered(204, b"", "") == PassthroughAnswer(status=204, content_type="", body=b"")


def test_error_of_the_provider_passes_unchanged() -> None:
    body = b'{"error": {"message": "no such response", "code": "not_found"}}'
    got = answered(404, body)
    assert (got.status, got.content_type, got.body) == (404, "application/json", body)
    assert (got.error.kind, got.error.message) == ("upstream", "no such response")


REDIRECT = " (a redirect, which is not followed: is the URL of the request right?)"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (500, b"<html>", "HTTP 500 with an HTML page"),
        (307, b"", f"HTTP 307 with an empty body{REDIRECT}"),
        (200, b"<html>", "an HTML page, expected an answer of openai_responses"),
        (200, b"", "an empty body, expected an answer of openai_responses"),
        (200, b"[1]", "a JSON body, expected an answer of openai_responses"),
        (200, b'{"a":', "a JSON body, expected an answer of openai_responses"),
    ],
)
def test_answer_that_is_none_is_an_error(status: int, body: bytes, message: str) -> None:
    got = answered(status, body, "text/html")
    assert isinstance(got, StreamError)
    assert got.message == message


# Streams

EVENTS = [
    responses.text("lo"),
    b": hi\n\n",
    responses.event("news", sequence_number=43),
    responses.completed(usage={"input_tokens": 9, "output_tokens": 4}),
]
BODY = b"".join(EVENTS)


def run(body: bytes, size: int = 10_000, cause: BaseException | None = None) -> Any:
    """Return what is passed of a stream that begins within a response, and how it ended."""
    stream = PassthroughStream(NATIVE)
    out = [data for piece in chunked(body, size) for data in stream.feed(piece)]
    out += stream.close() if cause is None else stream.abort(cause)
    return b"".join(out), stream.outcome


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_resumed_stream_passes_unchanged(size: int) -> None:
    out, outcome = run(BODY, size)
    assert out == BODY
    assert isinstance(outcome, Completed)
    assert outcome.usage.input_tokens == 9


def test_resumed_stream_stores_no_message() -> None:
    stream = PassthroughStream(NATIVE)
    with pytest.raises(LocalProtocolError, match="keep_message"):
        _ = stream.message


def test_error_of_a_resumed_stream_without_events_has_the_first_number() -> None:
    out, _ = run(b"")
    assert b'"sequence_number":0,' in out.partition(b"\n\n")[0]


@pytest.mark.parametrize("dialect", ["anthropic", "gemini_interactions"])
def test_event_without_an_error_is_not_checked_against_those_before(dialect: str) -> None:
    stream = PassthroughStream(dialect)
    delta = {"type": "text_delta", "text": "lo"}
    names = {"anthropic": "content_block_delta", "gemini_interactions": "step.delta"}
    event = json.dumps(
        {"type": names[dialect], "event_type": names[dialect], "index": 3, "delta": delta}
    )
    data = f"event: {names[dialect]}\ndata: {event}\n\n".encode()
    assert (b"".join(stream.feed(data)), stream.outcome) == (data, None)


def test_failed_steer_does_not_end_a_resumed_stream() -> None:
    error = {"type": "invalid_request_error", "code": "too_late", "message": "No."}
    steered = responses.event("response.steer.failed", sequence_number=44, error=error)
    body = b"".join([*EVENTS[:3], steered, EVENTS[3]])
    out, outcome = run(body)
    assert out == body
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("cause", [None, ConnectionResetError()])
def test_cut_of_a_resumed_stream_is_an_error_event(cause: BaseException | None) -> None:
    before = b"".join(EVENTS[:3])
    out, outcome = run(before + EVENTS[3][:20], cause=cause)
    assert out.startswith(before)
    told, failed, _ = out.removeprefix(before).split(b"\n\n")
    assert failed.startswith(b"event: response.failed\n")
    name, _, data = told.partition(b"\ndata: ")
    assert name == b"event: error"
    event = json.loads(data)
    assert event["sequence_number"] == 44
    assert event["message"].startswith("connection lost")
    assert isinstance(outcome, Truncated)


@pytest.mark.parametrize(
    "event",
    [
        responses.event("error", sequence_number=44, message="no", code="server_error"),
        responses.event(
            "response.failed",
            sequence_number=44,
            response={
                "id": "resp_1",
                "status": "failed",
                "error": {"code": "server_error", "message": "no"},
                "output": [],
            },
        ),
    ],
)
def test_error_in_a_resumed_stream_passes_unchanged(event: bytes) -> None:
    body = b"".join([*EVENTS[:3], event])
    out, outcome = run(body)
    assert out == body
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "no"


@pytest.mark.parametrize("size", [1, 10_000])
def test_malformed_event_of_a_resumed_stream_is_withheld(size: int) -> None:
    out, outcome = run(EVENTS[0] + b"data: {broken\n\n" + BODY, size)
    assert out.startswith(EVENTS[0] + b"event: error\n")
    assert b"broken" not in out
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "no JSON in 7 characters"


def test_empty_data_and_done_pass() -> None:
    body = b"".join([b"data: \n\n", b"data: 1\n\n", *EVENTS, b"data: [DONE]\n\n"])
    assert run(body)[0] == body
