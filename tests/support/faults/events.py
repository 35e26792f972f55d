"""Faults within a stream: wrong, missing, excess and oversized events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from streamnorm import Truncated
from support.faults.answers import Answer, Moment
from support.faults.rows import (
    GOOGLE,
    HEAD,
    LAST,
    OK,
    Expected,
    Fault,
    always,
    broken,
    refused,
    sent,
)
from support.faults.upstream import Endless, Step
from support.http.loopback import chunked

__all__ = ["EVENT_FAULTS", "MAX_EVENT_BYTES"]

MAX_EVENT_BYTES = 256 * 1024
"""Bound on events of the gateways under test."""

_WITHIN: tuple[Moment, ...] = ("between events",)


def _repeated(answer: Answer, _: Moment) -> Expected:
    if answer.dialect == "openai_responses":  # whose events have numbers
        return Expected(own=True)
    return Expected(reads=False)  # the text twice


def _after_all(answer: Answer, _: Moment) -> Expected:
    if answer.dialect == "gemini":  # whose finish was not in its last chunk, then
        return broken("truncated", Truncated, own=True)
    return Expected(own=True)


def _numbered(answer: Answer, _: Moment) -> Expected:
    # What is no object is skipped where frames of unknown kinds are.
    if answer.dialect in ("anthropic", *GOOGLE):
        return Expected(own=True, reads=False)
    return broken("malformed", own=True)


def _long_number(answer: Answer, _: Moment) -> Expected:
    # Fields that nobody reads are skipped as they are; Google's events are decoded whole.
    return broken("malformed", own=True) if answer.dialect in GOOGLE else Expected(own=True)


def _error_event(answer: Answer) -> bytes:
    match answer.dialect:
        case "anthropic":
            return b"event: error\ndata: " + answer.error + b"\n\n"
        case "openai_responses":
            error = {"type": "error", "sequence_number": 3, "message": "no capacity left"}
            data = json.dumps({**error, "code": "overloaded", "param": None})
            return b"event: error\ndata: " + data.encode() + b"\n\n"
        case "gemini_interactions":
            fields = {"code": "service_unavailable", "message": "no capacity left"}
            data = json.dumps({"error": fields, "event_type": "error"})
            return b"event: error\ndata: " + data.encode() + b"\n\n"
        case _:
            return b"data: " + answer.error + b"\n\n"


def _erring(answer: Answer, moment: Moment) -> Sequence[Step]:
    return [*sent(answer, moment), chunked(_error_event(answer)), LAST]


def _error_ends_it(answer: Answer, moment: Moment) -> Expected:
    if moment == "after headers":
        return refused(503 if answer.dialect in GOOGLE else 529, "upstream")
    # Gemini's last chunk is not known to be that before the body ends.
    if moment == "after terminal" and answer.dialect != "gemini":
        return OK
    return broken("upstream", own=True)


def _unknown_event(answer: Answer) -> bytes:
    match answer.dialect:
        case "openai_chat":
            return b'data: {"object":"brand.new","choices":[]}\n\n'
        case "gemini":
            return b'data: {"brandNew":{}}\r\n\r\n'
        case "gemini_interactions":
            return b'event: brand.new\ndata: {"event_type":"brand.new"}\n\n'
        case _:
            return b'event: brand.new\ndata: {"type":"brand.new"}\n\n'


def _stream(change: Callable[[Answer], bytes]) -> Callable[[Answer, Moment], Sequence[Step]]:
    return lambda answer, _: [HEAD, chunked(change(answer)), LAST]


def _text_at(answer: Answer) -> int:
    return answer.index_of(b"schneit")


def _replace(old: bytes, new: bytes) -> Callable[[Answer], bytes]:
    return lambda answer: answer.body.replace(old, new)


def _with_field(value: bytes) -> Callable[[Answer], bytes]:
    """Return a change that adds a field to the event with the second word."""

    def change(answer: Answer) -> bytes:
        at = _text_at(answer)
        event = answer.events[at].replace(b"data: {", b'data: {"brand_new":' + value + b",", 1)
        return b"".join([*answer.events[:at], event, *answer.events[at + 1 :]])

    return change


def _replaced(event: bytes) -> Callable[[Answer], bytes]:
    def change(answer: Answer) -> bytes:
        at = _text_at(answer)
        return b"".join([*answer.events[:at], event, *answer.events[at + 1 :]])

    return change


def _without(data: bytes) -> Callable[[Answer], bytes]:
    def change(answer: Answer) -> bytes:
        at = answer.index_of(data)
        return b"".join([*answer.events[:at], *answer.events[at + 1 :]])

    return change


def _swap_start(answer: Answer) -> bytes:
    """Return the stream with a call's start after its first arguments."""
    at = answer.index_of(b"get_weather")
    events = list(answer.events)
    events[at], events[at + 2] = events[at + 2], events[at]
    return b"".join(events)


def _line_ends(end: bytes) -> Callable[[Answer], bytes]:
    return lambda answer: answer.body.replace(b"\r\n", b"\n").replace(b"\n", end)


def _endless_line(answer: Answer, moment: Moment) -> Sequence[Step]:
    line = Endless(chunked(b"a" * 65536), most=100)
    return [*sent(answer, moment), chunked(b'data: {"'), line]


def _endless_data_lines(answer: Answer, moment: Moment) -> Sequence[Step]:
    return [*sent(answer, moment), Endless(chunked(b"data: \n" * 5000), most=100)]


def _too_large(_: Answer, moment: Moment) -> Expected:
    return refused(502, "too_large") if moment == "after headers" else broken("too_large")


_MALFORMED = always(broken("malformed", own=True))
_OWN = always(Expected(own=True))
# Whose calls have a start of their own, which deltas refer to.
_STARTED = ("anthropic", "gemini_interactions")

EVENT_FAULTS = (
    Fault(
        "sends an error event",
        _erring,
        _error_ends_it,
        ("after headers", "between events", "before terminal", "after terminal"),
        clients=2,
    ),
    Fault(
        "sends an unknown event",
        _stream(lambda answer: answer.with_event(_unknown_event(answer), _text_at(answer))),
        _OWN,
        _WITHIN,
    ),
    Fault(
        "repeats an event",
        _stream(
            lambda answer: answer.with_event(answer.events[_text_at(answer)], _text_at(answer))
        ),
        _repeated,
        _WITHIN,
    ),
    Fault("swaps events", _stream(_swap_start), _MALFORMED, _WITHIN, dialects=_STARTED),
    Fault(
        "omits the start of the message",
        _stream(lambda answer: b"".join(answer.events[1:])),
        always(refused(502, "malformed")),
        ("after headers",),
        dialects=("anthropic",),
    ),
    Fault(
        "omits the start of a call",
        _stream(_without(b"get_weather")),
        _MALFORMED,
        _WITHIN,
        dialects=_STARTED,
    ),
    Fault(
        "goes on after its terminal",
        _stream(lambda answer: answer.body + answer.events[_text_at(answer)] * 3),
        _after_all,
        ("after terminal",),
    ),
    Fault(
        "answers twice",
        _stream(lambda answer: answer.body * 2),
        lambda answer, _: Expected(own=True, reads=answer.dialect != "gemini"),
        ("after terminal",),
    ),
    Fault("begins with a BOM", _stream(lambda a: b"\xef\xbb\xbf" + a.body), _OWN, _WITHIN),
    Fault("ends its lines with CRLF", _stream(_line_ends(b"\r\n")), always(OK), _WITHIN),
    Fault("ends its lines with CR", _stream(_line_ends(b"\r")), _OWN, _WITHIN),
    Fault(
        "sends invalid UTF-8",
        _stream(_replace("☃".encode(), b"\xe2\x98")),
        always(Expected(own=True, reads=False)),
        ("character",),
    ),
    Fault(
        "sends a lone surrogate",
        _stream(_replace("☃".encode(), b"\\ud83d")),
        always(Expected(own=True, reads=False)),
        ("character",),
    ),
    Fault("sends NaN", _stream(_with_field(b"NaN")), _OWN, _WITHIN),
    Fault("sends a long number", _stream(_with_field(b"1" * 5000)), _long_number, _WITHIN),
    Fault("sends an infinite number", _stream(_with_field(b"1e999")), _OWN, _WITHIN),
    Fault(
        "nests deeply",
        _stream(_with_field(b"[" * 50_000 + b"]" * 50_000)),
        always(broken("too_large", own=True)),
        _WITHIN,
    ),
    Fault("sends half an object", _stream(_replaced(b'data: {"a":\n\n')), _MALFORMED, _WITHIN),
    Fault("sends a number", _stream(_replaced(b"data: 1\n\n")), _numbered, _WITHIN),
    Fault(
        "sends no line end",
        _endless_line,
        _too_large,
        ("after headers", "between events"),
    ),
    Fault(
        "sends no blank line",
        _endless_data_lines,
        _too_large,
        ("after headers", "between events"),
    ),
    Fault(
        "sends an event above the bound",
        lambda answer, moment: [
            *sent(answer, moment),
            chunked(b"data: " + b"a" * (MAX_EVENT_BYTES + 1) + b"\n\n"),
            LAST,
        ],
        _too_large,
        ("after headers", "between events"),
    ),
    Fault(
        "sends no event",
        lambda _answer, _moment: [HEAD, chunked(b": a comment\n\n"), LAST],
        always(refused(502, "truncated", Truncated)),
        ("after headers",),
    ),
)
"""Faults within a stream."""
