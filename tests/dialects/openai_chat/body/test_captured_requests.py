"""Requests of real clients: in and out equal, and those of other dialects within the types."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from support.body_types import problems
from support.openai_chat.requests import read, without_source, write

from streamnorm import EncodeError, decode_request, encode_request

_PATHS = {
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    "/messages": "anthropic",
    "GenerateContent": "gemini",
    "generateContent": "gemini",
}
_FOLDERS = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
_GEMINI_PATH = "/v1beta/models/m:streamGenerateContent"


class Captured(NamedTuple):
    """A request of a client.

    Attributes:
        name: Its file.
        dialect: Its dialect.
        body: The decoded body.
        path: Path of its URL.
    """

    name: str
    dialect: str
    body: dict[str, Any]
    path: str


def requests_of_clients() -> list[Captured]:
    """Return the captured requests that have messages of some dialect."""
    found: list[Captured] = []
    if (folder := os.environ.get("STREAMNORM_REQUESTS")) is not None:
        for file in sorted(Path(folder).glob("*.json")):
            sent = json.loads(file.read_text())
            path = sent["path"].partition("?")[0]
            dialect = next((d for end, d in _PATHS.items() if path.endswith(end)), None)
            if dialect is not None and sent["body"] is not None:
                found.append(Captured(file.stem, dialect, sent["body"], path))
    if (folder := os.environ.get("STREAMNORM_CORPUS")) is not None:
        for name, dialect in _FOLDERS.items():
            for file in sorted((Path(folder) / name).glob("*.request.json")):
                body = json.loads(file.read_text())
                if isinstance(body, dict) and "prompt" not in body:
                    path = _GEMINI_PATH if dialect == "gemini" else ""
                    found.append(Captured(file.stem, dialect, body, path))
    return found


CAPTURED = requests_of_clients()
OWN = [captured for captured in CAPTURED if captured.dialect == "openai_chat"]
needs_requests = pytest.mark.skipif(not CAPTURED, reason="no folder of requests is named")


@needs_requests
def test_requests_of_this_dialect_stay_equal() -> None:
    for captured in OWN:
        body = copy.deepcopy(captured.body)
        request = decode_request(captured.body, "openai_chat")
        encoded = encode_request(request, "openai_chat")
        assert encoded.body == body, captured.name
        assert encoded.losses == (), captured.name
        renamed = encode_request(structs.replace(request, model="other"), "openai_chat")
        assert renamed.body == {**body, "model": "other"}, captured.name


@needs_requests
def test_requests_that_are_written_anew_read_as_before() -> None:
    for captured in OWN:
        request = without_source(read(captured.body))
        again = without_source(read(write(request)))
        assert comparable(again) == comparable(request), captured.name


def comparable(request: Any) -> Any:
    """Return a request without what is not written: names of results, and `strict: false`."""
    messages = [
        structs.replace(
            message,
            blocks=tuple(
                structs.replace(block, name="") if hasattr(block, "tool_call_id") else block
                for block in message.blocks
            ),
        )
        for message in request.messages
    ]
    tools = [
        structs.replace(tool, strict=tool.strict or None) if hasattr(tool, "strict") else tool
        for tool in request.tools
    ]
    parallel = request.parallel_tool_calls if request.tools else None
    return structs.replace(
        request, messages=tuple(messages), tools=tuple(tools), parallel_tool_calls=parallel
    )


@needs_requests
def test_requests_of_other_dialects_are_within_the_types() -> None:
    refused = 0
    for captured in CAPTURED:
        if captured.dialect == "openai_chat":
            continue
        request = decode_request(captured.body, captured.dialect, path=captured.path)
        try:
            encoded = encode_request(request, "openai_chat", repair="fill")
        except EncodeError:  # of what another provider has stored
            refused += 1
            continue
        assert problems("openai_chat", encoded.body) == [], captured.name
    assert refused < len(CAPTURED) / 50
