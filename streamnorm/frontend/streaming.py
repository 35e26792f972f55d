"""`stream_run` and `iter_run`, which write an agent's run as a stream of bytes."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import cast

from streamnorm._core.bodies.request import Request
from streamnorm._core.errors import StreamnormError
from streamnorm._core.events import Failed, Outcome, StreamError, Truncated, Usage
from streamnorm._core.failures import stream_error_of
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note, OnLoss
from streamnorm._core.messages import Message
from streamnorm._registry import framing_of
from streamnorm.aio.pump import Head, OnEnd, Pump
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.aio.stream import Stream, SyncStream
from streamnorm.frontend.runs import NO_IDS, Run, RunItem

# The page shows it to the user: neither type nor text of an exception of the agent.
_BROKEN = StreamError("truncated", "the agent failed before its answer was complete")


class _RunCore:
    """Adapter that presents a run as the decoder that a `Pump` requires; it reads no frames."""

    dialect = ""
    frames = progress = 0
    lacks_only_terminal = False
    notes: tuple[Note, ...] = ()

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended."""
        return self._run.outcome


class RunPump(Pump[bytes]):
    """The pump of `stream_run` and `iter_run`, which writes a run's items as bytes.

    Args:
        head: The reader of the items, which is no response.
        run: The run.
        limits: Bounds.
        on_end: Called with the outcome.
    """

    def __init__(self, head: Head, run: Run, to: str, limits: Limits, on_end: OnEnd | None) -> None:
        self.framing = framing_of(to)
        self._run = run
        self._bytes_sent = False
        super().__init__(head, _RunCore(run), dialect=None, limits=limits, on_end=on_end)

    def feed(self, data: object) -> bytes | None:
        try:
            written = self._run.write(cast("RunItem", data))
        except (StreamnormError, TypeError) as exc:
            self.abort(exc)
            return None
        if self._run.outcome is not None:
            self._finish(written)
        elif written:
            self._bytes_sent = True
            return written
        return None

    def close(self) -> None:
        self.ended = self.exhausted = True
        self._close()

    def abort(self, cause: Exception) -> None:
        self.ended = self.exhausted = True
        self._abort(cause)

    def _close(self) -> None:
        self._finish(self._run.finish())

    def _abort(self, cause: Exception) -> None:
        error = stream_error_of(cause)
        self._finish(self._run.fail(error or _BROKEN))
        # Of an error of the agent itself the page learns that the run has failed, and the caller
        # why.
        if error is None or not self._bytes_sent:
            self.failure, self.is_failure_written = cause, self._bytes_sent
            if isinstance(cause.__cause__, Exception):  # which `raise … from` would replace
                self.cause = cause.__cause__

    def _finish(self, written: bytes) -> None:
        self.ended = True
        match self._run.outcome:
            case Failed(error) | Truncated(error) if not self._bytes_sent:
                # No header was sent yet: the page can still get an HTTP status.
                self._fail(error)
            case _:
                self.pending = [written] if written else []

    @property
    def message(self) -> Message:
        return self._run.message

    @property
    def usage(self) -> Usage:
        return self._run.usage

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self._run.losses

    @property
    def response_headers(self) -> Mapping[str, str]:
        return self._run.response_headers

    @property
    def error_media_type(self) -> str:
        return self._run.error_media_type

    def ping(self) -> bytes:
        return self._run.ping()

    def error_body(self, error: StreamError) -> bytes:
        return self._run.error_body(error)


class _RunStream(Stream[bytes]):
    """The stream of `stream_run`, which closes its agent in no cancel scope of its own.

    An agent may hold a scope open while it yields, as that of a task group or of a client of MCP,
    and scopes must end in the reverse order of their start (PEP 789).
    """

    async def _release(self) -> None:
        self._closed, self._idle = True, False
        try:
            await self._reader.close()
        except BaseExceptionGroup as group:
            # Task groups put even the `GeneratorExit` of a generator that is closed into a group.
            _, others = group.split(GeneratorExit)
            if others is not None:
                raise others from group.__cause__


def stream_run(
    items: AsyncIterable[RunItem],
    *,
    to: str,
    request: Request | None = None,
    ids: Mapping[str, str] = NO_IDS,
    page_client: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    on_loss: OnLoss | None = None,
    on_end: OnEnd | None = None,
) -> Stream[bytes]:
    """Return an agent's run as a stream of bytes for a page.

        async def run_agent() -> AsyncIterator[RunItem]:
            while True:
                async with connect(client, "POST", url, json=...) as answer:
                    async for event in answer:
                        yield event
                if not answer.message.tool_calls:
                    return
                yield await run_tools(answer.message, tools)

        return EventStreamResponse(stream_run(run_agent(), to="ui_message_stream"))

    Each item is written as it comes.  An answer that fails or breaks off ends the run with an
    error of the page's dialect; so does any exception of the agent, which the stream then raises
    after the error.  A failure before the first byte is raised by the first read, so that the page
    can still get an HTTP status.

    Args:
        items: Events of the answers, and results of their tool calls, in the order of the run; an
            asynchronous generator.  It is closed with the stream.
        to: Dialect of the page.
        request: The request of the page, as for `Run`.
        ids: Ids that the page has given, as for `Run`.
        page_client: Client of the page, as for `Run`.
        limits: Bounds.
        on_loss: Called with each loss as it happens.
        on_end: Called with the outcome, once, on every path.

    Raises:
        UnknownDialect: There is no such dialect, or its streams hold one answer.
        TypeError: `items` is no asynchronous iterable.
    """
    reader = AsyncReader(cast("AsyncIterable[bytes]", items))
    run = Run(to, request=request, ids=ids, page_client=page_client, limits=limits, on_loss=on_loss)
    return _RunStream(RunPump(reader, run, to, limits, on_end), reader)


def iter_run(
    items: Iterable[RunItem],
    *,
    to: str,
    request: Request | None = None,
    ids: Mapping[str, str] = NO_IDS,
    page_client: str | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    on_loss: OnLoss | None = None,
    on_end: OnEnd | None = None,
) -> SyncStream[bytes]:
    """Return a synchronous agent's run as a stream of bytes for a page.

    Args:
        items: Events and results, as for `stream_run`.
        to: Dialect of the page.
        request: As for `stream_run`, like all that follow.
        ids: Ids.
        page_client: Client of the page.
        limits: Bounds.
        on_loss: Called with each loss.
        on_end: Called with the outcome.

    Raises:
        UnknownDialect: There is no such dialect, or its streams hold one answer.
        TypeError: `items` is no iterable.
    """
    reader = Reader(cast("Iterable[bytes]", items))
    run = Run(to, request=request, ids=ids, page_client=page_client, limits=limits, on_loss=on_loss)
    return SyncStream(RunPump(reader, run, to, limits, on_end), reader)
