"""Deltas of UI message streams that are read on the run."""

from __future__ import annotations

from typing import Any

import pytest
from support.ui_message_stream.reader import (
    PM,
    START,
    STEP,
    delta,
    end,
    failure,
    frames,
    middle,
    start,
    tool,
)

from streamnorm import BlockStart, BlockStop, JSONDelta, ReasoningDelta, TextDelta
from streamnorm.codec import decoder
from streamnorm.dialects.ui_message_stream import wire


def test_run_reads_what_the_full_reading_reads() -> None:
    found = middle(
        start("text"), delta("text", "a"), delta("text", "b"),
        delta("text", "c", providerMetadata=PM), delta("text", "d", "0"), delta("text", ""),
        end("text"), tool("input-start"), tool("input-delta", inputTextDelta="{"),
        tool("input-delta", inputTextDelta=""), tool("input-delta", inputTextDelta="}"),
        tool("input-available", input={}),
    )  # fmt: skip
    assert [e for e in found if isinstance(e, TextDelta | JSONDelta)] == [
        *(TextDelta(0, text) for text in "abcd"),
        *(JSONDelta(1, text) for text in "{}"),
    ]


def test_run_follows_parts_and_calls_that_alternate() -> None:
    pieces = [
        *(delta("text", "a", "0"), delta("text", "A", "1"), delta("reasoning", "r", "0")),
        *(
            tool("input-delta", "c", inputTextDelta="1"),
            tool("input-delta", "d", inputTextDelta="2"),
        ),
    ]
    begun = [start("text", "0"), start("text", "1"), start("reasoning", "0")]
    begun += [tool("input-start", "c"), tool("input-start", "d")]
    ended = [end("text", "0"), end("text", "1"), end("reasoning", "0")]
    ended += [tool("input-available", "c", input=111), tool("input-available", "d", input=222)]
    found = middle(*begun, *pieces, *pieces, *reversed(pieces), *ended)
    said = {0: "aaa", 1: "AAA", 2: "111", 3: "222", 4: "rrr"}
    texts = dict.fromkeys(said, "")
    for event in found:
        if isinstance(event, TextDelta | ReasoningDelta):
            texts[event.index] += event.text
        elif isinstance(event, JSONDelta):
            texts[event.index] += event.partial_json
    assert texts == said


def test_ids_of_several_lengths_alternate_for_longer_than_templates_are_learned() -> None:
    pieces = [delta("text", "a", "0"), delta("text", "b", "10")]
    begun, ended = [start("text", "0"), start("text", "10")], [end("text", "0"), end("text", "10")]
    texts = {0: "", 1: ""}
    for event in middle(*begun, *pieces * 20, *ended):
        if isinstance(event, TextDelta):
            texts[event.index] += event.text
    assert texts == {0: "a" * 20, 1: "b" * 20}


def test_inputs_of_calls_alternate_for_longer_than_templates_are_learned() -> None:
    digits = {"c": "1", "call": "2"}
    begun = [tool("input-start", id) for id in digits]
    pieces = [tool("input-delta", id, inputTextDelta=digit) for id, digit in digits.items()]
    ended = [tool("input-available", id, input=int(20 * digit)) for id, digit in digits.items()]
    texts = {0: "", 1: ""}
    for event in middle(*begun, *pieces * 20, *ended):
        if isinstance(event, JSONDelta):
            texts[event.index] += event.partial_json
    assert texts == {0: "1" * 20, 1: "2" * 20}


@pytest.mark.parametrize(
    "chunks",
    [
        (start("text"), *[delta("text", "a")] * 3, end("text"), delta("text", "b")),
        (
            *(tool("input-start"), *[tool("input-delta", inputTextDelta="1")] * 3),
            *(tool("input-available", input=111), tool("input-delta", inputTextDelta="1")),
        ),
    ],
    ids=["text", "input"],
)
def test_run_extends_nothing_that_has_ended(chunks: tuple[dict[str, Any], ...]) -> None:
    assert failure(*chunks).kind == "malformed"


def test_delta_after_an_end_that_may_continue_is_read_in_full() -> None:
    found = middle(
        start("text"), delta("text", "a"), start("reasoning", "r:0"), end("reasoning", "r:0"),
        delta("text", "b"), end("text"),
    )  # fmt: skip
    assert [e for e in found if isinstance(e, TextDelta)] == [TextDelta(0, "a"), TextDelta(0, "b")]
    found = middle(
        tool("input-start"), tool("input-delta", inputTextDelta="1"), start("reasoning", "r:0"),
        end("reasoning", "r:0"), tool("input-delta", inputTextDelta="2"),
        tool("input-available", input=12),
    )  # fmt: skip
    assert [type(e) for e in found if not isinstance(e, JSONDelta)] == [
        *(BlockStart, BlockStart, BlockStop, BlockStop),
    ]


DELTAS = {
    "text-delta": TextDelta,
    "reasoning-delta": ReasoningDelta,
    "tool-input-delta": JSONDelta,
}
OPENED = [
    pytest.param(start("text"), delta("text", "a"), id="text"),
    pytest.param(start("reasoning"), delta("reasoning", "a"), id="reasoning"),
    pytest.param(tool("input-start"), tool("input-delta", inputTextDelta="a"), id="call"),
]


@pytest.mark.parametrize(("begun", "content"), OPENED)
def test_deltas_after_the_first_take_the_fast_path(begun: Any, content: Any) -> None:
    reader = decoder("ui_message_stream")
    reader.feed(frames(START, STEP, begun, content))
    assert reader.run is not None
    assert reader.run.can_learn
    assert reader.run.text_of(frames(content).removesuffix(b"\n\n")) == "a"


@pytest.mark.parametrize(("begun", "content"), OPENED)
def test_deltas_like_those_that_were_decoded_are_not_decoded(
    begun: Any, content: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = decoder("ui_message_stream")
    reader.feed(frames(START, STEP, begun, *[content] * 8))
    decoded: list[bytes] = []
    monkeypatch.setattr(wire, "decode_delta", decoded.append)
    events = reader.feed(frames(content, content, content))
    assert [type(event) for event in events] == [DELTAS[content["type"]]] * 3
    assert decoded == []
