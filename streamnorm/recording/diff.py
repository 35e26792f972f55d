"""The diff of two requests, bounded in size, and their similarity."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from msgspec import UNSET

from streamnorm._core.json import is_array, is_object
from streamnorm.recording.format import RecordedRequest

__all__ = ["similarity", "unified_diff"]

_MAX_LINES = 60
_MAX_LINE_CHARS = 200
_CONTEXT_LINES = 3
# Lines between the first and the last difference; the time to compare them is quadratic.
_MAX_COMPARED_LINES = 400
_LEAD_CHARS = 60  # shown of a long line before the position at which it differs


def similarity(one: RecordedRequest, other: RecordedRequest) -> float:
    """Return the share of lines that two requests have in common, from 0 to 1, in linear time."""
    ours, theirs = Counter(_lines(one)), Counter(_lines(other))
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def unified_diff(asked: RecordedRequest, recorded: RecordedRequest, name: str) -> str:
    """Return a unified diff from the recorded request to the one asked; empty if equal.

    Both are written as indented JSON, object members in the order of the recording, and a
    string of several lines as several lines.

    Args:
        asked: The request, normalised for comparison.
        recorded: The recorded request, normalised for comparison.
        name: Name of the recording.
    """
    lines = list(_unified(list(_lines(recorded)), list(_lines(asked, recorded))))
    if not lines:
        return ""
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} more lines"]
    text = "\n".join([f"--- recorded: {name}", "+++ asked", *lines])
    return text.encode(errors="backslashreplace").decode()


def _lines(request: RecordedRequest, model: RecordedRequest | None = None) -> Iterator[str]:
    """Yield the lines of a request, object members in the order of those of `model`."""
    yield f"{request.method} {request.url}"
    if request.body is not UNSET:
        yield from _json_lines(request.body, None if model is None else model.body, "", "")
    if request.text is not None:
        yield from map(_escaped, request.text.split("\n"))
    if request.bytes is not None:
        yield f"({request.bytes} bytes)"


def _json_lines(value: Any, model: Any, indent: str, head: str) -> Iterator[str]:
    """Yield the lines of a JSON value, the first with `head` before the value.

    A comma ends each value, also the last, so that an added value changes no other line.
    """
    inner = indent + "  "
    if is_object(value) and value:
        like = model if is_object(model) else {}
        yield f"{indent}{head}{{"
        for key in [*(k for k in like if k in value), *(k for k in value if k not in like)]:
            yield from _json_lines(value[key], like.get(key), inner, f'"{_escaped(key)}": ')
        yield f"{indent}}},"
    elif is_array(value) and value:
        likes = model if is_array(model) else []
        yield f"{indent}{head}["
        for item, like in zip_longest(value, likes[: len(value)]):
            yield from _json_lines(item, like, inner, "")
        yield f"{indent}],"
    elif isinstance(value, str):
        first, *rest = [_escaped(line) for line in value.split("\n")]
        yield f'{indent}{head}"{first}' + ("\\n" if rest else '",')
        for left, line in zip(range(len(rest) - 1, -1, -1), rest, strict=True):
            yield f"{inner}{line}" + ("\\n" if left else '",')
    else:
        yield f"{indent}{head}{json.dumps(value)},"


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _unified(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines of all hunks; none if nothing differs."""
    if before == after:
        return
    start, left = _common(before, after), _CONTEXT_LINES
    end = _common(before[start:][::-1], after[start:][::-1])
    low = max(0, start - left)
    stops = [min(len(side) - end, start + _MAX_COMPARED_LINES) + left for side in (before, after)]
    ours, theirs = before[low : stops[0]], after[low : stops[1]]
    for group in SequenceMatcher(None, ours, theirs).get_grouped_opcodes(_CONTEXT_LINES):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        yield f"@@ -{low + i1 + 1},{i2 - i1} +{low + j1 + 1},{j2 - j1} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {_cut(line, 0)}" for line in ours[i1:i2])
            else:
                yield from _changed(ours[i1:i2], theirs[j1:j2])
    if max(len(before), len(after)) - end > start + _MAX_COMPARED_LINES:
        yield "… more lines, not compared"


def _changed(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield replaced and replacing lines, each cut to where it begins to differ."""
    positions = [
        0 if one is None or other is None else _common(one, other)
        for one, other in zip_longest(before, after)
    ]
    yield from (f"-{_cut(line, at)}" for line, at in zip(before, positions, strict=False))
    yield from (f"+{_cut(line, at)}" for line, at in zip(after, positions, strict=False))


def _cut(line: str, position: int) -> str:
    """Return a line, cut to `_MAX_LINE_CHARS` around a position."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    start = max(0, min(position - _LEAD_CHARS, len(line) - _MAX_LINE_CHARS))
    stop = start + _MAX_LINE_CHARS
    return ("…" if start else "") + line[start:stop] + ("…" if stop < len(line) else "")


def _common(one: str | list[str], other: str | list[str]) -> int:
    """Return the length of the common prefix, in items or characters, by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
