"""The contract of the strict validators behind `validate`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

from streamnorm.sse import Frame

__all__ = ["MAX_PROBLEMS", "Checker"]

MAX_PROBLEMS = 1000
"""Bound on the problems reported of one stream."""


class Checker(ABC):
    """Strict validator of one stream.

    Independent of the decoders: it accepts what the vendor documents and its clients need,
    not what decoders forgive.  A problem says what was found, then what was expected, with
    types, sizes and indexes, never text of the payload.  A mistake is reported once.
    """

    rejects_id_and_retry: ClassVar[bool] = False
    """Whether the dialect's clients break on `id` and `retry` lines."""

    rejects_comments: ClassVar[bool] = False
    """Whether its clients break on comments, and on `data:` without a space."""

    def check(self, frame: Frame) -> list[str]:
        """Return the problems of the next frame, at most `MAX_PROBLEMS`."""
        return list(islice(self.read(frame), MAX_PROBLEMS))

    @abstractmethod
    def read(self, frame: Frame) -> Iterator[str]:
        """Yield the problems of the next frame."""

    @abstractmethod
    def missing(self) -> list[str]:
        """Return the problems of a stream that ends here."""
