"""Strict validation of a stream: an oracle for tests of gateways.

Events are checked against the grammar, bytes against the strict rules of a dialect.  No code
is shared with the decoders, which forgive.  Framing is checked here for all dialects, payloads
by the checker of the dialect.

Legal in every dialect are blank lines, CR, LF and CRLF, and payloads of several `data`
lines; in all but Gemini comments and `data:` without a space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import overload

from streamnorm._core import grammar
from streamnorm._core.codec import MAX_PROBLEMS, Checker
from streamnorm._core.events import Event
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._registry import checker
from streamnorm.sse import Frame

__all__ = ["validate"]

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


@overload
def validate(source: Iterable[Event], /) -> list[Violation]: ...
@overload
def validate(source: bytes, /, dialect: str, *, limits: Limits = ...) -> list[Violation]: ...


def validate(
    source: Iterable[Event] | bytes,
    /,
    dialect: str | None = None,
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> list[Violation]:
    """Return every violation of the protocol in a whole stream; none means that it is legal.

    The position of a violation is the number of the event or, in bytes, of the frame, from 0.
    Something that is missing at the end has the position after the last one, as has a last
    frame without its blank line.  After 1,000 violations one more says that there are more.

    Args:
        source: All events, or all bytes of the wire.
        dialect: Dialect of the bytes; without it, `source` is events.
        limits: Bounds, of which `max_event_bytes` applies to bytes.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be checked.
    """
    if not isinstance(source, bytes):
        return grammar.validate(source)
    if dialect is None:
        raise TypeError("bytes without a dialect, expected the name of one")
    problems = _violations(source, checker(dialect), limits.max_event_bytes)
    violations = list(islice(problems, MAX_PROBLEMS))
    for further in islice(problems, 1):
        message = f"more than {MAX_PROBLEMS} violations, expected none"
        violations.append(Violation(further.position, message))
    return violations


def _violations(data: bytes, judge: Checker, max_event_bytes: int) -> Iterator[Violation]:
    position = 0
    for found in _Framing(judge, max_event_bytes).read(data):
        if isinstance(found, str):
            yield Violation(position, found)
            continue
        for message in judge.check(found) if found.data else ():
            yield Violation(position, message)
        position += 1
    for message in judge.missing():
        yield Violation(position, message)


class _Framing:
    """Strict reader of frames.

    Args:
        judge: The checker, which says what lines the dialect's clients break on.
        max_event_bytes: Bytes of one event's lines, each with its line end.
    """

    def __init__(self, judge: Checker, max_event_bytes: int) -> None:
        self._judge = judge
        self._max_event_bytes = max_event_bytes
        self._begin()

    def read(self, data: bytes) -> Iterator[Frame | str]:
        """Yield frames and problems, in their order.

        A frame that cannot be read is empty.  An event without its blank line, which
        clients drop, is a problem and a frame, so that one mistake is reported once.
        """
        start = 0
        if data.startswith(_BOM):
            yield "byte order mark, expected none"
            start = len(_BOM)
        for end in _LINE_END.finditer(data, start):
            line = data[start : end.start()]
            yield from self._line(line) if line else self._dispatch()
            start = end.end()
        if start < len(data):
            yield from self._line(data[start:])
        if self._data or self._event or self._is_too_large():
            yield f"event of {self._size} bytes ends without a blank line, expected one"
        if self._data or self._is_too_large():
            yield from self._dispatch()

    def _begin(self) -> None:
        self._size = 0
        self._data: list[str] = []
        self._event = ""

    def _is_too_large(self) -> bool:
        return self._size > self._max_event_bytes

    def _line(self, line: bytes) -> Iterator[str]:
        try:
            text = line.decode()
        except UnicodeDecodeError as exc:
            yield f"byte {exc.start} of a line of {len(line)} is invalid, expected UTF-8"
            text = line.decode(errors="replace")
        if text.startswith(":"):
            if self._judge.rejects_comments:
                yield f"comment of {len(line)} bytes, expected data lines alone"
            return
        self._size += len(line) + 1
        if self._is_too_large():
            self._data.clear()
            return
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                if self._judge.rejects_comments and not text.startswith("data: "):
                    yield "data line without a space, expected one behind the colon"
                self._data.append(value)
            case "event":
                self._event = value
            case "id" | "retry":
                if self._judge.rejects_id_and_retry:
                    yield f"{name} line, expected data lines alone"
            case _:
                yield f"line of {len(line)} bytes that is no field, expected a data line"

    def _dispatch(self) -> Iterator[Frame | str]:
        payload = "\n".join(self._data)
        if self._is_too_large():
            yield f"event of {self._size} bytes, expected at most {self._max_event_bytes}"
            yield Frame("message", "")
        elif self._data:
            if not payload:
                yield "data is empty, expected a payload"
            yield Frame(self._event or "message", payload)
        elif self._event:
            yield "event line without data, expected a data line"
        self._begin()
