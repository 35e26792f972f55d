"""Streams, recordings and what passes by, as ASGI applications of no framework.

`response` sends a stream to a client, `replaying` answers with recordings, `proxying` passes
requests on and records the answers.  `exchange` is one request and its answer as a server
gives them, `application` what the latter two have in common, `headers` which of them pass.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamnorm.asgi.response import EventStreamResponse

if TYPE_CHECKING:
    from streamnorm.asgi.proxying import RecordingProxy
    from streamnorm.asgi.replaying import ReplayApp

__all__ = ["EventStreamResponse", "RecordingProxy", "ReplayApp"]

# A gateway needs neither, nor what they load.
_LAZY = {
    "RecordingProxy": "streamnorm.asgi.proxying",
    "ReplayApp": "streamnorm.asgi.replaying",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
