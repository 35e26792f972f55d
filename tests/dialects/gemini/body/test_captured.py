"""Requests of real clients: read, written as they were, and written anew within the types."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.body_types import problems
from support.gemini.bodies import Written, read, without_source

from streamnorm import Text, decode_request, detect, encode_request
from streamnorm._core.bodies.request import InputMessage

_REQUESTS = os.environ.get("STREAMNORM_REQUESTS")
_CORPUS = os.environ.get("STREAMNORM_CORPUS")

UNTYPED = {
    "TestGoogleAIGenerateContentWithMultipleMessages": "numbers for words, and a model",
    "TestGoogleAIGenerateContentWithSystemMessage": "numbers for words, and a model",
    "TestGoogleAIToolCallResponse-1": "numbers for words, and a model",
}
"""What clients send outside of the SDK's types, by the last part of a file's name."""


def captured() -> list[Any]:
    """Return the path and the body of each captured request."""
    found = []
    if _REQUESTS is not None:
        for file in sorted(Path(_REQUESTS).glob("*.json")):
            request = json.loads(file.read_text("utf-8"))
            if "enerateContent" in request["path"]:
                path = request["path"].partition("?")[0]
                found.append(pytest.param(path, request["body"], id=file.stem))
    if _CORPUS is not None:
        for file in sorted(Path(_CORPUS, "gemini").glob("*.request.json")):
            name = file.name.removesuffix(".request.json")
            found.append(pytest.param("", json.loads(file.read_text("utf-8")), id=name))
    reason = "neither STREAMNORM_REQUESTS nor STREAMNORM_CORPUS names a folder"
    return found or [pytest.param("", {}, marks=pytest.mark.skip(reason=reason))]


each_request = pytest.mark.parametrize(("path", "body"), captured())


@each_request
def test_a_request_is_written_as_it_was_read(path: str, body: dict[str, Any]) -> None:
    assert detect(body) == "gemini"
    request = decode_request(body, "gemini", path=path or None)
    written = encode_request(request, "gemini")
    assert (written.body, written.losses) == (body, ())
    assert written.path.rpartition("/")[2].partition("?")[0] == path.rpartition("/")[2]


@each_request
def test_a_longer_request_begins_as_the_shorter_one(path: str, body: dict[str, Any]) -> None:
    request = decode_request(body, "gemini", path=path or None)
    turn = InputMessage("user", (Text("More."),))
    longer = structs.replace(request, messages=(*request.messages, turn))
    written = encode_request(longer, "gemini").body
    assert written["contents"][:-1] == body["contents"]
    for name in ("systemInstruction", "tools", "toolConfig", "generationConfig"):
        assert written.get(name) == body.get(name)


@each_request
def test_a_request_that_is_written_anew_says_the_same_within_the_types(
    path: str, body: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    untyped = any(name in request.node.name for name in UNTYPED)
    assert bool(not untyped and problems("gemini", body)) is False
    before = without_source(read(body, path))
    written = Written(before, typed=not untyped, signature_placeholder=None)
    assert written.lost == {}
    after = without_source(read(written.body, written.path.partition("?")[0]))
    assert structs.replace(after, stream=None) == structs.replace(before, stream=None)
