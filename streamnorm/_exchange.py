"""One exchange without I/O: client request, stored state, upstream request, client answer.

An exchange is a generator of steps.  The owner of the connection performs each step and sends
its result back:

    steps = exchange.steps()
    result = None
    while True:
        step = steps.send(result)        # StopIteration.value is the client's answer
        match step:
            case Find(): result = store.find(step.scope, step.lookup)
            case Put(): result = store.put(step.scope, step.response)
            case Delete(): result = store.delete(step.scope, step.id)
            case _: result = UpstreamReply(...)

A stream never passes through the generator: the owner closes it, sends the stream to the client,
and performs `exchange.put_of` before the last chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct, structs

from streamnorm._answers import encode_message
from streamnorm._bodies import Encoded
from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.bodies.request import Reply
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import Dialect
from streamnorm._core.codec.framing import list_events
from streamnorm._core.errors import EncodeError, LimitExceeded, StateError
from streamnorm._core.events import Completed, Outcome, StreamError
from streamnorm._core.json import compact, dumps, is_object, object_in
from streamnorm._core.losses import OnLoss
from streamnorm._core.messages import Message, MessageSource
from streamnorm._registry import DEFAULT_STATE_DIALECT, lookup
from streamnorm._upstream.answers import TranslatedAnswer, translate_answer
from streamnorm._upstream.auxiliary import UpstreamCall, UpstreamReply, call_steps
from streamnorm._upstream.passthrough import PassthroughAnswer
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
    build_upstream_request,
    identify_reply,
    json_body,
    match_operation,
    refusals,
)
from streamnorm.sse import SSEDecoder, encode_frame
from streamnorm.state import (
    Found,
    Lookup,
    Operation,
    StoredResponse,
    Turn,
    read_operation,
    scope_of,
)


class Find(Struct, frozen=True):
    """A step: look up the stored state of a request; the result is a `Found`.

    Attributes:
        scope: Scope of the client in the store.
        lookup: What is needed.
    """

    scope: str
    lookup: Lookup


class Put(Struct, frozen=True):
    """A step: store a response; the result is False if it is beyond a bound of the store.

    Attributes:
        scope: Scope of the client in the store.
        response: The response.
    """

    scope: str
    response: StoredResponse


class Delete(Struct, frozen=True):
    """A step: delete a stored response.

    Attributes:
        scope: Scope of the client in the store.
        id: Id of the response.
    """

    scope: str
    id: str


Step: TypeAlias = UpstreamRequest | UpstreamCall | Find | Put | Delete
Answer: TypeAlias = TranslatedAnswer | Encoded | PassthroughAnswer | StreamError


class ExchangeOptions(Struct, frozen=True, kw_only=True):
    """Options shared by all exchanges of one client and its upstream.

    Attributes:
        client: The client's dialect.
        upstream: The provider.
        stores: Whether the client's responses are stored here.
        estimator: Estimates tokens that the provider does not count.
        strict: Whether to refuse requests that would lose something.
        missing_tools: Whether a tool that the provider lacks is an error or dropped.
        on_loss: Callback for each loss of a complete answer.
    """

    client: Dialect
    upstream: Upstream
    stores: bool
    estimator: TokenEstimator
    strict: bool = False
    missing_tools: MissingTools = "error"
    on_loss: OnLoss | None = None


class UpstreamExchange:
    """The exchange for one client request.

    Args:
        received: The request.
        options: Client and upstream.
        created: Time of the answer, in seconds since 1970.
    """

    def __init__(
        self, received: ClientRequest, options: ExchangeOptions, *, created: float
    ) -> None:
        self._received = received
        self._options = options
        self._created = created
        self._turn: Turn | None = None
        self._scope = store_scope(received, options.client) if options.stores else ""

    def steps(self) -> Generator[Step, Any, Answer]:
        """Return a generator of steps, whose return value is the client's answer.

        Raises:
            RequestRefused: By a step: the request is not of the client's dialect, has no legal
                form in the upstream's, or refers to state that is not stored.
        """
        received, options = self._received, self._options
        asked = match_operation(received, options.client.name)
        if asked.operation in ("message", "stream"):
            return self._message_steps()
        operation = read_operation(received.method, received.path, dict(received.query))
        if operation is not None and options.stores:
            return self._operation_steps(operation)
        return call_steps(
            received,
            asked,
            options.client.name,
            options.upstream,
            options.estimator,
            strict=options.strict,
        )

    @property
    def needs_message(self) -> bool:
        """Whether `put_of` needs the message of a stream."""
        turn = self._turn
        return turn is not None and turn.stores and not turn.form.ends_with_output

    def put_of(self, last_chunk: bytes, read_message: Callable[[], Message]) -> Put | None:
        """Return the step that stores a stream's answer; None if the answer is not stored.

        Args:
            last_chunk: The chunk with the terminal, in the client's dialect.
            read_message: Returns the message, if the terminal lacks its content.
        """
        turn, options = self._turn, self._options
        if turn is None or not turn.stores:
            return None
        if turn.form.ends_with_output:
            return self._put(partial(last_answer, last_chunk, turn.form.noun))
        try:
            message = read_message()
        except LimitExceeded:
            return None
        names = options.client.name, options.upstream.dialect
        return self._put(lambda: encode_stored(message, *names, turn.answer_fields, self._created))

    def mark_unstored(self, last_chunk: bytes) -> bytes:
        """Return the chunk with the terminal of an answer that the store did not take.

        Args:
            last_chunk: The chunk, which says that the answer is stored.
        """
        noun = "" if self._turn is None else self._turn.form.noun
        return add_to_last_answer(last_chunk, noun, self._unstored_fields)

    @property
    def _unstored_fields(self) -> dict[str, Any]:
        return {} if self._turn is None else self._turn.form.unstored_fields

    def _message_steps(self) -> Generator[Step, Any, Answer]:
        received, options = self._received, self._options
        if options.stores:
            with state_refusals():
                turn = self._turn = Turn(json_body(received), options.client.name)
            found: Found = yield Find(self._scope, turn.lookup)
            with state_refusals():
                received = received.with_body(dumps(turn.expand(found)))
        sent = build_upstream_request(
            received,
            options.client.name,
            options.upstream,
            strict=options.strict,
            missing_tools=options.missing_tools,
        )
        if self._turn is not None:
            sent = structs.replace(sent, reply=self._turn.reply(sent.reply))
        reply: UpstreamReply = yield sent
        answer = translate_answer(
            reply.body,
            options.client.name,
            options.upstream.dialect,
            server=options.upstream.server,
            reply=identify_reply(sent.reply, reply.request_id),
            created=self._created,
            on_loss=options.on_loss,
        )
        if isinstance(answer, StreamError):
            return answer
        self.observe(sent, answer.outcome)
        put = self._put(lambda: object_in(answer.body.decode()))
        if put is not None and (yield put) is False:
            body = object_in(answer.body.decode()) | self._unstored_fields
            return structs.replace(answer, body=dumps(body))
        return answer

    def _operation_steps(self, operation: Operation) -> Generator[Step, Any, Answer]:
        found: Found = yield Find(self._scope, operation.lookup)
        with state_refusals():
            body = operation.answer(found)
        if operation.deletes:
            yield Delete(self._scope, operation.id)
        return Encoded(body)

    def _put(self, read_response: Callable[[], dict[str, Any]]) -> Put | None:
        turn = self._turn
        if turn is None or not turn.stores:
            return None
        stored = turn.stored(read_response())
        return None if stored is None else Put(self._scope, stored)

    def observe(self, sent: UpstreamRequest, outcome: Outcome) -> None:
        """Improve token estimates with the input token count that the provider reported."""
        if isinstance(outcome, Completed) and sent.request is not None:
            self._options.estimator.observe(sent.request, outcome.usage.input_tokens)


def client_scope(received: ClientRequest, client: Dialect) -> str:
    """Return the scope of a client: a digest of its API keys, which separates clients' data.

    A key is the same scope in every header.  Several different keys in one request form a
    separate scope, since any of them may be the key that was checked.  A request whose signature
    was verified has the scope of its access key.

    Args:
        received: The request.
        client: The client's dialect.
    """
    if received.signed_by:  # each request has a signature of its own
        return scope_of_access_key(received.signed_by)
    found = [received.headers.get(name, "").strip() for name in client.endpoints.key_headers]
    return scope_of_keys({_without_scheme(key) for key in found if key})


def store_scope(received: ClientRequest, client: Dialect) -> str:
    """Return a client's scope in the store; each dialect has a separate scope."""
    scope = client_scope(received, client)
    # One scope is older than the others, and has no name in it.
    return scope if client.name == DEFAULT_STATE_DIALECT else scope_of(f"{scope}\n{client.name}")


def scope_of_keys(keys: Iterable[str]) -> str:
    """Return the scope of a client: a digest of the API keys that it sends."""
    # The digest of what OpenAI's SDK sends: `authorization` alone.
    return scope_of("\n".join(f"Bearer {key}" for key in sorted(keys)) + "\n")


def scope_of_access_key(id: str) -> str:
    """Return the scope of a client: a digest of the id of the access key that it signs with."""
    return scope_of(f"AWS4-HMAC-SHA256 {id}\n")


def _without_scheme(key: str) -> str:
    """Return a key without the scheme `Bearer` of an `authorization` header."""
    scheme, _, bare = key.partition(" ")
    return bare.strip() if scheme.lower() == "bearer" else key


@contextmanager
def state_refusals(status: int | None = None) -> Generator[None]:
    """Raise `RequestRefused` for errors of decoding, encoding and stored state.

    Args:
        status: HTTP status where state is missing; None for that of the error.
    """
    with refusals():
        try:
            yield
        except StateError as exc:
            raise RequestRefused(
                str(exc), exc.status if status is None else status, code=exc.code, param=exc.param
            ) from exc


def encode_stored(
    message: Message,
    client: str,
    upstream: str,
    fields: dict[str, Any],
    created: float,
) -> dict[str, Any]:
    """Return a stream's message as a whole response; {} if the message cannot be encoded.

    Args:
        message: The message, with its calls as the client named them.
        client: The client's dialect.
        upstream: The dialect that the message was read in.
        fields: Fields of the answer that the store decides.
        created: Time of the answer, in seconds since 1970.
    """
    whole = structs.replace(message, source=MessageSource(lookup(upstream).name, None, message))
    reply = Reply(response=fields)
    try:
        return encode_message(whole, client, reply=reply, created=created).body
    except EncodeError:  # arguments that are no JSON object
        return {}


def last_answer(data: bytes, noun: str) -> dict[str, Any]:
    """Return the object in the field `noun` of the last SSE event that has the field, or {}.

    Args:
        data: The frames.
        noun: Field of events with the whole answer.
    """
    for event in reversed(list_events(data)):
        if is_object(answer := last_event(event).get(noun)):
            return answer
    return {}


def add_to_last_answer(data: bytes, noun: str, fields: dict[str, Any]) -> bytes:
    """Return SSE events with further fields in the object that `last_answer` returns."""
    events = list_events(data)
    for number in reversed(range(len(events))):
        event = last_event(events[number])
        if is_object(answer := event.get(noun)):
            [frame] = SSEDecoder().feed(events[number])
            changed = {**event, noun: {**answer, **fields}}
            events[number] = encode_frame(compact(changed), event=frame.event)
            break
    return b"".join(events)


def last_event(data: bytes) -> dict[str, Any]:
    """Return the data of the last SSE event as an object, or {}."""
    frames = SSEDecoder().feed(data)
    return object_in(frames[-1].data) if frames else {}
