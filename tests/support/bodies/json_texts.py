"""Strategies of JSON documents, JSON-like invalid texts, and fragments."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = [
    "ANY_TEXT",
    "NEAR_JSON",
    "PLAIN",
    "documents",
    "exactly",
    "nested",
    "pieces",
    "values",
    "within",
]

PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
ANY_TEXT = PLAIN | st.text(st.sampled_from('ab"\\é😀\ud83d\ude00\n\x7f'), max_size=6)


def values(text: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
    return st.recursive(
        scalars.filter(lambda value: value not in (float("inf"), float("-inf"))),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=12,
    )


@st.composite
def documents(draw: st.DrawFn, text: st.SearchStrategy[str] = ANY_TEXT) -> str:
    """Return a JSON document in one of its spellings."""
    return json.dumps(
        draw(values(text)),
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.none() | st.integers(0, 2)),
        separators=draw(st.sampled_from([None, (",", ":"), (" ,\r\n", "\t: ")])),
    )


# Tokens of invalid JSON.
SCRAPS = ["{", "}", "[", "]", ":", ",", '"', '"a"', '{"a":', "\\", "\\u", "\\n", "d83d", "\\ude00"]
SCRAPS += ["0", "1", "-", ".", "e", "+", "true", "fal", "se", "null", "N", " ", "\n", "\x01", "é"]
NEAR_JSON = st.lists(st.sampled_from(SCRAPS), max_size=12).map("".join)


@st.composite
def pieces(draw: st.DrawFn, text: st.SearchStrategy[str]) -> list[str]:
    """Return a text divided at random positions."""
    whole = draw(text)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def exactly(value: object) -> str:
    """Return a form of a value that distinguishes 1, 1.0 and True, and key orders."""
    return repr(value)


def within(part: object, whole: object) -> bool:
    """Return whether a partial value can grow to another."""
    match part, whole:
        case dict(), dict():
            return list(part) == list(whole)[: len(part)] and all(
                within(part[key], whole[key]) for key in part
            )
        case list(), list():
            return len(part) <= len(whole) and all(map(within, part, whole))
        case str(), str():
            return whole.startswith(part)
        case _:
            return exactly(part) == exactly(whole)


def nested(depth: int) -> Any:
    """Return a value inside `depth` containers, the outermost an object."""
    value: Any = 1
    for level in reversed(range(depth)):
        value = [value] if level % 2 else {"a": value}
    return value
