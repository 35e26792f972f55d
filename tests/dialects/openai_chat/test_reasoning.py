"""Reasoning and `reasoning_details`, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import (
    DONE,
    blocks_of,
    call,
    chunk,
    decode,
    message,
    opaques_of,
)
from support.openai_chat.payloads import deltas

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    MessageStart,
    MessageStop,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm._core.text import Signed, tag_signature
from streamnorm.codec import encoder
from streamnorm.dialects.openai_chat.content import ReasoningDetails

END = chunk({}, "stop") + DONE
A = '{"a":1}'

ISSUERS = {
    "anthropic": "anthropic-claude-v1",
    "google": "google-gemini-v1",
    "openai": "openai-responses-v1",
    "xai": "xai-responses-v1",
}


def encoded_details(*events: Event) -> list[dict[str, Any]]:
    """Return the reasoning details of a stream of reasoning, one of a chunk."""
    encoded = deltas(*events, reasoning="reasoning_details")
    return [detail for delta in encoded for detail in delta["reasoning_details"]]


def test_text_and_its_signature_share_an_index() -> None:
    assert encoded_details(
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        *(SignatureDelta(0, "c2ln", "anthropic"), BlockStop(0)),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "c"), BlockStop(1)),
    ) == [
        {"type": "reasoning.text", "index": 0, "text": "a"},
        {"type": "reasoning.text", "index": 0, "text": "b"},
        {
            "type": "reasoning.text",
            "index": 0,
            "signature": "c2ln",
            "format": "anthropic-claude-v1",
        },
        {"type": "reasoning.text", "index": 1, "text": "c"},
    ]


@pytest.mark.parametrize(("issuer", "format"), ISSUERS.items())
def test_issuer_is_written_as_format(issuer: str, format: str) -> None:
    signed = [BlockStart(0, Reasoning()), SignatureDelta(0, "c2ln", issuer), BlockStop(0)]
    (detail,) = encoded_details(*signed)
    assert detail == {"type": "reasoning.text", "index": 0, "signature": "c2ln", "format": format}


def test_id_that_a_signature_is_bound_to_stands_beside_it() -> None:
    delta = SignatureDelta(0, "gAAA", "openai", "rs_1")
    (detail,) = encoded_details(BlockStart(0, Reasoning()), delta, BlockStop(0))
    assert detail == {
        "type": "reasoning.text",
        "index": 0,
        "signature": "gAAA",
        "format": "openai-responses-v1",
        "id": "rs_1",
    }
    redacted = ReasoningDetails().redacted_to_wire(Signed("gAAA", "openai", "rs_1"))
    assert redacted["data"] == "sn1-id.openai.rs_1.gAAA"


@pytest.mark.parametrize(
    ("format", "signed"),
    [
        ("openai-responses-v1", ("gAAA", "openai", "rs_1")),
        ("azure-openai-responses-v1", ("gAAA", "openai", "rs_1")),
        ("xai-responses-v1", ("gAAA", "xai", "rs_1")),
        ("anthropic-claude-v1", ("gAAA", "anthropic", None)),
        ("unknown", ("gAAA", None, None)),
    ],
)
def test_id_of_a_detail_belongs_to_what_its_vendor_binds_to_it(
    format: str, signed: tuple[str, str | None, str | None]
) -> None:
    detail = {"index": 0, "format": format, "id": "rs_1"}
    text = {**detail, "type": "reasoning.text", "text": "a", "signature": "gAAA"}
    data = {**detail, "type": "reasoning.encrypted", "data": "gAAA"}
    assert message(chunk({"reasoning_details": [text]}) + END).blocks == (
        Reasoning(("a",), *signed),
    )
    assert message(chunk({"reasoning_details": [data]}) + END).blocks == (
        RedactedReasoning(*signed),
    )


def test_tagged_detail_names_its_id() -> None:
    detail = {"type": "reasoning.encrypted", "data": "sn1-id.openai.rs_1.gAAA", "index": 0}
    assert message(chunk({"reasoning_details": [detail]}) + END).blocks == (
        RedactedReasoning("gAAA", "openai", "rs_1"),
    )


@pytest.mark.parametrize("issuer", ["deepseek", None])
def test_signature_of_an_issuer_without_format_is_sealed(issuer: str | None) -> None:
    sealed = tag_signature("c2ln", issuer)
    numbering = ReasoningDetails()
    numbering.text_frame()
    detail = numbering.signature_to_wire(Signed("c2ln", issuer))
    assert detail == {
        "type": "reasoning.text",
        "index": 0,
        "signature": sealed,
        "format": "unknown",
    }


def test_redacted_reasoning_is_sealed_unless_anthropic_issued_it() -> None:
    assert ReasoningDetails().redacted_to_wire(Signed("ZGF0YQ==", "anthropic")) == {
        "type": "reasoning.encrypted",
        "index": 0,
        "data": "ZGF0YQ==",
        "format": "anthropic-claude-v1",
    }
    for issuer in ("google", "openai", None):
        assert ReasoningDetails().redacted_to_wire(Signed("ZGF0YQ==", issuer)) == {
            "type": "reasoning.encrypted",
            "index": 0,
            "data": tag_signature("ZGF0YQ==", issuer),
            "format": "unknown",
        }


@pytest.mark.parametrize("issuer", [*ISSUERS, "deepseek", None])
def test_reasoning_round_trips_block_by_block(issuer: str | None) -> None:
    events: list[Event] = [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), SignatureDelta(0, "c2ln", issuer)),
        *(BlockStop(0), BlockStart(1, RedactedReasoning("ZGF0YQ==", issuer)), BlockStop(1)),
        *(BlockStart(2, Reasoning()), SignatureDelta(2, "bG9uZQ==", issuer), BlockStop(2)),
        *(BlockStart(3, Text()), TextDelta(3, "t"), BlockStop(3)),
        *(BlockStart(4, Reasoning()), ReasoningDelta(4, "b"), BlockStop(4)),
    ]
    writer = encoder("openai_chat", reasoning="reasoning_details")
    stream = [MessageStart("m", "gpt"), *events, MessageStop("end_turn")]
    assert message(*map(writer.encode, stream), writer.close()).blocks == (
        Reasoning(("a",), "c2ln", issuer),
        RedactedReasoning("ZGF0YQ==", issuer),
        Reasoning((), "bG9uZQ==", issuer),
        Text("t"),
        Reasoning(("b",)),
    )


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_from_either_field(name: str) -> None:
    assert blocks_of({name: "a"}, {name: "b"}, {"content": "c"}) == (Reasoning(("ab",)), Text("c"))


def test_reasoning_in_both_fields_is_read_once() -> None:
    assert blocks_of({"reasoning_content": "a", "reasoning": "a"}) == (Reasoning(("a",)),)


def with_details(*items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"reasoning_details": list(items), **fields}


def test_reasoning_details_take_precedence_over_the_plain_field() -> None:
    detail = {"type": "reasoning.text", "text": "a", "index": 0}
    assert blocks_of(with_details(detail, reasoning="a")) == (Reasoning(("a",)),)


def test_reasoning_summary_is_reasoning() -> None:
    assert blocks_of(with_details({"type": "reasoning.summary", "summary": "a"})) == (
        Reasoning(("a",)),
    )


def test_plain_field_is_read_if_the_details_have_no_text() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e", "format": "openai-responses-v1"}
    assert blocks_of(with_details(detail, reasoning="a")) == (Reasoning(("a",), "e", "openai"),)
    assert blocks_of(with_details({"type": "reasoning.text", "text": None}, reasoning="a")) == (
        Reasoning(("a",)),
    )
    assert blocks_of(with_details({"type": "reasoning.text", "text": {}}, reasoning="a")) == (
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
        ("something-new", None),
        (None, None),
        (7, None),
    ],
)
def test_format_of_a_signature_names_its_issuer(format: object, issuer: str | None) -> None:
    detail = {"type": "reasoning.text", "text": "a", "signature": "s==", "format": format}
    assert blocks_of(with_details(detail)) == (Reasoning(("a",), "s==", issuer),)


def test_encrypted_reasoning_of_anthropic_is_a_block_of_its_own() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e==", "format": "anthropic-claude-v1"}
    assert blocks_of({"reasoning": "a"}, with_details(detail)) == (
        *(Reasoning(("a",)), RedactedReasoning("e==", "anthropic")),
    )


def test_encrypted_reasoning_of_others_signs_the_reasoning_before_it() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e==", "format": "xai-responses-v1"}
    assert blocks_of({"reasoning": "a"}, with_details(detail)) == (Reasoning(("a",), "e==", "xai"),)


def test_encrypted_reasoning_without_open_reasoning_is_a_block_of_its_own() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e==", "format": "openai-responses-v1"}
    assert blocks_of(with_details(detail), {"content": "c"}) == (
        RedactedReasoning("e==", "openai"),
        Text("c"),
    )


def test_encrypted_reasoning_of_google_signs_the_call_of_its_id() -> None:
    detail = {"type": "reasoning.encrypted", "data": "e", "format": "google-gemini-v1", "id": "x"}
    assert blocks_of({"tool_calls": [call(0, "x", "f", A)]}, with_details(detail)) == (
        ToolCall("x", "f", A, signature="e", issuer="google"),
    )
    assert blocks_of({"reasoning": "a"}, with_details({**detail, "id": None})) == (
        Reasoning(("a",), "e", "google"),
    )


def test_detail_of_unknown_type_is_opaque() -> None:
    detail = {"type": "reasoning.server_tool_call", "x": 1}
    assert opaques_of(with_details(detail)) == [("reasoning_details", detail)]
    empty = {"type": "reasoning.encrypted", "data": ""}
    assert decode(chunk(with_details(empty)), END).events[1:-1] == []


@pytest.mark.parametrize("kind", [{"a": 1}, ["reasoning.text"], 5, None])
def test_detail_whose_type_is_no_text_is_opaque(kind: object) -> None:
    detail = {"type": kind, "x": 1}
    assert opaques_of(with_details(detail)) == [("reasoning_details", detail)]


def test_detail_that_is_no_object_is_ignored() -> None:
    assert blocks_of({"reasoning_details": ["a", None], "reasoning": "b"}) == (Reasoning(("b",)),)


def test_signature_never_holds_a_lone_surrogate() -> None:
    detail = {"type": "reasoning.text", "text": "a", "signature": "s\ud83d"}
    events = decode(chunk(with_details(detail)), END).events
    assert SignatureDelta(0, "s�") in events


def test_unknown_field_of_reasoning_is_reported() -> None:
    """It would be written into each chunk, where no client reads it."""
    expected = (
        "reasoning is 'reasoning-content', expected one of reasoning_content, reasoning, "
        "reasoning_details, or None"
    )
    with pytest.raises(ValueError, match=expected):
        encoder("openai_chat", reasoning="reasoning-content")  # type: ignore[arg-type]  # that is the mistake
