"""What becomes of one member, literal or field of an SDK's type in a dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from streamnorm import (
    Completed,
    DecodeError,
    EncodeError,
    Loss,
    Transcoder,
    UpstreamError,
    translate_message,
    translate_request,
)
from support.type_cases.case import JSON, Case
from support.type_cases.streams import stream_bytes

__all__ = [
    "Fate",
    "Result",
    "Verdict",
    "fate_of",
    "translated_answer",
    "translated_request",
    "translated_stream",
]

Fate: TypeAlias = Literal["carried", "loss", "refused", "null", "silent"]


class Result(NamedTuple):
    """What a body is in a dialect.

    Attributes:
        output: The body there, its path and headers; "" if it is refused.
        losses: What it lost, by feature and place.
        error: Why it is refused; "" if it is not.
    """

    output: str
    losses: dict[tuple[str, str, str], int]
    error: str = ""


class Verdict(NamedTuple):
    """The fate of a thing, and what says so."""

    fate: Fate
    reason: str


Translate: TypeAlias = Callable[[JSON, str, str], Result]


def translated_request(body: JSON, dialect: str, target: str) -> Result:
    """Return a request as another dialect has it."""
    body = dict(body)
    path = None
    if dialect == "gemini":
        path = "/v1beta/models/m:generateContent"
    try:
        made = translate_request(body, to=target, dialect=dialect, path=path)
    except (DecodeError, EncodeError) as exc:
        return Result("", {}, f"{type(exc).__name__}: {exc}")
    output = json.dumps([made.body, made.path, made.headers], sort_keys=True)
    return Result(output, counted(made.losses))


def translated_answer(body: JSON, dialect: str, target: str) -> Result:
    """Return a whole answer as another dialect has it."""
    try:
        made = translate_message(body, to=target, dialect=dialect)
    except (DecodeError, EncodeError, UpstreamError) as exc:
        return Result("", {}, f"{type(exc).__name__}: {exc}")
    return Result(json.dumps(made.body, sort_keys=True), counted(made.losses))


def translated_stream(body: JSON, dialect: str, target: str) -> Result:
    """Return a stream as another dialect has it."""
    transcoder = Transcoder(dialect, target)
    output = b"".join(transcoder.feed(stream_bytes(body, dialect)) + transcoder.close())
    if not isinstance(transcoder.outcome, Completed):
        assert transcoder.outcome is not None
        return Result("", {}, f"{type(transcoder.outcome).__name__}: {transcoder.outcome}")
    return Result(output.decode(), counted(transcoder.losses))


def counted(losses: tuple[Loss, ...]) -> dict[tuple[str, str, str], int]:
    return {(loss.feature, loss.where, loss.detail): loss.count for loss in losses}


def fate_of(case: Case, target: str, translate: Translate) -> Verdict:
    """Return what becomes of the thing of a case in a dialect."""

    def run(body: JSON) -> Result:
        return translate(body, case.dialect, target)

    made = run(case.body)
    if made.error:
        return Verdict("refused", made.error)
    if case.other is not None:
        other = run(case.other)
        if other.output != made.output:
            return Verdict("carried", "")
        if more := _more(made, other):
            return Verdict("loss", more)
    for number, body in enumerate(case.without):
        base = run(body)
        if base.output != made.output and number == 0 and case.other is None:
            return Verdict("carried", "")
        # Equal output: it is lost, or what holds it.  Else what holds it is there, and a loss
        # must name it.
        more = _more(made, base) if base.output == made.output else _named(made, base, case.path)
        if more:
            return Verdict("loss", more)
    return Verdict("null" if case.is_null else "silent", "")


def _more(made: Result, base: Result) -> str:
    """Return the losses that a result has and another has not."""
    more = [
        "/".join(name) for name, count in made.losses.items() if count > base.losses.get(name, 0)
    ]
    return ", ".join(more)


def _named(made: Result, base: Result, path: str) -> str:
    """Return the further losses that have the name of a field or member of a path."""
    words = {_plain(word) for word in re.split(r"[^A-Za-z0-9_]+", path) if len(word) >= _LEAST}
    words |= {_plain(also) for word in words for also in _ALSO.get(word, ())}
    more = _more(made, base).split(", ")
    return ", ".join(loss for loss in more if any(word in _plain(loss) for word in words))


# Shorter names are within too many others.
_LEAST = 4
# Losses that have the unified name of a field.
_ALSO = {
    "annotations": ("citations",),
    "filename": ("title",),
    "jsonschema": ("schema_name",),
    "toolsearchoutput": ("server_history_dropped",),
}


def _plain(name: str) -> str:
    """Return a name, or the feature and the place of a loss, in one spelling."""
    return "/".join(name.split("/")[:2]).replace("_", "").lower()
