"""Capabilities of each dialect, by default and with the options of its encoder."""

from __future__ import annotations

import pytest

from streamnorm import Document, Image, OpaqueBlock, Reasoning, Text, ToolCall, UnknownDialect
from streamnorm._core.codec import DialectOptions
from streamnorm._registry import DIALECTS, capabilities

WRITTEN = {
    name: dialect.capabilities for name, dialect in DIALECTS.items() if dialect.encoder is not None
}


def test_every_encodable_dialect_has_capabilities() -> None:
    assert {name: None if row is None else row.dialect for name, row in WRITTEN.items()} == {
        name: name for name in WRITTEN
    }


def test_anthropic_capabilities_follow_its_reference() -> None:
    row = capabilities("anthropic")
    assert row.signed == (Reasoning,)
    assert row.stop_reasons == {
        *("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"),
    }
    for name in ("choices", "refusal", "reasoning_parts", "blank_text", "custom_tools"):
        assert getattr(row, name) is False
    for name in ("redacted_reasoning", "broken_arguments", "unnamed_stop_sequence"):
        assert getattr(row, name) is True
    for name in ("cache_write", "excess_reasoning", "boundaries", "reasoning"):
        assert getattr(row, name) is True
    assert (row.url_citation, row.null_arguments) == (None, False)
    # Each location has a `cited_text`.
    assert row.cited_texts == row.citations


def test_chat_capabilities_follow_its_reference() -> None:
    row = capabilities("openai_chat")
    assert row.signed == (ToolCall,)
    assert row.overlapping == (ToolCall,)
    assert row.stop_reasons == {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}
    for name in ("choices", "refusal", "blank_text", "custom_tools", "null_arguments"):
        assert getattr(row, name) is True
    for name in ("boundaries", "reasoning_parts", "redacted_reasoning", "unnamed_stop_sequence"):
        assert getattr(row, name) is False
    for name in ("reasoning", "broken_arguments", "cache_write", "excess_reasoning"):
        assert getattr(row, name) is True
    assert (row.url_citation, row.server_tools) == ("url_citation", ())
    assert row.cited_texts == {"url_citation"}  # `content`, as OpenRouter has it


def test_responses_capabilities_follow_its_reference() -> None:
    row = capabilities("openai_responses")
    assert row.signed == (Reasoning,)
    assert (row.overlapping, row.media) == ((), (OpaqueBlock,))
    assert row.stop_reasons == {"end_turn", "max_tokens", "tool_use", "refusal"}
    for name in ("boundaries", "blank_text", "refusal", "reasoning_parts", "redacted_reasoning"):
        assert getattr(row, name) is True
    for name in ("custom_tools", "null_arguments", "broken_arguments", "cache_write"):
        assert getattr(row, name) is True
    for name in ("reasoning", "excess_reasoning"):
        assert getattr(row, name) is True
    assert (row.choices, row.unnamed_stop_sequence) == (False, False)
    assert row.cited_texts == row.citations
    assert (row.url_citation, row.usage, row.not_round_tripped) == (
        "url_citation",
        "always",
        frozenset(),
    )
    for kind in ("web_search_call", "shell_call_output", "mcp_list_tools", "compaction"):
        assert kind.endswith(row.server_tools)
    for kind in ("server_tool_use", "web_search_tool_result", "executableCode", "toolCall"):
        assert not kind.endswith(row.server_tools)


def test_gemini_capabilities_follow_its_reference() -> None:
    row = capabilities("gemini")
    assert row.signed == (Text, Reasoning, ToolCall, Image)
    assert row.media == (Image, Document, OpaqueBlock)
    assert row.stop_reasons == {
        *("end_turn", "max_tokens", "tool_use", "refusal", "pause", "other"),
    }
    for name in ("choices", "boundaries", "refusal", "reasoning_parts"):
        assert getattr(row, name) is False
    for name in ("custom_tools", "null_arguments", "broken_arguments", "cache_write"):
        assert getattr(row, name) is False
    for name in ("excess_reasoning", "unnamed_stop_sequence"):
        assert getattr(row, name) is False
    assert (row.url_citation, row.usage, row.blank_text) == ("web", "known", True)
    assert row.cited_texts == {"retrievedContext"}
    assert row.citation_fields is False  # the Interactions API has other names for them
    assert (row.reasoning, row.redacted_reasoning) == (True, True)


@pytest.mark.parametrize("dialect", WRITTEN)
def test_encoder_options_change_the_capabilities(dialect: str) -> None:
    row = WRITTEN[dialect]
    assert row is not None
    assert capabilities(dialect) == capabilities(dialect, reasoning="reasoning") == row
    without = capabilities(dialect, reasoning=None)
    assert (without.reasoning, without.redacted_reasoning) == (False, False)
    assert Reasoning in capabilities(dialect, reasoning="reasoning_details").signed
    redacted = capabilities(dialect, reasoning="reasoning_details").redacted_reasoning
    assert redacted is True
    uncounted = capabilities(dialect, include_usage=False).usage
    assert uncounted == {"openai_chat": "never"}.get(dialect, row.usage)


def test_unknown_dialect_has_no_capabilities() -> None:
    with pytest.raises(UnknownDialect, match=r"^no dialect 'klingon', expected one of"):
        capabilities("klingon")


def test_options_of_a_dialect_change_no_capability_by_default() -> None:
    target = capabilities("openai_chat")
    assert DialectOptions().limit(target) is target
