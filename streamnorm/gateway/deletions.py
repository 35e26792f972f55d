"""Deletions of stored responses, which the log knows from all gateways.

A request that is sent again is answered from the log, unless its response was deleted.  The store
cannot say that: it lacks as well what it has forgotten, and what another gateway stores, and such
an answer must not be paid for twice.
"""

from __future__ import annotations

from typing import NoReturn

from streamnorm._core.errors import LogError
from streamnorm.log import Log

# Ids of streams without bytes in the log.  No id of a client has a slash.
_ANY = "deleted/"
_ONE = "deleted/id/"


class Deletions:
    """The deletions of stored responses.

    Each is known for longer than the log knows the stream of the response, which has ended before.

    Args:
        log: The log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log

    async def record(self, scope: str, id: str) -> None:
        """Record that a response is deleted.

        Args:
            scope: Scope of the client.
            id: Id of the response.

        Raises:
            StoreError: The store failed.
        """
        for name in (_ONE + id, _ANY):
            # The place of one before it, so that it is known for as long as a new one.
            async with self._log.produce(name, _open_nothing, scope=scope, replaces=True) as run:
                if run.is_new:
                    run.cancel()  # before its source is opened

    async def has_any(self, scope: str) -> bool:
        """Return whether any response of a client was deleted."""
        return await self._knows(scope, _ANY)

    async def has(self, scope: str, id: str) -> bool:
        """Return whether a response was deleted."""
        return await self._knows(scope, _ONE + id)

    async def _knows(self, scope: str, name: str) -> bool:
        # Also one that has expired: a full log forgets the bytes of streams first, then their ids.
        return (await self._log.status(name, scope=scope)).state != "unknown"


def _open_nothing() -> NoReturn:
    raise LogError("the stream has no source", code="unknown")
