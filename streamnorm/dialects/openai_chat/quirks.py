"""Quirks: readings of one server's bytes that mean something else at all other servers.

A deviation that is harmless elsewhere, such as another name for a field, needs no entry: it is
accepted from every server.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["QUIRKS", "Quirks"]


class Quirks(Struct, frozen=True, kw_only=True):
    """How the bytes of one server are read.

    Attributes:
        cumulative_arguments: Each fragment of a call repeats all before it.  Elsewhere a
            fragment that begins like the arguments so far is simply the next one.
    """

    cumulative_arguments: bool = False


QUIRKS = {
    # NousResearch/hermes-agent#35718
    "qianfan": Quirks(cumulative_arguments=True),
}
"""The quirks of each server that has some."""
