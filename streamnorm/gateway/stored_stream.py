"""A stream whose answer is stored before its last bytes are returned."""

from __future__ import annotations

from typing import Any

from streamnorm._core.codec import Dialect
from streamnorm._core.events import Completed, MessageStart, StreamError
from streamnorm._core.json import count_of, is_object, object_in, string_of
from streamnorm._registry import encoder
from streamnorm.aio import Stream
from streamnorm.aio.transcoding import TranscodePump
from streamnorm.gateway.network import Answer
from streamnorm.gateway.turns import ClientTurn
from streamnorm.sse import SSEDecoder

__all__ = ["StoredStream"]

_FRAME_END = b"\n\n"


class StoredStream(Stream[bytes]):
    """A stream whose answer is stored before its last bytes are returned.

    A client may continue an answer as soon as it has read its end.  If the answer cannot be
    stored, an error takes the place of that end.

    Args:
        pump: The pump of the stream; its events are written anew.
        answer: The upstream's answer.
        turn: Stores the answer.
        client: The client's dialect.
    """

    def __init__(
        self, pump: TranscodePump, answer: Answer, turn: ClientTurn, client: Dialect
    ) -> None:
        super().__init__(pump, answer)
        self._turn = turn
        self._client = client

    async def _last(self) -> bytes:
        data = await super()._last()
        if not isinstance(self.outcome, Completed):
            return data
        self._pump.pending.append(data)  # not returned yet, should the client leave meanwhile
        before, terminal = _split_last(data)
        frames = SSEDecoder().feed(terminal)
        event = object_in(frames[-1].data) if frames else {}
        response = event.get("response")
        error = await self._turn.store(response if is_object(response) else {})
        self._pump.pending.pop()
        return data if error is None else before + self._failed(event, error)

    def _failed(self, terminal: dict[str, Any], error: StreamError) -> bytes:
        """Return the error events that take the place of the terminal event."""
        writer = encoder(self._client.name)
        writer.response_fields = self._turn.fields
        response = terminal.get("response")
        model = string_of(response, "model") if is_object(response) else ""
        writer.resume_after_passthrough(
            MessageStart(model=model), count_of(terminal.get("sequence_number")) or 0
        )
        return writer.encode(error)


def _split_last(data: bytes) -> tuple[bytes, bytes]:
    """Return the frames before the last one, and that."""
    start = data.rfind(_FRAME_END, 0, -len(_FRAME_END)) + len(_FRAME_END)
    return (data[:start], data[start:]) if start >= len(_FRAME_END) else (b"", data)
