"""The attempts to have a request answered: by one upstream after the other, until one begins.

An attempt ends with the first piece of an answer or with a failure; nothing has been sent to
the client by then, so another upstream may be asked.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import aiohttp
from msgspec import Struct, structs

from streamnorm._core.codec import Dialect
from streamnorm._core.errors import NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Failed, Outcome, StreamError, Truncated
from streamnorm._core.limits import Limits
from streamnorm._core.losses import OnLoss
from streamnorm._core.stream_failures import broken_connection, response_status
from streamnorm._registry import lookup
from streamnorm._upstream.answers import WholeAnswer, error_answer, whole_answer
from streamnorm._upstream.headers import answer_headers
from streamnorm._upstream.passing import passed_request
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    UpstreamRequest,
    upstream_request,
)
from streamnorm.aio import Stream
from streamnorm.aio.transcoding import TranscodePump
from streamnorm.gateway.model_options import adjusted
from streamnorm.gateway.network import Answer, Network
from streamnorm.gateway.routing import Target

__all__ = ["Attempts", "Begun", "Failure", "Whole"]


class Begun(Struct, frozen=True):
    """A stream whose first chunk has been read.

    Attributes:
        stream: The stream, in the client's dialect.
        first: Its first chunk; empty if it has none.
        headers: Headers for the client.
        target: Who answers.
    """

    stream: Stream[bytes]
    first: bytes
    headers: dict[str, str]
    target: Target


class Whole(Struct, frozen=True):
    """A whole answer.

    Attributes:
        answer: The answer, in the client's dialect.
        headers: Headers for the client.
        target: Who answered.
    """

    answer: WholeAnswer
    headers: dict[str, str]
    target: Target


class Failure(Struct, frozen=True):
    """An attempt that failed before anything was sent to the client.

    Attributes:
        error: Why.
        status: HTTP status for the client.
        body: Body for the client, in its dialect.
        headers: Headers for the client.
        target: Who was asked; None if nobody was.
        is_final: Whether no other upstream would do better: the request itself is at fault.
    """

    error: StreamError
    status: int
    body: bytes
    headers: dict[str, str] = {}
    target: Target | None = None
    is_final: bool = False


Result: TypeAlias = Begun | Whole | Failure

_FAILURES = (UpstreamError, NotAStream, ProtocolError)
# The request itself is at fault; another upstream would refuse it as well.
_FINAL = (400, 413, 415, 422)
# Another request may succeed; 529 is Anthropic's "overloaded".
_RETRIED = (408, 409, 429, 500, 502, 503, 504, 529)
_MAX_DELAY_S = 8.0


class Attempts:
    """The attempts for one request.

    Args:
        received: The request.
        client: The client's dialect.
        targets: Whom to ask, one after the other; at least one.
        network: Sends the requests.
        retries: How often the same upstream is asked again.
        limits: Bounds.
        on_loss: Called with each loss.
        on_end: Called with the outcome of the answer.

    Attributes:
        is_committed: Whether status 200 has been sent to the client; then nobody else is asked.
        has_status: Whether an upstream has answered with status 200.
        count: Number of requests sent.
    """

    def __init__(
        self,
        received: ClientRequest,
        client: Dialect,
        targets: tuple[Target, ...],
        network: Network,
        *,
        retries: int,
        limits: Limits,
        on_loss: OnLoss,
        on_end: Callable[[Outcome], None],
    ) -> None:
        self.is_committed = False
        self.has_status = False
        self.count = 0
        self._received = received
        self._client = client
        self._targets = targets
        self._network = network
        self._retries = retries
        self._limits = limits
        self._on_loss = on_loss
        self._on_end = on_end

    async def run(self) -> Result:
        """Return the first answer that begins; if none does, the last failure."""
        for target in self._targets[:-1]:
            result = await self._ask_patiently(target)
            if not isinstance(result, Failure) or result.is_final or self.is_committed:
                return result
        return await self._ask_patiently(self._targets[-1])

    async def _ask_patiently(self, target: Target) -> Result:
        """Ask one upstream, again if another request may succeed."""
        result = await self._ask(target)
        for number in range(1, 1 + self._retries):
            if not isinstance(result, Failure) or self.is_committed:
                break
            if result.status not in _RETRIED:
                break
            await asyncio.sleep(_delay(result.headers, number))
            result = await self._ask(target)
        return result

    async def _ask(self, target: Target) -> Result:
        self.has_status = False
        try:
            sent = self._translate(target)
        except RequestRefused as refused:
            return self._failure(refused.error, None, {})
        self.count += 1
        try:
            answer = await self._network.send(sent)
        except (aiohttp.ClientError, OSError) as exc:
            return self._failure(broken_connection(exc, 0), target, {})
        headers = answer_headers(answer.headers, self._client, lookup(target.upstream.dialect))
        self.has_status = answer.status is not None and 200 <= answer.status <= 299
        if sent.streams or not self.has_status:
            return await self._begin(answer, sent, target, headers)
        return await self._read_whole(answer, sent, target, headers)

    def _translate(self, target: Target) -> UpstreamRequest:
        upstream = target.upstream
        if upstream.dialect == self._client.name and not target.normalize:
            return passed_request(self._received, upstream, limits=self._limits)
        sent = upstream_request(
            self._received,
            self._client.name,
            upstream,
            adjust=adjusted(target.options),
            limits=self._limits,
        )
        for loss in sent.losses:
            self._on_loss(loss)
        return sent

    async def _begin(
        self, answer: Answer, sent: UpstreamRequest, target: Target, headers: dict[str, str]
    ) -> Result:
        reasoning = target.options.reasoning
        pump = TranscodePump(
            answer,
            target.upstream.dialect,
            self._client.name,
            on_end=self._on_end,
            server=target.upstream.server,
            reply=sent.reply,
            include_usage=sent.include_usage,
            reasoning=None if reasoning == "none" else reasoning,
            verbatim=not target.normalize,
            keep_message=False,
            limits=self._limits,
            on_loss=self._on_loss,
        )
        answer.watch(pump)
        stream = Stream(pump, answer)
        try:
            first = await anext(stream, b"")
        except _FAILURES:
            match stream.outcome:
                case Failed(error) | Truncated(error):
                    return self._failure(error, target, headers, stream.error_body)
                case _:
                    raise
        return Begun(stream, first, headers, target)

    async def _read_whole(
        self, answer: Answer, sent: UpstreamRequest, target: Target, headers: dict[str, str]
    ) -> Result:
        async with answer:
            try:
                data = await answer.read_all(self._limits.max_accumulated_bytes)
            except (aiohttp.ClientError, OSError) as exc:
                return self._failure(broken_connection(exc, 0), target, headers)
        whole = whole_answer(
            data,
            self._client.name,
            target.upstream.dialect,
            server=target.upstream.server,
            reply=sent.reply,
            created=time.time(),
            limits=self._limits,
            on_loss=self._on_loss,
        )
        if isinstance(whole, StreamError):
            return self._failure(whole, target, headers)
        self._on_end(whole.outcome)
        return Whole(whole, headers, target)

    def _failure(
        self,
        error: StreamError,
        target: Target | None,
        headers: dict[str, str],
        error_body: Callable[[StreamError], bytes] | None = None,
    ) -> Failure:
        status = response_status(error)
        if error_body is None:
            upstream = None if target is None else target.upstream.dialect
            body = error_answer(error, self._client.name, upstream=upstream).body
        else:
            body = error_body(structs.replace(error, status_hint=status))
        return Failure(error, status, body, headers, target, is_final=status in _FINAL)


def _delay(headers: Mapping[str, str], number: int) -> float:
    """Return the seconds to wait before a request is sent again."""
    try:
        told = float(headers.get("retry-after", ""))
    except ValueError:
        told = 0.0
    jitter = random.uniform(0.75, 1.0)  # noqa: S311 - no secret
    backoff: float = min(_MAX_DELAY_S, 0.5 * 2**number) * jitter
    return max(told, backoff)
