"""Content that Anthropic refuses: texts, cache marks, media, ids, inputs and signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_object
from streamnorm.dialects.anthropic.validate.request_checks.parts import (
    blocks_of,
    messages_of,
    tools_of,
)

__all__ = [
    "blank_texts",
    "document_media_types",
    "empty_contents",
    "empty_results",
    "empty_texts",
    "growing_lifetimes",
    "image_media_types",
    "inputs",
    "marked_empty_texts",
    "max_marks",
    "nested_marks",
    "redacted_data",
    "signatures",
    "tool_ids",
    "top_level_lifetime",
    "trailing_space",
]

_MAX_MARKS = 4
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")  # in either alphabet
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def empty_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the user or the assistant whose content is empty.

    The last message may be of the assistant and empty.
    """
    messages = messages_of(facts.body)
    for message in messages:
        content = message.value.get("content")
        is_last = message is messages[-1] and message.role == "assistant"
        if content in ("", []) and message.role != "system" and not is_last:
            yield Finding(f"messages[{message.number}].content", name=f"messages.{message.number}")


def empty_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield text blocks without a character, named by the field that they stand in."""
    for block in blocks_of(facts.body):
        if block.type == "text" and block.value.get("text") == "":
            yield Finding(f"{block.path}.text", name=block.path.partition("[")[0])


def blank_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts of white space alone, named by the field that they stand in."""
    for block in blocks_of(facts.body):
        if block.type == "text" and _is_blank(block.value.get("text")):
            yield Finding(f"{block.path}.text", name=block.path.partition("[")[0])
    for message in messages_of(facts.body):
        if _is_blank(message.value.get("content")):
            yield Finding(f"messages[{message.number}].content", name="messages")


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and text.isspace()


def trailing_space(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a last text of the assistant that ends in white space."""
    messages = messages_of(facts.body)
    if not messages or messages[-1].role != "assistant" or not messages[-1].blocks:
        return
    last = messages[-1]
    text = last.blocks[-1].get("text")
    if isinstance(text, str) and text != text.rstrip():
        yield Finding(f"messages[{last.number}].content")


def empty_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tool results whose content is an array without elements."""
    for block in blocks_of(facts.body):
        if block.type == "tool_result" and block.value.get("content") == []:
            yield Finding(f"{block.path}.content", name=f"{block.typed_location}.content")


# Cache marks


def _marks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the value of each cache mark in the order of the prompt."""
    holders = [(f"tools[{number}]", tool) for number, _, tool in tools_of(body)]
    holders += [(block.path, block.value) for block in blocks_of(body)]
    for path, holder in holders:
        mark = holder.get("cache_control")
        if is_object(mark):
            yield f"{path}.cache_control", mark
    mark = body.get("cache_control")  # stands for one on the last block
    if is_object(mark):
        yield "cache_control", mark


def max_marks(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first cache mark that is one too many."""
    marks = list(_marks(facts.body))
    if len(marks) > _MAX_MARKS:
        yield Finding(marks[_MAX_MARKS][0], count=len(marks), limit=_MAX_MARKS)


def growing_lifetimes(facts: RequestFacts) -> Iterator[Finding]:
    """Yield cache marks of an hour after one of five minutes, the default."""
    is_short = False
    for path, mark in _marks(facts.body):
        if mark.get("ttl") == "1h":
            if is_short:
                yield Finding(f"{path}.ttl")
        else:
            is_short = True


def top_level_lifetime(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a mark of the request with another lifetime than the mark of the last block."""
    whole = facts.body.get("cache_control")
    messages = messages_of(facts.body)
    blocks = messages[-1].blocks if messages else ()
    mark = blocks[-1].get("cache_control") if blocks else None
    if is_object(whole) and is_object(mark) and _lifetime(whole) != _lifetime(mark):
        yield Finding("cache_control.ttl")


def _lifetime(mark: dict[str, Any]) -> object:
    return mark.get("ttl") or "5m"


def nested_marks(facts: RequestFacts) -> Iterator[Finding]:
    """Yield cache marks in the content of tool results."""
    for block in blocks_of(facts.body):
        if block.in_result and block.value.get("cache_control") is not None:
            yield Finding(f"{block.path}.cache_control", name=block.location)


def marked_empty_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield text blocks without a character that have a cache mark."""
    for block in blocks_of(facts.body):
        is_empty = block.type == "text" and block.value.get("text") == ""
        if is_empty and block.value.get("cache_control") is not None:
            yield Finding(f"{block.path}.text", name=f"{block.location}.text")


# Media, ids, inputs, signatures


def image_media_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inline images of other types than the vendor's four."""
    yield from _media_types(facts, "image", _IMAGES)


def document_media_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield documents in Base64 that are no PDF."""
    yield from _media_types(facts, "document", frozenset({"application/pdf"}))


def _media_types(facts: RequestFacts, kind: str, known: frozenset[str]) -> Iterator[Finding]:
    for block in blocks_of(facts.body):
        source = block.value.get("source") if block.type == kind else None
        if not is_object(source) or source.get("type") != "base64":
            continue
        media_type = source.get("media_type")
        if not (isinstance(media_type, str) and media_type in known):
            path, location = f"{block.path}.source", f"{block.typed_location}.source.base64"
            yield Finding(f"{path}.media_type", media_type, name=f"{location}.media_type")


def tool_ids(facts: RequestFacts) -> Iterator[Finding]:
    """Yield ids of calls with other characters than letters, digits, `_` and `-`."""
    for block in blocks_of(facts.body):
        name = "tool_use_id" if block.type == "tool_result" else "id"
        id = block.value.get(name) if block.type in ("tool_use", "tool_result") else None
        if isinstance(id, str) and _ID.fullmatch(id) is None:
            yield Finding(f"{block.path}.{name}", id, name=f"{block.typed_location}.{name}")


def inputs(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inputs of calls that are no objects."""
    for block in blocks_of(facts.body):
        value = block.value.get("input") if block.type in _CALLS else None
        if value is not None and not is_object(value):
            yield Finding(f"{block.path}.input", name=f"{block.typed_location}.input")


def signatures(facts: RequestFacts) -> Iterator[Finding]:
    """Yield signatures of thinking that the vendor cannot have issued."""
    yield from _forged(facts, "thinking", "signature")


def redacted_data(facts: RequestFacts) -> Iterator[Finding]:
    """Yield data of redacted thinking that the vendor cannot have issued."""
    yield from _forged(facts, "redacted_thinking", "data")


def _forged(facts: RequestFacts, kind: str, name: str) -> Iterator[Finding]:
    for block in blocks_of(facts.body):
        value = block.value.get(name) if block.type == kind else None
        if isinstance(value, str) and _BASE64.fullmatch(value) is None:
            yield Finding(f"{block.path}.{name}", name=block.location)
