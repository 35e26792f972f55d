"""Faults of connections and of HTTP framing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from streamnorm import Truncated
from streamnorm.codec import encoder
from support.faults.answers import Answer, Moment
from support.faults.rows import (
    CLOSING,
    HEAD,
    LAST,
    OK,
    Expected,
    Fault,
    always,
    broken,
    cut,
    refused,
    sent,
    steps_always,
)
from support.faults.upstream import Act, Drip, Endless, Pause, Step
from support.http.loopback import chunked

__all__ = ["CONNECTION_FAULTS"]

_SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
_BEFORE: tuple[Moment, ...] = ("before headers",)
_STARTED: tuple[Moment, ...] = ("between events", "before terminal", "after terminal")
# The gateway's HTTP client forgets what it has not yet passed on when a connection breaks.
_READ = Pause(0.02)


def _then(*steps: Step) -> Callable[[Answer, Moment], Sequence[Step]]:
    return lambda answer, moment: [*sent(answer, moment), *steps]


def _cut(kind: str) -> Callable[[Answer, Moment], Expected]:
    def expected(answer: Answer, moment: Moment) -> Expected:
        # Only the end of the body says that a chunk of Gemini was the last.  Silence after it
        # is an end, too; a connection that breaks is none.
        if moment == "after terminal" and answer.dialect == "gemini" and kind == "transport":
            return broken("transport", Truncated)
        return cut(moment, kind)

    return expected


def _flood(answer: Answer, moment: Moment) -> Expected:
    # google-genai reads no comments, which pass to a client of the same dialect.
    return cut(moment, "stalled")._replace(own=answer.dialect == "gemini")


def _too_long(answer: Answer, moment: Moment) -> Sequence[Step]:
    start = answer.start(moment)
    length = b"content-length: %d\r\n" % (len(start) + 100)
    return [_SSE + CLOSING + length + b"\r\n" + start, _READ, Act.CLOSE]


def _too_short(answer: Answer, moment: Moment) -> Sequence[Step]:
    start = answer.start(moment)
    length = b"content-length: %d\r\n" % len(start)
    # In one read with the answer, the excess would be an error of the whole.
    return [_SSE + CLOSING + length + b"\r\n" + start, _READ, answer.body]


def _pings(answer: Answer, moment: Moment) -> Sequence[Step]:
    ping = encoder(answer.dialect).ping()
    return [*sent(answer, moment), Endless(chunked(ping), 0.02)]


def _whole_body(head: bytes, end: Sequence[Step] = ()) -> Callable[[Answer, Moment], list[Step]]:
    return lambda answer, _: [head, chunked(answer.body), LAST, *end]


def _pieces(answer: Answer, _: Moment) -> Sequence[Step]:
    pieces = [chunked(answer.body[at : at + 7]) for at in range(0, len(answer.body), 7)]
    return [HEAD, b"".join(pieces), LAST]


def _extensions(answer: Answer, _: Moment) -> Sequence[Step]:
    chunks = [b"%x;name=value\r\n%b\r\n" % (len(event), event) for event in answer.events]
    return [HEAD, *chunks, LAST]


def _dripping(answer: Answer, _: Moment) -> Sequence[Step]:
    return [Drip(HEAD + chunked(answer.body) + LAST)]


def _trailers(answer: Answer, _: Moment) -> Sequence[Step]:
    return [HEAD, chunked(answer.body), b"0\r\nx-trailer: a\r\nretry-after: 9\r\n\r\n"]


def _unframed(answer: Answer, _: Moment) -> Sequence[Step]:
    return [_SSE.replace(b"1.1", b"1.0") + b"\r\n" + answer.body, Act.END]


def _both_lengths(answer: Answer, _: Moment) -> Sequence[Step]:
    head = HEAD[:-2] + b"content-length: 5\r\n\r\n"
    return [head, chunked(answer.body), LAST]


def _two_lengths(answer: Answer, _: Moment) -> Sequence[Step]:
    length = b"content-length: %d\r\ncontent-length: 5\r\n\r\n" % len(answer.body)
    return [_SSE + CLOSING + length + answer.body]


_LOST = refused(502, "transport", Truncated)
_NO_HTTP = refused(502, "malformed")
_LATE = refused(504, "stalled", Truncated)

CONNECTION_FAULTS = (
    Fault("refuses", steps_always(), always(_LOST), _BEFORE, "refused", clients=2),
    Fault(
        "speaks no TLS", steps_always(b"HTTP/1.1 400 Bad\r\n\r\n"), always(_LOST), _BEFORE, "tls"
    ),
    Fault("resets", _then(_READ, Act.RESET), _cut("transport")),
    Fault("closes", _then(_READ, Act.CLOSE), _cut("transport")),
    Fault(
        "half-closes",
        _then(_READ, Act.END),
        _cut("transport"),
        ("before headers", "between events", "after terminal"),
    ),
    Fault(
        "ends the body",
        _then(LAST),
        _cut("truncated"),
        (
            "after headers",
            "first line",
            "character",
            "between events",
            "tool arguments",
            "before terminal",
        ),
    ),
    Fault("falls silent", _then(Act.STALL), _cut("stalled"), mode="hasty"),
    Fault(
        "sends a bad chunk size",
        _then(_READ, b"zz\r\n", Act.CLOSE),
        _cut("transport"),
        ("after headers", "between events", "before terminal", "after terminal"),
    ),
    Fault("sends less than it announced", _too_long, _cut("transport"), _STARTED),
    Fault("announces less than it sends", _too_short, _cut("truncated"), _STARTED),
    Fault("sends pings only", _pings, _cut("stalled"), ("after headers", *_STARTED), "hasty"),
    Fault(
        "floods with comments",
        _then(Endless(chunked(b": x\n\n" * 50), 0.01)),
        _flood,
        ("after headers", "between events", "after terminal"),
        "hasty",
    ),
    Fault(
        "floods with blank lines",
        _then(Endless(chunked(b"\n" * 250), 0.01)),
        _cut("stalled"),
        ("after headers", "between events", "after terminal"),
        "hasty",
    ),
    Fault("sends byte by byte", _dripping, always(OK), _BEFORE),
    Fault("cuts into small chunks", _pieces, always(OK), _BEFORE),
    Fault("sends one huge chunk", _whole_body(HEAD), always(OK), _BEFORE),
    Fault("extends its chunks", _extensions, always(OK), _BEFORE),
    Fault("sends trailers", _trailers, always(OK), _BEFORE),
    Fault("speaks HTTP/1.0", _unframed, always(OK), _BEFORE),
    Fault("frames its body twice", _both_lengths, always(_NO_HTTP), _BEFORE),
    Fault("sends two lengths", _two_lengths, always(_NO_HTTP), _BEFORE),
    Fault(
        "sends some early hints",
        _whole_body(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" * 20 + HEAD),
        always(OK),
        _BEFORE,
    ),
    Fault(
        "floods with early hints",
        steps_always(Endless(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10, 0.005)),
        always(_LATE),
        _BEFORE,
        "hasty",
    ),
    Fault(
        "switches protocols",
        steps_always(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"
        ),
        always(refused(502, "upstream")),
        _BEFORE,
    ),
    Fault(
        "speaks another protocol", steps_always(b"220 mail.test\r\n\r\n"), always(_NO_HTTP), _BEFORE
    ),
    Fault(
        "sends a huge header",
        steps_always(_SSE + b"x: " + b"a" * 300_000 + b"\r\n\r\n"),
        always(_NO_HTTP),
        _BEFORE,
    ),
    Fault(
        "sends a header with NUL",
        steps_always(_SSE + b"x: a\0b\r\ncontent-length: 0\r\n\r\n"),
        always(_NO_HTTP),
        _BEFORE,
    ),
)
"""Faults of connections and framing."""
