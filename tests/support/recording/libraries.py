"""Recordings for a library, and matching requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamnorm.recording import Recording, UnrecordedRequest
from streamnorm.recording.format import (
    Companion,
    Playback,
    RecordedRequest,
    RecordedResponse,
    WireRequest,
)
from streamnorm.recording.library import Library

CHAT = "https://api.example.com/v1/chat/completions"
MESSAGES = "https://api.example.com/v1/messages"


def ask(body: Any, url: str = CHAT, method: str = "POST", **headers: str) -> WireRequest:
    return WireRequest(method, url, tuple(headers.items()), json.dumps(body).encode())


def write(
    path: Path,
    request: RecordedRequest | None,
    *,
    answer: str | None = None,
    dialect: str | None = None,
    **response: Any,
) -> None:
    """Write a recording whose body is its own name."""
    body = f"data: {answer or path.stem}\n\n".encode()
    companion = Companion(1, dialect, request=request, response=RecordedResponse(**response))
    Recording(body, companion).save(path)


def record(directory: Path, name: str, body: Any, url: str = CHAT, **options: Any) -> None:
    write(directory / f"{name}.sse", RecordedRequest("POST", url, {}, body), **options)


def played(playback: Playback) -> str:
    return playback.body.decode().removeprefix("data: ").rstrip()


def assert_refused(library: Library, request: WireRequest) -> UnrecordedRequest:
    with pytest.raises(UnrecordedRequest) as caught:
        library.respond(request)
    return caught.value


def write_script(directory: Path) -> Path:
    """Write recordings of two chat completions and a message."""
    record(directory, "01-chat", {"turn": 1}, dialect="openai_chat")
    record(directory, "02-messages", {"turn": 1}, MESSAGES, dialect="anthropic")
    record(directory, "03-chat", {"turn": 2}, dialect="openai_chat")
    return directory
