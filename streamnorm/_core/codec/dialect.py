"""One dialect as the registry knows it, and the contract of all that eats bytes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from streamnorm._core.codec.body_format import Form
from streamnorm._core.codec.checker import Checker
from streamnorm._core.codec.decoder import Decoder
from streamnorm._core.codec.encoder import Encoder
from streamnorm.sse import Frame

__all__ = ["Dialect", "Feed", "on_first_use"]

T = TypeVar("T")


class Feed(Protocol[T]):
    """What eats bytes: the one contract of frames, events and transcoded bytes."""

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
    """Return a function that calls a class of a module, which is imported when it is called.

    Nobody uses all rooms, and their decoders of JSON take tens of milliseconds to build.
    """

    def make(*args: object, **options: object) -> Any:
        return getattr(import_module(module), name)(*args, **options)

    return make


class Dialect(Struct, frozen=True, kw_only=True):
    """One dialect: how it is called, told apart, read and written.

    Attributes:
        name: The name used everywhere.
        aliases: Names accepted on input.
        recognises: Whether a frame is of this dialect.
        decoder: Makes a decoder of keyword options; None if it is not read.
        encoder: Makes an encoder of keyword options; None if it is not written.
        checker: Makes a checker; None if its bytes are not checked.
        forms: The forms that its streams may have beside server-sent events.
        variant_of: Dialect whose name its streams also go by: a stream that is detected, or
            decoded under that name, is decoded here if its first frames are of this dialect.
    """

    name: str
    aliases: tuple[str, ...]
    recognises: Callable[[Frame], bool]
    decoder: Callable[..., Decoder] | None = None
    encoder: Callable[..., Encoder] | None = None
    checker: Callable[[], Checker] | None = None
    forms: tuple[Form, ...] = ()
    variant_of: str | None = None
