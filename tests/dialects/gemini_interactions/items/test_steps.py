"""Steps that overlap, never stop, or have no index or start of their own."""

from __future__ import annotations

from support.gemini_interactions.frames import (
    CREATED,
    blocks,
    completed,
    decode,
    delta,
    event,
    kinds,
    start,
    step,
    stop,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Image,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
)

OWN = "gemini_interactions"


def test_steps_may_overlap() -> None:
    got = blocks(
        start(0, "thought"),
        start(1, "model_output"),
        delta(1, "text", text="a"),
        delta(0, "thought_summary", content={"text": "t"}),
        delta(1, "text", text="b"),
        stop(0),
        stop(1),
    )
    assert got == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "t")),
        *(TextDelta(0, "b"), BlockStop(1), BlockStop(0)),
    ]


def test_open_step_is_stopped_at_the_end() -> None:
    got = decode(CREATED, start(0, "model_output"), delta(0, "text", text="a"), completed())
    assert got.events[-2] == BlockStop(0)
    assert kinds(got) == {"missing_block_stop": 1}


def test_reused_index_starts_another_step() -> None:
    again = start(0, "model_output") + delta(0, "text", text="a")
    got = decode(CREATED, again, again, stop(0), stop(0), completed())
    assert [event for event in got.events if isinstance(event, TextDelta)] == [
        TextDelta(0, "a"),
        TextDelta(1, "a"),
    ]
    assert kinds(got) == {"reused_index": 1, "extra_block_stop": 1}


def test_delta_after_a_stop_starts_a_block_of_its_kind() -> None:
    got = decode(CREATED, step("thought"), delta(0, "text", text="a"), stop(0), completed())
    assert got.events[3:-1] == [
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "a"), BlockStop(1)),
    ]
    assert kinds(got) == {"misplaced_delta": 1}


def test_steps_without_an_index_are_numbered_in_order() -> None:
    said = [event("step.start", step={"type": "model_output"})]
    said += [event("step.delta", delta={"type": "text", "text": "a"}), event("step.stop")]
    got = decode(CREATED, *said, *said, completed())
    assert got.events[1:-1] == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1)),
    ]


def test_delta_without_a_step_starts_one_of_its_kind() -> None:
    say = delta(4, "thought_summary", content={"text": "t"})
    got = decode(CREATED, say, stop(4), delta(5, "image", uri="u", mime_type="image/png"), stop(5))
    assert got.events[1:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "t"), BlockStop(0)),
        *(BlockStart(1, Image("image/png", url="u")), BlockStop(1)),
    ]
    assert kinds(got) == {"misplaced_delta": 2}


def test_unknown_delta_without_a_step_is_opaque() -> None:
    got = blocks(delta(3, "news", n=1), event("step.delta", index=3), event("step.start", index=3))
    assert got[:2] == [Opaque(OWN, "news", '{"type":"news","n":1}'), Opaque(OWN, "delta", "{}")]
