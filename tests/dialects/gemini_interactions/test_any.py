"""Any Interactions bytes give legal events and one outcome."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.gemini_interactions.frames import CREATED, completed, delta, event, start, step, stop
from support.streams.mutations import chunked

from streamnorm import Limits, StreamError
from streamnorm.codec import decoder
from streamnorm.validation import validate

CALL = {"id": "c", "name": "f"}
KINDS = ["model_output", "thought", "function_call", "x_call", "x_result", "news", ""]
TOLD: list[dict[str, Any]] = [
    {},
    {"text": "a"},
    {"text": "\ud83d"},
    {"content": {"text": "t"}},
    {"signature": "QQ=="},
    {"arguments": '{"a":'},
    {"arguments": {"a": 1}},
    {**CALL, "arguments": {}},
    {"annotations": [{"type": "url_citation", "end_index": 1}, 7]},
    {"data": "aGk=", "mime_type": "image/png"},
    {"result": [1], "call_id": "c"},
]
DELTAS = [
    *("text", "text_annotation_delta", "thought_summary", "thought_signature"),
    *("arguments_delta", "image", "audio"),
]
numbers = st.integers(0, 2)


def _delta(index: int, kind: str, fields: dict[str, Any]) -> bytes:
    return delta(index, kind, **fields)


frames = st.one_of(
    st.builds(start, numbers, st.sampled_from(KINDS)),
    st.builds(start, numbers, st.sampled_from(KINDS), id=st.just("c"), name=st.just("f")),
    st.builds(_delta, numbers, st.sampled_from([*DELTAS, *KINDS]), st.sampled_from(TOLD)),
    st.builds(stop, numbers),
    st.builds(completed, st.sampled_from(["completed", "requires_action", "failed", "queued"])),
    st.sampled_from(
        [
            CREATED,
            step("thought", summary=[{"text": "t"}], signature="QQ=="),
            event("interaction.status_update", interaction_id="v", status="completed"),
            event("content.start", index=0, content={"type": "text", "text": "a"}),
            event("step.start"),
            event("step.stop", usage={"total_input_tokens": 1}, metadata={"total_usage": {}}),
            event("interaction.news", interaction=1),
            event("error", error={"message": "no"}),
            b"data: [DONE]\n\n",
            b"data: [1]\n\n",
            b"data: {\n\n",
            b'data: {"candidates":[{"finishReason":"STOP"}]}\n\n',
            b"event: step.delta\n",
            b"\xff\n\n",
        ]
    ),
)


def read(pieces: list[bytes]) -> tuple[list[object], object, object]:
    reader = decoder("gemini", limits=Limits(max_blocks=6, max_json_depth=8))
    events = [event for piece in pieces for event in reader.feed(piece)]
    events += reader.close()
    assert validate(events) == []
    assert sum(isinstance(event, StreamError) for event in events) <= 1
    assert reader.outcome is not None
    return list(events), reader.outcome, reader.notes


@given(st.lists(frames, max_size=12), st.sampled_from([1, 7, 33]))
def test_any_frames_give_legal_events_however_they_are_cut(parts: list[bytes], size: int) -> None:
    body = b"".join([CREATED, *parts])
    whole = read([body])
    assert read(chunked(body, size)) == whole
    assert read([CREATED, *parts]) == whole


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_any_bytes_give_legal_events(parts: list[bytes]) -> None:
    read([CREATED + b"event: step.delta\ndata: ", *parts])
