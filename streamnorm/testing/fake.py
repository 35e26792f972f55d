"""A provider that says what a test tells it to, in any dialect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast, overload

from streamnorm._core.codec import Endpoints
from streamnorm._core.errors import UnknownDialect, UnrecordedRequest
from streamnorm._core.events import StreamError
from streamnorm._core.json import InvalidJSON, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._registry import encoder, lookup
from streamnorm.recording.exchange import Playback, WireRequest
from streamnorm.recording.fault_injection import FaultQueue, ReplayFault
from streamnorm.recording.operations import dialect_of, path_of
from streamnorm.recording.secrets.credentials import is_secret_header
from streamnorm.testing.script import (
    Answer,
    FakeRequest,
    Played,
    Question,
    Said,
    Script,
    Told,
    read_answer,
    read_script,
    tokens_in,
    tool_call,
)
from streamnorm.testing.transports import FamilyName, family_of, replaying_transport
from streamnorm.testing.writing import Writer

if TYPE_CHECKING:
    from streamnorm.asgi import ReplayApp
    from streamnorm.testing.transports import Httpx2Transport, HttpxTransport

__all__ = ["FakeProvider", "FakeRequest", "tool_call"]

ClientT = TypeVar("ClientT")

_MAX_DEPTH = Limits().max_json_depth
_NOTHING = Told((), ())
_NO_STREAM = Told(
    (
        StreamError(
            "upstream",
            "a FakeProvider answers with streams alone, and this request does not ask for one",
            status_hint=400,
        ),
    ),
    (),
)


class _Turn(NamedTuple):
    """What answers one request.

    Attributes:
        answer: The answer.
        faults: What spoils it, besides its own faults.
        id: The message's id if it has none.
    """

    answer: Answer | Question
    faults: Sequence[ReplayFault] = ()
    id: str = ""


class FakeProvider:
    """Answer requests by a script, in the dialect that each speaks.

        provider = FakeProvider([tool_call("get_weather", city="Oslo"), "It snows in Oslo."])
        with provider.client(httpx2.Client) as http:
            client = openai.OpenAI(api_key="-", http_client=http)

    A list holds one turn for each request, in order.  Anything else, and a list of events,
    is one turn that answers every request.  A turn is one of:

    - a text, which is said word by word;
    - a block, such as `tool_call("get_weather", city="Oslo")`, which comes bit by bit, too;
    - a list of these, which is one message: text and parallel calls, for instance;
    - a `Message`;
    - a list of events, told as they are;
    - a `StreamError`: alone it is an error response, with its `status_hint`; at the end
      of a list it breaks off what is being said, with an event of the dialect or, if its
      kind is `truncated`, `transport` or `stalled`, with the connection;
    - a `Recording` or the `Path` of one, transcoded if it is of another dialect;
    - a fault, such as `faults.http(529)`, alone or in a list with what it spoils;
    - a function that takes the `FakeRequest` and returns any of these.

    What a turn does not say is filled in: ids by counting, the model that was asked for,
    the stop reason by the blocks, and as tokens a quarter of the characters (of the
    request's bytes, for those that went in), rounded up.  Of events only an empty id and
    model are.

    It answers with streams alone: a request that does not ask for one, by `stream` or, of
    Gemini, by its path, gets the error response 400 and no turn, unless a recording is
    next.  Gemini's is answered with events, as `alt=sse` asks for.  It is a `Responder`, so every
    `ReplayTransport` and `ReplayApp` takes it.  Its methods may be called from several
    threads.

    Args:
        script: What to answer.
        dialect: Dialect of every request; None to tell it by the path.
        model: Model to name; None for the one that the message names, else the request.
        faults: What spoils the answers, one after the other, after a turn's own.  One
            that replaces is alone with its request, which takes no turn.

    Raises:
        TypeError: The script holds what is no turn.
        LocalProtocolError: Events of the script break the grammar.
        RecordingError: A recording of the script cannot be read.
        UnknownDialect: There is no such dialect, or it cannot be written.
    """

    def __init__(
        self,
        script: Script,
        *,
        dialect: str | None = None,
        model: str | None = None,
        faults: Iterable[ReplayFault] = (),
    ) -> None:
        self._turns, self._repeats = read_script(script)
        self._dialect = None if dialect is None else encoder(dialect).dialect
        self._model = model
        self._faults = FaultQueue(faults)
        self._lock = threading.Lock()
        self._requests: list[FakeRequest] = []
        self._losses: list[Loss] = []
        self._used = 0  # turns
        self._calls = count(1)

    @property
    def requests(self) -> tuple[FakeRequest, ...]:
        """The requests so far, in the order in which they came."""
        with self._lock:
            return tuple(self._requests)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the dialects could not carry of the answers so far, answer by answer."""
        with self._lock:
            return tuple(self._losses)

    def respond(self, request: WireRequest, /) -> Playback:
        """Return the answer to a request.

        Raises:
            UnrecordedRequest: The script is over, or the request is of no dialect that can be
                written.
            TypeError: A function of the script returned what is no turn.
            ValueError: The answer does not have what a fault needs.
        """
        asked = _asked(request, self._dialect)
        with self._lock:
            self._requests.append(asked)
        writer = self._writer(asked)
        turn = self._next(asked)
        answer = turn.answer
        if callable(answer):
            answer = self._numbered(read_answer(answer(asked), f"answer to {asked!r}"))
        match answer:
            case Said():
                events = answer.events(tokens_in(len(request.body or b"")))
                playback = writer.told(events, turn.id)
            case Told(events):
                playback = writer.told([*events], turn.id)
            case Played(recording):
                playback = writer.played(recording)
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
        """Return a transport, synchronous and asynchronous, whose requests come here.

        Args:
            family: Of which package.
        """
        # The classes are made of those of a package that may not be installed.
        made = replaying_transport(family, self, {})
        return cast("HttpxTransport | Httpx2Transport", made)

    def client(self, kind: Callable[..., ClientT], /, **options: object) -> ClientT:
        """Return a client whose requests come here.  It is yours to close.

        Args:
            kind: `Client` or `AsyncClient` of httpx or httpx2, or a class made of one, such
                as `openai.DefaultHttpxClient`.
            **options: Those of `kind`.

        Raises:
            TypeError: It is no such class.
        """
        return kind(transport=replaying_transport(family_of(kind), self, {}), **options)

    def app(self) -> ReplayApp:
        """Return an ASGI application whose requests come here."""
        from streamnorm.asgi import ReplayApp  # who has a transport needs none

        return ReplayApp(self)

    def _writer(self, asked: FakeRequest) -> Writer:
        if asked.dialect is None:
            raise UnrecordedRequest(
                f"{asked.method} {asked.path}: a path of no known dialect; "
                "FakeProvider(…, dialect=…) names one for all paths"
            )
        try:
            return Writer(
                asked.dialect,
                model=self._model,
                asked_model=_endpoints(asked).model(asked.path, asked.body),
                include_usage=_includes_usage(asked.body),
            )
        except UnknownDialect as exc:
            raise UnrecordedRequest(f"{asked.method} {asked.path}: {exc}") from exc

    def _next(self, asked: FakeRequest) -> _Turn:
        with self._lock:
            faults = self._faults.take()
            if any(fault.replaces for fault in faults):
                return _Turn(_NOTHING, faults)
            if not self._repeats and self._used == len(self._turns):
                raise UnrecordedRequest(
                    f"{asked.method} {asked.path}: the script of {self._used} turns is over"
                )
            answer = self._turns[0 if self._repeats else self._used]
            streams = _endpoints(asked).streams(asked.path, asked.body)
            if not streams and not isinstance(answer, Played):
                return _Turn(_NO_STREAM)
            self._used += 1
            if isinstance(answer, Said):
                # Here, so that the ids of a script are the same whoever is answered first.
                answer = answer.numbered(self._calls)
            return _Turn(answer, faults, f"msg_{self._used}")

    def _numbered(self, answer: Answer) -> Answer:
        """Return an answer with an id for each call that has none."""
        with self._lock:
            return answer.numbered(self._calls) if isinstance(answer, Said) else answer


def _asked(request: WireRequest, dialect: str | None) -> FakeRequest:
    headers = {name.lower(): value for name, value in request.headers}
    text = str(request.body or b"", "utf-8", "replace")
    try:
        body = decode_any(text, max_depth=_MAX_DEPTH)
    except InvalidJSON:
        body = None
    return FakeRequest(
        request.method,
        path_of(request.url),
        dialect or dialect_of(request.url),
        {name: value for name, value in headers.items() if not is_secret_header(name)},
        body,
    )


def _endpoints(asked: FakeRequest) -> Endpoints:
    return Endpoints() if asked.dialect is None else lookup(asked.dialect).endpoints


def _includes_usage(body: Any) -> bool:
    """Return whether the `stream_options` of a request ask for the tokens."""
    options = body.get("stream_options") if is_object(body) else None
    return is_object(options) and options.get("include_usage") is True
