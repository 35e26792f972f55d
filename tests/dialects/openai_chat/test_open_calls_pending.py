"""Held starts of tool calls, and the content behind them."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import (
    DONE,
    call,
    calls,
    chunk,
    content,
    decode,
    detail,
    message,
    reasoning,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    Limits,
    MessageStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm.codec import decoder

END = chunk({}, "stop") + DONE
A = '{"a":1}'


def test_named_call_without_arguments_starts_when_text_arrives() -> None:
    reader = decoder("openai_chat")
    reader.feed(content("a"))
    assert reader.feed(calls(call(0, "x", "f"))) == []
    assert reader.feed(content("b")) == [
        *(
            BlockStop(0),
            BlockStart(1, ToolCall("x", "f")),
            BlockStart(2, Text()),
            TextDelta(2, "b"),
        ),
    ]


def test_named_call_without_arguments_starts_when_another_call_has_arguments() -> None:
    reader = decoder("openai_chat")
    reader.feed(chunk({}))
    assert reader.feed(calls(call(0, "x", "f"))) == []
    assert reader.feed(calls(call(1, "y", "g"))) == []
    assert reader.feed(calls(call(1, arguments="["))) == [
        *(BlockStart(0, ToolCall("x", "f")), BlockStart(1, ToolCall("y", "g")), JSONDelta(1, "[")),
    ]


def test_named_calls_without_arguments_start_at_the_end() -> None:
    decoded = decode(calls(call(0, "x", "f")), calls(call(1, "y", "g")), END)
    assert decoded.events[1:-1] == [
        *(BlockStart(0, ToolCall("x", "f")), BlockStart(1, ToolCall("y", "g"))),
        *(BlockStop(0), BlockStop(1)),
    ]


def test_content_behind_a_nameless_call_is_held_in_order() -> None:
    reader = decoder("openai_chat")
    reader.feed(content("0"))
    for frame in (
        *(calls(call(0, "x", arguments="[")), content("a"), content("b"), reasoning("r")),
        *(calls(call(1, "y", "g", A)), content("c"), calls(call(0, arguments="]"))),
    ):
        assert reader.feed(frame) == []
    assert reader.feed(calls(call(0, None, "f"))) == [
        *(BlockStop(0), BlockStart(1, ToolCall("x", "f")), JSONDelta(1, "[]"), BlockStop(1)),
        *(BlockStart(2, Text()), TextDelta(2, "ab"), BlockStop(2)),
        *(BlockStart(3, Reasoning()), ReasoningDelta(3, "r"), BlockStop(3)),
        *(BlockStart(4, ToolCall("y", "g")), JSONDelta(4, A), BlockStop(4)),
        *(BlockStart(5, Text()), TextDelta(5, "c")),
    ]


def test_signature_behind_a_nameless_call_is_held_with_its_reasoning() -> None:
    decoded = decode(
        *(calls(call(0, "x")), reasoning("r"), detail(type="reasoning.text", signature="s")),
        *(detail(type="reasoning.encrypted", data="e"), calls(call(0, None, "f")), END),
    )
    assert decoded.events[1:-1] == [
        *(BlockStart(0, ToolCall("x", "f")), BlockStart(1, Reasoning()), ReasoningDelta(1, "r")),
        *(
            SignatureDelta(1, "s"),
            BlockStop(1),
            BlockStart(2, RedactedReasoning("e")),
            BlockStop(2),
        ),
        BlockStop(0),
    ]


def test_encrypted_reasoning_behind_a_named_call_starts_the_call() -> None:
    reader = decoder("openai_chat")
    reader.feed(chunk({}))
    assert reader.feed(calls(call(0, "x", "f"))) == []
    assert reader.feed(detail(type="reasoning.encrypted", data="e")) == [
        *(BlockStart(0, ToolCall("x", "f")), BlockStart(1, RedactedReasoning("e")), BlockStop(1)),
    ]


@pytest.mark.parametrize(
    "behind", [content("a"), detail(type="reasoning.encrypted", data="e")], ids=["text", "event"]
)
def test_call_waits_for_its_name_whatever_was_held_before_it(behind: bytes) -> None:
    reader = decoder("openai_chat")
    for frame in (calls(call(0, "x")), behind, calls(call(0, None, "f", "["))):
        reader.feed(frame)
    assert reader.feed(calls(call(1, "y", "g"))) == []
    assert reader.feed(calls(call(1, None, "o", "{")))[-2:] == [
        *(BlockStart(2, ToolCall("y", "go")), JSONDelta(2, "{")),
    ]


def test_annotation_and_opaque_data_behind_a_nameless_call_have_no_block() -> None:
    annotation = {"type": "url_citation", "url_citation": {"url": "u"}}
    decoded = decode(
        *(content("a"), calls(call(0, "x")), content("b"), chunk({"annotations": [annotation]})),
        *(chunk({"audio": {"id": "q"}}), calls(call(0, None, "f")), END),
    )
    opaques = [event for event in decoded.events if isinstance(event, Opaque)]
    assert [(event.name, event.index) for event in opaques] == [
        ("annotations", None),
        ("audio", None),
    ]


def test_surrogate_pair_split_behind_a_nameless_call_is_joined() -> None:
    frames = (calls(call(0, "x")), content("\ud83d"), content("\ude00"), calls(call(0, None, "f")))
    assert message(*frames, END).blocks == (ToolCall("x", "f"), Text("😀"))


def early(signature: str, id: str) -> bytes:
    """Return Gemini's signature of a call, as OpenRouter sends it."""
    return detail(type="reasoning.encrypted", format="google-gemini-v1", data=signature, id=id)


@pytest.mark.parametrize(
    "pieces",
    [
        [calls(call(0, "x", "f", "{}"))],
        [calls(call(0, "x", "f")), calls(call(0, arguments="{}"))],
        [calls(call(0, "x", "f"))],  # whose start is known at the end alone
    ],
)
def test_signature_is_held_until_its_call_starts(pieces: list[bytes]) -> None:
    (made,) = message(early("c2ln", "x"), *pieces, chunk({}, "stop"), DONE).blocks
    assert isinstance(made, ToolCall)
    assert (made.id, made.signature, made.issuer) == ("x", "c2ln", "google")


def test_signature_whose_call_never_arrives_is_a_block_of_its_own() -> None:
    frames = [early("c2ln", "x"), calls(call(0, "y", "f", "{}")), chunk({}, "stop"), DONE]
    assert message(*frames).blocks == (
        *(ToolCall("y", "f", "{}"), RedactedReasoning("c2ln", "google")),
    )


def test_signature_whose_call_never_arrives_signs_the_open_reasoning() -> None:
    frames = [early("c2ln", "x"), reasoning("r"), chunk({}, "stop"), DONE]
    assert message(*frames).blocks == (Reasoning(("r",), "c2ln", "google"),)


@pytest.mark.parametrize("size", [9, 10, 11])
def test_held_signatures_are_bounded(size: int) -> None:
    frames = [early("s" * (size - 3), "x"), early("sss", "y"), chunk({}, "stop"), DONE]
    # Each has an id of one byte, and counts 200 for its entry.
    last = decode(*frames, limits=Limits(max_held_bytes=412)).events[-1]
    if size <= 10:
        assert isinstance(last, MessageStop)
    else:
        message = "max_held_bytes of 412 passed"
        assert last == StreamError("too_large", message, code="max_held_bytes")
