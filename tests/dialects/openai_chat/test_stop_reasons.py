"""Finish reasons and stop reasons, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, decode, frame
from support.openai_chat.payloads import encode, payload

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    MessageStop,
    Refusal,
    RefusalDelta,
    Truncated,
    Usage,
)

TEXT = content("hi")
CALL = calls(call(0, "x", "f", '{"a":1}'))
HALF = calls(call(0, "x", "f", '{"a":'))
REFUSAL = chunk({"refusal": "no"})


def stop(*frames: bytes) -> MessageStop:
    last = decode(*frames).events[-1]
    assert isinstance(last, MessageStop)
    return last


def finish(**fields: object) -> bytes:
    return frame({"id": "1", "choices": [{"index": 0, "delta": {}, **fields}]})


WORDS = [
    ("stop", "end_turn", "tool_use"),
    ("eos", "end_turn", "tool_use"),
    ("end_turn", "end_turn", "tool_use"),
    ("tool_calls", "end_turn", "tool_use"),
    ("function_call", "end_turn", "tool_use"),
    ("tool_use", "end_turn", "tool_use"),
    ("length", "max_tokens", "max_tokens"),
    ("max_tokens", "max_tokens", "max_tokens"),
    ("MAX_TOKENS", "max_tokens", "max_tokens"),
    ("model_length", "max_tokens", "max_tokens"),
    ("model_context_window_exceeded", "max_tokens", "max_tokens"),
    ("content_filter", "refusal", "refusal"),
    ("sensitive", "refusal", "refusal"),
    ("SAFETY", "refusal", "refusal"),
    ("something_new", "other", "tool_use"),
]


@pytest.mark.parametrize(("word", "of_text", "of_a_call"), WORDS)
def test_finish_reason_and_blocks_decide_the_stop_reason(
    word: str, of_text: str, of_a_call: str
) -> None:
    assert stop(TEXT, finish(finish_reason=word), DONE) == MessageStop(of_text, word)
    assert stop(CALL, finish(finish_reason=word), DONE) == MessageStop(of_a_call, word)


def test_empty_finish_reason_is_ignored() -> None:
    frames = (content("a", ""), content("b", ""), chunk({}, "length"))
    assert stop(*frames, DONE) == MessageStop("max_tokens", "length")
    outcome = decode(content("a", "")).outcome
    assert isinstance(outcome, Truncated)


def test_finish_reason_may_be_absent_until_the_end() -> None:
    absent = frame({"id": "1", "choices": [{"index": 0, "delta": {"content": "a"}}]})
    assert stop(absent, absent, chunk({}, "stop"), DONE) == MessageStop("end_turn", "stop")


def test_last_of_several_finish_reasons_counts() -> None:
    frames = (
        content("a", "stop"),
        content("b"),
        CALL,
        chunk({}, "tool_calls"),
        chunk({}, "length"),
    )
    decoded = decode(*frames, DONE)
    assert decoded.events[-1] == MessageStop("max_tokens", "length")
    assert sum(isinstance(event, MessageStop) for event in decoded.events) == 1


def test_content_after_a_finish_reason_is_read() -> None:
    events = decode(content("a", "stop"), content("b"), DONE).events
    assert [event.text for event in events if hasattr(event, "text")] == ["a", "b"]


def test_missing_finish_reason_is_forgiven_after_done() -> None:
    assert stop(TEXT, DONE) == MessageStop("end_turn")
    assert decode(TEXT, DONE).outcome == Completed("end_turn", Usage(), ("no_finish",))
    assert stop(CALL, DONE) == MessageStop("tool_use")


def test_missing_finish_reason_with_incomplete_arguments_is_other() -> None:
    assert stop(HALF, DONE) == MessageStop("other")
    assert stop(calls(call(0, "x", "f", "{}")), DONE) == MessageStop("tool_use")
    assert stop(calls(call(0, "x", "f")), DONE) == MessageStop("other")


def test_stream_without_finish_reason_and_done_is_cut() -> None:
    assert isinstance(decode(TEXT).outcome, Truncated)
    assert isinstance(decode(CALL).outcome, Truncated)


def test_length_with_a_call_is_max_tokens() -> None:
    assert stop(HALF, chunk({}, "length"), DONE) == MessageStop("max_tokens", "length")


@pytest.mark.parametrize("word", ["stop", "length", "tool_calls", None])
def test_refusal_text_is_refusal_under_any_finish_reason(word: str | None) -> None:
    ends = [chunk({}, word), DONE]
    assert stop(REFUSAL, *ends) == MessageStop("refusal", word)


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_stop_sequence_is_read(field: str) -> None:
    last = finish(finish_reason="stop", **{field: "END"})
    assert stop(TEXT, last, DONE) == MessageStop("stop_sequence", "stop", "END")
    assert stop(CALL, last, DONE) == MessageStop("tool_use", "stop", "END")


@pytest.mark.parametrize("value", [128009, None])
def test_stop_token_is_no_stop_sequence(value: int | None) -> None:
    last = finish(finish_reason="stop", stop_reason=value)
    extra = {"stop_reason": value} if value else None
    assert stop(TEXT, last, DONE) == MessageStop("end_turn", "stop", extra=extra)


@pytest.mark.parametrize("native", ["length", "MAX_TOKENS", "max_output_tokens"])
def test_native_length_is_max_tokens(native: str) -> None:
    last = finish(finish_reason="tool_calls", native_finish_reason=native)
    assert stop(HALF, last, DONE) == MessageStop(
        "max_tokens", "tool_calls", extra={"native_finish_reason": native}
    )


def test_other_native_finish_reason_goes_to_extra() -> None:
    last = finish(finish_reason="stop", native_finish_reason="completed", odd=None)
    extra = {"native_finish_reason": "completed"}
    assert stop(TEXT, last, DONE) == MessageStop("end_turn", "stop", extra=extra)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause", "stop"),
        ("other", "stop"),
    ],
)
def test_stop_reason_is_written_as_finish_reason(reason: Any, word: str) -> None:
    assert encode(MessageStop(reason, "its own word")) == [payload({}, word), "[DONE]"]


def test_stop_sequence_is_written_in_the_field_of_vllm() -> None:
    (last, _) = encode(MessageStop("stop_sequence", "stop_sequence", "END"))
    assert last["choices"] == [
        {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}
    ]
    assert encode(MessageStop("stop_sequence")) == [payload({}, "stop"), "[DONE]"]


def test_refusal_with_refusal_text_is_written_as_stop() -> None:
    events = (BlockStart(0, Refusal()), RefusalDelta(0, "no"), BlockStop(0))
    assert encode(*events, MessageStop("refusal"))[-2] == payload({}, "stop")


def free(index: int, *, choice: int = 0) -> bytes:
    custom = {"name": "f", "input": "*** Be"}
    call = {"index": index, "id": f"x{index}", "type": "custom", "custom": custom}
    return calls(call, choice=choice)


@pytest.mark.parametrize(
    ("frames", "reason", "unfinished"),
    [
        pytest.param([free(0)], "length", [0], id="length"),
        pytest.param([free(0)], "content_filter", [0], id="filter"),
        pytest.param([free(0)], "tool_calls", [], id="whole"),
        pytest.param([free(0)], None, [], id="no reason"),
        pytest.param([free(0), free(1)], "length", [1], id="last of two"),
        pytest.param([free(0), TEXT], "length", [], id="text after it"),
        pytest.param(
            [free(0), calls(call(1, "y", "g", '{"a":'))], "length", [], id="call after it"
        ),
        pytest.param([TEXT, free(0)], "length", [1], id="text before it"),
        pytest.param([HALF], "length", [], id="arguments show it"),
    ],
)
def test_bound_of_tokens_cuts_the_free_text_of_the_last_call(
    frames: list[bytes], reason: str | None, unfinished: list[int]
) -> None:
    ended = [] if reason is None else [chunk({}, reason)]
    events = decode(*frames, *ended, DONE).events
    stops = [event for event in events if isinstance(event, BlockStop)]
    assert [stop.index for stop in stops if stop.is_unfinished] == unfinished


def test_each_choice_has_its_own_cut_call() -> None:
    ends = chunk({}, "tool_calls"), chunk({}, "length", 1)
    events = decode(free(0), free(0, choice=1), *ends, DONE).events
    stops = [event for event in events if isinstance(event, BlockStop)]
    assert stops == [BlockStop(0), BlockStop(1, is_unfinished=True)]
