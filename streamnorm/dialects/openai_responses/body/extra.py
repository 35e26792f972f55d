"""Cache marks, and fields without a unified place, of each part of a request, both directions."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeAlias

from streamnorm._core.blocks import CacheMark
from streamnorm._core.bodies.fields import rest_of
from streamnorm._core.json import is_object
from streamnorm.dialects.openai_responses.wire import DIALECT

__all__ = ["Extra", "extra_of", "mark_and_extra", "mark_to_wire", "own_fields"]

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

_MARK = "prompt_cache_breakpoint"


def extra_of(value: dict[str, Any], mapped: Set[str]) -> Extra:
    """Return the fields of a part that are not mapped."""
    rest = rest_of(value, mapped)
    return None if rest is None else {DIALECT: rest}


def mark_and_extra(part: dict[str, Any], mapped: Set[str]) -> tuple[CacheMark | None, Extra]:
    """Return the cache mark of a content part, and its fields that are not mapped.

    A mark with other fields than these, or in another mode, is an unmapped field.
    """
    rest = rest_of(part, mapped)
    if rest is None:
        return None, None
    mark = rest.get(_MARK)
    if not is_object(mark) or mark.get("mode") != "explicit" or not mark.keys() <= {"mode", "ttl"}:
        return None, {DIALECT: rest}
    ttl = mark.get("ttl")
    if ttl is not None and not isinstance(ttl, str):
        return None, {DIALECT: rest}
    del rest[_MARK]
    return CacheMark(ttl), {DIALECT: rest} if rest else None


def mark_to_wire(mark: CacheMark | None) -> dict[str, Any]:
    """Return the field of a cache mark; {} for none."""
    if mark is None:
        return {}
    ttl = {} if mark.ttl is None else {"ttl": mark.ttl}
    return {_MARK: {"mode": "explicit", **ttl}}


def own_fields(extra: Extra) -> dict[str, Any]:
    """Return the fields of this dialect in the `extra` of a part."""
    return extra.get(DIALECT, {}) if extra else {}
