"""`Run`: the answers of an agent as one stream of a page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from support.frontend.runs import (
    AG,
    BOTH,
    UI,
    calls,
    chunks_of,
    result,
    says,
    types_of,
    whole,
    write,
)
from support.streams.content import DIALECTS, decode
from support.streams.corpus import recordings

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Failed,
    Limits,
    LocalProtocolError,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Truncated,
    UnknownDialect,
    Usage,
    UsageUpdate,
    accumulate,
    decode_request,
    message_events,
    project,
)
from streamnorm.frontend import Run
from streamnorm.validation import validate

NAMES = {"threadId": "t", "runId": "r"}


def test_ui_run_is_one_message_of_several_steps() -> None:
    chunks = whole(UI, *calls("c"), [result("c", "-3")], *says("Cold."))
    assert chunks == [
        {"type": "start", "messageMetadata": {"id": "msg_1", "model": "m-1"}},
        {"type": "start-step"},
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "weather"},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"city":"Oslo"}'},
        {
            "type": "tool-input-available",
            "toolCallId": "c",
            "toolName": "weather",
            "input": {"city": "Oslo"},
        },
        {"type": "tool-output-available", "toolCallId": "c", "output": "-3"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "text-start", "id": "0"},
        {"type": "text-delta", "id": "0", "delta": "Cold."},
        {"type": "text-end", "id": "0"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"usage": {"inputTokens": 13, "outputTokens": 6, "totalTokens": 19}},
        },
    ]


def test_ag_ui_run_has_a_message_of_the_page_for_each_answer() -> None:
    chunks = whole(AG, *calls("c"), [result("c", "-3")], *says("Cold."), **NAMES)
    assert chunks == [
        {
            "type": "RUN_STARTED",
            **NAMES,
            "metadata": {"messageId": "msg_1", "model": "m-1"},
        },
        {
            "type": "TOOL_CALL_START",
            "toolCallId": "c",
            "toolCallName": "weather",
            "parentMessageId": "r-1",
        },
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": '{"city":"Oslo"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "r-2",
            "toolCallId": "c",
            "content": "-3",
            "role": "tool",
        },
        {"type": "TEXT_MESSAGE_START", "messageId": "r-3", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-3", "delta": "Cold."},
        {"type": "TEXT_MESSAGE_END", "messageId": "r-3"},
        {
            "type": "RUN_FINISHED",
            **NAMES,
            "usage": [{"model": "m-1", "inputTokens": 13, "outputTokens": 6, "totalTokens": 19}],
            "metadata": {"stopReason": "end_turn"},
        },
    ]


def test_calls_of_a_later_answer_belong_to_another_message() -> None:
    first = [*calls("a", "b"), [result("a", "1"), result("b", "2")]]
    chunks = whole(AG, *first, *calls("c"), result("c", "3"), *says("Done."), **NAMES)
    starts = [chunk for chunk in chunks if chunk["type"] == "TOOL_CALL_START"]
    parents = [chunk["parentMessageId"] for chunk in starts]
    assert parents[0] == parents[1] != parents[2]


@BOTH
def test_ids_of_parts_are_used_once_in_a_run(to: str) -> None:
    chunks = whole(to, *says("a"), *says("b"), *says("c"))
    starts = [chunk for chunk in chunks if chunk["type"] in ("text-start", "TEXT_MESSAGE_START")]
    assert len({chunk.get("id") or chunk["messageId"] for chunk in starts}) == 3


@BOTH
def test_usage_is_the_sum_of_all_answers(to: str) -> None:
    run = Run(to)
    write(run, *calls("c", usage=Usage(10, 5, cache_read_tokens=4)), result("c", "1"))
    assert run.usage == Usage(10, 5, cache_read_tokens=4)
    start, *rest = says("Done.", usage=Usage(20, 7, reasoning_tokens=3))
    # Each snapshot of an answer replaces the one before it.
    write(run, start, UsageUpdate(Usage(20, 1)), *rest)
    run.finish()
    total = Usage(30, 12, cache_read_tokens=4, reasoning_tokens=3)
    assert run.usage == run.message.usage == total
    assert run.outcome == Completed("end_turn", total)


def test_ag_ui_reports_the_usage_of_each_model() -> None:
    chunks = whole(AG, *calls("c"), result("c", "1"), *says("Done.", model="m-2"))
    assert [(each["model"], each["inputTokens"]) for each in chunks[-1]["usage"]] == [
        ("m-1", 3),
        ("m-2", 10),
    ]


def test_message_that_is_continued_keeps_its_id() -> None:
    """Clients make a second message of another id."""
    start, *_ = whole(UI, *says("Done."), messageId="page-1")
    assert start["messageId"] == "page-1"


USER = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
PAGE_ANSWER = {"id": "page-1", "role": "assistant", "parts": [{"type": "text", "text": "Ho"}]}
INPUT = {**NAMES, "messages": [{"id": "1", "role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("body", "page", "ids"),
    [
        ({"messages": [USER, PAGE_ANSWER]}, UI, {"messageId": "page-1"}),
        ({"messages": [USER, PAGE_ANSWER, USER]}, UI, {}),
        (INPUT, AG, NAMES),
        ({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, "openai_chat", {}),
        ({"model": "m", "input": "Hi"}, "openai_responses", {}),
    ],
)
def test_ids_of_the_request_are_repeated(body: Any, page: str, ids: dict[str, str]) -> None:
    asked = decode_request(body, page)
    for request in (asked, structs.replace(asked, model="m-2", tools=())):
        run = Run(AG if page == AG else UI, request=request)
        start, *_ = write(run, *says("Ho"))
        names = ("messageId", "threadId", "runId") if ids else ("messageId",)
        assert {name: start[name] for name in names if name in start} == ids


def test_ids_that_are_named_win() -> None:
    run = Run(AG, request=decode_request(INPUT, AG), ids={"runId": "r-2"})
    start, *_ = write(run, *says("Ho"))
    assert (start["threadId"], start["runId"]) == ("t", "r-2")


@BOTH
def test_blocks_of_a_run_are_bounded(to: str) -> None:
    """No page reads a message of more."""
    run = Run(to, limits=Limits(max_blocks=2))
    write(run, *says("a"), *says("b"))
    assert run.outcome is None
    last = write(run, *says("c")[:2])[-1]
    assert last["type"] in ("error", "RUN_ERROR")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_blocks"


@BOTH
def test_data_of_the_application_without_a_type_is_a_loss(to: str) -> None:
    """The clients fail at it."""
    run = Run(to)
    write(run, *says("a")[:4])
    for data in ("{", "[]", '{"data":1}', '"text"'):
        assert run.write(Opaque(to, "data-x", data)) == b""
    assert [(loss.feature, loss.count) for loss in run.losses] == [("opaque", 4)]


@BOTH
def test_half_a_surrogate_pair_in_an_id_is_replaced(to: str) -> None:
    forged = "\ud800x"
    start, *_ = whole(to, *says("Hi"), messageId=forged, threadId=forged, runId=forged)
    ids = [start[name] for name in ("messageId", "threadId", "runId") if name in start]
    assert set(ids) == {"\ufffdx"}


def test_data_of_the_application_passes_unchanged() -> None:
    note = Opaque(UI, "data-status", '{"type":"data-status","data":"thinking"}')
    *answer, stop = calls("c")
    chunks = whole(UI, note, *answer, note, stop, note, result("c", "1"), *says("Done."))
    assert types_of(chunks).count("data-status") == 3
    assert chunks[0] == {"type": "start"}


def test_data_of_another_dialect_is_a_loss() -> None:
    seen: list[Loss] = []
    run = Run(AG, on_loss=seen.append)
    assert run.write(Opaque("anthropic", "ping-pong", "{}")) == b""
    write(run, MessageStart(), BlockStart(0, Text()), Opaque("anthropic", "x", "{}", 0))
    assert [loss.where for loss in seen] == ["anthropic ping-pong", "anthropic x"]
    assert len(run.losses) == 2


def test_ping_of_a_provider_keeps_the_page_alive() -> None:
    run = Run(UI)
    assert run.write(Ping()) == run.ping() == b": keep-alive\n\n"


def test_pages_have_one_answer_of_several() -> None:
    answer = says("a")
    second = [BlockStart(1, Text(), 1), TextDelta(1, "b"), BlockStop(1)]
    *blocks, usage, stop = answer
    chunks = whole(UI, *blocks, *second, usage, MessageStop("end_turn", choice=1), stop)
    assert [chunk["delta"] for chunk in chunks if "delta" in chunk] == ["a"]


@BOTH
def test_failed_answer_ends_the_run(to: str) -> None:
    run = Run(to)
    write(run, *calls("c"), result("c", "1"), *says("Do")[:3])
    error = StreamError("upstream", "Overloaded.", "overloaded_error", 529)
    last = write(run, error)[-1]
    assert last["type"] in ("error", "RUN_ERROR")
    assert "Overloaded." in last.values()
    assert run.outcome == Failed(error)
    assert run.fail(error) == run.ping() == b""
    with pytest.raises(LocalProtocolError, match="item after the end of the run, expected none"):
        run.write(MessageStart())


@BOTH
def test_run_that_stops_within_an_answer_is_cut(to: str) -> None:
    run = Run(to)
    write(run, *calls("c"), result("c", "1"), *says("Do")[:3])
    last = chunks_of(run.finish())[-1]
    assert last["type"] in ("error", "RUN_ERROR")
    assert "the run ended before its answer was complete" in last.values()
    assert isinstance(run.outcome, Truncated)


@BOTH
def test_run_without_an_answer_is_an_error(to: str) -> None:
    run = Run(to)
    (only,) = chunks_of(run.finish())
    assert "the run ended before its first answer" in only.values()


def test_run_that_ends_with_calls_of_the_page_says_so() -> None:
    assert whole(UI, *calls("c"))[-1]["finishReason"] == "tool-calls"
    assert whole(AG, *calls("c"))[-1]["metadata"] == {"stopReason": "tool_use"}


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([TextDelta(0, "a")], "text_delta comes first, expected message_start"),
        ([*says("a")[:3], MessageStart()], "second message_start, expected one"),
        ([*says("a"), TextDelta(0, "b")], "text_delta of block 0, expected an open block"),
        ([*says("a"), MessageStart(), BlockStart(1, Text())], "block 1 starts, expected 0"),
    ],
)
def test_each_answer_has_its_own_grammar(items: list[Event], problem: str) -> None:
    run = Run(UI)
    with pytest.raises(LocalProtocolError, match=problem):
        write(run, *items)


@pytest.mark.parametrize(
    ("item", "kinds"), [(b"data", "bytes of int"), ("a", "str"), (1, "int"), ([1], "list of int")]
)
def test_other_items_are_refused(item: Any, kinds: str) -> None:
    with pytest.raises(TypeError, match=f"^run gives {kinds}, expected events and tool results$"):
        Run(UI).write(item)


def test_dialects_of_providers_hold_one_answer() -> None:
    with pytest.raises(UnknownDialect, match="'anthropic' has no runs, expected one of ui_message"):
        Run("claude")


@BOTH
def test_run_is_bounded(to: str) -> None:
    run = Run(to, limits=Limits(max_accumulated_bytes=2_000))
    write(run, *says("a" * 900), *says("b" * 900)[:3])
    last = write(run, TextDelta(0, "c" * 900))[-1]
    assert last["type"] in ("error", "RUN_ERROR")
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.kind == "too_large"


def test_blocks_that_wait_are_bounded() -> None:
    run = Run(AG, limits=Limits(max_held_bytes=1_000))
    write(run, MessageStart(), BlockStart(0, Text()), BlockStart(1, Text()), TextDelta(0, "a"))
    assert types_of(write(run, TextDelta(1, "b" * 1_001))) == ["RUN_ERROR"]
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_held_bytes"


def test_rest_of_several_results_is_dropped_after_the_end() -> None:
    run = Run(UI, limits=Limits(max_accumulated_bytes=1_000))
    write(run, *calls("a", "b"))
    last = write(run, [result("a", "x" * 900), result("b", "y")])
    assert types_of(last)[-1] == "error"


def test_run_breaks_no_rule_of_the_page() -> None:
    run = Run(UI)
    items = [*calls("a", "b"), [result("a", "1"), result("b", "2", is_error=True)], *says("Done.")]
    body = b"".join([run.write(item) for item in items]) + run.finish()
    assert not validate(body, UI)


def test_runs_whose_answers_have_no_id_do_not_share_one() -> None:
    answer = [MessageStart(), BlockStart(0, Text()), TextDelta(0, "x"), BlockStop(0)]
    runs = [Run("ag_ui"), Run("ag_ui")]
    first, second = (b"".join(map(run.write, answer)) for run in runs)
    ids = [
        {json.loads(frame[6:]).get("messageId") for frame in body.split(b"\n\n")[1:-1]}
        for body in (first, second)
    ]
    assert ids[0].isdisjoint(ids[1])


# It has a result of a call that no block stands for.
NAMELESS = "shell-and-unknown-item"


@BOTH
@pytest.mark.parametrize("source", [*DIALECTS, "bedrock_converse"])
def test_recorded_answers_are_read_back_from_their_run(to: str, source: str) -> None:
    """Each twice, so that ids repeat, with the results of its calls."""
    for recording in recordings(source):
        there = decode([recording.body], source, server=recording.server)
        if not isinstance(there.outcome, Completed) or NAMELESS in recording.name:
            continue
        blocks = accumulate(there.events).blocks
        answered = {each.tool_call_id for each in blocks if isinstance(each, ServerToolResult)}
        results = [
            result(call.id, "1")
            for call in blocks
            if isinstance(call, ToolCall) and call.id not in answered
        ]
        run = Run(to)
        items = [*there.events, results, *there.events, results, *says("Done.")]
        body = b"".join([run.write(item) for item in items]) + run.finish()
        assert validate(body, to) == [], recording.name
        back = decode([body], to)
        assert isinstance(back.outcome, Completed), recording.name
        passed, _ = project(message_events(run.message), to)
        found, expected = accumulate(back.events), accumulate(passed)
        assert list(map(_shown, found.blocks)) == list(map(_shown, expected.blocks)), recording.name


def _shown(block: Block) -> object:
    """Return what a page shows of a block."""
    match block:
        case Text(text) | Refusal(text):
            return text
        case Reasoning(parts):
            return [part for part in parts if part]
        case ToolCall(id, name, arguments) | ServerToolCall(id, name, arguments):
            return id, name, arguments or "{}"
        case ToolResult(id):
            return id, [part.text for part in block.content if isinstance(part, Text)]
        case _:
            return type(block)
