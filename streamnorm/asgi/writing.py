"""The `send` of an ASGI server that takes chunks of a body without waiting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, MutableMapping
from typing import Any


class WritingSend(ABC):
    """A server's `send` that can also write a chunk of a body without waiting.

    A wrapper around it, as of a middleware, is none: it sees each chunk.
    """

    @abstractmethod
    def __call__(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        """Send a message."""

    @abstractmethod
    def write(self, body: bytes) -> bool:
        """Send a chunk of the body unless `send` would wait; return whether it was sent."""
