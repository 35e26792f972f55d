"""What the projector stores is counted until it is written or dropped."""

from __future__ import annotations

import pytest

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    MessageStart,
    Reasoning,
    ReasoningDelta,
    ServerToolResult,
    SignatureDelta,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm._core.json import compact
from streamnorm._core.limits import OBJECT_BYTES, StoredBytes
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._registry import capabilities

CITATION = Citation("web_search_result_location", "https://w", "W", "cited")
CITED = len(compact(CITATION))
CARRIED = "sn1-of.call.google.s.1"


def stored_after(events: list[Event], to: str) -> list[int]:
    """Return the bytes that are stored after each event."""
    stored = StoredBytes(10_000)
    projector = Projector(capabilities(to), Losses(), stored)
    projector.push(MessageStart("m", "x"))
    sizes = list[int]()
    for event in events:
        projector.push(event)
        sizes.append(stored.bound - stored.left)
    return sizes


HELD: list[tuple[Event, int]] = [
    (BlockStart(0, Text()), 0),
    (CitationDelta(0, CITATION), CITED),
    (TextDelta(0, " "), CITED + OBJECT_BYTES),
    (CitationDelta(0, CITATION), 2 * CITED + 2 * OBJECT_BYTES),
]


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param([(BlockStop(0), 0)], id="dropped"),
        pytest.param([(TextDelta(0, "a"), 0), (BlockStop(0), 0)], id="written"),
        # Whether text follows decides how it is written.
        pytest.param(
            [(SignatureDelta(0, "s"), HELD[-1][1] + 1), (BlockStop(0), 0)], id="signature alone"
        ),
    ],
)
def test_what_is_held_until_its_block_starts(ending: list[tuple[Event, int]]) -> None:
    following: list[tuple[Event, int]] = [
        *[(BlockStart(1, Text()), 0), (CitationDelta(1, CITATION), CITED)],
        *[(TextDelta(1, "a"), 0), (BlockStop(1), 0)],
    ]
    events, sizes = zip(*HELD, *ending, *following, strict=True)
    assert stored_after([*events], "anthropic") == [*sizes]


def test_signature_that_a_block_after_its_own_carries() -> None:
    events: list[Event] = [
        *(BlockStart(0, Text()), TextDelta(0, "a"), SignatureDelta(0, "s.1", "google")),
        *(BlockStop(0), BlockStart(1, ToolCall("c", "f")), SignatureDelta(1, "s.1", "google")),
        *(JSONDelta(1, "{}"), BlockStop(1)),
    ]
    assert stored_after(events, "anthropic") == [0, 0, 3, 0, 0, 3, 3, 0]


@pytest.mark.parametrize("to", ["gemini", "openai_chat"])
def test_signature_of_reasoning_until_the_block_behind_it(to: str) -> None:
    events: list[Event] = [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), SignatureDelta(0, "s.1", "google")),
        *(BlockStop(0), BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1)),
    ]
    assert stored_after(events, to) == [0, 0, 3, 3, 3, 0, 0]


@pytest.mark.parametrize("to", ["gemini", "openai_chat", "anthropic"])
@pytest.mark.parametrize("own", ["s.1", "other"])
def test_signature_of_reasoning_until_the_call_behind_it_stops(own: str, to: str) -> None:
    """The call may repeat it at any time."""
    events: list[Event] = [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), SignatureDelta(0, "s.1", "google")),
        *(BlockStop(0), BlockStart(1, ToolCall("c", "f")), SignatureDelta(1, own, "google")),
        BlockStop(1),
    ]
    carried = len(own) if to == "anthropic" and own != "s.1" else 0
    assert stored_after(events, to) == [0, 0, 3, 3, 3, 3 + carried, 0]


def test_signature_of_a_call_that_follows() -> None:
    events: list[Event] = [
        *(BlockStart(0, Reasoning()), SignatureDelta(0, CARRIED), BlockStop(0)),
        *(BlockStart(1, ToolCall("call", "f")), JSONDelta(1, "{}"), BlockStop(1)),
    ]
    sizes = stored_after(events, "gemini")
    assert sizes[:4] == [0, 3, 3, 0]
    assert sizes[-1] == 0


def test_id_of_a_dropped_result() -> None:
    """A call that the client would wait for is answered by it, whenever that call comes."""
    result = ServerToolResult("c1", "web_search_tool_result", [])
    assert stored_after([BlockStart(0, result), BlockStop(0)], "openai_chat") == [2, 2]
