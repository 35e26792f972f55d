"""ASGI applications that need no framework: a stream as a response, a replay server, a proxy.

`response` sends a stream to a client, `message_response` its whole message; both are responses
of the `frameworks`, too, and have the `error_response` of a stream that failed.  `replaying`
answers with recordings, `proxying` forwards requests to a provider and records the responses,
`upstream_failures` has its reasons for an error 502.  All send on an `exchange`: one request
and its disconnect watch.  `keep_alive` adds pings to it.  `application` is the base class of
replay server and proxy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamnorm.asgi.responses import EventStreamResponse

if TYPE_CHECKING:
    from streamnorm.asgi.responses import MessageResponse
    from streamnorm.asgi.servers import RecordingProxy, ReplayApp

__all__ = ["EventStreamResponse", "MessageResponse", "RecordingProxy", "ReplayApp"]

# Not all applications need these, nor what they load.
_LAZY = {
    "MessageResponse": "streamnorm.asgi.responses",
    "RecordingProxy": "streamnorm.asgi.servers",
    "ReplayApp": "streamnorm.asgi.servers",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
