"""Checks of a request's options and tools against Anthropic's rules.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.anthropic.body.validate_fields import blocks_of, has_beta, tools_of

_LEAST_TOP_P = 0.95
_VERSION = "2026-10-21"
_TOOLSET = re.compile(r"(?:mcp|computer|browser)_toolset")


def _thinking_type(body: dict[str, Any]) -> object:
    thinking = body.get("thinking")
    return thinking.get("type") if is_object(thinking) else None


def _number(value: object) -> float | int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]  # narrowed by is_number


def _thinks(body: dict[str, Any]) -> bool:
    return _thinking_type(body) in ("enabled", "adaptive")


def budget_below_max_tokens(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a thinking budget that is not below `max_tokens`.

    With the beta `interleaved-thinking` the budget may be larger.
    """
    body = facts.body
    thinking = body.get("thinking")
    if _thinking_type(body) != "enabled" or has_beta(facts, "interleaved-thinking-"):
        return
    budget = _number(thinking.get("budget_tokens")) if is_object(thinking) else None
    most = _number(body.get("max_tokens"))
    if budget is not None and most is not None and budget >= most:
        yield Finding("max_tokens", budget, limit=most)


def temperature_and_top_p(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `top_p` in a request that also has a temperature."""
    body = facts.body
    if body.get("temperature") is not None and body.get("top_p") is not None:
        yield Finding("top_p")


def temperature_while_thinking(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a temperature other than 1 in a request with thinking."""
    temperature = facts.body.get("temperature")
    if _thinks(facts.body) and temperature is not None and temperature != 1:
        yield Finding("temperature", temperature)


def top_p_while_thinking(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a `top_p` below 0.95 in a request with thinking."""
    top_p = _number(facts.body.get("top_p"))
    if _thinks(facts.body) and top_p is not None and top_p < _LEAST_TOP_P:
        yield Finding("top_p", top_p, limit=_LEAST_TOP_P)


def top_k_while_thinking(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `top_k` in a request with thinking."""
    top_k = facts.body.get("top_k")
    if _thinks(facts.body) and top_k is not None:
        yield Finding("top_k", top_k)


def fields_of_old_versions(facts: RequestFacts) -> Iterator[Finding]:
    """Yield fields and blocks removed in version 2026-10-21, if the request uses that version."""
    body = facts.body
    version = facts.headers.get("anthropic-version") or body.get("anthropic_version")
    if version != _VERSION:
        return
    for name in ("temperature", "top_p", "top_k"):
        if body.get(name) is not None:
            yield Finding(name, name=name)
    for block in blocks_of(body):
        if block.role == "assistant" and block.type == "document" and not block.in_result:
            yield Finding(block.path, name=block.location)
        if block.role == "user" and block.type == "text" and block.value.get("citations"):
            yield Finding(f"{block.path}.citations", name=f"{block.typed_location}.citations")


# Tools


def choice_without_tools(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a tool choice in a request without tools."""
    if is_object(facts.body.get("tool_choice")) and not facts.body.get("tools"):
        yield Finding("tool_choice")


def unknown_choice(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the name of a chosen tool that the request does not offer."""
    choice = facts.body.get("tool_choice")
    name = choice.get("name") if is_object(choice) and choice.get("type") == "tool" else None
    offered = [tool.get("name") for _, _, tool in tools_of(facts.body)]
    if isinstance(name, str) and offered and name not in offered and not _has_toolset(facts):
        yield Finding("tool_choice.name", name=name)


def _has_toolset(facts: RequestFacts) -> bool:
    """Return whether the request offers a toolset, whose tools are not named in the request."""
    return any(_TOOLSET.match(kind) for _, kind, _ in tools_of(facts.body))


def deferred_tools(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the tools if every tool is deferred."""
    tools = [tool for _, _, tool in tools_of(facts.body)]
    if tools and all(tool.get("defer_loading") is True for tool in tools):
        yield Finding("tools")


def tool_references(facts: RequestFacts) -> Iterator[Finding]:
    """Yield references to tools that the request does not offer."""
    if _has_toolset(facts):
        return
    offered = [tool.get("name") for _, _, tool in tools_of(facts.body)]
    for block in blocks_of(facts.body):
        references = [(block.path, block.value)]
        content = block.value.get("content")
        if block.type == "tool_search_tool_result" and is_object(content):
            found = content.get("tool_references")
            path = f"{block.path}.content.tool_references"
            references = [
                (f"{path}[{number}]", reference)
                for number, reference in enumerate(found if is_array(found) else ())
                if is_object(reference)
            ]
        for path, value in references:
            name = value.get("tool_name") if value.get("type") == "tool_reference" else None
            if isinstance(name, str) and name not in offered:
                yield Finding(f"{path}.tool_name", name=name)
