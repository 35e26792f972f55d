"""The errors of streams that break off and of bodies that are no stream, as clients match them."""

from __future__ import annotations

import re

import httpx
import httpx2
import pytest

from streamnorm import EncodeError, LimitExceeded, RemoteProtocolError, StreamError, TruncatedStream
from streamnorm._core.failures import (
    FailedAnswer,
    answer_failure,
    as_exception,
    not_a_stream,
    response_status,
    stream_error_of,
)
from streamnorm._core.source_failures import SourceStopped, broken_connection, cut_stream

# What pi sends again: those parts of `RETRYABLE_PROVIDER_ERROR_PATTERN` of its
# packages/ai/src/utils/retry.ts (read 2026-11-23) that concern connections or are numbers.
PI = re.compile(
    "overloaded|rate.?limit|too many requests|429|500|502|503|504|524|service.?unavailable"
    "|server.?error|internal.?error|network.?error|connection.?error|connection.?refused"
    "|connection.?lost|other side closed|timed? out|timeout|terminated|ended without",
    re.IGNORECASE,
)
TOKEN = {"continuation_token": "go-on"}


class Cut(Exception):
    """An exception of a client that nobody knows."""


class ClientConnectorError(OSError):
    """By name, an exception of aiohttp."""


class ClientConnectorDNSError(ClientConnectorError):
    """The same."""


class Stopping(SourceStopped):
    """An exception of a reader that its own side has stopped."""

    reason = "the gateway stopped"


@pytest.mark.parametrize("events", [0, 1, 14])
@pytest.mark.parametrize("cause", [None, Cut("sk-secret"), TimeoutError(), httpx.ConnectError("")])
def test_agents_retry_a_stream_that_broke_off(cause: Exception | None, events: int) -> None:
    error = cut_stream(events) if cause is None else broken_connection(cause, events)
    assert PI.search(error.message)
    assert error.retryable is True
    assert type(cause).__name__ not in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[" * 500, b"<html>" * 502, b"Not Found" * 429, b"\0" * 503],
    ids=["empty", "object", "array", "html", "text", "binary"],
)
def test_agents_do_not_retry_a_request_that_asks_for_no_stream(body: bytes) -> None:
    assert not PI.search(not_a_stream(body).message)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (0, "connection lost: the stream ended before its first event"),
        (1, "connection lost: the stream ended before the message was complete, after 1 event"),
        (14, "connection lost: the stream ended before the message was complete, after 14 events"),
    ],
)
def test_cut_stream_says_after_how_many_events(events: int, message: str) -> None:
    error = cut_stream(events, TOKEN)
    assert error == StreamError("truncated", message, retryable=True, extra=TOKEN)


@pytest.mark.parametrize(
    ("cause", "kind", "found"),
    [
        (ConnectionResetError(), "transport", "connection lost"),
        (httpx.RemoteProtocolError(""), "transport", "connection lost"),
        (httpx2.ReadError(""), "transport", "connection lost"),
        (SourceStopped(), "transport", "connection lost: the source was stopped"),
        (Stopping(), "transport", "connection lost: the gateway stopped"),
        (TimeoutError(), "stalled", "connection timed out"),
        (httpx.ReadTimeout(""), "stalled", "connection timed out"),
        (httpx2.ConnectTimeout(""), "stalled", "connection timed out"),
        (httpx2.PoolTimeout(""), "stalled", "connection timed out"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_broken_connection_is_named_by_what_happened(
    cause: Exception, kind: str, found: str
) -> None:
    for events, when in (
        (0, "before the first event"),
        (1, "after 1 event, before the message was complete"),
        (2, "after 2 events, before the message was complete"),
    ):
        error = broken_connection(cause, events, TOKEN)
        assert (error.kind, error.message) == (kind, f"{found} {when}")
        assert error.extra == TOKEN


@pytest.mark.parametrize(
    "cause",
    [
        httpx.ConnectError(""),
        httpx2.ConnectError(""),
        ConnectionRefusedError(),
        ClientConnectorDNSError(),
    ],
    ids=lambda value: type(value).__module__ + type(value).__name__,
)
def test_provider_that_cannot_be_reached_is_told_apart(cause: Exception) -> None:
    message = "connection error: the provider could not be reached"
    assert broken_connection(cause, 0) == StreamError("transport", message, retryable=True)


def test_source_that_exceeds_a_bound_is_too_large() -> None:
    cause = LimitExceeded("max_event_bytes of 9 passed", limit="max_event_bytes")
    expected = StreamError("too_large", "max_event_bytes of 9 passed", code="max_event_bytes")
    assert broken_connection(cause, 3) == expected


def test_body_that_cannot_be_decoded_is_malformed() -> None:
    cause = RemoteProtocolError("a content-encoding other than gzip")
    assert broken_connection(cause, 3) == StreamError("malformed", str(cause))
    assert broken_connection(TruncatedStream("cut"), 3).kind == "transport"


def test_answer_without_a_legal_form_fails_as_its_stream_does() -> None:
    error = StreamError("malformed", "m", "computer_call", 400, retryable=False)
    failed = FailedAnswer(error)
    assert (str(failed), answer_failure(failed)) == ("blocks: m", error)
    other = EncodeError("m", path="blocks[0]")
    assert answer_failure(other) == StreamError("malformed", "blocks[0]: m")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StreamError("malformed", "m", "computer_call", 400), 400),
        (StreamError("malformed", "m"), 502),
        (StreamError("stalled", "m"), 504),
        (StreamError("upstream", "m", status_hint=307), 502),
        (StreamError("upstream", "m", status_hint=529), 529),
        (StreamError("upstream", "m", status_hint=599), 599),
        (StreamError("upstream", "m", status_hint=600), 502),
        (StreamError("upstream", "prompt is too long", status_hint=500), 400),
    ],
)
def test_error_stands_for_a_status(error: StreamError, status: int) -> None:
    assert response_status(error) == status


@pytest.mark.parametrize(
    "error",
    [
        StreamError("upstream", "Overloaded.", "overloaded_error", 529, retryable=True),
        StreamError("malformed", "an HTML page, expected an event stream", "not_a_stream"),
        StreamError("too_large", "4097 blocks", "max_blocks"),
        StreamError("truncated", "connection lost", retryable=True),
        StreamError("malformed", "second start"),
    ],
    ids=lambda error: error.message,
)
def test_exception_of_a_stream_reports_its_error(error: StreamError) -> None:
    assert stream_error_of(as_exception(error)) == error


def test_exceptions_that_no_stream_raises_report_none() -> None:
    assert stream_error_of(OSError("sk-1")) is None
    assert stream_error_of(EncodeError("m", path="blocks[0]")) is None
