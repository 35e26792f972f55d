"""Reasoning items: summaries, reasoning text and signatures."""

from __future__ import annotations

import re
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
from support.openai_responses.streams import find, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Limits,
    Note,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    SignatureDelta,
    StreamError,
    Transcoder,
)
from streamnorm._core.text import tag_redacted_reasoning, tag_signature

ITEM_ADDED = added(0, "reasoning", id="rs_1", summary=[])
STARTED = BlockStart(0, Reasoning(), extra={"item_id": "rs_1"})
STOPS = (BlockStop(0), BlockStop(1))


def summary(piece: str, number: int = 0) -> bytes:
    return delta("reasoning_summary_text", piece, summary_index=number)


def raw(piece: str, number: int = 0) -> bytes:
    return delta("reasoning_text", piece, content_index=number)


def parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "summary_text", "text": text} for text in texts]


def item(**fields: Any) -> bytes:
    return done(0, "reasoning", id="rs_1", **{"summary": [], **fields})


def test_summaries_are_parts() -> None:
    frames = [
        ITEM_ADDED,
        summary("a"),
        summary("b"),
        summary("c", 1),
        item(summary=parts("ab", "c")),
    ]
    assert body(*frames) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), ReasoningDelta(0, "c", 1)),
        BlockStop(0),
    ]


def test_parts_are_numbered_densely_in_the_order_of_their_starts() -> None:
    frames = [ITEM_ADDED, summary("a", 7), summary("b", 10**9), summary("c", 7)]
    assert body(*frames)[1:-1] == [
        *(ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1), ReasoningDelta(0, "c"))
    ]


def part_event(name: str, number: int, text: str = "") -> bytes:
    return event(
        f"response.reasoning_summary_part.{name}",
        output_index=0,
        summary_index=number,
        part={"type": "summary_text", "text": text},
    )


def test_part_waits_for_the_end_of_one_that_started_before() -> None:
    starts = [part_event("added", 0), part_event("added", 1, "b"), part_event("added", 2)]
    held = [ITEM_ADDED, *starts, summary("c", 1), summary("x", 2), summary("a", 0)]
    expected = [STARTED, ReasoningDelta(0, "a")]
    assert decode(START, *held).events[1:-1] == expected
    second_ended = [*held, part_event("done", 1, "bc")]
    assert decode(START, *second_ended).events[1:-1] == expected
    first_ended = [*held, part_event("done", 0, "ad")]
    expected += [ReasoningDelta(0, "d"), ReasoningDelta(0, "bc", 1)]
    assert decode(START, *first_ended).events[1:-1] == expected
    live = [*first_ended, summary("e", 1), part_event("done", 1, "bce"), summary("y", 2)]
    assert body(*live) == [
        *(*expected, ReasoningDelta(0, "e", 1), ReasoningDelta(0, "x", 2)),
        *(ReasoningDelta(0, "y", 2), BlockStop(0)),
    ]
    assert body(*held) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "bc", 1)),
        *(ReasoningDelta(0, "x", 2), BlockStop(0)),
    ]


def test_second_start_of_an_empty_part_says_nothing() -> None:
    starts = [part_event("added", 0), part_event("added", 0), part_event("added", 1)]
    frames = [ITEM_ADDED, *starts, part_event("added", 0), summary("a", 0)]
    assert decode(START, *frames).events[1:-1] == [STARTED, ReasoningDelta(0, "a")]


def test_second_start_of_a_part_that_has_ended_holds_none_back() -> None:
    first = [part_event("added", 0), part_event("done", 0), part_event("added", 0)]
    frames = [ITEM_ADDED, *first, part_event("added", 1), summary("a", 1)]
    assert decode(START, *frames).events[1:-1] == [STARTED, ReasoningDelta(0, "a", 1)]


def test_empty_part_holds_none_back_once_it_has_ended() -> None:
    frames = [ITEM_ADDED, part_event("added", 0), part_event("added", 1), summary("a", 1)]
    ended = decode(START, *frames, part_event("done", 0), part_event("done", 5))
    assert ended.events[1:-1] == [STARTED, ReasoningDelta(0, "a", 1)]


def test_held_parts_reach_a_target_without_parts_in_their_order() -> None:
    frames = [START, ITEM_ADDED, part_event("added", 0), part_event("added", 1)]
    frames += [summary(text, number) for text in ("a", "b") for number in (1, 0)]
    frames += [item(summary=parts("ab", "ab")), completed()]
    run = Transcoder("openai_responses", "anthropic")
    written = b"".join(run.feed(b"".join(frames)) + run.close())
    texts = re.findall(rb'"thinking":"([^"]+)"', written)
    assert b"".join(texts) == rb"ab\n\nab"


def test_held_parts_are_bounded() -> None:
    limits = Limits(max_accumulated_bytes=100)
    frames = [ITEM_ADDED, part_event("added", 0), part_event("added", 1)]
    pieces = [summary("x" * 30, 1) for _ in range(5)]
    error = decode(START, *frames, *pieces, limits=limits).events[-1]
    assert isinstance(error, StreamError)
    assert error.kind == "too_large"


def test_reasoning_text_has_the_block_of_the_item_without_summaries() -> None:
    end = item(content=[{"type": "reasoning_text", "text": "abc"}])
    assert body(ITEM_ADDED, raw("a"), raw("b"), end) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), ReasoningDelta(0, "c")),
        BlockStop(0),
    ]


@pytest.mark.parametrize(("first", "second"), [(summary, raw), (raw, summary)])
def test_second_field_has_a_block_of_its_own(first: Any, second: Any) -> None:
    frames = [ITEM_ADDED, first("a"), second("b"), first("c"), item(encrypted_content="seal")]
    assert body(*frames) == [
        *(STARTED, ReasoningDelta(0, "a"), BlockStart(1, Reasoning()), ReasoningDelta(1, "b")),
        *(ReasoningDelta(0, "c"), SignatureDelta(0, "seal", "openai", "rs_1"), *STOPS),
    ]


def test_item_without_deltas_is_emitted_whole() -> None:
    content = [{"type": "reasoning_text", "text": "r"}]
    whole = item(summary=parts("a", "b"), content=content, encrypted_content="seal")
    assert body(whole) == [
        *(STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1)),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "r")),
        *(SignatureDelta(0, "seal", "openai", "rs_1"), *STOPS),
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
def test_each_done_event_adds_what_no_delta_carried(end: bytes) -> None:
    events = decode(START, ITEM_ADDED, summary("a"), end, completed()).events
    expected = [STARTED, ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), BlockStop(0)]
    assert events[1:-1] == expected


def test_complete_text_that_contradicts_the_deltas_is_a_note() -> None:
    decoded = decode(START, ITEM_ADDED, summary("ab"), item(summary=parts("ac")), completed())
    assert decoded.events[2:-2] == [ReasoningDelta(0, "ab")]
    assert decoded.notes == (Note("resent_text", "Reasoning", 1),)


@pytest.mark.parametrize(
    ("server", "fields", "issuer", "id"),
    [
        (None, {}, "openai", "rs_1"),
        ("xai", {}, "xai", "rs_1"),
        (None, {"format": "anthropic-claude-v1"}, "anthropic", None),
        ("openrouter", {"format": "google-gemini-v1"}, "google", None),
        (None, {"format": "openai-responses-v1"}, "openai", "rs_1"),
        (None, {"format": 3}, "openai", "rs_1"),
    ],
)
def test_signature_names_its_issuer_and_the_id_that_it_is_bound_to(
    server: str | None, fields: dict[str, Any], issuer: str, id: str | None
) -> None:
    end = item(encrypted_content="seal", **fields)
    expected = [STARTED, SignatureDelta(0, "seal", issuer, id), BlockStop(0)]
    assert body(ITEM_ADDED, end, server=server) == expected


def test_tagged_signature_names_its_first_issuer() -> None:
    end = item(encrypted_content=tag_signature("far", "google"))
    assert body(ITEM_ADDED, end, server="xai")[1] == SignatureDelta(0, "far", "google")


def test_tagged_signature_keeps_its_id() -> None:
    end = item(encrypted_content=tag_signature("far", "openai", "rs_far"))
    assert body(ITEM_ADDED, end)[1] == SignatureDelta(0, "far", "openai", "rs_far")


def test_signature_of_an_item_without_an_id_is_bound_to_none() -> None:
    end = done(0, "reasoning", summary=[], encrypted_content="seal")
    begun = added(0, "reasoning", summary=[])
    assert body(begun, end)[1] == SignatureDelta(0, "seal", "openai")


def test_encrypted_content_of_the_start_is_not_final() -> None:
    begun = added(0, "reasoning", id="rs_1", encrypted_content="half")
    assert body(begun, item()) == [STARTED, BlockStop(0)]
    assert body(begun) == [STARTED, BlockStop(0)]


@pytest.mark.parametrize("said", [[], [summary("a")]])
def test_encrypted_content_is_that_of_the_complete_item(said: list[bytes]) -> None:
    """That of the start may be incomplete: OpenAI does not verify it (openai/codex#8119)."""
    begun = added(0, "reasoning", id="rs_1", summary=[], encrypted_content="half")
    end = item(summary=parts("a") if said else [], encrypted_content="whole")
    decoded = decode(START, begun, *said, end, completed())
    signatures = [event for event in decoded.events if isinstance(event, SignatureDelta)]
    assert signatures == [SignatureDelta(0, "whole", "openai", "rs_1")]
    payloads, _ = write(decoded.events, extras=True)
    assert "encrypted_content" not in find(payloads, "output_item.added")[0]["item"]
    assert find(payloads, "output_item.done")[0]["item"]["encrypted_content"] == "whole"


@pytest.mark.parametrize("late", [summary("b"), summary("b", 1), raw("b")])
def test_delta_after_the_end_is_malformed(late: bytes) -> None:
    end = item(summary=parts("a"), encrypted_content="s")
    decoded = decode(START, ITEM_ADDED, summary("a"), end, late, completed())
    assert isinstance(decoded.events[-1], StreamError)
    assert decoded.events[-1].kind == "malformed"


def test_repeated_delta_after_the_end_is_a_note() -> None:
    frames = [ITEM_ADDED, summary("a"), item(summary=parts("a")), summary("a"), summary("")]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == [STARTED, ReasoningDelta(0, "a"), BlockStop(0)]
    assert decoded.notes == (Note("resent_text", "Reasoning", 1),)


def test_delta_after_its_complete_text_is_malformed() -> None:
    end = event("response.reasoning_summary_text.done", output_index=0, summary_index=0, text="a")
    decoded = decode(START, ITEM_ADDED, summary("a"), end, summary("b"), completed())
    message = "delta of reasoning that is complete, expected an open one"
    assert decoded.events[-1] == StreamError("malformed", message)


def test_empty_complete_text_is_ignored() -> None:
    end = event("response.reasoning_text.done", output_index=0, content_index=0, text="")
    assert body(ITEM_ADDED, raw("a"), end, raw("b"))[1:-1] == [
        *(ReasoningDelta(0, "a"), ReasoningDelta(0, "b"))
    ]


def test_second_start_of_a_part_is_a_note() -> None:
    begun = event(
        "response.reasoning_summary_part.added",
        output_index=0,
        summary_index=0,
        part={"type": "summary_text", "text": "a"},
    )
    for frames in ([begun, begun], [begun, item(), begun]):
        decoded = decode(START, ITEM_ADDED, *frames, completed())
        assert decoded.events[1:-1] == [STARTED, ReasoningDelta(0, "a"), BlockStop(0)]
        assert Note("resent_item", "reasoning part", 1) in decoded.notes


def test_complete_text_that_differs_from_the_one_before_is_a_note() -> None:
    end = event("response.reasoning_summary_text.done", output_index=0, summary_index=0, text="a")
    decoded = decode(START, ITEM_ADDED, summary("a"), end, item(summary=parts("ab")), completed())
    assert decoded.events[1:-1] == [STARTED, ReasoningDelta(0, "a"), BlockStop(0)]
    assert decoded.notes == (Note("resent_text", "Reasoning", 1),)


def test_delta_without_an_index_belongs_to_the_only_part() -> None:
    bare = delta("reasoning_summary_text", "c")
    deltas = [summary("a", 0), summary("b", 1)]
    assert ReasoningDelta(0, "c") in body(ITEM_ADDED, summary("b", 1), bare)
    last = decode(START, ITEM_ADDED, *deltas, bare, completed()).events[-1]
    message = "event without an index in an item of 2 parts, expected one"
    assert last == StreamError("malformed", message)


def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    assert body(ITEM_ADDED, summary("\ud83c"), summary("\udf0a"))[1:-1] == [ReasoningDelta(0, "🌊")]


def test_empty_texts_emit_nothing() -> None:
    end = item(summary=parts("", "b"), content=[{"type": "reasoning_text", "text": ""}])
    assert body(ITEM_ADDED, summary(""), raw(""), end) == [
        STARTED,
        ReasoningDelta(0, "b"),
        BlockStop(0),
    ]


def test_complete_text_after_the_end_is_ignored() -> None:
    again = event(
        "response.reasoning_summary_text.done", output_index=0, summary_index=0, text="ab"
    )
    assert body(ITEM_ADDED, summary("a"), item(), again) == [
        STARTED,
        ReasoningDelta(0, "a"),
        BlockStop(0),
    ]


def test_half_a_surrogate_pair_at_the_end_is_replaced() -> None:
    assert body(ITEM_ADDED, summary("a\ud83c"))[1:] == [
        *(ReasoningDelta(0, "a"), ReasoningDelta(0, "\ufffd"), BlockStop(0))
    ]


SEALED = tag_redacted_reasoning("c2ln", "anthropic")
REDACTED = BlockStart(0, RedactedReasoning("c2ln", "anthropic"), extra={"item_id": "rs_1"})


def test_redacted_reasoning_of_another_vendor_is_whole_at_its_start() -> None:
    begun = added(0, "reasoning", id="rs_1", summary=[], encrypted_content=SEALED)
    assert body(begun, item(encrypted_content=SEALED)) == [REDACTED, BlockStop(0)]


def test_delta_of_redacted_reasoning_starts_a_new_block() -> None:
    begun = added(0, "reasoning", id="rs_1", summary=[], encrypted_content=SEALED)
    assert body(begun, summary("a"), item(summary=parts("a"), encrypted_content=SEALED)) == [
        *(REDACTED, BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "a")),
        *(SignatureDelta(1, SEALED, "openai", "rs_1"), BlockStop(1)),
    ]


def test_complete_text_after_the_end_of_its_item_is_a_note() -> None:
    late = event("response.reasoning_summary_text.done", output_index=0, summary_index=0, text="b")
    end = item(summary=parts("a"))
    decoded = decode(START, ITEM_ADDED, summary("a"), end, late, completed())
    assert decoded.events[1:-1] == [STARTED, ReasoningDelta(0, "a"), BlockStop(0)]
    assert decoded.notes == (Note("resent_text", "Reasoning", 1),)
