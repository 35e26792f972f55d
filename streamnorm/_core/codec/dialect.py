"""The record of a dialect, and the contract of every consumer of bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, TypedDict, TypeVar

from msgspec import Struct

from streamnorm._core.codec.body import BodyCodec
from streamnorm._core.codec.body_format import BodyFormat
from streamnorm._core.codec.checker import Checker, RequestCheck, RequestViolation
from streamnorm._core.codec.decoder import Decoder
from streamnorm._core.codec.encoder import Encoder
from streamnorm._core.codec.endpoints import Endpoints
from streamnorm._core.events import StreamError
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Capabilities, OnLoss, OnNote
from streamnorm.sse import Frame


class DecodeOptions(TypedDict, total=False):
    """How a stream is read; see `Decoder`."""

    server: str | None
    limits: Limits
    on_note: OnNote | None


class EncodeOptions(TypedDict, total=False):
    """How a stream is written; see `Encoder`."""

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
        """Return all that is known with `data`."""
        ...

    def close(self) -> list[T]:
        """Return what is known now that the source has ended."""
        ...

    def abort(self, cause: BaseException, /) -> list[T]:
        """Return what is known now that the source has failed."""
        ...


class FirstUse:
    """A function that imports a module when called, and calls a member of it."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: object, **options: object) -> Any:
        """Return what the member returns."""
        return self.load()(*args, **options)

    def load(self) -> Callable[..., Any]:
        """Import the module, and return the member."""
        member: Callable[..., Any] = getattr(import_module(self._module), self._name)
        return member


def on_first_use(module: str, name: str) -> FirstUse:
    """Return a function that imports a module when called, and calls a member of it.

    Few programs use every dialect, and the JSON decoders of each take tens of milliseconds
    to build.
    """
    return FirstUse(module, name)


class DialectOptions(Struct, frozen=True):
    """Options that one dialect alone has.

    Each field has the name of a keyword of `streamnorm.decoder` or `streamnorm.encoder`; both
    are given as `options` to the dialect's decoder and encoder.
    """

    def limit(self, capabilities: Capabilities) -> Capabilities:
        """Return what the encoder can carry with these options."""
        return capabilities


class Dialect(Struct, frozen=True, kw_only=True):
    """One dialect: its names, its codec, its capabilities and its HTTP interface.

    Attributes:
        name: The name used everywhere.
        aliases: Other names accepted on input.
        recognises: Returns whether a frame is of this dialect.
        is_terminal: Returns whether a frame reports the end of the message.
        decoder: Makes a decoder of keyword options; None if the dialect is not read.
        encoder: Makes an encoder of keyword options; None if it is not written.
        checker: Makes a checker; None if its bytes are not checked.
        request_checks: Returns the checks of requests that it alone has, by the names that the
            rules of its requests use.
        formats: Formats of its streams other than server-sent events.
        capabilities: What its streams can carry; None if it is not written.
        body: Returns the codec of its whole bodies; None if it has none.
        is_request: Returns whether a JSON object can only be a request of this dialect.
        is_response: Returns whether a JSON object can only be a response of this dialect.
        options: Options that only this dialect has; None if it has none.
        servers_with_quirks: Names of the servers whose name changes how a stream is read.
        endpoints: Its HTTP interface.
        error_body: Returns the body of an error response; None if it is that of the
            encoder.
        refusal_body: Returns the body of the answer to a request that the vendor refuses; None
            if it is that of the encoder for its status.
        overloaded_frames: Returns the events of an overloaded server, given a message, the
            frames of the stream, and how many of them come before; None if they are those of
            the encoder.
        overloaded_status: HTTP status of an overloaded server.
        variant_of: Dialect whose name its streams also go by: a stream that is detected, or
            decoded under that name, is decoded here if its first frames are of this dialect.
    """

    name: str
    aliases: tuple[str, ...]
    recognises: Callable[[Frame], bool]
    is_terminal: Callable[[Frame], bool] = lambda frame: False
    decoder: Callable[..., Decoder] | None = None
    encoder: Callable[..., Encoder] | None = None
    checker: Callable[[], Checker] | None = None
    request_checks: Callable[[], Mapping[str, RequestCheck]] = dict
    formats: tuple[BodyFormat, ...] = ()
    capabilities: Capabilities | None = None
    body: Callable[[], BodyCodec] | None = None
    is_request: Callable[[dict[str, Any]], bool] = lambda body: False
    is_response: Callable[[dict[str, Any]], bool] = lambda body: False
    options: type[DialectOptions] | None = None
    servers_with_quirks: frozenset[str] = frozenset()
    endpoints: Endpoints = Endpoints()
    error_body: Callable[[StreamError], bytes] | None = None
    refusal_body: Callable[[RequestViolation], bytes] | None = None
    overloaded_frames: Callable[[str, Sequence[Frame], int], bytes] | None = None
    overloaded_status: int = 503
    variant_of: str | None = None

    def load(self) -> None:
        """Import what its streams and bodies need, for a server that has no time for it later."""
        for part in (self.decoder, self.encoder, self.body, self.refusal_body):
            if isinstance(part, FirstUse):
                part.load()
