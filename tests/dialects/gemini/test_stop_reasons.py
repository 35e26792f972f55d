"""Finish reasons as stop reasons and errors, and back."""

from __future__ import annotations

import pytest

from streamnorm import MessageStop, StopReason, StreamError
from streamnorm.dialects.gemini.outcome import (
    failed_finish,
    finish_reason_of,
    stop_reason_from_wire,
    stop_reason_to_wire,
)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "end_turn"),
        ("1", "end_turn"),
        ("MAX_TOKENS", "max_tokens"),
        ("2", "max_tokens"),
        ("CONTINUATION", "pause"),
        ("SAFETY", "refusal"),
        ("RECITATION", "refusal"),
        ("BLOCKLIST", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"),
        ("SPII", "refusal"),
        ("LANGUAGE", "refusal"),
        ("IMAGE_SAFETY", "refusal"),
        ("MODEL_ARMOR", "refusal"),
        ("OTHER", "other"),
        ("NO_IMAGE", "other"),
        ("SOMETHING_NEW", "other"),
        ("9", "other"),
    ],
)
def test_finish_reason_has_its_stop_reason(word: str, reason: str) -> None:
    assert stop_reason_from_wire(word, awaits_client=False) == reason


@pytest.mark.parametrize(
    "word",
    [
        *("FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"),
        *(0, "0", None, "", [], {}, True),
    ],
)
def test_unspecified_reason_ends_nothing(word: object) -> None:
    assert finish_reason_of(word) == ""


@pytest.mark.parametrize(("word", "name"), [("STOP", "STOP"), (1, "1"), ("NEW", "NEW")])
def test_reason_may_be_a_number(word: object, name: str) -> None:
    assert finish_reason_of(word) == name


@pytest.mark.parametrize("word", ["STOP", "1", "SOMETHING_NEW"])
def test_client_tool_call_makes_a_stop_tool_use(word: str) -> None:
    assert stop_reason_from_wire(word, awaits_client=True) == "tool_use"


@pytest.mark.parametrize("word", ["MAX_TOKENS", "SAFETY", "OTHER", "9", "CONTINUATION"])
def test_client_tool_call_changes_no_other_reason(word: str) -> None:
    assert stop_reason_from_wire(word, awaits_client=True) == stop_reason_from_wire(
        word, awaits_client=False
    )


@pytest.mark.parametrize(
    "word",
    [
        *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
        *("MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"),
    ],
)
def test_failed_finish_reason_is_an_error(word: str) -> None:
    assert failed_finish(word, "") == StreamError(
        "upstream", f"the provider ended with '{word}'", word
    )
    assert failed_finish(word, "why") == StreamError("upstream", "why", word)


def test_other_finish_reason_is_no_error() -> None:
    assert failed_finish("STOP", "why") is None


@pytest.mark.parametrize(
    ("reason", "raw", "word"),
    [
        ("refusal", "RECITATION", "RECITATION"),
        ("refusal", "content_filter", "SAFETY"),
        ("refusal", "STOP", "SAFETY"),
        ("other", "NO_IMAGE", "NO_IMAGE"),
        ("other", "SAFETY", "OTHER"),
        ("end_turn", "OTHER", "STOP"),
        ("max_tokens", None, "MAX_TOKENS"),
    ],
)
def test_finish_reason_that_was_read_is_written_again(
    reason: StopReason, raw: str | None, word: str
) -> None:
    assert stop_reason_to_wire(MessageStop(reason, raw)) == word
