"""Attempts to answer a request: upstreams are asked in turn until an answer begins.

An attempt ends with the first piece of an answer or with a failure; nothing has been sent to
the client by then, so another upstream may be asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

import aiohttp
from msgspec import Struct, structs

from streamnorm._core.bodies.request import Request
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import CredentialsError, NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Completed, Failed, Outcome, StreamError, Truncated, Usage
from streamnorm._core.failures import hide_account, is_spent
from streamnorm._core.json import encode_pieces, object_in
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._core.source_failures import broken_connection
from streamnorm._transcoder import TranscodeOptions, WriterOptions
from streamnorm._upstream.answers import (
    TranslatedAnswer,
    encode_error_response,
    error_status,
    translate_answer,
)
from streamnorm._upstream.foreign_turns import disown_foreign_turns
from streamnorm._upstream.passthrough import prepare_passthrough
from streamnorm._upstream.requests import (
    RequestRefused,
    UpstreamRequest,
    build_upstream_request,
    identify_reply,
)
from streamnorm.aio import Stream
from streamnorm.aio.pump import LargeEventPump, TranscodePump
from streamnorm.gateway.network import Network, failure_reason
from streamnorm.gateway.observing import FailureReason, UpstreamFailure
from streamnorm.gateway.pages import Page
from streamnorm.gateway.producing import ReadsPump, ReadsStream
from streamnorm.gateway.receiving import BodyThread, ServerStopping, UpstreamResponse
from streamnorm.gateway.response_state import ResponseState, StoredStream
from streamnorm.gateway.retrying import UNKNOWN_RESPONSE, retry_delay, should_retry
from streamnorm.gateway.routing import Target, apply_options
from streamnorm.http.headers import (
    cloud_headers,
    failed_request,
    join_retry_after,
    response_headers,
)
from streamnorm.log import OpenedSource


class StartedStream(Struct, frozen=True):
    """A stream whose first chunk has been read.

    Attributes:
        stream: The stream, in the client's dialect.
        first: The first chunk; empty if it has none.
        headers: Headers for the client.
        target: The upstream that answers.
        pump: The pump of the stream.
        answer: The response of the upstream, from which the stream is read.
        opened: The source of the log, of which the stream has the reads; None without one.
    """

    stream: Stream[bytes]
    first: bytes
    headers: dict[str, str]
    target: Target
    pump: LargeEventPump
    answer: UpstreamResponse
    opened: OpenedSource | None = None

    @property
    def reason(self) -> FailureReason | None:
        """Why the stream's connection broke; None if it did not."""
        return failure_reason(self.pump.cause)


class CompleteResponse(Struct, frozen=True):
    """A whole response.

    Attributes:
        answer: The answer, in the client's dialect.
        headers: Headers for the client.
        target: The upstream that answered.
    """

    answer: TranslatedAnswer
    headers: dict[str, str]
    target: Target


class FailedAttempt(Struct, frozen=True):
    """An attempt that failed before the client was sent anything.

    Attributes:
        error: Error of the attempt.
        shown: The error as the client is shown it.
        status: HTTP status for the client.
        body: Body for the client, in its dialect.
        headers: Headers for the client.
        target: The upstream that was asked; None if none was.
        is_final: Whether every upstream would fail: the request itself is at fault.
        reason: Why the upstream could not be reached, or its connection broke.
    """

    error: StreamError
    shown: StreamError
    status: int
    body: bytes
    headers: dict[str, str] = {}
    target: Target | None = None
    is_final: bool = False
    reason: FailureReason | None = None


Result: TypeAlias = StartedStream | CompleteResponse | FailedAttempt

_MAX_HELD_BYTES = 64 * 1024
_FAILURES = (UpstreamError, NotAStream, ProtocolError)
# The request itself is at fault; another upstream would refuse it as well.
_FINAL = (400, 413, 415, 422)
# Of Azure, OpenAI and Alibaba, for what their filters refuse.
_REFUSAL_CODES = ("content_filter", "content_policy_violation", "data_inspection_failed")
_REFUSED = StreamError(
    "upstream",
    "the model refused to answer, and no other upstream answers",
    code="refusal",
    status_hint=400,
    retryable=False,
)
_NO_HTTP = StreamError("malformed", "an answer that is no HTTP, or has too long a header")
_UNSIGNED = StreamError(
    "upstream", "the gateway has no credentials of AWS", status_hint=502, retryable=True
)
_STOPPING = StreamError("upstream", "the gateway is stopping", status_hint=503, retryable=True)


class _AnswerReports:
    """Reports the losses and the outcome of an answer once no other upstream will be asked.

    Pumps report here and not to the `Attempts`, which refer to them: they are freed without the
    garbage collector.

    Args:
        on_loss: Called with each loss of the answer that the client gets.
        on_end: Called with the outcome of that answer.

    Attributes:
        observe: Learns from the tokens that are reported for the request that was sent last; None
            if it was passed and not read.
    """

    def __init__(self, on_loss: OnLoss, on_end: Callable[[Outcome], None]) -> None:
        self.observe: Callable[[int | None], None] | None = None
        self._on_loss = on_loss
        self._on_end = on_end
        self._held: list[Loss | Outcome] = []  # of an answer that has not begun
        self._has_begun = False

    def add(self, known: Loss | Outcome) -> None:
        """Report a loss or outcome, or hold it until the answer begins."""
        if not self._has_begun:
            self._held.append(known)
        elif isinstance(known, Loss):
            self._on_loss(known)
        else:
            self._on_end(known)
            if isinstance(known, Completed) and self.observe is not None:
                self.observe(known.usage.input_tokens)

    def discard(self) -> None:
        """Discard the held losses and outcome of an attempt that failed."""
        self._held.clear()

    def begin(self) -> None:
        """Report the held losses and outcome, and hold no more from now on."""
        self._has_begun = True
        for held in self._held:
            self.add(held)


class Attempts:
    """The attempts to answer one request, at one upstream after the other.

    Args:
        turn: The request, and the state of its answer.
        client: The client's dialect.
        targets: Upstreams to ask, one after the other; at least one.
        network: Sends the requests.
        bodies: The thread for large bodies.
        estimator: Learns from the tokens that upstreams report.
        retries: How often the same upstream is asked again.
        limits: Bounds of answers.
        request_limits: Bounds of the request.
        on_loss: Called with each loss of the answer that the client gets.
        on_end: Called with the outcome of that answer.
        has_left: Returns whether the client has left; then no further upstream is asked.
        page: The route of the page that asks; None for any other client.
        is_logged: Whether the log gets the answer: then it is a stream, whatever was asked for.

    Attributes:
        is_committed: Whether status 200 has been sent to the client, or may be; then no further
            upstream is asked.
        has_status: Whether an upstream has answered with status 200.
        count: Number of requests sent.
        asked: Name of the upstream that was asked last; "" if none was.
        failures: Requests to upstreams that have failed, in order.
    """

    def __init__(
        self,
        turn: ResponseState,
        client: Dialect,
        targets: tuple[Target, ...],
        network: Network,
        bodies: BodyThread,
        estimator: TokenEstimator,
        *,
        retries: int,
        limits: Limits,
        request_limits: Limits,
        on_loss: OnLoss,
        on_end: Callable[[Outcome], None],
        has_left: Callable[[], bool],
        page: Page | None = None,
        is_logged: bool = False,
    ) -> None:
        self.is_committed = False
        self.has_status = False
        self.count = 0
        self.asked = ""
        self.failures: list[UpstreamFailure] = []
        self._pump: TranscodePump | None = None  # of the stream that was begun last
        self._is_pausing = False  # between two requests
        self._turn = turn
        self._client = client
        self._targets = targets
        self._network = network
        self._bodies = bodies
        self._estimator = estimator
        self._retries = retries
        self._limits = limits
        self._request_limits = request_limits
        self._reports = _AnswerReports(on_loss, on_end)
        self._has_left = has_left
        self._page = page
        self._is_logged = is_logged

    @property
    def progress(self) -> int:
        """Number of the stream's events so far, without pings."""
        return 0 if self._pump is None else self._pump.progress

    @property
    def usage(self) -> Usage:
        """The token counts of the stream so far."""
        return Usage() if self._pump is None else self._pump.usage

    def commit(self, *, without_status: bool) -> bool:
        """Allow status 200 before an answer begins, if possible; return whether it is allowed.

        Args:
            without_status: Whether to allow status 200 although no upstream has answered, either.
        """
        # Behind status 200 an error can only be an event, and no other upstream can be asked.
        if self.has_status or (without_status and not self._is_pausing):
            self.is_committed = True
        return self.is_committed

    async def run(self) -> Result:
        """Return the first answer that begins, else the last failure."""
        result = await self._try_with_retries(self._targets[0])
        for target in self._targets[1:]:
            if not isinstance(result, FailedAttempt) or result.is_final or self._is_over:
                break
            further = await self._try_with_retries(target)
            # The failure of an upstream says more than that the next one cannot be asked.
            if (
                not isinstance(further, FailedAttempt)
                or further.target is not None
                or further.is_final
            ):
                result = further
        return result

    @property
    def _is_over(self) -> bool:
        return self.is_committed or self._has_left()

    async def _try_with_retries(self, target: Target) -> Result:
        """Ask one upstream, with retries."""
        result = await self._try_once(target)
        for number in range(1, 1 + self._retries):
            if not isinstance(result, FailedAttempt) or result.target is None or self._is_over:
                break
            if not should_retry(result.error, result.status, result.headers):
                break
            self._is_pausing = True
            await self._network.pause(retry_delay(result.headers, number))
            self._is_pausing = False
            if self._is_over:
                break
            result = await self._try_once(target)
        return result

    async def _try_once(self, target: Target) -> Result:
        self._reports.discard()
        result = await self._send(target)
        if isinstance(result, FailedAttempt):
            self.has_status = False
            if result.target is not None:
                failed = (result.target.name, result.status, result.error.kind, result.reason)
                self.failures.append(UpstreamFailure(*failed))
            return result
        self._reports.begin()
        return result

    async def _send(self, target: Target) -> Result:
        try:
            sent = await self._bodies.run(self._turn.size, partial(self._translate, target))
        except RequestRefused as refused:
            return self._failure(refused.error, None, {})
        self.count += 1
        self.asked = target.name
        try:
            answer = await self._network.send(sent, target, self._turn.take_successor())
        except ServerStopping:
            return self._failure(_STOPPING, None, {}, is_final=True)
        except CredentialsError:
            return self._failure(_UNSIGNED, target, {})
        except aiohttp.ClientResponseError:
            return self._failure(_NO_HTTP, target, {}, reason="protocol")
        except (aiohttp.ClientError, OSError) as exc:
            return self._failure(failed_request(exc), target, {}, reason=failure_reason(exc))
        self._turn.steering = answer.steering
        headers = response_headers(answer.headers, self._client, target.upstream.dialect_record)
        if self._client.cloud is not None:
            headers |= cloud_headers(answer.headers, self._client, target.upstream.framing)
        is_success = answer.status is not None and 200 <= answer.status <= 299
        self.has_status = is_success
        if sent.streams or not is_success:
            return await self._begin(answer, sent, target, headers)
        return await self._read_whole(answer, sent, target, headers)

    def _translate(self, target: Target) -> UpstreamRequest:
        turn, upstream, limits = self._turn, target.upstream, self._request_limits
        is_page = self._page is not None
        request = turn.request_for(target)
        sent = (
            prepare_passthrough(request, upstream, limits=limits) if turn.passes(target) else None
        )
        if sent is None or (self._is_logged and not sent.streams):
            sent = build_upstream_request(
                request,
                self._client.name,
                upstream,
                missing_tools=target.options.missing_tools,
                # The page goes on after a call that it never answered: without a result of each
                # call no provider would answer in that chat again.
                repair="fill" if is_page else "error",
                adjust=partial(self._adjust, target),
                limits=limits,
            )
            sent = turn.set_answer_fields(sent, target)
        for loss in sent.losses:
            self._reports.add(loss)
        read = sent.request
        self._reports.observe = None if read is None else self._estimator.observer(read)
        # It would be held as long as the answer lasts.
        return structs.replace(sent, request=None)

    def _adjust(self, target: Target, request: Request) -> Request:
        """Adjust a translated request to the page, the upstream, the options and the log."""
        if self._page is not None:
            request = self._page.prepare(request, target.upstream)
        elif target.upstream.dialect == self._client.name:
            request = disown_foreign_turns(request, target.upstream)
        request = apply_options(target.options, request, self._reports.add)
        return structs.replace(request, stream=True) if self._is_logged else request

    def _passes_on_refusals(self, target: Target) -> bool:
        """Return whether the next upstream is asked if this upstream refuses the request."""
        # The last upstream's refusal is the answer for the client.
        return target.options.fall_back_on_refusal and target is not self._targets[-1]

    async def _begin(
        self,
        answer: UpstreamResponse,
        sent: UpstreamRequest,
        target: Target,
        headers: dict[str, str],
    ) -> Result:
        client, upstream = self._client, target.upstream
        reasoning = target.options.reasoning
        written: WriterOptions = {
            "include_usage": sent.include_usage,
            "reasoning": None if reasoning == "none" else reasoning,
            "page_client": None if self._page is None else self._page.options.page_client,
            "verbatim": not target.normalize,
            "to_framing": client.framing,
        }
        options: TranscodeOptions = {
            **written,
            "server": upstream.server,
            "think_tags": False,
            "reply": structs.replace(
                identify_reply(sent.reply, _request_id(answer, target)),
                hides_account=self._hides_account(target),
            ),
            "keep_message": self._turn.needs_message,
            "limits": self._limits,
            "on_loss": self._reports.add,
            "framing": upstream.framing,
        }
        made = ReadsPump if self._is_logged else LargeEventPump
        pump = made(answer, upstream.dialect, client.name, on_end=self._reports.add, **options)
        self._pump = pump
        answer.decode_ahead(pump, self._bodies, upstream.framing)
        stream: Stream[bytes] = Stream(pump, answer)
        stores = self._turn.stores and not self._turn.makes_answer
        if isinstance(pump, ReadsPump):
            stream = ReadsStream(pump, answer, self._turn if stores else None)
        elif stores:
            stream = StoredStream(pump, answer, self._turn, self._bodies)
        first = b""
        passes_on = self._passes_on_refusals(target)
        try:
            # Providers answer 200 and report an overload as the first event: that is a failure of
            # the attempt.
            first, progress = await self._first_event(stream, pump, waits_for_block=passes_on)
        except _FAILURES:
            if self._network.is_stopped:
                return self._failure(_STOPPING, None, {}, is_final=True)
            progress = 0
        match pump.outcome:
            # An error may stand in place of the first event.
            case Failed(error) | Truncated(error) if progress <= 1:
                await stream.aclose()
                reason = failure_reason(pump.cause)
                return self._failure(error, target, headers, stream.error_body, reason=reason)
            case Completed("refusal") if passes_on and not pump.has_blocks:
                await stream.aclose()
                return self._failure(_REFUSED, target, headers)
            case _:
                opened = None
                if isinstance(stream, ReadsStream):
                    opened = stream.as_source(answer, first, upstream, options, client, written)
                return StartedStream(stream, first, headers, target, pump, answer, opened)

    async def _first_event(
        self, stream: Stream[bytes], pump: TranscodePump, *, waits_for_block: bool
    ) -> tuple[bytes, int]:
        """Return a stream's bytes up to its first event, and the number of events so far.

        Comments and pings come before it: a server that thinks for long may send them, and then
        an error.

        Args:
            stream: The stream.
            pump: The pump.
            waits_for_block: Whether to read on to the first block, or the end.
        """
        first = await anext(stream, b"")
        progress = pump.progress
        while not (self.is_committed or len(first) > _MAX_HELD_BYTES):
            if pump.has_blocks if waits_for_block else progress:
                break
            chunk = await anext(stream, b"")
            progress = pump.progress
            if not chunk:
                break
            first += chunk
        return first, progress

    async def _read_whole(
        self,
        answer: UpstreamResponse,
        sent: UpstreamRequest,
        target: Target,
        headers: dict[str, str],
    ) -> Result:
        is_stream = (answer.content_type or "").lower().startswith("text/event-stream")
        limits = self._limits
        async with answer:
            try:
                data = await answer.read_all(
                    limits.max_accumulated_bytes if is_stream else limits.max_event_bytes
                )
            except ServerStopping:
                return self._failure(_STOPPING, None, {}, is_final=True)
            except (aiohttp.ClientError, OSError, ProtocolError) as exc:
                error, reason = broken_connection(exc, 0), failure_reason(exc)
                return self._failure(error, target, headers, reason=reason)
        translate = partial(
            translate_answer,
            data,
            self._client.name,
            target.upstream.dialect,
            server=target.upstream.server,
            reply=identify_reply(sent.reply, _request_id(answer, target)),
            created=time.time(),
            limits=limits,
            on_loss=self._reports.add,
        )
        whole = await self._bodies.run(len(data), translate)
        if isinstance(whole, StreamError):
            return self._failure(whole, target, headers)
        is_empty = whole.outcome.reason == "refusal" and not whole.has_blocks
        if is_empty and self._passes_on_refusals(target):
            return self._failure(_REFUSED, target, headers)
        if self._turn.stores:
            size = len(whole.body)
            response = await self._bodies.run(size, partial(_object_in, whole.body))
            await self._turn.store(response, size)
            if self._turn.is_lost:
                body = await self._bodies.run(size, partial(encode_pieces, response, size))
                whole = structs.replace(whole, body=body)
        self._reports.add(whole.outcome)
        return CompleteResponse(whole, headers, target)

    def _hides_account(self, target: Target) -> bool:
        """Return whether the client must not learn what the upstream says of its account."""
        # A page that sends its own key reads what is said of it.
        return self._page is not None and not target.upstream.forwards_key

    def _may_succeed_elsewhere(self, error: StreamError, target: Target) -> bool:
        """Return whether another upstream may answer a request that this one refused."""
        # What a conversation goes on from is stored at one of several equal upstreams.
        if is_spent(error) or error.code == UNKNOWN_RESPONSE:
            return True
        return _refuses(error) and self._passes_on_refusals(target)

    def _failure(
        self,
        error: StreamError,
        target: Target | None,
        headers: dict[str, str],
        error_body: Callable[[StreamError], bytes] | None = None,
        *,
        is_final: bool = False,
        reason: FailureReason | None = None,
    ) -> FailedAttempt:
        client, upstream = self._client, None if target is None else target.upstream.dialect
        status = error_status(error, client.name, upstream=upstream, cloud=client.cloud)
        if target is not None and not self._may_succeed_elsewhere(error, target):
            is_final = is_final or status in _FINAL
        shown, headers = join_retry_after(error, headers, time.time())
        if target is not None and self._hides_account(target):
            shown = hide_account(shown)
            status = error_status(shown, client.name, upstream=upstream)
        failed = encode_error_response(shown, client.name, upstream=upstream, cloud=client.cloud)
        body, headers = failed.body, {**failed.headers, **headers}
        if error_body is not None and client.cloud is None:
            body = error_body(structs.replace(shown, status_hint=status))
        return FailedAttempt(error, shown, status, body, headers, target, is_final, reason)


def _refuses(error: StreamError) -> bool:
    return error is _REFUSED or (error.code or "").lower() in _REFUSAL_CODES


def _object_in(body: bytes) -> dict[str, Any]:
    return object_in(body.decode())


def _request_id(answer: UpstreamResponse, target: Target) -> str:
    """Return the response's id from its headers, or a new id.

    Claude Code takes two messages of one id for the same, and drops the reasoning of the first.
    """
    name = target.upstream.dialect_record.endpoints.request_id_header
    return answer.headers.get(name) or str(uuid4())
