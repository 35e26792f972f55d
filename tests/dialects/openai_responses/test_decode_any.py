"""Arbitrary input: legal events, one outcome, the same for every chunking."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm import Completed, Event, MessageStart, Outcome, StreamError
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.validation import validate

FOLDER = Path(__file__).parents[3] / "recordings" / "openai_responses"
BODIES = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*/*.sse"))}

TYPES = [
    *(f"response.{name}" for name in ("created", "in_progress", "completed", "incomplete")),
    *(
        f"response.{kind}.{end}"
        for kind in ("output_item", "content_part")
        for end in ("added", "done")
    ),
    *(f"response.{kind}.{end}" for kind in ("output_text", "refusal") for end in ("delta", "done")),
    *(
        f"response.reasoning_{kind}.{end}"
        for kind in ("text", "summary_text")
        for end in ("delta", "done")
    ),
    *(
        f"response.reasoning_{kind}.{end}"
        for kind in ("part", "summary_part")
        for end in ("added", "done")
    ),
    *(f"response.{kind}.delta" for kind in ("function_call_arguments", "custom_tool_call_input")),
    *(f"response.{kind}.done" for kind in ("function_call_arguments", "custom_tool_call_input")),
    *("response.output_text.annotation.added", "keepalive", "vendor:x"),
]
TEXTS = st.sampled_from(["", "a", "ab", "\ud83d", "\udf0a", "{}"])
ODD = st.sampled_from([None, 3, "x", [], {}])
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["output_text", "refusal", "reasoning_text", "audio"])},
    optional={"text": TEXTS | ODD, "refusal": TEXTS, "annotations": st.just([{"type": "t"}]) | ODD},
)
ITEMS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                "message",
                "reasoning",
                "function_call",
                "custom_tool_call",
                "program",
                "x_output",
                "x",
            ]
        )
    },
    optional={
        "id": st.sampled_from(["a", "b", "", None]),
        "call_id": st.sampled_from(["a", "x", None]),
        "name": st.sampled_from(["f", ""]),
        "arguments": TEXTS | ODD,
        "input": TEXTS,
        "content": st.lists(PARTS, max_size=2) | ODD,
        "summary": st.lists(PARTS, max_size=2) | ODD,
        "encrypted_content": TEXTS | ODD,
        "status": st.sampled_from(["completed", "failed", None]),
    },
)
RESPONSES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just("r") | ODD,
        "status": st.sampled_from(["completed", "incomplete", "failed", "in_progress"]),
        "output": st.lists(ITEMS, max_size=3) | ODD,
        "usage": st.just({"input_tokens": 1}) | ODD,
        "incomplete_details": ODD,
        "tools": st.just([{"type": "function", "name": "f"}]) | ODD,
    },
)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "sequence_number": st.integers(0, 3) | ODD,
        "output_index": st.integers(-1, 2) | ODD,
        "item_id": st.sampled_from(["a", "b", "", None]),
        "content_index": st.integers(-1, 1) | ODD,
        "summary_index": st.integers(-1, 1) | ODD,
        "delta": TEXTS | ODD,
        "text": TEXTS | ODD,
        "arguments": TEXTS,
        "part": PARTS | ODD,
        "item": ITEMS | ODD,
        "response": RESPONSES | ODD,
        "annotation": st.just({"type": "t"}) | ODD,
        "logprobs": st.just([1]) | ODD,
    },
)


def read(pieces: list[bytes]) -> tuple[list[Event], Outcome | None]:
    source = ResponsesDecoder()
    events = [event for piece in pieces for event in source.feed(piece)]
    return events + source.close(), source.outcome


def check(body: bytes) -> list[Event]:
    """Check the events of a body against the invariants of every stream."""
    events, outcome = read([body])
    assert outcome is not None
    assert validate(events) == []
    errors = [event for event in events if isinstance(event, StreamError)]
    assert len(errors) == (0 if isinstance(outcome, Completed) else 1)
    json.dumps([str(event) for event in events], ensure_ascii=False).encode()
    return events


@given(st.lists(EVENTS, max_size=12))
def test_any_events_give_legal_ones(payloads: list[dict[str, Any]]) -> None:
    start = {"type": "response.created", "response": {"id": "r"}}
    frames = [f"data: {json.dumps(payload)}\n\n" for payload in (start, *payloads)]
    assert check("".join(frames).encode())[0] == MessageStart("r")


@given(st.data())
def test_any_bytes_give_legal_events(data: st.DataObject) -> None:
    body = bytearray(data.draw(st.sampled_from(list(BODIES.values()))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=8))
    check(bytes(body))


@given(st.data())
def test_any_chunking_gives_the_same(data: st.DataObject) -> None:
    body = data.draw(st.sampled_from(list(BODIES.values())))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)) | {0, len(body)})
    pieces = [body[start:end] for start, end in pairwise(cuts)]
    assert read(pieces) == read([body])


@pytest.mark.parametrize("name", BODIES)
def test_no_prefix_is_a_success(name: str) -> None:
    frames = BODIES[name].split(b"\n\n")
    whole = next(
        (
            n
            for n in range(len(frames) + 1)
            if isinstance(read(frames_of(frames[:n]))[1], Completed)
        ),
        None,
    )
    for count in range(len(frames) if whole is None else whole):
        outcome = read(frames_of(frames[:count]))[1]
        assert outcome is not None
        assert not isinstance(outcome, Completed)
    if whole is not None:
        assert b"response.completed" in frames[whole - 1] or b"incomplete" in frames[whole - 1]


def frames_of(frames: list[bytes]) -> list[bytes]:
    return [frame + b"\n\n" for frame in frames]


def test_complete_item_does_not_repeat_a_long_text() -> None:
    source = ResponsesDecoder()
    item = {"type": "message", "id": "m", "content": []}
    source.feed(
        b"data: %b\n\n" % json.dumps({"type": "response.output_item.added", "item": item}).encode()
    )
    delta = b'data: {"type":"response.output_text.delta","item_id":"m","delta":"0123456789"}\n\n'
    for _ in range(2000):
        source.feed(delta)
    text = "0123456789" * 2000
    part = {"type": "output_text", "text": text, "annotations": []}
    ended = {"type": "response.output_item.done", "item": {**item, "content": [part]}}
    events = source.feed(b"data: %b\n\n" % json.dumps(ended).encode())
    assert [type(event).__name__ for event in events] == ["BlockStop"]
