"""Partial JSON: the value so far, and the changes that each piece of text made.

Each character is read once, however the text is cut.  While the text stays valid, nothing
that was shown is taken back: a number is shown when something stands behind it, `true` at
its last letter, a string as it grows but without half an escape or half a character, and
a key when its value has begun.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from math import isfinite
from typing import cast

from msgspec import Struct

from streamnorm._core.errors import ArgumentsError
from streamnorm._core.json import (
    InvalidJSON,
    clean,
    decode_any,
    is_array,
    is_object,
    rejoin,
)
from streamnorm._core.limits import Limits
from streamnorm._core.snapshots import OpenContainer, Snapshots

__all__ = ["PartialJSON", "ValueDelta", "check_arguments", "decode_arguments"]

_MAX_DEPTH = Limits().max_json_depth

_WHITE_SPACE = " \t\n\r"
_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE_AND_PLAIN = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_NUMBER_CHARS = re.compile(r"[-+.0-9eE]*")
# All that a number can begin with; what of that ends in a digit is a number.
_NUMBER_BEGUN = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:(?:\.[0-9]+)?[eE][-+]?[0-9]*|\.[0-9]*)?)?")
_FRACTION_OR_EXPONENT = {".", "e", "E"}
# What a tolerant decoder reads as infinity or as no number.
_MAYBE_NOT_FINITE = re.compile(r"NaN|Infinity|[0-9][eE]\+?[0-9]{3}|[0-9]{309}")
_SEARCHED_CHARS = 256 * 1024  # by one call
_MATCHED_CHARS = 309  # at most
_EXPONENT = re.compile(r"(?<=[0-9])[eE]\+?[0-9]{3,}")
_DIGITS = re.compile(r"[1-9][0-9]{308,}")
_AFTER_NUMBER = _WHITE_SPACE + ",]}"
_LITERALS: dict[str, tuple[str, bool | None]] = {
    "t": ("true", True),
    "f": ("false", False),
    "n": ("null", None),
}

_VALUE = {
    '"': "string",
    "{": "object",
    "[": "array",
    **dict.fromkeys("-0123456789", "number"),
    **dict.fromkeys(_LITERALS, "literal"),
}
# What is expected: what each character begins or ends there, or what is expected after it.
_STATES = {
    "a value": _VALUE,
    "a value or ]": {**_VALUE, "]": "end"},
    "] at this depth": {"]": "end"},
    "a key": {'"': "key"},
    "a key or }": {'"': "key", "}": "end"},
    "} at this depth": {"}": "end"},
    "a colon": {":": "a value"},
    "a comma or ]": {",": "a value", "]": "end"},
    "a comma or }": {",": "a key", "}": "end"},
    "the end of the text": {},
}


class ValueDelta(Struct, frozen=True):
    """A change to a partial JSON value at one path.

    Attributes:
        path: Keys and indexes that lead there; empty for the whole value.
        value: What stands there from now on: a number or literal, the beginning of a string,
            or an empty list or dictionary, whose members follow as deltas of their own.
        appends: Whether `value` is more of the string that stands there instead.
    """

    path: tuple[str | int, ...]
    value: object
    appends: bool = False


class PartialJSON:
    """Read one JSON value in pieces of text.

    Args:
        max_depth: Containers that may stand around a value.

    Attributes:
        error: Why and where reading stopped, to be raised by who wants that; the value
            stays as far as it had come.  None while the text may still become JSON.
    """

    def __init__(self, *, max_depth: int = _MAX_DEPTH) -> None:
        self.error: ArgumentsError | None = None
        self._max_depth = max_depth
        self._containers = [OpenContainer(None, None, "the end of the text")]
        self._expected = "a value"
        self._read = 0  # characters of the pieces before
        self._rest = ""  # begun escape or literal, to be read again with what follows
        self._reading = ""  # "key", "string" or "number" while one is open
        self._text = bytearray()  # UTF-8 of its pieces before
        self._carry = ""  # the high surrogate that they ended in
        self._shown = False  # whether a delta has shown the string
        self._number_at = 0
        self._snapshots = Snapshots()
        self._root: list[object] | None = []  # the last snapshot; None where text came since
        self._log: list[ValueDelta] | None = None

    @property
    def complete(self) -> bool:
        """Whether the value has ended."""
        return bool(self._containers[0].values)

    @property
    def value(self) -> object:
        """The best value so far; None where none has begun.  Do not change it.

        A value that was returned never grows: it shares what is closed with other values,
        and copies the string and the containers that are open, with references to their
        members.  Those copies are used again when you have let the value go.  So reading
        in a loop costs only what is new, if you keep no more than the last two values.
        """
        root = self._snapshot()
        return root[0] if root else None

    def feed(self, fragment: str) -> None:
        """Parse the next piece of the text, cut anywhere."""
        if self.error is not None or not fragment:
            return
        self._root = None
        text, self._rest = self._rest + fragment, ""
        at = 0
        while at < len(text):
            if not self._reading:
                at = self._next(text, at)
            elif self._reading == "number":
                at = self._number(text, at)
            else:
                at = self._string(text, at)
        self._read += len(text) - len(self._rest)

    def close(self) -> None:
        """End the text; an incomplete value is an error.

        A number that stands alone ends here.
        """
        self._root = None
        if self._reading == "number" and len(self._containers) == 1:
            self._close_number("", "")
        if self.error is None and not self.complete:
            position = self._read + len(self._rest)
            expected = "more" if self._reading or self._rest else self._expected
            message = f"text ends at character {position}, expected {expected}"
            self.error = ArgumentsError(message, position=position)

    def deltas(self) -> list[ValueDelta]:
        """Return what came since the last call, in order; at the first call, all of it.

        After the first call they are noted as text arrives, and kept until the next.
        """
        if self._log is None:
            self._log = []
            for value in self._snapshot():
                _describe((), value, self._log)
        log, self._log = self._log, []
        return log

    def _snapshot(self) -> list[object]:
        if self._root is None:
            text = self._text if self._reading == "string" else None
            self._root = self._snapshots.read(self._containers, text)
        return self._root

    def _next(self, text: str, at: int) -> int:
        """Read white space and what begins behind it, and return how far that went."""
        if text[at] in _WHITE_SPACE:
            at = _end(_SPACE, text, at)
            if at == len(text):
                return at
        match _STATES[self._expected].get(text[at]):
            case "string" | "key" as token:
                self._reading, self._text, self._shown = token, bytearray(), False
                return self._string(text, at + 1)
            case "number":
                self._reading, self._text, self._number_at = "number", bytearray(), self._read + at
                return self._number(text, at)
            case "literal":
                return self._literal(text, at)
            case "object":
                self._open([], "a key or }", "} at this depth", "a comma or }")
            case "array":
                self._open(None, "a value or ]", "] at this depth", "a comma or ]")
            case "end":
                self._close_member(self._containers.pop().to_value())
            case None:
                return self._fail(text, self._read + at, self._expected)
            case expected:
                self._expected = expected
        return at + 1

    def _open(self, names: list[str] | None, first: str, too_deep: str, then: str) -> None:
        path = self._containers[-1].member_path()
        if self._log is not None:
            self._log.append(ValueDelta(path, [] if names is None else {}))
        # Where no value may stand, there may be an empty container around it.
        self._expected = first if len(self._containers) <= self._max_depth else too_deep
        self._containers.append(OpenContainer(path, names, then))

    def _close_member(self, value: object) -> None:
        self._containers[-1].values.append(value)
        self._expected = self._containers[-1].expected

    def _close_scalar(self, value: object) -> None:
        if self._log is not None:
            self._log.append(ValueDelta(self._containers[-1].member_path(), value))
        self._close_member(value)

    def _literal(self, text: str, at: int) -> int:
        word, value = _LITERALS[text[at]]
        found = text[at : at + len(word)]
        if found == word:
            self._close_scalar(value)
            return at + len(word)
        if word.startswith(found):
            self._rest = found
            return len(text)
        same = next(number for number, char in enumerate(found) if char != word[number])
        return self._fail(text, self._read + at + same, word)

    def _number(self, text: str, at: int) -> int:
        end = _end(_NUMBER_CHARS, text, at)
        if end == len(text):
            self._text += text[at:].encode()
            return end
        self._close_number(text[at:end], text[end])
        return len(text) if self.error else end

    def _close_number(self, digits: str, following: str) -> None:
        self._reading = ""
        number = self._text.decode() + digits if self._text else digits
        valid = _end(_NUMBER_BEGUN, number, 0)
        if valid < len(number) or not number[-1].isdigit():
            self._fail("", self._number_at + valid, "a number")
            return
        if following not in _AFTER_NUMBER:  # who knows what 1O0 was meant to be
            self._fail("", self._number_at + valid, self._containers[-1].expected)
            return
        try:
            value = float(number) if _FRACTION_OR_EXPONENT & {*number} else int(number)
        except ValueError:  # an integer of more digits than Python converts
            self._fail("", self._number_at, "a shorter number")
            return
        if isinstance(value, float) and not isfinite(value):
            self._fail("", self._number_at, "a number within range")
            return
        self._close_scalar(value)

    def _string(self, text: str, at: int) -> int:
        """Read what stands in a string, and its end where that is there."""
        end = _end(_PLAIN, text, at)
        while (further := _end(_ESCAPE_AND_PLAIN, text, end)) > end:
            end = further
        piece = text[at:end]
        if "\\" in piece:
            piece = json.loads(f'"{piece}"')
        if self._carry or not piece.isascii():
            piece, self._carry = rejoin(self._carry, piece)
        if text[end : end + 1] == '"':
            self._close_string(piece + clean(self._carry))
            return end + 1
        self._text += piece.encode()
        self._show(piece)
        if end == len(text):
            return end
        begun = _end(_ESCAPE_BEGUN, text, end)
        if begun < len(text):
            return self._fail(text, self._read + begun, "a character of a string")
        self._rest = text[end:]
        return len(text)

    def _close_string(self, piece: str) -> None:
        whole = self._text.decode() + piece if self._text else piece
        names = self._containers[-1].names
        if self._reading == "key" and names is not None:
            names.append(whole)
            self._expected = "a colon"
        else:
            self._show(piece)
            self._close_member(whole)
        self._reading, self._carry = "", ""

    def _show(self, piece: str) -> None:
        """Log more of a string."""
        if self._log is not None and self._reading == "string" and (piece or not self._shown):
            self._log.append(ValueDelta(self._containers[-1].member_path(), piece, self._shown))
        self._shown = True

    def _fail(self, text: str, position: int, expected: str) -> int:
        message = f"character {position} does not fit, expected {expected}"
        self.error = ArgumentsError(message, position=position)
        return len(text)


def decode_arguments(text: str) -> dict[str, object]:
    """Return the object that the arguments of a call are; it is empty where no text is.

    Half of a character becomes U+FFFD.  Of two members with one key the later counts.

    Raises:
        ArgumentsError: The text is no JSON object.
    """
    body = text.lstrip(_WHITE_SPACE)
    if not body:
        return {}
    start = len(text) - len(body)
    if body[0] != "{":
        message = f"character {start} begins no object, expected one"
        raise ArgumentsError(message, position=start)
    if not _may_have_infinity(body):
        with suppress(InvalidJSON):
            arguments: dict[str, object] = decode_any(body, max_depth=_MAX_DEPTH)
            return arguments
    # Slower, but it knows where text stops being valid.
    parser = PartialJSON()
    parser.feed(text)
    parser.close()
    if parser.error is not None:
        raise parser.error
    return cast("dict[str, object]", parser.value)  # it began with a brace


def check_arguments(text: str) -> None:
    """Check that arguments are a JSON object, or none.

    A number may be larger than any that Python has, which is legal JSON.

    Raises:
        ArgumentsError: The text is no JSON object.
    """
    if _may_have_infinity(text):
        text = _DIGITS.sub("1", _EXPONENT.sub("e0", text))
    decode_arguments(text)


def _may_have_infinity(text: str) -> bool:
    """Return whether text may have a number that is not finite, searching a piece at a time.

    A search holds the interpreter's lock until it ends, which takes 0.3 s for 15 MB.
    """
    if len(text) <= _SEARCHED_CHARS:
        return _MAYBE_NOT_FINITE.search(text) is not None
    return any(
        _MAYBE_NOT_FINITE.search(text, start, start + _SEARCHED_CHARS + _MATCHED_CHARS) is not None
        for start in range(0, len(text), _SEARCHED_CHARS)
    )


def _describe(path: tuple[str | int, ...], value: object, into: list[ValueDelta]) -> None:
    """Add the deltas that build a value."""
    if is_object(value):
        into.append(ValueDelta(path, {}))
        for key, member in value.items():
            _describe((*path, key), member, into)
    elif is_array(value):
        into.append(ValueDelta(path, []))
        for index, member in enumerate(value):
            _describe((*path, index), member, into)
    else:
        into.append(ValueDelta(path, value))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a match at `at` ends, and `at` where there is none."""
    match = pattern.match(text, at)
    return match.end() if match else at
