"""Snapshots of a JSON value that is read repeatedly while it grows.

Copying the whole value at each read would take quadratic time.  Closed containers are
therefore shared by all snapshots; open ones are copied once and then updated in place,
as long as no reader holds a reference to the copy.
"""

from __future__ import annotations

from collections import deque
from sys import getrefcount
from typing import Any

__all__ = ["OpenContainer", "Snapshots"]

# A reader may hold the last two values without a further copy.
_COPIES = 3


class OpenContainer:
    """An array or object that has not ended.

    Attributes:
        path: Its path; None for the text as a whole, which is an array of one value.
        names: Keys in order of arrival, the last perhaps without its value; None in an array.
        values: The closed members, in order of arrival.
        expected: The tokens that may follow a member, as error messages state them.
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
        """Return the key or index of the open member."""
        return len(self.values) if self.names is None else self.names[-1]

    def member_path(self) -> tuple[str | int, ...]:
        """Return the path of the open member."""
        return () if self.path is None else (*self.path, self.member_name())

    def add_to(self, container: Any, start: int = 0) -> None:
        """Add the closed members from number `start` on; the first replaces an open one."""
        if self.names is None:
            container[start:] = self.values[start:]
        else:
            container.update(zip(self.names[start:], self.values[start:], strict=False))

    def to_value(self) -> object:
        """Return the ended container as a list or dictionary."""
        if self.names is None:
            return self.values
        return dict(zip(self.names, self.values, strict=True))


class Snapshots:
    """Copies of the last values that were read; one that a reader still holds never changes."""

    def __init__(self) -> None:
        self._copies: deque[_Copy] = deque(maxlen=_COPIES)

    def read(self, containers: list[OpenContainer], text: bytearray | None) -> list[object]:
        """Return the value so far, as an array of one value or none.

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
    """Nested copies of the open containers."""

    __slots__ = ("_copies", "_counts", "_originals", "_size", "_text")

    def __init__(self, root: OpenContainer) -> None:
        self._originals = [root]
        self._copies: list[Any] = [[]]
        self._counts = [0]  # closed members of each copy
        self._text: bytearray | None = None  # the open string at the last update
        self._size = 0  # bytes of it that the copy has

    def is_held(self) -> bool:
        """Return whether a reader holds a reference to one of the copies."""
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
        # Only the innermost can have new members: the same member of each other one is open.
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
        # CPython extends a string in place where nothing but one local variable refers to it.
        whole = container[name]
        container[name] = None
        whole += text[self._size :].decode()
        container[name] = whole
        self._size = len(text)

    def _put(self, value: object) -> None:
        """Set the open member."""
        name = self._originals[-1].member_name()
        if isinstance(name, int):
            self._copies[-1][name:] = [value]
        else:
            self._copies[-1][name] = value


def _own_references() -> int:
    """Return the count in `is_held` for a copy that only its parent and the list refer to."""
    copies: list[list[object]] = [[]]
    _parent = [*copies]
    return max(map(getrefcount, copies))


_OWN_REFERENCES = _own_references()
