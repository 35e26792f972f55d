"""Streams that outlive their clients: produced in a task, read from the log.

A request for a message with an `Idempotency-Key` or an `x-streamnorm-stream` produces its stream in
a task of its own, and reads it from the log like all that follow.  Whoever sends the same request
under the same id joins it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    suppress,
)
from functools import partial
from typing import NoReturn, TypeAlias

import anyio
from msgspec import Struct, structs

from streamnorm._answers import accumulated_answer
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import LogError, StoreError
from streamnorm._core.events import Failed, Outcome, StreamError, Truncated
from streamnorm._core.failures import error_outcome, hide_account
from streamnorm._core.json import dumps, string_of
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Accumulator
from streamnorm._exchange import client_scope, last_answer
from streamnorm._registry import DIALECTS
from streamnorm._transcoder import WriterOptions
from streamnorm._upstream.answers import encode_answer, encode_error_response
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.gateway.admission import too_many
from streamnorm.gateway.attempts import Attempts, FailedAttempt, StartedStream
from streamnorm.gateway.background_events import FAILURES, BackgroundPings, background_events
from streamnorm.gateway.config import Config, answer_limits
from streamnorm.gateway.deletions import Deletions
from streamnorm.gateway.messages import ClientStream, send_failure
from streamnorm.gateway.observing import CallRecord, add_loss, time_first_event
from streamnorm.gateway.producing import (
    BackgroundAnswer,
    failed_source,
)
from streamnorm.gateway.stream_refusals import ABSENT, log_refusals, refuse_absent
from streamnorm.log import FollowedStream, Log, OpenedSource, StreamStatus
from streamnorm.log.log import Mode
from streamnorm.log.records import Key

_LOG = logging.getLogger("streamnorm.gateway")

ID_HEADER = "x-streamnorm-stream"
"""Header that names a stream."""

# A draft of the IETF has it as a string in quotes; SDKs send it bare.
_ID_HEADERS = (ID_HEADER, "idempotency-key")
_ID = re.compile(r"[\w.~:@+=-]{1,128}", re.ASCII)
_CHAT = "chat:"
_STORED = {name: known.stored for name, known in DIALECTS.items() if known.stored is not None}
# Those of chats, and of responses in the background.
_OWN_IDS = (_CHAT, *[form.id_prefix for form in _STORED.values()])
# In which a producer stops that was told to, and how often it is looked for.
_CANCEL_S = 5.0
_CANCEL_POLL_S = 0.05
_MIN_CHAT_ID = 16  # characters, as of those that `useChat` makes

Running: TypeAlias = Callable[[anyio.CancelScope], AbstractContextManager[None]]
Part: TypeAlias = Callable[[FollowedStream[bytes]], AsyncIterator[bytes]]
_Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[OpenedSource]]


class NoAnswer(Exception):
    """No upstream has begun an answer, so there is no stream."""

    def __init__(self, result: FailedAttempt) -> None:
        super().__init__(result.error.kind)
        self.result = result


class LoggedRequest(Struct, frozen=True):
    """A request whose answer is a stream in the log.

    Attributes:
        key: Scope and id of the stream.
        fingerprint: Digest of the request.
        after: Cursor of the last event that the client has; "" for the whole stream.
        background: The answer that is made in the background; None for any other.
        replaces: Whether the stream takes the place of the one before it, as of a chat; or the
            epoch of the only one that it replaces.
    """

    key: Key
    fingerprint: bytes
    after: str
    background: BackgroundAnswer | None = None
    replaces: bool | str = False

    @property
    def headers(self) -> dict[str, str]:
        """Response headers of the answer."""
        return {ID_HEADER: self.key[1]}


class LoggedStreams:
    """The gateway's streams in the log.

    Args:
        log: The log.
        config: The configuration.
        running: Counts a stream as running within a block, and may cancel it.
        end_call: Called with the record of a request when its stream has ended.

    Attributes:
        deletions: The stored responses that were deleted.
    """

    def __init__(
        self,
        log: Log,
        config: Config,
        *,
        running: Running,
        end_call: Callable[[CallRecord], None],
    ) -> None:
        self.deletions = Deletions(log)
        self._log = log
        self._mode: Mode = "require" if config.log is None else config.log.mode
        self._linger_s = None if config.log is None else config.log.linger_s
        self._has_keys = config.has_client_keys
        self._limits = answer_limits(config)
        self._max_streams = config.max_streams
        self._running = running
        self._end_call = end_call
        self._tasks: set[asyncio.Task[None]] = set()  # the loop has weak references only

    def find_request(self, received: ClientRequest, client: Dialect) -> LoggedRequest | None:
        """Return the logged request for the stream id in a request's headers; None without an id.

        Raises:
            RequestRefused: The id is not one of a client.
        """
        header = next((name for name in _ID_HEADERS if name in received.headers), None)
        if header is None:
            return None
        id = check_id(received.headers[header].strip().strip('"'), header)
        if id.startswith(_OWN_IDS):
            problem = f"{header}: an id of the gateway's own, expected another"
            raise RequestRefused(problem, param=header)
        digest = hashlib.sha256(f"{received.method}\n{received.path}\n".encode())
        digest.update(received.body or b"")
        if not self._has_keys:
            # An id that a client has chosen may be guessed, and there is no key to bind it to.
            id = "sn_" + hashlib.sha256(f"{id}\n{digest.hexdigest()}".encode()).hexdigest()[:32]
        key = (client_scope(received, client), id)
        return LoggedRequest(key, digest.digest(), received.headers.get("last-event-id", ""))

    def find_chat(
        self, received: ClientRequest, client: Dialect, id: object
    ) -> LoggedRequest | None:
        """Return the stream of a chat; None if the chat's id cannot name a stream.

        Args:
            received: The request.
            client: The client's dialect.
            id: Id of the chat, as the page states it.
        """
        if not isinstance(id, str) or not _ID.fullmatch(id):
            return None
        # A short id may be guessed, or counted, by other visitors who share the key of the page.
        if len(id) < _MIN_CHAT_ID:
            return None
        fingerprint = hashlib.sha256(received.body or b"").digest()
        key = (client_scope(received, client), f"{_CHAT}{id}")
        return LoggedRequest(key, fingerprint, "", replaces=True)

    async def answer(
        self,
        asked: LoggedRequest,
        attempts: Attempts,
        client: Dialect,
        stream: ClientStream,
        call: CallRecord,
        *,
        is_stream: bool,
    ) -> None:
        """Answer a request from the log, when its stream has begun.

        Args:
            asked: The request.
            attempts: The attempts to answer it, which are made if nobody has.
            client: The client's dialect.
            stream: The answer.
            call: Record of the request.
            is_stream: Whether the client asked for a stream.

        Raises:
            RequestRefused: There is no such stream, or the log does not answer.
        """
        call.stream, headers = asked.key, asked.headers
        with log_refusals():
            if is_stream and asked.after:  # else the answer of a cursor would be paid for
                refuse_absent((await self.status(asked.key)).state)
            begin = partial(self.begin, asked, attempts, client, call, headers)
            send = partial(self._send, asked, client, stream, call, headers, is_stream=is_stream)
            is_new = await begin()
            # A response that was deleted is answered anew, and not from the log.
            is_joined = not (is_new or asked.after)
            if is_joined and (epoch := await self._deleted_epoch(asked, client)):
                # No later stream: another repetition may have begun and ended that one already.
                anew = structs.replace(asked, replaces=epoch)
                begin = partial(self.begin, anew, attempts, client, call, headers)
                is_new = await begin()
            try:
                try:
                    await send()
                except LogError as exc:
                    if is_new or asked.after or exc.code not in ("trimmed", "unknown"):
                        raise
                    # No upstream began it at another gateway, so that its id is free again.
                    await begin()
                    await send()
            except NoAnswer as failed:
                await send_failure(failed.result, client, stream, call)

    async def _deleted_epoch(self, asked: LoggedRequest, client: Dialect) -> str:
        """Return the epoch of a stream whose stored answer was deleted; "" of any other."""
        key, form = asked.key, client.stored
        # A response in the background is deleted from the log, too; its next answer has its id.
        if form is None or asked.background is not None:
            return ""
        status = await self.status(key)
        if status.state != "complete" or not await self.deletions.has_any(key[0]):
            return ""
        try:
            async with await self.follow(key, None, "", client) as followed:
                answer = last_answer(await last_of(followed), form.noun)
        except LogError:  # another repetition has replaced it
            return ""
        is_deleted = await self.deletions.has(key[0], string_of(answer, "id"))
        return status.epoch if is_deleted else ""

    async def _send(
        self,
        asked: LoggedRequest,
        client: Dialect,
        stream: ClientStream,
        call: CallRecord,
        headers: Mapping[str, str],
        *,
        is_stream: bool,
    ) -> None:
        """Send the requested stream or answer, when the stream has begun."""
        if is_stream:
            part: Part = aiter
            pings = None
            if asked.background is not None:
                stream.ping = pings = BackgroundPings(client, asked.background)
                unbegun = asked.background.response
                part = partial(background_events, client=client, unbegun=unbegun, pings=pings)
            followed = await self.follow(asked.key, None, asked.after, client)
            await send_followed(followed, client, stream, call, headers, part, pings)
        else:
            whole = await self._whole(asked.key, client, call)
            call.status = 200
            await stream.send_body(200, headers, whole)

    async def follow(
        self, key: Key, to: str | None, after: str, client: Dialect
    ) -> FollowedStream[bytes]:
        """Return a stream in the dialect `to`, by default the dialect in which it was requested.

        Args:
            key: Scope and id of the stream.
            to: The dialect; None for that in which it was asked for.
            after: Cursor of the last event that the client has; "" for the whole stream.
            client: The client's dialect, to say that the stream has ended before it began.
        """
        scope, id = key
        options: WriterOptions = {"limits": self._limits, "keep_message": False}
        if to is None:
            try:
                return await self._log.follow_answer(id, after=after, scope=scope, **options)
            except LogError as exc:
                # Of one without a first event nothing is stored but its end.
                if exc.code != "no_dialect" or (await self.status(key)).reads:
                    raise
        return await self._log.follow(id, to=to or client.name, after=after, scope=scope, **options)

    async def cancel(self, key: Key) -> StreamStatus:
        """Cancel a stream, wait for its end, and return its status."""
        scope, id = key
        await self._log.cancel(id, scope=scope)
        status = await self.status(key)
        # Its producer learns it a little later, wherever it is.
        end_s = time.monotonic() + _CANCEL_S
        while status.state == "running" and time.monotonic() < end_s:
            await asyncio.sleep(_CANCEL_POLL_S)
            status = await self.status(key)
        return status

    async def forget(self, key: Key, epoch: str) -> bool:
        """Remove a stream that has ended; return whether no other stream has its id by then.

        Raises:
            StoreError: The store failed.
        """
        scope, id = key
        epochs = [epoch]
        # One that takes its place and never begins leaves nothing.
        with suppress(_NeverBegins, LogError):
            async with self._log.produce(id, _never_begin, scope=scope, replaces=epoch) as run:
                epochs.append(run.tail.epoch)
        # A store that fails at the end of that keeps a stream without bytes.
        status = await self.status(key)
        if status.epoch in epochs:
            raise StoreError("a stream could not be removed")
        return status.state in ABSENT

    async def status(self, key: Key) -> StreamStatus:
        """Return the status of a stream."""
        scope, id = key
        return await self._log.status(id, scope=scope)

    async def aclose(self) -> None:
        """Close the log."""
        await self._log.aclose()

    async def begin(
        self,
        asked: LoggedRequest,
        attempts: Attempts,
        client: Dialect,
        call: CallRecord,
        headers: dict[str, str],
    ) -> bool:
        """Begin a stream, or join an existing one; return whether it is new.

        Args:
            asked: The request.
            attempts: The attempts to answer it, which are made if nobody has.
            client: The client's dialect.
            call: Record of the request.
            headers: Takes the headers for the client.

        Raises:
            LogError: The id is that of the answer to another request.
            RequestRefused: `max_streams` streams are running.
            StoreError: The store failed.
        """
        # A client that leaves gives back its place among the requests, but its stream goes on.
        if len(self._tasks) >= self._max_streams:
            status = await self.status(asked.key)
            # A stream that has ended makes no room for the one that takes its place.
            has_ended = status.state != "running" and asked.replaces in (True, status.epoch)
            if status.state in ABSENT or has_ended:
                raise too_many(f"{len(self._tasks)} streams are running")
        opener = partial(_open_answer, attempts, call, headers, client, asked.background)
        begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        call.outlives_client = True  # also one that leaves before the id is claimed
        task = asyncio.create_task(self._run(asked, opener, call, begun))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await begun
        except LogError as exc:
            # Requests in the background have ids of their own, which only a removal takes.
            if asked.background is None or exc.code != "conflict" or asked.replaces:
                raise
        anew = structs.replace(asked, replaces=True)
        return await self.begin(anew, attempts, client, call, headers)

    async def _run(
        self,
        asked: LoggedRequest,
        open_answer: _Opener,
        call: CallRecord,
        begun: asyncio.Future[bool],
    ) -> None:
        """Produce a stream to its end, even if its client disconnects."""
        scope, id = asked.key
        ours = anyio.CancelScope()
        is_ours = True  # the record
        try:
            with ours, self._running(ours):
                async with self._log.produce(
                    id,
                    open_answer,
                    scope=scope,
                    fingerprint=asked.fingerprint,
                    mode=self._mode,
                    replaces=asked.replaces,
                    # A response in the background is asked for later.
                    linger_s=self._linger_s if asked.background is None else None,
                ) as run:
                    if not begun.done():
                        is_ours = call.outlives_client = run.is_new
                        begun.set_result(run.is_new)
                    if not run.is_new:
                        ours.cancel()  # others produce it
                    state = await run.wait()
                    if asked.background is not None and run.is_new and state != "complete":
                        await asked.background.store_failed(state)
                    # The next message of a chat takes the place of an answer that runs.
                    if run.tail.is_broken and not run.tail.is_replaced:
                        _LOG.warning("a stream could not be stored: nobody can resume it")
        except Exception as exc:  # noqa: BLE001 - who waits for the stream raises it
            if not begun.done():
                is_ours = call.outlives_client = False
                begun.set_exception(exc)
            # Each of its readers is told of these.
            elif not isinstance(exc, (NoAnswer, LogError, RequestRefused)):
                _LOG.error("a stream of the log failed: %s", type(exc).__name__)
        finally:
            if is_ours:
                self._end_call(call)

    async def _whole(self, key: Key, client: Dialect, call: CallRecord) -> bytes:
        """Return a stream's answer as one body.

        Raises:
            NoAnswer: It failed.
        """
        if client.stored is not None and client.stored.ends_with_output:
            # That of the last event is the one that is stored, with the ids of its items.
            return await self._last_response(key, client, client.stored.noun, call)
        scope, id = key
        async with await self._log.follow(id, scope=scope, errors="yield") as followed:
            answer = Accumulator(limits=self._limits)
            async for event in followed:
                answer.push(event)
            _check_outcome(followed.outcome, followed.dialect, client)
            whole = encode_answer(
                accumulated_answer(answer, None, followed.dialect or ""),
                client.name,
                reply=followed.reply,
                created=followed.created or time.time(),
                losses=Losses(on_loss=partial(add_loss, call)),
            )
        if isinstance(whole, StreamError):
            raise NoAnswer(_describe_failure(whole, None, client))
        call.outcome = call.outcome or whole.outcome
        return whole.body

    async def _last_response(self, key: Key, client: Dialect, noun: str, call: CallRecord) -> bytes:
        async with await self.follow(key, None, "", client) as followed:
            last = await last_of(followed)
            _check_outcome(followed.outcome, followed.dialect, client)
        call.outcome = call.outcome or followed.outcome
        return dumps(last_answer(last, noun))


class _NeverBegins(StoreError):
    """Error of a request for a stream that is being removed; the client is to try again."""


def _never_begin() -> NoReturn:
    raise _NeverBegins("the stream is being removed")


@asynccontextmanager
async def _open_answer(
    attempts: Attempts,
    call: CallRecord,
    headers: dict[str, str],
    client: Dialect,
    background: BackgroundAnswer | None,
) -> AsyncGenerator[OpenedSource]:
    """Provide the first upstream answer that begins, as a source for the log.

    Args:
        attempts: The attempts.
        call: Record of the request.
        headers: Takes the headers for the client.
        client: The client's dialect.
        background: The answer in the background, which fails where others have no stream; None
            for any other.

    Raises:
        NoAnswer: None does.
        RequestRefused: The answer in the background cannot be stored.
    """
    if background is not None:
        await background.announce()
    try:
        result = await attempts.run()
    finally:
        call.attempts, call.upstream = attempts.count, attempts.asked
    if isinstance(result, FailedAttempt):
        call.status = result.status
        call.outcome, call.reason = error_outcome(result.error), result.reason
        if background is None:
            raise NoAnswer(result)
        yield failed_source(result.shown, client, background.fields, background.model)
        return
    assert isinstance(result, StartedStream)  # noqa: S101 - an answer for the log is a stream
    assert result.opened is not None  # noqa: S101
    call.status = 200
    time_first_event(call)
    headers.update(result.headers)
    try:
        yield result.opened
    finally:
        call.reason, call.usage = result.reason, result.pump.usage


async def send_followed(
    followed: FollowedStream[bytes],
    client: Dialect,
    stream: ClientStream,
    call: CallRecord,
    headers: Mapping[str, str],
    part: Part = aiter,
    ping: Callable[[], bytes] | None = None,
) -> None:
    """Send a stream of the log to a client.

    Args:
        followed: The stream.
        client: The client's dialect.
        stream: The answer.
        call: Record of the request.
        headers: Further headers of the answer.
        part: Returns the part of it that the client gets.
        ping: Returns a ping for that part; None for the pings of the stream's writer.
    """
    async with followed:
        chunks = part(followed)
        try:
            first = await anext(chunks, b"")
        except FAILURES:
            match followed.outcome:
                case Failed(error) | Truncated(error):
                    shown = hide_account(error) if followed.reply.hides_account else error
                    failed = _describe_failure(shown, followed.dialect, client)
                    await send_failure(failed, client, stream, call)
                    return
                case _:
                    raise
        call.status = 200
        stream.ping = ping or followed.ping
        await stream.start(headers)
        if first:
            await stream.send(first)
        await stream.send_all(chunks)
        call.outcome = call.outcome or followed.outcome


async def last_of(followed: FollowedStream[bytes]) -> bytes:
    """Return the last bytes of a stream; b"" if it has no events."""
    last = b""
    with suppress(*FAILURES):
        async for data in followed:
            last = data
    return last


def _check_outcome(outcome: Outcome | None, upstream: str | None, client: Dialect) -> None:
    """Raise `NoAnswer` if a stream has failed."""
    match outcome:
        case Failed(error) | Truncated(error):
            raise NoAnswer(_describe_failure(error, upstream, client))
        case _:
            pass


def _describe_failure(error: StreamError, upstream: str | None, client: Dialect) -> FailedAttempt:
    """Return the failed attempt that reports a stream's failure to the client."""
    failed = encode_error_response(error, client.name, upstream=upstream, cloud=client.cloud)
    return FailedAttempt(error, error, failed.status, failed.body, failed.headers)


def check_id(id: str, where: str) -> str:
    """Check that a client's id can name a stream, and return the id.

    Raises:
        RequestRefused: It is none.
    """
    if not _ID.fullmatch(id):
        found = f"{where}: {len(id)} characters, expected 1 to 128 of letters, digits and ._~:@+=-"
        raise RequestRefused(found, param=where)
    return id
