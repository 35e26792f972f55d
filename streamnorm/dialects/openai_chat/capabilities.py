"""Capabilities of Chat Completions."""

from __future__ import annotations

from streamnorm._core.blocks import ToolCall
from streamnorm._core.losses import Capabilities

CAPABILITIES = Capabilities(
    dialect="openai_chat",
    identity=True,
    choices=True,
    # Text and reasoning have one field each per choice, which all their deltas extend.
    boundaries=False,
    # Calls have indexes, and their fragments may interleave.
    overlapping=(ToolCall,),
    blank_text=True,
    refusal=True,
    reasoning=True,
    # No reasoning field numbers the parts of a summary.
    reasoning_parts=False,
    # `reasoning_details` alone holds it: `ChatOptions.limit` adds it where the caller chooses that
    # field.
    redacted_reasoning=False,
    redacted_as_signature_of=None,
    # In `extra_content`, where Gemini's compatible endpoint has it.
    signed=(ToolCall,),
    custom_tools=True,
    namespaces=False,
    # A finish reason is that of the choice: no field marks a single call as cut.
    unfinished_calls=False,
    # Groq sends them itself (groq/null-for-arguments-of-parallel-calls).
    null_arguments=True,
    broken_arguments=True,
    # As `tool_calls` they would be run by the client.
    server_tools=(),
    media=(),
    file_urls=True,
    # The only kind of annotation in the reference of messages.
    citations=frozenset({"url_citation"}),
    url_citation="url_citation",
    cited_text=True,
    # Parts of other fields: written alone they would reach another message or call.
    not_round_tripped=frozenset({"content_part", "extra_content", "reasoning_details"}),
    stop_reasons=frozenset({"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=False,
    service_tiers={
        **{tier: tier for tier in ("auto", "default", "fast", "flex", "priority", "scale")},
        "standard": "default",
    },
    usage="known",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
