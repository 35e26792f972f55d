"""The projection of a whole stream: dense indexes, in the order in which it is written."""

from __future__ import annotations

import pytest
from support.streams.content import DIALECTS, encode

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Image,
    JSONDelta,
    LocalProtocolError,
    MessageStart,
    MessageStop,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    UnknownDialect,
    project,
)
from streamnorm.validation import Violation, validate

START = MessageStart("m", "gpt")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_blocks_after_a_dropped_one_are_renumbered_with_their_events(dialect: str) -> None:
    name = {"anthropic": "extra", "openai_chat": "audio", "gemini": "frame"}.get(dialect, "news")
    events = [
        *(START, BlockStart(0, Image(url="u")), BlockStop(0)),
        *(BlockStart(1, ToolCall("c", "f")), Opaque(dialect, name, "{}", 1), JSONDelta(1, "{}")),
        *(BlockStop(1), Opaque(dialect, name, "{}")),
    ]
    assert project(events, dialect)[0] == [
        *(START, BlockStart(0, ToolCall("c", "f")), Opaque(dialect, name, "{}", 0)),
        *(JSONDelta(0, "{}"), BlockStop(0), Opaque(dialect, name, "{}")),
    ]


def test_merged_texts_are_in_block_order() -> None:
    events = [
        *(START, BlockStart(0, Text()), TextDelta(0, "a"), BlockStart(1, Text())),
        *(TextDelta(1, "c"), TextDelta(0, "b"), BlockStop(1), BlockStop(0)),
    ]
    left, losses = project(events, "openai_chat")
    assert left == [
        *(START, BlockStart(0, Text()), TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "c")),
        BlockStop(0),
    ]
    assert [loss.feature for loss in losses] == ["boundaries"]


def test_overtaken_text_merges_before_the_later_one() -> None:
    """It has said nothing yet when the other one starts to, as with blocks left open."""
    events = [
        *(START, BlockStart(0, Text()), BlockStart(1, Text()), TextDelta(1, "b")),
        *(TextDelta(0, "a"), BlockStop(0), BlockStop(1)),
    ]
    left = project(events, "openai_chat")[0]
    assert sorted(event.text for event in left if isinstance(event, TextDelta)) == ["a", "b"]
    assert validate(left) == [Violation(len(left), "choice 0 ends without message_stop")]


def test_indexes_after_merged_blocks_are_dense() -> None:
    events: list[Event] = [START]
    for index in range(4):
        block = ToolCall("c", "f") if index == 2 else Text()
        delta = JSONDelta(index, "{}") if index == 2 else TextDelta(index, str(index))
        events += [BlockStart(index, block), delta, BlockStop(index)]
    left = project(events, "openai_chat")[0]
    assert [event.index for event in left if isinstance(event, BlockStart)] == [0, 1, 2]
    assert [event.index for event in left if isinstance(event, BlockStop)] == [0, 1, 2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unfinished_stream_is_projected(dialect: str) -> None:
    events: list[Event] = [START, BlockStart(0, Text()), TextDelta(0, "a")]
    assert project(events, dialect) == (events, ())
    assert project([], dialect) == ([], ())
    error = StreamError("truncated", "cut")
    assert project([*events, error], dialect)[0] == [*events, error]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_losses_equal_those_of_the_encoder(dialect: str) -> None:
    events = [
        *(START, BlockStart(0, Image(url="u")), BlockStop(0)),
        *(Opaque("gemini", "x", "{}"), MessageStop("other")),
    ]
    assert project(events, dialect)[1] == encode(events, dialect)[1] != ()


def test_illegal_streams_and_unknown_dialects_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="block 1 starts, expected 0"):
        project([START, BlockStart(1, Text())], "openai_chat")
    with pytest.raises(UnknownDialect, match="no dialect 'klingon'"):
        project([], "klingon")
