"""Answers as messages of the history, and their tool calls that wait for results."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Set
from itertools import islice
from types import TracebackType
from typing import Any

from msgspec import structs

from streamnorm._core.blocks import (
    Block,
    InputBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.request import InputMessage, Reply, Role, Source
from streamnorm._core.bodies.tool_calls import ToolCallRestorer
from streamnorm._core.codec import Decoder
from streamnorm._core.errors import EncodeError, LocalProtocolError, TruncatedStream
from streamnorm._core.events import Event, Opaque, StreamError
from streamnorm._core.failures import as_exception
from streamnorm._core.grammar import EventGrammar
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Accumulator, Message
from streamnorm._core.open_calls import provider_results
from streamnorm._registry import decoder, lookup

_MAX_ID_CHARS = 80  # characters of an id in error texts


def answer_messages(message: Message, dialect: str | None) -> list[InputMessage]:
    """Return a complete answer as messages of a request.

    An agent that executes tools goes on in the same answer: each step is a message, and the
    results of its calls are the message after it.

    Args:
        message: The answer.
        dialect: Dialect of the answer, to which its vendor fields belong; None = unknown.
    """
    known = None if dialect is None else lookup(dialect)
    codec = None if known is None else known.codec
    if known is None or codec is None:  # no request could have them
        return [InputMessage(role, tuple(step)) for role, step in _steps(message.blocks)]
    names = codec.answer_fields
    extras = message.block_extras or (None,) * len(message.blocks)
    blocks: tuple[InputBlock, ...] = tuple(
        _with_extra(block, extra, known.name, names)
        for block, extra in zip(message.blocks, extras, strict=True)
    )
    if codec.executed_call is not None:
        blocks = _with_executed_calls(blocks, codec.executed_call)
    blocks = _with_opaque_content(blocks, message.opaque, codec.opaque_content)
    fields = codec.message_fields(message)
    own = {known.name: fields} if fields else None
    messages: list[InputMessage] = []
    for role, step in _steps(blocks):
        part = InputMessage(role, tuple(step), extra=own)
        # There is no JSON to write again; the source only marks the blocks as of the dialect.
        messages.append(structs.replace(part, source=Source(known.name, None, part)))
    return messages


def _steps(blocks: Iterable[InputBlock]) -> list[tuple[Role, list[InputBlock]]]:
    """Split an answer into turns: the assistant's, and the user's with the tool results."""
    steps: list[tuple[Role, list[InputBlock]]] = []
    for block in blocks:
        role: Role = "user" if isinstance(block, ToolResult) else "assistant"
        if not steps or steps[-1][0] != role:
            steps.append((role, []))
        steps[-1][1].append(block)
    return steps or [("assistant", [])]


def _with_extra(
    block: Block, extra: dict[str, Any] | None, dialect: str, names: dict[str, str]
) -> InputBlock:
    if not extra:
        return block
    own = {names.get(name, name): value for name, value in extra.items()}
    return structs.replace(block, extra={dialect: own})


def _with_executed_calls(
    blocks: tuple[InputBlock, ...], convert: Callable[[ToolCall, ServerToolResult], ServerToolCall]
) -> tuple[InputBlock, ...]:
    """Return blocks whose calls of functions with a result of the server are server calls."""
    results = provider_results(blocks)
    return tuple(
        convert(block, results[block.id])
        if isinstance(block, ToolCall) and block.id in results
        else block
        for block in blocks
    )


def _with_opaque_content(
    blocks: tuple[InputBlock, ...],
    opaque: Iterable[Opaque],
    convert: Callable[[Opaque], OpaqueBlock | None],
) -> tuple[InputBlock, ...]:
    """Return blocks with the content among the opaque data of their answer, as blocks.

    Content of a block stands behind the block.  Content without a block stands before the first
    text or call, since content that comes behind a text in one item has the text's index.
    """
    contents: dict[int | None, list[InputBlock]] = {}
    for event in opaque:
        content = convert(event)
        if content is not None:
            contents.setdefault(event.index, []).append(content)
    if not contents:
        return blocks
    placed: list[InputBlock] = []
    for number, block in enumerate(blocks):
        if isinstance(block, Text | ToolCall):
            placed += contents.pop(None, ())
        placed += [block, *contents.pop(number, ())]
    return (*placed, *contents.pop(None, ()))


class StreamedAnswer:
    """An answer that arrives as a stream, appended to the conversation once it is complete.

    As a context manager it is closed at the end of the block, and discarded if the block
    raises.  Until it is closed, the conversation does not change.

        with conversation.append_stream() as answer:
            for chunk in response.iter_bytes():
                answer.feed(chunk)

    Args:
        append: Function that appends the message and its dialect to the conversation.
        dialect: Dialect of the bytes or the events; None to detect the dialect of bytes.
        server: Name of the server; enables its quirks.
        reply: Response context that `Conversation.dump` returned with the request.
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
        self._restorer: ToolCallRestorer | None = None
        if reply is not None and reply.tools:
            self._restorer = ToolCallRestorer(reply, Losses(), note=lambda kind, where: None)
        self._decoder: Decoder | None = None
        self._grammar: EventGrammar | None = None  # if events are pushed
        self._accumulator = Accumulator()
        self._error: StreamError | None = None
        self._is_closed = False

    @property
    def message(self) -> Message:
        """The answer as far as it has arrived."""
        return self._accumulator.message()

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data`, the next bytes of the stream, completes.

        Raises:
            LocalProtocolError: The answer was closed or discarded, or has events already.
        """
        self._check_open()
        if self._grammar is not None:
            raise LocalProtocolError("bytes after events, expected events")
        if self._decoder is None:
            self._decoder = decoder(self._dialect, server=self._server)
        return self._add(self._decoder.feed(data))

    def push(self, event: Event) -> list[Event]:
        """Add the next event of the stream; return the events with the client's tool names.

        That are several events, or none yet, where `reply` restores the names of tools.

        Raises:
            LocalProtocolError: The event breaks the grammar, which discards the answer; or the
                answer was closed or discarded, or has bytes already.
        """
        self._check_open()
        if self._decoder is not None:
            raise LocalProtocolError("event after bytes, expected bytes")
        if self._grammar is None:
            self._grammar = EventGrammar()
        try:
            self._grammar.advance(event)
        except LocalProtocolError:
            self.discard()
            raise
        return self._add([event])

    def close(self) -> Message:
        """Append the answer to the conversation, and return the answer.

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
            active = self._decoder.active or self._decoder
            # The decoder of a variant has the name of the dialect that it varies.
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
        """Discard the answer; the conversation does not change."""
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


class OpenCalls:
    """The tool calls of a growing history, matched with their results by id.

    A result belongs to a call of the last assistant message before it; consecutive assistant
    messages count as one.  A call without an id has the id that encoders mint for it.

    If a dump has filled in the result of a call, the provider may have continued without it, so
    the real result may come later, even after other messages.

    Args:
        filled: Calls whose results were filled in, by the position of the last message of their
            turn then, and their ids; the set may grow.
    """

    def __init__(self, filled: Set[tuple[int, str]]) -> None:
        self._filled = filled
        self._late: set[str] = set()  # filled-in calls of earlier turns
        self._turn: dict[str, int] = {}  # order of the calls of the last turn, by id
        self._end = 0  # position of the last message of the last turn
        self._open: dict[str, ToolCall] = {}  # calls of the last turn without a result
        self._unnamed: set[str] = set()  # calls of the last turn with a minted id
        self._earlier: set[str] = set()  # calls of earlier turns
        self._in_turn = False  # whether the last message is the assistant's

    def copy(self) -> OpenCalls:
        """Return a copy, with the same `filled`."""
        copied = OpenCalls(self._filled)
        copied._late, copied._unnamed = set(self._late), set(self._unnamed)
        copied._turn, copied._open = dict(self._turn), dict(self._open)
        copied._earlier = set(self._earlier)
        copied._in_turn, copied._end = self._in_turn, self._end
        return copied

    def open(self) -> tuple[ToolCall, ...]:
        """Return the calls that wait for a result, in order."""
        return tuple(self._open.values())

    def positions(self) -> tuple[tuple[int, str], ...]:
        """Return the position of the last message of the turn, and the id, of each open call."""
        return tuple((self._end, id) for id in self._open)

    def is_filled(self, id: str) -> bool:
        """Return whether `dump` has written a made-up result for an open call."""
        return (self._end, id) in self._filled if id in self._open else id in self._late

    def order(self) -> dict[str, int]:
        """Return the position of each tool call of the last assistant turn, by call id."""
        return self._turn

    def add(self, message: InputMessage, position: int) -> None:
        """Add the calls and results of the next message.

        Raises:
            EncodeError: No call waits for a result, or two calls of one turn have one id;
                nothing is added then.
        """
        if message.role == "assistant":
            self._add_calls(message, position)
        else:
            self._add_results(message, position)

    def check_open(self, id: str, path: str) -> None:
        """Check that a call waits for a result.

        Raises:
            EncodeError: It does not.
        """
        if id in self._open or id in self._late:
            return
        name = repr(id[:_MAX_ID_CHARS])
        if id in self._turn:
            problem = f"second result of tool call {name}, expected one"
        elif id in self._earlier:
            problem = (
                f"result of tool call {name} after the next assistant message, "
                "expected it before that"
            )
        else:
            count = len(self._open)
            problem = (
                f"result of tool call {name}, which no message before it has, "
                f"expected one of {count} open calls"
            )
        raise EncodeError(problem, path=path)

    def _add_calls(self, message: InputMessage, position: int) -> None:
        calls: dict[str, ToolCall] = {}
        unnamed: set[str] = set()
        # The model has continued with the results that a dump has filled in, all at once: this is
        # its next turn.
        in_turn = self._in_turn and not any(map(self.is_filled, islice(self._open, 1)))
        before = self._turn if in_turn else {}
        for number, call in enumerate(message.tool_calls):
            id = call.id or f"call_{position}_{number}"
            if not call.id:
                unnamed.add(id)
                call = structs.replace(call, id=id)
            if id in calls or id in before:
                name = repr(id[:_MAX_ID_CHARS])
                raise EncodeError(
                    f"second tool call with the id {name}, expected an id for each",
                    path=f"messages[{position}].tool_calls[{number}]",
                )
            calls[id] = call
        if not in_turn:
            self._earlier.update(self._turn)
            self._late.update(filter(self.is_filled, self._open))
            self._turn, self._open, self._unnamed = {}, {}, set()
        self._late.difference_update(calls)
        for id in calls:
            self._turn[id] = len(self._turn)
        self._open |= calls
        self._unnamed |= unnamed
        self._in_turn, self._end = True, position

    def _add_results(self, message: InputMessage, position: int) -> None:
        answered: dict[str, None] = {}
        for number, block in enumerate(message.blocks):
            if isinstance(block, ToolResult):
                id = self._call_of(block, answered)
                path = f"messages[{position}].blocks[{number}]"
                if id in answered:
                    name = repr(id[:_MAX_ID_CHARS])
                    raise EncodeError(f"second result of tool call {name}, expected one", path=path)
                self.check_open(id, path)
                answered[id] = None
        for id in answered:
            if self._open.pop(id, None) is None:
                self._late.discard(id)
        self._in_turn = False

    def _call_of(self, result: ToolResult, answered: Container[str]) -> str:
        """Return the id of the call that a result answers, found by id, name or order."""
        if result.tool_call_id in self._turn:
            return result.tool_call_id
        for id, call in self._open.items():
            is_unnamed = not result.tool_call_id or id in self._unnamed
            if is_unnamed and result.name in ("", call.name) and id not in answered:
                return id
        return result.tool_call_id
