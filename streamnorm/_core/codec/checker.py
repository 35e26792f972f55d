"""The contract of the strict validators behind `validate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

from streamnorm.sse import Frame

__all__ = ["MAX_PROBLEMS", "Checker"]

MAX_PROBLEMS = 1000
"""How many departures from a protocol are told of one stream."""


class Checker(ABC):
    """Hold the frames of one stream against the letter of a protocol.

    It reads strictly, on its own: what the vendor documents and its clients need, not
    what decoders forgive.  A problem says what was found, then what was expected, with
    types, sizes and indexes, never text of the payload.  One mistake is told once.
    """

    bare: ClassVar[bool] = False
    """Whether the dialect's clients break on lines other than `data`."""

    data_alone: ClassVar[bool] = False
    """Whether they break on comments, too, and on `data:` without a space."""

    def check(self, frame: Frame) -> list[str]:
        """Return what is wrong with the next frame, its first 1,000 problems."""
        return list(islice(self.read(frame), MAX_PROBLEMS))

    @abstractmethod
    def read(self, frame: Frame) -> Iterator[str]:
        """Yield what is wrong with the next frame."""

    @abstractmethod
    def missing(self) -> list[str]:
        """Return what a stream that ends here lacks."""
