"""Streams of consecutive deltas of the Interactions API."""

from __future__ import annotations

from typing import Any, TypeAlias

from support.streams.delta_pieces import DeltaStream, Make, arguments, frame, texts

__all__ = ["INTERACTIONS_DELTAS"]

_Fields: TypeAlias = dict[str, Any]

_DONE = b"event: done\ndata: [DONE]\n\n"
_STATUS = {"interaction_id": "v1", "status": "in_progress"}


def _event(kind: str, **fields: Any) -> bytes:
    return frame({**fields, "event_type": kind}, kind)


def _interaction(
    steps: list[_Fields], deltas: list[tuple[int, _Fields]], status: str = "completed"
) -> DeltaStream:
    known = {"id": "v1", "model": "m"}
    last = {**known, "status": status}
    return DeltaStream(
        "gemini_interactions",
        [
            _event("interaction.created", interaction=known),
            _event("interaction.status_update", **_STATUS),
            *(_event("step.start", index=n, step=step) for n, step in enumerate(steps)),
        ],
        [_event("step.delta", index=n, delta=delta) for n, delta in deltas],
        [
            *(_event("step.stop", index=n) for n in range(len(steps))),
            _event("interaction.completed", interaction=last) + _DONE,
        ],
    )


def _text(count: int) -> DeltaStream:
    deltas = [(0, {"text": text, "type": "text"}) for text in texts(count)]
    return _interaction([{"type": "model_output"}], deltas)


def _resumable_text(count: int) -> DeltaStream:
    """Return a text stream whose events have ids, as of stored interactions."""
    stream = _text(count)
    deltas = [
        delta.replace(b'"event_type"', b'"event_id":"e%d","event_type"' % number)
        for number, delta in enumerate(stream.deltas)
    ]
    return stream._replace(deltas=deltas)


def _thought(count: int) -> DeltaStream:
    contents = [{"text": text, "type": "text"} for text in texts(count)]
    deltas = [(0, {"content": each, "type": "thought_summary"}) for each in contents]
    return _interaction([{"type": "thought"}], deltas)


def _calls(count: int, calls: int) -> DeltaStream:
    steps = [
        {"id": f"t{n}", "name": "f", "arguments": {}, "type": "function_call"} for n in range(calls)
    ]
    deltas = [
        (n, {"arguments": piece, "type": "arguments_delta"})
        for piece in arguments(count)
        for n in range(calls)
    ]
    return _interaction(steps, deltas, "requires_action")


def _text_beside_a_call(count: int) -> DeltaStream:
    text, call = _text(count), _calls(count, 1)
    later = [event.replace(b'"index":0', b'"index":1') for event in call.events]
    first, last = len(call.opening), len(later) - len(call.closing)
    deltas = [each for pair in zip(text.deltas, later[first:last], strict=False) for each in pair]
    return text._replace(
        opening=[*text.opening, later[first - 1]],
        deltas=[*deltas, *later[first + len(text.deltas) : last]],
        closing=[text.closing[0], *later[last:]],
    )


INTERACTIONS_DELTAS: dict[str, Make] = {
    "interactions text": _text,
    "interactions text, resumable": _resumable_text,
    "interactions thought": _thought,
    "interactions call": lambda count: _calls(count, 1),
    "interactions calls, interleaved": lambda count: _calls(count, 2),
    "interactions text beside a call": _text_beside_a_call,
}
"""Streams by what they hold, of as many pieces as are asked for."""
