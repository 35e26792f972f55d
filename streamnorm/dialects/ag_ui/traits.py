"""Traits of AG-UI: recognition of frames and requests, options, capabilities."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.blocks import Reasoning, Text, ToolCall, ToolResult
from streamnorm._core.codec import DialectOptions
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.losses import Capabilities
from streamnorm.dialects.ag_ui.wire import DIALECT, EVENT_TYPES, RUN_ERROR, RUN_FINISHED
from streamnorm.sse import Frame


class _TypeOnly(Struct):
    type: str | None = None


_TYPE: msgspec.json.Decoder[_TypeOnly] = msgspec.json.Decoder(_TypeOnly)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is one of AG-UI's events."""
    return _type_of(frame) in EVENT_TYPES


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `RUN_FINISHED` or `RUN_ERROR`."""
    return _type_of(frame) in (RUN_FINISHED, RUN_ERROR)


def _type_of(frame: Frame) -> str | None:
    try:
        return _TYPE.decode(frame.data).type
    except FAST_ERRORS:
        return None


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object is a `RunAgentInput`: it has a thread and a run id."""
    return {"threadId", "runId", "messages"} <= body.keys()


URL_CITATION = "url_citation"

CLIENTS = ("ag-ui@0", "ag-ui@1")
"""Clients by their major version; what is written by default is accepted by both."""


class PageOptions(DialectOptions, frozen=True, kw_only=True):
    """Encoder options of AG-UI.

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
    # The run's id and `metadata` of `RUN_STARTED`.
    identity=True,
    # One answer per run.
    choices=False,
    # Each block of text is a message.
    boundaries=True,
    # CopilotKit mixes up parallel calls that interleave (CopilotKit/CopilotKit#2684).
    overlapping=(),
    blank_text=True,
    # A refusal is text; `metadata` of `RUN_FINISHED` states the stop reason.
    refusal=False,
    reasoning=True,
    # Each part is a message of the span.
    reasoning_parts=True,
    redacted_reasoning=True,
    redacted_as_signature_of=None,
    # `REASONING_ENCRYPTED_VALUE` signs a message or a call.
    signed=(Text, Reasoning, ToolCall),
    # Arguments are a JSON object as text.
    custom_tools=False,
    namespaces=False,
    unfinished_calls=False,
    null_arguments=False,
    broken_arguments=True,
    # Any kind: a mark in `metadata` tells such calls from those of the client.
    server_tools=("",),
    # Assistant messages have string content only; results are messages of their own.
    media=(ToolResult,),
    file_urls=False,
    # `metadata` of the message.
    citations=frozenset({URL_CITATION}),
    url_citation=URL_CITATION,
    cited_texts=frozenset({URL_CITATION}),
    not_round_tripped=frozenset(),
    # `metadata` of `RUN_FINISHED`.
    stop_reasons=frozenset(
        {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause", "other"}
    ),
    native_stop_reasons=frozenset(),
    unnamed_stop_sequence=True,
    service_tiers={},
    usage="known",
    cache_write=True,
    reasoning_tokens=True,
    # Reasoning is a part of the output.
    excess_reasoning=False,
)
