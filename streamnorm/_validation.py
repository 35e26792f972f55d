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
from typing import overload

from streamnorm._core import grammar
from streamnorm._core.codec import MAX_PROBLEMS, Checker
from streamnorm._core.events import Event
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._registry import checker
from streamnorm.sse import Frame

__all__ = ["Validator", "validate"]

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
    validator = Validator(dialect, limits=limits)
    return [*validator.feed(source), *validator.close()]


class Validator:
    """Strict validator of the bytes of one stream, in reads of any size.

    Violations are those that `validate` returns for all bytes at once.

    Args:
        dialect: Dialect of the bytes.
        limits: Bounds, of which `max_event_bytes` applies.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be checked.
    """

    def __init__(self, dialect: str, *, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self._checker = checker(dialect)
        self._framing = _Framing(self._checker, limits.max_event_bytes)
        self._position = 0
        self._found = 0

    def feed(self, data: bytes) -> list[Violation]:
        """Return the violations that are known with `data`."""
        return self._bounded(self._judge(self._framing.feed(data)))

    def close(self) -> list[Violation]:
        """Return the violations at the end of the stream."""
        ending = self._bounded(self._judge(self._framing.close()))
        missing = (Violation(self._position, text) for text in self._checker.missing())
        return [*ending, *self._bounded(missing)]

    def _judge(self, found: Iterable[Frame | str]) -> Iterator[Violation]:
        for item in found:
            if isinstance(item, str):
                yield Violation(self._position, item)
                continue
            for message in self._checker.check(item) if item.data else ():
                yield Violation(self._position, message)
            self._position += 1

    def _bounded(self, violations: Iterator[Violation]) -> list[Violation]:
        """Return violations up to the bound, and behind it one that says that there are more."""
        bounded: list[Violation] = []
        if self._found > MAX_PROBLEMS:
            return bounded
        for violation in violations:
            self._found += 1
            if self._found > MAX_PROBLEMS:
                message = f"more than {MAX_PROBLEMS} violations, expected none"
                bounded.append(Violation(violation.position, message))
                break
            bounded.append(violation)
        return bounded


class _Framing:
    """Strict reader of frames.

    It yields frames and problems, in their order.  A frame that cannot be read is empty.  An
    event without its blank line, which clients drop, is a problem and a frame, so that one
    mistake is reported once.

    Args:
        judge: The checker, which says what lines the dialect's clients break on.
        max_event_bytes: Bytes of one event's lines, each with its line end.
    """

    def __init__(self, judge: Checker, max_event_bytes: int) -> None:
        self._judge = judge
        self._max_event_bytes = max_event_bytes
        self._start = b""  # the first bytes, while they may become a BOM
        self._has_started = False
        self._after_cr = False
        self._line = bytearray()  # an incomplete line, as far as it may be one of an event
        self._line_bytes = 0
        self._begin()

    def feed(self, data: bytes) -> Iterator[Frame | str]:
        """Yield the frames and problems that are known with `data`."""
        if not self._has_started:
            self._start += data
            if len(self._start) < len(_BOM) and _BOM.startswith(self._start):
                return
            yield from self._begin_stream()
            return
        yield from self._lines(data)

    def close(self) -> Iterator[Frame | str]:
        """Yield the frames and problems at the end of the stream."""
        if not self._has_started:
            yield from self._begin_stream()
        if self._line_bytes:
            yield from self._end_line()
        if self._data or self._event or self._is_too_large():
            yield f"event of {self._size} bytes ends without a blank line, expected one"
        if self._data or self._is_too_large():
            yield from self._dispatch()

    def _begin_stream(self) -> Iterator[Frame | str]:
        self._has_started = True
        if self._start.startswith(_BOM):
            yield "byte order mark, expected none"
        start, self._start = self._start.removeprefix(_BOM), b""
        yield from self._lines(start)

    def _lines(self, data: bytes) -> Iterator[Frame | str]:
        start = 1 if self._after_cr and data.startswith(b"\n") else 0
        self._after_cr = data.endswith(b"\r") if data else self._after_cr
        for end in _LINE_END.finditer(data, start):
            self._extend_line(data[start : end.start()])
            if self._line_bytes:
                yield from self._end_line()
            else:
                yield from self._dispatch()
            start = end.end()
        self._extend_line(data[start:])

    def _extend_line(self, data: bytes) -> None:
        self._line += data[: max(0, self._max_event_bytes - len(self._line))]
        self._line_bytes += len(data)

    def _begin(self) -> None:
        self._size = 0
        self._data: list[str] = []
        self._event = ""

    def _is_too_large(self) -> bool:
        return self._size > self._max_event_bytes

    def _end_line(self) -> Iterator[str]:
        line, size = bytes(self._line), self._line_bytes
        self._line.clear()
        self._line_bytes = 0
        # Of a line that is too large only the beginning was stored.
        if len(line) == size and (invalid := _invalid_at(line)) is not None:
            yield f"byte {invalid} of a line of {size} is invalid, expected UTF-8"
        text = line.decode(errors="replace")
        if text.startswith(":"):
            if self._judge.rejects_comments:
                yield f"comment of {size} bytes, expected data lines alone"
            return
        self._size += size + 1
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
                yield f"line of {size} bytes that is no field, expected a data line"

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


def _invalid_at(line: bytes) -> int | None:
    """Return the position of the first byte that is not UTF-8; None if there is none."""
    try:
        line.decode()
    except UnicodeDecodeError as exc:
        return exc.start
    return None
