"""Capabilities of Gemini's `generateContent`."""

from __future__ import annotations

from streamnorm._core.blocks import Document, Image, OpaqueBlock, Reasoning, Text, ToolCall
from streamnorm._core.losses import Capabilities

CAPABILITIES = Capabilities(
    dialect="gemini",
    choices=False,
    boundaries=False,
    overlapping=(),
    blank_text=True,
    refusal=False,
    reasoning=True,
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of="google",
    signed=(Text, Reasoning, ToolCall),
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    null_arguments=False,
    broken_arguments=False,
    server_tools=(
        *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
        "functionResponse",
    ),
    media=(Image, Document, OpaqueBlock),
    citations=frozenset({"citation", "image", "maps", "retrievedContext", "web"}),
    url_citation="web",
    cited_text=False,
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal", "pause", "other"}),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=False,
    service_tiers={},
    usage="known",
    cache_write=False,
    excess_reasoning=False,
)
