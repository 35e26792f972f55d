"""The cells of the fault matrix: a fault, at a moment, for a client, on an upstream."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from support.faults.answers import Moment
from support.faults.connections import CONNECTION_FAULTS
from support.faults.events import EVENT_FAULTS
from support.faults.responses import RESPONSE_FAULTS
from support.faults.rows import Fault

__all__ = ["CELLS", "SAMPLE", "SOCKET_CELLS", "SOCKET_SAMPLE", "Cell"]

DIALECTS = ("anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions")


class Cell(NamedTuple):
    """A cell.

    Attributes:
        fault: What the upstream does.
        moment: When.
        client: Dialect of the client.
        upstream: Dialect of the upstream.
        over_socket: Whether the client asks over a WebSocket.
    """

    fault: Fault
    moment: Moment
    client: str
    upstream: str
    over_socket: bool = False

    def __str__(self) -> str:
        form = "" if self.fault.stream else ", whole"
        form += ", over a WebSocket" if self.over_socket else ""
        return f"{self.fault.name}, {self.moment}{form}: {self.client} on {self.upstream}"


def _cells() -> list[Cell]:
    """Return all cells: a fault at a moment on its upstreams, the clients in turn."""
    rows = [
        (fault, moment)
        for fault in (*CONNECTION_FAULTS, *EVENT_FAULTS, *RESPONSE_FAULTS)
        for moment in fault.moments
    ]
    cells: list[Cell] = []
    for number, (fault, moment) in enumerate(rows):
        upstreams = fault.dialects or DIALECTS
        for at in range(min(fault.upstreams, len(upstreams))):
            upstream = upstreams[(number + at) % len(upstreams)]
            first = number // len(DIALECTS) + at + DIALECTS.index(upstream)
            clients = [DIALECTS[(first + n) % len(DIALECTS)] for n in range(fault.clients)]
            cells += [Cell(fault, moment, client, upstream) for client in clients]
    return cells


def _sample(cells: list[Cell], size: int) -> list[Cell]:
    """Return some cells from all over the table, in turn of all pairs of dialects.

    No status without a body is among them, nor one with HTML.
    """
    known = [cell for cell in cells if not cell.fault.is_easy]
    uses: Counter[tuple[str, str]] = Counter()
    sample: list[Cell] = []
    for number in range(size):
        begin, end = (n * len(known) // size for n in (number, number + 1))
        cell = min(known[begin:end], key=lambda cell: uses[cell.client, cell.upstream])
        uses[cell.client, cell.upstream] += 1
        sample.append(cell)
    return sample


def _socket_cells() -> list[Cell]:
    """Return the cells of streams, each on all of its upstreams, for a client of Responses."""
    return [
        Cell(fault, moment, "openai_responses", upstream, over_socket=True)
        for fault in (*CONNECTION_FAULTS, *EVENT_FAULTS, *RESPONSE_FAULTS)
        if fault.stream
        for moment in fault.moments
        for upstream in fault.dialects or DIALECTS
    ]


CELLS = _cells()
SAMPLE = _sample(CELLS, 60)
SOCKET_CELLS = _socket_cells()
SOCKET_SAMPLE = _sample(SOCKET_CELLS, 30)
