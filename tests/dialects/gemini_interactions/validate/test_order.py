"""Strict validator of streams of the Interactions API."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini_interactions.frames import delta, event, start, step, stop
from support.streams.corpus import corpus, needs_corpus

from streamnorm import Limits
from streamnorm._registry import checker
from streamnorm.sse import SSEDecoder

OWN = "gemini_interactions"
CREATED = event("interaction.created", interaction={"id": "v1", "status": "in_progress"})
DONE = b"event: done\ndata: [DONE]\n\n"
OUTPUT = step("model_output", ("text", {"text": "a"}))
CALL: dict[str, Any] = {"id": "c", "name": "f", "arguments": {}}
SEARCHING = {"id": "s", "arguments": {"queries": ["q"]}}


OF_A_STEP = ("start", "delta", "stop")
STATUSES = (
    *("in_progress", "requires_action", "completed", "failed", "cancelled"),
    *("incomplete", "budget_exceeded", "queued", "idle", "requires_continuation"),
)
QUEUED = event("interaction.status_update", interaction_id="v2", status="queued")


def end(status: str = "completed", **fields: Any) -> bytes:
    """Return the last event, and `done`."""
    interaction = {"id": "v1", "status": status, **fields}
    return event("interaction.completed", interaction=interaction) + DONE


def problems(*frames: bytes) -> list[str]:
    """Return the problems of a stream, its missing parts included."""
    judge = checker(OWN)
    found: list[str] = []
    for frame in SSEDecoder(max_event_bytes=Limits().max_event_bytes).feed(b"".join(frames)):
        found += judge.check(frame)
    return found + judge.missing()


def call(*texts: str, number: int = 0, **fields: Any) -> bytes:
    deltas = [("arguments_delta", {"arguments": text}) for text in texts]
    return step("function_call", *deltas, number=number, **{**CALL, **fields})


LEGAL = {
    "text": (CREATED, OUTPUT, end()),
    "updates": (
        CREATED,
        event("interaction.status_update", interaction_id="v1", status="in_progress"),
        *(OUTPUT, end(model="m", object="interaction", service_tier="standard")),
    ),
    "no id": (
        event("interaction.created", interaction={"id": "", "status": "in_progress"}),
        event("interaction.completed", interaction={"id": "", "status": "incomplete"}),
        DONE,
    ),
    "thought": (
        CREATED,
        step(
            "thought",
            ("thought_summary", {"content": {"type": "text", "text": "a"}}),
            ("thought_signature", {"signature": "QQ=="}),
            ("thought_summary", {"content": {"type": "image", "data": "AA=="}}),
        ),
        end(),
    ),
    "calls": (
        CREATED,
        *(call('{"a"', ":1}"), call(number=1, id="d"), end("requires_action")),
    ),
    "answered call": (
        *(CREATED, call("{}"), step("function_result", number=1, call_id="c", result=[])),
        end(),
    ),
    "tools of the provider": (
        CREATED,
        # Google's own starts lack the arguments and the result.
        step("google_search_call", ("google_search_call", SEARCHING), id="s"),
        step(
            "google_search_result", ("google_search_result", {"result": []}), number=1, call_id="s"
        ),
        step("code_execution_result", number=2, call_id="x", result="out", is_error=False),
        end(),
    ),
    "citations": (
        CREATED,
        step(
            "model_output",
            ("text", {"text": "a"}),
            (
                "text_annotation_delta",
                {"annotations": [{"type": "url_citation", "url": "u", "end_index": 1}]},
            ),
            ("image", {"mime_type": "image/png", "uri": "u"}),
        ),
        end(usage={"total_tokens": 7, "total_input_tokens": 5, "total_output_tokens": 2}),
    ),
    "cut arguments": (CREATED, call('{"a'), end("incomplete")),
    "error": (CREATED, start(0, "model_output"), event("error", error={"code": "internal"})),
    "error first": (event("error", error={}),),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_stream_has_no_problem(name: str) -> None:
    assert problems(*LEGAL[name]) == []


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ((), ["no interaction.created, expected it first"]),
        ((CREATED,), ["no interaction.completed, expected one"]),
        ((CREATED, end().removesuffix(DONE)), ["no done, expected it last"]),
        (
            (CREATED, start(0, "model_output")),
            [
                "the stream ends while step 0 is open, expected step.stop",
                "no interaction.completed, expected one",
            ],
        ),
        ((OUTPUT, end()), ["step.start comes first, expected interaction.created"]),
        ((end(),), ["interaction.completed comes first, expected interaction.created"]),
        ((DONE,), ["done comes first, expected interaction.created"]),
        ((CREATED, CREATED, end()), ["second interaction.created, expected one"]),
        ((CREATED, DONE), ["done before interaction.completed, expected it first"]),
        (
            (CREATED, end().removesuffix(DONE), OUTPUT, DONE),
            [f"step.{name} after interaction.completed, expected done" for name in OF_A_STEP],
        ),
        ((CREATED, end(), end()), ["frame after the end, expected nothing"] * 2),
        (
            (CREATED, event("error", error={}), DONE),
            ["frame after the end, expected nothing"],
        ),
        (
            (CREATED, start(1, "model_output"), stop(1), end()),
            ["step 1 starts, expected 0"],
        ),
        (
            (CREATED, start(0, "model_output"), start(1, "thought"), stop(1), stop(0), end()),
            ["step.start while step 0 is open, expected step.stop"],
        ),
        (
            (CREATED, start(0, "model_output"), end()),
            ["interaction.completed while step 0 is open, expected step.stop"],
        ),
        (
            (CREATED, delta(0, "text", text="a"), stop(0), end()),
            [
                "step.delta of step 0, expected an open step",
                "step.stop of step 0, expected an open step",
            ],
        ),
        (
            (CREATED, step("thought", ("text", {"text": "a"})), end()),
            ["text in step 0, expected a delta of thought"],
        ),
        (
            (CREATED, step("google_search_call", ("url_context_call", {}), id="s"), end()),
            ["url_context_call in step 0, expected a delta of google_search_call"],
        ),
        (
            (CREATED, call(arguments={"a": 1}), end("requires_action")),
            ["arguments in the start of step 0, expected them in its deltas"],
        ),
        (
            (CREATED, call(), call(number=1), end("requires_action")),
            ["id of step 1 is that of another call, expected its own"],
        ),
        (
            (CREATED, call("[1]"), end("requires_action")),
            ["arguments of step 0 in 3 characters are no JSON object, expected one"],
        ),
        (
            (CREATED, call("{"), call(number=1, id="d"), end("incomplete")),
            ["arguments of step 0 in 1 characters are no JSON object, expected one"],
        ),
        (
            (CREATED, call(), end()),
            ["status is completed with a call of the client, expected requires_action"],
        ),
        (
            (CREATED, OUTPUT, end("requires_action")),
            ["status is requires_action without a call of the client, expected completed"],
        ),
        ((CREATED, end("in_progress")), ["status is in_progress, expected one of an end"]),
        (
            (CREATED, end(usage={"total_tokens": 8, "total_input_tokens": 5})),
            ["usage.total_tokens is 8, expected 5"],
        ),
        (
            (
                CREATED,
                event("interaction.status_update", interaction_id="v2", status="queued"),
                end(),
            ),
            ["id of another interaction, expected that of the first event"] * 2,
        ),
        (
            (CREATED, OUTPUT, end(model=None)),
            ["interaction.model is null, expected a string"],
        ),
        (
            (CREATED, step("memory", ("memory_delta", {})), end()),
            [
                "step.type is unknown in 6 characters, expected one of the protocol",
                "delta.type is unknown in 12 characters, expected one of the protocol",
            ],
        ),
        (
            (CREATED, step("function_call", id="c"), end("requires_action")),
            [
                "step.name is missing, expected a string that is not empty",
                "step.arguments is missing, expected an object",
            ],
        ),
        (
            (event("interaction.created", interaction={"status": "busy"}), end()),
            [
                "interaction.id is missing, expected a string",
                "interaction.status is a string of 4 characters, expected " + " or ".join(STATUSES),
            ],
        ),
        (
            (CREATED, event("error", error={"code": 503, "message": "m"})),
            ["error.code is an integer, expected a string"],
        ),
        (
            (CREATED, event("interaction.progress"), end()),
            ["event_type is unknown in 20 characters, expected one of the protocol"],
        ),
        (
            (CREATED, b'data: {"event_type":7}\n\n', end()),
            ["event_type is unknown in 0 characters, expected one of the protocol"],
        ),
        (
            (CREATED, OUTPUT.replace(b"event: step.stop", b"event: step.delta"), end()),
            ["event line says step.delta, expected step.stop"],
        ),
        (
            (CREATED.replace(b"event: interaction.created\n", b""), end()),
            ["event line says 7 characters, expected interaction.created"],
        ),
        (
            (CREATED, end().replace(b"event: done\n", b"")),
            ["[DONE] in an event of 7 characters, expected done"],
        ),
        (
            (CREATED, b"event: step.stop\ndata: 7\n\n", end()),
            ["payload is an integer, expected an object"],
        ),
    ],
)
def test_violation_is_found(frames: tuple[bytes, ...], expected: list[str]) -> None:
    assert problems(*frames) == expected


@pytest.mark.parametrize("value", [None, 1, "a", [], {}, {"type": 1}, {"type": "text"}])
@pytest.mark.parametrize("kind", ["step.start", "step.delta", "step.stop", "interaction.completed"])
def test_any_value_has_problems_and_no_exception(kind: str, value: object) -> None:
    name = {"step.start": "step", "step.delta": "delta"}.get(kind, "interaction")
    for index in (value, 0, 1):
        body = event(kind, **{name: value, "index": index})
        assert problems(CREATED, start(0, "model_output"), body) != []
        assert problems(CREATED, start(0, "function_call", call_id=value, id=value), body) != []


@needs_corpus
def test_recorded_streams_are_legal() -> None:
    for stream in corpus("gemini_interactions"):
        assert (stream.name, problems(stream.body)) == (stream.name, [])
