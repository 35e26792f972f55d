"""A reasoning item: summaries, reasoning itself, and what seals it."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_responses.frames import (
    START,
    added,
    body,
    completed,
    decode,
    delta,
    done,
    event,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Note,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
)
from streamnorm._core.ids import seal_reasoning, tag_signature

BEGUN = added(0, "reasoning", id="rs_1", summary=[])
STARTED = BlockStart(0, Reasoning(), extra={"item_id": "rs_1"})


def summary(piece: str, number: int = 0) -> bytes:
    return delta("reasoning_summary_text", piece, summary_index=number)


def raw(piece: str, number: int = 0) -> bytes:
    return delta("reasoning_text", piece, content_index=number)


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "summary_text", "text": text} for text in texts]


def item(**fields: Any) -> bytes:
    return done(0, "reasoning", id="rs_1", **{"summary": [], **fields})


def test_summaries_are_parts() -> None:
    frames = [BEGUN, summary("a"), summary("b"), summary("c", 1), item(summary=parts("ab", "c"))]
    assert body(*frames) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), ReasoningDelta(0, "c", 1)),
        BlockStop(0),
    ]


def test_parts_are_dense_in_the_order_of_their_starts() -> None:
    frames = [BEGUN, summary("a", 7), summary("b", 10**9), summary("c", 7)]
    assert body(*frames)[1:-1] == [
        *(ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1), ReasoningDelta(0, "c"))
    ]


def test_start_of_a_part_keeps_its_place() -> None:
    starts = [
        event(
            "response.reasoning_summary_part.added",
            output_index=0,
            summary_index=number,
            part={"type": "summary_text", "text": text},
        )
        for number, text in enumerate(["", "b"])
    ]
    assert body(BEGUN, *starts, summary("c", 1), summary("a", 0)) == [
        *(STARTED, ReasoningDelta(0, "b", 1), ReasoningDelta(0, "c", 1), ReasoningDelta(0, "a")),
        BlockStop(0),
    ]


def test_reasoning_itself_has_the_block_where_no_summary_has() -> None:
    end = item(content=[{"type": "reasoning_text", "text": "abc"}])
    assert body(BEGUN, raw("a"), raw("b"), end) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), ReasoningDelta(0, "c")),
        BlockStop(0),
    ]


@pytest.mark.parametrize(("first", "second"), [(summary, raw), (raw, summary)])
def test_what_comes_second_has_a_block_of_its_own(first: Any, second: Any) -> None:
    frames = [BEGUN, first("a"), second("b"), first("c"), item(encrypted_content="seal")]
    assert body(*frames) == [
        *(STARTED, ReasoningDelta(0, "a"), BlockStart(1, Reasoning()), ReasoningDelta(1, "b")),
        *(ReasoningDelta(0, "c"), SignatureDelta(0, "seal", "openai"), BlockStop(0), BlockStop(1)),
    ]


def test_item_that_comes_whole() -> None:
    content = [{"type": "reasoning_text", "text": "r"}]
    whole = item(summary=parts("a", "b"), content=content, encrypted_content="seal")
    assert body(whole) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1)),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "r")),
        *(SignatureDelta(0, "seal", "openai"), BlockStop(0), BlockStop(1)),
    ]


@pytest.mark.parametrize(
    "end",
    [
        event("response.reasoning_summary_text.done", output_index=0, summary_index=0, text="ab"),
        event(
            "response.reasoning_summary_part.done",
            output_index=0,
            summary_index=0,
            part=parts("ab")[0],
        ),
        item(summary=parts("ab")),
        completed({"type": "reasoning", "id": "rs_1", "summary": parts("ab")}),
    ],
)
def test_each_end_brings_what_the_deltas_did_not(end: bytes) -> None:
    events = decode(START, BEGUN, summary("a"), end, completed()).events
    expected = [STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), BlockStop(0)]
    assert events[1:-1] == expected


def test_text_that_the_deltas_contradict_is_a_note() -> None:
    decoded = decode(START, BEGUN, summary("ab"), item(summary=parts("ac")), completed())
    assert decoded.events[2:-2] == [ReasoningDelta(0, "ab")]
    assert decoded.notes == (Note("resent_text", "Reasoning", 1),)


@pytest.mark.parametrize(
    ("server", "fields", "issuer"),
    [
        (None, {}, "openai"),
        ("xai", {}, "xai"),
        (None, {"format": "anthropic-claude-v1"}, "anthropic"),
        ("openrouter", {"format": "google-gemini-v1"}, "google"),
        (None, {"format": "openai-responses-v1"}, "openai"),
        (None, {"format": 3}, "openai"),
    ],
)
def test_seal_names_who_can_open_it(
    server: str | None, fields: dict[str, Any], issuer: str
) -> None:
    end = item(encrypted_content="seal", **fields)
    expected = [STARTED, SignatureDelta(0, "seal", issuer), BlockStop(0)]
    assert body(BEGUN, end, server=server) == expected


def test_seal_that_we_tagged_goes_back_to_its_issuer() -> None:
    end = item(encrypted_content=tag_signature("far", "google"))
    assert body(BEGUN, end, server="xai")[1] == SignatureDelta(0, "far", "google")


def test_seal_of_a_start_may_not_be_whole() -> None:
    begun = added(0, "reasoning", id="rs_1", encrypted_content="half")
    assert body(begun, item()) == [STARTED, BlockStop(0)]
    assert body(begun) == [STARTED, BlockStop(0)]


def test_text_behind_the_end_is_a_block_of_its_own() -> None:
    frames = [BEGUN, summary("a"), item(summary=parts("a"), encrypted_content="s"), summary("b", 1)]
    decoded = decode(START, *frames, completed())
    first: list[Event] = [STARTED, ReasoningDelta(0, "a"), SignatureDelta(0, "s", "openai")]
    assert decoded.events[1:-1] == [
        *(*first, BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "b"), BlockStop(1))
    ]
    assert decoded.notes == (Note("misplaced_delta", "Reasoning", 1),)


def test_half_a_character_waits_for_the_other() -> None:
    assert body(BEGUN, summary("\ud83c"), summary("\udf0a"))[1:-1] == [ReasoningDelta(0, "🌊")]


def test_what_is_empty_says_nothing() -> None:
    end = item(summary=parts("", "b"), content=[{"type": "reasoning_text", "text": ""}])
    assert body(BEGUN, summary(""), raw(""), end) == [STARTED, ReasoningDelta(0, "b"), BlockStop(0)]


def test_whole_text_behind_the_end_says_nothing() -> None:
    again = event(
        "response.reasoning_summary_text.done", output_index=0, summary_index=0, text="ab"
    )
    assert body(BEGUN, summary("a"), item(), again) == [
        STARTED,
        ReasoningDelta(0, "a"),
        BlockStop(0),
    ]


def test_half_a_character_at_the_end_is_replaced() -> None:
    assert body(BEGUN, summary("a\ud83c"))[1:] == [
        *(ReasoningDelta(0, "a"), ReasoningDelta(0, "\ufffd"), BlockStop(0))
    ]


SEALED = seal_reasoning("c2ln", "anthropic")
REDACTED = BlockStart(0, RedactedReasoning("c2ln", "anthropic"), extra={"item_id": "rs_1"})


def test_reasoning_of_another_that_may_not_be_seen_is_known_at_its_start() -> None:
    begun = added(0, "reasoning", id="rs_1", summary=[], encrypted_content=SEALED)
    assert body(begun, item(encrypted_content=SEALED)) == [REDACTED, BlockStop(0)]


def test_more_of_reasoning_that_may_not_be_seen_is_another_block() -> None:
    begun = added(0, "reasoning", id="rs_1", summary=[], encrypted_content=SEALED)
    assert body(begun, summary("a"), item(summary=parts("a"), encrypted_content=SEALED)) == [
        *(REDACTED, BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "a")),
        *(SignatureDelta(1, SEALED, "openai"), BlockStop(1)),
    ]
