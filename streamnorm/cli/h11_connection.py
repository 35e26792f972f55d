"""Connections of clients, parsed by h11."""

from __future__ import annotations

from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamnorm.cli.connections import MAX_HEAD_BYTES, Connection, Part

__all__ = ["H11Connection"]


class H11Connection(Connection, H11Protocol):
    """A connection whose bytes h11 parses; the server sets `h11_max_incomplete_event_size`."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or a head above the bound."""
        if len(self.conn.trailing_data[0]) > MAX_HEAD_BYTES:
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large.")
        else:
            super().send_400_response(msg)

    def unfinished(self) -> Part:
        """Return the part of a request that has not arrived to its end."""
        if self.conn.their_state is h11.SEND_BODY:
            return Part.BODY
        is_head = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        return Part.HEAD if is_head else Part.NONE
