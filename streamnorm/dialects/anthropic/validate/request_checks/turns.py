"""The order of messages and of their calls and results, as Anthropic demands it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.anthropic.validate.request_checks.parts import (
    Message,
    kind_of,
    messages_of,
)

__all__ = [
    "duplicate_results",
    "duplicate_uses",
    "missing_results",
    "missing_server_results",
    "prefill",
    "system_after_user",
    "system_before_assistant",
    "thinking_first",
    "unexpected_results",
]

_SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
_THINKING = frozenset({"thinking", "redacted_thinking"})


class _Turn(NamedTuple):
    """Consecutive messages of one role, which the vendor joins.

    Attributes:
        role: Their role.
        number: Position of the first one.
        blocks: Their blocks, each with its path.
    """

    role: str
    number: int
    blocks: list[tuple[str, dict[str, Any]]]


def _turns(messages: list[Message]) -> list[_Turn]:
    turns: list[_Turn] = []
    for message in messages:
        if not turns or turns[-1].role != message.role:
            turns.append(_Turn(message.role, message.number, []))
        path = f"messages[{message.number}].content"
        content = message.value.get("content")
        for number, block in enumerate(content if is_array(content) else ()):
            if is_object(block):
                turns[-1].blocks.append((f"{path}[{number}]", block))
        if isinstance(content, str):
            turns[-1].blocks.extend((path, block) for block in message.blocks)
    return turns


def _is_result(block: dict[str, Any]) -> bool:
    return kind_of(block) == "tool_result"


def _ids(turn: _Turn, kind: str, field: str) -> list[str]:
    return [
        id
        for _, block in turn.blocks
        if kind_of(block) == kind and isinstance(id := block.get(field), str)
    ]


def missing_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield turns that call tools and have no results at the beginning of the next turn."""
    turns = _turns(messages_of(facts.body))
    for turn, after in zip_longest(turns, turns[1:]):
        calls = _ids(turn, "tool_use", "id")
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
    """Yield results of calls that the turn before them does not have."""
    if is_object(facts.body.get("thread")):  # whose first turns the vendor has
        return
    before: list[str] = []
    for turn in _turns(messages_of(facts.body)):
        for path, block in turn.blocks if turn.role == "user" else ():
            id = block.get("tool_use_id")
            if _is_result(block) and isinstance(id, str) and id not in before:
                yield Finding(path, name=id)
        before = _ids(turn, "tool_use", "id")


def duplicate_uses(facts: RequestFacts) -> Iterator[Finding]:
    """Yield calls with the id of an earlier one."""
    seen: set[str] = set()
    for turn in _turns(messages_of(facts.body)):
        for path, block in turn.blocks:
            id = block.get("id")
            if kind_of(block) == "tool_use" and isinstance(id, str):
                if id in seen:
                    yield Finding(f"{path}.id", id)
                seen.add(id)


def duplicate_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield second results of one call."""
    for turn in _turns(messages_of(facts.body)):
        seen: set[str] = set()
        for path, block in turn.blocks:
            id = block.get("tool_use_id")
            if _is_result(block) and isinstance(id, str):
                if id in seen:
                    yield Finding(f"{path}.tool_use_id", name=id)
                seen.add(id)


def missing_server_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield calls of server tools that have no result although the conversation went on.

    A call may wait while nothing but calls and results follow it.
    """
    blocks = [place for turn in _turns(messages_of(facts.body)) for place in turn.blocks]
    last_other = max(
        (number for number, (_, block) in enumerate(blocks) if not _waits(block)), default=-1
    )
    answered = {
        id
        for _, block in blocks
        if _is_any_result(block) and isinstance(id := block.get("tool_use_id"), str)
    }
    for path, block in blocks[: last_other + 1]:
        id = block.get("id")
        if kind_of(block) in _SERVER_CALLS and isinstance(id, str) and id not in answered:
            yield Finding(path, name=id)


def _waits(block: dict[str, Any]) -> bool:
    """Return whether a block may follow a call of a server tool that has no result yet."""
    kind = kind_of(block)
    return kind == "tool_use" or kind in _SERVER_CALLS or _is_any_result(block)


def _is_any_result(block: dict[str, Any]) -> bool:
    return kind_of(block).endswith("tool_result")


def thinking_first(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first block of an answer that goes on and begins with no thinking.

    With a budget, the vendor wants thinking first where calls of the last answer were made, and
    where the answer is to be continued.
    """
    thinking = facts.body.get("thinking")
    if not is_object(thinking) or thinking.get("type") != "enabled":
        return
    messages = messages_of(facts.body)
    turns = [turn for turn in _turns(messages) if turn.role == "assistant" and turn.blocks]
    if turns and (_ids(turns[-1], "tool_use", "id") or _is_prefilled(messages)):
        path, block = turns[-1].blocks[0]
        if kind_of(block) not in _THINKING:
            yield Finding(f"{path}.type", name=kind_of(block))


def prefill(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a last message of the assistant, unless it waits for tools of the server."""
    messages = messages_of(facts.body)
    if _is_prefilled(messages):
        yield Finding(f"messages[{messages[-1].number}]")


def _is_prefilled(messages: list[Message]) -> bool:
    """Return whether the last message is an answer that waits for nothing."""
    if not messages or messages[-1].role != "assistant":
        return False
    blocks = messages[-1].blocks
    last = blocks[-1] if blocks else {}
    kind = kind_of(last)
    return not (kind == "compaction" or kind in _SERVER_CALLS or _is_any_result(last))


def system_after_user(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the system that stand after none of the user."""
    before = ""
    is_paused = False
    for message in messages_of(facts.body):
        if message.role == "system" and before != "user" and not is_paused:
            yield Finding(f"messages[{message.number}]")
        before = message.role
        last = message.blocks[-1] if message.blocks else {}
        is_paused = before == "assistant" and _is_any_result(last)


def system_before_assistant(facts: RequestFacts) -> Iterator[Finding]:
    """Yield messages of the system that stand neither before one of the assistant nor last."""
    messages = messages_of(facts.body)
    for message, after in pairwise(messages):
        if message.role == "system" and after.role != "assistant":
            yield Finding(f"messages[{message.number}]")
