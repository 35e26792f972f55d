"""Consecutive requests of a conversation, and the comparison of their prompts."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume
from msgspec import structs

from streamnorm import Encoded, InputMessage, Request, Text
from support.bodies.request_strategies import conversation, make_request, make_turn
from support.draws import Draws

__all__ = ["a_turn_apart", "assert_prefix", "begins_with"]

# The parts of a body that a provider's prompt cache is over, in order.
_PROMPTS = {
    "anthropic": ("tools", "system", "messages"),
    "openai_chat": ("tools", "messages"),
    "openai_responses": ("tools", "instructions", "input"),
    "gemini": ("tools", "systemInstruction", "contents"),
    "bedrock_converse": ("toolConfig", "system", "messages"),
    "gemini_interactions": ("tools", "system_instruction", "input"),
}
_MAX_MARKS = 4


def a_turn_apart(d: Draws, *, hostile: bool) -> tuple[Request, Request]:
    """Return two consecutive requests of a conversation."""
    turns = conversation(d, hostile=hostile)
    turn = make_turn(d, len(turns), hostile=hostile)
    # An answer of which nothing is left would not part the messages around it, and neither would
    # a last message.
    turns[-1].append(InputMessage("user", (Text("Go on."),)))
    answer = structs.replace(turn[0], blocks=(*turn[0].blocks, Text("So.")))
    longer = make_request(d, [*turns, [answer, *turn[1:]]])
    shorter = structs.replace(longer, messages=longer.messages[: sum(map(len, turns))])
    # Vendors accept so many marks, and the last ones are the client's choice for the next turn.
    assume(_marks(longer) <= _MAX_MARKS)
    return shorter, longer


def _marks(request: Request) -> int:
    parts = (*request.system, *request.tools, *(b for m in request.messages for b in m.blocks))
    return sum(part.cache is not None for part in (request, *parts))


def assert_prefix(shorter: Encoded, longer: Encoded, dialect: str) -> None:
    """Assert that a longer prompt begins with a shorter one, byte for byte."""
    for name in _PROMPTS[dialect]:
        assert _begins_with(longer.body, shorter.body, name, dialect), name


def begins_with(longer: dict[str, Any], shorter: dict[str, Any], dialect: str) -> bool:
    """Return whether a body's prompt begins with a shorter one's, byte for byte."""
    return all(_begins_with(longer, shorter, name, dialect) for name in _PROMPTS[dialect])


def _begins_with(longer: dict[str, Any], shorter: dict[str, Any], name: str, dialect: str) -> bool:
    before, after = shorter.get(name), longer.get(name)
    # Bedrock demands a tool for each call of the history, also where the request offers none.
    # The choice among the tools is no part of a prompt.
    if name == "toolConfig":
        before, after = ((config or {}).get("tools", []) for config in (before, after))
        return json.dumps(after[: len(before)]) == json.dumps(before)
    if name == "messages" and dialect == "bedrock_converse":
        before, after = _blocks_of(before), _blocks_of(after)
    if name == _PROMPTS[dialect][-1] and isinstance(before, list) and isinstance(after, list):
        after = after[: len(before)]
    return json.dumps(after) == json.dumps(before)


def _blocks_of(messages: list[dict[str, Any]]) -> list[Any]:
    """Return the messages' blocks by role; consecutive messages of one role are joined."""
    return [[message["role"], block] for message in messages for block in message["content"]]
