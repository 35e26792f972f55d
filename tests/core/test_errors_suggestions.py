"""Suggestions for names that are not known."""

from __future__ import annotations

import pytest

from streamnorm._core.errors import did_you_mean

KNOWN = ("anthropic", "openai_chat", "openai_responses", "chat")


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("antropic", "; did you mean anthropic?"),
        ("openai-chat", "; did you mean openai_chat?"),
        ("OpenAI_Chat", "; did you mean openai_chat?"),
        ("opena_respones", "; did you mean openai_responses?"),
        ("klingon", ""),
        ("", ""),
        ("anthropic" * 8, ""),
    ],
)
def test_nearest_name_is_suggested(name: str, suggestion: str) -> None:
    assert did_you_mean(name, KNOWN) == suggestion


def test_without_known_names_nothing_is_suggested() -> None:
    assert did_you_mean("chat", ()) == ""
