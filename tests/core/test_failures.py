"""Kinds, statuses and outcomes of errors in every dialect."""

from __future__ import annotations

from typing import get_args

import pytest

from streamnorm import Failed, StreamError, Truncated
from streamnorm._core.events import ErrorKind
from streamnorm._core.failures import Fatal, error_outcome, too_large, upstream_error


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
        ("insufficient_quota", 402, False),
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


def test_type_beside_a_code_is_stored() -> None:
    error = upstream_error("m", code="c", type="t", extra={"param": "p"})
    assert (error.code, error.extra) == ("c", {"type": "t", "param": "p"})
