"""Results at the end of a request that the target has no form for.

A client that has executed a call of the provider's own kinds, or has approved one, asks the
model to go on with the result.  Without it the model would answer the question before once more.
"""

from __future__ import annotations

from streamnorm._core.blocks import OpaqueBlock, ServerToolResult
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.request import InputMessage, is_own
from streamnorm._core.errors import EncodeError
from streamnorm._core.losses.client_calls import CLIENT_KINDS

__all__ = ["check_last_result"]

_OUTPUTS = frozenset(f"{kind}_output" for kind in CLIENT_KINDS)
_APPROVAL = "mcp_approval_response"


def check_last_result(messages: tuple[InputMessage, ...], can: BodyCapabilities) -> None:
    """Check that the target has a form for the result that a request ends with.

    Raises:
        EncodeError: It has none.
    """
    if not (messages and messages[-1].blocks):
        return
    position, message = len(messages) - 1, messages[-1]
    if is_own(message, can.dialect) and can.server_history:
        return
    match message.blocks[-1]:
        case ServerToolResult(kind=kind) if kind in _OUTPUTS:
            pass
        case OpaqueBlock(dialect, kind) if kind == _APPROVAL and dialect != can.dialect:
            pass
        case _:
            return
    path = f"messages[{position}].blocks[{len(message.blocks) - 1}]"
    raise EncodeError(f"{kind} at the end, expected a result that {can.dialect} has", path=path)
