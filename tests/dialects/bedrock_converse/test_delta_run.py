"""Delta runs: `contentBlockDelta` events that only extend an open block."""

from __future__ import annotations

import pytest
from support.bedrock_converse.frames import (
    START,
    delta,
    end,
    event,
    payload,
    start,
    stop,
    text,
    tool,
    tool_input,
)
from support.streams.delta_runs import read_chunks

from streamnorm import JSONDelta, ReasoningDelta, TextDelta


def reason(text: str) -> bytes:
    return delta(0, reasoningContent={"text": text})


TEXTS = ["a", 'b"\\ \n', "é😀\u2028", "", "x" * 300]


@pytest.mark.parametrize(
    ("opening", "make", "kind"),
    [
        (text(0, "o"), lambda piece: text(0, piece), TextDelta),
        (reason("o"), reason, ReasoningDelta),
        (tool(0) + tool_input(0, "o"), lambda piece: tool_input(0, piece), JSONDelta),
    ],
)
def test_deltas_of_an_open_block_are_on_the_run(opening, make, kind) -> None:
    reading = read_chunks("bedrock_converse", START, opening, *map(make, TEXTS))
    assert reading.events[2:] == [[kind(0, piece)] if piece else [] for piece in TEXTS]
    assert reading.on_run == [0, 0, *[1] * len(TEXTS)]


def test_blocks_may_alternate_on_the_run() -> None:
    reading = read_chunks(
        *("bedrock_converse", START, text(0, "a"), text(1, "b")),
        *(text(0, "c"), text(1, "d"), stop(0), text(1, "e")),
    )
    assert reading.on_run == [0, 0, 0, 1, 1, 0, 1]


def text_with(index: int, text: str, rest: str) -> bytes:
    """Return a delta of text with JSON members behind it."""
    fields = f'{{"contentBlockIndex":{index},"delta":{{"text":"{text}"}}{rest}}}'
    return payload("contentBlockDelta", fields.encode())


def test_deltas_with_padding_of_any_length_extend_their_block() -> None:
    """A delta that fits no template is decoded, and extends the block that it names."""
    deltas = [
        text_with(index, f"{number} ", rest)
        for number, (index, rest) in enumerate(
            [
                *((index, f',"p":"{"aZ9" * length}"') for length in range(4) for index in (0, 1)),
                (0, ',"p":"a"'),
                (1, ',"newer":1'),
                (0, ',"p":""'),
                (1, ',"p":"-"'),
                (0, ""),
                # More forms than are learned.
                *((index, f',"f{number}":1') for number in range(9) for index in (0, 1)),
            ]
        )
    ]
    reading = read_chunks("bedrock_converse", START, text(0, "a"), text(1, "b"), *deltas)
    assert reading.on_run == [0, 0, 0, *[1] * len(deltas)]
    places = [*[0, 1] * 4, 0, 1, 0, 1, 0, *[0, 1] * 9]
    assert reading.events[3:] == [
        [TextDelta(index, f"{number} ")] for number, index in enumerate(places)
    ]


@pytest.mark.parametrize(
    "other",
    [
        delta(0, toolUse={"input": "{}"}),
        reason("a"),
        delta(0, newer=1),
        delta(0, citation={"title": "t"}),
        delta(0),
        delta(0, text="a", newer=1),
        text(1, "a"),
        event("contentBlockDelta", delta={"text": "a"}),
        payload("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"\\ud83d"}}'),
        payload("contentBlockDelta", b"{"),
        stop(0),
        end(),
    ],
)
def test_other_events_are_read_in_full(other: bytes) -> None:
    reading = read_chunks("bedrock_converse", START, text(0, "o"), other)
    assert reading.on_run[2] == 0


def test_other_kinds_are_read_in_full() -> None:
    for opening, other in ((tool(0), text(0, "a")), (reason("a"), text(0, "a"))):
        assert read_chunks("bedrock_converse", START, opening, other).on_run[2] == 0
    signed = delta(0, reasoningContent={"signature": "S"})
    assert read_chunks("bedrock_converse", START, reason("a"), signed, reason("b")).on_run[3] == 0
    held = start(0, newer=1)
    assert read_chunks("bedrock_converse", START, held, text(0, "a")).on_run[2] == 0


def test_delta_of_another_kind_than_its_block_is_read_in_full() -> None:
    begun = (START, text(0, "a"), tool(1) + tool_input(1, "{"), tool_input(1, "}"))
    reading = read_chunks("bedrock_converse", *begun, tool_input(0, "x"))
    assert reading.on_run == [0, 0, 0, 1, 0]


def test_half_a_character_ends_the_run() -> None:
    half = payload("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"\\ud83d"}}')
    rest = payload("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":"\\ude00"}}')
    reading = read_chunks("bedrock_converse", START, text(0, "o"), half, rest, text(0, "z"))
    assert reading.on_run == [0, 0, 0, 0, 1]
    assert reading.events[3] == [TextDelta(0, "😀")]
