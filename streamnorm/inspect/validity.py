"""The validation of a stream whose dialect may have to be detected."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from streamnorm._core.codec import Decoder
from streamnorm._core.errors import UnknownDialect
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._registry import DIALECTS, checker
from streamnorm._validation import Validator
from streamnorm.sse import Frame

__all__ = ["Judge"]


_UNKNOWN = "its dialect is not known"
# A stream of a variant shows itself in its first frames.
_VARIANT_FRAMES = 16
_MAX_STORED_BYTES = 16 * 1024 * 1024


class Judge:
    """Validates one stream, once its decoder knows the dialect.

    Bytes that come earlier are stored, at most 16 MiB.

    Args:
        decoder: The decoder of the stream; it reads each bytes first.
        limits: Bounds of the validator.

    Attributes:
        violations: The violations so far.
        unchecked: Why the stream is not validated; empty if it is.
    """

    def __init__(self, decoder: Decoder, limits: Limits) -> None:
        self.violations: list[Violation] = []
        self.unchecked = ""
        self._decoder = decoder
        self._limits = limits
        self._stored = bytearray()
        self._frames = 0
        self._validator: Validator | None = None

    def feed(self, data: bytes, frames: Iterable[Frame]) -> None:
        """Validate the next bytes.

        Args:
            data: The bytes.
            frames: The frames that they complete.
        """
        if self.unchecked:
            return
        self._stored += data
        if self._decoder.dialect:
            self._validate(frames)
        elif self._decoder.outcome is not None or len(self._stored) > _MAX_STORED_BYTES:
            self._refuse(_UNKNOWN)

    def close(self) -> None:
        """Handle the end of the stream, after the decoder."""
        self.feed(b"", ())
        if self._validator is not None:
            self.violations += self._validator.close()

    def _validate(self, frames: Iterable[Frame]) -> None:
        dialect = self._decoder.dialect
        try:
            if self._validator is None:
                self._validator = Validator(dialect, limits=self._limits)
            for frame in islice(frames, _VARIANT_FRAMES - self._frames):
                self._frames += 1
                for known in DIALECTS.values():
                    if known.variant_of == dialect and known.recognises(frame):
                        checker(known.name)
        except UnknownDialect as exc:
            self._refuse(str(exc))
            return
        if not (self._decoder.is_plain or self._decoder.is_body):
            self._refuse("its format is not server-sent events")
            return
        self.violations += self._validator.feed(bytes(self._stored))
        self._stored.clear()

    def _refuse(self, reason: str) -> None:
        self.unchecked = reason
        self.violations.clear()
        self._stored.clear()
        self._validator = None
