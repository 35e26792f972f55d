"""A survey: from the bytes of any stream to its report."""

from __future__ import annotations

import tracemalloc

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning
from support.streams.mutations import chunked
from support.streams.surveys import survey

from streamnorm import (
    Completed,
    Failed,
    Limits,
    Loss,
    MessageStop,
    Note,
    Transcoder,
    Truncated,
    UnknownDialect,
    Usage,
)
from streamnorm.codec import WS_MESSAGE, encoder
from streamnorm.inspect import Survey, list_writable_dialects

COUNTS = {"prompt_tokens": 9, "completion_tokens": 4}
USAGE = frame({"id": "chatcmpl-1", "choices": [], "usage": COUNTS})
WHOLE = content("hi") + chunk({}, "stop") + USAGE + DONE
OVERLAP = (
    calls(call(0, "a", "f", "{"))
    + calls(call(1, "b", "g", '{"x"'))
    + calls(call(0, arguments="}"))
    + calls(call(1, arguments=":1}"))
)


def test_report_of_a_whole_stream() -> None:
    seen = survey(WHOLE)
    assert (seen.dialect, seen.server) == ("openai_chat", None)
    assert (seen.id, seen.model) == ("chatcmpl-1", "gpt")
    # Start, block, "hi", stop, usage, stop.
    assert (seen.bytes, seen.frames, seen.events) == (len(WHOLE), 4, 6)
    assert [(track.kind, track.head) for track in seen.tracks] == [("text", "hi")]
    assert seen.usage == Usage(9, 4)
    assert seen.stops == (MessageStop("end_turn", "stop"),)
    assert seen.outcome == Completed("end_turn", Usage(9, 4))
    assert (seen.losses, seen.notes) == ({}, ())


def test_overlapping_calls_overlap() -> None:
    first, second = survey(OVERLAP + chunk({}, "tool_calls") + DONE).tracks
    assert second.start < (first.stop or 0)


def test_further_deltas_of_a_block_are_written_as_they_come() -> None:
    run = Survey("openai_chat", targets=["anthropic"])
    events = [event for char in "abc" for event in run.feed(content(char)).events]
    for char in "abc":
        [one] = [
            event for event in events if f'"text":"{char}"'.encode() in event.written["anthropic"]
        ]
        assert one.written["anthropic"].count(b"text_delta") == 1
    assert run.report().holds == {"anthropic": ()}


def test_events_held_at_a_failure_are_a_loss() -> None:
    seen = survey(OVERLAP[:-40], targets=("anthropic",))
    assert isinstance(seen.outcome, Truncated)
    [loss] = seen.losses["anthropic"]
    assert (loss.feature, loss.where, loss.count) == ("held", "failed stream", 1)


def test_failed_target_does_not_change_the_report() -> None:
    stream = OVERLAP + chunk({}, "tool_calls")
    seen = survey(
        *chunked(stream + USAGE + DONE, 50),
        dialect="openai_chat",
        targets=("anthropic",),
        limits=Limits(max_held_bytes=8),
    )
    assert seen.outcome == Completed("tool_use", Usage(9, 4))
    assert [loss.feature for loss in seen.losses["anthropic"]] == ["held"]


def test_losses_are_reported_for_each_target() -> None:
    refused = chunk({"refusal": "No."}) + chunk({}, "stop") + USAGE + DONE
    assert survey(refused, targets=("anthropic",)).losses == {
        "anthropic": (Loss("refusal", "block", 1, "written as text"),)
    }


def test_notes_are_those_of_the_decoder() -> None:
    seen = survey(calls(call(0, None, "f", "{}")) + chunk({}, "tool_calls") + DONE)
    assert seen.notes == (Note("minted_id", "tool call"),)


@pytest.mark.parametrize("target", ["klingon", ""])
def test_unknown_dialects_are_refused_at_once(target: str) -> None:
    with pytest.raises(UnknownDialect):
        Survey(targets=[target])
    with pytest.raises(UnknownDialect):
        Survey(target)


def test_writable_dialects_have_an_encoder() -> None:
    assert "anthropic" in list_writable_dialects()
    assert [encoder(name).dialect for name in list_writable_dialects()] == list_writable_dialects()


def test_server_and_think_tags_decide_between_readings() -> None:
    thought = content("<think>a</think>b") + chunk({}, "stop") + DONE
    assert [track.kind for track in survey(thought).tracks] == ["text"]
    seen = survey(thought, think_tags=True, targets=("anthropic",))
    assert [track.kind for track in seen.tracks] == ["reasoning", "text"]
    cumulative = calls(call(0, "a", "f", '{"x"')) + calls(call(0, arguments='{"x":1}')) + DONE
    assert survey(cumulative, server="qianfan").tracks[0].head == '{"x":1}'
    assert survey(cumulative, server="qianfan").server == "qianfan"


def test_empty_input_is_a_truncated_stream() -> None:
    seen = survey()
    assert (seen.dialect, seen.bytes, seen.frames, seen.tracks) == ("", 0, 0, ())
    assert isinstance(seen.outcome, Truncated)


def test_html_is_no_stream() -> None:
    seen = survey(b"<html><body>Bad Gateway</body></html>")
    assert isinstance(seen.outcome, Failed)
    assert (seen.outcome.error.kind, seen.frames) == ("malformed", 0)


def test_error_of_the_provider_is_the_outcome() -> None:
    seen = survey(b'{"error":{"message":"no key","code":"invalid_api_key"}}')
    assert isinstance(seen.outcome, Failed)
    assert (seen.outcome.error.kind, seen.outcome.error.message) == ("upstream", "no key")


def test_cut_stream_leaves_its_block_open() -> None:
    seen = survey(reasoning("Let me"), targets=("anthropic",))
    assert isinstance(seen.outcome, Truncated)
    assert [track.stop for track in seen.tracks] == [None]
    assert seen.stops == ()


def test_stream_is_still_open_before_its_end() -> None:
    run = Survey()
    run.feed(content("hi"))
    assert run.outcome is run.report().outcome is None
    assert run.report().tracks[0].head == "hi"


@pytest.mark.parametrize("chunks", [[WHOLE * 2], [WHOLE, WHOLE]], ids=["at once", "later"])
def test_bytes_after_the_terminal_are_counted_but_not_read(chunks: list[bytes]) -> None:
    seen = survey(*chunks, targets=("anthropic",))
    assert (seen.bytes, seen.frames, seen.events) == (2 * len(WHOLE), 8, 6)
    assert len(seen.tracks) == 1


def test_memory_does_not_grow_with_the_stream() -> None:
    run = Survey("openai_chat")
    piece = content("a" * 1000) * 50
    for _ in range(30):  # as many violations as are stored
        run.feed(piece)
    tracemalloc.start()
    for _ in range(100):
        run.feed(piece)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert run.report().tracks[0].chars == 6_500_000
    assert kept < 50_000
    assert peak < 1_000_000


def test_source_that_fails_is_named_by_its_failure() -> None:
    run = Survey(targets=["anthropic"])
    run.feed(content("hi"))
    run.abort(TimeoutError())
    seen = run.report()
    assert isinstance(seen.outcome, Truncated)
    assert seen.outcome.error.kind == "stalled"
    assert [track.stop for track in seen.tracks] == [None]
    assert [each.message for each in seen.violations if each.position == 1][-1:] == [
        "no [DONE], expected it last"
    ]


def test_messages_of_a_websocket_are_counted_and_validated() -> None:
    transcoder = Transcoder("openai_chat", "openai_responses", to_framing=WS_MESSAGE)
    data = b"".join([*transcoder.feed(WHOLE), *transcoder.close()])
    run = Survey("openai_responses", framing=WS_MESSAGE)
    frames = run.feed(data).frames
    run.close()
    seen = run.report()
    assert seen.frames == len(frames) == data.count(b"\n")
    assert (seen.unchecked, seen.violations) == ("", ())
    assert seen.framing == "ws_message"
