"""The dialect, the server and the file name that a URL implies."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.recording.operations import dialect_of, path_of, query_of, server_of, slug_of


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
    assert dialect_of("https://host.example" + path) == dialect


def test_query_and_host_do_not_decide_the_dialect() -> None:
    assert dialect_of("https://messages.example/x?next=/v1/messages") is None


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("api.openai.com", "openai"),
        ("API.DeepSeek.com:443", "deepseek"),
        ("user:pass@api.groq.com", "groq"),
        ("openrouter.ai", "openrouter"),
        ("api.x.ai", "xai"),
        ("my-x.ai", "my-x"),
        ("api.z.ai", "zai"),
        ("my-resource.openai.azure.com", "azure"),
        ("generativelanguage.googleapis.com", "gemini"),
        ("europe-west1-aiplatform.googleapis.com", "vertex"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"),
        ("dashscope-intl.aliyuncs.com", "qwen"),
        ("api.vendor.co.uk", "vendor"),
        ("localhost:8000", None),
        ("127.0.0.1:8000", None),
        ("10.1.2.3", None),
        ("[::1]:80", None),
        ("[::ffff:10.1.2.3]", None),
        ("gpu-box", None),
        ("gpu-box.local", None),
        ("llm-gateway.example.com", None),
        ("host.docker.internal", None),
        ("[nothing", None),
    ],
)
def test_server_is_known_by_the_host(host: str, server: str | None) -> None:
    assert server_of(f"https://{host}/v1/chat/completions") == server


@pytest.mark.parametrize(
    ("path", "slug"),
    [
        ("/v1/chat/completions", "chat-completions"),
        ("/v1/messages?beta=true", "messages"),
        ("/v1/messages/count_tokens", "messages-count_tokens"),
        (
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
            "models-gemini-2.5-flash-streamGenerateContent",
        ),
        ("/v/base/v1/responses", "responses"),
        ("/v1/models/claude-sonnet-4-5-20250929", "models-claude-sonnet-4-5-20250929"),
        ("/v1/responses/resp_68a1f0c2d3e4b5a697", "responses"),
        ("/v1/files/0f3b2c1d-1111-2222-3333-444455556666/content", "files-content"),
        ("/bot/xxxxxxxxxxxx/send", "bot-send"),
        ("/v1/r\u00e9sum\u00e9 1", "r-sum-1"),
        ("/v1/../../etc/passwd", "etc-passwd"),
        ("/v1/a%2F..%2Fb", "a-..-b"),
        ("/v1/page.body", "page"),
        ("/v1", "request"),
        ("", "request"),
    ],
)
def test_slug_names_the_operation(path: str, slug: str) -> None:
    assert slug_of("https://host.example" + path) == slug


def test_long_slug_keeps_its_end() -> None:
    path = "/v1/" + "/".join(["projects", "of-many-words-that-say-little"] * 3) + "/models/m:go"
    slug = slug_of("https://host.example" + path)
    assert len(slug) <= 60
    assert slug.endswith("say-little-models-m-go")


@given(st.text())
def test_any_url_has_a_slug_that_is_a_file_name(text: str) -> None:
    slug = slug_of("https://host.example/" + text)
    assert 0 < len(slug) <= 60
    assert set(slug) <= {*string.ascii_letters, *string.digits, *"._-"}
    assert slug[0] not in ".-"


def test_path_is_decoded_and_has_no_empty_segments() -> None:
    assert path_of("http://h//v1/%6Dessages/") == "/v1/messages"


def test_query_is_decoded_and_sorted() -> None:
    assert query_of("http://h/p?b=&a=%31&a=0") == [("a", "0"), ("a", "1"), ("b", "")]
