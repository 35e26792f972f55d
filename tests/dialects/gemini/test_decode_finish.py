"""The end of a Gemini message: what revokes it, what does not, and what is another message."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.frames import candidate, chunk, decode, frame, parts, text, thought
from support.streams.delta_runs import read_chunks

from streamnorm import (
    BlockStop,
    Completed,
    Failed,
    MessageStart,
    MessageStop,
    StreamError,
    Truncated,
)
from streamnorm.codec import decoder

STOP = parts(finishReason="STOP")
CALL = {"functionCall": {"id": "c1", "name": "tide", "args": {}}}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
STARTED = {"functionCall": {"id": "c2", "name": "f", "willContinue": True}}

each_content = pytest.mark.parametrize(
    "content",
    [
        text("b"),
        thought("b"),
        text("b", thoughtSignature="QQ=="),
        parts(CALL),
        parts(STARTED),
        parts(CODE),
        parts(RESULT),
        parts({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        parts({"sketch": {}}),
    ],
)


@each_content
def test_content_after_a_finish_revokes_it(content: bytes) -> None:
    for finish in (STOP, frame({"promptFeedback": {"blockReason": "SAFETY"}})):
        assert isinstance(decode(text("a"), finish, content).outcome, Truncated)
        stop = decode(text("a"), finish, content, parts(finishReason="MAX_TOKENS")).events[-1]
        assert stop.reason == "max_tokens" if isinstance(stop, MessageStop) else False


@pytest.mark.parametrize(
    "rest",
    [
        chunk(usageMetadata={"promptTokenCount": 9}),
        text(""),
        text("", thoughtSignature="QQ=="),
        parts({"thoughtSignature": "QQ=="}),
        parts(CALL),
        parts({"functionCall": {}}),
        chunk(candidate(safetyRatings=[{"category": "X"}])),
        chunk(candidate(groundingMetadata={"webSearchQueries": ["a"]})),
    ],
)
def test_what_is_no_new_content_revokes_no_finish(rest: bytes) -> None:
    decoded = decode(text("a"), parts(CALL, finishReason="STOP"), rest)
    assert isinstance(decoded.outcome, Completed)
    assert decoded.outcome.reason == "tool_use"


def test_fragment_after_a_finish_revokes_it() -> None:
    entry = {"jsonPath": "$.a", "stringValue": "x"}
    more = {"functionCall": {"partialArgs": [entry], "willContinue": True}}
    assert isinstance(decode(parts(STARTED, finishReason="STOP"), parts(more)).outcome, Truncated)
    end = parts({"functionCall": {}})
    ended = decode(parts(STARTED, finishReason="STOP"), parts(more), end, STOP)
    assert isinstance(ended.outcome, Completed)
    assert ended.notes == ()


def test_finish_of_each_candidate_is_revoked_alone() -> None:
    both = chunk(
        candidate({"text": "a"}, finishReason="STOP"),
        candidate({"text": "b"}, index=1, finishReason="STOP"),
    )
    late = parts({"text": "c"}, index=1)
    assert isinstance(decode(both, late).outcome, Truncated)
    assert isinstance(decode(both, late, parts(index=1, finishReason="STOP")).outcome, Completed)


def test_text_behind_a_finish_is_no_run() -> None:
    """The fast path reads no text that revokes a finish."""
    late = [chunk(candidate({"text": "b"})), chunk(candidate({"text": "c"}))]
    reading = read_chunks("gemini", text("a"), chunk(candidate({"text": "a"})), STOP, *late)
    assert reading.on_run == [0, 1, 0, 0, 1]


@pytest.mark.parametrize("finish", ["STOP", "MAX_TOKENS", 1])
def test_finish_beside_code_is_none(finish: object) -> None:
    for code in (parts(CODE, finishReason=finish), parts(CODE, {"text": ""}, finishReason=finish)):
        assert isinstance(decode(code).outcome, Truncated)
        assert isinstance(decode(code, parts(RESULT), text("a")).outcome, Truncated)
        assert isinstance(decode(code, parts(RESULT), text("a", "STOP")).outcome, Completed)
    assert isinstance(decode(parts(CODE), STOP).outcome, Completed)
    assert isinstance(decode(parts(CODE, RESULT, finishReason=finish)).outcome, Completed)


def test_failure_beside_code_is_one() -> None:
    failed = decode(parts(CODE, finishReason="MALFORMED_FUNCTION_CALL"))
    assert isinstance(failed.outcome, Failed)


def test_block_reason_beside_text_is_a_refusal() -> None:
    blocked = chunk(candidate({"text": "a"}), promptFeedback={"blockReason": "SAFETY"})
    decoded = decode(blocked)
    assert isinstance(decoded.outcome, Completed)
    assert decoded.outcome.reason == "refusal"


def test_block_reason_replaces_no_finish() -> None:
    blocked = frame({"promptFeedback": {"blockReason": "SAFETY"}})
    for chunks in ((text("a", "STOP"), blocked), (text("a"), blocked, STOP)):
        stop = decode(*chunks).events[-1]
        assert isinstance(stop, MessageStop)
        assert (stop.reason, stop.raw_reason) == ("end_turn", "STOP")


# Reasons that end nothing


def test_last_finish_reason_counts() -> None:
    events = decode(text("Hel", "STOP"), text("lo", "MAX_TOKENS")).events
    assert events[-1] == MessageStop("max_tokens", "MAX_TOKENS")
    assert [e for e in events if isinstance(e, BlockStop)] == [BlockStop(0)]


def test_unspecified_finish_reason_replaces_no_other() -> None:
    vague = parts(finishReason="FINISH_REASON_UNSPECIFIED")
    assert decode(text("a", "STOP"), vague).events[-1] == MessageStop("end_turn", "STOP")


@pytest.mark.parametrize("word", ["BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", 0])
def test_unspecified_block_reason_ends_nothing(word: object) -> None:
    vague = frame({"promptFeedback": {"blockReason": word}})
    assert isinstance(decode(vague).outcome, Truncated)
    assert decode(vague, text("a", "STOP")).events[-1] == MessageStop("end_turn", "STOP")


@pytest.mark.parametrize("finish", ["", None, [], {}, 0, "FINISH_REASON_UNSPECIFIED"])
def test_invalid_finish_reason_ends_nothing(finish: object) -> None:
    outcome = decode(text("a"), parts(finishReason=finish)).outcome
    assert isinstance(outcome, Truncated)


# Another message


def named(id: str | None, part: str, **fields: Any) -> bytes:
    names = {} if id is None else {"responseId": id}
    return frame({"candidates": [candidate({"text": part}, **fields)], **names})


@pytest.mark.parametrize("first", ["r1", "", None])
def test_another_response_id_is_malformed(first: str | None) -> None:
    frames = [named(first, "a"), named("r1", "b"), named("r1", "b"), named("r2", "c")]
    reading = read_chunks("gemini", *frames, named("r2", "d", finishReason="STOP"))
    message = "chunk of another responseId, expected the first"
    assert reading.decoder.outcome == Failed(StreamError("malformed", message))


@pytest.mark.parametrize("later", ["", None])
def test_empty_response_id_is_none(later: str | None) -> None:
    frames = [named("r1", "a"), named("r1", "b"), named(later, "c"), named("r1", "d")]
    decoded = decode(*frames, named(later, "e", finishReason="STOP"))
    assert isinstance(decoded.outcome, Completed)
    assert decoded.events[0] == MessageStart("r1", "")


def test_message_with_a_finish_reason_lacks_only_its_terminal() -> None:
    reader = decoder("gemini")
    for data, lacks_only_terminal in [
        (text("a"), False),
        (STOP, True),
        (text("b"), False),
        (STOP, True),
    ]:
        reader.feed(data)
        assert reader.lacks_only_terminal is lacks_only_terminal
