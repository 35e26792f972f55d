"""Checks of requests that compatible servers alone make, by the names that their rules use.

A check is written from what a server refuses, shares no code with the encoders, and accepts
any JSON: what has another type than the vendor's is the affair of another rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object

__all__ = ["SERVER_CHECKS"]


def _contents(facts: RequestFacts) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Yield the blocks of each message, each with its path."""
    messages = facts.body.get("messages")
    for number, message in enumerate(messages if is_array(messages) else []):
        content = message.get("content") if is_object(message) else None
        yield [
            (f"messages[{number}].content[{place}]", block)
            for place, block in enumerate(content if is_array(content) else [])
            if is_object(block)
        ]


def orphan_results(facts: RequestFacts) -> Iterator[Finding]:
    """Yield results of uses that no message before them has."""
    known: set[object] = set()
    for blocks in _contents(facts):
        for path, block in blocks:
            id = block.get("tool_use_id")
            if block.get("type") == "tool_result" and isinstance(id, str) and id not in known:
                yield Finding(f"{path}.tool_use_id", id, name=id)
        known.update(
            id
            for _, block in blocks
            if block.get("type") == "tool_use" and isinstance(id := block.get("id"), str)
        )


def text_after_result(facts: RequestFacts) -> Iterator[Finding]:
    """Yield texts that follow the result of a tool in one message."""
    for blocks in _contents(facts):
        has_result = False
        for path, block in blocks:
            if block.get("type") == "tool_result":
                has_result = True
            elif has_result and block.get("type") == "text":
                yield Finding(path)


SERVER_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check for check in (orphan_results, text_after_result)
}
