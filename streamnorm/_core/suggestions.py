"""Suggestions for names that are not known, as a dialect or an option."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean"]

# To compare two names takes the product of their lengths.
_MAX_CHARS = 64


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the most similar known name; "" if none is.

    Args:
        name: The name that is not known.
        known: The names that are.
    """
    if len(name) > _MAX_CHARS:
        return ""
    from difflib import get_close_matches  # costs more than the rest of a start-up

    found = get_close_matches(name.lower(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
