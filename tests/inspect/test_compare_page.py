"""The differences of two streams as lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm import Completed, StreamError, Truncated, Usage
from streamnorm.inspect.compare import Comparison, Difference, FieldDifference, Place
from streamnorm.inspect.compare_page import render_comparison
from streamnorm.inspect.page import Style, join_spans
from streamnorm.inspect.printable import ASCII, count_columns
from streamnorm.inspect.report import Report

A = Report(
    dialect="openai_chat", bytes=2, frames=3, events=4, outcome=Completed("end_turn", Usage())
)
B = Report(outcome=Truncated(StreamError("truncated", "cut")))
HEAD = [
    "a         a.sse",
    "          2 bytes, 3 frames, 4 events of openai_chat",
    "          completed",
    "b         b.sse",
    "          0 bytes, 0 frames, 0 events of no known dialect",
    "          truncated: cut",
    "",
]


def page(found: Comparison, style: Style = Style()) -> list[str]:  # noqa: B008 - frozen
    return join_spans(render_comparison(found, ("a.sse", "b.sse"), (A, B), style))


def test_equal_streams_have_their_count() -> None:
    assert page(Comparison(compared="events", equal=1200)) == [
        *HEAD,
        "compared  1,200 events, all equal",
    ]
    assert page(Comparison(compared="messages", equal=1))[-1] == (
        "compared  messages of two dialects, 1 part, all equal"
    )


def test_differences_have_their_places_and_fields() -> None:
    found = Comparison(
        compared="events",
        equal=9,
        changed=1,
        only_a=1,
        only_b=1,
        differences=[
            Difference(
                "text_delta",
                0,
                Place(2, 1),
                Place(1200, 1100),
                (FieldDifference("text", '"b"', '"c"'), FieldDifference("x", None, "1")),
            ),
            Difference("block_stop", 1, Place(3, 2)),
            Difference("ping", None, None, Place(4, 3)),
        ],
    )
    assert page(found) == [
        *HEAD,
        "compared  12 events: 9 equal, 1 changed, 1 only in a, 1 only in b",
        "differ    event 2 (frame 1) and event 1,200 (frame 1,100): text_delta of block 0",
        '            text: "b" in a, "c" in b',
        "            x: missing in a, 1 in b",
        "          event 3 (frame 2) only in a: block_stop of block 1",
        "          event 4 (frame 3) only in b: ping",
    ]


def test_parts_of_messages_have_no_frames() -> None:
    found = Comparison(
        compared="messages", changed=1, differences=[Difference("x", None, Place(1), Place(1))]
    )
    assert page(found)[len(HEAD) :] == [
        "compared  messages of two dialects, 1 part: 1 changed",
        "differ    part 1 and part 1: x",
    ]


def test_differences_are_shown_up_to_twenty() -> None:
    several = [Difference("ping", None, Place(n, n)) for n in range(30)]
    lines = page(Comparison(compared="events", only_a=1030, differences=several))
    assert len([line for line in lines if "only in a: ping" in line]) == 20
    assert lines[-1] == "          and 1,010 more"


@pytest.mark.parametrize("ascii", [False, True])
@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_is_printable_and_fits(ascii: bool, text: str) -> None:
    field = FieldDifference(text, text, text)
    found = Comparison(
        compared="events",
        changed=1,
        differences=[Difference(text, 0, Place(0, 0), Place(0, 0), (field,))],
    )
    style = Style(width=80, glyphs=ASCII) if ascii else Style(width=80)
    for line in page(found, style):
        assert line.isprintable()
        assert count_columns(line) <= 80
        assert line.isascii() or not ascii
