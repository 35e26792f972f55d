"""Cache marks, and fields and blocks of requests without a unified place, in both directions."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, TypeAlias

from streamnorm._core.blocks import CacheMark, OpaqueBlock
from streamnorm._core.bodies.fields import rest_of, unexpected
from streamnorm._core.json import compact, is_object, json_value

__all__ = [
    "DIALECT",
    "Extra",
    "add_rest",
    "mark_and_rest",
    "mark_to_wire",
    "opaque_from_wire",
    "opaque_to_wire",
    "own_fields",
]

DIALECT = "anthropic"

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

_MARK = "cache_control"
_PLAIN_MARK = frozenset({"type", "ttl"})
_NEEDS_TYPE = frozenset({_MARK, "tool_choice"})


def mark_and_rest(value: dict[str, Any], mapped: Set[str]) -> tuple[CacheMark | None, Extra]:
    """Return the cache mark of a part, and its fields that are neither the mark nor mapped.

    Fields of the mark that are unknown stay in `cache_control`, without its type.
    """
    rest = rest_of(value, mapped)
    if rest is None:
        return None, None
    mark = rest.get(_MARK)
    if mark is None:
        return None, {DIALECT: rest}
    if not is_object(mark):
        raise unexpected(mark, "an object", f"$.{_MARK}")
    if mark.get("type") != "ephemeral":
        return None, {DIALECT: rest}
    del rest[_MARK]
    ttl = mark.get("ttl")
    if ttl is not None and not isinstance(ttl, str):
        raise unexpected(ttl, "a string", f"$.{_MARK}.ttl")
    if more := rest_of(mark, {"type"} if ttl is None else {"type", "ttl"}):
        rest[_MARK] = more
    return CacheMark(ttl), {DIALECT: rest} if rest else None


def mark_to_wire(mark: CacheMark) -> dict[str, Any]:
    """Return the `cache_control` of a mark."""
    return {"type": "ephemeral"} if mark.ttl is None else {"type": "ephemeral", "ttl": mark.ttl}


def own_fields(extra: Extra) -> dict[str, Any]:
    """Return the fields of this dialect in the `extra` of a part."""
    return extra.get(DIALECT, {}) if extra else {}


def add_rest(value: dict[str, Any], mark: CacheMark | None, rest: dict[str, Any]) -> None:
    """Add the cache mark of a part, and its fields that have no unified place.

    An object without a type adds to the one that is written, and one with a type replaces it;
    any other value is written where there is none.
    """
    if mark is not None:
        value[_MARK] = mark_to_wire(mark)
    for name, item in rest.items():
        if not is_object(item):
            value.setdefault(name, item)
        elif "type" in item:
            value[name] = item
        elif is_object(written := value.get(name)):
            value[name] = {**written, **item}
        elif name not in _NEEDS_TYPE:  # of what is gone
            value[name] = item


def opaque_from_wire(kind: str, block: dict[str, Any]) -> OpaqueBlock:
    """Return a block that has no unified counterpart; its data lacks the mark."""
    mark = block.get(_MARK)
    if not (is_object(mark) and mark.keys() <= _PLAIN_MARK):
        return OpaqueBlock(DIALECT, kind, compact(block))
    cache, _ = mark_and_rest({_MARK: mark}, frozenset())
    data = {name: item for name, item in block.items() if name != _MARK}
    return OpaqueBlock(DIALECT, kind, compact(data), cache=cache)


def opaque_to_wire(block: OpaqueBlock, path: str) -> dict[str, Any]:
    """Return a block that has no unified counterpart.

    Raises:
        EncodeError: Its data are no JSON.
    """
    value: dict[str, Any] = json_value(block.data, "data", path)
    if block.cache is not None:
        value[_MARK] = mark_to_wire(block.cache)
    return value
