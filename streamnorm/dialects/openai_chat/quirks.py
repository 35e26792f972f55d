"""Contradictions between servers: where the same bytes need opposite readings.

Every other deviation is simply accepted, whoever sends it.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Quirks", "quirks"]


class Quirks(Struct, frozen=True, kw_only=True):
    """How one server's streams must be read.

    Attributes:
        cumulative_arguments: Each fragment of a call repeats all before it.  Elsewhere a
            fragment that begins like what was sent is simply the next one.
    """

    cumulative_arguments: bool = False


_BY_SERVER = {
    # NousResearch/hermes-agent#35718
    "qianfan": Quirks(cumulative_arguments=True),
}


def quirks(server: str | None) -> Quirks:
    """Return how the streams of `server` must be read; most need nothing."""
    return _BY_SERVER.get(server or "", Quirks())
