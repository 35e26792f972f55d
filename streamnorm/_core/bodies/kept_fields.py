"""The fields of a body that a request was decoded from, kept where their parts are unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from streamnorm._core.bodies.request import Request, Source

__all__ = ["keep_fields"]

_REST = ("extra",)


def keep_fields(
    body: dict[str, Any],
    request: Request,
    parts: Mapping[str, tuple[str, ...]],
    *,
    unread: Set[str],
    is_spelt: bool,
) -> dict[str, Any]:
    """Return a body whose unchanged fields are spelt, and stand, as they were decoded.

    Args:
        body: The body that was written; it is not changed.
        request: What it was written from, decoded from the same dialect.
        parts: The fields of `Request` that each field of a body holds; one that is not named
            holds what has no unified place.
        unread: Fields in which the server reads nothing.
        is_spelt: Whether the body has all unchanged fields as they were decoded: a missing one
            was dropped.
    """
    source: Source = request.source
    before = source.value
    changed = {
        name
        for name in request.__struct_fields__
        if name != "source" and getattr(request, name) is not getattr(source.part, name)
    }
    extra: Mapping[str, Mapping[str, Any]] = source.part.extra or {}
    unmapped = extra.get(source.dialect, {})
    kept: dict[str, Any] = {}
    for name, value in before.items():
        held = parts.get(name, _REST)
        if name in unmapped:  # it may be mapped in part
            held = (*held, *_REST)
        is_same = changed.isdisjoint(held)
        if name in unread or (is_same and (name in body or not is_spelt)):
            kept[name] = value
        elif name in body:
            kept[name] = body[name]
    added = body.keys() - before.keys()
    return kept | {
        name: value
        for name, value in body.items()
        if name in added and not changed.isdisjoint(parts.get(name, _REST))
    }
