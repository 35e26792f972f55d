"""Messages of the assistant: reasoning, content, refusals and calls, read and written."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.sdk_types import problems
from support.openai_chat.requests import asked, body_of, lost_by, message, read, read_message, write

from streamnorm import (
    CacheMark,
    DecodeError,
    EncodeError,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.text import tag_signature


def function(id: str = "c1", name: str = "f", arguments: str = '{"t":1}', **more: Any) -> Any:
    """Return a call of a function on the wire."""
    inner = {"name": name, "arguments": arguments}
    return {"id": id, "type": "function", "function": inner, **more}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


BOTH_WAYS: dict[str, tuple[dict[str, Any], InputMessage]] = {
    "text": (assistant(content="Hi"), message("assistant", Text("Hi"))),
    "name": (assistant(name="bot", content="Hi"), message("assistant", Text("Hi"), name="bot")),
    "nothing": (assistant(content=""), message("assistant")),
    "refusal": (assistant(refusal="No."), message("assistant", Refusal("No."))),
    "refusal before text": (
        assistant(
            content=[{"type": "refusal", "refusal": "No."}, {"type": "text", "text": "But:"}]
        ),
        message("assistant", Refusal("No."), Text("But:")),
    ),
    "call": (
        assistant(tool_calls=[function()]),
        message("assistant", ToolCall("c1", "f", '{"t":1}')),
    ),
    "text and calls": (
        assistant(content="Hi", tool_calls=[function("c1"), function("c2", arguments="{ }")]),
        message(
            "assistant", Text("Hi"), ToolCall("c1", "f", '{"t":1}'), ToolCall("c2", "f", "{ }")
        ),
    ),
    "custom call": (
        assistant(
            tool_calls=[
                {"id": "c1", "type": "custom", "custom": {"name": "p", "input": '*** "x"\n'}}
            ]
        ),
        message("assistant", ToolCall("c1", "p", '*** "x"\n', "custom")),
    ),
    "audio": (
        assistant(audio={"id": "audio_1"}),
        message("assistant", extra={"openai_chat": {"audio": {"id": "audio_1"}}}),
    ),
    "null content": (
        assistant(content=None, tool_calls=[function()]),
        message(
            "assistant",
            ToolCall("c1", "f", '{"t":1}'),
            extra={"openai_chat": {"content": None}},
        ),
    ),
}
SERVERS: dict[str, tuple[dict[str, Any], InputMessage]] = {
    "reasoning of DeepSeek": (
        assistant(reasoning_content="Hm.", content="Hi"),
        message("assistant", Reasoning(("Hm.",)), Text("Hi")),
    ),
    "prefix of Mistral": (
        assistant(content="{", prefix=True),
        message("assistant", Text("{"), extra={"openai_chat": {"prefix": True}}),
    ),
    "signed call of Google": (
        assistant(tool_calls=[function(extra_content={"google": {"thought_signature": "c2ln"}})]),
        message("assistant", ToolCall("c1", "f", '{"t":1}', signature="c2ln", issuer="google")),
    ),
    "signed call of another vendor": (
        assistant(
            tool_calls=[
                function(
                    extra_content={"google": {"thought_signature": tag_signature("s", "vendor")}}
                )
            ]
        ),
        message("assistant", ToolCall("c1", "f", '{"t":1}', signature="s", issuer="vendor")),
    ),
    "call with a number": (
        assistant(tool_calls=[function(index=0)]),
        message("assistant", ToolCall("c1", "f", '{"t":1}', extra={"openai_chat": {"index": 0}})),
    ),
    "details": (
        assistant(
            reasoning_details=[
                {
                    "type": "reasoning.text",
                    "index": 0,
                    "text": "Hm.",
                    "signature": "EqQB",
                    "format": "anthropic-claude-v1",
                },
                {
                    "type": "reasoning.encrypted",
                    "index": 1,
                    "data": "gAAA",
                    "format": "anthropic-claude-v1",
                },
            ],
            content="Hi",
        ),
        message(
            "assistant",
            Reasoning(("Hm.",), "EqQB", "anthropic"),
            RedactedReasoning("gAAA", "anthropic"),
            Text("Hi"),
        ),
    ),
}


@pytest.mark.parametrize(("value", "unified"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_messages_are_read_and_written(value: dict[str, Any], unified: InputMessage) -> None:
    assert read_message(value) == unified
    body = write(asked(unified))
    assert body["messages"] == [value]
    assert problems("openai_chat", body) == []


@pytest.mark.parametrize(("value", "unified"), SERVERS.values(), ids=SERVERS)
def test_messages_of_servers_are_read_and_written(
    value: dict[str, Any], unified: InputMessage
) -> None:
    assert read_message(value) == unified
    assert write(asked(unified))["messages"] == [value]


READ: dict[str, tuple[dict[str, Any], InputMessage]] = {
    "reasoning of vLLM": (
        assistant(reasoning="Hm."),
        message("assistant", Reasoning(("Hm.",))),
    ),
    "reasoning that is empty": (
        assistant(reasoning_content="", content="Hi"),
        message("assistant", Text("Hi")),
    ),
    "parts": (
        assistant(
            content=[
                {"type": "text", "text": "A"},
                {"type": "text", "text": "B"},
                {"type": "refusal", "refusal": "No."},
            ]
        ),
        message("assistant", Text("A"), Text("B"), Refusal("No.")),
    ),
    "call without type and id": (
        assistant(tool_calls=[{"function": {"name": "f"}}]),
        message("assistant", ToolCall("", "f")),
    ),
    "custom call without type": (
        assistant(tool_calls=[{"id": "c", "custom": {"name": "f", "input": "x"}}]),
        message("assistant", ToolCall("c", "f", "x", "custom")),
    ),
    "arguments as an object": (
        assistant(tool_calls=[function(arguments={"b": 1, "a": "é"})]),  # type: ignore[arg-type]
        message("assistant", ToolCall("c1", "f", '{"b":1,"a":"é"}')),
    ),
    "arguments that are null": (
        assistant(tool_calls=[function(arguments=None)]),  # type: ignore[arg-type]
        message(
            "assistant",
            ToolCall("c1", "f", extra={"openai_chat": {"function": {"arguments": None}}}),
        ),
    ),
    "legacy call": (
        assistant(content=None, function_call={"name": "f", "arguments": "{}"}),
        message("assistant", ToolCall("", "f", "{}"), extra={"openai_chat": {"content": None}}),
    ),
    "mark": (
        assistant(content="Hi", cache_control={"type": "ephemeral"}),
        message("assistant", Text("Hi", cache=CacheMark())),
    ),
    "signature of Google on a call that follows": (
        assistant(
            reasoning_details=[
                {"type": "reasoning.text", "text": "Hm."},
                {
                    "type": "reasoning.encrypted",
                    "id": "c2",
                    "data": "c2ln",
                    "format": "google-gemini-v1",
                },
            ],
            tool_calls=[function("c1"), function("c2")],
        ),
        message(
            "assistant",
            Reasoning(("Hm.",)),
            ToolCall("c1", "f", '{"t":1}'),
            ToolCall("c2", "f", '{"t":1}', signature="c2ln", issuer="google"),
        ),
    ),
    "unknown detail": (
        assistant(
            reasoning_details=[{"type": "reasoning.text", "text": "Hm."}, {"type": "x", "y": 1}]
        ),
        message(
            "assistant",
            Reasoning(("Hm.",)),
            extra={"openai_chat": {"reasoning_details": [{"type": "x", "y": 1}]}},
        ),
    ),
    "signature with more beside it": (
        assistant(
            tool_calls=[function(extra_content={"google": {"thought_signature": "s", "x": 1}})]
        ),
        message(
            "assistant",
            ToolCall(
                "c1",
                "f",
                '{"t":1}',
                signature="s",
                issuer="google",
                extra={
                    "openai_chat": {"extra_content": {"google": {"thought_signature": "s", "x": 1}}}
                },
            ),
        ),
    ),
}


@pytest.mark.parametrize(("value", "unified"), READ.values(), ids=READ)
def test_other_messages_of_servers_are_read(value: dict[str, Any], unified: InputMessage) -> None:
    assert read_message(value) == unified


def test_a_call_with_other_fields_is_written_with_them() -> None:
    call = function(index=3, extra_content={"vendor": 1})
    call["function"]["parsed"] = None
    read_again = read_message(assistant(tool_calls=[call]))
    assert write(asked(read_again))["messages"] == [assistant(tool_calls=[call])]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    """Most servers parse the arguments of every call in the history."""
    body = write(asked(message("assistant", ToolCall("c1", "f"))))
    assert body["messages"] == [assistant(tool_calls=[function(arguments="{}")])]


def test_texts_of_the_assistant_are_joined() -> None:
    """Servers refuse a list of parts there."""
    request = asked(message("assistant", Text("A"), Text("B")))
    assert write(request)["messages"] == [assistant(content="AB")]
    assert lost_by(request) == ["boundaries"]


def test_text_stands_before_calls_whatever_their_order() -> None:
    request = asked(message("assistant", ToolCall("c1", "f", '{"t":1}'), Text("Hi")))
    assert write(request)["messages"] == [assistant(content="Hi", tool_calls=[function()])]


def test_parts_of_a_server_stay_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    value = assistant(content=[thinking, {"type": "text", "text": "Hi"}])
    read_again = read_message(value)
    assert isinstance(read_again.blocks[0], OpaqueBlock)
    assert write(asked(read_again))["messages"] == [value]


HM, AH = Reasoning(("Hm.",)), Reasoning(("A", "B"))


@pytest.mark.parametrize(
    ("form", "blocks", "value"),
    [
        ("field", (HM, AH), {"reasoning_content": "Hm.\n\nA\n\nB", "content": "Hi"}),
        ("tags", (HM,), {"content": "<think>Hm.</think>Hi"}),
        (
            "part",
            (HM,),
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                    {"type": "text", "text": "Hi"},
                ]
            },
        ),
        (
            "details",
            (HM, AH),
            {
                "reasoning_details": [
                    {"type": "reasoning.text", "index": 0, "text": "Hm."},
                    {"type": "reasoning.text", "index": 1, "text": "A\n\nB"},
                ],
                "content": "Hi",
            },
        ),
        ("extra_content", (HM,), {"content": "Hi"}),
    ],
)
def test_reasoning_goes_back_in_the_form_of_the_server(
    form: str, blocks: tuple[Reasoning, ...], value: dict[str, Any]
) -> None:
    body = write(asked(message("assistant", *blocks, Text("Hi"))), reasoning_form=form)
    assert body["messages"] == [assistant(**value)]


@pytest.mark.parametrize(
    ("issuer", "format"), [("openai", "openai-responses-v1"), ("xai", "xai-responses-v1")]
)
def test_encrypted_reasoning_goes_back_to_its_issuer_as_it_came(issuer: str, format: str) -> None:
    """As charmbracelet/fantasy sends OpenRouter's details back: a summary, and data with its id."""
    named = {"format": format}
    blocks = (
        Reasoning(("A", "B"), "e==", issuer, "rs_1"),
        RedactedReasoning("f==", issuer, "rs_2"),
        Reasoning((), "g==", issuer),
    )
    details = [
        {"type": "reasoning.summary", "index": 0, "summary": "A\n\nB", **named},
        {"type": "reasoning.encrypted", "index": 0, "data": "e==", **named, "id": "rs_1"},
        {"type": "reasoning.encrypted", "index": 1, "data": "f==", **named, "id": "rs_2"},
        {"type": "reasoning.encrypted", "index": 2, "data": "g==", **named},
    ]
    request = asked(message("assistant", *blocks, Text("Hi")))
    body = write(request, reasoning_form="details", reasoning_issuer=issuer)
    assert body["messages"] == [assistant(reasoning_details=details, content="Hi")]
    assert read_message(body["messages"][0]).blocks[:2] == (
        Reasoning(("A\n\nB",), "e==", issuer, "rs_1"),
        blocks[1],
    )


def test_encrypted_reasoning_for_no_issuer_is_a_signature() -> None:
    block = Reasoning(("A",), "e==", "openai", "rs_1")
    request = asked(message("assistant", block, Text("Hi")))
    detail = {"type": "reasoning.text", "index": 0, "text": "A", "signature": "e=="}
    named = {"format": "openai-responses-v1", "id": "rs_1"}
    for issuer in (None, "anthropic"):
        body = write(request, reasoning_form="details", reasoning_issuer=issuer)
        assert body["messages"][0]["reasoning_details"] == [detail | named]


def test_reasoning_that_has_no_form_is_lost() -> None:
    assert lost_by(asked(message("assistant", HM)), reasoning_form="extra_content") == [
        "reasoning_dropped"
    ]


def test_reasoning_without_text_after_it() -> None:
    request = asked(message("assistant", HM, ToolCall("c1", "f", '{"t":1}')))
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    tagged = assistant(content="<think>Hm.</think>", tool_calls=[function()])
    assert write(request, reasoning_form="tags")["messages"] == [tagged]
    parts = assistant(content=[thinking], tool_calls=[function()])
    assert write(request, reasoning_form="part")["messages"] == [parts]


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("tags", {"type": "text", "text": "<think>Hm.</think>"}),
        ("part", {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}),
    ],
)
def test_reasoning_is_a_part_where_the_content_is_parts(form: str, part: dict[str, Any]) -> None:
    opaque = OpaqueBlock("openai_chat", "x", '{"type":"x"}')
    body = write(asked(message("assistant", HM, opaque)), reasoning_form=form)
    assert body["messages"] == [assistant(content=[part, {"type": "x"}])]


def test_empty_reasoning_is_written_where_a_server_demands_it() -> None:
    request = asked(message("assistant", Reasoning(("",)), Text("Hi")))
    value = assistant(reasoning_content="", content="Hi")
    assert write(request)["messages"] == [value]


def test_a_block_that_no_assistant_has_is_an_error() -> None:
    request = asked(message("assistant", ToolResult("c1")))
    with pytest.raises(EncodeError, match=r"messages\[0\]: ToolResult in an assistant message"):
        write(request)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"content": 5}, ".content"),
        ({"content": [5]}, ".content[0]"),
        ({"refusal": 5}, ".refusal"),
        ({"name": 5, "content": "Hi"}, ".name"),
        ({"reasoning_content": 5}, ".reasoning_content"),
        ({"tool_calls": {}}, ".tool_calls"),
        ({"tool_calls": [5]}, ".tool_calls[0]"),
        ({"tool_calls": [{"id": "c", "type": "function"}]}, ".tool_calls[0].function"),
        ({"tool_calls": [function(), {"type": "custom"}]}, ".tool_calls[1].custom"),
        ({"tool_calls": [{"function": {}}]}, ".tool_calls[0].function.name"),
        ({"tool_calls": [function(id=5)]}, ".tool_calls[0].id"),  # type: ignore[arg-type]
        ({"tool_calls": [function(extra_content=5)]}, ".tool_calls[0].extra_content"),
        ({"function_call": 5}, ".function_call"),
        ({"function_call": {}}, ".function_call.name"),
        ({"reasoning_details": [{"type": "x", "y": nested(200)}]}, ".reasoning_details"),
        ({"reasoning_details": 5}, ".reasoning_details"),
    ],
)
def test_what_is_no_message_is_refused_with_its_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body_of(assistant(**fields)))
    assert caught.value.path == f"$.messages[0]{path}"
