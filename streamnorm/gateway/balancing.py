"""Which of several equal upstreams is asked first.

A provider has the prompt cache of a conversation where it answered the turn before, and so it is
with reasoning that only its author can read.  The requests of one conversation therefore go to one
upstream, whichever worker of the gateway gets them: all rank the upstreams by a digest of
conversation and upstream (rendezvous hashing).  One that is down moves its own conversations, each
to the next of its ranking, and no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from typing import Any

from streamnorm._core.json import is_array, is_object
from streamnorm.gateway.routing import Target

# Those of Claude Code, opencode, Codex and pi (requests recorded 2026-11).
_SESSION_HEADERS = (
    "x-claude-code-session-id",
    "x-session-affinity",
    "x-session-id",
    "session-id",
    "session_id",
    "thread-id",
)
_TURNS = ("messages", "input", "contents")  # fields of the history, by dialect
_CACHE_MARK = "cache_control"
_MAX_VALUES = 256  # of which each may hold as many
_MAX_CHARS = 1024  # of the begin and of the end of each string


class Balancer:
    """Orders upstreams, those that are equal by conversation or in turn."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], int] = {}  # requests so far, by entry and group

    def order(
        self, targets: tuple[Target, ...], headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> tuple[Target, ...]:
        """Return the upstreams for a request, the first to ask first.

        Args:
            targets: The upstreams, those of one group side by side.
            headers: Headers of the request, names in lower case.
            body: The decoded body of the request, in any dialect.
        """
        if len({target.group for target in targets}) == len(targets):
            return targets
        if targets[0].options.balance == "round_robin":
            groups = [self._in_turn([*group]) for _, group in groupby(targets, _group_of)]
        else:
            conversation = conversation_of(headers, body)
            groups = [
                _rank_by_conversation([*group], conversation)
                for _, group in groupby(targets, _group_of)
            ]
        return tuple(target for group in groups for target in group)

    def _in_turn(self, group: list[Target]) -> list[Target]:
        key = group[0].options.match, group[0].group
        start = self._asked.get(key, 0) % len(group)
        self._asked[key] = start + 1
        return group[start:] + group[:start]


def conversation_of(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Return a key that all requests of a conversation have in common.

    That is the id of the session, which agents send in a header or as the user, or the key of the
    prompt cache, or else what stands in the first message of the user.

    Args:
        headers: Headers of a request, names in lower case.
        body: The decoded body of the request, in any dialect.
    """
    named = [headers.get(name) for name in _SESSION_HEADERS]
    metadata = body.get("metadata")
    if is_object(metadata):
        named.append(_string(metadata.get("user_id")))
    named += [_string(body.get("prompt_cache_key")), _string(body.get("cachedContent"))]
    return next(filter(None, named), "") or "\n".join(_strings(_first_message(body)))


def _first_message(body: Mapping[str, Any]) -> object:
    turns = next((body[name] for name in _TURNS if body.get(name)), None)
    if not is_array(turns):
        return turns
    # Gemini's contents without a role are those of the user.
    first = (turn for turn in islice(turns, _MAX_VALUES) if is_object(turn))
    # System prompts are those of the agent, equal in all conversations.
    return next((turn for turn in first if turn.get("role", "user") == "user"), None)


def _strings(value: object) -> Iterator[str]:
    """Yield the strings of a JSON value, shortened, and without marks for the prompt cache."""
    left = [value]
    count = 0
    while left and count < _MAX_VALUES:
        item = left.pop()
        count += 1
        if isinstance(item, str):
            is_long = len(item) > 2 * _MAX_CHARS
            yield f"{item[:_MAX_CHARS]}{item[-_MAX_CHARS:]}{len(item)}" if is_long else item
        elif is_array(item):
            left += reversed(item[:_MAX_VALUES])
        elif is_object(item):
            names = sorted(islice(item, _MAX_VALUES), reverse=True)
            left += [item[name] for name in names if name != _CACHE_MARK]


def _rank_by_conversation(group: list[Target], conversation: str) -> list[Target]:
    return sorted(group, key=lambda target: _digest(conversation, target))


def _digest(conversation: str, target: Target) -> bytes:
    name = f"{target.name}/{target.upstream.model or ''}"
    text = f"{name}\n{conversation}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def _group_of(target: Target) -> int:
    return target.group


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
