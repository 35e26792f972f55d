"""Checks of requests against Converse's rules, by name.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html (read
2026-11-27), and the errors that the API answers with.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (read
2026-11-27, botocore 1.44.8).

A check states what the vendor refuses.  It shares no code with the encoders and accepts any
JSON: other rules report values of a wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of

_SERVER_TYPE = "server_tool_use"

_NAME = re.compile(r"[A-Za-z0-9_()\[\]-]+(?:\s[A-Za-z0-9_()\[\]-]+)*")
_POINT = "cachePoint"


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
        """Yield path, vendor's spelling of the path, and value of `member` in each block."""
        for number, block in self.content:
            value = block.get(member)
            if is_object(value):
                yield (
                    f"{self.path}.content[{number}].{member}",
                    f"{self.dotted}.content.{number}.{member}",
                    value,
                )


def messages_of(facts: RequestFacts) -> list[Message]:
    """Return the messages of a request that are objects."""
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
    """Yield the field `messages` if it is missing or empty."""
    if not facts.body.get("messages"):
        yield Finding("messages")


def empty_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages without blocks."""
    for message in messages_of(facts):
        if not message.content:
            yield Finding(f"{message.path}.content", context=message.dotted)


def first_message(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first message if its role is `assistant`."""
    for message in messages_of(facts)[:1]:
        if message.role == "assistant":
            yield Finding(message.path)


def alternation(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages with the same role as the previous message."""
    for before, message in pairwise(messages_of(facts)):
        if message.role == before.role and message.role in ("user", "assistant"):
            yield Finding(message.path)


def lone_reasoning(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the assistant that have reasoning alone, which Claude does not continue."""
    for message in messages_of(facts):
        members = ["reasoningContent" in block for _, block in message.content]
        if message.role == "assistant" and members and all(members):
            yield Finding(message.path, context=message.dotted)


def blank_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts that are empty or only spaces, except texts in tool results.

    A recording of pydantic-ai has a line end as a text, which the API accepts.
    """
    for message in messages_of(facts):
        for number, block in message.content:
            text = block.get("text")
            if isinstance(text, str) and not text.strip(" "):
                place = f"{message.path}.content[{number}].text"
                yield Finding(place, context=f"{message.dotted}.content.{number}")


def lone_documents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages that have a document but no text."""
    for message in messages_of(facts):
        has_text = any("text" in block for _, block in message.content)
        if not has_text and any("document" in block for _, block in message.content):
            yield Finding(f"{message.path}.content")


def _calls_of(message: Message) -> list[str]:
    """Return the ids of the client tool calls in an assistant message."""
    return [
        string_of(call, "toolUseId")
        for _, _, call in message.blocks("toolUse")
        if call.get("type") != _SERVER_TYPE
    ]


def _results_of(message: Message) -> list[str]:
    """Return the ids of the calls that a user message answers."""
    return [string_of(result, "toolUseId") for _, _, result in message.blocks("toolResult")]


def missing_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages that do not answer all calls of the previous message."""
    for before, message in pairwise(messages_of(facts)):
        if before.role != "assistant":
            continue
        answered = set(_results_of(message))
        missing = [id for id in _calls_of(before) if id not in answered]
        if missing:
            name = ", ".join(missing)
            yield Finding(f"{message.path}.content", name=name, context=message.dotted)


def excess_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield user messages with more results than the previous message has calls."""
    calls = 0
    for message in messages_of(facts):
        results = len(_results_of(message))
        if message.role == "user" and results > calls:
            yield Finding(f"{message.path}.content", count=results, context=message.dotted)
        calls = len(_calls_of(message))


def missing_config(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a missing `toolConfig` if messages have calls or results."""
    if facts.body.get("toolConfig") is None:
        for message in messages_of(facts):
            if any("toolUse" in block or "toolResult" in block for _, block in message.content):
                yield Finding("toolConfig")
                return


def _blocks_of(facts: RequestFacts) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the object of each block, in messages and in tool results."""
    for message in messages_of(facts):
        for number, block in message.content:
            yield f"{message.path}.content[{number}]", block
        for path, _, result in message.blocks("toolResult"):
            content = result.get("content")
            for number, item in enumerate(content if is_array(content) else ()):
                if is_object(item):
                    yield f"{path}.content[{number}]", item


def lone_members(facts: RequestFacts) -> Iterator[Finding]:
    """Yield blocks without a union member, or with several members."""
    for path, block in _blocks_of(facts):
        count = sum(value is not None for value in block.values())
        if count != 1:
            yield Finding(path, count=count)


def tool_inputs(facts: RequestFacts) -> Iterator[Finding]:
    """Yield call inputs that are not objects."""
    for message in messages_of(facts):
        for path, dotted, call in message.blocks("toolUse"):
            if not is_object(call.get("input")):
                yield Finding(f"{path}.input", context=f"{dotted}.input")


def json_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `json` content of tool results that is not an object."""
    for message in messages_of(facts):
        for path, dotted, result in message.blocks("toolResult"):
            content = result.get("content")
            for number, item in enumerate(content if is_array(content) else ()):
                if is_object(item) and "json" in item and not is_object(item["json"]):
                    place = f"{path}.content[{number}].json"
                    yield Finding(place, context=f"{dotted}.content.{number}.json")


def empty_errors(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tool results that are errors and have no content."""
    for message in messages_of(facts):
        for path, dotted, result in message.blocks("toolResult"):
            if result.get("status") == "error" and not result.get("content"):
                yield Finding(f"{path}.content", context=dotted)


def _documents_of(facts: RequestFacts) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each document name."""
    for path, block in _blocks_of(facts):
        document = block.get("document")
        if is_object(document) and isinstance(name := document.get("name"), str):
            yield f"{path}.document.name", name


def document_names(facts: RequestFacts) -> Iterator[Finding]:
    """Yield document names with characters that the API refuses."""
    for path, name in _documents_of(facts):
        if _NAME.fullmatch(name) is None:
            yield Finding(path, name)


def duplicate_documents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield document names that repeat an earlier name."""
    seen: set[str] = set()
    for path, name in _documents_of(facts):
        if name in seen:
            yield Finding(path, name, name=name)
        seen.add(name)


def excess_documents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first document beyond the five that a request may have."""
    documents = (path for path, block in _blocks_of(facts) if is_object(block.get("document")))
    for path in islice(documents, 5, 6):
        yield Finding(f"{path}.document")


def _tools_of(facts: RequestFacts) -> list[dict[str, Any]]:
    """Return the entries of `toolConfig.tools` that are objects."""
    config = facts.body.get("toolConfig")
    tools = config.get("tools") if is_object(config) else None
    return [tool for tool in (tools if is_array(tools) else ()) if is_object(tool)]


def _name_of(tool: dict[str, Any]) -> str:
    for member in ("toolSpec", "systemTool"):
        if is_object(value := tool.get(member)):
            return string_of(value, "name")
    return ""


def duplicate_tools(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tools with the name of an earlier tool."""
    seen: set[str] = set()
    for tool in _tools_of(facts):
        name = _name_of(tool)
        if name and name in seen:
            yield Finding("toolConfig.tools", name=name)
        seen.add(name)


def choice_of_unknown(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the choice of a tool that the request does not offer."""
    config = facts.body.get("toolConfig")
    choice = config.get("toolChoice") if is_object(config) else None
    tool = choice.get("tool") if is_object(choice) else None
    if is_object(tool):
        name = string_of(tool, "name")
        if name not in map(_name_of, _tools_of(facts)):
            yield Finding("toolConfig.toolChoice.tool.name", name=name)


def rising_ttls(facts: RequestFacts) -> Iterator[Finding]:
    """Yield one-hour cache points after shorter ones, across tools, system and messages."""
    system = facts.body.get("system")
    points = [("toolConfig.tools", tool) for tool in _tools_of(facts)]
    points += [("system", block) for block in (system if is_array(system) else ())]
    points += [
        (f"{message.path}.content[{number}]", block)
        for message in messages_of(facts)
        for number, block in message.content
    ]
    is_short = False
    for path, block in points:
        point = block.get(_POINT) if is_object(block) else None
        if is_object(point):
            is_long = point.get("ttl") == "1h"
            if is_long and is_short:
                yield Finding(path)
            is_short = is_short or not is_long


def points_behind_documents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield cache points directly behind a document that is no PDF."""
    for message in messages_of(facts):
        for (_, before), (number, block) in pairwise(message.content):
            document = before.get("document")
            if _POINT in block and is_object(document) and document.get("format") != "pdf":
                yield Finding(f"{message.path}.content[{number}]")


_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        alternation,
        blank_texts,
        choice_of_unknown,
        document_names,
        duplicate_documents,
        duplicate_tools,
        empty_contents,
        empty_errors,
        excess_documents,
        excess_results,
        first_message,
        json_results,
        lone_documents,
        lone_members,
        lone_reasoning,
        missing_config,
        missing_messages,
        missing_results,
        points_behind_documents,
        rising_ttls,
        tool_inputs,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
