"""Streams to measure, in their vendors' forms.

`text` makes text and tool arguments in tokens; each other module makes the payloads and
frames of one dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from workloads import anthropic, chat, converse, gemini, interactions, pages, responses

__all__ = ["DIALECTS", "Workload", "workloads"]

DIALECTS = ("openai_chat", "anthropic", "openai_responses", "gemini")
"""The dialects in which most clients ask."""

_INTERACTIONS = "gemini_interactions"


class Workload(NamedTuple):
    """A stream to measure.

    Attributes:
        name: Its name in the report.
        dialect: Dialect of its bytes.
        other: Dialect that it is transcoded to at every read size.
        payloads: The JSON of its events.
        frames: Its bytes, one event each, the terminal included.
        argument_share: Share of its events that are fragments of tool arguments.
    """

    name: str
    dialect: str
    other: str
    payloads: list[bytes]
    frames: list[bytes]
    argument_share: float

    @property
    def body(self) -> bytes:
        """All bytes of the stream."""
        return b"".join(self.frames)


def workloads(events: int) -> list[Workload]:
    """Return every workload, with about `events` events each."""
    made: list[tuple[str, str, str, list[bytes]]] = [
        ("chat: text", "openai_chat", "anthropic", chat.text(events)),
        ("chat: text, vLLM", "openai_chat", "anthropic", chat.compatible_text(events)),
        ("chat: reasoning, text", "openai_chat", "anthropic", chat.reasoning(events)),
        ("chat: 4 calls", "openai_chat", "anthropic", chat.calls(events)),
        (
            "chat: 4 calls, interleaved",
            "openai_chat",
            "anthropic",
            chat.calls(events, interleaved=True),
        ),
        ("anthropic: text", "anthropic", "openai_chat", anthropic.text(events)),
        ("anthropic: call", "anthropic", "openai_chat", anthropic.call(events)),
        ("anthropic: thinking, text, calls", "anthropic", "openai_chat", anthropic.mixed(events)),
        ("responses: text", "openai_responses", "anthropic", responses.text(events)),
        ("responses: 4 calls", "openai_responses", "anthropic", responses.calls(events)),
        ("gemini: text", "gemini", "openai_chat", gemini.text(events)),
        ("interactions: text", _INTERACTIONS, "openai_chat", interactions.text(events)),
        (
            "interactions: text, with ids",
            _INTERACTIONS,
            "openai_chat",
            interactions.resumable_text(events),
        ),
        ("interactions: thought", _INTERACTIONS, "openai_chat", interactions.thought(events)),
        ("interactions: call", _INTERACTIONS, "openai_chat", interactions.call(events)),
        ("converse: text", "bedrock_converse", "openai_chat", converse.text(events)),
        ("converse: call", "bedrock_converse", "openai_chat", converse.call(events)),
        ("ui: text", "ui_message_stream", "openai_chat", pages.ui_text(events)),
        ("ui: call", "ui_message_stream", "openai_chat", pages.ui_call(events)),
        ("ag-ui: text", "ag_ui", "openai_chat", pages.ag_ui_text(events)),
        ("ag-ui: call", "ag_ui", "openai_chat", pages.ag_ui_call(events)),
    ]
    return [_workload(*each) for each in made]


_FRAMES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "openai_chat": chat.frames,
    "anthropic": anthropic.frames,
    "openai_responses": responses.frames,
    "gemini": gemini.frames,
    _INTERACTIONS: interactions.frames,
    "bedrock_converse": converse.frames,
    "ui_message_stream": pages.ui_frames,
    "ag_ui": pages.frames,
}

# Bytes that mark the payload of a fragment of tool arguments.
_ARGUMENTS = {
    "openai_chat": b'"arguments":',
    "anthropic": b'"input_json_delta"',
    "openai_responses": b'"response.function_call_arguments.delta"',
    "gemini": b'"functionCall"',
    _INTERACTIONS: b'"arguments_delta"',
    "bedrock_converse": b'"toolUse":{"input"',
    "ui_message_stream": b'"inputTextDelta"',
    "ag_ui": b'"TOOL_CALL_ARGS"',
}


def _workload(name: str, dialect: str, other: str, payloads: list[bytes]) -> Workload:
    frames = _FRAMES[dialect](payloads)
    fragments = sum(_ARGUMENTS[dialect] in payload for payload in payloads)
    return Workload(name, dialect, other, payloads, frames, fragments / len(frames))
