"""The adversarial streams with their messages, by source dialect."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from msgspec import Struct

__all__ = ["SOURCES", "TARGETS", "Call", "Case", "Expected", "all_cases"]

SOURCES = (
    *("openai_chat", "anthropic", "openai_responses", "gemini"),
    *("bedrock_converse", "bedrock_invoke", "ui_message_stream", "ag_ui"),
)
"""Source dialects; `bedrock_invoke` is Anthropic in the messages of `InvokeModel`."""
TARGETS = (
    *("anthropic", "openai_chat", "openai_responses", "gemini"),
    *("bedrock_converse", "ui_message_stream", "ag_ui"),
)


class Call(NamedTuple):
    """A tool call.

    Attributes:
        id: Its id; None if the server sent none, so that any is right.
        name: Its tool.
        arguments: Their JSON value; the text itself, a `str`, if it is not whole JSON.
    """

    id: str | None
    name: str
    arguments: Any


class Expected(Struct, frozen=True, kw_only=True):
    """The message of a stream, written by hand from the protocol.

    Attributes:
        text: All text of the answer, refusals included; None if the stream has no one reading.
        reasoning: All reasoning.
        calls: The tool calls of the client, in any order.
        stop: The unified stop reason; None if the stream has none.
        usage: Input tokens, with those of caches, and output tokens; None if the stream does
            not say both.
        outcome: `completed`, `truncated` for a cut stream, or `failed` for one that ends in
            an error or contradicts itself.
    """

    text: str | None = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    stop: str | None = None
    usage: tuple[int, int] | None = None
    outcome: Literal["completed", "truncated", "failed"] = "completed"


class Case(Struct, frozen=True):
    """One adversarial stream.

    Attributes:
        name: Unique among the cases of its source.
        source: Its dialect.
        frames: Its events, each as one read of a client.
        expected: Its message.
        why: The server or failure that it is from.
    """

    name: str
    source: str
    frames: tuple[bytes, ...]
    expected: Expected
    why: str

    @property
    def data(self) -> bytes:
        """The bytes of the stream."""
        return b"".join(self.frames)


def all_cases(source: str) -> list[Case]:
    """Return the cases of a source dialect; [] for one that has none."""
    from .streams import CASES  # the streams import the types above

    make = CASES.get(source)
    return [] if make is None else make()
