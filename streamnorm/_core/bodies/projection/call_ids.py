"""Ids of tool calls in the target: legal characters, and no id twice where ids must differ."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.losses import Losses
from streamnorm._core.text import digest_id, escape_id


class KnownId(NamedTuple):
    """State of one id of the conversation, for results in later messages.

    Attributes:
        written: Id that the last call with this id was written with.
        repeats: Number of earlier calls with the same id.
    """

    written: str
    repeats: int


class CallIds:
    """Ids of the calls and results of one conversation, read in order.

    Args:
        target: Capabilities of the target.
        losses: Counter of changed ids.
    """

    def __init__(self, target: BodyCapabilities, losses: Losses) -> None:
        self._target = target
        self._losses = losses
        self._ids: dict[str, str] = {}  # ids in the target, by the ids of the conversation
        self._written: set[str] = set()
        self._repeats: Counter[str] = Counter()
        self._pattern = None if target.id_pattern is None else re.compile(target.id_pattern)

    def keep(self, id: str) -> str:
        """Record a call whose id is written as it is; return the id."""
        self._ids[id] = id
        self._written.add(id)
        return id

    def add(self, id: str) -> str:
        """Return the id of a call, with characters and a length that the target accepts."""
        id = self.of_result(id)
        self._written.add(id)
        return id

    def add_repeated(self, id: str) -> str:
        """Return the id of a call that an earlier call has, with a number."""
        self._losses.add("tool_id_changed", "messages", "written with a number")
        self._ids[id] = self._legalize(self._number(id))
        return self.add(id)

    def of_result(self, id: str) -> str:
        """Return the id in the target of the call that a result answers."""
        known = self._ids.get(id)
        if known is None:
            known = self._ids[id] = self._legalize(id)
        return known

    def is_written(self, id: str) -> bool:
        """Return whether a call was written with an id, such as a number after another id."""
        return id in self._written

    def current(self, id: str) -> str:
        """Return the id that the last call with an id was written with, or the id itself."""
        return self._ids.get(id, id)

    def record(self, id: str) -> KnownId:
        """Return the state of a call's id."""
        return KnownId(self._ids[id], self._repeats[id])

    def restore(self, id: str, known: KnownId) -> None:
        """Restore the state of a call's id."""
        self._ids[id], self._repeats[id] = known
        self._written.add(known.written)

    def _number(self, id: str) -> str:
        while True:
            self._repeats[id] += 1
            numbered = f"{id}_{self._repeats[id] + 1}"
            if numbered not in self._written:
                return numbered

    def _legalize(self, id: str) -> str:
        if not self._is_illegal(id):
            return id
        if self._target.only_refusals:
            if not id:  # google-genai leaves ids out; there is no field to change
                return id
            self._losses.add("tool_id_changed", "messages", "written in the server's characters")
        escaped = escape_id(id)
        if not self._is_illegal(escaped):
            return escaped
        return digest_id(id)[: self._target.max_id_chars]

    def _is_illegal(self, id: str) -> bool:
        longest = self._target.max_id_chars
        return (longest is not None and len(id) > longest) or (
            self._pattern is not None and self._pattern.fullmatch(id) is None
        )
