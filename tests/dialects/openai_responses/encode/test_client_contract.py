"""Requirements of clients of Responses: one test for each failure that was observed."""

from __future__ import annotations

import typing
from typing import Any, Literal

import pytest
from openai.types.responses import ResponseStreamEvent
from support.openai_responses.streams import MESSAGE_START, find, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Message,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    accumulate,
    encode_message,
    translate_request,
)
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

Payloads = list[dict[str, Any]]

RUNS: list[list[Event]] = [
    [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b", 1),
        SignatureDelta(0, "s", "anthropic"),
        BlockStop(0),
    ],
    [
        BlockStart(1, Text()),
        TextDelta(1, "hi"),
        CitationDelta(1, Citation("url_citation", "https://u")),
        BlockStop(1),
    ],
    [BlockStart(2, ToolCall("c1", "f")), JSONDelta(2, '{"a":1}'), BlockStop(2)],
    [BlockStart(3, ToolCall("c2", "f")), BlockStop(3)],
    [BlockStart(4, ToolCall("c3", "g", kind="custom")), JSONDelta(4, "x"), BlockStop(4)],
    [BlockStart(5, RedactedReasoning("d", "anthropic")), BlockStop(5)],
    [BlockStart(6, Refusal()), RefusalDelta(6, "no"), BlockStop(6)],
    [BlockStart(7, Text()), BlockStop(7)],
]
END: list[Event] = [UsageUpdate(Usage(3, 4)), MessageStop("tool_use")]


def in_turn() -> list[Event]:
    return [event for run in RUNS for event in run]


def overlapping() -> list[Event]:
    starts = [run[0] for run in RUNS]
    middles = [event for run in reversed(RUNS) for event in run[1:-1]]
    return [*starts, *middles, *(run[-1] for run in reversed(RUNS))]


@pytest.fixture(params=[in_turn, overlapping])
def payloads(request: pytest.FixtureRequest) -> Payloads:
    """Return the events of a whole stream."""
    return write([MESSAGE_START, *request.param(), *END])[0]


def begun_items(payloads: Payloads) -> dict[int, dict[str, Any]]:
    return {event["output_index"]: event["item"] for event in find(payloads, "output_item.added")}


def done_items(payloads: Payloads) -> dict[int, dict[str, Any]]:
    return {event["output_index"]: event["item"] for event in find(payloads, "output_item.done")}


def place(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event.get(key) for key in ("output_index", "content_index", "summary_index"))


def assert_each_follows(payloads: Payloads, later: str, earlier: str) -> None:
    """Check that each `later` event follows an `earlier` one of the same position."""
    seen: set[tuple[Any, ...]] = set()
    found = 0
    for event in payloads:
        kind = event["type"].removeprefix("response.")
        if kind == earlier:
            seen.add(place(event))
        elif kind == later:
            found += 1
            assert place(event) in seen
    assert found


def test_response_created_is_first(payloads: Payloads) -> None:
    assert [event["type"] for event in payloads[:2]] == ["response.created", "response.in_progress"]
    assert payloads[0]["response"] == payloads[1]["response"]


def test_nothing_comes_before_response_created() -> None:
    early: list[Event] = [Ping(), Opaque("openai_responses", "codex.rate_limits", '{"a":1}')]
    writer = ResponsesEncoder()
    assert b"".join(map(writer.encode, early)) == b": ping\n\n"
    wire = writer.encode(MESSAGE_START).decode()
    names = [line for line in wire.split("\n") if line.startswith("event: ")]
    assert names == [
        *("event: response.created", "event: response.in_progress", "event: codex.rate_limits"),
    ]


def test_every_item_is_added_before_its_events(payloads: Payloads) -> None:
    seen: set[int] = set()
    for event in payloads:
        if event["type"] == "response.output_item.added":
            seen.add(event["output_index"])
        elif "output_index" in event:
            assert event["output_index"] in seen


@pytest.mark.parametrize("kind", ["output_text", "refusal"])
@pytest.mark.parametrize("step", ["delta", "done"])
def test_part_is_added_before_its_content(payloads: Payloads, kind: str, step: str) -> None:
    assert_each_follows(payloads, f"{kind}.{step}", "content_part.added")


def test_summary_is_added_before_its_text(payloads: Payloads) -> None:
    assert_each_follows(payloads, "reasoning_summary_text.delta", "reasoning_summary_part.added")


def test_every_item_is_done_and_whole(payloads: Payloads) -> None:
    assert begun_items(payloads).keys() == done_items(payloads).keys() == set(range(len(RUNS)))


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        ("output_text.done", "content_part.added"),
        ("refusal.done", "content_part.added"),
        ("content_part.done", "content_part.added"),
        ("reasoning_summary_text.done", "reasoning_summary_part.added"),
        ("reasoning_summary_part.done", "reasoning_summary_part.added"),
    ],
)
def test_every_start_has_its_end(payloads: Payloads, later: str, earlier: str) -> None:
    assert_each_follows(payloads, later, earlier)
    if later in ("content_part.done", "reasoning_summary_part.done"):
        ends = [place(event) for event in find(payloads, later)]
        assert sorted(ends) == sorted(place(event) for event in find(payloads, earlier))


def test_arguments_end_once_a_call(payloads: Payloads) -> None:
    calls = {n for n, item in begun_items(payloads).items() if item["type"] == "function_call"}
    ends = find(payloads, "function_call_arguments.done")
    assert sorted(event["output_index"] for event in ends) == sorted(calls)


def test_item_is_done_as_the_one_that_was_added(payloads: Payloads) -> None:
    done = done_items(payloads)
    for number, item in begun_items(payloads).items():
        for key in ("type", "id", "call_id", "name"):
            assert done[number].get(key) == item.get(key)


def test_call_is_added_with_an_id_and_empty_arguments(payloads: Payloads) -> None:
    calls = [item for item in begun_items(payloads).values() if item["type"] == "function_call"]
    assert [call["arguments"] for call in calls] == ["", ""]
    assert all(call["id"] for call in calls)


def test_call_is_done_with_a_status_and_arguments(payloads: Payloads) -> None:
    calls = [item for item in done_items(payloads).values() if item["type"] == "function_call"]
    assert sorted((call["status"], call["arguments"]) for call in calls) == [
        *(("completed", '{"a":1}'), ("completed", "{}")),
    ]
    for event in find(payloads, "function_call_arguments.done"):
        assert event["arguments"] != ""


def test_every_delta_names_its_item(payloads: Payloads) -> None:
    items = begun_items(payloads)
    named = [event for event in payloads if "output_index" in event and "item" not in event]
    assert named
    for event in named:
        assert event["item_id"] == items[event["output_index"]]["id"]


PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "reasoning": "rs_",
}


@pytest.mark.parametrize("id", ["chatcmpl-1", "msg_01X", "gen-1", "0d5e-1", "", "resp_1"])
def test_ids_begin_as_those_of_their_items(id: str) -> None:
    """Clients send them back: "message id must be a string starting with 'msg_'"
    (CherryHQ/cherry-studio#20237).
    """
    payloads, _ = write([MessageStart(id, "m"), *in_turn(), *END])
    items = [*begun_items(payloads).values(), *payloads[-1]["response"]["output"]]
    assert {item["type"] for item in items} == PREFIXES.keys()
    assert all(item["id"].startswith(PREFIXES[item["type"]]) for item in items)
    assert payloads[-1]["response"]["id"].startswith("resp_")

    told = accumulate([MessageStart(id, "m"), *in_turn(), *END])
    whole = encode_message(told, "openai_responses").body
    assert {item["type"] for item in whole["output"]} == PREFIXES.keys()
    assert all(item["id"].startswith(PREFIXES[item["type"]]) for item in whole["output"])
    assert whole["id"].startswith("resp_")


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_call_in_a_namespace_has_its_plain_name(kind: Literal["function", "custom"]) -> None:
    """Codex knows no tool by another: "unsupported custom tool call: functions__exec"
    (router-for-me/CLIProxyAPI#4850).
    """
    call = ToolCall("c1", "exec", kind=kind, namespace="functions")
    events = [BlockStart(0, call), JSONDelta(0, "{}"), BlockStop(0), MessageStop("tool_use")]
    payloads, _ = write([MESSAGE_START, *events])
    whole = encode_message(accumulate([MESSAGE_START, *events]), "openai_responses").body
    items = [*begun_items(payloads).values(), *done_items(payloads).values(), *whole["output"]]
    assert [(item["name"], item["namespace"]) for item in items] == [("exec", "functions")] * 3


def test_flat_call_of_another_vendor_is_given_its_namespace() -> None:
    exec_tool = {"type": "custom", "name": "exec"}
    group = {"type": "namespace", "name": "functions", "description": "", "tools": [exec_tool]}
    request = {"model": "m", "input": "hi", "tools": [group]}
    translated = translate_request(request, to="anthropic", dialect="openai_responses")
    (tool,) = translated.body["tools"]
    flat = ToolCall("c1", tool["name"], '{"input":"ls"}')
    answer = Message("m", "m", (flat,), stop_reason="tool_use")
    body = encode_message(answer, "openai_responses", reply=translated.reply).body
    (item,) = body["output"]
    assert item["type"] == "custom_tool_call"
    assert (item["name"], item["namespace"], item["input"]) == ("exec", "functions", "ls")


def test_output_indexes_are_dense_and_used_once(payloads: Payloads) -> None:
    numbers = [event["output_index"] for event in find(payloads, "output_item.added")]
    assert numbers == list(range(len(RUNS)))


def test_ids_are_used_once(payloads: Payloads) -> None:
    ids = [item["id"] for item in begun_items(payloads).values()]
    assert len(set(ids)) == len(ids)


def test_id_of_the_response_never_changes(payloads: Payloads) -> None:
    assert {event["response"]["id"] for event in payloads if "response" in event} == {"resp_1"}


def test_terminal_holds_the_whole_output_in_order(payloads: Payloads) -> None:
    done = done_items(payloads)
    assert payloads[-1]["response"]["output"] == [done[number] for number in sorted(done)]


def test_terminal_is_the_last_event(payloads: Payloads) -> None:
    assert payloads[-1]["type"] == "response.completed"


@pytest.mark.parametrize("cut", [0, 3, 9])
def test_failed_stream_has_both_error_events_and_closes_nothing(cut: int) -> None:
    events = in_turn()[:cut]
    payloads, _ = write([MESSAGE_START, *events, StreamError("truncated", "cut")])
    assert [event["type"] for event in payloads[-2:]] == ["error", "response.failed"]
    before, _ = write([MESSAGE_START, *events])
    assert payloads[:-2] == before
    whole = list(done_items(before).values())
    assert payloads[-1]["response"]["output"] == whole


def test_complete_response_is_never_incomplete() -> None:
    payloads, _ = write(
        [MESSAGE_START, *in_turn(), MessageStop("stop_sequence", stop_sequence="END")]
    )
    assert payloads[-1]["type"] == "response.completed"


def test_every_event_is_numbered_and_text_has_logprobs(payloads: Payloads) -> None:
    """`write` checks the numbers, which have no gap."""
    texts = [*find(payloads, "output_text.delta"), *find(payloads, "output_text.done")]
    assert [event["logprobs"] for event in texts] == [[]] * 3


def test_every_event_has_data() -> None:
    writer = ResponsesEncoder()
    wire = b"".join(map(writer.encode, [MESSAGE_START, *in_turn(), Ping(), *END]))
    for frame in wire.removesuffix(b"\n\n").split(b"\n\n"):
        name, data = frame.split(b"\n")
        assert name.startswith(b"event: ")
        assert data.startswith(b"data: {")


def test_counts_have_all_the_details_that_codex_needs(payloads: Payloads) -> None:
    assert payloads[-1]["response"]["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 7,
    }


def test_only_events_that_every_client_knows_are_written(payloads: Payloads) -> None:
    union, *_ = typing.get_args(ResponseStreamEvent)
    known = {
        typing.get_args(member.model_fields["type"].annotation)[0]
        for member in typing.get_args(union)
    }
    assert {event["type"] for event in payloads} <= known
