"""Capabilities of requests to Gemini's `generateContent`."""

from __future__ import annotations

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm.dialects.gemini.body.content import ISSUER
from streamnorm.dialects.gemini.body.request import OPTIONS
from streamnorm.dialects.gemini.wire import DIALECT

CAPABILITIES = BodyCapabilities(
    dialect=DIALECT,
    messages_field="contents",
    fields=OPTIONS.names | {"service_tier", "stream"},
    system="blocks",
    inline_system="text",
    prefill=False,
    # The API refuses image/gif (microsoft/vscode#286628).
    images=frozenset({"image/heic", "image/heif", "image/jpeg", "image/png", "image/webp"}),
    image_details=frozenset({"low", "high", "original"}),
    audio=True,
    video=True,
    assistant_media=True,
    file_issuer=ISSUER,
    result_media=frozenset({"image", "document", "audio", "video", "opaque"}),
    error_results=True,
    calls_after_user=True,
    # The API's own error says 64 characters, its SDK 128.
    name_pattern=r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}",
    max_tools=512,
    server_tools={
        "web_search": frozenset(),
        "web_fetch": frozenset(),
        "code_execution": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "headers", "require_approval"}),
    server_history=True,
    restricted_choice=True,
    chooses_server_tools=False,
    enforces_outputs=True,
    min_answer_tokens=1,
    number_bounds={"choices": (1, 8), "top_p": (0.0, 1.0)},
    max_stops=5,
    thinking="level",
    efforts=("minimal", "low", "medium", "high", "xhigh"),
    reasoning_issuer=ISSUER,
    signed=frozenset({"text", "tool_call"}),
    signature_placeholder="skip_thought_signature_validator",
    service_tiers={"default": "standard", "flex": "flex", "priority": "priority"},
)
