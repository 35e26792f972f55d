"""Base URLs that are accepted, and the parts of a request's URL."""

from __future__ import annotations

import pytest

from streamnorm._registry import DIALECTS
from streamnorm.codec import INVOKE_CHUNKS, SSE, WS_MESSAGE
from streamnorm.http.urls import (
    check_base_url,
    detect_url,
    dialect_of_url,
    is_websocket_url,
    path_of,
    query_of,
)


@pytest.mark.parametrize(
    ("given", "base_url"),
    [
        ("https://h/", "https://h"),
        ("http://localhost:8000/v1//", "http://localhost:8000/v1"),
        ("https://[::1]:8000/v1", "https://[::1]:8000/v1"),
        ("https://h.", "https://h."),
        ("https://bücher.example", "https://bücher.example"),
    ],
)
def test_base_url_has_no_slash_at_its_end(given: str, base_url: str) -> None:
    assert check_base_url(given) == base_url


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("localhost:8000", "no http or https URL"),
        ("ftp://h", "no http or https URL"),
        ("https://", "no http or https URL"),
        ("", "no http or https URL"),
        ("https://[h", "no URL"),
        ("https://h:port", "no URL"),
        ("https://canary..h", "no URL"),
        ("https://.", "no URL"),
        ("https://" + "canary" * 50, "no URL"),
        ("https://h\\canary", "a character that no URL has"),
        ("https://canary h", "a character that no URL has"),
        ("https://h\ncanary", "a character that no URL has"),
        ("https://user@h", "a user or a password"),
        ("https://:canary@h", "a user or a password"),
        ("https://h/v1?key=canary", "a query or a fragment"),
        ("https://h/v1#x", "a query or a fragment"),
    ],
)
def test_other_base_url_is_refused_without_its_text(given: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as raised:
        check_base_url(given)
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/chat/completions", "openai_chat"),
        ("/openai/deployments/mine/chat/completions?api-version=2024-10-21", "openai_chat"),
        ("/v1beta/openai/chat/completions", "openai_chat"),
        ("/v//v1/chat/completions", "openai_chat"),
        ("/v1/chat/completions/", "openai_chat"),
        ("/v1/responses", "openai_responses"),
        ("/v1/responses/resp_12?stream=true", "openai_responses"),
        ("/v1/messages", "anthropic"),
        ("/anthropic/v1/messages?beta=true", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic"),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/claude-x:streamRawPredict",
            "anthropic",
        ),
        ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", "gemini"),
        ("/v1beta/models/gemini-2.5-flash%3AgenerateContent", "gemini"),
        (
            "/v1/projects/p/locations/l/publishers/google/models/gemini-x:streamGenerateContent",
            "gemini",
        ),
        ("/v1beta/models/gemini-2.5-flash:countTokens", "gemini"),
        ("/v1/threads/thread_1/messages", None),
        ("/v1/messages/batches", None),
        ("/v1/responses/resp_12/input_items", None),
        ("/v1/completions", None),
        ("/v1/models", None),
        ("/v1beta/models/gemini-2.5-flash:embedContent", None),
        ("", None),
    ],
)
def test_dialect_is_known_by_the_path(path: str, dialect: str | None) -> None:
    assert detect_url("https://host.example" + path) == dialect


def test_query_and_host_do_not_decide_the_dialect() -> None:
    assert detect_url("https://messages.example/x?next=/v1/messages") is None


def test_path_is_decoded_and_has_no_empty_segments() -> None:
    assert path_of("http://h//v1/%6Dessages/") == "/v1/messages"


def test_query_is_decoded_and_sorted() -> None:
    assert query_of("http://h/p?b=&a=%31&a=0") == [("a", "0"), ("a", "1"), ("b", "")]


@pytest.mark.parametrize(
    "model", ["eu.anthropic.claude-3-haiku-20240307-v1:0", "arn%3Aaws%3Abedrock%2Fm", "a:b/c"]
)
@pytest.mark.parametrize("operation", ["invoke", "invoke-with-response-stream"])
def test_dialect_at_the_url_of_a_cloud_is_spoken_in_its_framing(model: str, operation: str) -> None:
    found = dialect_of_url(f"https://h.example/prefix/model/{model}/{operation}?a=b")
    assert found is not None
    assert (found.name, found.framing) == ("anthropic", INVOKE_CHUNKS)
    assert found.cloud is not None


def test_dialect_at_the_url_of_a_websocket_is_spoken_in_messages() -> None:
    found = dialect_of_url("wss://h.example/v1/responses")
    assert found is not None
    assert (found.name, found.framing) == ("openai_responses", WS_MESSAGE)
    assert dialect_of_url("ws://h.example/v1/chat/completions") is None
    assert dialect_of_url("ws://h.example/v1/files") is None
    assert not is_websocket_url("https://h.example/v1/responses")


def test_dialect_at_the_url_of_a_vendor_is_spoken_as_ever() -> None:
    assert dialect_of_url("https://h.example/v1/messages") is DIALECTS["anthropic"]
    assert DIALECTS["anthropic"].framing is SSE
    assert dialect_of_url("https://h.example/v1/files") is None
