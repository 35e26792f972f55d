"""Requests of real clients, read in place: those captured from agents, and those of the corpus.

`STREAMNORM_REQUESTS` names a folder of captured requests, JSON files with `method`, `path`,
`headers` and `body`; `STREAMNORM_CORPUS` one with a `NAME.request.json` beside many streams.
Without them the tests that need them are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import pytest

from support.corpus import needs_corpus

__all__ = [
    "CapturedRequest",
    "corpus_requests",
    "each_captured_request",
    "each_dialect_of_the_corpus",
]

T = TypeVar("T", bound=Callable[..., object])

_FOLDERS = {
    "openai_chat": "chat",
    "anthropic": "anthropic",
    "openai_responses": "responses",
    "gemini": "gemini",
}


class CapturedRequest(NamedTuple):
    """A request as a client sent it.

    Attributes:
        name: Name of its file.
        path: Path of its URL; "" if unknown.
        headers: Its headers.
        body: The decoded JSON object.
    """

    name: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def each_captured_request(test: T) -> T:
    """Run a test with each captured request that has a JSON object, as `captured`."""
    folder = os.environ.get("STREAMNORM_REQUESTS")
    found = [] if folder is None else [_captured(path) for path in sorted(Path(folder).glob("*"))]
    requests = [request for request in found if request is not None]
    ids = [request.name for request in requests]
    skipped = pytest.mark.skipif(
        folder is None, reason="STREAMNORM_REQUESTS names no folder of captured requests"
    )
    return skipped(pytest.mark.parametrize("captured", requests or [None], ids=ids or None)(test))


def _captured(path: Path) -> CapturedRequest | None:
    if path.suffix != ".json":
        return None
    value = json.loads(path.read_text())
    if not isinstance(value["body"], dict):
        return None
    return CapturedRequest(path.stem, urlsplit(value["path"]).path, value["headers"], value["body"])


def each_dialect_of_the_corpus(test: T) -> T:
    """Run a test with each dialect that `corpus_requests` has requests of, as `dialect`."""
    return needs_corpus(pytest.mark.parametrize("dialect", _FOLDERS)(test))


def corpus_requests(dialect: str) -> list[CapturedRequest]:
    """Return all requests of a dialect in the corpus that are a JSON object."""
    folder = Path(os.environ["STREAMNORM_CORPUS"], _FOLDERS[dialect])
    paths = sorted(folder.rglob("*.request.json"))
    bodies = [(path, json.loads(path.read_text())) for path in paths]
    return [
        CapturedRequest(path.name.removesuffix(".request.json"), "", {}, body)
        for path, body in bodies
        if isinstance(body, dict)
    ]
