"""Capabilities of Chat Completions."""

from __future__ import annotations

from streamnorm._core.blocks import ToolCall
from streamnorm._core.losses import Capabilities

CAPABILITIES = Capabilities(
    dialect="openai_chat",
    choices=True,
    boundaries=False,
    overlapping=(ToolCall,),
    blank_text=True,
    refusal=True,
    reasoning=True,
    reasoning_parts=False,
    redacted_reasoning=False,
    redacted_as_signature_of=None,
    signed=(ToolCall,),
    custom_tools=True,
    namespaces=False,
    unfinished_calls=False,
    null_arguments=True,
    broken_arguments=True,
    server_tools=(),
    media=(),
    citations=frozenset({"url_citation"}),
    url_citation="url_citation",
    cited_text=True,
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
    excess_reasoning=True,
)
