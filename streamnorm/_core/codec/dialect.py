"""The record of a dialect, and the contract of every consumer of bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from streamnorm._core.codec.body import BodyCodec
from streamnorm._core.codec.body_format import BodyFormat
from streamnorm._core.codec.checker import Checker
from streamnorm._core.codec.decoder import Decoder
from streamnorm._core.codec.encoder import Encoder
from streamnorm._core.events import StreamError
from streamnorm._core.json import is_object
from streamnorm._core.losses import Capabilities
from streamnorm.sse import Frame

__all__ = ["Dialect", "DialectOptions", "Endpoints", "Feed", "on_first_use"]

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


def on_first_use(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports a module when called, and calls a member of it.

    Few programs use every dialect, and the JSON decoders of each take tens of milliseconds
    to build.
    """

    def make(*args: object, **options: object) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return make


class Endpoints(Struct, frozen=True, kw_only=True):
    """The HTTP interface of a dialect.

    Patterns are searched in the decoded path of a URL, without empty segments.

    Attributes:
        path: Pattern of the paths whose responses are of this dialect; None if no path is.
        stream_path: Pattern of the paths that stream whatever the body says; None if
            only the body's `stream` asks for a stream.
        model_path: Pattern whose first group is the model; None if only the body's
            `model` names it.
        count_path: Pattern of the paths that answer with a number of tokens; None if there
            are none.
        key_headers: Request headers that hold the API key, the vendor's first.
        vendor_headers: Further request headers that mean something to the vendor.
        request_id_header: Response header that names the exchange.
        version_in_base_url: Whether the vendor's SDKs take the version of the API as part of
            their base URL, and not as part of each path.
        servers: Names of servers, by a suffix of their host, that do not follow from it.
        volatile_system_prefix: Prefix of system blocks that a client changes with each
            request; None if there are none.
    """

    path: re.Pattern[str] | None = None
    stream_path: re.Pattern[str] | None = None
    model_path: re.Pattern[str] | None = None
    count_path: re.Pattern[str] | None = None
    key_headers: tuple[str, ...] = ("authorization",)
    vendor_headers: tuple[str, ...] = ()
    request_id_header: str = "x-request-id"
    version_in_base_url: bool = False
    servers: dict[str, str] = {}
    volatile_system_prefix: str | None = None

    def streams(self, path: str, body: object) -> bool:
        """Return whether a request asks for a stream."""
        if self.stream_path is not None and self.stream_path.search(path):
            return True
        return is_object(body) and body.get("stream") is True

    def counts(self, path: str) -> bool:
        """Return whether a request asks how many tokens another one would have."""
        return self.count_path is not None and self.count_path.search(path) is not None

    def model(self, path: str, body: object) -> str:
        """Return the model that a request names, or "" if it names none."""
        if is_object(body) and isinstance(model := body.get("model"), str):
            return model
        found = None if self.model_path is None else self.model_path.search(path)
        return "" if found is None else found[1]


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
    formats: tuple[BodyFormat, ...] = ()
    capabilities: Capabilities | None = None
    body: Callable[[], BodyCodec] | None = None
    is_request: Callable[[dict[str, Any]], bool] = lambda body: False
    is_response: Callable[[dict[str, Any]], bool] = lambda body: False
    options: type[DialectOptions] | None = None
    servers_with_quirks: frozenset[str] = frozenset()
    endpoints: Endpoints = Endpoints()
    error_body: Callable[[StreamError], bytes] | None = None
    overloaded_frames: Callable[[str, Sequence[Frame], int], bytes] | None = None
    overloaded_status: int = 503
    variant_of: str | None = None
