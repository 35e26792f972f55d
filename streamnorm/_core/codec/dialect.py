"""The record of a dialect, its options, and the contract of every consumer of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, TypedDict, TypeVar

from msgspec import Struct, structs

from streamnorm._core.codec.body import BodyCodec
from streamnorm._core.codec.body_format import BodyFormat
from streamnorm._core.codec.checker import Checker, RequestCheck, RequestViolation
from streamnorm._core.codec.cloud import Cloud
from streamnorm._core.codec.decoder import Decoder
from streamnorm._core.codec.encoder import Encoder
from streamnorm._core.codec.endpoints import Endpoints, Route
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Capabilities, OnLoss, OnNote
from streamnorm.sse import Frame


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


T = TypeVar("T")


class Feed(Protocol[T]):
    """A consumer of bytes: a decoder of frames or events, or a transcoder."""

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
    """A function that imports a module at its first call, and calls a member of the module."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: object, **options: object) -> Any:
        """Import the module if need be, and call the member."""
        return self.load()(*args, **options)

    def load(self) -> Callable[..., Any]:
        """Import the module, and return the member."""
        member: Callable[..., Any] = getattr(import_module(self._module), self._name)
        return member


def on_first_use(module: str, name: str) -> FirstUse:
    """Return a function that imports a module at its first call, and calls a member of it.

    Few programs use every dialect, and building the JSON decoders of one takes tens of
    milliseconds.
    """
    return FirstUse(module, name)


class DialectOptions(Struct, frozen=True):
    """Base of the options that only one dialect has.

    Each field has the name of a keyword of `decoder` or `encoder` of `streamnorm.codec`.  The
    dialect's decoder and encoder receive the struct as `options`.
    """

    def limit(self, capabilities: Capabilities) -> Capabilities:
        """Return the capabilities of the encoder with these options."""
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
        body: Function that returns the codec of its whole bodies; None if it has none.
        is_request: Function that returns whether a JSON object can only be its request.
        is_response: Function that returns whether a JSON object can only be its response.
        options: Options that only this dialect has; None if it has none.
        servers_with_quirks: Names of the servers whose streams are read differently.
        endpoints: HTTP interface of the dialect.
        cloud: Cloud at whose paths the dialect is spoken; None for the vendor.
        error_body: Function from an error to the body of an error response; None for
            `Encoder.error_body`.
        refusal_body: Function from a violation to the body of the vendor's refusal; None for
            `Encoder.error_body` with the same status.
        overloaded_frames: Function that returns the events of an overloaded server, from a
            message, the frames of the stream, and the number of frames before the error; None
            for the encoder's error event.
        overloaded_status: HTTP status of an overloaded server.
        variant_of: Dialect of which this one is a variant: a stream that is detected as, or
            decoded as, that dialect is decoded here if its first frames are of this one.
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
    body: Callable[[], BodyCodec] | None = None
    is_request: Callable[[dict[str, Any]], bool] = lambda body: False
    is_response: Callable[[dict[str, Any]], bool] = lambda body: False
    options: type[DialectOptions] | None = None
    servers_with_quirks: frozenset[str] = frozenset()
    endpoints: Endpoints = Endpoints()
    cloud: Cloud | None = None
    error_body: Callable[[StreamError], bytes] | None = None
    refusal_body: Callable[[RequestViolation], bytes] | None = None
    overloaded_frames: Callable[[str, Sequence[Frame], int], bytes] | None = None
    overloaded_status: int = 503
    variant_of: str | None = None

    def at_path(self, path: str) -> Dialect:
        """Return the dialect as it is spoken at a path, which stands as the URL spells it."""
        route = self.endpoints.cloud_route(path)
        return self if route is None else self.spoken_at(route)

    def spoken_at(self, route: Route) -> Dialect:
        """Return the dialect as it is spoken at a route: in the framing and form of its cloud."""
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
                answer_headers=route.headers,
            ),
        )

    def load(self) -> None:
        """Import the modules of its streams and bodies now, so that no request waits for them."""
        for part in (self.decoder, self.encoder, self.body, self.refusal_body):
            if isinstance(part, FirstUse):
                part.load()
