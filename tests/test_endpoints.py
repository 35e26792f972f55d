"""The HTTP interface of each dialect, as its record holds it."""

from __future__ import annotations

import pytest

from streamnorm import EncodeError
from streamnorm._core.codec import Endpoints
from streamnorm._registry import DIALECTS
from streamnorm.recording.secrets.credentials import is_secret_header
from streamnorm.sse import Frame

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
GEMINI = "/v1beta/models/m:streamGenerateContent?alt=sse"
INTERACTIONS = "/v1beta/interactions"
VERTEX = "/v1/projects/p/locations/l/publishers"


@pytest.mark.parametrize(
    ("dialect", "path", "body", "model"),
    [
        ("openai_chat", "/v1/chat/completions", {"model": "m"}, "m"),
        ("openai_chat", "/v1/models/x:y/chat/completions", {}, ""),
        ("openai_responses", "/v1/responses", {"model": 5}, ""),
        ("anthropic", f"{VERTEX}/anthropic/models/claude-x:streamRawPredict", {}, "claude-x"),
        ("gemini", "/v1beta/models/gemini-x:streamGenerateContent", {}, "gemini-x"),
        ("gemini", "/v1beta/models/gemini-x:streamGenerateContent", {"model": "m"}, "gemini-x"),
        ("openai_chat", "/v1/chat/completions/x", {"model": "m"}, "m"),
        ("gemini", "/v1beta/models", [], ""),
        ("gemini_interactions", "/v1beta/interactions", {"model": "gemini-x"}, "gemini-x"),
        ("gemini_interactions", "/v1beta/interactions/v1_1", [], ""),
    ],
)
def test_model_is_read_from_the_path_or_the_body(
    dialect: str, path: str, body: object, model: str
) -> None:
    assert DIALECTS[dialect].endpoints.model(path, body) == model


@pytest.mark.parametrize("dialect", DIALECTS)
def test_body_asks_for_a_stream(dialect: str) -> None:
    endpoints = DIALECTS[dialect].endpoints
    assert endpoints.streams("/", {"stream": True})
    for body in ({}, {"stream": 1}, {"stream": False}, [], None):
        assert not endpoints.streams("/", body)


def test_streaming_path_asks_for_a_stream() -> None:
    path = "/v1beta/models/gemini-x:streamGenerateContent"
    asking = [name for name, known in DIALECTS.items() if known.endpoints.streams(path, None)]
    assert asking == ["gemini"]


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        ("anthropic", "/v1/messages/count_tokens"),
        ("gemini", "/v1beta/models/gemini-x:countTokens"),
        ("openai_responses", "/v1/responses/input_tokens"),
    ],
)
def test_path_that_counts_tokens_is_told_from_that_of_a_message(dialect: str, path: str) -> None:
    counting = [name for name, known in DIALECTS.items() if known.endpoints.counts(path)]
    assert counting == [dialect]
    endpoints = DIALECTS[dialect].endpoints
    assert endpoints.serves(path)
    for other in ("/v1/messages", "/v1/responses", "/v1beta/models/gemini-x:generateContent"):
        assert not endpoints.counts(other)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_header_that_holds_the_key_is_never_recorded(dialect: str) -> None:
    headers = DIALECTS[dialect].endpoints.key_headers
    assert headers
    assert all(is_secret_header(name) for name in headers)


def test_dialect_without_endpoints_matches_no_path() -> None:
    assert not Endpoints().serves("/v1/messages")
    assert Endpoints().model("/models/m:go", {}) == ""
    assert not Endpoints().counts("/v1/messages/count_tokens")
    assert Endpoints().match("POST", "/v1/messages") is None


@pytest.mark.parametrize(
    ("dialect", "frame"),
    [
        ("openai_chat", Frame("message", "[DONE]")),
        ("anthropic", Frame("message_stop", '{"type":"message_stop"}')),
        ("anthropic", Frame("message_stop", "{}")),
        ("openai_responses", Frame("message", '{"type":"response.incomplete"}')),
        ("openai_responses", Frame("response.failed", '{"response":{}}')),
        ("gemini", Frame("message", '{"candidates":[{"finishReason":"STOP"}]}')),
        ("gemini", Frame("message", '{"promptFeedback":{"blockReason":"SAFETY"}}')),
        ("gemini_interactions", Frame("message", '{"event_type":"interaction.completed"}')),
    ],
)
def test_terminal_belongs_to_one_dialect_only(dialect: str, frame: Frame) -> None:
    ending = {name for name, known in DIALECTS.items() if known.is_terminal(frame)}
    assert dialect in ending
    done = {"openai_chat", "gemini", "gemini_interactions", "ui_message_stream"}
    others = done if frame.data == "[DONE]" else set()
    assert ending <= {dialect} | others


@pytest.mark.parametrize("data", ["", "{", "[]", "null", '{"candidates":[null,5]}', '"[DONE]"'])
def test_other_frames_are_no_terminal(data: str) -> None:
    assert not any(known.is_terminal(Frame("message", data)) for known in DIALECTS.values())


@pytest.mark.parametrize(
    ("dialect", "base_url", "path", "url"),
    [
        ("openai_chat", "https://h", CHAT, "https://h/v1/chat/completions"),
        ("openai_chat", "https://h/v1", CHAT, "https://h/v1/chat/completions"),
        (
            "openai_chat",
            "https://h/v1beta/openai",
            CHAT,
            "https://h/v1beta/openai/chat/completions",
        ),
        ("anthropic", "https://h", MESSAGES, "https://h/v1/messages"),
        ("anthropic", "https://h/v1", MESSAGES, "https://h/v1/messages"),
        # Cloudflare's: the version of its own API, then the vendor's base URL.
        ("anthropic", "https://h/v1/a/anthropic", MESSAGES, "https://h/v1/a/anthropic/v1/messages"),
        ("gemini", "https://h", GEMINI, f"https://h{GEMINI}"),
        ("gemini", "https://h/v1beta", GEMINI, f"https://h{GEMINI}"),
        ("gemini_interactions", "https://h", INTERACTIONS, f"https://h{INTERACTIONS}"),
        ("gemini_interactions", "https://h/v1beta", INTERACTIONS, f"https://h{INTERACTIONS}"),
    ],
)
def test_version_of_the_api_is_not_doubled(
    dialect: str, base_url: str, path: str, url: str
) -> None:
    assert DIALECTS[dialect].endpoints.url(base_url, path) == url


@pytest.mark.parametrize(
    "path", ["/v1beta/models/../../x:generateContent", "/v1/%2e%2E/messages", "/v1/./messages"]
)
def test_path_that_leaves_the_base_url_is_refused(path: str) -> None:
    with pytest.raises(EncodeError, match="a path with dot segments, expected none"):
        DIALECTS["gemini"].endpoints.url("https://h/tenant", path)
