"""Steps of thoughts: summaries and their signatures."""

from __future__ import annotations

import json

from support.gemini_interactions.frames import (
    CREATED,
    blocks,
    completed,
    decode,
    event,
    kinds,
    start,
    step,
    stop,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Opaque,
    Reasoning,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
)

OWN = "gemini_interactions"


def test_summaries_of_the_start_are_parts_and_the_last_goes_on() -> None:
    summary = [{"type": "text", "text": "a\ud83d"}, {"type": "text", "text": "b"}]
    more = ("thought_summary", {"content": {"type": "text", "text": "c"}})
    got = blocks(step("thought", more, summary=summary, signature=""))
    assert got == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "\ufffd"),
        ReasoningDelta(0, "b", 1),
        ReasoningDelta(0, "c", 1),
        BlockStop(0),
    ]


def test_citations_of_a_summary_are_opaque() -> None:
    cited = {"annotations": [{"type": "url_citation", "url": "u"}]}
    content = {"type": "text", "text": "a", **cited}
    opaque = {"type": "thought_summary", "content": {**content, "text": ""}}
    events = [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        Opaque(OWN, "thought_summary", json.dumps(opaque, separators=(",", ":")), 0),
        BlockStop(0),
    ]
    assert blocks(step("thought", ("thought_summary", {"content": content}))) == events
    assert blocks(step("thought", summary=[content])) == events


def test_thought_may_be_whole_in_its_start() -> None:
    got = blocks(step("thought", summary=[{"text": "a"}], signature="QQ=="))
    assert got == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        *(SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]


def test_empty_thought_is_a_block_when_it_stops() -> None:
    assert blocks(step("thought")) == [BlockStart(0, Reasoning()), BlockStop(0)]


def test_empty_thought_without_a_stop_is_no_block() -> None:
    got = decode(CREATED, start(0, "thought"), start(1, "model_output"), completed())
    assert got.events[1:-1] == []
    assert kinds(got) == {"missing_block_stop": 2}


def test_text_within_a_thought_is_reasoning() -> None:
    got = blocks(
        step(
            "thought",
            ("text", {"text": "a"}),
            ("thought", {"text": "b"}),
            ("thought_summary", {}),
            ("thought_summary", {"content": {"type": "text", "text": ""}}),
            summary=1,
        )
    )
    assert got == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        BlockStop(0),
    ]
    untyped = event("step.delta", index=0, delta={"content": {"text": "a"}})
    body = start(0, "thought") + untyped + stop(0)
    assert blocks(body)[1] == ReasoningDelta(0, "a")


def test_lone_surrogate_is_replaced_before_the_signature() -> None:
    half, sign = {"text": "a\ud83d"}, ("thought_signature", {"signature": "QQ=="})
    thought = blocks(step("thought", ("thought_summary", {"content": half}), sign))
    assert thought[2:] == [
        *(ReasoningDelta(0, "\ufffd"), SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]
    answer = blocks(step("model_output", ("text", half), sign))
    assert answer[2:] == [
        *(TextDelta(0, "\ufffd"), SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]


IMAGE = '{"type":"thought_summary","content":{"type":"image"}}'


def test_image_of_a_summary_is_opaque() -> None:
    got = blocks(
        step(
            "thought",
            ("thought_summary", {"content": {"text": "a"}}),
            ("thought_summary", {"content": {"type": "image"}}),
            ("memory_delta", {"note": "x"}),
            summary=[{"type": "image"}],
        )
    )
    assert got == [
        Opaque(OWN, "thought_summary", IMAGE),
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        Opaque(OWN, "thought_summary", IMAGE, 0),
        Opaque(OWN, "memory_delta", '{"type":"memory_delta","note":"x"}', 0),
        BlockStop(0),
    ]


def test_thought_after_a_signature_is_a_new_block() -> None:
    say = ("thought_summary", {"content": {"text": "a"}})
    signs = [("thought_signature", {"signature": s}) for s in ("", "QQ==", "QQ==", "Qg==")]
    got = decode(CREATED, step("thought", say, *signs, say, summary=[{}, {}]), completed())
    assert got.events[3:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a", 1)),
        *(SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
        *(BlockStart(1, Reasoning()), SignatureDelta(1, "Qg==", "google"), BlockStop(1)),
        *(BlockStart(2, Reasoning()), ReasoningDelta(2, "a"), BlockStop(2)),
    ]
    assert kinds(got) == {"resent_signature": 1}


def test_half_a_character_at_the_end_of_a_thought_is_replaced() -> None:
    half = ("thought_summary", {"content": {"type": "text", "text": "a\ud83d"}})
    got = blocks(step("thought", half))
    assert got[1:] == [ReasoningDelta(0, "a"), ReasoningDelta(0, "\ufffd"), BlockStop(0)]
