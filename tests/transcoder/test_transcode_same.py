"""A dialect's bytes to the same dialect: untouched, or written anew where that is asked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.anthropic import frames as wire
from support.anthropic.reader import frames
from support.openai_chat.chunks import DONE, call, calls, chunk, content, reasoning
from support.openai_chat.reader import read
from support.streams.content import DIALECTS, transcode_same
from support.streams.mutations import chunked
from support.streams.short import LAST, PINGS, STREAMS, assert_error

from streamnorm import (
    Completed,
    LocalProtocolError,
    Message,
    Note,
    Text,
    Transcoder,
    Usage,
)

CHAT = STREAMS["openai_chat"]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


# Untouched


@each_dialect
def test_each_chunk_passes_unchanged(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    for piece in STREAMS[dialect]:
        assert run.feed(piece) == [piece]
    assert run.feed(b"") == run.close() == []
    assert run.message.blocks == (Text("ab"),)
    assert run.usage == Usage(9, 4)
    assert run.outcome == Completed("end_turn", Usage(9, 4))
    assert run.losses == ()


@each_dialect
def test_event_is_passed_at_its_last_byte(dialect: str) -> None:
    body = b"".join(STREAMS[dialect])
    run = Transcoder(dialect, dialect)
    out, passed = b"", 0
    for count, byte in enumerate(chunked(body, 1), 1):
        out += b"".join(run.feed(byte))
        ends = [match.end() for match in re.finditer(rb"\n\n|\r\n\r(?=\n)", body[: count + 1])]
        passed = max([end for end in ends if end <= count], default=0)
        assert out.rstrip() == body[:passed].rstrip()
    assert b"".join([out, *run.close()]) == body


@pytest.mark.parametrize("missing", [0, 1, 30])
@pytest.mark.parametrize("verbatim", [True, False])
@each_dialect
def test_end_is_returned_once(dialect: str, missing: int, *, verbatim: bool) -> None:
    body = b"".join(STREAMS[dialect])
    for is_closed in (True, False):
        run = Transcoder(dialect, dialect, verbatim=verbatim)
        run.feed(body[: len(body) - missing])
        _ = run.close() if is_closed else run.abort(ConnectionError())
        outcome = run.outcome
        assert run.close() == run.abort(ConnectionError()) == run.close() == []
        assert run.outcome == outcome


@each_dialect
def test_end_of_a_completed_stream_passes_unchanged(dialect: str) -> None:
    """Nothing is added to an event that lacks its blank line, nor is it left out."""
    body = b"".join(STREAMS[dialect])
    for left in (body.rstrip(), body.rstrip() + b"\n", body.rstrip() + b"\r"):
        out, run = transcode_same([left], dialect)
        assert out == left
        assert isinstance(run.outcome, Completed)
        assert "unterminated" in run.outcome.lenient


@each_dialect
def test_any_line_ends_pass_unchanged(dialect: str) -> None:
    for newline in (b"\r\n", b"\r"):
        pieces = [
            piece.replace(b"\r\n", b"\n").replace(b"\n", newline) for piece in STREAMS[dialect]
        ]
        assert transcode_same(pieces, dialect)[0] == b"".join(pieces)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "gemini"])
def test_bytes_after_the_terminal_pass(dialect: str) -> None:
    body = [*STREAMS[dialect], b": bye\n\n", b"data: more\n\n"]
    assert transcode_same(body, dialect)[0] == b"".join(body)


@each_dialect
def test_source_detected_late_passes_from_its_first_byte(dialect: str) -> None:
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
def test_source_detected_at_its_end_passes_whole(dialect: str) -> None:
    body = LAST[dialect].rstrip()
    run = Transcoder(None, dialect)
    assert run.feed(body) == []
    assert run.close() == [body]
    assert run.dialect == dialect


def test_detected_source_of_another_dialect_is_transcoded() -> None:
    run = Transcoder(None, "anthropic")
    out = b"".join([data for piece in CHAT for data in run.feed(piece)])
    assert [event["type"] for event in frames(out)][-1] == "message_stop"


@each_dialect
def test_source_of_no_dialect_is_an_error_alone(dialect: str) -> None:
    run = Transcoder(None, dialect)
    assert run.feed(b'data: {"n":1}\n\n') == []
    (out,) = run.close()
    assert_error(out, dialect, "no stream of a known dialect", "malformed")


@each_dialect
def test_untouched_is_known_after_detection(dialect: str) -> None:
    assert Transcoder(dialect, dialect).untouched
    assert not Transcoder(dialect, dialect, verbatim=False).untouched
    assert not Transcoder(dialect, dialect, model="m").untouched
    unnamed = Transcoder(None, dialect)
    assert not unnamed.untouched
    unnamed.feed(b"".join(STREAMS[dialect]))
    assert unnamed.untouched


@each_dialect
def test_feeding_a_closed_transcoder_raises_local_protocol_error(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    run.close()
    with pytest.raises(LocalProtocolError):
        run.feed(STREAMS[dialect][0])


@each_dialect
def test_ping_is_written_between_events(dialect: str) -> None:
    run = Transcoder(dialect, dialect)
    assert run.ping() == PINGS[dialect]
    body = STREAMS[dialect]
    run.feed(body[0])
    assert run.ping() == PINGS[dialect]
    assert run.feed(body[2][:20]) == []  # half an event is not passed on
    assert run.ping() == PINGS[dialect]
    assert run.feed(body[2][20:]) == [body[2]]
    assert run.ping() == PINGS[dialect]
    run.feed(b"".join(body[3:]))
    if dialect == "gemini":  # which the source alone ends
        run.close()
    assert run.ping() == b""


def test_notes_are_those_of_the_decoder() -> None:
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
def test_verbatim_false_reencodes_the_stream(dialect: str, options: dict[str, Any]) -> None:
    out, run = transcode_same(STREAMS[dialect], dialect, **options)
    assert out != b"".join(STREAMS[dialect])
    assert b": hi" not in out
    assert isinstance(run.outcome, Completed)
    assert (b'"other"' in out) == ("model" in options)


def test_reencoded_chat_has_the_fields_that_clients_need() -> None:
    untidy = [
        chunk({"role": "assistant", "content": ""}, system_fingerprint="fp"),
        reasoning("hm"),
        *(calls(call(7, "c", "f", piece)) for piece in ('{"a":', "1}")),
        calls(call(7, "c", "f", "")),
        chunk({}, "tool_calls", usage={"prompt_tokens": 9, "completion_tokens": 4}),
    ]
    out, run = transcode_same(untidy, "openai_chat", verbatim=False, reasoning="reasoning")
    got = read(out, extras=True)
    answer = got.answers[0]
    assert answer.texts == {"reasoning": "hm"}
    assert answer.calls == [{"id": "c", "type": "function", "name": "f", "arguments": '{"a":1}'}]
    assert answer.finish == "tool_calls"
    assert got.sides == [{"system_fingerprint": "fp"}]
    assert got.usage is not None
    assert run.losses == ()


def test_reencoded_anthropic_has_the_fields_that_clients_need() -> None:
    untidy = [
        *(wire.start(usage={"input_tokens": 9}, container={"id": "c"}),),
        *(wire.block(5, "tool_use", id="t", name="f", input={"a": 1}, caller={"type": "direct"}),),
        *(wire.block(9, "text", text="hi"), wire.end("end_turn", usage={"output_tokens": 4})),
        wire.STOP,
    ]
    out, run = transcode_same(untidy, "anthropic", verbatim=False)
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


def test_options_of_another_dialect_change_nothing() -> None:
    for options in ({"strict": True}, {"server": "qianfan"}, {"ordering": "interleaved"}):
        assert transcode_same(CHAT, "openai_chat", **options)[0] == b"".join(CHAT)


def test_choices_stay_separate_when_reencoded() -> None:
    body = [
        *(content("a", choice=1), content("b"), content("c", choice=1)),
        *(chunk({}, "stop", 1), chunk({}, "length"), DONE),
    ]
    got = read(transcode_same(body, "openai_chat", verbatim=False)[0])
    assert {n: a.texts["content"] for n, a in got.answers.items()} == {0: "b", 1: "ac"}
    assert {n: a.finish for n, a in got.answers.items()} == {0: "length", 1: "stop"}
