"""An answer of a model as a message of the history."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from msgspec import structs

from streamnorm._core.accumulate import Accumulator
from streamnorm._core.blocks import Block, InputBlock
from streamnorm._core.bodies.request import InputMessage, Reply, Source
from streamnorm._core.bodies.restoring import CallRestorer
from streamnorm._core.codec import Decoder
from streamnorm._core.errors import LocalProtocolError, TruncatedStream
from streamnorm._core.events import Event, StreamError
from streamnorm._core.failures import as_exception
from streamnorm._core.grammar import Grammar
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message
from streamnorm._decoding import decoder
from streamnorm._registry import lookup

__all__ = ["StreamedAnswer", "answer_message"]


def answer_message(message: Message, dialect: str | None) -> InputMessage:
    """Return a complete answer as a message of a request.

    Args:
        message: The answer.
        dialect: Dialect that it came in, which alone knows its other fields; None = unknown.
    """
    known = None if dialect is None else lookup(dialect)
    if known is None or known.body is None:  # no request could have them
        return InputMessage("assistant", message.blocks)
    names = known.body().answer_fields
    extras = message.block_extras or (None,) * len(message.blocks)
    blocks: tuple[InputBlock, ...] = tuple(
        _with_extra(block, extra, known.name, names)
        for block, extra in zip(message.blocks, extras, strict=True)
    )
    part = InputMessage("assistant", blocks)
    # There is no JSON to write again, but what only the dialect knows goes back to it.
    return InputMessage("assistant", blocks, source=Source(known.name, None, part))


def _with_extra(
    block: Block, extra: dict[str, Any] | None, dialect: str, names: dict[str, str]
) -> InputBlock:
    if not extra:
        return block
    own = {names.get(name, name): value for name, value in extra.items()}
    return structs.replace(block, extra={dialect: own})


class StreamedAnswer:
    """An answer that arrives as a stream; a conversation gets it when the stream has ended well.

    As a context manager it is closed at the end of the block, and discarded if the block
    raises.  Until then the conversation does not change.

        with conversation.append_stream() as answer:
            for chunk in response.iter_bytes():
                answer.feed(chunk)

    Args:
        append: Appends the message and its dialect to the conversation.
        dialect: Dialect of the bytes or the events; None to detect that of bytes.
        server: Name of the server; enables its quirks.
        reply: What `Conversation.dump` returned for the request that is answered.
    """

    def __init__(
        self,
        append: Callable[[Message, str | None], None],
        *,
        dialect: str | None = None,
        server: str | None = None,
        reply: Reply | None = None,
    ) -> None:
        self._append = append
        self._dialect = dialect
        self._server = server
        self._restorer: CallRestorer | None = None
        if reply is not None and reply.tools:
            self._restorer = CallRestorer(reply, Losses(), note=lambda kind, where: None)
        self._decoder: Decoder | None = None
        self._grammar: Grammar | None = None  # of events that are pushed
        self._accumulator = Accumulator()
        self._error: StreamError | None = None
        self._is_closed = False

    @property
    def message(self) -> Message:
        """The answer as far as it has arrived."""
        return self._accumulator.message()

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that are known with `data`, the next bytes of the stream.

        Raises:
            LocalProtocolError: The answer was closed or discarded, or has events already.
        """
        self._check_open()
        if self._grammar is not None:
            raise LocalProtocolError("bytes after events, expected events")
        if self._decoder is None:
            self._decoder = decoder(self._dialect, server=self._server)
        return self._add(self._decoder.feed(data))

    def push(self, event: Event) -> None:
        """Add the next event of the stream.

        Raises:
            LocalProtocolError: The event may not come here, which discards the answer; or the
                answer was closed or discarded, or has bytes already.
        """
        self._check_open()
        if self._decoder is not None:
            raise LocalProtocolError("event after bytes, expected bytes")
        if self._grammar is None:
            self._grammar = Grammar()
        try:
            self._grammar.advance(event)
        except LocalProtocolError:
            self.discard()
            raise
        self._add([event])

    def close(self) -> Message:
        """Append the answer to the conversation, and return it.

        Raises:
            LocalProtocolError: The answer was closed or discarded.
            UpstreamError: The provider reported an error.
            TruncatedStream: The stream ended before the message did.
            RemoteProtocolError: The stream was malformed, or exceeded a bound.
            NotAStream: The bytes are no stream.
        """
        self._check_open()
        self._is_closed = True
        dialect = self._dialect
        if self._decoder is not None:
            self._add(self._decoder.close())
            active = self._decoder.active
            # The decoder of a variant goes by the name of the dialect that it is a variant of.
            dialect = type(active).dialect or active.dialect or dialect
        if self._error is not None:
            partial = None if self._error.kind == "too_large" else self.message
            raise as_exception(self._error, dialect=dialect, partial=partial)
        message = self.message
        if message.stop_reason is None:
            raise TruncatedStream(
                f"answer of {len(message.blocks)} blocks without a stop reason, expected one",
                partial=message,
                dialect=dialect,
            )
        self._append(message, dialect)
        return message

    def discard(self) -> None:
        """Forget the answer, of which the conversation has nothing."""
        self._is_closed = True

    def __enter__(self) -> StreamedAnswer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.discard()
        elif not self._is_closed:
            self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LocalProtocolError("answer was closed, expected an open one")

    def _add(self, events: list[Event]) -> list[Event]:
        if self._restorer is not None:
            events = self._restorer.take(events)
        events = self._accumulator.take(events)
        for event in events:
            if isinstance(event, StreamError) and self._error is None:
                self._error = event
        return events
