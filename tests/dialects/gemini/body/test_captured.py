"""Requests of real clients: written as they were, or written anew within the SDK's types."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs
from support.bodies.request_corpus import RealRequest, corpus_requests, each_captured_request
from support.bodies.sdk_types import problems
from support.gemini.bodies import Written, read, without_source
from support.streams.corpus import needs_corpus

from streamnorm import Text, decode_request, detect, encode_request
from streamnorm._core.bodies.request import InputMessage

UNTYPED = {
    "google__langchaingo__googleai-TestGoogleAIGenerateContentWithMultipleMessages",
    "google__langchaingo__googleai-TestGoogleAIGenerateContentWithSystemMessage",
    "google__langchaingo__googleai-TestGoogleAIToolCallResponse-1",
}
"""Requests outside of the SDK's types: a model in the body, and numbers for words."""


def written_as_it_was_read(captured: RealRequest) -> None:
    """Check that the same dialect in and out is an equal body."""
    assert detect(captured.body) == "gemini"
    request = decode_request(captured.body, "gemini", path=captured.path or None)
    written = encode_request(request, "gemini")
    assert (written.body, written.losses) == (captured.body, ())
    if captured.path:
        assert captured.path.endswith(written.path.partition("?")[0].partition("/models")[2])


def a_turn_later_the_same(captured: RealRequest) -> None:
    """Check that a longer conversation does not rewrite what was sent."""
    request = decode_request(captured.body, "gemini", path=captured.path or None)
    turn = InputMessage("user", (Text("More."),))
    longer = structs.replace(request, messages=(*request.messages, turn))
    written = encode_request(longer, "gemini").body
    assert written["contents"][:-1] == captured.body["contents"]
    for name in ("systemInstruction", "tools", "toolConfig", "generationConfig"):
        assert written.get(name) == captured.body.get(name)


def anew_the_same(captured: RealRequest) -> None:
    """Check that a request without its source loses nothing, within the SDK's types."""
    typed = captured.name.rpartition("/")[2] not in UNTYPED
    assert not typed or problems("gemini", captured.body) == []
    before = without_source(read(captured.body, captured.path))
    written = Written(before, typed=typed, signature_placeholder=None)
    assert written.lost == {}
    after = without_source(read(written.body, written.path.partition("?")[0]))
    assert structs.replace(after, stream=None) == structs.replace(before, stream=None)


each_check = pytest.mark.parametrize(
    "check", [written_as_it_was_read, a_turn_later_the_same, anew_the_same]
)


@each_check
@each_captured_request
def test_requests_of_agents(captured: RealRequest, check: Callable[[RealRequest], None]) -> None:
    if captured.dialect == "gemini":
        check(captured)


@each_check
@needs_corpus
def test_requests_of_the_corpus(check: Callable[[RealRequest], None]) -> None:
    for captured in corpus_requests("gemini"):
        check(captured)
