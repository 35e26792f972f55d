"""A dialect's bytes to the same dialect: untouched, or written anew where that is asked."""

from __future__ import annotations

from typing import Any

import anthropic_frames as wire
import pytest
import responses_frames as responses
from anthropic_reader import frames
from chat import DONE, call, calls, chunk, content, reasoning
from chat_reader import read
from mutations import chunked
from short_streams import LAST, PINGS, REFUSED, STREAMS, assert_error
from streams import DIALECTS, decode

from streamnorm import (
    Completed,
    Failed,
    Limits,
    LocalProtocolError,
    Message,
    Note,
    StreamError,
    Text,
    Transcoder,
    Truncated,
    Usage,
    validate,
)

CHAT = STREAMS["openai_chat"]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def transcode(pieces: list[bytes], dialect: str, **options: Any) -> tuple[bytes, Transcoder]:
    """Transcode a whole stream, by the pieces it comes in, at once and by bytes."""
    body = b"".join(pieces)
    outs = []
    for parts in (pieces, [body], chunked(body, 1)):
        run = Transcoder(dialect, dialect, **options)
        outs.append(b"".join([data for piece in parts for data in run.feed(piece)] + run.close()))
    assert outs[0] == outs[1] == outs[2]
    return outs[0], run


# Untouched


@each_dialect
def test_each_piece_goes_out_as_it_came(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    for piece in STREAMS[dialect]:
        assert run.feed(piece) == [piece]
    assert run.feed(b"") == run.close() == []
    assert run.message.blocks == (Text("ab"),)
    assert run.usage == Usage(9, 4)
    assert run.outcome == Completed("end_turn", Usage(9, 4))
    assert run.losses == ()


@each_dialect
def test_bytes_that_are_no_whole_event_go_out_too(dialect: str) -> None:
    body = b"".join(STREAMS[dialect])
    run = Transcoder(dialect, dialect)
    for byte in chunked(body, 1):
        assert run.feed(byte) == [byte]
    assert run.close() == []


@each_dialect
def test_lines_may_end_as_they_like(dialect: str) -> None:
    for newline in (b"\r\n", b"\r"):
        pieces = [
            piece.replace(b"\r\n", b"\n").replace(b"\n", newline) for piece in STREAMS[dialect]
        ]
        assert transcode(pieces, dialect)[0] == b"".join(pieces)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "gemini"])
def test_what_stands_behind_the_terminal_goes_out_too(dialect: str) -> None:
    body = [*STREAMS[dialect], b": bye\n\n", b"data: more\n\n"]
    assert transcode(body, dialect)[0] == b"".join(body)


@each_dialect
def test_source_that_is_found_out_late_goes_out_from_its_first_byte(dialect: str) -> None:
    comments = [b": hi\n\n", b"event: x\n", b'data: {"n":1}\n\n', b"\n"]
    pieces = [*comments, *STREAMS[dialect]]
    body = b"".join(pieces)
    for parts in (pieces, [body], chunked(body, 1)):
        run = Transcoder(None, dialect)
        assert run.dialect == ""
        out = [data for piece in parts for data in run.feed(piece)]
        assert b"".join(out + run.close()) == body
        assert run.dialect == dialect


@each_dialect
def test_source_that_is_found_out_at_its_very_end_goes_out_whole(dialect: str) -> None:
    body = LAST[dialect].rstrip()
    run = Transcoder(None, dialect)
    assert run.feed(body) == []
    assert run.close() == [body]
    assert run.dialect == dialect


def test_source_that_is_another_is_written_in_the_dialect_that_was_asked_for() -> None:
    run = Transcoder(None, "anthropic")
    out = b"".join([data for piece in CHAT for data in run.feed(piece)])
    assert [event["type"] for event in frames(out)][-1] == "message_stop"


@each_dialect
def test_source_of_no_dialect_is_an_error_alone(dialect: str) -> None:
    run = Transcoder(None, dialect)
    assert run.feed(b'data: {"n":1}\n\n') == []
    (out,) = run.close()
    message = "stream ended after 1 frames, expected the end of its message"
    assert_error(out, dialect, message, "truncated")


# What breaks it


@each_dialect
def test_cut_between_events_is_told_behind_the_last(dialect: str) -> None:
    pieces = STREAMS[dialect][:2]  # an event and a comment
    out, run = transcode(pieces, dialect)
    message = "stream ended after 1 frames, expected the end of its message"
    assert out.startswith(b"".join(pieces))
    assert_error(out.removeprefix(b"".join(pieces)), dialect, message, "truncated")
    assert isinstance(run.outcome, Truncated)


@each_dialect
def test_cut_within_an_event_is_told_in_an_event_of_its_own(dialect: str) -> None:
    pieces = [*STREAMS[dialect][:2], STREAMS[dialect][2][:30]]
    out, run = transcode(pieces, dialect)
    body = b"".join(pieces)
    assert out.startswith(body + b"\n\n")
    message = "stream ended after 1 frames, expected the end of its message"
    assert_error(out.removeprefix(body + b"\n\n"), dialect, message, "truncated")
    assert isinstance(run.outcome, Truncated)


@each_dialect
def test_event_that_breaks_the_stream_is_the_last_that_goes_out(dialect: str) -> None:
    """However much arrived with it: a terminal behind an error would make a success of it."""
    broken = b"data: {broken\n\n"
    before, behind = STREAMS[dialect][:2], STREAMS[dialect][2:]
    out, run = transcode([*before, broken, *behind], dialect)
    passed = b"".join([*before, broken])
    assert out.startswith(passed)
    message = "no JSON in 7 characters"
    assert_error(out.removeprefix(passed), dialect, message, "malformed")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.kind == "malformed"


@each_dialect
def test_nothing_follows_the_error(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    body = STREAMS[dialect]
    run.feed(b"".join(body[:2]) + b"data: {broken\n\n")
    assert run.feed(b"".join(body[2:])) == []
    assert run.close() == run.abort(OSError()) == []


@each_dialect
def test_error_of_the_provider_is_its_own(dialect: str) -> None:
    body = [*STREAMS[dialect][:2], REFUSED[dialect]]
    out, run = transcode(body, dialect)
    assert out == b"".join(body)
    assert isinstance(run.outcome, Failed)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"no","code":500}}', "no"),
        (b'\n [{"error":{"message":"no","code":500}}]', "no"),
        (b"<html>", "body that begins with '<', expected an event stream"),
        (b'{"choices":[]}', "body that begins with '{', expected an event stream"),
    ],
)
@each_dialect
def test_body_that_is_no_stream_is_told_as_one(
    dialect: str, body: bytes, message: str, *, named: bool
) -> None:
    """Who reads a stream sees nothing in such a body, and would wait or take it for empty."""
    for pieces in ([body], chunked(body, 1)):
        run = Transcoder(dialect if named else None, dialect)
        out = b"".join([data for piece in pieces for data in run.feed(piece)] + run.close())
        (told,) = decode([out.strip() + b"\n\n"], dialect).events
        assert isinstance(told, StreamError)
        assert told.message == message
        assert isinstance(run.outcome, Failed)
        assert body.strip() not in out


@each_dialect
def test_error_that_stands_in_no_event_is_told_in_one(dialect: str) -> None:
    """As GPUStack and llama.cpp print it, which clients skip."""
    whole = b'error: {"message":"late"}\n\n'
    for line in (whole, whole[:-1], whole[:-2], b'{"error":\n{"message":"late"}}'):
        pieces = [*STREAMS[dialect][:2], line]
        out, run = transcode(pieces, dialect)
        body = b"".join(pieces)
        assert out.startswith(body)
        (told,) = decode([out[len(body) :].lstrip()], dialect).events
        assert isinstance(told, StreamError)
        assert told.message == "late"
        assert isinstance(run.outcome, Failed)


@each_dialect
def test_source_that_fails_is_told_behind_what_came(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    run.feed(b"".join(STREAMS[dialect][:2]))
    (out,) = run.abort(ConnectionResetError())
    told = decode([out], dialect).events[-1]
    assert isinstance(told, StreamError)
    assert told.message.startswith("ConnectionResetError after ")
    assert isinstance(run.outcome, Truncated)


@each_dialect
def test_limit_that_is_passed_is_told_behind_what_came(dialect: str) -> None:
    limits = Limits(max_accumulated_bytes=16)
    out, run = transcode(STREAMS[dialect], dialect, limits=limits)
    body = b"".join(STREAMS[dialect])
    start = out.index(REFUSED[dialect][:13])
    assert body.startswith(out[:start].rstrip())
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_accumulated_bytes"


def test_what_breaks_a_response_goes_on_with_its_numbers_and_its_id() -> None:
    body = [
        responses.event(
            "response.created", sequence_number=0, response={"id": "resp_7", "model": "m"}
        ),
        responses.event("response.in_progress", sequence_number=1, response={"id": "resp_7"}),
    ]
    out, run = transcode(body, "openai_responses")
    assert out.startswith(b"".join(body))
    told = list(frames(out))[2:]
    assert [(event["type"], event["sequence_number"]) for event in told] == [
        ("error", 2),
        ("response.failed", 3),
    ]
    assert told[1]["response"]["id"] == "resp_7"
    assert isinstance(run.outcome, Truncated)
    assert all(found.position < len(body) for found in validate(out, "openai_responses"))


@each_dialect
def test_whether_bytes_pass_as_they_came_is_known_with_the_source(dialect: str) -> None:
    assert Transcoder(dialect, dialect).untouched
    assert not Transcoder(dialect, dialect, verbatim=False).untouched
    assert not Transcoder(dialect, dialect, model="m").untouched
    unnamed = Transcoder(None, dialect)
    assert not unnamed.untouched
    unnamed.feed(b"".join(STREAMS[dialect]))
    assert unnamed.untouched


@each_dialect
def test_feeding_a_closed_transcoder_is_a_mistake_of_the_caller(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    run.close()
    with pytest.raises(LocalProtocolError):
        run.feed(STREAMS[dialect][0])


@each_dialect
def test_sign_of_life_stands_between_events(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    assert run.ping() == PINGS[dialect]
    body = STREAMS[dialect]
    run.feed(body[0])
    assert run.ping() == PINGS[dialect]
    run.feed(body[2][:20])
    assert run.ping() == b""
    run.feed(body[2][20:])
    assert run.ping() == PINGS[dialect]
    run.feed(b"".join(body[3:]))
    if dialect == "gemini":  # which the source alone ends
        run.close()
    assert run.ping() == b""


def test_notes_tell_what_a_decoder_would_have_forgiven() -> None:
    heard: list[Note] = []
    run = Transcoder("openai_chat", "openai_chat", on_note=heard.append)
    run.feed(calls(call(0, None, "f", "{}")) + chunk({}, "stop") + DONE)
    assert heard == list(run.notes) == [Note("minted_id", "tool call")]
    assert Transcoder("anthropic", "anthropic").message == Message()


# Written anew


CHANGES: dict[str, dict[str, Any]] = {
    "because it was asked": {"verbatim": False},
    "for another model": {"model": "other"},
    "without usage": {"include_usage": False},
    "with reasoning elsewhere": {"reasoning": "reasoning"},
    "without reasoning": {"reasoning": None},
}


@pytest.mark.parametrize("options", CHANGES.values(), ids=CHANGES)
@each_dialect
def test_stream_is_written_anew(dialect: str, options: dict[str, Any]) -> None:
    out, run = transcode(STREAMS[dialect], dialect, **options)
    assert out != b"".join(STREAMS[dialect])
    assert b": hi" not in out
    assert isinstance(run.outcome, Completed)
    assert (b'"other"' in out) == ("model" in options)


def test_chat_that_is_written_anew_is_as_clients_need_it() -> None:
    untidy = [
        chunk({"role": "assistant", "content": ""}, system_fingerprint="fp"),
        reasoning("hm"),
        *(calls(call(7, "c", "f", piece)) for piece in ('{"a":', "1}")),
        calls(call(7, "c", "f", "")),
        chunk({}, "tool_calls", usage={"prompt_tokens": 9, "completion_tokens": 4}),
    ]
    out, run = transcode(untidy, "openai_chat", verbatim=False, reasoning="reasoning")
    got = read(out, extras=True)
    answer = got.answers[0]
    assert answer.texts == {"reasoning": "hm"}
    assert answer.calls == [{"id": "c", "type": "function", "name": "f", "arguments": '{"a":1}'}]
    assert answer.finish == "tool_calls"
    assert got.sides == [{"system_fingerprint": "fp"}]
    assert got.usage is not None
    assert run.losses == ()


def test_anthropic_that_is_written_anew_is_as_clients_need_it() -> None:
    untidy = [
        *(wire.start(usage={"input_tokens": 9}, container={"id": "c"}),),
        *(wire.block(5, "tool_use", id="t", name="f", input={"a": 1}, caller={"type": "direct"}),),
        *(wire.block(9, "text", text="hi"), wire.end("end_turn", usage={"output_tokens": 4})),
        wire.STOP,
    ]
    out, run = transcode(untidy, "anthropic", verbatim=False)
    events = list(frames(out))
    assert [event.get("index") for event in events if "block_st" in event["type"]] == [0, 0, 1, 1]
    assert events[0]["message"]["container"] == {"id": "c"}
    assert events[1]["content_block"] == {
        "type": "tool_use",
        "id": "t",
        "name": "f",
        "input": {},
        "caller": {"type": "direct"},
    }
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert run.losses == ()
    assert [note.kind for note in run.notes] == ["missing_block_stop"]


def test_options_of_the_other_dialect_change_nothing() -> None:
    for options in ({"strict": True}, {"server": "qianfan"}, {"ordering": "interleaved"}):
        assert transcode(CHAT, "openai_chat", **options)[0] == b"".join(CHAT)


def test_choices_stay_apart_when_they_are_written_anew() -> None:
    body = [
        *(content("a", choice=1), content("b"), content("c", choice=1)),
        *(chunk({}, "stop", 1), chunk({}, "length"), DONE),
    ]
    got = read(transcode(body, "openai_chat", verbatim=False)[0])
    assert {n: a.texts["content"] for n, a in got.answers.items()} == {0: "b", 1: "ac"}
    assert {n: a.finish for n, a in got.answers.items()} == {0: "length", 1: "stop"}
