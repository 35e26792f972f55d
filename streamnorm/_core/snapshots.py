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

# A reader may keep two values at no cost, the last one and that before it.
_COPIES = 3


class OpenContainer:
    """An array or object whose end has not come.

    Attributes:
        path: Where it stands; None for the text as a whole, an array of one value.
        names: Keys in order of arrival, the last perhaps without its value; None in an array.
        values: The closed members, in order of arrival.
        then: What is expected after a member.
    """

    __slots__ = ("names", "path", "then", "values")

    def __init__(
        self, path: tuple[str | int, ...] | None, names: list[str] | None, then: str
    ) -> None:
        self.path = path
        self.names = names
        self.values: list[object] = []
        self.then = then

    def name(self) -> str | int:
        """Return key or index of the member that is not closed."""
        return len(self.values) if self.names is None else self.names[-1]

    def place(self) -> tuple[str | int, ...]:
        """Return the path of the member that is not closed."""
        return () if self.path is None else (*self.path, self.name())

    def add_to(self, container: Any, start: int = 0) -> None:
        """Add the closed members from number `start` on, in place of one that was open."""
        if self.names is None:
            container[start:] = self.values[start:]
        else:
            container.update(zip(self.names[start:], self.values[start:], strict=False))

    def closed(self) -> object:
        """Return the list or dictionary that it became."""
        if self.names is None:
            return self.values
        return dict(zip(self.names, self.values, strict=True))


class Snapshots:
    """The values that were read last.  None of them changes while anybody can see it."""

    def __init__(self) -> None:
        self._copies: deque[_Copy] = deque(maxlen=_COPIES)

    def read(self, frames: list[OpenContainer], text: bytearray | None) -> list[object]:
        """Return what has come, as an array of one value or none.

        Args:
            frames: The containers that are open, outermost first; the first stays the same.
            text: UTF-8 of the string that is open.
        """
        for copy in self._copies:
            if not copy.held():
                self._copies.remove(copy)
                break
        else:
            copy = _Copy(frames[0])
        copy.update(frames, text)
        self._copies.append(copy)
        return copy.root()


class _Copy:
    """Copies of the containers that are open, one within the other."""

    __slots__ = ("_containers", "_counts", "_frames", "_size", "_text")

    def __init__(self, root: OpenContainer) -> None:
        self._frames = [root]
        self._containers: list[Any] = [[]]
        self._counts = [0]  # closed members that each copy has
        self._text: bytearray | None = None  # the open string that was seen last
        self._size = 0  # and how much of it the copy has

    def held(self) -> bool:
        """Return whether anybody else refers to one of the copies."""
        return max(map(getrefcount, self._containers)) > _OWN_REFERENCES

    def root(self) -> list[object]:
        """Return the array of the whole text."""
        root: list[object] = self._containers[0]
        return root

    def update(self, frames: list[OpenContainer], text: bytearray | None) -> None:
        """Bring the copies up to date."""
        depth = len(self._frames)
        while depth > len(frames) or frames[depth - 1] is not self._frames[depth - 1]:
            depth -= 1
        del self._frames[depth:], self._containers[depth:], self._counts[depth:]
        # Only the innermost can have new members: of the others the same one is open.
        innermost = self._frames[-1]
        if self._counts[-1] < len(innermost.values):
            innermost.add_to(self._containers[-1], self._counts[-1])
            self._counts[-1] = len(innermost.values)
        for frame in frames[depth:]:
            container: Any = [] if frame.names is None else {}
            frame.add_to(container)
            self._put(container)
            self._frames.append(frame)
            self._containers.append(container)
            self._counts.append(len(frame.values))
        if text is not None:
            self._take_text(text)

    def _take_text(self, text: bytearray) -> None:
        if text is not self._text:
            self._text, self._size = text, 0
            self._put("")
        container, name = self._containers[-1], self._frames[-1].name()
        # CPython extends a string in place where nothing but one local variable refers to it.
        whole = container[name]
        container[name] = None
        whole += text[self._size :].decode()
        container[name] = whole
        self._size = len(text)

    def _put(self, value: object) -> None:
        """Set the member that is not closed."""
        name = self._frames[-1].name()
        if isinstance(name, int):
            self._containers[-1][name:] = [value]
        else:
            self._containers[-1][name] = value


def _own_references() -> int:
    """Return what `held` counts for a copy that stands in its parent and in its list."""
    copies: list[list[object]] = [[]]
    _parent = [*copies]
    return max(map(getrefcount, copies))


_OWN_REFERENCES = _own_references()
