"""Comparison of requests, ignoring details that vary between a client's runs.

Read in requests that Claude Code, Codex, opencode, Gemini CLI, Qwen Code, pi and the
official SDKs sent in November 2026.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Any
from urllib.parse import urlencode

from msgspec import UNSET

from streamnorm._core.json import is_array, is_object
from streamnorm._core.text import common_prefix_size
from streamnorm._registry import DIALECTS
from streamnorm.http.urls import detect_url, path_of, query_of
from streamnorm.recording.conversations import as_http_request
from streamnorm.recording.format import RecordedRequest
from streamnorm.recording.secrets.credentials import (
    HARMLESS_QUERY,
    is_secret_field,
    is_secret_header,
)

_SCRUBBED = "xxxxxxxx"
# The shortest secret that is searched for in texts has six characters.
_SCRUBBED_RUN = re.compile("x{6,}")

_SESSION_FIELDS = frozenset({"client_metadata", "prompt_cache_key", "safety_identifier"})
_CALL_IDS = frozenset({"call_id", "tool_call_id", "tool_use_id"})
_CALL = "call-"
_RESULT_ENDS = ("call_output", "tool_result")
_CALL_TYPES = frozenset({"mcp_tool_use", "server_tool_use", "tool_use"})
_CALL_PLACES = frozenset({"functionCall", "functionResponse", "tool_calls"})
# Output of models and tools, and schemas: names within have no meaning here.
_OPAQUE = frozenset(
    {
        "args",
        "arguments",
        "input",
        "input_schema",
        "parameters",
        "parametersJsonSchema",
        "response",
        "responseJsonSchema",
        "responseSchema",
        "schema",
    }
)

# Up to the year, in any language, and an optional time of day.
_DATE = (
    r"[^\n:;!?()<]{0,40}?(?<![0-9])[0-9]{4}(?![0-9])[^\s<\"]*"
    r"(?:,?(?: at)? [0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[AP]M)?(?: [A-Z]{2,5}\b)?)?"
)
_PATH = r"(?:/|~|[A-Za-z]:[\\/])"
_DIRECTORIES = (
    r"(?:(?:primary|current|additional) )?working director(?:y|ies)"
    r"|workspace (?:root(?: folder)?|director(?:y|ies))"
    r"|I'm currently working in the (?:following )?director(?:y|ies)"
    r"|the project's temporary directory is"
)
# Each pattern with lower-case words, one of which any match contains: a cheap test first.
_ENVIRONMENT: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = tuple(
    (tuple(words.split("|")), re.compile(pattern, re.IGNORECASE | re.MULTILINE), replacement)
    for words, pattern, replacement in (
        (
            "date",
            rf"((?:today['\u2019]s date|current date(?: and time)?)(?: is(?: now)?)?:? ){_DATE}",
            r"\1<date>",
        ),
        ("<current_|<timezone>", r"<(current_date|current_time|timezone)>[^<\n]*<", r"<\1><"),
        ("<cwd>|<root>", rf"<(cwd|root)>{_PATH}[^<\n]*<", r"<\1><"),
        # The directory on the same line, or a list of them on the next ones.
        (
            "director|workspace root",
            rf"^([ \t*-]*(?:{_DIRECTORIES}):[*]*)"
            rf"(?:[ \t]*{_PATH}[^\n]*|(?:\n[ \t]*-[ \t]+{_PATH}[^\n]*)+)",
            r"\1 <directory>",
        ),
        # Claude Code's memory of a project.
        # From where its path begins, so that a long word is read once.
        (
            ".claude/projects/",
            r"(?<![^\s`'\"])[^\s`'\"]*/\.claude/projects/[^\s/`'\"]+",
            "<directory>",
        ),
        # Above the tree of its files.
        ("├|└", rf"^{_PATH}[^\n]*(?=\n\n?[├└])", "<directory>"),
        ("os version:", r"^([ \t*-]*OS Version:)[^\n]*", r"\1"),
        # Written by Codex above the output of a command.
        ("chunk id:", r"^(Chunk ID:) [0-9a-f]+$", r"\1"),
        ("wall time", r"^(Wall time:?) [0-9.e-]+ seconds$", r"\1"),
        ('"chunk_id"', r'("chunk_id":) ?"[0-9a-f]+"', r"\1"),
        ('"wall_time_', r'("wall_time_seconds":) ?[0-9.e-]+', r"\1"),
    )
)

_BOUNDARY = re.compile(r"multipart/[^;]*;[^,]*?boundary=\"?([^\";,\s]{8,70})", re.IGNORECASE)
_MAX_LINES = 60
_MAX_LINE_CHARS = 200
_CONTEXT_LINES = 3
# Lines between the first and the last difference; the time to compare them is quadratic.
_MAX_COMPARED_LINES = 400
# An escaped line end, and no escaped backslash before an "n".
_NEWLINE = re.compile(r"(?<!\\)((?:\\\\)*\\n)")
_LEAD_CHARS = 60  # shown of a long line before the position at which it differs


def normalise(
    request: RecordedRequest, ignore: Sequence[str | re.Pattern[str]] = ()
) -> RecordedRequest:
    """Return a request without details that vary between a client's runs.

    Left out or unified are: headers and the host; ids of the session, of input items and of the
    user; `cache_control`; system blocks with a volatile prefix; ids of tool calls, which become
    `call-1`, `call-2` in order of appearance; the order of tool results; the date, the working
    directory and the like in the prompt of an agent; the length of redacted secrets.

    Args:
        request: Without secrets.
        ignore: Regular expressions whose matches in strings are removed.
    """
    return _rewrite(request, _Normaliser(ignore))


def mask_secrets(
    request: RecordedRequest, ignore: Sequence[str | re.Pattern[str]] = ()
) -> RecordedRequest:
    """Return a request without headers and host, in which all redacted secrets look the same.

    Args:
        request: Without secrets.
        ignore: Regular expressions whose matches in strings are removed.
    """
    return _rewrite(request, _Rewriter(ignore))


def same_operation(asked: RecordedRequest, recorded: RecordedRequest, dialect: str | None) -> bool:
    """Return whether two requests have the same method, path and dialect.

    One path may be a suffix of the other: a proxy or a base URL may add a prefix.

    Args:
        asked: The request to answer.
        recorded: The recorded request.
        dialect: Dialect of the recording; None if it is unknown.
    """
    if asked.method.upper() != recorded.method.upper():
        return False
    if dialect is not None and detect_url(asked.url) not in (dialect, None):
        return False
    shorter, longer = sorted((path_of(asked.url), path_of(recorded.url)), key=len)
    return longer.endswith(shorter)


def same_request(asked: RecordedRequest, recorded: RecordedRequest) -> bool:
    """Return whether two requests have the same query and body.

    Numbers are compared by value; the order of an object's members does not count.
    A recorded request without a body, such as one written by hand, equals any.  Of a body that is
    not stored the digest counts, or its size alone if the body was not read when it was recorded.
    """
    if not _same_query(query_of(asked.url), query_of(recorded.url)):
        return False
    if recorded.sha256 is not None:
        return asked.sha256 == recorded.sha256
    if recorded.body is UNSET and recorded.text is None and recorded.bytes is None:
        return True
    if recorded.text is None and recorded.bytes is not None:  # which is not stored
        return asked.bytes in (None, recorded.bytes)
    return _same_json(asked.body, recorded.body) and asked.text == recorded.text


def _same_query(asked: list[tuple[str, str]], recorded: list[tuple[str, str]]) -> bool:
    known = {name for name, _ in recorded}
    # Older recordings have no harmless parameters.
    left = [each for each in asked if each[0] in known or each[0].lower() not in HARMLESS_QUERY]
    return left == recorded


def _same_json(one: Any, other: Any) -> bool:
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_same_json(v, other[k]) for k, v in one.items())
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(map(_same_json, one, other))
    # True is 1 in Python, and in no JSON.
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _rewrite(request: RecordedRequest, rewriter: _Rewriter) -> RecordedRequest:
    kind = request.headers.get("content-type", "")
    # Clients make up another one for each upload.
    boundary = found[1] if (found := _BOUNDARY.search(kind)) else None
    request = as_http_request(request)
    text = request.text
    size = request.bytes
    if text is not None:
        size = len(text.encode())
        text = text.replace(boundary, "boundary") if boundary else text
    path = rewriter.rewrite_text(path_of(request.url))
    query = urlencode(
        [(name, rewriter.rewrite_text(value)) for name, value in query_of(request.url)]
    )
    return RecordedRequest(
        request.method.upper(),
        f"{path}?{query}" if query else path,
        {},
        UNSET if request.body is UNSET else rewriter.rewrite_body(request.body),
        None if text is None else rewriter.rewrite_text(text),
        size,
        request.sha256,
    )


class _Rewriter:
    """Rewrites strings: masks redacted secrets equally, and removes matches of `ignore`."""

    def __init__(self, ignore: Sequence[str | re.Pattern[str]]) -> None:
        self._ignore = [re.compile(pattern) for pattern in ignore]

    def rewrite_text(self, text: str) -> str:
        for pattern in self._ignore:
            text = pattern.sub("", text)
        return _SCRUBBED_RUN.sub(_SCRUBBED, text) if "xxxxxx" in text else text

    def rewrite_body(self, value: Any) -> Any:
        return self.rewrite_opaque(value)

    def rewrite_opaque(self, value: Any) -> Any:
        """Return a value of arbitrary structure with its strings rewritten."""
        if isinstance(value, str):
            return self.rewrite_text(value)
        if is_array(value):
            return [self.rewrite_opaque(item) for item in value]
        if is_object(value):
            return {
                key: _SCRUBBED if _is_scrubbed(key, item) else self.rewrite_opaque(item)
                for key, item in value.items()
            }
        return value


class _Normaliser(_Rewriter):
    """Removes details that vary between a client's runs."""

    def __init__(self, ignore: Sequence[str | re.Pattern[str]]) -> None:
        super().__init__(ignore)
        self._calls: dict[str, str] = {}
        self._items: dict[str, str] = {}

    def rewrite_text(self, text: str) -> str:
        text = super().rewrite_text(text)
        lower = text.lower()
        for words, pattern, replacement in _ENVIRONMENT:
            if any(word in lower for word in words):
                text = pattern.sub(replacement, text)
        return text

    def rewrite_body(self, value: Any) -> Any:
        if not is_object(value):
            return self._rewrite_value(value, "")
        return {
            key: self._rewrite_field(key, item)
            for key, item in value.items()
            if key not in _SESSION_FIELDS and not (key == "metadata" and not _drop(item, "user_id"))
        }

    def _rewrite_field(self, key: str, value: Any) -> Any:
        """Return a top-level field of the body without varying details."""
        if key == "input" and is_array(value):
            items = [item if _is_reference(item) else _drop(item, "id") for item in value]
            return _sort_results([self._rewrite_value(item, "") for item in items])
        if key == "metadata":
            return self.rewrite_opaque(_drop(value, "user_id"))
        if key == "system" and is_array(value):
            value = [block for block in value if not _is_volatile(block)]
        return self._rewrite_value(value, key)

    def _rewrite_value(self, value: Any, place: str) -> Any:
        """Return a value in the body without varying details.

        Args:
            value: Any JSON.
            place: Name of the member that holds it, directly or in an array.
        """
        if is_array(value):
            return _sort_results([self._rewrite_value(item, place) for item in value])
        if not is_object(value) or place in _OPAQUE:
            return self.rewrite_opaque(value)
        return {
            key: self._rewrite_member(value, key, item, place)
            for key, item in value.items()
            if key != "cache_control"
        }

    def _rewrite_member(self, owner: dict[str, Any], key: str, value: Any, place: str) -> Any:
        if not isinstance(value, str):
            return self._rewrite_value(value, key)
        if _is_scrubbed(key, value):
            return _SCRUBBED
        if key in _CALL_IDS or (key == "id" and _is_call(owner, place)):
            return self._calls.setdefault(value, f"{_CALL}{len(self._calls) + 1}")
        if key == "approval_request_id" or (key == "id" and _is_reference(owner)):
            return self._items.setdefault(value, f"item-{len(self._items) + 1}")
        return self.rewrite_text(value)


def _sort_results(items: list[Any]) -> list[Any]:
    """Return a list with adjacent tool results sorted by their calls.

    Parallel tools finish in any order, and Claude Code sends their results in that order.
    """
    ordered: list[Any] = []
    for are_results, group in groupby(items, lambda item: _call_number_of(item) > 0):
        run = list(group)
        ordered += sorted(run, key=_call_number_of) if are_results else run
    return ordered


def _call_number_of(item: Any) -> int:
    """Return the position of a tool result's call; 0 for other items."""
    if not is_object(item):
        return 0
    if item.get("role") != "tool" and not str(item.get("type")).endswith(_RESULT_ENDS):
        return 0
    call = next((str(item[key]) for key in _CALL_IDS if key in item), "")
    return int(call.removeprefix(_CALL)) if call.startswith(_CALL) else 0


def _is_scrubbed(key: str, value: Any) -> bool:
    """Return whether a field is a secret redacted with a mask of any length."""
    return (
        isinstance(value, str)
        and value.strip("x") == "" != value
        and (is_secret_field(key) or is_secret_header(key))
    )


def _drop(value: Any, name: str) -> Any:
    """Return a value without the field `name`."""
    if not is_object(value):
        return value
    return {key: item for key, item in value.items() if key != name}


def _is_reference(item: Any) -> bool:
    return is_object(item) and item.get("type") == "item_reference"


def _is_volatile(block: Any) -> bool:
    """Return whether a client changes a system block with each request."""
    prefixes = filter(None, (each.endpoints.volatile_system_prefix for each in DIALECTS.values()))
    return is_object(block) and str(block.get("text")).startswith(tuple(prefixes))


def _is_call(owner: dict[str, Any], place: str) -> bool:
    return place in _CALL_PLACES or owner.get("type") in _CALL_TYPES


def measure_similarity(one: RecordedRequest, other: RecordedRequest) -> float:
    """Return the share of lines that two requests have in common, from 0 to 1."""
    ours, theirs = Counter(_write_lines(one)), Counter(_write_lines(other))
    return 2 * (ours & theirs).total() / (ours.total() + theirs.total())


def diff_requests(asked: RecordedRequest, recorded: RecordedRequest, name: str) -> str:
    """Return a unified diff of a recorded and a received request; "" if they are equal.

    Both are written as indented JSON, object members in the order of the recording, and a
    string of several lines as several lines.

    Args:
        asked: The request, normalised for comparison.
        recorded: The recorded request, normalised for comparison.
        name: Name of the recording.
    """
    lines = list(_write_hunks(list(_write_lines(recorded)), list(_write_lines(asked, recorded))))
    if not lines:
        return ""
    if len(lines) > _MAX_LINES:
        lines = [*lines[:_MAX_LINES], f"… {len(lines) - _MAX_LINES} more lines"]
    text = "\n".join([f"--- recorded: {name}", "+++ asked", *lines])
    return text.encode(errors="backslashreplace").decode()


def _write_lines(request: RecordedRequest, model: RecordedRequest | None = None) -> Iterator[str]:
    """Yield the lines of a request, with fields in the order of `model`."""
    yield f"{request.method} {request.url}"
    if request.body is not UNSET:
        yield from _write_json_lines(request.body, None if model is None else model.body)
    if request.text is not None:
        yield from map(_escape, request.text.split("\n"))
    if request.text is None and request.bytes is not None:
        digest = "" if request.sha256 is None else f", SHA-256 {request.sha256}"
        yield f"({request.bytes} bytes{digest})"


def _write_json_lines(value: Any, model: Any) -> Iterator[str]:
    """Yield the lines of a JSON value; multi-line strings become several lines.

    A comma ends each value, also the last, so that an added value changes no other line.
    """
    text = json.dumps(_arrange(value, model), ensure_ascii=False, indent=2)
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
        line = line if line.endswith(("{", "[", ",")) else f"{line},"
        yield from _NEWLINE.sub(rf"\1\n{indent}", line).split("\n")


def _arrange(value: Any, model: Any) -> Any:
    """Return a JSON value with fields in the order of `model`."""
    if is_object(value):
        like = model if is_object(model) else {}
        names = [*(name for name in like if name in value), *(n for n in value if n not in like)]
        return {name: _arrange(value[name], like.get(name)) for name in names}
    if is_array(value):
        likes = model if is_array(model) else []
        return [_arrange(item, like) for item, like in zip_longest(value, likes[: len(value)])]
    return value


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _write_hunks(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines of all diff hunks."""
    if before == after:
        return
    start, left = common_prefix_size(before, after), _CONTEXT_LINES
    end = common_prefix_size(before[start:][::-1], after[start:][::-1])
    low = max(0, start - left)
    stops = [min(len(side) - end, start + _MAX_COMPARED_LINES) + left for side in (before, after)]
    ours, theirs = before[low : stops[0]], after[low : stops[1]]
    for group in SequenceMatcher(None, ours, theirs).get_grouped_opcodes(_CONTEXT_LINES):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        yield f"@@ -{low + i1 + 1},{i2 - i1} +{low + j1 + 1},{j2 - j1} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {_clip(line, 0)}" for line in ours[i1:i2])
            else:
                yield from _write_changes(ours[i1:i2], theirs[j1:j2])
    if max(len(before), len(after)) - end > start + _MAX_COMPARED_LINES:
        yield "… more lines, not compared"


def _write_changes(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the removed and added lines, each cut to the part around its first difference."""
    positions = [
        0 if one is None or other is None else common_prefix_size(one, other)
        for one, other in zip_longest(before, after)
    ]
    yield from (f"-{_clip(line, at)}" for line, at in zip(before, positions, strict=False))
    yield from (f"+{_clip(line, at)}" for line, at in zip(after, positions, strict=False))


def _clip(line: str, position: int) -> str:
    """Return a line clipped to `_MAX_LINE_CHARS` around a position."""
    if len(line) <= _MAX_LINE_CHARS:
        return line
    start = max(0, min(position - _LEAD_CHARS, len(line) - _MAX_LINE_CHARS))
    stop = start + _MAX_LINE_CHARS
    return ("…" if start else "") + line[start:stop] + ("…" if stop < len(line) else "")
