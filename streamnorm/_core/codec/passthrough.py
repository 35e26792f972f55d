"""The original bytes of a stream that is passed on as it came."""

from __future__ import annotations

import re

from streamnorm.sse import SSEDecoder

# A line end, and that of the blank line behind it; a CR ends its line before an LF is known.
_EVENT_END = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
# An event's end, with the blank lines that may follow it, and belong to no event.
_EVENT_ENDS = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)+")
_LINE_ENDS = re.compile(rb"[\r\n]*")
_OVERLAP = 3  # bytes of an event's end that may stand in the read before
_CR = 13


def as_utf8(data: bytes) -> bytes:
    """Return whole events as UTF-8: what is none becomes U+FFFD.

    Lenient clients read that anyway, and strict ones fail at anything else.
    """
    if data.isascii():
        return data
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


class Passthrough:
    """Pass on original bytes in whole events, as UTF-8.

    The beginning of an event is held until its end is there, so that an error of ours never
    stands behind half an event.

    Args:
        framing: What cuts the bytes.
    """

    def __init__(self, framing: SSEDecoder) -> None:
        self._framing = framing
        self._held = b""  # as the framing holds it
        self._behind: list[bytes] = []  # what came behind that, of which it holds something else
        self._last = b""  # the last bytes of all that

    def take(self, data: bytes, unread: int = 0) -> bytes:
        """Return the bytes of the events that `data` completes.

        Args:
            data: The bytes of one read, which the framing has split.
            unread: Number of whole events at its end that are not to be passed on.
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
        """Return the beginning of an event that the source left without its end."""
        return as_utf8(self._rest())

    def take_other(self, data: bytes, unread: int = 0) -> bytes:
        """Do what `take` does for bytes of which the framing holds others, or none any more."""
        if self._framing.overflowed:
            # The event that is too large is not passed on, whether its end is here or not.
            whole = self._rest() + data
            return as_utf8(whole[: _end_within(whole, self._framing.safe_bytes)])
        last = self._last if self._behind else self._held[-_OVERLAP:]
        known = last + data
        end = _end_before(known, unread) if unread else _last_end(known)
        if end or not last:
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
    """Return where the blank lines end that stand behind an event, and belong to none."""
    blank = _LINE_ENDS.match(data, end)
    return blank.end() if blank else end


def _last_end(data: bytes) -> int:
    """Return where the last whole event ends; 0 if none does."""
    if _CR not in data:
        blank = data.rfind(b"\n\n")
        return blank + 2 if blank >= 0 else 0
    # Nearly all streams with CRs have CRLF throughout: a regular expression reads the rest.
    blank = data.rfind(b"\r\n\r\n")
    end = blank + 4 if blank >= 0 else 0
    for match in _EVENT_END.finditer(data, end):
        end = match.end()
    return end


def _end_before(data: bytes, unread: int) -> int:
    """Return where the last event but `unread` ends; 0 if none does."""
    ends = [match.end() for match in _EVENT_ENDS.finditer(data)]
    return ends[-1 - unread] if len(ends) > unread else 0


def _end_within(data: bytes, safe_bytes: int) -> int:
    """Return where the last event before the first that is too large ends."""
    end = 0
    for match in _EVENT_END.finditer(data):
        event = data[end : match.end()].replace(b"\r\n", b"\n")
        if len(event) > safe_bytes + len(b"\n\n"):  # comments count here, too
            break
        end = match.end()
    return end
