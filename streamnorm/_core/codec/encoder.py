"""Base class of encoders, and the stream writer that feeds events to an encoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from streamnorm._core.blocks import ToolCall
from streamnorm._core.codec.framing import FrameWriter
from streamnorm._core.codec.templates import held_texts_sink
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Delta,
    Event,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
    delta_factory,
    sum_usage,
)
from streamnorm._core.grammar import Sequencer, part_of
from streamnorm._core.limits import Limits, StoredBytes
from streamnorm._core.losses import Capabilities, Loss, Losses, OnLoss
from streamnorm._core.losses.projection import Projector

if TYPE_CHECKING:
    from streamnorm._core.codec.dialect import EncodeOptions


class Encoder(ABC):
    """Encode events as the SSE of one dialect.

    Args:
        model: Model to name in place of the one that answered.
        strict: Whether to raise `LossyEncoding` at the first loss.
        on_loss: Called with each loss as it happens, with a count of 1.
        extras: Whether to write the vendor's own fields (`extra`) back: for events that
            were decoded from the same dialect.
        limits: `max_accumulated_bytes` bounds what the encoder stores: text that the end of a
            block or of the message repeats, whole arguments, citations.
        capabilities: Capabilities narrowed by options; None for those of the dialect.

    Attributes:
        response_headers: Headers that clients of the dialect ask for, besides `content-type`.
        error_media_type: `content-type` of `error_body`.
        response_fields: Fields of the response object to write in place of the source's;
            ignored by dialects without a response object.
        minted_id: Id of a message that its provider has given none, for dialects whose clients
            join messages of one id; "" for one that such messages share.
    """

    dialect: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    response_headers: ClassVar[Mapping[str, str]] = {}
    error_media_type: ClassVar[str] = "application/json"
    _renders: ClassVar[dict[type, Callable[[Any, Any], bytes]]]

    def __init__(
        self,
        *,
        model: str | None = None,
        strict: bool = False,
        on_loss: OnLoss | None = None,
        extras: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        capabilities: Capabilities | None = None,
    ) -> None:
        self.response_fields: dict[str, Any] = {}
        self.minted_id = ""
        self._model = model
        self._usage = Usage()  # last snapshot
        self._tier_field: dict[str, Any] = {}  # the service tier in this dialect's words
        self._losses = Losses(strict=strict, on_loss=on_loss)
        self._stored = StoredBytes(limits.max_accumulated_bytes)
        self._projector = Projector(capabilities or self.capabilities, self._losses, self._stored)
        self.extras = extras

    def __init_subclass__(cls) -> None:
        cls._renders = {
            TextDelta: cls._text,
            JSONDelta: cls._json,
            ReasoningDelta: cls._reasoning,
            RefusalDelta: cls._refusal,
            SignatureDelta: cls._signature,
            CitationDelta: cls._citation,
            BlockStart: cls._block_start,
            BlockStop: cls._block_stop,
            MessageStart: cls._message_start,
            UsageUpdate: cls._usage_update,
            MessageStop: cls._message_stop,
            StreamError: cls._error,
            Ping: lambda encoder, _: encoder.ping(),
            Opaque: cls._opaque,
        }

    @property
    def stored_bytes(self) -> int:
        """Bytes of the message that are stored to be written later or again."""
        return max(0, self._stored.bound - self._stored.left)

    @property
    def extras(self) -> bool:
        """Whether the vendor's fields in `extra` are written."""
        return self._projector.vendor_fields.are_carried

    @extras.setter
    def extras(self, extras: bool) -> None:
        self._projector.vendor_fields.are_carried = extras

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses so far, in order of first appearance."""
        return self._losses.list()

    def encode(self, event: Event) -> bytes:
        """Return the bytes of one event.

        Raises:
            LocalProtocolError: The event breaks the grammar.
            LossyEncoding: `strict`, and the dialect cannot carry the event.
            LimitExceeded: The encoder would store more than `max_accumulated_bytes`.
        """
        return b"".join([self.render(passed) for passed in self._projector.push(event)])

    def count_held(self, size: int) -> None:
        """Count as lost the text that the sequencer still held when the stream failed.

        Raises:
            LossyEncoding: `strict`.
        """
        self._losses.add("held", "failed stream", f"{size} bytes dropped")

    @property
    def loss_counter(self) -> Losses:
        """Counter behind `losses`, to which callers add losses from before the encoding."""
        return self._losses

    @property
    def projector(self) -> Projector:
        """Projector whose events `render` receives."""
        return self._projector

    def render(self, event: Event) -> bytes:
        """Return the bytes of a projected event."""
        return self._renders[type(event)](self, event)

    @abstractmethod
    def delta_writer(self, index: int) -> Callable[[str], bytes]:
        """Return a fast serializer for further deltas of block `index`.

        Equal to `render` of a delta of the block's type.  Some text or arguments of the block
        must have been written already.
        """

    def delta_template(self, index: int) -> tuple[bytes, bytes] | None:
        """Return the bytes before and after the JSON text in the output of `delta_writer`.

        None if the deltas of a block differ in more than their text, or the encoder stores it.
        """
        return None

    def resume_after_passthrough(  # noqa: B027 - few need it
        self, start: MessageStart, next_sequence_number: int
    ) -> None:
        """Prepare to encode events after original bytes were passed through.

        Args:
            start: The first of these events.
            next_sequence_number: Number of the next event, where the dialect has numbers.
        """

    @abstractmethod
    def ping(self) -> bytes:
        """Return a keep-alive that every client of the dialect ignores."""

    @abstractmethod
    def error_body(self, error: StreamError) -> bytes:
        """Return the body of an error response, sent instead of a stream."""

    def close(self) -> bytes:
        """Return the bytes after the last event; without a `MessageStop` they report no success."""
        return b""

    def _vendor_fields(self, extra: dict[str, Any] | None) -> dict[str, Any]:
        """Return a copy of an event's `extra`; {} if vendor fields are not written."""
        return dict(extra) if self.extras and extra else {}

    def _take_extra(self, extra: dict[str, Any]) -> dict[str, Any]:
        """Store the service tier in `extra`; return the vendor fields to write."""
        self._note_tier(extra.get("service_tier"))
        return self._vendor_fields(extra)

    def _note_tier(self, word: object) -> None:
        """Store the source's service tier if this dialect has an equivalent."""
        if isinstance(word, str):
            tier = self._projector.capabilities.service_tiers.get(word)
            self._tier_field = {} if tier is None else {"service_tier": tier}

    # Renderers of one event type each.  The projector returns only events that the dialect has a
    # field or event for.

    @abstractmethod
    def _text(self, event: TextDelta) -> bytes: ...

    @abstractmethod
    def _json(self, event: JSONDelta) -> bytes: ...

    @abstractmethod
    def _reasoning(self, event: ReasoningDelta) -> bytes: ...

    def _refusal(self, event: RefusalDelta) -> bytes:
        raise AssertionError("refusal passed the projection")

    @abstractmethod
    def _signature(self, event: SignatureDelta) -> bytes: ...

    @abstractmethod
    def _citation(self, event: CitationDelta) -> bytes: ...

    @abstractmethod
    def _block_start(self, event: BlockStart) -> bytes: ...

    @abstractmethod
    def _block_stop(self, event: BlockStop) -> bytes: ...

    @abstractmethod
    def _message_start(self, event: MessageStart) -> bytes: ...

    def _usage_update(self, event: UsageUpdate) -> bytes:
        self._usage = event.usage
        self._note_tier((event.usage.extra or {}).get("service_tier"))
        return b""

    @abstractmethod
    def _message_stop(self, event: MessageStop) -> bytes: ...

    @abstractmethod
    def _error(self, event: StreamError) -> bytes: ...

    @abstractmethod
    def _opaque(self, event: Opaque) -> bytes: ...


class RunEncoder(Encoder):
    """An encoder that writes several answers, the steps of an agent's run, as one message.

    Attributes:
        usage_by_model: Usage of the answers so far, by their model.
        earlier_calls: Ids of the calls that the page has, and whether each belongs to the message
            that is continued; None if they are unknown.
        client_calls: The calls of the page that no provider executes, by id.
    """

    def __init__(self, **options: Unpack[EncodeOptions]) -> None:
        super().__init__(**options)
        self.earlier_calls: Mapping[str, bool] | None = None
        self.client_calls: Mapping[str, ToolCall] = {}
        self._answering_model = ""
        self._earlier_usage: dict[str, Usage] = {}  # of the answers before, by model

    @property
    def usage_by_model(self) -> dict[str, Usage]:
        """Usage of all answers so far, by model."""
        model = self._answering_model
        earlier = self._earlier_usage.get(model)
        usage = self._usage if earlier is None else sum_usage((earlier, self._usage))
        return {**self._earlier_usage, model: usage}

    @abstractmethod
    def end_answer(self, stop: MessageStop) -> bytes:
        """End an answer; return the bytes that were held until the stop reason was known.

        Args:
            stop: End of the answer.
        """

    def begin_step(self, start: MessageStart) -> bytes:
        """Begin the next answer; return the bytes that separate it from the previous answer.

        Args:
            start: Start of the answer.
        """
        self._projector.begin_answer()
        self._earlier_usage, self._usage = self.usage_by_model, Usage()
        self._name_model(start)
        return self._end_step()

    def _name_model(self, start: MessageStart) -> str:
        """Set and return the name of the model that gives the next answer."""
        self._answering_model = self._model or start.model
        return self._answering_model

    @abstractmethod
    def _end_step(self) -> bytes:
        """Return the bytes between two answers."""


class StreamWriter:
    """Write the events of a stream with an encoder, one block after the other.

    Args:
        encoder: Encoder of the dialect that is written.
        ordered: Whether blocks are written one at a time; if not, as they arrive.
        limits: Bounds.
        frame_writer: Writes the events in a framing; None for server-sent events.

    Attributes:
        failure: Error by which the writer itself ended the stream; None if it has not.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        ordered: bool = True,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        frame_writer: FrameWriter | None = None,
    ) -> None:
        self.failure: StreamError | None = None
        self._unsent: list[bytes] = []  # of the delta at which a sink has failed
        self._encoder = encoder
        self._frame_writer = frame_writer
        self._unframed_failure: StreamError | None = None  # which the framing is to write
        self._render = encoder.render
        self._projector = encoder.projector
        self._sequencer: Sequencer | None = None
        if ordered:
            self._sequencer = Sequencer(
                overlapping=self._projector.capabilities.overlapping,
                max_held_bytes=limits.max_held_bytes,
            )

    @property
    def held_blocks(self) -> Mapping[int, int]:
        """The blocks that are held, each with the open block that holds it back."""
        return {} if self._sequencer is None else self._sequencer.held_behind

    def write(self, events: Iterable[Event], *, ends: bool = False) -> list[bytes]:
        """Return the encoded bytes of events, in pieces.

        Args:
            events: The events.
            ends: Whether these are the last events.

        Raises:
            LossyEncoding: `strict`, and the dialect cannot carry something.
        """
        parts: list[bytes] = []
        try:
            self._write(events, parts)
        except LimitExceeded as exc:
            error = StreamError("too_large", str(exc), code=exc.limit)
            parts.append(self._fail(error))
        if ends:
            parts.append(self._encoder.close())
        return parts if self._frame_writer is None else [self._in_frames(parts)]

    def _in_frames(self, parts: list[bytes]) -> bytes:
        """Return encoded events as bytes of the framing."""
        failure, self._unframed_failure = self._unframed_failure, None
        data = b"".join(parts)
        return data if self._frame_writer is None else self._frame_writer.write(data, failure)

    def _write(self, events: Iterable[Event], parts: list[bytes]) -> None:
        sequencer = self._sequencer
        for event in events:
            if type(event) is UsageUpdate:
                self.count(event)
                continue
            for passed in self._projector.push(event):
                # An error that the projector made: the target cannot carry what the answer waits
                # for.
                if type(passed) is StreamError and passed is not event:
                    parts.append(self._end_with(passed))
                    return
                for ordered in (passed,) if sequencer is None else sequencer.push(passed):
                    if type(ordered) is StreamError and ordered is not event:
                        raise LimitExceeded(ordered.message, limit=ordered.code or "")
                    if written := self._render(ordered):
                        parts.append(written)
            if type(event) is StreamError:
                self._unframed_failure = event
                self._count_dropped()

    def count(self, usage: UsageUpdate) -> None:
        """Pass a usage snapshot to the encoder."""
        self._render(self._projector.usage(usage))

    def delta_sink(self, delta: Delta) -> Callable[[str], bytes | None]:
        """Return a function that writes further text of the block of `delta`.

        It returns the bytes of the text, or None if the text is held for other blocks or
        for the end of its own.  It raises `LimitExceeded` where `write` ends the stream; the
        caller then calls `fail`.  Valid until `write` receives an event other than `TextDelta`
        and `JSONDelta`: a stop releases held blocks, and each part of a reasoning summary is
        written separately.

        Args:
            delta: A delta of the block and part.
        """
        index, projector = delta.index, self._projector
        if (hold := projector.held_sink(delta)) is not None:
            return hold
        if projector.passthrough_delta(index) == (type(delta), part_of(delta)):
            projected = delta
            if isinstance(delta, ReasoningDelta) and not projector.capabilities.reasoning_parts:
                # Without parts in the target all summaries are one text, written to part 0.
                projected = ReasoningDelta(index, "")
            held = None if self._sequencer is None else self._sequencer.held_texts(projected)
            if held is not None:
                return held_texts_sink(held)
            return self._delta_writer(index)
        make = delta_factory(delta)

        def write_in_full(text: str) -> bytes:
            parts: list[bytes] = []
            try:
                self._write((make(text),), parts)
            except LimitExceeded:  # the consumer calls `fail` next
                self._unsent = parts
                raise
            return self._in_frames(parts)

        return write_in_full

    def _delta_writer(self, index: int) -> Callable[[str], bytes]:
        framing, encoder = self._frame_writer, self._encoder
        if framing is None:
            return encoder.delta_writer(index)
        if (template := encoder.delta_template(index)) is not None:
            return framing.delta_writer(*template)
        write = encoder.delta_writer(index)
        return lambda text: framing.write(write(text), None)

    def fail(self, error: StreamError) -> bytes:
        """End the stream with an error, and return its bytes."""
        return self._in_frames([*self._unsent, self._fail(error)])

    def _fail(self, error: StreamError) -> bytes:
        self._projector.fail()
        if self._sequencer is not None:
            self._sequencer.push(error)
        return self._end_with(error)

    def _end_with(self, error: StreamError) -> bytes:
        self.failure = self._unframed_failure = error
        self._count_dropped()
        return self._render(error)

    def _count_dropped(self) -> None:
        if self._sequencer is not None and self._sequencer.dropped_bytes:
            self._encoder.count_held(self._sequencer.dropped_bytes)
