"""Test transports: one that replays, and one that also records missing exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streamnorm._core.errors import UnrecordedRequest
from streamnorm.recording.format import Responder
from streamnorm.recording.recorder import Recorder

if TYPE_CHECKING:
    import httpx
    import httpx2

    class HttpxTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
        """A transport for all clients of httpx."""

    class Httpx2Transport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
        """A transport for all clients of httpx2."""


FamilyName: TypeAlias = Literal["httpx", "httpx2"]

NETWORK_OPTIONS = ("verify", "cert", "trust_env", "http1", "http2", "limits", "proxy")
"""Options that a client passes to the transport that it creates."""


def family_of(kind: object) -> FamilyName:
    """Return the HTTP package of a client class.

    Raises:
        TypeError: It is no client class of httpx or httpx2.
    """
    families: dict[str, FamilyName] = {"httpx": "httpx", "httpx2": "httpx2"}
    for base in getattr(kind, "__mro__", ()):
        family = families.get(base.__module__.partition(".")[0])
        if family is not None and base.__name__ in ("AsyncClient", "Client"):
            return family
    raise TypeError(
        f"{kind!r} is no class of clients, expected Client or AsyncClient of httpx or httpx2,"
        " or a class made of one"
    )


def make_replaying_transport(
    family: FamilyName, answers: Responder, pace: Mapping[str, Any]
) -> HttpxTransport | Httpx2Transport:
    """Return a transport that only replays."""
    # Its class derives from those of a package that may not be installed.
    transport: HttpxTransport | Httpx2Transport = _import_family(family).ReplayTransport(
        answers, **pace
    )
    return transport


def make_recording_transport(
    family: FamilyName,
    recorder: Recorder,
    replay: object | None,
    inner: object | None,
    network: Mapping[str, object],
) -> object:
    """Return a transport that replays requests, or sends and records them.

    Args:
        family: Name of the package.
        recorder: Writes the recordings.
        replay: Transport to ask first; None to send all requests.
        inner: Transport that sends; None for the package's default.
        network: Options of the default transport.
    """
    package = import_module(family)
    bases = (_RecordMissing, package.BaseTransport, package.AsyncBaseTransport)
    # The other methods that clients call are those of the package's base classes.
    kind = type("RecordingWire", bases, {})
    return kind(family, recorder, replay, inner, network)


class _RecordMissing:
    """Replays a request, or sends and records it if there is no recording."""

    def __init__(
        self,
        family: FamilyName,
        recorder: Recorder,
        replay: Any,
        inner: object | None,
        network: Mapping[str, object],
    ) -> None:
        self._package = import_module(family)
        self._skin = _import_family(family)
        self._recorder = recorder
        self._replay = replay
        self._inner = inner
        self._network = network

    def handle_request(self, request: Any) -> Any:
        if self._replay is not None:
            with suppress(UnrecordedRequest):  # then it is sent
                return self._replay.handle_request(request)
        return self._recording.handle_request(request)

    async def handle_async_request(self, request: Any) -> Any:
        if self._replay is not None:
            with suppress(UnrecordedRequest):
                return await self._replay.handle_async_request(request)
        return await self._async_recording.handle_async_request(request)

    def close(self) -> None:
        if "_recording" in self.__dict__:
            self._recording.close()

    async def aclose(self) -> None:
        if "_async_recording" in self.__dict__:
            await self._async_recording.aclose()

    @cached_property
    def _recording(self) -> Any:
        inner = self._inner or self._package.HTTPTransport(**self._network)
        return self._skin.RecordingTransport(inner, self._recorder)

    @cached_property
    def _async_recording(self) -> Any:
        inner = self._inner or self._package.AsyncHTTPTransport(**self._network)
        return self._skin.RecordingTransport(inner, self._recorder)


def _import_family(family: FamilyName) -> ModuleType:
    return import_module(f"streamnorm.transports.{family}")
