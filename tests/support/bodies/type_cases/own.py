"""Fate of one member, literal or field of an SDK's type in its own dialect."""

from __future__ import annotations

import json
from typing import Any

from msgspec import structs

from streamnorm import (
    Completed,
    DecodeError,
    EncodeError,
    Failed,
    StreamError,
    Transcoder,
    UpstreamError,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
)
from support.bodies.type_cases.case import JSON
from support.bodies.type_cases.equality import difference, said, said_by_stream
from support.bodies.type_cases.streams import frames_of, stream_bytes

__all__ = ["answer_difference", "request_difference", "stream_difference"]

# Another name, for which a body is written anew.
_MODEL = "m-other"
_GEMINI_PATH = "/v1beta/models/m:generateContent"


def request_difference(body: JSON, dialect: str) -> str:
    """Return how decoding and encoding change a request; "" if not at all.

    It must be equal for the same model, and for another one but for a loss that is reported.
    """
    path = _GEMINI_PATH if dialect == "gemini" else None
    try:
        request = decode_request(body, dialect, path=path)
        same = encode_request(request, dialect)
        other = encode_request(structs.replace(request, model=_MODEL), dialect)
    except (DecodeError, EncodeError) as exc:
        return f"{type(exc).__name__}: {exc}"
    if found := difference(body, same.body):
        return found
    named = {} if dialect == "gemini" else {"model": _MODEL}
    if other.losses:
        return ""
    return difference({**body, **named}, other.body)


def answer_difference(body: JSON, dialect: str) -> str:
    """Return how renaming the model changes a whole answer; "" if not otherwise."""
    try:
        made = encode_message(decode_message(body, dialect), dialect, model=_MODEL)
    except (DecodeError, EncodeError, UpstreamError) as exc:
        return f"{type(exc).__name__}: {exc}"
    if made.losses:
        return f"lost {made.losses}"
    name = "modelVersion" if dialect == "gemini" else "model"
    return difference(said({**body, name: _MODEL}), said(made.body))


def stream_difference(body: JSON, dialect: str) -> str:
    """Return how renaming the model changes a stream; "" if not otherwise."""
    transcoder = Transcoder(dialect, dialect, model=_MODEL)
    output = b"".join(transcoder.feed(stream_bytes(body, dialect)) + transcoder.close())
    match transcoder.outcome:
        case Completed() | Failed(StreamError("upstream")):
            pass
        case outcome:
            return str(outcome)
    if transcoder.losses:
        return f"lost {transcoder.losses}"
    expected = said_by_stream([_named(frame) for frame in body["frames"]], dialect)
    return difference(expected, said_by_stream(frames_of(output), dialect))


def _named(frame: JSON) -> JSON:
    """Return a payload with another model name."""
    named: Any = json.loads(json.dumps(frame))
    for holder in (named, named.get("message"), named.get("response")):
        for name in ("model", "modelVersion"):
            if isinstance(holder, dict) and name in holder:
                holder[name] = _MODEL
    return dict(named)
