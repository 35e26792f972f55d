"""A stream whose answer is stored before its last bytes are returned."""

from __future__ import annotations

from functools import partial
from typing import Any

from streamnorm._core.events import Completed
from streamnorm._core.json import compact, is_object, object_in, string_of
from streamnorm.aio import Stream
from streamnorm.aio.transcoding import TranscodePump
from streamnorm.gateway.body_thread import BodyThread
from streamnorm.gateway.large_events import LargeEvents
from streamnorm.gateway.turns import ClientTurn
from streamnorm.sse import SSEDecoder, encode_frame

__all__ = ["StoredStream"]

_FRAME_END = b"\n\n"


class StoredStream(Stream[bytes]):
    """A stream whose answer is stored before its last bytes are returned.

    A client may continue an answer as soon as it has read its end.  If the answer cannot be
    stored, its last event says `store: false`.

    Args:
        pump: The pump of the stream; its events are written anew.
        reader: Reads the upstream's answer.
        turn: Stores the answer.
        bodies: The thread for large bodies.
    """

    def __init__(
        self, pump: TranscodePump, reader: LargeEvents, turn: ClientTurn, bodies: BodyThread
    ) -> None:
        super().__init__(pump, reader)
        self._turn = turn
        self._bodies = bodies

    async def _last(self) -> bytes:
        data = await super()._last()
        if not isinstance(self.outcome, Completed):
            return data
        self._pump.pending.append(data)  # not returned yet, should the client leave meanwhile
        before, terminal = _split_last(data)
        event = await self._bodies.run(len(terminal), partial(_event_of, terminal))
        response = event.get("response")
        if is_object(response):
            await self._turn.store(response, len(terminal))
        self._pump.pending.pop()
        if not self._turn.is_lost:
            return data
        return before + await self._bodies.run(len(terminal), partial(_frame_of, event))


def _event_of(frame: bytes) -> dict[str, Any]:
    """Return the event that a frame holds; an empty one if it holds none."""
    frames = SSEDecoder().feed(frame)
    return object_in(frames[-1].data) if frames else {}


def _frame_of(event: dict[str, Any]) -> bytes:
    return encode_frame(compact(event), event=string_of(event, "type"))


def _split_last(data: bytes) -> tuple[bytes, bytes]:
    """Return the frames before the last one, and that."""
    start = data.rfind(_FRAME_END, 0, -len(_FRAME_END)) + len(_FRAME_END)
    return (data[:start], data[start:]) if start >= len(_FRAME_END) else (b"", data)
