"""Every LLM provider's stream as one stream of events, and back.

    import streamnorm

    async with client.stream("POST", url, json=body) as response:
        async for event in streamnorm.events(response):
            ...

Importing the package loads nothing else: a name loads its module when it is first used, and a
public module is loaded when it is.  The core does no I/O; `events`, `transcode`, `tap` and
`connect` load anyio, and what opens connections an HTTP library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnorm import asgi as asgi
    from streamnorm import codec as codec
    from streamnorm import frontend as frontend
    from streamnorm import log as log
    from streamnorm import partial_json as partial_json
    from streamnorm import profiles as profiles
    from streamnorm import recording as recording
    from streamnorm import sse as sse
    from streamnorm import state as state
    from streamnorm import testing as testing
    from streamnorm import tools as tools
    from streamnorm import validation as validation
    from streamnorm._public import *

    __version__: str

# Those that need no extra.
_PUBLIC_MODULES = (
    "asgi",
    "aws",
    "codec",
    "frontend",
    "log",
    "partial_json",
    "profiles",
    "recording",
    "sse",
    "state",
    "testing",
    "tools",
    "validation",
)


if not TYPE_CHECKING:  # pragma: no branch - a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            # Costs more than the rest of the import.
            return import_module("importlib.metadata").version("streamnorm")
        if name in _PUBLIC_MODULES:
            return import_module(f"streamnorm.{name}")
        public = import_module("streamnorm._public")
        if name == "__all__":
            value = sorted(public.__all__)
        elif name in public.MODULE_OF:
            value = getattr(import_module(public.MODULE_OF[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*import_module("streamnorm._public").__all__, *_PUBLIC_MODULES])
