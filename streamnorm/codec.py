"""Decoders and encoders: bytes of one stream in, events out, and back, without I/O.

All take bytes in any pieces, as `Feed` says.  A `Decoder` for a dialect that was not named, or that
has variants, finds out from the first frames.
"""

from __future__ import annotations

from typing import Any, Unpack

from streamnorm._core.codec import (
    ALL_EVENTS,
    DecodeOptions,
    Decoder,
    Dialect,
    Encoder,
    Feed,
    FormatSniffer,
)
from streamnorm._core.codec.event_messages import EVENTSTREAM
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.codec.invoke_chunks import INVOKE_CHUNKS
from streamnorm._core.errors import UnknownDialect
from streamnorm._core.events import Event, MessageStart
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Note, OnNote
from streamnorm._registry import DIALECTS, decoder_of, detect_frame, encoder, framing_of, lookup
from streamnorm.sse import Frame, RawFrame

__all__ = [
    "EVENTSTREAM",
    "INVOKE_CHUNKS",
    "SSE",
    "Decoder",
    "Encoder",
    "Feed",
    "Framing",
    "decoder",
    "encoder",
]

_MAX_DETECTION_FRAMES = 16
_UNKNOWN = "no stream of a known dialect"


def decoder(
    dialect: str | None = None,
    *,
    server: str | None = None,
    think_tags: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    on_note: OnNote | None = None,
    framing: Framing | None = None,
) -> Decoder:
    """Return a decoder: bytes of one stream in, events out.

    Args:
        dialect: Dialect to read; None to find out from the first frames, at most 16.
        server: Name of the server (for example `qianfan`); enables its quirks.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        limits: Bounds.
        on_note: Called with each note as it happens.
        framing: How the events stand in the bytes; None for the framing of the dialect.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be read.
    """
    shared: DecodeOptions = {
        "server": server,
        "limits": limits,
        "on_note": on_note,
        "framing": framing_of(dialect, framing),
    }
    own = {"think_tags": think_tags}
    if dialect is None:
        return _UnnamedDecoder(own, **shared)
    known = lookup(dialect)
    variants = [other for other in DIALECTS.values() if other.variant_of == known.name]
    if variants:
        return _VariantDecoder(known, variants, own, **shared)
    return decoder_of(known, own, **shared)


class _UnnamedDecoder(Decoder):
    """Detects the dialect from the first frames, then delegates to its decoder."""

    def __init__(self, own: dict[str, Any], **shared: Unpack[DecodeOptions]) -> None:
        super().__init__(**shared)
        self.formats = tuple(format for known in DIALECTS.values() for format in known.formats)
        self._own = own
        self._shared: DecodeOptions = {**shared, "on_note": self._pass_on}
        self._room: Decoder | None = None
        self._waiting: list[Frame] = []
        self._is_known = False  # whether `_room` is certain to be that of the stream
        self._active: Decoder | None = None  # the room, once it reads the bytes itself

    def read_raw(self, raw: RawFrame) -> list[Event]:
        if self._active is None:
            events = super().read_raw(raw)
            if self._is_known and self._room is not None and self.outcome is None:
                self._active = self._room
                self._active.adopt_framing(self)
        else:
            events = self._active.read_raw(raw)
        self._follow()
        return events

    @property
    def active(self) -> Decoder:
        return self._active or self

    @property
    def next_sequence_number(self) -> int:
        return 0 if self._room is None else self._room.next_sequence_number

    @property
    def resume_token(self) -> dict[str, Any] | None:
        return None if self._room is None else self._room.resume_token

    @property
    def lacks_only_terminal(self) -> bool:
        return self._room is not None and self._room.lacks_only_terminal

    @property
    def idle_frames(self) -> int:
        return super().idle_frames if self._active is None else self._active.idle_frames

    def as_event_stream(self, data: bytes) -> bytes:
        return (
            super().as_event_stream(data)
            if self._active is None
            else self._active.as_event_stream(data)
        )

    def feed_frame(self, frame: Frame) -> list[Event]:
        events = (
            super().feed_frame(frame) if self._active is None else self._active.feed_frame(frame)
        )
        self._follow()
        return events

    def close(self) -> list[Event]:
        events = super().close() if self._active is None else self._active.close()
        self._follow()
        return events

    def abort(self, cause: BaseException) -> list[Event]:
        events = super().abort(cause) if self._active is None else self._active.abort(cause)
        self._follow()
        return events

    def read(self, frame: Frame, events: list[Event]) -> None:
        room = self._room
        if room is None:
            self._waiting.append(frame)
            room = self._find(frame)
            if room is None:
                if len(self._waiting) >= _MAX_DETECTION_FRAMES:
                    raise self.malformed(_UNKNOWN)
                return
            for waiting in self._waiting:
                self.refused = 0 if waiting is frame else ALL_EVENTS
                self._pass_frame(room, waiting, events)
                if room.outcome is not None:
                    break
        else:
            self._pass_frame(room, frame, events)

    def _pass_frame(self, room: Decoder, frame: Frame, events: list[Event]) -> None:
        try:
            room.read(frame, events)
        finally:  # a frame that fails may have brought the usage
            self.outcome, self.first_usage = room.outcome, room.first_usage

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        room = self._room
        if room is None and rest is not None and (room := self._find(rest)) is not None:
            for waiting in self._waiting:
                self.refused = ALL_EVENTS
                room.read(waiting, events)
            self.refused = 0
        if room is not None:
            room.end(rest, events)
            self.outcome = room.outcome
        elif rest is None and any(waiting.data.strip() for waiting in self._waiting):
            raise self.malformed(_UNKNOWN)

    def _follow(self) -> None:
        """Copy the state of the active decoder."""
        if self._active is not None:
            self.split, self.run = self._active.split, self._active.run
            self.is_plain = self._active.is_plain
            self.outcome, self.first_usage = self._active.outcome, self._active.first_usage
            self.error_outside_stream = self._active.error_outside_stream

    def _find(self, frame: Frame) -> Decoder | None:
        found = detect_frame(frame, DIALECTS.values())
        if found is None:
            return None
        self.dialect = found.variant_of or found.name
        return self._enter(found)

    def _enter(self, known: Dialect) -> Decoder:
        """Make the decoder of a dialect, and let it read from now on."""
        try:
            self._room = decoder_of(known, self._own, **self._shared)
        except UnknownDialect as exc:
            raise self.malformed(str(exc)) from exc
        self._is_known = True
        return self._room

    def _pass_on(self, note: Note) -> None:
        self.note(note.kind, note.where)


class _VariantDecoder(_UnnamedDecoder):
    """Decode a dialect, or the variant of it that a frame before the message start is of.

    Args:
        known: The dialect that was named.
        variants: Its variants.
        own: Options that one of them alone has.
        shared: Options of all decoders.
    """

    def __init__(
        self,
        known: Dialect,
        variants: list[Dialect],
        own: dict[str, Any],
        **shared: Unpack[DecodeOptions],
    ) -> None:
        super().__init__(own, **shared)
        self.dialect = known.name
        self._variants = variants
        self._room = self._named = decoder_of(known, own, **self._shared)

    def sniffer(self, start: bytes) -> FormatSniffer | None:
        return self._named.sniffer(start)

    def read(self, frame: Frame, events: list[Event]) -> None:
        self._find_variant(frame)
        super().read(frame, events)
        if not self._is_known:
            self._is_known = any(isinstance(event, MessageStart) for event in events)

    def end(self, rest: Frame | None, events: list[Event]) -> None:
        self._judge_strays()
        if rest is not None:
            self._find_variant(rest)
        super().end(rest, events)

    def _find_variant(self, frame: Frame) -> None:
        if not self._is_known and (variant := detect_frame(frame, self._variants)) is not None:
            self._enter(variant)
