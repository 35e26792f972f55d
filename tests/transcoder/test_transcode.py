"""Chat bytes to Anthropic's: live, joined, one block at a time, and never a false end."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.reader import Read, frames, read
from support.openai_chat.chunks import (
    DONE,
    anonymous,
    call,
    calls,
    chunk,
    content,
    frame,
    reasoning,
)
from support.streams.content import DIALECTS, transcode_in_any_chunks
from support.streams.delta_streams import delta_stream

from streamnorm import (
    Completed,
    Failed,
    Limits,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    Message,
    Note,
    Reasoning,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    Truncated,
    UnknownDialect,
    Usage,
)
from streamnorm._core.codec import Decoder

A, B = '{"a":1}', '{"b":2}'
USAGE = frame({"id": "1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
TEXT, END = content("hi"), chunk({}, "stop")


def transcoder(**options: Any) -> Transcoder:
    return Transcoder("openai_chat", "anthropic", **options)


def transcode(*pieces: bytes, **options: Any) -> tuple[Read, Transcoder]:
    out, run = transcode_in_any_chunks(pieces, "openai_chat", "anthropic", **options)
    return read(out), run


def event_types(data: list[bytes]) -> list[str]:
    """Return the types of the events that one `feed` returned."""
    assert len(data) <= 1
    return [event["type"] for piece in data for event in frames(piece)]


# Live


def test_each_chunk_is_written_in_the_same_feed() -> None:
    run = transcoder()
    assert event_types(run.feed(chunk({"role": "assistant"}))) == ["message_start"]
    assert event_types(run.feed(reasoning("t"))) == ["content_block_start", "content_block_delta"]
    assert event_types(run.feed(reasoning("t"))) == ["content_block_delta"]
    assert event_types(run.feed(TEXT)) == [
        *("content_block_stop", "content_block_start", "content_block_delta"),
    ]
    assert event_types(run.feed(TEXT)) == ["content_block_delta"]
    assert event_types(run.feed(calls(call(0, "x", "f", '{"')))) == [
        *(
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
        ),
    ]
    assert event_types(run.feed(calls(call(0, arguments='a":1}')))) == ["content_block_delta"]
    assert event_types(run.feed(END)) == []
    assert event_types(run.feed(USAGE)) == []
    assert event_types(run.feed(DONE)) == ["content_block_stop", "message_delta", "message_stop"]
    assert run.close() == []


def test_output_of_one_feed_is_one_chunk() -> None:
    run = transcoder()
    (piece,) = run.feed(TEXT + TEXT + calls(call(0, "x", "f", A)) + END + DONE)
    assert read(piece).content == [
        {"type": "text", "text": "hihi"},
        {"type": "tool_use", "id": "x", "name": "f", "input": A},
    ]


def test_feed_without_output_returns_nothing() -> None:
    run = transcoder()
    assert run.feed(b"") == run.feed(b": keep-alive\n\n") == run.feed(TEXT[:20]) == []


def test_first_open_call_is_written_while_the_next_is_held() -> None:
    run = transcoder()
    run.feed(calls(call(0, "x", "f", '{"a"')))
    assert run.feed(calls(call(1, "y", "g", '{"b"'))) == []
    assert event_types(run.feed(calls(call(0, arguments=":")))) == ["content_block_delta"]
    assert run.feed(calls(call(1, arguments=":"))) == []
    assert run.feed(calls(call(1, arguments="2"))) == []
    assert event_types(run.feed(calls(call(0, arguments="1}")))) == [
        *("content_block_delta", "content_block_stop", "content_block_start"),
        *("content_block_delta", "content_block_delta"),
    ]
    assert event_types(run.feed(calls(call(1, arguments="}")))) == ["content_block_delta"]


def test_delta_of_a_held_block_is_not_written_to_the_open_one() -> None:
    """Deltas of one kind pass quickly; those of another block must not pass with them."""
    got, _ = transcode(
        calls(call(0, "x", "f", "["), call(1, "y", "g", "[")),
        calls(call(0, arguments="1"), call(1, arguments="2"), call(0, arguments="1")),
        calls(call(1, arguments="2"), call(0, arguments="]"), call(1, arguments="]")),
        *(END, DONE),
    )
    assert [block["input"] for block in got.content] == ["[11]", "[22]"]


def test_held_custom_input_is_wrapped_like_the_open_one() -> None:
    def custom(index: int, text: str) -> bytes:
        name = {"name": "f"} if text.startswith("<") else {}
        return calls(
            {"index": index, "id": f"c{index}", "type": "custom", "custom": {**name, "input": text}}
        )

    got, run = transcode(
        *(
            custom(0, '<a"'),
            custom(1, '<b"'),
            custom(1, '\\"'),
            custom(1, "\n"),
            custom(0, '"'),
            END,
        ),
        *(USAGE, DONE),
    )
    assert [block["input"] for block in got.content] == [
        *('{"input":"<a\\"\\""}', '{"input":"<b\\"\\\\\\"\\n"}'),
    ]
    assert run.losses == (Loss("custom_tool", "block", 2, "written as a function of one string"),)


# Ordering


def test_blocks_are_written_one_at_a_time() -> None:
    got, run = transcode(
        *(calls(call(0, "x", "f", A[:3])), content("mid"), calls(call(1, "y", "g", B[:3]))),
        *(calls(call(0, arguments=A[3:])), calls(call(1, arguments=B[3:])), END, DONE),
    )
    assert [block["type"] for block in got.content] == ["tool_use", "text", "tool_use"]
    assert [block.get("input") for block in got.content] == [A, None, B]
    assert run.message.blocks == (ToolCall("x", "f", A), Text("mid"), ToolCall("y", "g", B))


def test_interleaved_ordering_writes_blocks_as_they_arrive() -> None:
    run = transcoder(ordering="interleaved")
    run.feed(calls(call(0, "x", "f", "[")))
    (piece,) = run.feed(calls(call(1, "y", "g", "[")))
    assert [(event["type"], event["index"]) for event in frames(piece)] == [
        *(("content_block_start", 1), ("content_block_delta", 1), ("content_block_delta", 1)),
    ]
    for index in (0, 1, 1, 0):
        (piece,) = run.feed(calls(call(index, arguments="1")))
        assert [(event["type"], event["index"]) for event in frames(piece)] == [
            ("content_block_delta", index)
        ]
    (piece,) = run.feed(calls(call(1, arguments="]")) + calls(call(0, arguments="]")) + END + DONE)
    assert b'"message_stop"' in piece
    assert [tool.arguments for tool in run.message.tool_calls] == ["[11]", "[11]"]


# Ends


def test_success_is_written_and_reported() -> None:
    got, run = transcode(TEXT, END, USAGE, DONE)
    assert got.stop_reason == "end_turn"
    assert got.usage["input_tokens"] == 9
    assert run.outcome == Completed("end_turn", Usage(9, 4))


def test_cut_is_written_as_an_error_without_a_stop() -> None:
    for stream in ((TEXT,), (TEXT, END[:-5]), (calls(call(0, "x", "f", A)),), (b"",)):
        got, run = transcode(*stream)
        assert got.error is not None
        assert got.stop_reason is None
        assert isinstance(run.outcome, Truncated)


def test_error_of_the_provider_is_written_in_the_other_dialect() -> None:
    got, run = transcode(TEXT, frame({"error": {"message": "slow down", "code": 429}}))
    assert got.error == {"type": "rate_limit_error", "message": "slow down"}
    assert got.content == [{"type": "text", "text": "hi"}]
    assert isinstance(run.outcome, Failed)


def test_error_before_any_content_is_written_alone() -> None:
    got, _ = transcode(b'{"error":{"message":"no","code":401}}')
    assert (got.message, got.error) == (None, {"type": "authentication_error", "message": "no"})


def test_source_that_fails_is_an_error() -> None:
    run = transcoder()
    run.feed(TEXT)
    (piece,) = run.abort(TimeoutError())
    assert [event["error"]["type"] for event in frames(piece)] == ["timeout_error"]
    assert isinstance(run.outcome, Truncated)
    assert run.abort(OSError()) == run.close() == []


def test_held_events_are_dropped_and_counted_at_a_failure() -> None:
    waiting = len('{"type":"tool_call","id":"y","name":"g"}') + len('["é')
    got, run = transcode(calls(call(0, "x", "f", "[")), calls(call(1, "y", "g", '["é')))
    assert [block["id"] for block in got.content] == ["x"]
    assert run.losses == (Loss("held", "failed stream", 1, f"{waiting + 1} bytes dropped"),)
    strict = transcoder(strict=True)
    strict.feed(calls(call(0, "x", "f", "["), call(1, "y", "g", "[")))
    with pytest.raises(LossyEncoding, match="held in failed stream"):
        strict.close()


def test_held_events_beyond_the_bound_are_counted() -> None:
    limits = Limits(max_held_bytes=50)
    stream = (calls(call(0, "x", "f", "[")), calls(call(1, "y", "g", "[" + "1" * 20)), END, DONE)
    got, run = transcode(*stream, limits=limits)
    assert got.error is not None
    assert [loss.feature for loss in run.losses] == ["held"]
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_held_bytes"


def test_nothing_follows_an_exceeded_limit() -> None:
    run = transcoder(limits=Limits(max_accumulated_bytes=30))
    (piece,) = run.feed(content("x" * 40) + TEXT)
    assert event_types([piece])[-1] == "error"
    assert run.feed(TEXT + END + DONE) == run.close() == run.abort(OSError()) == []
    assert run.outcome == Failed(
        StreamError(
            "too_large", "message of 55 bytes, expected at most 30", code="max_accumulated_bytes"
        )
    )


@pytest.mark.parametrize("offers_run", [True, False])
@pytest.mark.parametrize("target", DIALECTS)
def test_message_bound_applies_to_what_encoders_store_without_keep_message(
    target: str, *, offers_run: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses repeats the text at its end, Google's two count its bytes for citations."""
    monkeypatch.setattr(Decoder, "offers_run", offers_run)
    stores_text = target in ("openai_responses", "gemini", "gemini_interactions")
    stream = delta_stream("anthropic text", 200)
    limits = Limits(max_accumulated_bytes=200)
    for keeps, outcome in ((True, Failed), (False, Failed if stores_text else Completed)):
        run = Transcoder("anthropic", target, limits=limits, keep_message=keeps)
        for event in stream.events:
            run.feed(event)
        run.close()
        assert isinstance(run.outcome, outcome)


def test_feeding_a_closed_transcoder_raises_local_protocol_error() -> None:
    run = transcoder()
    run.close()
    with pytest.raises(LocalProtocolError):
        run.feed(TEXT)


# Options and what is told


def test_strict_transcoding_raises_at_the_first_loss() -> None:
    run = transcoder(strict=True)
    run.feed(TEXT)
    with pytest.raises(LossyEncoding, match="refusal in block would be lost"):
        run.feed(chunk({"refusal": "no"}))


def test_losses_and_notes_are_reported_at_once_and_stored() -> None:
    losses: list[Loss] = []
    notes: list[Note] = []
    run = transcoder(on_loss=losses.append, on_note=notes.append)
    run.feed(
        calls(call(0, None, "f", A)) + calls(call(1, None, "g", B)) + chunk({"audio": {"a": 1}})
    )
    minted = Note("minted_id", "tool call")
    assert notes == [minted, minted]
    assert run.notes == (Note("minted_id", "tool call", 2),)
    assert losses == list(run.losses) == [Loss("opaque", "openai_chat audio", 1, "dropped")]


def test_message_and_usage_are_available_at_any_time() -> None:
    run = transcoder()
    assert run.is_empty
    assert (run.message, run.usage, run.outcome) == (Message(), Usage(), None)
    run.feed(reasoning("t") + TEXT)
    assert not run.is_empty
    assert run.message == Message("chatcmpl-1", "gpt", (Reasoning(("t",)), Text("hi")))
    run.feed(USAGE + END + DONE)
    assert run.usage == Usage(9, 4)
    assert (run.message.stop_reason, run.message.raw_stop_reason) == ("end_turn", "stop")
    assert run.frames == 5


def test_minted_id_is_the_same_in_output_and_message() -> None:
    got, run = transcode(calls(call(0, None, "f", A)), END, DONE)
    assert got.content[0]["id"] == run.message.tool_calls[0].id
    assert anonymous(got.content[0]["id"])


def test_ping_is_empty_after_the_end() -> None:
    run = transcoder()
    assert event_types([run.ping()]) == ["ping"]
    run.feed(TEXT + END)
    assert event_types([run.ping()]) == ["ping"]
    run.feed(DONE)
    assert run.ping() == b""


@pytest.mark.parametrize(
    ("target", "is_stored"), [("openai_responses", True), ("anthropic", False)]
)
def test_bytes_that_wait_are_those_of_an_event_and_of_what_the_target_repeats(
    target: str, *, is_stored: bool
) -> None:
    run = Transcoder("openai_chat", target)
    text = "a" * 100_000
    event = content(text)
    run.feed(event[:-1])
    assert run.waiting_bytes == len(event) - 1
    assert not run.has_blocks
    run.feed(event[-1:])
    assert (run.waiting_bytes >= len(text)) == is_stored
    assert run.has_blocks
    if not is_stored:
        assert run.waiting_bytes < 1000
    run.feed(b"data: {]\n\n")
    assert run.waiting_bytes == 0  # its error goes out in any case


def test_ping_may_be_written_between_any_chunks() -> None:
    run = transcoder()
    out = []
    for piece in (TEXT, calls(call(0, "x", "f", "[")), calls(call(0, arguments="]")), END, DONE):
        out += [run.ping(), *run.feed(piece), run.ping()]
    assert [block["type"] for block in read(b"".join(out)).content] == ["text", "tool_use"]


def test_model_option_is_written() -> None:
    got, run = transcode(TEXT, END, DONE, model="claude")
    assert got.message is not None
    assert (got.message["model"], run.message.model) == ("claude", "gpt")


def test_server_and_think_tags_reach_the_decoder() -> None:
    pieces = [calls(call(0, "x", "f", text)) for text in ('{"', '{"a":1}')]
    got, _ = transcode(
        content("<think>a</think>"), *pieces, END, DONE, server="qianfan", think_tags=True
    )
    assert got.content[0]["thinking"] == "a"
    assert got.content[1]["input"] == '{"a":1}'


def test_source_dialect_is_detected() -> None:
    run = Transcoder(None, "anthropic")
    assert run.dialect == ""
    out = b"".join(run.feed(TEXT + END + DONE))
    assert run.dialect == "openai_chat"
    assert read(out).content == [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize(
    ("source", "target"), [("klingon", "anthropic"), ("openai_chat", "klingon"), (None, "klingon")]
)
def test_unknown_dialects_are_reported(source: str | None, target: str) -> None:
    with pytest.raises(UnknownDialect, match=r"^no dialect 'klingon'"):
        Transcoder(source, target)


def test_unknown_ordering_is_reported() -> None:
    expected = "ordering is 'sequental', expected 'sequential' or 'interleaved'"
    with pytest.raises(ValueError, match=expected):
        Transcoder("openai_chat", "anthropic", ordering="sequental")  # type: ignore[arg-type]  # that is the mistake


def test_further_choices_are_dropped_and_counted() -> None:
    ends = (chunk({}, "stop"), chunk({}, "stop", 1), USAGE, DONE)
    got, run = transcode(content("x", choice=1), TEXT, content("y", choice=1), *ends)
    assert got.content == [{"type": "text", "text": "hi"}]
    assert run.losses == (Loss("choices", "choice 1", 1, "dropped"),)


def test_text_of_only_white_space_is_dropped() -> None:
    got, run = transcode(content("\n\n"), calls(call(0, "x", "f", A)), END, USAGE, DONE)
    assert [block["type"] for block in got.content] == ["tool_use"]
    assert run.losses == (Loss("whitespace_text", "block", 1, "dropped"),)


@pytest.mark.parametrize("target", ["openai_chat", "anthropic"])
def test_progress_is_that_of_the_source(target: str) -> None:
    transcoder = Transcoder("openai_chat", target)
    transcoder.feed(content("a"))
    assert (transcoder.frames, transcoder.progress) == (1, 1)
    assert not transcoder.lacks_only_terminal
    transcoder.feed(chunk({}, "stop"))
    assert (transcoder.frames, transcoder.progress) == (2, 2)  # one is the end
    assert transcoder.lacks_only_terminal


def test_what_comes_before_the_dialect_is_known_is_held_within_a_bound() -> None:
    """It may have to be passed on."""
    comment = b": comment\n\n"
    limits = Limits(max_held_bytes=9 * len(comment))
    run = Transcoder(None, "openai_chat", limits=limits)
    assert [run.feed(comment) for _ in range(9)] == [[]] * 9
    (passed,) = run.feed(content("a"))
    assert passed == comment * 9 + content("a")
    run = Transcoder(None, "openai_chat", limits=limits)
    assert [run.feed(comment) for _ in range(9)] == [[]] * 9
    (error,) = run.feed(comment)
    assert b"max_held_bytes" in error
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_held_bytes"
    assert run.feed(comment) == []
