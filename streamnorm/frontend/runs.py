"""Encoding of an agent's run as one stream for a web page, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, TypeVar, cast
from uuid import uuid4

from msgspec import structs

from streamnorm._bodies import reader_of
from streamnorm._core.blocks import (
    Block,
    ServerToolCall,
    ServerToolResult,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.chats import CallIds, client_calls_of
from streamnorm._core.bodies.request import Request, Source, calls_of
from streamnorm._core.codec import PageCodec, RunEncoder, StreamWriter
from streamnorm._core.errors import EncodeError, LimitExceeded, LocalProtocolError, UnknownDialect
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Opaque,
    Outcome,
    Ping,
    StreamError,
    Usage,
    UsageUpdate,
    sum_usage,
)
from streamnorm._core.failures import error_outcome, malformed, too_large
from streamnorm._core.grammar import EventGrammar
from streamnorm._core.json import clean
from streamnorm._core.limits import Limits, StoredBytes
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._core.losses.executed_calls import ExecutedCalls
from streamnorm._core.messages import Accumulator, Message
from streamnorm._core.open_calls import TURN_TOKEN
from streamnorm._registry import DIALECTS, encoder, lookup
from streamnorm.aio.executing import clean_result

RunItem: TypeAlias = Event | ToolResult | Iterable[ToolResult]
"""What a run consists of: the events of an answer, and the results of its tool calls."""

B = TypeVar("B", bound=Block)

NO_IDS: Mapping[str, str] = {}


class Run:
    """Writer of an agent's run, several answers with their tool results, as one stream.

        run = Run("ui_message_stream")
        for event in answer:
            send(run.write(event))
        send(run.write(results))
        ...  # the events of the next answer
        send(run.finish())

    Each answer is checked on its own, from its `MessageStart` to its `MessageStop`.  In the stream
    they are the steps of one message: blocks are numbered on, a call whose id an earlier answer
    has used gets another one, and the usage is the sum of all answers.  Nothing is held but the
    `MessageStop`, until the next answer or the end of the run, and the calls of a turn in which
    Google executes functions itself, until their results or the end of the turn.

    An `Opaque` of the page's dialect is written unchanged, for what the application itself tells
    the page: a `data-` chunk, a `STATE_SNAPSHOT`.

    Args:
        to: Dialect of the page.
        request: The request of the page, as it was decoded or with fields replaced since: the
            stream repeats its ids, and gives its calls' ids to no other call.  None for a page
            that sends a body of its own.
        ids: Ids that the page has given, in place of those of `request`: `messageId` of the
            assistant's message that a UI message stream continues; `threadId` and `runId` of AG-UI.
        page_client: Client of the page, such as `ai@7` or `ag-ui@1`, to write what older ones do
            not show; None for what all of them accept.
        limits: Bounds.
        on_loss: Called with each loss as it happens.

    Raises:
        UnknownDialect: There is no such dialect, or its streams hold one answer.
        ValueError: Pages of the dialect have no such client.

    Attributes:
        outcome: How the run ended; None until it has.
        usage: The sum of the usage of all answers.
    """

    def __init__(
        self,
        to: str,
        *,
        request: Request | None = None,
        ids: Mapping[str, str] = NO_IDS,
        page_client: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_loss: OnLoss | None = None,
    ) -> None:
        self.outcome: Outcome | None = None
        self.usage = Usage()
        self._encoder = _run_encoder(to, page_client, limits, on_loss)
        given = {**({} if request is None else _ids_of(request)), **ids}
        # They come from a browser, which may send half a surrogate pair.
        self._encoder.response_fields = {name: clean(id) for name, id in given.items()}
        self._encoder.minted_id = uuid4().hex
        self._writer = StreamWriter(self._encoder, limits=limits)
        self._accumulator = Accumulator(limits=limits)
        self._grammar = EventGrammar()  # of the current answer
        self._has_begun = False  # whether the message has a start
        self._is_open = False  # whether an answer has begun and not stopped
        self._stop: MessageStop | None = None  # of the last answer
        self._earlier_usage = Usage()  # of the answers before the current one
        self._executed: ExecutedCalls | None = None  # of the current answer
        self._max_blocks, self._max_bytes = limits.max_blocks, limits.max_accumulated_bytes
        self._blocks = 0
        self._indexes: dict[int, int] = {}  # of blocks in the run, by that in their answer
        self._open_calls: dict[int, str] = {}  # ids, by the index of their block in the run
        self._open_ids: set[str] = set()
        calls = None if request is None else calls_of(request.messages)
        self._call_ids = CallIds(calls or ())
        self._encoder.earlier_calls = calls
        if request is not None:
            self._encoder.client_calls = client_calls_of(request.messages)

    def write(self, item: RunItem) -> bytes:
        """Return the bytes of the next event, tool result or list of tool results.

        Raises:
            EncodeError: A text of the event has half a character.
            LocalProtocolError: The event breaks the grammar of its answer, a result comes before
                the end of its call, or the run has ended.
            TypeError: The item is neither event nor result.
        """
        if self.outcome is not None:
            raise LocalProtocolError("item after the end of the run, expected none")
        try:
            if isinstance(item, Event):
                return self._write_event(item)
            results = [clean_result(result) for result in _results_of(item)]
            return b"".join([self._write_result(result) for result in results])
        except UnicodeEncodeError as exc:
            found = "half a surrogate pair, expected whole characters"
            raise EncodeError(found, path=type(item).__name__) from exc

    def finish(self) -> bytes:
        """Return the bytes that end the run; an error if the last answer is incomplete."""
        if self._stop is None:
            lacks = "its answer was complete" if self._is_open else "its first answer"
            return self.fail(StreamError("truncated", f"the run ended before {lacks}"))
        written = self._emit(self._stop)
        if self.outcome is None:
            self.outcome = Completed(self._stop.reason, self.usage)
        return written + self._encoder.close()

    def fail(self, error: StreamError) -> bytes:
        """Return the bytes of an error that ends the run; b"" after the end."""
        if self.outcome is not None:
            return b""
        self.outcome = error_outcome(error)
        if self._executed is not None:
            self._executed.discard()
        return self._writer.fail(error)

    def ping(self) -> bytes:
        """Return a keep-alive for the page; b"" after the end."""
        return b"" if self.outcome is not None else self._encoder.ping()

    def error_body(self, error: StreamError) -> bytes:
        """Return the body of an error response, sent instead of a stream."""
        return self._encoder.error_body(error)

    @property
    def response_headers(self) -> Mapping[str, str]:
        """Response headers that clients of the page's dialect expect."""
        return self._encoder.response_headers

    @property
    def error_media_type(self) -> str:
        """The `content-type` of `error_body`."""
        return self._encoder.error_media_type

    @property
    def message(self) -> Message:
        """The page's message so far: the blocks of all answers, and the tool results.

        Raises:
            LimitExceeded: It is larger than `max_accumulated_bytes`.
        """
        return self._accumulator.message()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses in the page's dialect."""
        return self._encoder.losses

    # Events of answers

    def _write_event(self, event: Event) -> bytes:
        if isinstance(event, MessageStart):
            return self._start_answer(event)
        if isinstance(event, StreamError):
            return self.fail(event)
        self._grammar.advance(event)
        match event:
            case UsageUpdate(usage):
                return self._count(usage)
            case MessageStop(choice=0):
                self._stop, self._is_open = event, False
                return self._release_calls(event) + self._encoder.end_answer(event)
            case MessageStop():  # of an answer beside the first, which no page shows
                return b""
            case BlockStart():
                return self._start_block(event)
            case Opaque():
                return self._write_opaque(event)
            case Ping():
                return self._emit(event)
            case _:
                index = self._indexes[event.index]
                if isinstance(event, BlockStop):
                    self._open_ids.discard(self._open_calls.pop(index, ""))
                same = index == event.index
                return self._emit(event if same else structs.replace(event, index=index))

    def _start_answer(self, event: MessageStart) -> bytes:
        if not self._is_open:
            self._grammar = EventGrammar()
        self._grammar.advance(event)
        self._is_open, self._stop = True, None
        self._indexes.clear()
        self._call_ids.begin_answer()
        self._executed = None
        if self._has_begun:
            self._earlier_usage = self.usage
            written = self._encoder.begin_step(event)
        else:
            written = self._begin(event)
        if TURN_TOKEN in (event.extra or {}):
            losses, stored = self._encoder.loss_counter, StoredBytes(self._max_bytes)
            self._executed = ExecutedCalls(False, losses, stored, to_page=True)
        return written

    def _begin(self, start: MessageStart = MessageStart()) -> bytes:  # noqa: B008 - frozen
        """Begin the page's message, which may start with results of approved calls."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._emit(start)

    def _start_block(self, event: BlockStart) -> bytes:
        block = self._rename(event.block)
        index = self._indexes[event.index] = self._next_index()
        if isinstance(block, ToolCall | ServerToolCall):
            if not block.name:  # without which pages show no call, nor send it back
                return self.fail(malformed("a call without a name, expected one").error)
            self._open_calls[index] = block.id
            self._open_ids.add(block.id)
        return self._emit(structs.replace(event, index=index, block=block))

    def _write_opaque(self, event: Opaque) -> bytes:
        # The application may send data of its own before the first answer.
        begun = self._begin() if event.dialect == self._encoder.dialect else b""
        index = None if event.index is None else self._indexes[event.index]
        return begun + self._emit(structs.replace(event, index=index))

    def _write_result(self, result: ToolResult) -> bytes:
        renamed = self._rename(result)
        begun, index = self._begin(), self._next_index()
        return begun + self._emit(BlockStart(index, renamed), BlockStop(index))

    def _rename(self, block: B) -> B:
        """Return a block with its tool call's id replaced by an id that is unique in the chat.

        Raises:
            LocalProtocolError: It is the result of a call that is open, whose half a page would
                show as done.
        """
        renamed = self._call_ids.rename(block)
        if not isinstance(renamed, ToolResult | ServerToolResult):
            return renamed
        if renamed.tool_call_id in self._open_ids:
            raise LocalProtocolError("result of an open call, expected the end of the call")
        return renamed

    def _next_index(self) -> int:
        index, self._blocks = self._blocks, self._blocks + 1
        return index

    def _count(self, usage: Usage) -> bytes:
        """Store the usage of the current answer, in place of the answer's earlier usage."""
        self.usage = sum_usage((self._earlier_usage, usage))
        self._accumulator.push(UsageUpdate(self.usage))
        self._writer.count(UsageUpdate(usage))
        return b""

    def _hold_calls(self, events: list[Event]) -> list[Event]:
        """Return events with the calls that the provider has executed as its own.

        Only the result shows whom a call is for, and the page would execute one of its own.  Calls
        are held until their result, or the end of the answer.

        Raises:
            LimitExceeded: More than `max_accumulated_bytes` would be held.
        """
        if self._executed is None:
            return events
        return [passed for event in events for passed in self._executed.push(event)]

    def _release_calls(self, stop: MessageStop) -> bytes:
        """Return the bytes of the calls of an answer that its provider has not executed."""
        held = self._hold_calls([stop])[:-1]
        self._executed = None
        return b"".join(self._writer.write(held))

    def _emit(self, *events: Event) -> bytes:
        """Accumulate events, and return their bytes; b"" after a failure."""
        if self.outcome is not None:
            return b""
        if self._blocks > self._max_blocks:  # more than any page reads
            return self.fail(too_large("max_blocks", self._max_blocks).error)
        given = list(events)
        accepted = self._accumulator.take(given)
        try:
            passed = self._hold_calls(accepted if accepted is given else accepted[:-1])
        except LimitExceeded as exc:
            return self.fail(too_large(exc.limit, self._max_bytes).error)
        written = b"".join(self._writer.write(passed))
        if self._writer.failure is not None:
            self.outcome = error_outcome(self._writer.failure)
        elif accepted is not given and isinstance(last := accepted[-1], StreamError):
            written += self.fail(last)
        return written


def _ids_of(request: Request) -> dict[str, str]:
    """Return the ids in a page's request that its answer must repeat; {} for other requests."""
    source = request.source
    if not isinstance(source, Source):
        return {}
    codec = reader_of(lookup(source.dialect))
    if not isinstance(codec, PageCodec) or codec.echoed_fields is None:
        return {}
    return codec.echoed_fields(source.value)


def _results_of(item: object) -> list[ToolResult]:
    """Return the tool results in an item of a run: one result or several.

    Raises:
        TypeError: It is not one, nor several.
    """
    results: list[ToolResult] = []
    name = type(item).__name__
    several = cast("Iterable[object]", item) if isinstance(item, Iterable) else (item,)
    for each in several:
        if not isinstance(each, ToolResult):
            kinds = dict.fromkeys((name, type(each).__name__))
            raise TypeError(f"run gives {' of '.join(kinds)}, expected events and tool results")
        results.append(each)
    return results


def _run_encoder(
    to: str, page_client: str | None, limits: Limits, on_loss: OnLoss | None
) -> RunEncoder:
    target = encoder(to, page_client=page_client, limits=limits, on_loss=on_loss)
    if isinstance(target, RunEncoder):
        return target
    known = [name for name, each in DIALECTS.items() if each.encoder is not None]
    fit = ", ".join(name for name in known if isinstance(encoder(name), RunEncoder))
    raise UnknownDialect(f"dialect {target.dialect!r} has no runs, expected one of {fit}")
