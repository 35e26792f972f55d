"""Capabilities of the UI message stream."""

from __future__ import annotations

from streamnorm._core.blocks import (
    Document,
    Image,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.codec import DialectOptions
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.ui_message_stream.content import KINDS, URL
from streamnorm.dialects.ui_message_stream.wire import DIALECT

CLIENTS = ("ai@5", "ai@6", "ai@7")
"""Clients by their major version; what is written by default is accepted by all."""


class PageOptions(DialectOptions, frozen=True, kw_only=True):
    """Options of the encoder.

    Attributes:
        page_client: Client of the page; None if it may be any of them.
    """

    page_client: str | None = None

    def __post_init__(self) -> None:
        if self.page_client is not None and self.page_client not in CLIENTS:
            raise ValueError(
                f"page_client {self.page_client!r}, expected one of {', '.join(CLIENTS)}"
            )


CAPABILITIES = Capabilities(
    dialect=DIALECT,
    identity=True,
    # A stream is one message.
    choices=False,
    boundaries=True,
    # Parts are found by their ids, and may interleave.
    overlapping=(
        *(Text, Reasoning, RedactedReasoning, ToolCall, ServerToolCall),
        *(ServerToolResult, ToolResult, Image, Document),
    ),
    blank_text=True,
    refusal=False,
    reasoning=True,
    # Each summary is a part of its own; the AI SDK joins those of one item.
    reasoning_parts=True,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    # In `providerMetadata`, which is sent back with the history.
    signed=(Reasoning, Text, ToolCall),
    # `inputEncoding` is of late releases of v6 and v7; v5 refuses it.
    custom_tools=False,
    namespaces=False,
    unfinished_calls=True,
    null_arguments=True,
    # `tool-input-error` has them as a text.
    broken_arguments=True,
    # Any kind: a page shows the name of the tool.
    server_tools=("",),
    media=(Image, Document, ToolResult),
    file_urls=True,
    citations=KINDS,
    url_citation=URL,
    cited_text=True,
    not_round_tripped=frozenset(),
    stop_reasons=frozenset({"end_turn", "max_tokens", "tool_use", "refusal", "other"}),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=False,
    service_tiers={},
    # In the metadata of the message.
    usage="known",
    cache_write=True,
    reasoning_tokens=True,
    excess_reasoning=True,
)
