"""Strict validator of Responses streams: the fields of each event."""

from __future__ import annotations

import pytest
from support.openai_responses.violations import (
    CREATED,
    ERROR,
    IN_PROGRESS,
    NESTED,
    TEXT,
    USAGE,
    Event,
    added,
    answer,
    changed,
    done,
    edited,
    event,
    failed,
    of,
    response,
    settled,
    sse,
    with_more,
    without,
)

from streamnorm.validation import Violation, validate

STRING, NAME, OBJECT, ARRAY = "a string", "a string that is not empty", "an object", "an array"
COUNT, EMPTY, NOTHING = "an integer from 0", "an empty string", "an empty array"

ANNOTATIONS: dict[str, dict[str, str]] = {
    "url_citation": {"url": STRING, "title": STRING, "start_index": COUNT, "end_index": COUNT},
    "file_citation": {"file_id": STRING, "filename": STRING, "index": COUNT},
    "container_file_citation": {
        "container_id": STRING,
        "file_id": STRING,
        "filename": STRING,
        "start_index": COUNT,
        "end_index": COUNT,
    },
    "file_path": {"file_id": STRING, "index": COUNT},
}


@pytest.mark.parametrize("type", ANNOTATIONS)
def test_annotation_needs_its_fields_and_is_reported_where_it_was_added(type: str) -> None:
    fields = ANNOTATIONS[type]
    source = {"type": type} | {n: 0 if kind == COUNT else "a" for n, kind in fields.items()}
    for name, expected in {"": "", **fields}.items():
        found = without(source, name) if name else source
        cite = of("output_text.annotation.added", "msg_0", content_index=0, annotation_index=0)
        events = with_more(TEXT, 6, {**cite, "annotation": found})
        events = edited(events, 8, "part", "annotations", to=[found])
        events = settled(edited(events, 9, "item", "content", 0, "annotations", to=[found]))
        problem = Violation(6, f"annotation.{name} is missing, expected {expected}")
        assert validate(sse(*events), "openai_responses") == ([problem] if name else [])


@pytest.mark.parametrize(
    ("at", "path", "expected"),
    [
        *(
            (at, ("response", name), expected)
            for at in (0, 1, 9)
            for name, expected in {
                "id": NAME,
                "object": "response",
                "created_at": "a number",
                "model": STRING,
                "parallel_tool_calls": "a boolean",
                "tool_choice": "anything",
                "tools": ARRAY,
            }.items()
        ),
        (0, ("response",), OBJECT),
        (0, ("response", "status"), "in_progress or queued"),
        (0, ("response", "output"), NOTHING),
        (1, ("response", "status"), "in_progress"),
        (1, ("response", "output"), NOTHING),
        (2, ("output_index",), COUNT),
        (3, ("item_id",), NAME),
        (3, ("content_index",), COUNT),
        (3, ("part", "annotations"), NOTHING),
        (4, ("item_id",), NAME),
        (4, ("logprobs",), ARRAY),
        (6, ("logprobs",), ARRAY),
        (7, ("part", "text"), STRING),
        (9, ("response", "status"), "completed"),
        (9, ("response", "usage"), OBJECT),
        *(
            (9, ("response", "usage", f"{name}_tokens"), COUNT)
            for name in ("input", "output", "total")
        ),
        *(
            (9, ("response", "usage", f"{name}_tokens_details"), OBJECT)
            for name in ("input", "output")
        ),
        (9, ("response", "usage", "input_tokens_details", "cached_tokens"), COUNT),
        (9, ("response", "usage", "input_tokens_details", "cache_write_tokens"), COUNT),
        (9, ("response", "usage", "output_tokens_details", "reasoning_tokens"), COUNT),
    ],
)
def test_event_needs_its_fields(at: int, path: tuple[str, ...], expected: str) -> None:
    found = TEXT[at]
    assert isinstance(found, dict)
    events = [*TEXT[:at], without(found, *path), *TEXT[at + 1 :]]
    problem = f"{'.'.join(path)} is missing, expected {expected}"
    assert validate(sse(*events), "openai_responses") == [Violation(at, problem)]


@pytest.mark.parametrize(
    ("at", "path", "value", "problem"),
    [
        (
            0,
            ("response", "status"),
            "completed",
            "a string of 9 characters, expected in_progress or queued",
        ),
        (0, ("response", "output"), [{}], "an array, expected an empty array"),
        (0, ("response", "usage"), {}, "an object, expected null"),
        (0, ("response", "error"), {}, "an object, expected null"),
        (1, ("response", "incomplete_details"), {}, "an object, expected null"),
        (2, ("item", "content"), [{}], "an array, expected an empty array"),
        (3, ("part", "text"), "He", "a string of 2 characters, expected an empty string"),
        (4, ("logprobs",), [1], None),
        (4, ("delta",), ["He"], None),
        (9, ("response", "error"), {}, "an object, expected null"),
        (9, ("response", "created_at"), "5", "a string of 1 characters, expected a number"),
    ],
)
def test_field_needs_its_type(
    at: int, path: tuple[str, ...], value: object, problem: str | None
) -> None:
    violations = validate(sse(*edited(TEXT, at, *path, to=value)), "openai_responses")
    assert violations[0].position == at
    if problem is not None:
        assert violations == [Violation(at, f"{'.'.join(path)} is {problem}")]


def test_logprobs_need_their_types() -> None:
    token = {"token": "a", "logprob": -0.5, "top_logprobs": []}
    assert validate(sse(*edited(TEXT, 4, "logprobs", to=[token])), "openai_responses") == []
    for name, expected in {"token": STRING, "logprob": "a number"}.items():
        events = edited(TEXT, 4, "logprobs", to=[without(token, name)])
        problem = f"logprobs[0].{name} is missing, expected {expected}"
        assert validate(sse(*events), "openai_responses") == [Violation(4, problem)]


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (
            response("incomplete", usage=USAGE),
            "incomplete_details is null, expected an object",
        ),
        (
            response(
                "incomplete",
                usage=USAGE,
                incomplete_details={"reason": "tired"},
            ),
            "incomplete_details.reason is a string of 5 characters, "
            "expected max_output_tokens or content_filter or max_messages or steered",
        ),
        (failed(usage={}), "usage.input_tokens is missing, expected an integer from 0"),
        (changed(failed(), "response", "error", to=None), "error is null, expected an object"),
        (
            without(failed(), "response", "error", "code"),
            "error.code is missing, expected a string",
        ),
        (
            without(failed(), "response", "error", "message"),
            "error.message is missing, expected a string",
        ),
    ],
)
def test_terminal_needs_its_reason(end: Event, problem: str) -> None:
    violations = validate(sse(CREATED, IN_PROGRESS, end), "openai_responses")
    assert violations[0] == Violation(2, f"response.{problem}")


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (changed(ERROR, "code", to=500), "code is an integer, expected a string or null"),
        (changed(ERROR, "param", to=[]), "param is an array, expected a string or null"),
        (without(NESTED, "error", "message"), "error.message is missing, expected a string"),
    ],
)
def test_error_needs_its_fields(error: Event, problem: str) -> None:
    assert validate(sse(error), "openai_responses") == [Violation(0, problem)]


def test_unknown_item_is_a_violation_and_unknown_fields_are_not() -> None:
    odd = answer(added(0, "odd_call", id="o"), done(0, "odd_call", id="o"))
    problem = "item.type is unknown in 8 characters, expected one of the protocol"
    assert validate(sse(*odd), "openai_responses") == [Violation(2, problem), Violation(3, problem)]
    known = [{**value, "obfuscation": "xyz"} for value in TEXT if isinstance(value, dict)]
    assert validate(sse(*known), "openai_responses") == []


def test_audio_needs_its_data() -> None:
    for name in ("audio.delta", "audio.transcript.delta"):
        problem = "delta is missing, expected a string"
        events = with_more(TEXT, 2, event(name), event(name.replace("delta", "done")))
        assert validate(sse(*events), "openai_responses") == [Violation(2, problem)]
