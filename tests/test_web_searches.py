"""Web searches of a provider, translated: where the user is, and how much is read.

Anthropic and OpenAI's Responses have one form of `user_location`, Chat Completions has its fields
in an object within; `search_context_size` is OpenAI's own.  Gemini's search has neither.
"""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import decode_request, translate_request
from streamnorm.tools import ServerTool

PLACE = {"city": "Oslo", "country": "NO", "region": "Oslo", "timezone": "Europe/Oslo"}
FLAT = {"type": "approximate", **PLACE}
NESTED = {"type": "approximate", "approximate": PLACE}
MODELS = {
    "anthropic": "claude-opus-5",
    "openai_chat": "gpt-4o-search-preview",
    "openai_responses": "gpt-5.5",
    "gemini": "gemini-3-pro",
}
MESSAGES = [{"role": "user", "content": "Snow?"}]


def asking(dialect: str, **search: Any) -> dict[str, Any]:
    """Return a request that offers a web search with some fields."""
    body: dict[str, Any] = {"model": MODELS[dialect]}
    match dialect:
        case "anthropic":
            tool = {"type": "web_search_20250305", "name": "web_search", **search}
            return {**body, "max_tokens": 100, "messages": MESSAGES, "tools": [tool]}
        case "openai_chat":
            return {**body, "messages": MESSAGES, "web_search_options": search}
        case _:
            return {**body, "input": MESSAGES, "tools": [{"type": "web_search", **search}]}


def translate(body: dict[str, Any], client: str, to: str) -> tuple[dict[str, Any], list[str]]:
    """Return the search that a target is asked for, and what it lost."""
    encoded = translate_request({**body, "model": MODELS[to]}, to=to, dialect=client)
    offered = {**encoded.body, "tools": encoded.body.get("tools", [None])}
    search = offered["web_search_options"] if to == "openai_chat" else offered["tools"][0]
    return search, [loss.feature for loss in encoded.losses if loss.where == "tools"]


CLIENTS = [("anthropic", FLAT), ("openai_chat", NESTED), ("openai_responses", FLAT)]


@pytest.mark.parametrize(("to", "written"), CLIENTS)
@pytest.mark.parametrize(("client", "asked"), CLIENTS)
def test_location_of_the_user_reaches_the_search(
    client: str, asked: dict[str, Any], to: str, written: dict[str, Any]
) -> None:
    search, lost = translate(asking(client, user_location=asked), client, to)
    assert search["user_location"] == written
    assert lost == []


@pytest.mark.parametrize(("client", "asked"), CLIENTS)
def test_location_is_a_loss_where_the_search_has_none(client: str, asked: dict[str, Any]) -> None:
    search, lost = translate(asking(client, user_location=asked), client, "gemini")
    assert search == {"googleSearch": {}}
    assert lost == ["user_location"]


@pytest.mark.parametrize(
    ("client", "to", "is_kept"),
    [
        ("openai_chat", "openai_responses", True),
        ("openai_responses", "openai_chat", True),
        ("openai_chat", "anthropic", False),
        ("openai_responses", "gemini", False),
    ],
)
def test_size_of_the_context_is_one_of_openai(client: str, to: str, is_kept: bool) -> None:
    search, lost = translate(asking(client, search_context_size="low"), client, to)
    assert search.get("search_context_size") == ("low" if is_kept else None)
    assert lost == ([] if is_kept else ["search_context_size"])


def test_location_without_fields_is_one() -> None:
    """OpenAI takes the user for an American where there is none."""
    asked = asking("anthropic", user_location={"type": "approximate", "city": None})
    search, lost = translate(asked, "anthropic", "openai_responses")
    assert (search["user_location"], lost) == ({"type": "approximate"}, [])
    search, lost = translate(asked, "anthropic", "openai_chat")
    assert (search["user_location"], lost) == ({"type": "approximate", "approximate": {}}, [])


@pytest.mark.parametrize(
    "location",
    [
        "Oslo",
        {"type": "exact", "city": "Oslo"},
        {"type": "approximate", "city": 5},
        {"type": "approximate", "street": "Karl Johans gate"},
    ],
)
def test_location_of_another_form_is_a_loss(location: Any) -> None:
    for client in ("anthropic", "openai_responses"):
        to = "openai_responses" if client == "anthropic" else "anthropic"
        search, lost = translate(asking(client, user_location=location), client, to)
        assert "user_location" not in search
        assert lost == ["user_location"]
    nested = {"type": "approximate", "approximate": location}
    search, lost = translate(
        asking("openai_chat", user_location=nested), "openai_chat", "anthropic"
    )
    assert ("user_location" in search, lost) == (False, ["user_location"])


def test_other_size_is_a_loss() -> None:
    asked = asking("openai_responses", search_context_size=5)
    search, lost = translate(asked, "openai_responses", "openai_chat")
    assert (search, lost) == ({}, ["search_context_size"])


@pytest.mark.parametrize(("dialect", "asked"), CLIENTS)
def test_location_of_a_search_is_unified(dialect: str, asked: dict[str, Any]) -> None:
    (tool,) = decode_request(asking(dialect, user_location=asked), dialect).tools
    assert isinstance(tool, ServerTool)
    assert tool.user_location == PLACE
