"""Capabilities of Anthropic Messages."""

from __future__ import annotations

from streamnorm._core.blocks import OpaqueBlock, Reasoning
from streamnorm._core.losses import Capabilities

CAPABILITIES = Capabilities(
    dialect="anthropic",
    identity=True,
    # One message per request; the API has no `n`.
    choices=False,
    boundaries=True,
    # Claude Code rejects deltas of a block that a later one has followed, and the SDKs emit them
    # with the wrong block.
    overlapping=(),
    # The API refuses a text of white space when the client sends it back.
    blank_text=False,
    # A refusal is a stop reason of a message with or without text.
    refusal=False,
    reasoning=True,
    # A thinking block is one text.
    reasoning_parts=False,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    signed=(Reasoning,),
    # The input of every tool is a JSON object.
    custom_tools=False,
    # Tools have one flat list of names.
    namespaces=False,
    # No field of a block marks it as cut.
    unfinished_calls=False,
    # The API refuses any input but an object when the history comes back.
    null_arguments=False,
    # Eager input streaming makes any text legal in `partial_json`.
    broken_arguments=True,
    server_tools=("server_tool_use", "mcp_tool_use", "_tool_result"),
    media=(OpaqueBlock,),
    file_urls=True,
    # Others need a document index or an encrypted index that only Anthropic has.
    citations=frozenset(
        {"char_location", "page_location", "content_block_location"}
        | {"web_search_result_location", "search_result_location"}
    ),
    # `web_search_result_location` requires the API's encrypted index.
    url_citation=None,
    cited_text=True,
    not_round_tripped=frozenset(),
    stop_reasons=frozenset(
        {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause"}
    ),
    native_stop_reasons=frozenset(),
    # `stop_sequence` may be null beside the reason.
    unnamed_stop_sequence=True,
    service_tiers={
        "auto": "standard",
        # OpenAI's `flex` and `scale` have no counterpart here.
        "batch": "batch",
        "default": "standard",
        "priority": "priority",
        "standard": "standard",
    },
    # The SDKs raise at a message without counts.
    usage="always",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
