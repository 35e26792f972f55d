"""The parts of a dialect: decoder, encoder, body codec, endpoints and validators.

`Checker` is the contract of strict validators of streams, `RequestCheck` of checks of requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeAlias, TypedDict, TypeVar

from msgspec import Struct, structs

from streamnorm._core.blocks import OpaqueBlock, ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.chats import HistoryItem
from streamnorm._core.bodies.fields import require_count
from streamnorm._core.bodies.models import ModelsCodec
from streamnorm._core.bodies.request import ReasoningOptions, Request
from streamnorm._core.bodies.table import ReadContext, WriteContext
from streamnorm._core.bodies.token_count import TokenCount
from streamnorm._core.codec.decoder import Decoder
from streamnorm._core.codec.encoder import Encoder
from streamnorm._core.codec.endpoints import Cloud, Endpoints, Route
from streamnorm._core.codec.framing import SSE, BodyFormat, Framing
from streamnorm._core.codec.stored_answers import StoredAnswers
from streamnorm._core.events import Event, Opaque, StreamError
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Capabilities, Losses, OnLoss, OnNote
from streamnorm._core.messages import Message
from streamnorm._core.tools import AnyTool
from streamnorm.sse import Frame

T = TypeVar("T")


class Written(Struct, frozen=True):
    """An encoded request: body, path and headers.

    Attributes:
        body: The JSON object to send.
        path: Path of the endpoint, which holds the model in some dialects.
        headers: Headers that belong to the body, such as betas; no API keys.
    """

    body: dict[str, Any]
    path: str
    headers: dict[str, str] = {}


class CountCodec(Struct, frozen=True, kw_only=True):
    """Reader and writer of token count requests and their responses.

    Readers raise `DecodeError` for a body that is not of the dialect.

    Attributes:
        fields: Fields of a message request that a count request may have; None = all.
        suffix: End of the path, after the path of the message request.
        tokens: Field of the response with the count.
        constants: Fields of every response.
    """

    fields: frozenset[str] | None = None
    suffix: str = ""
    tokens: str = "input_tokens"
    constants: dict[str, Any] = {}

    def read_request(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message request in the body of a count request."""
        return body

    def read_invocation(self, body: dict[str, Any]) -> bytes | None:
        """Return the body of another operation that a count request contains, or None."""
        return None

    def write_request(self, written: Written) -> Written:
        """Return the count request for an encoded message request, already reduced to `fields`."""
        return structs.replace(written, path=written.path + self.suffix)

    def read_count(self, body: dict[str, Any]) -> TokenCount:
        """Return the count in a response."""
        return TokenCount(require_count(body, self.tokens))

    def write_count(self, count: TokenCount) -> dict[str, Any]:
        """Return the body of a response with a count."""
        return {**self.constants, self.tokens: count.input_tokens}


class RequestReader(Struct, frozen=True, kw_only=True):
    """Reader of the requests of one dialect.

    Readers raise `DecodeError` for a body that is not of the dialect.  Their argument has no
    lone surrogates.

    Attributes:
        read_request: Function from a body to the request.
        read_tools: Function from a body to its tools; the body need not be a complete request.
        echoed_fields: Function from the body of a request to the fields that its responses
            repeat; None if responses repeat none.
    """

    read_request: Callable[[dict[str, Any], ReadContext], Request]
    read_tools: Callable[[dict[str, Any]], Sequence[AnyTool]]
    echoed_fields: Callable[[dict[str, Any]], dict[str, Any]] | None = None


class PageCodec(RequestReader, frozen=True, kw_only=True):
    """Reader of requests from the chat of a web page, and writer of the page's messages.

    Attributes:
        write_messages: Function from the messages of a chat to those of the page.
    """

    write_messages: Callable[[Iterable[HistoryItem], Losses], list[dict[str, Any]]]


class BodyCodec(RequestReader, frozen=True, kw_only=True):
    """Reader and writer of the whole bodies of one dialect.

    Attributes:
        capabilities: Capabilities of the dialect's requests.
        write_request: Function from a projected request to the body, its path and headers.
        read_response: Function from a whole response to the events that its stream would give.
        write_response: Function from a message to a response, with the other choices of its
            source if the dialect has several.  The second argument is the time of creation in
            seconds since 1970; None = as the message says, or 0.
        read_reasoning: Function from a body to its reasoning options, for servers that read
            only some of the dialect's fields; None if all servers read the same fields.
        reasoning_fields: Fields of a body that `read_reasoning` reads.
        fit_body: Function from a written body to one that its server accepts, for edits that no
            list of fields can express; it does not change its argument.
        answer_fields: Request names of response fields (`Message.block_extras`) whose names
            differ.
        message_fields: Function from an answer to fields of the message that it is in a later
            request, beside those of its blocks.
        opaque_content: Function from opaque data of an answer to the block that it is in a later
            request; None if the data is no content.
        executed_call: Function from a call of a function that the vendor has executed itself, and
            its result, to the call in a later request; None if the vendor executes no such calls.
        count: Reader and writer of token counts; None if the dialect has none.
        models: Reader and writer of model lists; None if the dialect has none.
        revise_response: Function that replaces the model and the time of a response, each if
            not None; None if responses are always written anew.
        cloud_headers: Function from the body of a request at a cloud's path to the headers of the
            vendor that stand in it, by lower-case name; None if the dialect has no such paths, or
            its requests are the same there.
        agent_field: Field of a request that names an agent of the vendor in place of a model;
            None if every request is for a model.
    """

    capabilities: BodyCapabilities
    write_request: Callable[[Request, WriteContext], Written]
    read_response: Callable[[dict[str, Any], ReadContext], list[Event]]
    write_response: Callable[[Message, float | None, Losses], dict[str, Any]]
    read_reasoning: Callable[[dict[str, Any]], ReasoningOptions | None] | None = None
    reasoning_fields: frozenset[str] = frozenset()
    fit_body: Callable[[dict[str, Any], WriteContext], dict[str, Any]] = lambda body, _: body
    answer_fields: dict[str, str] = {}
    message_fields: Callable[[Message], dict[str, Any]] = lambda _: {}
    opaque_content: Callable[[Opaque], OpaqueBlock | None] = lambda _: None
    executed_call: Callable[[ToolCall, ServerToolResult], ServerToolCall] | None = None
    count: CountCodec | None = None
    models: ModelsCodec | None = None
    revise_response: Callable[[dict[str, Any], str | None, float | None], dict[str, Any]] | None = (
        None
    )
    cloud_headers: Callable[[dict[str, Any]], dict[str, str]] | None = None
    agent_field: str | None = None


class DecodeOptions(TypedDict, total=False):
    """Options of a decoder; see `Decoder`."""

    server: str | None
    limits: Limits
    on_note: OnNote | None
    framing: Framing


class EncodeOptions(TypedDict, total=False):
    """Options of an encoder; see `Encoder`."""

    model: str | None
    strict: bool
    on_loss: OnLoss | None
    extras: bool
    limits: Limits
    capabilities: Capabilities | None


class Feed(Protocol[T]):
    """A consumer of bytes that returns items: a decoder or a transcoder."""

    def feed(self, data: bytes, /) -> list[T]:
        """Return the items that `data` completes."""
        ...

    def close(self) -> list[T]:
        """Signal the end of the source, and return the remaining items."""
        ...

    def abort(self, cause: BaseException, /) -> list[T]:
        """Signal that the source has failed, and return the remaining items."""
        ...


class FirstUse:
    """A function in a module that is imported at the first call.

    Attributes:
        load: Returns the member, after it has imported the module if need be.
    """

    def __init__(self, module: str, name: str) -> None:
        self.load: Callable[[], Any] = cache(partial(_import_member, module, name))

    def __call__(self, *args: object, **options: object) -> Any:
        """Import the module at the first call, and call the function."""
        return self.load()(*args, **options)


def _import_member(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def on_first_use(module: str, name: str) -> FirstUse:
    """Return a function that imports its module at the first call.

    Few programs use every dialect, and building the JSON decoders of one takes tens of
    milliseconds.  Its method `load` does the same for a member that is a value.
    """
    return FirstUse(module, name)


class DialectOptions(Struct, frozen=True):
    """Base of the options of a single dialect.

    Each field has the name of a keyword of `decoder` or `encoder` of `streamnorm.codec`.  The
    dialect's decoder and encoder receive the struct as `options`.
    """

    def limit(self, capabilities: Capabilities) -> Capabilities:
        """Return the encoder's capabilities, reduced by these options."""
        return capabilities


class Dialect(Struct, frozen=True, kw_only=True):
    """One dialect: its names, its codec, its capabilities and its HTTP interface.

    Attributes:
        name: Name of the dialect, used everywhere.
        aliases: Other names that are accepted as arguments.
        recognises: Function that returns whether a frame is of this dialect.
        is_terminal: Function that returns whether a frame reports the end of the message.
        decoder: Factory of decoders, from keyword options; None if the dialect is not read.
        encoder: Factory of encoders, from keyword options; None if the dialect is not written.
        checker: Factory of strict validators; None if streams are not validated.
        request_checks: Function that returns the dialect's own checks of requests, by the names
            that its rules use.
        framing: Framing of its streams, where the route or the caller names none.
        formats: Body formats of its streams other than server-sent events.
        capabilities: Capabilities of its streams; None if the dialect is not written.
        body: Function that returns the codec of its whole bodies, or that of a page, whose
            requests are only read; None if it has neither.
        is_request: Function that returns whether a JSON object can only be its request.
        is_response: Function that returns whether a JSON object can only be its response.
        options: Options that only this dialect has; None if it has none.
        servers_with_quirks: Names of the servers whose streams are read differently.
        endpoints: HTTP interface of the dialect.
        stored: How its server stores answers for clients; None if it stores none.
        page_path: Path at which a gateway answers pages of the dialect that have no backend; None
            for the dialect of a provider.
        cloud: Cloud at whose paths the dialect is spoken; None for the vendor.
        error_body: Function from an error to the body of an error response; None for
            `Encoder.error_body`.
        refusal_body: Function from a violation to the body of the vendor's refusal; None for
            `Encoder.error_body` with the same status.
        overloaded_frames: Function that returns the events of an overloaded server, from a
            message, the frames of the stream, and the number of frames before the error; None
            for the encoder's error event.
        overloaded_status: HTTP status of an overloaded server.
        variant_of: Dialect of which this one is a variant: a stream that is decoded as that
            dialect by name is decoded here if its first frames are of this one.
    """

    name: str
    aliases: tuple[str, ...]
    recognises: Callable[[Frame], bool]
    is_terminal: Callable[[Frame], bool] = lambda frame: False
    decoder: Callable[..., Decoder] | None = None
    encoder: Callable[..., Encoder] | None = None
    checker: Callable[[], Checker] | None = None
    request_checks: Callable[[], Mapping[str, RequestCheck]] = dict
    framing: Framing = SSE
    formats: tuple[BodyFormat, ...] = ()
    capabilities: Capabilities | None = None
    body: Callable[[], RequestReader] | None = None
    is_request: Callable[[dict[str, Any]], bool] = lambda body: False
    is_response: Callable[[dict[str, Any]], bool] = lambda body: False
    options: type[DialectOptions] | None = None
    servers_with_quirks: frozenset[str] = frozenset()
    endpoints: Endpoints = Endpoints()
    stored: StoredAnswers | None = None
    page_path: str | None = None
    cloud: Cloud | None = None
    error_body: Callable[[StreamError], bytes] | None = None
    refusal_body: Callable[[RequestViolation], bytes] | None = None
    overloaded_frames: Callable[[str, Sequence[Frame], int], bytes] | None = None
    overloaded_status: int = 503
    variant_of: str | None = None

    @property
    def codec(self) -> BodyCodec | None:
        """Codec of requests and whole responses; None if the dialect does not have both."""
        codec = None if self.body is None else self.body()
        return codec if isinstance(codec, BodyCodec) else None

    def adapt_to_path(self, path: str) -> Dialect:
        """Return the dialect with the framing and conventions of the cloud that serves a path."""
        route = self.endpoints.cloud_route(path)
        return self if route is None else self.adapt_to_route(route)

    def adapt_to_route(self, route: Route) -> Dialect:
        """Return the dialect with the framing and conventions of a route's cloud."""
        cloud = route.cloud
        if cloud is None:
            return self
        return structs.replace(
            self,
            framing=route.framing or self.framing,
            cloud=cloud,
            overloaded_status=cloud.overloaded_status,
            endpoints=structs.replace(
                self.endpoints,
                key_headers=cloud.key_headers,
                request_id_header=cloud.request_id_header,
            ),
        )

    def load(self) -> None:
        """Import the modules of streams and bodies now, before a request needs them."""
        for part in (self.decoder, self.encoder, self.refusal_body):
            if isinstance(part, FirstUse):
                part.load()
        if self.body is not None:
            self.body()


# A frame may be wrong a million times: one of a peer's making must not fill the memory.
MAX_PROBLEMS = 1000
"""Bound on the problems reported of one stream."""


class Checker(ABC):
    """Strict validator of one stream.

    Independent of the decoders: it accepts what the vendor documents and its clients need,
    not what decoders forgive.  A problem says what was found, then what was expected, with
    types, sizes and indexes, never text of the payload.  A mistake is reported once.
    """

    rejects_id_and_retry: ClassVar[bool] = False
    """Whether the dialect's clients break on `id` and `retry` lines."""

    rejects_comments: ClassVar[bool] = False
    """Whether its clients break on comments, and on `data:` without a space."""

    rejects_carriage_returns: ClassVar[bool] = False
    """Whether its clients end lines at line feeds alone."""

    def check(self, frame: Frame) -> list[str]:
        """Return the problems of the next frame, at most `MAX_PROBLEMS`."""
        return list(islice(self.read(frame), MAX_PROBLEMS))

    @abstractmethod
    def read(self, frame: Frame) -> Iterator[str]:
        """Yield the problems of the next frame."""

    @abstractmethod
    def missing(self) -> list[str]:
        """Return the problems at the end of the stream, such as missing frames."""


ANY = "*"
"""All events that a state of an `OrderTable` does not name."""

OrderTable: TypeAlias = Mapping[str, Mapping[str, str | tuple[str, str]]]
"""The order of events: by state and event, the next state, a problem, or both.

A problem alone leaves the state as it is, as does an event without an entry.  `{event}` and
further names are filled in.  The first state is the initial one.
"""


class Order:
    """State machine for the order of events, as a table.

    Args:
        table: The table.
        names: Values of the names in its problems.

    Attributes:
        state: The current state.
    """

    def __init__(self, table: OrderTable, **names: object) -> None:
        self.state = next(iter(table))
        self._table = table
        self._names = names

    def advance(self, event: str) -> Iterator[str]:
        """Enter the state after an event; yield a problem if the event is out of order."""
        row = self._table[self.state]
        after = row.get(event) or row.get(ANY, self.state)
        state, problem = after if isinstance(after, tuple) else (after, after)
        self.state = state if state in self._table else self.state
        if problem not in self._table:
            yield problem.format(event=event, **self._names)


class RequestFacts(Struct, frozen=True):
    """Body and metadata of a request, as the provider receives it.

    Attributes:
        body: The JSON object.
        model: Name of the model, from the body or the path; "" if unknown.
        server: Name of the server; None is the vendor.
        path: Path of the URL; "" if unknown.
        headers: Headers, names in lower case.
        stream: Whether the request asks for a stream.
        lone_surrogate: Path of the first text with a lone surrogate, which is U+FFFD in `body`;
            None if there is none.
    """

    body: dict[str, Any]
    model: str = ""
    server: str | None = None
    path: str = ""
    headers: Mapping[str, str] = {}
    stream: bool = False
    lone_surrogate: str | None = None


class Finding(Struct, frozen=True):
    """A position in a request where a rule is broken.

    The attributes besides `path` fill the placeholders in the vendor's text.

    Attributes:
        path: Path in the body, such as `input[2].id`; "" for the whole body.
        value: Value at the path; a text is quoted if it is short and no secret.
        name: Name of a tool, a field or an item.
        count: Number of items or characters found.
        limit: Number of items or characters allowed.
        context: The vendor's words for a position within a schema.
    """

    path: str
    value: object = None
    name: str = ""
    count: int | None = None
    limit: int | float | None = None
    context: str = ""


RequestCheck: TypeAlias = Callable[[RequestFacts], Iterator[Finding]]
"""A generator of the positions in a request that break one rule; total over any JSON."""


class RequestViolation(Struct, frozen=True):
    """A broken rule, with the provider's error.

    Attributes:
        rule: Name of the rule.
        path: Path in the body, such as `input[2].id`; "" for the whole body.
        message: Message of the provider's error.
        status: HTTP status of the provider's response.
        type: Type of the error; None = the usual one of the status.
        code: Code of the error; None = none.
    """

    rule: str
    path: str
    message: str
    status: int = 400
    type: str | None = None
    code: str | None = None
