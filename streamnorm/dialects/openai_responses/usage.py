"""Token counts of Responses.

`input_tokens` holds what was read from the cache and written to it, `output_tokens` the
reasoning.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of, is_object

__all__ = ["merge_usage"]

_INPUT, _OUTPUT = "input_tokens_details", "output_tokens_details"


def merge_usage(before: Usage, wire: dict[str, Any]) -> Usage:
    """Return the snapshot after one more usage object; what it does not say stays."""
    rest: dict[str, Any] = {
        key: dict(value) if is_object(value) else value for key, value in wire.items()
    }
    _take(rest, "total_tokens")  # the sum of two others
    said: dict[str, Any] = {
        "input_tokens": _take(rest, "input_tokens"),
        "output_tokens": _take(rest, "output_tokens"),
        "cache_read_tokens": _take(rest.get(_INPUT), "cached_tokens"),
        "cache_write_tokens": _take(rest.get(_INPUT), "cache_write_tokens"),
        "reasoning_tokens": _take(rest.get(_OUTPUT), "reasoning_tokens"),
    }
    for key in (_INPUT, _OUTPUT):
        if rest.get(key) == {}:
            del rest[key]
    more = {key: value for key, value in rest.items() if value is not None}
    said["extra"] = {**(before.extra or {}), **more} or None
    return structs.replace(
        before, **{key: value for key, value in said.items() if value is not None}
    )


def _take(owner: Any, key: str) -> int | None:
    """Remove a count from its object, and return it; what is no count stays there."""
    count = count_of(owner.get(key)) if is_object(owner) else None
    if count is not None:
        del owner[key]
    return count
