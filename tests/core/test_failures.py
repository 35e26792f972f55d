"""Kinds, statuses and outcomes of errors in every dialect."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from streamnorm import Failed, StreamError, Truncated
from streamnorm._core.events import ErrorKind
from streamnorm._core.failures import (
    Fatal,
    error_outcome,
    find_error,
    hide_account,
    is_spent,
    refusal_error,
    too_large,
    upstream_error,
)


@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_kind_of_error_decides_the_outcome(kind: ErrorKind) -> None:
    error = StreamError(kind, "m")
    cut = kind in ("truncated", "transport", "stalled")
    assert error_outcome(error) == (Truncated(error) if cut else Failed(error))


def test_too_large_error_names_its_limit() -> None:
    fatal = too_large("max_blocks", 4096)
    assert isinstance(fatal, Fatal)
    assert fatal.error == StreamError("too_large", "max_blocks of 4096 passed", code="max_blocks")


@pytest.mark.parametrize(
    ("word", "status", "retryable"),
    [
        ("rate_limit_exceeded", 429, True),
        ("too_many_requests", 429, True),
        ("ThrottlingException", 429, True),
        ("quota_exceeded", 429, True),
        ("insufficient_quota", 402, False),
        ("billing_error", 402, False),
        ("payment_required", 402, False),
        ("UNAVAILABLE", 503, True),
        ("over_capacity", 503, True),
        ("DEADLINE_EXCEEDED", 504, True),
        ("unauthorized", 401, False),
        ("UNAUTHENTICATED", 401, False),
        ("forbidden", 403, False),
        ("conflict_error", 409, True),
        ("content_policy_violation", 400, False),
        ("content_filter", 400, False),
        ("tool_use_failed", 400, False),
        ("bad_request", 400, False),
        ("INTERNAL", 500, True),
        ("api_error", 500, True),
        ("invalid_api_key", 401, False),
        ("authentication_error", 401, False),
        ("permission_error", 403, False),
        ("model_not_found", 404, False),
        ("context_length_exceeded", 400, False),
        ("invalid_request_error", 400, False),
        ("request_too_large", 413, False),
        ("overloaded_error", 529, True),
        ("RESOURCE_EXHAUSTED", 429, True),
        ("insufficient_system_resource", 503, True),
        ("timeout", 504, True),
        ("server_error", 500, True),
        ("unheard_of", None, None),
    ],
)
def test_error_type_implies_a_status(word: str, status: int | None, retryable: bool | None) -> None:
    by_code, by_type = upstream_error("m", code=word), upstream_error("m", type=word)
    assert by_code == by_type == StreamError("upstream", "m", word, status, retryable)


def test_explicit_status_overrides_the_error_type() -> None:
    assert upstream_error("m", code="server_error", status=429).status_hint == 429


def test_status_outside_the_error_range_is_ignored() -> None:
    assert upstream_error("m", code="overloaded", status=200).status_hint == 529


@pytest.mark.parametrize(
    ("error", "message", "code", "status"),
    [
        # Three digits in a text are a status, unless one is stated.
        ({"message": "m", "code": "503"}, "m", "503", 503),
        ({"message": "m", "code": "503", "status": 429}, "m", "503", 429),
        ({"message": "m", "code": "5030"}, "m", "5030", None),
        ({"message": "m", "code": "50a"}, "m", "50a", None),
    ],
)
def test_status_may_be_a_text(
    error: dict[str, Any], message: str, code: str, status: int | None
) -> None:
    found = find_error({"error": error})
    assert found is not None
    assert (found.message, found.code, found.status_hint) == (message, code, status)


@pytest.mark.parametrize(
    ("value", "message", "status"),
    [
        # NestJS and Fastify; the name of the status stands in `error`.
        ({"error": "Not Found", "message": "Gone.", "statusCode": 404}, "Gone.", 404),
        ({"error": "Not Found", "message": ["Gone."], "statusCode": 404}, "Not Found", None),
        ({"error": "Not found.", "message": "Gone."}, "Not found.", None),
        # The message of the error itself counts before that of its owner.
        ({"error": {"code": 503}, "message": "Busy."}, "Busy.", 503),
        ({"error": {"code": 503, "message": "Own."}, "message": "Busy."}, "Own.", 503),
        ({"error": {"code": 503}}, "", 503),
    ],
)
def test_message_may_stand_beside_the_error(
    value: dict[str, Any], message: str, status: int | None
) -> None:
    found = find_error(value)
    assert found is not None
    assert (found.message, found.status_hint) == (message, status)


@pytest.mark.parametrize(
    ("code", "shown", "status"),
    [(400, "400", 400), (599, "599", 599), (399, "399", None), (600, "600", None)],
)
def test_number_of_a_refusal_is_a_status_or_the_code_of_its_vendor(
    code: int, shown: str, status: int | None
) -> None:
    found = refusal_error({"message": "No.", "code": code})
    assert found is not None
    assert (found.code, found.status_hint) == (shown, status)


def test_type_beside_a_code_is_stored() -> None:
    error = upstream_error("m", code="c", type="t", extra={"param": "p"})
    assert (error.code, error.extra) == ("c", {"type": "t", "param": "p"})


ABOUT_THE_ACCOUNT = [
    upstream_error("invalid x-api-key", type="authentication_error"),
    upstream_error("no credit", status=402),
    upstream_error("the organization is disabled", type="permission_error"),
    upstream_error("API key not valid. Please pass a valid API key.", status=400),  # Google
    upstream_error("Incorrect API key provided: xa***", status=400),  # xAI
]
SPENT = [
    upstream_error("You exceeded your current quota.", code="insufficient_quota", status=429),
    upstream_error("You exceeded your current quota.", type="insufficient_quota", status=429),
    upstream_error("No.", code="429", type="insufficient_quota", status=429),  # LiteLLM
    upstream_error("The account is not active.", code="billing_not_active", status=429),
    upstream_error("Access denied.", code="Arrearage", status=400),
    upstream_error("Suspended.", type="exceeded_current_quota_error", status=429),
    upstream_error("Your account is suspended due to insufficient balance", status=429),
    upstream_error("Your credit balance is too low", status=400),
]


@pytest.mark.parametrize("error", [*ABOUT_THE_ACCOUNT, *SPENT])
def test_error_about_the_account_is_replaced(error: StreamError) -> None:
    assert is_spent(error) == (error in SPENT)
    hidden = hide_account(error)
    assert (hidden.message, hidden.code) == ("the provider refuses the gateway", "provider_refused")
    assert (hidden.kind, hidden.status_hint, hidden.retryable) == ("upstream", 502, False)


@pytest.mark.parametrize(
    "error",
    [
        upstream_error("Overloaded", type="overloaded_error"),
        upstream_error("prompt is too long: 9 tokens > 8 maximum", type="invalid_request_error"),
        upstream_error("The response was filtered", code="content_filter", status=400),
        upstream_error("Slow down.", type="rate_limit_error"),
        # Google says it of requests per minute, too.
        upstream_error("You exceeded your current quota, please check your plan", status=429),
        StreamError("truncated", "connection lost", retryable=True, extra={"response_id": "r"}),
    ],
)
def test_other_errors_are_not_hidden(error: StreamError) -> None:
    assert not is_spent(error)
    assert hide_account(error) == error


@pytest.mark.parametrize(
    ("message", "hidden"),
    [
        (
            "Rate limit reached for gpt-4o in organization org-abc on requests per min (RPM)",
            "Rate limit reached for gpt-4o in organization *** on requests per min (RPM)",
        ),
        (
            "the rate limit for your organization (a22cf6e6-a940-4fff-8c4c-1580816ac7be) of 9",
            "the rate limit for your organization (***) of 9",
        ),
        (
            "9 per minute (org: ef36bf5a-434a-4c52-b7a0-ba958aef9dfd, model: claude-x)",
            "9 per minute (org: ***, model: claude-x)",
        ),
        (
            "Your account org-ea6a80cc0e7544d6b5e5 <ak-f8tyo15zao8111h11q4i> request reached 3",
            "Your account *** <***> request reached 3",
        ),
        ("your org-wide limit is 9; your organization (soon) has more", None),
    ],
)
def test_rate_limit_names_no_account(message: str, hidden: str | None) -> None:
    error = upstream_error(
        message, code="rate_limit_exceeded", type="tokens", status=429, extra={"user_id": "u"}
    )
    expected = StreamError(
        "upstream", hidden or message, "rate_limit_exceeded", 429, retryable=True
    )
    assert hide_account(error) == expected
