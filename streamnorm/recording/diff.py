"""How two requests differ, as a text of bounded size."""

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
# Between the first and the last difference; comparing may take more than the square of it.
_MAX_COMPARED_LINES = 400
_LEAD_CHARS = 60  # shown of a long line before the place where it differs


def similarity(one: RecordedRequest, other: RecordedRequest) -> float:
    """Return how much of two requests is the same, from 0 to 1, in linear time."""
    ours, theirs = Counter(_lines(one)), Counter(_lines(other))
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def unified_diff(asked: RecordedRequest, recorded: RecordedRequest, name: str) -> str:
    """Return a unified diff that leads from what was recorded to what is asked.

    Both are written as JSON, the members of objects in the order of the recording, and a
    text of several lines as several lines.  Empty if nothing differs.

    Args:
        asked: As it was compared.
        recorded: As it was compared.
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
    """Yield a request as lines, its members in the order of those of `model`."""
    yield f"{request.method} {request.url}"
    if request.body is not UNSET:
        yield from _json_lines(request.body, None if model is None else model.body, "", "")
    if request.text is not None:
        yield from map(_escaped, request.text.split("\n"))
    if request.bytes is not None:
        yield f"({request.bytes} bytes)"


def _json_lines(value: Any, model: Any, indent: str, head: str) -> Iterator[str]:
    """Yield JSON as lines, `head` before it.

    A comma ends each value, the last one too, so that one more changes no line but its own.
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
    """Yield the hunks of a unified diff, nothing if nothing differs."""
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
    """Yield lines in place of which others stand, each cut to where it begins to differ."""
    places = [
        0 if one is None or other is None else _common(one, other)
        for one, other in zip_longest(before, after)
    ]
    yield from (f"-{_cut(line, place)}" for line, place in zip(before, places, strict=False))
    yield from (f"+{_cut(line, place)}" for line, place in zip(after, places, strict=False))


def _cut(line: str, place: int) -> str:
    """Return a line, or so much of it as may be shown around a place."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    start = max(0, min(place - _LEAD_CHARS, len(line) - _MAX_LINE_CHARS))
    stop = start + _MAX_LINE_CHARS
    return ("…" if start else "") + line[start:stop] + ("…" if stop < len(line) else "")


def _common(one: str | list[str], other: str | list[str]) -> int:
    """Return how many items, or characters, are the same from the start on."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
