"""When Google accepts a request again: in the details of an error, read and written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import StreamError, UpstreamError, decode_message
from streamnorm._core.failures import as_exception, find_error, stream_error_of
from streamnorm.codec import encoder

RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []}


def body(*details: Any) -> dict[str, Any]:
    error = {"code": 429, "message": "Slow.", "status": "RESOURCE_EXHAUSTED"}
    return {"error": {**error, "details": list(details)}}


def asked(delay: Any) -> dict[str, Any]:
    return {"@type": RETRY_INFO, "retryDelay": delay}


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ([asked("12s")], 12.0),
        ([QUOTA, asked("0.25s")], 0.25),
        ([asked("31.123456789s"), asked("1s")], 31.123456789),
        ([asked("0s")], None),
        ([asked("-1s")], None),
        ([asked("12")], None),
        ([asked("1e5s")], None),
        ([asked("9999999999s")], None),
        ([asked(12)], None),
        ([{"@type": RETRY_INFO}], None),
        ([{"retryDelay": "12s"}], None),
        ([QUOTA, "no", None], None),
        ([], None),
    ],
)
def test_error_says_when_the_request_is_accepted_again(
    details: list[Any], seconds: float | None
) -> None:
    error = find_error(body(*details))
    assert error is not None
    assert (error.retry_after, error.status_hint) == (seconds, 429)
    exception = as_exception(error)
    assert isinstance(exception, UpstreamError)
    assert exception.retry_after == seconds
    restored = stream_error_of(exception)
    assert restored is not None
    assert restored.retry_after == seconds


def test_whole_answer_that_is_an_error_says_so_too() -> None:
    with pytest.raises(UpstreamError) as caught:
        decode_message(body(asked("7s")), "gemini")
    assert caught.value.retry_after == 7.0


@pytest.mark.parametrize(
    ("seconds", "delay"),
    [(12, "12s"), (12.0, "12s"), (0.25, "0.25s"), (100, "100s"), (1e300, "999999999s")],
)
def test_error_for_google_clients_says_it_in_its_details(seconds: float, delay: str) -> None:
    error = StreamError("upstream", "Slow.", "rate_limit", 429, retry_after=seconds)
    written = json.loads(encoder("gemini").error_body(error))["error"]
    assert written["details"] == [asked(delay)]
    assert "details" not in json.loads(encoder("gemini").error_body(StreamError("upstream", "a")))


def test_details_of_google_itself_stay_as_they_are() -> None:
    error = find_error(body(QUOTA, asked("12.0s")))
    assert error is not None
    written = json.loads(encoder("gemini", extras=True).error_body(error))["error"]
    assert written["details"] == [QUOTA, asked("12.0s")]
