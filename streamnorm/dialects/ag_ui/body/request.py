"""Request bodies: `RunAgentInput`.

`@ag-ui/core` 1.0.0, `src/generated/schemas.ts` (read 2026-11-27).  `context`, `state` and
`forwardedProps` have no place in a provider's request, and the answers to interrupts (`resume`)
are the agent's: they stand in `extra`.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import get_objects, get_str, require_str, unknown_fields
from streamnorm._core.bodies.request import Request, Source
from streamnorm._core.codec import ReadContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.limits import Limits
from streamnorm.dialects.ag_ui.body.messages import messages_from_wire
from streamnorm.dialects.ag_ui.body.tools import tools_from_wire
from streamnorm.dialects.ag_ui.wire import DIALECT

# They name the thread, the run and the protocol, not what the model is asked.
_NAMES = ("parentRunId", "protocolVersion")
_IDS = ("threadId", "runId")
_FIELDS = frozenset({*_IDS, "messages", "tools", *_NAMES})
_MAX_ID_CHARS = Limits().max_id_chars
_STATUSES = ("resolved", "cancelled")


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    """Decode a body to a unified request.

    It names no model, which is the agent's to choose.

    Raises:
        DecodeError: The body is no `RunAgentInput`.
    """
    for name in _IDS:
        # The ids of all messages of the run begin with it.
        if len(require_str(body, name)) > _MAX_ID_CHARS:
            problem = f"longer than {_MAX_ID_CHARS} characters, expected at most that"
            raise DecodeError(problem, path=f"$.{name}")
    for name in _NAMES:
        get_str(body, name)
    _check_context(body)
    _check_resume(body)
    # An empty list, object or state says as much as none.
    unknown = {name: item for name, item in unknown_fields(body, _FIELDS).items() if item}
    request = Request(
        messages=messages_from_wire(body.get("messages")),
        tools=tools_from_wire(body),
        # The clients read nothing but a stream.
        stream=True,
        extra={DIALECT: unknown} if unknown else None,
    )
    return structs.replace(request, source=Source(DIALECT, body, request))


def echoed_fields(body: dict[str, Any]) -> dict[str, Any]:
    """Return the ids that the run's events repeat, and the client's protocol version."""
    return {name: body[name] for name in (*_IDS, "protocolVersion") if name in body}


def _check_context(body: dict[str, Any]) -> None:
    for path, item in get_objects(body, "context"):
        for name in ("description", "value"):
            if not isinstance(item.get(name), str):
                raise DecodeError("no string, expected one", path=f"{path}.{name}")


def _check_resume(body: dict[str, Any]) -> None:
    for path, item in get_objects(body, "resume"):
        if not isinstance(item.get("interruptId"), str):
            raise DecodeError("no string, expected one", path=f"{path}.interruptId")
        if item.get("status") not in _STATUSES:
            problem = "another status, expected resolved or cancelled"
            raise DecodeError(problem, path=f"{path}.status")
