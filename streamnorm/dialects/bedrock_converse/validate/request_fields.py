"""Checks of fields: unions, JSON values, documents, tools and cache points.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html (read
2026-11-27, botocore 1.44.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm.dialects.bedrock_converse.validate.request_messages import messages_of

_NAME = re.compile(r"[A-Za-z0-9_()\[\]-]+(?:\s[A-Za-z0-9_()\[\]-]+)*")
_POINT = "cachePoint"


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
    """Yield blocks with no member of the union, or with several."""
    for path, block in _blocks_of(facts):
        count = sum(value is not None for value in block.values())
        if count != 1:
            yield Finding(path, count=count)


def tool_inputs(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inputs of calls that are no object."""
    for message in messages_of(facts):
        for path, dotted, call in message.blocks("toolUse"):
            if not is_object(call.get("input")):
                yield Finding(f"{path}.input", context=f"{dotted}.input")


def json_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield JSON of tool results that is no object."""
    for message in messages_of(facts):
        for path, dotted, result in message.blocks("toolResult"):
            content = result.get("content")
            for number, item in enumerate(content if is_array(content) else ()):
                if is_object(item) and "json" in item and not is_object(item["json"]):
                    place = f"{path}.content[{number}].json"
                    yield Finding(place, context=f"{dotted}.content.{number}.json")


def _documents_of(facts: RequestFacts) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each name of a document."""
    for path, block in _blocks_of(facts):
        document = block.get("document")
        if is_object(document) and isinstance(name := document.get("name"), str):
            yield f"{path}.document.name", name


def document_names(facts: RequestFacts) -> Iterator[Finding]:
    """Yield names of documents with other characters than the API takes."""
    for path, name in _documents_of(facts):
        if _NAME.fullmatch(name) is None:
            yield Finding(path, name)


def duplicate_documents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield names of documents that an earlier document has."""
    seen: set[str] = set()
    for path, name in _documents_of(facts):
        if name in seen:
            yield Finding(path, name, name=name)
        seen.add(name)


def _tools_of(facts: RequestFacts) -> list[dict[str, Any]]:
    """Return the entries of `toolConfig.tools`; what is no object is left out."""
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
    """Yield a choice of a tool that is not offered."""
    config = facts.body.get("toolConfig")
    choice = config.get("toolChoice") if is_object(config) else None
    tool = choice.get("tool") if is_object(choice) else None
    if is_object(tool):
        name = string_of(tool, "name")
        if name not in map(_name_of, _tools_of(facts)):
            yield Finding("toolConfig.toolChoice.tool.name", name=name)


def rising_ttls(facts: RequestFacts) -> Iterator[Finding]:
    """Yield cache points of one hour behind shorter ones, along tools, system and messages."""
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
