"""Traits of the UI message stream: recognition of chunks and requests, capabilities."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

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
from streamnorm._core.codec import DONE, DialectOptions
from streamnorm._core.json import FAST_ERRORS, is_array, is_object
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.ui_message_stream.content import KINDS, URL
from streamnorm.dialects.ui_message_stream.wire import DIALECT
from streamnorm.sse import Frame

CHUNK_TYPES = frozenset(
    {"start", "start-step", "finish-step", "reset-step", "finish", "abort", "error"}
    | {"text-start", "text-delta", "text-end"}
    | {"reasoning-start", "reasoning-delta", "reasoning-end"}
    | {"tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error"}
    | {"tool-output-available", "tool-output-error", "tool-output-denied"}
    | {"tool-approval-request", "tool-approval-response"}
    | {"source-url", "source-document", "file", "reasoning-file", "custom"}
    | {"message-metadata", "steering-message"}
)
# Words that are types of events in other dialects, too, or that say nothing alone.
_SHARED = frozenset({"start", "finish", "abort", "error", "file", "custom"})
_OWN = CHUNK_TYPES - _SHARED


class _Head(Struct):
    type: str
    errorText: str | None = None  # noqa: N815 - the protocol's
    messageId: str | None = None  # noqa: N815 - the protocol's
    messageMetadata: Any = None  # noqa: N815 - the protocol's
    finishReason: str | None = None  # noqa: N815 - the protocol's


_HEAD: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is one of this dialect's chunks."""
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    kind = head.type
    if kind in _OWN or kind.startswith("data-"):
        return True
    if kind == "error":
        return head.errorText is not None
    # The next chunk decides about those that say nothing else.
    said = (head.messageId, head.messageMetadata, head.finishReason)
    return kind in ("start", "finish") and any(each is not None for each in said)


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `[DONE]` or `finish`."""
    if frame.data.startswith(DONE):
        return True
    try:
        return _HEAD.decode(frame.data).type == "finish"
    except FAST_ERRORS:
        return False


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a page's request: its messages have parts."""
    messages = body.get("messages")
    first = messages[0] if is_array(messages) and messages else None
    return is_object(first) and "parts" in first and "role" in first


CLIENTS = ("ai@5", "ai@6", "ai@7")
"""Clients by their major version; what is written by default is accepted by all."""


class PageOptions(DialectOptions, frozen=True, kw_only=True):
    """Encoder options of the UI message stream.

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
    signed=(Reasoning, Text, ToolCall, Image),
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
    cited_texts=KINDS,
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
