"""Partial JSON: parser of JSON text in fragments, with the value so far and its changes.

Each character is read once, however the text is cut.  While the text stays valid, no value that
was returned is revised: a number appears when a character follows it, `true` at its last letter,
a string as it grows but without half an escape or half a surrogate pair, and a key when its value
has begun.
"""

from __future__ import annotations

import json
import re
from collections import deque
from contextlib import suppress
from math import isfinite
from sys import getrefcount
from typing import Any, cast

from msgspec import Struct

from streamnorm._core.errors import ArgumentsError
from streamnorm._core.json import InvalidJSON, clean, decode_any, is_array, is_object, rejoin
from streamnorm._core.limits import Limits

__all__ = ["PartialJSON", "ValueDelta"]

# A reader that holds the last two values costs no further copy.
_COPIES = 3


class OpenContainer:
    """An array or object that is not complete.

    Attributes:
        path: Path of the container; None for the whole text, which is an array of one value.
        names: Keys in order of arrival, the last perhaps without its value; None in an array.
        values: Closed members, in order of arrival.
        expected: Tokens that may follow a member, in the words of error texts.
    """

    __slots__ = ("expected", "names", "path", "values")

    def __init__(
        self, path: tuple[str | int, ...] | None, names: list[str] | None, expected: str
    ) -> None:
        self.path = path
        self.names = names
        self.values: list[object] = []
        self.expected = expected

    def member_name(self) -> str | int:
        """Return the key or index of the member that is being read."""
        return len(self.values) if self.names is None else self.names[-1]

    def member_path(self) -> tuple[str | int, ...]:
        """Return the path of the member that is being read."""
        return () if self.path is None else (*self.path, self.member_name())

    def add_to(self, container: Any, start: int = 0) -> None:
        """Copy the complete members from number `start` on into `container`."""
        if self.names is None:
            container[start:] = self.values[start:]
        else:
            container.update(zip(self.names[start:], self.values[start:], strict=False))

    def to_value(self) -> object:
        """Return the complete container as a list or dictionary."""
        if self.names is None:
            return self.values
        return dict(zip(self.names, self.values, strict=True))


class Snapshots:
    """Copies of the value for callers; a copy that a caller still refers to never changes."""

    def __init__(self) -> None:
        self._copies: deque[_Copy] = deque(maxlen=_COPIES)

    def read(self, containers: list[OpenContainer], text: bytearray | None) -> list[object]:
        """Return the value so far in a list; [] if it has not begun.

        Args:
            containers: The open containers, outermost first; the first is always the same.
            text: UTF-8 of the open string; None if none is open.
        """
        for copy in self._copies:
            if not copy.is_held():
                self._copies.remove(copy)
                break
        else:
            copy = _Copy(containers[0])
        copy.update(containers, text)
        self._copies.append(copy)
        return copy.root()


class _Copy:
    """Nested copies of all open containers."""

    __slots__ = ("_copies", "_counts", "_originals", "_size", "_text")

    def __init__(self, root: OpenContainer) -> None:
        self._originals = [root]
        self._copies: list[Any] = [[]]
        self._counts = [0]  # closed members in each copy
        self._text: bytearray | None = None  # the open string at the last update
        self._size = 0  # bytes of the open string in the copy

    def is_held(self) -> bool:
        """Return whether a caller still refers to one of the copies."""
        return max(map(getrefcount, self._copies)) > _OWN_REFERENCES

    def root(self) -> list[object]:
        """Return the copy of the outermost container."""
        root: list[object] = self._copies[0]
        return root

    def update(self, containers: list[OpenContainer], text: bytearray | None) -> None:
        """Copy the changes since the last update."""
        depth = len(self._originals)
        while depth > len(containers) or containers[depth - 1] is not self._originals[depth - 1]:
            depth -= 1
        del self._originals[depth:], self._copies[depth:], self._counts[depth:]
        # Only the innermost container can have new members: in all others the same one is open.
        innermost = self._originals[-1]
        if self._counts[-1] < len(innermost.values):
            innermost.add_to(self._copies[-1], self._counts[-1])
            self._counts[-1] = len(innermost.values)
        for container in containers[depth:]:
            copy: Any = [] if container.names is None else {}
            container.add_to(copy)
            self._put(copy)
            self._originals.append(container)
            self._copies.append(copy)
            self._counts.append(len(container.values))
        if text is not None:
            self._update_text(text)

    def _update_text(self, text: bytearray) -> None:
        if text is not self._text:
            self._text, self._size = text, 0
            self._put("")
        container, name = self._copies[-1], self._originals[-1].member_name()
        # CPython extends a string in place if only one local variable refers to it.
        whole = container[name]
        container[name] = None
        whole += text[self._size :].decode()
        container[name] = whole
        self._size = len(text)

    def _put(self, value: object) -> None:
        """Set the member that is being read, in the innermost copy."""
        name = self._originals[-1].member_name()
        if isinstance(name, int):
            self._copies[-1][name:] = [value]
        else:
            self._copies[-1][name] = value


def _own_references() -> int:
    """Return the reference count of a copy that no caller refers to."""
    copies: list[list[object]] = [[]]
    _parent = [*copies]
    return max(map(getrefcount, copies))


_OWN_REFERENCES = _own_references()


_MAX_DEPTH = Limits().max_json_depth

_WHITE_SPACE = " \t\n\r"
_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPE_AND_PLAIN = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*')
_ESCAPE_BEGUN = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_NUMBER_CHARS = re.compile(r"[-+.0-9eE]*")
# The beginnings of numbers; a beginning that ends in a digit is a number.
_NUMBER_BEGUN = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:(?:\.[0-9]+)?[eE][-+]?[0-9]*|\.[0-9]*)?)?")
_FRACTION_OR_EXPONENT = {".", "e", "E"}
# Text that a tolerant decoder may read as an infinity or as `NaN`.
_MAYBE_NOT_FINITE = re.compile(r"NaN|Infinity|[0-9][eE]\+?[0-9]{3}|[0-9]{309}")
_SEARCHED_CHARS = 256 * 1024  # characters that one call searches
_MATCHED_CHARS = 309  # length of the longest match
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
# A state is the expectation in error texts.  Each maps a character to the token that it begins or
# ends, or to the next state.
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
        path: Keys and indexes that lead to the value; () for the whole value.
        value: The new value: a number or literal, the beginning of a string, or an empty list
            or dictionary, whose members follow as deltas.
        appends: Whether `value` is text to append to the string at the path.
    """

    path: tuple[str | int, ...]
    value: object
    appends: bool = False


class PartialJSON:
    """Parser of one JSON value that arrives in fragments.

    Args:
        max_depth: Bound on the containers around a value.

    Attributes:
        error: Why and where reading stopped; not raised, so that the value so far stays
            readable.  None while the text may still become JSON.
    """

    def __init__(self, *, max_depth: int = _MAX_DEPTH) -> None:
        self.error: ArgumentsError | None = None
        self._max_depth = max_depth
        self._containers = [OpenContainer(None, None, "the end of the text")]
        self._expected = "a value"
        self._read = 0  # characters of earlier fragments
        self._rest = ""  # beginning of an escape or literal, read again with the next fragment
        self._reading = ""  # "key", "string" or "number" while one is open
        self._text = bytearray()  # UTF-8 of the open key, string or number
        self._carry = ""  # high surrogate at the end of the open string
        self._shown = False  # whether a delta has announced the open string
        self._number_at = 0
        self._snapshots = Snapshots()
        self._root: list[object] | None = []  # the last snapshot; None if text came since
        self._log: list[ValueDelta] | None = None

    @property
    def complete(self) -> bool:
        """Whether the value is complete."""
        return bool(self._containers[0].values)

    @property
    def value(self) -> object:
        """The value so far, which callers must not change; None before the value begins.

        A returned value never changes: it shares closed containers with other values, and has
        copies of the open containers and the open string.  The copies are reused once you drop
        the value, so reading in a loop costs only the new text if you hold at most the last two
        values.
        """
        root = self._snapshot()
        return root[0] if root else None

    def feed(self, fragment: str) -> None:
        """Parse the next fragment of the text, which may be cut anywhere."""
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
        """Signal the end of the text; an incomplete value is an error.

        A number at the top level ends only here.
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
        """Return the changes since the last call, in order.

        From the first call on, changes are logged as text arrives.
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
        """Read white space and the next token; return the index after the token."""
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
        # Beyond `max_depth` a container may open, but must be empty.
        # A model may write brackets for ever; a reader of the value would recurse.
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
        # `1` may become `12`: tokenizers cut numbers, and no value is shown that a later digit
        # revises.
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
        if following not in _AFTER_NUMBER:  # for example 1O0, with the letter O
            self._fail("", self._number_at + valid, self._containers[-1].expected)
            return
        try:
            value = float(number) if _FRACTION_OR_EXPONENT & {*number} else int(number)
        except ValueError:  # an integer of more digits than Python converts
            self._fail("", self._number_at, "a shorter number")
            return
        # `1e999` is legal JSON and no number for Python, which would write it back as `Infinity`.
        if isinstance(value, float) and not isfinite(value):
            self._fail("", self._number_at, "a number within range")
            return
        self._close_scalar(value)

    def _string(self, text: str, at: int) -> int:
        """Read the content of a string, with its closing quote if it has arrived."""
        end = _end(_PLAIN, text, at)
        while (further := _end(_ESCAPE_AND_PLAIN, text, end)) > end:
            end = further
        piece = text[at:end]
        if "\\" in piece:
            piece = json.loads(f'"{piece}"')
        # Models escape an emoji as two surrogates, of which a delta may hold the first alone.
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
        """Record text appended to the open string as a change."""
        if self._log is not None and self._reading == "string" and (piece or not self._shown):
            self._log.append(ValueDelta(self._containers[-1].member_path(), piece, self._shown))
        self._shown = True

    def _fail(self, text: str, position: int, expected: str) -> int:
        message = f"character {position} does not fit, expected {expected}"
        self.error = ArgumentsError(message, position=position)
        return len(text)


def decode_arguments(text: str) -> dict[str, object]:
    """Decode the arguments of a call to an object; {} if there is no text.

    A lone surrogate becomes U+FFFD.  Of two members with one key the later wins.

    Raises:
        ArgumentsError: The text is no JSON object.
    """
    body = text.lstrip(_WHITE_SPACE)
    # Anthropic, OpenRouter and Databricks send no text for a call without arguments.
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
    # The incremental parser is slower, but reports the position of the error.
    parser = PartialJSON()
    parser.feed(text)
    parser.close()
    if (error := parser.error) is not None:
        # The parser's own error would refer to the parser, and that to the error.
        raise ArgumentsError(str(error), position=error.position)
    return cast("dict[str, object]", parser.value)  # it began with a brace


def check_arguments(text: str) -> None:
    """Check that arguments are a JSON object, or empty.

    Numbers beyond Python's range are accepted: they are legal JSON.

    Raises:
        ArgumentsError: The text is no JSON object.
    """
    if _may_have_infinity(text):
        # The numbers go to the target as text: their size is no concern of Python's.
        text = _DIGITS.sub("1", _EXPONENT.sub("e0", text))
    decode_arguments(text)


def _may_have_infinity(text: str) -> bool:
    """Return whether text may have a number beyond the range of a double.

    A search holds the interpreter's lock until it ends: 0.3 s for 15 MB.
    """
    if len(text) <= _SEARCHED_CHARS:
        return _MAYBE_NOT_FINITE.search(text) is not None
    return any(
        _MAYBE_NOT_FINITE.search(text, start, start + _SEARCHED_CHARS + _MATCHED_CHARS) is not None
        for start in range(0, len(text), _SEARCHED_CHARS)
    )


def _describe(path: tuple[str | int, ...], value: object, into: list[ValueDelta]) -> None:
    """Append to `into` the deltas that build a value."""
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
    """Return the end index of a match at `at`; `at` if there is no match."""
    match = pattern.match(text, at)
    return match.end() if match else at
