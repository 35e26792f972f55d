"""The violations in a survey: those of `validate`, once the dialect is known."""

from __future__ import annotations

import tracemalloc

import pytest
from msgspec import structs
from support.example_dialect.dialect import TELEGRAPH, frame
from support.example_dialect.registration import registered
from support.openai_chat.chunks import DONE, chunk, content
from support.streams.corpus import each_recording
from support.streams.mutations import chunked
from support.streams.surveys import survey

from streamnorm.inspect import Survey
from streamnorm.recording import Recording
from streamnorm.validation import validate

UNKNOWN = "its dialect is not known"
LATE = "more than 16 MiB before its dialect was known, try --from DIALECT"
EMPTY_FRAME = b"data: {}\n\n"


@each_recording
def test_violations_are_those_of_validate(recording: Recording) -> None:
    for dialect in (recording.dialect, None):
        seen = survey(*chunked(recording.body, 100), dialect=dialect)
        if seen.unchecked:
            assert seen.violations == ()
            assert recording.server == "google" or not seen.dialect
        else:
            assert list(seen.violations) == validate(recording.body, seen.dialect)


def test_bytes_before_the_dialect_is_known_are_validated() -> None:
    body = EMPTY_FRAME * 3 + content("a") + chunk({}, "stop") + DONE
    assert survey(*chunked(body, 7)).violations == tuple(validate(body, "openai_chat"))
    assert survey(body).violations[0].position == 0


def test_dialect_that_shows_at_the_end_is_validated() -> None:
    body = content("a")[:-1]
    assert list(survey(body).violations) == validate(body, "openai_chat")


@pytest.mark.parametrize("body", [b"", b"words\n\n", b"<html>", EMPTY_FRAME * 100])
def test_unknown_dialect_is_not_validated(body: bytes) -> None:
    seen = survey(*chunked(body, 50))
    assert (seen.violations, seen.unchecked) == ((), UNKNOWN)


def test_stored_bytes_are_bounded() -> None:
    line = b": ping " * 20_000 + b"\n"
    run = Survey()
    tracemalloc.start()
    for _ in range(130):
        run.feed(line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40_000_000  # the 16 MiB, while they grow
    assert run.report().unchecked == LATE


def test_dialect_that_shows_too_late_is_not_called_unknown() -> None:
    body = content("a" * (17 * 1024 * 1024)) + chunk({}, "stop") + DONE
    seen = survey(*chunked(body, 1024 * 1024))
    assert (seen.dialect, seen.unchecked) == ("openai_chat", LATE)
    assert survey(*chunked(body, 1024 * 1024), dialect="openai_chat").unchecked == ""


def test_array_is_not_validated() -> None:
    body = b'[{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}]'
    for dialect in ("gemini", None):
        seen = survey(*chunked(body, 9), dialect=dialect)
        assert (seen.violations, seen.unchecked) == ((), "its format is not server-sent events")


def test_variant_is_validated_as_such() -> None:
    created = b'{"event_type":"interaction.created","interaction":{"id":"i","status":"done"}}'
    body = b": ping\n\nevent: interaction.created\ndata: " + created + b"\n\n"
    expected = validate(body, "gemini_interactions")
    assert [violation.position for violation in expected] == [0, 1]
    for dialect in ("gemini", "gemini_interactions", None):
        seen = survey(*chunked(body, 9), dialect=dialect)
        assert (list(seen.violations), seen.unchecked) == (expected, "")


def test_stream_without_a_checker_is_not_validated() -> None:
    bare = structs.replace(TELEGRAPH, checker=None)
    with registered(bare):
        seen = survey(frame("open", id="t1"), dialect="telegraph")
    assert seen.violations == ()
    assert seen.unchecked.startswith("no checker of dialect 'telegraph', expected one of ")


def test_stream_of_a_dialect_with_variants_is_validated_from_its_start() -> None:
    unknown = b'data: {"a":1}\n\n'
    for count in (1, 20):
        body = unknown * count
        seen = survey(*chunked(body, 9), dialect="gemini")
        assert list(seen.violations) == validate(body, "gemini")


def test_body_that_is_no_stream_violates_the_dialect_that_was_named() -> None:
    body = b'{"error":{"message":"no"}}'
    assert list(survey(body, dialect="openai_chat").violations) == validate(body, "openai_chat")
