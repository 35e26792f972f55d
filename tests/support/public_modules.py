"""The public modules, which README and docs name."""

from __future__ import annotations

MODULES = (
    "streamnorm",
    "streamnorm.asgi",
    "streamnorm.aws",
    "streamnorm.codec",
    "streamnorm.frontend",
    "streamnorm.log",
    "streamnorm.gateway",
    "streamnorm.partial_json",
    "streamnorm.profiles",
    "streamnorm.recording",
    "streamnorm.sse",
    "streamnorm.state",
    "streamnorm.testing",
    "streamnorm.tools",
    "streamnorm.validation",
    "streamnorm.transports.httpx",
    "streamnorm.transports.httpx2",
)
