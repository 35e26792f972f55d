"""Parts of delta streams: texts, arguments and frames."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

__all__ = ["MARK", "DeltaStream", "Make", "arguments", "frame", "texts"]

MARK = "~mid~"
"""The text of the delta in the middle."""

_WORDS = ("Hel", "lo", ", ", "é😀", ' "\\', "world", "\n", "}}", "x" * 60)
_WITHIN_JSON = str.maketrans({"\n": " ", '"': "'", "\\": "/"})


class DeltaStream(NamedTuple):
    """A stream of consecutive deltas, with the events around them.

    Attributes:
        dialect: Its dialect.
        opening: The events before the deltas.
        deltas: An event each.
        closing: The events after them.
        options: Options that its decoder needs.
    """

    dialect: str
    opening: list[bytes]
    deltas: list[bytes]
    closing: list[bytes]
    options: Mapping[str, Any] = MappingProxyType({})

    @property
    def events(self) -> list[bytes]:
        """All events."""
        return [*self.opening, *self.deltas, *self.closing]

    @property
    def middle(self) -> int:
        """Index of the middle delta, whose text is `MARK`."""
        return next(at for at, delta in enumerate(self.deltas) if MARK.encode() in delta)


Make: TypeAlias = Callable[[int], DeltaStream]
"""Make a stream of some pieces."""


def texts(count: int) -> list[str]:
    """Return a text in pieces."""
    words = list(islice(cycle(_WORDS), count))
    words[count // 2] = MARK
    return words


def arguments(count: int) -> list[str]:
    """Return arguments in pieces, divided as by tokenizers."""
    inner = [word.translate(_WITHIN_JSON) for word in texts(count)]
    return ['{"', "a", '":"', *inner, '"', "}"]


def frame(payload: object, event: str = "", end: str = "\n") -> bytes:
    """Return one event with compact JSON."""
    data = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    name = f"event: {event}{end}" if event else ""
    return f"{name}data: {data}{end}{end}".encode()
