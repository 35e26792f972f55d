"""Stop reasons, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic import payloads
from support.anthropic.frames import STOP, block, call, decode, end, start, stop, text
from support.streams.content import transcode_same

from streamnorm import (
    BlockStart,
    BlockStop,
    MessageStop,
    Refusal,
    RefusalDelta,
    StopReason,
    Usage,
    UsageUpdate,
)
from streamnorm.dialects.anthropic.outcome import stop_reason_from_wire, stop_reason_to_wire

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


@pytest.mark.parametrize(
    ("frames", "word", "reason"),
    [
        ([call(0, "{}")], "end_turn", "tool_use"),
        ([call(0, "{}")], None, "tool_use"),
        ([call(0, "")], None, "tool_use"),
        ([call(0, '{"a')], None, "other"),
        ([call(0, '{"a')], "tool_use", "tool_use"),
        ([call(0, '{"a'), call(1, "{}")], None, "other"),
        ([call(0, '{"a')], "max_tokens", "max_tokens"),
        ([text(0, "a")], "tool_use", "end_turn"),
        ([block(0, "server_tool_use", id="s", name="f"), stop(0)], "tool_use", "end_turn"),
    ],
)
def test_client_tool_calls_decide_the_stop_reason(
    frames: list[bytes], word: str | None, reason: str
) -> None:
    stopped = decode(start(), *frames, end(word), STOP).events[-1]
    assert stopped == MessageStop(reason, word)  # type: ignore[arg-type]  # one of the reasons


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("tool_use", "tool_use"),
        ("pause", "pause_turn"),
        ("other", "end_turn"),
    ],
)
def test_unified_stop_reason_is_written_as_anthropic_s(reason: Any, word: str) -> None:
    frames = payloads.encode(MessageStop(reason))
    assert frames[0][1]["delta"]["stop_reason"] == word
    assert frames[1] == ("message_stop", {})


def test_stop_sequence_is_written() -> None:
    frames = payloads.encode(MessageStop("stop_sequence", "stop", "END"))
    assert frames[0][1]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_refusal_is_text_with_its_own_stop_reason() -> None:
    frames = payloads.encode(
        BlockStart(0, Refusal()),
        RefusalDelta(0, "No."),
        BlockStop(0),
        UsageUpdate(Usage(1, 1)),
        MessageStop("end_turn", "stop"),
    )
    assert frames[1] == payloads.delta(0, "text_delta", text="No.")
    assert frames[3][1]["delta"] == {
        "stop_reason": "refusal",
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None},
    }


def test_refusal_of_the_same_dialect_gets_no_details_that_it_did_not_say() -> None:
    frames = [start(), text(0, "No."), end("refusal"), STOP]
    written, _ = transcode_same(frames, "anthropic", model="m")
    assert b'"delta":{"stop_reason":"refusal","stop_sequence":null}' in written


@pytest.mark.parametrize(
    ("raw", "reason", "word"),
    [
        ("compaction", "pause", "compaction"),
        ("model_context_window_exceeded", "max_tokens", "model_context_window_exceeded"),
        ("length", "max_tokens", "max_tokens"),
    ],
)
def test_stop_reason_of_anthropic_is_written_back(raw: str, reason: Any, word: str) -> None:
    assert payloads.encode(MessageStop(reason, raw))[0][1]["delta"]["stop_reason"] == word
