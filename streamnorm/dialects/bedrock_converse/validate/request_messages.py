"""Checks of messages: roles, empty content, and where the results of calls stand.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html (read
2026-11-27), and the errors that the API answers with.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of

_SERVER_TYPE = "server_tool_use"


class Message(NamedTuple):
    """A message of a request.

    Attributes:
        path: Path, such as `messages[3]`.
        dotted: Path as the vendor's messages spell it, such as `messages.3`.
        role: Role of the speaker; "" if it is no string.
        content: Objects of the content, with their positions.
    """

    path: str
    dotted: str
    role: str
    content: list[tuple[int, dict[str, Any]]]

    def blocks(self, member: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the path, the vendor's path and the value of each block of a type."""
        for number, block in self.content:
            value = block.get(member)
            if is_object(value):
                yield (
                    f"{self.path}.content[{number}].{member}",
                    f"{self.dotted}.content.{number}.{member}",
                    value,
                )


def messages_of(facts: RequestFacts) -> list[Message]:
    """Return the messages of a request; what is no object is left out."""
    messages = facts.body.get("messages")
    found: list[Message] = []
    for number, message in enumerate(messages if is_array(messages) else ()):
        if is_object(message):
            content = message.get("content")
            blocks = [
                (position, block)
                for position, block in enumerate(content if is_array(content) else ())
                if is_object(block)
            ]
            path, dotted = f"messages[{number}]", f"messages.{number}"
            found.append(Message(path, dotted, string_of(message, "role"), blocks))
    return found


def missing_messages(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `messages` if there are none."""
    if not facts.body.get("messages"):
        yield Finding("messages")


def empty_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages without a block."""
    for message in messages_of(facts):
        if not message.content:
            yield Finding(f"{message.path}.content", context=message.dotted)


def first_message(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a first message of the assistant."""
    for message in messages_of(facts)[:1]:
        if message.role == "assistant":
            yield Finding(message.path)


def alternation(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the same role as the message before them."""
    for before, message in pairwise(messages_of(facts)):
        if message.role == before.role and message.role in ("user", "assistant"):
            yield Finding(message.path)


def blank_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts of messages without a character or of spaces; in a tool result they are legal.

    A recording of pydantic-ai has a line end as a text, which the API accepts.
    """
    for message in messages_of(facts):
        for number, block in message.content:
            text = block.get("text")
            if isinstance(text, str) and not text.strip(" "):
                place = f"{message.path}.content[{number}].text"
                yield Finding(place, context=f"{message.dotted}.content.{number}")


def lone_documents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages with a document and no text."""
    for message in messages_of(facts):
        has_text = any("text" in block for _, block in message.content)
        if not has_text and any("document" in block for _, block in message.content):
            yield Finding(f"{message.path}.content")


def _calls_of(message: Message) -> list[str]:
    """Return the ids of the client's calls in an answer."""
    return [
        string_of(call, "toolUseId")
        for _, _, call in message.blocks("toolUse")
        if call.get("type") != _SERVER_TYPE
    ]


def _results_of(message: Message) -> list[str]:
    """Return the ids of the calls that a user message answers."""
    return [string_of(result, "toolUseId") for _, _, result in message.blocks("toolResult")]


def missing_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages that follow calls and do not answer all of them."""
    for before, message in pairwise(messages_of(facts)):
        if before.role != "assistant":
            continue
        answered = set(_results_of(message))
        missing = [id for id in _calls_of(before) if id not in answered]
        if missing:
            name = ", ".join(missing)
            yield Finding(f"{message.path}.content", name=name, context=message.dotted)


def excess_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield user messages with more results than the message before them has calls."""
    calls = 0
    for message in messages_of(facts):
        results = len(_results_of(message))
        if message.role == "user" and results > calls:
            yield Finding(f"{message.path}.content", count=results, context=message.dotted)
        calls = len(_calls_of(message))


def missing_config(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `toolConfig` if it is missing while messages have calls or results."""
    if facts.body.get("toolConfig") is None:
        for message in messages_of(facts):
            if any("toolUse" in block or "toolResult" in block for _, block in message.content):
                yield Finding("toolConfig")
                return
