"""Removal of a field from a JSON object, by path."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["without"]


def without(value: dict[str, Any], *path: str | int) -> dict[str, Any]:
    """Return an object without the field at a path."""
    copy: Any = json.loads(json.dumps(value))
    place = copy
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return dict(copy)
