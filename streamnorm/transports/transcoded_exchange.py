"""One exchange of a transcoding transport: its steps, its losses and its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, cast

from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm._core.events import Abandoned, StreamError, Truncated
from streamnorm._core.failures import broken_connection, error_outcome
from streamnorm._core.losses import Loss
from streamnorm._exchange import Answer, ExchangeOptions, Step, UpstreamExchange
from streamnorm._registry import lookup
from streamnorm._upstream.answers import TranslatedAnswer, identify_reply
from streamnorm._upstream.auxiliary import UpstreamCall, UpstreamReply
from streamnorm._upstream.passthrough import PassthroughAnswer
from streamnorm._upstream.requests import ClientRequest, RequestRefused, UpstreamRequest
from streamnorm.aio.pump import Head, Pump
from streamnorm.aio.transcoding import PassthroughPump, TranscodePump
from streamnorm.http.headers import error_type_in
from streamnorm.http.urls import path_of, query_of, split_url
from streamnorm.state import ResponseStore, SyncResponseStore
from streamnorm.transports.family import Family, RequestT, ResponseT
from streamnorm.transports.transcoded_responses import ClientResponses, ExchangeStatus


class TranscodedExchange(Generic[RequestT, ResponseT]):
    """Iterates over the steps of an exchange, and builds the response to the client.

    An exception from the `with` block is an outcome, too.

    Args:
        family: Package of the client.
        options: Client and provider.
        request: The client's request.

    Attributes:
        status: Losses and outcome.
        result: Result of the last step.
    """

    def __init__(
        self, family: Family[RequestT, ResponseT], options: ExchangeOptions, request: RequestT
    ) -> None:
        self.status = ExchangeStatus()
        self.result: object = None
        self._family = family
        received = _read_request(family, request, options.client)
        options = structs.replace(options, client=options.client.at_path(received.path))
        self._options = options
        self._request = request
        self._exchange = UpstreamExchange(received, options, created=time.time())
        self._responses = ClientResponses(family, options.client, lookup(options.upstream.dialect))
        self._response: ResponseT | None = None
        self._answer: Answer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception):
            self.status.own_outcome = Truncated(broken_connection(exc, 0))
        elif exc is not None:
            self.status.own_outcome = Abandoned()

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps, until the answer is known."""
        try:
            steps: Generator[Step, Any, Answer] = self._exchange.steps()
            while self._answer is None:
                result, self.result = self.result, None
                step = steps.send(result)
                if isinstance(step, UpstreamRequest | UpstreamCall):
                    self._add_losses(step.losses)
                yield step
        except StopIteration as done:
            self._answer = done.value
        except RequestRefused as refused:
            self._add_losses(refused.losses)
            self._answer = refused.error

    def build_request(self, step: UpstreamRequest | UpstreamCall) -> RequestT:
        """Return the request to the provider that a step is."""
        return self._family.request(
            step.method,
            step.url,
            headers=step.headers,
            content=step.body,
            extensions=self._request.extensions,
        )

    def starts_stream(self, step: UpstreamRequest | UpstreamCall, response: ResponseT) -> bool:
        """Return whether a response is read as a stream, as errors of messages are, too."""
        # An error of a message may have any size and form, which the gate of a stream bounds and
        # judges.
        return step.streams or (isinstance(step, UpstreamRequest) and not response.is_success)

    def receive(self, response: ResponseT, body: bytes | StreamError) -> None:
        """Take a complete response as the result of a step.

        Args:
            response: The provider's response.
            body: Its body, or why that could not be decoded: for an error response, an empty one.
        """
        self._response = response
        if isinstance(body, StreamError) and response.is_success:
            self._answer = body
            return
        self.result = UpstreamReply(
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            body=b"" if isinstance(body, StreamError) else body,
            error_type=error_type_in(dict(response.headers.multi_items())),
            request_id=self._request_id(response),
        )

    def respond(self) -> ResponseT:
        """Return the response with the complete answer."""
        answer, status = cast("Answer", self._answer), self.status
        error = answer.error if isinstance(answer, PassthroughAnswer) else answer
        if isinstance(error, StreamError):
            status.own_outcome = error_outcome(error)
        elif isinstance(answer, TranslatedAnswer):
            status.own_losses += answer.losses
            status.own_outcome = answer.outcome
        return self._responses.complete(answer, self._response)

    def stream(
        self,
        step: UpstreamRequest | UpstreamCall,
        response: ResponseT,
        store: SyncResponseStore | None,
    ) -> ResponseT:
        """Return the response whose body is the answer to a step.

        Args:
            step: The step.
            response: The provider's response.
            store: Store of the answer, if the exchange stores it.
        """
        return self._responses.stream(
            self._pump(step, response), response, self._exchange, store, self.status
        )

    async def stream_async(
        self,
        step: UpstreamRequest | UpstreamCall,
        response: ResponseT,
        store: ResponseStore | None,
    ) -> ResponseT:
        """Return the response whose body is the answer to a step; the twin of `stream`."""
        return await self._responses.stream_async(
            self._pump(step, response), response, self._exchange, store, self.status
        )

    def _pump(
        self, step: UpstreamRequest | UpstreamCall, response: ResponseT
    ) -> Callable[[Head], Pump[bytes]]:
        upstream = self._options.upstream
        if isinstance(step, UpstreamCall):
            return partial(PassthroughPump, dialect=upstream.dialect)
        return partial(
            TranscodePump,
            dialect=upstream.dialect,
            to=self._options.client.name,
            server=upstream.server,
            reply=identify_reply(step.reply, self._request_id(response)),
            include_usage=step.include_usage,
            keep_message=False,
            on_loss=self._options.on_loss,
            on_end=partial(self._exchange.observe, step),
            framing=upstream.framing,
            to_framing=self._options.client.framing,
        )

    def _request_id(self, response: ResponseT) -> str:
        """Return the id of a response, in the header of the provider's dialect."""
        endpoints = lookup(self._options.upstream.dialect).endpoints
        return response.headers.get(endpoints.request_id_header, "")

    def _add_losses(self, losses: tuple[Loss, ...]) -> None:
        self.status.own_losses += losses
        if (on_loss := self._options.on_loss) is not None:
            for loss in losses:
                on_loss(loss)


def _read_request(
    family: Family[RequestT, ResponseT], request: RequestT, client: Dialect
) -> ClientRequest:
    wire = family.wire_request(request)
    spelt = split_url(wire.url).path
    at_cloud = client.endpoints.cloud_route(spelt) is not None
    headers: dict[str, str] = {}
    for name, value in wire.headers:
        known = headers.get(name.lower())
        # RFC 9110, section 5.3: repeated headers are one list.
        headers[name.lower()] = value if known is None else f"{known}, {value}"
    return ClientRequest(
        method=wire.method,
        path=spelt if at_cloud else path_of(wire.url),
        headers=headers,
        body=wire.body,
        query=tuple(query_of(wire.url)),
    )
