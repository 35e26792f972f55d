"""Requests of real clients: captured from coding agents, and from the corpus.

Both are read in place, from the directories that `STREAMNORM_REQUESTS` and `STREAMNORM_CORPUS`
name; without them the tests that need them are skipped.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from support.bedrock_converse.bodies import corpus_bodies
from support.streams.corpus import needs_corpus

__all__ = [
    "RealRequest",
    "captured_requests",
    "corpus_requests",
    "each_captured_request",
    "each_dialect_of_the_corpus",
    "needs_requests",
    "real_requests",
    "share_of",
    "worked_examples",
]

T = TypeVar("T", bound=Callable[..., object])

_CAPTURED = os.environ.get("STREAMNORM_REQUESTS")
_CORPUS = os.environ.get("STREAMNORM_CORPUS")

_PATHS = {
    "anthropic": re.compile(r"/v1/messages(/count_tokens)?(\?|$)"),
    "openai_chat": re.compile(r"/chat/completions(\?|$)"),
    "openai_responses": re.compile(r"/responses(\?|$)"),
    "gemini": re.compile(r":(streamGenerateContent|generateContent)(\?|$)"),
    "bedrock_converse": re.compile(r"/converse(-stream)?$"),
}
_FOLDERS = {
    "chat": "openai_chat",
    "responses": "openai_responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


_BETA = "anthropic-beta"
# Long strings of the captured requests are cut, and end in their length.  Without the betas that
# enable its fields, a request is another one: these are what Claude Code 2.1.330 sends, by length.
_CUT = re.compile(r"…\[([0-9]+) chars\]\Z")
_BETAS = {
    len(betas): betas
    for betas in (
        "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
        "thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,"
        "thinking-display-updates-2026-08-18",
        "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
        "mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,"
        "advanced-tool-use-2025-11-20,effort-2025-11-24,thinking-display-updates-2026-08-18",
        "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
        "per-turn-control-2026-07-01,mid-conversation-tool-changes-2026-07-01,"
        "thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24,"
        "thinking-display-updates-2026-08-18",
    )
}


class RealRequest(NamedTuple):
    """A request of a real client.

    Attributes:
        name: Name of its file without the suffix.
        dialect: Its dialect.
        path: Path of its URL.
        headers: Its headers.
        body: Its body.
        provider: Name of the provider; the vendor of the dialect for captured ones.
    """

    name: str
    dialect: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    provider: str

    def __str__(self) -> str:
        return self.name


@cache
def real_requests(dialect: str | None = None) -> tuple[RealRequest, ...]:
    """Return the requests of one or all dialects; [] without their directories."""
    found = (*_captured(), *_of_streams())
    return tuple(request for request in found if dialect in (None, request.dialect))


def share_of(requests: Sequence[RealRequest], number: int, *, shares: int) -> Sequence[RealRequest]:
    """Return a share of the requests; all of them for a release."""
    stride = 1 if settings().max_examples >= 500 else shares
    return requests[number % stride :: stride]


def captured_requests(dialect: str) -> tuple[RealRequest, ...]:
    """Return the captured requests of coding agents and SDKs in a dialect."""
    return tuple(request for request in _captured() if request.dialect == dialect)


def corpus_requests(dialect: str) -> tuple[RealRequest, ...]:
    """Return the requests of the corpus in a dialect."""
    return tuple(request for request in _of_streams() if request.dialect == dialect)


def each_captured_request(test: T) -> T:
    """Parametrize a test with each captured request, as `captured`."""
    captured = pytest.mark.parametrize("captured", _captured() or [None], ids=str)
    reason = "STREAMNORM_REQUESTS names no folder of captured requests"
    skipped = pytest.mark.skipif(_CAPTURED is None, reason=reason)
    marked: T = pytest.mark.outside(skipped(captured(test)))
    return marked


def each_dialect_of_the_corpus(test: T) -> T:
    """Parametrize a test with each dialect that has requests in the corpus, as `dialect`."""
    return needs_corpus(pytest.mark.parametrize("dialect", _PATHS)(test))


@cache
def _captured() -> tuple[RealRequest, ...]:
    if _CAPTURED is None:
        return ()
    found: list[RealRequest] = []
    for file in sorted(Path(_CAPTURED).glob("*.json")):
        entry = json.loads(file.read_text("utf-8"))
        path, body = entry["path"], entry.get("body")
        dialect = next((name for name, known in _PATHS.items() if known.search(path)), None)
        if dialect is not None and isinstance(body, dict):
            path = urlsplit(path).path
            headers = {name: _whole(name, text) for name, text in entry["headers"].items()}
            found.append(RealRequest(file.stem, dialect, path, headers, body, dialect))
    return tuple(found)


def _whole(name: str, text: str) -> str:
    """Return a header's value with its truncated betas completed."""
    cut = _CUT.search(text) if name == _BETA else None
    if cut is None:
        return text
    betas = _BETAS[int(cut[1])]
    assert betas.startswith(text[: cut.start()])
    return betas


@cache
def _of_streams() -> tuple[RealRequest, ...]:
    if _CORPUS is None:
        return ()
    root = Path(_CORPUS)
    found: list[RealRequest] = []
    for line in (root / "INDEX.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        if not entry.get("request_file"):
            continue
        dialect = _FOLDERS[entry["dialect"]]
        body = json.loads((root / entry["request_file"]).read_text("utf-8"))
        if not isinstance(body, dict):
            continue
        path = ""
        if dialect == "gemini" and entry["model"] is not None:
            model = entry["model"].removeprefix("models/")
            path = f"/v1beta/models/{model}:streamGenerateContent"
        name = entry["request_file"].removesuffix(".request.json")
        found.append(RealRequest(name, dialect, path, {}, body, entry["provider"]))
    return (*found, *_of_converse())


def _of_converse() -> Iterator[RealRequest]:
    """Yield the successful requests of Converse."""
    dialect = "bedrock_converse"
    for body in corpus_bodies():
        if body.status == 200 and body.operation != "count-tokens":
            yield RealRequest(str(body), dialect, body.path, {}, body.request, dialect)


def worked_examples() -> list[dict[str, Any]]:
    """Return hand-written conversations with their body in each dialect."""
    file = Path(_CORPUS or "") / "../cases/bodies.json"
    if _CORPUS is None or not file.exists():
        return []
    examples: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    return examples


def needs_requests(test: T) -> T:
    """Skip a test if no requests of real clients are available."""
    missing = _CAPTURED is None or _CORPUS is None
    reason = "STREAMNORM_REQUESTS or STREAMNORM_CORPUS names no requests of real clients"
    marked: T = pytest.mark.outside(pytest.mark.skipif(missing, reason=reason)(test))
    return marked
