"""What one delta holds, in which order, and under which names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode, message, reasoning

from streamnorm import (
    Block,
    BlockStart,
    Citation,
    Event,
    Opaque,
    Reasoning,
    RedactedReasoning,
    Refusal,
    SignatureDelta,
    Text,
    TextDelta,
    ToolCall,
)

END = chunk({}, "stop") + DONE
A = '{"a":1}'


def blocks(*deltas: dict[str, Any] | None) -> tuple[Block, ...]:
    return message(*map(chunk, deltas), END).blocks


def opaques(*deltas: dict[str, Any]) -> list[tuple[str, object]]:
    events: list[Event] = decode(*map(chunk, deltas), END).events
    return [(event.name, json.loads(event.data)) for event in events if isinstance(event, Opaque)]


def test_delta_is_read_as_reasoning_then_text_then_refusal_then_calls() -> None:
    delta = {
        "tool_calls": [call(0, "x", "f", A)],
        "refusal": "no",
        "content": "text",
        "reasoning_content": "thought",
    }
    assert blocks(delta) == (
        *(Reasoning(("thought",)), Text("text"), Refusal("no"), ToolCall("x", "f", A)),
    )


@pytest.mark.parametrize("role", ["assistant", "", None])
def test_role_on_every_delta_says_nothing(role: str | None) -> None:
    deltas = [{"role": role, "content": text} for text in ("a", "b")]
    assert blocks(*deltas) == (Text("ab"),)


def test_text_in_the_chunk_that_finishes_comes_first() -> None:
    assert message(content("a"), content("b", "stop"), DONE).text == "ab"


def test_delta_null_or_absent_is_empty() -> None:
    absent = b'data: {"id":"1","choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
    null = b'data: {"id":"1","choices":[{"index":0,"delta":null}]}\n\n'
    assert message(null, content("a"), null, absent, DONE).blocks == (Text("a"),)


def whole(text: str, **fields: Any) -> bytes:
    part = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return b"data: " + json.dumps({"id": "1", "choices": [{**part, **fields}]}).encode() + b"\n\n"


def test_whole_message_behind_the_deltas_is_not_repeated() -> None:
    assert message(content("a"), content("b"), whole("ab"), DONE).blocks == (Text("ab"),)
    assert message(calls(call(0, "x", "f", A)), whole("ab"), DONE).blocks == (
        ToolCall("x", "f", A),
    )


def test_whole_message_beside_a_delta_is_not_repeated() -> None:
    assert message(whole("ab", delta={"content": "a"}), DONE).blocks == (Text("a"),)


def test_whole_message_without_deltas_is_the_answer() -> None:
    assert message(whole("ab"), DONE).blocks == (Text("ab"),)


def test_whole_message_of_another_shape_is_malformed() -> None:
    bad = b'data: {"id":"1","choices":[{"message":{"content":5}}]}\n\n'
    error = decode(bad, DONE).events[-1]
    assert error.kind == "malformed"


def test_empty_text_between_pieces_of_a_call_ends_nothing() -> None:
    deltas = [
        {"tool_calls": [call(0, "x", "f", A[:3])], "content": ""},
        {"content": ""},
        {"tool_calls": [call(0, arguments=A[3:])], "content": None},
    ]
    assert blocks(*deltas) == (ToolCall("x", "f", A),)


def test_white_space_before_a_call_is_text_like_any_other() -> None:
    assert blocks({"content": "\n\n"}, {"tool_calls": [call(0, "x", "f", A)]}) == (
        *(Text("\n\n"), ToolCall("x", "f", A)),
    )


def test_content_in_parts_is_read_part_by_part() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "th"}, {"text": "ink"}]},
        {"type": "text", "text": "te"},
        "xt",
        {"type": "text", "text": ""},
    ]
    assert blocks({"content": parts}) == (Reasoning(("think",)), Text("text"))


def test_empty_parts_begin_no_block() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": ""}]}
    assert blocks({"content": ["", {"type": "text", "text": ""}, thinking]}) == ()


def test_signed_thinking_part_keeps_its_signature() -> None:
    part = {"type": "thinking", "thinking": [{"text": "t"}], "signature": "s"}
    assert blocks({"content": [part]}) == (Reasoning(("t",), "s", "mistral"),)


UNKNOWN: list[Any] = [
    {"type": "reference", "reference_ids": [1]},
    {"type": "text", "text": 5},
    {"type": "thinking", "thinking": "t"},
    7,
]


@pytest.mark.parametrize("part", UNKNOWN)
def test_part_of_another_shape_is_opaque(part: Any) -> None:
    assert opaques({"content": [part]}) == [("content_part", part)]


def test_thought_of_another_shape_is_opaque() -> None:
    part = {"type": "thinking", "thinking": [{"type": "reference", "ids": [1]}, "t"]}
    assert opaques({"content": [part]}) == [
        *(("content_part", {"type": "reference", "ids": [1]}), ("content_part", "t")),
    ]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_under_either_name_is_reasoning(name: str) -> None:
    assert blocks({name: "a"}, {name: "b"}, {"content": "c"}) == (Reasoning(("ab",)), Text("c"))


def test_reasoning_under_both_names_is_read_once() -> None:
    assert blocks({"reasoning_content": "a", "reasoning": "a"}) == (Reasoning(("a",)),)


def details(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"reasoning_details": list(items), **fields}


def test_reasoning_details_go_before_the_plain_field() -> None:
    detail = {"type": "reasoning.text", "text": "a", "index": 0}
    assert blocks(details(detail, reasoning="a")) == (Reasoning(("a",)),)


def test_reasoning_summary_is_reasoning() -> None:
    assert blocks(details({"type": "reasoning.summary", "summary": "a"})) == (Reasoning(("a",)),)


def test_plain_field_is_read_where_the_details_have_no_text() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e", "format": "openai-responses-v1"}
    assert blocks(details(detail, reasoning="a")) == (Reasoning(("a",), "e", "openai"),)
    assert blocks(details({"type": "reasoning.text", "text": None}, reasoning="a")) == (
        Reasoning(("a",)),
    )
    assert blocks(details({"type": "reasoning.text", "text": {}}, reasoning="a")) == (
        Reasoning(("a",)),
    )


@pytest.mark.parametrize(
    ("format", "issuer"),
    [
        ("anthropic-claude-v1", "anthropic"),
        ("openai-responses-v1", "openai"),
        ("azure-openai-responses-v1", "openai"),
        ("xai-responses-v1", "xai"),
        ("google-gemini-v1", "google"),
        ("unknown", None),
        (None, None),
    ],
)
def test_format_of_a_signature_names_its_issuer(format: str | None, issuer: str | None) -> None:
    detail = {"type": "reasoning.text", "text": "a", "signature": "s==", "format": format}
    assert blocks(details(detail)) == (Reasoning(("a",), "s==", issuer),)


def test_encrypted_reasoning_of_anthropic_is_a_block_of_its_own() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e==", "format": "anthropic-claude-v1"}
    assert blocks({"reasoning": "a"}, details(detail)) == (
        *(Reasoning(("a",)), RedactedReasoning("e==", "anthropic")),
    )


def test_encrypted_reasoning_of_others_signs_the_reasoning_before_it() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e==", "format": "xai-responses-v1"}
    assert blocks({"reasoning": "a"}, details(detail)) == (Reasoning(("a",), "e==", "xai"),)


def test_encrypted_reasoning_without_reasoning_stands_alone() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e==", "format": "openai-responses-v1"}
    assert blocks(details(detail), {"content": "c"}) == (
        RedactedReasoning("e==", "openai"),
        Text("c"),
    )


def test_encrypted_reasoning_of_google_signs_the_call_of_its_id() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e", "format": "google-gemini-v1", "id": "x"}
    assert blocks({"tool_calls": [call(0, "x", "f", A)]}, details(detail)) == (
        ToolCall("x", "f", A, signature="e", issuer="google"),
    )
    assert blocks({"reasoning": "a"}, details({**detail, "id": None})) == (
        Reasoning(("a",), "e", "google"),
    )


def test_detail_of_another_type_is_opaque() -> None:
    detail = {"type": "reasoning.server_tool_call", "x": 1}
    assert opaques(details(detail)) == [("reasoning_details", detail)]
    empty = {"type": "reasoning.encrypted", "data": ""}
    assert decode(chunk(details(empty)), END).events[1:-1] == []


def test_detail_that_is_no_object_is_passed_over() -> None:
    assert blocks({"reasoning_details": ["a", None], "reasoning": "b"}) == (Reasoning(("b",)),)


def test_inline_think_tags_are_text_unless_asked_for() -> None:
    assert message(content("<think>a</think>b"), END).blocks == (Text("<think>a</think>b"),)
    assert message(content("<think>a</think>b"), END, think_tags=True).blocks == (
        *(Reasoning(("a",)), Text("b")),
    )


def test_reasoning_that_resumes_is_a_new_block() -> None:
    frames = (
        reasoning("a"),
        content("b"),
        reasoning("c"),
        calls(call(0, "x", "f", A)),
        reasoning("d"),
    )
    assert message(*frames, END).blocks == (
        *(Reasoning(("a",)), Text("b"), Reasoning(("c",)), ToolCall("x", "f", A)),
        Reasoning(("d",)),
    )


URL = {"url": "https://e.org", "title": "E", "content": "words", "start_index": 1, "end_index": 3}


def test_annotation_is_a_source_of_the_text() -> None:
    annotation = {"type": "url_citation", "url_citation": {**URL, "extra": 1, "none": None}}
    assert blocks({"content": "text"}, {"annotations": [annotation]}) == (
        Text(
            "text", (Citation("url_citation", "https://e.org", "E", "words", 1, 3, {"extra": 1}),)
        ),
    )


def test_flat_annotation_is_a_source_too() -> None:
    assert blocks({"content": "text", "annotations": [{"type": "url_citation", **URL}]}) == (
        Text("text", (Citation("url_citation", "https://e.org", "E", "words", 1, 3),)),
    )


def test_characters_of_a_source_count_only_where_there_is_one_text() -> None:
    deltas = [{"content": "a"}, {"reasoning": "r"}, {"content": "b"}]
    read = blocks(*deltas, {"annotations": [{"type": "url_citation", **URL}]})
    assert read[2] == Text(
        "b",
        (
            Citation(
                "url_citation",
                "https://e.org",
                "E",
                "words",
                extra={"start_index": 1, "end_index": 3},
            ),
        ),
    )


def test_odd_fields_of_a_source_are_kept_as_they_are() -> None:
    odd = {"type": "file", "url": 5, "title": None, "start_index": True}
    assert blocks({"content": "a"}, {"annotations": [odd]}) == (
        Text("a", (Citation("file", extra={"url": 5, "start_index": True}),)),
    )


def test_annotation_without_a_text_or_a_type_is_opaque() -> None:
    sourced = {"type": "url_citation", "url_citation": {}}
    assert opaques({"annotations": [sourced]}) == [("annotations", sourced)]
    assert opaques({"content": "a"}, {"annotations": [{"url": "u"}, "x"]}) == [
        *(("annotations", {"url": "u"}), ("annotations", "x")),
    ]


@pytest.mark.parametrize("name", ["audio", "executed_tools", "images"])
def test_what_has_no_event_is_opaque_right_behind_the_delta(name: str) -> None:
    decoded = decode(chunk({"content": "a", name: [{"id": 1}]}), content("b"), END)
    assert decoded.events[1:5] == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(Opaque("openai_chat", name, '[{"id":1}]', 0), TextDelta(0, "b")),
    ]
    assert opaques({name: None}, {name: []}) == []


def test_opaque_data_never_holds_half_a_character() -> None:
    assert opaques({"content": [{"type": "x", "text": "\ud83d"}]}) == [
        ("content_part", {"type": "x", "text": "�"})
    ]
    annotation = {"type": "x", "x": {"content": "\ud83d", "text": "\ude00"}}
    assert blocks({"content": "a"}, {"annotations": [annotation]}) == (
        Text("a", (Citation("x", cited_text="�", extra={"text": "�"}),)),
    )


def test_signature_never_holds_half_a_character() -> None:
    detail = {"type": "reasoning.text", "text": "a", "signature": "s\ud83d"}
    events = decode(chunk(details(detail)), END).events
    assert SignatureDelta(0, "s�") in events
