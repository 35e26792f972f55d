"""Fate of one member, literal or field of an SDK's type in another dialect."""

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
from support.bodies.type_cases.case import JSON, Case
from support.bodies.type_cases.streams import stream_bytes

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
    """A body translated to a dialect.

    Attributes:
        output: The body there, its path and headers; "" if it is refused.
        losses: What it lost, by feature and place.
        error: Why it is refused; "" if it is not.
    """

    output: str
    losses: dict[tuple[str, str, str], int]
    error: str = ""


class Verdict(NamedTuple):
    """The fate of a tested element, with its evidence."""

    fate: Fate
    reason: str


Translate: TypeAlias = Callable[[JSON, str, str], Result]


def translated_request(body: JSON, dialect: str, target: str) -> Result:
    """Translate a request to another dialect."""
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
    """Translate a whole answer to another dialect."""
    try:
        made = translate_message(body, to=target, dialect=dialect)
    except (DecodeError, EncodeError, UpstreamError) as exc:
        return Result("", {}, f"{type(exc).__name__}: {exc}")
    return Result(json.dumps(made.body, sort_keys=True), counted(made.losses))


def translated_stream(body: JSON, dialect: str, target: str) -> Result:
    """Transcode a stream to another dialect."""
    transcoder = Transcoder(dialect, target)
    output = b"".join(transcoder.feed(stream_bytes(body, dialect)) + transcoder.close())
    if not isinstance(transcoder.outcome, Completed):
        assert transcoder.outcome is not None
        return Result("", {}, f"{type(transcoder.outcome).__name__}: {transcoder.outcome}")
    return Result(output.decode(), counted(transcoder.losses))


def counted(losses: tuple[Loss, ...]) -> dict[tuple[str, str, str], int]:
    return {(loss.feature, loss.where, loss.detail): loss.count for loss in losses}


def fate_of(case: Case, target: str, translate: Translate) -> Verdict:
    """Return the fate of a case's tested element in a dialect."""

    def run(body: JSON) -> Result:
        return translate(body, case.dialect, target)

    made = run(case.body)
    if made.error:
        return Verdict("refused", made.error)
    # A body that is refused says nothing of the thing: every body differs from none.
    others = [other for other in map(run, case.others) if not other.error]
    bases = list(map(run, case.without))
    alike = [other for other in others if other.output == made.output]
    for other in alike:
        if more := _more(made, other):
            return Verdict("loss", more)
    is_there = bases[0].output != made.output if not bases[0].error else bool(others)
    # Two words that become one are one too few, unless the loss is that of the other.
    if is_there and all(_more(other, made) for other in alike):
        return Verdict("carried", "")
    for base in bases:
        if base.error:
            continue
        # Equal output: it is lost, or what holds it.  Else what holds it is there, and a loss
        # must name it.
        more = _more(made, base) if base.output == made.output else _named(made, base, case.path)
        if more:
            return Verdict("loss", more)
    return Verdict("null" if case.is_null else "silent", "")


def _more(made: Result, base: Result) -> str:
    """Return the losses of a result that another result lacks."""
    more = [
        "/".join(name) for name, count in made.losses.items() if count > base.losses.get(name, 0)
    ]
    return ", ".join(more)


def _named(made: Result, base: Result, path: str) -> str:
    """Return the additional losses named after a field or member of a path."""
    words = {_plain(word) for word in re.split(r"[^A-Za-z0-9_]+", path) if len(word) >= _LEAST}
    words |= {_plain(also) for word in words for also in _ALSO.get(word, ())}
    more = _more(made, base).split(", ")
    return ", ".join(loss for loss in more if any(word in _plain(loss) for word in words))


# Shorter names are within too many others.
_LEAST = 4
# Losses that have the unified name of a field.
_ALSO = {
    "annotations": ("citations",),
    "budgettokens": ("budget_changed",),
    "customtoolcalloutput": ("executed_call",),
    "filename": ("title",),
    "inputfile": ("document_dropped",),
    "jsonschema": ("schema_name",),
    "thinkingbudget": ("budget_changed",),
    "toolsearchoutput": ("server_history_dropped",),
}


# Places of losses that say nothing of the thing.
_PLACES = frozenset({"messages", "tools", "request", "block"})


def _plain(name: str) -> str:
    """Return a normalized name of a field or loss."""
    feature, *place = name.split("/")[:2]
    named = [feature, *(word for word in place if word not in _PLACES)]
    return "/".join(named).replace("_", "").lower()
