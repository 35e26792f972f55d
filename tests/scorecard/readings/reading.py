"""What a client reads of a stream, and the server-sent events below it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..cases import Call

__all__ = [
    "Content",
    "Reading",
    "ServerEvent",
    "arguments_value",
    "join_surrogates",
    "server_events",
]


@dataclass
class Content:
    """The content of a message.

    Attributes:
        text: All text, refusals included.
        reasoning: All reasoning.
        calls: The tool calls.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)


@dataclass
class Reading:
    """A stream as read by a client.

    Attributes:
        grammar: Violations of the protocol.
        accumulated: The deltas joined by index, to the end of the stream.
        finalised: What a client has that acts when a block, item or choice ends.
        stop: The stop reason as the dialect spells it.
        usage: Input tokens, with those of caches, and output tokens.
        failed: Whether an error ended the stream.
        ended: Whether the stream has what ends a success.
        needs_end: Whether a client takes a stream that just stops as a success.
        refused: Whether the message has a refusal, which is itself why it stopped.
    """

    grammar: list[str] = field(default_factory=list)
    accumulated: Content = field(default_factory=Content)
    finalised: Content = field(default_factory=Content)
    stop: str | None = None
    usage: tuple[int, int] | None = None
    failed: bool = False
    ended: bool = False
    needs_end: bool = False
    refused: bool = False


class ServerEvent(NamedTuple):
    """One server-sent event.

    Attributes:
        name: Its `event` field; "" for none.
        data: Its data.
        value: The data decoded as a JSON object; None if it is none.
    """

    name: str
    data: str
    value: dict[str, Any] | None


def server_events(data: bytes, grammar: list[str]) -> Iterator[ServerEvent]:
    """Yield the events of a stream by the WHATWG rules; bytes that break them go to `grammar`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        grammar.append("the stream is no UTF-8")
        text = data.decode(errors="replace")
    *complete, rest = re.split(r"(?:\r\n|\n|\r(?!\n)){2}", text)
    if rest.strip() not in ("", ":"):  # behind an error a comment may stand open
        grammar.append("the last event has no blank line behind it")
    for block in complete:
        name, lines = "", list[str]()
        for line in re.split(r"\r\n|\n|\r", block):
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "data":
                lines.append(value)
            elif key == "event":
                name = value
        if not lines:
            continue
        joined = "\n".join(lines)
        try:
            value = json.loads(joined)
        except ValueError:
            value = None
        yield ServerEvent(name, joined, value if isinstance(value, dict) else None)


def arguments_value(text: str | None) -> Any:
    """Return the JSON value of arguments as clients decode them; the text if it is not JSON.

    Every vendor sends "" for a call without arguments, which clients read as {}.
    """
    if not text:
        return {}
    try:
        value = json.loads(join_surrogates(text))
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def join_surrogates(text: str) -> str:
    """Return a text whose surrogate pairs are characters, as they are for clients in JavaScript."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
