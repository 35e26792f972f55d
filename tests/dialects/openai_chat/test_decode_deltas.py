"""The content of a delta: its fields, their order, and parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.chunks import (
    DONE,
    blocks_of,
    call,
    calls,
    chunk,
    content,
    decode,
    message,
    opaques_of,
)

from streamnorm import (
    BlockStart,
    Citation,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    TextDelta,
    ToolCall,
)

END = chunk({}, "stop") + DONE
A = '{"a":1}'


def test_delta_is_read_as_reasoning_then_text_then_refusal_then_calls() -> None:
    delta = {
        "tool_calls": [call(0, "x", "f", A)],
        "refusal": "no",
        "content": "text",
        "reasoning_content": "thought",
    }
    assert blocks_of(delta) == (
        *(Reasoning(("thought",)), Text("text"), Refusal("no"), ToolCall("x", "f", A)),
    )


@pytest.mark.parametrize("role", ["assistant", "", None])
def test_role_on_every_delta_is_ignored(role: str | None) -> None:
    deltas = [{"role": role, "content": text} for text in ("a", "b")]
    assert blocks_of(*deltas) == (Text("ab"),)


def test_text_in_the_last_chunk_is_read() -> None:
    assert message(content("a"), content("b", "stop"), DONE).text == "ab"


def test_delta_null_or_absent_is_empty() -> None:
    absent = b'data: {"id":"1","choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
    null = b'data: {"id":"1","choices":[{"index":0,"delta":null}]}\n\n'
    assert message(null, content("a"), null, absent, DONE).blocks == (Text("a"),)


def whole(text: str, **fields: Any) -> bytes:
    part = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return b"data: " + json.dumps({"id": "1", "choices": [{**part, **fields}]}).encode() + b"\n\n"


def test_whole_message_after_deltas_is_ignored() -> None:
    assert message(content("a"), content("b"), whole("ab"), DONE).blocks == (Text("ab"),)
    assert message(calls(call(0, "x", "f", A)), whole("ab"), DONE).blocks == (
        ToolCall("x", "f", A),
    )


def test_whole_message_beside_a_delta_is_ignored() -> None:
    assert message(whole("ab", delta={"content": "a"}), DONE).blocks == (Text("a"),)


def test_whole_message_without_deltas_is_read() -> None:
    assert message(whole("ab"), DONE).blocks == (Text("ab"),)


def test_whole_message_that_repeats_the_first_or_is_empty_is_ignored() -> None:
    frames = whole("ab", finish_reason=None), whole("ab", finish_reason=None), whole("")
    assert message(*frames, DONE).blocks == (Text("ab"),)
    frames = whole("", finish_reason=None), content("ab"), whole("ab")
    assert message(*frames, DONE).blocks == (Text("ab"),)


def test_other_whole_message_after_the_first_is_malformed() -> None:
    """Its text is in no delta, and was lost; the official SDKs read none of them."""
    error = decode(whole("a", finish_reason=None), whole("b"), DONE).events[-1]
    assert (error.kind, error.message) == (
        "malformed",
        "second whole message of a choice, expected deltas",
    )


def legacy(text: str, finish_reason: str | None = None) -> bytes:
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": finish_reason}
    return (
        b"data: %b\n\n"
        % json.dumps(
            {"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice]}
        ).encode()
    )


@pytest.mark.parametrize(
    "frames",
    [
        [legacy("Hi"), legacy("", "stop")],
        [legacy(""), legacy("Hi"), legacy("", "stop")],
        [b'data: {"id":"cmpl-1","choices":[]}\n\n', legacy("Hi"), legacy("", "stop")],
    ],
)
def test_stream_of_legacy_completions_is_malformed(frames: list[bytes]) -> None:
    """`/v1/completions` has texts in place of deltas: the answer was empty."""
    error = decode(*frames, DONE).events[-1]
    assert (error.kind, error.message) == (
        "malformed",
        "choice with the text of a legacy completion, expected a delta",
    )


def test_text_beside_a_delta_is_ignored() -> None:
    both = b'data: {"id":"1","choices":[{"index":0,"text":"a","delta":{"content":"a"}}]}\n\n'
    assert message(both, content("b", "stop"), DONE).text == "ab"


def test_whole_message_of_another_shape_is_malformed() -> None:
    bad = b'data: {"id":"1","choices":[{"message":{"content":5}}]}\n\n'
    error = decode(bad, DONE).events[-1]
    assert error.kind == "malformed"


def test_empty_text_between_fragments_of_a_call_starts_no_block() -> None:
    deltas = [
        {"tool_calls": [call(0, "x", "f", A[:3])], "content": ""},
        {"content": ""},
        {"tool_calls": [call(0, arguments=A[3:])], "content": None},
    ]
    assert blocks_of(*deltas) == (ToolCall("x", "f", A),)


def test_white_space_before_a_call_is_text() -> None:
    assert blocks_of({"content": "\n\n"}, {"tool_calls": [call(0, "x", "f", A)]}) == (
        *(Text("\n\n"), ToolCall("x", "f", A)),
    )


def test_content_in_parts_is_read_part_by_part() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "th"}, {"text": "ink"}]},
        {"type": "text", "text": "te"},
        "xt",
        {"type": "text", "text": ""},
    ]
    assert blocks_of({"content": parts}) == (Reasoning(("think",)), Text("text"))


def test_empty_parts_start_no_block() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": ""}]}
    assert blocks_of({"content": ["", {"type": "text", "text": ""}, thinking]}) == ()


@pytest.mark.parametrize("signature", ["", None, 5])
def test_thinking_part_without_a_signature_signs_nothing(signature: object) -> None:
    part = {"type": "thinking", "thinking": [{"text": "t"}], "signature": signature}
    assert blocks_of({"content": [part]}) == (Reasoning(("t",)),)


def test_signed_thinking_part_keeps_its_signature() -> None:
    part = {"type": "thinking", "thinking": [{"text": "t"}], "signature": "s"}
    assert blocks_of({"content": [part]}) == (Reasoning(("t",), "s", "mistral"),)


UNKNOWN: list[Any] = [
    {"type": "reference", "reference_ids": [1]},
    {"type": "text", "text": 5},
    {"type": "thinking", "thinking": "t"},
    7,
]


@pytest.mark.parametrize("part", UNKNOWN)
def test_unknown_part_is_opaque(part: Any) -> None:
    assert opaques_of({"content": [part]}) == [("content_part", part)]


def test_unknown_part_within_thinking_is_opaque() -> None:
    part = {"type": "thinking", "thinking": [{"type": "reference", "ids": [1]}, "t"]}
    assert opaques_of({"content": [part]}) == [
        *(("content_part", {"type": "reference", "ids": [1]}), ("content_part", "t")),
    ]


@pytest.mark.parametrize("name", ["audio", "executed_tools", "images"])
def test_field_without_unified_event_is_opaque_right_after_the_delta(name: str) -> None:
    decoded = decode(chunk({"content": "a", name: [{"id": 1}]}), content("b"), END)
    assert decoded.events[1:5] == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(Opaque("openai_chat", name, '[{"id":1}]', 0), TextDelta(0, "b")),
    ]
    assert opaques_of({name: None}, {name: []}) == []


def test_opaque_data_never_holds_a_lone_surrogate() -> None:
    assert opaques_of({"content": [{"type": "x", "text": "\ud83d"}]}) == [
        ("content_part", {"type": "x", "text": "�"})
    ]
    annotation = {"type": "x", "x": {"content": "\ud83d", "text": "\ude00"}}
    assert blocks_of({"content": "a"}, {"annotations": [annotation]}) == (
        Text("a", (Citation("x", cited_text="�", extra={"text": "�"}),)),
    )
