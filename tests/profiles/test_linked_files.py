"""Files by URL, and verbosity: what clouds and older models refuse is not sent, with a loss."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import Encoded, translate_request
from streamnorm.validation import validate_request

LINKED = {"type": "image_url", "image_url": {"url": "https://h/a.png"}}
INLINE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def asked(image: dict[str, Any], server: str | None) -> Encoded:
    content = [{"type": "text", "text": "q"}, image]
    body = {"model": "claude-sonnet-4-6", "messages": [{"role": "user", "content": content}]}
    return translate_request(body, dialect="openai_chat", to="anthropic", server=server)


@pytest.mark.parametrize("server", ["bedrock", "vertex"])
def test_image_by_url_is_not_sent_to_a_cloud_that_fetches_none(server: str) -> None:
    encoded = asked(LINKED, server)
    assert "https://h/a.png" not in str(encoded.body["messages"][0]["content"])
    assert "image_dropped" in [loss.feature for loss in encoded.losses]
    model = "claude-sonnet-4-6"
    assert validate_request(encoded.body, "anthropic", server=server, model=model) == []
    assert "image_dropped" not in [loss.feature for loss in asked(INLINE, server).losses]


def test_image_by_url_reaches_anthropic_itself() -> None:
    encoded = asked(LINKED, None)
    assert encoded.body["messages"][0]["content"][1]["source"]["url"] == "https://h/a.png"


@pytest.mark.parametrize(("model", "kept"), [("gpt-4.1", False), ("o3", False), ("gpt-5.1", True)])
@pytest.mark.parametrize("to", ["openai_chat", "openai_responses"])
def test_verbosity_reaches_models_that_have_it(model: str, to: str, kept: bool) -> None:
    sources = {
        "openai_chat": {"input": "q", "text": {"verbosity": "low"}},
        "openai_responses": {"messages": [{"role": "user", "content": "q"}], "verbosity": "low"},
    }
    (source,) = sources.keys() - {to}
    body = {"model": model, **sources[to]}
    encoded = translate_request(body, dialect=source, to=to)
    assert ("low" in str(encoded.body)) is kept
    assert ("verbosity" in [loss.feature for loss in encoded.losses]) is not kept
    assert validate_request(encoded.body, to) == []
