"""Checks of a request's messages against Anthropic's rules, and the table of all checks.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22), and the errors that the API
answers with.  The vendor joins consecutive messages of one role to one turn.

A check states what the vendor or a compatible server refuses.  It shares no code with the
encoders and accepts any JSON: other rules report values of a wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm.dialects.anthropic.body import validate_fields, validate_options
from streamnorm.dialects.anthropic.body.validate_fields import (
    Message,
    blocks_of,
    messages_of,
    tools_of,
)

_SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_THINKING = frozenset({"thinking", "redacted_thinking"})
_MAX_MARKS = 4
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")  # in either alphabet
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class _Turn(NamedTuple):
    """Consecutive messages of one role, which the API joins.

    Attributes:
        role: Role of the messages.
        number: Position of the first message.
        blocks: Content blocks of the messages, each with its path.
    """

    role: str
    number: int
    blocks: list[tuple[str, dict[str, Any]]]


def _join_turns(messages: list[Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    for message in messages:
        if not turns or turns[-1].role != message.role:
            turns.append(_Turn(message.role, message.number, []))
        turns[-1].blocks.extend(_blocks_with_paths(message))
    return turns


def _blocks_with_paths(message: Message) -> list[tuple[str, dict[str, Any]]]:
    path = f"messages[{message.number}].content"
    content = message.value.get("content")
    if isinstance(content, str):
        return [(path, block) for block in message.blocks]
    return [
        (f"{path}[{number}]", block)
        for number, block in enumerate(content if is_array(content) else ())
        if is_object(block)
    ]


def _is_result(block: dict[str, Any]) -> bool:
    return string_of(block, "type") == "tool_result"


def _ids_of(blocks: list[tuple[str, dict[str, Any]]], kind: str, field: str) -> list[str]:
    return [
        id
        for _, block in blocks
        if string_of(block, "type") == kind and isinstance(id := block.get(field), str)
    ]


def missing_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield turns with tool calls whose results do not begin the next turn."""
    turns = _join_turns(messages_of(facts.body))
    for turn, after in zip_longest(turns, turns[1:]):
        calls = _ids_of(turn.blocks, "tool_use", "id")
        if turn.role != "assistant" or not calls:
            continue
        answered: list[object] = []
        for _, block in after.blocks if after is not None else ():
            if not _is_result(block):
                break
            answered.append(block.get("tool_use_id"))
        if missing := [id for id in calls if id not in answered]:
            yield Finding(f"messages[{turn.number}]", name=", ".join(missing))


def unexpected_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results without a call in the previous turn."""
    if is_object(facts.body.get("thread")):  # the vendor stores the first turns of a thread
        return
    before: list[str] = []
    for turn in _join_turns(messages_of(facts.body)):
        for path, block in turn.blocks if turn.role == "user" else ():
            id = block.get("tool_use_id")
            if _is_result(block) and isinstance(id, str) and id not in before:
                yield Finding(path, name=id)
        before = _ids_of(turn.blocks, "tool_use", "id")


def orphan_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results without a call in any earlier message."""
    known: set[str] = set()
    for message in messages_of(facts.body):
        blocks = _blocks_with_paths(message)
        for path, block in blocks:
            id = block.get("tool_use_id")
            if _is_result(block) and isinstance(id, str) and id not in known:
                yield Finding(f"{path}.tool_use_id", id, name=id)
        known.update(_ids_of(blocks, "tool_use", "id"))


def text_after_result(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts after a tool result in one message, which MiniMax refuses."""
    for message in messages_of(facts.body):
        has_result = False
        for path, block in _blocks_with_paths(message):
            has_result = has_result or _is_result(block)
            if has_result and string_of(block, "type") == "text":
                yield Finding(path)


def duplicate_uses(facts: RequestFacts) -> Iterator[Finding]:
    """Yield calls with the id of an earlier call."""
    seen: set[str] = set()
    for turn in _join_turns(messages_of(facts.body)):
        for path, block in turn.blocks:
            id = block.get("id")
            if string_of(block, "type") == "tool_use" and isinstance(id, str):
                if id in seen:
                    yield Finding(f"{path}.id", id)
                seen.add(id)


def duplicate_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield repeated results of the same call."""
    for turn in _join_turns(messages_of(facts.body)):
        seen: set[str] = set()
        for path, block in turn.blocks:
            id = block.get("tool_use_id")
            if _is_result(block) and isinstance(id, str):
                if id in seen:
                    yield Finding(f"{path}.tool_use_id", name=id)
                seen.add(id)


def missing_server_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield server tool calls that have no result although other content follows.

    A call may wait for its result while only calls and results follow it.
    """
    blocks = [pair for turn in _join_turns(messages_of(facts.body)) for pair in turn.blocks]
    last_other = max(
        (number for number, (_, block) in enumerate(blocks) if not _may_wait(block)), default=-1
    )
    answered = {
        id
        for _, block in blocks
        if _is_any_result(block) and isinstance(id := block.get("tool_use_id"), str)
    }
    for path, block in blocks[: last_other + 1]:
        id = block.get("id")
        if string_of(block, "type") in _SERVER_CALLS and isinstance(id, str) and id not in answered:
            yield Finding(path, name=id)


def _may_wait(block: dict[str, Any]) -> bool:
    """Return whether a block may follow a server tool call that has no result yet."""
    kind = string_of(block, "type")
    return kind == "tool_use" or kind in _SERVER_CALLS or _is_any_result(block)


def _is_any_result(block: dict[str, Any]) -> bool:
    return string_of(block, "type").endswith("tool_result")


def thinking_first(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first block of the last answer if it must be thinking and is not.

    With a thinking budget the API demands thinking first in an answer with tool calls, and in an
    answer that is to be continued (anthropics/claude-code#20727).  A tool loop is one answer, whose
    later messages have thinking only if it is interleaved.
    """
    thinking = facts.body.get("thinking")
    if not is_object(thinking) or thinking.get("type") != "enabled":
        return
    messages = messages_of(facts.body)
    turns = _join_turns([message for message in messages if message.role != "system"])
    answers = {n for n, turn in enumerate(turns) if turn.role == "assistant" and turn.blocks}
    if not answers:
        return
    first = max(answers)
    if not (_ids_of(turns[first].blocks, "tool_use", "id") or _is_prefilled(messages)):
        return
    while first - 2 in answers and any(_is_result(block) for _, block in turns[first - 1].blocks):
        first -= 2
    path, block = turns[first].blocks[0]
    if string_of(block, "type") not in _THINKING:
        yield Finding(f"{path}.type", name=string_of(block, "type"))


def prefill(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a trailing assistant message, unless the message waits for server tools."""
    messages = messages_of(facts.body)
    if _is_prefilled(messages):
        yield Finding(f"messages[{messages[-1].number}]")


def final_thinking(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a trailing assistant message that ends in thinking, which no model continues."""
    messages = messages_of(facts.body)
    if messages and messages[-1].role == "assistant" and messages[-1].blocks:
        kind = string_of(messages[-1].blocks[-1], "type")
        if kind in _THINKING:
            yield Finding(f"messages[{messages[-1].number}]", name=kind)


def _is_prefilled(messages: list[Message]) -> bool:
    """Return whether the last message is an answer for the model to continue."""
    if not messages or messages[-1].role != "assistant":
        return False
    blocks = messages[-1].blocks
    last = blocks[-1] if blocks else {}
    kind = string_of(last, "type")
    return not (kind == "compaction" or kind in _SERVER_CALLS or _is_any_result(last))


def system_after_user(facts: RequestFacts) -> Iterator[Finding]:
    """Yield system messages that follow neither a user message nor a server tool's result."""
    before = ""
    is_paused = False
    for message in messages_of(facts.body):
        if message.role == "system" and before != "user" and not is_paused:
            yield Finding(f"messages[{message.number}]")
        before = message.role
        last = message.blocks[-1] if message.blocks else {}
        is_paused = before == "assistant" and _is_any_result(last)


def system_before_assistant(facts: RequestFacts) -> Iterator[Finding]:
    """Yield system messages that are neither last nor followed by an assistant message."""
    messages = messages_of(facts.body)
    for message, after in pairwise(messages):
        if message.role == "system" and after.role != "assistant":
            yield Finding(f"messages[{message.number}]")


def empty_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield user and assistant messages with empty content.

    An assistant message may be empty if it is the last.
    """
    messages = messages_of(facts.body)
    for message in messages:
        content = message.value.get("content")
        is_last = message is messages[-1] and message.role == "assistant"
        if content in ("", []) and message.role != "system" and not is_last:
            yield Finding(f"messages[{message.number}].content", name=f"messages.{message.number}")


def empty_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield empty text blocks; each finding is named after the top-level field of its block."""
    for block in blocks_of(facts.body):
        if block.type == "text" and block.value.get("text") == "":
            yield Finding(f"{block.path}.text", name=block.path.partition("[")[0])


def blank_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts of only white space; each finding is named after the text's top-level field."""
    for block in blocks_of(facts.body):
        if block.type == "text" and _is_blank(block.value.get("text")):
            yield Finding(f"{block.path}.text", name=block.path.partition("[")[0])
    for message in messages_of(facts.body):
        if _is_blank(message.value.get("content")):
            yield Finding(f"messages[{message.number}].content", name="messages")


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and text.isspace()


def trailing_space(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the assistant's last text if it ends in white space."""
    messages = messages_of(facts.body)
    if not messages or messages[-1].role != "assistant" or not messages[-1].blocks:
        return
    last = messages[-1]
    text = last.blocks[-1].get("text")
    if isinstance(text, str) and text != text.rstrip():
        yield Finding(f"messages[{last.number}].content")


def empty_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tool results whose content is an empty array."""
    for block in blocks_of(facts.body):
        if block.type == "tool_result" and block.value.get("content") == []:
            yield Finding(f"{block.path}.content", name=f"{block.typed_location}.content")


def empty_errors(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tool results that are errors and have no content."""
    for block in blocks_of(facts.body):
        is_error = block.type == "tool_result" and block.value.get("is_error") is True
        if is_error and block.value.get("content") in (None, "", []):
            yield Finding(block.path, name=block.typed_location)


def _cache_marks(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and the value of each cache mark in the order of the prompt."""
    holders = [(f"tools[{number}]", tool) for number, _, tool in tools_of(body)]
    holders += [(block.path, block.value) for block in blocks_of(body)]
    for path, holder in holders:
        mark = holder.get("cache_control")
        if is_object(mark):
            yield f"{path}.cache_control", mark
    mark = body.get("cache_control")  # the vendor puts it on the last block that it can cache
    if is_object(mark):
        yield "cache_control", mark


def max_marks(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first cache mark beyond the vendor's maximum."""
    marks = list(_cache_marks(facts.body))
    if len(marks) > _MAX_MARKS:
        yield Finding(marks[_MAX_MARKS][0], count=len(marks), limit=_MAX_MARKS)


def growing_lifetimes(facts: RequestFacts) -> Iterator[Finding]:
    """Yield one-hour cache marks that follow a five-minute mark."""
    is_short = False
    for path, mark in _cache_marks(facts.body):
        if mark.get("ttl") == "1h":
            if is_short:
                yield Finding(f"{path}.ttl")
        else:
            is_short = True


def top_level_lifetime(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a top-level cache mark whose lifetime differs from the last block's mark."""
    top_level = facts.body.get("cache_control")
    messages = messages_of(facts.body)
    blocks = messages[-1].blocks if messages else ()
    mark = blocks[-1].get("cache_control") if blocks else None
    if is_object(top_level) and is_object(mark) and _lifetime(top_level) != _lifetime(mark):
        yield Finding("cache_control.ttl")


def _lifetime(mark: dict[str, Any]) -> object:
    return mark.get("ttl") or "5m"


def nested_marks(facts: RequestFacts) -> Iterator[Finding]:
    """Yield cache marks in the content of tool results."""
    for block in blocks_of(facts.body):
        if block.in_result and block.value.get("cache_control") is not None:
            yield Finding(f"{block.path}.cache_control", name=block.location)


def marked_empty_texts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield empty text blocks with a cache mark."""
    for block in blocks_of(facts.body):
        is_empty = block.type == "text" and block.value.get("text") == ""
        if is_empty and block.value.get("cache_control") is not None:
            yield Finding(f"{block.path}.text", name=f"{block.location}.text")


def image_media_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inline images of a media type other than the four that the vendor accepts."""
    yield from _find_media_types(facts, "image", _IMAGES)


def document_media_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the media types of Base64 documents that are not PDF."""
    yield from _find_media_types(facts, "document", frozenset({"application/pdf"}))


def _find_media_types(facts: RequestFacts, kind: str, known: frozenset[str]) -> Iterator[Finding]:
    for block in blocks_of(facts.body):
        source = block.value.get("source") if block.type == kind else None
        if not is_object(source) or source.get("type") != "base64":
            continue
        media_type = source.get("media_type")
        if not (isinstance(media_type, str) and media_type in known):
            path, location = f"{block.path}.source", f"{block.typed_location}.source.base64"
            yield Finding(f"{path}.media_type", media_type, name=f"{location}.media_type")


def tool_ids(facts: RequestFacts) -> Iterator[Finding]:
    """Yield call ids with characters other than letters, digits, `_` and `-`."""
    for block in blocks_of(facts.body):
        name = "tool_use_id" if block.type == "tool_result" else "id"
        id = block.value.get(name) if block.type in ("tool_use", "tool_result") else None
        if isinstance(id, str) and _ID.fullmatch(id) is None:
            yield Finding(f"{block.path}.{name}", id, name=f"{block.typed_location}.{name}")


def inputs(facts: RequestFacts) -> Iterator[Finding]:
    """Yield call inputs that are not JSON objects."""
    for block in blocks_of(facts.body):
        value = block.value.get("input") if block.type in _CALLS else None
        if value is not None and not is_object(value):
            yield Finding(f"{block.path}.input", name=f"{block.typed_location}.input")


def signatures(facts: RequestFacts) -> Iterator[Finding]:
    """Yield thinking signatures that are not Base64, which Anthropic cannot have issued."""
    yield from _find_forged(facts, "thinking", "signature")


def redacted_data(facts: RequestFacts) -> Iterator[Finding]:
    """Yield redacted thinking that is not Base64, which Anthropic cannot have issued."""
    yield from _find_forged(facts, "redacted_thinking", "data")


def _find_forged(facts: RequestFacts, kind: str, name: str) -> Iterator[Finding]:
    for block in blocks_of(facts.body):
        value = block.value.get(name) if block.type == kind else None
        if isinstance(value, str) and _BASE64.fullmatch(value) is None:
            yield Finding(f"{block.path}.{name}", name=block.location)


_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        blank_texts,
        document_media_types,
        empty_contents,
        empty_errors,
        empty_results,
        empty_texts,
        growing_lifetimes,
        image_media_types,
        inputs,
        marked_empty_texts,
        max_marks,
        nested_marks,
        orphan_results,
        redacted_data,
        signatures,
        tool_ids,
        top_level_lifetime,
        trailing_space,
        validate_fields.beta_fields,
        validate_fields.missing_fields,
        validate_fields.unknown_fields,
        validate_options.budget_below_max_tokens,
        validate_options.choice_without_tools,
        validate_options.deferred_tools,
        validate_options.fields_of_old_versions,
        validate_options.temperature_and_top_p,
        validate_options.temperature_while_thinking,
        validate_options.tool_references,
        validate_options.top_k_while_thinking,
        validate_options.top_p_while_thinking,
        validate_options.unknown_choice,
        duplicate_results,
        duplicate_uses,
        final_thinking,
        missing_results,
        missing_server_results,
        prefill,
        system_after_user,
        system_before_assistant,
        text_after_result,
        thinking_first,
        unexpected_results,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return the checks by name."""
    return _CHECKS
