"""One answer in every dialect, event by event, and the moments at which it can fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from streamnorm.recording.format import WireRequest
from streamnorm.testing import FakeProvider, tool_call

__all__ = ["ANSWERS", "CITY", "MOMENTS", "TEXT", "Answer", "Moment"]

TEXT = "Es schneit ☃ im canary-of-the-answer."
CITY = "Tromsø am Nordmeer"

Moment: TypeAlias = Literal[
    "before headers",
    "after headers",
    "first line",
    "character",
    "between events",
    "tool arguments",
    "before terminal",
    "after terminal",
]
MOMENTS: tuple[Moment, ...] = (
    "before headers",
    "after headers",
    "first line",
    "character",
    "between events",
    "tool arguments",
    "before terminal",
    "after terminal",
)

_PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
    "gemini_interactions": "/v1beta/interactions",
}
_WHOLE_GEMINI = "/v1beta/models/m:generateContent"
# What only the event has that completes the message.
_TERMINALS = {
    "anthropic": b'"type":"message_delta"',
    "openai_chat": b'"finish_reason":"',
    "openai_responses": b'"type":"response.completed"',
    "gemini": b'"finishReason":"',
    "gemini_interactions": b'"event_type":"interaction.completed"',
}


class Answer(NamedTuple):
    """An answer with a text and a call, in one dialect.

    Attributes:
        dialect: Its dialect.
        events: Its server-sent events.
        whole: It as one body.
        error: An error body of the dialect, in the words of `no capacity left`.
    """

    dialect: str
    events: tuple[bytes, ...]
    whole: bytes
    error: bytes

    @property
    def body(self) -> bytes:
        """All events as bytes."""
        return b"".join(self.events)

    @property
    def terminal_index(self) -> int:
        """Index of the event that completes the message."""
        return next(n for n, e in enumerate(self.events) if _TERMINALS[self.dialect] in e)

    def index_of(self, data: bytes) -> int:
        """Return the index of the first event that contains some bytes."""
        return next(n for n, event in enumerate(self.events) if data in event)

    def start(self, moment: Moment) -> bytes:
        """Return the bytes of the stream up to a moment."""
        match moment:
            case "before headers" | "after headers":
                return b""
            case "first line":
                return self.body[:4]
            case "character":
                return self.body[: self.body.index("☃".encode()) + 1]
            case "between events":
                return b"".join(self.events[: self.index_of(b"schneit") + 1])
            case "tool arguments":
                return self.body[: self.body.index("Tromsø".encode()) + 3]
            case "before terminal":
                return b"".join(self.events[: self.terminal_index])
            case "after terminal":
                return self.body

    def with_event(self, event: bytes, at: int) -> bytes:
        """Return the stream with another event before an index."""
        return b"".join([*self.events[:at], event, *self.events[at:]])


def _playback(dialect: str, path: str, script: Sequence[Any], *, stream: bool) -> bytes:
    body = json.dumps({"model": "m", "stream": stream, "contents": []}).encode()
    request = WireRequest("POST", f"http://provider.test{path}", (), body)
    return FakeProvider(script, dialect=dialect).respond(request).body


def _answer(dialect: str) -> Answer:
    script = [[TEXT, tool_call("get_weather", city=CITY)]]
    path = _PATHS[dialect]
    stream = _playback(dialect, path, script, stream=True)
    blank = b"\r\n\r\n" if dialect == "gemini" else b"\n\n"
    events = tuple(event + blank for event in stream.split(blank) if event)
    path = _WHOLE_GEMINI if dialect == "gemini" else path
    whole = _playback(dialect, path, script, stream=False)
    return Answer(dialect, events, whole, _ERRORS[dialect])


_WORDS = "no capacity left"
_GOOGLE = json.dumps({"error": {"code": 503, "message": _WORDS, "status": "UNAVAILABLE"}}).encode()
_ERRORS = {
    "anthropic": json.dumps(
        {"type": "error", "error": {"type": "overloaded_error", "message": _WORDS}}
    ).encode(),
    "openai_chat": json.dumps(
        {"error": {"message": _WORDS, "type": "server_error", "code": "overloaded"}}
    ).encode(),
    "openai_responses": json.dumps(
        {"error": {"message": _WORDS, "type": "server_error", "code": "overloaded"}}
    ).encode(),
    "gemini": _GOOGLE,
    "gemini_interactions": _GOOGLE,
}

ANSWERS = {dialect: _answer(dialect) for dialect in _PATHS}
"""The answers by dialect."""
