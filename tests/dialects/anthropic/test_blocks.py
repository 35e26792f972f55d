"""Open blocks: those of the API, and the deviations of compatible servers."""

from __future__ import annotations

import pytest
from support.anthropic.frames import (
    STOP,
    block,
    body,
    call,
    decode,
    delta,
    end,
    notes,
    start,
    stop,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Note,
    Reasoning,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)


def test_empty_deltas_are_no_events() -> None:
    pieces = [delta(0, "text_delta", text=piece) for piece in ("", "a", None, "", "b")]
    assert body(block(0, "text", text=""), *pieces, delta(0, "text_delta"), stop(0)) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)),
    ]


def test_text_of_the_start_precedes_the_deltas() -> None:
    frames = [block(0, "text", text="He"), delta(0, "text_delta", text="llo"), stop(0)]
    assert body(*frames) == [
        *(BlockStart(0, Text()), TextDelta(0, "He"), TextDelta(0, "llo"), BlockStop(0)),
    ]
    assert notes(*frames) == {}


@pytest.mark.parametrize("between", [b"", delta(0, "text_delta", text="")])
def test_first_delta_that_repeats_the_text_of_the_start_is_ignored(between: bytes) -> None:
    """As MiniMax sends it."""
    again = delta(0, "text_delta", text="He")
    frames = [block(0, "text", text="He"), between, again, again, stop(0)]
    assert body(*frames) == [
        *(BlockStart(0, Text()), TextDelta(0, "He"), TextDelta(0, "He"), BlockStop(0)),
    ]
    assert notes(*frames) == {"resent_text": 1}
    thought = delta(0, "thinking_delta", thinking="He")
    frames = [block(0, "thinking", thinking="He"), between, thought, thought, stop(0)]
    assert body(*frames)[1:3] == [ReasoningDelta(0, "He"), ReasoningDelta(0, "He")]
    assert notes(*frames) == {"resent_text": 1}


def test_half_a_surrogate_pair_is_held_for_the_other_half() -> None:
    halves = [delta(0, "text_delta", text=half) for half in ("a\ud83d", "\ude00b", "\ud83d")]
    assert body(block(0, "text", text=""), *halves, stop(0))[1:-1] == [
        *(TextDelta(0, "a"), TextDelta(0, "😀b"), TextDelta(0, "�")),
    ]
    split = [delta(0, "input_json_delta", partial_json=half) for half in ('"\ud83d', '\ude00"')]
    assert body(block(0, "tool_use", id="c", name="f"), *split, stop(0))[1:-1] == [
        *(JSONDelta(0, '"'), JSONDelta(0, '😀"')),
    ]


def test_notes_name_the_kind_of_block() -> None:
    opening = [block(None, "text", text=""), delta(None, "text_delta", text="a")]
    decoded = decode(start(), *opening, stop(None), call(1, id=""), end(), STOP)
    assert decoded.notes == (*(Note("misplaced_delta", "Text"), Note("minted_id", "tool call")),)


def test_interleaved_blocks_keep_their_own_deltas() -> None:
    assert body(
        *(block(0, "text", text=""), block(1, "tool_use", id="c", name="f")),
        *(delta(1, "input_json_delta", partial_json="["), delta(0, "text_delta", text="a")),
        *(delta(1, "input_json_delta", partial_json="]"), delta(0, "text_delta", text="b")),
        *(stop(0), stop(1)),
    ) == [
        *(BlockStart(0, Text()), BlockStart(1, ToolCall("c", "f"))),
        *(JSONDelta(1, "["), TextDelta(0, "a"), JSONDelta(1, "]"), TextDelta(0, "b")),
        *(BlockStop(0), BlockStop(1)),
    ]


def test_wire_indexes_are_only_keys() -> None:
    assert [getattr(event, "index", None) for event in body(text(7, "a"), text(3, "b"))] == [
        *(0, 0, 0, 1, 1, 1),
    ]
    assert notes(text(7, "a"), text(3, "b")) == {}


def test_unstopped_blocks_stop_at_the_end_in_block_order() -> None:
    frames = [
        *(block(4, "text", text="a"), block(2, "thinking", thinking="b", signature="c2ln")),
        *(block(9, "tool_use", id="c", name="f", input={"q": 1}),),
    ]
    assert body(*frames)[-5:] == [
        *(BlockStop(0), SignatureDelta(1, "c2ln", "anthropic"), BlockStop(1)),
        *(JSONDelta(2, '{"q": 1}'), BlockStop(2)),
    ]
    assert notes(*frames) == {"missing_block_stop": 3}


def test_stop_without_an_open_block_is_a_note() -> None:
    frames = [text(0, "a"), stop(0), stop(7)]
    assert body(*frames) == body(text(0, "a"))
    assert notes(*frames) == {"extra_block_stop": 2}


TEXT, THINKING = block(0, "text", text=""), block(0, "thinking", thinking="")
TOOL = block(1, "tool_use", id="c", name="f")
MISPLACED: dict[str, tuple[list[bytes], list[Event]]] = {
    "text without an index": (
        [TEXT, delta(None, "text_delta", text="a"), stop(0)],
        [BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)],
    ),
    "source without an index": (
        [TEXT, delta(None, "citations_delta", citation={"type": "k"}), stop(0)],
        [BlockStart(0, Text()), CitationDelta(0, Citation("k")), BlockStop(0)],
    ),
    "arguments without an index": (
        [TEXT, TOOL, delta(None, "input_json_delta", partial_json="{}"), stop(0), stop(1)],
        [
            *(BlockStart(0, Text()), BlockStart(1, ToolCall("c", "f")), JSONDelta(1, "{}")),
            *(BlockStop(0), BlockStop(1)),
        ],
    ),
    "signature without an index": (
        [THINKING, delta(None, "signature_delta", signature="s"), stop(0)],
        [BlockStart(0, Reasoning()), SignatureDelta(0, "s", "anthropic"), BlockStop(0)],
    ),
    "no index at all": (
        [block(None, "text", text="a"), delta(None, "text_delta", text="b"), stop(None)] * 2,
        [
            *(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)),
            *(BlockStart(1, Text()), TextDelta(1, "a"), TextDelta(1, "b"), BlockStop(1)),
        ],
    ),
    # As SGLang sends it (sgl-project/sglang#24293).
    "text at the index of a call": (
        [
            *(
                TOOL,
                delta(1, "input_json_delta", partial_json="{"),
                delta(1, "text_delta", text="a"),
            ),
            *(delta(1, "input_json_delta", partial_json="}"), delta(1, "text_delta", text="b")),
            *(stop(1), block(2, "text", text="c"), stop(2)),
        ],
        [
            *(BlockStart(0, ToolCall("c", "f")), JSONDelta(0, "{"), BlockStart(1, Text())),
            *(TextDelta(1, "a"), JSONDelta(0, "}"), TextDelta(1, "b"), BlockStop(0), BlockStop(1)),
            *(BlockStart(2, Text()), TextDelta(2, "c"), BlockStop(2)),
        ],
    ),
    # As LiteLLM sends it (BerriAI/litellm#33224).
    "thinking at the index of a text": (
        [
            *(TEXT, delta(0, "thinking_delta", thinking="a"), delta(0, "text_delta", text="b")),
            stop(0),
        ],
        [
            *(BlockStart(0, Text()), BlockStart(1, Reasoning()), ReasoningDelta(1, "a")),
            *(TextDelta(0, "b"), BlockStop(0), BlockStop(1)),
        ],
    ),
    "thinking and text at the index of a call, in turn": (
        [
            *(TOOL, delta(1, "text_delta", text="a"), delta(1, "thinking_delta", thinking="b")),
            *(delta(1, "text_delta", text="c"), block(2, "text", text=""), stop(1), stop(2)),
        ],
        [
            *(BlockStart(0, ToolCall("c", "f")), BlockStart(1, Text()), TextDelta(1, "a")),
            *(BlockStop(1), BlockStart(2, Reasoning()), ReasoningDelta(2, "b"), BlockStop(2)),
            *(BlockStart(3, Text()), TextDelta(3, "c"), BlockStop(3), BlockStart(4, Text())),
            *(BlockStop(0), BlockStop(4)),
        ],
    ),
}


@pytest.mark.parametrize(("frames", "events"), MISPLACED.values(), ids=MISPLACED)
def test_misplaced_delta_that_can_belong_to_one_block_extends_it(
    frames: list[bytes], events: list[Event]
) -> None:
    assert body(*frames) == events
    assert "misplaced_delta" in notes(*frames)


def test_text_at_the_index_of_an_unstopped_call_ends_with_the_message() -> None:
    assert body(TOOL, delta(1, "text_delta", text="a"))[-2:] == [BlockStop(1), BlockStop(0)]


def test_empty_misplaced_delta_is_ignored() -> None:
    empty = [
        *(delta(5, "text_delta", text=""), delta(5, "thinking_delta", thinking="")),
        *(delta(5, "input_json_delta", partial_json=""), delta(5, "signature_delta", signature="")),
    ]
    assert body(*empty) == []
    assert notes(*empty) == {}


def test_stop_that_names_another_block_closes_none() -> None:
    a, b = (delta(0, "text_delta", text=piece) for piece in "ab")
    frames = [block(0, "text", text=""), a, stop(3), b, stop(0)]
    assert body(*frames) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)),
    ]
    assert notes(*frames) == {"extra_block_stop": 1}


@pytest.mark.parametrize(
    "opening",
    [
        block(0, "text", text=""),
        block(0, "thinking", thinking=""),
        block(0, "redacted_thinking", data="x"),
        block(0, "web_search_tool_result", tool_use_id="s", content=[]),
        block(0, "compaction", content=None),
    ],
)
def test_input_of_a_block_that_is_no_call_is_malformed(opening: bytes) -> None:
    text = delta(0, "input_json_delta", partial_json='{"a":1}')
    error = decode(start(), opening, TOOL, text, end(), STOP).events[-1]
    assert isinstance(error, StreamError)
    assert error.kind == "malformed"
