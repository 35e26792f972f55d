"""Events of a response as bytes, numbered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from streamnorm._core.json import FAST_ERRORS, clean, is_object

__all__ = ["Frames", "dumps"]

dumps = msgspec.json.Encoder().encode

_FORGES = re.compile("[\r\n\0]")


class Frames:
    """Write the events of one stream, each with the next sequence number."""

    def __init__(self) -> None:
        self._number = 0

    def continue_from(self, number: int) -> None:
        """Give the next event this number."""
        self._number = number

    def write(self, type: str, fields: dict[str, Any]) -> bytes:
        """Return one event."""
        number = self._number
        self._number += 1
        body = dumps({"type": type, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (type.encode(), body)

    def deltas(
        self,
        type: str,
        place: dict[str, Any],
        keep: Callable[[str], None],
        rest: bytes = b"",
    ) -> Callable[[str], bytes]:
        """Return what writes deltas of one type and place.

        Args:
            type: Their type.
            place: Where they belong.
            keep: What takes each text, too.
            rest: What follows the text.
        """
        name = type.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        middle, tail = b"," + dumps(place)[1:-1] + b',"delta":', rest + b"}\n\n"

        def write(text: str) -> bytes:
            keep(text)
            number = self._number
            self._number = number + 1
            return b"".join((head, dumps(number), middle, dumps(text), tail))

        return write

    def renew(self, name: str, data: str, place: dict[str, Any]) -> bytes | None:
        """Return an event of this dialect anew, or None if it is no object.

        Args:
            name: Its type.
            data: Its payload.
            place: What stands for its item here, where that is known.
        """
        try:
            value = msgspec.json.decode(data)
        except FAST_ERRORS:
            return None
        if not is_object(value):
            return None
        fields = {key: item for key, item in value.items() if key != "type"}
        fields |= {key: item for key, item in place.items() if key in fields}
        fields.pop("sequence_number", None)
        # A name that would forge a frame is none that a client knows.
        return self.write(_FORGES.sub(" ", clean(name)), fields)
