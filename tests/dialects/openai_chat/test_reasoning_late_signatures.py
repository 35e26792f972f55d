"""Signatures behind what follows their reasoning: OpenRouter's, of Claude on Vertex AI."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import DONE, blocks_of, call, chunk, decode
from support.openai_chat.payloads import deltas

from streamnorm import (
    BlockStart,
    BlockStop,
    Conversation,
    InputMessage,
    JSONDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Request,
    SignatureDelta,
    Text,
    ToolCall,
    Transcoder,
    accumulate,
    decode_request,
)
from streamnorm._core.json import compact
from streamnorm.codec import decoder
from streamnorm.validation import validate

END = chunk({}, "stop") + DONE
A = '{"a":1}'


def details(*items: dict[str, Any]) -> dict[str, Any]:
    return {"reasoning_details": list(items)}


CLAUDE = "anthropic-claude-v1"


def thought(text: str, index: int = 0, format: str = CLAUDE) -> dict[str, Any]:
    return details({"type": "reasoning.text", "text": text, "format": format, "index": index})


def signed(index: int = 0, format: str = CLAUDE) -> dict[str, Any]:
    """Return a delta with the signature alone, as OpenRouter sends it."""
    detail = {"type": "reasoning.text", "signature": "s==", "format": format, "index": index}
    return details(detail)


F, G = {"tool_calls": [call(0, "x", "f", A)]}, {"tool_calls": [call(1, "y", "g", A)]}
X, Y = ToolCall("x", "f", A), ToolCall("y", "g", A)
SIGNED = Reasoning(("ab",), "s==", "anthropic")


@pytest.mark.parametrize(
    ("contents", "blocks"),
    [
        ((F, signed()), (SIGNED, X)),
        ((F, G, signed()), (SIGNED, X, Y)),
        ((F, signed(), G), (SIGNED, X, Y)),
        ((F, signed(), {"content": "c"}), (SIGNED, X, Text("c"))),
        # The start of a call without arguments is held.
        (({"tool_calls": [call(0, "x", "f", "")]}, signed(), F), (SIGNED, X)),
        ((F, thought("c"), signed()), (Reasoning(("abc",), "s==", "anthropic"), X)),
        # Redacted thinking, too, may stand between.
        (
            (
                details({"type": "reasoning.encrypted", "data": "e==", "format": CLAUDE}),
                signed(),
                {"content": "c"},
            ),
            (SIGNED, RedactedReasoning("e==", "anthropic"), Text("c")),
        ),
        # Another detail is signed; the thinking of that one was left out.
        ((F, signed(1)), (Reasoning(("ab",)), X, Reasoning((), "s==", "anthropic"))),
        ((F,), (Reasoning(("ab",)), X)),
        ((F, {"content": "c"}), (Reasoning(("ab",)), X, Text("c"))),
        (
            (F, thought("c", 1), signed(1)),
            (Reasoning(("ab",)), X, Reasoning(("c",), "s==", "anthropic")),
        ),
        # A second signature belongs to thinking that was left out.
        ((signed(), F, signed()), (SIGNED, X, Reasoning((), "s==", "anthropic"))),
    ],
    ids=str,
)
def test_late_signature_signs_the_reasoning_of_its_index(
    contents: tuple[dict[str, Any], ...], blocks: tuple[object, ...]
) -> None:
    """OpenRouter sends the signature of Claude on Vertex AI behind the calls."""
    assert blocks_of(thought("a"), thought("b"), *contents) == blocks


def test_reasoning_behind_a_call_without_a_name_keeps_its_index() -> None:
    """It is held until the name comes, when other details may have come, too."""
    nameless = {"tool_calls": [{"index": 0, "id": "x", "function": {"arguments": ""}}]}
    named = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": A}}]}
    found = blocks_of(thought("a"), nameless, thought("c", 1), signed(), named, signed(1))
    assert found == (Reasoning(("a",)), X, Reasoning(("c",), "s==", "anthropic"))


def test_signature_behind_a_call_ends_its_reasoning() -> None:
    """Targets with one open block at a time hold the call until then."""
    events = decode(chunk(thought("a")), chunk(F), chunk(signed()), END).events
    assert events[1:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        *(BlockStart(1, ToolCall("x", "f")), JSONDelta(1, A)),
        *(SignatureDelta(0, "s==", "anthropic"), BlockStop(0), BlockStop(1)),
    ]


def test_text_does_not_wait_for_a_signature() -> None:
    """The reasoning ends as the text starts; what signs it then is no signature of a block."""
    for calls in ((), (F,)):
        read = decode(chunk(thought("a")), *map(chunk, calls), chunk({"content": "b"}))
        text = BlockStart(len(calls) + 1, Text())
        assert BlockStop(0) in read.events[: read.events.index(text)]
        late = decode(
            *(chunk(thought("a")), *map(chunk, calls), chunk({"content": "b"})),
            *(chunk(signed()), END),
        )
        (detail,) = signed()["reasoning_details"]
        assert [event for event in late.events if isinstance(event, Opaque)] == [
            Opaque("openai_chat", "reasoning_details", compact(detail), text.index)
        ]
        assert not any(isinstance(event, SignatureDelta) for event in late.events)


@pytest.mark.parametrize("format", ["unknown", "google-gemini-v1", "openai-responses-v1"])
def test_reasoning_of_others_ends_where_a_call_starts(format: str) -> None:
    """Only Anthropic signs the text of reasoning: nothing waits for the others."""
    events = decode(chunk(thought("a", format=format)), chunk(F)).events
    assert events[3:6] == [BlockStop(0), BlockStart(1, ToolCall("x", "f")), JSONDelta(1, A)]


def test_late_signature_of_a_finished_answer_is_no_new_content() -> None:
    read = decode(chunk(thought("a")), chunk(F, "tool_calls"), chunk(signed()), DONE)
    assert read.outcome.lenient == ()


STREAM = b"".join([chunk(thought("ab")), chunk(F), chunk(G), chunk(signed()), END])


@pytest.mark.parametrize("to", ["anthropic", "openai_responses", "gemini"])
def test_late_signature_stands_before_the_calls_in_every_dialect(to: str) -> None:
    transcoder = Transcoder("openai_chat", to)
    written = transcoder.feed(STREAM) + transcoder.close()
    assert {loss.feature for loss in transcoder.losses} <= {"usage_unknown"}
    body = b"".join(written)
    assert validate(body, to) == []
    reader = decoder(to)
    message = accumulate(reader.feed(body) + reader.close())
    assert [type(block) for block in message.blocks] == [Reasoning, ToolCall, ToolCall]
    if to == "anthropic":
        assert message.blocks == (SIGNED, X, Y)


def test_late_signature_is_written_to_the_detail_of_its_text() -> None:
    """Accumulators join the details of one index."""
    written = deltas(*decode(STREAM).events[1:-1], reasoning="reasoning_details")
    assert [detail for delta in written for detail in delta.get("reasoning_details", ())] == [
        {"type": "reasoning.text", "index": 0, "text": "ab"},
        *signed()["reasoning_details"],
    ]


def test_signed_reasoning_goes_back_to_openrouter() -> None:
    chat = Conversation(Request(messages=(InputMessage("user", (Text("Q"),)),)))
    with chat.append_stream(dialect="openai_chat", server="openrouter") as answer:
        answer.feed(STREAM)
    chat.append_tool_result("x", "1")
    chat.append_tool_result("y", "2")
    made = chat.dump("openai_chat", server="openrouter", model="anthropic/claude-sonnet-4")
    assert made.losses == ()
    (detail,) = made.body["messages"][1]["reasoning_details"]
    assert detail == {
        **thought("ab")["reasoning_details"][0],
        "signature": "s==",
    }


def test_details_of_a_whole_message_are_read_as_those_of_a_stream() -> None:
    redacted = {"type": "reasoning.encrypted", "data": "e==", "format": CLAUDE, "index": 1}
    (text,), (late,) = thought("ab")["reasoning_details"], signed()["reasoning_details"]
    sent = {"role": "assistant", "content": "c", **details(text, redacted, late)}
    (read,) = decode_request({"model": "m", "messages": [sent]}, "openai_chat").messages
    assert read.blocks == (SIGNED, RedactedReasoning("e==", "anthropic"), Text("c"))


def test_signature_of_stopped_reasoning_is_an_unknown_detail_of_a_whole_message() -> None:
    redacted = {"type": "reasoning.encrypted", "data": "e==", "format": CLAUDE, "index": 1}
    (text,), (next_text,) = (thought(*of)["reasoning_details"] for of in (("a",), ("b", 2)))
    (late,) = signed()["reasoning_details"]
    sent = {"role": "assistant", "content": "c", **details(text, redacted, next_text, late)}
    (read,) = decode_request({"model": "m", "messages": [sent]}, "openai_chat").messages
    assert read.blocks == (
        *(Reasoning(("a",)), RedactedReasoning("e==", "anthropic"), Reasoning(("b",)), Text("c")),
    )
    assert read.extra == {"openai_chat": {"reasoning_details": [late]}}
