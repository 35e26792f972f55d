"""ASGI applications without a framework: stream responses, replay server, recording proxy.

`responses` send a stream to a client, or its whole message; under Starlette and FastAPI both are
responses of the framework.  `servers` holds the replay server and the recording proxy.  All send
on an `exchange`: one request, the watch for its disconnect, and pings.
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
