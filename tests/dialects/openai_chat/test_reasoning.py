"""`reasoning_details`: reasoning with its signatures, there and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams import decode

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
    accumulate,
    encoder,
)
from streamnorm._core.ids import tag_signature
from streamnorm.dialects.openai_chat.reasoning import ReasoningDetails, detail_from_wire

ISSUERS = {
    "anthropic": "anthropic-claude-v1",
    "google": "google-gemini-v1",
    "openai": "openai-responses-v1",
    "xai": "xai-responses-v1",
}


def written(*events: Event) -> bytes:
    writer = encoder("openai_chat", reasoning="reasoning_details")
    ended = (MessageStart("m", "gpt"), *events, MessageStop("end_turn"))
    return b"".join([*map(writer.encode, ended), writer.close()])


def details(*events: Event) -> list[dict[str, Any]]:
    """Return each reasoning detail, one of a chunk."""
    told = []
    for frame in written(*events).split(b"\n\n")[:-2]:
        delta = json.loads(frame[6:])["choices"][0]["delta"]
        if "reasoning_details" in delta:
            (detail,) = delta["reasoning_details"]
            told.append(detail)
    return told


def test_text_and_its_signature_are_of_one_index() -> None:
    assert details(
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
def test_issuer_is_told_by_the_format(issuer: str, format: str) -> None:
    signed = [BlockStart(0, Reasoning()), SignatureDelta(0, "c2ln", issuer), BlockStop(0)]
    (detail,) = details(*signed)
    assert detail == {"type": "reasoning.text", "index": 0, "signature": "c2ln", "format": format}
    assert detail_from_wire(detail).signature == ("c2ln", issuer)


@pytest.mark.parametrize("issuer", ["deepseek", None])
def test_issuer_without_a_format_seals_the_value(issuer: str | None) -> None:
    sealed = tag_signature("c2ln", issuer)
    numbering = ReasoningDetails()
    numbering.begin()
    detail = numbering.signature_to_wire("c2ln", issuer)
    assert detail == {
        "type": "reasoning.text",
        "index": 0,
        "signature": sealed,
        "format": "unknown",
    }
    assert detail_from_wire(detail).signature == ("c2ln", issuer)


@pytest.mark.parametrize("format", ["azure-openai-responses-v1", "something-new", None, 7])
def test_format_of_another_is_read_as_far_as_it_is_known(format: object) -> None:
    issuer = "openai" if format == "azure-openai-responses-v1" else None
    detail = {"type": "reasoning.text", "signature": "c2ln", "format": format}
    assert detail_from_wire(detail).signature == ("c2ln", issuer)


def test_redacted_reasoning_is_anthropic_s_as_it_is_and_of_others_sealed() -> None:
    assert ReasoningDetails().redacted_to_wire("ZGF0YQ==", "anthropic") == {
        "type": "reasoning.encrypted",
        "index": 0,
        "data": "ZGF0YQ==",
        "format": "anthropic-claude-v1",
    }
    for issuer in ("google", "openai", None):
        assert ReasoningDetails().redacted_to_wire("ZGF0YQ==", issuer) == {
            "type": "reasoning.encrypted",
            "index": 0,
            "data": tag_signature("ZGF0YQ==", issuer),
            "format": "unknown",
        }


@pytest.mark.parametrize("issuer", [*ISSUERS, "deepseek", None])
def test_reasoning_comes_back_block_by_block(issuer: str | None) -> None:
    events: list[Event] = [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), SignatureDelta(0, "c2ln", issuer)),
        *(BlockStop(0), BlockStart(1, RedactedReasoning("ZGF0YQ==", issuer)), BlockStop(1)),
        *(BlockStart(2, Reasoning()), SignatureDelta(2, "bG9uZQ==", issuer), BlockStop(2)),
        *(BlockStart(3, Text()), TextDelta(3, "t"), BlockStop(3)),
        *(BlockStart(4, Reasoning()), ReasoningDelta(4, "b"), BlockStop(4)),
    ]
    assert accumulate(decode([written(*events)], "openai_chat").events).blocks == (
        Reasoning(("a",), "c2ln", issuer),
        RedactedReasoning("ZGF0YQ==", issuer),
        Reasoning((), "bG9uZQ==", issuer),
        Text("t"),
        Reasoning(("b",)),
    )
