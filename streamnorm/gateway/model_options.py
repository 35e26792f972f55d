"""What the configuration changes in the requests for a model."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from streamnorm._core.bodies.request import Request
from streamnorm._core.losses import OnLoss
from streamnorm._core.tools import AnyTool, Tool
from streamnorm._tools import simplify_schema
from streamnorm.gateway.config import ModelConfig

__all__ = ["adjusted", "changes_requests"]


def changes_requests(options: ModelConfig) -> bool:
    """Return whether options may change a request, so that it cannot pass as it is."""
    return options.max_tokens is not None or options.simplify_schemas or options.serial_tool_calls


def adjusted(options: ModelConfig, on_loss: OnLoss) -> Callable[[Request], Request]:
    """Return the function that changes a request as the options of its model say.

    Args:
        options: The options.
        on_loss: Called with each loss.
    """

    def adjust(request: Request) -> Request:
        changes: dict[str, object] = {}
        if request.max_tokens is None and options.max_tokens is not None:
            changes["max_tokens"] = options.max_tokens
        if options.serial_tool_calls and request.tools:
            changes["parallel_tool_calls"] = False
        if options.simplify_schemas:
            changes["tools"] = tuple(_simplified(tool, on_loss) for tool in request.tools)
        return structs.replace(request, **changes) if changes else request

    return adjust


def _simplified(tool: AnyTool, on_loss: OnLoss) -> AnyTool:
    """Return a tool whose schema all servers accept.

    Raises:
        EncodeError: Its schema cannot be simplified.
    """
    if not isinstance(tool, Tool) or tool.input_schema is None:
        return tool
    simple = simplify_schema(tool.input_schema)
    for loss in simple.losses:
        on_loss(loss)
    if simple.schema is tool.input_schema:
        return tool
    return structs.replace(tool, input_schema=simple.schema)
