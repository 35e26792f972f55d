"""Transcoder of a stream from one dialect to another, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypedDict

from msgspec import structs

from streamnorm._core.codec import DeltaForwarder, DeltaRun, RunEncoder, StreamWriter, as_utf8
from streamnorm._core.codec.framing import SSE, Framing, StreamPassthrough
from streamnorm._core.events import (
    BlockStart,
    Completed,
    Event,
    MessageStart,
    Outcome,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.failures import error_outcome, hide_account, too_large
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note, OnLoss, OnNote, ReasoningField
from streamnorm._core.messages import Accumulator, Message, UsageAccumulator
from streamnorm._registry import decoder, encoder, framing_of
from streamnorm.sse import RawFrame, is_whole

if TYPE_CHECKING:
    from streamnorm._core.bodies.chats import CallIds
    from streamnorm._core.bodies.request import Reply
    from streamnorm._core.bodies.tool_calls import RestoringSinks, ToolCallRestorer


Ordering = Literal["sequential", "interleaved"]


class WriterOptions(TypedDict, total=False):
    """Options for writing a stream; see `Transcoder`."""

    ordering: Ordering
    verbatim: bool
    strict: bool
    limits: Limits
    on_loss: OnLoss | None
    on_note: OnNote | None
    model: str | None
    include_usage: bool
    reasoning: ReasoningField | None
    page_client: str | None
    keep_message: bool
    to_framing: Framing | None


class TranscodeOptions(WriterOptions, total=False):
    """Options for transcoding a stream; see `Transcoder`."""

    server: str | None
    think_tags: bool
    reply: Reply | None
    framing: Framing | None


class Transcoder:
    """A transcoder of one stream to another dialect.

    Each `feed` returns all bytes known by then, as one piece.  A stream that fails ends with
    the target's error event, never with its terminal.

    With equal dialects the original bytes are returned unchanged, event by event, and only
    observed; a JSON array is returned as server-sent events, and invalid UTF-8 as U+FFFD.  A
    failure that the bytes do not show (a cut, a limit, an error outside an event) is appended
    as an error event.  An event that cannot be read (no JSON, nested too deep, against the
    protocol) is replaced by an error event: a client would fail at it before it reads the error.

    `verbatim=False` re-encodes the stream, as does a `model`, `include_usage` or `reasoning`
    other than the default, and a `reply` that is not empty: names and ids once, indexes dense, one
    block at a time.

    Args:
        dialect: Dialect to read; None to detect it.
        to: Dialect to write.
        ordering: `sequential` writes one block at a time, as most clients require;
            `interleaved` writes blocks as they arrive, for clients that accept it.
        verbatim: Whether to return the original bytes if both dialects are the same.
        strict: Whether to raise `LossyEncoding` at the first loss.
        limits: Bounds.
        on_loss: Called with each loss as it happens.
        on_note: Called with each note as it happens.
        server: Name of the server (for example `qianfan`); enables its quirks.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        model: Model to name in place of the one that answered.
        include_usage: Whether to write the tokens in Chat Completions.
        reasoning: Field of Chat Completions that reasoning is written to; None leaves
            reasoning out, in any dialect.
        page_client: Client of a page, such as `ai@7` or `ag-ui@1`, to write what older ones do not
            show; None for what all of them accept.
        keep_message: Whether to accumulate `message`; without, outcome and usage alone are
            known, and `max_accumulated_bytes` bounds what decoder and encoder store.
        reply: What `encode_request` returned for the request that is answered: calls get the
            client's names, namespaces and kinds back, as they arrive, and the response the
            client's fields.  In another dialect, calls get ids that no earlier call has.  For a
            page, errors may be written without details of the provider's account.
        framing: How the events stand in the bytes that are read; None for that of their dialect.
        to_framing: How they stand in the bytes that are written; None for the framing of `to`.
            Original bytes are returned if it is `framing`, too.

    Raises:
        UnknownDialect: A dialect does not exist, or does not do its part.
        ValueError: An option has no such value.
    """

    def __init__(
        self,
        dialect: str | None,
        to: str,
        *,
        ordering: Ordering = "sequential",
        verbatim: bool = True,
        strict: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_loss: OnLoss | None = None,
        on_note: OnNote | None = None,
        server: str | None = None,
        think_tags: bool = False,
        model: str | None = None,
        include_usage: bool = True,
        reasoning: ReasoningField | None = "reasoning_content",
        page_client: str | None = None,
        keep_message: bool = True,
        reply: Reply | None = None,
        framing: Framing | None = None,
        to_framing: Framing | None = None,
    ) -> None:
        if ordering not in ("sequential", "interleaved"):
            raise ValueError(f"ordering is {ordering!r}, expected 'sequential' or 'interleaved'")
        framing = framing or framing_of(dialect)
        self.to_framing = to_framing = to_framing or framing_of(to)
        self._decoder = decoder(
            dialect,
            server=server,
            think_tags=think_tags,
            limits=limits,
            on_note=on_note,
            framing=framing,
        )
        self._encoder = encoder(
            to,
            model=model,
            strict=strict,
            on_loss=on_loss,
            include_usage=include_usage,
            reasoning=reasoning,
            page_client=page_client,
            limits=limits,
        )
        self._frame_writer = None if to_framing.writer is None else to_framing.writer()
        self._writer = StreamWriter(
            self._encoder,
            ordered=ordering == "sequential",
            limits=limits,
            frame_writer=self._frame_writer,
        )
        self._accumulator = Accumulator(limits=limits) if keep_message else UsageAccumulator()
        self._restorer: ToolCallRestorer | None = None
        self._sinks: RestoringSinks | None = None
        self._call_ids: CallIds | None = None  # of the conversation
        if reply is not None:
            self._encoder.response_fields = reply.response
            if reply.calls is not None:
                self._name_calls(reply.calls)
            if reply.tools:
                self._restore(reply, limits)
        # Id and model of a message that names none; None once it has started.
        self._identity = reply if reply is not None and reply.model else None
        self._framing = framing
        self._keeps_framing = framing is to_framing
        self._keeps_messages = self._keeps_framing and framing is not SSE
        self._forwarder: DeltaForwarder | None = None  # of the delta run; None outside one
        self._wrote_first_usage = False
        changes = model is not None or not include_usage or reasoning != "reasoning_content"
        changes = changes or page_client is not None
        changes = changes or bool(self._encoder.response_fields) or self._call_ids is not None
        self._hides_account = reply is not None and reply.hides_account
        changes = changes or self._hides_account
        # Another framing needs the terminal, which some servers leave out.
        changes = changes or (to_framing is not SSE and to_framing is not framing)
        self._verbatim = verbatim and not changes and self._restorer is None
        self._passthrough: StreamPassthrough | None = None  # where the original bytes pass
        self._is_decided = False  # whether the source dialect is known
        self._has_ended = False  # `close` or `abort` was called
        self._take_read = as_utf8  # passes on a read that the delta run has read
        self._withheld = 0  # last events that a client would fail at, or read as success
        self._max_undecided_bytes = limits.max_held_bytes
        self._undecided = bytearray()  # original bytes before the source dialect was known
        self._decide()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bytes that `data` completes: a list with one item, or an empty list.

        Raises:
            LossyEncoding: `strict`, and the target cannot carry something.
            LocalProtocolError: The transcoder was closed.
        """
        forwarder, unread = self._forwarder, data
        parts: list[bytes] = []
        if forwarder is not None:
            unread = forwarder.run.forward(data, parts, forwarder)
            if not unread and forwarder.failure is None:
                if self._passthrough is not None:
                    written = self._take_read(data)
                    return [written] if written else []
                return parts if len(parts) < 2 else [b"".join(parts)]
        # Nothing unread is no read: the framing would parse what it holds.
        frames = self._decoder.split(unread) if unread or forwarder is None else []
        position = 0
        if forwarder is not None and forwarder.failure is None:
            position = forwarder.run.forward_frames(frames, 0, parts, forwarder)
            if position == len(frames) and forwarder.failure is None:
                if self._passthrough is None:
                    return parts if len(parts) < 2 else [b"".join(parts)]
                if self._keeps_messages or self._decoder.is_plain:
                    return [written] if (written := self._passthrough.take(data)) else []
        return self._read_in_full(data, frames, position, parts)

    def _read_in_full(
        self, data: bytes, frames: list[RawFrame], position: int, parts: list[bytes]
    ) -> list[bytes]:
        """Finish `feed` from the first frame that the delta run could not read.

        Args:
            data: The bytes of the read.
            frames: The frames.
            position: Index of the first frame to read in full.
            parts: Bytes of the frames before it; the list to append to.
        """
        if self._writer.failure is not None:
            return []
        count = len(frames)
        while self._writer.failure is None:
            forwarder = self._forwarder
            if forwarder is not None and forwarder.failure is not None:
                parts.append(self._fail(forwarder.failure))
                break
            if position == count:
                break
            if written := self._read(frames[position]):
                parts.append(written)
            position += 1
            if position < count and (forwarder := self._forwarder) is not None:
                position = forwarder.run.forward_frames(frames, position, parts, forwarder)
        if self._passthrough is None:
            if not self._is_decided and self._verbatim and self._writer.failure is None:
                self._undecided += self._original_bytes(data)
                if len(self._undecided) > self._max_undecided_bytes:  # comments, perhaps
                    error = too_large("max_held_bytes", self._max_undecided_bytes).error
                    parts.append(self._fail(error))
            return [written] if (written := b"".join(parts)) else []
        if self._decoder.error_outside_stream:  # which does not pass as an event
            position -= 1
        unread = sum(map(is_whole, frames[position:])) + self._withheld
        if self._undecided or not (self._keeps_messages or self._decoder.is_plain):
            data = self._original_bytes(data)
            if self._undecided:
                data, self._undecided = bytes(self._undecided + data), bytearray()
            original = self._passthrough.take_other(data, unread)
        else:
            original = self._passthrough.take(data, unread)
        return [written] if (written := b"".join([original, *parts])) else []

    def _convert_event(self, data: bytes) -> bytes:
        """Return a chunk that is one complete binary message as a server-sent event."""
        return as_utf8(self._decoder.as_event_stream(data))

    def _original_bytes(self, data: bytes) -> bytes:
        """Return a chunk as the passthrough expects it: unchanged, or as server-sent events."""
        return data if self._keeps_messages else self._decoder.as_event_stream(data)

    def close(self) -> list[bytes]:
        """Signal the end of the source, and return the remaining bytes."""
        return self._end(self._decoder.close)

    def abort(self, cause: BaseException) -> list[bytes]:
        """Signal that the source has failed, and return the remaining bytes."""
        return self._end(lambda: self._decoder.abort(cause))

    def ping(self) -> bytes:
        """Return a keep-alive for the client; b"" after the end, or if the dialect has no pings."""
        if self.outcome is not None or self._frame_writer is not None:
            return b""
        return self._encoder.ping()

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until its end."""
        failure = self._writer.failure
        return error_outcome(failure) if failure else self._decoder.outcome

    @property
    def dialect(self) -> str:
        """Name of the source dialect; empty while it is not detected."""
        return self._decoder.dialect

    @property
    def untouched(self) -> bool:
        """Whether the original bytes are returned; false until the dialect is detected."""
        return self._passthrough is not None

    @property
    def frames(self) -> int:
        """Number of frames read."""
        return self._decoder.frames

    @property
    def progress(self) -> int:
        """Number of frames with events, plus one at the end of the message."""
        return self._decoder.progress

    @property
    def waiting_bytes(self) -> int:
        """Number of stored bytes that the next chunk, however small, may cause to be processed.

        These are the bytes of the unfinished event, and those that the target's last events
        repeat or hold.
        """
        return self._decoder.framing.unfinished_bytes + self._encoder.stored_bytes

    @property
    def lacks_only_terminal(self) -> bool:
        """Whether the message lacks only its terminal event, which some servers never send."""
        return self._decoder.lacks_only_terminal

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses so far."""
        return self._encoder.losses

    @property
    def notes(self) -> tuple[Note, ...]:
        """Accepted deviations from the protocol."""
        return self._decoder.notes

    @property
    def message(self) -> Message:
        """The message accumulated so far.

        Raises:
            LimitExceeded: It is larger than `max_accumulated_bytes`.
            LocalProtocolError: `keep_message` is false.
        """
        self._write_pending_usage()
        return self._accumulator.message()

    @property
    def usage(self) -> Usage:
        """The last usage snapshot."""
        self._write_pending_usage()
        return self._accumulator.usage

    @property
    def is_empty(self) -> bool:
        """Whether no event of the message has arrived."""
        return self._accumulator.is_empty

    def set_response_id(self, id: str) -> None:
        """Set the id from the response's headers, for messages without an id."""
        self._decoder.response_id = id

    def set_minted_id(self, id: str) -> None:
        """Set the id to write for a message that the provider sends without an id.

        Equal bytes in give equal bytes out, so that none is made up here.
        """
        self._encoder.minted_id = id

    @property
    def has_blocks(self) -> bool:
        """Whether a block of the message has begun."""
        return self._accumulator.has_blocks

    def _restore(self, reply: Reply, limits: Limits) -> None:
        """Set up the `ToolCallRestorer`, which gives tool calls the client's names and kinds."""
        from streamnorm._core.bodies.tool_calls import RestoringSinks, ToolCallRestorer

        def note(kind: str, where: str) -> None:
            self._decoder.note(kind, where)  # detection replaces the decoder

        losses = self._encoder.loss_counter
        self._restorer = ToolCallRestorer(reply, losses, note=note, limits=limits)
        self._sinks = RestoringSinks(self._restorer, self._accumulator, self._writer)

    def _name_calls(self, earlier: dict[str, bool]) -> None:
        """Set up `CallIds`, which makes the ids of tool calls unique within a conversation."""
        from streamnorm._core.bodies.chats import CallIds

        if isinstance(self._encoder, RunEncoder):
            self._encoder.earlier_calls = earlier
            self._call_ids = CallIds(earlier)
        elif self._decoder.dialect != self._encoder.dialect:
            self._call_ids = CallIds(earlier, self._encoder.loss_counter)

    def _decide(self) -> None:
        """Choose between passthrough and re-encoding once the source dialect is known."""
        self._is_decided = bool(self._decoder.dialect)
        if self._decoder.dialect == self._encoder.dialect:
            # Unknown fields of the dialect itself lose nothing when they are written back.
            self._encoder.extras = True
            if self._verbatim:
                kind = self._framing if self._keeps_framing else SSE
                self._passthrough = passthrough = kind.passthrough(self._decoder.framing)
                self._take_read = passthrough.take_forwarded
                if self._framing is not SSE and not self._keeps_messages:
                    self._take_read = self._convert_event

    def _read(self, raw: RawFrame) -> bytes:
        """Read a frame on the slow path; return the bytes to write."""
        self._write_pending_usage()
        events = self._decoder.read_raw(raw)
        self._decoder = self._decoder.active or self._decoder
        if not self._is_decided:
            self._decide()
        written = self._write(events) if events else b""
        self._renew_forwarder(events)
        return written

    def _write(self, events: list[Event]) -> bytes:
        """Accumulate events; return their bytes, or in a passthrough only the bytes of an error."""
        executor = self._decoder.executes_calls
        if executor is not None and not self._encoder.extras:
            self._encoder.projector.expect_executed_calls(of_agent=executor == "agent")
        if self._identity is not None:
            events = self._name_message(events, self._identity)
        if self._restorer is not None and not (events := self._restorer.take(events)):
            return b""
        if self._call_ids is not None:
            events = [_with_own_id(event, self._call_ids) for event in events]
        if self._hides_account and isinstance(events[-1], StreamError):
            events = [*events[:-1], hide_account(events[-1])]  # the outcome has the error as it is
        accepted = self._accumulator.take(events)
        last = accepted[-1]
        error = last if type(last) is StreamError else None
        if self._passthrough is not None:
            if error is None:
                return b""
            # The provider's own error event has passed: a second one would be another error.
            is_inside = not self._decoder.error_outside_stream
            if error.kind == "upstream" and is_inside == self._passthrough.shows_errors:
                return b""
            has_completed = isinstance(self._decoder.outcome, Completed)
            self._withheld = self._decoder.refused or has_completed
            return self._fail(error)
        # Anthropic's clients read the input tokens of the first frame.
        if not self._wrote_first_usage and self._decoder.first_usage is not None:
            self._wrote_first_usage = True
            self._encoder.render(UsageUpdate(self._decoder.first_usage))
        is_ours = accepted is not events or (
            self._restorer is not None and self._restorer.has_failed
        )
        if error is not None and is_ours:
            return b"".join([*self._writer.write(accepted[:-1]), self._fail(error)])
        return b"".join(self._writer.write(accepted, ends=self._decoder.outcome is not None))

    def _name_message(self, events: list[Event], reply: Reply) -> list[Event]:
        """Return events; a `MessageStart` without id or model gets the id or model of `reply`."""
        named: list[Event] = []
        for event in events:
            if isinstance(event, MessageStart):
                self._identity = None
                event = MessageStart(event.id or reply.id, event.model or reply.model, event.extra)
            named.append(event)
        return named

    def _renew_forwarder(self, events: list[Event]) -> None:
        """Update the forwarder to the decoder's current delta run."""
        run = None if self._writer.failure is not None else self._decoder.run
        if self._forwarder is not None and self._forwarder.run is run:
            self._forwarder.invalidate(events)
        elif run is None:
            self._forwarder = None
        else:
            self._forwarder = self._forward(run)

    def _forward(self, run: DeltaRun) -> DeltaForwarder:
        if self._sinks is not None:
            return DeltaForwarder(run, self._sinks, self._sinks)
        writer = self._writer if self._passthrough is None else None
        return DeltaForwarder(run, self._accumulator, writer)

    def _fail(self, error: StreamError) -> bytes:
        """End the stream with an error; return the bytes of the error event."""
        self._write_pending_usage()
        self._forwarder = None
        if self._passthrough is None:
            return self._writer.fail(error)
        self._writer.failure = error
        self._encoder.resume_after_passthrough(
            self._accumulator.start, self._decoder.next_sequence_number
        )
        written = self._encoder.render(error)
        if self._frame_writer is not None:  # the original messages are in their framing
            return self._frame_writer.write(written, error)
        return written

    def _end(self, end: Callable[[], list[Event]]) -> list[bytes]:
        """Call `end`, and return the remaining bytes; after the first call, return []."""
        if self._has_ended:
            return []
        self._has_ended = True
        self._write_pending_usage()
        self._forwarder = None
        events = end()
        if self._writer.failure is not None:
            return []
        if not self._is_decided:
            self._decide()
        written = self._write(events) if events else b""
        if self._passthrough is not None:
            original = self._passthrough.take_other(bytes(self._undecided), self._decoder.refused)
            # Half an event may not stand before our error, nor be completed by it.
            rest = b"" if self._writer.failure is not None else self._passthrough.rest()
            written = original + rest + written
        return [written] if written else []

    def _write_pending_usage(self) -> None:
        """Accumulate and write the usage that frames of the delta run reported."""
        run = None if self._forwarder is None else self._forwarder.run
        if run is None or not run.reports_usage:
            return
        if (usage := run.pending_usage()) is not None:
            self._accumulator.take([usage])
            if self._passthrough is None:
                self._writer.count(usage)


def _with_own_id(event: Event, ids: CallIds) -> Event:
    """Return an event whose call or result has an id that is unique within the conversation."""
    if not isinstance(event, BlockStart):
        return event
    renamed = ids.rename(event.block)
    return event if renamed is event.block else structs.replace(event, block=renamed)
