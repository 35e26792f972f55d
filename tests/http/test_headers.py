"""The headers that pass between a client and its upstream."""

from __future__ import annotations

import pytest

from streamnorm._core.codec.framing import SSE
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._core.events import StreamError
from streamnorm._registry import DIALECTS
from streamnorm.http.headers import (
    cloud_headers,
    error_type_in,
    join_retry_after,
    request_headers,
    request_id_in,
    response_headers,
    retry_after_in,
)

FIXED = {"accept": "*/*", "accept-encoding": "identity", "content-type": "application/json"}


def sent(
    client: str,
    upstream: str,
    received: dict[str, str],
    *,
    body: dict[str, str] | None = None,
    own: dict[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers of a request, without those that are always the same."""
    headers = request_headers(
        received, DIALECTS[client], DIALECTS[upstream], body=body or {}, own=own or {}
    )
    assert FIXED.items() <= headers.items()
    return {name: value for name, value in headers.items() if name not in FIXED}


@pytest.mark.parametrize(
    ("client", "received", "upstream", "headers"),
    [
        ("anthropic", {"x-api-key": "k"}, "openai_chat", {"authorization": "Bearer k"}),
        ("anthropic", {"authorization": "Bearer k"}, "openai_chat", {"authorization": "Bearer k"}),
        ("anthropic", {"authorization": "bearer  k"}, "gemini", {"x-goog-api-key": "k"}),
        ("anthropic", {"x-api-key": "k", "authorization": "-"}, "gemini", {"x-goog-api-key": "k"}),
        (
            "gemini",
            {"x-goog-api-key": "", "authorization": "Bearer k"},
            "anthropic",
            {"x-api-key": "k"},
        ),
        ("openai_chat", {"authorization": "Bearer k"}, "anthropic", {"x-api-key": "k"}),
        ("openai_responses", {"api-key": "k"}, "openai_chat", {"authorization": "Bearer k"}),
        ("gemini", {"x-goog-api-key": "k"}, "openai_responses", {"authorization": "Bearer k"}),
        ("gemini", {"authorization": "Basic dTpw"}, "openai_chat", {}),
        ("openai_chat", {}, "anthropic", {}),
    ],
)
def test_key_is_sent_in_the_header_of_the_upstream(
    client: str, received: dict[str, str], upstream: str, headers: dict[str, str]
) -> None:
    assert sent(client, upstream, received) == headers


def test_key_of_the_same_dialect_stays_in_its_header() -> None:
    token = {"authorization": "Bearer oauth"}
    assert sent("anthropic", "anthropic", token) == token


@pytest.mark.parametrize("name", ["authorization", "api-key"])
def test_key_of_the_client_is_not_sent_beside_that_of_the_upstream(name: str) -> None:
    own = {name: "of the upstream"}
    assert sent("anthropic", "openai_chat", {"x-api-key": "canary"}, own=own) == own


@pytest.mark.parametrize("upstream", ["anthropic", "openai_chat"])
def test_key_of_the_client_is_not_sent_where_it_may_not_pass(upstream: str) -> None:
    headers = request_headers(
        {"x-api-key": "canary", "authorization": "Bearer canary"},
        DIALECTS["anthropic"],
        DIALECTS[upstream],
        body={},
        own={},
        forwards_key=False,
    )
    assert headers == FIXED


def test_only_listed_headers_pass() -> None:
    passed = {
        "user-agent": "agent/1",
        "traceparent": "00-1",
        "tracestate": "a=1",
        "idempotency-key": "i",
        "x-client-request-id": "c",
    }
    others = {
        "cookie": "session",
        "connection": "keep-alive",
        "content-length": "7",
        "content-type": "application/vnd.x+json",
        "accept-encoding": "gzip",
        "x-stainless-lang": "python",
        "anthropic-version": "2023-06-01",
        "host": "api.anthropic.com",
    }
    assert sent("anthropic", "openai_chat", {**others, **passed}) == passed


def test_headers_of_the_vendor_pass_to_the_vendor() -> None:
    own = {"anthropic-version": "2023-06-01", "anthropic-beta": "a"}
    assert sent("anthropic", "anthropic", own) == own
    assert sent("openai_chat", "openai_chat", {"openai-project": "p"}) == {"openai-project": "p"}


def test_headers_of_the_body_and_of_the_upstream_win() -> None:
    received = {"anthropic-beta": "client", "user-agent": "client"}
    body, own = {"anthropic-beta": "body"}, {"user-agent": "own"}
    assert sent("anthropic", "anthropic", received, body=body, own=own) == {**body, **own}


def returned(client: str, upstream: str, received: dict[str, str]) -> dict[str, str]:
    return response_headers(received, DIALECTS[client], DIALECTS[upstream])


def test_retry_advice_and_rate_limits_are_returned() -> None:
    passed = {
        "retry-after": "2",
        "retry-after-ms": "1500",
        "x-should-retry": "true",
        "x-ratelimit-remaining-requests": "9",
        "anthropic-ratelimit-tokens-reset": "soon",
    }
    others = {"set-cookie": "a", "location": "https://x", "content-encoding": "gzip", "server": "s"}
    assert returned("anthropic", "openai_chat", {**others, **passed}) == passed


def test_retry_advice_of_the_provider_behind_litellm_is_returned() -> None:
    """LiteLLM 1.110.2 sends the provider's headers under a prefix, and none of its own."""
    relayed = {"llm_provider-retry-after": "7", "llm_provider-date": "x"}
    assert returned("anthropic", "openai_chat", relayed) == {"retry-after": "7"}
    own = {"retry-after": "2"}
    assert returned("anthropic", "openai_chat", {**relayed, **own}) == own


@pytest.mark.parametrize("value", ["1\r\nx: y", "\u20ac", "\0", "a\x7f"])
def test_value_that_is_no_printable_text_is_not_returned(value: str) -> None:
    received = {"retry-after": value, "x-request-id": value, "request-id": "req_1"}
    assert returned("anthropic", "openai_chat", received) == {"request-id": "req_1"}


@pytest.mark.parametrize(
    ("client", "upstream", "received", "name"),
    [
        ("anthropic", "openai_chat", {"x-request-id": "req_1"}, "request-id"),
        ("openai_responses", "anthropic", {"request-id": "req_1"}, "x-request-id"),
        ("openai_chat", "openai_chat", {"x-request-id": "req_1", "request-id": ""}, "x-request-id"),
        ("openai_chat", "anthropic", {"request-id": "req_1", "x-request-id": "2"}, "x-request-id"),
        ("anthropic", "anthropic", {"x-request-id": "req_1"}, "request-id"),
    ],
)
def test_request_id_is_returned_under_the_name_of_the_client(
    client: str, upstream: str, received: dict[str, str], name: str
) -> None:
    assert returned(client, upstream, received) == {name: "req_1"}


@pytest.mark.parametrize(
    ("dialect", "key", "account"),
    [
        ("openai_chat", "authorization", "openai-organization"),
        ("openai_chat", "authorization", "openai-project"),
        ("openai_responses", "api-key", "openai-organization"),
        ("openai_responses", "authorization", "openai-project"),
        ("gemini", "x-goog-api-key", "x-goog-user-project"),
    ],
)
def test_account_of_the_client_is_sent_with_no_other_key(
    dialect: str, key: str, account: str
) -> None:
    received = {account: "a", key: "k"}
    assert sent(dialect, dialect, received)[account] == "a"
    assert sent(dialect, dialect, received, own={key: "gateway"}) == {key: "gateway"}
    assert sent(dialect, dialect, {account: "a"}, own={"x-team": "t"})[account] == "a"


def test_headers_of_a_cloud_pass_from_the_cloud_itself() -> None:
    dialect = DIALECTS["anthropic"]
    route = dialect.endpoints.cloud_route("/model/m/invoke")
    assert route is not None
    client = dialect.adapt_to_route(route)
    received = {
        "x-amzn-bedrock-service-tier": "default",
        "x-amzn-errortype": "ThrottlingException:http://internal",
        "x-amzn-bedrock-input-token-count": "é",
        "x-amzn-trace-id": "Root=1",
        "x-amzn-requestid": "r-1",
    }
    passed = {name: received[name] for name in list(received)[:2]}
    assert cloud_headers(received, client, INVOKE_CHUNKS) == passed
    assert cloud_headers(received, client, SSE) == {}
    assert cloud_headers(received, dialect, SSE) == {}
    assert response_headers(received, client, dialect) == {"x-amzn-requestid": "r-1"}
    assert returned("openai_chat", "anthropic", received) == {"x-request-id": "r-1"}


@pytest.mark.parametrize("upstream", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
def test_signature_of_a_request_is_no_key_for_another(upstream: str) -> None:
    signature = "AWS4-HMAC-SHA256 Credential=AKID/20261127/us-east-1/bedrock/aws4_request"
    assert sent("anthropic", upstream, {"authorization": signature, "x-amz-date": "now"}) == {}


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"x-amzn-errortype": "ThrottlingException:http://x/"}, "ThrottlingException"),
        ({"x-amzn-errortype": "two words"}, None),
        ({"x-amzn-errortype": "e" * 128}, "e" * 128),
        ({"x-amzn-errortype": "e" * 129}, None),
        ({}, None),
    ],
)
def test_type_of_an_error_in_the_headers(headers: dict[str, str], kind: str | None) -> None:
    assert error_type_in(headers) == kind


@pytest.mark.parametrize(
    ("stated", "id"),
    [("r-1", "r-1"), ("", ""), ("r" * 512, "r" * 512), ("r" * 513, ""), ("é", ""), ("a\tb", "")],
)
def test_id_of_a_request_of_aws_is_plain_text(stated: str, id: str) -> None:
    assert request_id_in({"x-amzn-requestid": stated}) == id
    assert request_id_in({"x-request-id": stated}) == ""


# Sun, 29 Nov 2026 12:00:00 GMT
NOON_S = 1_795_953_600.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "2.5"}, 2.5, id="seconds"),
        pytest.param({"retry-after-ms": "1500", "retry-after": "7"}, 1.5, id="milliseconds first"),
        pytest.param({"retry-after-ms": "soon", "retry-after": "7"}, 7, id="broken milliseconds"),
        pytest.param({"llm_provider-retry-after": "7"}, 7, id="of the provider behind LiteLLM"),
        pytest.param({"llm_provider-retry-after": "7", "retry-after": "2"}, 2, id="of LiteLLM"),
        pytest.param({"retry-after": "0"}, None, id="zero"),
        pytest.param({"retry-after": "nan"}, None, id="not a number"),
        pytest.param({"retry-after": "Sun, 29 Nov 2026 12:01:30 GMT"}, 90, id="date"),
        pytest.param({"retry-after": "Sun, 29 Nov 2026 12:00:00 GMT"}, None, id="now"),
        pytest.param({"retry-after": "Sun, 29 Nov 2026 11:59:00 GMT"}, None, id="past"),
        pytest.param({"retry-after": "Sun, 99 Nov 99999 12:00:00 GMT"}, None, id="no such day"),
    ],
)
def test_headers_say_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_in(headers, NOON_S) == seconds


@pytest.mark.parametrize(
    ("in_error", "in_headers", "seconds", "header"),
    [
        pytest.param(None, None, None, None, id="neither"),
        pytest.param(None, "3", 3, "3", id="header"),
        pytest.param(2.25, None, 2.25, "3", id="error"),
        pytest.param(2.25, "7", 7, "7", id="both"),
    ],
)
def test_error_and_its_headers_say_the_same_time(
    in_error: float | None, in_headers: str | None, seconds: float | None, header: str | None
) -> None:
    received = {} if in_headers is None else {"retry-after": in_headers}
    error, headers = join_retry_after(
        StreamError("upstream", "Slow down.", retry_after=in_error), received, NOON_S
    )
    assert (error.retry_after, headers.get("retry-after")) == (seconds, header)
