"""Losses and notes: how they are counted, and the table."""

from __future__ import annotations

import pytest

from streamnorm import (
    Document,
    Image,
    Loss,
    LossyEncoding,
    OpaqueBlock,
    Reasoning,
    Text,
    ToolCall,
    UnknownDialect,
)
from streamnorm._core.losses import CAPABILITIES, Losses, capabilities


def test_losses_of_one_kind_and_place_are_counted_together() -> None:
    losses = Losses()
    for feature, where in [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "x")]:
        losses.add(feature, where, "dropped")
    assert losses.list() == (
        Loss("a", "x", 3, "dropped"),
        Loss("b", "x", 1, "dropped"),
        Loss("a", "y", 1, "dropped"),
    )


def test_each_loss_is_reported_as_it_happens() -> None:
    heard: list[Loss] = []
    losses = Losses(on_loss=heard.append)
    losses.add("a", "x")
    losses.add("a", "x")
    assert heard == [Loss("a", "x"), Loss("a", "x")]


def test_strict_losses_raise_at_the_first() -> None:
    losses = Losses(strict=True)
    with pytest.raises(LossyEncoding, match="signature in Text would be lost") as caught:
        losses.add("signature", "Text", "dropped")
    assert caught.value.losses == (Loss("signature", "Text", 1, "dropped"),)


def test_loss_of_a_failed_stream_is_counted_even_where_losses_are_not_allowed() -> None:
    losses = Losses(strict=True)
    assert losses.count("held", "failed stream") == Loss("held", "failed stream")
    assert losses.list() == (Loss("held", "failed stream"),)


def test_peer_that_names_things_without_end_is_not_remembered_without_end() -> None:
    losses = Losses()
    for number in range(1000):
        losses.add("opaque", f"{number}" + "x" * 1000)
    listed = losses.list()
    assert sum(loss.count for loss in listed) == 1000
    assert len(listed) <= 300
    assert max(len(loss.where) for loss in listed) <= 100


def test_table_is_keyed_by_its_dialects() -> None:
    assert [(name, row.dialect) for name, row in CAPABILITIES.items()] == [
        ("anthropic", "anthropic"),
        ("openai_chat", "openai_chat"),
        ("openai_responses", "openai_responses"),
        ("gemini", "gemini"),
    ]


def test_anthropic_carries_what_its_reference_has_a_place_for() -> None:
    row = CAPABILITIES["anthropic"]
    assert row.signed == (Reasoning,)
    assert row.stop_reasons == {
        *("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"),
    }
    for name in ("choices", "refusal", "reasoning_parts", "blank_text", "custom_tools"):
        assert getattr(row, name) is False
    assert (row.url_citation, row.null_arguments) == (None, False)


def test_chat_carries_what_its_reference_has_a_place_for() -> None:
    row = CAPABILITIES["openai_chat"]
    assert row.signed == (ToolCall,)
    assert row.overlapping == (ToolCall,)
    assert row.stop_reasons == {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}
    for name in ("choices", "refusal", "blank_text", "custom_tools", "null_arguments"):
        assert getattr(row, name) is True
    for name in ("boundaries", "reasoning_parts", "redacted_reasoning", "bare_stop_sequence"):
        assert getattr(row, name) is False
    assert (row.url_citation, row.server_tools) == ("url_citation", ())


def test_responses_carries_what_its_reference_has_a_place_for() -> None:
    row = CAPABILITIES["openai_responses"]
    assert row.signed == (Reasoning,)
    assert (row.overlapping, row.media) == ((), (OpaqueBlock,))
    assert row.stop_reasons == {"end_turn", "max_tokens", "tool_use", "refusal"}
    for name in ("boundaries", "blank_text", "refusal", "reasoning_parts", "redacted_reasoning"):
        assert getattr(row, name) is True
    for name in ("custom_tools", "null_arguments", "broken_arguments", "cited_text", "cache_write"):
        assert getattr(row, name) is True
    assert (row.choices, row.bare_stop_sequence) == (False, False)
    assert (row.url_citation, row.usage, row.unplaced) == ("url_citation", "always", frozenset())
    for kind in ("web_search_call", "shell_call_output", "mcp_list_tools", "compaction"):
        assert kind.endswith(row.server_tools)
    for kind in ("server_tool_use", "web_search_tool_result", "executableCode", "toolCall"):
        assert not kind.endswith(row.server_tools)


def test_gemini_carries_what_its_reference_has_a_place_for() -> None:
    row = CAPABILITIES["gemini"]
    assert row.signed == (Text, Reasoning, ToolCall)
    assert row.media == (Image, Document, OpaqueBlock)
    assert row.stop_reasons == {
        *("end_turn", "max_tokens", "tool_use", "refusal", "pause", "other"),
    }
    for name in ("choices", "boundaries", "refusal", "reasoning_parts"):
        assert getattr(row, name) is False
    for name in ("custom_tools", "null_arguments", "broken_arguments", "cited_text", "cache_write"):
        assert getattr(row, name) is False
    assert (row.url_citation, row.usage, row.blank_text) == ("web", "known", True)


@pytest.mark.parametrize("dialect", CAPABILITIES)
def test_options_change_what_has_a_place(dialect: str) -> None:
    row = CAPABILITIES[dialect]
    assert capabilities(dialect) == capabilities(dialect, reasoning="reasoning") == row
    without = capabilities(dialect, reasoning=None)
    assert (without.reasoning, without.redacted_reasoning) == (False, False)
    assert Reasoning in capabilities(dialect, reasoning="reasoning_details").signed
    redacted = capabilities(dialect, reasoning="reasoning_details").redacted_reasoning
    assert redacted is True
    uncounted = capabilities(dialect, include_usage=False).usage
    assert uncounted == {"openai_chat": "never"}.get(dialect, row.usage)


def test_dialect_without_a_table_is_unknown() -> None:
    with pytest.raises(UnknownDialect, match="expected one of anthropic, openai_chat"):
        capabilities("klingon")


@pytest.mark.parametrize("count", [256, 257, 300])
def test_kinds_beyond_the_bound_are_counted_elsewhere(count: int) -> None:
    losses = Losses()
    for number in range(count):
        losses.add("opaque", str(number))
    elsewhere = [loss for loss in losses.list() if loss.where == "elsewhere"]
    assert elsewhere == ([Loss("opaque", "elsewhere", count - 256)] if count > 256 else [])
