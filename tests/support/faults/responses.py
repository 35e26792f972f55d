"""Faults of responses: wrong status, headers or body."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence

from streamnorm import Truncated
from support.faults.answers import Answer, Moment
from support.faults.rows import (
    CLOSING,
    GOOGLE,
    LAST,
    OK,
    Expected,
    Fault,
    always,
    broken,
    refused,
    sent,
    steps_always,
)
from support.faults.upstream import Act, Pause, Step
from support.http.loopback import chunked

__all__ = ["ELSEWHERE", "KEY", "RESPONSE_FAULTS"]

KEY = "sk-canary-of-the-upstream"
"""The key of the upstream, which some servers repeat in their errors."""
ELSEWHERE = b"SERVER-THAT-IS-NOT-ASKED"
"""Stands for the host and port of another server."""

_HEADERS: tuple[Moment, ...] = ("before headers",)
_REASONS = (401, 403, 404, 408, 409, 413, 429, 500, 502, 503, 504, 529)
_HTML = b"<html><body>no capacity left: the key is " + KEY.encode() + b"</body></html>"


def _response(
    status: int, body: bytes, *, kind: bytes = b"application/json", more: bytes = b""
) -> bytes:
    head = b"HTTP/1.1 %d Status\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
    return head % (status, kind, len(body)) + CLOSING + more + b"\r\n" + body


def _error(status: int) -> Callable[[Answer, Moment], Sequence[Step]]:
    def script(answer: Answer, _: Moment) -> Sequence[Step]:
        body = answer.error.replace(b"left", b"left for " + KEY.encode())
        return [_response(status, body, more=b"retry-after: 7\r\n")]

    return script


def _status_of_error(answer: Answer, _: Moment) -> Expected:
    return refused(503 if answer.dialect in GOOGLE else 529, "upstream")


def _event_stream(
    data: Callable[[Answer], bytes], head: bytes
) -> Callable[[Answer, Moment], Sequence[Step]]:
    def script(answer: Answer, _: Moment) -> Sequence[Step]:
        start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n" + CLOSING + head + b"\r\n"
        return [start, chunked(data(answer)), LAST]

    return script


def _redirect(host: bytes) -> Callable[[Answer, Moment], Sequence[Step]]:
    return steps_always(
        _response(307, b"{}", more=b"location: http://" + host + b"/v1/messages\r\n")
    )


def _whole(change: Callable[[bytes], bytes] = bytes) -> Callable[[Answer, Moment], Sequence[Step]]:
    return lambda answer, _: [_response(200, change(answer.whole))]


def _part(*steps: Step) -> Callable[[Answer, Moment], Sequence[Step]]:
    def script(answer: Answer, _: Moment) -> Sequence[Step]:
        return [_response(200, answer.whole)[:-40], Pause(0.02), *steps]

    return script


_SSE = b"content-type: text/event-stream\r\n"
_GZIP = b"content-encoding: gzip\r\n"
_BOMB_BYTES = 16 * 1024 * 1024
_LOST = refused(502, "transport", Truncated)
_CUT = refused(502, "truncated", Truncated)
_NO_STREAM = refused(502, "malformed")

_STATUSES = tuple(
    Fault(
        f"answers {status} with {what}",
        script,
        always(refused(status, "upstream")),
        _HEADERS,
        upstreams=2 if what == "JSON" else 1,
        is_easy=what != "JSON",
    )
    for status in _REASONS
    for what, script in (
        ("JSON", _error(status)),
        ("HTML", steps_always(_response(status, _HTML, kind=b"text/html"))),
        ("nothing", steps_always(_response(status, b""))),
    )
)
_STREAMS = (
    Fault("redirects", _redirect(b"localhost"), always(refused(502, "upstream")), _HEADERS),
    Fault("redirects elsewhere", _redirect(ELSEWHERE), always(refused(502, "upstream")), _HEADERS),
    Fault(
        "has no content",
        steps_always(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
        always(_NO_STREAM),
        _HEADERS,
    ),
    Fault(
        "answers with an error and 200",
        lambda answer, _: [_response(200, answer.error)],
        _status_of_error,
        _HEADERS,
    ),
    Fault("answers with a whole message", _whole(), always(_NO_STREAM), _HEADERS),
    Fault("answers with other JSON", _whole(lambda _: b'{"a":1}'), always(_NO_STREAM), _HEADERS),
    Fault(
        "answers with HTML",
        steps_always(_response(200, _HTML, kind=b"text/html")),
        always(_NO_STREAM),
        _HEADERS,
    ),
    Fault(
        "answers with nothing",
        steps_always(_response(200, b"", kind=b"text/event-stream")),
        always(_CUT),
        _HEADERS,
    ),
    Fault(
        "breaks off an error",
        lambda answer, _: [_response(500, answer.error)[:-9], Pause(0.02), Act.CLOSE],
        always(refused(500, "upstream")),
        _HEADERS,
    ),
    Fault(
        "answers with an endless error",
        lambda _answer, _moment: [_response(500, b"a" * 200_000, kind=b"text/plain")],
        always(refused(500, "upstream")),
        _HEADERS,
    ),
    Fault(
        "names another charset",
        _event_stream(lambda a: a.body, b"content-type: text/event-stream; charset=utf-16\r\n"),
        always(OK),
        _HEADERS,
    ),
    Fault("names no type", _event_stream(lambda a: a.body, b""), always(OK), _HEADERS),
    Fault(
        "names the type of JSON",
        _event_stream(lambda a: a.body, b"content-type: application/json\r\n"),
        always(OK),
        _HEADERS,
    ),
    Fault(
        "compresses",
        _event_stream(lambda a: gzip.compress(a.body), _SSE + _GZIP),
        always(OK),
        _HEADERS,
    ),
    Fault(
        "compresses in part",
        _event_stream(lambda a: gzip.compress(a.start("before terminal"))[:-9], _SSE + _GZIP),
        always(broken("truncated", Truncated)),
        _HEADERS,
    ),
    Fault(
        "compresses a bomb",
        _event_stream(lambda _: gzip.compress(b"data: " + b"a" * _BOMB_BYTES), _SSE + _GZIP),
        always(refused(502, "too_large")),
        _HEADERS,
    ),
    Fault(
        "compresses nothing",
        _event_stream(lambda a: a.body, _SSE + _GZIP),
        always(refused(502, "malformed")),
        _HEADERS,
    ),
    Fault(
        "compresses twice",
        _event_stream(
            lambda a: gzip.compress(gzip.compress(a.body)),
            _SSE + _GZIP[:-2] + b", gzip\r\n",
        ),
        always(refused(502, "malformed")),
        _HEADERS,
    ),
    Fault(
        "compresses by another coding",
        _event_stream(
            lambda _: b"\x8b\x02\x80data: {}\n\n\x03", _SSE + b"content-encoding: br\r\n"
        ),
        always(refused(502, "malformed")),
        _HEADERS,
    ),
)
_BODIES = (
    Fault("answers whole", _whole(), always(OK), _HEADERS),
    Fault("sends half a body", _whole(lambda b: b[:-30]), always(_NO_STREAM), _HEADERS),
    Fault("closes within a body", _part(Act.CLOSE), always(_LOST), _HEADERS),
    Fault("resets within a body", _part(Act.RESET), always(_LOST), _HEADERS),
    Fault(
        "falls silent within a body",
        _part(Act.STALL),
        always(refused(504, "stalled", Truncated)),
        _HEADERS,
        "hasty",
    ),
    Fault("sends another body", _whole(lambda _: b'{"a":1}'), always(_NO_STREAM), _HEADERS),
    Fault("sends an empty body", _whole(lambda _: b""), always(_CUT), _HEADERS),
    Fault("sends HTML for a body", _whole(lambda _: _HTML), always(_NO_STREAM), _HEADERS),
    Fault(
        "sends an error for a body",
        lambda answer, _: [_response(200, answer.error)],
        _status_of_error,
        _HEADERS,
    ),
    Fault("refuses a body", _error(429), always(refused(429, "upstream")), _HEADERS),
    Fault(
        "nests deeply in a body",
        _whole(lambda b: b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"," + b[1:]),
        always(_NO_STREAM),
        _HEADERS,
    ),
    Fault(
        "streams for a body",
        _event_stream(lambda a: a.body, _SSE),
        always(OK),
        _HEADERS,
    ),
    Fault(
        "streams half for a body",
        lambda answer, _: [*sent(answer, "between events"), LAST],
        always(_CUT),
        _HEADERS,
    ),
    Fault(
        "compresses a body",
        lambda answer, _: [_response(200, gzip.compress(answer.whole), more=_GZIP)],
        always(OK),
        _HEADERS,
    ),
)
RESPONSE_FAULTS = (
    *_STATUSES,
    *_STREAMS,
    *(fault._replace(stream=False) for fault in _BODIES),
)
"""Faults of responses, to requests for streams and for whole answers."""
