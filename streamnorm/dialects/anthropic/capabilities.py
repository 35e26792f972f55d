"""Capabilities of Anthropic Messages."""

from __future__ import annotations

from streamnorm._core.blocks import OpaqueBlock, Reasoning
from streamnorm._core.losses import Capabilities

CAPABILITIES = Capabilities(
    dialect="anthropic",
    choices=False,
    boundaries=True,
    overlapping=(),
    # The API refuses a text of white space when the client sends it back.
    blank_text=False,
    refusal=False,
    reasoning=True,
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    signed=(Reasoning,),
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    null_arguments=False,
    broken_arguments=True,
    server_tools=("server_tool_use", "mcp_tool_use", "_tool_result"),
    media=(OpaqueBlock,),
    # Others need a document index or an encrypted index that only Anthropic has.
    citations=frozenset(
        {"char_location", "page_location", "content_block_location"}
        | {"web_search_result_location", "search_result_location"}
    ),
    url_citation=None,
    cited_text=True,
    not_round_tripped=frozenset(),
    stop_reasons=frozenset(
        {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"}
    ),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=True,
    service_tiers={
        "auto": "standard",
        "batch": "batch",
        "default": "standard",
        "priority": "priority",
        "standard": "standard",
    },
    usage="always",
    cache_write=True,
    excess_reasoning=True,
)
