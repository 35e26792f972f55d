"""A target of a stream: what is written to it, and what waits for what."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame, reasoning
from support.operation_counts import lines

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    JSONDelta,
    Limits,
    MessageStart,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
    ToolCall,
    UnknownDialect,
)
from streamnorm.inspect import Survey
from streamnorm.inspect.report import Hold, Report
from streamnorm.inspect.targets import Target

OPENING = calls(call(0, "a", "f", '{"x":')), calls(call(1, "b", "g", "{"))
REST = calls(call(1, arguments='"y":')), calls(call(0, arguments="1}"))
TAIL = calls(call(1, arguments="2}")), chunk({}, "tool_calls") + DONE


def survey(*reads: bytes, target: str, timed: bool = False) -> Report:
    """Return the report of reads, one every 100 ms if they are timed."""
    run = Survey("openai_chat", targets=[target], timed=timed)
    for data in reads:
        run.feed(data, 100)
    run.close()
    return run.report()


def test_deltas_of_an_overlapping_call_wait_for_the_call_before() -> None:
    # Start, block 0, its arguments, block 1, its arguments: event 4 is the first to wait.
    report = survey(*OPENING, *REST, *TAIL, target="anthropic", timed=True)
    [hold] = report.holds["anthropic"]
    # "1}" makes the arguments of call 0 complete, and it stops: events 6 and 7.
    assert hold == Hold(
        block=1, behind=0, deltas=2, chars=5, start=4, stop=7, start_ms=200, stop_ms=400
    )


def test_target_whose_clients_accept_overlapping_calls_holds_nothing() -> None:
    run = Survey("anthropic", targets=["openai_chat"])
    report = survey(*OPENING, *REST, *TAIL, target="openai_responses")
    assert run.report().holds == {"openai_chat": ()}
    assert [hold.block for hold in report.holds["openai_responses"]] == [1]


def test_target_of_whole_calls_holds_arguments_until_their_call_is_complete() -> None:
    [hold] = survey(
        OPENING[0], calls(call(0, arguments="1}")), chunk({}, "tool_calls") + DONE, target="gemini"
    ).holds["gemini"]
    assert (hold.block, hold.behind, hold.deltas, hold.chars) == (0, 0, 2, 7)
    assert (hold.start, hold.stop) == (2, 4)


def test_what_waits_when_the_stream_is_cut_was_never_written() -> None:
    [hold] = survey(*OPENING, REST[0], target="anthropic").holds["anthropic"]
    assert (hold.deltas, hold.stop, hold.stop_ms) == (2, None, None)


def test_dropped_blocks_do_not_wait() -> None:
    second = content("b", choice=1) + chunk({}, "stop", choice=1)
    report = survey(content("a") + second, chunk({}, "stop") + DONE, target="anthropic")
    assert "choices" in [loss.feature for loss in report.losses["anthropic"]]
    assert report.holds == {"anthropic": ()}


def test_white_space_waits_for_the_text_behind_it() -> None:
    [hold] = survey(
        content(" "), content(""), content("a"), chunk({}, "stop") + DONE, target="anthropic"
    ).holds["anthropic"]
    assert (hold.block, hold.behind, hold.deltas, hold.chars) == (0, 0, 1, 1)


def test_dialect_of_the_stream_gets_its_bytes_at_once() -> None:
    run = Survey("openai_chat", targets=["openai_chat", "anthropic"])
    events = [event for data in OPENING for event in run.feed(data).events]
    assert {name for event in events for name in event.written} == {"anthropic"}
    assert run.report().holds["openai_chat"] == ()


def test_written_bytes_are_those_of_the_event() -> None:
    run = Survey("openai_chat", targets=["anthropic"])
    start, block, delta = run.feed(content("hi")).events
    assert start.written["anthropic"].startswith(b"event: message_start")
    # A text block that may stay blank starts with its text.
    assert block.written["anthropic"] == b""
    assert delta.written["anthropic"].count(b"event: ") == 2
    [*_, last] = run.feed(chunk({}, "stop") + DONE).events
    assert last.written["anthropic"].endswith(b'{"type":"message_stop"}\n\n')


def test_usage_of_the_first_frame_is_written_with_the_start() -> None:
    part = {"content": {"parts": [{"text": "a"}]}}
    counts = {"promptTokenCount": 7, "totalTokenCount": 7}
    run = Survey("gemini", targets=["anthropic"])
    [start, *_] = run.feed(frame({"candidates": [part], "usageMetadata": counts})).events
    assert b'"input_tokens":7' in start.written["anthropic"]


def test_failed_target_is_written_no_more() -> None:
    run = Survey("openai_chat", targets=["anthropic"], limits=Limits(max_held_bytes=8))
    for data in (*OPENING, *REST, *TAIL):
        events = run.feed(data).events
    assert b"".join(event.written["anthropic"] for event in events) == b""


def test_delta_beyond_the_bound_ends_the_target_with_an_error() -> None:
    target = Target("anthropic", Limits(max_held_bytes=500))
    opening = MessageStart(), BlockStart(0, ToolCall("a", "f")), BlockStart(1, ToolCall("b", "g"))
    for number, event in enumerate(opening):
        target.write(event, number, None)
    written = [target.write(JSONDelta(1, "x" * 200), number, None) for number in range(3, 6)]
    # Twice 200 bytes and the start of the call are held, but not three times.
    assert written[:2] == [b"", b""]
    assert written[2].startswith(b"event: error\n")
    assert b"bytes wait behind an open block, expected at most 500" in written[2]
    assert target.write(JSONDelta(0, "{}"), 6, None) == b""


def test_empty_delta_does_not_wait() -> None:
    target = Target("gemini", Limits())
    for number, event in enumerate((MessageStart(), BlockStart(0, ToolCall("a", "f")))):
        target.write(event, number, None)
    target.write(JSONDelta(0, ""), 2, None)
    target.write(BlockStop(0), 3, None)
    target.write(BlockStart(1, Refusal()), 4, None)
    target.write(RefusalDelta(1, ""), 5, None)
    target.write(BlockStop(1), 6, None)
    assert target.list_holds() == ()


def test_many_holds_are_counted() -> None:
    target = Target("gemini", Limits())
    target.write(MessageStart("m", "g"), 0, None)
    for index in range(258):
        target.write(BlockStart(index, ToolCall(str(index), "f")), 0, None)
        target.write(JSONDelta(index, "{}"), index, None)
        target.write(BlockStop(index), index, None)
    assert (len(target.list_holds()), target.unstored_holds) == (256, 2)


def write_all(target: Target, *events: Event) -> list[tuple[int, int | None]]:
    """Write events, and return the block and the end of each hold."""
    for number, event in enumerate(events):
        target.write(event, number, None)
    return [(hold.block, hold.stop) for hold in target.list_holds()]


def test_waiting_blocks_are_released_in_order_of_their_index() -> None:
    events = [
        MessageStart(),
        *(BlockStart(index, Text()) for index in range(4)),
        # The last block gets its text first.
        TextDelta(3, "d"),
        TextDelta(1, "b"),
        BlockStop(0),
        BlockStop(1),
    ]
    assert write_all(Target("openai_responses", Limits()), *events) == [(3, None), (1, 7)]
    events.append(BlockStop(2))
    assert write_all(Target("openai_responses", Limits()), *events) == [(3, 9), (1, 7)]


def test_waiting_blocks_are_released_by_their_choice() -> None:
    events = [
        MessageStart(),
        BlockStart(0, Text(), choice=0),
        TextDelta(0, "a"),
        BlockStart(1, Text(), choice=1),
        TextDelta(1, "b"),
        BlockStart(2, ToolCall("c", "f"), choice=0),
        JSONDelta(2, "{}"),
        BlockStart(3, ToolCall("d", "f"), choice=1),
        JSONDelta(3, "{}"),
        BlockStop(3),
        BlockStop(1),
    ]
    # A call waits for the text before it, in its own choice.
    assert write_all(Target("openai_chat", Limits()), *events) == [(2, None), (3, 10)]


def test_steps_are_linear_in_blocks_that_wait() -> None:
    def steps(count: int) -> int:
        events: list[Event] = [MessageStart()]
        for index in range(count):
            events += [BlockStart(index, Text()), TextDelta(index, "a")]
        events += [BlockStop(index) for index in range(count)]

        def write() -> None:
            target = Target("anthropic", Limits())
            for number, event in enumerate(events):
                target.write(event, number, None)

        return lines(write)

    assert steps(400) < 2.2 * steps(200)


def test_unwritable_dialect_is_refused() -> None:
    with pytest.raises(UnknownDialect):
        Target("klingon", Limits())


def test_reasoning_waits_for_nothing() -> None:
    report = survey(
        reasoning("hm"), content("a"), chunk({}, "stop") + DONE, target="openai_responses"
    )
    assert report.holds == {"openai_responses": ()}
