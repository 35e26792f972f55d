"""Events and blocks of unknown types, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.anthropic import payloads
from support.anthropic.frames import STOP, block, body, decode, delta, end, event, start, stop, text
from support.openai_chat.chunks import frame
from support.streams.content import transcode
from support.streams.corpus import payloads as payloads_of
from support.streams.corpus import recordings

from streamnorm import (
    BlockStart,
    BlockStop,
    Loss,
    Opaque,
    OpaqueBlock,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
)
from streamnorm.codec import encoder


def test_event_of_an_unknown_type_is_opaque() -> None:
    decoded = decode(
        start(),
        event("content_block_progress", index=0, done=1),
        text(3, "Hello"),
        event("content_block_progress", index=3, done=2),
        frame({"n": 1}, "vendor"),
        frame("no JSON", "vendor"),
        frame([1], "vendor"),
        frame({"type": "warning", "message": "slow", "error": None}, "warning"),
        end(),
        STOP,
    )
    opaque = [event for event in decoded.events if isinstance(event, Opaque)]
    assert opaque == [
        Opaque(
            "anthropic",
            "content_block_progress",
            '{"type":"content_block_progress","index":0,"done":1}',
        ),
        Opaque(
            "anthropic",
            "content_block_progress",
            '{"type":"content_block_progress","index":3,"done":2}',
            0,
        ),
        Opaque("anthropic", "vendor", '{"n":1}'),
        Opaque("anthropic", "vendor", '"no JSON"'),
        Opaque("anthropic", "vendor", "[1]"),
        Opaque("anthropic", "warning", '{"type":"warning","message":"slow","error":null}'),
    ]


def test_delta_of_an_unknown_type_is_opaque() -> None:
    payloads = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "tone_delta", "tone": 1}},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "content_block_delta", "index": 9},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta"}},
    ]
    frames = [frame(payload, "content_block_delta") for payload in payloads]
    events = decode(start(), block(0, "text", text=""), *frames, stop(0), end(), STOP).events
    assert events[2:-2] == [
        Opaque(
            "anthropic",
            "content_block_delta",
            json.dumps(payload, separators=(",", ":")),
            None if payload["index"] == 9 else 0,
        )
        for payload in payloads
    ]


def test_payload_that_is_no_object_is_opaque() -> None:
    decoded = decode(start(), frame("7"), frame([], "message_stop"), end(), STOP)
    assert decoded.events[1:-1] == [
        Opaque("anthropic", "message", "7"),
        Opaque("anthropic", "message_stop", "[]"),
    ]


def test_compaction_starts_with_its_delta() -> None:
    frames = [
        block(0, "compaction", content=None, signature="s"),
        delta(0, "compaction_delta", content="so far", encrypted_content=None),
        stop(0),
        *(block(1, "compaction", content=None), stop(1)),
    ]
    whole = '{"type":"compaction","content":"so far","signature":"s"}'
    assert body(*frames) == [
        *(BlockStart(0, OpaqueBlock("anthropic", "compaction", whole)), BlockStop(0)),
        BlockStart(
            1, OpaqueBlock("anthropic", "compaction", '{"type":"compaction","content":null}')
        ),
        BlockStop(1),
    ]


def test_opaque_event_and_block_are_written_unchanged() -> None:
    frames = payloads.encode(
        Opaque("anthropic", "vertex_event", '{"type":"vertex_event","x":1}'),
        BlockStart(0, OpaqueBlock("anthropic", "sketch", '{"type":"sketch","lines":[1]}')),
        BlockStop(0),
    )
    assert frames == [
        ("vertex_event", {"x": 1}),
        payloads.start(0, type="sketch", lines=[1]),
        payloads.stop(0),
    ]


def test_compaction_is_written_as_an_empty_start_and_a_delta() -> None:
    data = '{"type":"compaction","content":"c","encrypted_content":"eA=="}'
    assert payloads.encode(
        BlockStart(0, OpaqueBlock("anthropic", "compaction", data)), BlockStop(0)
    ) == [
        payloads.start(0, type="compaction", content=None),
        payloads.delta(0, "compaction_delta", content="c", encrypted_content="eA=="),
        payloads.stop(0),
    ]


def test_compaction_has_only_its_summary_in_its_delta() -> None:
    """The SDK reads no other field there, and needs them to send the block back."""
    kept = {"signature": "s", "tool_changes": [{"type": "tool_removal", "name": "f"}]}
    frames = [
        block(0, "compaction", content=None, **kept),
        delta(0, "compaction_delta", content="so far", encrypted_content="eA=="),
        stop(0),
    ]
    assert payloads.encode(*body(*frames)) == [
        payloads.start(0, type="compaction", content=None, **kept),
        payloads.delta(0, "compaction_delta", content="so far", encrypted_content="eA=="),
        payloads.stop(0),
    ]


def test_compaction_without_a_summary_has_no_delta() -> None:
    failed = body(block(0, "compaction", content=None), stop(0))
    assert payloads.encode(*failed) == [
        payloads.start(0, type="compaction", content=None),
        payloads.stop(0),
    ]


def test_opaque_block_with_line_ends_stays_within_its_frame() -> None:
    block = OpaqueBlock("anthropic", "x", '{\r\n "type": "x",\n "a": "\\n"\r}')
    assert payloads.encode(BlockStart(0, block), BlockStop(0)) == [
        payloads.start(0, type="x", a="\n"),
        payloads.stop(0),
    ]


def test_opaque_event_gets_the_wire_index_of_its_block() -> None:
    tone = '{"type":"tone","index":9,"n":[1]}'
    events = [
        *(BlockStart(0, Text()), BlockStop(0), BlockStart(1, Reasoning()), ReasoningDelta(1, "a")),
        *(Opaque("anthropic", "tone", tone, 1), Opaque("anthropic", "tone", tone)),
        *(Opaque("anthropic", "tone", '{"type":"tone"}', 1), BlockStop(1)),
    ]
    # The first block, which is empty, is omitted.
    assert [payload for name, payload in payloads.encode(*events) if name == "tone"] == [
        {"index": 0, "n": [1]},
        {"index": 9, "n": [1]},
        {},
    ]


def unknown_delta(index: int | None) -> Opaque:
    data = '{"type":"content_block_delta","index":9,"delta":{"type":"tone_delta","tone":1}}'
    return Opaque("anthropic", "content_block_delta", data, index)


def test_unknown_delta_of_a_text_waits_for_the_start_of_its_block() -> None:
    """The SDK's accumulator fails at a delta of a block that has not started."""
    events = [
        *(BlockStart(0, Text()), TextDelta(0, "\n"), unknown_delta(0), TextDelta(0, "Hi")),
        *(unknown_delta(0), BlockStop(0)),
    ]
    tone = ("content_block_delta", {"index": 0, "delta": {"type": "tone_delta", "tone": 1}})
    assert payloads.encode(*events) == [
        payloads.start(0, type="text", text=""),
        payloads.delta(0, "text_delta", text="\n"),
        tone,
        payloads.delta(0, "text_delta", text="Hi"),
        tone,
        payloads.stop(0),
    ]


@pytest.mark.parametrize("index", [0, None])
def test_unknown_delta_of_no_written_block_is_lost(index: int | None) -> None:
    writer = encoder("anthropic")
    events = [payloads.START, BlockStart(0, Text()), unknown_delta(index), BlockStop(0)]
    assert b"tone" not in b"".join(map(writer.encode, events))
    assert Loss("opaque", "anthropic content_block_delta", 1, "dropped") in writer.losses


@pytest.mark.parametrize("data", ["{", '"text"', "[1]"])
def test_opaque_data_without_an_index_is_written_unchanged(data: str) -> None:
    writer = encoder("anthropic")
    for begun in (payloads.START, BlockStart(0, Reasoning())):
        writer.encode(begun)
    written = writer.encode(Opaque("anthropic", "tone", data, 0))
    assert written == f"event: tone\ndata: {data}\n\n".encode()


@pytest.mark.parametrize("name", ["a\nevent: message_stop", "a\rb", "a\0"])
def test_event_name_with_a_line_end_is_omitted(name: str) -> None:
    writer = encoder("anthropic")
    written = writer.encode(Opaque("anthropic", name, '{"type":"x",\n"n":1}'))
    assert written == b'data: {"type":"x",\ndata: "n":1}\n\n'


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def blocks_of(stream: bytes) -> list[Any]:
    """Return the events of blocks in a stream, as they were sent."""
    found = [without_nulls(json.loads(payload)) for payload in payloads_of(stream)]
    return [each for each in found if each["type"].startswith("content_block")]


@pytest.mark.parametrize("name", ["compaction", "compaction-pause"])
def test_compaction_of_a_recording_keeps_its_shape(name: str) -> None:
    (recording,) = (each for each in recordings("anthropic") if str(each) == f"anthropic/{name}")
    out, _ = transcode([recording.body], "anthropic", "anthropic", model="other")
    sent, written = blocks_of(recording.body), blocks_of(out)
    start, delta, stop = written[:3]
    assert [start, delta, stop] == sent[:3]
    assert set(delta["delta"]) <= {"type", "content", "encrypted_content"}
