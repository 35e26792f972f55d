"""Cache marks, and fields of requests without a unified place, in both directions.

Unmapped fields of an inner object, such as `image_url.url_type`, stand in `extra` within an
object of that name.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeAlias

from streamnorm._core.blocks import CacheMark
from streamnorm._core.bodies.fields import unmapped
from streamnorm._core.json import is_object

__all__ = [
    "DIALECT",
    "Extra",
    "add_extra",
    "extra_of",
    "mark_and_extra",
    "mark_to_wire",
    "own_fields",
]

DIALECT = "openai_chat"

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

# The vendor's mark, and that of OpenRouter and LiteLLM, which is Anthropic's.
_MARKS = {
    "prompt_cache_breakpoint": ("mode", "explicit"),
    "cache_control": ("type", "ephemeral"),
}


def extra_of(fields: dict[str, Any]) -> Extra:
    """Return fields as the `extra` of a part; None if there are none."""
    return {DIALECT: fields} if fields else None


def own_fields(extra: Extra) -> dict[str, Any]:
    """Return the fields of this dialect in the `extra` of a part."""
    return extra.get(DIALECT, {}) if extra else {}


def add_extra(value: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """Add the fields in `extra`, except those that `value` has, and return `value`."""
    for name, item in own_fields(extra).items():
        if name not in value:
            value[name] = item
        elif is_object(item) and is_object(written := value[name]):
            value[name] = {**item, **written}
    return value


def mark_and_extra(
    part: dict[str, Any], mapped: Set[str], inner: dict[str, Any] | None = None
) -> tuple[CacheMark | None, Extra]:
    """Return the cache mark of a part, and its fields that are not mapped.

    A mark that has more than a lifetime is an unmapped field.

    Args:
        part: The part.
        mapped: Fields that have a unified place.
        inner: Unmapped fields of an inner object, by its name, as `{"image_url": {…}}`.
    """
    rest = unmapped(part, mapped)
    if not rest and not inner:
        return None, None
    mark: CacheMark | None = None
    for name, (key, word) in _MARKS.items():
        value = rest.get(name)
        if mark is None and is_object(value) and value.get(key) == word:
            ttl = value.get("ttl")
            if value.keys() <= {key, "ttl"} and (ttl is None or isinstance(ttl, str)):
                mark = CacheMark(ttl)
                del rest[name]
    if inner:
        rest |= {name: fields for name, fields in inner.items() if fields}
    return mark, extra_of(rest)


def mark_to_wire(mark: CacheMark) -> dict[str, Any]:
    """Return the fields of a cache mark."""
    ttl = {} if mark.ttl is None else {"ttl": mark.ttl}
    return {"prompt_cache_breakpoint": {"mode": "explicit", **ttl}}
