"""Capabilities of Responses."""

from __future__ import annotations

from streamnorm._core.blocks import OpaqueBlock, Reasoning
from streamnorm._core.losses import Capabilities

CAPABILITIES = Capabilities(
    dialect="openai_responses",
    identity=True,
    choices=False,
    boundaries=True,
    overlapping=(),
    blank_text=True,
    refusal=True,
    reasoning=True,
    reasoning_parts=True,
    redacted_reasoning=True,
    redacted_as_signature_of="openai",
    signed=(Reasoning,),
    custom_tools=True,
    namespaces=True,
    unfinished_calls=True,
    null_arguments=True,
    broken_arguments=True,
    server_tools=(
        *("_call", "_output", "compaction", "mcp_approval_request", "mcp_approval_response"),
        *("mcp_list_tools", "program"),
    ),
    media=(OpaqueBlock,),
    file_urls=True,
    citations=frozenset({"container_file_citation", "file_citation", "file_path", "url_citation"}),
    url_citation="url_citation",
    cited_text=True,
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal"}),
    native_stop_reasons=frozenset({"max_messages", "steered"}),
    unnamed_stop_sequence=False,
    service_tiers={
        **{tier: tier for tier in ("auto", "default", "fast", "flex", "priority", "scale")},
        "standard": "default",
        "ultrafast": "ultrafast",
    },
    # Some clients retry for ever if the terminal reports no usage.
    usage="always",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
