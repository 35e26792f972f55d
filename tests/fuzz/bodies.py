"""Bodies: a damaged one is refused by a `DecodeError`, or equal in its own dialect.

Bodies of generated requests and messages, and of the captured requests of real agents where
STREAMNORM_REQUESTS names them, are damaged, spliced, and replaced by values that look like them.
What is not refused is readable in every other dialect.  What pages send is only read: chats that
were written for a page are damaged, and refused or readable in every dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from support.bodies.checks import BODIES, PAGES, check_body, check_page, check_response
from support.bodies.mutations import damaged_body, json_value
from support.bodies.request_corpus import captured_requests
from support.bodies.request_strategies import conversation, make_request
from support.draws import Draws
from support.streams.event_strategies import make_message

from streamnorm import EncodeError, InputMessage, encode_message, encode_request
from streamnorm.frontend import encode_messages

MAX_BYTES = 600

Check = Callable[[dict[str, Any], str], None]


def samples() -> list[bytes]:
    """Return no inputs: any bytes are draws."""
    return []


def check(data: bytes) -> None:
    """Damage one body."""
    d = Draws(data)
    dialect = d.pick([*BODIES, *PAGES])
    make = _page if dialect in PAGES else d.pick(_KINDS)
    body, check_kind = make(d, dialect)
    if body is not None:
        check_kind(body, dialect)


def _request(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    request = make_request(d, conversation(d, hostile=d.flag()))
    try:
        body = encode_request(request, dialect, repair="fill", arguments="raw").body
    except EncodeError:
        return None, check_body
    return damaged_body(d, body), check_body


def _agent(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    bodies = [request.body for request in captured_requests(dialect)]
    return damaged_body(d, d.pick(bodies), bodies) if bodies else None, check_body


def _lookalike(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    body, _ = _request(d, dialect)
    return {name: json_value(d) for name in body or ()}, check_body


def _response(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    try:
        body = encode_message(make_message(d), dialect).body
    except EncodeError:
        return None, check_response
    return damaged_body(d, body), check_response


def _page(d: Draws, dialect: str) -> tuple[dict[str, Any] | None, Check]:
    history = make_request(d, conversation(d, hostile=d.flag())).messages
    names = {"id": "c", "threadId": "t", "runId": "r", "tools": [{"name": "f", "parameters": {}}]}
    return damaged_body(d, {**names, **_chat(history, dialect)}), check_page


def _chat(history: Sequence[InputMessage], dialect: str) -> dict[str, Any]:
    return {"messages": encode_messages(history, dialect).messages}


_KINDS: tuple[Callable[[Draws, str], tuple[dict[str, Any] | None, Check]], ...] = (
    *(_request, _agent, _lookalike, _response),
)
