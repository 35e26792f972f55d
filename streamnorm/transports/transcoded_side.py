"""Requests for no message through a transcoding transport."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic

from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import RequestedOperation
from streamnorm._core.events import StreamError
from streamnorm._core.losses import OnLoss
from streamnorm._upstream.requests import ClientRequest, Upstream
from streamnorm._upstream.side_requests import SideAnswer, SideRequest, SideSteps, side_steps
from streamnorm.aio.transcoding import PassingPump
from streamnorm.transports.family import HTTPResponse, RequestT, ResponseT
from streamnorm.transports.provider_body import read_whole, read_whole_async
from streamnorm.transports.transcoded_exchange import Exchange
from streamnorm.transports.transcoded_responses import ClientResponses


class SideRequests(Generic[RequestT, ResponseT]):
    """Answers a client's counts of tokens, lists of models and requests about responses.

    Args:
        answers: Makes the responses to the client.
        client: The client's dialect.
        upstream: The provider.
        estimator: Estimates tokens that the provider does not count.
        strict: Whether to refuse requests that would lose something.
        on_loss: Called with each loss.
    """

    def __init__(
        self,
        answers: ClientResponses[RequestT, ResponseT],
        client: str,
        upstream: Upstream,
        estimator: TokenEstimator,
        *,
        strict: bool,
        on_loss: OnLoss | None,
    ) -> None:
        self._responses = answers
        self._client = client
        self._upstream = upstream
        self._estimator = estimator
        self._strict = strict
        self._on_loss = on_loss

    def answer(
        self,
        received: ClientRequest,
        asked: RequestedOperation,
        send: Callable[[SideRequest], ResponseT],
        exchange: Exchange,
    ) -> ResponseT:
        """Return the answer to a request.

        Args:
            received: The request.
            asked: What it asks for.
            send: Sends a request to the provider.
            exchange: The exchange.

        Raises:
            RequestRefused: It is not of the dialect, or the provider cannot answer it.
        """
        steps = self._steps(received, asked)
        response: ResponseT | None = None
        answer: SideAnswer | None = None
        while True:
            try:
                sent = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                exchange.end_beside(done.value)
                return self._responses.beside(done.value, response)
            exchange.add_losses(sent.losses, self._on_loss)
            response = send(sent)
            if sent.streams:
                pump = partial(PassingPump, dialect=self._upstream.dialect)
                return self._responses.streamed(pump, None, response, exchange)
            body = read_whole(response)
            if isinstance(body, StreamError) and response.is_success:
                exchange.end_beside(body)
                return self._responses.beside(body, response)
            answer = _side_answer(response, body)

    async def answer_async(
        self,
        received: ClientRequest,
        asked: RequestedOperation,
        send: Callable[[SideRequest], Awaitable[ResponseT]],
        exchange: Exchange,
    ) -> ResponseT:
        """Return the answer to a request; the twin of `answer`."""
        steps = self._steps(received, asked)
        response: ResponseT | None = None
        answer: SideAnswer | None = None
        while True:
            try:
                sent = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                exchange.end_beside(done.value)
                return self._responses.beside(done.value, response)
            exchange.add_losses(sent.losses, self._on_loss)
            response = await send(sent)
            if sent.streams:
                pump = partial(PassingPump, dialect=self._upstream.dialect)
                return await self._responses.streamed_async(pump, None, response, exchange)
            body = await read_whole_async(response)
            if isinstance(body, StreamError) and response.is_success:
                exchange.end_beside(body)
                return self._responses.beside(body, response)
            answer = _side_answer(response, body)

    def _steps(self, received: ClientRequest, asked: RequestedOperation) -> SideSteps:
        return side_steps(
            received,
            asked,
            self._client,
            self._upstream,
            self._estimator,
            strict=self._strict,
        )


def _side_answer(response: HTTPResponse, body: bytes | StreamError) -> SideAnswer:
    """Return an answer; an error status is an error without its body."""
    return SideAnswer(
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        body=b"" if isinstance(body, StreamError) else body,
    )
