"""The error of an overloaded server, and counts of tokens."""

from __future__ import annotations

from streamnorm.dialects.gemini_interactions.outcome import UsageReader, overloaded_frames


def test_overloaded_server_sends_one_error_event() -> None:
    assert overloaded_frames("busy", [], 0) == (
        b"event: error\r\n"
        b'data: {"error":{"code":"service_unavailable","message":"busy"},"event_type":"error"}'
        b"\r\n\r\n"
    )


def test_count_without_a_value_is_ignored() -> None:
    usage = UsageReader()
    assert not usage.merge({"total_input_tokens": None, "news": None})
    assert usage.usage.input_tokens is None
    assert usage.usage.extra is None
