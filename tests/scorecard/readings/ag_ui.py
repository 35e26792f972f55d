"""A client of AG-UI.

https://docs.ag-ui.com/concepts/events (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from ..cases import Call
from .reading import Content, Reading, arguments_value, server_events

__all__ = ["read"]

_FAMILIES = ("TEXT_MESSAGE", "REASONING_MESSAGE", "TOOL_CALL")


def read(data: bytes) -> Reading:
    """Read a stream as the client of the protocol's own SDK verifies it."""
    client = _Client()
    for event in server_events(data, client.reading.grammar):
        if event.value is None:
            client.reading.grammar.append("an event is no JSON object")
        else:
            client.take(event.value["type"], event.value)
    return client.result()


class _Client:
    """State of a client that reads one stream."""

    def __init__(self) -> None:
        self.reading = Reading(needs_end=True)
        self._begun = False
        self._open: set[tuple[str, str]] = set()
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self._ended_calls: list[str] = []

    def take(self, type: str, event: dict[str, Any]) -> None:
        """Read one event."""
        grammar = self.reading.grammar
        if type not in ("RUN_STARTED", "RUN_ERROR") and not self._begun:
            grammar.append(f"{type} comes before RUN_STARTED")
        self._begun = True
        if self.reading.ended or self.reading.failed:
            grammar.append(f"{type} follows the end")
        family, _, step = type.rpartition("_")
        if family in _FAMILIES and step in ("START", "CONTENT", "ARGS", "END"):
            self._take(family, step, event)
        elif type == "RUN_FINISHED":
            if self._open:
                grammar.append("RUN_FINISHED while a message or call is open")
            self.reading.ended = True
        elif type == "RUN_ERROR":
            self.reading.failed = True

    def _take(self, family: str, step: str, event: dict[str, Any]) -> None:
        id = event["toolCallId" if family == "TOOL_CALL" else "messageId"]
        if step == "START":
            if (family, id) in self._open:
                self.reading.grammar.append(f"{family}_START of one that is open")
            self._open.add((family, id))
            if family == "TOOL_CALL" and not (event.get("metadata") or {}).get("providerExecuted"):
                self._calls[id] = (event["toolCallName"], [])
            return
        if (family, id) not in self._open:
            self.reading.grammar.append(f"{family}_{step} of one that is not open")
        if step == "END":
            self._open.discard((family, id))
            self._ended_calls.append(id)
        elif family == "TEXT_MESSAGE":
            self.reading.accumulated.text += event["delta"]
        elif family == "REASONING_MESSAGE":
            self.reading.accumulated.reasoning += event["delta"]
        elif id in self._calls:
            self._calls[id][1].append(event["delta"])

    def result(self) -> Reading:
        """Return the stream as read."""
        content = self.reading.accumulated
        self.reading.finalised = finalised = Content(content.text, content.reasoning)
        for id, (name, pieces) in self._calls.items():
            call = Call(id, name, arguments_value("".join(pieces)))
            content.calls.append(call)
            if id in self._ended_calls:
                finalised.calls.append(call)
        return self.reading
