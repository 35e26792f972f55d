"""What the configuration changes in the requests for a model."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from streamnorm._core.bodies.request import Request
from streamnorm.gateway.config import ModelConfig

__all__ = ["adjusted"]


def adjusted(options: ModelConfig) -> Callable[[Request], Request]:
    """Return the function that changes a request as the options of its model say."""

    def adjust(request: Request) -> Request:
        changes: dict[str, object] = {}
        if request.max_tokens is None and options.max_tokens is not None:
            changes["max_tokens"] = options.max_tokens
        if options.serial_tool_calls and request.tools:
            changes["parallel_tool_calls"] = False
        return structs.replace(request, **changes) if changes else request

    return adjust
