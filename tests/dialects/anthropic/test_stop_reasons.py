"""Stop reasons of Anthropic, in both directions."""

from __future__ import annotations

import pytest

from streamnorm import StopReason
from streamnorm.dialects.anthropic.stop_reasons import stop_reason_from_wire, stop_reason_to_wire

WORDS: dict[str, tuple[StopReason, StopReason]] = {
    "end_turn": ("end_turn", "tool_use"),
    "tool_use": ("end_turn", "tool_use"),
    "max_tokens": ("max_tokens", "max_tokens"),
    "model_context_window_exceeded": ("max_tokens", "max_tokens"),
    "stop_sequence": ("stop_sequence", "stop_sequence"),
    "refusal": ("refusal", "refusal"),
    "pause_turn": ("pause", "pause"),
    "compaction": ("pause", "pause"),
    "a_word_to_come": ("other", "other"),
}


@pytest.mark.parametrize(("word", "reasons"), WORDS.items(), ids=WORDS)
def test_stop_reason_is_read_with_the_calls(
    word: str, reasons: tuple[StopReason, StopReason]
) -> None:
    for unfinished in (False, True):
        assert (
            stop_reason_from_wire(word, has_client_call=False, has_unfinished_call=unfinished)
            == reasons[0]
        )
        assert (
            stop_reason_from_wire(word, has_client_call=True, has_unfinished_call=unfinished)
            == reasons[1]
        )


@pytest.mark.parametrize(
    ("called", "unfinished", "reason"),
    [
        (False, False, "end_turn"),
        (True, False, "tool_use"),
        (True, True, "other"),
        (False, True, "other"),
    ],
)
def test_calls_alone_decide_without_a_stop_reason(
    *, called: bool, unfinished: bool, reason: StopReason
) -> None:
    assert (
        stop_reason_from_wire(None, has_client_call=called, has_unfinished_call=unfinished)
        == reason
    )


@pytest.mark.parametrize(
    ("reason", "raw", "word"),
    [
        ("end_turn", "end_turn", "end_turn"),
        ("end_turn", "stop", "end_turn"),
        ("end_turn", None, "end_turn"),
        ("end_turn", "tool_use", "end_turn"),
        ("tool_use", "end_turn", "tool_use"),
        ("max_tokens", "length", "max_tokens"),
        ("max_tokens", "model_context_window_exceeded", "model_context_window_exceeded"),
        ("pause", None, "pause_turn"),
        ("pause", "pause_turn", "pause_turn"),
        ("pause", "compaction", "compaction"),
        ("refusal", "content_filter", "refusal"),
        ("stop_sequence", "stop", "stop_sequence"),
    ],
)
def test_raw_stop_reason_is_written_if_it_is_anthropic_s(
    reason: StopReason, raw: str | None, word: str
) -> None:
    assert stop_reason_to_wire(reason, raw) == word
