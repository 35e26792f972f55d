"""Every recording decodes to the events in its companion file.

The recordings of Chat Completions have tests of their own in their room.
"""

from __future__ import annotations

import pytest
from support.recording.comparison import assert_outcome, comparable, decode
from support.streams.corpus import recordings

from streamnorm.codec import decoder
from streamnorm.recording import Recording
from streamnorm.validation import validate

DIALECTS = {
    "anthropic": 72,
    "gemini": 21,
    "gemini_interactions": 9,
    "openai_responses": 39,
    "bedrock_converse": 13,
}
"""The least number of recordings of each dialect."""

LENIENT = {
    "anthropic/anthropic/last-event-unterminated": ("unterminated",),
    "anthropic/proxy/missing-message-stop": ("no_message_stop",),
    "anthropic/proxy/no-message-delta": ("no_finish",),
    "anthropic/proxy/no-message-delta-in-arguments": ("no_finish",),
    "gemini/code-assist/wrapped": ("unterminated",),
    "openai_responses/openai/last-event-unterminated": ("unterminated",),
}

NOTES = {
    "bedrock_converse/bedrock/cut-before-metadata": {"no_metadata"},
    "gemini/google/error-bare-after-a-finish": {"stray_line"},  # the error, over several lines
    "anthropic/minimax/text-repeated": {"resent_text"},
    "anthropic/anthropic/eager-input-is-no-json": {"unfinished_arguments"},
    "anthropic/anthropic/max-tokens-in-arguments": {"unfinished_arguments"},
    "anthropic/proxy/missing-block-stops": {"missing_block_stop"},
    "anthropic/proxy/no-message-delta-in-arguments": {"unfinished_arguments"},
    "anthropic/sglang/text-at-the-index-of-a-tool": {"misplaced_delta"},
    "gemini/code-assist/wrapped": {"unterminated"},
    "gemini/google/calls-without-arguments": {"minted_id"},
    "gemini/google/code-execution": {"minted_id"},
    "gemini/google/signed-call": {"minted_id"},
    "gemini/google/tools-of-the-server": {"minted_id"},
    "gemini_interactions/google/agent-over-its-budget": {"missing_block_stop"},
    "gemini/proxy/lf-and-done": {"stray_done"},
    "gemini/vertex/partial-arguments": {"minted_id"},
    "gemini/vertex/partial-arguments-in-one-chunk": {"minted_id"},
    "openai_responses/azure/incomplete-filter": {"missing_item_done"},
    "openai_responses/copilot/ids-rotate": {"unstable_ids"},
    "openai_responses/openai/incomplete-arguments": {"unfinished_arguments"},
    "openai_responses/openai/last-event-unterminated": {"unterminated"},
    "openai_responses/openrouter/overlap-and-done": {"no_event_line"},
    "openai_responses/proxy/deltas-without-items": {"missing_item", "missing_item_done"},
    "openai_responses/proxy/gaps-and-resends": {"completed_by_whole", "gap", "resent_event"},
}

GENUINE = frozenset({"anthropic", "bedrock", "vertex"})
"""Servers that run Anthropic's own code: only their notes are all expected."""

ERRORS_ALONE = (
    "bedrock_converse/bedrock/error-first",
    "gemini/google/array-of-an-error",
    "openai_responses/proxy/error-first",
)
"""Errors before the start, which may be of any dialect."""


def id_of(recording: Recording) -> str:
    return f"{recording.dialect}/{recording.name}"


RECORDINGS = {
    id_of(recording): recording for recording in recordings(*DIALECTS, arrays=True, framings=True)
}

each_recording = pytest.mark.parametrize("recording", RECORDINGS.values(), ids=id_of)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_there_are_recordings(dialect: str) -> None:
    names = [name for name in RECORDINGS if name.startswith(f"{dialect}/")]
    assert len(names) >= DIALECTS[dialect]
    assert {*LENIENT, *NOTES} <= RECORDINGS.keys()


@each_recording
@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20], ids="{}-byte".format)
def test_decodes_as_recorded(recording: Recording, size: int) -> None:
    events, _ = decode(recording, size)
    assert comparable(events) == comparable(recording.expected)
    assert validate(events) == []


@each_recording
def test_outcome_agrees_with_the_last_event(recording: Recording) -> None:
    assert_outcome(recording, LENIENT.get(id_of(recording), ()))


@each_recording
def test_deviation_leaves_a_note(recording: Recording) -> None:
    name = id_of(recording)
    _, source = decode(recording)
    kinds = {note.kind for note in source.notes}
    expected = NOTES.get(name, set(LENIENT.get(name, ())))
    if recording.dialect != "anthropic" or recording.server in GENUINE:
        assert kinds == expected
    else:
        assert kinds >= NOTES.get(name, set())


@each_recording
def test_dialect_is_detected(recording: Recording) -> None:
    framing = recording.framing
    named, unnamed = (decoder(name, framing=framing) for name in (recording.dialect, None))
    events = unnamed.feed(recording.body) + unnamed.close()
    assert events == named.feed(recording.body) + named.close()
    assert unnamed.outcome == named.outcome
    assert unnamed.notes == named.notes
    if id_of(recording) not in ERRORS_ALONE:
        assert unnamed.dialect == recording.dialect


@each_recording
def test_companion_declares_the_recording_as_written(recording: Recording) -> None:
    assert recording.provenance == "written"
    assert recording.path is not None
    server, dialect = recording.path.parent, recording.path.parent.parent
    assert (recording.server, recording.dialect) == (server.name, dialect.name)
