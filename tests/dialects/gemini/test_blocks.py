"""Parts, which have no boundaries, become blocks."""

from __future__ import annotations

import base64

import pytest
from support.gemini.frames import blocks, decode, frame, parts, text, thought

from streamnorm import (
    BlockStart,
    BlockStop,
    Failed,
    Limits,
    MessageStop,
    Note,
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
from streamnorm._core.text import tag_redacted_reasoning, tag_signature

CALL = {"functionCall": {"id": "c1", "name": "tide"}}
SEALED = base64.b64encode(tag_redacted_reasoning("c2ln", "anthropic").encode()).decode()


def test_text_of_one_kind_extends_its_block() -> None:
    assert blocks(
        *(thought("a"), thought("b"), text("c"), text(""), text("d")),
        *(thought("e"), parts(CALL), text("f")),
    ) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "c"), TextDelta(1, "d"), BlockStop(1)),
        *(BlockStart(2, Reasoning()), ReasoningDelta(2, "e"), BlockStop(2)),
        *(BlockStart(3, ToolCall("c1", "tide")), BlockStop(3)),
        *(BlockStart(4, Text()), TextDelta(4, "f"), BlockStop(4)),
    ]


@pytest.mark.parametrize("part", [{"text": "a", "mood": 1}, {"mood": 1, "text": "a"}])
def test_unknown_field_beside_a_text_hides_nothing_of_it(part: dict[str, object]) -> None:
    assert blocks(parts(part)) == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(Opaque("gemini", "mood", "1", 0), BlockStop(0)),
    ]


def test_signature_ends_its_text() -> None:
    assert blocks(text("a", thoughtSignature="QQ=="), text("b")) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), SignatureDelta(0, "QQ==", "google")),
        *(BlockStop(0), BlockStart(1, Text()), TextDelta(1, "b"), BlockStop(1)),
    ]


@pytest.mark.parametrize(
    "signed", [text("", thoughtSignature="QQ=="), parts({"thoughtSignature": "QQ=="})]
)
def test_signature_alone_signs_the_open_block(signed: bytes) -> None:
    assert blocks(text("a"), signed) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), SignatureDelta(0, "QQ==", "google")),
        BlockStop(0),
    ]
    assert blocks(thought("a"), signed) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        *(SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]


def test_signature_of_a_hidden_thought_signs_no_text() -> None:
    assert blocks(text("a"), thought("", thoughtSignature="QQ==")) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, Reasoning()), SignatureDelta(1, "QQ==", "google"), BlockStop(1)),
    ]


def test_signature_without_open_text_is_an_empty_block() -> None:
    signed = text("", thoughtSignature="QQ==")
    assert blocks(signed) == [
        *(BlockStart(0, Text()), SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]
    assert blocks(parts(CALL), signed)[2:] == [
        *(BlockStart(1, Text()), SignatureDelta(1, "QQ==", "google"), BlockStop(1)),
    ]
    assert blocks(thought("", thoughtSignature="QQ==")) == [
        *(BlockStart(0, Reasoning()), SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]


def test_second_signature_starts_a_block() -> None:
    signed, again = text("a", thoughtSignature="QQ=="), text("", thoughtSignature="Qg==")
    assert blocks(signed, again)[3:] == [
        *(BlockStop(0), BlockStart(1, Text()), SignatureDelta(1, "Qg==", "google"), BlockStop(1)),
    ]


def test_repeated_signature_is_ignored_with_a_note() -> None:
    signed = text("a", thoughtSignature="QQ==")
    decoded = decode(signed, text("", thoughtSignature="QQ=="), parts(finishReason="STOP"))
    assert len(decoded.events) == 6
    assert decoded.notes == (Note("resent_signature", "text"),)


def test_tagged_signature_has_its_original_issuer() -> None:
    tagged = tag_signature("RXE=", "anthropic")
    sealed = base64.b64encode(tagged.encode()).decode()
    assert blocks(thought("a", thoughtSignature=sealed))[2] == SignatureDelta(
        0, "RXE=", "anthropic"
    )
    odd = sealed[:5] + "?"
    assert blocks(thought("a", thoughtSignature=odd))[2] == SignatureDelta(0, odd, "google")


@pytest.mark.parametrize(
    "signed", [text("", thoughtSignature=SEALED), thought("", thoughtSignature=SEALED)]
)
def test_sealed_signature_becomes_redacted_reasoning(signed: bytes) -> None:
    assert blocks(text("a"), signed, text("b")) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, RedactedReasoning("c2ln", "anthropic")), BlockStop(1)),
        *(BlockStart(2, Text()), TextDelta(2, "b"), BlockStop(2)),
    ]


def test_surrogate_halves_are_joined() -> None:
    high, low = "x\ud83d", "\ude42y"
    assert blocks(text(high), text(low)) == [
        *(BlockStart(0, Text()), TextDelta(0, "x"), TextDelta(0, "🙂y"), BlockStop(0)),
    ]
    assert blocks(text(high), thought("t"))[1:4] == [
        *(TextDelta(0, "x"), TextDelta(0, "�"), BlockStop(0)),
    ]


def test_candidates_are_distinguished_by_index() -> None:
    decoded = decode(
        *(parts({"text": "a"}), parts({"text": "b"}, index=1), parts({"text": "c"})),
        *(parts(finishReason="MAX_TOKENS", index=1), parts(finishReason="STOP")),
    )
    assert decoded.events[1:] == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStart(1, Text(), 1), TextDelta(1, "b")),
        *(TextDelta(0, "c"), BlockStop(0), BlockStop(1), MessageStop("end_turn", "STOP")),
        MessageStop("max_tokens", "MAX_TOKENS", choice=1),
    ]


def test_candidate_without_an_index_is_the_first() -> None:
    for index in ({}, {"index": None}):
        payload = {"candidates": [{"content": {"parts": [{"text": "a"}]}, **index}]}
        assert blocks(frame(payload)) == [BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)]


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (-1, "a negative integer"),
        ("1", "a string of 1 characters"),
        (True, "a boolean"),
        (0.0, "a decimal number"),
    ],
)
def test_invalid_candidate_index_is_malformed(index: object, found: str) -> None:
    payload = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "index": index}]}
    message = f"candidate index is {found}, expected an integer from 0"
    assert decode(frame(payload)).outcome == Failed(StreamError("malformed", message))


@pytest.mark.parametrize(
    "indexes", [({}, {}), ({"index": 0}, {}), ({"index": 0}, {"index": 0})], ids=str
)
def test_two_candidates_of_one_index_in_a_chunk_are_malformed(
    indexes: tuple[dict[str, int], dict[str, int]],
) -> None:
    part = {"content": {"parts": [{"text": "a"}]}}
    payload = {"candidates": [{**part, **index} for index in indexes]}
    message = "two candidates 0 in one chunk, expected one"
    assert decode(frame(payload)).outcome == Failed(StreamError("malformed", message))


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_blocks=2), "max_blocks"),
        (Limits(max_tool_calls=2), "max_tool_calls"),
    ],
)
def test_blocks_and_calls_are_bounded(limits: Limits, code: str) -> None:
    calls = [{"functionCall": {"id": f"c{n}", "name": "f"}} for n in range(3)]
    end = parts(finishReason="STOP")
    assert decode(parts(*calls[:2]), end, limits=limits).events[-1] == MessageStop(
        "tool_use", "STOP"
    )
    error = decode(parts(*calls), end, limits=limits).events[-1]
    assert isinstance(error, StreamError)
    assert (error.kind, error.code) == ("too_large", code)


@pytest.mark.parametrize(
    "part",
    [
        {"functionCall": {"id": "x" * 9, "name": "f"}},
        {"functionCall": {"id": "c", "name": "f" * 9}},
        {"executableCode": {"id": "x" * 9}},
        {"codeExecutionResult": {"id": "x" * 9}},
    ],
    ids=lambda part: next(iter(part)),
)
def test_ids_are_bounded(part: dict[str, object]) -> None:
    names = frame({"candidates": [], "responseId": "r"})
    error = decode(
        names,
        frame({"candidates": [{"content": {"parts": [part]}}]}),
        limits=Limits(max_id_chars=8),
    ).events[-1]
    assert isinstance(error, StreamError)
    assert (error.kind, error.code) == ("too_large", "max_id_chars")
