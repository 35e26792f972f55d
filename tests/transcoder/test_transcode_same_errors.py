"""Failures of a verbatim stream: whole events, then the error, and nothing else."""

from __future__ import annotations

from itertools import product

import pytest
from support.anthropic.reader import frames
from support.openai_chat.chunks import DONE, content
from support.openai_responses import frames as responses
from support.streams.content import DIALECTS, decode, transcode_same
from support.streams.mutations import chunked
from support.streams.short import LAST, REFUSED, STREAMS, assert_error

from streamnorm import Completed, Failed, Limits, StreamError, Text, Transcoder, Truncated
from streamnorm.validation import validate

NO_STREAM_FIELD = (
    'a JSON body, expected an event stream (is "stream": true missing in the request, '
    "or streamGenerateContent in its URL?)"
)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@each_dialect
def test_cut_between_events_appends_an_error(dialect: str) -> None:
    pieces = STREAMS[dialect][:2]  # an event and a comment
    out, run = transcode_same(pieces, dialect)
    message = "connection lost: the stream ended before the message was complete, after 1 event"
    assert out.startswith(b"".join(pieces))
    assert_error(out.removeprefix(b"".join(pieces)), dialect, message, "truncated")
    assert isinstance(run.outcome, Truncated)


@each_dialect
@pytest.mark.parametrize("bytes_left", [1, 6, 30, -3, -2, -1])
def test_incomplete_event_is_dropped_before_the_appended_error(
    dialect: str, bytes_left: int
) -> None:
    before, event = STREAMS[dialect][:2], STREAMS[dialect][2].replace(b"\r\n", b"\n")
    event = event[: event.index(b"\n\n") + 2]
    out, run = transcode_same([*before, event[:bytes_left]], dialect)
    assert out.startswith(b"".join(before))
    if isinstance(run.outcome, Completed):  # the whole event was the terminal
        assert out == b"".join([*before, event[:bytes_left]])
        return
    message = "connection lost: the stream ended before the message was complete, after 1 event"
    assert_error(out.removeprefix(b"".join(before)), dialect, message, "truncated")
    assert isinstance(run.outcome, Truncated)


@each_dialect
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_terminal_without_its_blank_line_is_no_success_if_the_source_fails(
    dialect: str, size: int
) -> None:
    body = b"".join(STREAMS[dialect])
    terminal = body[body.rstrip().rindex(b"\n\n" if dialect != "gemini" else b"\r\n\r\n") :]
    terminal = terminal.lstrip()
    before = body.removesuffix(terminal)
    run = Transcoder(dialect, dialect)
    out = [data for piece in chunked(before, size) for data in run.feed(piece)]
    out += [data for piece in chunked(terminal.rstrip(), size) for data in run.feed(piece)]
    (error,) = run.abort(ConnectionResetError())
    assert b"".join(out).rstrip() == before.rstrip()
    assert terminal.rstrip() not in error
    assert isinstance(decode([b"".join(out) + error], dialect).events[-1], StreamError)
    assert isinstance(run.outcome, Truncated)


MALFORMED = {
    "no JSON": (b"{broken", "no JSON in 7 characters", "malformed"),
    "nested too deep": (
        b"[" * 200 + b"]" * 200,
        "max_json_depth of 128 passed",
        "too_large",
    ),
    "cut within a character": (b'{"text":"\xc3', "no JSON in 10 characters", "malformed"),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("data", "message", "code"), MALFORMED.values(), ids=MALFORMED)
@each_dialect
def test_malformed_event_is_withheld(
    dialect: str, data: bytes, message: str, code: str, size: int
) -> None:
    """A client would fail at it and never read the error; nothing behind it passes either."""
    before, behind = STREAMS[dialect][:3], STREAMS[dialect][3:]
    pieces = [*before, b"data: " + data + b"\n\n", *behind]
    for named in (dialect, None):
        run = Transcoder(named, dialect)
        cut = chunked(b"".join(pieces), size)
        out = b"".join([written for piece in cut for written in run.feed(piece)] + run.close())
        assert out.startswith(b"".join(before))
        assert_error(out.removeprefix(b"".join(before)), dialect, message, code)
        assert isinstance(run.outcome, Failed)
        assert run.outcome.error.message == message


@each_dialect
def test_malformed_event_before_the_dialect_is_known_is_withheld(dialect: str) -> None:
    """The client's own dialect is found behind it, at the end of the source at the latest."""
    before = [b": hi\n\n", b"event: x\n", b'data: {"n":1}\n\n', b"\n"]
    broken = b"".join([*before, b"data: {broken\n\n", b": ho\n\n"])
    bodies = [broken + b"".join(STREAMS[dialect]), broken + LAST[dialect].rstrip()]
    for body, size in product(bodies, (1, 7, 10_000)):
        run = Transcoder(None, dialect)
        cut = chunked(body, size)
        out = b"".join([written for piece in cut for written in run.feed(piece)] + run.close())
        assert_error(out, dialect, "no JSON in 7 characters", "malformed")


@each_dialect
def test_nothing_follows_an_error(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    body = STREAMS[dialect]
    run.feed(b"".join(body[:2]) + b"data: {broken\n\n")
    assert run.feed(b"".join(body[2:])) == []
    assert run.close() == run.abort(OSError()) == []


@each_dialect
def test_error_of_the_provider_passes_without_another_error(dialect: str) -> None:
    body = [*STREAMS[dialect][:2], REFUSED[dialect]]
    out, run = transcode_same(body, dialect)
    assert out == b"".join(body)
    assert isinstance(run.outcome, Failed)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"no","code":500}}', "no"),
        (b'\n [{"error":{"message":"no","code":500}}]', "no"),
        (b"<html>", "an HTML page, expected an event stream (is the URL of the request right?)"),
        (b'{"choices":[]}', NO_STREAM_FIELD),
    ],
)
@each_dialect
def test_body_that_is_no_stream_becomes_an_error_event(
    dialect: str, body: bytes, message: str, *, named: bool
) -> None:
    """A client of the stream finds no event in such a body: it would wait or find it empty."""
    for pieces in ([body], chunked(body, 1)):
        run = Transcoder(dialect if named else None, dialect)
        out = b"".join([data for piece in pieces for data in run.feed(piece)] + run.close())
        (told,) = decode([out.strip() + b"\n\n"], dialect).events
        assert isinstance(told, StreamError)
        assert told.message == message
        assert isinstance(run.outcome, Failed)
        assert body.strip() not in out


@pytest.mark.parametrize(
    "line",
    [
        b'error: {"message":"late"}\n\n',
        b'error: {"message":"late"}\n',
        b'error: {"message":"late"}',
        b'{"error":\n{"message":"late"}}',
        b'{"error":\n{"message":"late"}}\n\n',
    ],
)
@each_dialect
def test_error_outside_an_event_becomes_an_error_event(dialect: str, line: bytes) -> None:
    """As GPUStack and llama.cpp print it, which clients skip."""
    pieces = [*STREAMS[dialect][:2], line]
    before = b"".join(pieces[:2])
    for parts in (
        pieces,
        [b"".join(pieces)],
        chunked(b"".join(pieces), 1),
        [before, line[:9], line[9:]],
    ):
        run = Transcoder(dialect, dialect)
        out = b"".join([data for piece in parts for data in run.feed(piece)] + run.close())
        assert out.startswith(before)
        appended = out.removeprefix(before)
        if line.endswith(b"\n\n"):  # which may be known only when the line was passed on
            appended = appended.removeprefix(line)
        assert appended.startswith(REFUSED[dialect][:7])
        (error,) = decode([appended], dialect).events
        assert isinstance(error, StreamError)
        assert error.message == "late"
        assert isinstance(run.outcome, Failed)


@each_dialect
def test_failed_source_appends_an_error_event(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    run.feed(b"".join(STREAMS[dialect][:2]))
    (out,) = run.abort(ConnectionResetError())
    told = decode([out], dialect).events[-1]
    assert isinstance(told, StreamError)
    assert told.message.startswith("connection lost after ")
    assert isinstance(run.outcome, Truncated)


@each_dialect
def test_exceeded_limit_appends_an_error_event(dialect: str) -> None:
    limits = Limits(max_accumulated_bytes=16)
    out, run = transcode_same(STREAMS[dialect], dialect, limits=limits)
    body = b"".join(STREAMS[dialect])
    start = out.index(REFUSED[dialect][:13])
    assert body.startswith(out[:start].rstrip())
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_accumulated_bytes"


def test_appended_error_continues_sequence_numbers_and_id() -> None:
    body = [
        responses.event(
            "response.created", sequence_number=0, response={"id": "resp_7", "model": "m"}
        ),
        responses.event("response.in_progress", sequence_number=1, response={"id": "resp_7"}),
    ]
    out, run = transcode_same(body, "openai_responses")
    assert out.startswith(b"".join(body))
    told = list(frames(out))[2:]
    assert [(event["type"], event["sequence_number"]) for event in told] == [
        ("error", 2),
        ("response.failed", 3),
    ]
    assert told[1]["response"]["id"] == "resp_7"
    assert isinstance(run.outcome, Truncated)
    assert all(found.position < len(body) for found in validate(out, "openai_responses"))


DEEP = b"[" * 200 + b"]" * 200
TERMINALS = {
    "anthropic": b'event: message_stop\ndata: {"type":"message_stop","deep":%b}\n\n' % DEEP,
    "openai_responses": (
        b'event: response.completed\ndata: {"type":"response.completed","response":'
        b'{"id":"resp_1","status":"completed","output":[],"deep":%b}}\n\n' % DEEP
    ),
    "gemini_interactions": (
        b'event: interaction.completed\ndata: {"interaction":'
        b'{"id":"v1","status":"completed","deep":%b}}\n\n' % DEEP
    ),
    "gemini": (
        b'data: {"candidates":[{"index":0,"finishReason":"STOP",'
        b'"content":{"parts":[{"functionCall":'
        b'{"id":"%b","name":"f"}}]}}]}\r\n\r\n' % (b"[" * 600)
    ),
}


@pytest.mark.parametrize("dialect", TERMINALS)
@pytest.mark.parametrize("size", [1, 50, 1 << 20])
def test_terminal_that_passes_a_limit_does_not_go_out(dialect: str, size: int) -> None:
    """A client would take it for success, and see no error behind it."""
    before = b"".join(STREAMS[dialect][:2])
    run = Transcoder(dialect, dialect)
    pieces = chunked(before + TERMINALS[dialect], size)
    out = b"".join([data for piece in pieces for data in run.feed(piece)] + run.close())
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == ("max_id_chars" if dialect == "gemini" else "max_json_depth")
    assert b"[[[[" not in out
    assert isinstance(decode([out], dialect).events[-1], StreamError)


@pytest.mark.parametrize("blank", [b"", b"\n", b"\n\n", b"\n\n\n\n"])
def test_malformed_event_is_withheld_whatever_blank_lines_follow(blank: bytes) -> None:
    broken, after = b"data: {\n\n", content("a") + blank + content("b", "stop") + DONE
    whole = b"".join(Transcoder("openai_chat", "openai_chat").feed(broken + blank + after))
    assert whole.startswith(b'data: {"error":')
    assert whole == b"".join(Transcoder("openai_chat", "openai_chat").feed(broken))


@pytest.mark.parametrize("size", [1, 7, 61, 10_000])
@each_dialect
def test_bytes_that_are_no_utf8_pass_as_replacement_characters(dialect: str, size: int) -> None:
    """Clients that are strict would fail at them; the others read U+FFFD anyway."""
    body = b"".join(STREAMS[dialect]).replace(b": hi", b": h\xff\xc3")
    body = body.replace(b'"b"', b'"b\xe2\x82"').replace(b'"ab"', b'"ab\xe2\x82"')
    assert body.count(b"\xe2") >= 1
    for named in (dialect, None):
        run = Transcoder(named, dialect)
        out = b"".join([data for piece in chunked(body, size) for data in run.feed(piece)])
        out += b"".join(run.close())
        assert out == body.decode(errors="replace").encode()
        assert isinstance(run.outcome, Completed)


@pytest.mark.parametrize("reads", [1, 40])
def test_bytes_that_are_no_utf8_amid_deltas_pass_as_replacement_characters(reads: int) -> None:
    """Also where no field that is read holds them."""
    start, end = content("a"), content("b", "stop") + DONE
    odd = content("a").replace(b'"choices"', b'"odd":"\xff","choices"')
    pieces = [start, *[start, odd, content("\u00e9")] * reads, end]
    body = b"".join(pieces)
    for cut in (pieces, [body], chunked(body, 100)):
        run = Transcoder("openai_chat", "openai_chat")
        out = b"".join([data for piece in cut for data in run.feed(piece)])
        assert out == body.replace(b"\xff", "\ufffd".encode())
        assert run.message.blocks == (Text("a" + "aa\u00e9" * reads + "b"),)
