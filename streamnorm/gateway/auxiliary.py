"""Endpoints of token counts, model lists, inference profiles and stored responses."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

import aiohttp
from msgspec import Struct, structs

from streamnorm._auxiliary import encode_model, encode_models
from streamnorm._bodies import Encoded
from streamnorm._core.bodies.models import ModelInfo
from streamnorm._core.codec import Dialect, RequestedOperation
from streamnorm._core.errors import (
    CredentialsError,
    NotAStream,
    ProtocolError,
    RemoteProtocolError,
    StateError,
    UpstreamError,
)
from streamnorm._core.events import Failed, StreamError, Truncated
from streamnorm._core.failures import error_outcome
from streamnorm._core.json import dumps, encode_pieces
from streamnorm._core.source_failures import broken_connection
from streamnorm._exchange import client_scope, store_scope
from streamnorm._registry import lookup
from streamnorm._upstream.answers import encode_error_response
from streamnorm._upstream.auxiliary import (
    UpstreamCall,
    UpstreamReply,
    call_steps,
    list_models,
    resumes_stream,
)
from streamnorm._upstream.passthrough import PassthroughAnswer
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    decode_request_body,
    refusals,
)
from streamnorm.aio import Stream
from streamnorm.aio.pump import PassthroughPump
from streamnorm.asgi.responses import Exchange, encode_headers, send_json
from streamnorm.gateway.background import BackgroundResponses
from streamnorm.gateway.config import request_limits
from streamnorm.gateway.messages import ClientStream, Services, stopping
from streamnorm.gateway.network import failure_reason
from streamnorm.gateway.observing import CallRecord, FailureReason
from streamnorm.gateway.producing import require_stored_answers
from streamnorm.gateway.receiving import ServerStopping, UpstreamResponse
from streamnorm.gateway.response_state import ResponseState, ResponseStates
from streamnorm.gateway.retrying import should_retry
from streamnorm.gateway.routing import Balancer, Target, is_one_name
from streamnorm.gateway.storing import GatewayStore, store_refusals
from streamnorm.gateway.stream_refusals import log_refusals
from streamnorm.http.headers import failed_request, response_headers
from streamnorm.state import Operation, error_body, read_operation
from streamnorm.state.turn import response_not_found

T = TypeVar("T")

_JSON = (b"content-type", b"application/json")
_WITH_BODY = ("count", "compact")
_MODELS = ("models", "model")
_LISTED_S = 10.0  # in which an upstream must list its models, to be in a list of several
_NOT_FOUND, _BAD_GATEWAY = 404, 502
_UNKNOWN = (_NOT_FOUND, 405, 501)  # of servers that describe no single model
_FAILURES = (aiohttp.ClientError, OSError, RemoteProtocolError, CredentialsError)

# botocore 1.44.5, `bedrock/2023-04-20/service-2.json`: ARNs have a region and an account.
_ARN_PREFIX = "arn:aws:bedrock:local"
_ACCOUNT = "000000000000"


class _Result(Struct, Generic[T], frozen=True):
    """The result of auxiliary requests to an upstream.

    Attributes:
        value: The value, or the error.
        headers: Headers for the client.
        dialect: Dialect of the upstream, or None.
        reason: Why the upstream could not be reached, or its connection broke.
    """

    value: T | StreamError
    headers: dict[str, str] = {}
    dialect: str | None = None
    reason: FailureReason | None = None


class _Returned(Struct, Generic[T], frozen=True):
    """The return value of a generator of requests."""

    value: T | StreamError


def _may_succeed_elsewhere(
    result: _Result[Encoded | PassthroughAnswer], *, is_stored: bool
) -> bool:
    """Return whether to ask the next upstream.

    Args:
        result: The result.
        is_stored: Whether the request is about a response that one of the upstreams stores.
    """
    value = result.value
    error = value.error if isinstance(value, PassthroughAnswer) else value
    if not isinstance(error, StreamError):
        return False
    status = error.status_hint or _BAD_GATEWAY
    return status == _NOT_FOUND if is_stored else should_retry(error, status, result.headers)


class AuxiliaryEndpoints:
    """Answers requests to auxiliary endpoints.

    Args:
        services: Services that all endpoints share.
        background: Answers requests about responses that are not complete; None without a log.
    """

    def __init__(self, services: Services, background: BackgroundResponses | None = None) -> None:
        self._services = services
        self._background = background
        self._config = services.config
        self._routing = services.routing
        self._balancer = Balancer()
        self._network = services.network
        self._bodies = services.bodies
        self._request_limits = request_limits(services.config)
        self._states = ResponseStates(services.store, services.bodies)

    async def answers(
        self, received: ClientRequest, client: Dialect, asked: RequestedOperation
    ) -> bool:
        """Return whether this class, not `MessageEndpoint`, answers a request.

        A conversation that the upstream of its model does not compact is summarized by a
        message.

        Raises:
            RequestRefused: The request is wrong.
        """
        if asked.operation != "compact":
            return True
        return await self._bodies.run(received.size, partial(self._passes, received, client, asked))

    def _passes(self, received: ClientRequest, client: Dialect, asked: RequestedOperation) -> bool:
        body, model = self._body_of(received, client, asked)
        target = self._routing.targets(model, client)[0]
        return self._services.store is None and ResponseState(received, client, body).passes(target)

    async def answer(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        """Answer a request.

        Args:
            received: The request.
            client: The client's dialect.
            asked: Operation that the request asks for.
            exchange: Exchange to send the answer on.
            call: Takes what becomes known.

        Raises:
            RequestRefused: The request is wrong; nothing was sent.
        """
        operation = read_operation(received.method, received.path, dict(received.query))
        if self._services.store is not None and operation is not None:
            scope = store_scope(received, client)
            background = self._background
            if background is not None and await background.answer(
                received, client, asked, scope, exchange, call
            ):
                return
            if operation.deletes:
                await self._record_deletion(
                    operation, self._services.store, scope, client_scope(received, client)
                )
            await self._answer_stored(operation, self._services.store, scope, exchange, call)
            return
        if client.cloud is not None and asked.operation in _MODELS:
            call.status = 200
            await send_json(exchange, 200, [_JSON], dumps(self._profiles(asked)))
            return
        is_stored = asked.operation not in (*_WITH_BODY, *_MODELS)
        # No upstream of another dialect has a stored response of that id.
        if is_stored and not self._routing.native(client):
            noun = require_stored_answers(client).noun
            refused = response_not_found(asked.response_id, noun)
            await self._refuse(refused, client.name, exchange, call)
            return
        try:
            result: _Result[Encoded | PassthroughAnswer]
            if resumes_stream(received, asked):
                resumed = await self._resume(received, client, asked, exchange, call)
                if resumed is None:
                    return
                result = resumed
            elif asked.operation == "models" and self._routing.entries:
                result = await self._list_models(received, client, call)
            else:
                result = await self._ask_upstream(received, client, asked, call)
        except ServerStopping as exc:
            raise stopping() from exc
        value, headers = result.value, [_JSON, *encode_headers(result.headers)]
        if isinstance(value, StreamError):
            failed = encode_error_response(
                value, client.name, upstream=result.dialect, cloud=client.cloud
            )
            headers += encode_headers(failed.headers)
            call.status, call.outcome = failed.status, error_outcome(value)
            call.reason = result.reason
            await send_json(exchange, failed.status, headers, failed.body)
            return
        if isinstance(value, PassthroughAnswer):
            call.status = value.status
            if value.error is not None:
                call.outcome = error_outcome(value.error)
            await send_json(exchange, value.status, headers, value.body)
            return
        call.status = 200
        await send_json(
            exchange, 200, [*headers, *encode_headers(value.headers)], dumps(value.body)
        )

    async def _ask_upstream(
        self, received: ClientRequest, client: Dialect, asked: RequestedOperation, call: CallRecord
    ) -> _Result[Encoded | PassthroughAnswer]:
        """Return the answer of a model's upstream, or an estimate of the token count."""
        body: dict[str, Any] = {}
        model = asked.model
        if asked.operation in _WITH_BODY:
            size = received.size
            body, model = await self._bodies.run(
                size, partial(self._body_of, received, client, asked)
            )
            if asked.operation == "count":  # of which no upstream is sent the client's bytes
                received.release()
            whole = await self._states.whole_body(received, client, body)
            if whole == body:
                received = structs.replace(received, decoded=body)
            else:
                data = await self._bodies.run(size, partial(encode_pieces, whole, size))
                body, received = whole, received.with_body(data)
        call.model = model
        is_stored = asked.operation not in (*_WITH_BODY, *_MODELS)
        targets = self._routing.native(client) if is_stored else ()
        if not targets:
            targets = self._routing.targets(model, client)
            targets = self._balancer.order(targets, received.headers, body)
        result = await self._ask(targets[0], received, body, client, asked, call)
        for target in targets[1:]:
            if not _may_succeed_elsewhere(result, is_stored=is_stored):
                break
            result = await self._ask(target, received, body, client, asked, call)
        if asked.operation == "model" and self._is_listed_unasked(call.model, result.value):
            return _Result(encode_model(ModelInfo(call.model), client.name))
        return result

    async def _ask(
        self,
        target: Target,
        received: ClientRequest,
        body: dict[str, Any],
        client: Dialect,
        asked: RequestedOperation,
        call: CallRecord,
    ) -> _Result[Encoded | PassthroughAnswer]:
        is_own = target.upstream.dialect == client.name
        opened = await self._bodies.run(
            received.size,
            partial(self._services.compactor.open, received, body, is_own=is_own),
        )
        steps = call_steps(opened, asked, client.name, target.upstream, self._services.estimator)
        return await self._run(steps, opened.size, target, client, call)

    def _is_listed_unasked(self, model: str, answer: object) -> bool:
        """Return whether a model is configured but its upstream cannot describe it."""
        found = self._routing.names.find(model)
        if found is None or not is_one_name(self._routing.entries[found.entry][0].match):
            return False
        return isinstance(answer, StreamError) and answer.status_hint in _UNKNOWN

    def _body_of(
        self, received: ClientRequest, client: Dialect, asked: RequestedOperation
    ) -> tuple[dict[str, Any], str]:
        """Return a request's decoded body, and the model that it names."""
        body = decode_request_body(received, self._request_limits)
        known = client.endpoints.match(received.method, received.path, body)
        return body, asked.model if known is None else known.model

    async def _resume(
        self,
        received: ClientRequest,
        client: Dialect,
        asked: RequestedOperation,
        exchange: Exchange,
        call: CallRecord,
    ) -> _Result[Encoded | PassthroughAnswer] | None:
        """Send the remainder of a stream that an upstream stores; return None, or the failure."""
        left = [*(self._routing.native(client) or self._routing.targets("", client))]
        while True:
            target = left.pop(0)
            upstream = target.upstream
            steps = call_steps(received, asked, client.name, upstream, self._services.estimator)
            call.upstream = target.name
            call.attempts += 1
            try:
                answer = await self._network.send(next(steps), target)
            except _FAILURES as exc:
                return _Result(failed_request(exc), {}, upstream.dialect, failure_reason(exc))
            if answer.status != _NOT_FOUND or not left:
                break
            await answer.close()
        headers = response_headers(answer.headers, client, client)
        pump = PassthroughPump(answer, client.name, on_end=partial(setattr, call, "outcome"))
        answer.watch(pump)
        async with Stream(pump, answer) as stream:
            try:
                first = await anext(stream, b"")
            except (UpstreamError, NotAStream, ProtocolError):
                if not isinstance(stream.outcome, (Failed, Truncated)):
                    raise
                reason = failure_reason(pump.cause)
                return _Result(stream.outcome.error, headers, upstream.dialect, reason)
            call.status = 200
            sent = ClientStream(exchange, stream.ping, self._config.keepalive_s, lambda _: True)
            with sent.watch(self._config.keepalive_s, self._config.idle_s):
                await sent.start(headers)
                await sent.send(first)
                await sent.send_all(stream)
            call.reason = failure_reason(pump.cause)
        return None

    def _profiles(self, asked: RequestedOperation) -> dict[str, Any]:
        """Return the configured models as Bedrock's inference profiles.

        No upstream is asked: Amazon Bedrock lists its models at another host.

        Raises:
            RequestRefused: The configuration has no such model.
        """
        names, entries = self._routing.names, self._routing.entries
        if asked.operation == "models":
            listed = [
                name
                for at, (entry, _) in enumerate(entries)
                if is_one_name(entry.match)
                for name in names.names_of(at, entry.match)
            ]
            return list_profiles(dict.fromkeys(listed))
        if entries and names.find(asked.model) is None:
            raise RequestRefused("a model that is not configured, expected one of the list", 404)
        return describe_profile(asked.model)

    async def _list_models(
        self, received: ClientRequest, client: Dialect, call: CallRecord
    ) -> _Result[Encoded | PassthroughAnswer]:
        """Return the configured models, and upstream models that match wildcards.

        An upstream that fails or is late is left out, unless nothing else is listed.
        """
        models: dict[str, ModelInfo] = {}
        of_upstreams: dict[str, list[ModelInfo]] = {}
        failure: _Result[Encoded | PassthroughAnswer] | None = None
        names = self._routing.names
        for at, (entry, targets) in enumerate(self._routing.entries):
            if is_one_name(entry.match):
                for name in names.names_of(at, entry.match):
                    models.setdefault(name, ModelInfo(name, name=entry.match))
                continue
            for target in targets:
                if target.upstream.model is not None:
                    continue  # which answers whatever name is asked for
                if target.name not in of_upstreams:
                    found = await self._models_of(target, received, client, call)
                    if isinstance(found.value, StreamError):
                        failure = failure or _Result(
                            found.value, found.headers, found.dialect, found.reason
                        )
                        of_upstreams[target.name] = []
                    else:
                        of_upstreams[target.name] = found.value
                for model in of_upstreams[target.name]:
                    for name in names.names_of(at, model.id):
                        models.setdefault(name, structs.replace(model, id=name))
        if failure is not None and not models:
            return failure
        with refusals():
            encoded = encode_models(list(models.values()), client.name, query=dict(received.query))
        return _Result(encoded)

    async def _models_of(
        self, target: Target, received: ClientRequest, client: Dialect, call: CallRecord
    ) -> _Result[list[ModelInfo]]:
        steps = list_models(received, client.name, target.upstream)
        try:
            # Agents list models before their first request, and wait for it.
            async with asyncio.timeout(_LISTED_S):
                return await self._run(steps, 0, target, client, call)
        except TimeoutError as exc:
            late = broken_connection(exc, 0)
            return _Result(late, {}, target.upstream.dialect, failure_reason(exc))

    async def _run(
        self,
        steps: Generator[UpstreamCall, UpstreamReply, T | StreamError],
        size: int,
        target: Target,
        client: Dialect,
        call: CallRecord,
    ) -> _Result[T]:
        """Send the requests of a generator to an upstream, and return the generator's result.

        Args:
            steps: The steps.
            size: Bytes of the body of the client's request.
            target: The upstream.
            client: The client's dialect.
            call: Takes what becomes known.
        """
        call.upstream, dialect = target.name, target.upstream.dialect
        headers: dict[str, str] = {}
        try:
            request = await self._bodies.run(size, partial(_next_step, steps, None))
            while not isinstance(request, _Returned):
                call.attempts += 1
                try:
                    sent = await self._network.send(request, target)
                    async with sent as answer:
                        headers = response_headers(answer.headers, client, lookup(dialect))
                        received = await self._read(answer)
                except _FAILURES as exc:
                    return _Result(failed_request(exc), headers, dialect, failure_reason(exc))
                if isinstance(received, StreamError):
                    return _Result(received, headers, dialect)
                size = max(size, len(received.body))
                request = await self._bodies.run(size, partial(_next_step, steps, received))
            return _Result(request.value, headers, dialect)
        finally:
            steps.close()

    async def _read(self, answer: UpstreamResponse) -> UpstreamReply | StreamError:
        """Return an upstream's reply, or the error for an oversized body.

        Raises:
            RemoteProtocolError: The body of a success cannot be decoded.
        """
        body, unreadable = b"", ""
        try:
            body = await answer.read_all(self._config.max_event_bytes)
        except RemoteProtocolError as exc:
            if 200 <= (answer.status or 0) <= 299:
                raise
            unreadable = str(exc)  # the status says more
        if len(body) > self._config.max_event_bytes:
            found = f"an answer of more than {self._config.max_event_bytes} bytes, expected fewer"
            return StreamError("too_large", found)
        return UpstreamReply(
            status=answer.status or 0,
            content_type=answer.content_type or "",
            body=body,
            unreadable=unreadable,
            error_type=answer.error_type,
        )

    async def _record_deletion(
        self, operation: Operation, store: GatewayStore, scope: str, logged: str
    ) -> None:
        """Record that a response is deleted, before it is: a log that fails refuses that.

        Args:
            operation: The operation that deletes it.
            store: The store.
            scope: Scope of the client in the store.
            logged: Scope of the client in the log.
        """
        streams = self._services.streams
        if streams is None:
            return
        try:
            if not (await store.afind(scope, operation.lookup)).chain:
                return  # or clients would fill the log with ids of their own
        except RequestRefused:
            pass  # what is damaged can be deleted
        with log_refusals():
            await streams.deletions.record(logged, operation.id)

    async def _answer_stored(
        self,
        operation: Operation,
        store: GatewayStore,
        scope: str,
        exchange: Exchange,
        call: CallRecord,
    ) -> None:
        """Answer a request on a stored response, without an upstream."""
        if operation.deletes:  # what is damaged cannot be read, and can be deleted
            was_stored = await store.adelete(scope, operation.id)
            answer = partial(operation.answer_deleted, was_stored=was_stored)
        else:
            answer = partial(operation.answer, await store.afind(scope, operation.lookup))
        with store_refusals():
            try:
                body = answer()
            except StateError as error:
                await self._refuse(error, operation.dialect, exchange, call)
                return
        call.status = 200
        await send_json(exchange, 200, [_JSON], dumps(body))

    async def _refuse(
        self, error: StateError, client: str, exchange: Exchange, call: CallRecord
    ) -> None:
        call.status = error.status
        call.outcome = error_outcome(StreamError("upstream", str(error), status_hint=error.status))
        await send_json(exchange, error.status, [_JSON], error_body(error, client))


def _next_step(
    steps: Generator[UpstreamCall, UpstreamReply, T | StreamError], answer: UpstreamReply | None
) -> UpstreamCall | _Returned[T]:
    """Return the generator's next request, or its result as `_Returned`."""
    try:
        return next(steps) if answer is None else steps.send(answer)
    except StopIteration as done:
        return _Returned(done.value)


def list_profiles(names: Iterable[str]) -> dict[str, Any]:
    """Return the response of `ListInferenceProfiles` for model names."""
    return {"inferenceProfileSummaries": [describe_profile(name) for name in names]}


def describe_profile(name: str) -> dict[str, Any]:
    """Return the response of `GetInferenceProfile` for a model name."""
    return {
        "inferenceProfileName": name,
        "inferenceProfileArn": f"{_ARN_PREFIX}:{_ACCOUNT}:inference-profile/{name}",
        "inferenceProfileId": name,
        "models": [{"modelArn": f"{_ARN_PREFIX}::foundation-model/{name}"}],
        "status": "ACTIVE",
        "type": "SYSTEM_DEFINED",
    }
