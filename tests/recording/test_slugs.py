"""Names of the files of recordings."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.recording.recorder import slug_of


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
