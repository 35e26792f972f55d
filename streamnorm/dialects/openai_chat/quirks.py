"""Quirks: readings for one server where the same bytes of another mean something else.

A deviation that contradicts no other server is accepted from all of them, and is no quirk.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Quirks", "quirks_of"]


class Quirks(Struct, frozen=True, kw_only=True):
    """Readings that one server's streams need.

    Attributes:
        cumulative_arguments: Each fragment of a call repeats all before it.  Elsewhere a
            fragment that begins like the arguments so far is simply the next one.
    """

    cumulative_arguments: bool = False


_BY_SERVER = {
    # NousResearch/hermes-agent#35718
    "qianfan": Quirks(cumulative_arguments=True),
}


def quirks_of(server: str | None) -> Quirks:
    """Return the quirks of a server; most have none."""
    return _BY_SERVER.get(server or "", Quirks())
