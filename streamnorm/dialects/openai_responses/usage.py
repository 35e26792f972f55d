"""Token counts.

`input_tokens` includes tokens read from and written to the cache, `output_tokens` includes
reasoning tokens.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.events import Usage
from streamnorm._core.json import count_of, is_object

_INPUT, _OUTPUT = "input_tokens_details", "output_tokens_details"


def usage_from_wire(previous: Usage, usage: dict[str, Any]) -> Usage:
    """Return `previous` with the counts of a usage object; absent counts stay."""
    rest: dict[str, Any] = {
        key: dict(value) if is_object(value) else value for key, value in usage.items()
    }
    _pop_count(rest, "total_tokens")  # the sum of two others
    fields: dict[str, Any] = {
        "input_tokens": _pop_count(rest, "input_tokens"),
        "output_tokens": _pop_count(rest, "output_tokens"),
        "cache_read_tokens": _pop_count(rest.get(_INPUT), "cached_tokens"),
        "cache_write_tokens": _pop_count(rest.get(_INPUT), "cache_write_tokens"),
        "reasoning_tokens": _pop_count(rest.get(_OUTPUT), "reasoning_tokens"),
    }
    for key in (_INPUT, _OUTPUT):
        if rest.get(key) == {}:
            del rest[key]
    extra = {key: value for key, value in rest.items() if value is not None}
    fields["extra"] = {**(previous.extra or {}), **extra} or None
    return structs.replace(
        previous, **{key: value for key, value in fields.items() if value is not None}
    )


def _pop_count(owner: Any, key: str) -> int | None:
    """Remove and return a count; any other value stays in `owner`."""
    count = count_of(owner.get(key)) if is_object(owner) else None
    if count is not None:
        del owner[key]
    return count


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return the usage object of a terminal event; unknown counts are 0.

    Args:
        usage: The counts.
        extras: Whether to write `usage.extra` back.
    """
    extra: dict[str, Any] = (usage.extra or {}) if extras else {}
    input_tokens, output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
    # Codex fails at incomplete details.
    return {
        **extra,
        "input_tokens": input_tokens,
        _INPUT: {
            **_object(extra.get(_INPUT)),
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": output_tokens,
        _OUTPUT: {
            **_object(extra.get(_OUTPUT)),
            "reasoning_tokens": usage.reasoning_tokens or 0,
        },
        "total_tokens": input_tokens + output_tokens,
    }


def _object(value: object) -> dict[str, Any]:
    return value if is_object(value) else {}
