"""Writers of reasoning and tool calls, event by event."""

from __future__ import annotations

from typing import Literal

import pytest
from support.openai_responses.streams import MESSAGE_START, encode, find, types, write

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Loss,
    MessageStop,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
    StopReason,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)

# Reasoning


def test_reasoning_is_written_as_summaries() -> None:
    payloads = encode(
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b"),
        ReasoningDelta(0, "c", 1),
        SignatureDelta(0, "gAAA", "openai", "rs_1_0"),
        BlockStop(0),
    )
    part = {"type": "summary_text"}
    place = {"item_id": "rs_1_0", "output_index": 0}
    event = "response.reasoning_summary_"
    assert payloads == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"id": "rs_1_0", "type": "reasoning", "summary": []},
        },
        {"type": f"{event}part.added", **place, "summary_index": 0, "part": {**part, "text": ""}},
        {"type": f"{event}text.delta", **place, "summary_index": 0, "delta": "a"},
        {"type": f"{event}text.delta", **place, "summary_index": 0, "delta": "b"},
        {"type": f"{event}text.done", **place, "summary_index": 0, "text": "ab"},
        {"type": f"{event}part.done", **place, "summary_index": 0, "part": {**part, "text": "ab"}},
        {"type": f"{event}part.added", **place, "summary_index": 1, "part": {**part, "text": ""}},
        {"type": f"{event}text.delta", **place, "summary_index": 1, "delta": "c"},
        {"type": f"{event}text.done", **place, "summary_index": 1, "text": "c"},
        {"type": f"{event}part.done", **place, "summary_index": 1, "part": {**part, "text": "c"}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {
                "id": "rs_1_0",
                "type": "reasoning",
                "summary": [{**part, "text": "ab"}, {**part, "text": "c"}],
                "encrypted_content": "gAAA",
            },
        },
    ]


def test_skipped_summary_is_written_empty() -> None:
    payloads = encode(BlockStart(0, Reasoning()), ReasoningDelta(0, "c", 1), BlockStop(0))
    assert [event["summary_index"] for event in payloads[1:-1]] == [0, 0, 0, 1, 1, 1, 1]
    summary = payloads[-1]["item"]["summary"]
    assert [part["text"] for part in summary] == ["", "c"]


def test_summary_with_a_delta_after_the_next_one_is_ended_again() -> None:
    deltas = [ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1), ReasoningDelta(0, "!")]
    payloads = encode(BlockStart(0, Reasoning()), *deltas, BlockStop(0))
    ends = [(e["summary_index"], e["text"]) for e in find(payloads, "reasoning_summary_text.done")]
    assert ends == [(0, "a"), (0, "a!"), (1, "b")]
    assert [part["text"] for part in payloads[-1]["item"]["summary"]] == ["a!", "b"]


@pytest.mark.parametrize(
    ("issuer", "id", "value"),
    [
        ("openai", "rs_1_0", "c2ln"),
        ("openai", "rs_of_openai", "sn1-id.openai.rs_of_openai.c2ln"),
        ("openai", None, "sn1.openai.c2ln"),
        ("xai", "rs_1_0", "sn1-id.xai.rs_1_0.c2ln"),
        ("anthropic", None, "sn1.anthropic.c2ln"),
        (None, None, "sn1..c2ln"),
    ],
)
def test_encrypted_content_names_its_issuer_and_its_id(
    issuer: str | None, id: str | None, value: str
) -> None:
    """OpenAI refuses what it issued under another id than that of the item."""
    delta = SignatureDelta(0, "c2ln", issuer, id)
    signed = encode(BlockStart(0, Reasoning()), delta, BlockStop(0))
    assert types(signed) == ["output_item.added", "output_item.done"]
    assert signed[0]["item"] == {"id": "rs_1_0", "type": "reasoning", "summary": []}
    assert signed[1]["item"] == {**signed[0]["item"], "encrypted_content": value}


@pytest.mark.parametrize(
    ("issuer", "value"),
    [
        ("anthropic", "sn1-redacted.anthropic.c2ln"),
        (None, "sn1-redacted..c2ln"),
    ],
)
def test_redacted_reasoning_is_written_at_its_start(issuer: str | None, value: str) -> None:
    block = RedactedReasoning("c2ln", issuer)
    started, done = encode(BlockStart(0, block), BlockStop(0))
    item = {"id": "rs_1_0", "type": "reasoning", "summary": [], "encrypted_content": value}
    assert started["item"] == done["item"] == item


def test_reasoning_can_be_left_out() -> None:
    events = [BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), BlockStop(0)]
    payloads, writer = write([MESSAGE_START, *events], reasoning=None)
    assert payloads[2:] == []
    assert writer.losses == (Loss("reasoning", "Reasoning", 1, "dropped"),)


# Calls


def test_call_is_added_filled_and_done() -> None:
    place = {"item_id": "fc_1_0", "output_index": 0}
    call = {"id": "fc_1_0", "type": "function_call"}
    named = {"call_id": "functions.f:0", "name": "f"}
    event = "response.function_call_arguments"
    assert encode(
        BlockStart(0, ToolCall("functions.f:0", "f")),
        JSONDelta(0, '{"a":'),
        JSONDelta(0, "1}"),
        BlockStop(0),
    ) == [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**call, "status": "in_progress", **named, "arguments": ""},
        },
        {"type": f"{event}.delta", **place, "delta": '{"a":'},
        {"type": f"{event}.delta", **place, "delta": "1}"},
        {"type": f"{event}.done", **place, "arguments": '{"a":1}'},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**call, "status": "completed", **named, "arguments": '{"a":1}'},
        },
    ]


def test_call_without_arguments_gets_an_empty_object_at_its_stop() -> None:
    payloads = encode(BlockStart(0, ToolCall("c", "f")), BlockStop(0))
    assert (
        payloads[1]["delta"] == payloads[2]["arguments"] == payloads[3]["item"]["arguments"] == "{}"
    )
    null = encode(BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "null"), BlockStop(0))
    assert null[-1]["item"]["arguments"] == "null"


def test_custom_call_has_free_text_that_may_be_empty() -> None:
    custom = ToolCall("c", "f", kind="custom")
    payloads = encode(BlockStart(0, custom), JSONDelta(0, "free"), BlockStop(0))
    assert types(payloads)[1:3] == ["custom_tool_call_input.delta", "custom_tool_call_input.done"]
    assert payloads[0]["item"] == {
        "id": "ctc_1_0",
        "type": "custom_tool_call",
        "status": "in_progress",
        "call_id": "c",
        "name": "f",
        "input": "",
    }
    assert payloads[2]["input"] == payloads[3]["item"]["input"] == "free"
    assert types(encode(BlockStart(0, custom), BlockStop(0)))[1:] == [
        *("custom_tool_call_input.done", "output_item.done"),
    ]


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_namespace_is_a_field_of_the_item(kind: Literal["function", "custom"]) -> None:
    call = ToolCall("c", "get", kind=kind, namespace="crm")
    payloads = encode(BlockStart(0, call), BlockStop(0), MessageStop("tool_use"))
    items = [payloads[0]["item"], payloads[-2]["item"], payloads[-1]["response"]["output"][0]]
    assert [(item["name"], item["namespace"]) for item in items] == [("get", "crm")] * 3
    plain = encode(BlockStart(0, ToolCall("c", "get", kind=kind)), BlockStop(0))
    assert all("namespace" not in payload.get("item", {}) for payload in plain)


def test_overlapping_blocks_keep_their_output_index() -> None:
    payloads = encode(
        BlockStart(0, ToolCall("a", "f")),
        BlockStart(1, Text()),
        JSONDelta(0, "[]"),
        TextDelta(1, "x"),
        BlockStop(1),
        BlockStop(0),
        MessageStop("tool_use"),
    )
    assert [event["output_index"] for event in payloads[:-1]] == [0, 1, 1, 0, 1, 1, 1, 1, 0, 0]
    assert [item["type"] for item in payloads[-1]["response"]["output"]] == [
        *("function_call", "message"),
    ]


# Unfinished calls


UNFINISHED = [BlockStart(0, ToolCall("c", "f")), JSONDelta(0, '{"path":'), BlockStop(0)]


@pytest.mark.parametrize(
    ("reason", "status", "of_response"),
    [
        ("max_tokens", "incomplete", "incomplete"),
        ("tool_use", "completed", "completed"),
        ("other", "incomplete", "completed"),  # a server that states no reason
    ],
)
def test_unfinished_call_is_done_at_the_end_as_far_as_its_answer_is_complete(
    reason: StopReason, status: str, of_response: str
) -> None:
    """Some clients execute a call at its `done`, whatever the response says later.

    Others, such as opencode, read no call that is incomplete: in a complete response, they answer
    the model's mistake, as from OpenAI.
    """
    answer = [BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1)]
    payloads = encode(*UNFINISHED, *answer, MessageStop(reason))
    names = [name for name in types(payloads) if name.endswith("item.done") or "arguments" in name]
    assert names == [
        "function_call_arguments.delta",
        "output_item.done",  # of the text
        "function_call_arguments.done",
        "output_item.done",
    ]
    call, end = payloads[-2]["item"], payloads[-1]["response"]
    assert (call["status"], call["arguments"]) == (status, '{"path":')
    assert end["output"][0] == call
    assert end["status"] == of_response


def test_unfinished_custom_call_is_never_done() -> None:
    """Codex executes it there, whatever the status; free text cannot show that it was cut."""
    start = BlockStart(0, ToolCall("c", "f", kind="custom"))
    events = (start, JSONDelta(0, "*** Beg"), BlockStop(0, is_unfinished=True))
    payloads = encode(*events, MessageStop("max_tokens"))
    assert types(payloads) == [
        *("output_item.added", "custom_tool_call_input.delta", "incomplete"),
    ]
    (item,) = payloads[-1]["response"]["output"]
    assert item == {**payloads[0]["item"], "status": "incomplete", "input": "*** Beg"}
    cut = encode(*events, StreamError("truncated", "cut"))
    assert cut[-1]["response"].get("output", []) == []


def test_unfinished_call_of_a_failed_stream_is_never_done() -> None:
    payloads = encode(*UNFINISHED, StreamError("truncated", "cut"))
    assert types(payloads)[-3:] == ["function_call_arguments.delta", "error", "failed"]
    assert payloads[-1]["response"].get("output", []) == []
