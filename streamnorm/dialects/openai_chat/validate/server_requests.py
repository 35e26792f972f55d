"""Checks of requests that compatible servers alone make, by the names that their rules use.

A check is written from what a server refuses, shares no code with the encoders, and accepts
any JSON: what has another type than the vendor's is the affair of another rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object, objects_of

__all__ = ["SERVER_CHECKS"]

_MAX_MARKS = 4
_INSTRUCTIONS = frozenset({"system", "developer"})
_ANTHROPIC = "anthropic-claude-v1"


class _Message(NamedTuple):
    """A message and where it stands.

    Attributes:
        path: Its path.
        role: Its role; "" if it has none.
        value: The message.
    """

    path: str
    role: str
    value: dict[str, Any]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls of tools."""
        return objects_of(self.value.get("tool_calls"))


def _messages(facts: RequestFacts) -> list[_Message]:
    messages = facts.body.get("messages")
    return [
        _Message(f"messages[{number}]", str(message.get("role") or ""), message)
        for number, message in enumerate(messages if is_array(messages) else [])
        if is_object(message)
    ]


def _elements(value: object, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of an array, each with its path."""
    for number, item in enumerate(value if is_array(value) else []):
        if is_object(item):
            yield f"{path}[{number}]", item


# Reasoning


def calls_without_reasoning(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages with calls that have no `reasoning_content`; an empty text is one."""
    for number, message in enumerate(_messages(facts)):
        if message.calls and not isinstance(message.value.get("reasoning_content"), str):
            yield Finding(f"{message.path}.reasoning_content", count=number)


def calls_without_details(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages with calls that have no `reasoning_details`."""
    for message in _messages(facts):
        if message.calls and not message.value.get("reasoning_details"):
            yield Finding(f"{message.path}.reasoning_details")


def unsigned_details(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts of reasoning whose signature is none that Anthropic issued."""
    for message in _messages(facts):
        path = f"{message.path}.reasoning_details"
        for place, detail in _elements(message.value.get("reasoning_details"), path):
            if detail.get("type") != "reasoning.text":
                continue
            signature = detail.get("signature")
            if not isinstance(signature, str) or not signature or _is_foreign(detail):
                yield Finding(f"{place}.signature", signature)


def _is_foreign(detail: dict[str, Any]) -> bool:
    """Return whether reasoning says that another vendor than Anthropic issued it."""
    return detail.get("format") not in (None, _ANTHROPIC)


# The order of messages


def no_user_message(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the messages if none of them is the user's."""
    messages = _messages(facts)
    if messages and all(message.role != "user" for message in messages):
        yield Finding("messages")


def user_after_tool(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the user that come directly after one of a tool."""
    before = ""
    for message in _messages(facts):
        if message.role == "user" and before == "tool":
            yield Finding(f"{message.path}.role", message.role)
        before = message.role


def orphan_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results of calls that no message before them has."""
    known: set[str] = set()
    for message in _messages(facts):
        known.update(id for call in message.calls if isinstance(id := call.get("id"), str))
        id = message.value.get("tool_call_id")
        if message.role == "tool" and isinstance(id, str) and id not in known:
            yield Finding(f"{message.path}.tool_call_id", id, name=id)


def late_system(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the system after the first message."""
    for message in _messages(facts)[1:]:
        if message.role == "system":
            yield Finding(f"{message.path}.role", message.role)


def broken_alternation(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the user and the assistant that do not alternate after the system's.

    Templates count neither a message with calls nor one of a tool.
    """
    expected = "user"
    for number, message in enumerate(_messages(facts)):
        if (message.role == "system" and not number) or message.role == "tool" or message.calls:
            continue
        if message.role != expected:
            yield Finding(f"{message.path}.role", message.role)
            return
        expected = "assistant" if expected == "user" else "user"


def last_is_assistant(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a last message of the assistant."""
    for message in _messages(facts)[-1:]:
        if message.role == "assistant":
            yield Finding(f"{message.path}.role", message.role)


def unmarked_prefill(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a last message of the assistant that is not marked as the start of the answer."""
    for message in _messages(facts)[-1:]:
        if message.role == "assistant" and message.value.get("prefix") is not True:
            yield Finding(f"{message.path}.role", message.role)


# Content


def empty_assistants(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the assistant with neither content nor calls."""
    for message in _messages(facts):
        if message.role == "assistant" and not message.calls and not message.value.get("content"):
            yield Finding(f"{message.path}.content")


def broken_arguments(facts: RequestFacts) -> Iterator[Finding]:
    """Yield arguments of calls that are no JSON text."""
    for message in _messages(facts):
        for place, call in _elements(message.value.get("tool_calls"), f"{message.path}.tool_calls"):
            function = call.get("function")
            arguments = function.get("arguments") if is_object(function) else None
            if isinstance(arguments, str) and not _is_json(arguments):
                yield Finding(f"{place}.function.arguments", name=str(call.get("id")))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def excess_marks(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the fifth cache mark, with the number of all."""
    marks: list[str] = []
    for place, tool in _elements(facts.body.get("tools"), "tools"):
        marks += _marks(place, tool)
    for message in _messages(facts):
        marks += _marks(message.path, message.value)
        for place, part in _elements(message.value.get("content"), f"{message.path}.content"):
            marks += _marks(place, part)
    if len(marks) > _MAX_MARKS:
        yield Finding(marks[_MAX_MARKS], count=len(marks), limit=_MAX_MARKS)


def _marks(path: str, part: dict[str, Any]) -> list[str]:
    return [f"{path}.cache_control"] if part.get("cache_control") is not None else []


def whole_answer(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the field `stream` of a request for a whole answer."""
    if not facts.stream:
        yield Finding("stream", facts.body.get("stream"))


SERVER_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        broken_alternation,
        broken_arguments,
        calls_without_details,
        calls_without_reasoning,
        empty_assistants,
        excess_marks,
        last_is_assistant,
        late_system,
        no_user_message,
        orphan_results,
        unmarked_prefill,
        unsigned_details,
        user_after_tool,
        whole_answer,
    )
}
