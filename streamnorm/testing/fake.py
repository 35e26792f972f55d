"""A fake provider, which gives scripted answers in the dialect of each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

from msgspec import structs

from streamnorm._bodies import decode_request
from streamnorm._core.codec import Dialect, Endpoints, RequestViolation
from streamnorm._core.errors import DecodeError, UnknownDialect, UnrecordedRequest
from streamnorm._core.events import (
    Event,
    MessageStart,
    MessageStop,
    StreamError,
    Usage,
    UsageUpdate,
)
from streamnorm._core.json import InvalidJSON, decode_any, dumps, is_object, object_in
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._core.messages import Message
from streamnorm._registry import encoder, lookup
from streamnorm._upstream.requests import asks_for_usage
from streamnorm.http.urls import detect_url, is_websocket_url, path_of
from streamnorm.recording.conversations import SWITCHED, body_of_create, is_handshake
from streamnorm.recording.faults import FaultQueue, ReplayFault
from streamnorm.recording.format import Playback, WireRequest
from streamnorm.recording.recording import Recording
from streamnorm.recording.secrets.credentials import is_secret_header
from streamnorm.testing.script import (
    Answer,
    FakeRequest,
    Script,
    TurnFactory,
    estimate_tokens,
    parse_answer,
    parse_script,
    split_message,
)
from streamnorm.testing.transports import FamilyName, family_of, make_replaying_transport
from streamnorm.testing.writing import (
    AnswerWriter,
    Refusal,
    refusal_of,
    refuse,
    response_id_in,
)

if TYPE_CHECKING:
    from streamnorm.asgi import ReplayApp
    from streamnorm.testing.transports import Httpx2Transport, HttpxTransport


ClientT = TypeVar("ClientT")

_MAX_DEPTH = Limits().max_json_depth
_MAX_SHOWN_CHARS = 64
_NO_EVENTS = Answer(())
_PREPARED: tuple[Event, ...] = (
    MessageStart("", ""),
    UsageUpdate(Usage(0, 0)),
    MessageStop("end_turn"),
)


class _ScheduledAnswer(NamedTuple):
    """A scripted answer with its timing.

    Attributes:
        answer: The answer, or the function that returns it.
        faults: Faults of the provider, injected after the faults of the answer.
        id: Message id, written if the answer has none.
    """

    answer: Answer | TurnFactory
    faults: Sequence[ReplayFault] = ()
    id: str = ""


class FakeProvider:
    """A provider that answers requests from a script, in each request's dialect.

        provider = FakeProvider([tool_call("get_weather", city="Oslo"), "It snows in Oslo."])
        with provider.client(httpx2.Client) as http:
            client = openai.OpenAI(api_key="-", http_client=http)

    A list holds one turn for each request, in order.  Any other script, and a list of events,
    is one turn that answers every request.  A turn is one of:

    - a text, streamed word by word;
    - a block, such as `tool_call("get_weather", city="Oslo")`, streamed in small deltas;
    - a list of texts and blocks: one message, for instance text and parallel tool calls;
    - a `Message`;
    - a list of events, written unchanged;
    - a `StreamError`: alone, an error response with its `status_hint`, or 500 if that is not
      the status of an error, and with its `retry_after` as the header; at the end of a list,
      an error event of the dialect that ends the stream or, if its kind is `truncated`,
      `transport` or `stalled`, the end of the connection;
    - a `Recording` or its `Path`, transcoded if its dialect differs;
    - a fault, such as `faults.http(529)`, alone or in a list with the answer to change;
    - a function that is called with the `FakeRequest` and returns any of these.

    Missing values are filled in: ids by counting, the model of the request, the stop reason
    by the blocks, output tokens as a quarter of the characters and input tokens as a quarter
    of the request's bytes, rounded up; if `strict`, also the signatures that Anthropic and Google
    demand back with thinking and with calls.  In a list of events, only an empty id and model are.

    A request that asks for no stream (by its `stream` or, for Gemini, its path) is answered with a
    whole body: the message of the stream; an error takes its place.  A recording that has the other
    form is translated.  A request that asks for no message, as one that counts tokens, gets an
    error response 400 and uses no turn, unless the next turn is a recording.  So does one that asks
    for several choices (`n`, `candidateCount`), unless the turn is a recording, or a list of events
    that is streamed.  The paths of Amazon Bedrock are answered in its framing, with its errors.  A
    create on a WebSocket of Responses (of `app()`, on a server that has them) is answered by
    messages, and its `FakeRequest` is the request over HTTP that it stands for; one with
    `generate: false` uses no turn.  Gemini is streamed as server-sent events, as for `alt=sse`.
    The provider is a `Responder`, a source of `ReplayTransport` and `ReplayApp`.  Its methods may
    be called from several threads.

    A strict provider refuses requests with violations by `validate_request`, with the status and
    the error of the real provider, and those that continue a response which it has not given.
    Over HTTP, one with `store: false` is not found.  A refused request uses neither a turn nor
    a fault.

    Args:
        script: The turns.
        dialect: Dialect of every request; None detects it by the path.
        model: Model to write; None for the model of the message, or else of the request.
        faults: Faults to inject in order, after the faults of a turn.  A fault that
            replaces the answer is alone with its request, which uses no turn.
        strict: Whether requests that the provider would refuse get its error.
        server: Name of the server whose rules hold if `strict`; None is the dialect's vendor.

    Raises:
        TypeError: The script holds a value that is no turn.
        LocalProtocolError: Events of the script break the grammar.
        RecordingError: A recording of the script cannot be read.
        UnknownDialect: The dialect is unknown or cannot be written.
    """

    def __init__(
        self,
        script: Script,
        *,
        dialect: str | None = None,
        model: str | None = None,
        faults: Iterable[ReplayFault] = (),
        strict: bool = False,
        server: str | None = None,
    ) -> None:
        self._turns, self._repeats = parse_script(script)
        self._dialect = None if dialect is None else encoder(dialect).dialect
        self._model = model
        self._faults = FaultQueue(faults)
        self._strict = strict
        self._server = server
        self._lock = threading.Lock()
        self._requests: list[FakeRequest] = []
        self._losses: list[Loss] = []
        self._violations: list[RequestViolation] = []
        self._given: dict[str, bool] = {}  # ids of responses, and whether they are stored
        self._used_turns = 0
        self._call_numbers = count(1)

    @property
    def requests(self) -> tuple[FakeRequest, ...]:
        """The received requests, in order of arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of the answers in their dialects, in order."""
        with self._lock:
            return tuple(self._losses)

    @property
    def violations(self) -> tuple[RequestViolation, ...]:
        """The violations in the requests, in order; none unless `strict`."""
        with self._lock:
            return tuple(self._violations)

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request.

        Raises:
            UnrecordedRequest: The script is over, or the dialect of the request is unknown or
                cannot be written.
            TypeError: A function of the script returned a value that is no turn.
            ValueError: The answer lacks what a fault needs.
        """
        received = _parse_request(request, self._dialect)
        if is_handshake(request):
            self._make_writer(received, is_socket=True)
            return Playback(SWITCHED, {}, ())
        with self._lock:
            self._requests.append(received)
        is_socket = is_websocket_url(request.url)
        writer = self._make_writer(received, is_socket=is_socket)
        if not self._strict:
            return self._answer(request, received, writer)
        refusal = self._check(request, received, writer)
        if refusal is not None:
            with self._lock:
                self._violations += refusal.violations
            return refusal.answer
        playback = self._answer(request, received, writer)
        if writer.spoken.stored is not None and (id := response_id_in(playback)) is not None:
            stores = not (is_object(received.body) and received.body.get("store") is False)
            with self._lock:
                self._given[id] = stores
        return playback

    def _check(
        self, request: WireRequest, received: FakeRequest, writer: AnswerWriter
    ) -> Refusal | None:
        """Return the refusal of a request by the rules of the provider; None if it is accepted."""
        content, refusal = request.body or b"", None
        is_socket = is_websocket_url(request.url)
        if is_socket:
            refusal = _refuse_create(content, writer.dialect)
            content = _body_over_http(received)
        refusal = refusal or refusal_of(
            content,
            writer.dialect,
            cloud=writer.spoken.cloud,
            method=received.method,
            path=received.path,
            headers=received.headers,
            server=self._server,
        )
        return refusal or self._check_previous(received, writer.spoken, is_socket=is_socket)

    def _check_previous(
        self, received: FakeRequest, spoken: Dialect, *, is_socket: bool
    ) -> Refusal | None:
        """Return the refusal of a request that continues a response which was not given."""
        stored, body = spoken.stored, received.body
        previous = body.get(stored.previous_field) if stored and is_object(body) else None
        if stored is None or not isinstance(previous, str):
            return None
        with self._lock:
            is_stored = self._given.get(previous)
        # A WebSocket has its responses in memory, also those with `store: false`.
        if is_stored or (is_socket and is_stored is not None):
            return None
        code = f"previous_{stored.noun}_not_found"
        found = RequestViolation(
            f"{spoken.name}.{code}",
            stored.previous_field,
            f"Previous {stored.noun} with id {previous[:_MAX_SHOWN_CHARS]!r} not found.",
            code=code,
        )
        return refuse([found], spoken)

    def _answer(
        self, request: WireRequest, received: FakeRequest, writer: AnswerWriter
    ) -> Playback:
        """Return the answer to an accepted request, by the script."""
        if is_object(received.body) and received.body.get("generate") is False:
            # Codex prepares a connection by one, which asks no model.
            return writer.write_events([*_PREPARED], "prepared")
        turn = self._take_answer(received)
        answer = turn.answer
        if callable(answer):
            answer = parse_answer(answer(received), f"answer to {received!r}")
            refusal = _refuse_choices(received, answer)
            answer = answer if refusal is None else Answer((refusal,))
            with self._lock:
                answer = answer.number_calls(self._call_numbers)
        match answer.content:
            case Message() as message:
                input_tokens = estimate_tokens(len(request.body or b""))
                if self._strict:
                    message = writer.sign(message)
                events = split_message(message, answer.error, input_tokens)
                playback = writer.write_events(events, turn.id)
            case Recording() as recording:
                playback = writer.write_recording(recording)
            case events:
                playback = writer.write_events([*events], turn.id)
        with self._lock:
            self._losses += writer.losses
        for fault in (*answer.faults, *turn.faults):
            playback = fault(playback)
        return playback

    @overload
    def transport(self, family: Literal["httpx"]) -> HttpxTransport: ...
    @overload
    def transport(self, family: Literal["httpx2"]) -> Httpx2Transport: ...

    def transport(self, family: FamilyName) -> HttpxTransport | Httpx2Transport:
        """Return an HTTP transport, synchronous and asynchronous, to this provider.

        Args:
            family: Name of the package.
        """
        return make_replaying_transport(family, self, {})

    def client(self, kind: Callable[..., ClientT], /, **options: object) -> ClientT:
        """Return an HTTP client of this provider.  The caller must close it.

        Args:
            kind: `Client` or `AsyncClient` of httpx or httpx2, or a subclass, such as
                `openai.DefaultHttpxClient`.
            **options: Options of `kind`.

        Raises:
            TypeError: `kind` is not one of these classes.
        """
        return kind(transport=make_replaying_transport(family_of(kind), self, {}), **options)

    def app(self) -> ReplayApp:
        """Return an ASGI application of this provider."""
        from streamnorm.asgi import ReplayApp  # transports and clients do not need it

        return ReplayApp(self)

    def _make_writer(self, received: FakeRequest, *, is_socket: bool) -> AnswerWriter:
        if received.dialect is None:
            raise UnrecordedRequest(
                f"{received.method} {received.path}: a path of no known dialect; "
                "FakeProvider(…, dialect=…) names one for all paths"
            )
        include_usage = asks_for_usage(received.body)
        try:
            written = encoder(received.dialect, model=self._model, include_usage=include_usage)
        except UnknownDialect as exc:
            raise UnrecordedRequest(f"{received.method} {received.path}: {exc}") from exc
        spoken = lookup(received.dialect).adapt_to_path(received.path)
        if is_socket:
            framing = spoken.endpoints.socket_framing
            if framing is None:
                found = f"a WebSocket of {received.dialect}, which has none"
                raise UnrecordedRequest(f"{received.path}: {found}")
            spoken = structs.replace(spoken, framing=framing)
        return AnswerWriter(
            spoken=spoken,
            encoder=written,
            model=self._model,
            requested_model=_endpoints_of(received).model(received.path, received.body),
            include_usage=include_usage,
            streams=_streams(received),
            echoed=_echo(received.body, spoken),
        )

    def _take_answer(self, received: FakeRequest) -> _ScheduledAnswer:
        with self._lock:
            faults = self._faults.take()
            if any(fault.replaces for fault in faults):
                return _ScheduledAnswer(_NO_EVENTS, faults)
            if not self._repeats and self._used_turns == len(self._turns):
                raise UnrecordedRequest(
                    f"{received.method} {received.path}: "
                    f"the script of {self._used_turns} turns is over"
                )
            answer = self._turns[0 if self._repeats else self._used_turns]
            is_recorded = isinstance(answer, Answer) and isinstance(answer.content, Recording)
            refusal = None if is_recorded else _refuse(received)
            if refusal is None and isinstance(answer, Answer):
                refusal = _refuse_choices(received, answer)
            if refusal is not None:
                return _ScheduledAnswer(Answer((refusal,)))
            self._used_turns += 1
            if isinstance(answer, Answer):
                # Under the lock, so that ids follow the order of the turns, not of the threads.
                answer = answer.number_calls(self._call_numbers)
            return _ScheduledAnswer(answer, faults, f"msg_{self._used_turns}")


def _parse_request(request: WireRequest, dialect: str | None) -> FakeRequest:
    headers = {name.lower(): value for name, value in request.headers}
    text = str(request.body or b"", "utf-8", "replace")
    try:
        body = decode_any(text, max_depth=_MAX_DEPTH)
    except InvalidJSON:
        body = None
    if is_websocket_url(request.url) and is_object(body):
        body = body_of_create(body)
    return FakeRequest(
        request.method,
        path_of(request.url),
        dialect or detect_url(request.url),
        {name: value for name, value in headers.items() if not is_secret_header(name)},
        body,
    )


def _refuse_create(content: bytes, dialect: str) -> Refusal | None:
    """Return the refusal of a create with `background: true` over a WebSocket; None for others."""
    if object_in(content.decode(errors="replace")).get("background") is not True:
        return None
    found = RequestViolation(
        f"{dialect}.background_over_websocket",
        "background",
        "Unsupported parameter: 'background' is not supported over a WebSocket.",
        code="unsupported_parameter",
    )
    return refuse([found], lookup(dialect))


def _body_over_http(received: FakeRequest) -> bytes:
    """Return the body of a create without the field that a request over HTTP does not have."""
    body = received.body if is_object(received.body) else {}
    return dumps({name: value for name, value in body.items() if name != "generate"})


def _endpoints_of(received: FakeRequest) -> Endpoints:
    return Endpoints() if received.dialect is None else lookup(received.dialect).endpoints


def _echo(body: object, spoken: Dialect) -> dict[str, Any]:
    """Return the fields of a request that its response repeats."""
    codec, stored = spoken.codec, spoken.stored
    if not is_object(body) or codec is None:
        return {}
    echoed = {} if codec.echoed_fields is None else codec.echoed_fields(body)
    if stored is None:
        return echoed
    # The vendors store by default.
    fields = stored.unstored_fields if body.get("store") is False else stored.stored_fields
    previous = body.get(stored.previous_field)
    if isinstance(previous, str) or stored.states_null:
        fields = {**fields, stored.previous_field: previous}
    return {**echoed, **fields}


def _streams(received: FakeRequest) -> bool:
    return _endpoints_of(received).streams(received.path, received.body)


def _refuse(received: FakeRequest) -> StreamError | None:
    """Return the error for a request that a `FakeProvider` cannot answer; None for others."""
    if _streams(received):
        return None
    if not is_object(received.body):
        found = "no JSON object in the body, expected one"
    elif _endpoints_of(received).counts(received.path):
        found = "a FakeProvider counts no tokens"
    elif received.dialect is not None and lookup(received.dialect).codec is None:
        found = f"a FakeProvider has only streams of {received.dialect}"
    else:
        return None
    return StreamError("upstream", found, status_hint=400)


def _refuse_choices(received: FakeRequest, answer: Answer) -> StreamError | None:
    """Return the error for a request of more choices than its answer can have, or None."""
    content = answer.content
    if isinstance(content, Recording) or any(fault.replaces for fault in answer.faults):
        return None
    if not is_object(received.body):
        return None
    if isinstance(content, tuple) and (_streams(received) or isinstance(content[-1], StreamError)):
        return None
    try:
        asked = decode_request(received.body, received.dialect, path=received.path).choices or 1
    except (DecodeError, UnknownDialect):  # a provider that is not strict accepts it
        return None
    if asked <= 1:
        return None
    found = f"{asked} choices in one answer, a FakeProvider writes 1 unless it plays a recording"
    return StreamError("upstream", f"{found} or streams a list of events", status_hint=400)
