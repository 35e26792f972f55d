"""`response.create` messages with `generate: false`, which are answered without a model."""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from streamnorm._bodies import reader_of
from streamnorm._core.codec import Dialect
from streamnorm._core.events import (
    Completed,
    Event,
    MessageStart,
    MessageStop,
    Usage,
    UsageUpdate,
)
from streamnorm._exchange import last_event
from streamnorm._registry import encoder
from streamnorm._upstream.requests import ClientRequest
from streamnorm.asgi.responses import EVENT_STREAM_HEADERS, Exchange, encode_headers
from streamnorm.gateway.messages import Services
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.response_state import ResponseStates


async def prepare(
    received: ClientRequest,
    client: Dialect,
    services: Services,
    exchange: Exchange,
    call: CallRecord,
    states: ResponseStates,
) -> None:
    """Answer `generate: false` with an empty response that a later `response.create` continues.

    Codex sends one ahead of its first prompt, so that the vendor reads instructions and tools.
    """
    body = received.decoded or {}
    services.routing.targets(call.model, client)
    turn = await states.begin(received, client, body)
    echoed = reader_of(client).echoed_fields
    fields = {} if echoed is None else echoed(turn.body)
    fields |= {"id": f"resp_{uuid4().hex}", **turn.fields}
    events: list[Event] = [
        MessageStart(fields["id"], call.model, {"created_at": int(time.time())}),
        UsageUpdate(Usage(input_tokens=0, output_tokens=0)),
        MessageStop("end_turn"),
    ]
    data = _encode(events, fields, client)
    if turn.stores:
        await turn.store(last_event(data)["response"])
        if turn.is_lost:
            data = _encode(events, {**fields, **turn.fields}, client)
    call.status, call.outcome = 200, Completed("end_turn", Usage())
    await exchange.start(200, encode_headers(EVENT_STREAM_HEADERS))
    await exchange.send(data, more=False)


def _encode(events: list[Event], fields: dict[str, Any], client: Dialect) -> bytes:
    writer = encoder(client.name)
    writer.response_fields = fields
    return b"".join([writer.encode(event) for event in events])
