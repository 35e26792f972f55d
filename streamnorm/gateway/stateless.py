"""Responses' state at a gateway that stores none: refused, and never ignored.

An agent whose `previous_response_id` is ignored repeats its first step for ever.  Upstreams of
the same dialect have state of their own, and get their requests as they are.
"""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.bodies.parsing import body_object
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import StateError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    UpstreamRequest,
    json_body,
    refusals,
)
from streamnorm.state import Found, Turn
from streamnorm.state.errors import unsupported
from streamnorm.transports.transcoded_state import stores_responses

__all__ = ["refuse_state", "unstored"]

# An item that asks for a summary of the conversation, of which an agent needs exactly one.
_COMPACTION = "compaction_trigger"
_STATUS = 400  # also of items, where the vendor says 404: clients take that for a wrong URL


def refuse_state(received: ClientRequest, client: Dialect, limits: Limits) -> bool | None:
    """Return whether a client wants its answer stored; None if its dialect stores none.

    Args:
        received: The request.
        client: The client's dialect.
        limits: Bounds of the body.

    Raises:
        RequestRefused: The request needs what is not stored, or a server that goes on with it.
    """
    if not stores_responses(client):
        return None
    with refusals():
        body = body_object(json_body(received), limits)
        try:
            turn = Turn(body, limits=limits)
            turn.expand(Found())
            items = body.get("input")
            for item in items if is_array(items) else ():
                if is_object(item) and item.get("type") == _COMPACTION:
                    raise unsupported(_COMPACTION)
        except StateError as exc:
            raise RequestRefused(str(exc), _STATUS, code=exc.code, param=exc.param) from exc
    return turn.stores


def unstored(sent: UpstreamRequest, *, is_asked: bool) -> UpstreamRequest:
    """Return a translated request whose answer says that it is not stored.

    Args:
        sent: The request.
        is_asked: Whether the client asked for an answer that is stored.
    """
    losses = sent.losses
    if is_asked and all(loss.feature != "store" for loss in losses):
        losses = (*losses, Loss("store", "request", detail="written as false"))
    reply = structs.replace(sent.reply, response={**sent.reply.response, "store": False})
    return structs.replace(sent, reply=reply, losses=losses)
