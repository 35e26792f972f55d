"""Schemas that servers refuse which read only the core of JSON Schema."""

from __future__ import annotations

from typing import Any

from streamnorm._core.json import is_array, is_object

__all__ = ["is_ambiguous"]

_DEFINITIONS = "#/$defs/"


def is_ambiguous(schema: dict[str, Any]) -> bool:
    """Return whether a schema says in two ways of which type its values are, or in none.

    Moonshot wants the type `object` at the root, no `type` beside `anyOf` or `$ref`, references
    to `$defs` alone, and one schema for all items (vercel/ai#18921, MoonshotAI/kimi-code#2661).
    """
    return schema.get("type") != "object" or _holds_ambiguity(schema)


def _holds_ambiguity(value: Any) -> bool:
    # A property may have the name of a keyword: its schema is then simplified without need.
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if is_array(node):
            waiting += node
        elif is_object(node):
            if _is_refused(node):
                return True
            waiting += node.values()
    return False


def _is_refused(node: dict[str, Any]) -> bool:
    has_type, reference = "type" in node, node.get("$ref")
    if has_type and ("anyOf" in node or reference is not None):
        return True
    if isinstance(reference, str) and not reference.startswith(_DEFINITIONS):
        return True
    return "items" in node and not is_object(node["items"])
