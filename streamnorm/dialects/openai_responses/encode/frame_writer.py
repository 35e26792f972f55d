"""Events as SSE frames with consecutive sequence numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm._core.json import dumps

__all__ = ["FrameWriter"]


class FrameWriter:
    """Serializer of the events of one stream.

    Attributes:
        next_number: Sequence number of the next event.
    """

    def __init__(self) -> None:
        self.next_number = 0

    def write(self, event_type: str, fields: dict[str, Any]) -> bytes:
        """Return one event."""
        number = self.next_number
        self.next_number += 1
        body = dumps({"type": event_type, "sequence_number": number, **fields})
        return b"event: %b\ndata: %b\n\n" % (event_type.encode(), body)

    def delta_writer(
        self,
        event_type: str,
        position: dict[str, Any],
        append: Callable[[str], None],
        suffix: bytes = b"",
    ) -> Callable[[str], bytes]:
        """Return a fast serializer for the deltas of one text.

        Args:
            event_type: Type of the deltas.
            position: Item id and indexes of the text.
            append: Called with each text.
            suffix: JSON members that follow the text.
        """
        name = event_type.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
        middle, tail = b"," + dumps(position)[1:-1] + b',"delta":', suffix + b"}\n\n"

        def write(text: str) -> bytes:
            append(text)
            number = self.next_number
            self.next_number = number + 1
            return b"".join((head, dumps(number), middle, dumps(text), tail))

        return write
