"""Redaction of an event stream in messages, whose lengths and checksums stay right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from streamnorm._core.codec.framing import Rewriter
from streamnorm.eventstream import EventStreamDecoder

# Bytes behind a wrong message that are searched at once: base64 in them has no known end.
_MAX_REST_BYTES = 16 * 1024 * 1024


class _Secrets(Protocol):
    def scrub_all(self, texts: Sequence[bytes]) -> list[bytes]: ...


class MessageScrubber:
    """Replaces each byte of a secret by "x" in the messages of a body that arrives in chunks.

    The output has the same length as the input.  A message is held until its end arrives, and so
    are up to 16 MiB of what is no message.

    Args:
        secrets: The known secrets, read for each message, as some may be added meanwhile.
        rewriter: Replaces texts in the messages of the framing.
    """

    def __init__(self, secrets: _Secrets, rewriter: Rewriter) -> None:
        self._replace: Callable[[list[bytes]], list[bytes]] = secrets.scrub_all
        self._rewriter = rewriter
        self._messages = EventStreamDecoder()
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Add a chunk; return the bytes that are settled."""
        self._held += data
        messages = self._messages.feed(data)
        if messages:
            del self._held[: sum(len(message.raw) for message in messages)]
            return b"".join(self._rewriter.rewrite(messages, self._replace))
        if self._messages.failure is not None and len(self._held) > _MAX_REST_BYTES:
            return self.close()
        return b""

    def close(self) -> bytes:
        """Return the rest."""
        rest = bytes(self._held)
        self._held.clear()
        return self._rewriter.rewrite_rest(rest, self._replace)
