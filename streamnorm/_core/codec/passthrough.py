"""Passthrough of a stream's original bytes, cut at the ends of its events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamnorm._core.codec.framing import Splitter

# The end of an event: the end of its last line, and a blank line.  A CR alone ends a line (WHATWG
# HTML, section 9.2.5).
_EVENT_END = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
# The end of an event with further blank lines, which belong to no event.
_EVENT_ENDS = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)+")
_LINE_ENDS = re.compile(rb"[\r\n]*")
_OVERLAP = 3  # bytes of an event's end that the previous read may have
_CR = 13


def as_utf8(data: bytes) -> bytes:
    """Return events as valid UTF-8: invalid bytes become U+FFFD.

    Lenient clients decode invalid bytes to U+FFFD anyway; strict clients fail at them.
    """
    if data.isascii():
        return data
    # The SDKs of OpenAI and Anthropic raise at invalid UTF-8 (3.54.0 and 2.12.0, read 2026-11-21).
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


class Passthrough:
    """Return the original bytes of a stream as UTF-8, in whole events.

    The beginning of an event is held until its end arrives, so that our own error event never
    follows half an event.

    Args:
        framing: SSE decoder that splits the same bytes.
    """

    shows_errors: bool = True  # of events, and none that stand outside them

    def __init__(self, framing: Splitter) -> None:
        self._framing = framing
        self._held = b""  # beginning of an event, equal to the bytes that the framing holds
        self._behind: list[bytes] = []  # later reads, of which the framing holds other bytes
        self._last = b""  # last bytes of both

    def take_event(self, data: bytes) -> bytes:
        """Return a read that is exactly one event."""
        return as_utf8(data)

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the bytes of the events that `data` completes.

        Args:
            data: Bytes of one read, after the framing has split them.
            unread: Number of whole events at the end of `data` that are not passed on.
        """
        framing = self._framing
        if self._behind or unread or not framing.holds_original or framing.overflowed:
            return self.take_other(data, unread)
        if not self._held and not framing.carries:
            return as_utf8(data)
        whole = self._held + data if self._held else data
        held = self._held = framing.held
        return as_utf8(whole[: -len(held)] if held else whole)

    def rest(self) -> bytes:
        """Return the held beginning of an event, when the source has ended."""
        return as_utf8(self._rest())

    def take_other(self, data: bytes, unread: int = 0) -> bytes:
        """Do what `take` does where the framing does not hold the original bytes."""
        if self._framing.overflowed:
            # An event that is too large is not passed on, even if its end is in this read.
            whole = self._rest() + data
            return as_utf8(whole[: _end_within(whole, self._framing.safe_bytes)])
        last = self._last if self._behind else self._held[-_OVERLAP:]
        known = last + data
        end = _end_before(known, unread) if unread else _last_end(known)
        if end or not last:
            # Blank lines keep connections alive: they are passed on at once.
            end = _skip_blank_lines(known, end)
        end -= len(last)
        if end <= 0:
            self._behind.append(data)
            self._last = known[-_OVERLAP:]
            return b""
        passed = self._rest() + data[:end]
        self._hold(data[end:])
        return as_utf8(passed)

    def _rest(self) -> bytes:
        return b"".join([self._held, *self._behind])

    def _hold(self, rest: bytes) -> None:
        framing = self._framing
        if rest == framing.held and not framing.is_irregular:
            self._held, self._behind = rest, []
        else:
            self._held, self._behind = b"", [rest]
        self._last = rest[-_OVERLAP:]


def _skip_blank_lines(data: bytes, end: int) -> int:
    """Return the end of the blank lines at `end`, which belong to no event."""
    blank = _LINE_ENDS.match(data, end)
    return blank.end() if blank else end


def _last_end(data: bytes) -> int:
    """Return the end of the last whole event; 0 if there is none."""
    if _CR not in data:
        blank = data.rfind(b"\n\n")
        return blank + 2 if blank >= 0 else 0
    # Nearly all streams with CRs have CRLF throughout; the regular expression reads the others.
    blank = data.rfind(b"\r\n\r\n")
    end = blank + 4 if blank >= 0 else 0
    for match in _EVENT_END.finditer(data, end):
        end = match.end()
    return end


def _end_before(data: bytes, unread: int) -> int:
    """Return the end of the last event but `unread`; 0 if there is none."""
    ends = [match.end() for match in _EVENT_ENDS.finditer(data)]
    return ends[-1 - unread] if len(ends) > unread else 0


def _end_within(data: bytes, safe_bytes: int) -> int:
    """Return the end of the last event before the first one that is too large."""
    end = 0
    for match in _EVENT_END.finditer(data):
        event = data[end : match.end()].replace(b"\r\n", b"\n")
        if len(event) > safe_bytes + len(b"\n\n"):  # `max_event_bytes` includes comments
            break
        end = match.end()
    return end
