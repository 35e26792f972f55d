"""Steps that overlap, never stop, or have no index or start of their own."""

from __future__ import annotations

from typing import Any

import pytest
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
    Completed,
    Image,
    JSONDelta,
    Limits,
    Opaque,
    Reasoning,
    ReasoningDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
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


def test_repeated_start_and_stop_are_ignored() -> None:
    begun, say = start(0, "model_output"), delta(0, "text", text="a")
    got = decode(CREATED, begun, begun, say, begun, stop(0), stop(0), begun, completed())
    assert got.events[1:-1] == [BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)]
    assert kinds(got) == {"repeated_start": 3, "extra_block_stop": 1}


def test_another_start_of_a_step_is_malformed() -> None:
    for before in (start(0, "thought"), step("thought")):
        got = decode(CREATED, before, start(0, "model_output"), completed())
        message = "step 0 starts again, expected another index"
        assert got.events[-1] == StreamError("malformed", message)


@pytest.mark.parametrize("index", [0, 1])
def test_delta_of_a_step_that_is_not_open_is_malformed(index: int) -> None:
    say = delta(index, "text", text="a")
    got = decode(CREATED, step("thought"), say, stop(index), completed())
    message = f"delta of step {index}, which is not open"
    assert got.events[-1] == StreamError("malformed", message)


def test_empty_delta_of_a_stopped_step_is_ignored() -> None:
    got = decode(CREATED, step("thought"), delta(0, "text", text=""), completed())
    assert len(got.events) == 4
    assert kinds(got) == {"late_delta": 1}


def test_steps_without_an_index_are_numbered_in_order() -> None:
    said = [event("step.start", step={"type": "model_output"})]
    said += [event("step.delta", delta={"type": "text", "text": "a"}), event("step.stop")]
    got = decode(CREATED, *said, *said, completed())
    assert got.events[1:-1] == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1)),
    ]


def test_start_without_an_index_has_the_next_one() -> None:
    begun = event("step.start", step={"type": "model_output"})
    got = decode(CREATED, step("thought"), begun, delta(1, "text", text="a"), stop(1), completed())
    assert got.events[3:-1] == [BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1)]
    assert kinds(got) == {}


@pytest.mark.parametrize("kind", ["model_output", "thought"])
def test_arguments_in_a_step_that_is_no_call_are_malformed(kind: str) -> None:
    wrong = delta(0, "arguments_delta", arguments="{}")
    got = decode(CREATED, start(0, kind), wrong, stop(0), completed())
    message = "arguments_delta in step 0, which is of another type"
    assert got.events[-1] == StreamError("malformed", message)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("google_search_call", {"arguments": {"queries": ["q"]}}),
        ("google_search_result", {"result": []}),
        ("function_result", {"result": "r"}),
    ],
)
@pytest.mark.parametrize(
    "begun", ["function_call", "url_context_call", "url_context_result", "thought"]
)
def test_delta_of_another_call_or_result_is_malformed(
    begun: str, kind: str, fields: dict[str, Any]
) -> None:
    started = start(0, begun, id="c", name="f", call_id="c")
    got = decode(CREATED, started, delta(0, kind, **fields), stop(0), completed())
    message = f"{kind} in step 0, which is of another type"
    assert got.events[-1] == StreamError("malformed", message)


def test_arguments_in_a_result_are_malformed() -> None:
    started = start(0, "function_result", call_id="c")
    wrong = delta(0, "arguments_delta", arguments="1")
    got = decode(CREATED, started, wrong, stop(0), completed())
    message = "arguments_delta in step 0, which is of another type"
    assert got.events[-1] == StreamError("malformed", message)


@pytest.mark.parametrize("action", ["delta", "stop"])
def test_event_without_an_index_belongs_to_the_only_open_step(action: str) -> None:
    both = start(0, "model_output") + start(1, "model_output")
    bare = event(f"step.{action}", delta={"type": "text", "text": "a"})
    got = decode(CREATED, both, bare, completed())
    message = f"step.{action} without an index and 2 open steps"
    assert got.events[-1] == StreamError("malformed", message)
    assert isinstance(decode(CREATED, both, stop(1), bare, completed()).outcome, Completed)


def test_delta_without_an_index_and_an_open_step_is_malformed() -> None:
    bare = event("step.delta", delta={"type": "text", "text": "a"})
    got = decode(CREATED, bare, completed())
    message = "step.delta without an index and 0 open steps"
    assert got.events[-1] == StreamError("malformed", message)


def test_index_that_is_no_number_is_malformed() -> None:
    named = event("step.start", index="1", step={"type": "thought"})
    got = decode(CREATED, named, completed())
    message = "step index is a string of 1 characters, expected an integer"
    assert got.events[-1] == StreamError("malformed", message)


def test_delta_without_a_step_starts_one_of_its_kind_in_a_resumed_stream() -> None:
    say = delta(4, "thought_summary", content={"text": "t"})
    got = decode(say, stop(4), delta(5, "image", uri="u", mime_type="image/png"), stop(5))
    assert got.events[1:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "t"), BlockStop(0)),
        *(BlockStart(1, Image("image/png", url="u")), BlockStop(1)),
    ]
    assert kinds(got) == {"missing_start": 1, "misplaced_delta": 2}


def test_step_that_a_resumed_stream_has_stopped_takes_no_delta() -> None:
    said, more = (delta(4, "text", text=words) for words in ("a", "b"))
    got = decode(said, stop(4), more)
    message = "delta of step 4, which is not open"
    assert got.events[-1] == StreamError("malformed", message)


def test_step_of_a_resumed_stream_may_not_start_again_as_another() -> None:
    got = decode(delta(4, "text", text="a"), start(4, "thought"))
    message = "step 4 starts again, expected another index"
    assert got.events[-1] == StreamError("malformed", message)


def test_unknown_delta_without_a_step_is_opaque() -> None:
    got = blocks(delta(3, "news", n=1), event("step.delta", index=3), event("step.start", index=3))
    assert got[:2] == [Opaque(OWN, "news", '{"type":"news","n":1}'), Opaque(OWN, "delta", "{}")]


# Steps that the last event repeats


SAY = step("model_output", ("text", {"text": "He"}), ("text", {"text": "llo"}))
ASK = step(
    "function_call", ("arguments_delta", {"arguments": '{"a":1}'}), number=1, id="c", name="f"
)


def said(text: str) -> dict[str, object]:
    return {"type": "model_output", "content": [{"type": "text", "text": text}]}


def asked(**fields: object) -> dict[str, object]:
    return {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}, **fields}


@pytest.mark.parametrize(
    "steps",
    [
        [said("Hello"), asked()],
        [{"type": "user_input"}, said("Hello")],
        [asked()],
        [said("")],
        [said("other"), said("answers")],
    ],
)
def test_last_event_may_repeat_the_steps(steps: list[dict[str, object]]) -> None:
    got = decode(CREATED, SAY, ASK, completed(steps=steps))
    assert isinstance(got.outcome, Completed)
    assert got.notes == ()


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (said("Hell"), "an answer that the last event repeats with another text"),
        (said("Jello"), "an answer that the last event repeats with another text"),
        (asked(name="g"), "a call that the last event repeats with another content"),
        (asked(arguments={}), "a call that the last event repeats with another content"),
    ],
)
def test_last_event_that_contradicts_the_steps_is_malformed(
    step: dict[str, object], what: str
) -> None:
    got = decode(CREATED, SAY, ASK, completed(steps=[step]))
    assert got.events[-1] == StreamError("malformed", what)


def test_former_revision_repeats_its_contents() -> None:
    wrong = {"type": "text", "text": "Hell"}
    text = [event("content.start", index=0, content={"type": "text"})]
    text += [event("content.delta", index=0, delta={"type": "text", "text": "Hello"})]
    got = decode(CREATED, *text, event("content.stop", index=0), completed(outputs=[wrong]))
    assert isinstance(got.events[-1], StreamError)


def test_call_of_the_last_event_alone_is_added() -> None:
    got = decode(CREATED, SAY, completed(steps=[asked()]))
    assert got.events[-4:-1] == [
        *(BlockStart(1, ToolCall("c", "f")), JSONDelta(1, '{"a": 1}'), BlockStop(1)),
    ]
    assert kinds(got) == {"completed_by_whole": 1}


@pytest.mark.parametrize("piece", ["", "{}", "{ }"])
def test_empty_arguments_are_an_empty_object(piece: str) -> None:
    ask = step("function_call", ("arguments_delta", {"arguments": piece}), id="c", name="f")
    got = decode(CREATED, ask, completed(steps=[asked(arguments={})]))
    assert isinstance(got.outcome, Completed)


def test_half_a_character_in_the_answer_is_replaced_before_it_is_compared() -> None:
    half = step("model_output", ("text", {"text": "a\ud83d"}))
    assert isinstance(decode(CREATED, half, completed(steps=[said("a\ufffd")])).outcome, Completed)


@pytest.mark.parametrize(("count", "fits"), [(8, True), (9, False)])
def test_steps_without_blocks_are_bounded(count: int, *, fits: bool) -> None:
    steps = [frame(at) for at in range(count) for frame in (_bare_output, stop)]
    got = decode(CREATED, *steps, completed(), limits=Limits(max_blocks=2))
    assert isinstance(got.outcome, Completed) == fits
    if not fits:
        assert isinstance(got.events[-1], StreamError)
        assert got.events[-1].code == "max_blocks"


def _bare_output(index: int) -> bytes:
    return start(index, "model_output")
