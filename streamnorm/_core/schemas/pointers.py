"""Pointers into a JSON Schema, as `$ref` has them: `#/$defs/Name`."""

from __future__ import annotations

from typing import Any

from streamnorm._core.json import is_array, is_object

__all__ = ["MISSING", "pointed_at", "pointer_to"]

MISSING = object()
"""What a pointer that leads nowhere points at."""


def pointed_at(root: dict[str, Any], pointer: str) -> Any:
    """Return what a pointer leads to in a schema; `MISSING` if it leads nowhere."""
    if pointer != "#" and not pointer.startswith("#/"):
        return MISSING
    value: Any = root
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if is_object(value):
            value = value.get(name, MISSING)
        elif is_array(value) and name.isascii() and name.isdecimal() and len(name) < 10:
            value = value[int(name)] if int(name) < len(value) else MISSING
        else:
            return MISSING
    return value


def pointer_to(name: str) -> str:
    """Return the pointer to a definition."""
    return "#/$defs/" + name.replace("~", "~0").replace("/", "~1")
