"""Chunks that continue one of several blocks that take turns, as parallel calls do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from streamnorm.accumulate import Accumulator
from streamnorm.codec.decoder import Decoder
from streamnorm.codec.delta import Delta, more_like, part_of
from streamnorm.codec.writer import StreamWriter

__all__ = ["Turns"]

_Way: TypeAlias = tuple[Callable[[str], None], Callable[[str], bytes] | None]


class Turns:
    """Take such chunks the short way, until another comes.

    Args:
        decoder: Reads them.
        accumulator: Keeps their text.
        writer: Writes it; None where the bytes go out as they came.
    """

    def __init__(
        self, decoder: Decoder, accumulator: Accumulator, writer: StreamWriter | None
    ) -> None:
        self._decoder = decoder.reader
        self._more = self._decoder.turns
        self._accumulator = accumulator
        self._writer = writer
        # What keeps the text of each block, and what writes it.
        self._ways: dict[int, _Way] = {}

    def feed(self, data: bytes) -> bytes | None:
        """Return the bytes that a chunk makes known; None if it needs the long way."""
        accumulator, size = self._accumulator, len(data)
        if size > accumulator.room:
            accumulator.refill()
        if size > accumulator.room or (text := self._more(data)) is None:
            return None
        accumulator.room -= size
        delta: Delta = self._decoder.continued  # type: ignore[assignment] # text was read
        keep, write = self._ways.get(delta.index) or self._way(delta)
        keep(text)
        if write is None:
            return data
        return write(text) if text else b""

    def _way(self, delta: Delta) -> _Way:
        """Return what keeps and writes more of a block like one of its deltas."""
        index, writer = delta.index, self._writer
        keep = self._accumulator.keeper(index, part_of(delta))
        write = None if writer is None else _writes(writer, delta)
        return self._ways.setdefault(index, (keep, write))


def _writes(writer: StreamWriter, delta: Delta) -> Callable[[str], bytes]:
    """Return what writes more deltas like one, the long way if there is no other."""
    write = writer.more(delta) or writer.waits(delta.index)
    if write is not None:
        return write
    make = more_like(delta)
    return lambda text: b"".join(writer.write((make(text),)))
