"""Capabilities of Anthropic's requests."""

from __future__ import annotations

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm.dialects.anthropic.body.request import REQUEST
from streamnorm.dialects.anthropic.capabilities import CAPABILITIES

_MARKED_BLOCKS = (
    "text image document tool_call tool_result server_tool_call server_tool_result opaque"
)
_TTLS = {"": "", "5m": "5m", "1h": "1h", "30m": "", "12h": "1h"}

REQUEST_CAPABILITIES = BodyCapabilities(
    dialect="anthropic",
    fields=REQUEST.names | {"betas"},
    roles=frozenset({"user", "assistant", "system"}),
    inline_system="after_user",
    images=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    text_documents=True,
    file_issuer="anthropic",
    citations=CAPABILITIES.citations,
    mixed_results=True,
    result_media=frozenset({"text", "image", "document", "opaque"}),
    error_results=True,
    # The API refuses ids with other characters than letters, digits, `_` and `-`; the room
    # escapes them when it writes and restores them when it reads (`escape_id`).
    id_pattern=None,
    unique_ids=True,
    name_pattern=r"[a-zA-Z0-9_-]{1,128}",
    deferred_tools=True,
    server_tools={
        "web_search": frozenset(
            {"allowed_domains", "blocked_domains", "max_uses", "user_location"}
        ),
        "web_fetch": frozenset({"allowed_domains", "blocked_domains", "max_uses"}),
        "code_execution": frozenset(),
        "tool_search": frozenset(),
    },
    mcp_servers=frozenset({"url", "authorization", "allowed_tools", "require_approval"}),
    server_history=True,
    enforces_outputs=True,
    # `output_config.format` has no type for JSON without a schema.
    output_kinds=frozenset({"text", "json_schema"}),
    max_tokens=32_000,
    max_temperature=1.0,
    thinking="adaptive",
    bounded_budgets=True,
    signed_budgets=True,
    efforts=("low", "medium", "high", "xhigh", "max"),
    reasoning_issuer="anthropic",
    marks=frozenset(["system", "tool", "assistant", *_MARKED_BLOCKS.split()]),
    mark_ttls=_TTLS,
    request_ttls=_TTLS,
    falling_ttls=True,
    service_tiers={"auto": "auto", "default": "standard_only"},
)
