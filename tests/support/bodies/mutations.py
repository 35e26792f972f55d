"""Damaged bodies, and JSON values resembling bodies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from support.draws import Draws

__all__ = ["damaged_body", "json_value"]

_Place: TypeAlias = tuple[Any, Any]
"""A container, and the key or the index of one value in it."""

_KEYS = (
    *("role", "content", "type", "text", "id", "name", "input", "arguments", "tool_calls"),
    *("tool_call_id", "tool_use_id", "call_id", "output", "parts", "functionCall", "args"),
    *("functionResponse", "response", "thought", "thoughtSignature", "summary", "signature"),
    *("cache_control", "ttl", "source", "data", "media_type", "url", "image_url", "detail"),
    *("is_error", "tools", "tool_choice", "function", "parameters", "input_schema", "strict"),
    *("system", "messages", "model", "max_tokens", "stop", "temperature", "reasoning", "effort"),
    *("thinking", "budget_tokens", "metadata", "user", "store", "stream", "extra_content", ""),
    *("systemInstruction", "contents", "instructions", "include", "namespace", "caller", "é\0"),
)
_WORDS = (
    *("user", "assistant", "system", "developer", "tool", "model", "text", "image", "thinking"),
    *("tool_use", "tool_result", "function", "custom", "function_call", "function_call_output"),
    *("custom_tool_call", "reasoning", "message", "input_text", "output_text", "input_image"),
    *("redacted_thinking", "refusal", "item_reference", "compaction", "auto", "any", "none"),
    *("required", "ephemeral", "5m", "1h", "enabled", "adaptive", "disabled", "high", "max"),
    *("base64", "image/png", "application/pdf", "data:image/png;base64,iVBORw0=", "data:,", "a"),
    *(
        "https://example.com/a.png",
        "t1",
        "c1",
        "snid_",
        "sn1.openai..x",
        "<tool_error>x</tool_error>",
    ),
    *("", " ", "\ud83d", "\0", "é" * 300, "{}", '{"a":1}', "{", "null", "[1]"),
)
_SCALARS = (*(None, True, False, 0, 1, -1, 1024, 2**31, 2**63, 10**30, 0.5, 1.0, 1e308),)


def json_value(d: Draws, depth: int = 4) -> Any:
    """Return a JSON value made of keys and words of bodies."""
    if depth and d.flag(2):
        return {d.pick(_KEYS): json_value(d, depth - 1) for _ in range(d.below(4))}
    if depth and d.flag(2):
        return d.some(3, lambda: json_value(d, depth - 1))
    return d.pick(_SCALARS) if d.flag(3) else d.pick(_WORDS)


def damaged_body(d: Draws, body: Any, others: Sequence[Any] = (), most: int = 3) -> Any:
    """Return a body with one to `most` changes.

    Args:
        d: Random draws.
        body: The body, which is not changed.
        others: Bodies that values are taken from.
        most: Number of changes.
    """
    body = json.loads(json.dumps(body))
    for _ in range(1 + d.below(most)):
        places = [*_places(body)]
        if not places:
            break
        # Two bytes of a draw reach the last place of a long body.
        at = (d.below(256) * 256 + d.below(256)) % len(places)
        _DAMAGES[d.below(len(_DAMAGES))](d, places[at], others or (body,))
    return body


def _places(value: Any) -> Iterator[_Place]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from _places(inner)


def _replace(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    place[0][place[1]] = json_value(d, 2)


def _replace_by_word(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    place[0][place[1]] = d.pick((*_WORDS, *_SCALARS))


def _remove(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    del place[0][place[1]]


def _double(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    container, key = place
    if isinstance(container, list):
        container.insert(d.below(len(container) + 1), json.loads(json.dumps(container[key])))
    else:
        container[d.pick(_KEYS)] = json.loads(json.dumps(container[key]))


def _swap(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    container, key = place
    other = d.pick([*container] if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]


def _rename(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    container, key = place
    if isinstance(container, dict):
        container[d.pick(_KEYS)] = container.pop(key)


def _wrap(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    container, key = place
    container[key] = d.pick(([container[key]], {d.pick(_KEYS): container[key]}))


def _deepen(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    for _ in range(130):
        place[0][place[1]] = [place[0][place[1]]]


def _splice(d: Draws, place: _Place, others: Sequence[Any]) -> None:
    found = [*_places(d.pick(others))]
    container, key = found[(d.below(256) * 256 + d.below(256)) % len(found)]
    place[0][place[1]] = json.loads(json.dumps(container[key]))


_Damage: TypeAlias = Callable[[Draws, _Place, Sequence[Any]], None]
_DAMAGES: tuple[_Damage, ...] = (
    *(_replace, _replace_by_word, _replace_by_word, _remove, _double, _swap, _rename, _wrap),
    *(_splice, _splice, _deepen),
)
